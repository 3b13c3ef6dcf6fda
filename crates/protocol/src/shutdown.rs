//! `job-manager.shutdown`, `job-manager.shutdown-cancel` (weir): the instance ends once nothing runs.

use job::JobId;
use serde::{Deserialize, Serialize};

/// The exit status of a job-manager that ended because it was asked to shut down: whoever keeps it running is to stop the other daemons
/// and end too.
pub const STATUS_SHUT_DOWN: u8 = 3;

/// Jobs named in one answer, at most.
pub const JOBS_NAMED_MAX: usize = 32;

/// `shutdown` (streaming): `{now?:b, force?:b}`.
///
/// From here on submissions are refused and no job is started. Answers come at once and whenever something changed: `{waiting, jobs}`.
/// The last has `drained:true`, and ENODATA follows: then the job-manager ends. As long as that was not said, all is taken back when
/// the connection that asked goes, or sends `shutdown-cancel` (`{}`): the stream ends with ECANCELED. Of several requests, the last one
/// that is taken back opens the instance again, and the first that is drained ends it for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownRequest {
    /// Cancel what runs first.
    #[serde(default)]
    pub now: bool,
    /// Wait for nothing: what runs is left to itself, and found again at the next start.
    #[serde(default)]
    pub force: bool,
}

/// See [`ShutdownRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownResponse {
    /// Jobs that hold resources or are being given some.
    pub waiting: u64,
    /// Some of them, lowest id first: at most [`JOBS_NAMED_MAX`].
    pub jobs: Vec<JobId>,
    /// Nothing is waited for any more; `waiting` jobs are left to themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
}
