//! One distinct query that is held: what it shows, since when that is so, and who waits for another.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use job::JobId;

use super::{
    Watch,
    group::GroupId,
    page::{Member, Page},
};
use crate::{
    answer::Body,
    ask::Viewer,
    bodies::Query,
    statuses::{Shape, StatusesAsk},
};

/// Its place among the views.
pub(crate) type ViewId = u32;

/// States of a page that a stream may still be at.
pub(crate) const SNAPS_MAX: usize = 4;

/// What is asked, by whom it matters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Page(Option<u32>, StatusesAsk),
    Body(Viewer, Query),
}

impl Key {
    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Page(_, query) => query.held_bytes(),
            Self::Body(_, query) => query.held_bytes(),
        }
    }
}

/// Who waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiter {
    /// The index of what it has; 0: nothing.
    pub(crate) index: u64,
    /// In which life of the journal it got that.
    pub(crate) life: u64,
    /// It wants an event of the stream.
    pub(crate) stream: bool,
}

/// A state of a page that was shown.
#[derive(Debug)]
pub(crate) struct Snap {
    /// The seq from which on the page was so.
    pub(crate) from: u64,
    /// The seq at which it was no longer.
    pub(crate) until: Option<u64>,
    pub(crate) members: Box<[Member]>,
}

/// What a page showed before another list was swapped in.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) members: Vec<Member>,
    /// Up to here its changes were followed.
    pub(crate) followed: u64,
}

/// Bodies of a page's state.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) whole: Option<Body>,
    pub(crate) event: Option<Body>,
    /// Deltas, by where the state they begin with began.
    pub(crate) deltas: Vec<(u64, Body)>,
    /// Rows in them: fewer than the page has when they would be too large.
    pub(crate) rows: usize,
}

/// A page that is held.
#[derive(Debug)]
pub(crate) struct PageView {
    pub(crate) page: Page,
    pub(crate) group: GroupId,
    pub(crate) shape: Shape,
    /// The listed jobs, if it is a list.
    pub(crate) list: Option<Arc<[JobId]>>,
    /// What was shown before all may have changed.
    pub(crate) before: Option<Before>,
    pub(crate) drawn: Option<Drawn>,
    pub(crate) snaps: VecDeque<Snap>,
}

/// Another body that is held.
#[derive(Debug)]
pub(crate) struct BodyView {
    pub(crate) watch: Watch,
    /// The newest change that may concern it and was not looked at.
    pub(crate) dirty: Option<u64>,
    /// What the body says, as a number.
    pub(crate) sign: Option<u64>,
    pub(crate) made: Option<super::Made>,
}

/// What is held.
#[derive(Debug)]
pub(crate) enum Held {
    Page(Box<PageView>),
    Body(Box<BodyView>),
}

/// A query that is held.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) key: Arc<Key>,
    pub(crate) held: Held,
    /// Bytes that what is asked takes, about.
    pub(crate) asks_bytes: usize,
    /// The newest change of what it shows: who has an older index is answered.
    pub(crate) state_seq: u64,
    /// From here on every change was followed; what was before only the log can tell.
    pub(crate) since: u64,
    pub(crate) waiters: BTreeMap<u64, Waiter>,
    /// It is among those that are ready.
    pub(crate) queued: bool,
    /// Its place among those that nobody waits for.
    pub(crate) idle: Option<u64>,
    /// Bytes of its bodies as they were counted.
    pub(crate) bytes: usize,
    /// It is among those whose bodies are counted.
    pub(crate) counted: bool,
}

impl View {
    /// Something it shows changed with entry `seq`. Its bodies are old.
    pub(crate) fn touch(&mut self, seq: u64) {
        self.state_seq = self.state_seq.max(seq);
        if let Held::Page(held) = &mut self.held {
            held.drawn = None;
            for snap in &mut held.snaps {
                snap.until.get_or_insert(seq);
            }
        }
    }

    /// From which seq on it is as it is, as far as is known.
    pub(crate) fn same_since(&self) -> u64 {
        self.state_seq.max(self.since)
    }
}
