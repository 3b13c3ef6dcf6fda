//! The scheduler's protocol (RFC 27): hello and ready from it, alloc, cancel, prioritize and free to it.
//!
//! ```text
//!  scheduler ── sched-hello ──▶ job-manager   one response per job that holds resources, then 61
//!            ── sched-ready ──▶
//!            ◀─ sched.alloc ───               at most `limit` at a time in limited mode
//!            ── type 1* ──────▶               annotations, any number
//!            ── type 0|2|3 ───▶               ends the exchange: granted, refused for good, taken back
//!            ◀─ sched.free ────
//! ```

use std::borrow::Cow;

use job::JobId;
use serde::{Deserialize, Serialize};
use serde_json::Map;
use serde_json::Value;
use serde_json::value::RawValue;

/// `job-manager.sched-hello` (streaming): `{partial-ok?:b}` or no payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloRequest {
    /// The scheduler can do with jobs some of whose resources are free already.
    #[serde(rename = "partial-ok", default)]
    pub partial_ok: bool,
}

/// One response per job that holds resources: `{id:I, priority:I, userid:I, t_submit:f, R?:o}`; then errnum 61. Flux sends no `R`.
#[derive(Debug, Clone, Deserialize)]
pub struct HelloResponse<'a> {
    /// The job.
    pub id: JobId,
    /// Its priority.
    pub priority: u32,
    /// Its owner.
    pub userid: u32,
    /// When it was submitted.
    pub t_submit: f64,
    /// What it holds.
    #[serde(rename = "R", borrow, default)]
    pub r: Option<&'a RawValue>,
}

/// `job-manager.sched-ready`: `{mode:"limited", limit:I}` or `{mode:"unlimited"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyRequest<'a> {
    /// `limited` or `unlimited`.
    #[serde(borrow)]
    pub mode: Cow<'a, str>,
    /// How many `sched.alloc` may be unanswered at a time; above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// `{count:I}`: how many jobs wait for resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyResponse {
    /// Length of the queue.
    pub count: u64,
}

/// `sched.alloc`: `{id:I, priority:I, userid:I, t_submit:f, jobspec:o}`; the jobspec has no environment.
#[derive(Debug, Clone, Deserialize)]
pub struct AllocRequest<'a> {
    /// The job.
    pub id: JobId,
    /// Its priority, above 0.
    pub priority: u32,
    /// Its owner.
    pub userid: u32,
    /// When it was submitted.
    pub t_submit: f64,
    /// What it asks for.
    #[serde(borrow)]
    pub jobspec: &'a RawValue,
}

/// Type of an alloc response: granted, `R` is there.
pub const ALLOC_SUCCESS: i64 = 0;
/// Type of an alloc response: annotations, more responses follow.
pub const ALLOC_ANNOTATE: i64 = 1;
/// Type of an alloc response: the job can never run here.
pub const ALLOC_DENY: i64 = 2;
/// Type of an alloc response: taken back after `sched.cancel`.
pub const ALLOC_CANCEL: i64 = 3;

/// Response to `sched.alloc`: `{id:I, type:I, R?:o, annotations?:o, note?:s}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AllocResponse<'a> {
    /// The job.
    pub id: JobId,
    /// One of the `ALLOC_…` above.
    #[serde(rename = "type")]
    pub kind: i64,
    /// With [`ALLOC_SUCCESS`]: what the job may use, R version 1.
    #[serde(rename = "R", borrow, default, skip_serializing_if = "Option::is_none")]
    pub r: Option<&'a RawValue>,
    /// With [`ALLOC_SUCCESS`] and [`ALLOC_ANNOTATE`]: merged into the job's annotations; null removes a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    /// With [`ALLOC_DENY`]: why.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'a, str>>,
}

/// `sched.cancel` (no response of its own: the alloc ends with type 3, or 0 if it was too late): `{id:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// The job.
    pub id: JobId,
}

/// `sched.prioritize` (no response): `{jobs:[[id,priority]…]}`, only jobs with an unanswered alloc.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritizeRequest {
    /// Ids and their new priorities.
    pub jobs: Vec<(JobId, u32)>,
}

/// `sched.free` (no response): `{id:I, R:o, final:b}`.
#[derive(Debug, Clone, Deserialize)]
pub struct FreeRequest<'a> {
    /// The job.
    pub id: JobId,
    /// What is free again.
    #[serde(rename = "R", borrow)]
    pub r: &'a RawValue,
    /// The job holds nothing more.
    #[serde(rename = "final", default)]
    pub last: bool,
}
