//! Numbers that no store comes to, and rows that cannot be added: refused with the right remedy, named by a check, mended by a recovery.

use rusqlite::Connection;
use store::{Batch, FILE_NAME, OpenError, Store, StoreOptions, check, salvage};

use crate::world::World;

#[test]
fn fault_a_floor_or_a_seq_that_no_store_comes_to_is_damage_and_not_a_place_to_go_on_from() {
    for sql in [
        "INSERT OR REPLACE INTO meta VALUES ('store.floor', '18446744073709551615')",
        "INSERT OR REPLACE INTO meta VALUES ('store.floor', '1000')",
        "UPDATE log SET last_seq = 9223372036854775807 WHERE last_seq = (SELECT max(last_seq) FROM log)",
        "INSERT INTO tail (seq, job, lines) VALUES (9223372036854775807, 1, '')",
        "CREATE TRIGGER mine BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'mine'); END",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut world = World::open(dir.path());
        for id in 1..=3 {
            let mut batch = Batch::default();
            world.submit(id, 1000, 0, &mut batch);
            world.store(batch);
        }
        world.writer.close().unwrap();
        let file = dir.path().join(FILE_NAME);
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        let error = Store::open(dir.path(), StoreOptions::default(), |_| {}).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{sql}: {error}");
        assert!(error.to_string().contains("weir store recover"), "{error}");
        if !sql.contains("TRIGGER") {
            let report = check(&file, &mut |_, _, _| {}).unwrap();
            assert!(!report.problems.is_empty(), "{sql}");
        }
        salvage(dir.path(), &mut |_, _, _| {}).unwrap();
        let mut world = World::open(dir.path());
        assert!(world.seq.0 < 100, "{sql}: {}", world.seq);
        let mut batch = Batch::default();
        world.submit(9, 1000, 0, &mut batch);
        world.store(batch);
        world.writer.close().unwrap();
        let report = check(&file, &mut |_, _, _| {}).unwrap();
        // The jobspecs here are none.
        assert!(
            report
                .problems
                .iter()
                .all(|one| one.what.contains("jobspec")),
            "{sql}: {:?}",
            report.problems
        );
    }
}
