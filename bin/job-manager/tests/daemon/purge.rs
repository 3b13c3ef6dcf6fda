//! Purges: one commit each, files after the rows and no others, listeners that hear of it, restarts, a full disk.

use crate::engine::Engine;
use crate::world::{
    NOBODY, Tap, World, everything, int, names, ok, refused, soon, stats, stats_until, submission,
    submit, submit_many, value,
};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use wire::errno;

/// A purge of all that ended, or with what `more` says.
fn purge(more: Value) -> Value {
    let mut request =
        json!({"age_limit": -1.0, "num_limit": -1, "batch": 100, "force": true, "all": true});
    let (into, more) = (request.as_object_mut().unwrap(), more.as_object().unwrap());
    into.extend(more.clone());
    request
}

/// So many jobs that were cancelled, oldest first.
async fn ended(client: &rpc::Client, count: usize) -> Vec<u64> {
    let ids: Vec<u64> = submit_many(client, count)
        .await
        .iter()
        .map(|(id, _)| *id)
        .collect();
    cancel(client, &ids).await;
    ids
}

async fn cancel(client: &rpc::Client, ids: &[u64]) {
    let mut replies = Vec::new();
    for id in ids {
        let cancel = json!({"id": id, "type": "cancel", "severity": 0});
        replies.push(client.begin("job-manager.raise", &cancel).await.unwrap());
    }
    for reply in replies {
        soon(reply.json()).await.unwrap();
    }
}

/// Purges all that ended; the ids.
async fn purge_all(client: &rpc::Client) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let answer = ok(client, "job-manager.purge", purge(json!({}))).await;
        all.extend(listed(&answer));
        if int(&answer, "count") < 100 {
            return all;
        }
    }
}

fn listed(answer: &Value) -> Vec<u64> {
    let jobs = answer["jobs"].as_array().unwrap();
    jobs.iter().map(|id| id.as_u64().unwrap()).collect()
}

/// Gives a job the files that a job has.
fn make_files(world: &World, id: u64) -> PathBuf {
    let dir = world.path("jobs").join(id.to_string());
    std::fs::create_dir(&dir).unwrap();
    for name in ["claim", "status", "output.eventlog", "exec.eventlog"] {
        std::fs::write(dir.join(name), "x").unwrap();
    }
    dir
}

/// Ids in the order of purge entries.
fn purged(entries: &[Value]) -> Vec<u64> {
    let purges = entries
        .iter()
        .filter(|one| one["log"] == "system" && one["entry"]["name"] == "purge");
    purges
        .flat_map(|one| listed(&one["entry"]["context"]))
        .collect()
}

