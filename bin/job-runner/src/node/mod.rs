//! The node process: parent of one node's shepherds. It goes on when the engine goes away, and when it dies the node is down.
//!
//! ```text
//!  engine ◀── node-NAME.socket ──▶ node process ◀── socket pairs ──▶ shepherds, spares
//! ```
//!
//! - It is a process of its own for one node, too, so that there is one code path; the extra hop costs some 50 µs a message, and
//!   the spares it keeps (shepherds already executed, waiting for an order) save a job ten times that.
//! - A `start` is idempotent: a job that is known is told of, one that left traces on disk is told of from there ([`claim`'s
//!   table](crate::shepherd::claim)), only one that never began is begun.
//! - It is a subreaper: what a killed shepherd leaves behind falls to it and is killed; only when nothing is left is the job's end
//!   told. So a slot is neither lost nor given out twice.
//! - A shepherd that is stopped, or deaf when its job has to end, is continued, asked, and in the end killed (`obey.rs`).
//! - The end of a job is remembered until the engine says that the job-manager has it (`forget`). If that takes longer than a
//!   second the status file is made durable, which on the fast path is not needed: the job-manager's store has it by then.
//!
//! Left to others: which jobs run where (`sched`), what the job-manager hears (`engine`).

mod child;
mod jobs;
mod obey;
mod orphans;
mod serve;

pub use serve::{NodeConfig, READY_LINE, run};
pub(crate) use serve::{STOPPED_ROUND, gone, watch};
