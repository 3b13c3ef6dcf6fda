//! What happened to a job, typed: one variant per name of RFC 21, each with just its own fields.
//!
//! An event this crate does not know is kept whole ([`EventKind::Other`]). JSON in and out is in
//! `read.rs` and `write.rs`; what an event does to a job is in [`crate::transition`].

mod alloc;
mod name;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use alloc::{
    ALLOC_REASON_BYTES_MAX, ALLOC_REPORTS_MAX, AllocReport, AllocStatus, read_all as read_allocs,
};
pub use name::EventName;
pub(crate) use read::name_of;
pub use read::{EventError, SEVERITY_MAX};

use crate::Map;
use crate::priority::{Priority, Urgency};
use crate::state::JobFlags;
use crate::time::Timestamp;
use std::sync::Arc;

/// One line of an eventlog.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When it happened.
    pub timestamp: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// What happened. Texts are UTF-8 of any content; numbers are within the ranges of their types.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The first event of every job.
    Submit {
        /// Who submitted it.
        userid: u32,
        /// How urgent it is.
        urgency: Urgency,
        /// What it was submitted with.
        flags: JobFlags,
        /// Version of the eventlog, 1.
        version: u32,
    },
    /// The jobspec was accepted.
    Validate,
    /// The submission was refused after all: the job is to be forgotten.
    Invalidate,
    /// Something must happen before the job may go on.
    DependencyAdd {
        /// What, for example `after-finish=ƒabc`.
        description: String,
    },
    /// It happened.
    DependencyRemove {
        /// As it was added.
        description: String,
    },
    /// No dependency is left.
    Depend,
    /// The job has a priority now, or another one.
    Priority {
        /// The new one.
        priority: Priority,
    },
    /// The urgency was changed.
    Urgency {
        /// Who changed it.
        userid: u32,
        /// The new one.
        urgency: Urgency,
    },
    /// Parts of the jobspec were changed.
    JobspecUpdate {
        /// Dotted path (`attributes.system.duration`) → new value.
        updates: Map,
    },
    /// A Flux instance restarted.
    FluxRestart,
    /// The resource set was changed.
    ResourceUpdate {
        /// The new end, seconds since 1970.
        expiration: Timestamp,
    },
    /// The job got its resources.
    Alloc {
        /// What the scheduler says about them.
        annotations: Option<Map>,
    },
    /// Work before the start began: the start waits for it.
    PrologStart {
        /// Which work.
        description: String,
    },
    /// It ended.
    PrologFinish {
        /// Which work.
        description: String,
        /// Its wait status.
        status: i32,
    },
    /// Work after the end began: the resources are held for it.
    EpilogStart {
        /// Which work.
        description: String,
    },
    /// It ended.
    EpilogFinish {
        /// Which work.
        description: String,
        /// Its wait status.
        status: i32,
    },
    /// The job's processes run.
    Start,
    /// Something went wrong; severity 0 ends the job.
    Exception(ExceptionEvent),
    /// The job's processes are over.
    Finish {
        /// Their highest wait status.
        status: i32,
    },
    /// Some of the job's resources are no longer used.
    Release {
        /// Which ranks: an idset, or `all`.
        ranks: String,
        /// Whether they are the last.
        last: bool,
    },
    /// The resources went back to the scheduler.
    Free,
    /// The last event of every job.
    Clean,
    /// The user's own annotations changed.
    Memo {
        /// Merged into what is there; null deletes.
        memo: Map,
    },
    /// The scheduler's annotations changed.
    Annotations {
        /// All of them as they are now; `None` when none is left.
        annotations: Option<Map>,
    },
    /// Flags were set.
    SetFlags {
        /// Their names.
        flags: Vec<String>,
    },
    /// Allocations whose status is not what the job's other events imply.
    AllocStatus {
        /// What holds for which ranks, in the order it was said.
        allocs: Vec<AllocReport>,
    },
    /// An event this crate has no name for, `debug.*` among them.
    Other {
        /// Its name.
        name: Arc<str>,
        /// Its context as it came.
        context: Option<Map>,
    },
}

/// The context of an `exception` event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionEvent {
    /// What kind, for example `cancel`.
    pub kind: String,
    /// 0 ends the job; up to 7.
    pub severity: u8,
    /// For people.
    pub note: String,
    /// Who raised it.
    pub userid: Option<u32>,
    /// A wait status that goes with it.
    pub wait_status: Option<i32>,
}

impl Event {
    /// What happened when.
    #[must_use]
    pub fn new(timestamp: Timestamp, kind: EventKind) -> Event {
        Event { timestamp, kind }
    }

    /// The name of what happened.
    #[must_use]
    pub fn name(&self) -> EventName {
        self.kind.name()
    }
}

impl EventKind {
    /// The name of what happened.
    #[must_use]
    pub fn name(&self) -> EventName {
        match self {
            EventKind::Submit { .. } => EventName::Submit,
            EventKind::Validate => EventName::Validate,
            EventKind::Invalidate => EventName::Invalidate,
            EventKind::DependencyAdd { .. } => EventName::DependencyAdd,
            EventKind::DependencyRemove { .. } => EventName::DependencyRemove,
            EventKind::Depend => EventName::Depend,
            EventKind::Priority { .. } => EventName::Priority,
            EventKind::Urgency { .. } => EventName::Urgency,
            EventKind::JobspecUpdate { .. } => EventName::JobspecUpdate,
            EventKind::FluxRestart => EventName::FluxRestart,
            EventKind::ResourceUpdate { .. } => EventName::ResourceUpdate,
            EventKind::Alloc { .. } => EventName::Alloc,
            EventKind::PrologStart { .. } => EventName::PrologStart,
            EventKind::PrologFinish { .. } => EventName::PrologFinish,
            EventKind::EpilogStart { .. } => EventName::EpilogStart,
            EventKind::EpilogFinish { .. } => EventName::EpilogFinish,
            EventKind::Start => EventName::Start,
            EventKind::Exception(_) => EventName::Exception,
            EventKind::Finish { .. } => EventName::Finish,
            EventKind::Release { .. } => EventName::Release,
            EventKind::Free => EventName::Free,
            EventKind::Clean => EventName::Clean,
            EventKind::Memo { .. } => EventName::Memo,
            EventKind::Annotations { .. } => EventName::Annotations,
            EventKind::SetFlags { .. } => EventName::SetFlags,
            EventKind::AllocStatus { .. } => EventName::AllocStatus,
            EventKind::Other { name, .. } => EventName::Other(Arc::clone(name)),
        }
    }
}
