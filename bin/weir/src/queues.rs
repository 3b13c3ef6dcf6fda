//! Whether queues take submissions and start jobs: asked by `weir queue status`, and said by `weir jobs` when jobs wait for it.

use crate::connect::{CallError, Session};
use crate::text::escape;
use protocol::job_manager::QueueListResponse;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A queue, as `--json` shows it.
#[derive(Debug, Clone, Serialize)]
pub struct QueueState {
    /// Its name; none for the only one of an instance without named queues.
    pub name: Option<String>,
    /// Submissions are taken.
    pub enabled: bool,
    /// Jobs are started.
    pub started: bool,
    /// Why submissions are not taken.
    pub disable_reason: Option<String>,
    /// Why jobs are not started.
    pub stop_reason: Option<String>,
    /// What else keeps jobs from being started.
    pub blocked: Option<String>,
}

/// The answer of `job-manager.queue-status`.
#[derive(Debug, Deserialize)]
struct QueueStatus {
    enable: bool,
    start: bool,
    #[serde(default)]
    disable_reason: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    blocked: Option<String>,
}

/// The names of the queues; one without a name if none has one.
///
/// # Errors
/// [`CallError`].
pub async fn names(session: &Session) -> Result<Vec<Option<String>>, CallError> {
    let list: QueueListResponse = session.call("job-manager.queue-list", &json!({})).await?;
    Ok(if list.queues.is_empty() {
        vec![None]
    } else {
        list.queues.into_iter().map(Some).collect()
    })
}

/// The state of one queue.
///
/// # Errors
/// [`CallError`]; no such queue.
pub async fn state(session: &Session, name: Option<String>) -> Result<QueueState, CallError> {
    let request = name
        .as_ref()
        .map_or_else(|| json!({}), |name| json!({"name": name}));
    let status: QueueStatus = session.call("job-manager.queue-status", &request).await?;
    Ok(QueueState {
        name,
        enabled: status.enable,
        started: status.start,
        disable_reason: status.disable_reason,
        stop_reason: status.stop_reason,
        blocked: status.blocked,
    })
}

/// The states of all queues.
///
/// # Errors
/// [`CallError`].
pub async fn states(session: &Session) -> Result<Vec<QueueState>, CallError> {
    let mut states = Vec::new();
    for name in names(session).await? {
        states.push(state(session, name).await?);
    }
    Ok(states)
}

impl QueueState {
    /// [`Self::holds`] in a few words, for a column.
    #[must_use]
    pub fn holds_shortly(&self) -> Option<String> {
        match self.blocked.as_deref() {
            Some("shutdown") => return Some("the instance shuts down".to_owned()),
            Some("scheduler") => return Some("no scheduler".to_owned()),
            _ => {}
        }
        let blocked = self.blocked.clone().filter(|why| !why.is_empty());
        match self.stop_reason.as_deref() {
            _ if self.started => blocked,
            Some(reason) if !reason.is_empty() => Some(format!("queue stopped: {reason}")),
            _ => Some("queue stopped".to_owned()),
        }
    }

    /// Why jobs that wait here are not started, as a sentence; `None` if they are.
    #[must_use]
    pub fn holds(&self) -> Option<String> {
        let queue = match &self.name {
            Some(name) => format!("queue {}", escape(name)),
            None => "the queue".to_owned(),
        };
        let because = |reason: &Option<String>| match reason.as_deref() {
            Some(reason) if !reason.is_empty() => format!(" ({})", escape(reason)),
            _ => String::new(),
        };
        match self.blocked.as_deref() {
            Some("shutdown") => {
                return Some(
                    "the instance is being shut down: jobs that wait are started after its next start"
                        .to_owned(),
                );
            }
            Some("scheduler") => {
                return Some(
                    "no scheduler is connected (weir-job-runner is starting, or does not run): jobs that wait are not started meanwhile"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if !self.started {
            let reason = because(&self.stop_reason);
            return Some(format!(
                "{queue} is stopped{reason}: jobs that wait are not started until 'weir queue start'"
            ));
        }
        let blocked = self.blocked.as_ref().filter(|why| !why.is_empty())?;
        Some(format!(
            "{queue} is held up: {}: jobs that wait are not started meanwhile",
            escape(blocked)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_starts_nothing_says_why() {
        let mut queue = QueueState {
            name: None,
            enabled: true,
            started: true,
            disable_reason: None,
            stop_reason: None,
            blocked: None,
        };
        assert_eq!(queue.holds(), None);
        queue.blocked = Some("no space".to_owned());
        assert!(queue.holds().unwrap().contains("held up: no space"));
        queue.blocked = Some("scheduler".to_owned());
        assert!(queue.holds().unwrap().contains("no scheduler"));
        queue.blocked = None;
        queue.started = false;
        queue.stop_reason = Some("disk\n".to_owned());
        assert_eq!(
            queue.holds().unwrap(),
            "the queue is stopped (disk\\n): jobs that wait are not started until 'weir queue start'"
        );
    }
}
