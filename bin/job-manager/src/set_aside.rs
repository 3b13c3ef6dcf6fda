//! Jobs that are in the store and cannot be read or applied: which, and why. Each is named in the log once.
//!
//! Filled at start (`open.rs`) and by the threads that read (`pages.rs`, `lookup.rs`), told to listeners at `caught_up`. A job that is set
//! aside is left out of backlogs and listings, is not run, and can be purged. Clones share the list.

use job::JobId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Jobs held here. A store with more of them is broken as a whole: it is refused at start, and not read any further after it.
pub(crate) const SET_ASIDE_MAX: usize = 65_536;
/// Characters of a reason.
const WHY_MAX: usize = 240;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Aside {
    /// Its owner, if that can be read.
    userid: Option<u32>,
    why: String,
    /// Its row cannot be read, and so not be removed.
    unreadable: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct SetAside(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicUsize,
    /// Grows with each change.
    version: AtomicUsize,
    jobs: RwLock<BTreeMap<JobId, Aside>>,
}

#[allow(
    dead_code,
    reason = "purge, journal and look-ups are on their way to it"
)]
impl SetAside {
    /// Sets a job aside, unless it is already; false if there is no more room for it.
    pub(crate) fn add(&self, id: JobId, userid: Option<u32>, why: &dyn std::fmt::Display) -> bool {
        self.put(id, userid, why, false)
    }

    /// The same, of a job whose row is damaged.
    pub(crate) fn damaged(&self, id: JobId, what: &store::Corrupt) -> bool {
        let unreadable = matches!(what, store::Corrupt::Page { .. });
        self.put(id, None, what, unreadable)
    }

    fn put(
        &self,
        id: JobId,
        userid: Option<u32>,
        why: &dyn std::fmt::Display,
        unreadable: bool,
    ) -> bool {
        let mut jobs = self.0.jobs.write().unwrap_or_else(PoisonError::into_inner);
        if jobs.contains_key(&id) {
            return true;
        }
        let why: String = why.to_string().chars().take(WHY_MAX).collect();
        tracing::error!(job = %id, id = id.0, why, "set aside: this job cannot be used");
        if jobs.len() >= SET_ASIDE_MAX {
            return false;
        }
        let aside = Aside {
            userid,
            why,
            unreadable,
        };
        jobs.insert(id, aside);
        self.0.count.store(jobs.len(), Ordering::Release);
        self.0.version.fetch_add(1, Ordering::Release);
        true
    }

    /// The job is purged.
    pub(crate) fn remove(&self, id: JobId) {
        if self.is_empty() {
            return;
        }
        let mut jobs = self.0.jobs.write().unwrap_or_else(PoisonError::into_inner);
        jobs.remove(&id);
        self.0.count.store(jobs.len(), Ordering::Release);
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// How many there are; costs nothing.
    pub(crate) fn len(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Whether there is none, as there should be; costs nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this job is.
    pub(crate) fn contains(&self, id: JobId) -> bool {
        !self.is_empty() && self.read(|jobs| jobs.contains_key(&id))
    }

    /// Why this job is, if it is.
    pub(crate) fn why(&self, id: JobId) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        self.read(|jobs| jobs.get(&id).map(|aside| aside.why.clone()))
    }

    /// Their ids, ascending: all, or those that are known to be this user's.
    pub(crate) fn ids(&self, only_of: Option<u32>) -> Vec<JobId> {
        if self.is_empty() {
            return Vec::new();
        }
        self.read(|jobs| {
            jobs.iter()
                .filter(|(_, aside)| only_of.is_none() || aside.userid == only_of)
                .map(|(id, _)| *id)
                .collect()
        })
    }

    /// Those whose rows cannot be removed.
    pub(crate) fn unreadable(&self) -> BTreeSet<JobId> {
        self.read(|jobs| {
            jobs.iter()
                .filter(|(_, aside)| aside.unreadable)
                .map(|(id, _)| *id)
                .collect()
        })
    }

    /// Another number after each change; costs nothing.
    pub(crate) fn version(&self) -> usize {
        self.0.version.load(Ordering::Acquire)
    }

    /// All of them, for the journal.
    pub(crate) fn all(&self) -> Arc<[journal::Aside]> {
        self.read(|jobs| {
            jobs.iter()
                .map(|(&id, aside)| journal::Aside {
                    id,
                    userid: aside.userid,
                })
                .collect()
        })
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<JobId, Aside>) -> T) -> T {
        look(&self.0.jobs.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_set_aside_once_and_guests_see_only_their_own() {
        let aside = SetAside::default();
        let shared = aside.clone();
        assert!(aside.is_empty() && aside.ids(None).is_empty());
        assert!(aside.add(JobId(9), None, &"its row is bad"));
        assert!(shared.add(JobId(4), Some(1000), &"its eventlog is empty"));
        assert!(shared.add(JobId(4), Some(7), &"another reason"));
        assert_eq!(aside.ids(None), [JobId(4), JobId(9)]);
        assert_eq!(aside.ids(Some(1000)), [JobId(4)]);
        assert_eq!(aside.ids(Some(0)), []);
        assert_eq!(
            aside.why(JobId(4)).as_deref(),
            Some("its eventlog is empty")
        );
        aside.remove(JobId(4));
        assert!(!shared.contains(JobId(4)) && shared.contains(JobId(9)));
        assert_eq!(shared.len(), 1);
    }
}
