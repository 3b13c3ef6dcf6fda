//! Jobs by state and result, in all and by queue: what `job-list.job-stats` answers.
//!
//! ```text
//!  {"job_states":{"depend":N,"priority":N,"sched":N,"run":N,"cleanup":N,"inactive":N,"total":N},
//!   "successful":N,"failed":N,"canceled":N,"timeout":N,"inactive_purged":N,"queues":[{"name":S, …the same}]}
//! ```
//! Invariants: a job is counted in exactly one state, and in exactly one result if and only if that state is
//! INACTIVE, so the results sum to `inactive` at every moment and nothing is ever negative. A NEW job is not counted.

use std::{collections::BTreeMap, sync::Arc};

use job::{JobResult, State};
use serde::{Serialize, Serializer, ser::SerializeMap};

/// Counts of one set of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    states: [u64; 7],
    results: [u64; 4],
    purged: u64,
}

fn bump(counts: &mut [u64], mask: u32, up: bool) {
    if let Some(count) = counts.get_mut(mask.trailing_zeros() as usize) {
        *count = if up {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }
}

impl Tally {
    fn change(&mut self, state: State, result: Option<JobResult>, up: bool) {
        bump(&mut self.states, state.bit(), up);
        if let Some(result) = result {
            bump(&mut self.results, result.bit(), up);
        }
    }

    /// Jobs in a state.
    #[must_use]
    pub fn state(&self, state: State) -> u64 {
        self.states
            .get(state.bit().trailing_zeros() as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Inactive jobs of a result.
    #[must_use]
    pub fn result(&self, result: JobResult) -> u64 {
        self.results
            .get(result.bit().trailing_zeros() as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Inactive jobs that were purged since the list was built.
    #[must_use]
    pub fn purged(&self) -> u64 {
        self.purged
    }

    /// Jobs in any state but NEW.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.states.iter().skip(1).sum()
    }

    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("job_states", &States(self))?;
        map.serialize_entry("successful", &self.result(JobResult::Completed))?;
        map.serialize_entry("failed", &self.result(JobResult::Failed))?;
        map.serialize_entry("canceled", &self.result(JobResult::Canceled))?;
        map.serialize_entry("timeout", &self.result(JobResult::Timeout))?;
        map.serialize_entry("inactive_purged", &self.purged)
    }
}

struct States<'a>(&'a Tally);

impl Serialize for States<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        for (name, state) in [
            ("depend", State::Depend),
            ("priority", State::Priority),
            ("sched", State::Sched),
            ("run", State::Run),
            ("cleanup", State::Cleanup),
            ("inactive", State::Inactive),
        ] {
            map.serialize_entry(name, &self.0.state(state))?;
        }
        map.serialize_entry("total", &self.0.total())?;
        map.end()
    }
}

struct Queue<'a>(&'a str, &'a Tally);

impl Serialize for Queue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.0)?;
        self.1.entries(&mut map)?;
        map.end()
    }
}

/// Counts of all jobs, and of each queue's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    all: Tally,
    queues: BTreeMap<Arc<str>, Tally>,
}

impl Counts {
    /// Counts of all jobs.
    #[must_use]
    pub fn all(&self) -> &Tally {
        &self.all
    }

    /// Counts of one queue's jobs.
    #[must_use]
    pub fn queue(&self, queue: &str) -> Option<&Tally> {
        self.queues.get(queue)
    }

    pub(crate) fn add(
        &mut self,
        queue: Option<&Arc<str>>,
        state: State,
        result: Option<JobResult>,
    ) {
        self.all.change(state, result, true);
        if let Some(queue) = queue {
            self.queues
                .entry(queue.clone())
                .or_default()
                .change(state, result, true);
        }
    }

    pub(crate) fn remove(
        &mut self,
        queue: Option<&Arc<str>>,
        state: State,
        result: Option<JobResult>,
    ) {
        self.all.change(state, result, false);
        if let Some(tally) = queue.and_then(|queue| self.queues.get_mut(queue)) {
            tally.change(state, result, false);
        }
    }

    pub(crate) fn purged(&mut self, queue: Option<&Arc<str>>) {
        self.all.purged += 1;
        if let Some(tally) = queue.and_then(|queue| self.queues.get_mut(queue)) {
            tally.purged += 1;
        }
    }

    /// Keys and values of the answer, into a map that may carry more.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.all.entries(map)?;
        let queues: Vec<Queue<'_>> = self
            .queues
            .iter()
            .map(|(name, tally)| Queue(name, tally))
            .collect();
        map.serialize_entry("queues", &queues)
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}
