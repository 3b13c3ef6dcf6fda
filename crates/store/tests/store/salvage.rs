//! Of a damaged store everything is recovered that is in it once; what is not is named, and nobody may go on as if nothing had happened.

use job::{JobId, Seq};
use rusqlite::Connection;
use store::{FILE_NAME, SalvageError, Salvaged, Store, StoreOptions, check, salvage};

use crate::lives::{begin, many};
use crate::world::{World, lines};

fn whole(jobs: u64) -> (tempfile::TempDir, World) {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    many(&mut world, jobs);
    (dir, world)
}

fn recover(dir: &std::path::Path) -> Salvaged {
    let done = salvage(dir, &mut |_, _, _| {}).unwrap();
    let report = check(&dir.join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    assert_eq!(report.problems, [], "what is recovered is sound");
    assert_eq!(report.newest_seq, done.newest_seq);
    assert!(done.kept.exists(), "the old one is kept");
    done
}

fn jobs(world: &World) -> Vec<store::StoredJob> {
    (1..=1000)
        .filter_map(|id| world.reader().job(JobId(id), true).unwrap())
        .map(Result::unwrap)
        .collect()
}

#[test]
fn a_sound_store_is_recovered_as_it_is() {
    let (dir, world) = whole(60);
    let (log, stored, epoch) = (
        lines(&world.log()),
        jobs(&world),
        world.recovered.epoch.clone(),
    );
    world.writer.close().unwrap();
    let done = recover(dir.path());
    assert!(!done.new_epoch && done.lost_jobs.is_empty() && done.lost_entries.is_empty());
    let mut world = World::open(dir.path());
    assert_eq!(lines(&world.log()), log);
    assert_eq!(jobs(&world), stored);
    assert_eq!(world.recovered.epoch, epoch);
    assert_eq!(world.recovered.meta["queues"], r#"{"default":{}}"#);
    begin(&mut world, 1001, 0);
}

#[test]
fn a_store_in_use_is_not_touched() {
    let (dir, _world) = whole(3);
    let error = salvage(dir.path(), &mut |_, _, _| {}).unwrap_err();
    assert!(
        matches!(error, SalvageError::Store(store::OpenError::InUse { .. })),
        "{error}"
    );
}

/// Rows lost in one place are there in the other.
#[test]
fn rows_of_the_log_and_of_jobs_heal_each_other() {
    for sql in [
        "DELETE FROM log",
        "UPDATE log SET lines = 'x'",
        "UPDATE job SET eventlog = '', userid = 'x', active = 7, done_seq = -1",
        "DELETE FROM tail",
        "DELETE FROM instancelog",
        "DROP INDEX job_user; DROP INDEX job_active",
    ] {
        let (dir, world) = whole(40);
        let (log, stored) = (lines(&world.log()), jobs(&world));
        world.writer.close().unwrap();
        Connection::open(dir.path().join(FILE_NAME))
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let done = recover(dir.path());
        assert_eq!(done.lost_jobs, [], "{sql}");
        assert_eq!(done.lost_entries, [], "{sql}");
        let world = World::open(dir.path());
        assert_eq!(jobs(&world), stored, "{sql}");
        assert_eq!(lines(&world.log()), log, "{sql}");
    }
}

/// Each page of the file zeroed in turn, the first and those of indexes among them.
#[test]
fn a_zeroed_page_costs_what_was_only_on_it_and_that_is_named() {
    let (whole, world) = whole(60);
    let all = world.log();
    world.writer.close().unwrap();
    let bytes = std::fs::read(whole.path().join(FILE_NAME)).unwrap();
    let mut losses = Vec::new();
    for page in 0..bytes.len() / 4096 {
        let dir = tempfile::tempdir().unwrap();
        let mut hurt = bytes.clone();
        hurt[page * 4096..(page + 1) * 4096].fill(0);
        std::fs::write(dir.path().join(FILE_NAME), hurt).unwrap();
        let done = recover(dir.path());
        assert!(done.new_epoch, "page {page}: who knows what else was there");
        assert_eq!(done.lost_entries, [], "page {page}");
        assert_eq!(
            done.jobs + done.lost_jobs.len() as u64,
            60,
            "page {page}: {done:?}"
        );
        losses.push(done.lost_jobs.len());
        let mut world = World::open(dir.path());
        let purges = done.lost_jobs.len().min(1) as u64;
        assert_eq!(world.seq, Seq(all.len() as u64 + purges), "page {page}");
        begin(&mut world, 1001, 0);
    }
    // Small jobspecs stand side by side: one page can hold those of all jobs.
    let dear = losses.iter().filter(|lost| **lost > 30).count();
    assert!(dear <= 2 && losses.iter().sum::<usize>() > 0, "{losses:?}");
}

#[test]
fn what_a_wal_holds_is_recovered_with_the_main_file() {
    let (dir, world) = whole(60);
    // As after a kill: the WAL is not copied yet, and what comes last in it is torn.
    let copy = tempfile::tempdir().unwrap();
    for name in [FILE_NAME, "store.sqlite-wal"] {
        std::fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let wal = copy.path().join("store.sqlite-wal");
    let len = std::fs::metadata(&wal).unwrap().len();
    assert!(len > 100_000);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&wal)
        .unwrap()
        .set_len(len - 100)
        .unwrap();
    // And the header of the main file is gone, so that SQLite would not even look.
    let mut main = std::fs::read(copy.path().join(FILE_NAME)).unwrap();
    main[..4096].fill(0);
    std::fs::write(copy.path().join(FILE_NAME), main).unwrap();
    let refused = Store::open(copy.path(), StoreOptions::default(), |_| {}).unwrap_err();
    assert!(
        refused.to_string().contains("weir store recover"),
        "{refused}"
    );
    let done = recover(copy.path());
    assert!(done.new_epoch);
    assert_eq!(done.lost_jobs, []);
    let log = world.log();
    // The last commit was one entry, and torn.
    assert_eq!(done.newest_seq, Seq(world.seq.0 - 1));
    let world = World::open(copy.path());
    assert_eq!(lines(&world.log()), lines(&log[..log.len() - 1]));
}

#[test]
fn what_is_no_store_gives_nothing_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE_NAME), vec![0; 40960]).unwrap();
    let error = salvage(dir.path(), &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(error, SalvageError::Nothing { .. }), "{error}");
    assert_eq!(
        std::fs::read(dir.path().join(FILE_NAME)).unwrap(),
        vec![0; 40960]
    );
    assert!(!dir.path().join("store.sqlite.new").exists());
}

