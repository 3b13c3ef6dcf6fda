//! `job-manager.urgency` and `job-manager.priority`: one job, or many in one commit.
//!
//! Both post the pair urgency, priority for every job, also when nothing changes by it (the second comes from react).

use job::{EventKind, JobId, State, Urgency};
use protocol::job_manager::{
    PriorityRequest, PriorityResponse, PriorityResult, UrgencyRequest, UrgencyResponse,
};
use wire::{Cred, errno};

use crate::action::Refusal;
use crate::decide::{Answer, amount, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::json;

impl Manager {
    /// One job: `{id, urgency}` → `{old_urgency, seq}`.
    pub(crate) fn urgency(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: UrgencyRequest = parse(call)?;
        self.may_change()?;
        let old_urgency = self.set_urgency(call.cred, request.id, request.urgency)?;
        Ok(Answer::Json(json(&UrgencyResponse {
            old_urgency,
            seq: self.seq.0,
        })))
    }

    /// Many jobs: `{jobs:[[id,urgency]…]}` → `{seq, results}`. Each pair is decided as `urgency` would, in order.
    pub(crate) fn priorities(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: PriorityRequest = parse(call)?;
        amount::pairs(&request.jobs)?;
        self.may_change()?;
        let mut results = Vec::with_capacity(request.jobs.len());
        for (id, urgency) in request.jobs {
            results.push(match self.set_urgency(call.cred, id, urgency) {
                Ok(old_urgency) => PriorityResult::Changed { id, old_urgency },
                Err(refusal) => PriorityResult::Refused {
                    id,
                    errnum: refusal.errnum,
                    text: refusal.text.unwrap_or_default(),
                },
            });
        }
        Ok(Answer::Json(json(&PriorityResponse {
            seq: self.seq.0,
            results,
        })))
    }

    /// Decides one change and does all that follows from it for this job.
    fn set_urgency(&mut self, cred: Cred, id: JobId, urgency: i64) -> Result<u8, Refusal> {
        let urgency = Urgency::new(urgency)
            .map_err(|_| Refusal::new(errno::EINVAL, "urgency value is out of range"))?;
        let Some(record) = self.jobs.get(&id) else {
            return Err(self.absent(id, errno::EINVAL, "job is inactive", "unknown job"));
        };
        if !cred.may_act_for(record.job.userid) {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only reprioritize their own jobs",
            ));
        }
        if !cred.is_owner() && urgency > Urgency::DEFAULT {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only adjust urgency <= default",
            ));
        }
        if matches!(record.job.state, State::Run | State::Cleanup) {
            return Err(Refusal::new(
                errno::EINVAL,
                "urgency cannot be changed once resources are allocated",
            ));
        }
        let old_urgency = record.job.urgency.get();
        let event = EventKind::Urgency {
            userid: cred.userid,
            urgency,
        };
        if self.post_stored(id, event).is_err() {
            return Err(self.absent(id, errno::EINVAL, "job is inactive", "unknown job"));
        }
        // Now, so that the pair stands together in the journal.
        self.settle(id);
        self.turn.reordered = true;
        Ok(old_urgency)
    }
}