#[tokio::test]
async fn a_purge_is_one_commit_and_one_entry_and_then_the_files_go() {
    let world = World::new().await;
    let client = world.client().await;
    let watcher = world.client().await;
    let mut subscription = watcher.subscribe("job-purge-inactive").await.unwrap();
    let mut tap = Tap::open(&watcher, json!({"from": "now"})).await;
    tap.backlog().await;
    let ids = ended(&client, 250).await;
    let (active, _) = submit(&client).await;
    let dirs: Vec<PathBuf> = ids.iter().map(|id| make_files(&world, *id)).collect();
    let kept = make_files(&world, active);
    // A directory nobody knows is evidence, whoever asks for what.
    let evidence = make_files(&world, 7);
    let before = stats(&client).await;

    let shown = purge(json!({"force": false, "batch": 3}));
    let shown = ok(&client, "job-manager.purge", shown).await;
    assert_eq!(
        (int(&shown, "count"), listed(&shown)),
        (250, ids[..3].to_vec())
    );
    let by_number = purge(json!({"force": false, "all": false, "num_limit": 240}));
    let by_number = ok(&client, "job-manager.purge", by_number).await;
    assert_eq!(listed(&by_number), ids[..10]);
    let by_age = purge(json!({"force": false, "all": false, "age_limit": 3600.0}));
    assert_eq!(
        int(&ok(&client, "job-manager.purge", by_age).await, "count"),
        0
    );

    assert_eq!(purge_all(&client).await, ids);
    let after = stats_until(&client, |stats| int(stats, "unswept") == 0).await;
    let delta = |key: &str| int(&after["manager"], key) - int(&before["manager"], key);
    assert_eq!(
        (delta("purges"), delta("commits"), delta("entries")),
        (3, 3, 3)
    );
    assert_eq!(delta("purged_jobs"), 250);
    assert_eq!(
        (
            int(&after, "inactive_jobs"),
            int(&after, "inactive_purged"),
            int(&after, "active_jobs")
        ),
        (0, 250, 1)
    );
    for dir in &dirs {
        assert!(!dir.exists(), "{}", dir.display());
    }
    assert!(kept.join("claim").exists() && evidence.join("claim").exists());
    let seq = int(&after, "seq");
    assert_eq!(purged(&tap.until(seq).await), ids);
    let mut told = Vec::new();
    while told.len() < 250 {
        let event = soon(subscription.next()).await.unwrap();
        told.extend(listed(&value(
            &wire::json_bytes(event.payload.as_ref().unwrap()).unwrap(),
        )));
    }
    assert_eq!(told, ids);

    // Nothing of them is left to be asked for.
    let lookup = json!({"id": ids[0], "keys": ["eventlog"]});
    let unknown = refused(&client, "job-manager.lookup", lookup).await;
    assert_eq!(unknown, (2, "invalid job id".to_owned()));
    let all = everything(&client).await;
    assert_eq!(purged(&all), ids);
    let jobs: BTreeSet<u64> = all.iter().filter_map(|one| one["id"].as_u64()).collect();
    assert_eq!(jobs, BTreeSet::from([active]));
    let again = ok(&client, "job-manager.purge", purge(json!({}))).await;
    assert_eq!(int(&again, "count"), 0);
}

#[tokio::test]
async fn a_named_job_that_is_active_or_unknown_is_told_with_its_state_and_the_others_go() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 1).await;
    let (done, _) = submit(&client).await;
    engine.run(done).await;
    let (running, _) = submit(&client).await;
    engine.wait_for("sched.alloc", running).await;
    engine.grant(running);
    engine.wait_for("job-exec.start", running).await;
    let request = purge(json!({"all": false, "jobs": [running, done, NOBODY]}));
    let answer = ok(&client, "job-manager.purge", request).await;
    assert_eq!((int(&answer, "count"), listed(&answer)), (1, vec![done]));
    assert_eq!(
        answer["errors"],
        json!([
            [running, 22, "cannot purge active job: its state is RUN"],
            [NOBODY, 2, "id not found"]
        ])
    );
    let by_id = json!({"id": running, "force": 1});
    let active = refused(&client, "job-manager.purge-id", by_id).await;
    assert_eq!(active, (22, "cannot purge active job".to_owned()));
    let many = purge(json!({"jobs": vec![done; 101]}));
    assert_eq!(
        refused(&client, "job-manager.purge", many).await.0,
        errno::EINVAL
    );
}

/// Whether what a listener got of each job is its whole life so far, or a purge entry says why not.
fn is_consistent(entries: &[Value], alive: &BTreeSet<u64>) {
    let gone: BTreeSet<u64> = purged(entries).into_iter().collect();
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        if let Some(id) = entry["id"].as_u64() {
            seen.entry(id).or_default().push(int(entry, "eventlog_seq"));
        }
    }
    for (id, eseqs) in &seen {
        let whole = eseqs.iter().copied().eq(1..=6);
        assert!(
            whole || gone.contains(id),
            "job {id}: {eseqs:?} and no purge"
        );
    }
    for id in alive {
        assert!(seen.contains_key(id), "job {id} is missing");
    }
}

