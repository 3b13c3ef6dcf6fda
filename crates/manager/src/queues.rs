//! The anonymous queue: whether jobs may be submitted, and whether they are offered to the scheduler. Kept in meta, over restarts.

use serde::{Deserialize, Serialize};

/// State of the queues, as meta holds it: `{"version":1,"queue":[{"enable":b,"start":b,"disable_reason"?:s,"stop_reason"?:s}]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queues {
    version: u32,
    queue: Vec<Queue>,
    /// Stopped until the next restart only: not part of what is stored.
    #[serde(skip)]
    unstored: Option<Queue>,
}

/// State of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) enable: bool,
    pub(crate) start: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disable_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop_reason: Option<String>,
}

const OPEN: Queue = Queue {
    enable: true,
    start: true,
    disable_reason: None,
    stop_reason: None,
};

/// What a queue says of itself when what was stored of it cannot be read.
const UNREADABLE: &str = "the state of the queue in the store cannot be read (meta key queues)";

/// What was stored; and, if it cannot be read, what is wrong: the queue is closed then, for it may have been.
pub(crate) fn restored(text: Option<&String>) -> (Queues, Option<String>) {
    let Some(text) = text else {
        return (Queues::default(), None);
    };
    match Queues::from_meta(text) {
        Some(queues) => (queues, None),
        None => (
            Queues::closed(UNREADABLE),
            Some(format!(
                "{UNREADABLE}: it is disabled and stopped; open it again with weir queue enable and weir queue start"
            )),
        ),
    }
}

impl Default for Queues {
    fn default() -> Queues {
        Queues {
            version: 1,
            queue: vec![OPEN],
            unstored: None,
        }
    }
}

impl Queues {
    fn from_meta(text: &str) -> Option<Queues> {
        serde_json::from_str(text)
            .ok()
            .filter(|stored: &Queues| stored.version == 1 && stored.queue.len() == 1)
    }

    /// Nothing is taken and nothing is offered, for one reason, until somebody says otherwise.
    fn closed(reason: &str) -> Queues {
        let closed = Queue {
            enable: false,
            start: false,
            disable_reason: Some(reason.to_owned()),
            stop_reason: Some(reason.to_owned()),
        };
        Queues {
            version: 1,
            queue: vec![closed],
            unstored: None,
        }
    }

    /// What is to be stored.
    pub(crate) fn to_meta(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The anonymous queue as it is now.
    pub(crate) fn anonymous(&self) -> &Queue {
        self.unstored
            .as_ref()
            .or(self.queue.first())
            .unwrap_or(&OPEN)
    }

    /// Whether its jobs are offered.
    pub(crate) fn started(&self) -> bool {
        self.anonymous().start
    }

    /// Changes it, for good or (`stored` false) until the next restart.
    pub(crate) fn change(&mut self, stored: bool, change: impl FnOnce(&mut Queue)) {
        let mut queue = self.anonymous().clone();
        change(&mut queue);
        if stored {
            (self.queue, self.unstored) = (vec![queue], None);
        } else {
            self.unstored = Some(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_comes_back_and_what_is_not_does_not() {
        let mut queues = Queues::default();
        assert!(queues.started());
        queues.change(true, |queue| {
            (queue.enable, queue.disable_reason) = (false, Some("maint".to_owned()))
        });
        queues.change(false, |queue| queue.start = false);
        assert!(!queues.started());
        let (back, fault) = restored(Some(&queues.to_meta()));
        assert_eq!(fault, None);
        assert!(back.started());
        assert_eq!(
            (
                back.anonymous().enable,
                back.anonymous().disable_reason.as_deref()
            ),
            (false, Some("maint"))
        );
        assert_eq!(restored(None), (Queues::default(), None));
    }

    #[test]
    fn fault_a_state_that_cannot_be_read_does_not_open_the_queue() {
        for text in [
            "",
            "{",
            "{}",
            r#"{"version":2,"queue":[]}"#,
            r#"{"version":1,"queue":[]}"#,
        ] {
            let (queues, fault) = restored(Some(&text.to_owned()));
            let queue = queues.anonymous();
            assert!(!queue.enable && !queue.start, "{text}");
            assert_eq!(queue.stop_reason.as_deref(), Some(UNREADABLE));
            assert!(fault.unwrap().contains("weir queue start"));
        }
    }
}
