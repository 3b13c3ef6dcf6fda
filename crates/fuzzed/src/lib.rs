//! What the fuzzers check (test): one function of bytes a target, which panics when a promise of a parser does not hold.
//!
//! ```text
//!  fuzz/fuzz_targets/NAME.rs ──┐                    libFuzzer makes the bytes: `make fuzz MINUTES=10`
//!                              ├──▶ NAME::check(&[u8])
//!  tests/replay.rs ────────────┘                    the bytes are those of fuzz/corpus/NAME, and random ones: `make check`
//! ```
//! A check never stops at "it did not panic": what was read is written and read again, two ways to the same answer are compared,
//! and what a small input may lead to is bounded. No target keeps anything between two calls.

#![forbid(unsafe_code)]

pub mod constraint;
pub mod eventlog;
pub mod filter;
pub mod formats;
pub mod frame;
mod instance;
pub mod jobspec;
pub mod query;
pub mod rpc_payload;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of its program in `fuzz/fuzz_targets` and of its corpus in `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if something is wrong with what these bytes lead to.
    pub check: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 8] = [
    Target {
        name: "frame",
        check: frame::check,
    },
    Target {
        name: "rpc_payload",
        check: rpc_payload::check,
    },
    Target {
        name: "jobspec",
        check: jobspec::check,
    },
    Target {
        name: "eventlog",
        check: eventlog::check,
    },
    Target {
        name: "constraint",
        check: constraint::check,
    },
    Target {
        name: "query",
        check: query::check,
    },
    Target {
        name: "filter",
        check: filter::check,
    },
    Target {
        name: "formats",
        check: formats::check,
    },
];
