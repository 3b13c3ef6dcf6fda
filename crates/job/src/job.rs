//! A job as its events make it: what both daemons hold for every job, in little space.
//!
//! A [`Job`] can be read field by field and changed only by [`crate::transition`]: it derefs to
//! [`JobFields`], never mutably. Rare parts are boxed, times that have not come cost no extra space.
//! The jobspec, R and anything a daemon plans for a job are not here.

use crate::Map;
use crate::allocs::Allocs;
use crate::event::{Event, EventKind};
use crate::id::JobId;
use crate::priority::{Priority, Urgency};
use crate::state::{JobFlags, JobResult, State};
use crate::time::{MaybeTimestamp, Timestamp};
use crate::transition::{Invalid, Refused};
use std::ops::Deref;

/// A job; see [`JobFields`] for what can be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub(crate) fields: JobFields,
}

/// What a job's events add up to.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFields {
    /// Its id.
    pub id: JobId,
    /// When it was submitted.
    pub t_submit: Timestamp,
    /// When `validate` came.
    pub t_depend: MaybeTimestamp,
    /// When it entered PRIORITY for the first time.
    pub t_priority: MaybeTimestamp,
    /// When it entered SCHED for the first time.
    pub t_sched: MaybeTimestamp,
    /// When it entered RUN.
    pub t_run: MaybeTimestamp,
    /// When it entered CLEANUP.
    pub t_cleanup: MaybeTimestamp,
    /// When it entered INACTIVE.
    pub t_inactive: MaybeTimestamp,
    /// The end its last `resource-update` set, in place of R's.
    pub expiration: MaybeTimestamp,
    /// The most severe exception, the first of those of equal severity.
    pub exception: Option<Box<Exception>>,
    /// What it still waits for; empty once satisfied, `None` if there never was a dependency.
    pub dependencies: Option<Box<Dependencies>>,
    /// What the scheduler says, and memos under `user`; never empty.
    pub annotations: Option<Box<Map>>,
    /// What was said of single allocations; none as long as the job's other events say it all.
    pub allocs: Option<Box<Allocs>>,
    /// What the queue is ordered by; none before SCHED and while back in PRIORITY.
    pub priority: Option<Priority>,
    /// The wait status of `finish`.
    pub finish_status: Option<i32>,
    /// Its owner.
    pub userid: u32,
    /// What it was submitted with, and what `set-flags` added.
    pub flags: JobFlags,
    /// How many events were applied, `submit` included.
    pub eventlog_seq: u32,
    /// Prologs begun and not finished.
    pub prologs: u16,
    /// Epilogs begun and not finished.
    pub epilogs: u16,
    /// What its user asked for.
    pub urgency: Urgency,
    /// Where it is in its life.
    pub state: State,
    /// Whether it holds resources.
    pub has_resources: bool,
    /// Whether it held resources and gave them back.
    pub freed: bool,
    /// Whether its processes were started.
    pub started: bool,
    /// Whether the last of its resources was released by the executor.
    pub start_done: bool,
    /// Whether an exception of severity 0 came.
    pub fatal: bool,
    /// Whether one came before `finish`: then the job did not succeed.
    pub fatal_first: bool,
}

/// An exception as listings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// What kind, for example `cancel`.
    pub kind: String,
    /// 0 ends the job; up to 7.
    pub severity: u8,
    /// For people.
    pub note: String,
}

/// What a job waits for: descriptions, in the order they were added; equal ones count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dependencies(pub(crate) Vec<String>);

impl Deref for Job {
    type Target = JobFields;

    fn deref(&self) -> &JobFields {
        &self.fields
    }
}

impl Deref for Dependencies {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl Job {
    /// A job from its first event.
    /// # Errors
    /// [`Refused::NotSubmit`]: the event is not `submit`.
    pub fn new(id: JobId, submit: &Event) -> Result<Job, Invalid> {
        let EventKind::Submit {
            userid,
            urgency,
            flags,
            ..
        } = &submit.kind
        else {
            return Err(Invalid {
                event: submit.name(),
                state: State::New,
                reason: Refused::NotSubmit,
            });
        };
        let fields = JobFields {
            id,
            t_submit: submit.timestamp,
            t_depend: MaybeTimestamp::NONE,
            t_priority: MaybeTimestamp::NONE,
            t_sched: MaybeTimestamp::NONE,
            t_run: MaybeTimestamp::NONE,
            t_cleanup: MaybeTimestamp::NONE,
            t_inactive: MaybeTimestamp::NONE,
            expiration: MaybeTimestamp::NONE,
            exception: None,
            dependencies: None,
            annotations: None,
            allocs: None,
            priority: None,
            finish_status: None,
            userid: *userid,
            flags: *flags,
            eventlog_seq: 1,
            prologs: 0,
            epilogs: 0,
            urgency: *urgency,
            state: State::New,
            has_resources: false,
            freed: false,
            started: false,
            start_done: false,
            fatal: false,
            fatal_first: false,
        };
        Ok(Job { fields })
    }

    /// Whether its processes finished with status 0 and nothing fatal came before that.
    #[must_use]
    pub fn success(&self) -> bool {
        self.finish_status == Some(0) && !self.fatal_first
    }

    /// How it ended; `None` while it is not over.
    #[must_use]
    pub fn result(&self) -> Option<JobResult> {
        if self.state != State::Inactive {
            return None;
        }
        if self.success() {
            return Some(JobResult::Completed);
        }
        Some(
            match self
                .exception
                .as_ref()
                .map(|exception| exception.kind.as_str())
            {
                Some("cancel") => JobResult::Canceled,
                Some("timeout") => JobResult::Timeout,
                _ => JobResult::Failed,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes one job may take in memory, boxed parts not counted: both daemons hold millions.
    const JOB_BYTES_MAX: usize = 168;

    #[test]
    fn a_job_is_small() {
        assert!(
            size_of::<Job>() <= JOB_BYTES_MAX,
            "{} bytes",
            size_of::<Job>()
        );
    }
}
