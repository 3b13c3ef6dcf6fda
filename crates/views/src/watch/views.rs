//! All live queries, and everyone who waits.
//!
//! ```text
//!  ask ──► view (found or made) ──► whole? ──► must it be answered? ──► reply, or a waiter
//!                                     │no                                   ▲
//!                                     ▼                                     │
//!  changed ──► touched views ──► ready ──► take_ready: looked on, compared, drawn once
//! ```
//! Who has index N of a view is answered at once when N is 0, ahead of the newest, or of another life of the journal; when the view
//! changed after N; when the view was not followed since N and the log cannot tell, or says that something on the page changed. A view stays
//! for some time after its last waiter left, so that a client that comes back is answered exactly.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use info::Projection;
use job::JobId;

use super::{
    Limits,
    group::Groups,
    log::ChangeLog,
    view::{Held, Key, View, ViewId, Waiter},
};
use crate::{
    answer::{HttpError, Reply},
    ask::{Ask, What},
    statuses::rows::Rows,
};

/// Jobs that one asking looks at before it has to wait for more.
const ASK_JOBS_MAX: usize = 8_192;
/// Jobs that one round of [`Views::take_ready`] looks at.
const ROUND_JOBS_MAX: usize = 16_384;
/// Bytes of bodies that one round makes, about.
const ROUND_BYTES: usize = 16 << 20;

/// Figures of [`Views`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Distinct queries held.
    pub views: usize,
    /// … that nobody waits for.
    pub idle: usize,
    /// Requests that wait.
    pub waiters: usize,
    /// Changes in the log.
    pub log: usize,
    /// Bytes of rows and bodies kept.
    pub cache_bytes: usize,
    /// Bytes that what is asked takes: filters and lists of jobs.
    pub asks_bytes: usize,
    /// Views that a change touched, ever.
    pub touched: u64,
    /// Waiters answered because of a change, ever.
    pub woken: u64,
    /// Rows encoded, ever.
    pub rows_made: u64,
    /// Times a filter was asked about a job, ever.
    pub filtered: u64,
}

/// All live queries and those who wait.
#[derive(Debug)]
pub struct Views {
    pub(super) limits: Limits,
    pub(super) views: Vec<Option<Box<View>>>,
    pub(super) free: Vec<ViewId>,
    pub(super) by_key: HashMap<Arc<Key>, ViewId>,
    /// Views that a job is a member of, or that are about it.
    pub(super) by_job: HashMap<JobId, Vec<ViewId>>,
    pub(super) groups: Groups,
    /// Bodies about all jobs, and about nodes.
    pub(super) of_all_jobs: Vec<ViewId>,
    pub(super) of_nodes: Vec<ViewId>,
    pub(super) waiting: HashMap<u64, ViewId>,
    pub(super) idle: BTreeMap<u64, ViewId>,
    pub(super) clock: u64,
    pub(super) ready: VecDeque<ViewId>,
    /// Replies to those whose query failed.
    pub(super) failed: Vec<(u64, Reply)>,
    pub(super) log: ChangeLog,
    pub(super) rows: Rows,
    /// Ids of nodes are to be computed.
    pub(super) nodes_due: bool,
    pub(super) epoch: Option<Arc<str>>,
    pub(super) life: u64,
    /// Up to here changes were told.
    pub(super) followed: u64,
    pub(super) members: usize,
    /// Bytes that what is asked takes, of all views.
    pub(super) asks_bytes: usize,
    /// Bodies kept, oldest first.
    pub(super) drawn: VecDeque<ViewId>,
    pub(super) drawn_bytes: usize,
    pub(super) stats: Stats,
}

/// The index of the state as it is.
pub(super) fn index(projection: &Projection) -> u64 {
    projection.applied().max(1)
}

