//! Random commits, filters, output, ring sizes, resume points and store timings: what each listener got is the filtered suffix of the
//! log, exactly once and in order; a backlog with what follows it is all there is.

use std::collections::BTreeMap;

use job::{Entry, JobId, Seq, Source, Timestamp};
use journal::{Filter, Format, Limits, ListenerId, Rights, Start};
use proptest::prelude::*;

use crate::world::{EPOCH, World, userid};

const NAMES: [&str; 7] = [
    "submit",
    "memo",
    "annotations",
    "alloc",
    "clean",
    "strange",
    "urgency",
];

#[derive(Debug, Clone)]
enum Step {
    /// A commit reaches the store.
    Store(Vec<(u64, usize)>),
    /// The fan-out learns of all that is stored.
    Push,
    Add {
        filter: usize,
        start: usize,
        at: usize,
        flux: bool,
    },
    Writable(usize, bool),
    Poll(u8),
    Read,
    Flush(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::collection::vec((0_u64..9, 1_usize..NAMES.len()), 1..12).prop_map(Step::Store),
        5 => Just(Step::Push),
        2 => (0_usize..7, 0_usize..4, any::<usize>(), any::<bool>())
            .prop_map(|(filter, start, at, flux)| Step::Add { filter, start, at, flux }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(at, on)| Step::Writable(at, on)),
        5 => (0_u8..30).prop_map(Step::Poll),
        4 => Just(Step::Read),
        1 => any::<usize>().prop_map(Step::Flush),
    ]
}

fn filter(kind: usize) -> Filter {
    let all = Filter::all(Rights::Owner);
    match kind {
        0 | 1 => all,
        2 => all.allow(["memo", "strange"]),
        3 => all.deny(["memo", "strange"]),
        4 => Filter::all(Rights::User(1)),
        5 => all.of_jobs([JobId(2), JobId(5)]),
        _ => all.allow(["never"]),
    }
}

/// The same, said as plainly as can be.
fn passes(kind: usize, entry: &Entry) -> bool {
    let name = entry.name.as_str();
    let job = if let Source::Job(id) = entry.source {
        id.0
    } else {
        0
    };
    match kind {
        0 | 1 => true,
        2 => ["memo", "strange"].contains(&name),
        3 => !["memo", "strange"].contains(&name),
        4 => job != 0 && userid(job) == 1,
        5 => [2, 5].contains(&job),
        _ => false,
    }
}

/// What a listener was promised when it was added.
#[derive(Debug)]
struct Promise {
    filter: usize,
    start: Start,
    flux: bool,
    at: u64,
}

fn job_of(entry: &Entry) -> u64 {
    if let Source::Job(id) = entry.source {
        id.0
    } else {
        0
    }
}

impl Promise {
    fn backlog(&self, log: &[std::sync::Arc<Entry>]) -> Vec<u64> {
        if !matches!(self.start, Start::All | Start::Active) {
            return Vec::new();
        }
        // A job of this test may begin again after `clean`; the last `clean` in the whole log is what the store goes by.
        let mut done: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in log.iter().filter(|entry| entry.name.as_str() == "clean") {
            done.insert(job_of(entry), entry.seq.0);
        }
        let active = |entry: &Entry| {
            job_of(entry) == 0 || done.get(&job_of(entry)).is_none_or(|seq| *seq > self.at)
        };
        let mut seqs: Vec<u64> = log
            .iter()
            .filter(|entry| entry.seq.0 <= self.at && passes(self.filter, entry))
            .filter(|entry| !self.flux || (entry.stored_log && job_of(entry) != 0))
            .filter(|entry| self.start == Start::All || active(entry))
            .map(|entry| entry.seq.0)
            .collect();
        seqs.sort_unstable();
        seqs
    }

