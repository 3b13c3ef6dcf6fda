//! A filter as text, in one form for each meaning the parser sees: it reads as the same tree, so it can be a key.
//!
//! Values always stand in double quotes. A selector stands in its dotted form, unless its first part is no name or could be taken for a word
//! of the language: then it is a pointer.

use std::fmt;

use crate::{
    Filter,
    ast::{Bindings, Each, Expr, Match, Op, Quantifier, Selector},
    text,
};

/// Words that mean something at the start of a term, or where an operator or a binding may stand.
const WORDS: [&str; 12] = [
    "not", "any", "all", "in", "is", "contains", "matches", "and", "or", "as", "empty", "nil",
];

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Match(test) => test.fmt(f),
            Self::Each(each) => each.fmt(f),
            Self::Not(inner) => {
                f.write_str("not ")?;
                inner.fmt_within(f, matches!(**inner, Self::Match(_) | Self::Not(_)))
            }
            Self::And(terms) => {
                for (n, term) in terms.iter().enumerate() {
                    f.write_str(if n == 0 { "" } else { " and " })?;
                    term.fmt_within(f, matches!(term, Self::Match(_) | Self::Not(_)))?;
                }
                Ok(())
            }
            Self::Or(terms) => {
                for (n, term) in terms.iter().enumerate() {
                    f.write_str(if n == 0 { "" } else { " or " })?;
                    let last = n + 1 == terms.len();
                    let bare = match term {
                        Self::Match(_) | Self::Not(_) | Self::And(_) => true,
                        Self::Each(_) => last,
                        Self::Or(_) => false,
                    };
                    term.fmt_within(f, bare)?;
                }
                Ok(())
            }
        }
    }
}

impl Expr {
    fn fmt_within(&self, f: &mut fmt::Formatter<'_>, bare: bool) -> fmt::Result {
        if bare {
            write!(f, "{self}")
        } else {
            write!(f, "({self})")
        }
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selector = &self.selector;
        let value = || text::quoted(&self.value.text);
        match self.op {
            Op::In => write!(f, "{} in {selector}", value()),
            Op::NotIn => write!(f, "{} not in {selector}", value()),
            Op::Equal | Op::NotEqual | Op::Matches | Op::NotMatches => {
                write!(f, "{selector} {} {}", self.op.name(), value())
            }
            Op::Empty | Op::NotEmpty | Op::Nil | Op::NotNil => {
                write!(f, "{selector} {}", self.op.name())
            }
        }
    }
}

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.quantifier {
            Quantifier::Any => "any ",
            Quantifier::All => "all ",
        })?;
        write!(f, "{} as ", self.selector)?;
        let name = |name: &Option<Box<str>>| name.as_deref().unwrap_or("_").to_owned();
        match &self.bindings {
            Bindings::One(name) => f.write_str(name)?,
            Bindings::Two(key, value) => write!(f, "{}, {}", name(key), name(value))?,
        }
        write!(f, " {{ {} }}", self.body)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dotted = match &*self.parts {
            [] => false,
            // A word of the language is one only if a space follows.
            [only] => is_name(only) && !WORDS.contains(&&**only),
            [first, ..] => is_name(first),
        };
        if !dotted {
            f.write_str("\"")?;
            for part in &self.parts {
                write!(f, "/{}", part.replace('~', "~0").replace('/', "~1"))?;
            }
            return f.write_str("\"");
        }
        for (n, part) in self.parts.iter().enumerate() {
            if n == 0 {
                f.write_str(part)?;
            } else if is_name(part) || is_index(part) {
                write!(f, ".{part}")?;
            } else {
                write!(f, "[{}]", text::quoted(part))?;
            }
        }
        Ok(())
    }
}

/// Whether it can stand in a selector as it is.
pub(crate) fn is_name(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphabetic())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/'))
}

fn is_index(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}
