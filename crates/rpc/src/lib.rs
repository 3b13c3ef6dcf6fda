//! Messages over a Unix socket: the server's end and the client's.
//!
//! Here bytes are read and written, and nothing is decided: who gets a message is `router`'s, what it means is `protocol`'s
//! and the daemons'. All of it runs on a `current_thread` runtime; the types are `Send`.
//!
//! ```text
//! server:  accept ─ policy(uid) ─ handshake byte ─┬─ reader task ──Inbound──▶ one bounded queue ──▶ the broker
//!                                                 └─ writer task ◀──frames── ConnHandle::send (never waits)
//! client:  Connection::connect ─ split ─ Sender (bounded) · Receiver (reads when asked)      for services
//!                               └ Client: call, stream, subscribe                           for commands
//! ```
//!
//! Invariants:
//! - Nobody waits for a reader: [`ConnHandle::send`] queues or refuses. What a peer does not read costs it, past
//!   [`HARD_CAP`], its connection, and never anyone else's time.
//! - Everything read is bounded: a frame by its cap, what waits for the broker by count and bytes; then the reader stops
//!   reading, and the kernel makes the sender wait.
//! - Messages of one connection arrive in order, after its `Opened` and before its `Closed`.
//! - A peer that breaks the rules (no frame, cut frame, too long a frame) loses its connection, and nobody else does.

pub mod client;
mod frame;
mod outbox;
mod reader;
pub mod server;
pub mod uri;

pub use client::{Client, Connection, RpcError};
pub use frame::Frame;
pub use outbox::{HARD_CAP, HIGH_WATER, LOW_WATER, OutboxLimits, Sent};
pub use reader::ReadEnd;
pub use server::{
    CloseReason, ConnHandle, ConnId, Inbound, Listener, Server, ServerConfig, Verdict,
};
