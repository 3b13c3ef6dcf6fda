//! The children of a job that are its dispatched copies: by id, with their statuses, counted.
//!
//! Kept by the parent's id, whether or not the parent itself is in the list any more.

use std::collections::{BTreeMap, HashMap};

use job::JobId;

use crate::{jobs::IdBuild, record::Status, slots::Slot};

/// One child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Where its record is.
    pub slot: Slot,
    /// Its status.
    pub status: Status,
}

/// All children of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Children {
    by_id: BTreeMap<JobId, Child>,
    counts: [u32; 3],
    changed_seq: u64,
}

impl Children {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (JobId, Child)> + '_ {
        self.by_id.iter().map(|(id, child)| (*id, *child))
    }

    /// How many have this status.
    #[must_use]
    pub fn count(&self, status: Status) -> u32 {
        self.counts.get(status as usize).copied().unwrap_or(0)
    }

    /// The newest entry that brought or took one, changed the status of one, or stopped one.
    #[must_use]
    pub fn changed_seq(&self) -> u64 {
        self.changed_seq
    }

    fn bump(&mut self, status: Status, up: bool) {
        if let Some(count) = self.counts.get_mut(status as usize) {
            *count = if up {
                count.saturating_add(1)
            } else {
                count.saturating_sub(1)
            };
        }
    }
}

/// The children of all jobs that have any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Families {
    by_parent: HashMap<JobId, Children, IdBuild>,
}

impl Families {
    pub(crate) fn get(&self, parent: JobId) -> Option<&Children> {
        self.by_parent.get(&parent)
    }

    /// A child came or changed, with entry `seq`.
    pub(crate) fn put(&mut self, parent: JobId, id: JobId, child: Child, seq: u64) {
        let children = self.by_parent.entry(parent).or_default();
        children.changed_seq = children.changed_seq.max(seq);
        if let Some(old) = children.by_id.insert(id, child) {
            children.bump(old.status, false);
        }
        children.bump(child.status, true);
    }

    /// A child is gone, with entry `seq`.
    pub(crate) fn take(&mut self, parent: JobId, id: JobId, seq: u64) {
        let Some(children) = self.by_parent.get_mut(&parent) else {
            return;
        };
        if let Some(old) = children.by_id.remove(&id) {
            children.bump(old.status, false);
            children.changed_seq = children.changed_seq.max(seq);
        }
    }

    /// Forgets that a job without children had some.
    pub(crate) fn forget_parent(&mut self, parent: JobId) {
        if self.by_parent.get(&parent).is_some_and(Children::is_empty) {
            self.by_parent.remove(&parent);
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // A B-tree's nodes are about three quarters full.
        let child = size_of::<(JobId, Child)>() * 4 / 3;
        let all: usize = self.by_parent.values().map(Children::len).sum();
        self.by_parent.capacity() * (size_of::<(JobId, Children)>() + 1) + all * child
    }
}
