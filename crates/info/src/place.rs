//! Where a job stands: its group, and the key that orders it there.
//!
//! ```text
//!  pending   (DEPEND, PRIORITY, SCHED)   priority descending, id ascending        unset priority counts as 0
//!  running   (RUN, CLEANUP)              t_run descending, id descending          no t_run goes last
//!  inactive  (INACTIVE)                  t_inactive descending, id descending
//! ```
//! Keys are made so that the first in the listing is the smallest. Each carries the job's slot, so that a walk over an
//! order needs no look-up by id; ids differ, so the slot never decides.

use job::{JobId, Priority, State, Timestamp};

use crate::slots::Slot;

/// The three groups of a listing, in the order in which a listing shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "described above")]
pub enum Group {
    Pending,
    Running,
    Inactive,
}

impl Group {
    /// All, in listing order.
    pub const ALL: [Group; 3] = [Group::Pending, Group::Running, Group::Inactive];

    /// The group of a state. A job that is NEW is in none: it is not accepted yet.
    #[must_use]
    pub fn of(state: State) -> Option<Self> {
        match state {
            State::New => None,
            State::Depend | State::Priority | State::Sched => Some(Self::Pending),
            State::Run | State::Cleanup => Some(Self::Running),
            State::Inactive => Some(Self::Inactive),
        }
    }

    /// The states of this group, as the mask that travels.
    #[must_use]
    pub fn states(self) -> u32 {
        match self {
            Self::Pending => 14,
            Self::Running => 48,
            Self::Inactive => 64,
        }
    }

    /// The name a person reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Inactive => "inactive",
        }
    }
}

/// Priority descending, id ascending. 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingKey {
    priority_down: u32,
    id: u64,
    slot: Slot,
}

impl PendingKey {
    /// The key of a pending job.
    #[must_use]
    pub fn new(priority: Option<Priority>, id: JobId, slot: Slot) -> Self {
        Self {
            priority_down: !priority.map_or(0, |priority| priority.0),
            id: id.0,
            slot,
        }
    }
}

/// A time descending, id descending. 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimedKey {
    time_down: u64,
    id_down: u64,
    slot: Slot,
}

impl TimedKey {
    /// The key of a running or inactive job; no time counts as the beginning of 1970.
    #[must_use]
    pub fn new(time: Option<Timestamp>, id: JobId, slot: Slot) -> Self {
        Self {
            time_down: !ascending(time.map_or(0.0, |time| time.0)),
            id_down: !id.0,
            slot,
        }
    }
}

/// Bits that ascend as the real numbers do.
fn ascending(time: f64) -> u64 {
    let bits = time.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// What a walk over an order gives.
pub trait ListKey: Copy + Ord {
    /// The job.
    fn id(self) -> JobId;
    /// Its slot.
    fn slot(self) -> Slot;
}

impl ListKey for PendingKey {
    fn id(self) -> JobId {
        JobId(self.id)
    }

    fn slot(self) -> Slot {
        self.slot
    }
}

impl ListKey for TimedKey {
    fn id(self) -> JobId {
        JobId(!self.id_down)
    }

    fn slot(self) -> Slot {
        self.slot
    }
}

/// A job's group with its key there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described above")]
pub enum Place {
    /// In no group: a NEW job.
    Nowhere,
    Pending(PendingKey),
    Running(TimedKey),
    Inactive(TimedKey),
}

impl Place {
    /// The group, if it is in one.
    #[must_use]
    pub fn group(self) -> Option<Group> {
        match self {
            Self::Nowhere => None,
            Self::Pending(_) => Some(Group::Pending),
            Self::Running(_) => Some(Group::Running),
            Self::Inactive(_) => Some(Group::Inactive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_small() {
        assert_eq!(size_of::<PendingKey>(), 16);
        assert_eq!(size_of::<TimedKey>(), 24);
    }

    #[test]
    fn the_smallest_key_is_the_first_of_the_listing() {
        let pending = |priority: u32, id| PendingKey::new(Some(Priority(priority)), JobId(id), 9);
        assert!(pending(20, 7) < pending(16, 3));
        assert!(pending(16, 3) < pending(16, 4));
        assert_eq!(
            PendingKey::new(None, JobId(1), 0),
            pending(0, 1).with_slot(0)
        );
        let timed = |time: f64, id| TimedKey::new(Some(Timestamp(time)), JobId(id), 9);
        assert!(timed(2.5, 1) < timed(2.25, 9));
        assert!(timed(2.5, 9) < timed(2.5, 1));
        assert!(timed(0.5, 1) < TimedKey::new(None, JobId(9), 0));
        assert!(timed(0.0, 1) < timed(-1.0, 1));
        assert_eq!((timed(1.0, 5).id(), timed(1.0, 5).slot()), (JobId(5), 9));
    }

    impl PendingKey {
        fn with_slot(self, slot: Slot) -> Self {
            Self { slot, ..self }
        }
    }
}
