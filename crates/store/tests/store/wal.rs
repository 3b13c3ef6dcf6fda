//! A write-ahead log that lost commits which were told: the epoch is new then, and only then.

use std::path::Path;

use job::JobId;
use store::{Batch, FILE_NAME, MARK_NAME, StoreOptions, check};

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
    for name in [
        FILE_NAME.to_owned(),
        format!("{FILE_NAME}-wal"),
        MARK_NAME.to_owned(),
    ] {
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
    // As after a power cut, or of a store that was copied.
    std::fs::remove_file(dir.path().join(MARK_NAME)).unwrap();
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

/// What a check says of the WAL.
fn said(dir: &Path) -> Vec<String> {
    let report = check(&dir.join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    let of_wal = report.problems.into_iter().filter(|one| one.place == "wal");
    of_wal.map(|one| one.what).collect()
}

#[test]
fn promise_durable_a_wal_that_is_cut_short_is_noticed_by_the_mark_of_its_writer() {
    for (cut, is_lost) in [
        (0, false),
        (1, true),
        (FRAME, true),
        (10 * FRAME, true),
        (usize::MAX, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let epoch = killed(dir.path());
        let wal = dir.path().join(format!("{FILE_NAME}-wal"));
        let mut bytes = std::fs::read(&wal).unwrap();
        bytes.truncate(bytes.len().saturating_sub(cut));
        std::fs::write(&wal, bytes).unwrap();
        let said = said(dir.path());
        assert_eq!(said.len(), usize::from(is_lost), "{cut}: {said:?}");
        assert!(
            said.iter()
                .all(|what| what.contains("seq 40 was on disk and told")),
            "{said:?}"
        );
        let world = World::open(dir.path());
        assert_eq!(world.recovered.epoch != epoch, is_lost, "{cut}");
        assert_eq!(
            world.recovered.max_jobid,
            JobId(20),
            "{cut}: no id is given twice"
        );
        let epoch = world.recovered.epoch.clone();
        world.writer.close().unwrap();
        let world = World::open(dir.path());
        assert_eq!(world.recovered.epoch, epoch, "{cut}: it is said once");
        world.writer.close().unwrap();
    }
}

#[test]
fn fault_an_older_copy_put_in_place_by_hand_does_not_keep_its_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    let mut world = World::open(dir.path());
    let epoch = world.recovered.epoch.clone();
    for id in 1..=2 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
        if id == 1 {
            world.writer.close().unwrap();
            std::fs::copy(&file, dir.path().join("copy")).unwrap();
            world = World::open(dir.path());
            assert_eq!(world.recovered.epoch, epoch);
        }
    }
    world.writer.close().unwrap();
    std::fs::copy(dir.path().join("copy"), &file).unwrap();
    assert_eq!(said(dir.path()).len(), 1);
    // A recovery of it does not hide that.
    let copied = tempfile::tempdir().unwrap();
    for name in [FILE_NAME, MARK_NAME] {
        std::fs::copy(dir.path().join(name), copied.path().join(name)).unwrap();
    }
    assert!(
        store::salvage(copied.path(), &mut |_, _, _| ())
            .unwrap()
            .new_epoch
    );
    for dir in [dir.path(), copied.path()] {
        let world = World::open(dir);
        assert_ne!(world.recovered.epoch, epoch);
        assert_eq!(world.recovered.max_jobid, JobId(2));
        world.writer.close().unwrap();
        assert_eq!(said(dir), [""; 0]);
    }
}

#[test]
fn fault_what_a_wal_lost_is_named_by_check_and_what_a_kill_leaves_is_not() {
    let change = |change: &dyn Fn(&mut Vec<u8>)| {
        let dir = tempfile::tempdir().unwrap();
        killed(dir.path());
        std::fs::remove_file(dir.path().join(MARK_NAME)).unwrap();
        let wal = dir.path().join(format!("{FILE_NAME}-wal"));
        let mut bytes = std::fs::read(&wal).unwrap();
        change(&mut bytes);
        std::fs::write(&wal, bytes).unwrap();
        dir
    };
    let dir = change(&|wal| damage(wal));
    assert!(
        said(dir.path())[0].contains("a commit stands behind it"),
        "{:?}",
        said(dir.path())
    );
    let dir = change(&|wal| wal[..32].fill(0));
    assert!(said(dir.path())[0].contains("its header does not check"));
    let dir = change(&|wal| wal.truncate(wal.len() - 2000));
    assert_eq!(said(dir.path()), [""; 0]);
    let report = check(&dir.path().join(FILE_NAME), &mut |_, _, _| {}).unwrap();
    assert!(
        report.wal_torn > 0 && report.wal_commits == 19,
        "{report:?}"
    );
    std::fs::create_dir_all(dir.path().join("jobs/4711")).unwrap();
    assert!(said(dir.path())[0].contains("newer than all that the store knows"));
}
