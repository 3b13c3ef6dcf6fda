//! `job-list.*`: listings of jobs. The methods, their orders and their errors are in `rfc/4_listing.md`.
//!
//! Rows (`JOB`) are written by `info`, not from a struct: only the attributes asked for, and only those that are defined.
//! Every request may carry `after?:I`: it is answered from a state that includes that entry. Every first answer carries
//! `seq:I`, how far the list was, and `stale:f` while the list does not follow its journal: seconds since it last did.

use std::borrow::Cow;

use job::JobId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::given;

/// What every request of a listing service may carry: `{after?:I}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterRequest {
    /// Answer from a state that includes this entry.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<u64>,
}

/// `list`: `{max_entries:I, attrs:[s], since?:F, constraint?:o, batch?:I, after?:I}`, or with `userid:I, states:I, results:I, name?:s, queue?:s` in
/// place of `constraint` as clients of long ago sent it. With the streaming flag: a row a response, then errnum 61.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListRequest<'a> {
    /// Most rows; 0 is no limit.
    pub max_entries: i64,
    /// Attributes a row shall have; an array of strings.
    pub attrs: Value,
    /// Of inactive jobs only those that ended after this time.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<f64>,
    /// RFC 31; absent is every job.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub constraint: Option<Value>,
    /// Most rows in one response of a stream; absent is 1.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub batch: Option<u64>,
    /// Old form: one user, 4294967295 for all.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub userid: Option<i64>,
    /// Old form: mask of states, 0 for all.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub states: Option<i64>,
    /// Old form: mask of results, 0 for all.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub results: Option<i64>,
    /// Old form: one name.
    #[serde(
        borrow,
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub name: Option<Cow<'a, str>>,
    /// Old form: one queue.
    #[serde(
        borrow,
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue: Option<Cow<'a, str>>,
}

/// `list-id`: `{id:I, attrs:[s], state?:I, after?:I}` → `{job:JOB, seq:I, stale?:f}`. With `state`, a mask: once the job has been in one of
/// them, or is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListIdRequest {
    /// The job.
    pub id: JobId,
    /// Attributes the row shall have; an array of strings.
    pub attrs: Value,
    /// Mask of states to wait for.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    pub state: Option<i64>,
}

/// `list-attrs`: no payload → `{attrs:[s]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAttrsResponse<'a> {
    /// Every attribute, and `all`.
    #[serde(borrow)]
    pub attrs: Vec<Cow<'a, str>>,
}

/// `rank` (weir's own): `{id:I, after?:I}`: how many jobs of its group are listed before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankRequest {
    /// The job.
    pub id: JobId,
}

/// `{id:I, group:s, rank:I, seq:I, stale?:f}`; `group` is `pending`, `running` or `inactive`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankResponse<'a> {
    /// The job.
    pub id: JobId,
    /// Which of the three orders it is in.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    /// How many jobs are before it there.
    pub rank: u64,
    /// How far the list was.
    pub seq: u64,
    /// Seconds since the list last followed its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<f64>,
}

/// The first answer to any listing request, of which only the freshness is read: `{seq:I, stale?:f}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Freshness {
    /// How far the list was.
    #[serde(default)]
    pub seq: u64,
    /// Seconds since the list last followed its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<f64>,
}

/// A cancel: `TOPIC-cancel {matchtag:I}`, never answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Of the stream that shall end.
    pub matchtag: u32,
}
