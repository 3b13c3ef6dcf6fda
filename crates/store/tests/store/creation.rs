//! A start that is killed while the store is made, at any point, leaves what the next start opens; so does whatever may lie beside a store.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use job::Seq;
use rusqlite::Connection;
use store::{Batch, FILE_NAME, OpenError, Store, StoreOptions};

use crate::world::World;

const DIR: &str = "STORE_TEST_CREATION_DIR";

/// Opens it, stores a job, closes it and finds the job: it is a store.
fn works(dir: &Path, what: &str) {
    println!("{what}");
    let mut world = World::open(dir);
    let mut batch = Batch::default();
    world.submit(world.recovered.max_jobid.0 + 1, 1000, 0, &mut batch);
    world.store(batch);
    let entries = world.log().len();
    world.writer.close().unwrap();
    let world = World::open(dir);
    assert_eq!(world.log().len(), entries, "{what}");
    world.writer.close().unwrap();
}

fn copy(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// What a kill between the first write of the file and its commit leaves: pages in the file, and the journal that takes them away.
#[test]
fn fault_a_store_killed_in_its_first_write_opens() {
    let making = tempfile::tempdir().unwrap();
    let db = Connection::open(making.path().join(FILE_NAME)).unwrap();
    db.execute_batch(
        "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN EXCLUSIVE;
         PRAGMA application_id = 2003134834; PRAGMA user_version = 1;
         CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
         CREATE TABLE log (last_seq INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, lines TEXT NOT NULL);
         WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO log SELECT i, i, printf('%100d', i) FROM n;",
    )
    .unwrap();
    let left = tempfile::tempdir().unwrap();
    copy(making.path(), left.path());
    let journal = std::fs::read(left.path().join("store.sqlite-journal")).unwrap();
    assert_eq!(journal[..4], [0xd9, 0xd5, 0x05, 0xf9], "a hot journal");
    let file = std::fs::read(left.path().join(FILE_NAME)).unwrap();
    assert!(!file.is_empty());
    works(left.path(), "as it was");
    // The first page may have been written whole, in part, or not at all.
    for (what, len) in [("no byte", 0), ("half a header", 50), ("half a page", 2048)] {
        let left = tempfile::tempdir().unwrap();
        std::fs::write(left.path().join("store.sqlite-journal"), &journal).unwrap();
        std::fs::write(left.path().join(FILE_NAME), &file[..len]).unwrap();
        works(left.path(), what);
    }
    let left = tempfile::tempdir().unwrap();
    std::fs::write(left.path().join("store.sqlite-journal"), &journal).unwrap();
    std::fs::write(left.path().join(FILE_NAME), vec![0; 8192]).unwrap();
    works(left.path(), "pages that were only reserved");
}

#[test]
fn fault_a_start_killed_at_any_moment_of_creation_is_begun_again() {
    let mut delay = Duration::ZERO;
    let (mut early, mut late) = (0, 0);
    // From before the first file to after the last commit, in small steps.
    while late < 5 && delay < Duration::from_secs(4) {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "creation::child", "--ignored", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(told.any(|line| line.is_ok_and(|line| line == "begins")));
        let begun = Instant::now();
        while begun.elapsed() < delay {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if told.any(|line| line.is_ok_and(|line| line == "opened")) {
            late += 1;
        } else {
            early += 1;
        }
        works(dir.path(), &format!("killed after {delay:?}"));
        delay += Duration::from_micros(50).max(delay / 16);
    }
    assert!(early > 3 && late > 0, "{early} and {late}");
}

/// The process that is killed.
#[test]
#[ignore = "run by the test above"]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    println!("\nbegins");
    let world = World::open(Path::new(&dir));
    println!("opened");
    std::thread::park();
    drop(world);
}

/// Files that SQLite may have left, or anybody put there, beside a new store and beside one with jobs in it: all combinations.
#[test]
fn fault_no_leftover_beside_the_file_stops_a_start() {
    let garbage: &[u8] = &[0x5a; 5000];
    let leftovers: [Option<&[u8]>; 3] = [None, Some(&[]), Some(garbage)];
    let made = tempfile::tempdir().unwrap();
    let mut world = World::open(made.path());
    let mut batch = Batch::default();
    world.submit(1, 1000, 0, &mut batch);
    world.store(batch);
    world.writer.close().unwrap();
    let whole = std::fs::read(made.path().join(FILE_NAME)).unwrap();
    let only_wal = {
        let dir = tempfile::tempdir().unwrap();
        let db = Connection::open(dir.path().join(FILE_NAME)).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        std::fs::read(dir.path().join(FILE_NAME)).unwrap()
    };
    let mains = [
        ("no file", None),
        ("an empty file", Some(Vec::new())),
        ("a new file in WAL mode", Some(only_wal)),
        ("a store", Some(whole)),
    ];
    for (main_name, main) in &mains {
        for wal in leftovers {
            for shm in leftovers {
                for journal in leftovers {
                    let dir = tempfile::tempdir().unwrap();
                    let put = |name: &str, data: Option<&[u8]>| {
                        if let Some(data) = data {
                            std::fs::write(dir.path().join(name), data).unwrap();
                        }
                    };
                    put(FILE_NAME, main.as_deref());
                    put("store.sqlite-wal", wal);
                    put("store.sqlite-shm", shm);
                    put("store.sqlite-journal", journal);
                    let lens = [wal, shm, journal].map(|data| data.map(<[u8]>::len));
                    let what = format!("{main_name} with -wal, -shm, -journal of {lens:?}");
                    let lost = main.as_ref().is_none_or(Vec::is_empty)
                        && wal.is_some_and(|wal| !wal.is_empty());
                    if lost {
                        let error = Store::open(dir.path(), StoreOptions::default(), |_| {});
                        let error = error.unwrap_err();
                        assert!(matches!(error, OpenError::Lost { .. }), "{what}: {error}");
                        assert!(error.to_string().contains("store.sqlite-wal"), "{error}");
                        continue;
                    }
                    if *main_name == "a store" {
                        let world = World::open(dir.path());
                        assert_eq!(world.recovered.newest_seq, Seq(2), "{what}");
                        world.writer.close().unwrap();
                    }
                    works(dir.path(), &what);
                }
            }
        }
    }
}

#[test]
fn a_store_that_is_gone_while_its_journal_holds_pages_is_not_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    journal.extend([0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 77]);
    std::fs::write(dir.path().join("store.sqlite-journal"), journal).unwrap();
    let error = Store::open(dir.path(), StoreOptions::default(), |_| {}).unwrap_err();
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
}
