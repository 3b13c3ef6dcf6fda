//! What one handled input has brought about so far; empty between inputs.

use std::sync::Arc;

use job::{Entry, JobId};

use crate::action::{Action, JobWrite};
use crate::no_space::WithoutRoom;

/// Collected while an input is handled, then turned into actions by [`crate::Manager`].
#[derive(Debug, Default)]
pub(crate) struct Turn {
    /// New entries, in order.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Changes of rows, in order.
    pub(crate) writes: Vec<JobWrite>,
    /// Meta keys to set.
    pub(crate) meta: Vec<(String, String)>,
    /// Actions that rest on the entries.
    pub(crate) effects: Vec<(Action, WithoutRoom)>,
    /// Actions that rest on nothing.
    pub(crate) at_once: Vec<Action>,
    /// Jobs whose state may owe something.
    pub(crate) touched: Vec<JobId>,
    /// Offered jobs whose priority changed: the scheduler is told in one message.
    pub(crate) reprioritized: Vec<JobId>,
    /// Offered jobs to be taken back.
    pub(crate) cancels: Vec<JobId>,
    /// The state of the nodes is not what meta has.
    pub(crate) nodes_changed: bool,
    /// Some priority changed.
    pub(crate) reordered: bool,
}
