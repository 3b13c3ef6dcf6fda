//! What jobspecs say, held once for all jobs whose jobspecs say the same.
//!
//! The last few texts are remembered with what they said, so that a thousand jobs of one jobspec are read once. A spec goes when
//! its last job goes; one that a remembered text still held is found by a sweep later.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{derive, index::Index, record::Spec};

/// Most texts remembered.
const TEXTS_MAX: usize = 64;
/// Longest text that is remembered.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// All specs of one table.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    known: HashSet<Arc<Spec>>,
    texts: HashMap<Box<str>, Arc<Spec>>,
}

impl Specs {
    /// What a jobspec says.
    pub(crate) fn of_jobspec(&mut self, jobspec: Option<&str>, index: &Index) -> Arc<Spec> {
        let Some(text) = jobspec else {
            return self.share(Spec::default(), index);
        };
        if let Some(spec) = self.texts.get(text) {
            return spec.clone();
        }
        let spec = self.share(derive::spec(text), index);
        if text.len() <= TEXT_BYTES_MAX {
            if self.texts.len() >= TEXTS_MAX {
                self.texts.clear();
            }
            self.texts.insert(text.into(), spec.clone());
        }
        spec
    }

    /// The one spec that says this. Its name and queue are the texts the index holds.
    pub(crate) fn share(&mut self, mut spec: Spec, index: &Index) -> Arc<Spec> {
        if let Some(known) = self.known.get(&spec) {
            return known.clone();
        }
        spec.name = spec.name.map(|name| index.name_text(&name));
        spec.queue = spec.queue.map(|queue| index.queue_text(&queue));
        let spec = Arc::new(spec);
        self.known.insert(spec.clone());
        spec
    }

    /// A job lets go of its spec; `jobs` are left.
    pub(crate) fn release(&mut self, spec: &Arc<Spec>, jobs: usize) {
        // The table's own, the one that is let go, and none else.
        if Arc::strong_count(spec) <= 2 {
            self.known.remove(spec);
        }
        if self.known.len() > 2 * jobs + 2 * TEXTS_MAX {
            self.texts.clear();
            self.known.retain(|spec| Arc::strong_count(spec) > 1);
        }
    }

    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let known = self.known.iter().map(|spec| {
            let dispatch = spec
                .dispatch
                .as_ref()
                .map_or(0, |dispatch| dispatch.heap_bytes());
            size_of::<Spec>() + 24 + spec.cwd.as_ref().map_or(0, |cwd| cwd.len()) + dispatch
        });
        let texts = self.texts.keys().map(|text| text.len() + 32);
        known.chain(texts).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobspec(name: usize) -> String {
        format!(r#"{{"attributes":{{"system":{{"job":{{"name":"name{name}"}}}}}}}}"#)
    }

    #[test]
    fn a_spec_is_held_once_and_goes_with_its_last_job() {
        let (mut specs, index) = (Specs::default(), Index::default());
        let held: Vec<_> = (0..1000)
            .map(|at| specs.of_jobspec(Some(&jobspec(at % 500)), &index))
            .collect();
        assert_eq!(specs.known.len(), 500);
        assert!(Arc::ptr_eq(&held[3], &held[503]));
        let mut left = held.len();
        for spec in held {
            left -= 1;
            specs.release(&spec, left);
            drop(spec);
        }
        assert!(specs.known.len() <= TEXTS_MAX, "{} left", specs.known.len());
        for at in 0..1000 {
            let spec = specs.of_jobspec(Some(&jobspec(at)), &index);
            specs.release(&spec, 0);
        }
        assert!(specs.known.len() <= 2 * TEXTS_MAX && specs.texts.len() <= TEXTS_MAX);
    }
}
