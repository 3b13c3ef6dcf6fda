//! What is gone from the store without a trace: a start puts it back from the log, or sets the job aside by name.

use crate::engine::Engine;
use crate::world::{Tap, World, everything, int, names, ok, refused, stats, submit};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::path::Path;

fn sql(statedir: &Path, sql: &str) {
    Connection::open(statedir.join("store.sqlite"))
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

async fn set_aside(client: &rpc::Client) -> Value {
    let mut tap = Tap::open(client, json!({"from": "active"})).await;
    loop {
        let response = tap.next().await;
        if response["caught_up"] == true {
            return response["set_aside"].clone();
        }
    }
}

#[tokio::test]
async fn fault_a_held_job_whose_hold_is_gone_from_the_archive_is_held_after_a_start() {
    let world = World::new().await;
    let client = world.client().await;
    let (held, _) = submit(&client).await;
    let (other, _) = submit(&client).await;
    let hold = json!({"id": held, "urgency": 0});
    ok(&client, "job-manager.urgency", hold).await;
    let whole = everything(&client).await;
    let (dir, config) = world.stop().await;
    // What a page that came back as it was before leaves.
    sql(&config.statedir, "DELETE FROM tail");

    let world = World::open(dir, config).await;
    let client = world.client().await;
    assert_eq!(int(&stats(&client).await, "set_aside"), 0);
    assert_eq!(everything(&client).await, whole);
    let mut engine = Engine::new(&world, 8).await;
    engine.run(other).await;
    assert!(
        engine.log.iter().all(|(_, id)| *id != held),
        "{:?}",
        engine.log
    );
    let asked = json!({"id": held, "keys": ["eventlog"]});
    let eventlog = ok(&client, "job-manager.lookup", asked).await["eventlog"].to_string();
    assert_eq!(eventlog.matches("urgency").count(), 3, "{eventlog}");
    drop(engine);
    // It is in the archive again, and counted.
    let (dir, config) = world.stop().await;
    let db = Connection::open(config.statedir.join("store.sqlite")).unwrap();
    let log = db.execute("DELETE FROM log", []).unwrap();
    assert!(log > 0);
    drop(db);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let all = everything(&client).await;
    assert_eq!(names(&all, held), names(&whole, held));
    world.stop().await;
}

#[tokio::test]
async fn fault_a_job_whose_row_is_gone_is_named_until_it_is_purged_and_not_taken_for_purged() {
    let world = World::new().await;
    let client = world.client().await;
    let (ended, _) = submit(&client).await;
    let (active, _) = submit(&client).await;
    let (other, _) = submit(&client).await;
    let (purged, _) = submit(&client).await;
    for id in [ended, purged] {
        let cancel = json!({"id": id, "type": "cancel", "severity": 0});
        ok(&client, "job-manager.raise", cancel).await;
    }
    let purge = |ids: &[u64]| json!({"jobs": ids, "force": true, "batch": 100, "age_limit": -1.0, "num_limit": -1, "all": false});
    ok(&client, "job-manager.purge", purge(&[purged])).await;
    let (dir, config) = world.stop().await;
    sql(
        &config.statedir,
        &format!("DELETE FROM job WHERE id IN ({ended}, {active})"),
    );

    let mut world = World::open(dir, config).await;
    for _ in 0..2 {
        let client = world.client().await;
        assert_eq!(set_aside(&client).await, json!([ended, active]));
        let asked = json!({"id": active, "keys": ["jobspec"]});
        let (errnum, text) = refused(&client, "job-manager.lookup", asked).await;
        assert!(errnum == 5 && text.contains("its row is gone"), "{text}");
        let all = everything(&client).await;
        assert!(!names(&all, other).is_empty() && names(&all, active).is_empty());
        world = world.restart().await;
    }
    let client = world.client().await;
    ok(&client, "job-manager.purge", purge(&[ended, active])).await;
    assert_eq!(set_aside(&client).await, Value::Null);
    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(set_aside(&client).await, Value::Null);
    let problems = store::check(&world.path("store.sqlite"), &mut |_, _, _| {})
        .unwrap()
        .problems;
    // Their jobspecs stay: which those were, nobody knows.
    assert!(
        problems.iter().all(|one| one.place == "blob"),
        "{problems:?}"
    );
    world.stop().await;
}

/// Zeroes a page that the eventlog of this job runs over to.
fn break_page(statedir: &Path, id: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = statedir.join("store.sqlite");
    let db = Connection::open(&file).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut pages = db
        .prepare("SELECT pageno FROM dbstat WHERE name = 'job' AND pagetype = 'overflow'")
        .unwrap();
    let pages: Vec<i64> = pages
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let mark = format!("of-{id}-");
    for page in pages {
        let at = (page.unsigned_abs() - 1) * 4096;
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, at).unwrap();
        if String::from_utf8_lossy(&bytes).contains(&mark) {
            file.write_all_at(&[0; 4096], at).unwrap();
            return;
        }
    }
    panic!("no such page");
}

