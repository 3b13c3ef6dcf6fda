//! What the archive should have and has not, rows that are gone without a trace: noticed at the next start by three numbers, named by the log. And
//! the other way round: rows of purged jobs that cannot be removed.

use std::path::Path;

use job::{JobId, Seq, Source};
use rusqlite::Connection;
use store::{
    Amiss, Batch, CURSOR_START, FILE_NAME, JobWrite, Reader, Scope, Tally, check, repair, settle,
};

use crate::lives::{begin, end, end_after, many, run};
use crate::world::{World, plain, time};

/// What the archive has, counted by SQLite alone.
fn counted(dir: &Path) -> Tally {
    let db = Connection::open(dir.join(FILE_NAME)).unwrap();
    let ask = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
            .unsigned_abs()
    };
    Tally {
        jobs: ask("SELECT count(*) FROM job"),
        active: ask("SELECT count(*) FROM job WHERE active = 1"),
        entries: ask(
            "SELECT coalesce(sum(length(lines) - length(replace(lines, char(10), ''))), 0) FROM joblog
             WHERE id IN (SELECT id FROM job WHERE active = 1)",
        ),
    }
}

fn noted(dir: &Path) -> Option<Tally> {
    let world = World::open(dir);
    let tally = world.recovered.tally;
    world.writer.close().unwrap();
    tally
}

fn sql(dir: &Path, sql: &str) {
    let db = Connection::open(dir.join(FILE_NAME)).unwrap();
    db.execute_batch(sql).unwrap();
}

/// The job, and what is told of it.
fn told(amiss: &[Amiss]) -> Vec<(u64, String)> {
    let one = |one: &Amiss| (one.damage.job.unwrap().0, one.damage.what.to_string());
    amiss.iter().map(one).collect()
}

fn purge(world: &mut World, number: u32, ids: &[u64]) {
    let json = format!(r#"{{"timestamp":1.5,"name":"purge","context":{{"jobs":{ids:?}}}}}"#);
    let entry = world.entry(Source::System, number, &json);
    world.store(Batch {
        entries: vec![entry],
        jobs: ids
            .iter()
            .map(|id| JobWrite::Delete { id: JobId(*id) })
            .collect(),
        ..Batch::default()
    });
}

fn actives(reader: &Reader) -> (Vec<(u64, usize)>, Vec<String>) {
    let at = Seq(u64::MAX >> 1);
    let page = reader
        .jobs_page(Scope::Active { at }, CURSOR_START, 1000, 1 << 20)
        .unwrap();
    let jobs = page.jobs.iter().map(|job| (job.id.0, job.eventlog.len()));
    let damaged = page.damaged.iter().map(ToString::to_string);
    (jobs.collect(), damaged.collect())
}

#[test]
fn what_the_archive_should_have_is_counted_with_every_commit() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    assert_eq!(world.recovered.tally, Some(Tally::default()));
    many(&mut world, 60);
    world.writer.close().unwrap();
    assert_eq!(noted(dir.path()), Some(counted(dir.path())));
    let mut world = World::open(dir.path());
    purge(&mut world, 7, &[1, 2, 3]);
    // A late word about a job that ended, one about a job that is purged, one about two at once; a trim.
    let mut batch = Batch::default();
    for (id, number) in [(5, 11), (1, 11), (40, 5), (40, 6)] {
        let entry = world.entry(Source::Job(JobId(id)), number, &plain("note", time(9)));
        batch.entries.push(entry);
    }
    batch.trim = Some(Seq(100));
    world.store(batch);
    // Submitted and over in one commit.
    let mut batch = Batch::default();
    world.submit(100, 1000, 0, &mut batch);
    world.clean(100, 3, &mut batch);
    world.submit(101, 1000, 0, &mut batch);
    world.store(batch);
    world.writer.close().unwrap();
    assert_eq!(noted(dir.path()), Some(counted(dir.path())));
    // What nobody counted is not known, until it is said.
    let mut world = World::open(dir.path());
    purge(&mut world, 8, &[101]);
    world.writer.close().unwrap();
    assert_eq!(noted(dir.path()), None);
    settle(dir.path(), Some(counted(dir.path()))).unwrap();
    assert_eq!(noted(dir.path()), Some(counted(dir.path())));
    // A recovery counts anew.
    store::salvage(dir.path(), &mut |_, _, _| {}).unwrap();
    assert_eq!(noted(dir.path()), Some(counted(dir.path())));
}

