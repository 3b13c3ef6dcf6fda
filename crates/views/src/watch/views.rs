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
    hash::Hasher as _,
    sync::Arc,
};

use info::Projection;
use job::JobId;

use super::{
    Jobs, Limits, Made, Nodes, Watch,
    group::{Groups, Terms},
    log::ChangeLog,
    page::Page,
    view::{BodyView, Drawn, Held, Key, PageView, SNAPS_MAX, Snap, View, ViewId, Waiter},
};
use crate::{
    answer::{Answer, Body, HttpError, Kind, Reply},
    ask::{Ask, Viewer, What},
    statuses::{StatusesAsk, body, filter, rows::Rows},
};

/// Jobs that one asking looks at before it has to wait for more.
const ASK_JOBS_MAX: usize = 8_192;
/// Jobs that one round of [`Views::take_ready`] looks at.
const ROUND_JOBS_MAX: usize = 16_384;
/// Bytes of bodies that one round makes, about.
const ROUND_BYTES: usize = 16 << 20;
/// Most members that all pages have together, those that nobody waits for included.
const MEMBERS_MAX: usize = 4 << 20;

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
    free: Vec<ViewId>,
    by_key: HashMap<Arc<Key>, ViewId>,
    /// Views that a job is a member of, or that are about it.
    pub(super) by_job: HashMap<JobId, Vec<ViewId>>,
    pub(super) groups: Groups,
    /// Bodies about all jobs, and about nodes.
    pub(super) of_all_jobs: Vec<ViewId>,
    pub(super) of_nodes: Vec<ViewId>,
    waiting: HashMap<u64, ViewId>,
    idle: BTreeMap<u64, ViewId>,
    clock: u64,
    pub(super) ready: VecDeque<ViewId>,
    /// Replies to those whose query failed.
    failed: Vec<(u64, Reply)>,
    pub(super) log: ChangeLog,
    pub(super) rows: Rows,
    /// Ids of nodes are to be computed.
    pub(super) nodes_due: bool,
    epoch: Option<Arc<str>>,
    pub(super) life: u64,
    /// Up to here changes were told.
    pub(super) followed: u64,
    pub(super) members: usize,
    /// Bodies kept, oldest first.
    drawn: VecDeque<ViewId>,
    drawn_bytes: usize,
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
        while let Some((token, waiter)) = left.pop_first() {
            if out.len() >= budget {
                kept.insert(token, waiter);
                kept.append(&mut left);
                self.enqueue(id);
                break;
            }
            if !self.is_due(projection, id, &waiter) {
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

    // ---- views ---------------------------------------------------------------------------------------------------

    /// The journal goes on under another name.
    pub(super) fn note_life(&mut self, projection: &Projection) {
        let epoch = projection.cursor().map(|(_, epoch)| epoch);
        if self.epoch.as_deref() != epoch {
            self.life += u64::from(self.epoch.is_some());
            self.epoch = epoch.map(Into::into);
        }
    }

    fn view_of(&mut self, projection: &Projection, ask: &Ask) -> Result<ViewId, HttpError> {
        let key = match &ask.what {
            What::Statuses(query) | What::StatusesStream(query) => {
                Key::Page(ask.viewer.only(), query.clone())
            }
            What::Body(query) => {
                let viewer = if ask.viewer.owner {
                    Viewer::OWNER
                } else {
                    ask.viewer
                };
                Key::Body(viewer, query.clone())
            }
        };
        if let Some(&id) = self.by_key.get(&key) {
            return Ok(id);
        }
        self.make_room(MEMBERS_MAX)?;
        let key = Arc::new(key);
        let id = self.free.pop().unwrap_or_else(|| {
            self.views.push(None);
            ViewId::try_from(self.views.len() - 1).unwrap_or(ViewId::MAX)
        });
        let held = match &*key {
            Key::Page(only, query) => self.hold_page(projection, id, *only, query)?,
            Key::Body(_, query) => self.hold_body(id, query.watch(projection)),
        };
        let view = View {
            key: key.clone(),
            held,
            state_seq: 0,
            since: index(projection),
            waiters: BTreeMap::new(),
            queued: false,
            idle: None,
            bytes: 0,
            counted: false,
        };
        if let Some(place) = self.views.get_mut(id as usize) {
            *place = Some(Box::new(view));
        }
        self.by_key.insert(key, id);
        Ok(id)
    }

    fn hold_page(
        &mut self,
        projection: &Projection,
        id: ViewId,
        only: Option<u32>,
        query: &StatusesAsk,
    ) -> Result<Held, HttpError> {
        let list: Option<Arc<[JobId]>> = if query.nowhere {
            Some(Arc::new([]))
        } else {
            query.ids.clone()
        };
        let terms = Terms {
            filter: query.filter.clone(),
            children: query.include_children,
            only,
            reverse: query.reverse,
        };
        let mut page = Page::new(query.reverse, query.next_token, query.per_page);
        let jobs = projection.jobs();
        let known = match &list {
            Some(list) => Some(list.to_vec()),
            None => query
                .filter
                .as_ref()
                .and_then(|filter| filter::candidates(filter, projection)),
        };
        if let Some(ids) = known {
            let filtered = &mut self.stats.filtered;
            let records = ids.iter().filter_map(|&id| jobs.get(id));
            page.fill_from(records, &mut |record| {
                *filtered += 1;
                terms.belongs(projection, record)
            })
            .inspect_err(|_| self.free.push(id))?;
        }
        let on = list.is_none().then_some(id);
        let group = self.groups.join(terms, on);
        for &job in list.iter().flat_map(|list| list.iter()) {
            self.by_job.entry(job).or_default().push(id);
        }
        let mut held = PageView {
            page,
            group,
            shape: query.shape,
            list,
            before: None,
            drawn: None,
            snaps: VecDeque::new(),
        };
        self.note_moves(id, &mut held);
        Ok(Held::Page(Box::new(held)))
    }

    fn hold_body(&mut self, id: ViewId, watch: Watch) -> Held {
        match &watch.jobs {
            Jobs::None => {}
            Jobs::One(job) => self.by_job.entry(*job).or_default().push(id),
            Jobs::All => self.of_all_jobs.push(id),
        }
        if watch.nodes != Nodes::None {
            self.of_nodes.push(id);
        }
        Held::Body(Box::new(BodyView {
            watch,
            dirty: None,
            sign: None,
            made: None,
        }))
    }

    /// Notes which jobs a page gained and lost. Those of a list are found through the list.
    pub(super) fn note_moves(&mut self, id: ViewId, held: &mut PageView) {
        let (joined, left) = held.page.take_moves();
        self.members = (self.members + joined.len()).saturating_sub(left.len());
        if held.list.is_some() {
            return;
        }
        for job in joined {
            self.by_job.entry(job).or_default().push(id);
        }
        for job in left {
            self.unlink(job, id);
        }
    }

    fn unlink(&mut self, job: JobId, id: ViewId) {
        if let Some(views) = self.by_job.get_mut(&job) {
            if let Some(at) = views.iter().position(|other| *other == id) {
                views.swap_remove(at);
            }
            if views.is_empty() {
                self.by_job.remove(&job);
            }
        }
    }

    /// Lets go of views that nobody waits for until there is room.
    fn make_room(&mut self, members_max: usize) -> Result<(), HttpError> {
        while self.members > members_max
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.drop_view(oldest);
        }
        if self.members > members_max {
            return Err(HttpError::new(
                429,
                format!("too many jobs are watched: at most {members_max} may be; try again later"),
            ));
        }
        Ok(())
    }

    fn drop_view(&mut self, id: ViewId) {
        let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(&view.key);
        if let Some(stamp) = view.idle {
            self.idle.remove(&stamp);
        }
        match &mut view.held {
            Held::Page(held) => {
                let _members = held.page.clear();
                self.note_moves(id, held);
                for &job in held.list.iter().flat_map(|list| list.iter()) {
                    self.unlink(job, id);
                }
                self.groups.leave(held.group, id);
            }
            Held::Body(held) => {
                match &held.watch.jobs {
                    Jobs::None => {}
                    Jobs::One(job) => self.unlink(*job, id),
                    Jobs::All => self.of_all_jobs.retain(|other| *other != id),
                }
                if held.watch.nodes != Nodes::None {
                    self.of_nodes.retain(|other| *other != id);
                }
            }
        }
        self.drawn_bytes = self.drawn_bytes.saturating_sub(view.bytes);
        if view.counted {
            self.drawn.retain(|other| *other != id);
        }
        if view.queued {
            self.ready.retain(|other| *other != id);
        }
        self.free.push(id);
    }

    /// A query fails: everyone who waits for it is told, and it is let go.
    pub(super) fn fail(&mut self, id: ViewId, error: &HttpError) {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return;
        };
        for (token, _) in std::mem::take(&mut view.waiters) {
            self.waiting.remove(&token);
            self.failed.push((token, Err(error.clone())));
        }
        self.drop_view(id);
    }

    /// A view that nobody waits for is kept for a while, as one of a bounded number.
    fn rest(&mut self, id: ViewId) {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return;
        };
        if !view.waiters.is_empty() {
            return;
        }
        if let Some(stamp) = view.idle.take() {
            self.idle.remove(&stamp);
        }
        self.clock += 1;
        view.idle = Some(self.clock);
        self.idle.insert(self.clock, id);
        while self.idle.len() > self.limits.idle_views
            && let Some((_, oldest)) = self.idle.pop_first()
        {
            self.drop_view(oldest);
        }
    }

    pub(super) fn enqueue(&mut self, id: ViewId) {
        if let Some(Some(view)) = self.views.get_mut(id as usize)
            && !view.queued
        {
            view.queued = true;
            self.ready.push_back(id);
        }
    }

    // ---- states --------------------------------------------------------------------------------------------------

    /// Brings a view up to what is asked of it: a page is looked on until it is whole, and compared if all may have changed; a body that
    /// may have changed is made and compared. Whether that is done; if not, `budget` is used up.
    fn settle(
        &mut self,
        projection: &Projection,
        id: ViewId,
        budget: &mut usize,
    ) -> Result<bool, HttpError> {
        let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
            return Ok(false);
        };
        let settled = match &mut view.held {
            Held::Page(held) => self.settle_page(projection, id, held, budget),
            Held::Body(_) => self
                .settle_body(projection, &mut view)
                .map(|()| (true, None)),
        };
        let settled = settled.map(|(whole, changed)| {
            if let Some(seq) = changed {
                view.touch(seq);
            }
            whole
        });
        if let Some(place) = self.views.get_mut(id as usize) {
            *place = Some(view);
        }
        settled
    }

    fn settle_page(
        &mut self,
        projection: &Projection,
        id: ViewId,
        held: &mut PageView,
        budget: &mut usize,
    ) -> Result<(bool, Option<u64>), HttpError> {
        let terms = self.groups.terms(held.group);
        let filtered = &mut self.stats.filtered;
        let mut belongs = |record: &info::Record| match &terms {
            Some(terms) => {
                *filtered += 1;
                terms.belongs(projection, record)
            }
            None => Ok(false),
        };
        if let Some(list) = &held.list {
            if !held.page.is_whole() {
                let jobs = projection.jobs();
                let records = list.iter().filter_map(|&id| jobs.get(id));
                held.page.fill_from(records, &mut belongs)?;
            }
        } else {
            held.page.fill(projection, budget, &mut belongs)?;
        }
        self.note_moves(id, held);
        if !held.page.is_whole() {
            return Ok((false, None));
        }
        let Some(before) = held.before.take() else {
            return Ok((true, None));
        };
        let shape = held.shape;
        let now = held.page.shown_mut();
        let mut same = before.members.len() == now.len();
        for (old, now) in before.members.iter().zip(now) {
            same = same && old.id == now.id && old.at == now.at;
            if !same {
                break;
            }
            now.sign = old.sign;
            if touched(projection, now.id) > before.followed {
                now.sign = self
                    .rows
                    .get(projection, now.id)
                    .map_or(0, |row| row.sign(shape));
                same = old.sign != 0 && old.sign == now.sign;
            }
        }
        // What is another may have become so in the other list, or by a change after that.
        Ok((true, (!same).then_some(index(projection))))
    }

    fn settle_body(&mut self, projection: &Projection, view: &mut View) -> Result<(), HttpError> {
        let Held::Body(held) = &mut view.held else {
            return Ok(());
        };
        if held.dirty.is_none() && held.sign.is_some() {
            return Ok(());
        }
        let Key::Body(viewer, query) = &*view.key else {
            return Ok(());
        };
        let made = query.make(projection, *viewer)?;
        let sign = sign(&made);
        if held.sign.is_some_and(|old| old != sign)
            && let Some(seq) = held.dirty
        {
            view.state_seq = view.state_seq.max(seq);
        }
        held.dirty = None;
        held.sign = Some(sign);
        held.made = Some(made);
        Ok(())
    }

    /// Whether who has this must be answered now.
    fn is_due(&mut self, projection: &Projection, id: ViewId, waiter: &Waiter) -> bool {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return true;
        };
        let at = waiter.index;
        if at == 0 || at > index(projection) || at < view.state_seq || waiter.life != self.life {
            return true;
        }
        if at >= view.since {
            return false;
        }
        let due = match &view.held {
            Held::Page(held) => self.log.page_changed(projection, held, &view.key, at),
            Held::Body(held) => self.log.body_changed(&held.watch, at),
        };
        if !due {
            view.since = at;
        }
        due
    }

    // ---- replies -------------------------------------------------------------------------------------------------

    /// The reply to one who asked, from a view that is settled.
    fn reply(&mut self, projection: &Projection, id: ViewId, waiter: &Waiter) -> Reply {
        let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
            return Err(HttpError::new(500, "the query is not held any more"));
        };
        let from = view.same_since();
        let reply = match (&mut view.held, &*view.key) {
            (Held::Page(held), _) => Ok(draw(&mut self.rows, projection, held, from, waiter)),
            (Held::Body(held), key) => {
                let made = match (held.made.take(), key) {
                    (Some(made), _) => Ok(made),
                    (None, Key::Body(viewer, query)) => query.make(projection, *viewer),
                    (None, Key::Page(..)) => Err(HttpError::new(500, "a page is no body")),
                };
                made.map(|made| {
                    held.made = Some(made.clone());
                    (made.body, made.next_token, Kind::Whole)
                })
            }
        };
        self.keep(id, view);
        let (body, next_token, kind) = reply?;
        Ok(Answer {
            index: index(projection),
            next_token,
            body,
            kind,
        })
    }

    /// Puts a view back and counts what its bodies hold; the oldest bodies go when there is no room.
    fn keep(&mut self, id: ViewId, mut view: Box<View>) {
        let bytes = match &view.held {
            Held::Page(held) => held.drawn.as_ref().map_or(0, Drawn::bytes),
            Held::Body(held) => held.made.as_ref().map_or(0, |made| made.body.len()),
        };
        if bytes > 0 && !view.counted {
            view.counted = true;
            self.drawn.push_back(id);
        }
        self.drawn_bytes = (self.drawn_bytes + bytes).saturating_sub(view.bytes);
        view.bytes = bytes;
        if let Some(place) = self.views.get_mut(id as usize) {
            *place = Some(view);
        }
        while self.drawn_bytes > self.limits.cache_bytes / 2
            && let Some(oldest) = self.drawn.pop_front()
        {
            if let Some(Some(view)) = self.views.get_mut(oldest as usize) {
                self.drawn_bytes = self.drawn_bytes.saturating_sub(view.bytes);
                view.bytes = 0;
                view.counted = false;
                match &mut view.held {
                    Held::Page(held) => held.drawn = None,
                    Held::Body(held) => held.made = None,
                }
            }
        }
    }
}

