//! What one fold changed, and which views it touches.
//!
//! ```text
//!  changed job ──► views it is a member of, or that are about it ──► went, moved, another row
//!              ──► groups: asked once whether it belongs ──► pages with its place in what they looked at ──► came
//! ```
//! A job whose status changed has the greatest place of all: it enters first pages, and last ones that are not full. For others only what
//! lies between the first and the last place of a page matters.

use std::{collections::HashMap, sync::Arc};

use info::{Changes, JobChange, Projection, What};
use job::JobId;

use super::{
    Jobs, Nodes, Watch,
    group::{GroupId, Terms},
    log::ChangeLog,
    page::{Met, place},
    view::{Before, Held, Key, PageView, ViewId},
    views::{Views, index},
};
use crate::{answer::HttpError, statuses::rows::Rows};

/// One job that changed, whatever happened to it in between.
#[derive(Debug, Clone, Copy)]
struct Change {
    id: JobId,
    seq: u64,
    before: Option<u64>,
    /// Its place in the order of modification as it is now.
    now: Option<u64>,
    what: What,
}

/// Whether each changed job belongs to each group, as far as it was asked.
#[derive(Debug, Default)]
struct Memo {
    asked: HashMap<GroupId, Vec<Option<bool>>>,
    filtered: u64,
}

impl Memo {
    fn belongs(
        &mut self,
        projection: &Projection,
        group: GroupId,
        terms: &Terms,
        changes: &[Change],
        at: usize,
    ) -> Result<bool, HttpError> {
        let asked = self.asked.entry(group).or_default();
        if asked.is_empty() {
            asked.resize(changes.len(), None);
        }
        if let Some(Some(known)) = asked.get(at) {
            return Ok(*known);
        }
        let record = changes
            .get(at)
            .and_then(|change| projection.jobs().get(change.id));
        let belongs = match record {
            Some(record) => {
                self.filtered += 1;
                terms.belongs(projection, record, &mut 0)?
            }
            None => false,
        };
        if let Some(place) = asked.get_mut(at) {
            *place = Some(belongs);
        }
        Ok(belongs)
    }
}

impl Views {
    /// What folds changed; to be told after each, before anything is asked of the new state.
    pub fn changed(&mut self, projection: &Projection, changes: &Changes) {
        if changes.reset {
            self.reset(projection);
            self.nodes_due = self.rows.know_nodes(projection);
            return;
        }
        self.followed = projection.applied();
        if changes.is_empty() {
            return;
        }
        self.log.push(changes);
        self.nodes_due |= !changes.nodes.is_empty();
        let jobs = coalesce(projection, &changes.jobs);
        for change in &jobs {
            if seen(change.what) {
                self.rows.dirty(projection, change.id);
            }
        }
        let mut memo = Memo::default();
        self.members_changed(projection, &jobs, &mut memo);
        self.jobs_entered(projection, &jobs, &mut memo);
        self.stats.filtered += memo.filtered;
        self.bodies_changed(&jobs, changes);
    }

