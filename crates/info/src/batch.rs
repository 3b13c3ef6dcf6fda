//! Responses of the journal's streams, as they travel: `rfc/3_journal.md`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Name of the system event that lists purged jobs: `{"jobs":[ID…]}`.
pub const PURGE_EVENT: &str = "purge";
/// The log it is in.
const SYSTEM_LOG: &str = "system";
/// The log of the nodes.
pub(crate) const RESOURCE_LOG: &str = "resource";

#[derive(Deserialize)]
pub(crate) struct Batch<'a> {
    #[serde(borrow, default)]
    pub(crate) epoch: Cow<'a, str>,
    pub(crate) seq: Option<u64>,
    #[serde(default)]
    pub(crate) caught_up: bool,
    #[serde(default)]
    pub(crate) set_aside: Vec<u64>,
    #[serde(borrow, default)]
    pub(crate) resources: Option<&'a RawValue>,
    pub(crate) mark: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) events: Vec<NativeEntry<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct NativeEntry<'a> {
    pub(crate) seq: u64,
    pub(crate) id: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) log: Option<Cow<'a, str>>,
    pub(crate) eventlog_seq: u32,
    #[serde(default)]
    pub(crate) live: bool,
    #[serde(borrow)]
    pub(crate) entry: &'a RawValue,
    #[serde(borrow, default)]
    pub(crate) jobspec: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "R")]
    pub(crate) r: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct FluxMessage<'a> {
    pub(crate) id: i64,
    #[serde(borrow, default)]
    pub(crate) events: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) jobspec: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "R")]
    pub(crate) r: Option<&'a RawValue>,
}

impl NativeEntry<'_> {
    /// The jobs that a purge names; `None` when it is none.
    pub(crate) fn purged(&self) -> Option<Result<Vec<u64>, serde_json::Error>> {
        #[derive(Deserialize)]
        struct Name<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Purge {
            context: Purged,
        }
        #[derive(Deserialize)]
        struct Purged {
            jobs: Vec<u64>,
        }
        if self.id.is_some() || self.log.as_deref() != Some(SYSTEM_LOG) {
            return None;
        }
        match serde_json::from_str::<Name<'_>>(self.entry.get()) {
            Ok(Name { name }) if name != PURGE_EVENT => None,
            Ok(_) => Some(
                serde_json::from_str::<Purge>(self.entry.get()).map(|purge| purge.context.jobs),
            ),
            Err(error) => Some(Err(error)),
        }
    }
}
