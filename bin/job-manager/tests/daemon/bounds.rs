//! Bounds and what is answered at them; what is kept for a client goes with it.

use crate::peer::{Peer, result};
use crate::world::{World, int, ok, refused, soon, stats, stats_until, submit, submit_many, value};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use wire::{Flags, Message, Request, errno, json_payload};

/// Requests that wait in the manager go with the client that waits.
#[tokio::test]
async fn what_a_client_waits_for_is_forgotten_when_it_goes() {
    let world = World::new().await;
    let client = world.client().await;
    submit(&client).await;
    for _ in 0..20 {
        let mut waiter = Peer::new(&world).await;
        for topic in ["job-manager.drain", "job-manager.idle", "job-manager.drain"] {
            waiter.request(topic, None, Flags::NONE);
        }
        // Idle is answered at once: nothing runs. The other two wait.
        stats_until(&client, |stats| stats["waiting"]["requests"] == 2).await;
        drop(waiter);
        stats_until(&client, |stats| stats["waiting"]["requests"] == 0).await;
    }
}

#[tokio::test]
async fn a_request_without_an_answer_leaves_nothing_behind() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let mut peer = Peer::new(&world).await;
    for topic in [
        "job-manager.drain",
        "job-manager.lookup",
        "job-manager.events",
        "job-manager.wait",
        "job-manager.list",
        "nosuch.x",
    ] {
        for (flags, tag) in [
            (Flags::NORESPONSE, 0),
            (Flags::NONE, 0),
            (Flags::NORESPONSE, 77),
        ] {
            let payload = json_payload(&json!({"id": id, "keys": [], "max_entries": 0}));
            peer.send(Request {
                flags,
                ..Request::new(topic, Some(payload), tag)
            });
        }
    }
    let payload = json_payload(&json!({"id": id, "urgency": 3}));
    peer.send(Request {
        flags: Flags::NORESPONSE,
        ..Request::new("job-manager.urgency", Some(payload), 0)
    });
    let tag = peer.request("job-manager.getinfo", None, Flags::NONE);
    // The first answer of all is to the only one that asked for it.
    let Some(Message::Response(response)) = peer.next().await else {
        panic!("no response");
    };
    assert_eq!(
        (response.matchtag, result(&response)),
        (tag, Ok(json!({"max_jobid": id})))
    );
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(list["jobs"][0]["urgency"], 3, "done all the same");
    let stats = stats(&client).await;
    assert_eq!(
        (&stats["waiting"]["requests"], &stats["waiting"]["lookups"]),
        (&json!(0), &json!(0))
    );
}

/// Flux's own clients use matchtags again at once; so may anybody, out of order.
#[tokio::test]
async fn answers_find_their_requests_whatever_the_order() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let mut peer = Peer::new(&world).await;
    for round in 0..100 {
        let urgency = json_payload(&json!({"id": id, "urgency": round % 31}));
        for (tag, topic, payload) in [
            (3, "job-manager.urgency", Some(urgency)),
            (1, "attr.list", None),
            (2, "nosuch.x", None),
        ] {
            peer.send(Request::new(topic, payload, tag));
        }
        assert_eq!(peer.response(2).await.errnum, errno::ENOSYS);
        assert_eq!(peer.response(3).await.errnum, 0);
        assert_eq!(peer.response(1).await.errnum, 0);
    }
}

/// A frame above the limit ends that connection, and nobody else notices.
#[tokio::test]
async fn a_frame_that_is_too_long_or_none_ends_its_connection_alone() {
    let world = World::with(|config| config.frame_limit = 64 << 10).await;
    let client = world.client().await;
    let mut fine = Peer::new(&world).await;
    let pad = |len: usize| json_payload(&json!({"pad": "x".repeat(len)}));
    let tag = fine.request("job-manager.ping", Some(pad(60 << 10)), Flags::NONE);
    assert_eq!(fine.response(tag).await.errnum, 0);
    let mut long = Peer::new(&world).await;
    long.request("job-manager.ping", Some(pad(65 << 10)), Flags::NONE);
    long.closed().await;
    for bad in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x12, 0, 0xee, 0xff, 0, 0, 0, 0],
        &[0x12, 0, 0xee, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0xff, 0xee, 0, 0x12, 0, 0, 0, 4, 1, 2, 3, 4],
        &[
            0x12, 0, 0xee, 0xff, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
    ] {
        let mut stream = UnixStream::connect(&world.config.socket).await.unwrap();
        assert_eq!(soon(stream.read_u8()).await.unwrap(), 0);
        stream.write_all(bad).await.unwrap();
        let mut rest = Vec::new();
        // EOF, or a reset since it had not read all of it.
        let _ = soon(stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty());
    }
    submit(&client).await;
    stats_until(&client, |stats| stats["router"]["clients"] == 2).await;
}

