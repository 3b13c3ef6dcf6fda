//! The connections: handle and hop of each, and how much of its output queue is requests. Who they are and what they asked for is the
//! router's.
//!
//! ```text
//!  queue of a service   journal ≤ 1 MiB, and one flush or batch beyond │ requests: 4 MiB, then EAGAIN │ cancels + 1 MiB │ notices of the broker │ cap
//! ```
//! Requests are counted apart from the journal, so that a large batch on its way to job-info makes nobody's request fail.

use bytes::Bytes;
use router::PeerId;
use rpc::{ConnHandle, HIGH_WATER, LOW_WATER, OutboxLimits, Sent};
use std::collections::HashMap;
use wire::Cred;

/// Requests that a service has not read: more that expect an answer are refused with EAGAIN.
pub(crate) const SERVICE_REQUESTS_MAX: usize = 4 << 20;
/// So much is taken of what expects none (a cancel) before it is dropped.
pub(crate) const SERVICE_NOTICES_MAX: usize = 5 << 20;
/// Answers that a client has not read: from here on its requests to this process are refused with EAGAIN.
pub(crate) const CLIENT_UNREAD_MAX: usize = 20 << 20;
/// A client that lets so much wait loses its connection. Above all that the journal hands out at once to who took everything before.
pub(crate) const HARD_CAP: usize = 40 << 20;
/// What the journal's `flush` hands out before it looks whether it is enough, and then one batch of a commit that stays whole.
const JOURNAL_AT_ONCE_MAX: usize = (4 << 20) + journal::limits::COMMIT_BYTES_MAX;
const _: () = assert!(
    HIGH_WATER + JOURNAL_AT_ONCE_MAX + SERVICE_NOTICES_MAX < HARD_CAP
        && SERVICE_REQUESTS_MAX < SERVICE_NOTICES_MAX
        && CLIENT_UNREAD_MAX < HARD_CAP
);

/// Bounds of every connection's output queue.
pub(crate) const OUTBOX_LIMITS: OutboxLimits = OutboxLimits {
    low_water: LOW_WATER,
    high_water: HIGH_WATER,
    hard_cap: HARD_CAP,
};

/// What becomes of a request to a service that does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It expects an answer: that is EAGAIN.
    Answered,
    /// It expects none: dropped, a little later.
    Notice,
    /// The broker's own word (disconnect, pause, resume): never dropped.
    Owed,
}

struct Conn {
    handle: ConnHandle,
    uuid: Bytes,
    /// Bytes of requests queued since the queue was last seen below low water.
    requests: usize,
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
        let conn = Conn {
            handle,
            uuid,
            requests: 0,
        };
        self.by_id.insert(peer, conn);
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

    /// Whether a request of `len` bytes may be queued for this service; it is counted then.
    pub(crate) fn admit(&mut self, peer: PeerId, len: usize, weight: Weight) -> bool {
        let Some(conn) = self.by_id.get_mut(&peer) else {
            // Gone: whoever waits is told when that is heard.
            return true;
        };
        if conn.handle.queued_bytes() <= LOW_WATER {
            conn.requests = 0;
        }
        let admitted = match weight {
            Weight::Answered => conn.requests < SERVICE_REQUESTS_MAX,
            Weight::Notice => conn.requests < SERVICE_NOTICES_MAX,
            Weight::Owed => true,
        };
        if admitted {
            conn.requests += len;
        }
        admitted
    }

    /// Its queue fell below low water.
    pub(crate) fn drained(&mut self, peer: PeerId) {
        if let Some(conn) = self.by_id.get_mut(&peer) {
            conn.requests = 0;
        }
    }

    /// Whether this client leaves too much unread to be answered more.
    pub(crate) fn is_behind(&self, peer: PeerId) -> bool {
        self.by_id
            .get(&peer)
            .is_some_and(|conn| conn.handle.queued_bytes() > CLIENT_UNREAD_MAX)
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
