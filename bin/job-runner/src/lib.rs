//! The engine of one machine: scheduler, executor, node processes, shepherds. One binary, three roles.
//!
//! ```text
//!  weir-job-runner --uri … --statedir …     the engine: a client of the job-manager              engine/
//!  weir-job-runner --node NAME …            one node: parent of its shepherds                    node/
//!  weir-job-runner --shepherd               one job: claims it, runs it, leaves its status       shepherd/
//! ```
//!
//! The roles are processes because they must die apart: killing the engine touches no job, killing a node process is a node that
//! goes down, killing a shepherd is one lost job. They speak in [`messages`]; a shepherd's [`order`] says all it must know.
//! Decisions about resources are made in crate `sched`. Specification: `rfc/5_engine.md`.

pub mod args;
pub mod engine;
pub mod messages;
pub mod node;
pub mod order;
pub mod paths;
pub mod proc;
pub mod shepherd;

pub use engine::{CannotStart, Config, run};

#[cfg(test)]
#[allow(unreachable_pub, reason = "the tests beside this crate use it too")]
#[path = "../tests/common/disk.rs"]
mod disk;
