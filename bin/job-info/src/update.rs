//! `job-info.update-watch`: a job's R or jobspec, now and after every update, until the job is over.
//!
//! Nothing is held but the value sent last: an update of the job makes this stream look again, and what it finds is sent
//! if it differs.

use job::{Event, EventKind, JobId, State};
use protocol::job_info::UpdateRequest;
use serde_json::Value;
use wire::{errno, json_payload};

use crate::{
    core::{Info, parse},
    lookup::Stored,
    peer::{Caller, Refusal},
    streams::{Body, Step, StreamId},
};

/// Following one value.
#[derive(Debug)]
pub(crate) struct UpdateWatch {
    id: JobId,
    key: &'static str,
    look: Look,
    found: Option<Result<Value, Refusal>>,
    sent: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The value sent is the newest.
    Settled,
    /// It must be looked up.
    Due,
    /// It is being looked up.
    Asked,
    /// It is being looked up, and must be again.
    AskedDue,
}

impl UpdateWatch {
    pub(crate) fn job(&self) -> JobId {
        self.id
    }

    /// A live entry of the job.
    pub(crate) fn take_live(&mut self, json: &[u8]) {
        let event = Event::parse(json.strip_suffix(b"\n").unwrap_or(json));
        let matters = event.is_ok_and(|event| match event.kind {
            EventKind::ResourceUpdate { .. } | EventKind::Alloc { .. } => self.key == "R",
            EventKind::JobspecUpdate { .. } => self.key == "jobspec",
            _ => false,
        });
        if matters {
            self.look_again();
        }
    }

    pub(crate) fn look_again(&mut self) {
        self.look = match self.look {
            Look::Settled | Look::Due => Look::Due,
            Look::Asked | Look::AskedDue => Look::AskedDue,
        };
    }

    /// What is to be looked up, if anything is; it counts as asked for.
    pub(crate) fn begin_look(&mut self) -> Option<(JobId, &'static str)> {
        (self.look == Look::Due).then(|| {
            self.look = Look::Asked;
            (self.id, self.key)
        })
    }

    pub(crate) fn fetch_lost(&mut self) {
        self.look = Look::Due;
    }

    pub(crate) fn refused(&mut self, refusal: Refusal) {
        self.answered(Err(refusal));
    }

    pub(crate) fn take_current(&mut self, stored: &Stored<'_>) {
        let missing = || Refusal::new(errno::ENOENT, format!("{}: key not found", self.key));
        self.answered(stored.current(self.key).ok_or_else(missing));
    }

    fn answered(&mut self, found: Result<Value, Refusal>) {
        self.look = if self.look == Look::AskedDue {
            Look::Due
        } else {
            Look::Settled
        };
        self.found = Some(found);
    }
}

impl Info {
    pub(crate) fn update_watch(&mut self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let ask: UpdateRequest<'_> = parse(payload)?;
        if ask.flags != 0 {
            return Err(Refusal::new(
                errno::EPROTO,
                "update-watch request rejected with invalid flag",
            ));
        }
        if !caller.request.is_streaming() {
            return Err(Refusal::new(
                errno::EPROTO,
                "update-watch request rejected without streaming RPC flag",
            ));
        }
        let key = match ask.key.as_ref() {
            "R" => "R",
            "jobspec" => "jobspec",
            _ => {
                return Err(Refusal::new(
                    errno::EINVAL,
                    "update-watch unsupported key specified",
                ));
            }
        };
        match self.may_read(caller, ask.id) {
            Some(true) => {}
            Some(false) => return Err(Refusal::bare(errno::EPERM)),
            None => return Err(self.absent(caller, ask.id)),
        }
        let watch = UpdateWatch {
            id: ask.id,
            key,
            look: Look::Due,
            found: None,
            sent: None,
        };
        let stream = self.open(caller, Body::Update(watch))?;
        self.follow(ask.id, stream);
        Ok(())
    }

    pub(crate) fn step_update(
        &mut self,
        stream: StreamId,
        caller: &Caller,
        watch: &mut UpdateWatch,
    ) -> Step {
        match watch.found.take() {
            Some(Ok(value)) if watch.sent.as_ref() != Some(&value) => {
                let mut answer = job::Map::new();
                answer.insert(watch.key.into(), value.clone());
                self.out.respond(caller, Some(json_payload(&answer)));
                watch.sent = Some(value);
            }
            Some(Err(refusal)) => {
                self.out.refuse(caller, &refusal);
                return Step::Done;
            }
            Some(Ok(_)) | None => {}
        }
        if self.projection.jobs().get(watch.id).is_none() {
            self.out.refuse(caller, &self.absent(caller, watch.id));
            return Step::Done;
        }
        if watch.look == Look::Due && self.may_fetch(stream, caller) {
            watch.look = Look::Asked;
            self.fetch(stream, watch.id, &[watch.key, "eventlog"]);
        }
        let over = self
            .projection
            .jobs()
            .get(watch.id)
            .is_none_or(|record| record.job().state == State::Inactive);
        if over && watch.look == Look::Settled {
            self.out.end(caller);
            return Step::Done;
        }
        Step::Idle
    }
}
