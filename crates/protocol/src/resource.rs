//! Nodes of the instance: what the connection that holds the service name `resource` tells, and what users ask it for.
//!
//! ```text
//!  engine ── resource-announce {R, pools, up} ─▶ job-manager   the whole set; answered with what is drained
//!         ── resource-event {name, idset …} ──▶               nodes come, go, are drained
//!  user   ── resource.drain, resource.undrain ─▶ engine        checked there, passed on as a resource-event
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `job-manager.resource-announce` (weir): `{R:o, pools?:{NAME:IDSET}, up:IDSET}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AnnounceRequest<'a> {
    /// R version 1: all nodes, with their names.
    #[serde(rename = "R", borrow)]
    pub r: &'a RawValue,
    /// Which nodes are in which pool.
    #[serde(
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub pools: Option<BTreeMap<String, String>>,
    /// Which nodes are up.
    #[serde(borrow)]
    pub up: Cow<'a, str>,
}

/// Its answer: `{seq:I, before?:HOSTLIST, drained:[{idset:s, nodelist:s, reason:s, timestamp:f, userid?:I}…]}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnnounceResponse {
    /// The entry this answer rests on.
    pub seq: u64,
    /// The names of the nodes that were known before, if they were others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Nodes of the set that are to get no new job.
    pub drained: Vec<Drained>,
}

/// Nodes drained for one reason at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drained {
    /// Their ranks.
    pub idset: String,
    /// Their names.
    pub nodelist: String,
    /// Why; may be empty.
    pub reason: String,
    /// Since when.
    pub timestamp: f64,
    /// Who said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userid: Option<u32>,
}

/// `job-manager.resource-event` (weir): `{name:"online"|"offline"|"drain"|"undrain", idset:IDSET, reason?:s, overwrite?:I, userid?:I}`;
/// answers `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRequest<'a> {
    /// What happened.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// To which nodes of the newest set.
    #[serde(borrow)]
    pub idset: Cow<'a, str>,
    /// With `offline` and `drain`: why.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub reason: Option<Cow<'a, str>>,
    /// With `drain`, for nodes that are drained already: 0 nothing changes, 1 the reason, 2 the reason and the time.
    #[serde(default)]
    pub overwrite: i64,
    /// With `drain` and `undrain`: who asked for it.
    #[serde(
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub userid: Option<u32>,
}

/// `resource.drain`: `{targets:s, reason?:s, overwrite?:I}`; targets are an idset of ranks or a hostlist. Answers `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRequest<'a> {
    /// Which nodes.
    #[serde(borrow)]
    pub targets: Cow<'a, str>,
    /// Why.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// As in [`EventRequest`].
    #[serde(default)]
    pub overwrite: i64,
}

/// `resource.undrain`: `{targets:s}`; answers `{seq:I}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndrainRequest<'a> {
    /// Which nodes.
    #[serde(borrow)]
    pub targets: Cow<'a, str>,
}
