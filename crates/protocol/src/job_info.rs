//! `job-info.*`: what is stored of one job, and following its logs. The methods and errors are in `rfc/4_listing.md`.

use std::{borrow::Cow, collections::BTreeMap};

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

/// `clients` (weir's own): `{id:I, after?:I}`: the job's status on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientsRequest {
    /// The job.
    pub id: JobId,
}

/// `{id:I, clients:[{node:s, status:s, reason?:s, allocs:I, created?:f, modified?:f}], counts:{STATUS:I}, seq:I, stale?:f}`. Statuses are
/// `queued`, `notScheduled`, `starting`, `running`, `complete`, `degraded`, `failed`, `lost` and `unknown`; each has a count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientsResponse {
    /// The job.
    pub id: JobId,
    /// One row a node.
    pub clients: Vec<ClientRow>,
    /// How many nodes have each status.
    pub counts: BTreeMap<String, u32>,
    /// How far the list was.
    pub seq: u64,
    /// Seconds since the list last followed its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<f64>,
}

/// A job on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientRow {
    /// The node's name.
    pub node: String,
    /// The job's status there.
    pub status: String,
    /// Why, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many allocations the job has there.
    pub allocs: u32,
    /// When the first of them came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<f64>,
    /// When one of them last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<f64>,
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
