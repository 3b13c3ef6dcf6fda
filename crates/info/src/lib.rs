//! The core of job-info: folds the journal into a table of jobs, keeps it in order, answers queries.
//!
//! ```text
//!  journal ──► projection ──► jobs: records in a slab          constraint (JSON) ──► plan ──► query ──► ids
//!              (fold,          ├─ order × 3  (rank)                                    │
//!               aside,         ├─ index      (user, queue, name, state, result, node) ◄┘
//!               swap)          └─ counts                       ids ──► row (attributes) when it is sent
//! ```
//! Pure: no clock, no files, no sockets. Who asks, who may ask and when to answer is the daemon's matter; the one
//! transition function is `job`'s. The specification of what is answered is `rfc/4_listing.md`.

#![forbid(unsafe_code)]

pub mod allocs;
pub mod aside;
mod batch;
pub mod changes;
pub mod children;
pub mod clients;
pub mod constraint;
mod continuity;
pub mod counts;
pub mod derive;
mod fold_error;
pub mod index;
pub mod jobs;
pub mod nodes;
pub mod order;
pub mod place;
pub mod plan;
pub mod projection;
pub mod query;
pub mod record;
pub mod row;
pub mod slots;
mod specs;
mod step;
pub mod waiters;

#[cfg(test)]
mod tests;

pub use allocs::{Alloc, Allocs};
pub use aside::{SetAside, Why};
pub use changes::{CHANGES_MAX, Changes, JobChange, What};
pub use children::Children;
pub use clients::ClientStatus;
pub use constraint::{Constraint, ConstraintError};
pub use jobs::Jobs;
pub use nodes::{Node, NodeIx, Nodes};
pub use place::{Group, IdKey, ModifyKey};
pub use projection::{FoldCounters, FoldError, Folded, Form, Projection, Seen};
pub use query::{Query, QueryError};
pub use record::{Dispatch, Kind, Record, Status};
pub use row::{Attr, Attrs, UnknownAttr};
pub use waiters::{Waiters, WaitsFull};
