//! The context of `alloc-status`: which allocations of a job are not as its other events imply.
//!
//! ```text
//! {"allocs":[{"ranks":IDSET,"status":S,"reason"?:s,"wait_status"?:i}…]}
//! S = pending | running | complete | failed | lost | unknown
//! ```

use crate::idset::Idset;
use crate::json::{clip, push_i64, push_str, push_value};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most reports one event may hold.
pub const ALLOC_REPORTS_MAX: usize = 131_072;

/// The most bytes of a reason that are kept; what is longer is cut.
pub const ALLOC_REASON_BYTES_MAX: usize = 1024;

/// How an allocation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocStatus {
    /// It has its resources and was not started.
    Pending,
    /// Its tasks run.
    Running,
    /// Its tasks ended well, or were stopped because they should.
    Complete,
    /// Its tasks ended badly.
    Failed,
    /// Its node went away and all of its processes are proved gone.
    Lost,
    /// Its node went away; nobody knows.
    Unknown,
}

/// What holds for some allocations of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocReport {
    /// Which ones: ranks of the job's R.
    pub ranks: Idset,
    /// Their status.
    pub status: AllocStatus,
    /// Why, in short words.
    pub reason: Option<Arc<str>>,
    /// The wait status of their tasks.
    pub wait_status: Option<i32>,
}

/// A text that is no status of an allocation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{met:?} is no status of an allocation: expected pending, running, complete, failed, lost or unknown"
)]
pub struct UnknownStatus {
    /// The text met, shortened.
    pub met: String,
}

impl AllocStatus {
    /// All of them.
    pub const ALL: [AllocStatus; 6] = [
        AllocStatus::Pending,
        AllocStatus::Running,
        AllocStatus::Complete,
        AllocStatus::Failed,
        AllocStatus::Lost,
        AllocStatus::Unknown,
    ];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AllocStatus::Pending => "pending",
            AllocStatus::Running => "running",
            AllocStatus::Complete => "complete",
            AllocStatus::Failed => "failed",
            AllocStatus::Lost => "lost",
            AllocStatus::Unknown => "unknown",
        }
    }

    /// Whether it stays so for good.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(
            self,
            AllocStatus::Complete | AllocStatus::Failed | AllocStatus::Lost
        )
    }
}

impl fmt::Display for AllocStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for AllocStatus {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = AllocStatus::ALL
            .into_iter()
            .find(|one| one.as_str() == text);
        found.ok_or_else(|| UnknownStatus { met: clip(text) })
    }
}

impl Serialize for AllocStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AllocStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl AllocReport {
    /// What holds for `ranks`.
    #[must_use]
    pub fn new(ranks: Idset, status: AllocStatus) -> AllocReport {
        AllocReport {
            ranks,
            status,
            reason: None,
            wait_status: None,
        }
    }

    /// Appends it as JSON.
    pub(super) fn write(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(b"{\"ranks\":");
        push_value(buf, &self.ranks);
        buf.extend_from_slice(b",\"status\":\"");
        buf.extend_from_slice(self.status.as_str().as_bytes());
        buf.push(b'"');
        if let Some(reason) = &self.reason {
            buf.extend_from_slice(b",\"reason\":");
            push_str(buf, reason);
        }
        if let Some(status) = self.wait_status {
            buf.extend_from_slice(b",\"wait_status\":");
            push_i64(buf, i64::from(status));
        }
        buf.push(b'}');
    }
}

impl Serialize for AllocReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            ranks: &'a Idset,
            status: AllocStatus,
            #[serde(skip_serializing_if = "Option::is_none")]
            reason: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            wait_status: Option<i32>,
        }
        Shown {
            ranks: &self.ranks,
            status: self.status,
            reason: self.reason.as_deref(),
            wait_status: self.wait_status,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AllocReport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            ranks: Idset,
            status: AllocStatus,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            wait_status: Option<i32>,
        }
        let raw = Raw::deserialize(deserializer)?;
        if raw.ranks.is_empty() {
            return Err(D::Error::custom(
                "ranks: expected at least one rank, got none",
            ));
        }
        Ok(AllocReport {
            ranks: raw.ranks,
            status: raw.status,
            reason: raw.reason.as_deref().and_then(cut).map(Arc::from),
            wait_status: raw.wait_status,
        })
    }
}

/// As much of a reason as is kept.
fn cut(reason: &str) -> Option<&str> {
    let mut end = reason.len().min(ALLOC_REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    Some(&reason[..end]).filter(|text| !text.is_empty())
}

/// Reads the reports of one event: at least one, not more than there may be.
/// # Errors
/// The deserializer's, or that their number is out of bounds.
pub fn read_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<AllocReport>, D::Error> {
    let all = Vec::<AllocReport>::deserialize(deserializer)?;
    if all.is_empty() || all.len() > ALLOC_REPORTS_MAX {
        let met = all.len();
        return Err(D::Error::custom(format_args!(
            "expected 1 to {ALLOC_REPORTS_MAX} reports, got {met}"
        )));
    }
    Ok(all)
}
