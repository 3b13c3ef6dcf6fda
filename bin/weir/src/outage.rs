//! Living through a restart: what is worth trying again, for how long, and the one line that says so.
//!
//! A daemon of the instance that dies is back in a moment. Commands that only read, or that follow something, do not fail for
//! that: they connect again and go on where they were. Commands that change something never repeat a request that was sent.

use crate::backoff::Backoff;
use crate::connect::{CallError, OpenError, Session};
use crate::output::complain;
use crate::uri::Place;
use std::time::{Duration, Instant};

/// How long an instance that is gone is waited for by commands that follow something.
const INSTANCE_BACK_WITHIN: Duration = Duration::from_secs(300);
/// How long a service that is gone is waited for, the instance being there.
const SERVICE_BACK_WITHIN: Duration = Duration::from_secs(15);
/// How long a command that asks once is patient.
const PATIENCE: Duration = Duration::from_secs(5);

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
    /// Connects again after this error, having said so once.
    ///
    /// # Errors
    /// The error itself if it will not pass, or has not in time.
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
        let since = match self.since {
            Some(since) => since,
            None => {
                complain(&format!("{whose}: {error:#}; trying again"));
                *self.since.insert(Instant::now())
            }
        };
        let mut error = error;
        while since.elapsed() < within {
            self.backoff.wait().await;
            match Session::open_at(place).await {
                Ok(session) => return Ok(session),
                Err(other) => error = other,
            }
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
