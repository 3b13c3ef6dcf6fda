//! `job-manager.lookup` and `getattr`: what is on disk, as of what was asked before.

use crate::engine::{Engine, r};
use crate::world::{
    JOBSPEC, NOBODY, Tap, World, int, ok, own_uid, refused, soon, submit, value, wrap,
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_lookup_has_every_key_as_it_is_stored() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, seq) = submit(&client).await;
    let keys = json!({"id": id, "keys": ["jobspec", "J", "eventlog"]});
    let found = ok(&client, "job-manager.lookup", keys).await;
    assert_eq!(found["J"], wrap(own_uid(), JOBSPEC));
    let jobspec: Value = serde_json::from_str(found["jobspec"].as_str().unwrap()).unwrap();
    let mut without: Value = serde_json::from_str(JOBSPEC).unwrap();
    without["attributes"]["system"]
        .as_object_mut()
        .unwrap()
        .remove("environment");
    assert_eq!(jobspec, without);
    assert_eq!(
        (int(&found, "seq"), int(&found, "userid")),
        (seq, u64::from(own_uid()))
    );
    assert_eq!(int(&found, "eventlog_seq"), 4);
    let missing = |key: &str| json!({"id": id, "keys": ["jobspec", key]});
    for key in ["R", "nosuch", "guest.exec.eventlog"] {
        let text = format!("{key}: key not found");
        assert_eq!(
            refused(&client, "job-manager.lookup", missing(key)).await,
            (2, text)
        );
    }
    let nobody = json!({"id": NOBODY, "keys": []});
    assert_eq!(
        refused(&client, "job-manager.lookup", nobody).await,
        (2, "invalid job id".into())
    );
    let plain = ok(&client, "job-manager.lookup", json!({"id": id, "keys": []})).await;
    assert_eq!(plain, json!({"id": id, "userid": own_uid(), "seq": seq}));

    let attrs = json!({"id": id, "attrs": ["jobspec", "eventlog"]});
    let found = ok(&client, "job-manager.getattr", attrs).await;
    assert_eq!(found["jobspec"], without);
    let names: Vec<&str> = found["eventlog"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["submit", "validate", "depend", "priority"]);
    for (attrs, errnum, text) in [
        (json!(["R"]), 2, "R is NULL"),
        (json!(["x"]), 2, "unknown attr x"),
    ] {
        let ask = json!({"id": id, "attrs": attrs});
        assert_eq!(
            refused(&client, "job-manager.getattr", ask).await,
            (errnum, text.into())
        );
    }
    let nobody = json!({"id": NOBODY, "attrs": []});
    assert_eq!(
        refused(&client, "job-manager.getattr", nobody).await,
        (22, "unknown job".into())
    );
}

#[tokio::test]
async fn r_is_there_once_allocated_and_live_only_entries_are_counted_but_not_shown() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 1).await;
    let (id, _) = submit(&client).await;
    engine.run(id).await;
    let keys = json!({"id": id, "keys": ["R", "eventlog"]});
    let found = ok(&client, "job-manager.lookup", keys).await;
    let stored: Value = serde_json::from_str(found["R"].as_str().unwrap()).unwrap();
    assert_eq!(stored, r());
    let names: Vec<String> = found["eventlog"]
        .as_str()
        .unwrap()
        .lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(
        names.join(" "),
        "submit validate depend priority alloc start finish release free clean"
    );
    assert_eq!(
        int(&found, "eventlog_seq"),
        11,
        "annotations is the eleventh"
    );
}

/// Sent right behind a change, a look-up shows it: it waits until what was applied is durable.
#[tokio::test]
async fn invariant_2_a_lookup_waits_for_what_was_applied_before_it() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    for round in 0..50 {
        let change = client
            .begin(
                "job-manager.urgency",
                &json!({"id": id, "urgency": round % 31}),
            )
            .await
            .unwrap();
        let lookup = client
            .begin(
                "job-manager.lookup",
                &json!({"id": id, "keys": ["eventlog"]}),
            )
            .await
            .unwrap();
        let found = value(&soon(lookup.json()).await.unwrap());
        let seq = int(&value(&soon(change.json()).await.unwrap()), "seq");
        assert_eq!(int(&found, "eventlog_seq"), 6 + 2 * round);
        assert!(int(&found, "seq") >= seq);
    }
}

/// `seq` of an answer is how far the whole state is, not how old the job's newest entry is.
#[tokio::test]
async fn seq_of_a_lookup_is_the_newest_durable_one() {
    let world = World::new().await;
    let client = world.client().await;
    let (old, _) = submit(&client).await;
    let (_, seq) = submit(&client).await;
    let found = ok(
        &client,
        "job-manager.lookup",
        json!({"id": old, "keys": ["eventlog"]}),
    )
    .await;
    assert_eq!(int(&found, "seq"), seq);
}

/// `eventlog_seq` joins a look-up to the journal: nothing is missing between them and nothing comes twice.
#[tokio::test]
async fn a_lookup_and_a_stream_join_without_a_gap() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let watcher = world.client().await;
    let mut tap = Tap::open(&watcher, json!({"ids": [id]})).await;
    tap.backlog().await;
    let mut last = 0;
    for urgency in 0..30 {
        let change = client
            .begin(
                "job-manager.urgency",
                &json!({"id": id, "urgency": urgency}),
            )
            .await
            .unwrap();
        if urgency == 15 {
            let lookup = json!({"id": id, "keys": ["eventlog"]});
            let found = ok(&client, "job-manager.lookup", lookup).await;
            last = int(&found, "eventlog_seq");
        }
        soon(change.json()).await.unwrap();
    }
    let seq = int(&crate::world::stats(&client).await, "seq");
    let live = tap.until(seq).await;
    let after: Vec<u64> = live
        .iter()
        .map(|one| int(one, "eventlog_seq"))
        .filter(|at| *at > last)
        .collect();
    assert_eq!(after, (last + 1..=4 + 60).collect::<Vec<_>>());
}

#[tokio::test]
async fn three_thousand_lookups_at_once_are_all_answered() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let mut replies = Vec::new();
    for _ in 0..3000 {
        replies.push(
            client
                .begin(
                    "job-manager.lookup",
                    &json!({"id": id, "keys": ["jobspec"]}),
                )
                .await
                .unwrap(),
        );
    }
    for reply in replies {
        assert_eq!(int(&value(&soon(reply.json()).await.unwrap()), "id"), id);
    }
    let many: Vec<&str> = vec!["jobspec"; 65];
    let (errnum, text) = refused(
        &client,
        "job-manager.lookup",
        json!({"id": id, "keys": many}),
    )
    .await;
    assert_eq!(
        (errnum, text.as_str()),
        (71, "keys: expected 64 at most, got 65")
    );
}
