//! Scans by page are exact while the store changes under them; the log has a floor; histories and listings keep their order.

use job::{JobId, Seq};
use store::{Batch, CURSOR_START, JobWrite, ReadError, Reader, Scope};

use crate::world::World;

fn ids(reader: &Reader, scope: Scope, limit: usize, mut between: impl FnMut()) -> Vec<u64> {
    let (mut cursor, mut all) = (Some(CURSOR_START), Vec::new());
    while let Some(at) = cursor {
        let page = reader.jobs_page(scope, at, limit, 1 << 20).unwrap();
        all.extend(page.jobs.iter().map(|job| job.id.0));
        cursor = page.next;
        between();
    }
    all
}

#[test]
fn a_scan_of_active_jobs_is_exact_while_jobs_end_and_begin() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    for id in 1..=20 {
        world.submit(id, 1000, 0, &mut batch);
    }
    for id in [3, 9] {
        world.clean(id, 3, &mut batch);
    }
    world.store(batch);
    let at = world.seq;
    let expected: Vec<u64> = (1..=20).filter(|id| ![3, 9].contains(id)).collect();
    let reader = world.reader();
    let mut step = 0;
    let found = ids(&reader, Scope::Active { at }, 3, || {
        step += 1;
        let mut batch = Batch::default();
        // One that was given already, one that was not yet; and a new one.
        for id in [step, 21 - step] {
            if expected.contains(&id) && step < 8 {
                world.clean(id, 3, &mut batch);
            }
        }
        world.submit(100 + step, 1000, 0, &mut batch);
        world.store(batch);
    });
    let old: Vec<u64> = found.iter().copied().filter(|id| *id <= 20).collect();
    assert_eq!(old, expected, "none missed, none twice");
    // The other half of the same moment.
    assert_eq!(ids(&reader, Scope::Inactive { upto: at }, 1, || {}), [3, 9]);
}

#[test]
fn a_page_of_the_log_counts_what_goes_with_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    for id in 1..=6 {
        world.submit(id, 1000, 0, &mut batch);
    }
    for write in &mut batch.jobs {
        if let JobWrite::Insert { id, jobspec, .. } = write {
            *jobspec = format!("{{\"big\":\"{}{}\"}}", id.0, "x".repeat(100_000)).into();
        }
    }
    world.store(batch);
    let reader = world.reader();
    let (mut after, mut seqs) = (Seq(0), Vec::new());
    while after < Seq(12) {
        let page = reader.log_after(after, 1000, 150_000).unwrap();
        assert!(!page.entries.is_empty() && page.entries.len() <= 4);
        assert!(page.upto > after);
        seqs.extend(page.entries.iter().map(|entry| entry.seq.0));
        after = page.upto;
    }
    assert_eq!(seqs, (1..=12).collect::<Vec<u64>>());
}

#[test]
fn the_log_has_a_floor_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    for id in 1..=5 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
    }
    world.store(Batch {
        trim: Some(Seq(5)),
        ..Batch::default()
    });
    let reader = world.reader();
    assert_eq!(reader.floor().unwrap(), Seq(4));
    let error = reader.log_after(Seq(3), 10, 1 << 20).unwrap_err();
    assert!(matches!(
        error,
        ReadError::BelowFloor {
            after: Seq(3),
            floor: Seq(4)
        }
    ));
    assert!(!error.may_retry());
    assert_eq!(
        reader.log_after(Seq(4), 10, 1 << 20).unwrap().entries[0].seq,
        Seq(5)
    );
    assert_eq!(
        reader
            .job(JobId(1), false)
            .unwrap()
            .unwrap()
            .unwrap()
            .eventlog
            .len(),
        2
    );
    world.store(Batch {
        trim: Some(Seq(10)),
        ..Batch::default()
    });
    world.writer.close().unwrap();
    let world = World::open(dir.path());
    assert_eq!(
        (world.recovered.newest_seq, world.recovered.floor),
        (Seq(10), Seq(10))
    );
    assert!(world.recovered.last_timestamp > job::Timestamp(1_700_000_000.0));
}

#[test]
fn a_purged_job_leaves_no_trace_but_its_id_is_not_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    // 1 and 4 share a jobspec.
    for id in [1, 2, 4] {
        world.submit(id, 1000, 0, &mut batch);
    }
    world.clean(4, 3, &mut batch);
    world.store(batch);
    let mut batch = Batch::default();
    batch.jobs.push(store::JobWrite::Delete { id: JobId(4) });
    world.store(batch);
    let reader = world.reader();
    assert!(reader.job(JobId(4), false).unwrap().is_none());
    let page = reader.log_after(Seq(0), 100, 1 << 20).unwrap();
    assert_eq!(
        page.entries
            .iter()
            .map(|entry| entry.seq.0)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert_eq!(page.upto, world.seq);
    assert_eq!(
        reader
            .job(JobId(1), false)
            .unwrap()
            .unwrap()
            .unwrap()
            .jobspec,
        crate::world::jobspec(1).as_bytes()
    );
    let db = rusqlite::Connection::open(dir.path().join(store::FILE_NAME)).unwrap();
    let blobs: i64 = db
        .query_row("SELECT count(*) FROM blob", [], |row| row.get(0))
        .unwrap();
    assert_eq!(blobs, 4, "two jobspecs and two Js are left");
    // Its bytes again: the store must not name the row that went.
    let mut batch = Batch::default();
    world.submit(7, 1000, 0, &mut batch);
    world.submit(10, 1000, 0, &mut batch);
    batch.jobs.push(store::JobWrite::Delete { id: JobId(10) });
    world.store(batch);
    assert_eq!(
        world
            .reader()
            .job(JobId(7), false)
            .unwrap()
            .unwrap()
            .unwrap()
            .jobspec,
        crate::world::jobspec(1).as_bytes()
    );
    world.writer.close().unwrap();
    assert_eq!(World::open(dir.path()).recovered.max_jobid, JobId(10));
}