impl Drawn {
    fn bytes(&self) -> usize {
        let deltas: usize = self.deltas.iter().map(|(_, body)| body.len()).sum();
        let of = |body: &Option<Body>| body.as_ref().map_or(0, Body::len);
        of(&self.whole) + of(&self.event) + deltas
    }
}

/// The newest entry by which a job's row may have become another.
fn touched(projection: &Projection, id: JobId) -> u64 {
    let jobs = projection.jobs();
    let own = jobs.get(id).map_or(u64::MAX, info::Record::touched_seq);
    let children = jobs.children(id);
    own.max(children.map_or(0, info::Children::changed_seq))
}

/// The body that one who asked gets, and the next page.
fn draw(
    rows: &mut Rows,
    projection: &Projection,
    held: &mut PageView,
    from: u64,
    waiter: &Waiter,
) -> (Body, Option<Arc<str>>, Kind) {
    let shape = held.shape;
    let mut drawn = held.drawn.take().unwrap_or_default();
    let snap = held.snaps.iter().find(|snap| {
        snap.from <= waiter.index && snap.until.is_none_or(|until| waiter.index < until)
    });
    let base = snap
        .filter(|_| waiter.stream && waiter.index > 0)
        .map(|snap| snap.from);
    let ready = match (waiter.stream, base) {
        (false, _) => drawn.whole.clone(),
        (true, None) => drawn.event.clone(),
        (true, Some(base)) => drawn
            .deltas
            .iter()
            .find(|(from, _)| *from == base)
            .map(|(_, body)| body.clone()),
    };
    let next_of = |held: &PageView, rows: usize| {
        let member = match held.page.shown().get(rows) {
            Some(cut) => Some(cut),
            None => held.page.next(),
        };
        member.map(|member| Arc::<str>::from(held.page.seq(member.at).to_string()))
    };
    let kind = if base.is_some() {
        Kind::Delta
    } else {
        Kind::Whole
    };
    if let Some(body) = ready {
        let next = next_of(held, drawn.rows);
        held.drawn = Some(drawn);
        return (body, next, kind);
    }
    let made = body::rows_of(rows, projection, held.page.shown_mut(), shape);
    drawn.rows = made.len();
    let next = next_of(held, drawn.rows);
    let body = match (waiter.stream, base) {
        (false, _) => {
            let body = body::whole(&made, shape);
            drawn.whole = Some(body.clone());
            body
        }
        (true, None) => {
            let body = body::event(&made, shape, next.as_deref());
            drawn.event = Some(body.clone());
            body
        }
        (true, Some(base)) => {
            let old = held.snaps.iter().find(|snap| snap.from == base);
            let old = old.map_or(&[][..], |snap| &snap.members);
            let now = held.page.shown().get(..made.len()).unwrap_or_default();
            let body = body::delta(&made, old, now, shape, next.as_deref());
            drawn.deltas.push((base, body.clone()));
            body
        }
    };
    if waiter.stream && held.snaps.iter().all(|snap| snap.until.is_some()) {
        let now = held.page.shown().get(..made.len()).unwrap_or_default();
        held.snaps.push_back(Snap {
            from,
            until: None,
            members: now.into(),
        });
        while held.snaps.len() > SNAPS_MAX {
            held.snaps.pop_front();
        }
    }
    held.drawn = Some(drawn);
    (body, next, kind)
}

/// What a body says, as a number.
fn sign(made: &Made) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    for piece in made.body.pieces() {
        hasher.write(piece);
    }
    if let Some(token) = &made.next_token {
        hasher.write_u8(0);
        hasher.write(token.as_bytes());
    }
    hasher.finish()
}
