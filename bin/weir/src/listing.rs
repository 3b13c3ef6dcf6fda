//! Asking job-list: which jobs, in which order, with which attributes; and what to do when the instance is down.
//!
//! The order is job-list's and never changed here: pending by priority, then running, then inactive. When the main socket does
//! not answer, job-info's own socket beside it is tried: it serves the last list it had, marked stale with its age.

use crate::connect::{CallError, OpenError, Session, Stream};
use crate::ids;
use crate::output::complain;
use crate::row::Row;
use crate::when;
use bytes::Bytes;
use job::JobId;
use serde::Deserialize;
use serde_json::{Value, json};
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
}

/// A session with whoever can list jobs: the instance, or job-info alone.
#[derive(Debug)]
pub struct Lister {
    session: Session,
    /// The instance is down; this is job-info's own socket.
    pub alone: bool,
}

impl Lister {
    /// Connects to the instance, else to job-info's own socket unless `fresh` is asked for.
    ///
    /// # Errors
    /// Neither answers; the error is about the main socket.
    pub async fn open(fresh: bool) -> anyhow::Result<Self> {
        match Session::open().await {
            Ok(session) => Ok(Self {
                session,
                alone: false,
            }),
            Err(error) if fresh || error.downcast_ref::<OpenError>().is_none() => Err(error),
            Err(error) => match Session::open_beside("job-info.socket").await {
                Ok(session) => Ok(Self {
                    session,
                    alone: true,
                }),
                Err(_) => Err(error),
            },
        }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Asks; the rows come from the answer one page at a time.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn ask(&self, question: &Question) -> Result<Answer, CallError> {
        let request = json!({
            "max_entries": question.max_entries,
            "attrs": question.attributes,
            "since": question.since,
            "constraint": question.constraint,
            "batch": BATCH_ROWS,
        });
        let stream = self.session.stream("job-list.list", &request).await?;
        Ok(Answer {
            stream,
            stale: None,
            warned: false,
        })
    }

    /// Asks for jobs by id, pipelined; the results come in the order of the ids, with the age of the list if it is stale.
    ///
    /// # Errors
    /// The connection is lost, or job-list is not there. A job that does not exist is an error in its place.
    pub async fn by_id(
        &self,
        jobs: &[JobId],
        attributes: &[&'static str],
    ) -> anyhow::Result<(Vec<Result<Row, String>>, Option<f64>)> {
        let mut rows = Vec::with_capacity(jobs.len());
        let mut stale = None;
        let mut warned = false;
        for ids in jobs.chunks(IDS_IN_FLIGHT_MAX) {
            let mut pending = Vec::with_capacity(ids.len());
            for id in ids {
                pending.push(
                    self.session
                        .start("job-list.list-id", &json!({"id": id, "attrs": attributes}))
                        .await?,
                );
            }
            for (id, pending) in ids.iter().zip(pending) {
                rows.push(match pending.answer::<ListIdResponse>().await {
                    Ok(response) => {
                        if let Some(age) = response.stale {
                            stale = Some(age);
                            warn_once(age, &mut warned);
                        }
                        Ok(response.job)
                    }
                    Err(CallError::Refused {
                        errnum: errno::ENOENT,
                        ..
                    }) => Err(ids::unknown(*id)),
                    Err(
                        error @ CallError::Refused {
                            errnum: errno::EPERM,
                            ..
                        },
                    ) => Err(format!("{}: {error}", ids::show(*id))),
                    Err(error) => return Err(error.into()),
                });
            }
        }
        Ok((rows, stale))
    }
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
    stream: Stream,
    /// Seconds since the list was up to date, if it is not.
    pub stale: Option<f64>,
    warned: bool,
}

impl Answer {
    /// The next rows; empty at the end.
    ///
    /// # Errors
    /// job-list refuses the question, or the connection is lost.
    pub async fn rows(&mut self) -> anyhow::Result<Vec<Row>> {
        while let Some(payload) = self.stream.next().await? {
            let page = self.page(&payload)?;
            if !page.is_empty() {
                return Ok(page);
            }
        }
        Ok(Vec::new())
    }

    fn page(&mut self, payload: &Bytes) -> anyhow::Result<Vec<Row>> {
        let page: Page = serde_json::from_slice(payload)?;
        if let Some(age) = page.stale {
            self.stale = Some(age);
            warn_once(age, &mut self.warned);
        }
        Ok(page.jobs)
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
