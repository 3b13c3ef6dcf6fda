//! What incomplete frames take, over all connections: bounded, and whoever holds most makes room.
//!
//! ```text
//!   all ────────────────────────────────┐    over a bound: the user who holds most loses the connection that holds most
//!   │ other users ──────┐ own user      │
//!   └───────────────────┴───────────────┘
//! ```
//! A frame is read as it comes, and nobody knows whether the rest of it ever does. So no reader waits for room, and nobody for him:
//! the one that takes most of it goes. What takes less than [`UNIT`] is not counted; places for connections are bounded elsewhere.

use super::conn::ConnHandle;
use super::inbound::ConnId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are counted at a time.
const UNIT: usize = 16 << 10;
/// Between two warnings about connections that were closed.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The bounds of all incomplete frames of a server together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialLimits {
    /// Bytes of everybody. No less than one frame may have.
    pub all: usize,
    /// Bytes of all users together but the one that runs this process.
    pub others: usize,
}

/// Incomplete frames of everybody, at most.
pub const PARTIAL_BYTES_MAX: usize = 512 << 20;
/// … and of all other users together.
pub const PARTIAL_BYTES_OTHERS_MAX: usize = 256 << 20;
const _: () = assert!(
    wire::FRAME_LEN_MAX_DEFAULT < PARTIAL_BYTES_OTHERS_MAX
        && PARTIAL_BYTES_OTHERS_MAX < PARTIAL_BYTES_MAX
);

impl Default for PartialLimits {
    fn default() -> PartialLimits {
        PartialLimits {
            all: PARTIAL_BYTES_MAX,
            others: PARTIAL_BYTES_OTHERS_MAX,
        }
    }
}

/// The account of a server.
#[derive(Debug)]
pub(super) struct Partials {
    limits: PartialLimits,
    own_uid: u32,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_conn: HashMap<ConnId, One>,
    all: usize,
    others: usize,
    told: Option<Instant>,
    untold: u64,
}

#[derive(Debug)]
struct One {
    uid: u32,
    bytes: usize,
    handle: ConnHandle,
}

/// What one connection holds; given back when this is dropped.
#[derive(Debug)]
pub(crate) struct PartialShare {
    account: Arc<Partials>,
    uid: u32,
    handle: ConnHandle,
    bytes: usize,
}

impl Partials {
    pub(super) fn new(limits: PartialLimits, own_uid: u32) -> Arc<Partials> {
        Arc::new(Partials {
            limits,
            own_uid,
            held: Mutex::default(),
        })
    }

    pub(super) fn share(self: &Arc<Self>, uid: u32, handle: ConnHandle) -> PartialShare {
        PartialShare {
            account: Arc::clone(self),
            uid,
            handle,
            bytes: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialShare {
    /// So many bytes wait for the rest of their frame.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = bytes / UNIT * UNIT;
        if bytes == self.bytes {
            return;
        }
        let grown = bytes > self.bytes;
        self.bytes = bytes;
        let mut held = self.account.lock();
        held.remove(self.handle.id(), self.account.own_uid);
        if bytes > 0 && !self.handle.is_closed() {
            let one = One {
                uid: self.uid,
                bytes,
                handle: self.handle.clone(),
            };
            held.insert(one, self.account.own_uid);
        }
        if grown {
            let closed = held.make_room(self.account.limits, self.account.own_uid);
            drop(held);
            for one in closed {
                one.handle.close();
            }
        }
    }
}

impl Drop for PartialShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Held {
    fn insert(&mut self, one: One, own_uid: u32) {
        self.all += one.bytes;
        if one.uid != own_uid {
            self.others += one.bytes;
        }
        self.by_conn.insert(one.handle.id(), one);
    }

    fn remove(&mut self, conn: ConnId, own_uid: u32) -> Option<One> {
        let one = self.by_conn.remove(&conn)?;
        self.all -= one.bytes;
        if one.uid != own_uid {
            self.others -= one.bytes;
        }
        Some(one)
    }

    /// Takes out those that have to go.
    fn make_room(&mut self, limits: PartialLimits, own_uid: u32) -> Vec<One> {
        let mut closed = Vec::new();
        loop {
            let among_others = self.others > limits.others;
            if !among_others && self.all <= limits.all {
                return closed;
            }
            let Some(one) = self
                .worst(|uid| !among_others || uid != own_uid)
                .and_then(|conn| self.remove(conn, own_uid))
            else {
                return closed;
            };
            self.tell(&one);
            closed.push(one);
        }
    }

    /// Of the user who holds most, the connection that holds most.
    fn worst(&self, counts: impl Fn(u32) -> bool) -> Option<ConnId> {
        let mut by_user: HashMap<u32, (usize, &One)> = HashMap::new();
        for one in self.by_conn.values().filter(|one| counts(one.uid)) {
            let (sum, most) = by_user.entry(one.uid).or_insert((0, one));
            *sum += one.bytes;
            if one.bytes > most.bytes {
                *most = one;
            }
        }
        let worst = by_user.into_values().max_by_key(|(sum, _)| *sum);
        worst.map(|(_, one)| one.handle.id())
    }

    fn tell(&mut self, one: &One) {
        self.untold += 1;
        if self.told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return;
        }
        tracing::warn!(
            conn = one.handle.id().0,
            uid = one.uid,
            bytes = one.bytes,
            closed = self.untold,
            "connections closed: unfinished frames take too much memory, and this one most"
        );
        self.told = Some(Instant::now());
        self.untold = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    fn share(account: &Arc<Partials>, uid: u32, id: u64, units: usize) -> PartialShare {
        let mut share = account.share(uid, ConnHandle::loose(ConnId(id)));
        share.set(units * UNIT + 5);
        share
    }

    #[test]
    fn invariant_7_half_frames_of_others_are_bounded_apart_and_the_greediest_user_pays() {
        let limits = PartialLimits {
            all: 100 * UNIT,
            others: 20 * UNIT,
        };
        let account = Partials::new(limits, OWN);
        let own = share(&account, OWN, 1, 50);
        let modest = share(&account, 8, 2, 7);
        let rude: Vec<_> = (3..7).map(|id| share(&account, 9, id, 3)).collect();
        assert_eq!(account.lock().others, 19 * UNIT);
        let more = share(&account, 9, 9, 2);
        let closed = |share: &PartialShare| share.handle.is_closed();
        assert_eq!(rude.iter().filter(|one| closed(one)).count(), 1);
        assert!(!closed(&own) && !closed(&modest) && !closed(&more));
        let greedy = share(&account, OWN, 10, 60);
        assert!(closed(&greedy) && !closed(&own));
        drop((own, modest, rude, more, greedy));
        let held = account.lock();
        assert_eq!((held.all, held.others, held.by_conn.len()), (0, 0, 0));
    }
}
