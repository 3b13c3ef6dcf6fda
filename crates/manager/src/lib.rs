//! The job-manager's core: requests and reports come in, entries to store and messages to send come out.
//!
//! Three verbs. **Decide** (`decide/`): a request against the state gives events or a refusal. **Apply** (`job::Job::apply`): an event folds
//! into a job; nothing else changes one. **React** (`react.rs`): what a state still owes. A restart applies all, then reacts.
//!
//! ```text
//!  Input ─▶ Manager::handle ─▶ decide ─▶ post = apply + Entry ─▶ react ─▶ Commit ─────────────▶ out at once
//!                                                                        └▶ answers, requests ─▶ pending ─ Durable ─▶ out
//! ```
//! No clock, file, randomness or task in here: `handle(now, input, out)` is a function of its arguments and the state. Left to the shell
//! (`bin/job-manager`): messages and sockets, the store, the journal's streams, look-ups. The specification is `rfc/7_job_manager.md`.

#![forbid(unsafe_code)]

mod action;
mod allocated;
mod decide;
mod dispatches;
mod engine;
mod idmap;
mod input;
mod keys;
mod known;
mod manager;
mod no_space;
mod nodes;
mod pending;
mod purge;
mod queue;
mod queues;
mod react;
mod record;
#[cfg(feature = "sabotage")]
pub mod sabotage;
mod slice;
mod specs;
mod stats;
mod turn;
mod unwrap;
mod write;

pub use action::{Action, Commit, Find, JobWrite, Refusal, Which, with_j};
pub use input::{
    Call, Config, Found, Input, Key, KeyFound, Recovered, Report, Sender, StoredJob, Token,
};
pub use manager::{Damaged, Manager};
pub use no_space::REPORTS_MAX;
pub use pending::{HELD_CHANGES_MAX, HELD_MADE_MAX, HELD_MAX};
pub use purge::{Keep, PURGE_BATCH_MAX};
pub use stats::Stats;
