//! Between the connections and job-info's loop: what is asked goes one way, answers the other, and neither waits for the other's clients.
//!
//! ```text
//!  connection ─ Asked{token, want, oneshot} ─► channel (ASKS_MAX) ─► loop        when it is full the connection waits, then: 503
//!             ─ Note (cancel, expire) ───────► list, at most two for each ask ─► loop
//!  connection ◄─ oneshot ─────────────────────────────────────────── loop        never blocks
//!             ◄─ Status (watch) ──────────────────────────────────── loop
//! ```
//! Timers are here: the loop knows nothing of how long somebody waits.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use views::{
    Ask, HttpError, Reply,
    stream::{Cursor, Start, Subscription},
};

use super::{metrics::Facts, reply::Refused};
use crate::link::SILENCE_MAX;

/// Asks that the loop has not looked at yet.
pub(crate) const ASKS_MAX: usize = 1024;
/// How long an ask may wait for room.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// How long a read waits for the seq it asked for with `after`.
const AFTER_WAIT: Duration = Duration::from_secs(30);

/// What the loop can be asked for.
#[derive(Debug)]
pub(crate) enum Want {
    /// A body.
    View(Box<Ask>),
    /// A place in the events.
    Subscribe(Start, Option<Arc<str>>),
    /// The next line of events, when there is one.
    Next(Arc<Subscription>, Cursor),
    /// What the metrics say of the loop.
    Facts,
}

/// What comes back.
#[derive(Debug)]
pub(crate) enum Given {
    View(Reply),
    Subscribed(Result<Cursor, HttpError>),
    /// A line, the place behind it, and whether it is the last.
    Line(Bytes, Cursor, bool),
    Facts(Box<Facts>),
}

/// One ask on its way.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) token: u64,
    pub(crate) want: Want,
    pub(crate) answer: oneshot::Sender<Given>,
}

/// What is said about an ask that is with the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// Nobody waits for it any more.
    Cancel(u64),
    /// Its time is up: the body as it is.
    Expire(u64),
}

/// Notes that the loop has not looked at yet.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    list: Mutex<Vec<Note>>,
    pub(crate) come: Notify,
}

impl Notes {
    fn add(&self, note: Note) {
        self.list
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(note);
        self.come.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How the list is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Status {
    /// There is a list.
    pub(crate) served: bool,
    pub(crate) applied: u64,
    pub(crate) epoch: Option<Arc<str>>,
    /// Since when it does not follow its journal.
    pub(crate) stale_since: Option<Instant>,
    /// When it will be stale if nothing is heard until then.
    pub(crate) silent_at: Option<Instant>,
    /// Jobs it lacks.
    pub(crate) set_aside: usize,
}

impl Status {
    /// Seconds since the list last followed its journal; `None` while it does.
    pub(crate) fn stale(&self, now: Instant) -> Option<f64> {
        let silent = self.silent_at.filter(|at| *at <= now);
        let since = self
            .stale_since
            .or(silent.and_then(|at| at.checked_sub(SILENCE_MAX)))?;
        Some(now.saturating_duration_since(since).as_secs_f64())
    }
}

/// The connections' end.
#[derive(Debug)]
pub(crate) struct Line {
    asks: mpsc::Sender<Asked>,
    notes: Arc<Notes>,
    status: watch::Receiver<Status>,
    last: AtomicU64,
    list_wait: Duration,
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct LoopEnd {
    pub(crate) asks: mpsc::Receiver<Asked>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) status: watch::Sender<Status>,
}

/// Both ends.
pub(crate) fn line(list_wait: Duration) -> (Line, LoopEnd) {
    let (send, asks) = mpsc::channel(ASKS_MAX);
    let notes = Arc::new(Notes::default());
    let (status, seen) = watch::channel(Status::default());
    let line = Line {
        asks: send,
        notes: notes.clone(),
        status: seen,
        last: AtomicU64::new(0),
        list_wait,
    };
    (
        line,
        LoopEnd {
            asks,
            notes,
            status,
        },
    )
}

/// Says that nobody waits any more, unless the answer came.
struct Waits<'a> {
    notes: &'a Notes,
    token: u64,
    answered: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.notes.add(Note::Cancel(self.token));
        }
    }
}

