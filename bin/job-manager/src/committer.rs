//! What is on its way to the disk: commits gathered for the writer, and their entries until they are durable.
//!
//! ```text
//!  Commit ─ gather ─▶ one batch per turn of the loop ─ hand over ─▶ store's writer ─ Durable(seq) ─▶ entries, to the fan-out
//!                                                     └ its queue is full: held here, offered again after the next event
//! ```
//! What is held here is bounded: requests are refused while more than [`UNDURABLE_BYTES_MAX`] or [`UNDURABLE_ENTRIES_MAX`] is not durable
//! (one request may reach past that), and reports of engines are bounded by what the engines were asked.

use crate::retain::LogLimit;
use job::{Attach, Entry, Seq};
use manager::Commit;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Batch, Rejected, Writer};

/// Bytes of entries and rows on their way to the disk, before more changes are refused.
pub(crate) const UNDURABLE_BYTES_MAX: usize = 256 << 20;
/// Entries, likewise.
const UNDURABLE_ENTRIES_MAX: usize = 1 << 20;

/// See the module.
pub(crate) struct Committer {
    writer: Writer,
    gathered: Batch,
    held: VecDeque<Batch>,
    undurable: VecDeque<Arc<Entry>>,
    /// Last seq and size of each commit that is not durable.
    sizes: VecDeque<(Seq, usize)>,
    undurable_bytes: usize,
    log: LogLimit,
    /// The log's new floors that are on their way, each with the last seq of its commit.
    floors: VecDeque<(Seq, Seq)>,
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
    /// `log`: how much of the log is kept.
    pub(crate) fn new(writer: Writer, log: LogLimit) -> Committer {
        Committer {
            writer,
            gathered: Batch::default(),
            held: VecDeque::new(),
            undurable: VecDeque::new(),
            sizes: VecDeque::new(),
            undurable_bytes: 0,
            log,
            floors: VecDeque::new(),
            stats: CommitStats::default(),
        }
    }

    /// Takes one commit in; it goes to the writer with the next [`Committer::hand_over`].
    pub(crate) fn gather(&mut self, commit: Commit) {
        self.stats.commits += 1;
        if let Some(last) = commit.entries.last() {
            let size = size(&commit);
            self.sizes.push_back((last.seq, size));
            self.undurable_bytes += size;
        }
        self.undurable.extend(commit.entries.iter().cloned());
        self.gathered.entries.extend(commit.entries);
        self.gathered.jobs.extend(commit.jobs.into_iter().map(row));
        self.gathered.meta.extend(commit.meta);
    }

    /// Gives the writer what was gathered, in order; never waits. What a writer that has ended does not take is kept: its last event says why.
    pub(crate) fn hand_over(&mut self) {
        if let Some(last) = self.gathered.entries.last().map(|entry| entry.seq) {
            self.gathered.trim = self.log.trim(&self.gathered);
            self.floors
                .extend(self.gathered.trim.map(|floor| (last, floor)));
            self.held.push_back(std::mem::take(&mut self.gathered));
        }
        while let Some(batch) = self.held.pop_front() {
            match self.writer.try_submit(batch) {
                Ok(()) => {}
                Err(Rejected::Full(batch) | Rejected::Closed(batch)) => {
                    self.held.push_front(batch);
                    break;
                }
            }
        }
    }

    /// The floor that the log has with what is durable up to `seq`, if it rose: until then a crash leaves it where it was.
    pub(crate) fn floor(&mut self, seq: Seq) -> Option<Seq> {
        let risen = self.floors.partition_point(|(last, _)| *last <= seq);
        self.floors
            .drain(..risen)
            .next_back()
            .map(|(_, floor)| floor)
    }

    /// Whether too much is on its way for more changes to be taken.
    pub(crate) fn is_behind(&self) -> bool {
        self.undurable_bytes > UNDURABLE_BYTES_MAX || self.undurable.len() > UNDURABLE_ENTRIES_MAX
    }

    /// Whether nothing can be stored, not even what engines report.
    pub(crate) fn is_halted(&self) -> bool {
        self.writer.is_halted()
    }

    /// Entries that are not durable yet.
    pub(crate) fn undurable(&self) -> usize {
        self.undurable.len()
    }

    /// The entries that became durable with this, oldest first.
    pub(crate) fn durable(&mut self, seq: Seq, micros: u64) -> Vec<Arc<Entry>> {
        let count = self.undurable.partition_point(|entry| entry.seq <= seq);
        self.stats.syncs += 1;
        self.stats.entries += count as u64;
        self.stats.last_sync_micros = micros;
        let stored = self.sizes.partition_point(|(last, _)| *last <= seq);
        let bytes: usize = self.sizes.drain(..stored).map(|(_, size)| size).sum();
        self.undurable_bytes -= bytes;
        self.undurable.drain(..count).collect()
    }

    /// Stores what was handed over and lets the state directory go. Waits for the disk.
    pub(crate) fn close(mut self) {
        self.hand_over();
        let held = self.held.len();
        match self.writer.close() {
            Ok(()) if held == 0 => {}
            Ok(()) => tracing::warn!(held, "not stored before the end; nobody was told of it"),
            Err(error) => tracing::warn!(held, %error, "at the end; nobody was told of it"),
        }
    }
}

fn size(commit: &Commit) -> usize {
    let entries = commit.entries.iter().map(|entry| {
        let attached = match &entry.attach {
            Attach::None => 0,
            Attach::Jobspec(bytes) | Attach::R(bytes) => bytes.len(),
        };
        entry.line().len() + attached
    });
    let rows = commit.jobs.iter().map(|write| match write {
        manager::JobWrite::Insert { j, .. } => j.len(),
        manager::JobWrite::SetR { r, .. } => r.len(),
        _ => 0,
    });
    entries.sum::<usize>() + rows.sum::<usize>()
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
            key,
        } => To::Insert {
            id,
            userid,
            t_submit,
            flags,
            jobspec,
            j,
            key,
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
