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
    sync::Arc,
};

use job::{Event, Job, JobId, JobResult, State};
use roaring::RoaringBitmap;

use crate::{
    allocs::{Runs, Stamp},
    aside::{SetAside, Why},
    changes::{CHANGES_MAX, JobChange, What},
    children::{Child, Children, Families},
    counts::Counts,
    derive,
    index::Index,
    nodes::Nodes,
    order::Order,
    place::{Group, IdKey, ModifyKey, PendingKey, Place, SLOTS_MAX, TimedKey},
    record::{Record, Spec, Stand},
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
    modify: Option<ModifyKey>,
    stand: Stand,
}

impl Shown {
    fn of(record: &Record, slot: Slot) -> Self {
        let job = record.job();
        Self {
            place: record.place(slot),
            state: job.state,
            result: job.result(),
            queue: record.spec.queue.clone(),
            modify: record.modify_key(slot),
            stand: record.stand(),
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

/// A job that is gone, and where it stood.
#[derive(Debug, Clone, Copy)]
struct Removed {
    id: JobId,
    seq: u64,
    userid: u32,
    before: Option<ModifyKey>,
    parent: Option<JobId>,
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
    modify: Moves<ModifyKey>,
    id: Moves<IdKey>,
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

    /// Whether what changes is noted.
    pub(crate) fn watch(&mut self, on: bool) {
        self.notices = on.then(Vec::new);
        self.nodes.changed = on.then(Vec::new);
    }

    /// What was noted since last asked; `None` when it is more than is kept.
    pub(crate) fn take_notices(&mut self) -> Option<Vec<JobChange>> {
        self.noted_before = 0;
        let notices = self
            .notices
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        (notices.len() <= CHANGES_MAX).then_some(notices)
    }

    fn notice(&mut self, change: JobChange) {
        if let Some(notices) = &mut self.notices
            && notices.len() <= CHANGES_MAX
        {
            notices.push(change);
        }
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
        let removed = std::mem::take(&mut self.removed);
        let mut changed: Vec<JobId> = removed.iter().map(|removed| removed.id).collect();
        changed.reserve(touched.len());
        let mut parents = self.tell_removed(removed);
        for Touched { slot, id, shown } in touched {
            let Some(record) = self.record_mut(slot).filter(|record| record.id() == id) else {
                continue;
            };
            let what = std::mem::take(&mut record.what);
            let now = Shown::of(record, slot);
            let user = record.job().userid;
            changed.push(id);
            let before = shown.as_ref().and_then(|shown| shown.modify);
            if shown.as_ref().map(|shown| shown.stand) != Some(now.stand)
                && let Some(status) = now.stand.status
                && let Some(parent) = record.parent()
            {
                let seq = record.modify_seq();
                self.families.put(parent, id, Child { slot, status }, seq);
                if self.notices.is_some() {
                    parents.push((parent, seq));
                }
            }
            if before != now.modify {
                self.moves.modify.gone.extend(before);
                self.moves.modify.new.extend(now.modify);
            }
            if before.is_none() && now.modify.is_some() {
                self.moves.id.new.push(IdKey::new(id, slot, user));
            }
            if self.notices.is_some() && (before.is_some() || now.modify.is_some()) {
                self.tell(slot, before, now.modify, what);
            }
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
            modify,
            id,
        } = std::mem::take(&mut self.moves);
        self.tell_parents(parents);
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
        self.by_modify.change(modify.gone, modify.new);
        self.in_id_order.change(id.gone, id.new);
        self.noted_before = self.notices.as_ref().map_or(0, Vec::len);
        Settled { moves, changed }
    }

    /// Notes a job that changed.
    fn tell(
        &mut self,
        slot: Slot,
        before: Option<ModifyKey>,
        after: Option<ModifyKey>,
        what: What,
    ) {
        let Some(record) = self.record(slot) else {
            return;
        };
        let what = what.without(What::TOUCHED);
        let what = match before {
            None => What::CREATED.and(What::STATUS).and(what),
            Some(_) => what,
        };
        self.notice(JobChange {
            id: record.id(),
            seq: record.touched_seq(),
            userid: record.job().userid,
            before,
            after,
            what,
        });
    }

    /// Notes the jobs that are gone, those that were listed; their parents, each with the entry that took the child.
    fn tell_removed(&mut self, removed: Vec<Removed>) -> Vec<(JobId, u64)> {
        let mut parents = Vec::new();
        if self.notices.is_none() {
            return parents;
        }
        for gone in removed {
            let Some(before) = gone.before else { continue };
            self.notice(JobChange {
                id: gone.id,
                seq: gone.seq,
                userid: gone.userid,
                before: Some(before),
                after: None,
                what: What::REMOVED,
            });
            parents.extend(gone.parent.map(|parent| (parent, gone.seq)));
        }
        parents
    }

    /// Notes that children of these changed: in the change that is noted of the parent already, else in one of its own.
    fn tell_parents(&mut self, parents: Vec<(JobId, u64)>) {
        if parents.is_empty() {
            return;
        }
        let mut newest: HashMap<JobId, u64, IdBuild> = HashMap::default();
        for (parent, seq) in parents {
            let known = newest.entry(parent).or_default();
            *known = seq.max(*known);
        }
        let noted_from = self.noted_before;
        let notices = self
            .notices
            .iter_mut()
            .flat_map(|all| all.iter_mut().skip(noted_from));
        for change in notices {
            if let Some(seq) = newest.remove(&change.id) {
                change.what = change.what.and(What::CHILDREN);
                change.seq = change.seq.max(seq);
            }
        }
        let mut rest: Vec<(JobId, u64)> = newest.into_iter().collect();
        rest.sort_unstable();
        for (id, seq) in rest {
            let Some(&slot) = self.by_id.get(&id) else {
                continue;
            };
            let Some(record) = self.record(slot) else {
                continue;
            };
            let key = record.modify_key(slot);
            self.notice(JobChange {
                id,
                seq,
                userid: record.job().userid,
                before: key,
                after: key,
                what: What::CHILDREN,
            });
        }
    }

    /// Orders, indexes and counts everything at once: the end of a replay.
    pub(crate) fn settle_all(&mut self) {
        let mut moves = AllMoves::default();
        let Self {
            slab,
            index,
            counts,
            families,
            ..
        } = self;
        for (at, record) in slab.iter().flatten().enumerate() {
            let Some(record) = record else { continue };
            let Ok(slot) = Slot::try_from(at) else {
                continue;
            };
            let shown = Shown::of(record, slot);
            moves.put(shown.place);
            moves.modify.new.extend(shown.modify);
            let key = IdKey::new(record.id(), slot, record.job().userid);
            moves.id.new.extend(shown.modify.map(|_| key));
            if let (Some(parent), Some(status)) = (record.parent(), shown.stand.status) {
                let child = Child { slot, status };
                families.put(parent, record.id(), child, record.modify_seq());
            }
            index.add_state(shown.state, slot);
            index.add_result(shown.result, slot);
            if shown.state != State::New {
                counts.add(shown.queue.as_ref(), shown.state, shown.result);
            }
        }
        self.pending = Order::from_unsorted(moves.pending.new);
        self.running = Order::from_unsorted(moves.running.new);
        self.inactive = Order::from_unsorted(moves.inactive.new);
        self.by_modify = Order::from_unsorted(moves.modify.new);
        self.in_id_order = Order::from_unsorted(moves.id.new);
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
        let runs = record.allocation().is_some();
        let Some(nodes) = record.held().map(derive::nodes) else {
            return read;
        };
        let mut places = Vec::with_capacity(nodes.ranks.len());
        for (at, &rank) in nodes.ranks.iter().enumerate() {
            let place = match nodes.hosts.get(at) {
                Some(host) => self.nodes.intern(host, self.at.seq),
                // An R without names: the node that has the rank now, or a name of its own.
                None => match self.nodes.by_rank(rank) {
                    Some((place, _)) => place,
                    None => self.nodes.intern(&format!("rank{rank}"), self.at.seq),
                },
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
