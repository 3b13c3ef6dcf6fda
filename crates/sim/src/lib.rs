//! sim (test): job-manager, job-info and an engine in one thread, with fake time, a faulty disk and cut links; the promises of the journal checked.
//!
//! ```text
//!   seed ─▶ Plan (who takes part, how large, which faults)
//!            │
//!            ▼        one step at a time, drawn by weight among all that can happen
//!          World ── bytes arrive · a turn · a commit begins, ends · a read · a request · a job ends · a fault · time passes
//!            │                                                                    │
//!            ▼                                                                    ▼
//!   Truth: the store's history and its fold  ◀── every answer, every batch ── clients, listeners
//!            └── at quiet points: job-manager's jobs = job-info's lists = the fold; everything asked is answered, streams have caught up
//! ```
//!
//! How to run it: `make soak SEEDS=10000`, `make soak MINUTES=30`; `make check` runs a few hundred seeds. A seed that breaks a promise is printed with the
//! line that runs it again: `cargo run -p sim -- --seed N --trace`. A run follows from its seed and the code alone. `make soak-broken` breaks the real cores in four
//! ways (feature `sabotage`) and demands that each is noticed within 100 seeds.
//!
//! **Real**, the very sources that the daemons are built from:
//! - the cores: wire, protocol, router, manager, journal, info, sched, job;
//! - the job-manager's shell (`sim-manager`): requests, look-ups, streams, pages, commits, engines' queues, fairness, keys, restoring;
//! - job-info's shell (`sim-info`): the link and its back-off, following, resuming, marks and held requests, listings, waits, streams.
//!
//! **Modelled**, written here a second time:
//! - the disk (`sim-io`): commits that are slow, fail, find no space, with a reserve; a crash that leaves a prefix of what was handed over;
//!   a log that is trimmed, a row that cannot be read, a store that is replaced by an empty one or by a copy;
//! - connections: bytes in order, in pieces, late, cut; output queues with smaller water marks; no buffer of a kernel between them;
//! - the loops (`turns.rs`, `service.rs`): which news comes next is drawn, so every order is tried, also those a loop would not choose;
//! - opening (`open.rs`), the removal of purged jobs' files, the polite stop after a shutdown; the runner around `sched` with up to three nodes, not always
//!   all of them, and shepherds: a body is begun once, whatever is asked.
//!
//! **Not here**: SQLite, sockets, processes, files, HTTP, the command line. Those have tests of their own, and the black-box loops of `t/`.
//!
//! What is checked at every step, by name ([`Promise`]): *ordered*, *unique*, *complete*, *durable*, *resumable*, *honest*, *isolated*; read-your-writes;
//! that lists are a fold of the journal at the very seq they name; that everything comes to rest. One liberty is taken: entries of a
//! purged job may be missing as soon as the purge is stored, not only from its entry on (the store has nothing to read any more).

#![forbid(unsafe_code)]

pub mod client;
mod connections;
pub mod engine;
mod faults;
pub mod link;
pub mod listener;
pub mod plan;
mod processes;
mod quiet;
pub mod rng;
pub mod run;
#[cfg(feature = "sabotage")]
pub mod sabotage;
mod store;
pub mod trace;
pub mod truth;
mod users;
pub mod violation;
pub mod world;

pub use violation::{Promise, Violation};
pub use world::{Counts, World};
