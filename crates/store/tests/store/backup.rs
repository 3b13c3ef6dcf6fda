//! A copy of a running store is whole, carries on as a store of its own, and cannot be taken for the one it was taken of.

use job::Seq;
use store::{BackupError, Batch, FILE_NAME, Store, StoreOptions, backup, check, salvage};

use crate::world::{World, lines};

#[test]
fn a_copy_of_a_running_store_is_whole_and_has_an_epoch_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    for id in 1..=500 {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
    }
    let other = tempfile::tempdir().unwrap();
    let to = other.path().join(FILE_NAME);
    // Commits go on while it is copied.
    let copied = std::thread::scope(|scope| {
        let file = dir.path().join(FILE_NAME);
        let copy = scope.spawn(move || backup(&file, &to).unwrap());
        for id in 501..=600 {
            let mut batch = Batch::default();
            world.submit(id, 1000, 0, &mut batch);
            world.store(batch);
        }
        copy.join().unwrap()
    });
    assert_eq!(copied.epoch, world.recovered.epoch);
    assert!(copied.newest_seq >= Seq(1000) && copied.newest_seq <= Seq(1200));
    let again = backup(&dir.path().join(FILE_NAME), &other.path().join(FILE_NAME));
    assert!(matches!(again, Err(BackupError::Exists { .. })));
    let names: Vec<_> = std::fs::read_dir(other.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(other.path().join(FILE_NAME))
            .unwrap()
            .permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);

    let all = world.log();
    let copy = World::open(other.path());
    assert_eq!(copy.recovered.newest_seq, copied.newest_seq);
    assert_ne!(
        copy.recovered.epoch, copied.epoch,
        "a cursor of the old one may be ahead"
    );
    let held = copied.newest_seq.0 as usize;
    assert_eq!(lines(&copy.log()), lines(&all[..held]));
    let epoch = copy.recovered.epoch.clone();
    copy.writer.close().unwrap();
    // Once: it is a store like any other now.
    assert_eq!(World::open(other.path()).recovered.epoch, epoch);
}

#[test]
fn what_is_no_store_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let nothing = backup(&dir.path().join(FILE_NAME), &dir.path().join("copy"));
    assert!(matches!(nothing, Err(BackupError::Nothing { .. })));
    let dir = tempfile::tempdir().unwrap();
    World::open(dir.path()).writer.close().unwrap();
    let nowhere = backup(&dir.path().join(FILE_NAME), &dir.path().join("no/where"));
    assert!(matches!(nowhere, Err(BackupError::Write { .. })));
}

/// SQLite would take the other store's WAL for the copy's own, and nobody would know which of the two is served.
#[test]
fn fault_a_copy_beside_the_wal_of_the_store_before_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let submit = |world: &mut World, id| {
        let mut batch = Batch::default();
        world.submit(id, 1000, 0, &mut batch);
        world.store(batch);
    };
    submit(&mut world, 1);
    let state = tempfile::tempdir().unwrap();
    let (file, wal) = (
        state.path().join(FILE_NAME),
        state.path().join("store.sqlite-wal"),
    );
    backup(&dir.path().join(FILE_NAME), &file).unwrap();
    submit(&mut world, 2);
    // As a kill leaves it.
    std::fs::copy(dir.path().join("store.sqlite-wal"), &wal).unwrap();
    let before = (std::fs::read(&file).unwrap(), std::fs::read(&wal).unwrap());
    let refused = [
        Store::open(state.path(), StoreOptions::default(), |_| {})
            .unwrap_err()
            .to_string(),
        check(&file, &mut |_, _, _| {}).unwrap_err().to_string(),
        salvage(state.path(), &mut |_, _, _| {})
            .unwrap_err()
            .to_string(),
        backup(&file, &state.path().join("x"))
            .unwrap_err()
            .to_string(),
    ];
    for text in refused {
        assert!(
            text.ends_with(&format!("move {} away", wal.display())),
            "{text}"
        );
    }
    assert_eq!(
        before,
        (std::fs::read(&file).unwrap(), std::fs::read(&wal).unwrap())
    );
    std::fs::remove_file(&wal).unwrap();
    let copy = World::open(state.path());
    assert_eq!(copy.recovered.newest_seq, Seq(2));
    // From its first moment on, what is beside it is its own, whatever else still says that it is a copy.
    let killed = tempfile::tempdir().unwrap();
    for name in [FILE_NAME, "store.sqlite-wal"] {
        std::fs::copy(state.path().join(name), killed.path().join(name)).unwrap();
    }
    assert!(
        std::fs::metadata(killed.path().join("store.sqlite-wal"))
            .unwrap()
            .len()
            > 0
    );
    assert_eq!(
        World::open(killed.path()).recovered.epoch,
        copy.recovered.epoch
    );
}
