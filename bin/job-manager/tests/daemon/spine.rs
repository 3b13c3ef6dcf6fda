//! Invariants 2, 3, 5 and 6 as a client can see them: order, durability, one encoding, shared batches, one commit for one request.

use crate::world::{
    NOBODY, Tap, World, call, everything, int, names, ok, soon, stats, submit, submit_many, value,
};
use rpc::client::Reply;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;

#[tokio::test]
async fn invariant_2_five_thousand_pipelined_submits_are_answered_in_seq_order() {
    let world = World::new().await;
    let client = world.client().await;
    let before = stats(&client).await;
    let all = submit_many(&client, 5000).await;
    assert!(
        all.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "ids in the order asked"
    );
    for (at, (_, seq)) in all.iter().enumerate() {
        assert_eq!(
            *seq,
            4 * (at as u64 + 1),
            "four entries a job, none between"
        );
    }
    let after = stats(&client).await;
    let syncs = int(&after["store"], "syncs") - int(&before["store"], "syncs");
    assert!(
        syncs < 500,
        "{syncs} fsyncs: what was asked together is stored together"
    );
    // Answered is stored: a daemon that starts from the files alone has them.
    let world = world.restart().await;
    let list = ok(
        &world.client().await,
        "job-manager.list",
        json!({"max_entries": 0}),
    )
    .await;
    let ids: Vec<u64> = list["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| int(job, "id"))
        .collect();
    assert_eq!(ids, all.iter().map(|(id, _)| *id).collect::<Vec<_>>());
}

/// An answer waits for what was applied before it was decided, also when it changes nothing itself.
#[tokio::test]
async fn invariant_2_refusals_and_reads_keep_their_place_behind_changes() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let mut order: Vec<(&str, Reply)> = Vec::new();
    for round in 0..50 {
        let change = json!({"id": id, "urgency": round % 31});
        let bad = json!({"id": NOBODY, "urgency": 3});
        let read = json!({"max_entries": 0});
        for (what, topic, payload) in [
            ("change", "job-manager.urgency", &change),
            ("refusal", "job-manager.urgency", &bad),
            ("read", "job-manager.list", &read),
        ] {
            order.push((what, client.begin(topic, payload).await.unwrap()));
        }
    }
    let mut urgency = Value::Null;
    for (at, (what, reply)) in order.into_iter().enumerate() {
        let answer = soon(reply.json()).await;
        match what {
            "refusal" => assert_eq!(answer.unwrap_err().text, "unknown job"),
            "read" => {
                let job = &value(&answer.unwrap())["jobs"][0];
                assert_eq!(
                    job["urgency"],
                    json!((at / 3) % 31),
                    "the state right after its change"
                );
            }
            _ => {
                let old = value(&answer.unwrap())["old_urgency"].clone();
                assert!(urgency.is_null() || old == urgency);
                urgency = json!((at / 3) % 31);
            }
        }
    }
}

#[tokio::test]
async fn invariant_3_one_encoding_for_streams_of_both_forms_lookups_and_the_store() {
    #[derive(serde::Deserialize)]
    struct Native {
        #[serde(default)]
        events: Vec<Entry>,
    }
    #[derive(serde::Deserialize)]
    struct Entry {
        entry: Box<RawValue>,
    }
    #[derive(serde::Deserialize)]
    struct Flux {
        id: i64,
        events: Vec<Box<RawValue>>,
    }
    let world = World::new().await;
    let client = world.client().await;
    let mut live = client
        .stream("job-manager.events", &json!({}))
        .await
        .unwrap();
    let mut flux = client
        .stream("job-manager.events-journal", &json!({"full": true}))
        .await
        .unwrap();
    let first: Flux = serde_json::from_slice(&soon(flux.next()).await.unwrap().unwrap()).unwrap();
    assert_eq!(
        (first.id, first.events.len()),
        (-1, 0),
        "the sentinel, though there was no job"
    );
    let (id, seq) = submit(&client).await;
    let memo = json!({"id": id, "memo": {"ƒ": "ünïcode \"and\" \u{7f} 1e3", "n": 1.50, "big": 18446744073709551615u64}});
    let seq = seq.max(int(&ok(&client, "job-manager.memo", memo).await, "seq"));
    assert_eq!(seq, 5);

    let mut of_live: Vec<String> = Vec::new();
    while of_live.len() < 5 {
        let batch: Native =
            serde_json::from_slice(&soon(live.next()).await.unwrap().unwrap()).unwrap();
        of_live.extend(batch.events.iter().map(|one| one.entry.get().to_owned()));
    }
    let mut of_flux: Vec<String> = Vec::new();
    while of_flux.len() < 5 {
        let one: Flux = serde_json::from_slice(&soon(flux.next()).await.unwrap().unwrap()).unwrap();
        assert_eq!(
            (one.id, one.events.len()),
            (id as i64, 1),
            "one event a response"
        );
        of_flux.push(one.events[0].get().to_owned());
    }
    let lookup = json!({"id": id, "keys": ["eventlog"]});
    let found = ok(&client, "job-manager.lookup", lookup.clone()).await;
    let of_store: Vec<&str> = found["eventlog"].as_str().unwrap().lines().collect();
    assert_eq!(of_live, of_flux);
    assert_eq!(of_live, of_store);
    // The same again from a store that is read anew, in both backlogs.
    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(ok(&client, "job-manager.lookup", lookup).await, found);
    let mut again = client
        .stream("job-manager.events", &json!({"from": "all"}))
        .await
        .unwrap();
    let page: Native = serde_json::from_slice(&soon(again.next()).await.unwrap().unwrap()).unwrap();
    let of_backlog: Vec<&str> = page.events.iter().map(|one| one.entry.get()).collect();
    assert_eq!(of_backlog, of_store);
    let mut again = client
        .stream("job-manager.events-journal", &json!({}))
        .await
        .unwrap();
    let page: Flux = serde_json::from_slice(&soon(again.next()).await.unwrap().unwrap()).unwrap();
    let of_backlog: Vec<&str> = page.events.iter().map(|one| one.get()).collect();
    assert_eq!(of_backlog, of_store);
}

