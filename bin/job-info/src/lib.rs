//! job-info: the process behind `job-list` and `job-info`.
//!
//! ```text
//!             one connection: journal, requests, look-ups          own socket: the same methods,
//!   broker ◄────────────────────────────────────────► service ◄──► also while the broker is away
//!                        jobs/<id>/*.eventlog ──inotify──► │
//!                                                     core (Info)
//!                  ┌──────────────┬───────────────┬────────┴──────┬──────────────┐
//!                info::Projection hold          streams         waiters         link
//!                the list         too early     cursors         list-id         reconnect, resume
//!                       ▲
//!                  http::Door ◄── bounded channel ──► http: a thread of its own
//! ```
//! Only a reader: it may be stopped at any moment. It keeps nothing on disk; its list is folded from the journal, and
//! a second one beside it (on standby for the names) is no trouble. Left to others: what is true (`job-manager`), how it is
//! folded, ordered and selected (`info`). What it answers is specified in `rfc/4_listing.md`.

#![forbid(unsafe_code)]

mod clients;
mod core;
mod elsewhere;
mod fetch_queue;
mod files;
mod follow;
mod guest;
mod guest_read;
mod hold;
pub mod http;
mod link;
mod list;
mod lookup;
mod methods;
mod peer;
mod quota;
mod service;
mod share;
mod stats;
mod streams;
mod update;
mod watch;

use std::{future::Future, path::PathBuf, time::Duration};

/// What a job-info is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The broker's socket.
    pub socket: PathBuf,
    /// The instance's state directory: the key, the jobs' files, our own socket.
    pub statedir: PathBuf,
    /// The first pause before another attempt to connect.
    pub reconnect: Duration,
    /// Guests see their own jobs only.
    pub private: bool,
    /// Other users may use our own socket, as guests.
    pub allow_guests: bool,
    /// HTTP, if it is served.
    pub http: Option<http::Options>,
}

/// Serves until `shutdown` is done. Must be called within a tokio runtime.
///
/// # Errors
/// Our own socket cannot be had, or file events cannot be read. A broker that is not there is no error: it is tried again.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    service::serve(config, shutdown).await
}
