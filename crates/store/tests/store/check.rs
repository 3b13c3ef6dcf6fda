//! A look at a store finds nothing in a sound one, running or not, and every kind of damage in one that is not.

use job::{JobId, Source};
use rusqlite::Connection;
use store::{Batch, FILE_NAME, JobWrite, Problem, check};

use crate::lives::many;
use crate::world::{World, plain};

fn problems(dir: &std::path::Path) -> Vec<Problem> {
    check(&dir.join(FILE_NAME), &mut |_, _, _| {})
        .unwrap()
        .problems
}

#[test]
fn a_sound_store_has_no_problems_running_and_stopped_purged_and_trimmed() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    many(&mut world, 100);
    let mut steps = 0;
    let report = check(&dir.path().join(FILE_NAME), &mut |_, _, _| steps += 1).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(
        (report.jobs, report.active, report.newest_seq),
        (100, 62, world.seq)
    );
    assert_eq!(report.entries, world.seq.0);
    assert_eq!(report.epoch, world.recovered.epoch);
    assert!(steps > 3);
    let purge = r#"{"timestamp":1.5,"name":"purge","context":{"jobs":[1,2]}}"#;
    let entry = world.entry(Source::System, 11, purge);
    world.store(Batch {
        entries: vec![entry],
        jobs: [1, 2].map(|id| JobWrite::Delete { id: JobId(id) }).into(),
        ..Batch::default()
    });
    assert_eq!(problems(dir.path()), []);
    let entry = world.entry(Source::System, 12, &plain("note", 1.5));
    world.store(Batch {
        trim: Some(job::Seq(world.seq.0 / 2)),
        entries: vec![entry],
        ..Batch::default()
    });
    assert_eq!(problems(dir.path()), []);
    world.writer.close().unwrap();
    assert_eq!(problems(dir.path()), []);
}

#[test]
fn every_kind_of_damage_is_named() {
    let whole = tempfile::tempdir().unwrap();
    let mut world = World::open(whole.path());
    many(&mut world, 20);
    world.writer.close().unwrap();
    for (sql, place, job, text) in [
        (
            "UPDATE log SET lines = 'x' WHERE last_seq = 4",
            "log",
            None,
            "row 4",
        ),
        (
            "DELETE FROM log WHERE last_seq = 4",
            "log",
            None,
            "no rows for seq 1 to 4",
        ),
        (
            "DELETE FROM log WHERE last_seq = (SELECT max(last_seq) FROM log)",
            "log",
            None,
            "the log has no rows",
        ),
        (
            "UPDATE job SET userid = 'x' WHERE id = 3",
            "job",
            Some(3),
            "userid",
        ),
        (
            "UPDATE job SET eventlog = replace(eventlog, '\"validate\"', '\"start\"') WHERE id = 3",
            "job",
            Some(3),
            "does not apply",
        ),
        (
            "UPDATE job SET eventlog = replace(eventlog, '\"priority\":16', '\"priority\":17') WHERE id = 3",
            "log",
            Some(3),
            "not the same",
        ),
        (
            "DELETE FROM job WHERE id = 3",
            "job",
            None,
            "job 3 is in the log and has no row",
        ),
        (
            "UPDATE job SET spec = 4711 WHERE id = 3",
            "job",
            Some(3),
            "the jobspec is missing",
        ),
        (
            "UPDATE blob SET data = '{}' WHERE id = (SELECT spec FROM job WHERE id = 3)",
            "job",
            Some(3),
            "its jobspec",
        ),
        (
            "UPDATE job SET r = '{}' WHERE id = 3",
            "job",
            Some(3),
            "its R",
        ),
        (
            "UPDATE job SET active = 1 WHERE id = 3",
            "job",
            Some(3),
            "the row says that the job is active",
        ),
        (
            "UPDATE blob SET refs = refs + 1 WHERE id = 1",
            "blob",
            None,
            "fewer rows",
        ),
        (
            "UPDATE blob SET refs = 0 WHERE id = 1",
            "blob",
            None,
            "more rows",
        ),
        (
            "UPDATE tail SET job = 4711 WHERE seq = (SELECT min(seq) FROM tail)",
            "tail",
            None,
            "not there",
        ),
        (
            "UPDATE instancelog SET line = 'x' WHERE seq = (SELECT min(seq) FROM instancelog)",
            "instancelog",
            None,
            "seq",
        ),
        (
            "DELETE FROM instancelog",
            "instancelog",
            None,
            "not those of the log",
        ),
        (
            "UPDATE meta SET value = 'x' WHERE key = 'store.epoch'",
            "meta",
            None,
            "16 hex digits",
        ),
        (
            "UPDATE meta SET value = x'ff' WHERE key = 'queues'",
            "meta",
            None,
            "not text",
        ),
        (
            "INSERT OR REPLACE INTO meta(key, value) VALUES('queues', '{\"version\":1')",
            "meta",
            None,
            "queues cannot be read: the queue is closed at a start",
        ),
        (
            "INSERT INTO meta(key, value) VALUES('resources', '{\"seq\":1,\"up\":\"0\"}')",
            "meta",
            None,
            "resources: state of the nodes is malformed: up",
        ),
        (
            "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'job_done'",
            "schema",
            None,
            "job",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(whole.path().join(FILE_NAME), dir.path().join(FILE_NAME)).unwrap();
        Connection::open(dir.path().join(FILE_NAME))
            .unwrap()
            .execute_batch(sql)
            .unwrap();
        let found = problems(dir.path());
        assert!(
            found.iter().any(|one| one.place == place
                && one.job == job.map(JobId)
                && one.what.contains(text)),
            "{sql}: {found:?}"
        );
    }
}

/// Once it named every job with an entry in a damaged part of the log as set aside, and told people to purge them.
#[test]
fn fault_jobs_that_can_be_used_are_not_called_set_aside_when_the_log_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    many(&mut world, 20);
    world.writer.close().unwrap();
    let file = dir.path().join(FILE_NAME);
    for (sql, aside) in [
        ("DELETE FROM log WHERE last_seq = 4", vec![]),
        ("UPDATE job SET userid = 'x' WHERE id = 3", vec![JobId(3)]),
    ] {
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        let report = check(&file, &mut |_, _, _| {}).unwrap();
        assert!(
            report
                .problems
                .iter()
                .any(|one| one.place == "log" && one.job.is_some())
        );
        assert_eq!(
            report.set_aside().iter().copied().collect::<Vec<_>>(),
            aside
        );
    }
}
