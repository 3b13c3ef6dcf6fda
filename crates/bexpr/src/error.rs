//! What can be wrong with a filter: its text ([`ParseError`]), or what it asks of a subject ([`EvalError`]).
//!
//! Two parts of these texts are read by clients, which offer corrections from them, and stay as they are: `failed to read filter
//! expression` and `couldn't find key: struct field with name "X"`.

use std::fmt;

use crate::value::Kind;

/// A text that is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to read filter expression: {line}:{column} ({offset}): {problem}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Offset in bytes, from 0.
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Something else was expected.
    Expected {
        /// Any of these.
        expected: Vec<&'static str>,
        /// The character met, or the end.
        met: Option<char>,
    },
    /// A string without its closing quote.
    Unterminated(char),
    /// An escape that a double-quoted string does not have.
    Escape,
    /// Both names of a collection are the same.
    SameName(Box<str>),
    /// More text than a filter may have.
    Long {
        /// Bytes met.
        met: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Nested deeper than a filter may be.
    Deep {
        /// Levels allowed.
        max: usize,
    },
    /// More steps of the parser than a filter may take.
    Steps {
        /// Steps allowed.
        max: usize,
    },
    /// More regexes than a filter may have.
    Regexes {
        /// Regexes allowed.
        max: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { expected, met } => {
                f.write_str("no match found, expected: ")?;
                for (n, what) in expected.iter().enumerate() {
                    let before = match n {
                        0 => "",
                        n if n + 1 == expected.len() => " or ",
                        _ => ", ",
                    };
                    write!(f, "{before}{what}")?;
                }
                match met {
                    Some('-') => f.write_str(", met '-': a value with a hyphen needs quotes"),
                    Some('\'') => f.write_str(", met '\\'': strings are written in \" \" or ` `"),
                    Some(met) => write!(f, ", met {met:?}"),
                    None => f.write_str(", met the end"),
                }
            }
            Self::Unterminated(quote) => write!(f, "a string has no closing {quote}"),
            Self::Escape => f.write_str(
                "a double-quoted string has an invalid escape: write a regex in ` ` instead",
            ),
            Self::SameName(name) => write!(f, "{name:?} cannot be the name of both"),
            Self::Long { met, max } => {
                write!(f, "the filter has {met} bytes, at most {max} are read")
            }
            Self::Deep { max } => write!(f, "nested more than {max} levels deep"),
            Self::Steps { max } => write!(f, "takes more than {max} steps to read"),
            Self::Regexes { max } => write!(f, "more than {max} regexes"),
        }
    }
}

/// A question that cannot be answered about this subject.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A struct has no such field.
    #[error(
        "error finding value in datum: {pointer} at part {part}: couldn't find key: struct field with name {name:?}"
    )]
    NoField {
        /// The whole way.
        pointer: String,
        /// Which part of it.
        part: usize,
        /// The name.
        name: Box<str>,
    },
    /// A list has no such element.
    #[error(
        "error finding value in datum: {pointer} at part {part}: index {index:?} is out of range (length = {length})"
    )]
    NoElement {
        /// The whole way.
        pointer: String,
        /// Which part of it.
        part: usize,
        /// The index as it was written.
        index: Box<str>,
        /// How many there are.
        length: usize,
    },
    /// The way goes on below something that has no parts.
    #[error("error finding value in datum: {pointer} at part {part}: {kind} has no parts")]
    NoParts {
        /// The whole way.
        pointer: String,
        /// Which part of it.
        part: usize,
        /// What is there.
        kind: Kind,
    },
    /// The value it is compared with is none of its type.
    #[error("{pointer}: expected {kind}, got {text:?}")]
    Value {
        /// What is compared.
        pointer: String,
        /// What it is.
        kind: Kind,
        /// What it is compared with.
        text: Box<str>,
    },
    /// The operator does not go with what is compared.
    #[error("{pointer}: {operator:?} cannot be asked of {kind}")]
    Operator {
        /// What is compared.
        pointer: String,
        /// The operator.
        operator: &'static str,
        /// What is compared is this.
        kind: Kind,
    },
    /// A regex that is none.
    #[error("{pointer}: {pattern:?} is no regular expression: {why}")]
    Regex {
        /// What is compared.
        pointer: String,
        /// The pattern.
        pattern: Box<str>,
        /// One line on what is wrong.
        why: Box<str>,
    },
    /// Collections in collections: too many steps.
    #[error("the filter takes more than {max} steps for one object")]
    Steps {
        /// Steps allowed.
        max: usize,
    },
}
