//! job-info's shell (`bin/job-info`), compiled from its own sources over `sim-io`: one follower that the simulator drives.
//!
//! Real: the link and its back-off, following and resuming, marks and held requests, listings and waits, streams and pauses. Left out: HTTP. Written here:
//! `files.rs` (no inotify: the simulator's jobs have no files) and the loop of `service.rs` ([`Follower`]). The times that the shell takes
//! itself (`Instant::now` in `core.rs`) decide only how long one slice of sending is and what age a stale list tells.
//! A change of the shell that does not compile here needs a change here.

#![forbid(unsafe_code)]

extern crate sim_io as rpc;

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
    "../../../bin/job-info/src/clients.rs" clients,
    "../../../bin/job-info/src/core.rs" core,
    "../../../bin/job-info/src/elsewhere.rs" elsewhere,
    "../../../bin/job-info/src/fetch_queue.rs" fetch_queue,
    "../../../bin/job-info/src/follow.rs" follow,
    "../../../bin/job-info/src/guest.rs" guest,
    "../../../bin/job-info/src/guest_read.rs" guest_read,
    "../../../bin/job-info/src/hold.rs" hold,
    "../../../bin/job-info/src/link.rs" link,
    "../../../bin/job-info/src/list.rs" list,
    "../../../bin/job-info/src/lookup.rs" lookup,
    "../../../bin/job-info/src/methods.rs" methods,
    "../../../bin/job-info/src/peer.rs" peer,
    "../../../bin/job-info/src/quota.rs" quota,
    "../../../bin/job-info/src/share.rs" share,
    "../../../bin/job-info/src/stats.rs" stats,
    "../../../bin/job-info/src/streams.rs" streams,
    "../../../bin/job-info/src/update.rs" update,
    "../../../bin/job-info/src/watch.rs" watch,
}

mod files;
mod process;

pub use process::{Follower, Lost};

use std::{path::PathBuf, time::Duration};

/// As `job_info::Config`, but for what only concerns sockets.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) statedir: PathBuf,
    pub(crate) reconnect: Duration,
    pub(crate) private: bool,
}
