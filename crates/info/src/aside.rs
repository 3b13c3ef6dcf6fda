//! Jobs that are set aside: one of their entries cannot be folded, or the job-manager says that it cannot read them.
//!
//! Such a job has no row, and costs no other job anything. It stays aside until it is purged or the list is built anew. Never more
//! than there are jobs.

use std::{collections::BTreeMap, fmt};

use job::{Invalid, JobId};

/// Characters kept of what a parser said.
const TEXT_CHARS_MAX: usize = 200;

/// Why a job is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The job-manager named it.
    Told,
    /// An entry cannot be read.
    Unreadable {
        /// Which of its entries.
        eventlog_seq: u32,
        /// What is wrong with it.
        text: Box<str>,
    },
    /// An entry does not fit the job.
    Unfit {
        /// Which of its entries.
        eventlog_seq: u32,
        /// How it does not fit.
        invalid: Invalid,
    },
    /// The jobspec is none.
    Jobspec,
    /// The R that goes with an entry is none.
    R {
        /// Which of its entries.
        eventlog_seq: u32,
    },
    /// The job does not begin with `submit`.
    NoSubmit {
        /// The entry that came first.
        eventlog_seq: u32,
    },
    /// Entries are missing.
    Gap {
        /// The entry that should come.
        expected: u32,
        /// The one that came.
        met: u32,
    },
}

impl Why {
    pub(crate) fn unreadable(eventlog_seq: u32, error: &dyn fmt::Display) -> Self {
        let text: String = error.to_string().chars().take(TEXT_CHARS_MAX).collect();
        Why::Unreadable {
            eventlog_seq,
            text: text.into(),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Told => out.write_str("the job-manager cannot read it"),
            Why::Unreadable { eventlog_seq, text } => {
                write!(out, "entry {eventlog_seq} cannot be read: {text}")
            }
            Why::Unfit {
                eventlog_seq,
                invalid,
            } => write!(out, "entry {eventlog_seq}: {invalid}"),
            Why::Jobspec => out.write_str("its jobspec is not a JSON object"),
            Why::R { eventlog_seq } => {
                write!(out, "entry {eventlog_seq} carries an R that cannot be read")
            }
            Why::NoSubmit { eventlog_seq } => {
                write!(
                    out,
                    "entry {eventlog_seq} is the first of it, and no submit"
                )
            }
            Why::Gap { expected, met } => {
                write!(out, "entry {met} comes where entry {expected} should")
            }
        }
    }
}

/// All jobs that are set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetAside {
    by_id: BTreeMap<JobId, Why>,
}

impl SetAside {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none, as there should be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Why a job is set aside, if it is.
    #[must_use]
    pub fn why(&self, id: JobId) -> Option<&Why> {
        self.by_id.get(&id)
    }

    /// Whether a job is set aside.
    #[must_use]
    pub fn contains(&self, id: JobId) -> bool {
        !self.by_id.is_empty() && self.by_id.contains_key(&id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, &Why)> {
        self.by_id.iter().map(|(id, why)| (*id, why))
    }

    /// Whether it is new. The first reason stays.
    pub(crate) fn add(&mut self, id: JobId, why: Why) -> bool {
        match self.by_id.entry(id) {
            std::collections::btree_map::Entry::Occupied(_) => false,
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(why);
                true
            }
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) -> bool {
        !self.by_id.is_empty() && self.by_id.remove(&id).is_some()
    }
}
