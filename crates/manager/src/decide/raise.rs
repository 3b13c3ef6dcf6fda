//! `job-manager.raise`, `job-manager.raiseall`: exceptions. Severity 0 ends the job, whatever its state.

use job::event::{ExceptionEvent, SEVERITY_MAX};
use job::{EventKind, JobId, StateSet};
use protocol::job_manager::{AllResponse, RaiseRequest, RaiseallRequest, USERID_ALL};
use wire::{Topic, errno};

use crate::action::{Action, Refusal};
use crate::decide::amount::{self, NOTE_BYTES_MAX, TYPE_BYTES_MAX};
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::{Object, json};

const GUEST: &str = "guests can only raise exceptions on their own jobs";

impl Manager {
    /// One job.
    pub(crate) fn raise(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: RaiseRequest<'_> = parse(call)?;
        let note = request.note.as_deref();
        let severity = checked(request.severity, &request.kind, note)?;
        self.may_change()?;
        let Some(record) = self.jobs.get(&request.id) else {
            return Err(self.absent(
                request.id,
                errno::ENOENT,
                "job is inactive",
                "unknown job id",
            ));
        };
        if !call.cred.may_act_for(record.job.userid) {
            return Err(Refusal::new(errno::EPERM, GUEST));
        }
        let exception = ExceptionEvent {
            kind: request.kind.into_owned(),
            severity,
            note: request.note.unwrap_or_default().into_owned(),
            userid: Some(call.cred.userid),
            wait_status: request.wait_status,
        };
        if !self.raise_on(request.id, exception) {
            return Err(Refusal::new(errno::ENOENT, "unknown job id"));
        }
        Ok(self.seq_answer())
    }

    /// Every active job of a user, or of all, that is in one of the states: one commit.
    pub(crate) fn raiseall(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: RaiseallRequest<'_> = parse(call)?;
        let note = request.note.as_deref();
        let severity = checked(request.severity, &request.kind, note)?;
        if !call.cred.is_owner() && request.userid != call.cred.userid {
            return Err(Refusal::new(errno::EPERM, GUEST));
        }
        let states = StateSet(request.states);
        let chosen = self.chosen(request.userid, states);
        amount::copies(chosen.len(), [&*request.kind, note.unwrap_or_default()])?;
        let mut errors = 0;
        if !request.dry_run {
            self.may_change()?;
            for id in &chosen {
                let exception = ExceptionEvent {
                    kind: request.kind.clone().into_owned(),
                    severity,
                    note: request.note.clone().unwrap_or_default().into_owned(),
                    userid: Some(call.cred.userid),
                    wait_status: None,
                };
                errors += u64::from(!self.raise_on(*id, exception));
            }
        }
        Ok(Answer::Json(json(&AllResponse {
            count: chosen.len() as u64,
            errors,
            seq: self.seq.0,
        })))
    }

    /// The active jobs of a user (or of all) in these states, oldest first. Walks the active jobs: this request is about all of them.
    pub(crate) fn chosen(&self, userid: u32, states: StateSet) -> Vec<JobId> {
        let mut ids: Vec<JobId> = self
            .jobs
            .values()
            .map(|record| &record.job)
            .filter(|job| {
                states.contains(job.state) && (userid == USERID_ALL || job.userid == userid)
            })
            .map(|job| job.id)
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Posts an exception and publishes it; false if the job takes none.
    pub(crate) fn raise_on(&mut self, id: JobId, exception: ExceptionEvent) -> bool {
        let Some(userid) = self.jobs.get(&id).map(|record| record.job.userid) else {
            return false;
        };
        let mut payload = Object::new(16)
            .id(id)
            .value("type", &exception.kind)
            .number("severity", exception.severity);
        if let Some(wait_status) = exception.wait_status {
            payload = payload.value("wait_status", &wait_status);
        }
        if self
            .post_stored(id, EventKind::Exception(exception))
            .is_err()
        {
            return false;
        }
        self.effect(Action::Publish {
            topic: Topic::from("job-exception"),
            payload: payload.end(),
            private_to: Some(userid),
        });
        // Now, so that the answer's seq covers what follows for this job.
        self.settle(id);
        true
    }
}

/// Severity, type and note, as they may be.
fn checked(severity: i64, kind: &str, note: Option<&str>) -> Result<u8, Refusal> {
    let severity = u8::try_from(severity)
        .ok()
        .filter(|severity| *severity <= SEVERITY_MAX);
    let severity = severity.ok_or(Refusal::new(errno::EPROTO, "invalid exception severity"))?;
    if kind.is_empty() || kind.contains(|letter: char| letter.is_whitespace() || letter == '=') {
        return Err(Refusal::new(errno::EPROTO, "invalid exception type"));
    }
    amount::text("exception type", kind, TYPE_BYTES_MAX)?;
    amount::text("note", note.unwrap_or_default(), NOTE_BYTES_MAX)?;
    Ok(severity)
}
