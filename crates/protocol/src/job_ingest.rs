//! `job-ingest.submit`, `job-ingest.getinfo`.

use std::borrow::Cow;

use job::JobId;
use serde::{Deserialize, Serialize};

/// Flag of a submission: keep debug events.
pub const FLAG_DEBUG: u32 = 2;
/// Flag of a submission: `job-manager.wait` may ask for its result.
pub const FLAG_WAITABLE: u32 = 4;
/// Flag of a submission: take the jobspec unchecked.
pub const FLAG_NOVALIDATE: u32 = 8;
/// All flags a submission may have.
pub const FLAGS: u32 = FLAG_DEBUG | FLAG_WAITABLE | FLAG_NOVALIDATE;

/// The longest key of a submission, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// `job-ingest.submit`: `{J:s, urgency:I, flags:I, key?:s}`.
///
/// `J` = base64(header) `.` base64(jobspec) `.none`, the header being `version\0i1\0userid\0iUID\0mechanism\0snone\0` in any order of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitRequest<'a> {
    /// The wrapped jobspec.
    #[serde(rename = "J", borrow)]
    pub j: Cow<'a, str>,
    /// 0 to 31.
    pub urgency: i64,
    /// Of [`FLAGS`].
    pub flags: i64,
    /// (weir) 1 to [`KEY_BYTES_MAX`] bytes without control characters: the first submission of this user under it makes the job, those that
    /// follow are answered with that job, for as long as it is not purged. Urgency, flags and environment of those are not looked at;
    /// another jobspec is EEXIST.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Cow<'a, str>>,
}

/// `{id:I, seq:I, known?:b}`: sent when the job is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitResponse {
    /// The job's id.
    pub id: JobId,
    /// The newest entry of this submission (0 from a peer that has no such thing).
    #[serde(default)]
    pub seq: u64,
    /// It was there already, under the key that was given: nothing was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
}

/// `job-ingest.getinfo` answers `{timestamp:I}`: milliseconds on the clock the ids are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetinfoResponse {
    /// Milliseconds since the instance first started.
    pub timestamp: u64,
}
