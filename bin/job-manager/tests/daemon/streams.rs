//! Journal streams: begun, cancelled, refused, resumed; matchtags used again.

use crate::peer::{Peer, body};
use crate::world::{Tap, World, int, names, ok, soon, stats_until, submit, submit_many};
use serde_json::{Value, json};
use wire::{Flags, Message, Request, errno, json_payload};

/// Sends requests of one matchtag in one go: streams, and cancels of it.
fn burst(peer: &Peer, tag: u32, what: &str) {
    for one in what.chars() {
        let request = if one == 's' {
            let payload = json_payload(&json!({"from": "active"}));
            Request {
                flags: Flags::STREAMING,
                ..Request::new("job-manager.events", Some(payload), tag)
            }
        } else {
            let payload = json_payload(&json!({"matchtag": tag}));
            Request {
                flags: Flags::NORESPONSE,
                ..Request::new("job-manager.events-cancel", Some(payload), 0)
            }
        };
        peer.send(request);
    }
}

#[tokio::test]
async fn a_cancel_ends_its_stream_once_and_one_without_a_stream_is_forgotten() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 3).await;
    for (what, ends) in [
        ("s", 0),
        ("sc", 1),
        ("csc", 1),
        ("scc", 1),
        ("scs", 1),
        ("cs", 0),
        ("scscsc", 3),
        ("ccs", 0),
        ("scscs", 2),
    ] {
        let mut peer = Peer::new(&world).await;
        burst(&peer, 5, what);
        let mut ended = 0;
        while ended < ends {
            let response = peer.response(5).await;
            assert!(
                matches!(response.errnum, 0 | errno::ENODATA),
                "{what}: {response:?}"
            );
            ended += usize::from(response.errnum != 0);
        }
        let open = what.ends_with('s');
        if open {
            // It lives: caught up, and then what happens next.
            while body(&peer.response(5).await.payload)["caught_up"] != true {}
            let (id, _) = submit(&client).await;
            assert_eq!(body(&peer.response(5).await.payload)["events"][0]["id"], id);
        }
        stats_until(&client, |stats| {
            stats["journal"]["listeners"] == u64::from(open)
        })
        .await;
        drop(peer);
        stats_until(&client, |stats| stats["journal"]["listeners"] == 0).await;
    }
}

#[tokio::test]
async fn a_matchtag_is_free_at_once_after_any_end() {
    let world = World::new().await;
    let mut peer = Peer::new(&world).await;
    for _ in 0..20 {
        // Refused: the cursor is ahead.
        let payload = json_payload(&json!({"after": 99}));
        peer.send(Request {
            flags: Flags::STREAMING,
            ..Request::new("job-manager.events", Some(payload), 9)
        });
        assert_eq!(peer.response(9).await.errnum, 116);
        burst(&peer, 9, "s");
        assert_eq!(body(&peer.response(9).await.payload)["caught_up"], true);
        burst(&peer, 9, "c");
        assert_eq!(peer.response(9).await.errnum, errno::ENODATA);
    }
    // Two streams under one matchtag: the second is refused, the first goes on.
    burst(&peer, 9, "ss");
    let (mut refused, mut caught_up) = (0, 0);
    while (refused, caught_up) != (1, 1) {
        let response = peer.response(9).await;
        if response.errnum == 0 {
            caught_up += 1;
        } else {
            assert_eq!(response.errnum, errno::EINVAL);
            refused += 1;
        }
    }
    burst(&peer, 9, "c");
    assert_eq!(peer.response(9).await.errnum, errno::ENODATA);
}

