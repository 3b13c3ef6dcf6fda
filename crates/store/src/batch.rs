//! What the writer is handed: entries in seq order, what changes in the job table with them, and keys of the meta table.

use std::sync::Arc;

use bytes::Bytes;
use job::{Entry, JobId, Seq, Timestamp};

/// One commit of the job-manager. It is stored whole or not at all, maybe together with its neighbours.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    /// New entries; the first follows the newest entry of the batch before, with no gap.
    pub entries: Vec<Arc<Entry>>,
    /// Changes to the job table that belong to these entries.
    pub jobs: Vec<JobWrite>,
    /// Meta keys to set; those with an empty value go. Keys that start with `store.` are the store's own and are refused.
    pub meta: Vec<(String, String)>,
    /// Lets the log forget its oldest rows, up to this seq at most. The archive (each job's eventlog) is not touched.
    pub trim: Option<Seq>,
}

impl Batch {
    /// Whether it takes something away.
    pub(crate) fn frees(&self) -> bool {
        let delete = |write: &JobWrite| matches!(write, JobWrite::Delete { .. });
        self.trim.is_some() || self.jobs.iter().any(delete)
    }
}

/// One change of one row of the job table.
#[derive(Debug, Clone)]
pub enum JobWrite {
    /// A new job. Its first entries are in the same batch.
    Insert {
        /// The job.
        id: JobId,
        /// Its owner.
        userid: u32,
        /// When it was submitted.
        t_submit: Timestamp,
        /// Submit flags, as in the `submit` event; [`crate::FLAG_WAITABLE`] keeps the result until it is consumed.
        flags: u32,
        /// The jobspec without its environment.
        jobspec: Bytes,
        /// The signed or unsigned `J` as it came; empty = none.
        j: Bytes,
        /// The key it was submitted under: no other job of this user has it. The caller sees to that (see [`crate::Reader::by_key`]).
        key: Option<Box<str>>,
    },
    /// The job was allocated R.
    SetR {
        /// The job.
        id: JobId,
        /// R without the `scheduling` key.
        r: Bytes,
    },
    /// The job is done; the entry that says so (`clean`) is in the same batch.
    Inactive {
        /// The job.
        id: JobId,
        /// When it became inactive.
        t_inactive: Timestamp,
        /// The bit of its `job::JobResult`.
        result: u32,
    },
    /// The result of a waitable job was taken.
    Consumed {
        /// The job.
        id: JobId,
    },
    /// The job is purged: its row, eventlog, jobspec and J go. Its lines in the log stay until they are trimmed.
    Delete {
        /// The job.
        id: JobId,
    },
}

impl JobWrite {
    /// The job whose row changes.
    #[must_use]
    pub fn id(&self) -> JobId {
        match self {
            Self::Insert { id, .. }
            | Self::SetR { id, .. }
            | Self::Inactive { id, .. }
            | Self::Consumed { id }
            | Self::Delete { id } => *id,
        }
    }
}
