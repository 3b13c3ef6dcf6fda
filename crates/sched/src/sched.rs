//! hello, alloc, cancel, prioritize, free: the scheduler as one state machine.
//!
//! ```text
//!            alloc                    fits            free or released
//!  unknown ─────────▶ waiting ─────────────────▶ held ───────────────▶ unknown
//!                 │      │ cancel ▶ Cancelled      ▲
//!                 │      └ ── ── ── ── ──          │ hello (after a restart of either side)
//!                 └ can never fit ▶ Denied       unknown
//! ```
//!
//! Invariants: a core or GPU is held by at most one job; the job at the head starts no later than its reservation because of a
//! job behind it; what a job held is free once it ended, whichever of `Released` (our own executor saw its last process end)
//! and `Free` (the job-manager took note of that) comes first.

use std::collections::HashMap;

use job::{JobId, Timestamp};

use crate::backfill::Reservation;
use crate::order::{Queue, Waiting};
use crate::pool::{Grant, NodeSpec, Pool};
use crate::request::Request;

/// An announced start is announced again only if it moved by more than this many seconds.
const ESTIMATE_SLACK_S: f64 = 1.0;

/// What can happen to the scheduler.
#[derive(Debug, Clone)]
pub enum Input {
    /// A job that holds resources already: from `sched-hello`.
    Hello {
        /// Its id.
        id: JobId,
        /// What its R says.
        grant: Grant,
        /// When it must have ended; infinite if there is no limit.
        end_s: f64,
    },
    /// A job asks for resources.
    Alloc {
        /// Its id.
        id: JobId,
        /// Its priority.
        priority: u32,
        /// What it asks for.
        request: Request,
    },
    /// A waiting job gives up.
    Cancel(JobId),
    /// New priorities of waiting jobs; unknown ids are ignored.
    Prioritize(Vec<(JobId, u32)>),
    /// A job's resources are free: its last process is gone, or the job-manager says so. The second of the two is ignored.
    Free(JobId),
    /// A job must now end at another time; infinite for no limit.
    Expiration {
        /// Its id.
        id: JobId,
        /// When.
        end_s: f64,
    },
    /// Nodes went away or came back: ranks, and whether they are there. All of them before anything is given out.
    Nodes(Vec<(u32, bool)>),
    /// Nodes are to get no new jobs, or may get them again: ranks, and whether they are to get none. All of them before anything is
    /// given out, so that a job on every ready node gets all that become ready at once.
    Drain(Vec<(u32, bool)>),
}

/// What the scheduler answers.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Action {
    /// The job has these resources.
    Allocated {
        /// Its id.
        id: JobId,
        /// What it got.
        grant: Grant,
        /// When it must have ended; infinite without a limit.
        end_s: f64,
        /// An estimate was announced for it before, and is to be withdrawn.
        had_estimate: bool,
    },
    /// The request can never be served.
    Denied {
        /// The job's id.
        id: JobId,
        /// What was asked and what there is.
        note: String,
    },
    /// The job waited and does so no longer.
    Cancelled(JobId),
    /// The first job in line will start at this time at the latest, if every limit is kept.
    Estimated {
        /// Its id.
        id: JobId,
        /// When.
        start_s: f64,
    },
}

/// Counts for `stats-get`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Jobs that got resources.
    pub allocated: u64,
    /// … before one that stood ahead of them.
    pub backfilled: u64,
    /// Requests denied.
    pub denied: u64,
    /// Walks along the queue.
    pub passes: u64,
    /// Changes of place, however many jobs each moved.
    pub reorders: u64,
}

#[derive(Debug)]
struct Held {
    grant: Grant,
    end_s: f64,
}

/// The scheduler's core.
#[derive(Debug)]
pub struct Sched {
    pool: Pool,
    queue: Queue,
    held: HashMap<JobId, Held>,
    counters: Counters,
}

impl Sched {
    /// A scheduler of these nodes; ranks are their places in the list. All are up and free.
    #[must_use]
    pub fn new(nodes: Vec<NodeSpec>) -> Sched {
        Sched {
            pool: Pool::new(nodes),
            queue: Queue::default(),
            held: HashMap::new(),
            counters: Counters::default(),
        }
    }

