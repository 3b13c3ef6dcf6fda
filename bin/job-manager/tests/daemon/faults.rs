//! Faults of stores that somebody damaged, each with the instance that once ended or lied because of it.

use crate::world::{Tap, World, int, ok, refused, stats, stats_until, submit};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::Path;

fn purge(more: Value) -> Value {
    let mut payload =
        json!({"age_limit": -1.0, "num_limit": -1, "batch": 100, "force": true, "all": false});
    let object = payload.as_object_mut().unwrap();
    object.extend(more.as_object().unwrap().clone());
    payload
}

fn sql(store: &Path, sql: &str) {
    Connection::open(store).unwrap().execute_batch(sql).unwrap();
}

/// Overwrites the first leaf of the job table with zeros.
fn zero_a_page_of_jobs(store: &Path) {
    let db = Connection::open(store).unwrap();
    let root: u32 = db
        .query_row(
            "SELECT rootpage FROM sqlite_master WHERE name = 'job'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(db);
    let mut bytes = std::fs::read(store).unwrap();
    let at = (root as usize - 1) * 4096;
    assert_eq!(bytes[at], 5, "an inner page");
    let cell = at + usize::from(u16::from_be_bytes([bytes[at + 12], bytes[at + 13]]));
    let leaf = u32::from_be_bytes(bytes[cell..cell + 4].try_into().unwrap()) as usize;
    bytes[(leaf - 1) * 4096..leaf * 4096].fill(0);
    std::fs::write(store, bytes).unwrap();
}

#[tokio::test]
async fn fault_a_purge_of_jobs_on_a_broken_page_is_refused_and_passes_them_over() {
    let world = World::new().await;
    let client = world.client().await;
    for _ in 0..40 {
        let (id, _) = submit(&client).await;
        let cancel = json!({"id": id, "type": "cancel", "severity": 0});
        ok(&client, "job-manager.raise", cancel).await;
    }
    let (dir, mut config) = world.stop().await;
    zero_a_page_of_jobs(&config.statedir.join("store.sqlite"));
    let world = World::open(dir, config).await;
    let client = world.client().await;
    // A listing meets them.
    Tap::open(&client, json!({"from": "all"}))
        .await
        .backlog()
        .await;
    let bad = int(&stats(&client).await, "set_aside");
    assert!((1..40).contains(&bad), "{bad}");
    let mut tap = Tap::open(&client, json!({"from": "active"})).await;
    let id = loop {
        let response = tap.next().await;
        if response["caught_up"] == true {
            break response["set_aside"][0].as_u64().unwrap();
        }
    };
    let (errnum, text) = refused(
        &client,
        "job-manager.purge-id",
        json!({"id": id, "force": 1}),
    )
    .await;
    assert!(
        errnum == 5 && text.contains("weir store recover"),
        "{errnum} {text}"
    );
    let named = ok(&client, "job-manager.purge", purge(json!({"jobs": [id]}))).await;
    assert_eq!(int(&named, "count"), 0);
    assert_eq!(named["errors"][0][1], 5);
    // The limits of the instance are kept to, but for these.
    drop((client, tap));
    let (dir, changed) = world.stop().await;
    config = changed;
    config.retention.inactive_num = Some(20);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    stats_until(&client, |stats| int(stats, "inactive_jobs") == 20 + bad).await;
    let all = ok(&client, "job-manager.purge", purge(json!({"all": true}))).await;
    assert_eq!(int(&all, "count"), 20);
    let none = ok(&client, "job-manager.purge", purge(json!({"all": true}))).await;
    assert_eq!(int(&none, "count"), 0);
    submit(&client).await;
    world.restart().await.stop().await;
}

#[tokio::test]
async fn fault_a_row_under_an_id_that_was_never_given_stops_no_submit() {
    for id in ["-1", "-2", "max(id) + 1 FROM job) - 0 * (SELECT 1"] {
        let world = World::new().await;
        let client = world.client().await;
        let (first, _) = submit(&client).await;
        submit(&client).await;
        let (dir, config) = world.stop().await;
        sql(
            &config.statedir.join("store.sqlite"),
            &format!("UPDATE job SET id = (SELECT {id}) WHERE id = (SELECT max(id) FROM job)"),
        );
        let world = World::open(dir, config).await;
        let client = world.client().await;
        // That row, and the job that has none any more.
        assert_eq!(int(&stats(&client).await, "set_aside"), 2, "{id}");
        let (second, _) = submit(&client).await;
        let (third, _) = submit(&client).await;
        assert!(first < second && second < third && third < 1 << 62, "{id}");
        let urgency = json!({"id": third, "urgency": 3});
        ok(&client, "job-manager.urgency", urgency).await;
        // Nor once it is purged.
        let aside = match id {
            "-1" => u64::MAX,
            "-2" => u64::MAX - 1,
            _ => continue,
        };
        let named = ok(
            &client,
            "job-manager.purge",
            purge(json!({"jobs": [aside]})),
        )
        .await;
        assert_eq!(int(&named, "count"), 1, "{id}");
        let world = world.restart().await;
        let (fourth, _) = submit(&world.client().await).await;
        assert!(third < fourth && fourth < 1 << 62, "{id}");
        world.stop().await;
    }
}

#[tokio::test]
async fn fault_ids_that_are_used_up_are_a_refusal() {
    let world = World::new().await;
    submit(&world.client().await).await;
    let (dir, config) = world.stop().await;
    let store = config.statedir.join("store.sqlite");
    sql(
        &store,
        "INSERT OR REPLACE INTO meta VALUES ('store.max_jobid', '18446744073709551615')",
    );
    let report = store::check(&store, &mut |_, _, _| {}).unwrap();
    assert!(
        report
            .problems
            .iter()
            .any(|problem| problem.what.contains("store.max_jobid"))
    );
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let (errnum, text) = refused(&client, "job-ingest.submit", crate::world::submission(16)).await;
    assert!(errnum == 75 && text.contains("no more job ids"), "{text}");
    ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    world.stop().await;
}