#[tokio::test]
async fn invariant_5_a_hundred_listeners_of_one_filter_share_each_batch() {
    const LISTENERS: u64 = 100;
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let mut taps = Vec::new();
    for _ in 0..LISTENERS {
        let own = world.client().await;
        let filter = json!({"allow": ["urgency", "priority"], "deny": ["memo"]});
        let mut tap = Tap::open(&own, filter).await;
        tap.backlog().await;
        taps.push((own, tap));
    }
    let before = stats(&client).await["journal"].clone();
    assert_eq!(
        (int(&before, "listeners"), int(&before, "groups")),
        (LISTENERS, 1)
    );
    let mut commits = 0;
    for urgency in 0..20 {
        let seq = int(
            &ok(
                &client,
                "job-manager.urgency",
                json!({"id": id, "urgency": urgency}),
            )
            .await,
            "seq",
        );
        commits += 1;
        for (_, tap) in &mut taps {
            assert_eq!(names(&tap.until(seq).await, id), ["urgency", "priority"]);
        }
    }
    let after = stats(&client).await["journal"].clone();
    let grown = |key: &str| int(&after, key) - int(&before, key);
    assert_eq!(grown("commits"), commits);
    assert_eq!(grown("batches_encoded"), commits, "once, for all of them");
    assert_eq!(grown("batches"), commits * LISTENERS);
    assert_eq!(grown("entries_delivered"), 2 * commits * LISTENERS);
}

#[tokio::test]
async fn invariant_6_one_bulk_request_is_one_commit_one_batch_each_and_one_reorder_pass() {
    const JOBS: usize = 500;
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, JOBS).await;
    let (first, second) = (world.client().await, world.client().await);
    let mut taps = [
        Tap::open(&first, json!({})).await,
        Tap::open(&second, json!({"deny": ["submit"]})).await,
    ];
    for tap in &mut taps {
        tap.backlog().await;
    }
    let before = stats(&client).await;
    let mut pairs: Vec<Value> = jobs.iter().map(|(id, _)| json!([id, 20])).collect();
    pairs.push(json!([jobs[0].0, 32]));
    pairs.push(json!([NOBODY, 20]));
    let answer = ok(&client, "job-manager.priority", json!({"jobs": pairs})).await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), JOBS + 2, "one a pair, in order");
    assert_eq!(results[0], json!([jobs[0].0, 16]));
    assert_eq!(
        results[JOBS],
        json!([jobs[0].0, 22, "urgency value is out of range"])
    );
    assert_eq!(results[JOBS + 1], json!([NOBODY, 22, "unknown job"]));
    for tap in &mut taps {
        let batch = tap.next().await;
        let events = batch["events"].as_array().unwrap();
        assert_eq!(events.len(), 2 * JOBS, "all of it in one response");
        assert_eq!(batch["seq"], answer["seq"]);
    }
    let after = stats(&client).await;
    let grown = |part: &str, key: &str| int(&after[part], key) - int(&before[part], key);
    assert_eq!(grown("manager", "commits"), 1);
    assert_eq!(grown("store", "commits"), 1);
    assert_eq!(grown("store", "syncs"), 1);
    assert_eq!(grown("manager", "reorder_passes"), 1);
    assert_eq!(grown("journal", "commits"), 1);
    assert_eq!(grown("journal", "batches"), 2, "one to each listener");
}

