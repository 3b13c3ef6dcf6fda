//! What a file can be at open: newer schema, another program's file, a start that was cut short, an old release's.

use std::path::Path;

use job::{JobId, Seq};
use rusqlite::Connection;
use store::{CURSOR_START, FILE_NAME, OpenError, Scope, Store, StoreOptions};

use crate::world::World;

fn refused(dir: &Path) -> OpenError {
    Store::open(dir, StoreOptions::default(), |_| {}).unwrap_err()
}

fn all_bytes(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| {
            (
                file.file_name().into_string().unwrap(),
                std::fs::read(file.path()).unwrap(),
            )
        })
        .filter(|(name, _)| name != "lock")
        .collect();
    files.sort();
    files
}

#[test]
fn a_newer_schema_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    World::open(dir.path()).writer.close().unwrap();
    let file = dir.path().join(FILE_NAME);
    Connection::open(&file)
        .unwrap()
        .pragma_update(None, "user_version", 7)
        .unwrap();
    let before = all_bytes(dir.path());
    let error = refused(dir.path());
    assert!(matches!(
        error,
        OpenError::NewerSchema {
            found: 7,
            known: store::schema::VERSION,
            ..
        }
    ));
    let text = error.to_string();
    assert!(!text.contains('\n'));
    for part in [
        file.to_str().unwrap(),
        "schema 7",
        &format!("newer than the {}", store::schema::VERSION),
        "--statedir",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(all_bytes(dir.path()) == before);
}

#[test]
fn another_programs_file_is_refused_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE_NAME);
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE cats (name TEXT)")
        .unwrap();
    let before = all_bytes(dir.path());
    assert!(matches!(refused(dir.path()), OpenError::NotAStore { .. }));
    assert!(all_bytes(dir.path()) == before);
    std::fs::write(
        &file,
        "this is no database, it is a letter to a friend".repeat(100),
    )
    .unwrap();
    let before = all_bytes(dir.path());
    assert!(matches!(refused(dir.path()), OpenError::NotAStore { .. }));
    assert!(all_bytes(dir.path()) == before);
}

#[test]
fn a_start_that_was_cut_short_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE_NAME), "").unwrap();
    World::open(dir.path()).writer.close().unwrap();
    let dir = tempfile::tempdir().unwrap();
    Connection::open(dir.path().join(FILE_NAME))
        .unwrap()
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    let world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, Seq(0));
}

#[test]
fn the_lock_is_let_go_with_the_writer() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path());
    assert!(matches!(
        refused(dir.path()),
        OpenError::InUse { pid: Some(_), .. }
    ));
    drop(world);
    World::open(dir.path()).writer.close().unwrap();
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let text = refused(&dir.path().join("nowhere")).to_string();
    assert!(text.contains("nowhere"), "{text}");
}

/// The file was made by `make_a_file_of_this_schema` of the release that introduced the schema, and is never made again.
#[test]
fn a_file_of_schema_1_opens() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/schema-1.sqlite");
    std::fs::copy(fixture, dir.path().join(FILE_NAME)).unwrap();
    let world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, Seq(9));
    assert_eq!(world.recovered.max_jobid, JobId(3));
    assert_eq!(
        world.recovered.meta["queues"],
        r#"{"default":{"enable":true}}"#
    );
    let reader = world.reader();
    let page = reader
        .jobs_page(Scope::Active { at: Seq(9) }, CURSOR_START, 10, 1 << 20)
        .unwrap();
    assert!(page.damaged.is_empty());
    assert_eq!(
        page.jobs
            .iter()
            .map(|job| (job.id.0, job.eventlog.len()))
            .collect::<Vec<_>>(),
        [(2, 3), (3, 2)]
    );
    let done = reader.job(JobId(1), true).unwrap().unwrap().unwrap();
    assert_eq!(
        (done.active, done.waitable, done.done_seq, done.result),
        (false, true, Some(Seq(8)), Some(1))
    );
    assert_eq!(world.log().len(), 9);
}

