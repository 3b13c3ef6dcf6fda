//! The named promises of `rfc/8_promises.md` over the socket: resumable, honest, complete but for what was purged.

use crate::engine::Engine;
use crate::peer::{Peer, body};
use crate::world::{Tap, World, everything, int, ok, stats, submit, submit_many};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use wire::{Flags, json_payload};

/// Seqs of entries.
fn seqs(entries: &[Value]) -> Vec<u64> {
    entries.iter().map(|entry| int(entry, "seq")).collect()
}

/// A reader that is cut off 50 times and goes on with its cursor, while the daemon is started again five times: what it joined together is what
/// is read once at the end, entry by entry.
#[tokio::test]
async fn promise_resumable_what_50_resumes_over_restarts_join_is_the_whole_journal() {
    // So small a ring that some of it comes from the store.
    let mut world = World::with(|config| config.journal_size_limit = 40).await;
    let epoch = {
        let client = world.client().await;
        Tap::open(&client, json!({})).await.next().await["epoch"].clone()
    };
    let mut joined: Vec<Value> = Vec::new();
    let mut cursor = 0;
    for round in 0..50u64 {
        if round % 10 == 9 {
            world = world.restart().await;
        }
        let client = world.client().await;
        let made = submit_many(&client, (round % 7) as usize).await;
        let mut reader = Peer::new(&world).await;
        let ask = json!({"after": cursor, "epoch": epoch});
        let tag = reader.open("job-manager.events", &ask);
        let first = body(&reader.response(tag).await.payload);
        assert_eq!(
            (&first["caught_up"], &first["seq"], &first["epoch"]),
            (&json!(true), &json!(cursor), &epoch)
        );
        if round % 3 > 0 {
            submit(&client).await;
        }
        // Some rounds read all that there is, others are cut after one response, others at once.
        let newest = made.last().map_or(cursor, |(_, seq)| *seq);
        while round % 4 > 1 && cursor < newest {
            let batch = body(&reader.response(tag).await.payload);
            joined.extend(batch["events"].as_array().unwrap().iter().cloned());
            cursor = int(&batch, "seq");
            if round % 4 == 2 {
                break;
            }
        }
    }
    let client = world.client().await;
    let newest = int(&stats(&client).await, "seq");
    let mut tap = Tap::open(&client, json!({"after": cursor, "epoch": epoch})).await;
    joined.extend(tap.until(newest).await);
    assert_eq!(seqs(&joined), (1..=newest).collect::<Vec<_>>());
    assert_eq!(joined, everything(&client).await);
}

/// Every wrong cursor is refused with the first response, and ESTALE names both ends of what there is; what is no cursor at all is refused too.
#[tokio::test]
async fn promise_honest_every_wrong_cursor_is_refused_with_the_first_response() {
    let world = World::new().await;
    let client = world.client().await;
    submit_many(&client, 20).await;
    let world = world.restart().await;
    let client = world.client().await;
    submit(&client).await;
    let newest = int(&stats(&client).await, "seq");
    let epoch = Tap::open(&client, json!({})).await.next().await["epoch"].clone();
    let mut reader = Peer::new(&world).await;
    for wrong in [
        json!({"after": newest + 1}),
        json!({"after": newest + 1, "epoch": epoch}),
        json!({"after": u64::MAX}),
        json!({"after": newest, "epoch": "0000000000000000"}),
        json!({"after": 1, "epoch": ""}),
        json!({"after": 1, "epoch": "\u{192}\u{1f4a9} \" \\"}),
    ] {
        let tag = reader.open("job-manager.events", &wrong);
        let response = reader.response(tag).await;
        let text = response.payload.as_deref().and_then(wire::text_of).unwrap();
        assert_eq!(response.errnum, 116, "{wrong}: {text}");
        assert!(
            text.contains("cannot be continued") && text.contains(&format!("holds 1 to {newest}")),
            "{wrong}: {text}"
        );
    }
    for garbage in [
        json!({"after": -1}),
        json!({"after": 1.5}),
        json!({"after": "1"}),
        json!({"after": [1]}),
        json!({"after": {}}),
        json!({"after": true}),
        json!({"after": 1, "epoch": 7}),
        json!({"after": 1, "epoch": ["x"]}),
        json!({"after": 1, "from": "all"}),
        json!({"epoch": epoch, "from": "now", "after": 1}),
    ] {
        let tag = reader.open("job-manager.events", &garbage);
        let response = reader.response(tag).await;
        assert!(
            matches!(response.errnum, 71 | 22),
            "{garbage}: {}",
            response.errnum
        );
    }
    // Bytes that are no JSON are no cursor either, and the connection is as it was.
    for payload in [&b"after"[..], b"{\"after\":1", b"{\"after\":1}", b"\0", b""] {
        let payload = bytes::Bytes::copy_from_slice(payload);
        let tag = reader.request("job-manager.events", Some(payload), Flags::STREAMING);
        assert_eq!(reader.response(tag).await.errnum, 71);
    }
    let right = json_payload(&json!({"after": newest, "epoch": epoch}));
    let tag = reader.request("job-manager.events", Some(right), Flags::STREAMING);
    assert_eq!(body(&reader.response(tag).await.payload)["seq"], newest);
    assert_eq!(int(&stats(&client).await["journal"], "listeners"), 1);
}

