//! Nodes that are down or drained, and jobs that want every node that is ready.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn drain(rank: u32, drained: bool) -> Input {
    Input::Drain(vec![(rank, drained)])
}

fn ask_for(id: u64, request: Request) -> Input {
    Input::Alloc {
        id: JobId(id),
        priority: 16,
        request,
    }
}

fn nodes(count: u32) -> Request {
    Request {
        spread: Spread::Nodes(count),
        ..Request::slots(1)
    }
}

fn ranks(sched: &Sched, id: u64) -> Vec<u32> {
    let grant = sched.grant(JobId(id)).unwrap();
    grant.nodes.iter().map(|part| part.rank).collect()
}

#[test]
fn a_drained_node_gets_no_new_job_and_keeps_those_it_has() {
    let mut sched = sched(2, 2);
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 1, 0.0))), [1]);
    assert!(run(&mut sched, 0.0, drain(0, true)).is_empty());
    assert!(sched.is_up(0) && sched.is_drained(0) && !sched.is_ready(0));
    assert_eq!(started(&run(&mut sched, 0.0, alloc(2, 16, 2, 0.0))), [2]);
    assert_eq!((ranks(&sched, 1), ranks(&sched, 2)), (vec![0], vec![1]));
    assert!(run(&mut sched, 0.0, alloc(3, 16, 1, 0.0)).is_empty());
    // What the first job held is not given out either.
    assert!(run(&mut sched, 1.0, Input::Free(JobId(1))).is_empty());
    // Down and up again changes nothing of it.
    let _ = run(&mut sched, 1.0, Input::Nodes(vec![(0, false)]));
    assert!(run(&mut sched, 1.0, Input::Nodes(vec![(0, true)])).is_empty());
    assert_eq!(started(&run(&mut sched, 2.0, drain(0, false))), [3]);
}

#[test]
fn nodes_that_become_ready_at_once_are_all_given_to_a_job_on_every_ready_node() {
    let mut sched = sched(4, 2);
    let all = |drained| Input::Drain((0..4).map(|rank| (rank, drained)).collect());
    let _ = run(&mut sched, 0.0, all(true));
    let every = Request::slots(1).on_every_node();
    assert!(run(&mut sched, 0.0, ask_for(1, every)).is_empty());
    let two = Input::Drain(vec![(1, false), (2, false)]);
    assert_eq!(started(&run(&mut sched, 1.0, two)), [1]);
    assert_eq!(ranks(&sched, 1), [1, 2]);
    // Said again it changes nothing.
    let same = Input::Drain(vec![(0, true), (1, false)]);
    assert!(run(&mut sched, 1.0, same).is_empty());
}

#[test]
fn fault_nodes_that_come_back_at_once_are_all_given_to_a_job_on_every_ready_node() {
    let mut sched = sched(4, 2);
    let all = |up| Input::Nodes((0..4).map(|rank| (rank, up)).collect());
    let _ = run(&mut sched, 0.0, all(false));
    let every = Request::slots(1).on_every_node();
    assert!(run(&mut sched, 0.0, ask_for(1, every)).is_empty());
    // One of them went away again in the same moment.
    let back = Input::Nodes(vec![(0, true), (2, true), (3, true), (0, false)]);
    assert_eq!(started(&run(&mut sched, 1.0, back)), [1]);
    assert_eq!(ranks(&sched, 1), [2, 3]);
}

#[test]
fn never_is_measured_by_all_nodes_drained_or_not() {
    let mut sched = sched(2, 2);
    for rank in 0..2 {
        let _ = run(&mut sched, 0.0, drain(rank, true));
    }
    assert!(run(&mut sched, 0.0, alloc(1, 16, 4, 0.0)).is_empty());
    assert!(
        run(
            &mut sched,
            0.0,
            ask_for(2, Request::slots(1).on_every_node())
        )
        .is_empty()
    );
    assert!(matches!(
        &run(&mut sched, 0.0, alloc(3, 16, 5, 0.0))[..],
        [Action::Denied { .. }]
    ));
    assert_eq!(sched.waiting(), 2);
}

