//! The engine: services `sched`, `job-exec` and `resource` on one connection to the job-manager.
//!
//! ```text
//!                  ┌───────────────── engine ─────────────────┐
//!  job-manager ◀──▶│ session ─▶ sched (who, where)            │◀──▶ node processes ◀──▶ shepherds
//!                  │         ─▶ exec  (what runs, what is told)│
//!                  └──────────────────────────────────────────┘
//! ```
//!
//! One loop takes in what comes first: messages of the job-manager, facts of the node processes, the wish to end. The book of the
//! executor outlives a connection, the scheduler is made anew with each: `sched-hello` says what is held. When the job-manager is
//! away jobs go on, and a connection is tried every second. Jobs of an engine with other nodes are taken over with them (`roster`).
//!
//! What a job held is given out again as soon as its last process is gone, in the same turn in which that is reported: the
//! job-manager reads the report first and the next grant after it, so both fit into one of its commits.

mod asked;
mod boot;
mod connect;
mod events;
pub(crate) mod exec;
pub mod machine;
mod nodes;
mod notes;
pub mod orders;
mod requests;
mod resources;
mod roster;
mod serve;
mod session;
mod stdin;
mod targets;

pub use boot::CannotStart;
pub use serve::{Config, run};

/// Writes the last entries of a job that ran on several nodes: none of its shepherds knows the whole.
fn complete(dir: &str, status: i32) {
    #[derive(serde::Serialize)]
    struct Complete {
        status: i32,
    }
    let mut lines = Vec::new();
    crate::shepherd::push_entry(&mut lines, "complete", Some(Complete { status }));
    crate::shepherd::push_entry::<()>(&mut lines, "done", None);
    // All shepherds of the job have ended: nobody else writes.
    let path = std::path::Path::new(dir).join("exec.eventlog");
    let mut log = crate::shepherd::Log::new(&path, Vec::new(), true);
    if let Err(failed) = log.write(&lines) {
        tracing::warn!(dir, error = %failed.error, "failed to complete an exec eventlog");
    }
}
