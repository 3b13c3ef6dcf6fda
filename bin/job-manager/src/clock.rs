//! The only clock of this process. Cores get its readings as arguments.

use job::Timestamp;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall time for what is recorded, and a time that never goes back for what is paced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    started: Instant,
    started_wall: f64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            started: Instant::now(),
            started_wall: wall(),
        }
    }

    /// Seconds since 1970, to the microsecond. May jump when somebody sets the clock.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp(wall())
    }

    /// Like [`Clock::wall`], but moves only forward.
    pub(crate) fn monotonic(&self) -> Timestamp {
        Timestamp(self.started_wall + self.started.elapsed().as_secs_f64())
    }

    /// When a reading of [`Clock::monotonic`] will be.
    pub(crate) fn instant(&self, at: Timestamp) -> Instant {
        let ahead = (at.0 - self.started_wall).max(0.0);
        self.started + Duration::try_from_secs_f64(ahead).unwrap_or(Duration::from_secs(3600))
    }
}

fn wall() -> f64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Microseconds: a float of today's size holds no more, and prints short.
    since.as_micros() as f64 / 1e6
}
