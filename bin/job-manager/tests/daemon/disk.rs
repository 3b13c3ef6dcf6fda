//! A disk that is full: nothing half-done is shown, changes are refused, reads go on, and the end comes in bounded time.

use crate::engine::Engine;
use crate::peer::Peer;
use crate::world::{
    Tap, World, call, everything, ids, int, ok, soon, stats, stats_until, submission, value,
};
use serde_json::json;
use std::time::Duration;
use wire::errno;

/// Submits until the disk is full: what was acknowledged, and the submit that waits for room.
async fn fill(client: &rpc::Client) -> (Vec<(u64, u64)>, rpc::client::Reply) {
    let mut acknowledged = Vec::new();
    let payload = submission(16);
    loop {
        let reply = client.begin("job-ingest.submit", &payload).await.unwrap();
        let mut reply = Box::pin(reply.json());
        // Either it is answered, or the counters say that it cannot be.
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut reply => break Some(answer),
                stats = stats(client) => if stats["no_space"] == true { break None },
            }
        };
        match answer {
            Some(answer) => acknowledged.push(ids(&value(&answer.unwrap()))),
            None => break,
        }
    }
    let reply = client.begin("job-ingest.submit", &payload).await.unwrap();
    (acknowledged, reply)
}

#[tokio::test]
async fn a_full_disk_refuses_changes_goes_on_reading_and_ends_in_time() {
    let world = World::with(|config| config.store_size_limit = Some(200 << 10)).await;
    let client = world.client().await;
    let watcher = world.client().await;
    let mut tap = Tap::open(&watcher, json!({"from": "all"})).await;
    tap.backlog().await;
    let (acknowledged, refused) = fill(&client).await;
    let error = soon(refused.json()).await.unwrap_err();
    assert_eq!(error.errnum, errno::ENOSPC, "{error}");
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
    // What would show more than is on the disk is not told, and nobody waits for that.
    let (errnum, _) =
        crate::world::refused(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(errnum, errno::EAGAIN);
    // What is on the disk is told, and nothing else: the submit that waits for room is nowhere.
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

/// Reports of an engine are taken up to a bound, look-ups do not wait for them.
#[tokio::test]
async fn reports_are_taken_without_room_and_lookups_do_not_wait_for_them() {
    let world = World::with(|config| config.store_size_limit = Some(200 << 10)).await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 1).await;
    let (acknowledged, refused) = fill(&client).await;
    drop(refused);
    let (first, _) = acknowledged[0];
    engine.wait_for("sched.alloc", first).await;
    let seq = int(&stats(&client).await, "seq");
    engine.grant(first);
    let after = stats_until(&client, |stats| int(stats, "seq") > seq).await;
    assert_eq!(after["no_space"], true);
    for _ in 0..10 {
        let found = ok(
            &client,
            "job-manager.lookup",
            json!({"id": first, "keys": ["eventlog"]}),
        )
        .await;
        assert_eq!(
            int(&found, "eventlog_seq"),
            4,
            "the grant is not on the disk"
        );
    }
    let mut peer = Peer::new(&world).await;
    let error = peer
        .call("job-manager.getattr", json!({"id": first, "attrs": ["R"]}))
        .await
        .unwrap_err();
    assert_eq!(error, (errno::ENOENT, "R is NULL".to_owned()));
    world.stop().await;
}
