//! What a purge looks for and leaves: jobs beyond limits in the order they ended, rows and keys that go, the space they had.

use crate::world::World;
use job::{JobId, Source, Timestamp};
use store::{Batch, Ended, JobWrite};

/// Jobs 1 to `count`, ended in the order of `order`.
fn ended(world: &mut World, order: &[u64], flags: impl Fn(u64) -> u32) {
    for id in order {
        let mut batch = Batch::default();
        world.submit(*id, 1000, flags(*id), &mut batch);
        world.clean(*id, 3, &mut batch);
        world.store(batch);
    }
}

fn beyond(before: Option<f64>, keep: Option<u64>) -> Ended {
    Ended::Beyond {
        before: before.map(Timestamp),
        keep,
    }
}

#[test]
fn jobs_beyond_a_limit_are_found_in_the_order_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    // 8 and 1 are waited for; 9 is active.
    ended(&mut world, &[3, 8, 1, 7, 5], |id| {
        if matches!(id, 8 | 1) { 4 } else { 0 }
    });
    let mut batch = Batch::default();
    world.submit(9, 1000, 0, &mut batch);
    world.store(batch);
    let reader = world.reader();
    let t = |id| {
        let job = reader.job(JobId(id), false).unwrap().unwrap().unwrap();
        job.t_inactive.unwrap().0
    };
    let find = |which, limit| {
        let (jobs, total) = reader.ended(which, limit, true).unwrap();
        let jobs: Vec<u64> = jobs.iter().map(|id| id.0).collect();
        (jobs, total)
    };
    assert_eq!(find(Ended::All, 10), (vec![3, 8, 1, 7, 5], 5));
    assert_eq!(find(Ended::All, 2), (vec![3, 8], 5));
    assert_eq!(reader.ended(Ended::All, 2, false).unwrap().1, 0);
    assert_eq!(find(beyond(None, None), 10), (vec![], 0));
    assert_eq!(find(beyond(None, Some(0)), 10), (vec![3, 7, 5], 3));
    assert_eq!(find(beyond(None, Some(1)), 10), (vec![3, 7], 2));
    assert_eq!(find(beyond(None, Some(4)), 10), (vec![3], 1));
    assert_eq!(find(beyond(None, Some(5)), 10), (vec![], 0));
    assert_eq!(find(beyond(None, Some(u64::MAX)), 10), (vec![], 0));
    assert_eq!(find(beyond(Some(t(7)), None), 10), (vec![3], 1));
    assert_eq!(find(beyond(Some(t(5)), None), 10), (vec![3, 7], 2));
    assert_eq!(find(beyond(Some(t(5) + 1.0), None), 1), (vec![3], 3));
    // Either limit is enough.
    assert_eq!(find(beyond(Some(t(7)), Some(1)), 10), (vec![3, 7], 2));
    assert_eq!(find(beyond(Some(t(5)), Some(4)), 10), (vec![3, 7], 2));
    // A result that was taken is kept from nothing.
    let event = crate::world::plain("wait", 1.0);
    let entry = world.entry(Source::System, 1, &event);
    world.store(Batch {
        entries: vec![entry],
        jobs: vec![JobWrite::Consumed { id: JobId(8) }],
        ..Batch::default()
    });
    let (jobs, total) = world
        .reader()
        .ended(beyond(None, Some(0)), 10, true)
        .unwrap();
    assert_eq!((jobs.len(), total), (4, 4));
}

#[test]
fn a_key_is_free_for_another_job_in_the_very_transaction_that_purges() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let keyed = |batch: &mut Batch| {
        for write in &mut batch.jobs {
            if let JobWrite::Insert { key, .. } = write {
                *key = Some("nightly".into());
            }
        }
    };
    let mut batch = Batch::default();
    world.submit(1, 1000, 0, &mut batch);
    keyed(&mut batch);
    world.clean(1, 3, &mut batch);
    world.store(batch);
    let mut batch = Batch::default();
    world.submit(2, 1000, 0, &mut batch);
    keyed(&mut batch);
    batch.jobs.push(JobWrite::Delete { id: JobId(1) });
    world.store(batch);
    let (id, job) = world.reader().by_key(1000, "nightly").unwrap().unwrap();
    assert_eq!((id, job.unwrap().id), (JobId(2), JobId(2)));
    assert!(world.reader().job(JobId(1), false).unwrap().is_none());
}

#[test]
fn a_job_submitted_and_purged_in_one_transaction_leaves_its_id_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = Batch::default();
    world.submit(7, 1000, 0, &mut batch);
    world.clean(7, 3, &mut batch);
    batch.jobs.push(JobWrite::Delete { id: JobId(7) });
    world.store(batch);
    assert!(world.reader().job(JobId(7), false).unwrap().is_none());
    assert_eq!(world.log(), []);
    world.writer.close().unwrap();
    assert_eq!(World::open(dir.path()).recovered.max_jobid, JobId(7));
}

#[test]
fn a_meta_key_without_a_value_is_gone_and_purges_go_with_the_floor() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    ended(&mut world, &[1, 2], |_| 0);
    let names = ["queue-stop", "purge", "purge", "queue-start", "purge"];
    for (at, name) in (1..).zip(names) {
        let json = format!(r#"{{"timestamp":1.5,"name":"{name}","context":{{"jobs":[1]}}}}"#);
        let entry = world.entry(Source::System, at, &json);
        world.store(Batch {
            entries: vec![entry],
            meta: vec![("sweep.7".into(), "1 2".into())],
            ..Batch::default()
        });
    }
    let seq = world.seq;
    let kept = |world: &World| {
        let page = world.reader().instance_entries(job::Seq(0), world.seq, 100);
        let entries = page.unwrap().entries;
        entries
            .iter()
            .map(|entry| entry.eventlog_seq)
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(&world), [1, 2, 3, 4, 5]);
    for upto in [seq.0 - 3, seq.0 - 1] {
        world.store(Batch {
            trim: Some(job::Seq(upto)),
            meta: vec![("sweep.7".into(), String::new())],
            ..Batch::default()
        });
    }
    assert_eq!(kept(&world), [1, 4, 5], "what is no purge stays");
    world.writer.close().unwrap();
    let recovered = World::open(dir.path()).recovered;
    assert_eq!(recovered.meta.get("sweep.7"), None);
    assert_eq!(recovered.floor, job::Seq(seq.0 - 1));
}
