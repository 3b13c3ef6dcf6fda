//! Who waits for a job to appear or to reach a state.
//!
//! A wait names one job and the states it wants (none: the job's mere presence). It is ripe when the job has been in one
//! of those states, or is over: an inactive job can reach nothing more. Ripe waits are taken out, once.

use std::collections::HashMap;

use job::{JobId, StateSet};
use thiserror::Error;

use crate::jobs::Jobs;

/// Most waits held at a time, of all clients together.
pub const WAITS_MAX: usize = 65_536;

/// No room for another wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{WAITS_MAX} requests wait for a job already, try again later")]
pub struct WaitsFull;

#[derive(Debug)]
struct Wait<T> {
    states: StateSet,
    who: T,
}

/// All waits, by job.
#[derive(Debug)]
pub struct Waiters<T> {
    by_job: HashMap<JobId, Vec<Wait<T>>>,
    len: usize,
    taken: u64,
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self {
            by_job: HashMap::new(),
            len: 0,
            taken: 0,
        }
    }
}

/// Whether a wait for `states` of job `id` is over.
#[must_use]
pub fn is_ripe(jobs: &Jobs, id: JobId, states: StateSet) -> bool {
    jobs.get(id).is_some_and(|record| {
        states.is_empty()
            || record.job().state == job::State::Inactive
            || record.has_been_in(states)
    })
}

impl<T> Waiters<T> {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many waits were ever taken in.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes in a wait.
    ///
    /// # Errors
    /// [`WaitsFull`]: [`WAITS_MAX`] are held.
    pub fn add(&mut self, id: JobId, states: StateSet, who: T) -> Result<(), WaitsFull> {
        if self.len >= WAITS_MAX {
            return Err(WaitsFull);
        }
        self.by_job
            .entry(id)
            .or_default()
            .push(Wait { states, who });
        self.len += 1;
        self.taken += 1;
        Ok(())
    }

    /// Takes out the ripe waits for the jobs of `changed`, in the order they came.
    pub fn take_ripe(&mut self, jobs: &Jobs, changed: &[JobId]) -> Vec<(JobId, T)> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut ripe = Vec::new();
        for &id in changed {
            self.take_of(jobs, id, &mut ripe);
        }
        ripe
    }

    /// Takes out all ripe waits: after a list was swapped in whole.
    pub fn take_all_ripe(&mut self, jobs: &Jobs) -> Vec<(JobId, T)> {
        let ids: Vec<JobId> = self.by_job.keys().copied().collect();
        self.take_ripe(jobs, &ids)
    }

    /// Takes out every wait for a job, ripe or not, with the states it is for.
    pub fn take_job(&mut self, id: JobId) -> Vec<(StateSet, T)> {
        let waits = self.by_job.remove(&id).unwrap_or_default();
        self.len -= waits.len().min(self.len);
        waits
            .into_iter()
            .map(|wait| (wait.states, wait.who))
            .collect()
    }

    /// The jobs that are waited for.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.by_job.keys().copied()
    }

    /// Forgets the waits that `gone` picks.
    pub fn forget(&mut self, mut gone: impl FnMut(&T) -> bool) {
        let mut left = 0;
        self.by_job.retain(|_, waits| {
            waits.retain(|wait| !gone(&wait.who));
            left += waits.len();
            !waits.is_empty()
        });
        self.len = left;
    }

    fn take_of(&mut self, jobs: &Jobs, id: JobId, ripe: &mut Vec<(JobId, T)>) {
        let Some(waits) = self.by_job.get_mut(&id) else {
            return;
        };
        let before = ripe.len();
        for wait in std::mem::take(waits) {
            if is_ripe(jobs, id, wait.states) {
                ripe.push((id, wait.who));
            } else {
                waits.push(wait);
            }
        }
        if waits.is_empty() {
            self.by_job.remove(&id);
        }
        self.len -= (ripe.len() - before).min(self.len);
    }
}