    fn live(&self, log: &[std::sync::Arc<Entry>]) -> Vec<u64> {
        let passing = log
            .iter()
            .filter(|entry| entry.seq.0 > self.at && passes(self.filter, entry));
        passing
            .filter(|entry| !self.flux || job_of(entry) != 0)
            .map(|entry| entry.seq.0)
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn promise_ordered_unique_complete_every_listener_gets_the_filtered_suffix_once_and_in_order(
        ring in 1_usize..60,
        batch in 1_usize..20,
        poll_bytes in prop_oneof![Just(1_usize), Just(3000), Just(1 << 20)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let limits = Limits {
            ring_entries: ring, batch_entries: batch, commit_entries: batch * 2, page_entries: 5, page_jobs: 2, poll_bytes,
            ..Limits::default()
        };
        let mut world = World::new(limits);
        let (mut promises, mut ended): (BTreeMap<u64, Promise>, [bool; 9]) = (BTreeMap::new(), [false; 9]);
        for step in steps {
            match step {
                Step::Store(events) => {
                    // Jobs end once: no entries after `clean`, as in life.
                    let mut commit = Vec::new();
                    for (job, name) in events {
                        if !ended[job as usize] {
                            commit.push((job, NAMES[name]));
                            ended[job as usize] = job != 0 && NAMES[name] == "clean";
                        }
                    }
                    if !commit.is_empty() {
                        world.store(&commit);
                    }
                }
                Step::Push => world.push(),
                Step::Add { filter: kind, start, at, flux } => {
                    let durable = world.fan.durable().0;
                    let (start, at) = match (start, flux) {
                        (0, _) => (Start::All, durable),
                        (1, _) => (Start::Active, durable),
                        (2, _) | (_, true) => (Start::Now, durable),
                        _ => {
                            let at = at as u64 % (durable + 1);
                            (Start::After { seq: Seq(at), epoch: Some(EPOCH.into()) }, at)
                        }
                    };
                    let format = if flux { Format::Flux } else { Format::Native };
                    let id = promises.len() as u64 + 1;
                    world.add(id, start.clone(), filter(kind), format).unwrap();
                    promises.insert(id, Promise { filter: kind, start, flux, at });
                }
                Step::Writable(at, on) => if !promises.is_empty() {
                    world.fan.set_writable(ListenerId((at % promises.len()) as u64 + 1), on);
                },
                Step::Poll(ms) => {
                    world.now += f64::from(ms) / 1000.0;
                    world.poll();
                }
                Step::Read => world.read(),
                Step::Flush(at) => if !promises.is_empty() {
                    let id = (at % promises.len()) as u64 + 1;
                    let mut out = Vec::new();
                    let done = world.fan.flush(ListenerId(id), Timestamp(world.now), &mut out);
                    world.take(out);
                    if done && !promises[&id].flux {
                        prop_assert_eq!(world.got[&id].told, world.fan.durable().0);
                    }
                },
            }
        }
        world.push();
        for id in promises.keys() {
            world.fan.set_writable(ListenerId(*id), true);
        }
        world.wait(11.0);
        for (id, promise) in &promises {
            let got = &world.got[id];
            prop_assert_eq!(&got.ended, &None);
            let mut backlog = got.backlog.clone();
            backlog.sort_unstable();
            prop_assert_eq!(&backlog, &promise.backlog(&world.log), "backlog of {} {:?}", id, promise);
            prop_assert_eq!(&got.live, &promise.live(&world.log), "live part of {} {:?}", id, promise);
            if promise.flux {
                prop_assert!(got.caught_up.is_some());
            } else {
                prop_assert_eq!(got.caught_up, Some(promise.at));
                prop_assert_eq!(got.told, world.log.len() as u64, "in the end it knows that it has all");
            }
            if promise.start == Start::All && promise.filter < 2 && !promise.flux {
                // Snapshot and live together are a fold of all.
                backlog.extend(&got.live);
                prop_assert_eq!(backlog, (1..=world.log.len() as u64).collect::<Vec<_>>());
            }
        }
        // All stand together in the end: one more entry is one batch a group.
        let before = world.fan.counters().batches_encoded;
        world.commit(&[(2, "memo")]);
        world.wait(1.0);
        let counters = world.fan.counters();
        prop_assert!(counters.batches_encoded - before <= counters.groups as u64);
    }
}