#[tokio::test]
async fn fault_a_job_that_was_purged_while_its_page_is_broken_is_not_back_after_a_restart() {
    let world = World::new().await;
    let client = world.client().await;
    let (bad, _) = submit(&client).await;
    let (good, _) = submit(&client).await;
    let note =
        json!({"id": bad, "type": "note", "severity": 3, "note": format!("of-{bad}-").repeat(200)});
    for _ in 0..4 {
        ok(&client, "job-manager.raise", note.clone()).await;
    }
    for id in [bad, good] {
        let cancel = json!({"id": id, "type": "cancel", "severity": 0});
        ok(&client, "job-manager.raise", cancel).await;
    }
    let (dir, config) = world.stop().await;
    break_page(&config.statedir, bad);
    let mut world = World::open(dir, config).await;
    let client = world.client().await;
    let purge =
        json!({"age_limit": -1.0, "num_limit": -1, "batch": 100, "force": true, "all": true});
    let answer = ok(&client, "job-manager.purge", purge).await;
    assert_eq!(answer["jobs"], json!([bad, good]));
    for _ in 0..2 {
        let client = world.client().await;
        assert_eq!(set_aside(&client).await, Value::Null);
        let all = everything(&client).await;
        assert!(names(&all, bad).is_empty() && names(&all, good).is_empty());
        let asked = json!({"id": bad, "keys": ["jobspec"]});
        let (errnum, _) = refused(&client, "job-manager.lookup", asked).await;
        assert_eq!(errnum, wire::errno::ENOENT);
        let (newer, _) = submit(&client).await;
        assert!(newer > good);
        world = world.restart().await;
    }
    world.stop().await;
}

#[tokio::test]
async fn fault_a_job_that_cannot_be_put_back_whole_is_set_aside_and_not_run_as_it_was() {
    let world = World::new().await;
    let client = world.client().await;
    let (held, _) = submit(&client).await;
    let (other, _) = submit(&client).await;
    for urgency in [0, 3, 0] {
        let hold = json!({"id": held, "urgency": urgency});
        ok(&client, "job-manager.urgency", hold).await;
    }
    let (dir, config) = world.stop().await;
    // The log has lost the first of these changes, the archive all of them.
    sql(
        &config.statedir,
        &format!(
            "DELETE FROM tail; DELETE FROM log WHERE lines LIKE '% {held} 5 {} %'",
            crate::world::own_uid()
        ),
    );
    let mut world = World::open(dir, config).await;
    for _ in 0..2 {
        let client = world.client().await;
        assert_eq!(set_aside(&client).await, json!([held]));
        let asked = json!({"id": held, "keys": ["jobspec"]});
        let (errnum, text) = refused(&client, "job-manager.lookup", asked).await;
        let why = "its eventlog ends with entry 4, the log has 10 of its entries";
        assert!(errnum == 5 && text.contains(why), "{text}");
        let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
        let jobs = list["jobs"].as_array().unwrap();
        assert!(jobs.iter().all(|job| job["id"] == other), "{list}");
        world = world.restart().await;
    }
    let mut engine = Engine::new(&world, 8).await;
    engine.run(other).await;
    assert!(
        engine.log.iter().all(|(_, id)| *id != held),
        "{:?}",
        engine.log
    );
    drop(engine);
    world.stop().await;
}
