//! A write-ahead log that lost commits which were told: the epoch is new then, and only then.

use std::path::Path;

use job::JobId;
use store::{Batch, FILE_NAME, StoreOptions};

use crate::world::World;

const FRAME: usize = 24 + 4096;

/// The files of a store with jobs 1 to 20, as a kill leaves them, each job a commit of its own; and its epoch.
fn killed(to: &Path) -> String {
    let dir = tempfile::tempdir().unwrap();
    World::open(dir.path()).writer.close().unwrap();
    let mut world = World::open(dir.path());
    // Who reads keeps the WAL from being copied into the file and begun anew meanwhile.
    let holder = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
    holder
        .execute_batch("BEGIN; SELECT count(*) FROM job")
        .unwrap();
    for id in 1..=20 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
    }
    for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}-wal")] {
        std::fs::copy(dir.path().join(&name), to.join(&name)).unwrap();
    }
    drop(holder);
    let epoch = world.recovered.epoch.clone();
    world.writer.close().unwrap();
    epoch
}

/// Opened after that was done to the WAL: whether the epoch is new, and the newest job.
fn opened(change: impl FnOnce(&mut Vec<u8>), told: Option<u64>) -> (bool, u64) {
    let dir = tempfile::tempdir().unwrap();
    let epoch = killed(dir.path());
    let wal = dir.path().join(format!("{FILE_NAME}-wal"));
    let mut bytes = std::fs::read(&wal).unwrap();
    assert_eq!((bytes.len() - 32) % FRAME, 0);
    change(&mut bytes);
    std::fs::write(&wal, bytes).unwrap();
    let options = StoreOptions {
        told_jobid: told.map(JobId),
        ..StoreOptions::default()
    };
    let world = World::with(dir.path(), options.clone());
    let met = (world.recovered.epoch != epoch, world.recovered.max_jobid.0);
    let epoch = world.recovered.epoch.clone();
    world.writer.close().unwrap();
    // It is said once.
    let world = World::with(dir.path(), options);
    assert_eq!(world.recovered.epoch, epoch);
    assert_eq!(world.recovered.max_jobid.0, met.1);
    world.writer.close().unwrap();
    met
}

/// The middle frame of the WAL is damaged.
fn damage(wal: &mut [u8]) {
    let at = frame(wal.len() / FRAME / 2) + 100;
    wal[at..at + 16].iter_mut().for_each(|byte| *byte = !*byte);
}

/// Where this frame begins.
fn frame(number: usize) -> usize {
    32 + (number - 1) * FRAME
}

#[test]
fn fault_a_wal_damaged_before_commits_that_were_told_means_a_new_epoch() {
    for at in [8, 100, FRAME - 20] {
        let (new, newest) = opened(
            |wal| {
                let at = frame(wal.len() / FRAME / 2) + at;
                wal[at..at + 16].iter_mut().for_each(|byte| *byte = !*byte);
            },
            None,
        );
        assert!(new && newest < 20, "{at}: {newest}");
    }
    let (new, _) = opened(|wal| wal[..32].fill(0), None);
    assert!(new, "without its header nobody knows");
}

#[test]
fn a_wal_as_a_kill_leaves_it_keeps_the_epoch() {
    assert_eq!(opened(|_| {}, Some(20)), (false, 20));
    // In the middle of the last frame, of its header, before the commit; the same over frames of the life before.
    for cut in [1, 2000, 4096, FRAME - 1, FRAME] {
        assert_eq!(
            opened(|wal| wal.truncate(wal.len() - cut), None),
            (false, 19),
            "{cut}"
        );
        let old = |wal: &mut Vec<u8>| {
            let mut before = wal.clone();
            for frame in before[32..].chunks_exact_mut(FRAME) {
                frame[8] ^= 1;
                frame[16..].iter_mut().for_each(|byte| *byte = !*byte);
            }
            let kept = wal.len() - cut;
            wal.truncate(kept);
            wal.extend_from_slice(&before[kept..]);
            wal.extend_from_slice(&before[32..]);
        };
        assert_eq!(opened(old, None), (false, 19), "{cut}");
    }
    let (new, _) = opened(|wal| wal.truncate(0), None);
    assert!(!new);
}

#[test]
fn fault_a_job_newer_than_the_store_means_a_new_epoch_and_its_id_is_not_given_again() {
    let half = |wal: &mut Vec<u8>| wal.truncate(wal.len() / 2);
    let (new, newest) = opened(half, None);
    assert!(!new && newest < 20, "a cut alone tells nothing");
    assert_eq!(opened(half, Some(20)), (true, 20));
    // A name that somebody made up.
    let (new, same) = opened(half, Some(u64::MAX));
    assert!(!new && same == newest);
}

#[test]
fn fault_what_looks_before_a_start_does_not_hide_that_commits_are_lost() {
    for look in ["check", "backup", "recover"] {
        let dir = tempfile::tempdir().unwrap();
        let epoch = killed(dir.path());
        let file = dir.path().join(FILE_NAME);
        let wal = dir.path().join(format!("{FILE_NAME}-wal"));
        let mut bytes = std::fs::read(&wal).unwrap();
        damage(&mut bytes);
        std::fs::write(&wal, bytes).unwrap();
        match look {
            "check" => drop(store::check(&file, &mut |_, _, _| ()).unwrap()),
            "backup" => drop(store::backup(&file, &dir.path().join("copy")).unwrap()),
            _ => assert!(
                store::salvage(dir.path(), &mut |_, _, _| ())
                    .unwrap()
                    .new_epoch
            ),
        }
        let world = World::open(dir.path());
        assert_ne!(world.recovered.epoch, epoch, "{look}");
        world.writer.close().unwrap();
    }
}
