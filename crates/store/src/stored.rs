//! What readers hand out: jobs and log entries by page, and what was damaged among them.

use bytes::Bytes;
use job::{Entry, JobId, Seq, Timestamp};

use crate::error::Corrupt;

/// Where a scan of jobs starts.
pub const CURSOR_START: i64 = i64::MIN;

/// A job as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJob {
    /// The job.
    pub id: JobId,
    /// Its owner.
    pub userid: u32,
    /// Submit flags.
    pub flags: u32,
    /// When it was submitted.
    pub t_submit: Timestamp,
    /// Not yet inactive.
    pub active: bool,
    /// Its result is still to be taken by someone who waits.
    pub waitable: bool,
    /// The entry that made it inactive.
    pub done_seq: Option<Seq>,
    /// When it became inactive.
    pub t_inactive: Option<Timestamp>,
    /// The bit of its `job::JobResult`.
    pub result: Option<u32>,
    /// The jobspec without its environment.
    pub jobspec: Bytes,
    /// R, if it was ever allocated.
    pub r: Option<Bytes>,
    /// `J`, if it was asked for and there is one.
    pub j: Option<Bytes>,
    /// All its entries, live-only ones too; `submit` carries the jobspec and `alloc` R.
    pub eventlog: Vec<Entry>,
}

/// A job or a row of the log that cannot be read as it should be. Its neighbours are not affected.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", match (job, seq) { (Some(id), _) => format!("job {}", id.0), (None, Some(seq)) => format!("log row {seq}"), _ => "row".to_owned() })]
pub struct Damage {
    /// The job, if it is one.
    pub job: Option<JobId>,
    /// The last seq of the log row, if it is one.
    pub seq: Option<Seq>,
    /// What is wrong.
    pub what: Corrupt,
}

/// A job that is there: whole, or what is wrong with it.
pub type FoundJob = Result<StoredJob, Damage>;

/// Which jobs a scan is about, and so in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Jobs active at `at` (those that became inactive later are included), by id. A scan of many pages with one `at` misses none
    /// of them and gives none twice, whatever happens meanwhile; jobs submitted later may show up.
    Active {
        /// The moment.
        at: Seq,
    },
    /// Jobs that were inactive at `upto`, in the order they became so.
    Inactive {
        /// The moment.
        upto: Seq,
    },
    /// Inactive jobs whose result is still to be taken, by id.
    Waitable,
    /// Every job, by id.
    All,
}

/// One page of a scan of jobs.
#[derive(Debug, Default)]
pub struct JobsPage {
    /// The jobs, in the scope's order.
    pub jobs: Vec<StoredJob>,
    /// What could not be read between them.
    pub damaged: Vec<Damage>,
    /// Where the next page starts; `None` = this was the last.
    pub next: Option<i64>,
}

/// One page of the log.
#[derive(Debug, Default)]
pub struct LogPage {
    /// The entries, seq ascending; those of jobs that are purged are left out.
    pub entries: Vec<Entry>,
    /// The page is complete up to here; read on from it. Equal to the cursor when there is nothing newer.
    pub upto: Seq,
    /// What could not be read. Entries of the log among it are in the page all the same, from the archive; those that are not there
    /// either, and no purge explains it, are told with [`Corrupt::Lost`].
    pub damaged: Vec<Damage>,
}
