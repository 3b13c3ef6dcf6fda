//! What changed since last asked: which jobs, how, and where they stood in the order of modification before and after.
//!
//! Off, and then without cost, until somebody watches. Bounded: what would be more than [`CHANGES_MAX`] is one word, `reset`.

use std::sync::Arc;

use job::JobId;

use crate::place::ModifyKey;

/// Most changes that are kept for one asking.
pub const CHANGES_MAX: usize = 1 << 16;

/// What of a job changed, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct What(pub u8);

impl What {
    /// Its status (pending, running, dead), or whether it is stopped.
    pub const STATUS: What = What(1);
    /// The status of an allocation, or which there are.
    pub const ALLOCS: What = What(1 << 1);
    /// Anything else that a listing shows of it.
    pub const ROW: What = What(1 << 2);
    /// It is new.
    pub const CREATED: What = What(1 << 3);
    /// It is gone.
    pub const REMOVED: What = What(1 << 4);
    /// A child came, went or has another status.
    pub const CHILDREN: What = What(1 << 5);
    /// An entry that changes nothing but annotations and the number of entries.
    pub const NOTES: What = What(1 << 6);
    /// Set while a record is among those that a settling looks at.
    pub(crate) const TOUCHED: What = What(1 << 7);

    /// Whether all of `other` is in it.
    #[must_use]
    pub fn contains(self, other: What) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in it.
    #[must_use]
    pub fn intersects(self, other: What) -> bool {
        self.0 & other.0 != 0
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: What) -> What {
        What(self.0 | other.0)
    }

    /// Without `other`.
    #[must_use]
    pub fn without(self, other: What) -> What {
        What(self.0 & !other.0)
    }
}

/// One job that changed in one fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobChange {
    /// The job.
    pub id: JobId,
    /// The newest entry that changed it.
    pub seq: u64,
    /// Its owner.
    pub userid: u32,
    /// Its place in the order of modification before; none when it was not listed.
    pub before: Option<ModifyKey>,
    /// Its place now; none when it is gone.
    pub after: Option<ModifyKey>,
    /// What changed.
    pub what: What,
}

/// All that changed since last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Where the list was then.
    pub from_seq: u64,
    /// Where it is now.
    pub to_seq: u64,
    /// Jobs: one change a job a fold, in the order of the folds.
    pub jobs: Vec<JobChange>,
    /// Nodes that came or changed, and at which seq.
    pub nodes: Vec<(Arc<str>, u64)>,
    /// Another list was swapped in, or more changed than is kept: everything may be different.
    pub reset: bool,
}

impl Changes {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.reset && self.jobs.is_empty() && self.nodes.is_empty()
    }
}