/// Reads the start of a backlog, purges every other job, reads on. `form`: what the backlog is read from.
async fn purged_in_a_backlog(world: World, log: bool) {
    let client = world.client().await;
    let ids = ended(&client, 3000).await;
    if !log {
        let floor = stats(&client).await;
        assert!(int(&floor, "seq") > 5000);
    }
    let reader = world.client().await;
    let mut tap = Tap::open(&reader, json!({"from": "all"})).await;
    let mut entries: Vec<Value> = Vec::new();
    let first = tap.next().await;
    assert_eq!(first["backlog"], true);
    entries.extend(first["events"].as_array().unwrap().iter().cloned());
    let mut seq = 0;
    for some in ids.chunks(100) {
        let some: Vec<u64> = some.iter().copied().filter(|id| id % 2 == 0).collect();
        let request = purge(json!({"all": false, "jobs": some}));
        seq = int(&ok(&client, "job-manager.purge", request).await, "seq");
    }
    entries.extend(tap.backlog().await);
    entries.extend(tap.until(seq).await);
    let alive: BTreeSet<u64> = ids.iter().copied().filter(|id| id % 2 == 1).collect();
    is_consistent(&entries, &alive);
    let gone: BTreeSet<u64> = purged(&entries).into_iter().collect();
    assert_eq!(gone.len() + alive.len(), ids.len(), "every purge was told");
    // Who comes later hears of those that are left, and of the purges.
    let later = everything(&client).await;
    let jobs: BTreeSet<u64> = later.iter().filter_map(|one| one["id"].as_u64()).collect();
    assert_eq!(jobs, alive);
    is_consistent(&later, &alive);
}

#[tokio::test]
async fn a_listener_in_its_backlog_is_never_left_with_half_a_job_and_no_purge() {
    purged_in_a_backlog(World::new().await, true).await;
}

#[tokio::test]
async fn a_listener_in_the_backlog_of_the_archive_is_not_either() {
    // Nearly nothing of the log is kept, so that backlogs are read from the archive.
    let world = World::with(|config| config.retention.log_entries = 10).await;
    purged_in_a_backlog(world, false).await;
}

#[tokio::test]
async fn who_was_away_while_jobs_were_purged_goes_on_by_cursor_and_hears_of_it() {
    // A ring that holds nothing: what is resumed is read from the store.
    for ring in [1, 65_536] {
        let world = World::with(|config| config.journal_size_limit = ring).await;
        let client = world.client().await;
        let (stays, _) = submit(&client).await;
        let mut tap = Tap::open(&client, json!({"from": "active"})).await;
        let first = tap.next().await;
        let epoch = first["epoch"].clone();
        tap.backlog().await;
        let (half, seq) = submit(&client).await;
        let mut entries = tap.until(seq).await;
        drop(tap);
        cancel(&client, &[half]).await;
        let unseen = ended(&client, 20).await;
        purge_all(&client).await;
        let (_, newest) = submit(&client).await;
        let mut tap = Tap::open(&client, json!({"after": seq, "epoch": epoch})).await;
        assert_eq!(tap.backlog().await, [] as [Value; 0]);
        entries.extend(tap.until(newest).await);
        let gone = purged(&entries);
        assert!(gone.contains(&half) && unseen.iter().all(|id| gone.contains(id)));
        assert_eq!(
            names(&entries, half)[..4],
            ["submit", "validate", "depend", "priority"]
        );
        assert!(!gone.contains(&stays));
        let seqs: Vec<u64> = entries.iter().map(|one| int(one, "seq")).collect();
        assert!(seqs.is_sorted_by(|a, b| a < b));
    }
}

#[tokio::test]
async fn a_purge_outlives_a_restart_and_its_ids_are_not_given_again() {
    let world = World::new().await;
    let client = world.client().await;
    let ids = ended(&client, 5).await;
    assert_eq!(purge_all(&client).await, ids);
    let seq = int(&stats(&client).await, "seq");
    let world = world.restart().await;
    let client = world.client().await;
    let after = stats(&client).await;
    assert_eq!((int(&after, "seq"), int(&after, "inactive_jobs")), (seq, 0));
    assert_eq!(
        int(
            &ok(&client, "job-manager.getinfo", json!({})).await,
            "max_jobid"
        ),
        ids[4]
    );
    let urgency = json!({"id": ids[4], "urgency": 3});
    let unknown = refused(&client, "job-manager.urgency", urgency).await;
    assert_eq!(unknown, (22, "unknown job".to_owned()));
    let all = everything(&client).await;
    assert_eq!((purged(&all), all.len()), (ids.clone(), 1));
    let (id, _) = submit(&client).await;
    assert!(id > ids[4]);
}

