//! Counts of jobs by state and result, as `job-list.job-stats` gives them.

use crate::connect::{CallError, Session};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Jobs by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the states
pub struct States {
    pub depend: u64,
    pub priority: u64,
    pub sched: u64,
    pub run: u64,
    pub cleanup: u64,
    pub inactive: u64,
    pub total: u64,
}

/// Jobs by state and result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobCounts {
    /// By state.
    pub job_states: States,
    /// Ended well.
    pub successful: u64,
    /// Ended badly, but for the next two.
    pub failed: u64,
    /// Canceled.
    pub canceled: u64,
    /// Ran out of time.
    pub timeout: u64,
    /// Purged since job-info began to count.
    pub inactive_purged: u64,
}

impl JobCounts {
    /// Jobs that wait.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.job_states.depend + self.job_states.priority + self.job_states.sched
    }

    /// Jobs that have resources.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.job_states.run + self.job_states.cleanup
    }

    /// `3 running, 2 completed, 0 failed, 1 pending`
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut text = format!(
            "{} running, {} completed, {} failed, {} pending",
            self.running(),
            self.successful,
            self.failed,
            self.pending()
        );
        for (count, what) in [
            (self.canceled, "canceled"),
            (self.timeout, "timed out"),
            (self.inactive_purged, "purged"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        text
    }
}

/// The method that counts.
pub const JOB_STATS: &str = "job-list.job-stats";

/// Asks for the counts.
///
/// # Errors
/// [`CallError`].
pub async fn job_counts(session: &Session) -> Result<JobCounts, CallError> {
    session.call(JOB_STATS, &json!({})).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a06_the_parts_are_counted_once_each() {
        let counts: JobCounts = serde_json::from_str(
            r#"{"job_states":{"sched":1,"run":2,"cleanup":1,"inactive":1,"total":5},"timeout":1}"#,
        )
        .unwrap();
        assert_eq!(
            counts.sentence(),
            "3 running, 0 completed, 0 failed, 1 pending, 1 timed out"
        );
    }
}