impl Line {
    pub(crate) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Waits until there is a list that is at `after` at least.
    ///
    /// # Errors
    /// There is none in time.
    pub(crate) async fn ready(&self, after: u64) -> Result<(), Refused> {
        let reached = |status: &Status| status.served && status.applied >= after;
        if reached(&self.status.borrow()) {
            return Ok(());
        }
        let mut status = self.status.clone();
        let within = if status.borrow().served {
            AFTER_WAIT
        } else {
            self.list_wait
        };
        if let Ok(Ok(_)) = tokio::time::timeout(within, status.wait_for(reached)).await {
            return Ok(());
        }
        let status = self.status.borrow();
        if status.served {
            let text = format!(
                "seq {after} did not come within {} s: the list is at {}",
                within.as_secs(),
                status.applied
            );
            return Err(Refused::unavailable(text));
        }
        // The text that clients look for when there is nobody to answer.
        Err(Refused::internal("No cluster leader"))
    }

    /// Asks the loop. With `wait`, the answer is asked for again, as it is then, when that time is up.
    ///
    /// # Errors
    /// The loop does not come to it, or is over.
    pub(crate) async fn ask(&self, want: Want, wait: Option<Duration>) -> Result<Given, Refused> {
        let gone = || Refused::unavailable("job-info is shutting down, try again");
        let room = match tokio::time::timeout(ROOM_WAIT, self.asks.reserve()).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(gone()),
            Err(_) => {
                return Err(Refused::unavailable(
                    "too many requests wait for the list, try again later",
                ));
            }
        };
        let token = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (send, mut answer) = oneshot::channel();
        let mut waits = Waits {
            notes: &self.notes,
            token,
            answered: false,
        };
        room.send(Asked {
            token,
            want,
            answer: send,
        });
        let given = match wait {
            None => answer.await,
            Some(wait) => match tokio::time::timeout(wait, &mut answer).await {
                Ok(given) => given,
                Err(_) => {
                    self.notes.add(Note::Expire(token));
                    answer.await
                }
            },
        };
        waits.answered = true;
        given.map_err(|_| gone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    #[test]
    fn who_leaves_is_told_and_whose_time_is_up_too() {
        run(async {
            let (line, mut end) = line(Duration::ZERO);
            let asked =
                tokio::time::timeout(Duration::from_millis(10), line.ask(Want::Facts, None));
            assert!(asked.await.is_err(), "nobody answers");
            assert_eq!(end.notes.take(), [Note::Cancel(1)]);
            assert_eq!(end.asks.recv().await.map(|asked| asked.token), Some(1));

            let ask = line.ask(Want::Facts, Some(Duration::from_millis(10)));
            let answer = async {
                let asked = end.asks.recv().await.expect("asked");
                end.notes.come.notified().await;
                while end.notes.take() != [Note::Expire(asked.token)] {
                    end.notes.come.notified().await;
                }
                asked
                    .answer
                    .send(Given::Facts(Box::default()))
                    .expect("waits");
            };
            let (given, ()) = tokio::join!(ask, answer);
            assert!(matches!(given, Ok(Given::Facts(_))));
            assert_eq!(end.notes.take(), [], "nothing is owed");
        });
    }

    #[test]
    fn a_list_that_is_silent_is_stale_without_anybody_saying_so() {
        let start = Instant::now();
        let mut status = Status {
            silent_at: Some(start + SILENCE_MAX),
            ..Status::default()
        };
        assert_eq!(status.stale(start), None);
        assert_eq!(
            status.stale(start + SILENCE_MAX),
            Some(SILENCE_MAX.as_secs_f64())
        );
        status.stale_since = Some(start);
        assert_eq!(status.stale(start + Duration::from_secs(1)), Some(1.0));
    }
}
