//! What a job is: ids, events, the one transition function, and the formats around it.
//!
//! Everything here is a plain value. Clock readings, ids and bytes come in as arguments; nothing is
//! read, slept for or drawn. The parts:
//!
//! ```text
//! id seq time priority state     the small types every other crate speaks in
//! event                          what happened to a job, typed; JSON in and out
//! transition                     apply(&mut Job, &Event): the only place where a job changes
//! entry                          an event with its place among all events; its JSON made once
//! eventlog                       RFC 18 text, one event a line
//! jobspec r idset hostlist fsd   the formats a job's request and resources are written in
//! allocs                         what becomes of a job on each of its nodes
//! resources                      the nodes themselves, from the resource log
//! annotations waitstatus         merging of annotations; what a wait status says
//! ```
//!
//! Left to others: which events to post (`manager`), where entries are kept (`store`, `journal`),
//! how jobs are listed (`info`). The specification is `rfc/2_job.md`; its examples are test inputs.

pub mod allocs;
pub mod annotations;
pub mod entry;
pub mod event;
pub mod eventlog;
pub mod fsd;
pub mod hostlist;
pub mod id;
pub mod idset;
pub mod job;
pub mod jobspec;
mod json;
pub mod priority;
pub mod r;
pub mod resources;
pub mod seq;
pub mod state;
pub mod time;
pub mod transition;
pub mod waitstatus;

pub use allocs::{AllocView, Allocs};
pub use entry::{Attach, Entry, EntryError, Source};
pub use event::{AllocReport, AllocStatus, Event, EventError, EventKind, EventName};
pub use fsd::{Fsd, FsdError};
pub use hostlist::{Hostlist, HostlistError};
pub use id::{IdError, IdGen, JobId};
pub use idset::{Idset, IdsetError};
pub use job::{Dependencies, Exception, Job, JobFields};
pub use jobspec::{Jobspec, JobspecError};
pub use priority::{Priority, Urgency, UrgencyError};
pub use r::{R, RError};
pub use resources::{ResourceEvent, Resources};
pub use seq::Seq;
pub use state::{JobFlags, JobResult, ResultSet, State, StateSet, UnknownName};
pub use time::{MaybeTimestamp, Timestamp};
pub use transition::{Change, Changed, Invalid, Refused};
pub use waitstatus::WaitStatus;

/// A JSON object, its keys in the order they were written.
pub type Map = serde_json::Map<String, serde_json::Value>;
