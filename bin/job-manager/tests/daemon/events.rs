//! A flood of events: the flooder is refused, a subscriber that does not read misses events and is told which, and nobody loses a connection.

use crate::peer::{Peer, body};
use crate::world::{Tap, World, call, int, ok, soon, stats, submit};
use serde_json::{Value, json};
use wire::{Cred, Event, Flags, Message, errno};

/// Base64 of so many zero bytes.
fn payload(bytes: usize) -> String {
    "A".repeat(bytes / 3 * 4)
}

/// The next event, whatever answers stand before it.
async fn next_event(peer: &mut Peer) -> Event {
    loop {
        match soon(peer.next()).await {
            Some(Message::Event(event)) => return event,
            Some(_) => {}
            None => panic!("the connection ended"),
        }
    }
}

#[tokio::test]
async fn fault_a_flood_of_events_costs_the_flooder_and_not_who_listens() {
    let world = World::new().await;
    let client = world.client().await;
    // One that does not read, and one that does; both listen to the journal, too.
    let mut slow = Peer::new(&world).await;
    slow.call("event.subscribe", json!({"topic": "flood"}))
        .await
        .unwrap();
    let tag = slow.open("job-manager.events", &json!({}));
    slow.response(tag).await;
    let quick = world.client().await;
    let mut subscription = quick.subscribe("flood").await.unwrap();
    let reader = tokio::spawn(async move {
        let mut sequences = Vec::new();
        while let Some(event) = subscription.next().await {
            sequences.push(event.sequence);
            if event.topic.as_str() == "flood.end" {
                break;
            }
        }
        sequences
    });
    // Three connections of one user, as fast as they can, until the slow one cannot be told all.
    let flooders = [
        world.client().await,
        world.client().await,
        world.client().await,
    ];
    let event = json!({"topic": "flood.x", "payload": payload(60_000)});
    let (mut published, mut refused) = (Vec::new(), 0);
    let stats = soon(async {
        loop {
            for flooder in &flooders {
                match call(flooder, "event.publish", event.clone()).await {
                    Ok(answer) => published.push(int(&answer, "seq")),
                    Err(error) => {
                        assert_eq!(error.errnum, errno::EAGAIN, "{error}");
                        assert!(error.text.contains("too fast"), "{error}");
                        refused += 1;
                    }
                }
            }
            let stats = stats(&client).await;
            if int(&stats["router"], "events_dropped") > 5 {
                return stats;
            }
        }
    })
    .await;
    // Where this machine is slow there may be none.
    assert_eq!(int(&stats["router"], "events_refused"), refused);
    // Others go on meanwhile; so does the journal of the slow one, once it reads.
    let (id, seq) = submit(&client).await;
    let mut tap = Tap::open(&client, json!({"from": "all"})).await;
    assert!(!tap.backlog().await.is_empty());

    let (mut sequences, mut overrun) = (Vec::new(), Value::Null);
    while overrun.is_null() {
        let event = next_event(&mut slow).await;
        if event.topic.as_str() == "event.overrun" {
            overrun = body(&event.payload);
        } else {
            sequences.push(u64::from(event.sequence));
        }
    }
    let missed = published.iter().filter(|one| !sequences.contains(one));
    let missed: Vec<u64> = missed.copied().collect();
    assert_eq!(int(&overrun, "dropped"), missed.len() as u64, "{overrun}");
    assert_eq!(int(&overrun, "first"), missed[0]);
    assert_eq!(Some(&int(&overrun, "last")), missed.last());
    assert_eq!(sequences, published[..sequences.len()], "one whole stretch");
    let mut journal = Vec::new();
    while !journal.iter().any(|entry| int(entry, "seq") == seq) {
        let response = slow.response(tag).await;
        assert_eq!(response.errnum, 0);
        journal.extend(
            body(&response.payload)["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    assert!(journal.iter().all(|entry| entry["id"] == id), "{journal:?}");
    // And it hears what comes after.
    let end = soon(async {
        loop {
            if let Ok(answer) = call(&client, "event.publish", json!({"topic": "flood.end"})).await
            {
                return int(&answer, "seq");
            }
        }
    })
    .await;
    assert_eq!(u64::from(next_event(&mut slow).await.sequence), end);
    // Who reads misses nothing.
    let heard = soon(reader).await.unwrap();
    published.push(end);
    assert!(heard.iter().map(|one| u64::from(*one)).eq(published));
    world.stop().await;
}

#[tokio::test]
async fn fault_event_messages_are_bounded_as_requests_are() {
    let world = World::new().await;
    let mut hears = Peer::new(&world).await;
    hears
        .call("event.subscribe", json!({"topic": "flood"}))
        .await
        .unwrap();
    let mut peer = Peer::new(&world).await;
    let before = int(&stats(&world.client().await).await["router"], "dropped");
    for _ in 0..100 {
        peer.send(Event {
            topic: "flood.x".into(),
            payload: Some(vec![b'x'; 1 << 20].into()),
            routes: Some(vec![]),
            cred: Cred::UNSET,
            flags: Flags::NONE,
            sequence: 0,
        });
        // It was taken.
        peer.call("broker.ping", json!({})).await.unwrap();
    }
    let client = world.client().await;
    let dropped = int(&stats(&client).await["router"], "dropped") - before;
    assert!((50..100).contains(&dropped), "{dropped}");
    for _ in 0..100 - dropped {
        assert_eq!(next_event(&mut hears).await.topic.as_str(), "flood.x");
    }
    let _ = ok(&client, "job-manager.stats-get", json!({})).await;
    world.stop().await;
}
