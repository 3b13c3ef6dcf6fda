//! Which entries a listener gets, compiled once: names as a bit set, ids as a sorted list, rights as one comparison.
//!
//! Names with a bit (all that RFC 21 knows) cost one shift; others are looked up by text. Two requests that mean the same make equal
//! filters, so that their listeners share batches.

use job::{Entry, EventName, JobId};

use crate::ring::Facts;

/// Whose entries may be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rights {
    /// The instance owner: everything.
    Owner,
    /// A guest: entries of the jobs of this user, and no logs.
    User(u32),
}

/// A compiled filter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Filter {
    bits: u64,
    others: Others,
    /// Sorted, no duplicates; `None` = every job and the logs.
    ids: Option<Vec<JobId>>,
    rights: Rights,
}

/// Names without a bit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Others {
    Except(Vec<Box<str>>),
    Only(Vec<Box<str>>),
}

impl Filter {
    /// Everything that `rights` may see.
    #[must_use]
    pub fn all(rights: Rights) -> Self {
        Self {
            bits: u64::MAX,
            others: Others::Except(Vec::new()),
            ids: None,
            rights,
        }
    }

    /// Of what passed so far, only events of these names.
    #[must_use]
    pub fn allow(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let (bits, mut others) = split(names);
        self.bits &= bits;
        self.others = match self.others {
            Others::Except(not) => {
                others.retain(|name| not.binary_search(name).is_err());
                Others::Only(others)
            }
            Others::Only(only) => {
                others.retain(|name| only.binary_search(name).is_ok());
                Others::Only(others)
            }
        };
        self
    }

    /// Of what passed so far, no events of these names.
    #[must_use]
    pub fn deny(mut self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let (bits, others) = split(names);
        self.bits &= !bits;
        match &mut self.others {
            Others::Except(not) => {
                not.extend(others);
                not.sort_unstable();
                not.dedup();
            }
            Others::Only(only) => only.retain(|name| others.binary_search(name).is_err()),
        }
        self
    }

    /// Of what passed so far, only entries of these jobs.
    #[must_use]
    pub fn of_jobs(mut self, ids: impl IntoIterator<Item = JobId>) -> Self {
        let mut ids: Vec<JobId> = ids
            .into_iter()
            .filter(|id| self.ids().is_none_or(|have| have.binary_search(id).is_ok()))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        self.ids = Some(ids);
        self
    }

    pub(crate) fn passes(&self, facts: Facts, entry: &Entry) -> bool {
        self.passes_source(facts.job, facts.userid) && self.passes_name(facts.bit, &entry.name)
    }

    /// Whether the resource log may pass, so that the listener is told what it adds up to.
    pub(crate) fn hears_of_nodes(&self) -> bool {
        self.sees_logs() && self.passes_name(None, &EventName::from("resource-define"))
    }

    pub(crate) fn passes_entry(&self, entry: &Entry) -> bool {
        self.passes(Facts::of(entry), entry)
    }

    /// Whether entries of this job (`None` = of a log) may pass at all.
    pub(crate) fn passes_source(&self, job: Option<JobId>, userid: u32) -> bool {
        let may = match self.rights {
            Rights::Owner => true,
            Rights::User(user) => job.is_some() && user == userid,
        };
        may && match (&self.ids, job) {
            (None, _) => true,
            (Some(ids), Some(id)) => ids.binary_search(&id).is_ok(),
            (Some(_), None) => false,
        }
    }

    /// Whether the listener is told that this job cannot be read; an owner that cannot be read either is nobody.
    pub(crate) fn hears_of(&self, id: JobId, userid: Option<u32>) -> bool {
        match (self.rights, userid) {
            (Rights::User(_), None) => false,
            (_, userid) => self.passes_source(Some(id), userid.unwrap_or_default()),
        }
    }

    fn passes_name(&self, bit: Option<u32>, name: &EventName) -> bool {
        match bit {
            Some(bit) => self.bits >> bit & 1 == 1,
            None => match &self.others {
                Others::Except(names) => names
                    .binary_search_by(|have| (**have).cmp(name.as_str()))
                    .is_err(),
                Others::Only(names) => names
                    .binary_search_by(|have| (**have).cmp(name.as_str()))
                    .is_ok(),
            },
        }
    }

    /// The jobs it is about, if it names some.
    pub(crate) fn ids(&self) -> Option<&[JobId]> {
        self.ids.as_deref()
    }

    /// Whether entries of the logs may pass.
    pub(crate) fn sees_logs(&self) -> bool {
        self.passes_source(None, 0)
    }
}

/// The names with a bit as a set, and the others sorted.
fn split(names: impl IntoIterator<Item = impl AsRef<str>>) -> (u64, Vec<Box<str>>) {
    let (mut bits, mut others) = (0, Vec::new());
    for name in names {
        match EventName::from(name.as_ref()).bit() {
            Some(bit) => bits |= 1 << bit,
            None => others.push(Box::from(name.as_ref())),
        }
    }
    others.sort_unstable();
    others.dedup();
    (bits, others)
}
