//! What a held query is now: looked on until it is whole, compared where all may have changed, and whether that is another than what
//! somebody has.

use std::hash::Hasher as _;

use info::Projection;
use job::JobId;

use super::{
    Jobs, Made,
    view::{Held, Key, PageView, View, ViewId, Waiter},
    views::{Views, index},
};
use crate::answer::HttpError;

/// What making a body that is about few jobs takes, in looks.
const BODY_LOOKS: usize = 64;

impl Views {
    /// Brings a view up to what is asked of it: a page is looked on until it is whole, and compared if all may have changed; a body that
    /// may have changed is made and compared. Whether that is done; if not, `budget` is used up.
    pub(super) fn settle(
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
                .settle_body(projection, &mut view, budget)
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
        let mut belongs = |record: &info::Record, looks: &mut usize| match &terms {
            Some(terms) => {
                *filtered += 1;
                terms.belongs(projection, record, looks)
            }
            None => Ok(false),
        };
        if let Some(list) = &held.list {
            if !held.page.is_whole() {
                let jobs = projection.jobs();
                let records = list.iter().filter_map(|&id| jobs.get(id));
                held.page.fill_from(records, budget, &mut belongs)?;
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

    fn settle_body(
        &mut self,
        projection: &Projection,
        view: &mut View,
        budget: &mut usize,
    ) -> Result<(), HttpError> {
        let Held::Body(held) = &mut view.held else {
            return Ok(());
        };
        if held.dirty.is_none() && held.sign.is_some() {
            return Ok(());
        }
        let Key::Body(viewer, query) = &*view.key else {
            return Ok(());
        };
        // It may have looked at all jobs: others have their turn before the next one that may.
        *budget = match held.watch.jobs {
            Jobs::All => 0,
            Jobs::One(_) | Jobs::None => budget.saturating_sub(BODY_LOOKS),
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
    pub(super) fn is_due(&self, projection: &Projection, id: ViewId, waiter: &Waiter) -> bool {
        let Some(Some(view)) = self.views.get(id as usize) else {
            return true;
        };
        let at = waiter.index;
        if at == 0 || at > index(projection) || at < view.state_seq || waiter.life != self.life {
            return true;
        }
        if at >= view.since {
            return false;
        }
        match &view.held {
            Held::Page(held) => self.log.page_changed(projection, held, &view.key, at),
            Held::Body(held) => self.log.body_changed(&held.watch, at),
        }
    }
}

/// The newest entry by which a job's row may have become another.
fn touched(projection: &Projection, id: JobId) -> u64 {
    let jobs = projection.jobs();
    let own = jobs.get(id).map_or(u64::MAX, info::Record::touched_seq);
    let children = jobs.children(id);
    own.max(children.map_or(0, info::Children::changed_seq))
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
