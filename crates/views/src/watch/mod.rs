//! Who waits for what, and which change wakes whom.

mod draw;
mod fold;
mod group;
mod hold;
mod log;
pub(crate) mod page;
mod settle;
mod view;
mod views;

use std::sync::Arc;

use bytes::Bytes;
use job::JobId;

use crate::answer::Body;

pub use views::{Stats, Views};

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
    /// Most bytes that what is asked takes, of all views: filters, above all their regexes, and lists of jobs.
    pub asks_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiters: 65_536,
            idle_views: 4_096,
            log: 65_536,
            cache_bytes: 128 << 20,
            asks_bytes: 256 << 20,
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
