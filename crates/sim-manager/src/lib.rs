//! The job-manager's shell (`bin/job-manager`), compiled from its own sources over `sim-io`: one broker that the simulator drives.
//!
//! ```text
//!  bin/job-manager/src/*.rs ─ #[path] ─▶ this crate          `rpc`, `store` = sim-io
//!  clock.rs, reads.rs, broker of one turn ─▶ written here: what would wait, run threads or read the clock
//! ```
//! Real: everything between a message that came in and a frame that goes out, and between a commit and its `Durable`. Written here:
//! the clock, the three lanes of reads ([`Lane`]), opening ([`Broker::start`] does what `open.rs` does, in its order, without files), and the
//! turn itself (`turns.rs`): which news is taken next is the simulator's to say, so that every order is tried and not only the usual.
//! Left out: `open.rs`, `turns.rs`, `stop.rs`, `main.rs`. A change of the shell that does not compile here needs a change here.

#![forbid(unsafe_code)]

extern crate sim_io as rpc;
extern crate sim_io as store;

macro_rules! shell {
    ($($file:literal $name:ident),* $(,)?) => {
        $(
            #[path = $file]
            #[allow(dead_code, unreachable_pub, reason = "what only the daemon uses")]
            mod $name;
        )*
    };
}

shell! {
    "../../../bin/job-manager/src/asked.rs" asked,
    "../../../bin/job-manager/src/broker.rs" broker,
    "../../../bin/job-manager/src/builtin.rs" builtin,
    "../../../bin/job-manager/src/client_log.rs" client_log,
    "../../../bin/job-manager/src/committer.rs" committer,
    "../../../bin/job-manager/src/conns.rs" conns,
    "../../../bin/job-manager/src/deliver.rs" deliver,
    "../../../bin/job-manager/src/engines.rs" engines,
    "../../../bin/job-manager/src/events.rs" events,
    "../../../bin/job-manager/src/forward.rs" forward,
    "../../../bin/job-manager/src/frames.rs" frames,
    "../../../bin/job-manager/src/inbox.rs" inbox,
    "../../../bin/job-manager/src/keys.rs" keys,
    "../../../bin/job-manager/src/lookup.rs" lookup,
    "../../../bin/job-manager/src/pages.rs" pages,
    "../../../bin/job-manager/src/restore.rs" restore,
    "../../../bin/job-manager/src/retain.rs" retain,
    "../../../bin/job-manager/src/serve.rs" serve,
    "../../../bin/job-manager/src/set_aside.rs" set_aside,
    "../../../bin/job-manager/src/shell.rs" shell,
    "../../../bin/job-manager/src/specs.rs" specs,
    "../../../bin/job-manager/src/streams.rs" streams,
    "../../../bin/job-manager/src/to_engines.rs" to_engines,
}

mod clock;
mod process;
mod purge;
mod reads;
mod turns;

pub use process::{Broker, End, Lane, Settings, Stats};

use std::time::Duration;

/// As `job_manager::Config`, but for what only concerns files and sockets.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Entries in the journal's ring.
    pub(crate) journal_size_limit: usize,
    /// Over which events are gathered for a busy listener.
    pub(crate) batch_interval: Duration,
}
