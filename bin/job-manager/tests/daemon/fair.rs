//! Invariant 7: a client that floods is held off alone; others stand behind a bounded part of what it asks, whatever it asks.

use crate::peer::Peer;
use crate::world::{World, int, ok, soon, submit_many};
use bytes::Bytes;
use serde_json::json;
use wire::{Flags, Message, errno, json_payload};

/// Sends as many requests as fit, without reading.
fn pour(peer: &mut Peer, topic: &str, payload: &Bytes, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| peer.request(topic, Some(payload.clone()), Flags::NONE))
        .collect()
}

#[tokio::test]
async fn invariant_7_a_flood_for_a_service_that_does_not_read_is_refused_to_who_floods_alone() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "asleep").await;
    let mut rude = Peer::new(&world).await;
    let large = json_payload(&json!({"pad": "x".repeat(100_000)}));
    let asked = pour(&mut rude, "asleep.flood", &large, 120);
    // All of it was taken, and most of it refused.
    rude.call("job-manager.queue-list", json!({}))
        .await
        .unwrap();
    let mut others = Vec::new();
    for _ in 0..20 {
        let mut other = Peer::new(&world).await;
        let tag = other.request("asleep.ask", Some(large.clone()), Flags::NONE);
        other
            .call("job-manager.queue-list", json!({}))
            .await
            .unwrap();
        others.push((other, tag));
    }
    // It wakes. The others' requests come in turn with the flood's.
    let (mut floods, mut asks, mut floods_before_last_ask) = (0, 0, 0);
    let mut refused = 0;
    for tag in asked {
        while asks + floods + refused < 120 + 20 && !rude.has(tag) {
            tokio::select! {
                request = service.next_request() => {
                    if request.topic.method() == "ask" {
                        asks += 1;
                        floods_before_last_ask = floods;
                    } else {
                        floods += 1;
                    }
                    service.respond(&request, &json!({}));
                }
                () = rude.take_one() => {}
            }
        }
        refused += u32::from(rude.response(tag).await.errnum == errno::EAGAIN);
    }
    while asks < 20 {
        let request = service.next_request().await;
        assert_eq!(request.topic.method(), "ask");
        asks += 1;
        service.respond(&request, &json!({}));
    }
    for (mut other, tag) in others {
        assert_eq!(
            other.response(tag).await.errnum,
            0,
            "nobody else is refused"
        );
    }
    assert!(
        refused > 60 && floods + refused == 120,
        "{floods} and {refused}"
    );
    assert!(
        floods_before_last_ask < 30,
        "the last of the others came after {floods_before_last_ask} of the flood"
    );
}

/// A service that is quick enough: who asks in the middle of another one's flood waits for a window of it.
#[tokio::test]
async fn invariant_7_a_flood_for_a_service_delays_others_by_a_window() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "busy").await;
    let mut rude = Peer::new(&world).await;
    let small = json_payload(&json!({}));
    let asked = pour(&mut rude, "busy.flood", &small, 20_000);
    let other = world.client().await;
    let mut served = 0u32;
    let mut gaps = Vec::new();
    while gaps.len() < 5 {
        for _ in 0..500 {
            let request = service.next_request().await;
            service.respond(&request, &json!({}));
            served += 1;
        }
        let before = served;
        let reply = other.begin("busy.ask", &json!({})).await.unwrap();
        loop {
            let request = service.next_request().await;
            service.respond(&request, &json!({}));
            if request.topic.method() == "ask" {
                break;
            }
            served += 1;
        }
        gaps.push(served - before);
        soon(reply.json()).await.unwrap();
    }
    // The broker may not have taken the other's request at once; what it hands over until then is a window and what one turn brings.
    assert!(
        gaps.iter().all(|gap| *gap < 1500) && served < 15_000,
        "served between question and turn: {gaps:?} of {}",
        asked.len()
    );
}

