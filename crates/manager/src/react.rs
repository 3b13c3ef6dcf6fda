//! React: what the state of a job still owes is done, until it owes nothing; then the scheduler is told what is new.
//!
//! Idempotent: everything here follows from the folded job, the record beside it and the links to the engines. It runs after every input
//! but the start, over the jobs that were touched.

use bytes::Bytes;
use job::event::ExceptionEvent;
use job::{Attach, EventKind, JobFlags, JobId, State};
use wire::Topic;

use crate::action::{Action, JobWrite};
use crate::manager::{Manager, PostError};
use crate::record::{Alloc, Exec, Owed, Place};
use crate::write::Object;

/// Note of the exception of a job the exec service let go without a word.
const NOTE_LOST: &str = "the exec service released the job without reporting how it ended";

impl Manager {
    /// Settles every job that was touched, then the scheduler's offers, until nothing more follows.
    pub(crate) fn settle_all(&mut self) {
        loop {
            let mut at = 0;
            while let Some(id) = self.turn.touched.get(at).copied() {
                at += 1;
                self.settle(id);
            }
            self.turn.touched.clear();
            self.offer();
            if self.turn.touched.is_empty() {
                break;
            }
        }
        self.tell_idle();
        self.tell_shutdown();
    }

    /// Does what one job's state owes, and puts it where it belongs in the queue.
    pub(crate) fn settle(&mut self, id: JobId) {
        while let Some(record) = self.jobs.get(&id) {
            let owed = record.owed(self.exec.is_some());
            if owed == Owed::Nothing || self.pay(id, owed).is_err() {
                break;
            }
        }
        self.place(id);
    }

    /// # Errors
    /// The event does not fit: `owed` and the transition table disagree. The job is left as it is.
    fn pay(&mut self, id: JobId, owed: Owed) -> Result<(), PostError> {
        match owed {
            Owed::Nothing => {}
            Owed::Validate => drop(self.post(id, EventKind::Validate, true, Attach::None)?),
            Owed::Depend => drop(self.post(id, EventKind::Depend, true, Attach::None)?),
            Owed::Priority => {
                let urgency = self
                    .jobs
                    .get(&id)
                    .map(|record| record.job.urgency)
                    .unwrap_or_default();
                let _ = self.post(
                    id,
                    EventKind::Priority {
                        priority: urgency.priority(),
                    },
                    true,
                    Attach::None,
                )?;
            }
            Owed::Start { reattach } => self.send_start(id, reattach)?,
            Owed::CancelAlloc => self.take_back(id),
            Owed::CancelExec => self.send_exec_cancel(id),
            Owed::Free => self.free(id)?,
            Owed::Clean => drop(self.post(id, EventKind::Clean, true, Attach::None)?),
            Owed::Retire => self.retire(id),
        }
        Ok(())
    }

    /// A running job whose exchange is about to end without a word about its end: says so in its place.
    pub(crate) fn post_lost(&mut self, id: JobId) {
        let exception = ExceptionEvent {
            kind: "exec".to_owned(),
            severity: 0,
            note: NOTE_LOST.to_owned(),
            userid: Some(self.config.owner),
            wait_status: None,
        };
        let _ = self.post_stored(id, EventKind::Exception(exception));
    }

    /// Puts a job where its state says. An offered job whose priority changed is taken back, to be offered anew.
    pub(crate) fn place(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let mut wanted = record.wanted_place();
        if let (Place::Live(before), Place::Live(now)) = (record.place, wanted)
            && before != now
        {
            record.alloc = Alloc::Cancelling;
            wanted = Place::Returning(now);
            self.turn.reprioritized.push(id);
            self.turn.cancels.push(id);
            self.sched.cancelling.insert(id);
        }
        self.queue.shift(id, record.place, wanted);
        record.place = wanted;
    }

    /// Takes back an offer.
    fn take_back(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        if record.alloc == Alloc::Live {
            record.alloc = Alloc::Cancelling;
            self.turn.cancels.push(id);
            self.sched.cancelling.insert(id);
            let wanted = record.wanted_place();
            self.queue.shift(id, record.place, wanted);
            record.place = wanted;
        }
    }

    /// Tells the scheduler what changed, and offers it the best jobs up to its limit.
    fn offer(&mut self) {
        let Some((to, limit)) = self.sched.ready() else {
            self.turn.reprioritized.clear();
            self.turn.cancels.clear();
            return;
        };
        if !self.starts_jobs() {
            let live: Vec<JobId> = self.queue.live.iter().map(|key| key.id).collect();
            live.into_iter().for_each(|id| self.take_back(id));
        }
        self.tell_priorities(to);
        self.tell_cancels(to);
        if !self.starts_jobs() {
            return;
        }
        while self.queue.live.len() + self.sched.cancelling.len() < limit {
            let Some(best) = self.queue.best() else {
                return;
            };
            self.send_alloc(best.id, to);
        }
        for victim in self.queue.displaced(self.sched.cancelling.len()) {
            self.take_back(victim.id);
        }
        self.tell_cancels(to);
    }