/// One that asks much and reads nothing is answered EAGAIN before its queue is at the cap, and loses its connection at it.
#[tokio::test]
async fn who_reads_no_answers_gets_no_more_of_them() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 5000).await;
    let mut peer = Peer::new(&world).await;
    let all = json_payload(&json!({"max_entries": 0}));
    // 0.6 MB each: 20 MiB are reached after some thirty.
    let tags: Vec<u32> = (0..200)
        .map(|_| peer.request("job-manager.list", Some(all.clone()), Flags::NONE))
        .collect();
    ok(&client, "job-manager.queue-list", json!({})).await;
    let (mut lists, mut refusals) = (0, 0);
    for tag in tags {
        let response = peer.response(tag).await;
        match response.errnum {
            0 => lists += 1,
            errno::EAGAIN => refusals += 1,
            other => panic!("{other}"),
        }
    }
    assert!(
        lists >= 25 && refusals >= 50,
        "{lists} lists, {refusals} refusals"
    );
    assert_eq!(
        peer.call("job-manager.queue-list", json!({})).await,
        Ok(json!({"queues": []})),
        "and on it goes"
    );
}

/// More calls of one connection than are tracked.
#[tokio::test]
async fn a_connection_has_so_many_calls_in_flight_and_no_more() {
    let world = World::new().await;
    let client = world.client().await;
    let _service = Peer::service(&world, "mute").await;
    submit(&client).await;
    let mut peer = Peer::new(&world).await;
    let mut sent = 0;
    while sent < 65_536 {
        peer.sender.ready().await.unwrap();
        for _ in 0..512 {
            peer.request("job-manager.drain", None, Flags::NONE);
            sent += 1;
        }
    }
    let (errnum, text) = peer
        .call("job-manager.queue-list", json!({}))
        .await
        .unwrap_err();
    assert_eq!(errnum, errno::EAGAIN, "{text}");
    assert_eq!(int(&stats(&client).await["waiting"], "requests"), 65_536);
    drop(peer);
    stats_until(&client, |stats| stats["waiting"]["requests"] == 0).await;
}

/// A16: clients that go before they are answered.
#[tokio::test]
async fn a16_two_hundred_clients_that_leave_at_once() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 500).await;
    for at in 0..200 {
        let mut stream = UnixStream::connect(&world.config.socket).await.unwrap();
        if at % 3 != 0 {
            soon(stream.read_u8()).await.unwrap();
        }
        let request = Request::new(
            "job-manager.list",
            Some(json_payload(&json!({"max_entries": 0}))),
            1,
        );
        stream
            .write_all(&wire::to_frame(&request.into()))
            .await
            .unwrap();
        if at % 10 == 0 {
            let mut some = [0; 100];
            let _ = soon(stream.read(&mut some)).await;
        }
    }
    stats_until(&client, |stats| stats["router"]["clients"] == 1).await;
    submit(&client).await;
}

/// A bulk change of many thousand jobs is one answer, and everybody else is served meanwhile.
#[tokio::test]
async fn a_bulk_change_of_ten_thousand_jobs_is_one_request() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 10_000).await;
    let mut tap = crate::world::Tap::open(&client, json!({})).await;
    tap.backlog().await;
    let pairs: Vec<_> = jobs.iter().map(|(id, _)| json!([id, 1])).collect();
    let bulk = client
        .begin("job-manager.priority", &json!({"jobs": pairs}))
        .await
        .unwrap();
    let other = world.client().await;
    submit(&other).await;
    let answer = value(&soon(bulk.json()).await.unwrap());
    assert_eq!(answer["results"].as_array().map(Vec::len), Some(10_000));
    let seq = int(&answer, "seq");
    let mut found = 0;
    loop {
        let batch = tap.next().await;
        let events = batch["events"].as_array().unwrap();
        found += events
            .iter()
            .filter(|one| {
                one["entry"]["name"] == "priority" && one["entry"]["context"]["priority"] == 1
            })
            .count();
        if int(&batch, "seq") >= seq {
            break;
        }
    }
    assert_eq!(found, 10_000);
    let list = ok(&client, "job-manager.list", json!({"max_entries": 3})).await;
    assert_eq!(
        list["jobs"][0]["priority"], 16,
        "the one that was not among them is first"
    );
    assert_eq!(
        refused(&client, "job-manager.list", json!({"max_entries": -1}))
            .await
            .0,
        71
    );
}
