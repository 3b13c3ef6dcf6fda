//! The filter language that clients of Nomad's HTTP interface send: `Status == running and Name matches "(?i)shop"`.
//!
//! ```text
//!  text ── parse ──▶ Filter ── eval(&Subject) ──▶ true | false | EvalError
//!                      └────── required("Status") ──▶ the values that a match must have, for a caller with an index
//! ```
//! What is looked at is a [`Subject`], which hands out one [`Value`] for each name it is asked for: nothing is built that the filter
//! does not name. The fields of a struct are a closed set, an unknown one is an error; a map is open, a key that is not there is not.
//!
//! Invariants: a text is read in time proportional to its length ([`FILTER_BYTES_MAX`], [`STEPS_MAX`], [`DEPTH_MAX`]); an evaluation takes a
//! bounded number of steps ([`EVAL_STEPS_MAX`]); a regex is compiled once, when it is first needed, and runs in linear time; a filter's
//! text ([`std::fmt::Display`]) reads as the same filter.
//!
//! What it leaves to others: what the fields are called, which of them can be found by an index, and which status an error is answered
//! with.

#![forbid(unsafe_code)]

mod ast;
mod error;
mod eval;
mod parse;
mod pattern;
mod print;
mod required;
mod text;
mod value;

pub use ast::{Bindings, Each, Expr, Literal, Match, Op, Quantifier, Selector};
pub use error::{EvalError, ParseError};
pub use eval::EVAL_STEPS_MAX;
pub use parse::{DEPTH_MAX, FILTER_BYTES_MAX, REGEXES_MAX, STEPS_MAX, parse};
pub use pattern::PATTERN_MEMORY_MAX;
pub use value::{Kind, Subject, Value};

/// A filter, read and ready to be evaluated any number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    pub(crate) expr: Expr,
}

impl Filter {
    /// Its expression.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Bytes it holds, about: its regexes, which are compiled for that, have the most.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.expr.held_bytes()
    }
}

#[cfg(test)]
mod tests;
