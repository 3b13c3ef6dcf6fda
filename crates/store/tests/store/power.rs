//! A power cut at any moment: of what the writer asked the kernel to write, only what was synced is sure to be on the disk, and of the rest
//! any part. Whatever had been told durable by then is in the store that opens.
//!
//! A writer runs with a recorder preloaded (`tests/data/record.c`). Then, for many moments of the record, files are made as a disk
//! might hold them: all that a sync covered, and of each write after it nothing, all, or some of its sectors.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use job::Seq;
use store::{FILE_NAME, check};

use crate::lives::{begin, end, run};
use crate::world::World;

const DIR: &str = "STORE_TEST_POWER_DIR";
/// What a disk writes whole.
const SECTOR: usize = 512;
/// Moments looked at.
const MOMENTS: usize = 60;

/// Something that was asked for.
#[derive(Debug)]
enum Asked {
    Write(u64, Vec<u8>),
    Truncate(u64),
    /// Of the directory, if its name is `.`.
    Sync,
    Remove,
}

/// The record: which file, and what.
fn read_record(bytes: &[u8]) -> Vec<(String, Asked)> {
    let mut at = 0;
    let mut take = |len: usize| {
        at += len;
        &bytes[at - len..at]
    };
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let (mut record, mut read) = (Vec::new(), 0);
    while read < bytes.len() {
        let kind = take(1)[0];
        let size = usize::from(take(1)[0]);
        let name = String::from_utf8(take(size).to_vec()).unwrap();
        let (offset, len) = (number(take(8)), number(take(8)) as usize);
        let asked = match kind {
            b'w' => Asked::Write(offset, take(len).to_vec()),
            b't' => Asked::Truncate(offset),
            b'u' => Asked::Remove,
            _ => Asked::Sync,
        };
        read += 18 + size + len;
        record.push((name, asked));
    }
    record
}

/// What a disk holds for sure of one file, and what was asked for since.
#[derive(Default)]
struct Disk {
    sure: Vec<u8>,
    since: Vec<usize>,
    /// Its name is gone, though maybe not on the disk.
    removed: bool,
}

fn put(file: &mut Vec<u8>, at: u64, data: &[u8]) {
    let at = at as usize;
    if file.len() < at + data.len() {
        file.resize(at + data.len(), 0);
    }
    file[at..at + data.len()].copy_from_slice(data);
}

/// A sequence of numbers that is the same each time.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A file as it may be after the cut.
fn after_cut(disk: &Disk, record: &[(String, Asked)], dice: &mut Dice) -> Vec<u8> {
    let mut file = disk.sure.clone();
    // Now and then all or nothing of what was not synced.
    let mood = dice.throw(4);
    for index in &disk.since {
        match &record[*index].1 {
            Asked::Truncate(len) if mood != 0 && dice.throw(2) == 0 => {
                file.resize(*len as usize, 0)
            }
            Asked::Write(at, data) if mood == 1 => put(&mut file, *at, data),
            Asked::Write(at, data) if mood > 1 => match dice.throw(3) {
                0 => {}
                1 => put(&mut file, *at, data),
                _ => {
                    for (number, sector) in data.chunks(SECTOR).enumerate() {
                        if dice.throw(2) == 0 {
                            put(&mut file, *at + (number * SECTOR) as u64, sector);
                        }
                    }
                }
            },
            _ => {}
        }
    }
    file
}

#[test]
fn promise_durable_what_was_told_is_there_after_a_power_cut_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let shim = dir.path().join("record.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/record.c");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&shim)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no C compiler here");
        return;
    }
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "power::child", "--ignored", "--nocapture"])
        .env(DIR, &state)
        .env("LD_PRELOAD", &shim)
        .env("RECORD_TO", dir.path().join("record"))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let record = read_record(&std::fs::read(dir.path().join("record")).unwrap());
    let syncs = record
        .iter()
        .filter(|(_, asked)| matches!(asked, Asked::Sync))
        .count();
    assert!(
        syncs > 5 && record.len() > 1000,
        "{syncs} of {}",
        record.len()
    );

    let mut dice = Dice(4711);
    let mut disks: BTreeMap<&str, Disk> = BTreeMap::new();
    let (mut told, mut seen) = (0, 0);
    for (index, (name, asked)) in record.iter().enumerate() {
        if name == "told" {
            if let Asked::Write(_, data) = asked {
                told = String::from_utf8_lossy(data).trim().parse().unwrap();
            }
        } else if name == "." {
            disks.retain(|_, disk| !disk.removed);
        } else if !name.ends_with("-shm") {
            let disk = disks.entry(name).or_default();
            match asked {
                Asked::Sync => {
                    for index in std::mem::take(&mut disk.since) {
                        match &record[index].1 {
                            Asked::Write(at, data) => put(&mut disk.sure, *at, data),
                            Asked::Truncate(len) => disk.sure.resize(*len as usize, 0),
                            Asked::Sync | Asked::Remove => {}
                        }
                    }
                }
                Asked::Remove => disk.removed = true,
                _ => {
                    if std::mem::take(&mut disk.removed) {
                        *disk = Disk::default();
                    }
                    disk.since.push(index);
                }
            }
        }
        // More often where something was told, so that nothing written later covers it up.
        let wanted = if name == "told" {
            3
        } else {
            record.len() as u64 / MOMENTS as u64
        };
        if dice.throw(wanted.max(1)) != 0 || seen >= 3 * MOMENTS {
            continue;
        }
        seen += 1;
        let cut = tempfile::tempdir().unwrap();
        for (name, disk) in &disks {
            if disk.removed && dice.throw(2) == 0 {
                continue;
            }
            std::fs::write(cut.path().join(name), after_cut(disk, &record, &mut dice)).unwrap();
        }
        let world = World::open(cut.path());
        assert!(
            world.recovered.newest_seq >= Seq(told),
            "moment {index}: {told} was told durable, {} is there",
            world.recovered.newest_seq
        );
        let log = world.log();
        assert!(
            log.iter()
                .map(|entry| entry.seq.0)
                .eq(1..=world.recovered.newest_seq.0),
            "moment {index}: a gap"
        );
        drop(world);
        if seen % 8 == 0 {
            let report = check(&cut.path().join(FILE_NAME), &mut |_, _, _| {}).unwrap();
            assert_eq!(report.problems, [], "moment {index}");
        }
    }
    assert!(told > 500 && seen > MOMENTS, "{told} {seen}");
}

/// The writer: many commits, some with a copy of the WAL on the way; writes down what it was told.
#[test]
#[ignore = "run by the test above"]
fn child() {
    use std::os::unix::fs::FileExt as _;
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let mut world = World::open(dir);
    let told = std::fs::File::create(dir.join("told")).unwrap();
    let say = |world: &World| {
        told.write_all_at(format!("{:20}", world.seq.0).as_bytes(), 0)
            .unwrap();
    };
    for id in 1..=60 {
        begin(&mut world, id, 0);
        say(&world);
        run(&mut world, id);
        say(&world);
        if id % 2 == 0 {
            end(&mut world, id);
            say(&world);
        }
    }
    // Long enough for the WAL to be copied and to begin anew.
    for id in 61..=72 {
        let mut batch = store::Batch::default();
        let long = "x".repeat(2 << 20);
        world.submit(id, 1000, 0, &mut batch);
        if let Some(store::JobWrite::Insert { j, jobspec, .. }) = batch.jobs.last_mut() {
            *j = long.into();
            *jobspec = crate::lives::jobspec(1).into();
        }
        world.store(batch);
        say(&world);
    }
    for id in 101..=130 {
        begin(&mut world, id, 0);
        say(&world);
    }
}
