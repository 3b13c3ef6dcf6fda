//! What HTTP shows of the listing: bodies put together from fragments, and who is woken by which change.
//!
//! ```text
//!  request ─► Ask ─► Views::ask ──► Some(reply): now          Views::take_ready ─► (token, reply)…
//!                        │     └──► None: waits under a token        ▲
//!                        ▼                                           │
//!   View: one distinct query (page of statuses, or a body) ◄─── Views::changed(what one fold changed)
//!     page: members, how far it was looked ◄── by_modify        change log: what a query that nobody
//!     body: shared by all who get it       ◄── row fragments    held meanwhile is answered from
//! ```
//! Pure: no clock, no files, no sockets. The shell (job-info's loop) calls `ask`, `cancel`, `expire`, tells of every fold with
//! `changed`, and carries away what `take_ready` gives; connections, tokens and timers are the shell's. What is shown is
//! `rfc/9_http.md`.
//!
//! Invariants: a body is a whole state at its index, and the index never goes back while the journal's epoch stays. A waiter is woken by
//! the first change after its index that changes its body or may have changed which jobs are on its page, and by nothing else.
//! Work for a change is per distinct query, never per waiter; waiters of one query share one body.

#![forbid(unsafe_code)]

pub mod answer;
pub mod ask;
pub mod bodies;
pub mod facts;
pub mod filter;
pub mod names;
pub mod statuses;
pub mod stream;
pub mod watch;

pub use answer::{Answer, Body, HttpError, Kind, Reply};
pub use ask::{Ask, Viewer, What};
pub use statuses::StatusesAsk;
pub use watch::{Limits, Views};

#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests;
