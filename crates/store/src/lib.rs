//! store (io): events and jobs on disk, in one SQLite file.
//!
//! ```text
//!              Batch            one transaction           Event::Durable(seq)
//! job-manager ───────► queue ─────────────────► store.sqlite ─────────────────► callback
//!                      bounded      one fsync        │
//!                                                    └──► Reader (many; read-only; short transactions)
//! ```
//!
//! [`Store::open`] takes the lock of the state directory, checks and migrates the file, tells what it holds ([`Recovered`]) and
//! starts the one thread that writes ([`Writer`]). Readers come from a [`ReaderFactory`] and may live on any thread.
//!
//! Invariants:
//! - Batches are stored whole and in the order they were handed over; what one transaction holds becomes visible together.
//! - [`Event::Durable`] is told only after the fsync of what it names has returned.
//! - No space: a reserve lets what is under way end; if that is not enough, nothing of the rest is stored and the writer ends. Any other
//!   failure of the disk is fatal: the process must exit and reopen.
//! - A damaged row or line is reported with its id; it never panics and never hides its neighbours.
//!
//! What the entries mean is left to `job` and `manager`; who may see them, to the callers. The file's layout is drawn in
//! [`schema`] and in `rfc/6_store.md`.

mod amiss;
mod apply;
mod archive;
mod backup;
mod batch;
mod blobs;
mod check;
mod checkpoint;
mod ended;
mod error;
mod examine;
mod gone;
mod jobrow;
mod lock;
mod log;
mod logsize;
mod opening;
mod reader;
mod recover;
mod removal;
mod reserve;
mod rows;
mod salvage;
mod scans;
pub mod schema;
mod stored;
mod tally;
mod traces;
mod wal;
mod writer;

pub use amiss::{Amiss, repair, settle};
pub use backup::{BackupError, Copied, backup};
pub use batch::{Batch, JobWrite};
pub use check::{NAMED_MAX, Problem, Progress, Report, check};
pub use ended::Ended;
pub use error::{Corrupt, OpenError, ReadError};
pub use opening::StoreOptions;
pub use reader::{PAGE_BYTES_MAX, PAGE_ROWS_MAX, Reader, ReaderFactory};
pub use recover::Recovered;
pub use salvage::{SalvageError, Salvaged, salvage};
pub use stored::{CURSOR_START, Damage, FoundJob, JobsPage, LogPage, Scope, StoredJob};
pub use tally::Tally;
pub use traces::{JobDirs, MARK_NAME};
pub use writer::{
    Event, QUEUE_BATCHES_MAX, Rejected, Store, TRANSACTION_ENTRIES_MAX, Unwritten, Writer,
};

/// Name of the database file inside a state directory.
pub const FILE_NAME: &str = "store.sqlite";
/// Name of the lock file inside a state directory.
pub const LOCK_NAME: &str = "lock";
/// Name of the file that keeps room back, inside a state directory.
pub const RESERVE_NAME: &str = "reserve";
/// The bit of a job's submit flags that keeps its result until someone waits for it.
pub const FLAG_WAITABLE: u32 = 4;
