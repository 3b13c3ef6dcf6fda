//! Who is next: priority descending, then id ascending. The same order as the listing of pending jobs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use job::JobId;

use crate::request::Request;

/// A job's place.
pub(crate) type Place = (Reverse<u32>, u64);

/// A job that waits for resources.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) id: JobId,
    pub(crate) request: Request,
    /// The start that was last announced for it.
    pub(crate) estimate_s: Option<f64>,
    /// It lacks nodes that are drained: nobody waits for it.
    pub(crate) aside: bool,
}

/// The jobs that wait, in order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    by_place: BTreeMap<Place, Waiting>,
    priority: HashMap<JobId, u32>,
    /// How many stand aside.
    aside: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(crate) fn contains(&self, id: JobId) -> bool {
        self.priority.contains_key(&id)
    }

    /// How many jobs stand aside.
    pub(crate) fn aside(&self) -> usize {
        self.aside
    }

    /// Adds a job; one that is there already is replaced.
    pub(crate) fn insert(&mut self, priority: u32, waiting: Waiting) {
        let id = waiting.id;
        self.remove(id);
        self.priority.insert(id, priority);
        self.aside += usize::from(waiting.aside);
        self.by_place.insert((Reverse(priority), id.0), waiting);
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<Waiting> {
        let priority = self.priority.remove(&id)?;
        let waiting = self.by_place.remove(&(Reverse(priority), id.0))?;
        self.aside -= usize::from(waiting.aside);
        Some(waiting)
    }

    /// Says of all jobs anew who stands aside.
    pub(crate) fn set_aside(&mut self, stands_aside: impl Fn(&Request) -> bool) {
        self.aside = 0;
        for waiting in self.by_place.values_mut() {
            waiting.aside = stands_aside(&waiting.request);
            self.aside += usize::from(waiting.aside);
        }
    }

    pub(crate) fn set_priority(&mut self, id: JobId, priority: u32) {
        if let Some(old) = self.priority.get_mut(&id) {
            let old = std::mem::replace(old, priority);
            if let Some(waiting) = self.by_place.remove(&(Reverse(old), id.0)) {
                self.by_place.insert((Reverse(priority), id.0), waiting);
            }
        }
    }

    /// The first job of those that do not stand aside.
    pub(crate) fn head_mut(&mut self) -> Option<&mut Waiting> {
        self.by_place.values_mut().find(|waiting| !waiting.aside)
    }

    /// All jobs in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.by_place.values()
    }
}
