//! Events: how much a client may publish, and what becomes of those that a subscriber does not read.
//!
//! ```text
//!  publisher   4 MiB at once, then 4 MiB a second; all connections of a user 8 MiB, 8 MiB a second     beyond: EAGAIN, alone
//!  subscriber  [ output queue … 16 MiB ]   beyond: left out, and counted, until it has read all but 256 KiB ─▶ `event.overrun {dropped, first, last}`
//! ```
//! Events are news, not history: none is stored, and none is given twice. So a subscriber that is too slow loses events and is told which; it never
//! loses its connection for them. And one that reads as fast as one user may publish loses none, whoever floods.

use crate::builtin::Answer;
use crate::shell::Shell;
use job::Timestamp;
use router::PeerId;
use serde_json::json;
use std::collections::HashMap;
use wire::{Event, Flags, ROLE_OWNER, ROLE_USER, errno, json_payload};

/// Bytes of events that one connection may publish at once, and as many a second.
pub(crate) const CONNECTION_EVENTS_MAX: usize = 4 << 20;
/// … and all connections of one user.
pub(crate) const USER_EVENTS_MAX: usize = 8 << 20;
/// A subscriber with so much unread is sent no more events.
pub(crate) const EVENTS_UNREAD_MAX: usize = 16 << 20;
/// What one event counts besides its bytes.
const EVENT_LEN: usize = 128;
/// Users and connections that have all their room again are forgotten once so many are known.
const KNOWN_MAX: usize = 1024;
const _: () = assert!(
    CONNECTION_EVENTS_MAX <= USER_EVENTS_MAX
        && USER_EVENTS_MAX + rpc::HIGH_WATER < EVENTS_UNREAD_MAX
        && EVENTS_UNREAD_MAX < crate::conns::CLIENT_UNREAD_MAX
);

/// Room for events, which comes back with time.
#[derive(Debug, Clone, Copy)]
struct Room {
    bytes: f64,
    at: Timestamp,
}

impl Room {
    fn refill(&mut self, most: usize, now: Timestamp) -> bool {
        let gained = (now.0 - self.at.0).max(0.0) * most as f64;
        self.bytes = (self.bytes + gained).min(most as f64);
        self.at = now;
        self.bytes > 0.0
    }
}

/// Events that a subscriber was not sent, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Overrun {
    dropped: u64,
    first: u32,
    last: u32,
}

/// Who has published how much, and who is behind.
#[derive(Debug, Default)]
pub(crate) struct Events {
    connections: HashMap<PeerId, Room>,
    users: HashMap<u32, Room>,
    behind: HashMap<PeerId, Overrun>,
    /// Events that were left out, of all subscribers, since the start.
    pub(crate) dropped: u64,
    /// Events that were refused.
    pub(crate) refused: u64,
}

impl Events {
    /// Whether this connection may publish so much now. The last that is let through may be longer than what room is left.
    fn admit(&mut self, from: PeerId, userid: u32, len: usize, now: Timestamp) -> bool {
        if self.connections.len() + self.users.len() > KNOWN_MAX {
            self.connections.retain(|_, room| {
                room.refill(CONNECTION_EVENTS_MAX, now);
                room.bytes < CONNECTION_EVENTS_MAX as f64
            });
            self.users.retain(|_, room| {
                room.refill(USER_EVENTS_MAX, now);
                room.bytes < USER_EVENTS_MAX as f64
            });
        }
        let whole = |most: usize| Room {
            bytes: most as f64,
            at: now,
        };
        let connection = self
            .connections
            .entry(from)
            .or_insert_with(|| whole(CONNECTION_EVENTS_MAX));
        let user = self
            .users
            .entry(userid)
            .or_insert_with(|| whole(USER_EVENTS_MAX));
        let admitted =
            connection.refill(CONNECTION_EVENTS_MAX, now) & user.refill(USER_EVENTS_MAX, now);
        if admitted {
            connection.bytes -= (len + EVENT_LEN) as f64;
            user.bytes -= (len + EVENT_LEN) as f64;
        } else {
            self.refused += 1;
        }
        admitted
    }

    /// Whether this subscriber, with so much unread, is not sent the event of this number.
    fn leave_out(&mut self, to: PeerId, unread: usize, sequence: u32) -> bool {
        if let Some(overrun) = self.behind.get_mut(&to) {
            overrun.dropped += 1;
            overrun.last = sequence;
        } else if unread > EVENTS_UNREAD_MAX {
            let overrun = Overrun {
                dropped: 1,
                first: sequence,
                last: sequence,
            };
            self.behind.insert(to, overrun);
        } else {
            return false;
        }
        self.dropped += 1;
        true
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        self.behind.remove(&peer);
        self.connections.remove(&peer);
    }
}

