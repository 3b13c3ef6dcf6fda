//! The scheduler's core for one machine or a few pretended ones: who gets which cores, and when.
//!
//! [`Sched::handle`] is the only door. No clock, no file, no socket: the time comes in, actions go out, and the runner
//! performs them. The parts:
//!
//! ```text
//! set         the cores or GPUs of one node
//! pool        nodes, which of them are ready, what is free, the search for a place
//! request     what a job asks for        constraint  which nodes it may use
//! order       who is next                backfill    who may go before the one at the head
//! sched       the state machine          rset        grants as R version 1
//! ```
//!
//! Left to others: reading requests from messages, the R of jobs in the store, limited mode (the job-manager offers the best
//! jobs of its queue). Specification: `rfc/5_engine.md`.

mod backfill;
mod constraint;
mod order;
mod pool;
mod request;
pub mod rset;
mod sched;
mod set;

#[cfg(test)]
mod tests;

pub use constraint::{CONSTRAINT_DEPTH_MAX, Constraint, ConstraintError};
pub use pool::{Grant, NodeGrant, NodeSpec};
pub use request::{Request, RequestError, Spread};
pub use sched::{Action, Counters, Input, Sched};
pub use set::{ID_MAX, Set};
