//! What the manager counted since it started; part of `job-manager.stats-get`.

use serde::Serialize;

/// Counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Requests handled.
    pub requests: u64,
    /// Commits asked for.
    pub commits: u64,
    /// Entries in them.
    pub entries: u64,
    /// Requests that changed the order of the queue: one for many jobs counts once.
    pub reorder_passes: u64,
    /// Jobs submitted.
    pub submits: u64,
    /// `sched.alloc` sent.
    pub alloc_requests: u64,
    /// Commits that purged jobs.
    pub purges: u64,
    /// Jobs purged with them.
    pub purged_jobs: u64,
    /// Reports of engines that came late or twice and changed nothing.
    pub late_reports: u64,
}
