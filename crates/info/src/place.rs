//! Where a job stands: its group, and the key that orders it there.
//!
//! ```text
//!  pending   (DEPEND, PRIORITY, SCHED)   priority descending, id ascending        unset priority counts as 0
//!  running   (RUN, CLEANUP)              t_run descending, id descending          no t_run goes last
//!  inactive  (INACTIVE)                  t_inactive descending, id descending
//! ```
//! Keys are made so that the first in the listing is the smallest. Each carries the job's slot, so that a walk over an
//! order needs no look-up by id; ids differ, so the slot never decides. It also carries a tag of its user, one of 64, by
//! which a walk for one user's jobs skips what is others'.

use job::{JobId, Priority, State, Timestamp};

use crate::{order::Tagged, slots::Slot};

/// Bits of a key that hold the slot; those above hold the tag.
const SLOT_BITS: u32 = 26;
/// Most jobs one table can hold.
pub const SLOTS_MAX: u32 = 1 << SLOT_BITS;

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
    slot_and_tag: u32,
}

impl PendingKey {
    /// The key of a pending job.
    #[must_use]
    pub fn new(priority: Option<Priority>, id: JobId, slot: Slot, user: u32) -> Self {
        Self {
            priority_down: !priority.map_or(0, |priority| priority.0),
            id: id.0,
            slot_and_tag: slot_and_tag(slot, user),
        }
    }
}

/// The tag of a user, as a bit.
#[must_use]
pub fn user_tag(user: u32) -> u64 {
    1 << tag(user)
}

fn tag(user: u32) -> u32 {
    user.wrapping_mul(0x9e37_79b9) >> SLOT_BITS
}

fn slot_and_tag(slot: Slot, user: u32) -> u32 {
    (slot & (SLOTS_MAX - 1)) | tag(user) << SLOT_BITS
}

/// A time descending, id descending. 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimedKey {
    time_down: u64,
    id_down: u64,
    slot_and_tag: u32,
}

impl TimedKey {
    /// The key of a running or inactive job; no time counts as the beginning of 1970.
    #[must_use]
    pub fn new(time: Option<Timestamp>, id: JobId, slot: Slot, user: u32) -> Self {
        Self {
            time_down: !ascending(time.map_or(0.0, |time| time.0)),
            id_down: !id.0,
            slot_and_tag: slot_and_tag(slot, user),
        }
    }
}

/// The newest entry that changed a job's status or stopped it, ascending: what changed last comes last. 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModifyKey {
    seq_high: u32,
    seq_low: u32,
    slot_and_tag: u32,
}

impl ModifyKey {
    /// The key of a job.
    #[must_use]
    pub fn new(seq: u64, slot: Slot, user: u32) -> Self {
        Self {
            slot_and_tag: slot_and_tag(slot, user),
            ..Self::seek(seq)
        }
    }

    /// The least of all keys at `seq`: those before it in the order are of an older entry.
    #[must_use]
    pub fn seek(seq: u64) -> Self {
        Self {
            seq_high: u32::try_from(seq >> 32).unwrap_or(u32::MAX),
            seq_low: u32::try_from(seq & u64::from(u32::MAX)).unwrap_or(u32::MAX),
            slot_and_tag: 0,
        }
    }

    /// The entry.
    #[must_use]
    pub fn seq(self) -> u64 {
        u64::from(self.seq_high) << 32 | u64::from(self.seq_low)
    }

    /// The job's slot.
    #[must_use]
    pub fn slot(self) -> Slot {
        self.slot_and_tag & (SLOTS_MAX - 1)
    }
}

impl Tagged for ModifyKey {
    fn tags(&self) -> u64 {
        1 << (self.slot_and_tag >> SLOT_BITS)
    }
}

/// A job's id, ascending. 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdKey(ModifyKey);

impl IdKey {
    /// The key of a job.
    #[must_use]
    pub fn new(id: JobId, slot: Slot, user: u32) -> Self {
        Self(ModifyKey::new(id.0, slot, user))
    }

    /// The least of all keys of `id`: those before it in the order are of a smaller one.
    #[must_use]
    pub fn seek(id: JobId) -> Self {
        Self(ModifyKey::seek(id.0))
    }

    /// The id.
    #[must_use]
    pub fn id(self) -> JobId {
        JobId(self.0.seq())
    }

    /// The job's slot.
    #[must_use]
    pub fn slot(self) -> Slot {
        self.0.slot()
    }
}

impl Tagged for IdKey {
    fn tags(&self) -> u64 {
        self.0.tags()
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

impl Tagged for PendingKey {
    fn tags(&self) -> u64 {
        1 << (self.slot_and_tag >> SLOT_BITS)
    }
}

impl Tagged for TimedKey {
    fn tags(&self) -> u64 {
        1 << (self.slot_and_tag >> SLOT_BITS)
    }
}

/// What a walk over an order gives.
pub trait ListKey: Tagged {
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
        self.slot_and_tag & (SLOTS_MAX - 1)
    }
}

impl ListKey for TimedKey {
    fn id(self) -> JobId {
        JobId(!self.id_down)
    }

    fn slot(self) -> Slot {
        self.slot_and_tag & (SLOTS_MAX - 1)
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
        assert_eq!(size_of::<ModifyKey>(), 12);
        assert_eq!(size_of::<IdKey>(), 12);
    }

    #[test]
    fn the_smallest_key_is_the_first_of_the_listing() {
        let pending =
            |priority: u32, id| PendingKey::new(Some(Priority(priority)), JobId(id), 9, 1000);
        assert!(pending(20, 7) < pending(16, 3));
        assert!(pending(16, 3) < pending(16, 4));
        assert_eq!(PendingKey::new(None, JobId(1), 9, 1000), pending(0, 1));
        let timed = |time: f64, id| TimedKey::new(Some(Timestamp(time)), JobId(id), 9, 1000);
        assert!(timed(2.5, 1) < timed(2.25, 9));
        assert!(timed(2.5, 9) < timed(2.5, 1));
        assert!(timed(0.5, 1) < TimedKey::new(None, JobId(9), 0, 1000));
        assert!(timed(0.0, 1) < timed(-1.0, 1));
        assert_eq!((timed(1.0, 5).id(), timed(1.0, 5).slot()), (JobId(5), 9));
    }

    #[test]
    fn a_place_in_the_order_of_modification_is_found_by_the_seq_alone() {
        for seq in [1, 7, u64::from(u32::MAX), 1 << 32, (1 << 40) + 5] {
            let key = ModifyKey::new(seq, 9, 1000);
            assert_eq!((key.seq(), key.slot()), (seq, 9));
            assert!(ModifyKey::seek(seq) <= key && key < ModifyKey::seek(seq + 1));
            assert!(ModifyKey::new(seq - 1, SLOTS_MAX - 1, 7) < ModifyKey::seek(seq));
        }
    }

    #[test]
    fn a_key_keeps_its_slot_and_the_tag_of_its_user() {
        let mut tags = 0;
        for user in 0..5000 {
            for slot in [0, 1, SLOTS_MAX - 1] {
                let key = PendingKey::new(None, JobId(1), slot, user);
                assert_eq!((key.slot(), key.tags()), (slot, user_tag(user)));
            }
            tags |= user_tag(user);
        }
        assert_eq!(tags, u64::MAX, "all tags are used");
    }
}
