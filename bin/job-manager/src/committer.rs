//! What is on its way to the disk: commits gathered for the writer, and their entries until they are durable.
//!
//! ```text
//!  Commit ─ gather ─▶ one batch per turn of the loop ─ hand over ─▶ store's writer ─ Durable(seq) ─▶ entries, to the fan-out
//!                                                     └ its queue is full: held here, offered again after the next event
//! ```
//! What is held here is bounded by the manager: it refuses new work when too much is not yet durable.

use anyhow::anyhow;
use job::{Entry, Seq};
use manager::Commit;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Batch, Rejected, Writer};

/// See the module.
pub(crate) struct Committer {
    writer: Writer,
    gathered: Batch,
    held: VecDeque<Batch>,
    undurable: VecDeque<Arc<Entry>>,
    pub(crate) stats: CommitStats,
}

/// Counted since the start.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CommitStats {
    /// What the manager asked to be stored as one.
    pub(crate) commits: u64,
    /// Fsyncs reported; each made one or more commits durable.
    pub(crate) syncs: u64,
    /// Entries made durable.
    pub(crate) entries: u64,
    /// Microseconds that the newest fsync took.
    pub(crate) last_sync_micros: u64,
}

impl Committer {
    pub(crate) fn new(writer: Writer) -> Committer {
        Committer {
            writer,
            gathered: Batch::default(),
            held: VecDeque::new(),
            undurable: VecDeque::new(),
            stats: CommitStats::default(),
        }
    }

    /// Takes one commit in; it goes to the writer with the next [`Committer::hand_over`].
    pub(crate) fn gather(&mut self, commit: Commit) {
        self.stats.commits += 1;
        self.undurable.extend(commit.entries.iter().cloned());
        self.gathered.entries.extend(commit.entries);
        self.gathered.jobs.extend(commit.jobs.into_iter().map(row));
        self.gathered.meta.extend(commit.meta);
    }

    /// Gives the writer what was gathered, in order; never waits.
    /// # Errors
    /// The writer has ended.
    pub(crate) fn hand_over(&mut self) -> anyhow::Result<()> {
        if !self.gathered.entries.is_empty()
            || !self.gathered.meta.is_empty()
            || !self.gathered.jobs.is_empty()
        {
            self.held.push_back(std::mem::take(&mut self.gathered));
        }
        while let Some(batch) = self.held.pop_front() {
            match self.writer.try_submit(batch) {
                Ok(()) => {}
                Err(Rejected::Full(batch)) => {
                    self.held.push_front(batch);
                    break;
                }
                Err(Rejected::Closed(_)) => return Err(anyhow!("the store takes no more writes")),
            }
        }
        Ok(())
    }

    /// The entries that became durable with this, oldest first.
    pub(crate) fn durable(&mut self, seq: Seq, micros: u64) -> Vec<Arc<Entry>> {
        let count = self.undurable.partition_point(|entry| entry.seq <= seq);
        self.stats.syncs += 1;
        self.stats.entries += count as u64;
        self.stats.last_sync_micros = micros;
        self.undurable.drain(..count).collect()
    }

    /// Stores what was handed over and lets the state directory go.
    /// # Errors
    /// There was no space for the last of it; nobody was told of that.
    pub(crate) fn close(mut self) -> anyhow::Result<()> {
        self.hand_over()?;
        if !self.held.is_empty() {
            tracing::warn!(
                batches = self.held.len(),
                "not stored before the end; nobody was told of them"
            );
        }
        Ok(self.writer.close()?)
    }
}

/// The store's form of the manager's row change.
fn row(write: manager::JobWrite) -> store::JobWrite {
    use manager::JobWrite as From;
    use store::JobWrite as To;
    match write {
        From::Insert {
            id,
            userid,
            t_submit,
            flags,
            jobspec,
            j,
        } => To::Insert {
            id,
            userid,
            t_submit,
            flags,
            jobspec,
            j,
        },
        From::SetR { id, r } => To::SetR { id, r },
        From::Inactive {
            id,
            t_inactive,
            result,
        } => To::Inactive {
            id,
            t_inactive,
            result: result as u32,
        },
        From::Consumed { id } => To::Consumed { id },
        From::Delete { id } => To::Delete { id },
    }
}