#[tokio::test]
async fn refusals_say_why() {
    let world = World::new().await;
    let client = world.client().await;
    submit(&client).await;
    let mut peer = Peer::new(&world).await;
    let long = "x".repeat(200);
    for (payload, errnum, text) in [
        (json!({"after": 5}), 116, "cursor 5 cannot be continued"),
        (
            json!({"after": 1, "epoch": "0000000000000000"}),
            116,
            "cursor 1 of epoch 0000000000000000 cannot be continued",
        ),
        (
            json!({"from": "x"}),
            22,
            "from: expected \"now\", \"active\" or \"all\", got \"x\"",
        ),
        (
            json!({"from": "all", "after": 1}),
            22,
            "from and after exclude each other",
        ),
        (
            json!({"allow": [long]}),
            22,
            "allow: a name has 128 bytes at most, one has 200",
        ),
        (
            json!({"deny": vec!["a"; 257]}),
            22,
            "deny: expected 256 names at most, got 257",
        ),
        (
            json!({"ids": vec![1; 65_537]}),
            22,
            "ids: expected 65536 at most, got 65537",
        ),
        (json!({"allow": {}}), 71, ""),
        (json!({"ids": ["x"]}), 71, ""),
    ] {
        let tag = peer.open("job-manager.events", &payload);
        let response = peer.response(tag).await;
        let said = response
            .payload
            .as_deref()
            .and_then(wire::text_of)
            .unwrap_or_default();
        assert_eq!(response.errnum, errnum, "{payload}: {said}");
        assert!(said.starts_with(text), "{payload}: {said}");
    }
    for (topic, payload, text) in [
        (
            "job-manager.events-journal",
            json!({"allow": ["x"]}),
            "job-manager.events allow should be an object",
        ),
        (
            "job-manager.events-journal",
            json!({"deny": null}),
            "job-manager.events deny should be an object",
        ),
    ] {
        let tag = peer.open(topic, &payload);
        let response = peer.response(tag).await;
        assert_eq!(
            response.payload.as_deref().and_then(wire::text_of),
            Some(text)
        );
        assert_eq!(response.errnum, 71);
    }
    for topic in ["job-manager.events", "job-manager.events-journal"] {
        let text = "job-manager.events requires streaming RPC flag".to_owned();
        assert_eq!(peer.call(topic, json!({})).await, Err((71, text)));
        let tag = peer.request(topic, None, Flags::STREAMING);
        assert_eq!(peer.response(tag).await.errnum, 71, "no payload");
    }
}

/// Never answered, so never begun: a stream without a matchtag.
#[tokio::test]
async fn a_stream_that_expects_no_answer_is_none() {
    let world = World::new().await;
    let client = world.client().await;
    let mut peer = Peer::new(&world).await;
    let payload = json_payload(&json!({"from": "all"}));
    peer.send(Request {
        flags: Flags::STREAMING,
        ..Request::new("job-manager.events", Some(payload), 0)
    });
    submit(&client).await;
    assert_eq!(
        peer.call("job-manager.queue-list", json!({})).await,
        Ok(json!({"queues": []}))
    );
    let stats = crate::world::stats(&client).await;
    assert_eq!(int(&stats["journal"], "listeners"), 0);
}

#[tokio::test]
async fn a_connection_holds_so_many_streams_and_no_more() {
    let world = World::new().await;
    let client = world.client().await;
    let mut peer = Peer::new(&world).await;
    for _ in 0..256 {
        let tag = peer.open("job-manager.events", &json!({}));
        assert_eq!(peer.response(tag).await.errnum, 0);
    }
    let tag = peer.open("job-manager.events", &json!({}));
    assert_eq!(peer.response(tag).await.errnum, errno::EMFILE);
    Tap::open(&client, json!({})).await.backlog().await;
    drop(peer);
    stats_until(&client, |stats| stats["journal"]["listeners"] == 0).await;
}

/// Who forwards for others has streams for each of them, told apart by their hops; one that leaves ends only its own.
#[tokio::test]
async fn a_disconnect_with_hops_ends_the_streams_that_came_with_them() {
    let world = World::new().await;
    let client = world.client().await;
    let mut peer = Peer::new(&world).await;
    let hop = |name: &'static str| Some(vec![bytes::Bytes::from_static(name.as_bytes())]);
    for name in ["alice", "bob"] {
        let payload = json_payload(&json!({}));
        let request = Request {
            flags: Flags::STREAMING,
            routes: hop(name),
            ..Request::new("job-manager.events", Some(payload), 4)
        };
        peer.send(request);
        let response = peer.response(4).await;
        assert_eq!(response.routes, hop(name));
    }
    let leaves = Request {
        flags: Flags::NORESPONSE,
        routes: hop("alice"),
        ..Request::new("job-manager.disconnect", None, 0)
    };
    peer.send(leaves);
    let (id, seq) = submit(&client).await;
    let response = peer.response(4).await;
    assert_eq!(
        (response.routes, body(&response.payload)["seq"].clone()),
        (hop("bob"), json!(seq))
    );
    assert_eq!(body(&response.payload)["events"][0]["id"], id);
    assert_eq!(
        peer.call("job-manager.queue-list", json!({})).await,
        Ok(json!({"queues": []}))
    );
    // Said aloud, it is answered.
    let tag = peer.request("job-manager.disconnect", None, Flags::NONE);
    assert_eq!(peer.response(tag).await.errnum, 0);
}

