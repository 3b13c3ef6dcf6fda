//! Living through a restart: what is worth trying again, for how long, and the one line that says so.
//!
//! A daemon of the instance that dies is back in a moment. Commands that only read, or that follow something, do not fail for
//! that: they connect again and go on where they were. Commands that change something never repeat a request that was sent.

use crate::backoff::Backoff;
use crate::connect::{CallError, OpenError, Session};
use crate::failure;
use crate::output::complain;
use crate::supervise::claim::{self, Ending};
use crate::uri::Place;
use crate::when;
use std::fmt;
use std::time::{Duration, Instant};

/// How long an instance that is gone is waited for by commands that follow something.
const INSTANCE_BACK_WITHIN: Duration = Duration::from_secs(300);
/// How long a service that is gone is waited for, the instance being there.
const SERVICE_BACK_WITHIN: Duration = Duration::from_secs(15);
/// How long a command that asks once is patient.
const PATIENCE: Duration = Duration::from_secs(5);

/// The instance has ended and was not asked to come back: nothing is there to wait for.
#[derive(Debug)]
pub struct Gone {
    removed: bool,
}

impl Gone {
    fn of(place: &Place, ending: Option<Ending>) -> Option<Self> {
        let removed = !place.statedir().exists();
        let shut_down = matches!(ending, Some(Ending::ShutDown | Ending::Left));
        (removed || shut_down).then_some(Self { removed })
    }
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.removed {
            "the instance has ended, and its state directory is gone"
        } else {
            "the instance was shut down; jobs that have not ended are there again at its next start"
        })
    }
}

impl std::error::Error for Gone {}

/// True if the same may succeed a little later: the connection broke, nobody serves the socket, a daemon's service is away.
#[must_use]
pub fn is_passing(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<CallError>()
        .is_some_and(CallError::is_passing)
        || error
            .downcast_ref::<OpenError>()
            .is_some_and(OpenError::is_passing)
}

/// An interruption of something that goes on.
#[derive(Debug, Default)]
pub struct Outage {
    since: Option<Instant>,
    backoff: Backoff,
}

impl Outage {
    /// Connects again after this error, having said so once if that does not do at once.
    ///
    /// # Errors
    /// The error itself if it will not pass, or has not in time; [`Gone`] if the instance was shut down.
    pub async fn survive(
        &mut self,
        place: &Place,
        error: anyhow::Error,
        whose: &str,
    ) -> anyhow::Result<Session> {
        if !is_passing(&error) {
            return Err(error);
        }
        let lost = error
            .downcast_ref::<CallError>()
            .is_none_or(CallError::is_lost);
        let within = if lost {
            INSTANCE_BACK_WITHIN
        } else {
            SERVICE_BACK_WITHIN
        };
        let known = self.since;
        let since = *self.since.get_or_insert_with(Instant::now);
        let mut said = known.is_some();
        let mut error = error;
        while since.elapsed() < within {
            self.backoff.wait().await;
            let met = match Session::open_at(place).await {
                Ok(session) => {
                    if !said {
                        complain(&format!("{whose}: {}; trying again", failure::text(&error)));
                    }
                    return Ok(session);
                }
                Err(met) => met,
            };
            let ending = claim::ending(place.statedir());
            if let Some(gone) = Gone::of(place, ending) {
                return Err(gone.into());
            }
            if !std::mem::replace(&mut said, true) {
                let within = when::human(within.as_secs_f64());
                complain(&match ending {
                    Some(_) => format!(
                        "{whose}: the instance was stopped; waiting for its next start, at most {within}"
                    ),
                    None => format!("{whose}: {}; trying again", failure::text(&error)),
                });
            }
            error = met;
        }
        Err(error)
    }

    /// It goes on: the next interruption is a new one.
    pub fn over(&mut self) {
        *self = Self::default();
    }
}

/// Asks, and asks again while the instance is coming back. Only for what may be asked twice.
///
/// # Errors
/// The last error.
pub async fn patiently<T>(mut ask: impl AsyncFnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    let mut backoff = Backoff::default();
    loop {
        match ask().await {
            Err(error) if is_passing(&error) && started.elapsed() < PATIENCE => {
                backoff.wait().await
            }
            other => return other,
        }
    }
}
