//! No space: what is under way ends with the help of the reserve, or is refused as a whole; nothing half-done shows, the order is kept, all
//! goes on when there is space again.

use std::path::{Path, PathBuf};

use job::Seq;
use store::{Batch, Event, FILE_NAME, LOCK_NAME, RESERVE_NAME, Store, StoreOptions};

use crate::world::{World, jobspec, lines};

/// Submits one job a batch until the store says that it is full; the jobs that were stored by then, and the last one with them.
fn fill(world: &mut World, expected: &mut String) -> u64 {
    let mut id = 0;
    loop {
        id += 1;
        give(world, id, expected);
        match world.next() {
            Event::Durable { .. } => {}
            Event::NoSpace(true) => return id,
            other => panic!("met {other:?}"),
        }
        assert!(id < 100_000, "the limit does not hold");
    }
}

fn give(world: &mut World, id: u64, expected: &mut String) {
    let mut batch = Batch::default();
    world.submit(id, 1000, 0, &mut batch);
    expected.push_str(&text(&batch));
    world.give(batch);
}

fn text(batch: &Batch) -> String {
    let lines = batch.entries.iter().map(|entry| entry.line());
    lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect()
}

fn is_whole(world: &World, jobs: u64, expected: &str) {
    assert_eq!(lines(&world.log()), expected);
    for n in 1..=jobs {
        let job = world
            .reader()
            .job(job::JobId(n), true)
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(
            job.jobspec,
            jobspec(n).as_bytes(),
            "job {n}: the blob it names was rolled back"
        );
        assert_eq!(job.j.unwrap(), format!("J of {n}").as_bytes());
    }
}

#[test]
fn fault_what_is_under_way_when_the_disk_fills_is_stored_with_the_reserve() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(
        dir.path(),
        StoreOptions {
            pages_max: 64,
            ..StoreOptions::default()
        },
    );
    let mut expected = String::new();
    let mut id = fill(&mut world, &mut expected);
    // The commit that met the limit was told after it: it is in, and so is some more.
    world.durable();
    for _ in 0..3 {
        id += 1;
        give(&mut world, id, &mut expected);
        world.durable();
    }
    is_whole(&world, id, &expected);
    world.writer.set_pages_max(0);
    assert_eq!(world.next(), Event::NoSpace(false));
    id += 1;
    give(&mut world, id, &mut expected);
    world.durable();
    is_whole(&world, id, &expected);
}

#[test]
fn fault_what_does_not_fit_into_the_reserve_is_refused_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(
        dir.path(),
        StoreOptions {
            pages_max: 64,
            ..StoreOptions::default()
        },
    );
    let mut expected = String::new();
    let mut id = fill(&mut world, &mut expected);
    world.durable();
    let stored = world.seq;
    let before = expected.clone();
    let jobs = id;
    let mut batch = Batch::default();
    for _ in 0..2000 {
        id += 1;
        world.submit(id, 1000, 0, &mut batch);
    }
    world.give(batch);
    assert_eq!(world.next(), Event::OutOfRoom);
    // Nobody is told anything after that, and nothing is taken.
    assert!(world.events.recv().is_err());
    assert!(matches!(
        world.writer.try_submit(Batch::default()),
        Err(store::Rejected::Closed(_))
    ));
    drop(world);
    // It is as if it had never been; its seqs are given to what comes next.
    let mut world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, stored);
    is_whole(&world, jobs, &before);
    give(&mut world, jobs + 1, &mut expected);
    world.durable();
    assert_eq!(world.seq, Seq(stored.0 + 2));
}

#[test]
fn closing_while_full_says_what_was_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::with(
        dir.path(),
        StoreOptions {
            pages_max: 1,
            ..StoreOptions::default()
        },
    );
    let mut batch = Batch::default();
    world.submit(1, 1000, 0, &mut batch);
    // One page is what the file has already more than, so nothing fits.
    for id in 2..2000 {
        world.submit(id, 1000, 0, &mut batch);
    }
    world.give(batch);
    assert_eq!(world.next(), Event::NoSpace(true));
    let unwritten = world.writer.close().unwrap_err();
    assert_eq!(unwritten.batches, 1);
    let world = World::open(dir.path());
    assert_eq!(world.recovered.newest_seq, Seq(0));
    assert!(world.log().is_empty());
}

