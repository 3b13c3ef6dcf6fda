//! Random worlds (`storm/`): the invariants of design.md that concern the manager are checked after every step, and that every job comes to
//! its end.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod storm;
mod world;

use job::Timestamp;
use proptest::prelude::*;
use storm::{Run, step};
use wire::Cred;
use world::{JOBSPEC, OWNER, World, submission};

/// `PROPTEST_CASES`, or enough for every run.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_1_and_2_hold_in_random_worlds_and_every_job_ends(steps in prop::collection::vec(step(), 1..120)) {
        let mut run = Run::new();
        for step in steps {
            run.take(step);
        }
        run.drive_to_the_end();
    }

    #[test]
    fn invariant_1_a_crash_at_any_point_leaves_the_fold_of_what_is_durable(steps in prop::collection::vec(step(), 1..60), at in 0..60usize, durable in 0..4usize) {
        let mut run = Run::new();
        for step in steps.iter().take(at).cloned() {
            run.take(step);
        }
        run.durable(durable);
        run.crash();
        for step in steps.into_iter().skip(at) {
            run.take(step);
        }
        run.drive_to_the_end();
    }
}

#[test]
fn time_never_goes_back() {
    let mut world = World::new();
    for now in [5.0, 3.0, f64::NAN, -1.0, 4.0] {
        world.now = 1_700_000_000.0 + now;
        let actions = world.call(
            1,
            Cred::owner(OWNER),
            "job-ingest.submit",
            Some(&submission(OWNER, JOBSPEC, 16, 0)),
            false,
        );
        assert!(!actions.is_empty());
        world.durable(1);
    }
    let times: Vec<Timestamp> = world
        .disk
        .rows
        .keys()
        .map(|id| world.disk.fold(*id).t_submit)
        .collect();
    assert!(
        times.is_sorted() && times.iter().all(|time| time.0 == 1_700_000_005.0),
        "{times:?}"
    );
}
