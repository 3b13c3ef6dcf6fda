//! Bringing the orders, the indexes of states and the counts up to date with the records that changed: one pass, however many.

use std::sync::Arc;

use job::{JobId, JobResult, State};

use super::Jobs;
use crate::{
    children::Child,
    order::Order,
    place::{IdKey, ModifyKey, PendingKey, Place, TimedKey},
    record::{Record, Stand},
    slots::Slot,
};

/// What the orders, the indexes and the counts hold of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    pub(super) place: Place,
    pub(super) state: State,
    pub(super) result: Option<JobResult>,
    pub(super) queue: Option<Arc<str>>,
    pub(super) modify: Option<ModifyKey>,
    pub(super) stand: Stand,
}

impl Shown {
    pub(super) fn of(record: &Record, slot: Slot) -> Self {
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
pub(super) struct Touched {
    pub(super) slot: Slot,
    pub(super) id: JobId,
    pub(super) shown: Option<Shown>,
}

/// A job that is gone, and where it stood.
#[derive(Debug, Clone, Copy)]
pub(super) struct Removed {
    pub(super) id: JobId,
    pub(super) seq: u64,
    pub(super) userid: u32,
    pub(super) before: Option<ModifyKey>,
    pub(super) parent: Option<JobId>,
}

/// Keys to take out of and put into one order.
#[derive(Debug, Clone)]
pub(super) struct Moves<K> {
    pub(super) gone: Vec<K>,
    pub(super) new: Vec<K>,
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
pub(super) struct AllMoves {
    pub(super) pending: Moves<PendingKey>,
    pub(super) running: Moves<TimedKey>,
    pub(super) inactive: Moves<TimedKey>,
    pub(super) modify: Moves<ModifyKey>,
    pub(super) id: Moves<IdKey>,
}

impl AllMoves {
    pub(super) fn gone(&mut self, place: Place) {
        match place {
            Place::Nowhere => {}
            Place::Pending(key) => self.pending.gone.push(key),
            Place::Running(key) => self.running.gone.push(key),
            Place::Inactive(key) => self.inactive.gone.push(key),
        }
    }

    pub(super) fn put(&mut self, place: Place) {
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

impl Jobs {
    pub(super) fn hide(&mut self, shown: &Shown, slot: Slot) {
        self.moves.gone(shown.place);
        self.index.remove_state(shown.state, slot);
        self.index.remove_result(shown.result, slot);
        if shown.state != State::New {
            self.counts
                .remove(shown.queue.as_ref(), shown.state, shown.result);
        }
    }

    pub(super) fn show(&mut self, shown: &Shown, slot: Slot) {
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
                let result = now.result;
                let child = Child {
                    slot,
                    status,
                    result,
                };
                self.families.put(parent, id, child, seq);
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

    /// Brings the nodes into the order of their ranks: in a replay they came as jobs named them.
    fn sort_nodes(&mut self) {
        let Some(moved) = self.nodes.sort() else {
            return;
        };
        for record in self.slab.iter_mut().flatten().flatten() {
            if let Some(allocation) = &mut record.allocation {
                allocation.runs.move_nodes(&moved);
            }
        }
    }

    /// Orders, indexes and counts everything at once: the end of a replay.
    pub(crate) fn settle_all(&mut self) {
        self.sort_nodes();
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
                let result = shown.result;
                let child = Child {
                    slot,
                    status,
                    result,
                };
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
}
