//! The event stream of `/v1/event/stream`: what each fold changed, as lines, kept for a while so that a reader can go on where it was.
//!
//! ```text
//!  Events::changed (after every fold) ──▶ line: which jobs and nodes changed, and how they are now ──▶ ring, bounded by count and bytes
//!                                                                                                      │
//!  subscribe(index, topics) ──▶ cursor ──▶ Events::next ──▶ {"Events":[…],"Index":N}\n ◀───────────────┘
//! ```
//! What is kept is a copy of the record, not its JSON: that is written for the first reader whose topics it matches, and kept for the
//! others. A line's index is the newest seq among its events; a reader that has seen N goes on with N (which comes again, as in Nomad) or
//! with N+1 (which does not). An index that cannot be continued exactly is refused with the two ends of what is kept; so is a reader
//! that fell behind, by a last line: nothing is passed over in silence, and nothing is told twice that was not asked for.

mod buffer;
mod event;
mod topics;

pub use buffer::{Cursor, Events, Limits, Next, Start};
pub use event::EVENTS_LINE_MAX;
pub use topics::{Subscription, TOPICS_MAX};

/// A line that says that there is nothing to say; the first of a stream, and one every [`HEARTBEAT_SECONDS`] without another.
pub const HEARTBEAT: &[u8] = b"{}\n";

/// How often. Nomad's are 30 s apart, and python-nomad gives up after 5 s without a byte.
pub const HEARTBEAT_SECONDS: u64 = 4;

#[cfg(test)]
mod tests;
