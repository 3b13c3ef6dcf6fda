//! The exec service: hello, and what it answers to `SERVICE.start`.
//!
//! The exchange over a job ends with the final release; until then its resources are held. When the connection goes, exchanges are asked for
//! again at the next hello.

use job::event::ExceptionEvent;
use job::{EventKind, JobId, State};
use protocol::exec::{
    AllocStatusData, ExceptionData, FinishData, HelloRequest, ReleaseData, StartResponse,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::{Topic, errno, parse_json};

use crate::action::Refusal;
use crate::decide::amount;
use crate::decide::{Answer, parse};
use crate::engine::{Broken, service_topic};
use crate::input::{Call, Report, Sender};
use crate::manager::Manager;
use crate::record::Exec;

/// The exec service's connection.
#[derive(Debug)]
pub(crate) struct ExecLink {
    pub(crate) sender: Sender,
    /// `SERVICE.start`
    pub(crate) start: Topic,
    /// `SERVICE.kill`
    pub(crate) kill: Topic,
    /// `SERVICE.cancel`
    pub(crate) cancel: Topic,
}

impl Manager {
    /// `exec-hello`: every job that holds resources and is not done is started, or found again.
    pub(crate) fn exec_hello(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: HelloRequest<'_> = parse(call)?;
        let service = request.service.as_ref();
        if service.is_empty()
            || service.contains(|letter: char| {
                letter == '.' || letter.is_whitespace() || letter.is_control()
            })
        {
            return Err(Refusal::new(
                errno::EINVAL,
                "service must be one word without a dot",
            ));
        }
        if self
            .no_space
            .is_some_and(|taken| taken >= super::REPORTS_MAX)
        {
            self.may_change()?;
        }
        let busy = || {
            self.jobs_with_resources()
                .any(|exec| matches!(exec, Exec::Sent | Exec::Told))
        };
        if self
            .exec
            .as_ref()
            .is_some_and(|link| link.sender != call.sender)
            && busy()
        {
            return Err(Refusal::new(
                errno::EINVAL,
                "another exec service is connected and has jobs",
            ));
        }
        self.exec_gone();
        self.exec = Some(ExecLink {
            sender: call.sender,
            start: service_topic(service, "start"),
            kill: service_topic(service, "kill"),
            cancel: service_topic(service, "cancel"),
        });
        self.turn.touched.extend(self.resources.keys());
        Ok(Answer::Empty)
    }

    fn jobs_with_resources(&self) -> impl Iterator<Item = Exec> {
        self.resources
            .keys()
            .filter_map(|id| self.jobs.get(id))
            .map(|record| record.exec)
    }

    /// The exec service is gone: what it had must be asked for again.
    pub(crate) fn exec_gone(&mut self) {
        self.exec = None;
        for id in self.resources.keys() {
            if let Some(record) = self.jobs.get_mut(id)
                && matches!(record.exec, Exec::Sent | Exec::Told)
            {
                record.exec = Exec::Maybe;
            }
        }
    }

    /// An answer to `SERVICE.start`. What does not fit the job (said twice, or late) changes nothing.
    pub(super) fn exec_report(&mut self, report: &Report) -> Result<(), Broken> {
        if report.errnum != 0 {
            return Err(Broken::Errnum);
        }
        let payload = report.payload.as_ref().ok_or(Broken::Malformed)?;
        let answer: StartResponse<'_> = parse_json(payload).map_err(|_| Broken::Malformed)?;
        let id = answer.id;
        let open = self
            .jobs
            .get(&id)
            .is_some_and(|record| matches!(record.exec, Exec::Sent | Exec::Told));
        let fits = match answer.kind.as_ref() {
            "reattached" => true,
            "start" => open && self.post_stored(id, EventKind::Start).is_ok(),
            "finish" => {
                let finish: FinishData<'_> = data(answer.data)?;
                let fits = open
                    && self
                        .post_stored(
                            id,
                            EventKind::Finish {
                                status: finish.status,
                            },
                        )
                        .is_ok();
                let released = finish
                    .release
                    .is_some_and(|release| open && self.released(id, &release));
                fits || released
            }
            "release" => open && self.released(id, &data(answer.data)?),
            "alloc-status" => {
                let data: AllocStatusData = data(answer.data)?;
                open && self.alloc_status(id, data)
            }
            "exception" => open && self.failed(id, &data(answer.data)?)?,
            _ => return Err(Broken::Malformed),
        };
        if !fits {
            self.stats.late_reports += 1;
        }
        Ok(())
    }

    /// `release`: posts it; a job that is let go of while it runs gets an exception first.
    fn released(&mut self, id: JobId, release: &ReleaseData<'_>) -> bool {
        if release.last
            && self
                .jobs
                .get(&id)
                .is_some_and(|record| record.job.state == State::Run)
        {
            self.post_lost(id);
        }
        let event = EventKind::Release {
            ranks: release.ranks.clone().into_owned(),
            last: release.last,
        };
        self.post_stored(id, event).is_ok()
    }

    /// `exception`: posts it, unless it is the one the job already shows. The service knows of it and is not told.
    fn failed(&mut self, id: JobId, data: &ExceptionData<'_>) -> Result<bool, Broken> {
        let severity = u8::try_from(data.severity)
            .ok()
            .filter(|severity| *severity <= job::event::SEVERITY_MAX)
            .ok_or(Broken::Malformed)?;
        let note = amount::cut(
            data.note.as_deref().unwrap_or_default(),
            amount::NOTE_BYTES_MAX,
        );
        let kind = amount::cut(&data.kind, amount::TYPE_BYTES_MAX);
        let Some(record) = self.jobs.get_mut(&id) else {
            return Ok(false);
        };
        let shown = record.job.exception.as_deref();
        if shown.is_some_and(|shown| {
            shown.kind == kind && shown.severity == severity && shown.note == note
        }) {
            return Ok(false);
        }
        if severity == 0 && record.exec == Exec::Sent {
            record.exec = Exec::Told;
        }
        let exception = ExceptionEvent {
            kind: kind.to_owned(),
            severity,
            note: note.to_owned(),
            userid: Some(self.config.owner),
            wait_status: None,
        };
        Ok(self
            .post_stored(id, EventKind::Exception(exception))
            .is_ok())
    }
}

/// The data of a report.
fn data<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<T, Broken> {
    serde_json::from_str(raw.ok_or(Broken::Malformed)?.get()).map_err(|_| Broken::Malformed)
}
