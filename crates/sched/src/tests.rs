//! Named cases and properties of the scheduler: no double booking, the order kept, nobody delays the head, what is freed is free.

use std::collections::HashMap;

use job::{JobId, Timestamp};
use proptest::prelude::*;

mod ready;

use crate::{Action, Constraint, Grant, Input, NodeSpec, Request, Sched, Set, Spread};

fn sched(nodes: u32, cores: u32) -> Sched {
    Sched::new(
        (0..nodes)
            .map(|rank| NodeSpec {
                host: format!("n{rank}"),
                cores: Set::first(cores),
                gpus: Set::first(1),
            })
            .collect(),
    )
}

fn alloc(id: u64, priority: u32, slots: u32, duration_s: f64) -> Input {
    Input::Alloc {
        id: JobId(id),
        priority,
        request: Request {
            duration_s,
            ..Request::slots(slots)
        },
    }
}

fn run(sched: &mut Sched, now: f64, input: Input) -> Vec<Action> {
    let mut out = Vec::new();
    sched.handle(Timestamp(now), input, &mut out);
    out
}

fn started(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Allocated { id, .. } => Some(id.0),
            _ => None,
        })
        .collect()
}

#[test]
fn the_next_is_the_highest_priority_then_the_lowest_id() {
    let mut sched = sched(1, 1);
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 1, 0.0))), [1]);
    for (id, priority) in [(4, 16), (2, 16), (3, 31)] {
        assert!(run(&mut sched, 0.0, alloc(id, priority, 1, 0.0)).is_empty());
    }
    for (freed, next) in [(1, 3), (3, 2), (2, 4)] {
        assert_eq!(
            started(&run(&mut sched, 1.0, Input::Free(JobId(freed)))),
            [next]
        );
    }
}

#[test]
fn a_changed_priority_moves_a_waiting_job() {
    let mut sched = sched(1, 1);
    for id in 1..=3 {
        let _ = run(&mut sched, 0.0, alloc(id, 16, 1, 0.0));
    }
    assert!(
        run(
            &mut sched,
            0.0,
            Input::Prioritize(vec![(JobId(3), 20), (JobId(9), 1)])
        )
        .is_empty()
    );
    assert_eq!(started(&run(&mut sched, 0.0, Input::Free(JobId(1)))), [3]);
}

#[test]
fn a_request_that_can_never_fit_is_denied_with_both_sides() {
    let mut sched = sched(2, 4);
    let out = run(&mut sched, 0.0, alloc(1, 16, 9, 0.0));
    assert_eq!(
        out,
        [Action::Denied {
            id: JobId(1),
            note: "unsatisfiable request: asked for 9 slots of 1 core; there are 2 nodes with 8 cores in all, at most 4 on one and 2 GPUs".into()
        }]
    );
    let request = Request {
        spread: Spread::Nodes(3),
        ..Request::slots(1)
    };
    let out = run(
        &mut sched,
        0.0,
        Input::Alloc {
            id: JobId(2),
            priority: 16,
            request,
        },
    );
    assert!(
        matches!(&out[..], [Action::Denied { note, .. }] if note.contains("3 nodes with 1 slot of 1 core"))
    );
    let request = Request {
        constraint: Some(Constraint::Hosts(vec!["elsewhere".into()])),
        ..Request::slots(1)
    };
    let out = run(
        &mut sched,
        0.0,
        Input::Alloc {
            id: JobId(3),
            priority: 16,
            request,
        },
    );
    assert!(
        matches!(&out[..], [Action::Denied { note, .. }] if note.ends_with("0 of them may be used under the job's constraints"))
    );
    assert_eq!(sched.waiting(), 0);
}

#[test]
fn a_job_that_ends_before_the_heads_start_goes_first() {
    let mut sched = sched(1, 4);
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 3, 100.0))), [1]);
    // The head needs all four: it can start at 100.
    assert_eq!(
        run(&mut sched, 0.0, alloc(2, 16, 4, 10.0)),
        [Action::Estimated {
            id: JobId(2),
            start_s: 100.0
        }]
    );
    assert!(
        started(&run(&mut sched, 0.0, alloc(3, 16, 1, 0.0))).is_empty(),
        "no limit: could delay it"
    );
    assert!(
        started(&run(&mut sched, 0.0, alloc(4, 16, 1, 101.0))).is_empty(),
        "ends too late"
    );
    assert_eq!(started(&run(&mut sched, 0.0, alloc(5, 16, 1, 100.0))), [5]);
}

#[test]
fn a_job_beside_the_heads_place_goes_first_however_long() {
    let mut sched = sched(1, 4);
    let _ = run(&mut sched, 0.0, alloc(1, 16, 3, 100.0));
    // The head needs two, of the four that are free at 100: two are left over.
    let _ = run(&mut sched, 0.0, alloc(2, 16, 2, 10.0));
    assert_eq!(started(&run(&mut sched, 0.0, alloc(3, 16, 1, 0.0))), [3]);
}

