//! Flux's message encoding (RFC 3 as the running broker speaks it) and the framing of the local socket.
//!
//! Bytes come in, [`Message`]s go out, and back; nothing here reads, writes or waits. What a message *means* is left to
//! `router` (who gets it) and `protocol` (what a payload says).
//!
//! ```text
//! bytes -> frame (magic, length, cap) -> parts (route hops, delimiter, topic, payload, header) -> Message
//! ```
//!
//! Invariants:
//! - A [`Message`] always encodes, and decoding what was encoded gives the same message.
//! - Nothing is allocated on the word of a peer: a length is checked against the cap and against what is there first.
//! - A wrong mix of parts (a request without a topic, a control message with a payload) is a [`WireError`], never a message.
//! - Decoded topics, hops and payloads are slices of the frame they came in: cheap to pass on, but whoever keeps one for
//!   long keeps the read buffer alive and should copy it.

mod cred;
pub mod errno;
mod error;
mod frame;
mod header;
mod message;
mod part;
mod payload;
mod route;
mod topic;

pub use cred::{Cred, ROLE_ADMIN, ROLE_LOCAL, ROLE_OWNER, ROLE_USER, USERID_UNKNOWN};
pub use error::WireError;
pub use frame::{
    Decoder, FRAME_HEADER_LEN, FRAME_LEN_MAX_DEFAULT, FRAME_LEN_MIN, FRAME_MAGIC, announced_len,
    decode, encode, encoded_len, to_frame,
};
pub use header::Flags;
pub use message::{
    Control, Event, MATCHTAG_NONE, Message, NODEID_ANY, NODEID_UPSTREAM, Request, Response,
    no_service_text, unknown_method_text,
};
pub use payload::{
    PayloadError, json_bytes, json_payload, nul_terminated, parse_json, text_of, text_payload,
};
pub use route::{ROUTE_HOPS_MAX, Routes, pop_hop, push_hop};
pub use topic::{Topic, TopicError};