#[test]
fn who_lacks_drained_nodes_steps_aside_and_has_his_place_when_they_are_back() {
    let mut sched = sched(2, 1);
    let _ = run(&mut sched, 0.0, drain(1, true));
    assert!(run(&mut sched, 0.0, ask_for(1, nodes(2))).is_empty());
    assert_eq!(
        started(&run(&mut sched, 0.0, alloc(2, 16, 1, 0.0))),
        [2],
        "nobody knows when the operator brings the node back"
    );
    assert!(run(&mut sched, 0.0, alloc(3, 16, 1, 0.0)).is_empty());
    assert_eq!((sched.waiting(), sched.aside()), (2, 1));
    // Now it is the head again, and waits only for a job: nobody passes.
    assert!(run(&mut sched, 1.0, drain(1, false)).is_empty());
    assert!(run(&mut sched, 1.0, alloc(4, 16, 1, 1.0)).is_empty());
    assert_eq!(started(&run(&mut sched, 2.0, Input::Free(JobId(2)))), [1]);
    assert_eq!((sched.waiting(), sched.aside()), (2, 0));
}

#[test]
fn a_head_that_waits_for_a_node_that_is_down_is_passed_by_nobody() {
    let mut sched = sched(2, 1);
    let _ = run(&mut sched, 0.0, Input::Nodes(vec![(1, false)]));
    assert!(run(&mut sched, 0.0, ask_for(1, nodes(2))).is_empty());
    assert!(run(&mut sched, 0.0, alloc(2, 16, 1, 1.0)).is_empty());
    // Drained as well: it is the operator who is waited for, not the node's process.
    assert_eq!(started(&run(&mut sched, 0.0, drain(1, true))), [2]);
}

#[test]
fn the_estimate_is_the_heads_and_not_of_one_that_steps_aside() {
    let mut sched = sched(2, 1);
    let _ = run(&mut sched, 0.0, drain(1, true));
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 1, 50.0))), [1]);
    assert!(run(&mut sched, 0.0, ask_for(2, nodes(2))).is_empty());
    let out = run(&mut sched, 0.0, alloc(3, 16, 1, 0.0));
    let estimate = Action::Estimated {
        id: JobId(3),
        start_s: 50.0,
    };
    assert_eq!(out, [estimate]);
}

#[test]
fn every_ready_node_gets_one_slot_when_all_of_them_have_room() {
    let mut sched = sched(4, 2);
    let _ = run(&mut sched, 0.0, drain(2, true));
    let _ = run(&mut sched, 0.0, Input::Nodes(vec![(3, false)]));
    // Both cores of rank 0.
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 2, 0.0))), [1]);
    let every = Request::slots(1).on_every_node();
    assert!(run(&mut sched, 0.0, ask_for(2, every.clone())).is_empty());
    // A node that comes back meanwhile is one of them.
    assert!(run(&mut sched, 1.0, Input::Nodes(vec![(3, true)])).is_empty());
    assert_eq!(started(&run(&mut sched, 2.0, Input::Free(JobId(1)))), [2]);
    assert_eq!(ranks(&sched, 2), [0, 1, 3]);
    let grant = sched.grant(JobId(2)).unwrap();
    assert!(grant.nodes.iter().all(|part| part.cores.len() == 1));
    assert_eq!(grant.nslots, 3);
    // None ready: it waits.
    for rank in [0, 1, 3] {
        let _ = run(&mut sched, 3.0, drain(rank, true));
    }
    assert!(run(&mut sched, 3.0, ask_for(3, every)).is_empty());
    assert_eq!(started(&run(&mut sched, 4.0, drain(2, false))), [3]);
    assert_eq!(ranks(&sched, 3), [2]);
}