#[test]
fn histories_and_inactive_listings_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    for id in 1..=9 {
        world.submit(id, if id % 3 == 0 { 1001 } else { 1000 }, 4, &mut batch);
    }
    for id in [5, 2, 7] {
        world.clean(id, 3, &mut batch);
    }
    world.store(batch);
    let reader = world.reader();
    let history = |userid, skip, limit| -> Vec<u64> {
        reader
            .history(userid, skip, limit)
            .unwrap()
            .into_iter()
            .map(|id| id.0)
            .collect()
    };
    assert_eq!(history(1000, 0, 100), [8, 7, 5, 4, 2, 1]);
    assert_eq!(history(1000, 1, 2), [7, 5]);
    assert_eq!(history(1001, 0, 100), [9, 6, 3]);
    assert_eq!(history(4711, 0, 100), [0; 0]);
    assert_eq!(reader.history_len(1000).unwrap(), 6);
    let (mut after, mut owners) = (None, Vec::new());
    loop {
        let page = reader.owners(after, 2).unwrap();
        owners.extend(page.iter().map(|(userid, id)| (*userid, id.0)));
        after = page.last().copied();
        if page.len() < 2 {
            break;
        }
    }
    let of_1000 = [1, 2, 4, 5, 7, 8].map(|id| (1000, id));
    let of_1001 = [3, 6, 9].map(|id| (1001, id));
    assert_eq!(owners, [&of_1000[..], &of_1001[..]].concat());
    assert_eq!(ids(&reader, Scope::Waitable, 2, || {}), [2, 5, 7]);
    let (mut after, mut listed) = (None, Vec::new());
    loop {
        let page = reader.inactive(after, 2).unwrap();
        let Some(last) = page.jobs.last() else { break };
        after = last.t_inactive.map(|time| (time, last.id));
        listed.extend(page.jobs.iter().map(|job| job.id.0));
    }
    assert_eq!(listed, [7, 2, 5]);
    let mut batch = Batch::default();
    batch.jobs.push(store::JobWrite::Consumed { id: JobId(5) });
    world.store(batch);
    assert_eq!(ids(&reader, Scope::Waitable, 2, || {}), [2, 7]);
}

#[test]
fn a_job_is_found_by_its_users_key_until_it_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    for (id, userid) in [(1, 1000), (2, 1001), (3, 1000)] {
        world.submit(id, userid, 0, &mut batch);
    }
    for (write, submitted) in batch.jobs.iter_mut().zip(["a", "a", "A"]) {
        if let JobWrite::Insert { key, .. } = write {
            *key = Some(submitted.into());
        }
    }
    world.submit(4, 1000, 0, &mut batch);
    world.submit(5, 1000, 0, &mut batch);
    world.store(batch);
    let reader = world.reader();
    let found = |userid, key: &str| {
        let found = reader.by_key(userid, key).unwrap();
        found.map(|(id, job)| (id.0, job.unwrap().userid))
    };
    assert_eq!(found(1000, "a"), Some((1, 1000)));
    assert_eq!(found(1001, "a"), Some((2, 1001)));
    assert_eq!(found(1000, "A"), Some((3, 1000)));
    assert_eq!((found(1002, "a"), found(1000, "")), (None, None));
    let mut batch = Batch::default();
    world.clean(1, 3, &mut batch);
    world.store(batch);
    assert_eq!(found(1000, "a"), Some((1, 1000)), "done, and still there");
    let mut batch = Batch {
        jobs: vec![JobWrite::Delete { id: JobId(1) }],
        ..Batch::default()
    };
    world.submit(6, 1000, 0, &mut batch);
    world.store(batch);
    assert_eq!(found(1000, "a"), None);
    // The key goes from one job to another in one transaction, whose entries name the new one first.
    let mut batch = Batch::default();
    world.clean(3, 3, &mut batch);
    world.store(batch);
    let mut batch = Batch {
        jobs: vec![JobWrite::Delete { id: JobId(3) }],
        ..Batch::default()
    };
    world.submit(7, 1000, 0, &mut batch);
    if let Some(JobWrite::Insert { key, .. }) = batch.jobs.last_mut() {
        *key = Some("A".into());
    }
    world.store(batch);
    assert_eq!(found(1000, "A"), Some((7, 1000)));
}
