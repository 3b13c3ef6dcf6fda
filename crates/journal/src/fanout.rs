//! All readers: who is due, who lags, what each gets next.
//!
//! The shell's loop, after anything that happened:
//!
//! ```text
//! commit durable      fanout.push(&entries)
//! request accepted    fanout.add(id, spec, now)?           stream cancelled, client gone   fanout.remove(id)
//! output queue        fanout.set_writable(id, below_the_mark)
//! a page was read     fanout.page(need.answer(…), now, &mut out)
//! always then         while fanout.poll(now, &mut out) { send out; pass on writability }     wait until next_deadline() at most
//! ```
//!
//! `poll` costs O(groups) to find what is due, one encoding per (group, batch), and one push to `out` per batch and member. Listeners that
//! cannot go on by themselves (output full, waiting for a page, nothing new) are not looked at.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use job::{Entry, JobId, Resources, Seq, Timestamp};

use crate::backlog::{Need, Next, Page, Stage};
use crate::counters::Counters;
use crate::encode::Encoder;
use crate::group::Groups;
use crate::limits::Limits;
use crate::listener::{Format, Kind, Listener, ListenerId, Phase, Spec, Start};
use crate::nodes::Nodes;
use crate::payload::{self, Payload};
use crate::refused::Refused;
use crate::ring::Ring;
use crate::steps::Budget;

/// Bytes one `flush` may hand out before it gives up.
const FLUSH_BYTES_MAX: usize = 4 << 20;

/// What the shell must do.
#[must_use]
#[derive(Debug)]
pub enum Out {
    /// Send these responses to a listener, in this order.
    Batch {
        /// To whom.
        listener: ListenerId,
        /// Responses as they travel.
        payload: Payload,
        /// How many entries are in them; 0 for progress, `caught_up` and the sentinel.
        entries: usize,
        /// Other listeners get the very same bytes.
        shared: bool,
    },
    /// End the stream with this error; the listener is removed already.
    End {
        /// Whose.
        listener: ListenerId,
        /// Why.
        why: Refused,
    },
    /// Read the store for a listener and come back with [`Need::answer`] and [`Fanout::page`].
    Need(Need),
}

/// A job that is in the store and cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aside {
    /// Its id.
    pub id: JobId,
    /// Its owner, if that can be read.
    pub userid: Option<u32>,
}

/// The readers of a journal. See the file's doc for how it is driven.
#[derive(Debug)]
pub struct Fanout {
    pub(crate) limits: Limits,
    pub(crate) ring: Ring,
    pub(crate) encoder: Encoder,
    pub(crate) floor: Seq,
    pub(crate) set_aside: Arc<[Aside]>,
    pub(crate) nodes: Nodes,
    pub(crate) listeners: HashMap<ListenerId, Listener>,
    pub(crate) groups: Groups,
    /// Listeners that can go on by themselves.
    pub(crate) ready: VecDeque<ListenerId>,
    /// Where the next `poll` begins to look at groups.
    pub(crate) next_group: usize,
    /// No group wants progress before this time; `None` = none wants any.
    pub(crate) progress_at: Option<Timestamp>,
    pub(crate) counters: Counters,
}

impl Fanout {
    /// A journal of `epoch` (the store's 16 hex digits) whose newest durable entry is `durable` and whose log starts after `floor`.
    #[must_use]
    pub fn new(limits: Limits, epoch: &str, durable: Seq, floor: Seq) -> Self {
        Self {
            ring: Ring::new(durable, limits.ring_entries, limits.ring_bytes),
            limits,
            encoder: Encoder::new(epoch.into()),
            floor,
            set_aside: Arc::from([]),
            nodes: Nodes::default(),
            listeners: HashMap::new(),
            groups: Groups::default(),
            ready: VecDeque::new(),
            next_group: 0,
            progress_at: None,
            counters: Counters::default(),
        }
    }

