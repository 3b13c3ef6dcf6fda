//! `job-manager.prioritize`: absolute priorities, for very many jobs in one commit.
//!
//! A priority that is set stays until the urgency changes, or until it is set to `default`: it is what the newest `priority` event says, so a
//! restart keeps it. One event a job, and none where the priority is that already: an update of all that changes few costs the few.
//! Urgency goes before: a held job stays held and an expedited one first, as in Flux.

use job::{EventKind, JobId, Priority, State, Urgency};
use protocol::job_manager::{PrioritizeRequest, PrioritizeResponse, PrioritizeResult, PriorityAim};
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, amount, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::write::json;

impl Manager {
    /// `{jobs:[[id,priority|"default"]…]}` → `{seq, results}`, each pair decided in order.
    pub(crate) fn prioritize(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: PrioritizeRequest = parse(call)?;
        amount::pairs(&request.jobs)?;
        self.may_change()?;
        let mut results = Vec::with_capacity(request.jobs.len());
        for (id, aim) in request.jobs {
            results.push(match self.set_priority(id, aim) {
                Ok(old) => PrioritizeResult::Changed {
                    id,
                    old_priority: old.0,
                },
                Err(refusal) => PrioritizeResult::Refused {
                    id,
                    errnum: refusal.errnum,
                    text: refusal.text.unwrap_or_default(),
                },
            });
        }
        Ok(Answer::Json(json(&PrioritizeResponse {
            seq: self.seq.0,
            results,
        })))
    }

    /// Decides one pair, posts its event if there is a change, and moves the job in the queue.
    fn set_priority(&mut self, id: JobId, aim: PriorityAim) -> Result<Priority, Refusal> {
        let refused = |text: &'static str| Err(Refusal::new(errno::EINVAL, text));
        let Some(record) = self.jobs.get(&id) else {
            return Err(self.absent(id, errno::EINVAL, "job is inactive", "unknown job"));
        };
        let job = &record.job;
        let wanted = match aim {
            PriorityAim::Absolute(wanted) => Priority(wanted),
            PriorityAim::Default => job.urgency.priority(),
            PriorityAim::Wrong => {
                return refused(
                    "priority value is out of range: expected an integer 0 to 4294967295, or default",
                );
            }
        };
        let old = match (job.state, job.priority) {
            (State::Sched, Some(old)) => old,
            (State::Run | State::Cleanup, _) => {
                return refused("priority cannot be changed once resources are allocated");
            }
            _ => return refused("job has no priority before its dependencies are satisfied"),
        };
        if wanted == old {
            return Ok(old);
        }
        match job.urgency {
            Urgency::HOLD => {
                return refused("job is held: its urgency has to be raised from 0 first");
            }
            Urgency::EXPEDITE => {
                return refused("job is expedited: its urgency has to be lowered from 31 first");
            }
            _ => {}
        }
        // SCHED takes it: the state was looked at above.
        let event = EventKind::Priority { priority: wanted };
        if self.post(id, event, true, job::Attach::None).is_err() {
            return Err(self.absent(id, errno::EINVAL, "job is inactive", "unknown job"));
        }
        self.place(id);
        self.turn.reordered = true;
        Ok(old)
    }
}