/// A file system of its own, of so many KiB; `None` and a word where that cannot be had.
struct Small(
    PathBuf,
    #[allow(dead_code, reason = "removed when dropped")] tempfile::TempDir,
);

impl Small {
    fn new(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={kib}k");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            Some(Self(dir.path().to_owned(), dir))
        } else {
            eprintln!("skipped: no file system can be mounted here");
            None
        }
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("ballast")).unwrap();
        for size in [1 << 16, 4096] {
            while std::io::Write::write_all(&mut file, &vec![1; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

fn exists(dir: &Path, name: &str) -> bool {
    dir.join(name).exists()
}

#[test]
fn a_small_file_system_that_fills_gives_the_reserve_and_takes_it_back() {
    let Some(disk) = Small::new(5 << 10) else {
        return;
    };
    let mut world = World::open(&disk.0);
    let mut expected = String::new();
    assert!(exists(&disk.0, RESERVE_NAME));
    give(&mut world, 1, &mut expected);
    world.durable();
    disk.fill();
    let mut id = 1;
    let last = loop {
        id += 1;
        give(&mut world, id, &mut expected);
        match world.next() {
            Event::Durable { .. } => {}
            Event::NoSpace(true) => break id,
            other => panic!("met {other:?}"),
        }
    };
    world.durable();
    assert!(!exists(&disk.0, RESERVE_NAME));
    is_whole(&world, last, &expected);
    // Reads go on, and a restart, until there is room again.
    disk.free();
    assert_eq!(world.next(), Event::NoSpace(false));
    assert!(exists(&disk.0, RESERVE_NAME));
    give(&mut world, last + 1, &mut expected);
    world.durable();
    is_whole(&world, last + 1, &expected);
}

#[test]
fn a_start_on_a_full_disk_reads_and_stores_when_there_is_room() {
    let Some(disk) = Small::new(5 << 10) else {
        return;
    };
    let mut world = World::open(&disk.0);
    let mut expected = String::new();
    give(&mut world, 1, &mut expected);
    world.durable();
    world.writer.close().unwrap();
    // With the reserve there: it is let go for what opening needs.
    disk.fill();
    let world = World::open(&disk.0);
    assert!(world.writer.is_halted());
    assert_eq!(world.next(), Event::NoSpace(true));
    is_whole(&world, 1, &expected);
    disk.free();
    assert_eq!(world.next(), Event::NoSpace(false));
    assert!(!world.writer.is_halted());
    world.writer.close().unwrap();
    // Without it, and not a byte to be had: one line that says so, or it opens for reading.
    std::fs::remove_file(disk.0.join(RESERVE_NAME)).unwrap();
    disk.fill();
    match Store::open(&disk.0, StoreOptions::default(), |_| {}) {
        Ok((writer, ..)) => assert!(writer.is_halted()),
        Err(error) => {
            assert!(matches!(error, store::OpenError::Full { .. }), "{error}");
            assert!(error.to_string().contains("free some space"), "{error}");
        }
    }
    disk.free();
    let world = World::open(&disk.0);
    is_whole(&world, 1, &expected);
    assert!(exists(&disk.0, LOCK_NAME) && exists(&disk.0, FILE_NAME));
}

/// With each amount of room that is too little, a page more each time.
#[test]
fn fault_a_copy_that_meets_a_full_disk_leaves_nothing() {
    let Some(disk) = Small::new(1 << 10) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::open(dir.path());
    give(&mut world, 1, &mut String::new());
    world.durable();
    disk.fill();
    let ballast = std::fs::File::options()
        .write(true)
        .open(disk.0.join("ballast"))
        .unwrap();
    let mut refused = 0;
    while let Err(error) = store::backup(&dir.path().join(FILE_NAME), &disk.0.join("copy")) {
        let names: Vec<_> = std::fs::read_dir(&disk.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["ballast"], "{error}");
        refused += 1;
        let len = ballast.metadata().unwrap().len();
        ballast.set_len(len - 4096).unwrap();
    }
    assert!(refused > 5, "{refused}");
    assert!(exists(&disk.0, "copy"));
}

/// The room of the reserve is less than what it takes to remove all these rows in one transaction: one on each page.
#[test]
fn fault_a_purge_that_is_larger_than_the_reserve_is_stored_and_its_rows_go_one_by_one() {
    use job::{JobId, Source};
    use store::JobWrite;
    let Some(disk) = Small::new(24 << 10) else {
        return;
    };
    let mut world = World::open(&disk.0);
    let jobs: u64 = 8000;
    let names = |id| match id {
        8 => Some("nightly"),
        16 => Some("weekly"),
        _ => None,
    };
    for first in (1..=jobs).step_by(500) {
        let mut batch = Batch::default();
        for id in first..first + 500 {
            world.submit(id, 1000, 0, &mut batch);
            if let Some(JobWrite::Insert { key, .. }) = batch.jobs.last_mut()
                && let Some(name) = names(id)
            {
                *key = Some(name.into());
            }
            world.clean(id, 3, &mut batch);
        }
        world.store(batch);
    }
    // Somebody reads all the while, so that the WAL does not begin anew.
    let file = disk.0.join(FILE_NAME);
    let holder = rusqlite::Connection::open(&file).unwrap();
    holder
        .execute_batch("BEGIN; SELECT count(*) FROM job")
        .unwrap();
    disk.fill();
    let named: Vec<u64> = (1..=jobs).filter(|id| id % 8 == 0).collect();
    let purge = format!(r#"{{"timestamp":1.5,"name":"purge","context":{{"jobs":{named:?}}}}}"#);
    let mut batch = Batch::default();
    batch.entries.push(world.entry(Source::System, 1, &purge));
    batch
        .jobs
        .extend(named.iter().map(|id| JobWrite::Delete { id: JobId(*id) }));
    // In the same transaction somebody uses the key of one of them.
    world.submit(jobs + 1, 1000, 0, &mut batch);
    if let Some(JobWrite::Insert { key, .. }) = batch.jobs.last_mut() {
        *key = Some("nightly".into());
    }
    world.give(batch);
    let mut was_full = false;
    loop {
        match world.next() {
            Event::Durable { seq, .. } if seq == world.seq => break,
            Event::Durable { .. } => {}
            Event::NoSpace(true) => was_full = true,
            other => panic!("met {other:?}"),
        }
    }
    assert!(was_full);
    let left = |world: &World| {
        let reader = world.reader();
        let owners = reader.owners(None, 10_000).unwrap();
        let old = owners.iter().filter(|(_, id)| id.0 <= jobs + 1);
        assert_eq!(old.count() as u64, jobs - jobs / 8 + 1);
        assert!(owners.iter().all(|(_, id)| id.0 % 8 != 0 || id.0 > jobs));
        let (id, _) = reader.by_key(1000, "nightly").unwrap().unwrap();
        assert_eq!(id, JobId(jobs + 1));
    };
    let counts = || {
        let db = rusqlite::Connection::open(&file).unwrap();
        let ask = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        (
            ask("SELECT count(*) FROM job"),
            ask("SELECT count(*) FROM meta WHERE key LIKE 'store.gone.%'"),
        )
    };
    left(&world);
    assert!(
        counts().1 > 500,
        "their rows are there still: {:?}",
        counts()
    );
    // And the key of another of them in the next one, while their rows are there still.
    let mut batch = Batch::default();
    world.submit(jobs + 2, 1000, 0, &mut batch);
    if let Some(JobWrite::Insert { key, .. }) = batch.jobs.last_mut() {
        *key = Some("weekly".into());
    }
    drop(holder);
    disk.free();
    world.give(batch);
    let (mut is_full, mut is_stored) = (true, false);
    while is_full || !is_stored {
        match world.next() {
            Event::Durable { seq, .. } => is_stored = seq == world.seq,
            Event::NoSpace(full) => is_full = full,
            other => panic!("met {other:?}"),
        }
    }
    left(&world);
    let weekly = |world: &World| {
        let found = world.reader().by_key(1000, "weekly").unwrap();
        assert_eq!(found.map(|(id, _)| id), Some(JobId(jobs + 2)));
    };
    weekly(&world);
    world.writer.close().unwrap();
    // What was left at the end goes at the next start.
    let world = World::open(&disk.0);
    left(&world);
    weekly(&world);
    world.writer.close().unwrap();
    assert_eq!(counts(), (7002, 0));
}