#[test]
fn nodes_that_are_too_small_or_not_allowed_are_none_of_every() {
    let node = |host: &str, cores| NodeSpec {
        host: host.into(),
        cores: Set::first(cores),
        gpus: Set::new(),
    };
    let mut sched = Sched::new(vec![node("a", 1), node("b", 4), node("c", 2)]);
    let two = Request {
        cores_per_slot: 2,
        ..Request::slots(1).on_every_node()
    };
    assert_eq!(started(&run(&mut sched, 0.0, ask_for(1, two.clone()))), [1]);
    assert_eq!(ranks(&sched, 1), [1, 2]);
    let only = Request {
        constraint: Some(Constraint::Hosts(vec!["b".into()])),
        ..two.clone()
    };
    assert_eq!(started(&run(&mut sched, 0.0, ask_for(2, only))), [2]);
    assert_eq!(ranks(&sched, 2), [1]);
    let five = Request {
        cores_per_slot: 5,
        ..two
    };
    let out = run(&mut sched, 0.0, ask_for(3, five));
    assert!(
        matches!(&out[..], [Action::Denied { note, .. }] if note.contains("asked for every node with 1 slot of 5 cores; there are 3 nodes")),
        "{out:?}"
    );
}

#[derive(Debug, Clone)]
enum Happens {
    Ask(u32, Option<u32>, bool, u32),
    Node(u32, bool),
    Drain(u32, bool),
    End(usize),
    Cancel(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1u32..3, prop::option::weighted(0.4, 1u32..4), prop::bool::weighted(0.3), 0u32..4)
            .prop_map(|(slots, nodes, every, duration)| Happens::Ask(slots, nodes, every, duration)),
        1 => (0u32..3, prop::bool::ANY).prop_map(|(rank, up)| Happens::Node(rank, up)),
        1 => (0u32..3, prop::bool::ANY).prop_map(|(rank, drained)| Happens::Drain(rank, drained)),
        3 => (0usize..8).prop_map(Happens::End),
        1 => (0usize..8).prop_map(Happens::Cancel),
    ]
}

/// What a reader of the scheduler's answers knows.
#[derive(Default)]
struct Model {
    down: BTreeSet<u32>,
    drained: BTreeSet<u32>,
    waiting: BTreeMap<u64, Request>,
    running: BTreeMap<u64, Grant>,
}

const NODES: u32 = 3;
const CORES: u32 = 2;

impl Model {
    fn ready(&self) -> Vec<u32> {
        (0..NODES)
            .filter(|rank| !self.down.contains(rank) && !self.drained.contains(rank))
            .collect()
    }

    fn free(&self, rank: u32) -> u32 {
        let held = self.running.values().flat_map(|grant| &grant.nodes);
        let held: u32 = held
            .filter(|part| part.rank == rank)
            .map(|part| part.cores.len())
            .sum();
        CORES - held
    }

    /// Whether a request fits on these nodes, by counting.
    fn fits(&self, request: &Request, on: &[u32], free: impl Fn(u32) -> u32) -> bool {
        let with_room = on.iter().filter(|rank| free(**rank) >= request.slots);
        match request.spread {
            Spread::Anywhere => on.iter().map(|rank| free(*rank)).sum::<u32>() >= request.slots,
            Spread::Nodes(nodes) => with_room.count() >= nodes as usize,
            Spread::EveryReady => !on.is_empty() && with_room.count() == on.len(),
        }
    }

    /// How many could not run though every node that is not drained were there and free.
    fn aside(&self) -> usize {
        let wanted: Vec<u32> = (0..NODES)
            .filter(|rank| !self.drained.contains(rank))
            .collect();
        let waiting = self.waiting.values();
        waiting
            .filter(|request| !self.fits(request, &wanted, |_| CORES))
            .count()
    }

