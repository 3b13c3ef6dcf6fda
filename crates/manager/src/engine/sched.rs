//! The scheduler: hello, ready, and what it answers to `sched.alloc`.
//!
//! ```text
//!  absent ─ sched-hello ─▶ greeted ─ sched-ready ─▶ ready
//!     ▲────────── disconnect, broken protocol ────────┘      open offers go back to the queue
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;
use job::event::ExceptionEvent;
use job::{Attach, EventKind, JobId, Map, R, State};
use protocol::sched::{
    ALLOC_ANNOTATE, ALLOC_CANCEL, ALLOC_DENY, ALLOC_SUCCESS, AllocResponse, ReadyRequest,
    ReadyResponse,
};
use serde_json::Value;
use serde_json::value::RawValue;
use wire::{Topic, errno, parse_json};

use crate::action::{Action, JobWrite, Refusal};
use crate::decide::amount;
use crate::decide::{Answer, parse};
use crate::engine::Broken;
use crate::input::{Call, Report, Sender};
use crate::manager::Manager;
use crate::record::Alloc;
use crate::write::{Object, json};

/// The scheduler's connection and the offers that are being taken back.
#[derive(Debug, Default)]
pub(crate) struct SchedLink {
    link: Link,
    /// Jobs whose alloc was cancelled and not answered.
    pub(crate) cancelling: BTreeSet<JobId>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Link {
    #[default]
    Absent,
    Greeted(Sender),
    Ready(Sender, usize),
}

impl SchedLink {
    /// Its connection, once it said hello.
    pub(crate) fn sender(&self) -> Option<Sender> {
        match self.link {
            Link::Absent => None,
            Link::Greeted(sender) | Link::Ready(sender, _) => Some(sender),
        }
    }

    /// Its connection and how many offers it takes at a time, once it said ready.
    pub(crate) fn ready(&self) -> Option<(Sender, usize)> {
        match self.link {
            Link::Ready(sender, limit) => Some((sender, limit)),
            _ => None,
        }
    }
}

impl Manager {
    /// `sched-hello`: the jobs that hold resources, one answer each.
    pub(crate) fn sched_hello(&mut self, call: &Call) -> Result<Answer, Refusal> {
        if !call.streaming {
            return Err(Refusal::new(
                errno::EPROTO,
                "job-manager.sched-hello requires streaming RPC flag",
            ));
        }
        if self
            .no_space
            .is_some_and(|taken| taken >= super::REPORTS_MAX)
        {
            self.may_change()?;
        }
        if self
            .sched
            .sender()
            .is_some_and(|sender| sender != call.sender)
        {
            return Err(Refusal::new(
                errno::EEXIST,
                "a scheduler is already connected",
            ));
        }
        self.sched_gone();
        self.sched.link = Link::Greeted(call.sender);
        let rows = self.resources.iter().filter_map(|(id, r)| {
            let job = &self.jobs.get(id)?.job;
            let row = Object::new(r.len())
                .id(*id)
                .number("priority", job.priority.map_or(0, |priority| priority.0));
            Some(
                row.number("userid", job.userid)
                    .time("t_submit", job.t_submit)
                    .raw("R", r)
                    .end(),
            )
        });
        Ok(Answer::Stream(rows.collect()))
    }

    /// `sched-ready`: offers begin.
    pub(crate) fn sched_ready(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: ReadyRequest<'_> = parse(call)?;
        let limit = match (request.mode.as_ref(), request.limit) {
            ("unlimited", None) => usize::MAX,
            ("limited", Some(limit)) if limit > 0 => usize::try_from(limit).unwrap_or(usize::MAX),
            ("limited", _) => return Err(Refusal::new(errno::EPROTO, "limit must be above 0")),
            ("unlimited", Some(_)) => {
                return Err(Refusal::new(errno::EPROTO, "unlimited mode has no limit"));
            }
            _ => {
                return Err(Refusal::new(
                    errno::EPROTO,
                    "mode must be limited or unlimited",
                ));
            }
        };
        if self.sched.sender() != Some(call.sender) {
            return Err(Refusal::new(
                errno::EPROTO,
                "sched-ready before sched-hello",
            ));
        }
        self.sched.link = Link::Ready(call.sender, limit);
        Ok(Answer::Json(json(&ReadyResponse {
            count: self.queue.len() as u64,
        })))
    }

    /// The scheduler is gone: what it was offered goes back to the queue.
    pub(crate) fn sched_gone(&mut self) {
        self.sched.link = Link::Absent;
        let live: Vec<JobId> = self.queue.live.iter().map(|key| key.id).collect();
        for id in std::mem::take(&mut self.sched.cancelling)
            .into_iter()
            .chain(live)
        {
            if let Some(record) = self.jobs.get_mut(&id) {
                record.alloc = Alloc::None;
                self.turn.touched.push(id);
            }
        }
    }