    /// Answers those who wait for idleness or emptiness.
    fn tell_idle(&mut self) {
        let busy = self.in_state(State::Run)
            + self.in_state(State::Cleanup)
            + self.queue.live.len()
            + self.sched.cancelling.len();
        if busy == 0 && !self.waits.idle.is_empty() {
            let payload = Object::new(16)
                .number("pending", self.jobs.len() as u64)
                .end();
            for (token, _) in std::mem::take(&mut self.waits.idle) {
                self.respond(token, Ok(Some(payload.clone())));
            }
        }
        // A parameterized job never ends by itself: nobody waits for it.
        if self.jobs.len() == self.parents.len() {
            for (token, _) in std::mem::take(&mut self.waits.drain) {
                self.respond(token, Ok(None));
            }
        }
    }

    /// # Errors
    /// The event of a debugged job does not fit.
    fn send_start(&mut self, id: JobId, reattach: bool) -> Result<(), PostError> {
        let Some(link) = &self.exec else {
            return Ok(());
        };
        let (to, topic) = (link.sender, link.start.clone());
        self.post_debug(id, "debug.start-request")?;
        let Some(record) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        record.exec = Exec::Sent;
        let r = self
            .resources
            .get(&id)
            .cloned()
            .unwrap_or_else(|| Bytes::from_static(b"{}"));
        let payload = Object::new(record.jobspec.len() + r.len())
            .id(id)
            .number("userid", record.job.userid)
            .raw("jobspec", &record.jobspec)
            .flag("reattach", reattach)
            .raw("R", &r)
            .end();
        self.effect(Action::Start {
            to,
            topic,
            id,
            payload,
        });
        Ok(())
    }

    /// Tells the exec service of the fatal exception of a job it has.
    fn send_exec_cancel(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        record.exec = Exec::Told;
        let Some(link) = &self.exec else { return };
        let exception = record.job.exception.as_ref();
        let kind = exception.map_or("cancel", |exception| exception.kind.as_str());
        let payload = Object::new(16).id(id).value("type", kind).end();
        let (to, topic) = (link.sender, link.cancel.clone());
        self.effect(Action::Request {
            to,
            topic,
            payload,
            noresponse: true,
        });
    }

    /// Posts `free` and gives the resources back.
    /// # Errors
    /// The event does not fit.
    fn free(&mut self, id: JobId) -> Result<(), PostError> {
        let _ = self.post(id, EventKind::Free, true, Attach::None)?;
        if let Some(r) = self.resources.remove(&id) {
            self.send_free(id, &r);
        }
        Ok(())
    }

    /// Tells the scheduler that resources are free again. Without one there is nobody to tell: the next hello leaves them out.
    pub(crate) fn send_free(&mut self, id: JobId, r: &[u8]) {
        let Some(to) = self.sched.sender() else {
            return;
        };
        let payload = Object::new(r.len())
            .id(id)
            .raw("R", r)
            .flag("final", true)
            .end();
        self.effect(Action::Request {
            to,
            topic: Topic::from("sched.free"),
            payload,
            noresponse: false,
        });
    }

    /// Posts an event that only jobs with the debug flag have.
    /// # Errors
    /// The event does not fit.
    pub(crate) fn post_debug(&mut self, id: JobId, name: &'static str) -> Result<(), PostError> {
        if self
            .jobs
            .get(&id)
            .is_some_and(|record| record.job.flags.contains(JobFlags::DEBUG))
        {
            let _ = self.post(
                id,
                EventKind::Other {
                    name: name.into(),
                    context: None,
                },
                true,
                Attach::None,
            )?;
        }
        Ok(())
    }

    /// The job is over: its row is closed, who waits for it is told, its record goes.
    fn retire(&mut self, id: JobId) {
        let Some(record) = self.jobs.remove(&id) else {
            return;
        };
        self.count(State::Inactive, -1);
        if self.parents.remove(&id) {
            self.dispatches.forget(id);
        }
        self.specs.give_back(&record.jobspec);
        self.queue.shift(id, record.place, Place::Nowhere);
        let job = record.job;
        let (t_inactive, result) = (
            job.t_inactive.get().unwrap_or(self.now),
            job.result().unwrap_or(job::JobResult::Failed),
        );
        self.turn.writes.push(JobWrite::Inactive {
            id,
            t_inactive,
            result,
        });
        if job.flags.contains(JobFlags::WAITABLE) {
            self.end_wait(job);
        }
    }
}
