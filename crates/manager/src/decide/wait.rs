//! `job-manager.wait`, `idle`, `drain`: answers that come when something has happened.
//!
//! The result of a waitable job is told once: taking it is stored ([`JobWrite::Consumed`]) before it is told. A job that ended before anyone
//! asked is a zombie until then.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use job::{Job, JobFlags, JobId, Map, WaitStatus};
use protocol::job_manager::{WaitRequest, WaitResponse};
use serde_json::Value;
use wire::errno;

use crate::action::{JobWrite, Refusal};
use crate::decide::{Answer, parse};
use crate::input::{Call, Sender, Token};
use crate::manager::Manager;
use crate::write::json;

/// So many requests may wait for something at a time, of each kind.
const WAITERS_MAX: usize = 1 << 16;

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// For one job each.
    by_job: BTreeMap<JobId, (Token, Sender)>,
    /// For any waitable job, first come first served.
    any: VecDeque<(Token, Sender)>,
    /// Active waitable jobs.
    waitable: usize,
    /// For nothing to run.
    pub(crate) idle: Vec<(Token, Sender)>,
    /// For no job to be active.
    pub(crate) drain: Vec<(Token, Sender)>,
}

impl Waits {
    /// An active job is there.
    pub(crate) fn add_job(&mut self, job: &Job) {
        self.waitable += usize::from(job.flags.contains(JobFlags::WAITABLE));
    }

    /// A connection is gone: nobody waits there any more.
    pub(crate) fn forget(&mut self, sender: Sender) {
        self.by_job.retain(|_, (_, waiter)| *waiter != sender);
        self.any.retain(|(_, waiter)| *waiter != sender);
        self.idle.retain(|(_, waiter)| *waiter != sender);
        self.drain.retain(|(_, waiter)| *waiter != sender);
    }
}

impl Manager {
    /// `wait`: the result of a job, or of the next one to end.
    pub(crate) fn wait(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: WaitRequest =
            parse(call).map_err(|_| Refusal::new(errno::EPROTO, "malformed wait request"))?;
        if call.noresponse {
            return Ok(Answer::Later); // a result that nobody hears is not taken
        }
        let zombie = if request.id == JobId::ANY {
            self.zombies.keys().next().copied()
        } else {
            Some(request.id)
        };
        if let Some(id) = zombie.filter(|id| self.zombies.contains_key(id)) {
            self.may_change()?;
            let Some(job) = self.zombies.remove(&id) else {
                return Ok(Answer::Later);
            };
            self.turn.writes.push(JobWrite::Consumed { id });
            self.post_system(
                "wait",
                Some(Map::from_iter([("id".to_owned(), Value::from(id.0))])),
            );
            return Ok(Answer::Json(told(&job)));
        }
        let waits = &mut self.waits;
        if waits.by_job.len() + waits.any.len() >= WAITERS_MAX {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many requests wait for jobs",
            ));
        }
        let waiter = (call.token, call.sender);
        if request.id == JobId::ANY {
            if waits.any.len() + waits.by_job.len() >= waits.waitable {
                return Err(Refusal::new(
                    errno::ECHILD,
                    "there are no more waitable jobs",
                ));
            }
            waits.any.push_back(waiter);
            return Ok(Answer::Later);
        }
        let Some(record) = self.jobs.get(&request.id) else {
            return Err(Refusal::new(
                errno::ECHILD,
                "invalid job id, or job may be inactive and not waitable",
            ));
        };
        if !record.job.flags.contains(JobFlags::WAITABLE) {
            return Err(Refusal::new(
                errno::ECHILD,
                "job was not submitted with FLUX_JOB_WAITABLE",
            ));
        }
        if waits.by_job.contains_key(&request.id) {
            return Err(Refusal::new(errno::ECHILD, "job id already has a waiter"));
        }
        waits.by_job.insert(request.id, waiter);
        Ok(Answer::Later)
    }

    /// A waitable job has ended: tells who waits, or keeps it for who will.
    pub(crate) fn end_wait(&mut self, job: Job) {
        let waits = &mut self.waits;
        waits.waitable = waits.waitable.saturating_sub(1);
        match waits
            .by_job
            .remove(&job.id)
            .or_else(|| waits.any.pop_front())
        {
            Some((token, _)) => {
                self.turn.writes.push(JobWrite::Consumed { id: job.id });
                self.respond(token, Ok(Some(told(&job))));
            }
            None => drop(self.zombies.insert(job.id, Box::new(job))),
        }
    }

    /// `idle`: `{pending}` once nothing runs and nothing is offered.
    pub(crate) fn idle(&mut self, call: &Call) -> Result<Answer, Refusal> {
        queue_up(&mut self.waits.idle, call)
    }

    /// `drain`: empty, once no job is active.
    pub(crate) fn drain(&mut self, call: &Call) -> Result<Answer, Refusal> {
        queue_up(&mut self.waits.drain, call)
    }
}

/// The end of the turn looks who need not wait.
fn queue_up(waiters: &mut Vec<(Token, Sender)>, call: &Call) -> Result<Answer, Refusal> {
    if waiters.len() >= WAITERS_MAX {
        return Err(Refusal::new(errno::EAGAIN, "too many requests wait"));
    }
    if !call.noresponse {
        waiters.push((call.token, call.sender));
    }
    Ok(Answer::Later)
}

/// `{id, success, errstr}` of a job that ended.
fn told(job: &Job) -> Bytes {
    let errstr = match job.finish_status {
        _ if job.success() => String::new(),
        Some(status) if !job.fatal_first => WaitStatus(status).to_string(),
        _ => match job.exception.as_deref() {
            Some(exception) => {
                format!("Fatal exception type={} {}", exception.kind, exception.note)
                    .trim_end()
                    .to_owned()
            }
            None => "the job ended without a status".to_owned(),
        },
    };
    json(&WaitResponse {
        id: job.id,
        success: job.success(),
        errstr: errstr.into(),
    })
}
