//! Asking job-list: which jobs, in which order, with which attributes; and what to do when the instance is down.
//!
//! The order is job-list's and never changed here: pending by priority, then running, then inactive. When the main socket does
//! not answer, job-info's own socket beside it is tried: it serves the last list it had, marked stale with its age. Nothing is
//! waited for longer than [`ANSWER_WITHIN`]: a daemon that is stopped is named.

use crate::backoff::Backoff;
use crate::connect::{ANSWER_WITHIN, CallError, OpenError, Session, Stream};
use crate::ids;
use crate::outage;
use crate::output::complain;
use crate::row::Row;
use crate::when;
use job::JobId;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use wire::errno;

/// [weir] Rows in one response, at most; others send one in each, which is taken as well.
const BATCH_ROWS: u64 = 512;

/// A question to `job-list.list`.
#[derive(Debug, Clone)]
pub struct Question {
    /// At most so many jobs; 0 is all.
    pub max_entries: u64,
    /// Attributes wanted.
    pub attributes: Vec<&'static str>,
    /// Inactive jobs only if they ended after this.
    pub since: f64,
    /// Which jobs.
    pub constraint: Value,
}

/// One response of the stream: some jobs, in order.
#[derive(Debug, Deserialize)]
struct Page {
    jobs: Vec<Row>,
    /// [weir] The list is not up to date: seconds since it was.
    #[serde(default)]
    stale: Option<f64>,
    /// [weir] Damaged jobs that the list lacks.
    #[serde(default)]
    set_aside: u64,
}

/// How long the listing service is waited for before its last list is taken, and when only a fresh one will do: it tries to
/// reach a job-manager that was gone every ten seconds at least.
const SERVICE_BACK_WITHIN: Duration = Duration::from_secs(2);
const FRESH_WITHIN: Duration = Duration::from_secs(15);

/// How long the first answer is waited for before job-info's own socket is tried as well: the job-manager may be stopped.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// The socket of job-info itself, in the state directory.
const OWN_SOCKET: &str = "job-info.socket";

/// Whom a question is put to, and how long the answer may take.
#[derive(Debug, Clone, Copy)]
struct Asking {
    within: Duration,
    /// How long the job-manager has said nothing, if that is why job-info is asked itself.
    silent_for: Option<Duration>,
}

impl Asking {
    /// The age of a list that does not know that it is stale.
    fn age(&self) -> Option<f64> {
        self.silent_for.map(|silent| silent.as_secs_f64())
    }
}

/// Asks the instance; while its listing service is coming back, again. Unless `fresh` is asked for, job-info's own socket is
/// the last resort.
async fn asked<T>(
    fresh: bool,
    ask: impl AsyncFn(Session, Asking) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    let (patience, within) = if fresh {
        (FRESH_WITHIN, ANSWER_WITHIN)
    } else {
        (SERVICE_BACK_WITHIN, SILENT_AFTER)
    };
    let asking = Asking {
        within,
        silent_for: None,
    };
    let mut backoff = Backoff::default();
    let error = loop {
        let opened = if fresh {
            Session::open().await
        } else {
            Session::open_briefly().await
        };
        match opened {
            Err(error) => break error,
            Ok(session) => match ask(session, asking).await {
                Err(error) if outage::is_passing(&error) => {
                    if started.elapsed() >= patience {
                        break error;
                    }
                    backoff.wait().await;
                }
                Err(error) if is_silent(&error) => break error,
                other => return other,
            },
        }
    };
    if fresh {
        return Err(error);
    }
    let silent = is_silent(&error);
    let left = ANSWER_WITHIN.saturating_sub(started.elapsed());
    let asking = Asking {
        within: left,
        silent_for: silent.then(|| started.elapsed()),
    };
    let beside = match Session::open_beside(OWN_SOCKET, left).await {
        Ok(session) => ask(session, asking).await,
        Err(other) => Err(other),
    };
    match beside {
        // Both ways lead to job-info: it is the one that says nothing.
        Err(other) if silent && is_silent(&other) => Err(CallError::Silent {
            topic: wire::Topic::from("job-info"),
            waited: ANSWER_WITHIN,
        }
        .into()),
        Err(other) if other.downcast_ref::<OpenError>().is_some() => Err(error),
        other => other,
    }
}

fn is_silent(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<CallError>()
        .is_some_and(CallError::is_silent)
        || error
            .downcast_ref::<OpenError>()
            .is_some_and(OpenError::is_silent)
}

