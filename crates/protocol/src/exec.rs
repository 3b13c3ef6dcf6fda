//! The exec service's protocol (RFC 32): hello from it, start, kill and cancel to it.
//!
//! ```text
//!  exec ── exec-hello {service} ─▶ job-manager
//!       ◀─ SERVICE.start ─────────  once per job; again with reattach after a new hello
//!       ── start | reattached ───▶
//!       ── exception* ───────────▶
//!       ── alloc-status* ────────▶  (weir) single ranks are not as the job's other events imply
//!       ── finish ───────────────▶  may carry `release`, then it ends the exchange
//!       ── release … final ──────▶  ends the exchange
//!       ◀─ SERVICE.kill, .cancel ─  (weir) signals, and fatal exceptions of running jobs
//! ```

use std::borrow::Cow;

use job::{AllocReport, JobId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `job-manager.exec-hello`: `{service:s}`; the answer has no payload. From then on requests go to that service on this connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HelloRequest<'a> {
    /// First word of the topics to be used.
    #[serde(borrow)]
    pub service: Cow<'a, str>,
}

/// `SERVICE.start`: `{id:I, userid:I, jobspec:o, reattach:b, R:o, J?:s}`. `J` is weir's own: it carries the environment.
///
/// The same id may come again (after a new hello): a job whose body was started is not started again. With `reattach` true none may be
/// started at all: what is not there any more is told as exception and final release.
#[derive(Debug, Clone, Deserialize)]
pub struct StartRequest<'a> {
    /// The job.
    pub id: JobId,
    /// Its owner.
    pub userid: u32,
    /// The jobspec without environment.
    #[serde(borrow)]
    pub jobspec: &'a RawValue,
    /// The job was started before: find it again.
    #[serde(default)]
    pub reattach: bool,
    /// What it may use.
    #[serde(rename = "R", borrow)]
    pub r: &'a RawValue,
    /// What was submitted.
    #[serde(rename = "J", borrow, default)]
    pub j: Option<Cow<'a, str>>,
}

/// A response to `SERVICE.start`: `{id:I, type:s, data:o}`; type is `start`, `reattached`, `finish`, `release`, `exception`
/// or (weir) `alloc-status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartResponse<'a> {
    /// The job.
    pub id: JobId,
    /// What is reported.
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// Shape by type, see below.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// Data of `finish`: `{status:I, release?:{ranks:s, final:b}}`. With `release` this is the last response: one commit ends the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishData<'a> {
    /// wait(2) status.
    pub status: i32,
    /// (weir) The release that would follow at once.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseData<'a>>,
}

/// Data of `release`: `{ranks:s, final:b}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseData<'a> {
    /// An idset, or `all`.
    #[serde(borrow)]
    pub ranks: Cow<'a, str>,
    /// Nothing of the job is left.
    #[serde(rename = "final")]
    pub last: bool,
}

/// Data of `alloc-status` (weir): `{allocs:[{ranks:IDSET, status:s, reason?:s, wait_status?:I}…]}`, any number of times before the final
/// release. What holds already is passed over; ranks that are complete, failed or lost stay so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocStatusData {
    /// What holds for which ranks of the job's R.
    #[serde(deserialize_with = "job::event::read_allocs")]
    pub allocs: Vec<AllocReport>,
}

/// Data of `exception`: `{severity:I, type:s, note?:s}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionData<'a> {
    /// 0 (fatal) to 7.
    pub severity: i64,
    /// `exec`, `timeout` …
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// For people.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Cow<'a, str>>,
}

/// `SERVICE.kill` (no response): `{id:I, signum:I}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillRequest {
    /// The job.
    pub id: JobId,
    /// To be sent to all its tasks.
    pub signum: i32,
}

/// `SERVICE.cancel` (no response): `{id:I, type:s}`: a fatal exception of that type was raised; end the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest<'a> {
    /// The job.
    pub id: JobId,
    /// Type of the exception: `cancel` …
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
}
