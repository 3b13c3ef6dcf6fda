//! The table of jobs: a slab of records, three orders, the indexes, the counts.
//!
//! ```text
//!  id ──► slot ──► record          by_id, slab (blocks that never move)
//!  pending, running, inactive      Order: keys carry the slot
//!  user queue name state …         Index: sets of slots
//! ```
//! Changes come in two steps. `submit`, `apply`, `purge` change records and note which were touched; `settle` then
//! brings orders, indexes of states and counts up to date in one pass. Queries run only on a settled table.
//! A table for replay notes nothing and is settled once, whole, by `settle_all`.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use job::{Event, Job, JobId, JobResult, State};
use roaring::RoaringBitmap;

use crate::{
    aside::{SetAside, Why},
    counts::Counts,
    derive,
    index::Index,
    order::Order,
    place::{Group, PendingKey, Place, SLOTS_MAX, TimedKey},
    record::{Record, Spec},
    slots::Slot,
    specs::Specs,
};

/// Records in one block of the slab.
const BLOCK_RECORDS: usize = 256;

/// How maps by job id hash.
pub(crate) type IdBuild = BuildHasherDefault<IdHasher>;

/// Mixes the bits of a job id, which come from this instance's own generator.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        let mixed = (id ^ (id >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }
}

/// Why an event was not taken whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// No such job.
    Unknown,
    /// The event does not fit the job.
    Invalid(job::Invalid),
    /// It was applied, but the R that came with it is none.
    BadR,
}

/// What the orders, the indexes and the counts hold of a job.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    place: Place,
    state: State,
    result: Option<JobResult>,
    queue: Option<Arc<str>>,
}

impl Shown {
    fn of(record: &Record, slot: Slot) -> Self {
        let job = record.job();
        Self {
            place: record.place(slot),
            state: job.state,
            result: job.result(),
            queue: record.spec.queue.clone(),
        }
    }
}

/// A job changed in this batch, and what is shown of it; `None` for a new one.
#[derive(Debug, Clone)]
struct Touched {
    slot: Slot,
    id: JobId,
    shown: Option<Shown>,
}

/// Keys to take out of and put into one order.
#[derive(Debug, Clone)]
struct Moves<K> {
    gone: Vec<K>,
    new: Vec<K>,
}

