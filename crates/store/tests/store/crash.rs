//! A writer killed at any moment: everything it had been told durable is there, and what is there is a whole prefix.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use job::Seq;
use store::{Batch, Event};

use crate::world::World;

const DIR: &str = "STORE_TEST_CRASH_DIR";

#[test]
fn invariant_2_a_killed_writer_never_unhappens_what_was_told() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child", "--ignored", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let mut last = 0;
        for _ in 0..round * 40 {
            let next = told.by_ref().find_map(|line| {
                line.strip_prefix("durable ")
                    .and_then(|seq| seq.parse().ok())
            });
            let Some(next) = next else {
                panic!("the writer ended by itself: {:?}", child.wait())
            };
            last = next;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let world = World::open(dir.path());
        assert!(
            world.recovered.newest_seq >= Seq(last),
            "{:?} < {last}",
            world.recovered.newest_seq
        );
        let log = world.log();
        assert!(
            log.iter()
                .map(|entry| entry.seq.0)
                .eq(1..=world.recovered.newest_seq.0),
            "no gap"
        );
        assert_eq!(log.len() % 2, 0, "a batch is there whole or not at all");
    }
}

/// The process that is killed: stores jobs as fast as it can and tells how far it is.
#[test]
#[ignore = "run by the test above"]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let mut world = World::open(Path::new(&dir));
    let mut id = world.recovered.max_jobid.0;
    println!();
    loop {
        for _ in 0..10 {
            id += 1;
            let mut batch = Batch::default();
            world.submit(id, 1000, 0, &mut batch);
            world.give(batch);
        }
        loop {
            let Event::Durable { seq, .. } = world.next() else {
                panic!("not durable")
            };
            println!("durable {seq}");
            if seq == world.seq {
                break;
            }
        }
    }
}
