//! Every job there is, active or not: by id, and by user in the order of submission.
//!
//! Sixteen bytes a job, nothing else is held of those that ended. Ids only grow, so both are sorted vectors that are pushed to.

use std::collections::HashMap;

use job::JobId;

/// The ids.
#[derive(Debug, Default)]
pub(crate) struct Known {
    all: Vec<JobId>,
    by_user: HashMap<u32, Vec<JobId>>,
}

impl Known {
    /// A job of this user.
    pub(crate) fn add(&mut self, id: JobId, userid: u32) {
        self.all.push(id);
        self.by_user.entry(userid).or_default().push(id);
    }

    /// Puts in order what was added in any order, and each once.
    pub(crate) fn sort(&mut self) {
        for ids in self.by_user.values_mut().chain([&mut self.all]) {
            if !ids.is_sorted() {
                ids.sort_unstable();
            }
            ids.dedup();
        }
    }

    /// Whether there was such a job.
    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.all.binary_search(&id).is_ok()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The jobs of a user, oldest first.
    pub(crate) fn of_user(&self, userid: u32) -> &[JobId] {
        self.by_user.get(&userid).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_in_any_order_and_twice_is_sorted_once() {
        let mut known = Known::default();
        for (id, userid) in [(5, 1), (2, 1), (9, 2), (2, 1)] {
            known.add(JobId(id), userid);
        }
        known.sort();
        assert_eq!(known.of_user(1), [JobId(2), JobId(5)]);
        assert_eq!(known.of_user(3), []);
        assert_eq!(known.len(), 3);
        assert!(known.contains(JobId(9)) && !known.contains(JobId(3)));
    }
}
