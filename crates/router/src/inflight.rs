//! Requests not yet answered, per client and service: so a lost service still answers, and a stray response does not.
//!
//! A request is known by its matchtag and the hops it came with (none, unless the client forwards for others). A client
//! that uses a matchtag twice at a time is not refused: its twins are answered one by one.
//!
//! ```text
//!   asked ──response──▶ gone                     streaming: ──errnum 0──▶ stays, ──errnum ≠ 0──▶ gone
//! ```

use crate::disconnect::Seen;
use std::collections::{BTreeSet, HashMap};
use wire::{Flags, Request, Routes, Topic};

/// Requests one client may have in flight; one more is answered EAGAIN.
pub const INFLIGHT_PER_CLIENT_MAX: usize = 65_536;

/// How a response finds its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) matchtag: u32,
    /// The hops the request came with, before the client's own was pushed.
    pub(crate) hops: Routes,
}

/// What is needed to answer in the service's place.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) topic: Topic,
    pub(crate) flags: Flags,
}

impl Asked {
    /// Copies what it keeps: a long stream must not hold the read buffer its request came in.
    pub(crate) fn new(request: &Request) -> Asked {
        Asked {
            topic: request.topic.detached(),
            flags: request.flags,
        }
    }

    fn is_streaming(&self) -> bool {
        self.flags.contains(Flags::STREAMING)
    }
}

#[derive(Debug)]
struct Pending {
    asked: Asked,
    /// Later requests under the same key, oldest first.
    twins: Vec<Asked>,
}

/// What one client has with one service.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pending: HashMap<Key, Pending>,
    streams: usize,
    /// For disconnects.
    pub(crate) seen: Seen,
}

impl Link {
    pub(crate) fn add(&mut self, key: Key, asked: Asked) {
        self.streams += usize::from(asked.is_streaming());
        match self.pending.entry(key) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Pending {
                    asked,
                    twins: Vec::new(),
                });
            }
            std::collections::hash_map::Entry::Occupied(mut taken) => {
                taken.get_mut().twins.push(asked)
            }
        }
    }

    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.pending.contains_key(key)
    }

    /// Matches a response: the flags of its request, and whether it was the last one. `None`: nothing asked for it.
    pub(crate) fn settle(
        &mut self,
        key: &Key,
        topic: &Topic,
        errnum: u32,
    ) -> Option<(Flags, bool)> {
        let pending = self.pending.get_mut(key)?;
        // Of twins, the oldest with this topic.
        let twin = if pending.asked.topic == *topic {
            None
        } else {
            pending.twins.iter().position(|twin| twin.topic == *topic)
        };
        let asked = twin.map_or(&pending.asked, |at| &pending.twins[at]);
        let flags = asked.flags;
        if asked.is_streaming() && errnum == 0 {
            return Some((flags, false));
        }
        self.streams -= usize::from(asked.is_streaming());
        match twin {
            Some(at) => {
                pending.twins.remove(at);
            }
            None if pending.twins.is_empty() => {
                self.pending.remove(key);
            }
            None => pending.asked = pending.twins.remove(0),
        }
        Some((flags, true))
    }

    pub(crate) fn has_streams(&self) -> bool {
        self.streams > 0
    }

    /// The distinct hops that open streams came with; looked for only when something is paused.
    pub(crate) fn stream_hops(&self) -> BTreeSet<Routes> {
        self.pending
            .iter()
            .filter(|(_, pending)| {
                pending.asked.is_streaming() || pending.twins.iter().any(Asked::is_streaming)
            })
            .map(|(key, _)| key.hops.clone())
            .collect()
    }

    /// All that was asked and not answered, in order of matchtag.
    pub(crate) fn into_unanswered(self) -> Vec<(Key, Asked)> {
        let mut all = Vec::with_capacity(self.pending.len());
        for (key, pending) in self.pending {
            all.extend(pending.twins.into_iter().map(|twin| (key.clone(), twin)));
            all.push((key, pending.asked));
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// How many requests are in flight.
    pub(crate) fn len(&self) -> usize {
        self.pending
            .values()
            .map(|pending| 1 + pending.twins.len())
            .sum()
    }
}
