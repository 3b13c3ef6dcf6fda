//! Who asks, and the ways back: the broker's connection, and clients of our own socket.
//!
//! ```text
//!  via        client key                      answers go
//!  Broker     newest hop of the routes        through the one connection, routes echoed
//!  Direct(n)  the connection itself           straight to it
//! ```
//! The newest hop is the one that the broker put on for the connection the request came from. What stands behind it was written by
//! the client: it is echoed, and tells apart those for whom one connection forwards, but nobody becomes another client by it.
//!
//! Answers are queued at once and never waited for. Streams ask [`Outlets::has_room`] first: what they would send
//! stays where it is until the way is free again.

use std::collections::HashMap;

use bytes::Bytes;
use rpc::{ConnHandle, ConnId, OutboxLimits, client::Sender};
use wire::{Cred, Request, Response, errno};

/// Streams stop when this much waits to be written on a way, so that an answer never queues behind more than this.
pub(crate) const OUT_HIGH_BYTES: usize = 192 << 10;
/// … and go on from here.
const OUT_LOW_BYTES: usize = 64 << 10;
/// At this much a peer that does not read loses its connection.
const OUT_BYTES_MAX: usize = 64 << 20;
/// Most bytes that all clients of our own socket together may have unread when a large frame is to be sent to one of them.
const DIRECT_BYTES_MAX: usize = 128 << 20;
/// A frame from this on is a large one.
const LARGE_FRAME_BYTES: usize = 1 << 20;
const _: () = assert!(OUT_LOW_BYTES < OUT_HIGH_BYTES && OUT_HIGH_BYTES < OUT_BYTES_MAX);

/// The bounds of every way out.
pub(crate) const OUT_LIMITS: OutboxLimits = OutboxLimits {
    low_water: OUT_LOW_BYTES,
    high_water: OUT_HIGH_BYTES,
    hard_cap: OUT_BYTES_MAX,
};

/// Which way a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Via {
    /// Through the broker.
    Broker,
    /// On our own socket.
    Direct(ConnId),
}

/// One client, however many requests it has. Made for each request, and kept: so it is small, and holds on to no read buffer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientKey {
    pub(crate) via: Via,
    hop: Option<Hop>,
}

/// Bytes of a hop that need no memory of their own: all that the broker writes.
const HOP_SHORT: usize = 39;

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Hop {
    Short(u8, [u8; HOP_SHORT]),
    Long(Box<[u8]>),
}

impl Hop {
    fn new(bytes: &[u8]) -> Self {
        let mut short = [0; HOP_SHORT];
        match (short.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(bytes);
                Hop::Short(length, short)
            }
            _ => Hop::Long(bytes.into()),
        }
    }
}

/// A request that is to be answered.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) via: Via,
    /// Its payload has been taken out when it was read.
    pub(crate) request: Request,
}

impl ClientKey {
    /// A client of our own socket is its connection, whatever routes it writes: else it would have as many shares of what
    /// is bounded by client as it likes.
    pub(crate) fn new(via: Via, newest_hop: Option<&[u8]>) -> Self {
        Self {
            via,
            hop: newest_hop.filter(|_| via == Via::Broker).map(Hop::new),
        }
    }
}

impl Caller {
    pub(crate) fn key(&self) -> ClientKey {
        let hop = self.hops().first();
        ClientKey::new(self.via, hop.map(|hop| &hop[..]))
    }

    /// The same, in memory of its own: whoever keeps a caller keeps this, not the read buffer it came in.
    pub(crate) fn kept(&self) -> Caller {
        let copy = |hop: &Bytes| Bytes::copy_from_slice(hop);
        let routes = self.request.routes.as_ref();
        Caller {
            via: self.via,
            request: Request {
                topic: self.request.topic.detached(),
                payload: None,
                routes: routes.map(|hops| hops.iter().map(copy).collect()),
                ..self.request
            },
        }
    }

    fn hops(&self) -> &[Bytes] {
        self.request.routes.as_deref().unwrap_or_default()
    }

    pub(crate) fn cred(&self) -> Cred {
        self.request.cred
    }

    pub(crate) fn topic(&self) -> &str {
        self.request.topic.as_str()
    }

    /// Whether `other` came from where this request came from: the same connection, and behind it the same one for whom it forwards.
    pub(crate) fn is_from(&self, other: &Caller) -> bool {
        self.via == other.via && self.hops() == other.hops()
    }

    /// Whether `other`, a cancel, speaks for the sender of this request.
    pub(crate) fn is_of(&self, other: &Caller) -> bool {
        self.is_from(other)
            && (other.cred().is_owner() || other.cred().userid == self.cred().userid)
    }
}

/// A refusal: errnum, and a text for people where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) struct Refusal {
    pub(crate) errnum: u32,
    pub(crate) text: Option<String>,
}

impl Refusal {
    pub(crate) fn new(errnum: u32, text: impl Into<String>) -> Self {
        Self {
            errnum,
            text: Some(text.into()),
        }
    }