#[tokio::test]
async fn invariant_6_one_prioritize_is_one_commit_one_batch_each_and_one_reorder_pass() {
    const JOBS: usize = 500;
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, JOBS).await;
    let (first, second) = (world.client().await, world.client().await);
    let mut taps = [
        Tap::open(&first, json!({})).await,
        Tap::open(&second, json!({"deny": ["submit"]})).await,
    ];
    for tap in &mut taps {
        tap.backlog().await;
    }
    let before = stats(&client).await;
    let mut pairs: Vec<Value> = jobs
        .iter()
        .zip(1000..)
        .map(|((id, _), priority)| json!([id, priority]))
        .collect();
    pairs.push(json!([jobs[0].0, -1]));
    pairs.push(json!([NOBODY, 20]));
    let answer = ok(&client, "job-manager.prioritize", json!({"jobs": pairs})).await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), JOBS + 2, "one a pair, in order");
    assert_eq!(results[0], json!([jobs[0].0, 16]));
    assert_eq!(results[JOBS][1], 22);
    assert_eq!(results[JOBS + 1], json!([NOBODY, 22, "unknown job"]));
    for tap in &mut taps {
        let batch = tap.next().await;
        let events = batch["events"].as_array().unwrap();
        assert_eq!(
            events.len(),
            JOBS,
            "all of it in one response, one event a job"
        );
        assert_eq!(batch["seq"], answer["seq"]);
    }
    let after = stats(&client).await;
    let grown = |part: &str, key: &str| int(&after[part], key) - int(&before[part], key);
    assert_eq!(grown("manager", "commits"), 1);
    assert_eq!(grown("manager", "reorder_passes"), 1);
    assert_eq!(grown("store", "commits"), 1);
    assert_eq!(grown("store", "syncs"), 1);
    assert_eq!(grown("journal", "commits"), 1);
    assert_eq!(grown("journal", "batches"), 2, "one to each listener");

    // What is that already costs nothing.
    pairs.truncate(JOBS);
    let again = ok(&client, "job-manager.prioritize", json!({"jobs": pairs})).await;
    assert_eq!(again["seq"], answer["seq"]);
    assert_eq!(
        again["results"][JOBS - 1],
        json!([jobs[JOBS - 1].0, 1000 + JOBS - 1])
    );
    let idle = stats(&client).await;
    assert_eq!(
        int(&idle["manager"], "commits"),
        int(&after["manager"], "commits")
    );
    assert_eq!(
        int(&idle["manager"], "reorder_passes"),
        int(&after["manager"], "reorder_passes")
    );
}

/// No timer delays a commit: one at a time is answered long before anything that gathers would.
#[tokio::test]
async fn invariant_6_a_commit_waits_for_no_timer() {
    let world = World::with(|config| config.batch_interval = crate::world::LONG).await;
    let client = world.client().await;
    for _ in 0..20 {
        submit(&client).await;
    }
    assert_eq!(int(&stats(&client).await["store"], "syncs"), 20);
}

/// Many clients at once, each with its own order: all is answered, ids and seqs are unique, the journal has every entry once.
#[tokio::test]
async fn invariant_2_many_clients_at_once_make_one_gapless_journal() {
    let world = World::new().await;
    let mut tasks = Vec::new();
    for client in 0..8 {
        let client_of = world.client().await;
        tasks.push(tokio::spawn(async move {
            let mut seqs = Vec::new();
            for round in 0..40 {
                let (id, seq) = submit(&client_of).await;
                seqs.push((id, seq));
                if (round + client) % 3 == 0 {
                    let cancel = json!({"id": id, "type": "cancel", "severity": 0});
                    seqs.push((
                        id,
                        int(&ok(&client_of, "job-manager.raise", cancel).await, "seq"),
                    ));
                }
                let bad = call(
                    &client_of,
                    "job-ingest.submit",
                    json!({"J": "x", "urgency": 1, "flags": 0}),
                );
                assert_eq!(bad.await.unwrap_err().errnum, 22);
            }
            assert!(seqs.windows(2).all(|pair| pair[0].1 < pair[1].1));
            seqs
        }));
    }
    let mut told: HashMap<u64, u64> = HashMap::new();
    for task in tasks {
        for (id, seq) in soon(task).await.unwrap() {
            assert!(told.insert(seq, id).is_none(), "seq {seq} was told twice");
        }
    }
    let all = everything(&world.client().await).await;
    let mut seqs: Vec<u64> = all.iter().map(|one| int(one, "seq")).collect();
    seqs.sort_unstable();
    let newest = *seqs.last().unwrap();
    assert_eq!(seqs, (1..=newest).collect::<Vec<_>>(), "every entry once");
    for entry in &all {
        if let Some(id) = told.get(&int(entry, "seq")) {
            assert_eq!(*id, int(entry, "id"));
        }
    }
}
