//! As `bin/job-manager/src/clock.rs`, over the simulator's clock.

use job::Timestamp;
use std::time::Instant;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock;

impl Clock {
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(sim_io::clock::wall())
    }

    pub(crate) fn monotonic(&self) -> Timestamp {
        Timestamp(sim_io::clock::monotonic())
    }

    /// Only for the daemon's own loop, which is not here.
    pub(crate) fn instant(&self, _: Timestamp) -> Instant {
        Instant::now()
    }
}