#[tokio::test]
async fn a_client_that_goes_while_its_backlog_is_read_harms_nobody() {
    let world = World::with(|config| config.journal_size_limit = 16).await;
    let client = world.client().await;
    let jobs = submit_many(&client, 2000).await;
    let mut replies = Vec::new();
    for _ in 0..100 {
        let mut peer = Peer::new(&world).await;
        let _ = peer.open("job-manager.events", &json!({"from": "all"}));
        let _ = peer.open("job-manager.events", &json!({"after": 1}));
        replies.push(peer);
        if replies.len() == 10 {
            // Some are cut right away, some while pages are on the way.
            let _ = replies[3].next().await;
            replies.clear();
        }
    }
    replies.clear();
    stats_until(&client, |stats| stats["journal"]["listeners"] == 0).await;
    let all = crate::world::everything(&client).await;
    assert_eq!(all.len(), 4 * jobs.len());
}

/// Cases A10 and A11: a cursor goes on exactly after it, from the ring or from the store.
#[tokio::test]
async fn a10_a11_a_cursor_is_continued_without_a_repeat_or_refused_at_once() {
    let world = World::with(|config| config.journal_size_limit = 100).await;
    let client = world.client().await;
    submit_many(&client, 100).await;
    let newest = 400;
    for after in [0, 5, 204, 299, 300, 301, 399, newest] {
        let mut tap = Tap::open(&client, json!({"after": after})).await;
        let first = tap.next().await;
        assert_eq!(
            (&first["caught_up"], &first["seq"]),
            (&json!(true), &json!(after))
        );
        let mut seqs: Vec<u64> = Vec::new();
        while seqs.len() < (newest - after) as usize {
            let response = tap.next().await;
            seqs.extend(
                response["events"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|one| int(one, "seq")),
            );
        }
        assert_eq!(seqs, (after + 1..=newest).collect::<Vec<_>>());
    }
    let filter = json!({"allow": ["submit"], "from": "now"});
    let mut tap = Tap::open(&client, filter).await;
    assert_eq!(tap.backlog().await, [] as [Value; 0]);
    let (id, seq) = submit(&client).await;
    let live = tap.until(seq).await;
    assert_eq!(names(&live, id), ["submit"]);
    assert_eq!(live.len(), 1, "nothing that was there before");
}

/// A backlog is what is at or before its `seq`, the live part what is after, whatever happens meanwhile.
#[tokio::test]
async fn invariant_4_a_backlog_while_jobs_come_and_go_misses_nothing_and_repeats_nothing() {
    let world = World::with(|config| config.journal_size_limit = 64).await;
    let client = world.client().await;
    let old = submit_many(&client, 700).await;
    let busy = world.client().await;
    let storm = tokio::spawn(async move {
        let mut last = 0;
        for (old, _) in old.iter().take(150) {
            let (id, _) = submit(&busy).await;
            let cancel = json!({"id": old, "type": "cancel", "severity": 0});
            ok(&busy, "job-manager.raise", cancel).await;
            let cancel = json!({"id": id, "type": "cancel", "severity": 0});
            last = int(&ok(&busy, "job-manager.raise", cancel).await, "seq");
        }
        last
    });
    let mut taps = Vec::new();
    for _ in 0..5 {
        let own = world.client().await;
        let mut tap = Tap::open(&own, json!({"from": "all"})).await;
        let mut all = tap.backlog().await;
        all.extend(
            tap.next().await["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
        taps.push((own, tap, all));
    }
    let last = soon(storm).await.unwrap();
    for (_, tap, all) in &mut taps {
        if all.iter().all(|one| int(one, "seq") < last) {
            all.extend(tap.until(last).await);
        }
        let mut seqs: Vec<u64> = all
            .iter()
            .map(|one| int(one, "seq"))
            .filter(|seq| *seq <= last)
            .collect();
        seqs.sort_unstable();
        assert_eq!(seqs, (1..=last).collect::<Vec<_>>());
    }
}

/// A stream ends with the daemon, by a word and not by a cut.
#[tokio::test]
async fn streams_end_with_enodata_when_the_daemon_stops() {
    let world = World::new().await;
    let mut peer = Peer::new(&world).await;
    let native = peer.open("job-manager.events", &json!({}));
    let flux = peer.open("job-manager.events-journal", &json!({}));
    assert_eq!(peer.response(native).await.errnum, 0);
    assert_eq!(peer.response(flux).await.errnum, 0);
    world.stop().await;
    let mut ends = 0;
    while let Some(message) = peer.next().await {
        match message {
            Message::Response(response) if response.errnum == errno::ENODATA => ends += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ends, 2);
}
