//! Requests that came too early: their seq is not applied yet, or there is no list yet.
//!
//! Held in the order in which they become answerable: by the seq they need, then by arrival. Bounded in all and per
//! client; what does not fit is refused with EAGAIN. A request that asked for a seq itself waits [`AFTER_WAIT_MAX`] at most.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::peer::{Caller, ClientKey, Via};

/// Most requests held, of all clients.
pub(crate) const HELD_MAX: usize = 8192;
/// Most requests held of one client.
pub(crate) const HELD_PER_CLIENT_MAX: usize = 1024;
/// How long a request may wait for the seq it named itself.
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
#[derive(Debug, Default)]
pub(crate) struct Hold {
    waiting: BTreeMap<(u64, u64), Held>,
    per_client: HashMap<ClientKey, usize>,
    arrivals: u64,
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
        let of_client = self.per_client.get(&caller.key()).copied().unwrap_or(0);
        if self.waiting.len() >= HELD_MAX || of_client >= HELD_PER_CLIENT_MAX {
            return false;
        }
        self.per_client.insert(caller.key(), of_client + 1);
        self.arrivals += 1;
        self.waiting.insert(
            (need, self.arrivals),
            Held {
                caller: caller.clone(),
                payload,
                need,
                since: now,
            },
        );
        true
    }

    /// Whether a request of this client is held.
    pub(crate) fn has_client(&self, client: &ClientKey) -> bool {
        self.per_client.contains_key(client)
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

    /// Requests whose own wait for a seq took too long.
    pub(crate) fn take_late(&mut self, now: Instant) -> Vec<Held> {
        let late = |held: &Held| held.need > 0 && now.duration_since(held.since) >= AFTER_WAIT_MAX;
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
        let key = held.caller.key();
        if let Some(count) = self.per_client.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&key);
            }
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_comes_however_often_the_loop_is_woken_before_it() {
        let mut due = Due::default();
        let begun = Instant::now();
        let (pause, woken) = (Duration::from_secs(1), Duration::from_millis(10));
        let mut taken = 0;
        for times in 0..500 {
            let now = begun + woken * times;
            assert!(due.when(true, now, pause).is_some());
            taken += u32::from(due.take(now));
        }
        assert_eq!(taken, 4, "once a second");
        assert_eq!(due.when(false, begun, pause), None);
    }
}
