//! Jobspecs of active jobs, each kept once however many jobs have it, and what was made of the newest submissions.
//!
//! Many jobs of one jobspec are the rule (`bulksubmit`, arrays): the second costs a comparison instead of a parse, and 32 bytes.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

/// So many submissions are remembered with what was made of them.
const RECENT_MAX: usize = 8;
/// Longer ones are not.
const RECENT_BYTES_MAX: usize = 64 << 10;

/// The shared jobspecs.
#[derive(Debug, Default)]
pub(crate) struct Specs {
    users: HashMap<Bytes, u32>,
    recent: VecDeque<Recent>,
}

/// A submission that was found good.
#[derive(Debug)]
pub(crate) struct Recent {
    /// What was submitted, whole.
    pub(crate) j: Bytes,
    /// Who signed it.
    pub(crate) userid: u32,
    /// What was made of it.
    pub(crate) jobspec: Bytes,
    /// It never runs: others are dispatched from it.
    pub(crate) parameterized: bool,
}

impl Specs {
    /// The one copy of a jobspec, with one user more.
    pub(crate) fn take(&mut self, jobspec: Bytes) -> Bytes {
        match self.users.entry(jobspec) {
            Entry::Occupied(mut shared) => {
                *shared.get_mut() += 1;
                shared.key().clone()
            }
            Entry::Vacant(new) => {
                let jobspec = new.key().clone();
                new.insert(1);
                jobspec
            }
        }
    }

    /// One user less.
    pub(crate) fn give_back(&mut self, jobspec: &Bytes) {
        if let Some(users) = self.users.get_mut(jobspec) {
            *users -= 1;
            if *users == 0 {
                self.users.remove(jobspec);
            }
        }
    }

    /// What was made of this very submission a moment ago.
    pub(crate) fn recall(&self, j: &[u8]) -> Option<&Recent> {
        self.recent.iter().find(|recent| recent.j == j)
    }

    /// Remembers a good submission.
    pub(crate) fn remember(&mut self, recent: Recent) {
        if recent.j.len() > RECENT_BYTES_MAX {
            return;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_back();
        }
        self.recent.push_front(recent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jobspec_is_kept_once_and_only_while_it_is_used() {
        let mut specs = Specs::default();
        let first = specs.take(Bytes::from(b"{}".to_vec()));
        let second = specs.take(Bytes::from(b"{}".to_vec()));
        assert_eq!(first.as_ptr(), second.as_ptr());
        specs.give_back(&first);
        assert_eq!(specs.users.len(), 1);
        specs.give_back(&second);
        assert!(specs.users.is_empty());
    }
}