    /// Jobs that pages have, or that bodies are about.
    fn members_changed(&mut self, projection: &Projection, jobs: &[Change], memo: &mut Memo) {
        for (at, change) in jobs.iter().enumerate() {
            let Some(views) = self.by_job.get(&change.id) else {
                continue;
            };
            for id in views.clone() {
                let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
                    continue;
                };
                let mut met = Ok(false);
                let waited = !view.waiters.is_empty();
                match &mut view.held {
                    Held::Body(held) => {
                        held.dirty = Some(held.dirty.unwrap_or(0).max(change.seq));
                        if waited && !view.queued {
                            view.queued = true;
                            self.ready.push_back(id);
                        }
                    }
                    Held::Page(held) if seen(change.what) => {
                        met = match self.groups.terms(held.group) {
                            Some(terms) => memo
                                .belongs(projection, held.group, &terms, jobs, at)
                                .map(|belongs| {
                                    let rows = waited.then_some(&mut self.rows);
                                    apply(rows, projection, held, change, belongs)
                                }),
                            None => Ok(false),
                        };
                        self.note_moves(id, held);
                    }
                    Held::Page(_) => {}
                }
                if let Some(place) = self.views.get_mut(id as usize) {
                    *place = Some(view);
                }
                match met {
                    Ok(true) => self.touch(id, change.seq),
                    Ok(false) => {}
                    Err(error) => self.fail(id, &error),
                }
            }
        }
    }

    /// Jobs that come to pages.
    fn jobs_entered(&mut self, projection: &Projection, jobs: &[Change], memo: &mut Memo) {
        let mut orders = [false, true].map(|reverse| {
            let places = jobs
                .iter()
                .enumerate()
                .filter(|(_, change)| seen(change.what));
            let mut places: Vec<(u64, usize)> = places
                .filter_map(|(at, change)| Some((place(reverse, change.now?), at)))
                .collect();
            places.sort_unstable();
            places
        });
        let [down, up] = &mut orders;
        let mut come: Vec<(ViewId, Arc<Terms>, GroupId, usize, usize)> = Vec::new();
        for (group, terms, pages) in self.groups.iter() {
            let places = if terms.reverse { &*up } else { &*down };
            let mut shared = None;
            for &id in pages {
                let Some(Some(view)) = self.views.get(id as usize) else {
                    continue;
                };
                let Held::Page(held) = &view.held else {
                    continue;
                };
                let (start, looked) = held.page.looked();
                let first = places.partition_point(|(place, _)| *place < start);
                let end = places.partition_point(|(place, _)| *place < looked);
                if first < end {
                    let terms = shared.get_or_insert_with(|| Arc::new(terms.clone()));
                    come.push((id, terms.clone(), group, first, end));
                }
            }
        }
        for (id, terms, group, first, end) in come {
            let places = if terms.reverse { &*up } else { &*down };
            let places = places.get(first..end).unwrap_or_default();
            let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
                continue;
            };
            let mut touched = None;
            let mut failed = None;
            if let Held::Page(held) = &mut view.held {
                for &(place, at) in places {
                    if held.page.leaves_out(place) {
                        break;
                    }
                    let Some(change) = jobs.get(at) else { continue };
                    if held.page.has(change.id, place) {
                        continue;
                    }
                    match memo.belongs(projection, group, &terms, jobs, at) {
                        Ok(false) => {}
                        Ok(true) => {
                            if held.page.insert(change.id, place) == Met::Membership {
                                touched = touched.max(Some(change.seq));
                            }
                        }
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                    }
                }
                self.note_moves(id, held);
            }
            if let Some(place) = self.views.get_mut(id as usize) {
                *place = Some(view);
            }
            if let Some(error) = failed {
                self.fail(id, &error);
            } else if let Some(seq) = touched {
                self.touch(id, seq);
            }
        }
    }

    /// Bodies about all jobs, or about nodes.
    fn bodies_changed(&mut self, jobs: &[Change], changes: &Changes) {
        if let Some(seq) = jobs.iter().map(|change| change.seq).max() {
            for id in self.of_all_jobs.clone() {
                self.soil(id, seq);
            }
        }
        let Some(seq) = changes.nodes.iter().map(|(_, seq)| *seq).max() else {
            return;
        };
        for id in self.of_nodes.clone() {
            let Some(Some(view)) = self.views.get(id as usize) else {
                continue;
            };
            let Held::Body(held) = &view.held else {
                continue;
            };
            let concerned = match &held.watch.nodes {
                Nodes::None => false,
                Nodes::All => true,
                Nodes::One(name) => changes.nodes.iter().any(|(changed, _)| changed == name),
            };
            if concerned {
                self.soil(id, seq);
            }
        }
    }

    /// A body may be another one.
    fn soil(&mut self, id: ViewId, seq: u64) {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return;
        };
        if let Held::Body(held) = &mut view.held {
            held.dirty = Some(held.dirty.unwrap_or(0).max(seq));
        }
        if !view.waiters.is_empty() {
            self.enqueue(id);
        }
    }

    /// What a view shows is another.
    fn touch(&mut self, id: ViewId, seq: u64) {
        let Some(Some(view)) = self.views.get_mut(id as usize) else {
            return;
        };
        view.touch(seq);
        self.stats.touched += 1;
        if !view.waiters.is_empty() {
            self.enqueue(id);
        }
    }

    /// Another list was swapped in, or too much changed: each page is looked through again and compared with what it showed.
    fn reset(&mut self, projection: &Projection) {
        self.note_life(projection);
        let seq = index(projection);
        let followed = std::mem::replace(&mut self.followed, projection.applied());
        self.log.reset(projection.applied());
        self.rows.dirty_all(projection);
        for id in 0..self.views.len() {
            let Ok(id) = ViewId::try_from(id) else { break };
            let Some(mut view) = self.views.get_mut(id as usize).and_then(Option::take) else {
                continue;
            };
            match &mut view.held {
                Held::Page(held) => {
                    let shown = held.page.shown().to_vec();
                    let _members = held.page.clear();
                    // What was not yet compared stays what it is compared with.
                    held.before.get_or_insert(Before {
                        members: shown,
                        followed,
                    });
                    held.drawn = None;
                    self.note_moves(id, held);
                }
                Held::Body(held) => held.dirty = Some(seq),
            }
            let waited = !view.waiters.is_empty();
            if let Some(place) = self.views.get_mut(id as usize) {
                *place = Some(view);
            }
            if waited {
                self.enqueue(id);
            }
        }
    }
}

