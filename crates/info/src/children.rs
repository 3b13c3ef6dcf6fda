//! The children of a job that are its dispatched copies: by id, with their statuses, counted.
//!
//! Kept by the parent's id, whether or not the parent itself is in the list any more.

use std::collections::{BTreeMap, HashMap};

use job::{JobId, JobResult};

use crate::{jobs::IdBuild, record::Status, slots::Slot};

/// One child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Where its record is.
    pub slot: Slot,
    /// Its status.
    pub status: Status,
    /// How it ended, if it has.
    pub result: Option<JobResult>,
}

/// All children of one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Children {
    by_id: BTreeMap<JobId, Child>,
    counts: [u32; 3],
    results: [u32; 4],
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

    /// How many ended so.
    #[must_use]
    pub fn ended(&self, result: JobResult) -> u32 {
        let at = result.bit().trailing_zeros() as usize;
        self.results.get(at).copied().unwrap_or(0)
    }

    /// The newest entry that brought or took one, changed the status of one, or stopped one.
    #[must_use]
    pub fn changed_seq(&self) -> u64 {
        self.changed_seq
    }

    fn bump(&mut self, child: Child, up: bool) {
        let result = child.result.map(|result| result.bit().trailing_zeros());
        let result = result.and_then(|at| self.results.get_mut(at as usize));
        let status = self.counts.get_mut(child.status as usize);
        for count in status.into_iter().chain(result) {
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
            children.bump(old, false);
        }
        children.bump(child, true);
    }

    /// A child is gone, with entry `seq`.
    pub(crate) fn take(&mut self, parent: JobId, id: JobId, seq: u64) {
        let Some(children) = self.by_parent.get_mut(&parent) else {
            return;
        };
        if let Some(old) = children.by_id.remove(&id) {
            children.bump(old, false);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_counted_by_status_and_by_how_they_ended() {
        let parent = JobId(1);
        let mut families = Families::default();
        let child = |status, result| Child {
            slot: 0,
            status,
            result,
        };
        families.put(parent, JobId(2), child(Status::Running, None), 1);
        families.put(parent, JobId(3), child(Status::Pending, None), 2);
        let failed = Some(JobResult::Failed);
        families.put(parent, JobId(2), child(Status::Dead, failed), 3);
        families.put(
            parent,
            JobId(3),
            child(Status::Dead, Some(JobResult::Completed)),
            4,
        );
        let children = families.get(parent).unwrap();
        assert_eq!(children.count(Status::Dead), 2);
        assert_eq!(
            (
                children.ended(JobResult::Failed),
                children.ended(JobResult::Completed),
                children.ended(JobResult::Canceled)
            ),
            (1, 1, 0)
        );
        families.take(parent, JobId(2), 5);
        let children = families.get(parent).unwrap();
        assert_eq!(
            (
                children.count(Status::Dead),
                children.ended(JobResult::Failed)
            ),
            (1, 0)
        );
    }
}