#[test]
fn nobody_goes_before_a_head_that_waits_for_a_job_without_a_limit() {
    let mut sched = sched(1, 2);
    let _ = run(&mut sched, 0.0, alloc(1, 16, 1, 0.0));
    assert!(run(&mut sched, 0.0, alloc(2, 16, 2, 0.0)).is_empty());
    assert!(run(&mut sched, 0.0, alloc(3, 16, 1, 1.0)).is_empty());
    assert_eq!(started(&run(&mut sched, 5.0, Input::Free(JobId(1)))), [2]);
}

#[test]
fn a_cancelled_head_makes_way() {
    let mut sched = sched(1, 2);
    let _ = run(&mut sched, 0.0, alloc(1, 16, 1, 0.0));
    let _ = run(&mut sched, 0.0, alloc(2, 16, 2, 0.0));
    let _ = run(&mut sched, 0.0, alloc(3, 16, 1, 0.0));
    let out = run(&mut sched, 0.0, Input::Cancel(JobId(2)));
    assert_eq!(out[0], Action::Cancelled(JobId(2)));
    assert_eq!(started(&out), [3]);
    assert!(
        run(&mut sched, 0.0, Input::Cancel(JobId(3))).is_empty(),
        "too late: it has its resources"
    );
}

#[test]
fn a_node_that_is_down_gives_nothing_and_then_again() {
    let mut sched = sched(2, 1);
    assert!(run(&mut sched, 0.0, Input::Nodes(vec![(0, false)])).is_empty());
    assert_eq!(started(&run(&mut sched, 0.0, alloc(1, 16, 1, 0.0))), [1]);
    assert_eq!(sched.grant(JobId(1)).unwrap().nodes[0].rank, 1);
    assert!(run(&mut sched, 0.0, alloc(2, 16, 1, 0.0)).is_empty());
    assert_eq!(
        started(&run(&mut sched, 0.0, Input::Nodes(vec![(0, true)]))),
        [2]
    );
}

#[test]
fn hello_holds_what_the_job_had_and_no_more() {
    let mut sched = sched(1, 2);
    let grant = |cores: &str| Grant {
        nodes: vec![crate::NodeGrant {
            rank: 0,
            cores: Set::parse(cores).unwrap(),
            gpus: Set::new(),
        }],
        nslots: 1,
    };
    for (id, cores) in [(1, "1"), (2, "1-5")] {
        let input = Input::Hello {
            id: JobId(id),
            grant: grant(cores),
            end_s: f64::INFINITY,
        };
        assert!(run(&mut sched, 0.0, input).is_empty());
    }
    let out = run(&mut sched, 0.0, alloc(3, 16, 1, 0.0));
    assert_eq!(started(&out), [3], "core 0 is free");
    let _ = run(&mut sched, 0.0, Input::Free(JobId(2)));
    assert!(
        started(&run(&mut sched, 0.0, alloc(4, 16, 1, 0.0))).is_empty(),
        "core 1 is job 1's"
    );
}

#[test]
fn exclusive_nodes_are_given_whole() {
    let mut sched = sched(2, 4);
    let _ = run(&mut sched, 0.0, alloc(1, 16, 1, 0.0));
    let request = Request {
        spread: Spread::Nodes(1),
        exclusive: true,
        ..Request::slots(1)
    };
    assert_eq!(
        started(&run(
            &mut sched,
            0.0,
            Input::Alloc {
                id: JobId(2),
                priority: 16,
                request
            }
        )),
        [2]
    );
    let grant = sched.grant(JobId(2)).unwrap();
    assert_eq!(
        (
            grant.nodes[0].rank,
            grant.nodes[0].cores.len(),
            grant.nodes[0].gpus.len(),
            grant.nslots
        ),
        (1, 4, 1, 1)
    );
}

#[derive(Debug, Clone)]
struct Ask {
    slots: u32,
    cores: u32,
    nodes: Option<u32>,
    exclusive: bool,
    duration: u32,
    wait: u32,
}

fn ask() -> impl Strategy<Value = Ask> {
    (
        1u32..4,
        1u32..3,
        prop::option::weighted(0.3, 1u32..3),
        prop::bool::weighted(0.2),
        0u32..20,
        0u32..6,
    )
        .prop_map(|(slots, cores, nodes, exclusive, duration, wait)| Ask {
            slots,
            cores,
            exclusive: exclusive && nodes.is_some(),
            nodes,
            duration,
            wait,
        })
}

/// A machine that runs the scheduler's jobs exactly as long as their limit, and checks every step.
struct World {
    sched: Sched,
    now: f64,
    running: HashMap<u64, (Grant, f64)>,
    asks: HashMap<u64, Ask>,
    waiting: Vec<u64>,
    /// The first promise made to a job while it stood at the head.
    promised: HashMap<u64, f64>,
}

impl World {
    fn new() -> World {
        World {
            sched: sched(3, 4),
            now: 0.0,
            running: HashMap::new(),
            asks: HashMap::new(),
            waiting: Vec::new(),
            promised: HashMap::new(),
        }
    }