#[test]
fn fault_entries_gone_from_the_end_of_an_active_job_are_found_and_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    many(&mut world, 20);
    for (id, count) in [(12, 3), (16, 1)] {
        for number in 0..count {
            let entry = world.entry(Source::Job(JobId(id)), 5 + number, &plain("note", time(9)));
            world.store(Batch {
                entries: vec![entry],
                ..Batch::default()
            });
        }
    }
    let newest = world.seq;
    let (whole, _) = actives(&world.reader());
    assert_eq!(world.reader().amiss(newest).unwrap().len(), 0);
    world.writer.close().unwrap();
    // Two of three rows of the tail; the end of a row; all of the tail and some of the row.
    sql(
        dir.path(),
        "DELETE FROM tail WHERE job = 12 AND seq <> (SELECT min(seq) FROM tail WHERE job = 12);
         DELETE FROM tail WHERE job = 16;
         UPDATE job SET eventlog = substr(eventlog, 1, instr(eventlog, char(10))) WHERE id = 20;",
    );
    let world = World::open(dir.path());
    assert_ne!(world.recovered.tally, Some(counted(dir.path())));
    let reader = world.reader();
    let amiss = reader.amiss(newest).unwrap();
    let text = |have, log| {
        format!("its eventlog ends with entry {have}, the log has {log} of its entries")
    };
    let expected = [(12, text(5, 7)), (16, text(4, 5)), (20, text(1, 4))];
    assert_eq!(told(&amiss), expected);
    let repaired = repair(dir.path(), &amiss).unwrap();
    assert_eq!(repaired, [12, 16, 20].map(JobId));
    assert_eq!(actives(&reader), (whole, Vec::new()));
    assert_eq!(reader.amiss(newest).unwrap().len(), 0);
    world.writer.close().unwrap();
    assert_eq!(noted(dir.path()), Some(counted(dir.path())));
    assert_eq!(
        check(&dir.path().join(FILE_NAME), &mut |_, _, _| {})
            .unwrap()
            .problems,
        []
    );
}

#[test]
fn fault_what_the_log_alone_cannot_put_back_is_named_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    for id in 1..=4 {
        begin(&mut world, id, 0);
    }
    for id in 1..=3 {
        run(&mut world, id);
    }
    end(&mut world, 3);
    let newest = world.seq;
    world.writer.close().unwrap();
    // Without its R; a hole in the log, too; the row as it was before its end.
    sql(
        dir.path(),
        "DELETE FROM tail WHERE job IN (1, 2); UPDATE job SET r = NULL WHERE id = 1; DELETE FROM log WHERE lines LIKE '% 2 5 1000 %'",
    );
    let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
    let whole: String = db
        .query_row("SELECT eventlog FROM job WHERE id = 3", [], |row| {
            row.get(0)
        })
        .unwrap();
    let before: String = whole.split_inclusive('\n').take(6).collect();
    db.execute(
        "UPDATE job SET active = 1, done_seq = NULL, t_inactive = NULL, result = NULL, eventlog = ?1 WHERE id = 3",
        [before],
    )
    .unwrap();
    drop(db);
    let world = World::open(dir.path());
    let reader = world.reader();
    let before = actives(&reader);
    let amiss = reader.amiss(newest).unwrap();
    let ids: Vec<u64> = told(&amiss).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(repair(dir.path(), &amiss).unwrap(), []);
    assert_eq!(actives(&reader), before);
    world.writer.close().unwrap();
}

#[test]
fn fault_a_job_that_is_gone_as_a_whole_is_not_taken_for_purged() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    many(&mut world, 20);
    purge(&mut world, 3, &[1]);
    let newest = world.seq;
    world.writer.close().unwrap();
    sql(
        dir.path(),
        "DELETE FROM job WHERE id IN (2, 17); DELETE FROM tail WHERE job = 17",
    );
    let mut world = World::open(dir.path());
    let amiss = world.reader().amiss(newest).unwrap();
    let text = |entries| {
        format!("its row is gone: the log has {entries} of its entries, and no purge names it")
    };
    assert_eq!(told(&amiss), [(2, text(10)), (17, text(6))]);
    assert_eq!(amiss[0].userid, 1000);
    assert_eq!(repair(dir.path(), &amiss).unwrap(), []);
    // Until they are purged.
    purge(&mut world, 4, &[2, 17]);
    assert_eq!(world.reader().amiss(world.seq).unwrap().len(), 0);
    world.writer.close().unwrap();
}

/// Removes a row from the table and not from its indexes, or from an index and not from the table.
fn tear(dir: &Path, hidden: &str, change: &str) {
    let file = dir.join(FILE_NAME);
    let db = Connection::open(&file).unwrap();
    db.execute_batch(&format!(
        "CREATE TABLE kept AS SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE {hidden};
         PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE {hidden}",
    ))
    .unwrap();
    drop(db);
    let db = Connection::open(&file).unwrap();
    db.execute_batch(change).unwrap();
    db.execute_batch("PRAGMA writable_schema = 1; INSERT INTO sqlite_master SELECT * FROM kept")
        .unwrap();
    drop(db);
    let db = Connection::open(&file).unwrap();
    db.execute_batch("DROP TABLE kept").unwrap();
}