/// The directory after each step of a recovery's end, as a kill leaves it: none of them is a store to a start, and the next recovery
/// finds all of the old one.
#[test]
fn fault_a_recovery_that_is_killed_while_it_ends_leaves_no_empty_instance() {
    let (dir, world) = whole(40);
    let (log, stored) = (lines(&world.log()), jobs(&world));
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir_all(to).unwrap();
        for name in [FILE_NAME, "store.sqlite-wal"] {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    };
    // As after a kill: much of it is in the WAL only.
    let hurt = dir.path().join("hurt");
    copy(dir.path(), &hurt);
    assert!(
        std::fs::metadata(hurt.join("store.sqlite-wal"))
            .unwrap()
            .len()
            > 100_000
    );
    drop(world);
    let done = dir.path().join("done");
    copy(&hurt, &done);
    recover(&done);
    let begun = |name: &str| {
        let state = dir.path().join(name);
        copy(&hurt, &state);
        // Of an earlier recovery.
        std::fs::write(state.join("store.sqlite.damaged-4"), "old").unwrap();
        let made = state.join("store.sqlite.recovered-5");
        std::fs::copy(done.join(FILE_NAME), made).unwrap();
        state
    };
    let steps = [
        ("store.sqlite-wal", "store.sqlite.damaged-5-wal"),
        (FILE_NAME, "store.sqlite.damaged-5"),
    ];
    for count in 0..=steps.len() {
        let state = begun(&format!("after-{count}"));
        for (from, to) in &steps[..count] {
            std::fs::rename(state.join(from), state.join(to)).unwrap();
        }
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(&state)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .filter(|name| name != store::LOCK_NAME)
                .collect();
            names.sort();
            names
        };
        let before = names();
        let refused = Store::open(&state, StoreOptions::default(), |_| {}).unwrap_err();
        assert!(
            refused.to_string().contains("weir store recover once more"),
            "{count}: {refused}"
        );
        assert_eq!(names(), before, "{count}: a refused start changes nothing");
        let done = recover(&state);
        assert_eq!(done.kept, state.join("store.sqlite.damaged-5"), "{count}");
        assert_eq!(done.lost_jobs, [], "{count}");
        let world = World::open(&state);
        assert_eq!(jobs(&world), stored, "{count}");
        assert_eq!(lines(&world.log()), log, "{count}");
    }
    // Somebody put another store in place of the one that was moved: that one is recovered, the other stays.
    let state = begun("replaced");
    for (from, to) in steps {
        std::fs::rename(state.join(from), state.join(to)).unwrap();
    }
    copy(&hurt, &state);
    let done = recover(&state);
    assert_eq!(done.kept, state.join("store.sqlite.damaged-6"));
    assert!(state.join("store.sqlite.damaged-5").exists());
}

