//! What was told Durable is there after a reopen, in order; epoch and seq live on.

use job::{Attach, JobId, Seq, Source, Timestamp};
use store::{Batch, Event, JobWrite};

use crate::world::{World, jobspec, lines, plain, time};

#[test]
fn invariant_2_what_was_told_durable_is_there_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, Seq(0));
    assert_eq!(world.recovered.epoch.len(), 16);
    assert!(
        world
            .recovered
            .epoch
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    );
    let mut batch = Batch::default();
    world.submit(41, 1000, 0, &mut batch);
    world.submit(42, 1001, 0, &mut batch);
    batch.meta.push(("queues".into(), "{}".into()));
    world.store(batch);
    let before = (world.recovered.epoch.clone(), lines(&world.log()));
    world.writer.close().unwrap();

    let mut world = World::open(dir.path());
    assert_eq!(world.recovered.epoch, before.0);
    assert_eq!(lines(&world.log()), before.1);
    assert_eq!(world.recovered.newest_seq, Seq(4));
    assert_eq!(world.recovered.floor, Seq(0));
    assert_eq!(world.recovered.max_jobid, JobId(42));
    assert_eq!(world.recovered.last_timestamp, Timestamp(time(3)));
    assert_eq!(
        world.recovered.meta.clone().into_iter().collect::<Vec<_>>(),
        [("queues".to_owned(), "{}".to_owned())]
    );
    a_second_open_is_refused(dir.path());
    let mut batch = Batch::default();
    world.clean(41, 3, &mut batch);
    assert_eq!(batch.entries[0].seq, Seq(5));
    world.store(batch);
    let job = world
        .reader()
        .job(JobId(41), true)
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(!job.active);
    assert_eq!(job.done_seq, Some(Seq(5)));
    assert_eq!(job.j.as_deref(), Some(&b"J of 41"[..]));
    assert_eq!(job.eventlog.len(), 3);
}

/// While one daemon holds the directory, another gets an error that names it.
fn a_second_open_is_refused(dir: &std::path::Path) {
    let error = store::Store::open(dir, store::StoreOptions::default(), |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&format!("in use by process {}", std::process::id())),
        "{error}"
    );
    assert!(error.contains(&dir.display().to_string()), "{error}");
    assert!(error.contains("--statedir"), "{error}");
}

#[test]
fn batches_keep_their_order_and_commits_gather_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let count = 3000;
    let mut expected = String::new();
    for id in 1..=count {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        expected.extend(
            batch
                .entries
                .iter()
                .map(|entry| String::from_utf8_lossy(entry.line()).into_owned()),
        );
        world.give(batch);
    }
    let (mut newest, mut stored, mut commits) = (Seq(0), 0, 0);
    while newest < world.seq {
        let Event::Durable { seq, batches, .. } = world.next() else {
            panic!("not durable")
        };
        assert!(seq > newest);
        newest = seq;
        stored += batches;
        commits += 1;
    }
    assert_eq!(stored, usize::try_from(count).unwrap());
    assert!(commits < count, "{commits} commits");
    assert_eq!(lines(&world.log()), expected);
}

#[test]
fn a_gap_is_fatal_and_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    world.submit(1, 1000, 0, &mut batch);
    batch.entries.remove(0);
    world.give(batch);
    let Event::Fatal(text) = world.next() else {
        panic!("not fatal")
    };
    assert!(
        text.contains("entry 2 handed to the store after 0"),
        "{text}"
    );
    assert!(world.log().is_empty());
}

#[test]
fn submit_carries_the_jobspec_and_alloc_r_from_log_and_archive() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    world.submit(7, 1000, 0, &mut batch);
    world.store(batch);
    let mut batch = Batch::default();
    batch
        .entries
        .push(world.entry(Source::Job(JobId(7)), 3, &plain("alloc", 1_700_000_001.5)));
    batch.jobs.push(JobWrite::SetR {
        id: JobId(7),
        r: bytes::Bytes::from_static(b"{\"version\":1}"),
    });
    batch
        .entries
        .push(world.entry(Source::Resource, 1, &plain("node-up", 1_700_000_001.5)));
    world.store(batch);
    let log = world.log();
    let archive = world
        .reader()
        .job(JobId(7), false)
        .unwrap()
        .unwrap()
        .unwrap();
    for entries in [&log[..3], &archive.eventlog[..]] {
        assert_eq!(entries[0].attach, Attach::Jobspec(jobspec(7).into()));
        assert_eq!(entries[1].attach, Attach::None);
        assert_eq!(
            entries[2].attach,
            Attach::R(bytes::Bytes::from_static(b"{\"version\":1}"))
        );
    }
    assert_eq!(log[3].source, Source::Resource);
    let page = world
        .reader()
        .instance_entries(Seq(0), world.seq, 10)
        .unwrap();
    assert_eq!(page.entries, log[3..]);
    assert_eq!(archive.r.as_deref(), Some(&b"{\"version\":1}"[..]));
    assert_eq!(archive.j, None);
    let db = rusqlite::Connection::open(dir.path().join(store::FILE_NAME)).unwrap();
    let count = |table: &str| -> i64 {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        })
        .unwrap()
    };
    let joblog = || -> String {
        db.query_row("SELECT lines FROM joblog WHERE id = 7", [], |row| {
            row.get(0)
        })
        .unwrap()
    };
    assert_eq!((count("tail"), joblog()), (1, lines(&log[..3])));
    let mut batch = Batch::default();
    world.clean(7, 4, &mut batch);
    world.store(batch);
    assert_eq!(
        (count("tail"), joblog().lines().count()),
        (0, 4),
        "the tail moves into the row when the job is done"
    );
}