#[test]
fn fault_a_job_that_only_an_index_or_only_the_table_has_is_named() {
    let made = tempfile::tempdir().unwrap();
    let mut world = World::open(made.path());
    many(&mut world, 20);
    world.writer.close().unwrap();
    let new = || {
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(made.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
        dir
    };
    let dir = new();
    tear(
        dir.path(),
        "type = 'index' AND tbl_name = 'job'",
        "DELETE FROM job WHERE id = 17",
    );
    let world = World::open(dir.path());
    let (jobs, damaged) = actives(&world.reader());
    assert!(!jobs.iter().any(|(id, _)| *id == 17));
    assert!(
        damaged.len() == 1 && damaged[0].starts_with("job 17: "),
        "{damaged:?}"
    );
    world.writer.close().unwrap();

    let dir = new();
    sql(
        dir.path(),
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE INDEX job_active ON job (id) WHERE active = 1 AND id <> 17' WHERE name = 'job_active';",
    );
    sql(dir.path(), "REINDEX job_active");
    sql(
        dir.path(),
        "PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE INDEX job_active ON job (id) WHERE active = 1' WHERE name = 'job_active';",
    );
    let world = World::open(dir.path());
    let strays = world.reader().strays(world.seq, 10).unwrap();
    let named: Vec<u64> = strays.iter().map(|one| one.job.unwrap().0).collect();
    assert_eq!(named, [17]);
    world.writer.close().unwrap();
}

/// Jobs 1 to `jobs`, ended, with eventlogs of several pages each; and the first page of each that is not the row's own.
fn long(dir: &Path, jobs: u64) -> Vec<(u64, u64)> {
    let mut world = World::open(dir);
    for id in 1..=jobs {
        begin(&mut world, id, 0);
        run(&mut world, id);
        let mut batch = Batch::default();
        let note = format!(
            r#"{{"timestamp":1.5,"name":"note","context":{{"note":"{}"}}}}"#,
            format!("{id:05}-").repeat(2500)
        );
        batch
            .entries
            .push(world.entry(Source::Job(JobId(id)), 7, &note));
        world.store(batch);
        end_after(&mut world, id, 7);
    }
    world.writer.close().unwrap();
    let db = Connection::open(dir.join(FILE_NAME)).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut rows = db
        .prepare("SELECT pageno FROM dbstat WHERE name = 'job' AND pagetype = 'overflow'")
        .unwrap();
    let pages: Vec<i64> = rows
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let bytes = std::fs::read(dir.join(FILE_NAME)).unwrap();
    let mut first = Vec::new();
    for number in pages.iter().map(|page| page.unsigned_abs()) {
        let page = &bytes[(number as usize - 1) * 4096..][..4096];
        let text = String::from_utf8_lossy(&page[4..]).into_owned();
        let id = text.split('-').nth(1).and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| page[..4] != [0; 4])
            && !first.iter().any(|(known, _)| *known == id)
        {
            first.push((id, number));
        }
    }
    first
}

/// Overwrites what follows the number of the next page, and that.
fn zero(dir: &Path, page: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options()
        .write(true)
        .open(dir.join(FILE_NAME))
        .unwrap();
    file.write_all_at(&[0; 4096], (page - 1) * 4096).unwrap();
}

