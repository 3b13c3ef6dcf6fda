//! The state of the nodes as of what is durable, for `caught_up`: the resource log folded, its text made when somebody wants it.
//!
//! A reader that begins with it passes over entries up to its seq, so that nothing of the log has to be kept for this.

use std::sync::Arc;

use job::{Entry, Event, Resources, Source};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    resources: Resources,
    text: Option<Arc<str>>,
}

impl Nodes {
    pub(crate) fn new(resources: Resources) -> Nodes {
        Nodes {
            resources,
            text: None,
        }
    }

    /// Takes in what became durable.
    pub(crate) fn push(&mut self, commit: &[Arc<Entry>]) {
        for entry in commit {
            if entry.source == Source::Resource
                && let Ok(event) = Event::parse(entry.json())
            {
                // An entry that does not fit changes nothing, here as for every reader.
                let _ = self.resources.apply(entry.seq, &event);
                self.text = None;
            }
        }
    }

    /// As JSON; `None` as long as nothing is known.
    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        if self.resources.is_empty() {
            return None;
        }
        let resources = &self.resources;
        let text = self
            .text
            .get_or_insert_with(|| Arc::from(&*String::from_utf8_lossy(&resources.to_json())));
        Some(Arc::clone(text))
    }
}
