//! What the journal promises, checked through its public door with a store made of vectors. Each file is one subject.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod batches;
mod cases;
mod flush;
mod flux;
mod model;
mod promises;
mod rights;
mod spec;
mod world;
