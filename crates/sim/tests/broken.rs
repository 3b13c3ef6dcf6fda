//! Builds that are broken on purpose are noticed: `cargo test -p sim --features sabotage`, or `make soak-broken`.

#![cfg(feature = "sabotage")]

use std::path::Path;

use sim::run::{self, KeyDir};
use sim::sabotage::{self, Sabotage};

/// Within so many seeds.
const SEEDS_MAX: u64 = 100;

/// Which seed noticed it first, and as what.
fn noticed(sabotage: Sabotage, dir: &Path) -> Option<(u64, String)> {
    sabotage::set(Some(sabotage));
    let found = (1..=SEEDS_MAX).find_map(|seed| {
        let ran = run::one(seed, dir, false);
        ran.violation.map(|violation| (seed, violation.to_string()))
    });
    sabotage::set(None);
    found
}

#[test]
fn answers_that_do_not_wait_for_the_disk_are_noticed() {
    let dir = KeyDir::make().unwrap();
    let (seed, what) = noticed(Sabotage::FsyncWait, dir.path()).expect("not noticed");
    assert!(what.starts_with("durable"), "seed {seed}: {what}");
}

#[test]
fn listeners_that_hear_before_the_disk_are_noticed() {
    let dir = KeyDir::make().unwrap();
    let (seed, what) = noticed(Sabotage::FanOutBeforeCommit, dir.path()).expect("not noticed");
    assert!(what.starts_with("durable"), "seed {seed}: {what}");
}

#[test]
fn a_cursor_of_another_epoch_that_is_accepted_is_noticed() {
    let dir = KeyDir::make().unwrap();
    let (seed, what) = noticed(Sabotage::ForgetEpoch, dir.path()).expect("not noticed");
    assert!(what.starts_with("honest"), "seed {seed}: {what}");
}

#[test]
fn a_purge_that_is_not_told_is_noticed() {
    let dir = KeyDir::make().unwrap();
    let (seed, what) = noticed(Sabotage::SkipPurgeEntry, dir.path()).expect("not noticed");
    assert!(!what.is_empty(), "seed {seed}");
}

#[test]
fn nothing_is_found_where_nothing_is_broken() {
    let dir = KeyDir::make().unwrap();
    for seed in 1..=20 {
        let ran = run::one(seed, dir.path(), false);
        assert_eq!(ran.violation, None, "seed {seed}");
    }
}