impl Shell {
    /// Whether `from` may publish so much now; why not.
    pub(crate) fn may_publish(&mut self, from: PeerId, len: usize) -> Answer {
        // As the kernel has him: the owner may write any other name into a request.
        let userid = self
            .router
            .cred_of(from)
            .map_or(u32::MAX, |cred| cred.userid);
        let now = self.clock.monotonic();
        if self.events.admit(from, userid, len, now) {
            return Ok(None);
        }
        let text = format!(
            "events come too fast: {} MiB a second from one connection, {} MiB from one user; this one was not published",
            CONNECTION_EVENTS_MAX >> 20,
            USER_EVENTS_MAX >> 20
        );
        Err((errno::EAGAIN, Some(text)))
    }

    /// An event as a message of its own: nobody hears an answer.
    pub(crate) fn take_event(&mut self, from: PeerId, event: Event) {
        let len = event.topic.as_bytes().len()
            + event.payload.as_ref().map_or(0, |payload| payload.len());
        if event.cred.rolemask & (ROLE_OWNER | ROLE_USER) == 0
            || self.may_publish(from, len).is_err()
        {
            self.dropped += 1;
            return;
        }
        self.send_event(event);
    }

    /// Whether a subscriber is so far behind that it is not sent this event.
    pub(crate) fn is_overrun(&mut self, to: PeerId, sequence: u32) -> bool {
        let unread = self.conns.unread(to);
        self.events.leave_out(to, unread, sequence)
    }

    /// A subscriber that was behind has read what it had: it is told what it missed.
    pub(crate) fn tell_overrun(&mut self, to: PeerId) {
        let Some(overrun) = self.events.behind.remove(&to) else {
            return;
        };
        let payload =
            json!({"dropped": overrun.dropped, "first": overrun.first, "last": overrun.last});
        let event = Event {
            topic: "event.overrun".into(),
            payload: Some(json_payload(&payload)),
            routes: None,
            cred: self.conns.own_cred(),
            flags: Flags::NONE,
            sequence: 0,
        };
        let event = self.router.publish(event).event;
        self.transmit(to, wire::to_frame(&wire::Message::Event(event)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_who_floods_is_refused_alone_and_has_room_again_with_time() {
        let mut events = Events::default();
        let flood = |events: &mut Events, peer: u64, userid: u32, now: f64| {
            let mut bytes = 0;
            while events.admit(PeerId(peer), userid, 1000, Timestamp(now)) {
                bytes += 1000 + EVENT_LEN;
                assert!(bytes < 2 * USER_EVENTS_MAX, "no bound");
            }
            bytes
        };
        let near = |bytes: usize, expected: usize| bytes.abs_diff(expected) <= 2000;
        assert!(near(
            flood(&mut events, 1, 1000, 0.0),
            CONNECTION_EVENTS_MAX
        ));
        assert!(near(
            flood(&mut events, 2, 1000, 0.0),
            CONNECTION_EVENTS_MAX
        ));
        assert!(near(flood(&mut events, 3, 1000, 0.0), 0), "one user");
        assert!(events.admit(PeerId(4), 1001, 1000, Timestamp(0.0)));
        assert!(near(
            flood(&mut events, 1, 1000, 0.5),
            CONNECTION_EVENTS_MAX / 2
        ));
        // A long one takes from what is to come.
        assert!(events.admit(PeerId(5), 1002, 40 << 20, Timestamp(1.0)));
        assert!(!events.admit(PeerId(5), 1002, 1, Timestamp(9.0)));
        assert!(events.admit(PeerId(5), 1002, 1, Timestamp(12.0)));
        for peer in 100..100 + 4 * KNOWN_MAX as u64 {
            assert!(events.admit(PeerId(peer), peer as u32, 1, Timestamp(20.0 + peer as f64)));
        }
        assert!(events.connections.len() + events.users.len() <= KNOWN_MAX + 2);
    }

    #[test]
    fn a_subscriber_that_is_behind_misses_a_whole_stretch_and_not_some_of_it() {
        let mut events = Events::default();
        let slow = PeerId(1);
        assert!(!events.leave_out(slow, EVENTS_UNREAD_MAX, 7));
        assert!(events.leave_out(slow, EVENTS_UNREAD_MAX + 1, 8));
        assert!(
            events.leave_out(slow, 1000, 10),
            "it has not read all of it yet"
        );
        assert!(!events.leave_out(PeerId(2), 1000, 10));
        let overrun = Overrun {
            dropped: 2,
            first: 8,
            last: 10,
        };
        assert_eq!(events.behind.remove(&slow), Some(overrun));
        assert!(!events.leave_out(slow, 1000, 11));
        assert_eq!(events.dropped, 2);
    }
}