    /// The entries of one commit are durable. Tells nobody yet: call `poll`.
    pub fn push(&mut self, commit: &[Arc<Entry>]) {
        #[cfg(feature = "sabotage")]
        let commit = &commit[commit.partition_point(|entry| entry.seq <= self.durable())..];
        if !commit.is_empty() {
            self.nodes.push(commit);
            self.ring.push(commit);
            self.encoder.pushed();
            self.groups.pushed(commit);
            self.counters.commits += 1;
        }
    }

    /// The newest durable seq.
    #[must_use]
    pub fn durable(&self) -> Seq {
        self.ring.newest()
    }

    /// The jobs that cannot be read: named in every `caught_up` from now on, and left out of backlogs by whoever reads the store.
    pub fn set_aside(&mut self, jobs: Arc<[Aside]>) {
        self.set_aside = jobs;
    }

    /// The state of the nodes as of what is durable: told in every `caught_up`; from now on kept up with what is pushed.
    pub fn set_resources(&mut self, resources: Resources) {
        self.nodes = Nodes::new(resources);
    }

    /// The log was trimmed up to `floor`.
    pub fn set_floor(&mut self, floor: Seq) {
        self.floor = self.floor.max(floor);
    }

    /// A new listener; it is writable. Its first response comes with the next `poll`.
    /// # Errors
    /// [`Refused::Stale`]: its cursor is of another epoch, ahead of the newest entry, or below the floor. [`Refused::TooMany`],
    /// [`Refused::Twice`].
    pub fn add(&mut self, id: ListenerId, spec: Spec, now: Timestamp) -> Result<(), Refused> {
        if self.listeners.contains_key(&id) {
            return Err(Refused::Twice { id: id.0 });
        }
        if self.listeners.len() >= self.limits.listeners {
            return Err(Refused::TooMany {
                max: self.limits.listeners,
            });
        }
        let durable = self.durable();
        let kind = Kind {
            format: spec.format,
            filter: Arc::new(spec.filter),
        };
        let phase = match spec.start {
            Start::Now => Phase::Greet { cursor: durable },
            Start::After { seq, epoch } => {
                let foreign = epoch
                    .as_deref()
                    .is_some_and(|epoch| epoch != &*self.encoder.epoch);
                #[cfg(feature = "sabotage")]
                let foreign = foreign && !crate::sabotage::is(crate::sabotage::Sabotage::Epoch);
                // The log may have forgotten what is in memory still.
                let lost = seq < self.floor && !self.ring.holds_after(seq);
                if foreign || seq > durable || lost {
                    return Err(self.stale(seq, epoch));
                }
                Phase::Greet { cursor: seq }
            }
            start @ (Start::All | Start::Active) => Phase::Backlog {
                at: durable,
                stage: Stage::first(&kind, &start, self.floor),
                reading: false,
            },
        };
        let group = self.groups.enter(kind, now);
        let listener = Listener {
            group,
            writable: true,
            queued: false,
            told: Seq(0),
            told_at: now,
            phase,
        };
        self.listeners.insert(id, listener);
        self.ready(id);
        Ok(())
    }

    pub(crate) fn stale(&self, after: Seq, of: Option<String>) -> Refused {
        Refused::Stale {
            after,
            of,
            epoch: self.encoder.epoch.to_string(),
            floor: self.floor,
            newest: self.durable(),
        }
    }

    /// The listener is gone; a page it waited for may still come and is ignored. `false` = there was none of that id.
    pub fn remove(&mut self, id: ListenerId) -> bool {
        if !self.listeners.contains_key(&id) {
            return false;
        }
        self.leave(id);
        let group = self.listeners.remove(&id).map(|listener| listener.group);
        if group.is_some_and(|group| self.groups.exit(group)) {
            self.encoder.forget_group();
        }
        true
    }

    /// Ends all streams, at shutdown: their ids.
    pub fn remove_all(&mut self) -> Vec<ListenerId> {
        let ids: Vec<ListenerId> = self.listeners.keys().copied().collect();
        for id in &ids {
            self.remove(*id);
        }
        ids
    }

