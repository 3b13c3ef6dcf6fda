//! What is being purged: searches for ended jobs in their order, and the files of purged jobs until they are gone.
//!
//! ```text
//!  purge, limits ─▶ asks (FIFO) ─▶ Find ─ the store ─▶ Found ─▶ one commit: entry `purge`, rows deleted, `sweep.SEQ` in meta
//!                                  ▲ one at a time                  └ durable ─▶ Sweep ─ files ─▶ Swept ─▶ next commit: `sweep.SEQ` goes
//! ```
//! Ended jobs are not in memory. One search at a time, and it reads the store when everything decided before it is there: so no job is found
//! twice, and nothing in between is kept from being served. What a search finds is looked at again (`known`) when it is decided about.
//!
//! A `sweep.SEQ` key names the jobs that entry SEQ purged and whose files may still be there: it is written with the entry, so no crash
//! leaves files behind, and files of no other jobs are ever removed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use job::{JobId, Seq, Timestamp};

use crate::action::{Action, Find, Which};
use crate::input::Token;
use crate::manager::Manager;
use crate::no_space::WithoutRoom;

/// So many jobs are purged with one commit: Flux's bound, and short enough for the disk to serve others in between.
pub const PURGE_BATCH_MAX: usize = 100;
/// So many searches may wait.
pub(crate) const ASKS_MAX: usize = 1024;
/// While the files of so many jobs are to be removed, nothing more is searched for.
const UNDER_WAY_MAX: usize = 10_000;
/// When the files of so many jobs could not be removed, nothing more is purged.
pub(crate) const LEFT_MAX: usize = 100_000;
/// After so many seconds that is tried again,
const AGAIN_AFTER: f64 = 30.0;
/// so many commits' worth at a time.
const AGAIN_MAX: usize = 16;
/// What a meta key begins with that names jobs whose files may still be there; then the seq of the purge. The value: ids with spaces.
const META_SWEEP: &str = "sweep.";

/// Limits on what is kept of jobs that ended; `None` = everything.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Keep {
    /// Seconds since the end.
    pub age: Option<f64>,
    /// How many jobs.
    pub num: Option<u64>,
}

/// A search.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) find: Find,
    pub(crate) what_for: WhatFor,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum WhatFor {
    /// The limits of the instance.
    Limits,
    /// A request to purge; `None` = nobody wants to hear of it.
    Purge(Option<Token>),
    /// A request to say what would be purged.
    Show(Token),
}

/// Jobs purged together whose files may still be there.
#[derive(Debug)]
struct Sweep {
    jobs: Vec<JobId>,
    /// When they could not be removed; `None` = it is under way.
    failed: Option<f64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Purges {
    keep: Keep,
    asks: VecDeque<Ask>,
    finding: Option<Ask>,
    sweeps: BTreeMap<Seq, Sweep>,
    /// Jobs whose rows cannot be removed.
    pub(crate) unreadable: BTreeSet<JobId>,
    /// Jobs of sweeps that are under way.
    under_way: usize,
    /// Jobs of sweeps that failed.
    pub(crate) left: usize,
    /// What the next commit writes about sweeps.
    pub(crate) meta: Vec<(String, String)>,
}

fn key(batch: Seq) -> String {
    format!("{META_SWEEP}{batch}")
}

fn text(jobs: &[JobId]) -> String {
    let ids: Vec<String> = jobs.iter().map(|id| id.0.to_string()).collect();
    ids.join(" ")
}

impl Purges {
    /// What an earlier life left to be removed.
    pub(crate) fn restored<'a>(meta: impl Iterator<Item = (&'a String, &'a String)>) -> Purges {
        let mut purges = Purges::default();
        for (name, value) in meta {
            let batch = name
                .strip_prefix(META_SWEEP)
                .and_then(|seq| seq.parse().ok());
            if let Some(batch) = batch {
                let ids = value.split(' ').filter_map(|id| id.parse().ok());
                let jobs: Vec<JobId> = ids.map(JobId).collect();
                purges.left += jobs.len();
                let failed = Some(f64::NEG_INFINITY);
                purges.sweeps.insert(Seq(batch), Sweep { jobs, failed });
            }
        }
        purges
    }

    /// How many jobs' files may still be there.
    pub(crate) fn unswept(&self) -> usize {
        self.under_way + self.left
    }

    fn limits_are_asked(&self) -> bool {
        let mut asks = self.asks.iter().chain(&self.finding);
        asks.any(|ask| matches!(ask.what_for, WhatFor::Limits))
    }
}