/// What an older release left when it was killed there, or somebody who removed the wrong file.
#[test]
fn fault_a_store_that_is_only_kept_aside_is_not_begun_anew() {
    for name in ["store.sqlite.damaged-1", "store.sqlite.new"] {
        let (dir, world) = whole(3);
        world.writer.close().unwrap();
        std::fs::rename(dir.path().join(FILE_NAME), dir.path().join(name)).unwrap();
        let refused = Store::open(dir.path(), StoreOptions::default(), |_| {}).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
        let refused = salvage(dir.path(), &mut |_, _, _| {}).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
        assert!(!dir.path().join(FILE_NAME).exists(), "{name}");
        std::fs::rename(dir.path().join(name), dir.path().join(FILE_NAME)).unwrap();
        assert_eq!(jobs(&World::open(dir.path())).len(), 3, "{name}");
    }
}

#[test]
fn fault_a_copy_that_is_recovered_before_its_first_start_has_an_epoch_of_its_own() {
    let (dir, world) = whole(5);
    let copy = tempfile::tempdir().unwrap();
    let copied = store::backup(&dir.path().join(FILE_NAME), &copy.path().join(FILE_NAME)).unwrap();
    let done = recover(copy.path());
    assert!(done.new_epoch);
    assert_ne!(done.epoch, copied.epoch);
    // And that is it.
    assert_eq!(World::open(copy.path()).recovered.epoch, done.epoch);
    drop(world);
}

#[test]
fn fault_a_damaged_row_of_a_huge_id_does_not_use_up_the_ids() {
    let (dir, world) = whole(20);
    world.writer.close().unwrap();
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    // As SQLite has the largest id.
    db.execute("UPDATE job SET id = -1 WHERE id = 20", [])
        .unwrap();
    drop(db);
    let done = recover(dir.path());
    let lost: Vec<_> = done.lost_jobs.iter().map(|(id, _)| id.0).collect();
    assert!(lost.contains(&u64::MAX), "{lost:?}");
    for _ in 0..2 {
        let world = World::open(dir.path());
        assert_eq!(world.recovered.max_jobid, JobId(20));
        world.writer.close().unwrap();
        // The purge entry that names it counts no more than its row.
        recover(dir.path());
    }
}

#[test]
fn fault_a_largest_id_behind_which_there_is_none_is_not_kept() {
    let (dir, world) = whole(20);
    world.writer.close().unwrap();
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let key = "INSERT OR REPLACE INTO meta (key, value) VALUES ('store.max_jobid', ?1)";
    db.execute(key, [u64::MAX.to_string()]).unwrap();
    drop(db);
    let report = check(&dir.path().join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    recover(dir.path());
    let world = World::open(dir.path());
    assert_eq!(world.recovered.max_jobid, JobId(20));
    world.writer.close().unwrap();
}
