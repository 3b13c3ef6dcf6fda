//! `job-manager.queue-list`, `queue-status`, `queue-enable`, `queue-start`: there is the anonymous queue, and no other.
//!
//! A change is an entry of the system log (no job's eventlog has one), so that its answer has a seq to rest on.

use job::Map;
use protocol::job_manager::{
    QueueEnableRequest, QueueListResponse, QueueStartRequest, QueueStatusRequest,
    QueueStatusResponse,
};
use serde_json::Value;
use wire::errno;

use crate::action::Refusal;
use crate::decide::shutdown::SHUTTING_DOWN;
use crate::decide::{Answer, amount, parse, parse_or_default};
use crate::input::Call;
use crate::manager::{META_QUEUES, Manager};
use crate::write::json;

impl Manager {
    /// `{queues:[]}`.
    pub(crate) fn queue_list(&self) -> Result<Answer, Refusal> {
        Ok(Answer::Json(json(&QueueListResponse::default())))
    }

    /// State of the queue; without a scheduler it counts as stopped.
    pub(crate) fn queue_status(&self, call: &Call) -> Result<Answer, Refusal> {
        let request: QueueStatusRequest<'_> = parse_or_default(call)?;
        anonymous(request.name.as_deref())?;
        let queue = self.queues.anonymous();
        let reason = |reason: &Option<String>| reason.clone().map(Into::into);
        let mut status = QueueStatusResponse {
            enable: queue.enable,
            start: queue.start,
            disable_reason: reason(&queue.disable_reason),
            stop_reason: reason(&queue.stop_reason),
            blocked: None,
        };
        if self.is_shutting_down() {
            let reason = || Some(SHUTTING_DOWN.into());
            (status.enable, status.start, status.blocked) = (false, false, Some("shutdown".into()));
            status.disable_reason = status.disable_reason.or_else(reason);
            status.stop_reason = status.stop_reason.or_else(reason);
        } else if queue.start && self.sched.ready().is_none() {
            status.start = false;
            status.blocked = Some("scheduler".into());
            status.stop_reason = Some("Scheduler is offline".into());
        }
        Ok(Answer::Json(json(&status)))
    }

    /// Takes submissions, or none.
    pub(crate) fn queue_enable(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: QueueEnableRequest<'_> = parse(call)?;
        anonymous(request.name.as_deref())?;
        if !request.enable && request.reason.is_none() {
            return Err(Refusal::new(
                errno::EINVAL,
                "reason is required for disable",
            ));
        }
        reason_fits(request.reason.as_deref())?;
        self.may_change()?;
        let (enable, reason) = (
            request.enable,
            request
                .reason
                .filter(|_| !request.enable)
                .map(|reason| reason.into_owned()),
        );
        self.queues.change(true, |queue| {
            (queue.enable, queue.disable_reason) = (enable, reason.clone())
        });
        self.turn
            .meta
            .push((META_QUEUES.to_owned(), self.queues.to_meta()));
        self.post_system(
            if enable {
                "queue-enable"
            } else {
                "queue-disable"
            },
            with_reason(reason),
        );
        Ok(self.seq_answer())
    }

    /// Offers jobs to the scheduler, or takes the offers back.
    pub(crate) fn queue_start(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: QueueStartRequest<'_> = parse(call)?;
        anonymous(request.name.as_deref())?;
        reason_fits(request.reason.as_deref())?;
        self.may_change()?;
        let (start, reason) = (
            request.start,
            request
                .reason
                .filter(|_| !request.start)
                .map(|reason| reason.into_owned()),
        );
        let stored = !request.nocheckpoint;
        self.queues.change(stored, |queue| {
            (queue.start, queue.stop_reason) = (start, reason.clone())
        });
        if stored {
            self.turn
                .meta
                .push((META_QUEUES.to_owned(), self.queues.to_meta()));
        }
        self.post_system(
            if start { "queue-start" } else { "queue-stop" },
            with_reason(reason),
        );
        Ok(self.seq_answer())
    }
}

/// # Errors
/// A name: there are no named queues.
fn anonymous(name: Option<&str>) -> Result<(), Refusal> {
    match name {
        None => Ok(()),
        Some(name) => Err(Refusal::new(
            errno::EINVAL,
            format!("'{name}' is not a valid queue"),
        )),
    }
}

/// # Errors
/// It is too long.
fn reason_fits(reason: Option<&str>) -> Result<(), Refusal> {
    amount::text("reason", reason.unwrap_or_default(), amount::NOTE_BYTES_MAX)
}

fn with_reason(reason: Option<String>) -> Option<Map> {
    reason.map(|reason| Map::from_iter([("reason".to_owned(), Value::from(reason))]))
}
