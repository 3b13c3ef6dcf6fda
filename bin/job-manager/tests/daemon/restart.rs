//! Invariant 1: a restart applies what is stored and posts nothing; what was there is there again.

use crate::engine::Engine;
use crate::world::{
    World, everything, int, names, ok, refused, soon, stats, submission, submit, submit_at, value,
};
use serde_json::{Value, json};

/// All that the manager shows of its jobs and queue.
async fn shown(client: &rpc::Client) -> Value {
    json!({
        "list": ok(client, "job-manager.list", json!({"max_entries": 0})).await,
        "info": ok(client, "job-manager.getinfo", json!({})).await,
        "queue": ok(client, "job-manager.queue-status", json!({})).await,
        "history": ok(client, "job-manager.history.get", json!({"slice": "[:]"})).await,
        "held": ok(client, "job-manager.resource-status", json!({})).await,
        "events": everything(client).await,
    })
}

#[tokio::test]
async fn invariant_1_a_restart_posts_nothing_and_the_state_is_equal() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2).await;
    let (done, _) = submit(&client).await;
    engine.run(done).await;
    let (running, _) = submit(&client).await;
    engine.wait_for("sched.alloc", running).await;
    engine.grant(running);
    engine.wait_for("job-exec.start", running).await;
    engine.say(running, "start", json!({}));
    for urgency in [5, 31, 0, 16, 16] {
        submit_at(&client, urgency).await;
    }
    let (canceled, _) = submit(&client).await;
    let cancel = json!({"id": canceled, "type": "cancel", "severity": 0});
    ok(&client, "job-manager.raise", cancel).await;
    let memo = json!({"id": running, "memo": {"note": "n"}, "volatile": true});
    ok(&client, "job-manager.memo", memo).await;
    let off = json!({"enable": false, "all": true, "reason": "for now"});
    ok(&client, "job-manager.queue-enable", off).await;
    drop(engine);
    // Gone, as it will be after the restart.
    let offline = |status: &Value| status["blocked"] == "scheduler";
    while !offline(&ok(&client, "job-manager.queue-status", json!({})).await) {}
    let before = shown(&client).await;
    let seq = int(&stats(&client).await, "seq");

    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(shown(&client).await, before);
    let stats = stats(&client).await;
    assert_eq!(int(&stats, "seq"), seq);
    assert_eq!(int(&stats["store"], "entries"), 0, "{stats}");
    let (errnum, text) = refused(&client, "job-ingest.submit", submission(16)).await;
    assert_eq!(
        (errnum, text.as_str()),
        (22, "job submission is disabled: for now")
    );

    // The running job is found again, goes on, and ends; ids and seqs go on where they stopped.
    let mut engine = Engine::new(&world, 2).await;
    assert_eq!(int(&engine.held[0], "id"), running);
    engine.wait_for("job-exec.start", running).await;
    assert_eq!(engine.starts[0]["reattach"], true);
    engine.say(running, "reattached", json!({}));
    engine.say(running, "finish", json!({"status": 0}));
    engine.say(running, "release", json!({"ranks": "all", "final": true}));
    engine.wait_for("sched.free", running).await;
    let on = json!({"enable": true, "all": true});
    ok(&client, "job-manager.queue-enable", on).await;
    let (id, newer) = submit(&client).await;
    assert!(id > canceled && newer > seq);
    let all = everything(&client).await;
    let life =
        "submit validate depend priority annotations alloc start memo finish release free clean";
    assert_eq!(names(&all, running).join(" "), life);
    let seqs: Vec<u64> = all.iter().map(|one| int(one, "seq")).collect();
    assert_eq!(seqs.iter().max(), Some(&newer));
}

#[tokio::test]
async fn invariant_1_what_an_inactive_job_is_known_as_outlives_a_restart() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let cancel = json!({"id": id, "type": "cancel", "severity": 0});
    ok(&client, "job-manager.raise", cancel).await;
    let urgency = json!({"id": id, "urgency": 3});
    let inactive = (22, "job is inactive".to_owned());
    assert_eq!(
        refused(&client, "job-manager.urgency", urgency.clone()).await,
        inactive
    );
    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(
        refused(&client, "job-manager.urgency", urgency).await,
        inactive
    );
    let mine = ok(&client, "job-manager.history.get", json!({"slice": "[:]"})).await;
    assert_eq!(mine, json!({"jobs": [id]}));
    assert_eq!(int(&stats(&client).await, "inactive_jobs"), 1);
}

#[tokio::test]
async fn a_result_that_was_not_waited_for_is_told_after_a_restart_and_once() {
    let world = World::new().await;
    let client = world.client().await;
    let mut waitable = submission(16);
    waitable["flags"] = json!(4);
    let id = int(&ok(&client, "job-ingest.submit", waitable).await, "id");
    let cancel = json!({"id": id, "type": "cancel", "severity": 0, "note": "no"});
    ok(&client, "job-manager.raise", cancel).await;
    let world = world.restart().await;
    let client = world.client().await;
    let told = ok(&client, "job-manager.wait", json!({"id": id})).await;
    assert_eq!(
        (told["success"].clone(), told["id"].clone()),
        (json!(false), json!(id))
    );
    let world = world.restart().await;
    let client = world.client().await;
    let (errnum, _) = refused(&client, "job-manager.wait", json!({"id": id})).await;
    assert_eq!(errnum, 10);
}

/// The first words after a restart are the stream's own; nothing is owed that would be posted a little later.
#[tokio::test]
async fn invariant_1_a_listener_that_resumes_after_a_restart_gets_nothing_twice() {
    let world = World::new().await;
    let client = world.client().await;
    let (_, seq) = submit(&client).await;
    let mut tap = client
        .stream("job-manager.events", &json!({"from": "active"}))
        .await
        .unwrap();
    let first = value(&soon(tap.next()).await.unwrap().unwrap());
    let epoch = first["epoch"].clone();
    let world = world.restart().await;
    // The stream was ended, not cut.
    while let Some(item) = soon(tap.next()).await {
        item.unwrap();
    }
    let client = world.client().await;
    let resume = json!({"after": seq, "epoch": epoch});
    let mut tap = crate::world::Tap::open(&client, resume).await;
    assert_eq!(tap.backlog().await, [] as [Value; 0]);
    let (id, seq) = submit(&client).await;
    assert_eq!(
        names(&tap.until(seq).await, id),
        ["submit", "validate", "depend", "priority"]
    );
}
