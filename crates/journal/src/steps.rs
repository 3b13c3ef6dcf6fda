//! The steps a fan-out is made of: a group's batch, a lone listener's turn, and where a listener belongs after either.
//!
//! ```text
//!  serve(group) ─► batch to members ─► joiners who stand there now become members
//!  turn(listener) ─► need | caught_up | a batch of its own ─► settle
//!  settle ─► CatchUp (the ring has passed it by) | Behind (there is more) | Live (stands with its group) | Joining (ahead of it)
//!  leave ─► Behind
//! ```
//!
//! When to take which step is decided in `fanout`.

use job::{JobId, Seq, Timestamp};

use crate::backlog::{Need, Read};
use crate::encode::Cut;
use crate::fanout::{Fanout, Out};
use crate::listener::{Format, Kind, Listener, ListenerId, Phase};
use crate::payload::{self, Payload};
use crate::ring::Evicted;

impl Fanout {
    /// Gives a group its next batch, then lets those in who wait ahead of it.
    pub(crate) fn serve(
        &mut self,
        at: usize,
        now: Timestamp,
        out: &mut Vec<Out>,
        budget: &mut Budget,
    ) {
        let durable = self.ring.newest();
        let Some(group) = self.groups.get(at) else {
            return;
        };
        let (kind, from) = (group.kind.clone(), group.place(durable));
        let Ok(cut) = self.cut(at, &kind, from, durable) else {
            return self.dissolve(at);
        };
        budget.spend(cut.bytes + usize::try_from(cut.to.0 - from.0).unwrap_or(usize::MAX));
        let Some(group) = self.groups.get_mut(at) else {
            return;
        };
        group.advance(cut.to, durable);
        if let Some(payload) = &cut.payload {
            (group.batch_at, group.told, group.told_at) = (Some(now), cut.to, now);
            let shared = group.members.len() > 1;
            out.extend(group.members.iter().map(|id| Out::Batch {
                listener: *id,
                payload: payload.clone(),
                entries: cut.entries,
                shared,
            }));
            let members = group.members.len();
            self.counters.batches_delivered += members as u64;
            self.counters.entries_delivered += (members * cut.entries) as u64;
            budget.spend(members * size_of::<Out>());
        }
        for id in std::mem::take(&mut group.joiners) {
            let Some(Listener {
                phase: Phase::Joining { cursor },
                ..
            }) = self.listeners.get(&id)
            else {
                continue;
            };
            let mut cursor = *cursor;
            let own = if cursor < cut.to {
                self.cut(at, &kind, cursor, cut.to).ok()
            } else {
                None
            };
            if let Some(own) = own {
                budget.spend(own.bytes);
                cursor = own.to;
                self.emit(id, &own, now, out);
            }
            self.settle(id, cursor, now, out);
        }
    }

    /// The ring has passed a group by: its members read the store, each for itself.
    pub(crate) fn dissolve(&mut self, at: usize) {
        let Some(group) = self.groups.get_mut(at) else {
            return;
        };
        let cursor = group.place(self.ring.newest());
        let (told, told_at) = (group.told, group.told_at);
        let (members, joiners) = (
            std::mem::take(&mut group.members),
            std::mem::take(&mut group.joiners),
        );
        for id in members {
            if let Some(listener) = self.listeners.get_mut(&id) {
                listener.phase = Phase::Behind { cursor };
                (listener.told, listener.told_at) = (listener.told.max(told), told_at);
                self.ready(id);
            }
        }
        self.awake(joiners);
    }

    /// Those who waited for a group to come along must find their way again.
    pub(crate) fn awake(&mut self, joiners: Vec<ListenerId>) {
        for id in joiners {
            let Some(listener) = self.listeners.get_mut(&id) else {
                continue;
            };
            if let Phase::Joining { cursor } = listener.phase {
                listener.phase = Phase::Behind { cursor };
                self.ready(id);
            }
        }
    }

