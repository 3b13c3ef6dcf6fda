//! The daemon in a state directory of its own, in this process, talked to over its socket.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounds;
mod damaged;
mod disk;
mod engine;
mod engines;
mod events;
mod fair;
mod faults;
mod guests;
mod hostile;
mod keys;
mod lookups;
mod missing;
mod nodes;
mod open;
mod own_writes;
mod peer;
mod promises;
mod purge;
mod recovery;
mod restart;
mod services;
mod shutdown;
mod slow_readers;
mod spine;
mod streams;
mod world;
