//! Which queries are held: found or made, found again by the jobs they show, let go of when nobody waits for them any more.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use info::Projection;
use job::JobId;

use super::{
    Jobs, Nodes, Watch,
    group::Terms,
    page::Page,
    view::{BodyView, Held, Key, PageView, View, ViewId},
    views::Views,
};
use crate::{
    answer::HttpError,
    ask::{Ask, Viewer, What},
    statuses::{StatusesAsk, filter},
};

/// Most members that all pages have together, those that nobody waits for included.
const MEMBERS_MAX: usize = 4 << 20;
/// Looks at the jobs that a list or an index names, when a page is made; what is left is looked at as for any other page.
const CANDIDATE_LOOKS_MAX: usize = 32_768;

impl Views {
    /// The journal goes on under another name.
    pub(super) fn note_life(&mut self, projection: &Projection) {
        let epoch = projection.cursor().map(|(_, epoch)| epoch);
        if self.epoch.as_deref() != epoch {
            self.life += u64::from(self.epoch.is_some());
            self.epoch = epoch.map(Into::into);
        }
    }

    pub(super) fn view_of(
        &mut self,
        projection: &Projection,
        ask: &Ask,
    ) -> Result<ViewId, HttpError> {
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
        let asks_bytes = key.held_bytes();
        self.make_room(
            MEMBERS_MAX,
            self.limits.asks_bytes.saturating_sub(asks_bytes),
        )?;
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
            asks_bytes,
            state_seq: 0,
            since: self.followed,
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
        self.asks_bytes += asks_bytes;
        Ok(id)
    }

    pub(super) fn hold_page(
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
            let mut budget = CANDIDATE_LOOKS_MAX;
            page.fill_from(records, &mut budget, &mut |record, looks| {
                *filtered += 1;
                terms.belongs(projection, record, looks)
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

    pub(super) fn hold_body(&mut self, id: ViewId, watch: Watch) -> Held {
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
    fn make_room(&mut self, members_max: usize, asks_max: usize) -> Result<(), HttpError> {
        while (self.members > members_max || self.asks_bytes > asks_max)
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
        if self.asks_bytes > asks_max {
            let text = "too many filters and lists of jobs are watched; try again later";
            return Err(HttpError::new(429, text));
        }
        Ok(())
    }

    pub(super) fn drop_view(&mut self, id: ViewId) {
        let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        self.by_key.remove(&view.key);
        self.asks_bytes = self.asks_bytes.saturating_sub(view.asks_bytes);
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
    pub(super) fn rest(&mut self, id: ViewId) {
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
}