impl Views {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            views: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            by_job: HashMap::new(),
            groups: Groups::default(),
            of_all_jobs: Vec::new(),
            of_nodes: Vec::new(),
            waiting: HashMap::new(),
            idle: BTreeMap::new(),
            clock: 0,
            ready: VecDeque::new(),
            failed: Vec::new(),
            log: ChangeLog::new(limits.log),
            rows: Rows::new(limits.cache_bytes / 2),
            nodes_due: false,
            epoch: None,
            life: 1,
            followed: 0,
            members: 0,
            asks_bytes: 0,
            drawn: VecDeque::new(),
            drawn_bytes: 0,
            stats: Stats::default(),
        }
    }

    /// Figures.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            views: self.by_key.len(),
            idle: self.idle.len(),
            waiters: self.waiting.len(),
            log: self.log.len(),
            cache_bytes: self.rows.heap_bytes() + self.drawn_bytes,
            asks_bytes: self.asks_bytes,
            rows_made: self.rows.made(),
            ..self.stats
        }
    }

    /// Asks. `None`: the reply comes from [`Views::take_ready`], [`Views::expire`] or [`Views::close`] under this token.
    #[must_use]
    pub fn ask(&mut self, projection: &Projection, ask: &Ask, token: u64) -> Option<Reply> {
        if !projection.is_served() {
            return Some(Err(HttpError::new(500, "No cluster leader")));
        }
        self.log.begin(projection.applied());
        if self.followed == 0 {
            self.followed = index(projection);
        }
        self.note_life(projection);
        let waiter = Waiter {
            index: ask.index,
            life: match &ask.epoch {
                Some(epoch) if self.epoch.as_ref() != Some(epoch) => 0,
                _ => self.life,
            },
            stream: matches!(ask.what, What::StatusesStream(_)),
        };
        let id = match self.view_of(projection, ask) {
            Ok(id) => id,
            Err(error) => return Some(Err(error)),
        };
        let mut budget = ASK_JOBS_MAX;
        let whole = match self.settle(projection, id, &mut budget) {
            Ok(whole) => whole,
            Err(error) => {
                self.fail(id, &error);
                return Some(Err(error));
            }
        };
        if whole && self.is_due(projection, id, &waiter) {
            let reply = self.reply(projection, id, &waiter);
            self.rest(id);
            return Some(reply);
        }
        if self.waiting.len() >= self.limits.waiters {
            self.rest(id);
            let text = format!(
                "too many requests wait: {} do, at most {} may; try again later",
                self.waiting.len(),
                self.limits.waiters
            );
            return Some(Err(HttpError::new(429, text)));
        }
        let view = self.views.get_mut(id as usize)?.as_mut()?;
        if let Some(stamp) = view.idle.take() {
            self.idle.remove(&stamp);
        }
        let mut waiter = waiter;
        if whole {
            // What it has is what there is now, though in between there may have been something else.
            waiter.index = waiter.index.max(self.followed);
        }
        view.waiters.insert(token, waiter);
        if let Held::Page(held) = &mut view.held
            && whole
        {
            self.rows
                .sign(projection, held.page.shown_mut(), held.shape);
        }
        self.waiting.insert(token, id);
        if !whole {
            self.enqueue(id);
        }
        None
    }

    /// Computes the ids of all nodes now instead of a few at a time.
    pub fn know_nodes(&mut self, projection: &Projection) {
        while self.rows.know_nodes(projection) {}
        self.nodes_due = false;
    }

    /// Who waits under this token is gone.
    pub fn cancel(&mut self, token: u64) {
        let _gone = self.take_waiter(token);
    }

    fn take_waiter(&mut self, token: u64) -> Option<(ViewId, Waiter)> {
        let id = self.waiting.remove(&token)?;
        let view = self.views.get_mut(id as usize)?.as_mut()?;
        let waiter = view.waiters.remove(&token)?;
        self.rest(id);
        Some((id, waiter))
    }

    /// The time of who waits under this token is up: the body as it is now. `None`: nobody waits under it any more, or the reply
    /// is about to come from [`Views::take_ready`].
    #[must_use]
    pub fn expire(&mut self, projection: &Projection, token: u64) -> Option<Reply> {
        let id = *self.waiting.get(&token)?;
        let mut budget = ASK_JOBS_MAX;
        match self.settle(projection, id, &mut budget) {
            Ok(true) => {
                let (id, waiter) = self.take_waiter(token)?;
                // What it has is what there is, so that a stream is told nothing new.
                Some(self.reply(projection, id, &waiter))
            }
            Ok(false) => {
                let view = self.views.get_mut(id as usize)?.as_mut()?;
                if let Some(waiter) = view.waiters.get_mut(&token) {
                    waiter.index = 0;
                }
                self.enqueue(id);
                None
            }
            Err(error) => {
                let _one_of_them = self.take_waiter(token);
                self.fail(id, &error);
                Some(Err(error))
            }
        }
    }

    /// Whether [`Views::take_ready`] has something to do.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.failed.is_empty() || self.nodes_due || self.rows.is_behind()
    }

    /// Replies that became due, at most `budget` of them but for those of queries that failed. Fewer do not mean that there are no more:
    /// see [`Views::has_ready`].
    #[must_use]
    pub fn take_ready(&mut self, projection: &Projection, budget: usize) -> Vec<(u64, Reply)> {
        if self.nodes_due {
            self.nodes_due = self.rows.know_nodes(projection);
        }
        if self.ready.is_empty() {
            self.rows.write_ahead(projection);
        }
        let mut out = std::mem::take(&mut self.failed);
        let mut jobs = ROUND_JOBS_MAX;
        let mut bytes = ROUND_BYTES;
        let mut turns = self.ready.len();
        while out.len() < budget && jobs > 0 && turns > 0 {
            turns -= 1;
            let Some(id) = self.ready.pop_front() else {
                break;
            };
            if let Some(Some(view)) = self.views.get_mut(id as usize) {
                view.queued = false;
            }
            match self.settle(projection, id, &mut jobs) {
                Ok(true) => {}
                Ok(false) => {
                    self.enqueue(id);
                    continue;
                }
                Err(error) => {
                    self.fail(id, &error);
                    out.append(&mut self.failed);
                    continue;
                }
            }
            let made = self.answer(projection, id, budget, &mut out);
            bytes = bytes.saturating_sub(made);
            if bytes == 0 {
                break;
            }
        }
        out
    }

    /// Answers those of a view that are due; bytes that were made for it.
    fn answer(
        &mut self,
        projection: &Projection,
        id: ViewId,
        budget: usize,
        out: &mut Vec<(u64, Reply)>,
    ) -> usize {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return 0;
        };
        let mut left = std::mem::take(&mut view.waiters);
        let before = self.drawn_bytes;
        let mut kept = BTreeMap::new();
        let mut shared: Option<Reply> = None;
        while let Some((token, mut waiter)) = left.pop_first() {
            if out.len() >= budget {
                kept.insert(token, waiter);
                kept.append(&mut left);
                self.enqueue(id);
                break;
            }
            if !self.is_due(projection, id, &waiter) {
                waiter.index = waiter.index.max(self.followed);
                kept.insert(token, waiter);
                continue;
            }
            let reply = match &shared {
                Some(reply) if !waiter.stream => reply.clone(),
                _ => self.reply(projection, id, &waiter),
            };
            if !waiter.stream {
                shared = Some(reply.clone());
            }
            self.waiting.remove(&token);
            self.stats.woken += 1;
            out.push((token, reply));
        }
        if let Some(Some(view)) = self.views.get_mut(id as usize) {
            view.waiters.append(&mut kept);
        }
        self.rest(id);
        self.drawn_bytes.saturating_sub(before)
    }

    /// The end: everyone who waits, with the body as it is.
    #[must_use]
    pub fn close(&mut self, projection: &Projection) -> Vec<(u64, Reply)> {
        let mut out = std::mem::take(&mut self.failed);
        let tokens: Vec<u64> = self.waiting.keys().copied().collect();
        for token in tokens {
            let reply = self.expire(projection, token);
            out.append(&mut self.failed);
            if let Some(reply) = reply {
                out.push((token, reply));
            } else if self.take_waiter(token).is_some() {
                out.push((
                    token,
                    Err(HttpError::new(503, "the server is shutting down")),
                ));
            }
        }
        out
    }
}
