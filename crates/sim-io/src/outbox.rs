//! The output queue of one end of a connection: frames go in at once, and leave when the simulator moves them.
//!
//! ```text
//!  daemon ── send ─▶ Outbox ── take(bytes) ─▶ the other end         high water, drained, hard cap as in `rpc`
//! ```
//! The bounds are those of `rpc` made smaller, so that short runs meet them; the hard cap is a daemon's own choice and stays.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use wire::{Event, Message, Request, Response};

/// From here on a peer counts as not reading.
pub const HIGH_WATER: usize = 16 << 10;
/// Down to here it counts as reading again.
pub const LOW_WATER: usize = 4 << 10;
/// At this much in the queue nothing more is taken, unless a daemon sets another bound.
pub const HARD_CAP: usize = 16 << 20;

/// A connection's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// The bounds of one output queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxLimits {
    /// See [`LOW_WATER`].
    pub low_water: usize,
    /// See [`HIGH_WATER`].
    pub high_water: usize,
    /// See [`HARD_CAP`].
    pub hard_cap: usize,
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// It is queued.
    Queued,
    /// It is queued, and the queue has just passed high water.
    HighWater,
    /// The connection is closed; the frame is dropped.
    Gone,
    /// The queue is full; the frame is dropped.
    Overflow,
}

/// The bytes of one whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame(pub Bytes);

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Frame {
        Frame(bytes)
    }
}

impl From<&Message> for Frame {
    fn from(message: &Message) -> Frame {
        Frame(wire::to_frame(message))
    }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Frame {
        Frame::from(&message)
    }
}

impl From<Request> for Frame {
    fn from(message: Request) -> Frame {
        Frame::from(Message::Request(message))
    }
}

impl From<Response> for Frame {
    fn from(message: Response) -> Frame {
        Frame::from(Message::Response(message))
    }
}

impl From<Event> for Frame {
    fn from(message: Event) -> Frame {
        Frame::from(Message::Event(message))
    }
}

#[derive(Debug)]
struct State {
    frames: VecDeque<Bytes>,
    bytes: usize,
    total: u64,
    most: usize,
    high: bool,
    closed: bool,
    limits: OutboxLimits,
}

/// The queue; clones share it.
#[derive(Debug, Clone)]
pub struct Outbox(Rc<RefCell<State>>);

impl Outbox {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: OutboxLimits) -> Outbox {
        Outbox(Rc::new(RefCell::new(State {
            frames: VecDeque::new(),
            bytes: 0,
            total: 0,
            most: 0,
            high: false,
            closed: false,
            limits,
        })))
    }

    fn push(&self, frames: impl IntoIterator<Item = Bytes>) -> Sent {
        let mut state = self.0.borrow_mut();
        if state.closed {
            return Sent::Gone;
        }
        if state.bytes >= state.limits.hard_cap {
            return Sent::Overflow;
        }
        for frame in frames {
            state.bytes += frame.len();
            state.total += frame.len() as u64;
            state.frames.push_back(frame);
        }
        state.most = state.most.max(state.bytes);
        let crossed = state.bytes >= state.limits.high_water && !state.high;
        state.high |= crossed;
        if crossed {
            Sent::HighWater
        } else {
            Sent::Queued
        }
    }

    /// Moves up to `bytes` bytes to `into`; true if the queue has drained with that.
    #[must_use]
    pub fn take(&self, mut bytes: usize, into: &mut BytesMut) -> bool {
        let mut state = self.0.borrow_mut();
        while bytes > 0
            && let Some(first) = state.frames.front_mut()
        {
            let part = first.len().min(bytes);
            into.extend_from_slice(&first[..part]);
            first.advance(part);
            let empty = first.is_empty();
            bytes -= part;
            state.bytes -= part;
            if empty {
                state.frames.pop_front();
            }
        }
        let drained = state.bytes <= state.limits.low_water && state.high;
        state.high &= !drained;
        drained
    }

    /// What is queued is dropped, and nothing more is taken.
    pub fn close(&self) {
        let mut state = self.0.borrow_mut();
        state.closed = true;
        state.frames.clear();
        state.bytes = 0;
    }

    /// Whether it is over.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.borrow().closed
    }

    /// Bytes that wait.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.0.borrow().bytes
    }

    /// The most bytes that ever waited.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        self.0.borrow().most
    }
}

/// As `rpc::ConnHandle`: a server's way to one client.
#[derive(Debug, Clone)]
pub struct ConnHandle {
    id: ConnId,
    outbox: Outbox,
}

impl ConnHandle {
    /// A handle to this queue.
    #[must_use]
    pub fn new(id: ConnId, outbox: Outbox) -> ConnHandle {
        ConnHandle { id, outbox }
    }

    /// The connection's number.
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// Queues a frame.
    pub fn send(&self, frame: impl Into<Frame>) -> Sent {
        self.send_pieces([frame.into().0])
    }

    /// Queues the pieces of a frame. A peer that lets its queue reach the hard cap loses its connection.
    pub fn send_pieces(&self, pieces: impl IntoIterator<Item = Bytes>) -> Sent {
        let sent = self.outbox.push(pieces);
        if sent == Sent::Overflow {
            self.outbox.close();
        }
        sent
    }

    /// Bytes that wait for the peer.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    /// Bytes that were ever queued, and how many of them the peer took.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let state = self.outbox.0.borrow();
        (state.total, state.total - state.bytes as u64)
    }

    /// Nothing sent from now on arrives.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.outbox.is_closed()
    }

    /// Ends the connection.
    pub fn close(&self) {
        self.outbox.close();
    }

    /// Ends the connection. (The simulator has no end of a daemon that waits for readers.)
    pub fn finish(&self) {
        self.outbox.close();
    }
}

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The queue is at its bound.
    #[error("the server does not read, and {queued} bytes wait for it")]
    Full {
        /// Bytes in the queue.
        queued: usize,
    },
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

/// As `rpc::client::Sender`: a service's way to the broker.
#[derive(Debug, Clone)]
pub struct Sender {
    outbox: Outbox,
}

impl Sender {
    /// A sender into this queue.
    #[must_use]
    pub fn new(outbox: Outbox) -> Sender {
        Sender { outbox }
    }

    /// Queues a frame that must not wait.
    /// # Errors
    /// [`SendError`].
    pub fn send_now(&self, frame: impl Into<Frame>) -> Result<(), SendError> {
        match self.outbox.push([frame.into().0]) {
            Sent::Queued | Sent::HighWater => Ok(()),
            Sent::Gone => Err(SendError::Closed),
            Sent::Overflow => Err(SendError::Full {
                queued: self.outbox.queued_bytes(),
            }),
        }
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes()
    }

    /// Ends the connection at once.
    pub fn close(&self) {
        self.outbox.close();
    }
}
