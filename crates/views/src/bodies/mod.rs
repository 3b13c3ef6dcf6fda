//! Bodies other than statuses: summary, jobs, one job, allocations, nodes and what stands beside them.
//!
//! Each is a [`Query`]: what it depends on ([`Query::watch`]) and its text ([`Query::make`]). Blocking, sharing and the index are
//! `watch`'s.

use info::Projection;

use crate::{
    answer::HttpError,
    ask::Viewer,
    watch::{Made, Watch},
};

/// A body that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Query {
    /// `/v1/regions`.
    Regions,
}

impl Query {
    /// What the body depends on.
    #[must_use]
    pub fn watch(&self, _projection: &Projection) -> Watch {
        Watch::default()
    }

    /// The body as it is now.
    ///
    /// # Errors
    /// [`HttpError`]: what was asked for is not there, or the query is malformed.
    pub fn make(&self, _projection: &Projection, _viewer: Viewer) -> Result<Made, HttpError> {
        Ok(Made::text(&b"[\"global\"]"[..]))
    }
}
