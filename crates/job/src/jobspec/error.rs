//! What can be wrong with a jobspec, and the path to where it is wrong.
//!
//! A [`Path`] is a chain on the stack: nothing is allocated for it unless there is an error to write.

use crate::json::clip;
use serde_json::Value;
use std::fmt;

/// Bytes that are no jobspec version 1.
#[derive(Debug, thiserror::Error)]
pub enum JobspecError {
    /// Not JSON, or nested too deep.
    #[error("invalid JSON: {0}")]
    Json(serde_json::Error),
    /// More bytes than a jobspec may have.
    #[error("jobspec is too large: {met} bytes, expected at most {max}")]
    TooLarge {
        /// How many there are.
        met: usize,
        /// How many there may be.
        max: usize,
    },
    /// A field is missing.
    #[error("{path}: expected {expected}, but it is missing")]
    Missing {
        /// Where.
        path: String,
        /// What should be there.
        expected: &'static str,
    },
    /// A field is not what it should be.
    #[error("{path}: expected {expected}, got {met}")]
    Field {
        /// Where.
        path: String,
        /// What should be there.
        expected: &'static str,
        /// What is there, shortened.
        met: String,
    },
    /// More is asked for than can be counted.
    #[error("resources: {met} {what} asked for: expected at most {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        met: u128,
        /// How many there may be.
        max: u64,
    },
}

/// Where a value is.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(&clip(key)),
            Path::Key(parent, key) => write!(f, "{parent}.{}", clip(key)),
            Path::Index(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

impl Path<'_> {
    pub(super) fn text(&self) -> String {
        match self {
            Path::Root => "jobspec".to_owned(),
            other => other.to_string(),
        }
    }
}

/// A value as an error message shows it.
pub(super) enum Found<'a> {
    Plain(String),
    Text(&'a str),
    Array(usize),
    Object,
}

impl<'a> Found<'a> {
    pub(super) fn of_value(value: &'a Value) -> Found<'static> {
        match value {
            Value::Array(all) => Found::Array(all.len()),
            Value::Object(_) => Found::Object,
            other => Found::Plain(clip(&other.to_string())),
        }
    }
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Plain(text) => f.write_str(text),
            Found::Text(text) => write!(f, "{:?}", clip(text)),
            Found::Array(0) => f.write_str("an empty array"),
            Found::Array(count) => write!(f, "an array of {count}"),
            Found::Object => f.write_str("an object"),
        }
    }
}