    fn step(&mut self, input: Input) {
        let out = run(&mut self.sched, self.now, input);
        for action in out {
            match action {
                Action::Allocated { id, grant, .. } => self.allocated(id.0, grant),
                Action::Denied { id, .. } => self.waiting.retain(|one| *one != id.0),
                Action::Cancelled(id) => self.waiting.retain(|one| *one != id.0),
                Action::Estimated { id, start_s } => {
                    self.promised.entry(id.0).or_insert(start_s);
                }
            }
        }
    }

    fn allocated(&mut self, id: u64, grant: Grant) {
        let ask = self.asks[&id].clone();
        for part in &grant.nodes {
            for (other, (held, _)) in &self.running {
                for theirs in held.nodes.iter().filter(|one| one.rank == part.rank) {
                    assert!(
                        theirs.cores.common(&part.cores).is_empty(),
                        "{id} and {other} share cores"
                    );
                    assert!(
                        theirs.gpus.common(&part.gpus).is_empty(),
                        "{id} and {other} share GPUs"
                    );
                }
            }
            assert!(part.cores.iter().all(|core| core < 4) && part.rank < 3);
        }
        let cores: u32 = grant.nodes.iter().map(|part| part.cores.len()).sum();
        match ask.nodes {
            Some(nodes) => assert_eq!(grant.nodes.len(), nodes as usize),
            None => assert_eq!(cores, ask.slots * ask.cores),
        }
        if ask.exclusive {
            assert!(grant.nodes.iter().all(|part| part.cores.len() == 4));
        }
        if let Some(promised) = self.promised.get(&id) {
            assert!(
                self.now <= *promised + 1e-9,
                "{id} was promised {promised} and starts at {}",
                self.now
            );
        }
        let end = if ask.duration == 0 {
            f64::INFINITY
        } else {
            self.now + f64::from(ask.duration)
        };
        self.waiting.retain(|one| *one != id);
        self.running.insert(id, (grant, end));
    }

    /// Lets time pass; jobs end when their limit does.
    fn advance(&mut self, to: f64) {
        loop {
            let next = self
                .running
                .iter()
                .map(|(id, (_, end))| (*end, *id))
                .filter(|(end, _)| *end <= to)
                .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let Some((end, id)) = next else { break };
            self.now = end;
            self.running.remove(&id);
            self.step(Input::Free(JobId(id)));
        }
        self.now = to;
    }
}

proptest! {
    #[test]
    fn never_two_holders_and_a_head_starts_when_promised(asks in prop::collection::vec(ask(), 1..40)) {
        let mut world = World::new();
        // One job without a limit now and then would be in the way for ever: it ends by being freed below.
        for (id, ask) in (1u64..).zip(asks) {
            world.asks.insert(id, ask.clone());
            world.waiting.push(id);
            let request = Request {
                cores_per_slot: ask.cores,
                spread: ask.nodes.map_or(Spread::Anywhere, Spread::Nodes),
                exclusive: ask.exclusive,
                duration_s: f64::from(ask.duration),
                ..Request::slots(ask.slots)
            };
            // The same priority for all: a newcomer cannot take the head's place, so a promise binds.
            world.step(Input::Alloc { id: JobId(id), priority: 16, request });
            world.advance(world.now + f64::from(ask.wait));
        }
        // All that is left ends in some order, and everybody gets a turn.
        while let Some(id) = world.running.keys().min().copied() {
            world.running.remove(&id);
            world.promised.clear();
            world.step(Input::Free(JobId(id)));
        }
        prop_assert!(world.waiting.is_empty(), "never started: {:?}", world.waiting);
        prop_assert_eq!(world.sched.holding(), 0);
        // What is freed is free: the whole machine can be had at once.
        let request = Request { spread: Spread::Nodes(3), exclusive: true, ..Request::slots(1) };
        world.asks.insert(999, Ask { slots: 1, cores: 1, nodes: Some(3), exclusive: true, duration: 0, wait: 0 });
        world.step(Input::Alloc { id: JobId(999), priority: 16, request });
        prop_assert!(world.running.contains_key(&999));
    }

    #[test]
    fn equal_requests_start_in_order(jobs in prop::collection::vec((0u32..4, 0u32..3), 1..30)) {
        let mut sched = sched(1, 1);
        let mut waiting = Vec::new();
        let mut running = None;
        for (id, (priority, frees)) in (1u64..).zip(jobs) {
            waiting.push((std::cmp::Reverse(priority), id));
            let mut out = run(&mut sched, 0.0, alloc(id, priority, 1, 0.0));
            for _ in 0..=frees {
                waiting.sort_unstable();
                for id in started(&out) {
                    prop_assert!(running.is_none());
                    prop_assert_eq!(id, waiting.remove(0).1);
                    running = Some(id);
                }
                out = match running.take() {
                    Some(id) => run(&mut sched, 0.0, Input::Free(JobId(id))),
                    None => Vec::new(),
                };
            }
            for id in started(&out) {
                waiting.sort_unstable();
                prop_assert_eq!(id, waiting.remove(0).1);
                running = Some(id);
            }
        }
    }
}