#[test]
fn fault_a_purged_job_whose_page_is_broken_stays_purged_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let pages = long(dir.path(), 40);
    let broken: Vec<u64> = (1..=30).collect();
    assert_eq!(pages.len(), 40);
    for (id, page) in &pages {
        if broken.contains(id) {
            zero(dir.path(), *page);
        }
    }
    let all = |reader: &Reader| {
        let page = reader
            .jobs_page(Scope::All, CURSOR_START, 1000, 1 << 22)
            .unwrap();
        let mut ids: Vec<u64> = page.jobs.iter().map(|job| job.id.0).collect();
        ids.extend(page.damaged.iter().map(|damage| damage.job.unwrap().0));
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let mut world = World::open(dir.path());
    assert_eq!(all(&world.reader()).len(), 40);
    let (found, _) = world
        .reader()
        .ended(store::Ended::All, 1000, false)
        .unwrap();
    assert_eq!(found.len(), 40, "the eventlogs are not read for that");
    purge(&mut world, 1, &(1..=35).collect::<Vec<_>>());
    let left = |world: &World| {
        let reader = world.reader();
        assert_eq!(all(&reader), [36, 37, 38, 39, 40]);
        let owners: Vec<u64> = reader
            .owners(None, 7)
            .unwrap()
            .iter()
            .map(|(_, id)| id.0)
            .collect();
        assert_eq!(owners, [36, 37, 38, 39, 40]);
        assert_eq!(reader.history(1000, 0, 1000).unwrap().len(), 5);
        assert_eq!(
            reader
                .ended(store::Ended::All, 1000, false)
                .unwrap()
                .0
                .len(),
            5
        );
        for id in 1..=35 {
            assert!(reader.job(JobId(id), false).unwrap().is_none(), "{id}");
        }
        let log = reader.log_after(Seq(0), 1000, 1 << 24).unwrap();
        assert!(log.damaged.is_empty(), "{:?}", log.damaged);
        let of = |id| {
            log.entries
                .iter()
                .filter(|entry| entry.source == Source::Job(JobId(id)))
                .count()
        };
        assert_eq!((of(1), of(40)), (0, 11));
        assert_eq!(reader.amiss(world.seq).unwrap().len(), 0);
    };
    left(&world);
    world.writer.close().unwrap();
    for _ in 0..2 {
        let world = World::open(dir.path());
        left(&world);
        assert_eq!(world.recovered.max_jobid, JobId(40));
        world.writer.close().unwrap();
    }
    let report = check(&dir.path().join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    let rows = report
        .problems
        .iter()
        .filter(|one| one.what.contains("purged"));
    assert_eq!(rows.count(), 30, "{:?}", report.problems);
    // A recovery knows it from the purge, or from the store's own note where that has been trimmed.
    let done = store::salvage(dir.path(), &mut |_, _, _| {}).unwrap();
    assert_eq!((done.jobs, done.lost_jobs.len()), (5, 0));
    let world = World::open(dir.path());
    left(&world);
    world.writer.close().unwrap();
}

/// What all this costs: printed, for the specification. `cargo test --release -p store -- --ignored --nocapture measure`.
#[test]
#[ignore = "a measurement"]
fn measure_what_a_start_and_a_commit_pay_for_it() {
    use std::time::Instant;
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let jobs = 100_000;
    for first in (1..=jobs).step_by(1000) {
        let mut batch = Batch::default();
        for id in first..first + 1000 {
            world.submit(id, 1000, 0, &mut batch);
        }
        world.store(batch);
    }
    // One change each.
    for first in (1..=jobs).step_by(1000) {
        let mut batch = Batch::default();
        for id in first..first + 1000 {
            batch
                .entries
                .push(world.entry(Source::Job(JobId(id)), 3, &plain("note", time(9))));
        }
        world.store(batch);
    }
    world.writer.close().unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        let world = World::open(dir.path());
        let opened = begun.elapsed();
        let reader = world.reader();
        let begun = Instant::now();
        assert_eq!(reader.strays(world.seq, 10).unwrap().len(), 0);
        let (mut cursor, mut entries) = (Some(CURSOR_START), 0);
        while let Some(at) = cursor {
            let scope = Scope::Active { at: world.seq };
            let page = reader.jobs_page(scope, at, 500, 4 << 20).unwrap();
            entries += page
                .jobs
                .iter()
                .map(|job| job.eventlog.len())
                .sum::<usize>();
            cursor = page.next;
        }
        let restored = begun.elapsed();
        let begun = Instant::now();
        let count = reader.job_count().unwrap();
        let counted = begun.elapsed();
        let begun = Instant::now();
        assert_eq!(reader.amiss(world.seq).unwrap().len(), 0);
        let looked = begun.elapsed();
        println!(
            "{count} active jobs, {entries} entries: opened {opened:?}, read {restored:?}; the count {counted:?}, a look through the log {looked:?}"
        );
        world.writer.close().unwrap();
    }
    let mut medians = [const { Vec::new() }; 2];
    for round in 0..6 {
        settle(
            dir.path(),
            Some(Tally::default()).filter(|_| round % 2 == 0),
        )
        .unwrap();
        // The numbers are wrong; what they cost is the same.
        let mut world = World::open(dir.path());
        let mut took = Vec::new();
        for id in 1..=1000 {
            let entry = world.entry(Source::Job(JobId(id)), 4 + round, &plain("note", time(9)));
            let begun = Instant::now();
            world.store(Batch {
                entries: vec![entry],
                ..Batch::default()
            });
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        medians[round as usize % 2].push(took[500]);
        world.writer.close().unwrap();
    }
    println!(
        "a commit, median: counted {:?}, not counted {:?}",
        medians[0], medians[1]
    );
}
