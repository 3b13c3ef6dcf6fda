//! journal (pure): events in order, and how far each reader is.
//!
//! ```text
//!  durable commits ──push──► Ring ──────────┐            Out::Batch  bytes for a listener, shared by all who stand together
//!                                           ├─► Fanout ─► Out::Need  a read of the store this listener waits for
//!  pages of the store ─page─────────────────┘            Out::End    the stream is over
//!                                  poll(now), flush, set_writable
//! ```
//!
//! A listener is a cursor and a filter, never a queue: [`Fanout::poll`] encodes what is due from the ring, or asks for a page of the
//! store, and the shell sends it. Whoever does not take its output (`set_writable(false)`) costs nothing until it does.
//!
//! ```text
//!  from "all", "active" ─► Backlog ──┐ caught_up at S            Backlog   the store's jobs as they were at seq S, by page
//!  after N ─────────────────────────►├─► CatchUp ─► Live         CatchUp   the store's log, by page, until the ring holds what is next
//!  from "now" ──────────────────────►┘                           Live      the ring: with its group, or behind it for a while
//! ```
//!
//! Invariants:
//! - A listener gets every entry its filter and rights let through, exactly once and in seq order after `caught_up`; a backlog is
//!   exactly what is at or before S, the live part exactly what is after.
//! - Only durable entries are pushed, so only durable entries are seen.
//! - Listeners with one filter and format form a group with one cursor; a batch is encoded once per group and costs each of
//!   its members one clone of a reference.
//! - Everything is bounded by [`Limits`]: ring, batches, pages, the work of one `poll`.
//!
//! Left to others: sockets and high-water marks (`bin/job-manager`), reading the store (`store`, through the shell), the request's JSON
//! (`protocol`). The protocol is told in `rfc/3_journal.md`, whose examples are compared with this code by a test.

mod backlog;
mod counters;
mod encode;
mod fanout;
mod filter;
mod group;
pub mod limits;
mod listener;
mod nodes;
mod payload;
mod refused;
mod ring;
#[cfg(feature = "sabotage")]
pub mod sabotage;
mod steps;

pub use backlog::{Answer, BacklogJob, CURSOR_START, JobsScope, Need, Page, Read};
pub use counters::Counters;
pub use fanout::{Aside, Fanout, Out};
pub use filter::{Filter, Rights};
pub use limits::Limits;
pub use listener::{Format, ListenerId, Spec, Start};
pub use payload::Payload;
pub use refused::Refused;
pub use ring::{Evicted, Ring, Slot};
