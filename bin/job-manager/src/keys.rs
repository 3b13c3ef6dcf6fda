//! What the manager has to know of the store before it can make a job, off the loop: the jobs of submit keys, one read at a time of all the
//! keys that came meanwhile; and the `J` of a job from which others are dispatched.

use crate::lookup;
use crate::reads::Lane;
use crate::shell::{Found, LOCAL, Shell};
use manager::{Input, Key, KeyFound};
use store::Reader;

/// Keys of one read.
const READ_KEYS_MAX: usize = 1024;

/// Keys that the manager asked for. Their number is bounded by the submissions that may wait for them.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    wanted: Vec<Key>,
    reading: bool,
}

impl Keys {
    pub(crate) fn want(&mut self, key: Key) {
        self.wanted.push(key);
    }
}

impl Shell {
    /// Begins to read what is wanted, unless it is being done.
    pub(crate) fn find_keys(&mut self) {
        if self.keys.reading || self.keys.wanted.is_empty() {
            return;
        }
        let count = self.keys.wanted.len().min(READ_KEYS_MAX);
        let keys: Vec<Key> = self.keys.wanted.drain(..count).collect();
        let refused = keys.clone();
        self.keys.reading = self.reads.ask(Lane::Lookup, LOCAL, move |reader| {
            let found = keys.into_iter().map(|key| {
                let found = find(reader, &key);
                (key, found)
            });
            Found::Keys(found.collect())
        });
        if !self.keys.reading {
            let failed = |key| {
                let why = "too many look-ups wait; try again later".to_owned();
                (key, KeyFound::Failed { why })
            };
            let failed = refused.into_iter().map(failed).collect();
            self.handle(Input::KeysFound(failed));
        }
    }

    /// Has the `J` of a job read.
    pub(crate) fn read_j(&mut self, id: job::JobId) {
        let asked = self.reads.ask(Lane::Lookup, LOCAL, move |reader| {
            Found::J(id, lookup::j(reader, id))
        });
        if !asked {
            let j = Err("too many look-ups wait; try again later".to_owned());
            self.late.push_back(Input::JRead { id, j });
        }
    }

    /// What one read found.
    pub(crate) fn take_keys(&mut self, found: Vec<(Key, KeyFound)>) {
        self.keys.reading = false;
        self.handle(Input::KeysFound(found));
        self.find_keys();
    }
}

fn find(reader: &Reader, key: &Key) -> KeyFound {
    match reader.by_key(key.userid, &key.text) {
        Ok(None) => KeyFound::None,
        Ok(Some((id, Ok(job)))) => KeyFound::Job {
            id,
            jobspec: job.jobspec,
        },
        Ok(Some((id, Err(damage)))) => KeyFound::Damaged {
            id,
            why: damage.what.to_string(),
        },
        Err(error) => KeyFound::Failed {
            why: error.to_string(),
        },
    }
}
