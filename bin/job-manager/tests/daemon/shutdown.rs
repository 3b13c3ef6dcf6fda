//! `job-manager.shutdown` over the socket: who asked hears how far it is, and the daemon ends as one that was asked to.

use crate::peer::{Peer, body};
use crate::world::{World, ok, refused, soon, submission, submit};
use serde_json::{Value, json};
use wire::errno;

async fn is_open(world: &World, open: bool) {
    let client = world.client().await;
    soon(async {
        loop {
            let status = ok(&client, "job-manager.queue-status", json!({})).await;
            if status["enable"] == open {
                return;
            }
        }
    })
    .await;
}

/// A scheduler and an exec service that hold one running job; the job.
async fn with_a_running_job(world: &World) -> (Peer, u64) {
    let mut engine = Peer::service(world, "sched").await;
    let tag = engine.open("job-manager.sched-hello", &Value::Null);
    while engine.response(tag).await.errnum == 0 {}
    engine
        .call("job-manager.sched-ready", json!({"mode": "unlimited"}))
        .await
        .unwrap();
    engine
        .call("job-manager.exec-hello", json!({"service": "job-exec"}))
        .await
        .unwrap();
    let (id, _) = submit(&world.client().await).await;
    let alloc = engine.next_request().await;
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0"}}],
        "nodelist": ["n"], "starttime": 0.0, "expiration": 0.0}});
    engine.respond(&alloc, &json!({"id": id, "type": 0, "R": r}));
    let start = engine.next_request().await;
    engine.respond(&start, &json!({"id": id, "type": "start", "data": {}}));
    (engine, id)
}

#[tokio::test]
async fn an_idle_instance_ends_at_once_as_one_that_was_asked_to() {
    let world = World::new().await;
    let mut asks = Peer::new(&world).await;
    let tag = asks.open("job-manager.shutdown", &json!({}));
    let word = asks.response(tag).await;
    assert_eq!(
        body(&word.payload),
        json!({"waiting": 0, "jobs": [], "drained": true})
    );
    assert_eq!(asks.response(tag).await.errnum, errno::ENODATA);
    asks.closed().await;
    world.was_shut_down().await;
}

#[tokio::test]
async fn it_is_taken_back_when_who_asked_is_gone_and_waits_for_what_runs() {
    let world = World::new().await;
    let (engine, id) = with_a_running_job(&world).await;
    let mut asks = Peer::new(&world).await;
    let tag = asks.open("job-manager.shutdown", &json!({}));
    let word = body(&asks.response(tag).await.payload);
    assert_eq!(word, json!({"waiting": 1, "jobs": [id]}));
    let client = world.client().await;
    let (errnum, text) = refused(&client, "job-ingest.submit", submission(16)).await;
    assert_eq!(errnum, errno::ESHUTDOWN);
    assert!(text.contains("shutting down"), "{text}");
    drop(asks);
    is_open(&world, true).await;
    submit(&client).await;
    // Forced, the daemon ends with the job running.
    let mut asks = Peer::new(&world).await;
    let tag = asks.open("job-manager.shutdown", &json!({"force": true}));
    let word = body(&asks.response(tag).await.payload);
    assert_eq!(word, json!({"waiting": 1, "jobs": [id], "drained": true}));
    drop(engine);
    world.was_shut_down().await;
}