    pub(crate) fn bare(errnum: u32) -> Self {
        Self { errnum, text: None }
    }

    /// A payload that is not what it should be.
    pub(crate) fn payload(reason: impl std::fmt::Display) -> Self {
        Self::new(errno::EPROTO, format!("invalid payload: {reason}"))
    }
}

/// All ways out.
#[derive(Debug)]
pub(crate) struct Outlets {
    own: Cred,
    broker: Option<Sender>,
    direct: HashMap<ConnId, ConnHandle>,
}

impl Outlets {
    pub(crate) fn new(own: Cred) -> Self {
        Self {
            own,
            broker: None,
            direct: HashMap::new(),
        }
    }

    pub(crate) fn set_broker(&mut self, broker: Option<Sender>) {
        if let Some(old) = std::mem::replace(&mut self.broker, broker) {
            old.close();
        }
    }

    pub(crate) fn broker(&self) -> Option<&Sender> {
        self.broker.as_ref()
    }

    pub(crate) fn open(&mut self, id: ConnId, handle: ConnHandle) {
        self.direct.insert(id, handle);
    }

    pub(crate) fn close(&mut self, id: ConnId) {
        self.direct.remove(&id);
    }

    /// A frame of `bytes` is to be sent to a client of our own socket. What all these clients have not read is bounded: those who
    /// read least lose their connections.
    pub(crate) fn make_room(&mut self, via: Via, bytes: usize) {
        if bytes < LARGE_FRAME_BYTES || via == Via::Broker {
            return;
        }
        let mut queued: usize = self.direct.values().map(ConnHandle::queued_bytes).sum();
        while queued + bytes > DIRECT_BYTES_MAX {
            let others = self
                .direct
                .iter()
                .filter(|(id, _)| Via::Direct(**id) != via);
            let worst = others.max_by_key(|(_, handle)| handle.queued_bytes());
            let Some((id, handle)) = worst.map(|(id, handle)| (*id, handle.clone())) else {
                return;
            };
            let unread = handle.queued_bytes();
            if unread == 0 {
                return;
            }
            tracing::warn!(
                conn = id.0,
                unread,
                "client dropped: it does not read, and others need the room"
            );
            handle.close();
            self.direct.remove(&id);
            queued = queued.saturating_sub(unread);
        }
    }

    /// Whether a stream may send.
    pub(crate) fn has_room(&self, via: Via) -> bool {
        match via {
            Via::Broker => self
                .broker
                .as_ref()
                .is_some_and(|sender| sender.queued_bytes() < OUT_HIGH_BYTES),
            Via::Direct(id) => self
                .direct
                .get(&id)
                .is_some_and(|handle| handle.queued_bytes() < OUT_HIGH_BYTES),
        }
    }

    /// A request of our own to the broker. False when there is no connection.
    pub(crate) fn request(&self, request: Request) -> bool {
        self.broker
            .as_ref()
            .is_some_and(|sender| send_to_broker(sender, request))
    }

    /// Sends a success. `payload` has its final NUL.
    pub(crate) fn respond(&self, caller: &Caller, payload: Option<Bytes>) {
        if caller.request.expects_response() {
            self.send_frame(caller.via, self.response(caller, payload));
        }
    }

    /// Sends an error, or the end of a stream.
    pub(crate) fn refuse(&self, caller: &Caller, refusal: &Refusal) {
        self.send(
            caller,
            caller
                .request
                .error(refusal.errnum, refusal.text.as_deref()),
        );
    }

    /// Ends a stream in the usual way.
    pub(crate) fn end(&self, caller: &Caller) {
        self.refuse(caller, &Refusal::bare(errno::ENODATA));
    }

    /// A success as it is sent, for those that make a frame of it themselves.
    pub(crate) fn response(&self, caller: &Caller, payload: Option<Bytes>) -> Response {
        let mut response = caller.request.respond(payload);
        // A response without roles is dropped by clients without a word.
        response.cred = self.own;
        response
    }

    fn send(&self, caller: &Caller, mut response: Response) {
        if !caller.request.expects_response() {
            return;
        }
        response.cred = self.own;
        self.send_frame(caller.via, response);
    }

    /// Sends a whole frame, or what becomes one.
    pub(crate) fn send_frame(&self, via: Via, frame: impl Into<rpc::Frame>) {
        match via {
            Via::Broker => {
                if let Some(sender) = &self.broker {
                    send_to_broker(sender, frame);
                }
            }
            Via::Direct(id) => {
                if let Some(handle) = self.direct.get(&id) {
                    // Overflow closes that connection; it is told as `Closed`.
                    let _ = handle.send(frame);
                }
            }
        }
    }
}

fn send_to_broker(sender: &Sender, frame: impl Into<rpc::Frame>) -> bool {
    match sender.send_now(frame) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "the broker does not take what we send; giving the connection up");
            sender.close();
            false
        }
    }
}
