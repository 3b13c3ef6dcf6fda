//! The nodes of the instance: the resource log is written here, and its state kept in meta with each entry.
//!
//! The fold is crate `job`'s ([`Resources`]); what is decided is in `decide/resource.rs`. No entry has to be kept for it: the state in meta is
//! what a restart, and every reader of the journal, begins with.

use std::sync::Arc;

use job::{Attach, Entry, Event, ResourceEvent, Resources, Seq, Source};

use crate::manager::Manager;

/// Meta key: the state of the nodes, JSON.
pub(crate) const META_RESOURCES: &str = "resources";

/// What was stored, and what is wrong with it if it cannot be read: then the log tells, as far back as it goes.
pub(crate) fn from_meta(text: Option<&String>, newest: Seq) -> (Resources, Option<String>) {
    match text.map(|text| Resources::from_json(text.as_bytes())) {
        None => (Resources::new(), None),
        Some(Ok(nodes)) => (nodes.not_after(newest), None),
        Some(Err(error)) => (
            Resources::new(),
            Some(format!(
                "meta key {META_RESOURCES} of the store cannot be read ({error}): which nodes are drained is taken from what is left of the log; see weir resource list"
            )),
        ),
    }
}

impl Manager {
    /// The nodes, as the newest entry leaves them. It may not be durable yet.
    #[must_use]
    pub fn nodes(&self) -> &Resources {
        &self.nodes
    }

    /// Takes up an entry of the resource log, those that meta has the state of passed over. In order; before [`crate::Input::Start`].
    pub fn restore_nodes(&mut self, seq: Seq, event: &Event) {
        // One that does not fit changes nothing, here as for every reader.
        let _ = self.nodes.apply(seq, event);
    }

    /// Posts an entry of the resource log.
    pub(crate) fn post_nodes(&mut self, what: &ResourceEvent) {
        let define = self.nodes.define().cloned();
        let event = what.to_event(self.now, define.as_deref());
        self.seq = self.seq.next();
        // What is decided fits; if it did not, no reader of the entry would take it either.
        let _ = self.nodes.apply(self.seq, &event);
        let entry = Entry::new(
            self.seq,
            Source::Resource,
            self.nodes.eventlog_seq(),
            0,
            true,
            &event,
            Attach::None,
        );
        self.turn.entries.push(Arc::new(entry));
        self.turn.nodes_changed = true;
    }

    /// What the commit of this turn says of the nodes.
    pub(crate) fn nodes_meta(&mut self) -> Option<(String, String)> {
        if !std::mem::take(&mut self.turn.nodes_changed) {
            return None;
        }
        let text = String::from_utf8_lossy(&self.nodes.to_json()).into_owned();
        Some((META_RESOURCES.to_owned(), text))
    }
}