#[tokio::test]
async fn files_that_could_not_go_are_removed_by_the_next_start_and_a_shepherd_keeps_its_own() {
    let world = World::new().await;
    let client = world.client().await;
    let ids = ended(&client, 3).await;
    let dirs: Vec<PathBuf> = ids.iter().map(|id| make_files(&world, *id)).collect();
    // Its shepherd is still there.
    let claim = std::fs::File::open(dirs[1].join("claim")).unwrap();
    flock(&claim, FlockOperation::NonBlockingLockExclusive).unwrap();
    purge_all(&client).await;
    stats_until(&client, |stats| int(stats, "unswept") == 1).await;
    assert!(!dirs[0].exists() && dirs[1].join("status").exists() && !dirs[2].exists());
    let world = world.restart().await;
    let client = world.client().await;
    // Files of a job that has a row are nobody's to remove, nor those of one that was never heard of.
    let (other, _) = submit(&client).await;
    let kept = [make_files(&world, other), make_files(&world, other + 1)];
    stats_until(&client, |stats| int(stats, "unswept") == 1).await;
    assert!(dirs[1].join("status").exists());
    drop(claim);
    let world = world.restart().await;
    let client = world.client().await;
    stats_until(&client, |stats| int(stats, "unswept") == 0).await;
    assert!(!dirs[1].exists());
    assert!(kept.iter().all(|dir| dir.join("claim").exists()));
    // What was noted is crossed out with the next commit.
    submit(&client).await;
    let (dir, config) = world.stop().await;
    let store = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    let noted: i64 = store
        .query_row(
            "SELECT count(*) FROM meta WHERE key LIKE 'sweep.%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(noted, 0);
    drop(dir);
}

#[tokio::test]
async fn a_job_that_was_set_aside_is_purged_by_its_id() {
    let world = World::new().await;
    let client = world.client().await;
    let (bad, _) = submit(&client).await;
    let (good, _) = submit(&client).await;
    let (nobodys, _) = submit(&client).await;
    let (dir, config) = world.stop().await;
    let store = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    store
        .execute(
            "UPDATE job SET eventlog = 'nonsense' WHERE id = ?1",
            [bad as i64],
        )
        .unwrap();
    store
        .execute(
            "UPDATE job SET userid = 'nobody' WHERE id = ?1",
            [nobodys as i64],
        )
        .unwrap();
    drop(store);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let aside = |stats: &Value| stats["set_aside"].as_u64();
    assert_eq!(aside(&stats(&client).await), Some(2));
    let all = ok(&client, "job-manager.purge", purge(json!({}))).await;
    assert_eq!(int(&all, "count"), 0, "the store has it as active");
    let by_id = json!({"id": bad, "force": 1});
    let named = ok(&client, "job-manager.purge-id", by_id).await;
    assert_eq!(int(&named, "count"), 1);
    let named = purge(json!({"all": false, "jobs": [nobodys, bad]}));
    let named = ok(&client, "job-manager.purge", named).await;
    assert_eq!(listed(&named), [nobodys]);
    assert_eq!(named["errors"], json!([[bad, 2, "id not found"]]));
    stats_until(&client, |stats| aside(stats) == Some(0)).await;
    let world = world.restart().await;
    let client = world.client().await;
    assert_eq!(aside(&stats(&client).await), Some(0));
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(int(&list["jobs"][0], "id"), good);
}

#[tokio::test]
async fn limits_of_the_instance_are_kept_to_and_a_result_that_is_waited_for_stays() {
    let world = World::with(|config| config.retention.inactive_num = Some(10)).await;
    let client = world.client().await;
    let mut waitable = submission(16);
    waitable["flags"] = json!(4);
    let waited = int(&ok(&client, "job-ingest.submit", waitable).await, "id");
    cancel(&client, &[waited]).await;
    let ids = ended(&client, 320).await;
    let after = stats_until(&client, |stats| int(stats, "inactive_jobs") == 11).await;
    assert_eq!(int(&after, "inactive_purged"), 310);
    assert!(int(&after["manager"], "purges") >= 4);
    let left = ok(&client, "job-manager.history.get", json!({"slice": "[:]"})).await;
    let mut wanted: Vec<u64> = ids[310..].iter().rev().copied().collect();
    wanted.push(waited);
    assert_eq!(listed(&left), wanted);
    assert_eq!(
        int(
            &ok(&client, "job-manager.wait", json!({"id": waited})).await,
            "id"
        ),
        waited
    );
    // Taken: the limit counts now for it, too.
    stats_until(&client, |stats| int(stats, "inactive_jobs") == 10).await;
}

#[tokio::test]
async fn the_log_is_kept_to_its_limit_and_a_cursor_below_its_floor_is_told_so() {
    let world = World::with(|config| {
        config.retention.log_entries = 1000;
        config.journal_size_limit = 100;
    })
    .await;
    let client = world.client().await;
    let (_, early) = submit(&client).await;
    let first = Tap::open(&client, json!({"from": "now"}))
        .await
        .next()
        .await;
    ended(&client, 1000).await;
    let newest = int(&stats(&client).await, "seq");
    let resume = json!({"after": early, "epoch": first["epoch"]});
    let mut stream = client.stream("job-manager.events", &resume).await.unwrap();
    let error = soon(stream.next()).await.unwrap().unwrap_err();
    assert_eq!(error.errnum, 116, "{error}");
    assert!(error.text.contains(&format!("to {newest}")), "{error}");
    let mut tap = Tap::open(
        &client,
        json!({"after": newest - 900, "epoch": first["epoch"]}),
    )
    .await;
    tap.backlog().await;
    assert_eq!(tap.until(newest).await.len(), 900);
    // Each job's own eventlog is whole.
    assert_eq!(everything(&client).await.len() as u64, newest);
    let world = world.restart().await;
    let client = world.client().await;
    let mut stream = client.stream("job-manager.events", &resume).await.unwrap();
    assert_eq!(soon(stream.next()).await.unwrap().unwrap_err().errnum, 116);
    let (_, seq) = submit(&client).await;
    assert_eq!(seq, newest + 4);
}

#[tokio::test]
async fn a_submit_key_is_free_once_its_job_is_purged() {
    let world = World::new().await;
    let client = world.client().await;
    let mut keyed = submission(16);
    keyed["key"] = json!("nightly");
    let first = int(&ok(&client, "job-ingest.submit", keyed.clone()).await, "id");
    let same = ok(&client, "job-ingest.submit", keyed.clone()).await;
    assert_eq!(
        (int(&same, "id"), same["known"].clone()),
        (first, json!(true))
    );
    cancel(&client, &[first]).await;
    // Both on the way at once: the key is taken in the transaction that frees it, or in a later one.
    let by_id = json!({"id": first, "force": 1});
    let purged = client.begin("job-manager.purge-id", &by_id).await.unwrap();
    let again = client.begin("job-ingest.submit", &keyed).await.unwrap();
    soon(purged.json()).await.unwrap();
    let second = int(&value(&soon(again.json()).await.unwrap()), "id");
    assert!(second > first);
    let world = world.restart().await;
    let client = world.client().await;
    let same = ok(&client, "job-ingest.submit", keyed).await;
    assert_eq!(int(&same, "id"), second);
}

/// A full disk: changes are refused, a purge is not, and then changes are taken again.
#[tokio::test]
async fn a_purge_makes_room_on_a_full_disk() {
    let world = World::with(|config| {
        config.store_size_limit = Some(1600 << 10);
        config.retention.log_entries = 100;
    })
    .await;
    let client = world.client().await;
    let mut ended = 0;
    'full: loop {
        let mut ids = Vec::new();
        for _ in 0..50 {
            match crate::world::call(&client, "job-ingest.submit", submission(16)).await {
                Ok(answer) => ids.push(int(&answer, "id")),
                Err(error) => {
                    assert_eq!(error.errnum, errno::ENOSPC, "{error}");
                    break 'full;
                }
            }
        }
        for id in ids {
            let cancel = json!({"id": id, "type": "cancel", "severity": 0});
            match crate::world::call(&client, "job-manager.raise", cancel).await {
                Ok(_) => ended += 1,
                Err(error) => {
                    assert_eq!(error.errnum, errno::ENOSPC, "{error}");
                    break 'full;
                }
            }
        }
    }
    assert!(ended > 100, "{ended}");
    assert_eq!(purge_all(&client).await.len(), ended);
    stats_until(&client, |stats| stats["no_space"] == false).await;
    submit(&client).await;
    world.stop().await;
}