    fn take(&mut self, out: Vec<Action>) {
        for action in out {
            match action {
                Action::Allocated { id, grant, .. } => {
                    let request = self.waiting.remove(&id.0).unwrap();
                    let ready = self.ready();
                    let ranks: Vec<u32> = grant.nodes.iter().map(|part| part.rank).collect();
                    assert!(ranks.iter().all(|rank| ready.contains(rank)), "not ready");
                    if request.spread == Spread::EveryReady {
                        assert_eq!(ranks, ready, "every node that is ready, and no other");
                        let each = grant.nodes.iter().map(|part| part.cores.len());
                        assert!(each.into_iter().all(|cores| cores == request.slots));
                    }
                    assert!(
                        grant
                            .nodes
                            .iter()
                            .all(|part| self.free(part.rank) >= part.cores.len())
                    );
                    self.running.insert(id.0, grant);
                }
                Action::Denied { id, .. } => {
                    let request = self.waiting.remove(&id.0).unwrap();
                    let all: Vec<u32> = (0..NODES).collect();
                    assert!(
                        !self.fits(&request, &all, |_| CORES),
                        "denied though it can fit"
                    );
                }
                Action::Cancelled(id) => assert!(self.waiting.remove(&id.0).is_some()),
                Action::Estimated { .. } => {}
            }
        }
        // Whoever is first of those that do not wait for an operator has no room now.
        let wanted: Vec<u32> = (0..NODES)
            .filter(|rank| !self.drained.contains(rank))
            .collect();
        let first = self
            .waiting
            .values()
            .find(|request| self.fits(request, &wanted, |_| CORES));
        if let Some(request) = first {
            let now = self.fits(request, &self.ready(), |rank| self.free(rank));
            assert!(!now, "the first in line was not served: {request}");
        }
    }
}

proptest! {
    #[test]
    fn only_ready_nodes_are_given_and_every_one_means_every_one(
        steps in prop::collection::vec(happens(), 1..60)
    ) {
        let (mut sched, mut model) = (sched(NODES, CORES), Model::default());
        let mut id = 0;
        for (now, step) in (0u32..).zip(steps) {
            let input = match step {
                Happens::Ask(slots, nodes, every, duration) => {
                    id += 1;
                    let request = Request {
                        spread: match nodes {
                            _ if every => Spread::EveryReady,
                            Some(nodes) => Spread::Nodes(nodes),
                            None => Spread::Anywhere,
                        },
                        duration_s: f64::from(duration),
                        ..Request::slots(slots)
                    };
                    model.waiting.insert(id, request.clone());
                    ask_for(id, request)
                }
                Happens::Node(rank, up) => {
                    if up { model.down.remove(&rank); } else { model.down.insert(rank); }
                    Input::Nodes(vec![(rank, up)])
                }
                Happens::Drain(rank, drained) => {
                    if drained { model.drained.insert(rank); } else { model.drained.remove(&rank); }
                    drain(rank, drained)
                }
                Happens::End(at) => match model.running.keys().nth(at).copied() {
                    Some(ends) => {
                        model.running.remove(&ends);
                        Input::Free(JobId(ends))
                    }
                    None => continue,
                },
                Happens::Cancel(at) => match model.waiting.keys().nth(at).copied() {
                    Some(gives_up) => Input::Cancel(JobId(gives_up)),
                    None => continue,
                },
            };
            let out = run(&mut sched, f64::from(now), input);
            model.take(out);
            prop_assert_eq!(sched.aside(), model.aside());
        }
        // All nodes are back: everybody gets a turn.
        for rank in 0..NODES {
            model.down.remove(&rank);
            let out = run(&mut sched, 100.0, Input::Nodes(vec![(rank, true)]));
            model.take(out);
            model.drained.remove(&rank);
            let out = run(&mut sched, 100.0, drain(rank, false));
            model.take(out);
        }
        while let Some(ends) = model.running.keys().next().copied() {
            model.running.remove(&ends);
            let out = run(&mut sched, 101.0, Input::Free(JobId(ends)));
            model.take(out);
        }
        prop_assert!(model.waiting.is_empty(), "never started: {:?}", model.waiting);
        prop_assert_eq!((sched.waiting(), sched.aside(), sched.holding()), (0, 0, 0));
    }
}
