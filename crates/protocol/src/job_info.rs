//! `job-info.*`: what is stored of one job, and following its logs. The methods and errors are in `rfc/4_listing.md`.

use std::borrow::Cow;

use job::JobId;
use serde::{Deserialize, Serialize};

/// Flag of `lookup`: jobspec and R as objects, not as strings.
pub const LOOKUP_DECODE: i64 = 1;
/// Flag of `lookup`: jobspec and R with all updates applied.
pub const LOOKUP_CURRENT: i64 = 2;
/// Flag of `eventlog-watch`: wait for the log to appear.
pub const WATCH_WAITCREATE: i64 = 1;
/// Flag of `eventlog-watch`: a response without payload marks the end of what was there at the beginning.
pub const WATCH_SENTINEL: i64 = 2;

/// `lookup`: `{id:I, keys:[s], flags:I}` → `{id:I, KEY:s…}`; keys `jobspec`, `R`, `J`, `eventlog`, `guest.exec.eventlog`, `guest.output`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupRequest<'a> {
    /// The job.
    pub id: JobId,
    /// What to look up.
    #[serde(borrow)]
    pub keys: Vec<Cow<'a, str>>,
    /// [`LOOKUP_DECODE`], [`LOOKUP_CURRENT`].
    pub flags: i64,
}

/// `eventlog-watch`, streaming: `{id:I, path:s, flags:I}` → `{event:s}` …, then errnum 61.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventlogWatchRequest<'a> {
    /// The job.
    pub id: JobId,
    /// `eventlog`, `guest.exec.eventlog` or `guest.output`.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    /// [`WATCH_WAITCREATE`], [`WATCH_SENTINEL`].
    pub flags: i64,
}

/// One line of a followed log: `{event:s}`, with its newline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventlogWatchResponse<'a> {
    /// The line.
    #[serde(borrow)]
    pub event: Cow<'a, str>,
}

/// `update-lookup` and `update-watch`: `{id:I, key:s, flags:I}` → `{R:o}` or `{jobspec:o}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateRequest<'a> {
    /// The job.
    pub id: JobId,
    /// `R` or `jobspec`.
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    /// 0.
    pub flags: i64,
}
