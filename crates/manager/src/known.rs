//! Every job there is, active or not: by id, and by user in the order of submission.
//!
//! Sixteen bytes a job, nothing else is held of those that ended. Ids only grow, so both are sorted queues that are pushed to.

use std::collections::{HashMap, VecDeque};

use job::JobId;

/// The ids.
#[derive(Debug, Default)]
pub(crate) struct Known {
    all: VecDeque<JobId>,
    by_user: HashMap<u32, VecDeque<JobId>>,
}

impl Known {
    /// A job of this user.
    pub(crate) fn add(&mut self, id: JobId, userid: u32) {
        push(&mut self.all, id);
        push(self.by_user.entry(userid).or_default(), id);
    }

    /// The same before [`Known::sort`], in any order.
    pub(crate) fn restore(&mut self, id: JobId, userid: u32) {
        self.all.push_back(id);
        self.by_user.entry(userid).or_default().push_back(id);
    }

    /// A job whose user nobody knows; likewise.
    pub(crate) fn add_stray(&mut self, id: JobId) {
        self.all.push_back(id);
    }

    /// Puts in order what was added in any order, and each once.
    pub(crate) fn sort(&mut self) {
        for ids in self.by_user.values_mut().chain([&mut self.all]) {
            let mut sorted = Vec::from(std::mem::take(ids));
            sorted.sort_unstable();
            sorted.dedup();
            *ids = sorted.into();
        }
    }

    /// These jobs are forgotten.
    pub(crate) fn remove(&mut self, jobs: &[JobId]) {
        let mut jobs = jobs.to_vec();
        jobs.sort_unstable();
        jobs.dedup();
        for ids in self.by_user.values_mut().chain([&mut self.all]) {
            remove_all(ids, &jobs);
        }
        self.by_user.retain(|_, ids| !ids.is_empty());
    }

    /// Whether there was such a job.
    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.all.binary_search(&id).is_ok()
    }

    /// Whose job it is, if there was such a job.
    pub(crate) fn user_of(&self, id: JobId) -> Option<u32> {
        let mut users = self.by_user.iter();
        let found = users.find(|(_, ids)| ids.binary_search(&id).is_ok());
        found.map(|(userid, _)| *userid)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The jobs of a user, oldest first.
    pub(crate) fn of_user(&self, userid: u32) -> Option<&VecDeque<JobId>> {
        self.by_user.get(&userid)
    }
}

/// Behind the others, but before those of damaged rows whose ids were never given.
fn push(ids: &mut VecDeque<JobId>, id: JobId) {
    let mut at = ids.len();
    while at > 0 && ids.get(at - 1).is_some_and(|before| *before > id) {
        at -= 1;
    }
    ids.insert(at, id);
}

/// Takes sorted ids out of sorted ids: run by run, the last one first, so that each moves the shorter end. Old jobs, which are purged
/// together, cost next to nothing.
fn remove_all(ids: &mut VecDeque<JobId>, jobs: &[JobId]) {
    let mut places = jobs
        .iter()
        .rev()
        .filter_map(|id| ids.binary_search(id).ok())
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    while let Some(last) = places.next() {
        let mut first = last;
        while let Some(place) = places.next_if(|place| place + 1 == first) {
            first = place;
        }
        ids.drain(first..=last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_a_job_is_known_though_a_damaged_row_has_the_largest_id() {
        let mut known = Known::default();
        known.add(JobId(u64::MAX), 1);
        known.add_stray(JobId(u64::MAX - 1));
        known.sort();
        for id in 1..5 {
            known.add(JobId(id), 1);
        }
        assert!((1..5).all(|id| known.contains(JobId(id))));
        assert!(known.contains(JobId(u64::MAX)));
        known.remove(&[JobId(2), JobId(u64::MAX)]);
        assert_eq!(known.of_user(1).unwrap(), &[JobId(1), JobId(3), JobId(4)]);
    }

    #[test]
    fn restored_in_any_order_and_twice_is_sorted_once() {
        let mut known = Known::default();
        for (id, userid) in [(5, 1), (2, 1), (9, 2), (2, 1)] {
            known.restore(JobId(id), userid);
        }
        known.sort();
        assert_eq!(known.of_user(1).unwrap(), &[JobId(2), JobId(5)]);
        assert!(known.of_user(3).is_none());
        assert_eq!(known.len(), 3);
        assert!(known.contains(JobId(9)) && !known.contains(JobId(3)));
    }

    #[test]
    fn forgotten_jobs_are_gone_and_no_others() {
        let mut known = Known::default();
        for id in 0..100 {
            known.add(JobId(id), u32::from(id % 3 == 0));
        }
        let forgotten = [0, 1, 2, 5, 50, 51, 99, 98, 7, 7, 1000].map(JobId);
        known.remove(&forgotten);
        let left: Vec<JobId> = (0..100)
            .map(JobId)
            .filter(|id| !forgotten.contains(id))
            .collect();
        assert_eq!(known.all, left);
        let (mine, others): (Vec<JobId>, Vec<JobId>) = left.iter().partition(|id| id.0 % 3 == 0);
        assert_eq!(known.of_user(1).unwrap(), &mine);
        assert_eq!(known.of_user(0).unwrap(), &others);
        known.remove(&mine);
        assert!(known.of_user(1).is_none());
    }
}
