//! The newest entries, in memory: bounded by count and by bytes, gapless, oldest first.
//!
//! ```text
//!   first                         newest
//!   [ a b c | d | e f g h | i j ]         | = end of a commit
//! ```
//!
//! Each slot keeps what filters look at beside the entry, so that passing over an entry does not touch it. Holds only durable entries; who
//! needs older ones reads the store.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;
use std::sync::Arc;

use job::{Attach, Entry, JobId, Seq, Source};

/// What the ring no longer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the ring starts at {oldest}")]
pub struct Evicted {
    /// The oldest seq it holds, or the next one if it is empty.
    pub oldest: Seq,
}

/// One entry of the ring.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The entry.
    pub entry: Arc<Entry>,
    /// It ends its commit.
    pub ends_commit: bool,
    pub(crate) facts: Facts,
}

/// What a filter looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The job, if it is one's entry.
    pub(crate) job: Option<JobId>,
    pub(crate) userid: u32,
    /// The bit of its name; `None` for a name without one.
    pub(crate) bit: Option<u32>,
}

impl Facts {
    pub(crate) fn of(entry: &Entry) -> Self {
        let job = match entry.source {
            Source::Job(id) => Some(id),
            Source::Resource | Source::System => None,
        };
        Self {
            job,
            userid: entry.userid,
            bit: entry.name.bit(),
        }
    }
}

/// The ring.
#[derive(Debug)]
pub struct Ring {
    slots: VecDeque<Slot>,
    /// The seq of the first slot, or of the next entry if there is none.
    first: u64,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl Ring {
    /// An empty ring; the next entry pushed follows `newest`.
    #[must_use]
    pub fn new(newest: Seq, entries_max: usize, bytes_max: usize) -> Self {
        Self {
            slots: VecDeque::new(),
            first: newest.0.saturating_add(1),
            bytes: 0,
            entries_max: entries_max.max(1),
            bytes_max,
        }
    }

    /// Adds the entries of one commit and lets the oldest go. If they do not follow the newest, the ring starts over with them:
    /// what lies between is in the store.
    pub fn push(&mut self, commit: &[Arc<Entry>]) {
        for (at, entry) in commit.iter().enumerate() {
            if entry.seq.0 != self.newest().0.wrapping_add(1) {
                self.slots.clear();
                self.bytes = 0;
                self.first = entry.seq.0;
            }
            self.bytes += size(entry);
            let facts = Facts::of(entry);
            self.slots.push_back(Slot {
                entry: entry.clone(),
                ends_commit: at + 1 == commit.len(),
                facts,
            });
            while self.slots.len() > self.entries_max
                || (self.bytes > self.bytes_max && self.slots.len() > 1)
            {
                if let Some(gone) = self.slots.pop_front() {
                    self.bytes -= size(&gone.entry);
                    self.first += 1;
                }
            }
        }
    }

    /// The newest seq.
    #[must_use]
    pub fn newest(&self) -> Seq {
        Seq((self.first + self.slots.len() as u64).saturating_sub(1))
    }

    /// The oldest seq it holds, or the next one if it is empty.
    #[must_use]
    pub fn oldest(&self) -> Seq {
        Seq(self.first)
    }

    /// Whether everything after `after` is here.
    #[must_use]
    pub fn holds_after(&self, after: Seq) -> bool {
        after.0.saturating_add(1) >= self.first
    }

    /// Entries with `after < seq <= upto`, oldest first, with no gap.
    /// # Errors
    /// [`Evicted`]: it no longer holds the first of them; read the store up to `oldest`, then come back.
    pub fn read_after(&self, after: Seq, upto: Seq) -> Result<Iter<'_, Slot>, Evicted> {
        if !self.holds_after(after) {
            return Err(Evicted {
                oldest: self.oldest(),
            });
        }
        let index = |seq: u64| {
            usize::try_from(seq.saturating_sub(self.first))
                .unwrap_or(usize::MAX)
                .min(self.slots.len())
        };
        let (start, end) = (
            index(after.0.saturating_add(1)),
            index(upto.0.saturating_add(1)),
        );
        Ok(self.slots.range(start..end.max(start)))
    }

    /// How many entries it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What an entry costs, what travels beside it included. Jobspecs that jobs share are counted for each: the bound errs on the safe side.
fn size(entry: &Entry) -> usize {
    let attached = match &entry.attach {
        Attach::None => 0,
        Attach::Jobspec(bytes) | Attach::R(bytes) => bytes.len(),
    };
    entry.line().len() + attached + size_of::<Entry>() + size_of::<Slot>()
}
