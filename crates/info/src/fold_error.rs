//! Why a stream of the journal cannot be followed further.

use job::JobId;
use thiserror::Error;

/// Why a stream cannot be followed further.
#[derive(Debug, Error)]
pub enum FoldError {
    /// Not a batch.
    #[error("malformed journal batch: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The stream of another journal.
    #[error("journal batch of epoch {met}, expected {expected}")]
    Epoch {
        /// Of the list so far.
        expected: Box<str>,
        /// Of the batch.
        met: Box<str>,
    },
    /// A batch while no stream was begun.
    #[error("journal batch before a stream was begun")]
    NotBegun,
    /// The seq does not rise.
    #[error("journal entry or batch {met} comes after {after}")]
    Order {
        /// What came.
        met: u64,
        /// What was there already.
        after: u64,
    },
    /// Entries of a job are missing.
    #[error("entry {met} of job {id} comes where its entry {expected} should")]
    Gap {
        /// The job.
        id: JobId,
        /// The entry that should come.
        expected: u32,
        /// The one that came.
        met: u32,
    },
    /// A stream is resumed at another place than was asked for.
    #[error("the journal goes on after {met}, not after {expected} as it was asked")]
    Resumed {
        /// The cursor.
        expected: u64,
        /// Where the stream is.
        met: u64,
    },
    /// The end of a backlog that is no cursor.
    #[error("a backlog ends without a seq")]
    NoCursor,
    /// Which jobs were purged cannot be read, so the list may hold them for ever.
    #[error("purge entry {seq} cannot be read")]
    Purge {
        /// The entry.
        seq: u64,
    },
}