/// The same for what the job-manager does itself: a chunk of the flood at most is done before it is another one's turn.
#[tokio::test]
async fn invariant_7_a_flood_for_the_job_manager_delays_others_by_its_share() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 1000).await;
    let mut rude = Peer::new(&world).await;
    let all = json_payload(&json!({"max_entries": 0}));
    for (topic, payload) in [
        ("job-manager.list", all),
        ("job-manager.getinfo", json_payload(&json!({}))),
    ] {
        let before = int(
            &ok(&client, "job-manager.stats-get", json!({})).await["router"],
            "requests",
        );
        pour(&mut rude, topic, &payload, 20_000);
        let mut turns = 0;
        let mut last = before;
        while last < before + 20_000 {
            let stats = ok(&client, "job-manager.stats-get", json!({})).await;
            let now = int(&stats["router"], "requests");
            // Both ends run on one thread here: a question and its answer take several turns of the loop.
            assert!(now - last <= 6000, "{topic}: {} at once", now - last);
            (turns, last) = (turns + 1, now);
        }
        assert!(turns >= 5, "{topic}: served {turns} times meanwhile");
    }
}

/// A client that does not read its answers has its requests to services wait, so that it is given no more of them: it does not lose its
/// connection, and gets them all when it reads.
#[tokio::test]
async fn invariant_7_answers_of_a_service_are_not_asked_for_faster_than_they_are_read() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "giver").await;
    let giving = tokio::spawn(async move {
        let row = json!({"pad": "x".repeat(100_000)});
        let mut given = 0;
        while let Some(message) = service.next().await {
            let Message::Request(request) = message else {
                continue;
            };
            match request.topic.method() {
                "give" => {
                    given += 1;
                    service.respond(&request, &row);
                }
                "quit" => {
                    service.respond(&request, &json!({"given": given}));
                    return;
                }
                "count" => service.respond(&request, &json!({"given": given})),
                _ => {}
            }
        }
    });
    let client = world.client().await;
    let mut slow = Peer::new(&world).await;
    // 200 MB of answers: five times what would end the connection.
    let asked = pour(&mut slow, "giver.give", &json_payload(&json!({})), 2000);
    let mut given = 0;
    for _ in 0..200 {
        let now = int(&ok(&client, "giver.count", json!({})).await, "given");
        if now == given && now > 0 {
            break;
        }
        given = now;
    }
    assert!(given < 400, "{given} answers for one who reads none");
    for tag in asked {
        assert_eq!(slow.response(tag).await.errnum, 0);
    }
    assert_eq!(
        int(&ok(&client, "giver.quit", json!({})).await, "given"),
        2000
    );
    soon(giving).await.unwrap();
}

/// Answers that wait for the disk are not in the queue yet when more is asked: a client that reads, but has much under way, is refused some of it and
/// keeps its connection.
#[tokio::test]
async fn a_client_with_more_answers_under_way_than_its_queue_takes_is_refused_some_and_stays() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 5000).await;
    let mut reader = Peer::new(&world).await;
    let all = json_payload(&json!({"max_entries": 0}));
    // Changes keep what is asked after them waiting for the disk.
    let other = tokio::spawn(async move {
        for _ in 0..20 {
            submit_many(&client, 50).await;
        }
    });
    // 0.6 MB each: 120 MB, more than twice what ends a connection.
    let asked = pour(&mut reader, "job-manager.list", &all, 200);
    let (mut answered, mut refused) = (0, 0);
    for tag in asked {
        match reader.response(tag).await.errnum {
            0 => answered += 1,
            errno::EAGAIN => refused += 1,
            other => panic!("errno {other}"),
        }
    }
    assert!(answered > 0, "{answered} answered, {refused} refused");
    soon(other).await.unwrap();
    reader.call("job-manager.getinfo", json!({})).await.unwrap();
}

/// What a flood of look-ups finds comes back to the loop without end: connections, the clock and others' messages are heard all the same.
#[tokio::test]
async fn invariant_7_a_flood_of_look_ups_does_not_keep_the_loop_from_hearing_others() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 50).await;
    let mut rude = Peer::new(&world).await;
    let one = json_payload(&json!({"id": jobs[7].0, "keys": []}));
    let asked = pour(&mut rude, "job-manager.lookup", &one, 16_000);
    let (mut turns, mut handled) = (0, 0);
    while handled < 16_000 {
        // Connections are heard too.
        let other = world.client().await;
        let stats = ok(&other, "job-manager.stats-get", json!({})).await;
        handled = int(&stats["router"], "responses");
        turns += 1;
    }
    for tag in asked {
        assert_eq!(rude.response(tag).await.errnum, 0);
    }
    assert!(turns >= 5, "heard {turns} times meanwhile");
}
