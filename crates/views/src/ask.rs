//! What is asked: a query, by whom, and the index it blocks at.

use std::sync::Arc;

use info::Record;

use crate::{bodies::Query, statuses::StatusesAsk};

/// Whose eyes a body is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// The instance's owner.
    pub owner: bool,
    /// The user.
    pub userid: u32,
    /// Whether the instance hides a user's jobs from other guests.
    pub private: bool,
}

impl Viewer {
    /// The owner: sees all.
    pub const OWNER: Viewer = Viewer {
        owner: true,
        userid: 0,
        private: false,
    };

    /// The only user whose jobs are seen; `None`: all jobs are.
    #[must_use]
    pub fn only(self) -> Option<u32> {
        (self.private && !self.owner).then_some(self.userid)
    }

    /// Whether this job is seen.
    #[must_use]
    pub fn sees(self, record: &Record) -> bool {
        self.only().is_none_or(|user| user == record.job().userid)
    }
}

/// A query, without who asks and when: what is equal here is one view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    /// `/v1/jobs/statuses`.
    Statuses(StatusesAsk),
    /// One event of `/v1/jobs/statuses/stream`: with the index of the event before it (0 at first), the answer is what changed
    /// since, or the whole page if that is not known any more. It blocks by the same rule.
    StatusesStream(StatusesAsk),
    /// Any other body: see [`crate::bodies`].
    Body(Query),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// By whom.
    pub viewer: Viewer,
    /// Blocks until the body is another than at this index; 0: answered at once.
    pub index: u64,
    /// The journal's epoch in which the index was given, if the client says so; of another one: answered at once.
    pub epoch: Option<Arc<str>>,
    /// The query.
    pub what: What,
}