/// Makes `tests/data/schema-N.sqlite`: run it once, by name, when the schema gets a new version.
#[test]
#[ignore = "makes the file that the test above reads"]
fn make_a_file_of_this_schema() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    let mut batch = store::Batch::default();
    for (id, flags) in [(1, 4), (2, 0), (3, 0)] {
        world.submit(id, 1000, flags, &mut batch);
    }
    batch.entries.push(world.entry(
        job::Source::System,
        1,
        &crate::world::plain("start", 1_700_000_000.5),
    ));
    batch
        .meta
        .push(("queues".into(), r#"{"default":{"enable":true}}"#.into()));
    world.clean(1, 3, &mut batch);
    world.store(batch);
    let late = world.entry(
        job::Source::Job(JobId(2)),
        3,
        &crate::world::plain("memo", 1_700_000_001.5),
    );
    world.store(store::Batch {
        entries: vec![late],
        ..store::Batch::default()
    });
    world.writer.close().unwrap();
    let file = format!("tests/data/schema-{}.sqlite", store::schema::VERSION);
    std::fs::copy(
        dir.path().join(FILE_NAME),
        Path::new(env!("CARGO_MANIFEST_DIR")).join(file),
    )
    .unwrap();
}

#[test]
fn fault_a_store_that_is_cut_short_says_so_at_every_length() {
    let made = tempfile::tempdir().unwrap();
    let mut world = World::open(made.path());
    let mut batch = store::Batch::default();
    for id in 1..50 {
        world.submit(id, 1000, 0, &mut batch);
    }
    world.store(batch);
    world.writer.close().unwrap();
    let whole = std::fs::read(made.path().join(FILE_NAME)).unwrap();
    let lens = [
        1,
        2,
        15,
        16,
        17,
        50,
        99,
        100,
        101,
        511,
        512,
        1000,
        4095,
        4096,
        4097,
        8192,
        whole.len() - 4096,
        whole.len() - 1,
    ];
    for len in lens {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE_NAME), &whole[..len]).unwrap();
        let before = all_bytes(dir.path());
        let text = refused(dir.path()).to_string();
        for part in [
            "is cut short",
            &format!("{len} byte"),
            "backup",
            "weir store recover",
        ] {
            assert!(text.contains(part), "{len}: {text}");
        }
        assert!(!text.contains("not a weir store"), "{len}: {text}");
        assert!(all_bytes(dir.path()) == before, "{len}");
        let checked = store::check(&dir.path().join(FILE_NAME), &mut |_, _, _| {});
        assert_eq!(checked.unwrap_err().to_string(), text);
        // The remedy that is named does not make it worse.
        let _ = store::salvage(dir.path(), &mut |_, _, _| {});
        assert!(dir.path().join(FILE_NAME).exists(), "{len}");
    }
}

#[test]
fn fault_what_is_foreign_in_the_schema_is_named_and_a_trigger_is_refused() {
    for (sql, name, is_refused) in [
        (
            "CREATE TRIGGER mine AFTER INSERT ON tail BEGIN DELETE FROM tail; END",
            "trigger mine",
            true,
        ),
        ("CREATE UNIQUE INDEX one ON job (userid)", "index one", true),
        ("CREATE INDEX mine ON job (t_submit)", "index mine", false),
        ("CREATE TABLE notes (text)", "table notes", false),
        ("CREATE VIEW mine AS SELECT * FROM job", "view mine", false),
        ("ALTER TABLE log ADD COLUMN note TEXT", "table log", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        World::open(dir.path()).writer.close().unwrap();
        let file = dir.path().join(FILE_NAME);
        Connection::open(&file).unwrap().execute_batch(sql).unwrap();
        let report = store::check(&file, &mut |_, _, _| {}).unwrap();
        let named = |one: &store::Problem| one.place == "schema" && one.what.contains(name);
        assert!(
            report.problems.iter().any(named),
            "{sql}: {:?}",
            report.problems
        );
        assert_eq!(report.problems.len(), 1, "{sql}: {:?}", report.problems);
        if is_refused {
            let text = refused(dir.path()).to_string();
            assert!(text.contains(name) && text.contains("drop it"), "{text}");
        } else {
            World::open(dir.path()).writer.close().unwrap();
        }
    }
}
