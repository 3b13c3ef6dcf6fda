//! Replies: the body of a settled query, made once for all who get it.

use std::sync::Arc;

use info::Projection;

use super::{
    view::{Drawn, Held, Key, PageView, SNAPS_MAX, Snap, View, ViewId, Waiter},
    views::{Views, index},
};
use crate::{
    answer::{Answer, Body, HttpError, Kind, Reply},
    statuses::{body, rows::Rows},
};

impl Views {
    /// The reply to one who asked, from a view that is settled.
    pub(super) fn reply(&mut self, projection: &Projection, id: ViewId, waiter: &Waiter) -> Reply {
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
