//! Whether a live batch goes on where the list is.
//!
//! ```text
//!  an entry          of a job in the list      of any other job, or of a log
//!  comes again       its number is not past    its seq is not past what is applied      ignored
//!  continues         the job's next number     the number 1                             and its seq rises: folded
//!  otherwise                                                                            the stream is poisoned
//! ```
//! Looked at before anything of the batch is folded, so that a batch is folded whole or not at all.

use std::collections::HashMap;

use job::JobId;

use crate::{
    batch::Batch,
    jobs::{IdBuild, Jobs},
    projection::FoldError,
};

/// Room for the numbers of jobs that come more than once in a batch; kept, so that it is not made for every batch.
#[derive(Debug, Default)]
pub(crate) struct Continuity {
    numbers: HashMap<JobId, u32, IdBuild>,
}

/// Jobs of which room is kept between batches.
const KEPT_JOBS_MAX: usize = 4096;

impl Continuity {
    /// # Errors
    /// [`FoldError::Order`], [`FoldError::Gap`], [`FoldError::Purge`].
    pub(crate) fn check(
        &mut self,
        batch: &Batch<'_>,
        jobs: &Jobs,
        applied: u64,
    ) -> Result<(), FoldError> {
        self.numbers.clear();
        self.numbers.shrink_to(KEPT_JOBS_MAX);
        let alone = batch.events.len() == 1;
        let mut last = applied;
        for entry in &batch.events {
            let mut expected = None;
            if let Some(id) = entry.id.map(JobId) {
                let known = self.numbers.get(&id).copied();
                match known.or_else(|| jobs.seen(id)) {
                    Some(seen) if entry.eventlog_seq <= seen => continue,
                    Some(seen) => expected = Some(seen + 1),
                    None if entry.seq <= applied => continue,
                    None if jobs.set_aside().contains(id) => {}
                    None => expected = Some(1),
                }
                if !alone {
                    self.numbers.insert(id, entry.eventlog_seq);
                }
            } else if entry.seq <= applied || entry.seq == last {
                continue;
            }
            if entry.seq <= last {
                return Err(FoldError::Order {
                    met: entry.seq,
                    after: last,
                });
            }
            last = entry.seq;
            if let Some(Err(_)) = entry.purged() {
                return Err(FoldError::Purge { seq: entry.seq });
            }
            if let (Some(id), Some(expected)) = (entry.id, expected)
                && entry.eventlog_seq != expected
            {
                return Err(FoldError::Gap {
                    id: JobId(id),
                    expected,
                    met: entry.eventlog_seq,
                });
            }
        }
        match batch.seq {
            Some(met) if met < last => Err(FoldError::Order { met, after: last }),
            _ => Ok(()),
        }
    }
}