/// Asks; the rows come from the answer one page at a time.
///
/// # Errors
/// No instance and no job-info either, or the question is refused.
pub async fn ask(question: &Question, fresh: bool) -> anyhow::Result<Answer> {
    let request = json!({
        "max_entries": question.max_entries,
        "attrs": question.attributes,
        "since": question.since,
        "constraint": question.constraint,
        "batch": BATCH_ROWS,
    });
    asked(fresh, async |session, asking| {
        let stream = session.stream("job-list.list", &request).await?;
        let mut answer = Answer {
            session,
            stream,
            first: Vec::new(),
            stale: None,
            warned: false,
            asking,
        };
        // Whether there is an answer at all shows with the first page.
        answer.first = answer.next_page().await?;
        Ok(answer)
    })
    .await
}

/// Asks for jobs by id, pipelined; the results come in the order of the ids, with the age of the list if it is stale.
///
/// # Errors
/// No instance and no job-info either. A job that does not exist is an error in its place.
pub async fn by_id(
    jobs: &[JobId],
    attributes: &[&'static str],
    fresh: bool,
) -> anyhow::Result<(Vec<Result<Row, String>>, Option<f64>)> {
    asked(fresh, async |session, asking| {
        let mut rows = Vec::with_capacity(jobs.len());
        let (mut stale, mut warned) = (None, false);
        for ids in jobs.chunks(IDS_IN_FLIGHT_MAX) {
            let mut pending = Vec::with_capacity(ids.len());
            for id in ids {
                let request = json!({"id": id, "attrs": attributes});
                pending.push(session.start("job-list.list-id", &request).await?);
            }
            for (id, pending) in ids.iter().zip(pending) {
                rows.push(
                    match pending.answer_within::<ListIdResponse>(asking.within).await {
                        Ok(response) => {
                            if let Some(age) = response.stale.or_else(|| asking.age()) {
                                stale = Some(age);
                                warn_once(age, &mut warned);
                            }
                            Ok(response.job)
                        }
                        Err(CallError::Refused {
                            errnum: errno::ENOENT,
                            ..
                        }) => Err(ids::unknown(*id)),
                        // Of this job alone: no right to it, a stale list that does not hold it, a damaged record.
                        Err(
                            error @ CallError::Refused {
                                errnum: errno::EPERM | errno::EAGAIN | errno::EIO,
                                ..
                            },
                        ) => Err(format!("{}: {error}", ids::show(*id))),
                        Err(error) => return Err(error.into()),
                    },
                );
            }
        }
        Ok((rows, stale))
    })
    .await
}

/// Look-ups by id on their way at a time.
const IDS_IN_FLIGHT_MAX: usize = 1024;

#[derive(Deserialize)]
struct ListIdResponse {
    job: Row,
    #[serde(default)]
    stale: Option<f64>,
}

/// The rows of an answer.
#[derive(Debug)]
pub struct Answer {
    session: Session,
    stream: Stream,
    first: Vec<Row>,
    /// Seconds since the list was up to date, if it is not.
    pub stale: Option<f64>,
    warned: bool,
    asking: Asking,
}

impl Answer {
    /// Whom it came from.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The next rows; empty at the end.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn rows(&mut self) -> anyhow::Result<Vec<Row>> {
        if self.first.is_empty() {
            self.next_page().await
        } else {
            Ok(std::mem::take(&mut self.first))
        }
    }

    async fn next_page(&mut self) -> anyhow::Result<Vec<Row>> {
        while let Some(payload) = self.stream.next_within(self.asking.within).await? {
            let page: Page = serde_json::from_slice(&payload)?;
            if let Some(age) = page.stale.or_else(|| self.asking.age()) {
                self.stale = Some(age);
                warn_once(age, &mut self.warned);
            }
            if page.set_aside > 0 {
                complain(&format!(
                    "warning: damaged jobs are left out: {} ('weir stats' names them)",
                    page.set_aside
                ));
            }
            if !page.jobs.is_empty() {
                return Ok(page.jobs);
            }
        }
        if let (None, Some(age)) = (self.stale, self.asking.age()) {
            self.stale = Some(age);
            warn_once(age, &mut self.warned);
        }
        Ok(Vec::new())
    }
}

fn warn_once(age: f64, warned: &mut bool) {
    if !std::mem::replace(warned, true) {
        complain(&format!(
            "warning: the job-manager does not answer; this list is stale, {} old",
            when::human(age.round())
        ));
    }
}