    /// Tells the members of a native group how far they are, if they have not heard for long.
    pub(crate) fn progress(&mut self, at: usize, now: Timestamp, out: &mut Vec<Out>) {
        let durable = self.ring.newest();
        let Some(group) = self.groups.get_mut(at) else {
            return;
        };
        if group
            .progress_time(&self.limits)
            .is_some_and(|time| now >= time)
        {
            let cursor = group.place(durable);
            (group.told, group.told_at) = (cursor, now);
            let payload = Payload::One(payload::native(&self.encoder.epoch, Some(cursor), "", b""));
            let shared = group.members.len() > 1;
            out.extend(group.members.iter().map(|id| Out::Batch {
                listener: *id,
                payload: payload.clone(),
                entries: 0,
                shared,
            }));
            self.counters.progress_delivered += group.members.len() as u64;
        }
        let time = group.progress_time(&self.limits);
        self.expect_progress(time);
    }

    /// A group wants progress at this time.
    pub(crate) fn expect_progress(&mut self, time: Option<Timestamp>) {
        self.progress_at = self.progress_at.into_iter().chain(time).min();
    }

    /// One step of a listener that goes by itself.
    pub(crate) fn turn(
        &mut self,
        id: ListenerId,
        now: Timestamp,
        out: &mut Vec<Out>,
        budget: &mut Budget,
    ) {
        let durable = self.ring.newest();
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        listener.queued = false;
        if !listener.writable {
            return;
        }
        let group = listener.group;
        let Some(kind) = self.groups.get(group).map(|group| group.kind.clone()) else {
            return;
        };
        match &mut listener.phase {
            Phase::Backlog { at, stage, reading } => {
                if !std::mem::replace(reading, true) {
                    out.push(Out::Need(stage.need(
                        id,
                        &kind,
                        &self.encoder.epoch,
                        *at,
                        &self.limits,
                    )));
                }
            }
            Phase::Greet { cursor } => {
                let cursor = *cursor;
                self.greet(id, &kind, cursor, now, out);
                self.settle(id, cursor, now, out);
            }
            Phase::CatchUp { cursor, .. } if self.ring.holds_after(*cursor) => {
                let cursor = *cursor;
                self.settle(id, cursor, now, out);
            }
            Phase::CatchUp { cursor, reading } => {
                if !std::mem::replace(reading, true) {
                    let read = Read::Log {
                        after: *cursor,
                        limit: self.limits.page_entries,
                        bytes: self.limits.page_bytes,
                    };
                    let epoch = self.encoder.epoch.clone();
                    out.push(Out::Need(Need {
                        listener: id,
                        read,
                        kind,
                        epoch,
                        at: durable,
                        active_only: false,
                        backlog: false,
                    }));
                }
            }
            Phase::Behind { cursor } => {
                let mut cursor = *cursor;
                let cut = if cursor < durable {
                    self.cut(group, &kind, cursor, durable).ok()
                } else {
                    None
                };
                if let Some(cut) = cut {
                    budget.spend(
                        cut.bytes + usize::try_from(cut.to.0 - cursor.0).unwrap_or(usize::MAX),
                    );
                    cursor = cut.to;
                    self.emit(id, &cut, now, out);
                }
                self.settle(id, cursor, now, out);
            }
            Phase::Joining { .. } | Phase::Live { .. } => {}
        }
    }

    /// Puts a listener that stands at `cursor` where it belongs.
    pub(crate) fn settle(
        &mut self,
        id: ListenerId,
        cursor: Seq,
        now: Timestamp,
        out: &mut Vec<Out>,
    ) {
        let durable = self.ring.newest();
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let Some(group) = self.groups.get_mut(listener.group) else {
            return;
        };
        let lonely = group.members.is_empty() && group.joiners.is_empty();
        if !self.ring.holds_after(cursor) {
            listener.phase = Phase::CatchUp {
                cursor,
                reading: false,
            };
            return self.ready(id);
        }
        let at_group = !group.members.is_empty() && cursor == group.place(durable);
        if (cursor < durable && !at_group) || !listener.writable {
            listener.phase = Phase::Behind { cursor };
            return self.ready(id);
        }
        let untold = group.kind.format == Format::Native && listener.told < cursor;
        if lonely || at_group {
            if lonely {
                group.advance(cursor, durable);
                (group.told, group.told_at) = (cursor, now);
            }
            listener.phase = Phase::Live {
                slot: group.members.len(),
            };
            group.members.push(id);
            let time = group.progress_time(&self.limits);
            self.expect_progress(time);
        } else {
            listener.phase = Phase::Joining { cursor };
            group.joiners.push(id);
        }
        if untold {
            self.tell(id, cursor, now, out);
        }
    }

