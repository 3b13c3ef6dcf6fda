//! sim (test): see below.

#![forbid(unsafe_code)]

pub mod client;
mod connections;
pub mod engine;
mod faults;
pub mod link;
pub mod listener;
pub mod plan;
mod processes;
mod quiet;
pub mod rng;
pub mod run;
#[cfg(feature = "sabotage")]
pub mod sabotage;
mod store;
pub mod trace;
pub mod truth;
mod users;
pub mod violation;
pub mod world;

pub use violation::{Promise, Violation};
pub use world::{Counts, World};
