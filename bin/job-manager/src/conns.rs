//! The connections: handle, credentials and hop of each. What they asked for is the router's.

use bytes::Bytes;
use router::PeerId;
use rpc::{ConnHandle, HIGH_WATER, Sent};
use std::collections::HashMap;
use wire::Cred;

/// Above this a service is taken not to read its requests: more are refused with EAGAIN. Its journal stream stops at the high-water
/// mark, so that what lies between the two is requests only.
const SERVICE_QUEUE_MAX: usize = 4 * HIGH_WATER;

struct Conn {
    handle: ConnHandle,
    cred: Cred,
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

    pub(crate) fn add(&mut self, peer: PeerId, handle: ConnHandle, cred: Cred, uuid: Bytes) {
        self.by_uuid.insert(uuid.clone(), peer);
        self.by_id.insert(peer, Conn { handle, cred, uuid });
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

    pub(crate) fn cred(&self, peer: PeerId) -> Option<Cred> {
        self.by_id.get(&peer).map(|conn| conn.cred)
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

    /// Whether this service has more than its share of unread requests.
    pub(crate) fn is_full(&self, peer: PeerId) -> bool {
        self.by_id
            .get(&peer)
            .is_some_and(|conn| conn.handle.queued_bytes() > SERVICE_QUEUE_MAX)
    }

    /// Ends one; `Closed` follows.
    pub(crate) fn close(&self, peer: PeerId) {
        if let Some(conn) = self.by_id.get(&peer) {
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
