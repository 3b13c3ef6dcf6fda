//! What the broker hears: one bounded queue of [`Inbound`]s for all connections.

use super::ConnHandle;
use crate::reader::ReadEnd;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use wire::{Cred, Message};

/// Entries of the queue; a reader that finds it full stops reading its socket.
pub const INBOX_CHUNKS_MAX: usize = 1024;
/// Bytes of messages in the queue, over all connections; likewise.
pub const INBOX_BYTES_MAX: usize = 128 << 20;
const _: () = assert!(INBOX_BYTES_MAX >= wire::FRAME_LEN_MAX_DEFAULT);

/// Numbers of connections begin here; those below are free for peers that are no connections.
pub const FIRST_CONN_ID: u64 = 1 << 16;

/// A connection's number, never used again in the life of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// Something came in.
#[derive(Debug)]
pub enum Inbound {
    /// A client was let in. Nothing of this connection comes before it.
    Opened {
        /// Its number.
        conn: ConnId,
        /// To answer it.
        handle: ConnHandle,
        /// What the policy made of its user id.
        cred: Cred,
        /// Its process, for logs only: it may be gone, and its number another's.
        pid: Option<i32>,
        /// Its hop in route stacks: 36 random characters.
        uuid: Bytes,
    },
    /// Messages, in order, as many as one read brought. Credentials are stamped already.
    Messages {
        /// Whose.
        conn: ConnId,
        /// At least one.
        messages: Vec<Message>,
        /// Holds the readers' bound until dropped.
        credit: Credit,
    },
    /// The output queue was above high water and is down at low water.
    Drained {
        /// Whose.
        conn: ConnId,
    },
    /// The connection is over. Nothing of it comes after this.
    Closed {
        /// Whose.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    /// The peer's doing.
    #[error(transparent)]
    Read(ReadEnd),
    /// It did not read, and its output queue reached the hard cap.
    #[error("the peer does not read and {queued} bytes wait for it")]
    Overflow {
        /// Bytes in its queue then.
        queued: usize,
    },
    /// [`ConnHandle::close`] or [`ConnHandle::finish`].
    #[error("closed by this side")]
    ClosedHere,
}

/// The share that messages not yet handled take: of [`INBOX_BYTES_MAX`], and of the two reads that one connection may have waiting. Drop it
/// when they are handled.
#[derive(Debug)]
#[allow(dead_code, reason = "held to be dropped")]
pub struct Credit {
    pub(super) own: OwnedSemaphorePermit,
    pub(super) all: OwnedSemaphorePermit,
}
