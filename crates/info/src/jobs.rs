//! The table of jobs: a slab of records, three orders, the indexes, the counts.
//!
//! ```text
//!  id ──► slot ──► record          by_id, slab (blocks that never move)
//!  pending, running, inactive      Order: keys carry the slot
//!  by_modify                       Order: what changed last is last
//!  in_id_order                     Order: the listed jobs by id
//!  user queue name state …         Index: sets of slots
//!  parent ──► children             by id, with their statuses
//!  nodes                           names that are in an R, and what is known of them
//! ```
//! Changes come in two steps. `submit`, `apply`, `purge` change records and note which were touched; `settle` then
//! brings orders, indexes of states and counts up to date in one pass. Queries run only on a settled table.
//! A table for replay notes nothing and is settled once, whole, by `settle_all`.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use job::{Event, Job, JobId, State};
use roaring::RoaringBitmap;

use crate::{
    allocs::{Runs, Stamp},
    aside::{SetAside, Why},
    changes::{JobChange, What},
    children::{Children, Families},
    counts::Counts,
    derive,
    index::Index,
    nodes::Nodes,
    order::Order,
    place::{Group, IdKey, ModifyKey, PendingKey, Place, SLOTS_MAX, TimedKey},
    record::{Record, Spec},
    slots::Slot,
    specs::Specs,
};

mod notices;
mod settle;

pub use settle::Settled;
use settle::{AllMoves, Removed, Shown, Touched};

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

/// All jobs, ordered, indexed and counted.
#[derive(Debug, Default)]
pub struct Jobs {
    slab: Vec<Vec<Option<Record>>>,
    free: Vec<Slot>,
    by_id: HashMap<JobId, Slot, IdBuild>,
    pending: Order<PendingKey>,
    running: Order<TimedKey>,
    inactive: Order<TimedKey>,
    by_modify: Order<ModifyKey>,
    in_id_order: Order<IdKey>,
    families: Families,
    nodes: Nodes,
    /// The entry that is being folded.
    at: Stamp,
    /// What changed, for whoever watches; cut at one more than is told.
    notices: Option<Vec<JobChange>>,
    /// How many were noted before this fold.
    noted_before: usize,
    index: Index,
    counts: Counts,
    specs: Specs,
    touched: Vec<Touched>,
    removed: Vec<Removed>,
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

    /// Jobs by the newest entry that changed their status or stopped them: what changed last comes last ([`Order::iter_down`]).
    #[must_use]
    pub fn by_modify(&self) -> &Order<ModifyKey> {
        &self.by_modify
    }

    /// The same jobs by id, the smallest first.
    #[must_use]
    pub fn in_id_order(&self) -> &Order<IdKey> {
        &self.in_id_order
    }

    /// The jobs that were dispatched from this one, by id; none when there never was one.
    #[must_use]
    pub fn children(&self, parent: JobId) -> Option<&Children> {
        self.families.get(parent)
    }

    /// Jobs that have or had resources on a node.
    pub fn on_node(&self, name: &str) -> impl Iterator<Item = &Record> + '_ {
        let mut slots = RoaringBitmap::new();
        if let Some(on) = self.index.host(name) {
            on.add_to(&mut slots);
        }
        slots.into_iter().filter_map(|slot| self.record(slot))
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub(crate) fn nodes_mut(&mut self) -> &mut Nodes {
        &mut self.nodes
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
            + self.by_modify.heap_bytes()
            + self.in_id_order.heap_bytes()
            + self.families.heap_bytes()
            + self.nodes.heap_bytes()
            + self.index.heap_bytes()
            + self.specs.heap_bytes()
    }

    /// What follows comes with this entry.
    pub(crate) fn set_entry(&mut self, seq: u64) {
        self.at.seq = seq;
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
        let mut record = Record::new(job, spec, eventlog_seq.max(1), self.at.seq);
        if !self.replay {
            record.what = What::TOUCHED;
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
        self.at.time = event.timestamp;
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
        let seq = self.at.seq;
        let record = self.record_mut(slot).ok_or(Skipped::Unknown)?;
        record.seen = if eventlog_seq == 0 {
            record.seen.saturating_add(1)
        } else {
            record.seen.max(eventlog_seq)
        };
        let what = record.apply(event, seq).map_err(Skipped::Invalid)?;
        record.what = record.what.and(what);
        if let Some(spec) = record.updated_spec(event) {
            self.respec(slot, spec);
        }
        if matches!(event.kind, job::EventKind::Alloc { .. }) {
            self.at.time = event.timestamp;
            if !self.allocate(slot, r) {
                return Err(Skipped::BadR);
            }
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
        self.families.forget_parent(id);
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
            self.removed.push(Removed {
                id,
                seq: self.at.seq,
                userid: 0,
                before: None,
                parent: None,
            });
        }
    }

    fn touch(&mut self, slot: Slot) {
        if self.replay {
            return;
        }
        let Some(record) = self.record_mut(slot) else {
            return;
        };
        if !record.what.contains(What::TOUCHED) {
            record.what = What::TOUCHED;
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
            let shown = if record.what.contains(What::TOUCHED) {
                // Few are: a job is purged long after it changed.
                let at = self
                    .touched
                    .iter()
                    .position(|touched| touched.slot == slot && touched.id == id);
                at.and_then(|at| self.touched.swap_remove(at).shown)
            } else {
                Some(Shown::of(&record, slot))
            };
            if let Some(shown) = &shown {
                self.hide(shown, slot);
                self.moves.modify.gone.extend(shown.modify);
                let key = IdKey::new(id, slot, record.job().userid);
                self.moves.id.gone.extend(shown.modify.map(|_| key));
            }
            self.removed.push(Removed {
                id,
                seq: self.at.seq,
                userid: record.job().userid,
                before: shown.and_then(|shown| shown.modify),
                parent: record.parent(),
            });
        }
        if let Some(parent) = record.parent() {
            self.families.take(parent, id, self.at.seq);
            if !self.by_id.contains_key(&parent) {
                self.families.forget_parent(parent);
            }
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
        let runs = record.allocation().is_some();
        let Some(nodes) = record.held().map(derive::nodes) else {
            return read;
        };
        let mut places = Vec::with_capacity(nodes.ranks.len());
        for (at, &rank) in nodes.ranks.iter().enumerate() {
            // Mostly the node that has the rank now, unless the R is older than that.
            let now = self.nodes.by_rank(rank);
            let now = now.map(|(place, node)| (place, &node.name));
            let place = match (nodes.hosts.get(at), now) {
                (Some(host), Some((place, name))) if **host == **name => place,
                (Some(host), _) => self.nodes.intern(host, self.at.seq),
                // An R without names: also a name of its own.
                (None, Some((place, _))) => place,
                (None, None) => self.nodes.intern(&format!("rank{rank}"), self.at.seq),
            };
            places.push((rank, place));
            if !runs {
                continue;
            }
            self.index.add_rank(rank, slot);
            if let Some(name) = self.nodes.name(place).filter(|_| at < nodes.hosts.len()) {
                self.index.add_host(name, slot);
            }
        }
        let at = self.at;
        if let Some(held) = self
            .record_mut(slot)
            .and_then(|record| record.allocation.as_mut())
            .filter(|held| held.runs.as_slice().is_empty())
        {
            held.runs = Runs::of(places.into_iter());
            held.created = at;
            held.modified = at;
        }
        read
    }
}
