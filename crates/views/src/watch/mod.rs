//! Who waits for what, and which change wakes whom.

use std::sync::Arc;

use bytes::Bytes;
use info::{Changes, Projection};
use job::JobId;

use crate::{
    answer::{Body, Reply},
    ask::Ask,
};

/// Bounds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most requests that wait.
    pub waiters: usize,
    /// Most views that are kept after their last waiter left.
    pub idle_views: usize,
    /// Most changes the log holds.
    pub log: usize,
    /// Most bytes of row fragments and bodies that are kept.
    pub cache_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiters: 65_536,
            idle_views: 4_096,
            log: 65_536,
            cache_bytes: 128 << 20,
        }
    }
}

/// Which jobs a body depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Jobs {
    /// None.
    #[default]
    None,
    /// This one, its appearance and its children included.
    One(JobId),
    /// All.
    All,
}

/// Which nodes a body depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Nodes {
    /// None.
    #[default]
    None,
    /// This one.
    One(Arc<str>),
    /// All.
    All,
}

/// What a body depends on. The body is made again when one of these changed, and compared: only another text wakes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watch {
    /// Jobs.
    pub jobs: Jobs,
    /// Nodes.
    pub nodes: Nodes,
}

/// A body just made.
#[derive(Debug, Clone)]
pub struct Made {
    /// The text.
    pub body: Body,
    /// The next page.
    pub next_token: Option<Arc<str>>,
}

impl Made {
    /// A body of one piece without a further page.
    #[must_use]
    pub fn text(body: impl Into<Bytes>) -> Self {
        Self {
            body: Body::new(vec![body.into()]),
            next_token: None,
        }
    }
}

/// All live queries and those who wait.
#[derive(Debug)]
pub struct Views {
    limits: Limits,
}

impl Views {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Asks. `None`: the reply comes from [`Views::take_ready`], [`Views::expire`] or [`Views::close`] under this token.
    #[must_use]
    pub fn ask(&mut self, _projection: &Projection, _ask: &Ask, _token: u64) -> Option<Reply> {
        None
    }

    /// Who waits under this token is gone.
    pub fn cancel(&mut self, _token: u64) {}

    /// The time of who waits under this token is up: the body as it is now. `None`: nobody waits under it any more, or the reply
    /// is about to come from [`Views::take_ready`].
    #[must_use]
    pub fn expire(&mut self, _projection: &Projection, _token: u64) -> Option<Reply> {
        None
    }

    /// What folds changed; to be told after each, before anything is asked of the new state.
    pub fn changed(&mut self, _projection: &Projection, _changes: &Changes) {}

    /// Whether [`Views::take_ready`] has something to do.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        false
    }

    /// Replies that became due, about `budget` of them.
    #[must_use]
    pub fn take_ready(&mut self, _projection: &Projection, _budget: usize) -> Vec<(u64, Reply)> {
        Vec::new()
    }

    /// The end: everyone who waits, with the body as it is.
    #[must_use]
    pub fn close(&mut self, _projection: &Projection) -> Vec<(u64, Reply)> {
        let _limits = self.limits;
        Vec::new()
    }
}
