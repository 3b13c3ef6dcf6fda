//! logs (io): where the lines of a daemon go. Always to standard error; where that is a file of `weir start`, the file is bounded.
//!
//! ```text
//!  job-manager.log ──LIMIT reached──► job-manager.log.1 ──► .2 ──► .3 ──► gone
//! ```
//! `weir start` names the file in [`FILE_VARIABLE`] and makes it standard output and error. Whoever writes to it looks now and then: too long, it is
//! put aside; put aside by another process (an engine's nodes share the engine's file), it is left for the new one.
//!
//! Invariants:
//! - A line that cannot be written ends nobody: it is counted, and the count is written when there is room again.
//! - All files of one daemon together have at most `(KEPT + 1) × (limit + what is written between two looks)` bytes.
//! - A file is put aside once, however many processes write to it: who does it holds a lock on it and looks again.

mod file;
mod lines;

pub use file::{KEPT, LIMIT_BYTES, limit, put_aside};
pub use lines::{Lines, init, say};

/// Names the file that standard error is, for the daemon that is to keep it short.
pub const FILE_VARIABLE: &str = "WEIR_LOG_FILE";
/// Bytes after which a log is put aside, in place of [`LIMIT_BYTES`].
pub const LIMIT_VARIABLE: &str = "WEIR_LOG_LIMIT";
/// Which lines are written, as `tracing` filters are.
pub const FILTER_VARIABLE: &str = "WEIR_LOG";