/// Whether a body of statuses can be another by this.
fn seen(what: What) -> bool {
    what.without(What::NOTES) != What::default()
}

/// One change a job, in the order of their first.
fn coalesce(projection: &Projection, changes: &[JobChange]) -> Vec<Change> {
    let mut known: HashMap<JobId, usize> = HashMap::with_capacity(changes.len());
    let mut list: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes {
        let at = *known.entry(change.id).or_insert(list.len());
        match list.get_mut(at) {
            Some(earlier) => {
                earlier.seq = earlier.seq.max(change.seq);
                earlier.what = earlier.what.and(change.what);
            }
            None => {
                let record = projection.jobs().get(change.id);
                let listed = record.filter(|record| record.status().is_some());
                list.push(Change {
                    id: change.id,
                    seq: change.seq,
                    before: change.before.map(info::ModifyKey::seq),
                    now: listed.map(info::Record::modify_seq),
                    what: change.what,
                });
            }
        }
    }
    list
}

/// Brings a page up to date with one job it had, or lists; whether it shows something else now. With `rows` a row that says the same
/// as before is found out; without, it counts as changed.
fn apply(
    rows: Option<&mut Rows>,
    projection: &Projection,
    held: &mut PageView,
    change: &Change,
    belongs: bool,
) -> bool {
    let page = &mut held.page;
    let before = change.before.map(|seq| page.place(seq));
    let now = change.now.filter(|_| belongs).map(|seq| page.place(seq));
    let here = change.now.map(|seq| page.place(seq));
    let found = [before, here]
        .into_iter()
        .flatten()
        .find(|at| page.has(change.id, *at))
        .map_or_else(
            // A list is asked about jobs it does not show; any other page has those it is asked about.
            || {
                held.list
                    .is_none()
                    .then(|| page.find(change.id, None))
                    .flatten()
            },
            |at| page.find(change.id, Some(at)),
        );
    let shown = page.shown().len();
    match (found, now) {
        (Some(index), Some(at)) if page.members().get(index).is_some_and(|it| it.at == at) => {
            let old = page.members().get(index).map_or(0, |member| member.sign);
            let changed = index < shown && row_changed(rows, projection, held, change, old);
            if changed {
                held.page.forget_sign(index);
            }
            changed
        }
        (Some(index), now) => {
            let went = page.remove(index);
            let came = now.map_or(Met::Nothing, |at| page.insert(change.id, at));
            went == Met::Membership || came == Met::Membership
        }
        (None, Some(at)) => page.insert(change.id, at) == Met::Membership,
        (None, None) => false,
    }
}

fn row_changed(
    rows: Option<&mut Rows>,
    projection: &Projection,
    held: &PageView,
    change: &Change,
    old: u64,
) -> bool {
    let surely = What::STATUS.and(What::CREATED).and(What::REMOVED);
    match rows {
        Some(rows) if old != 0 && !change.what.intersects(surely) => {
            let row = rows.get(projection, change.id);
            row.is_none_or(|row| row.sign(held.shape) != old)
        }
        _ => true,
    }
}

impl ChangeLog {
    /// Whether a page may have been another at `at`, or is known not to.
    pub(super) fn page_changed(
        &self,
        projection: &Projection,
        held: &PageView,
        key: &Key,
        at: u64,
    ) -> bool {
        let Some((changes, _)) = self.since(at) else {
            return true;
        };
        let Key::Page(only, query) = key else {
            return true;
        };
        for change in changes {
            if !seen(change.what) || only.is_some_and(|user| user != change.userid) {
                continue;
            }
            if let Some(list) = &held.list
                && list.binary_search(&change.id).is_err()
            {
                continue;
            }
            if let Some(record) = projection.jobs().get(change.id) {
                if record.parent().is_some() && !query.include_children {
                    continue;
                }
                let place = held.page.place(record.modify_seq());
                let shown = held.page.shown();
                if shown.last().is_some_and(|last| place <= last.at)
                    && held.page.has(change.id, place)
                {
                    return true;
                }
            }
            // Where it was at `at`; a later place it only had afterwards.
            if (1..=at).contains(&change.before) && held.page.covers(held.page.place(change.before))
            {
                return true;
            }
        }
        false
    }

    /// The same of another body.
    pub(super) fn body_changed(&self, watch: &Watch, at: u64) -> bool {
        let Some((mut jobs, mut nodes)) = self.since(at) else {
            return true;
        };
        let of_jobs = match &watch.jobs {
            Jobs::None => false,
            Jobs::All => jobs.next().is_some(),
            Jobs::One(id) => jobs.any(|change| change.id == *id),
        };
        of_jobs
            || match &watch.nodes {
                Nodes::None => false,
                Nodes::All => nodes.next().is_some(),
                Nodes::One(name) => nodes.any(|changed| changed == name),
            }
    }
}
