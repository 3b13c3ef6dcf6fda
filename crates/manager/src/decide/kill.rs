//! `job-manager.kill`, `job-manager.killall`: signals for running jobs. They change no job by themselves.
//!
//! A signal goes to the exec service as `SERVICE.kill`, and out as the event `shell-<id>.kill` for Flux's shells.

use job::{JobId, State, StateSet};
use protocol::job_manager::{AllResponse, KillRequest, KillallRequest};
use wire::{Topic, errno};

use crate::action::{Action, Refusal};
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::{Object, json};

/// Highest signal number.
const SIGNAL_MAX: i64 = 64;

impl Manager {
    /// One job.
    pub(crate) fn kill(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: KillRequest = parse(call)?;
        let signum = signal(request.signum)?;
        let Some(record) = self.jobs.get(&request.id) else {
            return Err(self.absent(
                request.id,
                errno::EINVAL,
                "job is inactive",
                "unknown job id",
            ));
        };
        if !call.cred.may_act_for(record.job.userid) {
            return Err(Refusal::new(
                errno::EPERM,
                "guests may only send signals to their own jobs",
            ));
        }
        if record.job.state != State::Run {
            return Err(Refusal::new(errno::EINVAL, "job is not running"));
        }
        self.send_signal(request.id, signum)?;
        Ok(Answer::Empty)
    }

    /// Every running job of a user, or of all.
    pub(crate) fn killall(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: KillallRequest = parse(call)?;
        let signum = signal(request.signum)?;
        if !call.cred.is_owner() && request.userid != call.cred.userid {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only kill their own jobs",
            ));
        }
        let chosen = self.chosen(request.userid, StateSet::from(State::Run));
        let mut errors = 0;
        if !request.dry_run {
            for id in &chosen {
                errors += u64::from(self.send_signal(*id, signum).is_err());
            }
        }
        Ok(Answer::Json(json(&AllResponse {
            count: chosen.len() as u64,
            errors,
            seq: self.seq.0,
        })))
    }

    /// # Errors
    /// EAGAIN: nobody is there to deliver it. (Flux answers success.)
    fn send_signal(&mut self, id: JobId, signum: u64) -> Result<(), Refusal> {
        let Some(link) = &self.exec else {
            return Err(Refusal::new(
                errno::EAGAIN,
                "no exec service is connected that could deliver the signal: try again",
            ));
        };
        let (to, topic) = (link.sender, link.kill.clone());
        let payload = Object::new(0).id(id).number("signum", signum).end();
        self.effect(Action::Request {
            to,
            topic,
            payload,
            noresponse: true,
        });
        let topic = Topic::from(format!("shell-{}.kill", id.0));
        self.effect(Action::Publish {
            topic,
            payload: Object::new(0).number("signum", signum).end(),
            private_to: None,
        });
        Ok(())
    }
}

/// A signal number, as it may be.
fn signal(signum: i64) -> Result<u64, Refusal> {
    match u64::try_from(signum) {
        Ok(number) if (1..=SIGNAL_MAX).contains(&signum) => Ok(number),
        _ => Err(Refusal::new(errno::EINVAL, "Invalid signal number")),
    }
}