    /// Takes a Live or Joining listener away from its group; it is Behind from then on, and has no turn until it is made ready.
    pub(crate) fn leave(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let Some(group) = self.groups.get_mut(listener.group) else {
            return;
        };
        match listener.phase {
            Phase::Live { slot } => {
                let cursor = group.place(self.ring.newest());
                (listener.told, listener.told_at) = (listener.told.max(group.told), group.told_at);
                listener.phase = Phase::Behind { cursor };
                group.members.swap_remove(slot);
                let moved = group.members.get(slot).copied();
                let joiners = if group.members.is_empty() {
                    std::mem::take(&mut group.joiners)
                } else {
                    Vec::new()
                };
                if let Some(moved) = moved.and_then(|id| self.listeners.get_mut(&id)) {
                    moved.phase = Phase::Live { slot };
                }
                self.awake(joiners);
            }
            Phase::Joining { cursor } => {
                group.joiners.retain(|joiner| *joiner != id);
                listener.phase = Phase::Behind { cursor };
            }
            Phase::Backlog { .. }
            | Phase::Greet { .. }
            | Phase::CatchUp { .. }
            | Phase::Behind { .. } => {}
        }
    }

    /// Lets the listener have a turn at the next poll.
    pub(crate) fn ready(&mut self, id: ListenerId) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        let waits = match listener.phase {
            Phase::Backlog { reading, .. } | Phase::CatchUp { reading, .. } => reading,
            Phase::Joining { .. } | Phase::Live { .. } => true,
            Phase::Greet { .. } | Phase::Behind { .. } => false,
        };
        if listener.writable && !waits && !listener.queued {
            listener.queued = true;
            self.ready.push_back(id);
        }
    }

    pub(crate) fn cut(
        &mut self,
        group: usize,
        kind: &Kind,
        from: Seq,
        limit: Seq,
    ) -> Result<Cut, Evicted> {
        let many = self.groups.len() > 1;
        self.encoder
            .cut(&self.ring, &self.limits, (group, kind), (from, limit), many)
    }

    /// The response that ends a backlog or answers a cursor.
    pub(crate) fn greet(
        &mut self,
        id: ListenerId,
        kind: &Kind,
        cursor: Seq,
        now: Timestamp,
        out: &mut Vec<Out>,
    ) {
        let payload = match kind.format {
            Format::Native => {
                let set_aside = self.set_aside.iter();
                let told: Vec<JobId> = set_aside
                    .filter(|aside| kind.filter.hears_of(aside.id, aside.userid))
                    .map(|aside| aside.id)
                    .collect();
                let resources = kind
                    .filter
                    .hears_of_nodes()
                    .then(|| self.nodes.text())
                    .flatten();
                payload::caught_up(&self.encoder.epoch, cursor, &told, resources.as_deref())
            }
            Format::Flux => payload::sentinel(),
        };
        self.send(id, Payload::One(payload), 0, Some(cursor), now, out);
    }

    /// A batch for this listener alone, if there is something in it.
    pub(crate) fn emit(&mut self, id: ListenerId, cut: &Cut, now: Timestamp, out: &mut Vec<Out>) {
        if let Some(payload) = &cut.payload {
            self.send(id, payload.clone(), cut.entries, Some(cut.to), now, out);
        }
    }

    /// Progress for this listener alone.
    pub(crate) fn tell(&mut self, id: ListenerId, cursor: Seq, now: Timestamp, out: &mut Vec<Out>) {
        let payload = payload::native(&self.encoder.epoch, Some(cursor), "", b"");
        self.counters.progress_delivered += 1;
        self.send(id, Payload::One(payload), 0, Some(cursor), now, out);
    }

    pub(crate) fn send(
        &mut self,
        id: ListenerId,
        payload: Payload,
        entries: usize,
        told: Option<Seq>,
        now: Timestamp,
        out: &mut Vec<Out>,
    ) {
        if let Some(listener) = self.listeners.get_mut(&id) {
            listener.told = told.unwrap_or(listener.told);
            listener.told_at = now;
        }
        if entries > 0 {
            self.counters.batches_delivered += 1;
            self.counters.entries_delivered += entries as u64;
        }
        out.push(Out::Batch {
            listener: id,
            payload,
            entries,
            shared: false,
        });
    }
}

/// How much one `poll` may still do.
pub(crate) struct Budget(pub(crate) usize);

impl Budget {
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}
