//! Read your writes: a service with a journal stream on its connection hears of a change before it hears the question that follows it.

use crate::peer::{Peer, body};
use crate::world::{World, int, ok, soon, submit};
use serde_json::json;
use wire::{Message, errno};

/// A connection like job-info's: the native stream and the service `job-list`, caught up.
async fn job_info(world: &World) -> (Peer, u32) {
    let mut peer = Peer::service(world, "job-list").await;
    let tag = peer.open("job-manager.events", &json!({"from": "all"}));
    while body(&peer.response(tag).await.payload)["caught_up"] != true {}
    (peer, tag)
}

/// Reads on to the next request: how far the stream was complete by then, by batches and by marks.
async fn to_request(peer: &mut Peer, stream: u32, at: &mut u64, marked: &mut u64) -> wire::Request {
    loop {
        match peer.next().await.expect("connected") {
            Message::Request(request) => return request,
            Message::Response(response) if response.matchtag == stream => {
                let said = body(&response.payload);
                if let Some(seq) = said["seq"].as_u64() {
                    assert!(seq >= *at, "the stream goes forward");
                    *at = seq;
                }
                if let Some(mark) = said["mark"].as_u64() {
                    *marked = mark;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_change_comes_before_the_question_that_follows_it_a_thousand_times() {
    // No batch is due by itself: only the flush brings it.
    let world =
        World::with(|config| config.batch_interval = std::time::Duration::from_secs(5)).await;
    let (mut service, stream) = job_info(&world).await;
    let writer = world.client().await;
    let reader = world.client().await;
    let (mut at, mut marked) = (0, 0);
    for round in 0..1000 {
        let (id, seq) = submit(&writer).await;
        // A client of its own, or the one that wrote: on whatever connection.
        let asks = if round % 2 == 0 { &reader } else { &writer };
        let reply = asks
            .begin("job-list.list-id", &json!({"id": id, "attrs": []}))
            .await
            .unwrap();
        let request = to_request(&mut service, stream, &mut at, &mut marked).await;
        assert!(at >= seq, "round {round}: {at} of {seq}");
        service.respond(&request, &json!({"job": {"id": id}}));
        assert_eq!(
            crate::world::value(&soon(reply.json()).await.unwrap())["job"]["id"],
            id
        );
    }
    assert_eq!(marked, 0, "it was never necessary");
    let stats = crate::world::stats(&reader).await;
    assert!(int(&stats["journal"], "flushes") >= 1000);
}

/// A service whose stream cannot be brought up at once (it does not read) gets a mark instead, and the stream after it has drained.
#[tokio::test]
async fn a_mark_stands_in_for_a_stream_that_cannot_be_brought_up() {
    let world = World::new().await;
    let (mut service, stream) = job_info(&world).await;
    let writer = world.client().await;
    let (id, _) = submit(&writer).await;
    // Its output queue goes past high water.
    let memo = "m".repeat(60_000);
    let mut seq = 0;
    for round in 0..40 {
        let payload = json!({"id": id, "memo": {"text": memo, "round": round}});
        seq = int(&ok(&writer, "job-manager.memo", payload).await, "seq");
    }
    let mut replies = Vec::new();
    for _ in 0..50 {
        replies.push(
            writer
                .begin("job-list.list", &json!({"max_entries": 0, "attrs": []}))
                .await
                .unwrap(),
        );
    }
    // Reads again: the marks come with the questions, and what they speak of after them.
    let (mut at, mut marked) = (0, 0);
    for round in 0..50 {
        let request = to_request(&mut service, stream, &mut at, &mut marked).await;
        assert!(
            at.max(marked) >= seq,
            "round {round}: {at}, marked {marked}, of {seq}"
        );
        service.fail(&request, errno::EAGAIN);
    }
    assert_eq!(marked, seq, "the stream was behind");
    for reply in replies {
        assert_eq!(soon(reply.json()).await.unwrap_err().errnum, errno::EAGAIN);
    }
    // Nothing is missing once it has drained.
    while at < seq {
        let response = service.response(stream).await;
        at = body(&response.payload)["seq"].as_u64().unwrap_or(at);
    }
    let stats = crate::world::stats(&writer).await;
    assert_eq!(int(&stats["journal"], "marks"), 1, "one mark for one seq");
}

/// A service in the middle of its backlog gets marks too.
#[tokio::test]
async fn a_question_during_the_backlog_comes_with_a_mark() {
    let world = World::new().await;
    let writer = world.client().await;
    let all = crate::world::submit_many(&writer, 3000).await;
    let seq = all.last().unwrap().1;
    let mut service = Peer::service(&world, "job-list").await;
    let stream = service.open("job-manager.events", &json!({"from": "all"}));
    // Requests of a connection are taken in order: the stream has begun.
    service
        .call("job-manager.queue-list", json!({}))
        .await
        .unwrap();
    let reply = writer.begin("job-list.list", &json!({})).await.unwrap();
    let (mut at, mut marked) = (0, 0);
    let request = to_request(&mut service, stream, &mut at, &mut marked).await;
    assert!(at.max(marked) >= seq, "{at}, marked {marked}, of {seq}");
    service.respond(&request, &json!({}));
    soon(reply.json()).await.unwrap();
}
