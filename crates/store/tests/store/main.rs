//! What the store promises, checked through its public door only. One test binary; each file is one promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod absurd;
mod backup;
mod check;
mod crash;
mod creation;
mod damage;
mod durable;
mod ended;
mod full;
mod lives;
mod missing;
mod model;
mod open;
mod power;
mod salvage;
mod scans;
mod shrink;
mod spec;
mod wal;
mod world;