/// Readers of all kinds around a purge: what is missing is of jobs named in a purge entry that came by then, and all else is there, also when
/// the log holds nothing but purged entries for many pages.
#[tokio::test]
async fn promise_complete_but_for_jobs_named_in_a_purge_entry() {
    let world = World::with(|config| config.journal_size_limit = 5).await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2).await;
    let (stays, _) = submit(&client).await;
    let mut gone = Vec::new();
    for _ in 0..12 {
        let (id, _) = submit(&client).await;
        engine.run(id).await;
        gone.push(id);
    }
    let before = everything(&client).await;
    let purge =
        json!({"age_limit": -1.0, "num_limit": -1, "batch": 100, "force": true, "jobs": gone});
    let answer = ok(&client, "job-manager.purge", purge).await;
    assert_eq!(answer["count"], 12, "{answer}");
    let purged = int(&answer, "seq");
    let (_, newest) = submit(&client).await;
    let is_left = |entry: &&Value| !gone.contains(&entry["id"].as_u64().unwrap_or(0));
    let expected: Vec<Value> = before.iter().filter(is_left).cloned().collect();
    let after_all = everything(&client).await;
    assert_eq!(after_all[..expected.len()], expected[..]);
    let mut named = BTreeSet::new();
    for entry in &after_all {
        if entry["entry"]["name"] == "purge" {
            assert_eq!(
                (&entry["log"], int(entry, "seq") <= purged),
                (&json!("system"), true)
            );
            let jobs = entry["entry"]["context"]["jobs"].as_array().unwrap();
            named.extend(jobs.iter().filter_map(Value::as_u64));
        }
    }
    assert_eq!(named, gone.iter().copied().collect());
    // Resumed from before all of it, in the middle of it, and after it; before and after a restart.
    let world = {
        resumes(&world, newest, &after_all).await;
        drop(engine);
        world.restart().await
    };
    let client = world.client().await;
    assert_eq!(everything(&client).await, after_all);
    resumes(&world, newest, &after_all).await;
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(list["jobs"][0]["id"], stays);
}

async fn resumes(world: &World, newest: u64, all: &[Value]) {
    for cursor in [0, 3, 40, newest - 6, newest] {
        let client = world.client().await;
        let mut tap = Tap::open(&client, json!({"after": cursor})).await;
        tap.next().await;
        let got = if cursor < newest {
            tap.until(newest).await
        } else {
            Vec::new()
        };
        let expected: Vec<&Value> = all
            .iter()
            .filter(|entry| int(entry, "seq") > cursor)
            .collect();
        // Of what is still in memory more may come.
        let got: Vec<&Value> = got.iter().filter(|entry| all.contains(entry)).collect();
        assert_eq!(got, expected, "after {cursor}");
    }
}
