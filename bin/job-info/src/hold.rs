//! Requests that came too early: their seq is not applied yet, or there is no list yet.
//!
//! Held in the order in which they become answerable: by the seq they need, then by arrival. Bounded in number and bytes, in all and per
//! client; what does not fit is refused with EAGAIN. None waits longer than [`AFTER_WAIT_MAX`].

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    core::REQUEST_BYTES_MAX,
    peer::{Caller, ClientKey, Via},
    quota::Quota,
};

/// Most requests held, of all clients.
pub(crate) const HELD_MAX: usize = 65_536;
/// Requests of each client that are held, while there is room.
const HELD_LEAST: usize = 4;
/// Most bytes of payloads held, of all clients.
pub(crate) const HELD_BYTES_MAX: usize = 64 << 20;
/// How long a request may wait.
pub(crate) const AFTER_WAIT_MAX: Duration = Duration::from_secs(30);

/// When something is to be looked at that is looked at now and then, for as long as that is wanted. The moment stays where it is
/// however often it is asked for: a loop that is woken by other things all the time still comes to it.
#[derive(Debug, Default)]
pub(crate) struct Due(Option<Instant>);

impl Due {
    /// The moment: `pause` after this was first wanted, or after it last came.
    pub(crate) fn when(&mut self, wanted: bool, now: Instant, pause: Duration) -> Option<Instant> {
        self.0 = wanted.then(|| self.0.unwrap_or(now + pause));
        self.0
    }

    /// Whether it has come; the next is a pause away.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.0.take_if(|due| *due <= now).is_some()
    }
}

/// One request that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) caller: Caller,
    pub(crate) payload: Option<Bytes>,
    pub(crate) need: u64,
    since: Instant,
}

/// All requests that wait. Those that came through the broker wait for the stream on the same connection too.
#[derive(Debug)]
pub(crate) struct Hold {
    waiting: BTreeMap<(u64, u64), Held>,
    requests: Quota,
    bytes: Quota,
    arrivals: u64,
}

impl Default for Hold {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            requests: Quota::new(HELD_MAX, HELD_LEAST),
            bytes: Quota::new(HELD_BYTES_MAX, REQUEST_BYTES_MAX),
            arrivals: 0,
        }
    }
}

impl Hold {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Holds a request until `need` is applied; false, and nothing held, when there is no room.
    pub(crate) fn add(
        &mut self,
        caller: &Caller,
        payload: Option<Bytes>,
        need: u64,
        now: Instant,
    ) -> bool {
        let client = caller.key();
        let length = payload.as_ref().map_or(0, Bytes::len);
        if !self.requests.take(&client, 1) {
            return false;
        }
        if !self.bytes.take(&client, length) {
            self.requests.give(&client, 1);
            return false;
        }
        self.arrivals += 1;
        self.waiting.insert(
            (need, self.arrivals),
            Held {
                caller: caller.kept(),
                // Not the read buffer it came in.
                payload: payload.map(|payload| Bytes::copy_from_slice(&payload)),
                need,
                since: now,
            },
        );
        true
    }

    /// Whether a request of this client is held.
    pub(crate) fn has_client(&self, client: &ClientKey) -> bool {
        self.requests.has(client)
    }

    /// The next request that a list at `applied` can answer. Requests through the broker are given out only while
    /// `broker_live`, others only while `served`.
    pub(crate) fn take_ripe(
        &mut self,
        applied: u64,
        broker_live: bool,
        served: bool,
    ) -> Option<Held> {
        let at = self
            .waiting
            .range(..=(applied, u64::MAX))
            .find_map(|(at, held)| {
                let open = if held.caller.via == Via::Broker {
                    broker_live
                } else {
                    served
                };
                open.then_some(*at)
            })?;
        self.take(at)
    }

    /// Requests whose wait took too long.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<Held> {
        let late = |held: &Held| now.duration_since(held.since) >= AFTER_WAIT_MAX;
        let at: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, held)| late(held))
            .map(|(at, _)| *at)
            .collect();
        at.into_iter().filter_map(|at| self.take(at)).collect()
    }

    /// Forgets the requests that `gone` picks, and gives them out.
    pub(crate) fn forget(&mut self, mut gone: impl FnMut(&Caller) -> bool) -> Vec<Held> {
        let at: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, held)| gone(&held.caller))
            .map(|(at, _)| *at)
            .collect();
        at.into_iter().filter_map(|at| self.take(at)).collect()
    }

    fn take(&mut self, at: (u64, u64)) -> Option<Held> {
        let held = self.waiting.remove(&at)?;
        let client = held.caller.key();
        self.requests.give(&client, 1);
        let length = held.payload.as_ref().map_or(0, Bytes::len);
        self.bytes.give(&client, length);
        Some(held)
    }
}