    /// Takes one thing in; what follows from it is added to `out`, in order.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Action>) {
        let changed = match input {
            Input::Hello { id, grant, end_s } => {
                self.hello(id, &grant, end_s);
                false
            }
            Input::Alloc {
                id,
                priority,
                request,
            } => self.alloc(id, priority, request, out),
            Input::Cancel(id) => match self.queue.remove(id) {
                Some(_) => {
                    out.push(Action::Cancelled(id));
                    true
                }
                None => false,
            },
            Input::Prioritize(jobs) => {
                self.counters.reorders += 1;
                for (id, priority) in jobs {
                    self.queue.set_priority(id, priority);
                }
                true
            }
            Input::Free(id) => match self.held.remove(&id) {
                Some(held) => {
                    self.pool.give(&held.grant);
                    true
                }
                None => false,
            },
            Input::Expiration { id, end_s } => match self.held.get_mut(&id) {
                Some(held) => {
                    held.end_s = end_s;
                    true
                }
                None => false,
            },
            Input::Nodes(nodes) => {
                let mut changed = false;
                for (rank, up) in nodes {
                    changed |= self.pool.set_up(rank, up);
                }
                changed
            }
            Input::Drain(nodes) => {
                let mut changed = false;
                for (rank, drained) in nodes {
                    changed |= self.pool.set_drained(rank, drained);
                }
                if changed {
                    let pool = &self.pool;
                    self.queue
                        .set_aside(|request| !pool.could_while_drained(request));
                }
                changed
            }
        };
        if changed {
            self.pass(now.0, out);
        }
    }

    /// Jobs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Jobs that wait and stand aside: they lack nodes that are drained.
    #[must_use]
    pub fn aside(&self) -> usize {
        self.queue.aside()
    }

    /// Jobs that hold resources.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.held.len()
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The nodes, by rank.
    #[must_use]
    pub fn nodes(&self) -> &[NodeSpec] {
        self.pool.nodes()
    }

    /// Whether the node of that rank is up.
    #[must_use]
    pub fn is_up(&self, rank: u32) -> bool {
        self.pool.is_up(rank)
    }

    /// Whether it is to get no new jobs.
    #[must_use]
    pub fn is_drained(&self, rank: u32) -> bool {
        self.pool.is_drained(rank)
    }

    /// Whether new jobs can be given to it: it is up and not drained.
    #[must_use]
    pub fn is_ready(&self, rank: u32) -> bool {
        self.pool.is_ready(rank)
    }

    /// What a job holds.
    #[must_use]
    pub fn grant(&self, id: JobId) -> Option<&Grant> {
        self.held.get(&id).map(|held| &held.grant)
    }

    /// All that is held, by anyone.
    #[must_use]
    pub fn allocated(&self) -> Grant {
        let mut all: Vec<crate::pool::NodeGrant> = Vec::new();
        for part in self.held.values().flat_map(|held| &held.grant.nodes) {
            match all.iter_mut().find(|one| one.rank == part.rank) {
                Some(one) => {
                    one.cores.add(&part.cores);
                    one.gpus.add(&part.gpus);
                }
                None => all.push(part.clone()),
            }
        }
        all.sort_by_key(|one| one.rank);
        Grant {
            nodes: all,
            nslots: 0,
        }
    }

    fn hello(&mut self, id: JobId, grant: &Grant, end_s: f64) {
        if self.held.contains_key(&id) {
            return;
        }
        let grant = self.pool.takeable(grant);
        self.pool.take(&grant);
        self.held.insert(id, Held { grant, end_s });
    }

    fn alloc(&mut self, id: JobId, priority: u32, request: Request, out: &mut Vec<Action>) -> bool {
        if !self.pool.could_ever(&request) {
            self.counters.denied += 1;
            out.push(Action::Denied {
                id,
                note: self.never(&request),
            });
            return false;
        }
        let aside = self.pool.has_drained() && !self.pool.could_while_drained(&request);
        self.queue.insert(
            priority,
            Waiting {
                id,
                request,
                estimate_s: None,
                aside,
            },
        );
        true
    }

    /// Why a request can never be served: what was asked, what there is.
    fn never(&self, request: &Request) -> String {
        let nodes = self.pool.nodes();
        let most = |count: fn(&NodeSpec) -> u32| nodes.iter().map(count).max().unwrap_or(0);
        let cores: u32 = nodes.iter().map(|node| node.cores.len()).sum();
        let gpus: u32 = nodes.iter().map(|node| node.gpus.len()).sum();
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut note = format!(
            "unsatisfiable request: asked for {request}; there {} {count} node{} with {cores} core{}",
            if count == 1 { "is" } else { "are" },
            plural(count),
            plural(cores),
        );
        if count > 1 {
            note.push_str(&format!(
                " in all, at most {} on one",
                most(|node| node.cores.len())
            ));
        }
        note.push_str(&format!(
            " and {} GPU{}",
            if gpus == 0 {
                "no".to_owned()
            } else {
                gpus.to_string()
            },
            plural(gpus)
        ));
        if request.constraint.is_some() {
            note.push_str(&format!(
                "; {} of them may be used under the job's constraints",
                self.pool.allowed(request)
            ));
        }
        note
    }

    /// Walks along the queue and gives what can be given. A job that lacks drained nodes, which only their operator brings back, is passed
    /// over as if it were not there: it has its place again as soon as they are.
    fn pass(&mut self, now_s: f64, out: &mut Vec<Action>) {
        self.counters.passes += 1;
        let mut given: Vec<JobId> = Vec::new();
        let mut head: Option<(Request, Reservation)> = None;
        for waiting in self.queue.iter() {
            if !self.pool.has_free() {
                break;
            }
            if waiting.aside {
                // Not even with all other nodes empty: nothing is to be searched for.
                continue;
            }
            let fits = self.pool.fit(self.pool.free(), &waiting.request);
            let end_s = waiting.request.end_s(now_s);
            let admitted = match (&mut head, fits) {
                (None, Some(grant)) => Some(grant),
                (None, None) => {
                    let held = self.held.values().map(|held| (held.end_s, &held.grant));
                    let found = Reservation::find(now_s, &self.pool, &waiting.request, held);
                    if matches!(found, Reservation::Unknown) {
                        break;
                    }
                    head = Some((waiting.request.clone(), found));
                    None
                }
                (Some((request, reservation)), Some(grant)) => reservation
                    .admit(&self.pool, request, &grant, end_s)
                    .then_some(grant),
                (Some(_), None) => None,
            };
            if let Some(grant) = admitted {
                self.counters.allocated += 1;
                self.counters.backfilled += u64::from(head.is_some());
                self.pool.take(&grant);
                self.held.insert(
                    waiting.id,
                    Held {
                        grant: grant.clone(),
                        end_s,
                    },
                );
                given.push(waiting.id);
                let had_estimate = waiting.estimate_s.is_some();
                out.push(Action::Allocated {
                    id: waiting.id,
                    grant,
                    end_s,
                    had_estimate,
                });
            }
        }
        for id in given {
            self.queue.remove(id);
        }
        self.announce(now_s, out);
    }

    /// Tells the head when it will start, where end times make that known.
    fn announce(&mut self, now_s: f64, out: &mut Vec<Action>) {
        if !self.held.values().any(|held| held.end_s.is_finite()) {
            return;
        }
        let Some(head) = self.queue.head_mut() else {
            return;
        };
        let held = self.held.values().map(|held| (held.end_s, &held.grant));
        if let Reservation::At { start_s, .. } =
            Reservation::find(now_s, &self.pool, &head.request, held)
            && head
                .estimate_s
                .is_none_or(|old| (old - start_s).abs() > ESTIMATE_SLACK_S)
        {
            head.estimate_s = Some(start_s);
            out.push(Action::Estimated {
                id: head.id,
                start_s,
            });
        }
    }

    /// Whether the job waits.
    #[must_use]
    pub fn is_waiting(&self, id: JobId) -> bool {
        self.queue.contains(id)
    }
}
