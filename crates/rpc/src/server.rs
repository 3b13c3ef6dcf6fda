//! The server's end: a [`Listener`], and for each connection a reader and a writer task, all of which tell one bounded
//! queue what came in.
//!
//! The receiver of that queue is the broker: it gets [`Inbound`]s in order and answers through [`ConnHandle`]s. Dropping
//! the [`Server`] ends accepting and removes the socket; connections end when the receiver is dropped.

mod accept;
mod conn;
mod inbound;
mod listen;
mod partial;

pub use accept::{Server, ServerConfig, Verdict, random_uuid, serve};
pub use conn::ConnHandle;
pub use inbound::{
    CloseReason, ConnId, Credit, FIRST_CONN_ID, INBOX_BYTES_MAX, INBOX_CHUNKS_MAX, Inbound,
};
pub use listen::{BindError, Listener};
pub(crate) use partial::PartialShare;
pub use partial::{PARTIAL_BYTES_MAX, PARTIAL_BYTES_OTHERS_MAX, PartialLimits};