impl<K> Default for Moves<K> {
    fn default() -> Self {
        Self {
            gone: Vec::new(),
            new: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct AllMoves {
    pending: Moves<PendingKey>,
    running: Moves<TimedKey>,
    inactive: Moves<TimedKey>,
}

impl AllMoves {
    fn gone(&mut self, place: Place) {
        match place {
            Place::Nowhere => {}
            Place::Pending(key) => self.pending.gone.push(key),
            Place::Running(key) => self.running.gone.push(key),
            Place::Inactive(key) => self.inactive.gone.push(key),
        }
    }

    fn put(&mut self, place: Place) {
        match place {
            Place::Nowhere => {}
            Place::Pending(key) => self.pending.new.push(key),
            Place::Running(key) => self.running.new.push(key),
            Place::Inactive(key) => self.inactive.new.push(key),
        }
    }
}

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Settled {
    /// Keys taken out or put in.
    pub moves: usize,
    /// Jobs created, changed or removed.
    pub changed: Vec<JobId>,
}

/// All jobs, ordered, indexed and counted.
#[derive(Debug, Default)]
pub struct Jobs {
    slab: Vec<Vec<Option<Record>>>,
    free: Vec<Slot>,
    by_id: HashMap<JobId, Slot, IdBuild>,
    pending: Order<PendingKey>,
    running: Order<TimedKey>,
    inactive: Order<TimedKey>,
    index: Index,
    counts: Counts,
    specs: Specs,
    touched: Vec<Touched>,
    removed: Vec<JobId>,
    moves: AllMoves,
    replay: bool,
    aside: SetAside,
    newest: u64,
}

impl Jobs {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty table that will be settled once, by `settle_all`.
    #[must_use]
    pub(crate) fn for_replay() -> Self {
        Self {
            replay: true,
            ..Self::default()
        }
    }

    /// How many jobs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// A job by its id.
    #[must_use]
    pub fn get(&self, id: JobId) -> Option<&Record> {
        self.record(*self.by_id.get(&id)?)
    }

    /// A job by its slot.
    #[must_use]
    pub fn record(&self, slot: Slot) -> Option<&Record> {
        let at = slot as usize;
        self.slab
            .get(at / BLOCK_RECORDS)?
            .get(at % BLOCK_RECORDS)?
            .as_ref()
    }

    fn record_mut(&mut self, slot: Slot) -> Option<&mut Record> {
        let at = slot as usize;
        self.slab
            .get_mut(at / BLOCK_RECORDS)?
            .get_mut(at % BLOCK_RECORDS)?
            .as_mut()
    }

    /// Pending jobs: priority descending, id ascending.
    #[must_use]
    pub fn pending(&self) -> &Order<PendingKey> {
        &self.pending
    }

    /// Running jobs: t_run descending, id descending.
    #[must_use]
    pub fn running(&self) -> &Order<TimedKey> {
        &self.running
    }

    /// Inactive jobs: t_inactive descending, id descending.
    #[must_use]
    pub fn inactive(&self) -> &Order<TimedKey> {
        &self.inactive
    }

    /// How many jobs a group has.
    #[must_use]
    pub fn group_len(&self, group: Group) -> usize {
        match group {
            Group::Pending => self.pending.len(),
            Group::Running => self.running.len(),
            Group::Inactive => self.inactive.len(),
        }
    }

    /// The group of a job, and how many of that group are before it.
    #[must_use]
    pub fn rank(&self, id: JobId) -> Option<(Group, usize)> {
        let &slot = self.by_id.get(&id)?;
        Some(match self.record(slot)?.place(slot) {
            Place::Nowhere => return None,
            Place::Pending(key) => (Group::Pending, self.pending.rank(&key)?),
            Place::Running(key) => (Group::Running, self.running.rank(&key)?),
            Place::Inactive(key) => (Group::Inactive, self.inactive.rank(&key)?),
        })
    }

    /// The secondary indexes.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Jobs that have no row because they cannot be folded.
    #[must_use]
    pub fn set_aside(&self) -> &SetAside {
        &self.aside
    }

    /// The highest id that was ever heard of, purged jobs included.
    #[must_use]
    pub fn newest(&self) -> JobId {
        JobId(self.newest)
    }

    /// Every slot that has a job in some group.
    #[must_use]
    pub(crate) fn all(&self) -> RoaringBitmap {
        let mut sum = RoaringBitmap::new();
        for state in State::ALL {
            if let Some(slots) = self.index.state(state).filter(|_| state != State::New) {
                slots.add_to(&mut sum);
            }
        }
        sum
    }

    /// Bytes held, about; allocator overhead left out.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let records =
            self.slab.iter().map(Vec::capacity).sum::<usize>() * size_of::<Option<Record>>();
        records
            + self.free.capacity() * size_of::<Slot>()
            + self.by_id.capacity() * 8 / 7 * (size_of::<(JobId, Slot)>() + 1)
            + self.pending.heap_bytes()
            + self.running.heap_bytes()
            + self.inactive.heap_bytes()
            + self.index.heap_bytes()
            + self.specs.heap_bytes()
    }

    // ---- changes -------------------------------------------------------------------------------------------------

    /// The last entry seen of a job's eventlog; `None` when there is no such job.
    pub(crate) fn seen(&self, id: JobId) -> Option<u32> {
        self.get(id).map(|record| record.seen)
    }

    /// Creates a job from its first event.
    ///
    /// # Errors
    /// [`job::Invalid`]: the event makes no job.
    pub(crate) fn submit(
        &mut self,
        id: JobId,
        event: &Event,
        jobspec: Option<&str>,
        r: Option<&str>,
        eventlog_seq: u32,
    ) -> Result<(), job::Invalid> {
        let job = Job::new(id, event)?;
        if self.by_id.len() >= SLOTS_MAX as usize {
            return Ok(());
        }
        self.newest = self.newest.max(id.0);
        let spec = self.specs.of_jobspec(jobspec, &self.index);
        let slot = self.free.pop().unwrap_or_else(|| {
            if self
                .slab
                .last()
                .is_none_or(|block| block.len() == BLOCK_RECORDS)
            {
                self.slab.push(Vec::with_capacity(BLOCK_RECORDS));
            }
            let before = self.slab.len().saturating_sub(1) * BLOCK_RECORDS;
            let block = self.slab.last_mut();
            let at = block.map_or(0, |block| {
                block.push(None);
                block.len() - 1
            });
            Slot::try_from(before + at).unwrap_or(Slot::MAX)
        });
        self.index.add_user(job.userid, slot);
        self.index.add_name(spec.name.as_ref(), slot);
        self.index.add_queue(spec.queue.as_ref(), slot);
        let mut record = Record::new(job, spec, eventlog_seq.max(1));
        if !self.replay {
            record.touched = true;
            self.touched.push(Touched {
                slot,
                id,
                shown: None,
            });
        }
        let at = slot as usize;
        if let Some(place) = self
            .slab
            .get_mut(at / BLOCK_RECORDS)
            .and_then(|block| block.get_mut(at % BLOCK_RECORDS))
        {
            *place = Some(record);
        }
        self.by_id.insert(id, slot);
        let _noted = self.allocate(slot, r);
        Ok(())
    }

    /// Applies an event to its job.
    pub(crate) fn apply(
        &mut self,
        id: JobId,
        event: &Event,
        r: Option<&str>,
        eventlog_seq: u32,
    ) -> Result<(), Skipped> {
        let &slot = self.by_id.get(&id).ok_or(Skipped::Unknown)?;
        self.touch(slot);
        let record = self.record_mut(slot).ok_or(Skipped::Unknown)?;
        record.seen = if eventlog_seq == 0 {
            record.seen.saturating_add(1)
        } else {
            record.seen.max(eventlog_seq)
        };
        let _change = record.apply(event).map_err(Skipped::Invalid)?;
        if let Some(spec) = record.updated_spec(event) {
            self.respec(slot, spec);
        }
        if matches!(event.kind, job::EventKind::Alloc { .. }) && !self.allocate(slot, r) {
            return Err(Skipped::BadR);
        }
        Ok(())
    }

    /// Takes a job out as if it had never been. Whether it was there.
    pub(crate) fn forget(&mut self, id: JobId) -> bool {
        self.take(id).is_some()
    }

    /// Takes a purged job out.
    pub(crate) fn purge(&mut self, id: JobId) {
        self.newest = self.newest.max(id.0);
        self.aside.remove(id);
        let record = self.take(id);
        self.counts.purged(
            record
                .as_ref()
                .and_then(|record| record.spec.queue.as_ref()),
        );
    }

    /// Sets a job aside: it has no row any more.
    pub(crate) fn put_aside(&mut self, id: JobId, why: Why) {
        self.newest = self.newest.max(id.0);
        if self.aside.add(id, why) && self.take(id).is_none() && !self.replay {
            self.removed.push(id);
        }
    }

    fn touch(&mut self, slot: Slot) {
        if self.replay {
            return;
        }
        let Some(record) = self.record_mut(slot) else {
            return;
        };
        if !record.touched {
            record.touched = true;
            let touched = Touched {
                slot,
                id: record.id(),
                shown: Some(Shown::of(record, slot)),
            };
            self.touched.push(touched);
        }
    }

    fn take(&mut self, id: JobId) -> Option<Record> {
        let slot = self.by_id.remove(&id)?;
        let at = slot as usize;
        let record = self
            .slab
            .get_mut(at / BLOCK_RECORDS)?
            .get_mut(at % BLOCK_RECORDS)?
            .take()?;
        if !self.replay {
            let shown = if record.touched {
                // Few are: a job is purged long after it changed.
                let at = self
                    .touched
                    .iter()
                    .position(|touched| touched.slot == slot && touched.id == id);
                at.and_then(|at| self.touched.swap_remove(at).shown)
            } else {
                Some(Shown::of(&record, slot))
            };
            if let Some(shown) = shown {
                self.hide(&shown, slot);
            }
            self.removed.push(id);
        }
        self.index.remove_user(record.job().userid, slot);
        self.index.remove_name(record.spec.name.as_ref(), slot);
        self.index.remove_queue(record.spec.queue.as_ref(), slot);
        if let Some(allocation) = &record.allocation {
            let nodes = derive::nodes(allocation);
            for host in &nodes.hosts {
                self.index.remove_host(host, slot);
            }
            for rank in nodes.ranks {
                self.index.remove_rank(rank, slot);
            }
        }
        self.specs.release(&record.spec, self.by_id.len());
        self.free.push(slot);
        Some(record)
    }

    fn hide(&mut self, shown: &Shown, slot: Slot) {
        self.moves.gone(shown.place);
        self.index.remove_state(shown.state, slot);
        self.index.remove_result(shown.result, slot);
        if shown.state != State::New {
            self.counts
                .remove(shown.queue.as_ref(), shown.state, shown.result);
        }
    }

    fn show(&mut self, shown: &Shown, slot: Slot) {
        self.moves.put(shown.place);
        self.index.add_state(shown.state, slot);
        self.index.add_result(shown.result, slot);
        if shown.state != State::New {
            self.counts
                .add(shown.queue.as_ref(), shown.state, shown.result);
        }
    }

    /// Brings orders, indexes and counts up to date with the records that changed: one pass, however many.
    pub(crate) fn settle(&mut self) -> Settled {
        let touched = std::mem::take(&mut self.touched);
        let mut changed = std::mem::take(&mut self.removed);
        changed.reserve(touched.len());
        for Touched { slot, id, shown } in touched {
            let Some(record) = self.record_mut(slot).filter(|record| record.id() == id) else {
                continue;
            };
            record.touched = false;
            let now = Shown::of(record, slot);
            changed.push(id);
            match shown {
                None => self.show(&now, slot),
                Some(shown) if shown == now => {}
                Some(shown) => {
                    if shown.place == now.place {
                        // Only a state within its group, or the queue: the order stays as it is.
                        self.hide(
                            &Shown {
                                place: Place::Nowhere,
                                ..shown
                            },
                            slot,
                        );
                        self.show(
                            &Shown {
                                place: Place::Nowhere,
                                ..now
                            },
                            slot,
                        );
                    } else {
                        self.hide(&shown, slot);
                        self.show(&now, slot);
                    }
                }
            }
        }
        let AllMoves {
            pending,
            running,
            inactive,
        } = std::mem::take(&mut self.moves);
        let moves = [&pending.gone, &pending.new]
            .iter()
            .map(|keys| keys.len())
            .sum::<usize>()
            + [&running.gone, &running.new, &inactive.gone, &inactive.new]
                .iter()
                .map(|keys| keys.len())
                .sum::<usize>();
        self.pending.change(pending.gone, pending.new);
        self.running.change(running.gone, running.new);
        self.inactive.change(inactive.gone, inactive.new);
        Settled { moves, changed }
    }

    /// Orders, indexes and counts everything at once: the end of a replay.
    pub(crate) fn settle_all(&mut self) {
        let mut moves = AllMoves::default();
        let Self {
            slab,
            index,
            counts,
            ..
        } = self;
        for (at, record) in slab.iter().flatten().enumerate() {
            let Some(record) = record else { continue };
            let Ok(slot) = Slot::try_from(at) else {
                continue;
            };
            let shown = Shown::of(record, slot);
            moves.put(shown.place);
            index.add_state(shown.state, slot);
            index.add_result(shown.result, slot);
            if shown.state != State::New {
                counts.add(shown.queue.as_ref(), shown.state, shown.result);
            }
        }
        self.pending = Order::from_unsorted(moves.pending.new);
        self.running = Order::from_unsorted(moves.running.new);
        self.inactive = Order::from_unsorted(moves.inactive.new);
        self.replay = false;
    }

    // ---- jobspecs and R ----------------------------------------------------------------------

    fn respec(&mut self, slot: Slot, spec: Spec) {
        let new = self.specs.share(spec, &self.index);
        let Some(record) = self.record_mut(slot) else {
            return;
        };
        let old = std::mem::replace(&mut record.spec, new.clone());
        if old.name != new.name {
            self.index.remove_name(old.name.as_ref(), slot);
            self.index.add_name(new.name.as_ref(), slot);
        }
        if old.queue != new.queue {
            self.index.remove_queue(old.queue.as_ref(), slot);
            self.index.add_queue(new.queue.as_ref(), slot);
        }
        self.specs.release(&old, self.by_id.len());
    }

    /// Notes a job's R, and once the job has entered RUN (one cancelled before that never does) indexes its nodes. False if the R
    /// is none.
    fn allocate(&mut self, slot: Slot, r: Option<&str>) -> bool {
        let Some(record) = self.record_mut(slot) else {
            return true;
        };
        let mut read = true;
        if record.allocation.is_none() {
            record.allocation = r.and_then(derive::allocation).map(Box::new);
            read = r.is_none() || record.allocation.is_some();
        }
        let Some(nodes) = record.allocation().map(derive::nodes) else {
            return read;
        };
        for host in &nodes.hosts {
            self.index.add_host(host, slot);
        }
        for rank in nodes.ranks {
            self.index.add_rank(rank, slot);
        }
        read
    }
}
