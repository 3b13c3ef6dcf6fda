//! The connections: handle and hop of each. Who they are and what they asked for is the router's.
//!
//! ```text
//!  output queue of a service   journal ≤ 1 MiB, and one flush or batch beyond │ requests of clients: a window (`inbox.rs`) │ notices of the broker │ cap
//! ```

use crate::inbox::WINDOW_BYTES_MAX;
use bytes::Bytes;
use router::PeerId;
use rpc::{ConnHandle, HIGH_WATER, LOW_WATER, OutboxLimits, Sent};
use std::collections::HashMap;
use wire::Cred;

/// Answers that a client has not read: from here on its requests to this process are refused with EAGAIN.
pub(crate) const CLIENT_UNREAD_MAX: usize = 20 << 20;
/// A client that lets so much wait loses its connection. Above all that the journal hands out at once to who took everything before.
pub(crate) const HARD_CAP: usize = 40 << 20;
/// What the journal's `flush` hands out before it looks whether it is enough, and then one batch of a commit that stays whole.
const JOURNAL_AT_ONCE_MAX: usize = (4 << 20) + journal::limits::COMMIT_BYTES_MAX;
const _: () = assert!(
    HIGH_WATER + JOURNAL_AT_ONCE_MAX + WINDOW_BYTES_MAX < HARD_CAP && CLIENT_UNREAD_MAX < HARD_CAP
);

/// Bounds of every connection's output queue.
pub(crate) const OUTBOX_LIMITS: OutboxLimits = OutboxLimits {
    low_water: LOW_WATER,
    high_water: HIGH_WATER,
    hard_cap: HARD_CAP,
};

struct Conn {
    handle: ConnHandle,
    uuid: Bytes,
}

/// All open connections.
pub(crate) struct Conns {
    own_cred: Cred,
    by_id: HashMap<PeerId, Conn>,
    by_uuid: HashMap<Bytes, PeerId>,
}

impl Conns {
    /// `own_cred`: what this process sends under.
    pub(crate) fn new(own_cred: Cred) -> Conns {
        Conns {
            own_cred,
            by_id: HashMap::new(),
            by_uuid: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, peer: PeerId, handle: ConnHandle, uuid: Bytes) {
        self.by_uuid.insert(uuid.clone(), peer);
        self.by_id.insert(peer, Conn { handle, uuid });
    }

    /// False if it was not there.
    pub(crate) fn remove(&mut self, peer: PeerId) -> bool {
        match self.by_id.remove(&peer) {
            Some(conn) => {
                self.by_uuid.remove(&conn.uuid);
                true
            }
            None => false,
        }
    }

    pub(crate) fn own_cred(&self) -> Cred {
        self.own_cred
    }

    /// Whether it is open, as far as we heard.
    pub(crate) fn is_open(&self, peer: PeerId) -> bool {
        self.by_id.contains_key(&peer)
    }

    pub(crate) fn by_uuid(&self, uuid: &Bytes) -> Option<PeerId> {
        self.by_uuid.get(uuid).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Queues a frame; true when the client's queue has just passed the high-water mark.
    pub(crate) fn send(&self, peer: PeerId, frame: Bytes) -> bool {
        self.send_pieces(peer, [frame])
    }

    /// Queues the pieces of a frame; true when the client's queue has just passed the high-water mark.
    pub(crate) fn send_pieces(
        &self,
        peer: PeerId,
        pieces: impl IntoIterator<Item = Bytes>,
    ) -> bool {
        self.by_id
            .get(&peer)
            .is_some_and(|conn| conn.handle.send_pieces(pieces) == Sent::HighWater)
    }

    /// Bytes that were ever queued for it, and how many of them its socket took.
    pub(crate) fn progress(&self, peer: PeerId) -> (u64, u64) {
        self.by_id
            .get(&peer)
            .map_or((0, 0), |conn| conn.handle.progress())
    }

    /// Its hop.
    pub(crate) fn uuid(&self, peer: PeerId) -> Option<&Bytes> {
        self.by_id.get(&peer).map(|conn| &conn.uuid)
    }

    /// Whether this client leaves too much unread to be answered more.
    pub(crate) fn is_behind(&self, peer: PeerId) -> bool {
        self.unread(peer) > CLIENT_UNREAD_MAX
    }

    /// Bytes that it has not read.
    pub(crate) fn unread(&self, peer: PeerId) -> usize {
        self.by_id
            .get(&peer)
            .map_or(0, |conn| conn.handle.queued_bytes())
    }

    /// Ends one; `Closed` follows.
    pub(crate) fn close(&self, peer: PeerId) {
        if let Some(conn) = self.by_id.get(&peer) {
            conn.handle.close();
        }
    }

    /// Ends all.
    pub(crate) fn close_all(&self) {
        for conn in self.by_id.values() {
            conn.handle.close();
        }
    }

    /// Lets every client read what waits for it, then ends it.
    pub(crate) fn finish_all(&self) {
        for conn in self.by_id.values() {
            conn.handle.finish();
        }
    }
}
