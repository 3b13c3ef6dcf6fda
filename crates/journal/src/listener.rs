//! One reader: where it stands and what it may still need. No queue, no entries.
//!
//! | phase | stands | next |
//! | --- | --- | --- |
//! | Backlog | in the store's jobs | a page at a time, then `caught_up` |
//! | Greet | accepted at a cursor | `caught_up` |
//! | CatchUp | before what the ring holds | a page of the log at a time |
//! | Behind | inside the ring, its group is ahead | batches of its own, as fast as it takes them |
//! | Joining | ahead of its group | nothing, until the group has come so far |
//! | Live | with its group | the group's batches |
//!
//! Only Backlog and CatchUp wait for the store, one read at a time each.

use std::sync::Arc;

use job::{Seq, Timestamp};

use crate::backlog::Stage;
use crate::filter::Filter;

/// The shell's name for a listener; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub u64);

/// The form of the responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `job-manager.events`: batches over many jobs, with cursors.
    Native,
    /// `job-manager.events-journal`: one job's backlog a response, a sentinel, then one event a response. No logs.
    Flux,
}

/// Where a stream starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the next entry.
    Now,
    /// With the jobs that are active now, then live.
    Active,
    /// With every job there is: inactive ones in the order they became so, then active ones by id, then live.
    All,
    /// After this seq.
    After {
        /// The last seq the reader has.
        seq: Seq,
        /// The epoch it had it from; absent = it is ours.
        epoch: Option<String>,
    },
}

/// What a listener asks for.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The form of the responses.
    pub format: Format,
    /// Which entries, and with which rights.
    pub filter: Filter,
    /// Where to start.
    pub start: Start,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) group: usize,
    pub(crate) writable: bool,
    /// It stands in the queue of those who can go on by themselves.
    pub(crate) queued: bool,
    /// Up to where the client was told that its stream is complete.
    pub(crate) told: Seq,
    pub(crate) told_at: Timestamp,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Backlog {
        at: Seq,
        stage: Stage,
        reading: bool,
    },
    Greet {
        cursor: Seq,
    },
    CatchUp {
        cursor: Seq,
        reading: bool,
    },
    Behind {
        cursor: Seq,
    },
    Joining {
        cursor: Seq,
    },
    Live {
        slot: usize,
    },
}

/// The key of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) format: Format,
    pub(crate) filter: Arc<Filter>,
}
