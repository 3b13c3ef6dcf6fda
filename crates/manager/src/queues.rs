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
    /// What was stored; a text that is none is as good as nothing stored.
    pub(crate) fn from_meta(text: &str) -> Queues {
        serde_json::from_str(text)
            .ok()
            .filter(|stored: &Queues| stored.version == 1 && stored.queue.len() == 1)
            .unwrap_or_default()
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
        let back = Queues::from_meta(&queues.to_meta());
        assert!(back.started());
        assert_eq!(
            (
                back.anonymous().enable,
                back.anonymous().disable_reason.as_deref()
            ),
            (false, Some("maint"))
        );
        assert_eq!(Queues::from_meta("{"), Queues::default());
    }
}