    /// An answer to `sched.alloc`.
    pub(super) fn sched_report(&mut self, report: &Report) -> Result<(), Broken> {
        if report.errnum != 0 {
            return Err(Broken::Errnum);
        }
        let payload = report.payload.as_ref().ok_or(Broken::Malformed)?;
        let answer: AllocResponse<'_> = parse_json(payload).map_err(|_| Broken::Malformed)?;
        let id = answer.id;
        if answer.kind == ALLOC_SUCCESS {
            return self.granted(id, answer.r.ok_or(Broken::Malformed)?, answer.annotations);
        }
        let open = self
            .jobs
            .get(&id)
            .is_some_and(|record| record.alloc != Alloc::None);
        match answer.kind {
            ALLOC_ANNOTATE | ALLOC_DENY | ALLOC_CANCEL if !open => self.stats.late_reports += 1,
            ALLOC_ANNOTATE => self.annotate(id, &answer.annotations.ok_or(Broken::Malformed)?),
            ALLOC_DENY => {
                self.close_offer(id);
                self.deny(id, answer.note.as_deref().unwrap_or_default());
            }
            ALLOC_CANCEL => {
                self.close_offer(id);
                self.annotate(id, &Map::from_iter([("sched".to_owned(), Value::Null)]));
            }
            _ => return Err(Broken::Malformed),
        }
        Ok(())
    }

    /// The exchange over a job is over.
    fn close_offer(&mut self, id: JobId) {
        self.sched.cancelling.remove(&id);
        if let Some(record) = self.jobs.get_mut(&id) {
            record.alloc = Alloc::None;
            self.turn.touched.push(id);
        }
    }

    /// Type 0. It stands if the job still may run; resources for any other job go straight back.
    fn granted(&mut self, id: JobId, r: &RawValue, annotations: Option<Map>) -> Result<(), Broken> {
        let object: Map = serde_json::from_str(r.get()).map_err(|_| Broken::Malformed)?;
        let full = json(&object); // compact, however it was written
        R::parse(&full).map_err(|_| Broken::Malformed)?;
        let r = super::without_scheduling(full.clone());
        let Some(record) = self
            .jobs
            .get(&id)
            .filter(|record| record.alloc != Alloc::None)
        else {
            self.stats.late_reports += 1; // no offer is open: said twice, and what the job holds it keeps
            return Ok(());
        };
        let stands =
            record.job.state == State::Sched && record.priority() > 0 && self.starts_jobs();
        self.close_offer(id);
        if !stands {
            self.send_free(id, &r);
            return Ok(());
        }
        if let Some(annotations) = annotations {
            self.annotate(id, &annotations);
        }
        let annotations = self
            .jobs
            .get(&id)
            .and_then(|record| record.job.annotations.as_deref().cloned());
        if self
            .post(
                id,
                EventKind::Alloc { annotations },
                true,
                Attach::R(r.clone()),
            )
            .is_ok()
        {
            self.turn.writes.push(JobWrite::SetR { id, r: full });
            self.resources.insert(id, r);
            self.turn.touched.push(id);
        }
        Ok(())
    }

    /// Merges annotations of a job in SCHED; if that changes anything, listeners learn all of them.
    fn annotate(&mut self, id: JobId, changes: &Map) {
        let Some(record) = self
            .jobs
            .get(&id)
            .filter(|record| record.job.state == State::Sched)
        else {
            return;
        };
        let before = record.job.annotations.as_deref();
        let mut after = before.cloned().unwrap_or_default();
        job::annotations::merge(&mut after, changes);
        if before.map_or(after.is_empty(), |before| *before == after) {
            return;
        }
        let annotations = (!after.is_empty()).then_some(after);
        let _ = self.post(
            id,
            EventKind::Annotations { annotations },
            false,
            Attach::None,
        );
    }

    /// Type 2: the job can never run here.
    fn deny(&mut self, id: JobId, note: &str) {
        self.annotate(id, &Map::from_iter([("sched".to_owned(), Value::Null)]));
        let exception = ExceptionEvent {
            kind: "alloc".to_owned(),
            severity: 0,
            note: amount::cut(note, amount::NOTE_BYTES_MAX).to_owned(),
            userid: Some(self.config.owner),
            wait_status: None,
        };
        self.raise_on(id, exception);
    }

    /// Offers a job.
    pub(crate) fn send_alloc(&mut self, id: JobId, to: Sender) {
        let _ = self.post_debug(id, "debug.alloc-request");
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        record.alloc = Alloc::Live;
        let wanted = record.wanted_place();
        self.queue.shift(id, record.place, wanted);
        record.place = wanted;
        let payload = Object::new(record.jobspec.len())
            .id(id)
            .number("priority", record.priority())
            .number("userid", record.job.userid)
            .time("t_submit", record.job.t_submit)
            .raw("jobspec", &record.jobspec)
            .end();
        self.stats.alloc_requests += 1;
        self.effect(Action::Request {
            to,
            topic: Topic::from("sched.alloc"),
            payload,
            noresponse: false,
        });
    }

    /// One message with the new priorities of all offered jobs that have one.
    pub(crate) fn tell_priorities(&mut self, to: Sender) {
        if self.turn.reprioritized.is_empty() {
            return;
        }
        let mut jobs: Vec<(JobId, u32)> = Vec::with_capacity(self.turn.reprioritized.len());
        for id in self.turn.reprioritized.drain(..) {
            jobs.extend(self.jobs.get(&id).map(|record| (id, record.priority())));
        }
        let payload = json(&protocol::sched::PrioritizeRequest { jobs });
        self.effect(Action::Request {
            to,
            topic: Topic::from("sched.prioritize"),
            payload,
            noresponse: true,
        });
    }

    /// One `sched.cancel` for each offer that is taken back.
    pub(crate) fn tell_cancels(&mut self, to: Sender) {
        for id in std::mem::take(&mut self.turn.cancels) {
            let payload: Bytes = Object::new(0).id(id).end();
            self.effect(Action::Request {
                to,
                topic: Topic::from("sched.cancel"),
                payload,
                noresponse: true,
            });
        }
    }
}