    /// Whether the listener's output takes more: `false` above the high-water mark, `true` again below the low-water mark.
    pub fn set_writable(&mut self, id: ListenerId, writable: bool) {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        listener.writable = writable;
        if writable {
            self.ready(id);
        } else {
            self.leave(id);
        }
    }

    /// Hands out what is due, in bounded work. `true` = there is more: call again after sending.
    #[must_use]
    pub fn poll(&mut self, now: Timestamp, out: &mut Vec<Out>) -> bool {
        let mut budget = Budget(self.limits.poll_bytes);
        let candidates = self.groups.candidates();
        for step in 0..candidates {
            let place = (self.next_group + step) % candidates;
            let Some(at) = self.groups.candidate(place) else {
                continue;
            };
            let durable = self.ring.newest();
            if self
                .groups
                .get(at)
                .is_some_and(|group| group.is_due(durable, now, &self.limits))
            {
                if budget.is_spent() {
                    self.next_group = place;
                    return true;
                }
                self.serve(at, now, out, &mut budget);
            }
        }
        self.groups.sleep();
        if self.progress_at.is_some_and(|time| now >= time) {
            self.progress_at = None;
            for at in 0..self.groups.places() {
                self.progress(at, now, out);
            }
        }
        self.next_group = 0;
        for _ in 0..self.ready.len() {
            if budget.is_spent() {
                return true;
            }
            if let Some(id) = self.ready.pop_front() {
                self.turn(id, now, out, &mut budget);
            }
        }
        let durable = self.ring.newest();
        !self.ready.is_empty()
            || self
                .groups
                .iter_candidates()
                .any(|group| group.is_due(durable, now, &self.limits))
    }

