//! How jobs ended: waits for them by id and says so in one line, one exit status or one JSON object each.
//!
//! Waiting is `job-list.list-id` with a state: the answer comes when the job is inactive, so nothing is polled. The requests
//! are pipelined; order of the outcomes is the order of the ids.

use crate::connect::{CallError, Pending, Session};
use crate::ids::{self, Problem};
use crate::outage::Outage;
use crate::row::{Row, RowJson};
use crate::{status, when};
use job::{JobId, JobResult, State};
use serde::Deserialize;
use serde_json::json;
use std::collections::VecDeque;
use wire::errno;

/// Jobs waited for at a time on one connection.
const IN_FLIGHT_MAX: usize = 1024;
/// The status of a job that ended without having run, and of one nobody knows.
const STATUS_NEVER_RAN: u8 = 1;

/// The attributes [`Outcome`] needs, and a listing of it.
pub const ATTRIBUTES: [&str; 1] = ["all"];

/// A response of `list-id`.
#[derive(Deserialize)]
pub struct ListIdResponse {
    /// The job.
    pub job: Row,
}

/// A job that has ended, or an id nobody knows.
#[derive(Debug)]
pub enum Outcome {
    /// It ended.
    Ended(Box<Row>),
    /// There is no such job, or no right to see it.
    Unknown(JobId, String),
}

impl Outcome {
    /// True if it ended and did what it should.
    #[must_use]
    pub fn success(&self) -> bool {
        matches!(self, Self::Ended(row) if row.result() == Some(JobResult::Completed))
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        match self {
            Self::Ended(row) => row.job_id(),
            Self::Unknown(id, _) => *id,
        }
    }

    /// `ƒ… (name)`
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Ended(row) => row.label(),
            Self::Unknown(id, _) => ids::show(*id),
        }
    }

    /// The status that stands for it.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            _ if self.success() => 0,
            Self::Ended(row) => row.waitstatus.map_or(STATUS_NEVER_RAN, |status| {
                status::exit_status(status).max(STATUS_NEVER_RAN)
            }),
            Self::Unknown(..) => STATUS_NEVER_RAN,
        }
    }

    /// Why it is no success.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            _ if self.success() => None,
            Self::Unknown(_, text) => Some(text.clone()),
            Self::Ended(row) => Some(match row.reason() {
                reason if reason.is_empty() => row.status().to_lowercase(),
                reason => reason,
            }),
        }
    }

    /// The JSON form: a job, or an error.
    ///
    /// # Errors
    /// The error's JSON form.
    pub fn json(&self) -> Result<RowJson<'_>, Problem> {
        match self {
            Self::Ended(row) => Ok(row.json(when::now())),
            Self::Unknown(id, text) => Err(Problem::of(*id, text.clone())),
        }
    }
}

/// Waits until every one of these jobs has ended, over restarts of the instance.
///
/// # Errors
/// The instance or its listing service went away and does not come back.
pub async fn wait_all(session: &Session, jobs: &[JobId]) -> anyhow::Result<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(jobs.len());
    wait_into(session, jobs, &mut outcomes).await?;
    Ok(outcomes)
}

/// Likewise; the outcomes known so far are there whenever it is given up.
///
/// # Errors
/// Likewise.
pub async fn wait_into(
    session: &Session,
    jobs: &[JobId],
    outcomes: &mut Vec<Outcome>,
) -> anyhow::Result<()> {
    let mut session = session.clone();
    let mut outage = Outage::default();
    loop {
        let before = outcomes.len();
        match wait_rest(&session, jobs, outcomes).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                if outcomes.len() > before {
                    outage.over();
                }
                let place = session.place().clone();
                session = outage.survive(&place, error, "waiting").await?;
            }
        }
    }
}

/// Waits for those that have no outcome yet.
async fn wait_rest(
    session: &Session,
    jobs: &[JobId],
    outcomes: &mut Vec<Outcome>,
) -> anyhow::Result<()> {
    let mut in_flight: VecDeque<(JobId, Pending)> = VecDeque::new();
    let mut next = jobs.iter().skip(outcomes.len());
    loop {
        while in_flight.len() < IN_FLIGHT_MAX {
            let Some(id) = next.next() else { break };
            let request = json!({"id": id, "attrs": ATTRIBUTES, "state": State::Inactive.bit()});
            in_flight.push_back((*id, session.start("job-list.list-id", &request).await?));
        }
        let Some((id, pending)) = in_flight.pop_front() else {
            return Ok(());
        };
        outcomes.push(match pending.answer_patiently::<ListIdResponse>().await {
            Ok(response) => Outcome::Ended(Box::new(response.job)),
            Err(CallError::Refused {
                errnum: errno::ENOENT,
                ..
            }) => Outcome::Unknown(id, ids::unknown(id)),
            Err(error) => return Err(error.into()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(json: &str) -> Outcome {
        Outcome::Ended(Box::new(serde_json::from_str(json).unwrap()))
    }

    #[test]
    fn a14_what_did_not_succeed_says_why() {
        let good = ended(r#"{"id":1,"state":64,"result":1,"waitstatus":0}"#);
        assert_eq!(
            (good.success(), good.exit_status(), good.reason()),
            (true, 0, None)
        );
        let bad = ended(r#"{"id":1,"name":"x","state":64,"result":2,"waitstatus":768}"#);
        assert_eq!(
            (bad.success(), bad.exit_status(), bad.reason()),
            (false, 3, Some("Exit 3".to_owned()))
        );
        let dependent = ended(
            r#"{"id":1,"state":64,"result":2,"exception_type":"dependency","exception_severity":0,"exception_note":"ƒ1 failed"}"#,
        );
        assert_eq!(
            (dependent.exit_status(), dependent.reason()),
            (1, Some("Exception: dependency: ƒ1 failed".to_owned()))
        );
        let timeout = ended(r#"{"id":1,"state":64,"result":8,"waitstatus":0}"#);
        assert_eq!(
            (timeout.exit_status(), timeout.reason()),
            (1, Some("Timeout".to_owned()))
        );
        let unknown = Outcome::Unknown(JobId(5), "no such job ƒ6".to_owned());
        assert_eq!((unknown.success(), unknown.exit_status()), (false, 1));
    }
}
