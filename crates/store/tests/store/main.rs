//! What the store promises, checked through its public door only. One test binary; each file is one promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod crash;
mod creation;
mod damage;
mod durable;
mod ended;
mod full;
mod model;
mod open;
mod scans;
mod shrink;
mod spec;
mod world;
