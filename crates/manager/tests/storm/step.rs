//! One step of a random world.

use proptest::prelude::*;

/// What happens next. Jobs are picked by how new they are.
#[derive(Debug, Clone)]
pub enum Step {
    Submit {
        urgency: i64,
        flags: i64,
    },
    /// Under one of a few keys.
    SubmitKey {
        key: usize,
    },
    /// The store tells what it knew of so many keys.
    Keys(usize),
    Urgency {
        pick: usize,
        urgency: i64,
    },
    Many(Vec<(usize, i64)>),
    Raise {
        pick: usize,
        severity: u8,
    },
    Kill {
        pick: usize,
    },
    Memo {
        pick: usize,
    },
    Wait {
        pick: usize,
    },
    Queue {
        start: bool,
    },
    SchedHello {
        limit: Option<usize>,
    },
    SchedGone,
    /// The scheduler answers the open alloc it has: 0 grant, 1 annotate, 2 deny, 3 confirm a cancel.
    Sched {
        pick: usize,
        kind: u8,
    },
    ExecHello,
    ExecGone,
    Exec {
        pick: usize,
        kind: u8,
    },
    /// A report about any job, whether it fits or not.
    Nonsense {
        pick: usize,
        kind: u8,
    },
    /// Some of the jobs are named; or all, or those beyond a number, are searched for.
    Purge {
        named: Vec<usize>,
        keep: Option<u64>,
        force: bool,
    },
    /// The search is answered.
    Found,
    /// Files of a purge go, or stay for now.
    Swept {
        left: bool,
    },
    Limit(Option<u64>),
    /// A parameterized job.
    SubmitParent,
    /// From any job; under one of a few keys, or none.
    Dispatch {
        pick: usize,
        key: Option<usize>,
    },
    /// The store tells of the J of a parent, or (false) that it cannot.
    JRead(bool),
    /// The engine announces one of a few sets of nodes.
    Announce {
        set: usize,
        up: u8,
    },
    /// Something happens to nodes.
    Nodes {
        kind: usize,
        ranks: u8,
    },
    Durable(usize),
    Crash,
    Tick,
}

pub fn step() -> impl Strategy<Value = Step> {
    let pick = 0..12usize;
    let urgency = prop_oneof![0..=31i64, Just(16), Just(0), Just(31), Just(32)];
    prop_oneof![
        6 => (urgency.clone(), prop_oneof![Just(0i64), Just(4), Just(2)]).prop_map(|(urgency, flags)| Step::Submit { urgency, flags }),
        3 => (0..3usize).prop_map(|key| Step::SubmitKey { key }),
        3 => (1..4usize).prop_map(Step::Keys),
        4 => (pick.clone(), urgency.clone()).prop_map(|(pick, urgency)| Step::Urgency { pick, urgency }),
        2 => prop::collection::vec((pick.clone(), urgency), 0..6).prop_map(Step::Many),
        3 => (pick.clone(), prop_oneof![Just(0u8), Just(3)]).prop_map(|(pick, severity)| Step::Raise { pick, severity }),
        1 => pick.clone().prop_map(|pick| Step::Kill { pick }),
        1 => pick.clone().prop_map(|pick| Step::Memo { pick }),
        1 => pick.clone().prop_map(|pick| Step::Wait { pick }),
        1 => any::<bool>().prop_map(|start| Step::Queue { start }),
        3 => prop::option::of(1..4usize).prop_map(|limit| Step::SchedHello { limit }),
        1 => Just(Step::SchedGone),
        10 => (pick.clone(), prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(2), 3 => Just(3)]).prop_map(|(pick, kind)| Step::Sched { pick, kind }),
        3 => Just(Step::ExecHello),
        1 => Just(Step::ExecGone),
        10 => (pick.clone(), 0..11u8).prop_map(|(pick, kind)| Step::Exec { pick, kind }),
        1 => Just(Step::SubmitParent),
        3 => (pick.clone(), prop::option::of(0..3usize)).prop_map(|(pick, key)| Step::Dispatch { pick, key }),
        3 => prop::bool::weighted(0.9).prop_map(Step::JRead),
        1 => (0..3usize, 0..16u8).prop_map(|(set, up)| Step::Announce { set, up }),
        3 => (0..6usize, 0..16u8).prop_map(|(kind, ranks)| Step::Nodes { kind, ranks }),
        2 => (pick, 0..8u8).prop_map(|(pick, kind)| Step::Nonsense { pick, kind }),
        2 => (prop::collection::vec(0..12usize, 0..4), prop::option::of(0..4u64), prop::bool::weighted(0.8))
            .prop_map(|(named, keep, force)| Step::Purge { named, keep, force }),
        3 => Just(Step::Found),
        2 => prop::bool::weighted(0.3).prop_map(|left| Step::Swept { left }),
        1 => prop::option::of(0..4u64).prop_map(Step::Limit),
        8 => (1..4usize).prop_map(Step::Durable),
        1 => Just(Step::Crash),
        1 => Just(Step::Tick),
    ]
}
