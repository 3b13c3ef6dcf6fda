//! A job that is damaged in the store is set aside: named, left out, not run; everything else goes on.

use crate::engine::Engine;
use crate::world::{Tap, World, int, ok, refused, stats, submit};
use rusqlite::Connection;
use serde_json::{Value, json};

fn hurt(path: &std::path::Path, sql: &str) {
    let db = Connection::open(path).unwrap();
    db.execute_batch("PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'job'")
        .unwrap();
    drop(db);
    let db = Connection::open(path).unwrap();
    db.execute_batch(sql).unwrap();
}

/// Ids in a backlog, and what `caught_up` says is set aside.
async fn listed(client: &rpc::Client, payload: Value) -> (Vec<u64>, Value) {
    let mut tap = Tap::open(client, payload).await;
    let mut ids = Vec::new();
    loop {
        let response = tap.next().await;
        let events = response["events"].as_array().unwrap();
        ids.extend(events.iter().filter_map(|event| event["id"].as_u64()));
        if response["caught_up"] == true {
            ids.sort_unstable();
            ids.dedup();
            return (ids, response["set_aside"].clone());
        }
    }
}

#[tokio::test]
async fn fault_a_damaged_job_is_set_aside_and_everything_else_goes_on() {
    let spec = |data: &str| {
        format!(
            "INSERT INTO blob (refs, data) VALUES (1, {data}); UPDATE job SET spec = last_insert_rowid() WHERE id = "
        )
    };
    let damages = [
        // What is no JSON, what is none of a jobspec, what is no text.
        spec("'{\"version\":1,'"),
        spec("'{\"version\":1}'"),
        spec("x'ff00'"),
        "UPDATE job SET spec = 4711 WHERE id = ".to_owned(),
        "UPDATE job SET userid = 'x' WHERE id = ".to_owned(),
        "UPDATE job SET active = NULL WHERE id = ".to_owned(),
        "UPDATE job SET eventlog = replace(eventlog, 'validate', 'vali') WHERE id = ".to_owned(),
        // It reads well, and does not apply.
        "UPDATE job SET eventlog = replace(eventlog, '\"depend\"', '\"alloc\"') WHERE id = "
            .to_owned(),
    ];
    for sql in damages {
        let world = World::new().await;
        let client = world.client().await;
        let (first, _) = submit(&client).await;
        let (bad, _) = submit(&client).await;
        let (last, seq) = submit(&client).await;
        let (dir, config) = world.stop().await;
        hurt(
            &config.statedir.join("store.sqlite"),
            &format!("{sql}{bad}"),
        );

        let world = World::open(dir, config).await;
        let client = world.client().await;
        assert_eq!(int(&stats(&client).await, "set_aside"), 1, "{sql}");
        for from in ["active", "all"] {
            assert_eq!(
                listed(&client, json!({"from": from})).await,
                (vec![first, last], json!([bad])),
                "{sql}: from {from}"
            );
        }
        let (errnum, text) = refused(
            &client,
            "job-manager.lookup",
            json!({"id": bad, "keys": ["jobspec"]}),
        )
        .await;
        assert!(
            errnum == 5 && text.contains("weir store check"),
            "{sql}: {errnum} {text}"
        );
        // The engine is asked for the others only, and they end.
        let mut engine = Engine::new(&world, 8).await;
        engine.run(first).await;
        engine.run(last).await;
        assert!(
            engine.log.iter().all(|(_, id)| *id != bad),
            "{sql}: {:?}",
            engine.log
        );
        let (_, newer) = submit(&client).await;
        assert!(newer > seq);
        // Again after a restart, and after all the others have ended.
        drop(engine);
        let world = world.restart().await;
        let client = world.client().await;
        let (ids, aside) = listed(&client, json!({"from": "all"})).await;
        assert_eq!((ids.len(), aside), (3, json!([bad])), "{sql}");
        world.stop().await;
    }
}

#[tokio::test]
async fn fault_a_job_damaged_while_the_daemon_runs_is_named_to_the_next_reader() {
    let world = World::new().await;
    let client = world.client().await;
    let (good, _) = submit(&client).await;
    let (bad, _) = submit(&client).await;
    let cancel = json!({"id": bad, "type": "cancel", "severity": 0});
    ok(&client, "job-manager.raise", cancel).await;
    let none = listed(&client, json!({"from": "all"})).await;
    assert_eq!(none, (vec![good, bad], Value::Null));
    let sql = format!("UPDATE job SET spec = 4711 WHERE id = {bad}");
    Connection::open(world.path("store.sqlite"))
        .unwrap()
        .execute(&sql, [])
        .unwrap();
    assert_eq!(
        listed(&client, json!({"from": "all"})).await,
        (vec![good], json!([bad]))
    );
    assert_eq!(int(&stats(&client).await, "set_aside"), 1);
    world.stop().await;
}

#[tokio::test]
async fn fault_a_bad_row_of_the_log_hides_no_job_of_a_backlog() {
    let world = World::new().await;
    let client = world.client().await;
    let (first, _) = submit(&client).await;
    let (second, _) = submit(&client).await;
    let whole = crate::world::everything(&client).await;
    for sql in [
        "UPDATE log SET lines = 'x' WHERE last_seq = (SELECT min(last_seq) FROM log)",
        "DELETE FROM log WHERE last_seq = (SELECT max(last_seq) FROM log)",
        "DELETE FROM log",
    ] {
        Connection::open(world.path("store.sqlite"))
            .unwrap()
            .execute(sql, [])
            .unwrap();
        assert_eq!(crate::world::everything(&client).await, whole, "{sql}");
        let (ids, aside) = listed(&client, json!({"from": "all"})).await;
        assert_eq!((ids, aside), (vec![first, second], Value::Null), "{sql}");
    }
    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(crate::world::everything(&client).await, whole);
    let (_, seq) = submit(&client).await;
    assert_eq!(seq, whole.len() as u64 + 4, "no seq is given twice");
    world.stop().await;
}

/// What is in no copy is not passed over: cursors from before it are refused, and who asks for everything gets all that there is.
#[tokio::test]
async fn fault_who_would_miss_lost_entries_is_told() {
    let world = World::new().await;
    let client = world.client().await;
    let (first, _) = submit(&client).await;
    let (lost, newest) = submit(&client).await;
    let (last, _) = submit(&client).await;
    let world = world.restart().await;
    let client = world.client().await;
    let sql =
        format!("DELETE FROM log WHERE last_seq = {newest}; DELETE FROM job WHERE id = {lost}");
    Connection::open(world.path("store.sqlite"))
        .unwrap()
        .execute_batch(&sql)
        .unwrap();
    let mut tap = Tap::open(&client, json!({"after": 1})).await;
    let ended = loop {
        match crate::world::soon(tap.stream.next()).await.unwrap() {
            Ok(json) => {
                let events = crate::world::value(&json)["events"]
                    .as_array()
                    .unwrap()
                    .len();
                assert_eq!(
                    events, 0,
                    "what follows is not shown as if nothing was missing"
                );
            }
            Err(error) => break error,
        }
    };
    assert_eq!(ended.errnum, wire::errno::ESTALE, "{ended}");
    assert!(
        ended
            .to_string()
            .contains(&format!("holds {} to", newest + 1)),
        "{ended}"
    );
    let (ids, _) = listed(&client, json!({"from": "all"})).await;
    assert_eq!(ids, [first, last]);
    let resumed = Tap::open(&client, json!({"after": newest})).await;
    drop(resumed);
    world.stop().await;
}
