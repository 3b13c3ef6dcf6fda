//! A disk that is full: nothing half-done is shown, changes are refused, reads go on, and the end comes in bounded time.

use crate::engine::Engine;
use crate::world::{
    Tap, World, call, everything, ids, int, ok, own_uid, soon, stats, submission, submit, value,
    wrap,
};
use serde_json::json;
use std::time::Duration;
use wire::errno;

/// Submits until that is refused: what was acknowledged.
async fn fill(client: &rpc::Client) -> Vec<(u64, u64)> {
    let mut acknowledged = Vec::new();
    loop {
        match call(client, "job-ingest.submit", submission(16)).await {
            Ok(answer) => acknowledged.push(ids(&answer)),
            Err(error) => {
                assert_eq!(error.errnum, errno::ENOSPC, "{error}");
                assert!(error.to_string().contains("is full"), "{error}");
                return acknowledged;
            }
        }
    }
}

#[tokio::test]
async fn a_full_disk_refuses_changes_goes_on_reading_and_ends_in_time() {
    let world = World::with(|config| config.store_size_limit = Some(200 << 10)).await;
    let client = world.client().await;
    let watcher = world.client().await;
    let mut tap = Tap::open(&watcher, json!({"from": "all"})).await;
    tap.backlog().await;
    let acknowledged = fill(&client).await;
    let (first, _) = acknowledged[0];
    let (_, newest) = acknowledged[acknowledged.len() - 1];
    for (topic, payload) in [
        ("job-manager.urgency", json!({"id": first, "urgency": 3})),
        (
            "job-manager.raise",
            json!({"id": first, "type": "cancel", "severity": 0}),
        ),
        ("job-manager.memo", json!({"id": first, "memo": {"x": 1}})),
        ("job-manager.priority", json!({"jobs": [[first, 3]]})),
    ] {
        assert_eq!(
            call(&client, topic, payload).await.unwrap_err().errnum,
            errno::ENOSPC,
            "{topic}"
        );
    }
    // What was under way is on the disk, so all that there is can be told.
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(
        list["jobs"].as_array().map(Vec::len),
        Some(acknowledged.len())
    );
    let found = ok(
        &client,
        "job-manager.lookup",
        json!({"id": first, "keys": ["eventlog", "J"]}),
    )
    .await;
    assert_eq!(
        (int(&found, "eventlog_seq"), int(&found, "seq")),
        (4, newest)
    );
    assert_eq!(everything(&client).await.len() as u64, newest);
    let mut live = tap.until(newest).await;
    let started = std::time::Instant::now();
    let (dir, mut config) = world.stop().await;
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    while let Some(item) = soon(tap.stream.next()).await {
        live.extend(
            value(&item.unwrap())["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    assert_eq!(
        live.len() as u64,
        newest,
        "nothing else was shown to anybody"
    );

    config.store_size_limit = None;
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let all = everything(&client).await;
    let ids: Vec<u64> = all
        .iter()
        .filter(|one| one["entry"]["name"] == "submit")
        .map(|one| int(one, "id"))
        .collect();
    assert_eq!(
        ids,
        acknowledged.iter().map(|(id, _)| *id).collect::<Vec<_>>()
    );
    let (_, seq) = crate::world::submit(&client).await;
    assert_eq!(seq, newest + 4, "no seq was used for what was never stored");
}

/// Reports of an engine are stored in the room of the reserve, and are not lost by a polite stop.
#[tokio::test]
async fn fault_what_engines_report_while_the_disk_is_full_outlives_a_polite_stop() {
    let world = World::with(|config| config.store_size_limit = Some(400 << 10)).await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 1).await;
    let acknowledged = fill(&client).await;
    let (first, _) = acknowledged[0];
    engine.wait_for("sched.alloc", first).await;
    engine.grant(first);
    engine.wait_for("job-exec.start", first).await;
    engine.say(first, "start", json!({}));
    engine.say(first, "finish", json!({"status": 0}));
    engine.say(first, "release", json!({"ranks": "all", "final": true}));
    engine.wait_for("sched.free", first).await;
    assert_eq!(stats(&client).await["no_space"], true);
    let world = world.restart().await;
    let client = world.client().await;
    let found = ok(
        &client,
        "job-manager.lookup",
        json!({"id": first, "keys": ["eventlog"]}),
    )
    .await;
    let eventlog = found["eventlog"].as_str().unwrap();
    assert!(eventlog.contains("\"clean\""), "{eventlog}");
    world.stop().await;
}

/// What does not fit even with the reserve is refused, at once and as a whole, and so is all that waits behind it.
#[tokio::test]
async fn fault_a_submit_that_never_fits_is_refused_and_nothing_of_it_is_there() {
    let world = World::with(|config| config.store_size_limit = Some(400 << 10)).await;
    let client = world.client().await;
    let (first, newest) = submit(&client).await;
    let mut large = submission(16);
    let long = "x".repeat(2 << 20);
    let jobspec = json!({"version": 1, "resources": [{"type": "slot", "count": 1, "label": "t", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true", long], "slot": "t", "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 0}}});
    large["J"] = json!(wrap(own_uid(), &jobspec.to_string()));
    let stuck = client.begin("job-ingest.submit", &large).await.unwrap();
    let behind = client
        .begin("job-ingest.submit", &submission(16))
        .await
        .unwrap();
    for reply in [stuck, behind] {
        let error = soon(reply.json()).await.unwrap_err();
        assert_eq!(error.errnum, errno::ENOSPC, "{error}");
        assert!(error.to_string().contains("full"), "{error}");
    }
    let (dir, mut config, why) = world.failed().await;
    assert!(why.contains("did not fit"), "{why}");
    config.store_size_limit = None;
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let all = everything(&client).await;
    assert_eq!(all.len() as u64, newest);
    assert!(all.iter().all(|one| one["id"] == first));
    let (_, seq) = submit(&client).await;
    assert_eq!(seq, newest + 4);
    world.stop().await;
}
