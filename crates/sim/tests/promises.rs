//! A few hundred seeds, as a part of `make check`; and that a seed says all: run twice, it is the same run.
//!
//! One run checks all promises together, so the tests are named for what they run. A failure prints the line that runs its seed again.

use std::time::{Duration, Instant};

use sim::run::{self, KeyDir, Soak};

/// Of the first test.
const SEEDS: u64 = 200;
/// It stops after so long, whatever the machine.
const TIME_MAX: Duration = Duration::from_secs(40);

#[test]
fn ordered_unique_complete_durable_resumable_honest_isolated_whatever_dies() {
    let dir = KeyDir::make().unwrap();
    let soak = Soak {
        seeds: 1..=SEEDS,
        until: Some(Instant::now() + TIME_MAX),
        threads: std::thread::available_parallelism().map_or(1, Into::into),
        keep_going: false,
    };
    let found = run::many(&soak, dir.path(), |_| ());
    let told: Vec<String> = found.iter().map(run::Ran::told).collect();
    assert!(found.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_seed_run_twice_is_the_same_run() {
    let dir = KeyDir::make().unwrap();
    for seed in [3, 7, 19, 101, 250] {
        let sums: Vec<(u64, usize)> = (0..2)
            .map(|_| run::one(seed, dir.path(), false))
            .map(|ran| (ran.sum, ran.steps))
            .collect();
        assert_eq!(sums[0], sums[1], "seed {seed}");
    }
}

#[test]
fn much_happens_in_a_few_seeds() {
    let dir = KeyDir::make().unwrap();
    let (mut delivered, mut resumed, mut faults, mut quiet, mut shutdowns) = (0, 0, 0, 0, 0);
    for seed in 1..=20 {
        let ran = run::one(seed, dir.path(), false);
        delivered += ran.counts.delivered;
        resumed += ran.counts.resumed;
        faults += ran.counts.faults;
        quiet += ran.counts.quiet;
        shutdowns += ran.counts.shutdowns;
    }
    assert!(
        delivered > 2000 && resumed > 20 && faults > 200 && quiet > 20 && shutdowns > 0,
        "delivered {delivered}, resumed {resumed}, faults {faults}, quiet {quiet}, shutdowns {shutdowns}"
    );
}
