//! The commands, one a file; a file's doc comments are its help. [`crate::cli`] says which there are.
//!
//! Each has an `Args` and a `run(args)`; what they share is in the modules beside `cmd`.

pub mod bulksubmit;
pub mod cancel;
pub mod completions;
pub mod dispatch;
pub mod info;
pub mod job;
pub mod jobs;
pub mod journal;
pub mod open;
pub mod ping;
pub mod queue;
pub mod resource;
pub mod run;
pub mod shutdown;
pub mod start;
pub mod stats;
pub mod store;
pub mod submit;
pub mod version;