    /// When `poll` next has something to do though nothing happens. In the past = now.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if !self.ready.is_empty() {
            return Some(Timestamp(0.0));
        }
        let durable = self.ring.newest();
        let batches = self
            .groups
            .iter_candidates()
            .filter_map(|group| group.batch_deadline(durable, &self.limits));
        batches.chain(self.progress_at).min()
    }

    /// Brings one listener up to the newest durable seq right now, ahead of its group if need be, and tells it so. `false` = it could
    /// not (backlog, catch-up, output full, too much at once): send [`Fanout::mark_payload`] instead.
    #[must_use]
    pub fn flush(&mut self, id: ListenerId, now: Timestamp, out: &mut Vec<Out>) -> bool {
        let durable = self.ring.newest();
        let Some(listener) = self.listeners.get(&id) else {
            return true;
        };
        let (group, writable) = (listener.group, listener.writable);
        let Some(kind) = self.groups.get(group).map(|group| group.kind.clone()) else {
            return true;
        };
        let mut cursor = match listener.phase {
            Phase::Backlog { .. } | Phase::CatchUp { .. } => return false,
            Phase::Behind { cursor } if cursor == durable && listener.told == durable => {
                return true;
            }
            Phase::Greet { cursor } | Phase::Behind { cursor } | Phase::Joining { cursor } => {
                cursor
            }
            Phase::Live { .. } => {
                let group_told = self
                    .groups
                    .get(group)
                    .map(|group| (group.place(durable), group.told));
                let (cursor, told) = group_told.unwrap_or((durable, durable));
                if cursor == durable
                    && (listener.told.max(told) == durable || kind.format == Format::Flux)
                {
                    return true;
                }
                cursor
            }
        };
        if !writable || !self.ring.holds_after(cursor) {
            return false;
        }
        let new = matches!(listener.phase, Phase::Greet { .. });
        self.leave(id);
        if new {
            self.greet(id, &kind, cursor, now, out);
        }
        let mut bytes = 0;
        while cursor < durable && bytes <= FLUSH_BYTES_MAX {
            let Ok(cut) = self.cut(group, &kind, cursor, durable) else {
                break;
            };
            bytes += cut.bytes;
            cursor = cut.to;
            self.emit(id, &cut, now, out);
        }
        self.settle(id, cursor, now, out);
        cursor == durable
    }

    /// `{"epoch":E,"mark":S}` with the newest durable seq, for a native listener.
    #[must_use]
    pub fn mark_payload(&self, id: ListenerId) -> Option<Bytes> {
        let group = self.groups.get(self.listeners.get(&id)?.group)?;
        (group.kind.format == Format::Native)
            .then(|| payload::mark(&self.encoder.epoch, self.durable()))
    }

    /// The answer to a need. Call `poll` afterwards.
    pub fn page(&mut self, page: Page, now: Timestamp, out: &mut Vec<Out>) {
        let id = page.listener;
        let Some(listener) = self.listeners.get(&id) else {
            return;
        };
        let Some(kind) = self
            .groups
            .get(listener.group)
            .map(|group| group.kind.clone())
        else {
            return;
        };
        self.counters.store_pages += 1;
        let why = match (&page.next, &listener.phase) {
            (Next::Failed(why), _) => Some(why.clone()),
            (Next::BelowFloor(floor), Phase::CatchUp { cursor, .. }) => {
                let cursor = *cursor;
                self.set_floor(*floor);
                Some(self.stale(cursor, None))
            }
            // The log was cut while it was read, or is lost: what was not begun begins again, with the archive.
            (
                Next::BelowFloor(floor),
                Phase::Backlog {
                    stage: Stage::Log { after },
                    ..
                },
            ) => {
                let after = *after;
                self.set_floor(*floor);
                (after > Seq(0)).then(|| self.stale(after, None))
            }
            (Next::BelowFloor(floor), _) => Some(Refused::Unreadable {
                detail: format!("a backlog met the floor {floor} of the log"),
            }),
            (Next::Upto(upto), Phase::CatchUp { cursor, .. }) if upto <= cursor => {
                Some(Refused::Unreadable {
                    detail: format!("the store holds nothing after {cursor}"),
                })
            }
            (
                Next::Upto(upto),
                Phase::Backlog {
                    at,
                    stage: Stage::Log { after },
                    ..
                },
            ) if upto <= after && after < at => Some(Refused::Unreadable {
                detail: format!("the store holds nothing after {after}"),
            }),
            _ => None,
        };
        if let Some(why) = why {
            self.remove(id);
            out.push(Out::End { listener: id, why });
            return;
        }
        let Some(listener) = self.listeners.get_mut(&id) else {
            return;
        };
        match (&mut listener.phase, &page.next) {
            (Phase::Backlog { at, stage, reading }, next) if *reading => {
                let at = *at;
                *reading = false;
                let then = stage.after(&kind, at, next, &self.limits);
                if let Some(then) = then {
                    *stage = then;
                }
                if let Some(payload) = page.payload {
                    self.send(id, payload, page.entries, None, now, out);
                } else if kind.format == Format::Native
                    && now.0 >= listener.told_at.0 + self.limits.progress_interval
                {
                    let empty = payload::native(&self.encoder.epoch, None, payload::BACKLOG, b"");
                    self.send(id, Payload::One(empty), 0, None, now, out);
                }
                match then {
                    Some(_) => self.ready(id),
                    None => {
                        self.greet(id, &kind, at, now, out);
                        self.settle(id, at, now, out);
                    }
                }
            }
            (Phase::CatchUp { reading, .. }, Next::Upto(upto)) if *reading => {
                let upto = *upto;
                if let Some(payload) = page.payload {
                    self.send(id, payload, page.entries, Some(upto), now, out);
                } else if kind.format == Format::Native
                    && now.0 >= listener.told_at.0 + self.limits.progress_interval
                {
                    self.tell(id, upto, now, out);
                }
                self.settle(id, upto, now, out);
            }
            _ => {}
        }
    }

    /// Gauges and counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            listeners: self.listeners.len(),
            groups: self.groups.len(),
            ring_entries: self.ring.len(),
            ring_bytes: self.ring.bytes(),
            batches_encoded: self.encoder.batches_encoded,
            ..self.counters
        }
    }
}
