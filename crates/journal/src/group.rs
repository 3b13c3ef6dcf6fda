//! Listeners with the same filter and format that stand at the same place: one cursor, one batch, one clock.
//!
//! Groups of a filter that names jobs are lazy: an index by job id tells at push time which of them an entry concerns, and until then such
//! a group counts as standing at the newest entry. So ten thousand listeners of one job each cost nothing while other jobs move.
//!
//! Groups live in a slab; a group is there as long as a listener of its kind is, in whatever phase. Members are only those who are Live:
//! the others find their way by themselves and join when they stand where the group stands.

use std::collections::HashMap;
use std::sync::Arc;

use job::{Entry, JobId, Seq, Source, Timestamp};

use crate::limits::Limits;
use crate::listener::{Format, Kind, ListenerId};

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    /// Listeners of this kind in any phase.
    pub(crate) users: usize,
    /// Where the members stand; meaningless without members. Of a lazy group: or later, see [`Group::place`].
    pub(crate) cursor: Seq,
    /// The filter names jobs.
    lazy: bool,
    /// Of a lazy group: the first entry after its place that may concern it.
    next_match: Option<Seq>,
    /// It is in the list of those to look at.
    woken: bool,
    pub(crate) members: Vec<ListenerId>,
    /// Those ahead of the cursor.
    pub(crate) joiners: Vec<ListenerId>,
    /// When members last got entries.
    pub(crate) batch_at: Option<Timestamp>,
    /// Up to where the members were told that they are complete, and when.
    pub(crate) told: Seq,
    pub(crate) told_at: Timestamp,
}

impl Group {
    /// Where the members stand, given the newest entry.
    pub(crate) fn place(&self, durable: Seq) -> Seq {
        match (self.lazy, self.next_match) {
            (false, _) => self.cursor,
            (true, None) => durable,
            (true, Some(next)) => self.cursor.max(Seq(next.0.saturating_sub(1))),
        }
    }

    /// The members got everything up to `cursor`.
    pub(crate) fn advance(&mut self, cursor: Seq, durable: Seq) {
        self.cursor = cursor;
        self.next_match = (self.lazy && cursor < durable).then(|| cursor.next());
    }

    /// There is something new, and it has waited long enough or is plenty.
    pub(crate) fn is_due(&self, durable: Seq, now: Timestamp, limits: &Limits) -> bool {
        let waiting = durable.0.saturating_sub(self.place(durable).0);
        !self.members.is_empty()
            && waiting > 0
            && (self.batch_time(limits).is_none_or(|time| now >= time)
                || waiting >= limits.batch_entries as u64)
    }

    /// Before this time a batch waits for company; `None` = the group was quiet.
    fn batch_time(&self, limits: &Limits) -> Option<Timestamp> {
        self.batch_at
            .map(|at| Timestamp(at.0 + limits.batch_interval))
    }

    pub(crate) fn progress_time(&self, limits: &Limits) -> Option<Timestamp> {
        let native = self.kind.format == Format::Native && !self.members.is_empty();
        native.then_some(Timestamp(self.told_at.0 + limits.progress_interval))
    }

    /// When this group's next batch is due.
    pub(crate) fn batch_deadline(&self, durable: Seq, limits: &Limits) -> Option<Timestamp> {
        let waits = !self.members.is_empty() && self.place(durable) < durable;
        waits.then(|| self.batch_time(limits).unwrap_or(Timestamp(0.0)))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    slab: Vec<Option<Group>>,
    free: Vec<usize>,
    by_kind: HashMap<Kind, usize>,
    /// Groups to look at whenever there is something new.
    eager: Vec<usize>,
    /// Lazy groups that something new concerns.
    woken: Vec<usize>,
    /// Which lazy groups a job concerns.
    by_job: HashMap<JobId, Vec<usize>>,
}

impl Groups {
    /// The group of this kind, with one user more.
    pub(crate) fn enter(&mut self, kind: Kind, now: Timestamp) -> usize {
        if let Some(at) = self.by_kind.get(&kind).copied() {
            if let Some(group) = self.get_mut(at) {
                group.users += 1;
            }
            return at;
        }
        let group = Group {
            kind: kind.clone(),
            users: 1,
            cursor: Seq(0),
            lazy: kind.filter.ids().is_some(),
            next_match: None,
            woken: false,
            members: Vec::new(),
            joiners: Vec::new(),
            batch_at: None,
            told: Seq(0),
            told_at: now,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.slab.push(None);
            self.slab.len() - 1
        });
        self.slab[at] = Some(group);
        match kind.filter.ids() {
            Some(ids) => ids
                .iter()
                .for_each(|id| self.by_job.entry(*id).or_default().push(at)),
            None => self.eager.push(at),
        }
        self.by_kind.insert(kind, at);
        at
    }

    /// One user less; `true` = the group is gone.
    pub(crate) fn exit(&mut self, at: usize) -> bool {
        let Some(group) = self.get_mut(at) else {
            return false;
        };
        group.users -= 1;
        if group.users > 0 {
            return false;
        }
        if let Some(group) = self.slab[at].take() {
            self.by_kind.remove(&group.kind);
            self.eager.retain(|other| *other != at);
            self.woken.retain(|other| *other != at);
            for id in group.kind.filter.ids().unwrap_or_default() {
                if let Some(groups) = self.by_job.get_mut(id) {
                    groups.retain(|other| *other != at);
                    if groups.is_empty() {
                        self.by_job.remove(id);
                    }
                }
            }
            self.free.push(at);
        }
        true
    }

    /// Wakes the lazy groups that new entries concern.
    pub(crate) fn pushed(&mut self, commit: &[Arc<Entry>]) {
        if self.by_job.is_empty() {
            return;
        }
        for entry in commit {
            let Source::Job(id) = entry.source else {
                continue;
            };
            for at in self.by_job.get(&id).map(Vec::as_slice).unwrap_or_default() {
                let Some(group) = self.slab.get_mut(*at).and_then(Option::as_mut) else {
                    continue;
                };
                group.next_match.get_or_insert(entry.seq);
                if !std::mem::replace(&mut group.woken, true) {
                    self.woken.push(*at);
                }
            }
        }
    }

    /// The `at`th group that may have something to do, of [`Groups::candidates`].
    pub(crate) fn candidate(&self, at: usize) -> Option<usize> {
        self.eager
            .get(at)
            .or_else(|| self.woken.get(at.checked_sub(self.eager.len())?))
            .copied()
    }

    /// How many groups may have something to do.
    pub(crate) fn candidates(&self) -> usize {
        self.eager.len() + self.woken.len()
    }

    /// Lets lazy groups that have nothing more to do sleep.
    pub(crate) fn sleep(&mut self) {
        let slab = &mut self.slab;
        self.woken.retain(|at| {
            let Some(group) = slab.get_mut(*at).and_then(Option::as_mut) else {
                return false;
            };
            group.woken = group.next_match.is_some() && !group.members.is_empty();
            if !group.woken {
                // Without members its place means nothing; the next one to come sets it.
                group.next_match = None;
            }
            group.woken
        });
    }

    /// Candidates themselves.
    pub(crate) fn iter_candidates(&self) -> impl Iterator<Item = &Group> {
        self.eager
            .iter()
            .chain(&self.woken)
            .filter_map(|at| self.get(*at))
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Group> {
        self.slab.get(at).and_then(Option::as_ref)
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Group> {
        self.slab.get_mut(at).and_then(Option::as_mut)
    }

    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.by_kind.len()
    }

    /// How many places there are, empty ones included.
    pub(crate) fn places(&self) -> usize {
        self.slab.len()
    }
}
