//! `job-manager.shutdown`, `shutdown-cancel`: no submissions, no starts, and when nothing runs any more the instance ends.
//!
//! ```text
//!  open ─ shutdown ─▶ draining ─ no job holds resources, or force ─▶ over: the shell ends
//!    ▲                   │
//!    └── the last who asked cancels, or is gone ──┘        nothing of it is stored: a restart begins open
//! ```
//! Waiting jobs stay in the store for the next start. Offers that are open are taken back, and what a scheduler grants meanwhile goes
//! straight back to it: so only jobs that hold resources are waited for.

use job::event::ExceptionEvent;
use job::{JobId, State, Timestamp};
use protocol::shutdown::{JOBS_NAMED_MAX, ShutdownRequest, ShutdownResponse};
use wire::errno;

use crate::action::{Action, Refusal};
use crate::decide::{Answer, parse_or_default};
use crate::input::{Call, Sender, Token};
use crate::manager::Manager;
use crate::no_space::WithoutRoom;
use crate::write::json;

/// So many may ask for it at a time.
const ASKED_MAX: usize = 256;
/// Seconds between two words to who asked.
const TELL_EVERY: f64 = 0.1;
/// What is told to who submits, and in the status of the queue.
pub(crate) const SHUTTING_DOWN: &str = "the instance is shutting down";

/// Who asked for it, and how far it is.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    asked: Vec<(Token, Sender)>,
    /// What was said last, and when.
    told: Option<(ShutdownResponse, Timestamp)>,
    /// Somebody wants it now.
    force: bool,
    /// It was said that it is drained: nothing takes that back.
    over: bool,
}

impl Manager {
    /// Whether the instance is on its way to its end.
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.over || !self.shutdown.asked.is_empty()
    }

    /// Whether jobs are offered and started.
    pub(crate) fn starts_jobs(&self) -> bool {
        self.queues.started() && !self.is_shutting_down()
    }

    /// `shutdown`: the end of the turn tells how far it is.
    pub(crate) fn shut_down(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: ShutdownRequest = parse_or_default(call)?;
        if !call.streaming || call.noresponse {
            return Err(Refusal::new(
                errno::EPROTO,
                "job-manager.shutdown requires streaming RPC flag",
            ));
        }
        if self.shutdown.asked.len() >= ASKED_MAX {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many requests wait for the shutdown",
            ));
        }
        if request.now {
            self.may_change()?;
            self.cancel_running(call.cred.userid);
        }
        self.shutdown.asked.push((call.token, call.sender));
        self.shutdown.force |= request.force;
        self.shutdown.told = None;
        Ok(Answer::Later)
    }

    /// Ends every job that holds resources, each told why.
    fn cancel_running(&mut self, userid: u32) {
        let running: Vec<JobId> = self.resources.keys().copied().collect();
        for id in running {
            let runs = self
                .jobs
                .get(&id)
                .is_some_and(|record| record.job.state == State::Run && !record.job.fatal);
            if runs {
                let exception = ExceptionEvent {
                    kind: "cancel".to_owned(),
                    severity: 0,
                    note: SHUTTING_DOWN.to_owned(),
                    userid: Some(userid),
                    wait_status: None,
                };
                let _ = self.raise_on(id, exception);
            }
        }
    }

    /// `shutdown-cancel`: takes back what this connection asked for.
    pub(crate) fn cancel_shutdown(&mut self, call: &Call) -> Result<Answer, Refusal> {
        if !self.shutdown.over {
            for (token, _) in self.take_shutdown(call.sender) {
                self.respond_or(
                    token,
                    Err(Refusal::new(
                        errno::ECANCELED,
                        "the shutdown was taken back",
                    )),
                    WithoutRoom::Said,
                );
            }
        }
        Ok(Answer::Empty)
    }

    /// A connection is gone: what it asked for is taken back, unless it was done.
    pub(crate) fn forget_shutdown(&mut self, sender: Sender) {
        drop(self.take_shutdown(sender));
    }

    fn take_shutdown(&mut self, sender: Sender) -> Vec<(Token, Sender)> {
        let shutdown = &mut self.shutdown;
        let (taken, left) = std::mem::take(&mut shutdown.asked)
            .into_iter()
            .partition(|(_, asked)| *asked == sender);
        shutdown.asked = left;
        if shutdown.asked.is_empty() && !shutdown.over {
            *shutdown = Shutdown::default();
        }
        taken
    }

    /// The end of a turn: tells who asked what is waited for, or that nothing is.
    pub(crate) fn tell_shutdown(&mut self) {
        if self.shutdown.asked.is_empty() || self.shutdown.over {
            return;
        }
        let waiting = self.resources.len() as u64;
        let drained = waiting == 0 || self.shutdown.force;
        if let Some((told, at)) = &self.shutdown.told
            && !drained
            && (told.waiting == waiting || self.now.0 - at.0 < TELL_EVERY)
        {
            return;
        }
        let word = ShutdownResponse {
            waiting,
            jobs: self
                .resources
                .keys()
                .take(JOBS_NAMED_MAX)
                .copied()
                .collect(),
            drained,
        };
        let payload = json(&word);
        for (token, _) in self.shutdown.asked.clone() {
            let progress = Action::Respond {
                token,
                result: Ok(Some(payload.clone())),
                last: false,
            };
            // It names what holds resources: that is to be stored, or nobody is told. The reserve has room for what is under way.
            self.turn.effects.push((progress, WithoutRoom::Waits));
            if drained {
                let end = Err(Refusal::bare(errno::ENODATA));
                self.respond_or(token, end, WithoutRoom::Waits);
            }
        }
        self.shutdown.told = Some((word, self.now));
        if drained {
            self.shutdown.over = true;
            self.turn
                .effects
                .push((Action::ShutDown, WithoutRoom::Waits));
        }
    }
}