impl Manager {
    /// Sets what is kept of jobs that ended. Looked after at every [`crate::Input::Tick`].
    pub fn keep(&mut self, keep: Keep) {
        self.purges.keep = keep;
    }

    /// Makes a job known that was set aside, so that it can be purged by its id. Before [`crate::Input::Start`].
    pub fn restore_set_aside(&mut self, id: JobId) {
        self.known.add_stray(id);
    }

    /// Tells which jobs' rows cannot be read, and so not be removed: a purge that names one is refused.
    pub fn unreadable(&mut self, jobs: BTreeSet<JobId>) {
        self.purges.unreadable = jobs;
    }

    /// A search; the caller has seen that there is room for it.
    pub(crate) fn ask(&mut self, ask: Ask) {
        self.purges.asks.push_back(ask);
    }

    /// Whether more searches may wait.
    pub(crate) fn may_ask(&self) -> bool {
        self.purges.asks.len() < ASKS_MAX
    }

    /// Lets the next search go. It reads what is on the disk; when that is full, what is there already.
    pub(crate) fn search(&mut self) {
        let purges = &mut self.purges;
        if purges.finding.is_some() || purges.under_way > UNDER_WAY_MAX {
            return;
        }
        if let Some(ask) = purges.asks.pop_front() {
            let find = Action::Find(ask.find);
            purges.finding = Some(ask);
            self.turn.effects.push((find, WithoutRoom::Said));
        }
    }

    /// The search that was asked for and is over now.
    pub(crate) fn searched(&mut self) -> Option<Ask> {
        self.purges.finding.take()
    }

    /// Time passed: looks after the limits, and after files that could not be removed.
    pub(crate) fn look_after_purges(&mut self) {
        let keep = self.purges.keep;
        let ended = self.known.len().saturating_sub(self.jobs.len()) as u64;
        let due = ended > 0 && (keep.age.is_some() || keep.num.is_some_and(|num| ended > num));
        if due && self.purges.left < LEFT_MAX && !self.purges.limits_are_asked() && self.may_ask() {
            self.ask_for_limits();
        }
        let now = self.now.0;
        let known = &self.known;
        let purges = &mut self.purges;
        let again = purges.sweeps.iter_mut().filter(|(_, sweep)| {
            sweep
                .failed
                .is_some_and(|failed| now - failed >= AGAIN_AFTER)
        });
        for (batch, sweep) in again.take(AGAIN_MAX) {
            purges.left -= sweep.jobs.len();
            // What has a row is no purged job's: it can only be here if the store was put together from two.
            sweep.jobs.retain(|id| !known.contains(*id));
            purges.under_way += sweep.jobs.len();
            sweep.failed = None;
            let (batch, jobs) = (*batch, sweep.jobs.clone());
            let action = Action::Sweep { batch, jobs };
            self.turn.effects.push((action, WithoutRoom::Said));
        }
    }

    /// Searches for what the limits do not keep.
    pub(crate) fn ask_for_limits(&mut self) {
        let keep = self.purges.keep;
        let which = Which::Beyond {
            before: keep.age.map(|age| Timestamp(self.now.0 - age)),
            keep: keep.num,
        };
        let find = Find {
            which,
            limit: PURGE_BATCH_MAX,
            count: false,
        };
        self.ask(Ask {
            find,
            what_for: WhatFor::Limits,
        });
    }

    /// Notes that the files of these jobs are to go once what this turn posts is durable.
    pub(crate) fn sweep(&mut self, batch: Seq, jobs: Vec<JobId>) {
        self.turn.meta.push((key(batch), text(&jobs)));
        self.purges.under_way += jobs.len();
        let sweep = Sweep {
            jobs: jobs.clone(),
            failed: None,
        };
        self.purges.sweeps.insert(batch, sweep);
        self.effect(Action::Sweep { batch, jobs });
    }

    /// The files of a batch are gone, but for those of the jobs in `left`. The note of it goes to the disk with the next commit.
    pub(crate) fn swept(&mut self, batch: Seq, left: Vec<JobId>) {
        let purges = &mut self.purges;
        let Some(sweep) = purges.sweeps.get_mut(&batch) else {
            return;
        };
        if sweep.failed.is_none() {
            purges.under_way -= sweep.jobs.len();
        } else {
            purges.left -= sweep.jobs.len();
        }
        purges.meta.push((key(batch), text(&left)));
        if left.is_empty() {
            purges.sweeps.remove(&batch);
        } else {
            purges.left += left.len();
            (sweep.jobs, sweep.failed) = (left, Some(self.now.0));
        }
    }
}
