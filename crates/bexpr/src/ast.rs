//! A filter as a tree. `and` and `or` hold any number of terms, none of them of their own kind; a double `not` is none.

use std::sync::OnceLock;

use crate::pattern::{self, Pattern};

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// True if all are; evaluated from the left, until one is not.
    And(Vec<Expr>),
    /// True if one is; evaluated from the left, until one is.
    Or(Vec<Expr>),
    /// The opposite.
    Not(Box<Expr>),
    /// One comparison.
    Match(Match),
    /// `any` or `all` elements of a list or map.
    Each(Box<Each>),
}

impl Expr {
    /// The opposite of it.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let own = size_of::<Self>();
        own + match self {
            Self::And(terms) | Self::Or(terms) => terms.iter().map(Self::held_bytes).sum(),
            Self::Not(inner) => inner.held_bytes(),
            Self::Match(test) => {
                let pattern = match test.op {
                    Op::Matches | Op::NotMatches => test.value.pattern().as_ref().ok(),
                    _ => None,
                };
                let pattern = pattern.map_or(0, Pattern::held_bytes);
                test.selector.held_bytes() + test.value.text.len() + pattern
            }
            Self::Each(each) => {
                size_of::<Each>() + each.selector.held_bytes() + each.body.held_bytes()
            }
        }
    }

    /// All of them, which are one or more.
    #[must_use]
    pub(crate) fn all_of(mut terms: Vec<Self>) -> Self {
        if terms.len() == 1 {
            return terms.remove(0);
        }
        let mut flat = Vec::with_capacity(terms.len());
        for term in terms {
            match term {
                Self::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::And(flat)
    }

    /// One of them, which are one or more.
    #[must_use]
    pub(crate) fn one_of(mut terms: Vec<Self>) -> Self {
        if terms.len() == 1 {
            return terms.remove(0);
        }
        let mut flat = Vec::with_capacity(terms.len());
        for term in terms {
            match term {
                Self::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::Or(flat)
    }
}

/// What is selected: a way from the subject down, one name, key or list index after the other. Empty is the subject itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The parts of the way.
    pub parts: Box<[Box<str>]>,
}

impl Selector {
    fn held_bytes(&self) -> usize {
        let parts = self.parts.iter();
        parts.map(|part| size_of::<Box<str>>() + part.len()).sum()
    }

    /// The way as an error shows it: `/Meta/owner`.
    #[must_use]
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for part in &self.parts {
            pointer.push('/');
            pointer.push_str(part);
        }
        pointer
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// What is compared.
    pub selector: Selector,
    /// How.
    pub op: Op,
    /// With what; empty text for an operator that takes none.
    pub value: Literal,
}

/// How a selected value is compared. Each has its negation as an operator of its own, since a key that is not there answers the two
/// differently than `not` would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `in`, or `contains` written the other way round.
    In,
    /// `not in`, `not contains`
    NotIn,
    /// `matches`
    Matches,
    /// `not matches`
    NotMatches,
    /// `is empty`
    Empty,
    /// `is not empty`
    NotEmpty,
    /// `is nil`
    Nil,
    /// `is not nil`
    NotNil,
}

impl Op {
    /// As an error names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::In => "in",
            Self::NotIn => "not in",
            Self::Matches => "matches",
            Self::NotMatches => "not matches",
            Self::Empty => "is empty",
            Self::NotEmpty => "is not empty",
            Self::Nil => "is nil",
            Self::NotNil => "is not nil",
        }
    }

    /// Whether it is the negated form of an operator.
    #[must_use]
    pub fn is_negated(self) -> bool {
        matches!(
            self,
            Self::NotEqual | Self::NotIn | Self::NotMatches | Self::NotEmpty | Self::NotNil
        )
    }
}

/// The text a value is compared with, and the regex it is, once that was needed.
#[derive(Debug, Clone, Default)]
pub struct Literal {
    /// The text.
    pub text: Box<str>,
    pub(crate) regex: OnceLock<Result<Pattern, Box<str>>>,
}

impl Literal {
    /// The regex it is, compiled when it is first needed.
    pub(crate) fn pattern(&self) -> &Result<Pattern, Box<str>> {
        self.regex.get_or_init(|| pattern::compile(&self.text))
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl From<&str> for Literal {
    fn from(text: &str) -> Self {
        Self {
            text: text.into(),
            regex: OnceLock::new(),
        }
    }
}

/// `any` or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quantifier {
    /// One is enough.
    Any,
    /// None may fail.
    All,
}

/// `any SELECTOR as BINDINGS { BODY }`
#[derive(Debug, Clone, PartialEq)]
pub struct Each {
    /// Any or all.
    pub quantifier: Quantifier,
    /// The list or map.
    pub selector: Selector,
    /// What the body calls an element.
    pub bindings: Bindings,
    /// What must hold of an element.
    pub body: Expr,
}

/// What an element of a list or map is called inside the braces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Bindings {
    /// One name: the element of a list, the key of a map.
    One(Box<str>),
    /// Two names: index and element of a list, key and value of a map. `_` is no name.
    Two(Option<Box<str>>, Option<Box<str>>),
}
