//! What the daemons see in the simulator in place of the clock, the sockets and the disk.
//!
//! `sim-manager` and `sim-info` compile the daemons' own sources with this crate under the names `rpc` and `store`. So its names and
//! signatures are those of the two crates it stands for; what they exchange with the store (batches, pages, errors) are the store's own
//! types. Nothing here waits, and nothing happens by itself: the simulator moves bytes, ends commits and runs reads when its plan says so.
//!
//! | here | stands for | modelled |
//! | --- | --- | --- |
//! | [`clock`] | the system's clocks | time stands still between steps; wall time may jump |
//! | [`outbox`] | `rpc`'s connections | the output queue with its water marks, made smaller; no kernel buffer behind it |
//! | [`model`], [`disk`], [`reader`] | `store` | what is committed, the writer's queue and transaction, what a reader finds |
//!
//! Not modelled: SQLite itself (`crates/store` tests it), log rows of several entries, files beside the store.

#![forbid(unsafe_code)]

pub mod clock;
pub mod disk;
pub mod model;
pub mod outbox;
pub mod reader;

/// As `rpc::client`.
pub mod client {
    pub use crate::outbox::{SendError, Sender};
}

pub use disk::{Disk, Rejected, Unwritten, Writer};
pub use outbox::{
    ConnHandle, ConnId, Frame, HARD_CAP, HIGH_WATER, LOW_WATER, Outbox, OutboxLimits, Sent,
};
pub use reader::Reader;
pub use store::{
    Batch, CURSOR_START, Corrupt, Damage, Ended, Event, FLAG_WAITABLE, JobWrite, JobsPage, LogPage,
    ReadError, Recovered, Scope, StoredJob,
};
