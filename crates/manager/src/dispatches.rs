//! Dispatches: jobs made from a parameterized one. Its `J` holds the environment and lies in the store alone, so the first dispatch has it read.
//!
//! ```text
//!  dispatch ─▶ checked against the parent's rules ─▶ waits ─▶ ReadJ ─ the store ─▶ JRead ─▶ child's jobspec and J ─▶ admitted, or under its key
//!                                  ▲              └─ parent's J is at hand ──────────────────▶┘
//!                                  └── more wait than are made at once ────────────── JRead ─┘
//! ```
//! The `J` of a few parents is kept as it was parsed; a parent's never changes. With no room on the disk who waits is refused.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use job::{JobId, Urgency};
use serde_json::{Map, Value};

use crate::input::Token;

/// So many dispatches may wait for what the store says of their parents.
pub(crate) const WAITING_MAX: usize = 1 << 16;
/// Bytes of theirs.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;
/// So many children are made of one answer of the store, and of so many bytes of their parent; who is left waits for another. Before the store
/// is asked again, what was made is on the disk.
pub(crate) const MADE_MAX: usize = 256;
/// See [`MADE_MAX`].
pub(crate) const MADE_BYTES_MAX: usize = 16 << 20;
/// The longest `J` of a parameterized job: a small request makes as much of it as one that sends a whole `J`.
pub(crate) const PARENT_BYTES_MAX: usize = 1 << 20;
/// The `J` of so many parents is kept.
const TEMPLATES_MAX: usize = 16;

/// A dispatch that fits the rules of its parent.
#[derive(Debug)]
pub(crate) struct Dispatching {
    /// Whom to answer; none if nobody wants to hear of it.
    pub(crate) token: Option<Token>,
    /// Of the parent.
    pub(crate) userid: u32,
    pub(crate) meta: Map<String, Value>,
    /// Base64.
    pub(crate) payload: Option<String>,
    pub(crate) key: Option<String>,
    /// As it came.
    pub(crate) bytes: usize,
}

/// What a child is made from.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) userid: u32,
    pub(crate) urgency: Urgency,
    /// With its environment.
    pub(crate) jobspec: Value,
}

/// Who waits for which parent, and the parents that are at hand.
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    asked: HashMap<JobId, Vec<Dispatching>>,
    waiting: usize,
    bytes: usize,
    templates: VecDeque<(JobId, Arc<Template>)>,
}

impl Dispatches {
    /// Whether one more may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting < WAITING_MAX && self.bytes < WAITING_BYTES_MAX
    }

    /// One waits; true if its parent is to be read.
    #[must_use]
    pub(crate) fn wait(&mut self, parent: JobId, dispatching: Dispatching) -> bool {
        self.waiting += 1;
        self.bytes += dispatching.bytes;
        let queue = self.asked.entry(parent);
        let is_new = matches!(queue, std::collections::hash_map::Entry::Vacant(_));
        queue.or_default().push(dispatching);
        is_new
    }

    /// Who waited for this parent, in the order they came.
    pub(crate) fn take(&mut self, parent: JobId) -> Vec<Dispatching> {
        let all = self.asked.remove(&parent).unwrap_or_default();
        self.taken(&all);
        all
    }

    /// All that wait. Their parents are still being read, for nobody.
    pub(crate) fn take_all(&mut self) -> Vec<Dispatching> {
        let mut all = Vec::new();
        self.asked.values_mut().for_each(|queue| all.append(queue));
        self.taken(&all);
        all
    }

    fn taken(&mut self, all: &[Dispatching]) {
        self.waiting -= all.len();
        self.bytes -= all.iter().map(|one| one.bytes).sum::<usize>();
    }

    /// A parent that is at hand.
    pub(crate) fn template(&self, parent: JobId) -> Option<Arc<Template>> {
        let found = self.templates.iter().find(|(id, _)| *id == parent);
        found.map(|(_, template)| Arc::clone(template))
    }

    /// Keeps a parent at hand whose `J` has so many bytes; one from before there was a bound may be too long for it.
    pub(crate) fn keep(&mut self, parent: JobId, template: &Arc<Template>, bytes: usize) {
        if bytes > PARENT_BYTES_MAX || self.template(parent).is_some() {
            return;
        }
        if self.templates.len() == TEMPLATES_MAX {
            self.templates.pop_back();
        }
        self.templates.push_front((parent, Arc::clone(template)));
    }

    /// A parent has ended.
    pub(crate) fn forget(&mut self, parent: JobId) {
        self.templates.retain(|(id, _)| *id != parent);
    }
}
