//! The newest changes: what a query that nobody held meanwhile is answered from.
//!
//! Bounded: what falls out raises the floor, and an index below the floor is answered at once. An index that lies within a stretch of
//! entries that were told as one (one fold, or several between two tellings) is answered at once, too: which of them it had seen is not
//! known.

use std::{collections::VecDeque, sync::Arc};

use info::{Changes, What};
use job::JobId;

/// A change of a job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logged {
    /// The job.
    pub(crate) id: JobId,
    /// Its place in the order of modification before; 0: none.
    pub(crate) before: u64,
    /// Its owner.
    pub(crate) userid: u32,
    /// What changed.
    pub(crate) what: What,
}

#[derive(Debug)]
struct Stretch {
    from: u64,
    to: u64,
    jobs: usize,
    nodes: usize,
}

/// The log.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    max: usize,
    floor: Option<u64>,
    stretches: VecDeque<Stretch>,
    jobs: VecDeque<Logged>,
    nodes: VecDeque<Arc<str>>,
}

impl ChangeLog {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            floor: None,
            stretches: VecDeque::new(),
            jobs: VecDeque::new(),
            nodes: VecDeque::new(),
        }
    }

    /// Changes are told from here on.
    pub(crate) fn begin(&mut self, seq: u64) {
        self.floor.get_or_insert(seq);
    }

    /// Forgets everything before this.
    pub(crate) fn reset(&mut self, seq: u64) {
        *self = Self::new(self.max);
        self.floor = Some(seq);
    }

    /// Takes changes in.
    pub(crate) fn push(&mut self, changes: &Changes) {
        self.begin(changes.from_seq);
        self.stretches.push_back(Stretch {
            from: changes.from_seq,
            to: changes.to_seq,
            jobs: changes.jobs.len(),
            nodes: changes.nodes.len(),
        });
        self.jobs.extend(changes.jobs.iter().map(|change| Logged {
            id: change.id,
            before: change.before.map_or(0, info::ModifyKey::seq),
            userid: change.userid,
            what: change.what,
        }));
        let names = changes.nodes.iter().map(|(name, _)| name.clone());
        self.nodes.extend(names);
        while self.jobs.len() + self.nodes.len() > self.max
            && let Some(oldest) = self.stretches.pop_front()
        {
            self.jobs.drain(..oldest.jobs.min(self.jobs.len()));
            self.nodes.drain(..oldest.nodes.min(self.nodes.len()));
            self.floor = Some(oldest.to);
        }
    }

    /// What changed after `seq`, oldest first; `None` if that is not known.
    pub(crate) fn since(
        &self,
        seq: u64,
    ) -> Option<(
        impl Iterator<Item = &Logged> + '_,
        impl Iterator<Item = &Arc<str>> + '_,
    )> {
        if self.floor.is_none_or(|floor| seq < floor) {
            return None;
        }
        let first = self.stretches.partition_point(|stretch| stretch.to <= seq);
        let later = self.stretches.range(first..);
        if later.clone().next().is_some_and(|next| next.from < seq) {
            return None;
        }
        let (jobs, nodes) = later.fold((0, 0), |(jobs, nodes), stretch| {
            (jobs + stretch.jobs, nodes + stretch.nodes)
        });
        let jobs = self.jobs.len().saturating_sub(jobs);
        let nodes = self.nodes.len().saturating_sub(nodes);
        Some((self.jobs.range(jobs..), self.nodes.range(nodes..)))
    }

    /// Changes held.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len() + self.nodes.len()
    }
}
