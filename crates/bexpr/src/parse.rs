//! Text to tree.
//!
//! ```text
//!  input      = ws? or ws? END
//!  or         = and ( ws "or" ws and )* ( ws "or" ws collection )?  |  collection
//!  and        = not ( ws "and" ws not )*
//!  not        = "not" ws not  |  "(" ws? or ws? ")"  |  match
//!  match      = selector  ( ws? ("==" | "!=") ws? value  |  ws ["not" ws] ("contains" | "matches") ws value
//!                         | ws "is" ws ["not" ws] ("empty" | "nil") )
//!             | value ws ["not" ws] "in" ws selector
//!  collection = ("any" | "all") ws selector ws "as" ws binding ws? "{" ws? or ws? "}"
//!  binding    = name ws? "," ws? ( name | "_" )  |  "_" ws? "," ws? name  |  name
//!  selector   = name ( "." name | "." digits | "[" ws? string ws? "]" )*  |  '"' ( "/" segment )* '"'
//!  value      = selector | number | string
//! ```
//! Choices are ordered: what the first alternative takes, no later one gets. Words are lower case, and need white space around them.
//! Nothing is read twice but a `not` that turns out to be a name, and the left side of an `in`.

use crate::{
    Filter,
    ast::{Bindings, Each, Expr, Literal, Match, Op, Quantifier, Selector},
    error::{ParseError, Problem},
    text,
};

/// Bytes a filter may have.
pub const FILTER_BYTES_MAX: usize = 64 << 10;
/// Levels of parentheses, braces and `not` a filter may have.
pub const DEPTH_MAX: usize = 128;
/// Steps the parser may take.
pub const STEPS_MAX: usize = 2_000_000;
/// Regexes a filter may have.
pub const REGEXES_MAX: usize = 32;
/// Things that may be expected at one place, before the list is cut.
const EXPECTED_MAX: usize = 12;

/// Reads a filter.
///
/// # Errors
/// [`ParseError`], which says where and what was expected there; an empty text is none.
pub fn parse(text: &str) -> Result<Filter, ParseError> {
    let mut parser = Parser {
        text,
        at: 0,
        far: 0,
        expected: Vec::new(),
        steps: 0,
        regexes: 0,
    };
    if text.len() > FILTER_BYTES_MAX {
        let problem = Problem::Long {
            met: text.len(),
            max: FILTER_BYTES_MAX,
        };
        return Err(parser.error(0, problem));
    }
    let read = parser.input();
    read.map(|expr| Filter { expr }).map_err(|stop| match stop {
        Stop::Here(at, problem) => parser.error(at, problem),
        Stop::Other => {
            let problem = Problem::Expected {
                expected: std::mem::take(&mut parser.expected),
                met: text[parser.far..].chars().next(),
            };
            parser.error(parser.far, problem)
        }
    })
}

/// Why an alternative was not taken.
enum Stop {
    /// Another one may fit.
    Other,
    /// None will: this is the error.
    Here(usize, Problem),
}

type Read<T> = Result<T, Stop>;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// The furthest place where something was expected, and what.
    far: usize,
    expected: Vec<&'static str>,
    steps: usize,
    regexes: usize,
}

impl<'t> Parser<'t> {
    fn error(&self, offset: usize, problem: Problem) -> ParseError {
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        ParseError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            offset,
            problem,
        }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn expect(&mut self, what: &'static str) -> Stop {
        if self.at > self.far {
            self.far = self.at;
            self.expected.clear();
        }
        let new = !self.expected.contains(&what) && self.expected.len() < EXPECTED_MAX;
        if self.at == self.far && new {
            self.expected.push(what);
        }
        Stop::Other
    }

    fn step(&mut self) -> Read<()> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            let problem = Problem::Steps { max: STEPS_MAX };
            return Err(Stop::Here(self.at, problem));
        }
        Ok(())
    }

    /// Takes what `read` reads, or nothing.
    fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        let start = self.at;
        match read(self) {
            Ok(met) => Ok(Some(met)),
            Err(Stop::Other) => {
                self.at = start;
                Ok(None)
            }
            Err(here) => Err(here),
        }
    }

    fn token(&mut self, token: &str, what: &'static str) -> Read<()> {
        self.step()?;
        if self.rest().starts_with(token) {
            self.at += token.len();
            return Ok(());
        }
        Err(self.expect(what))
    }

    /// White space that may be there.
    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    /// White space that must be there.
    fn spaces(&mut self) -> Read<()> {
        self.step()?;
        let start = self.at;
        self.space();
        if self.at == start {
            return Err(self.expect("white space"));
        }
        Ok(())
    }

    /// A word with white space before it, and after it.
    fn word(&mut self, word: &str, what: &'static str) -> Read<()> {
        self.spaces()?;
        self.token(word, what)?;
        self.spaces()
    }

    fn input(&mut self) -> Read<Expr> {
        self.space();
        let expr = self.or(0)?;
        self.space();
        if self.rest().is_empty() {
            Ok(expr)
        } else {
            Err(self.expect("the end"))
        }
    }

    fn or(&mut self, depth: usize) -> Read<Expr> {
        if depth > DEPTH_MAX {
            let problem = Problem::Deep { max: DEPTH_MAX };
            return Err(Stop::Here(self.at, problem));
        }
        let mut terms = Vec::new();
        loop {
            // What follows an `or` must be there, or the `or` was none.
            let before = self.at;
            if !terms.is_empty() && self.maybe(|p| p.word("or", "\"or\""))?.is_none() {
                break;
            }
            if let Some(term) = self.maybe(|p| p.and(depth))? {
                terms.push(term);
            } else if let Some(each) = self.maybe(|p| p.collection(depth))? {
                // Nothing may stand to the right of its braces.
                terms.push(Expr::Each(Box::new(each)));
                break;
            } else if terms.is_empty() {
                return Err(Stop::Other);
            } else {
                self.at = before;
                break;
            }
        }
        Ok(Expr::one_of(terms))
    }

    fn and(&mut self, depth: usize) -> Read<Expr> {
        let mut terms = vec![self.not(depth)?];
        while let Some(term) = self.maybe(|p| {
            p.word("and", "\"and\"")?;
            p.not(depth)
        })? {
            terms.push(term);
        }
        Ok(Expr::all_of(terms))
    }

    fn not(&mut self, depth: usize) -> Read<Expr> {
        if depth > DEPTH_MAX {
            let problem = Problem::Deep { max: DEPTH_MAX };
            return Err(Stop::Here(self.at, problem));
        }
        let negated = self.maybe(|p| {
            p.token("not", "\"not\"")?;
            p.spaces()?;
            p.not(depth + 1)
        })?;
        if let Some(term) = negated {
            return Ok(term.negated());
        }
        if self.rest().starts_with('(') {
            self.at += 1;
            self.space();
            let inner = self.or(depth + 1)?;
            self.space();
            self.token(")", "\")\"")?;
            return Ok(inner);
        }
        self.expect("\"(\"");
        self.comparison()
    }

    fn comparison(&mut self) -> Read<Expr> {
        if let Some(test) = self.maybe(Self::selected_first)? {
            return Ok(Expr::Match(test));
        }
        let value = self.value()?;
        self.spaces()?;
        let negated = self.negation()?;
        self.token("in", "\"in\"")?;
        self.spaces()?;
        let selector = self.selector()?;
        Ok(Expr::Match(Match {
            selector,
            op: if negated { Op::NotIn } else { Op::In },
            value,
        }))
    }

    /// `"not" ws`, if it is there.
    fn negation(&mut self) -> Read<bool> {
        let met = self.maybe(|p| {
            p.token("not", "\"not\"")?;
            p.spaces()
        })?;
        Ok(met.is_some())
    }

    fn selected_first(&mut self) -> Read<Match> {
        let selector = self.selector()?;
        let op = match self.maybe(Self::symbol)? {
            Some(op) => op,
            None => self.operator()?,
        };
        let value = match op {
            Op::Empty | Op::NotEmpty | Op::Nil | Op::NotNil => Literal::default(),
            _ => self.value()?,
        };
        if matches!(op, Op::Matches | Op::NotMatches) {
            self.regexes += 1;
            if self.regexes > REGEXES_MAX {
                let problem = Problem::Regexes { max: REGEXES_MAX };
                return Err(Stop::Here(self.at, problem));
            }
        }
        Ok(Match {
            selector,
            op,
            value,
        })
    }

    fn symbol(&mut self) -> Read<Op> {
        self.space();
        let op = if self.maybe(|p| p.token("==", "\"==\""))?.is_some() {
            Op::Equal
        } else {
            self.token("!=", "\"!=\"")?;
            Op::NotEqual
        };
        self.space();
        Ok(op)
    }

    /// An operator that is a word, with the white space around it.
    fn operator(&mut self) -> Read<Op> {
        self.spaces()?;
        if self.maybe(|p| p.token("is", "\"is\""))?.is_some() {
            self.spaces()?;
            let negated = self.negation()?;
            let empty = self.maybe(|p| p.token("empty", "\"empty\""))?.is_some();
            if !empty {
                self.token("nil", "\"nil\"")?;
            }
            return Ok(match (empty, negated) {
                (true, false) => Op::Empty,
                (true, true) => Op::NotEmpty,
                (false, false) => Op::Nil,
                (false, true) => Op::NotNil,
            });
        }
        let negated = self.negation()?;
        let contains = self
            .maybe(|p| p.token("contains", "\"contains\""))?
            .is_some();
        if !contains {
            self.token("matches", "\"matches\"")?;
        }
        self.spaces()?;
        Ok(match (contains, negated) {
            (true, false) => Op::In,
            (true, true) => Op::NotIn,
            (false, false) => Op::Matches,
            (false, true) => Op::NotMatches,
        })
    }

    fn collection(&mut self, depth: usize) -> Read<Each> {
        let quantifier = if self.maybe(|p| p.token("any", "\"any\""))?.is_some() {
            Quantifier::Any
        } else {
            self.token("all", "\"all\"")?;
            Quantifier::All
        };
        self.spaces()?;
        let selector = self.selector()?;
        self.word("as", "\"as\"")?;
        let bindings = self.bindings()?;
        self.space();
        self.token("{", "\"{\"")?;
        self.space();
        let body = self.or(depth + 1)?;
        self.space();
        self.token("}", "\"}\"")?;
        Ok(Each {
            quantifier,
            selector,
            bindings,
            body,
        })
    }

    fn bindings(&mut self) -> Read<Bindings> {
        let start = self.at;
        let first = self.name_or_blank()?;
        let second = self.maybe(|p| {
            p.space();
            p.token(",", "\",\"")?;
            p.space();
            p.name_or_blank()
        })?;
        match (first, second) {
            (Some(name), None) => Ok(Bindings::One(name)),
            (None, None | Some(None)) => {
                self.at = start;
                Err(self.expect("a name"))
            }
            (Some(key), Some(Some(value))) if key == value => {
                Err(Stop::Here(start, Problem::SameName(key)))
            }
            (key, Some(value)) => Ok(Bindings::Two(key, value)),
        }
    }

    fn name_or_blank(&mut self) -> Read<Option<Box<str>>> {
        if self.rest().starts_with('_') {
            self.at += 1;
            return Ok(None);
        }
        Ok(Some(self.name()?.into()))
    }

    fn name(&mut self) -> Read<&'t str> {
        self.step()?;
        let rest = self.rest();
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(self.expect("a name"));
        }
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '/')))
            .unwrap_or(rest.len());
        self.at += end;
        Ok(&rest[..end])
    }

    fn selector(&mut self) -> Read<Selector> {
        let mut parts: Vec<Box<str>> = Vec::new();
        if let Some(pointer) = self.maybe(Self::pointer)? {
            return Ok(pointer);
        }
        parts.push(self.name()?.into());
        while let Some(part) = self.maybe(Self::part)? {
            parts.push(part);
        }
        Ok(Selector {
            parts: parts.into(),
        })
    }

    fn part(&mut self) -> Read<Box<str>> {
        if self.maybe(|p| p.token("[", "\"[\""))?.is_some() {
            self.space();
            let key = self.string()?;
            self.space();
            self.token("]", "\"]\"")?;
            return Ok(key.into());
        }
        self.token(".", "\".\"")?;
        let rest = self.rest();
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        if digits > 0 {
            self.at += digits;
            return Ok(rest[..digits].into());
        }
        Ok(self.name()?.into())
    }

    /// `"/Meta/owner"`: a way as a pointer, in double quotes.
    fn pointer(&mut self) -> Read<Selector> {
        self.step()?;
        let inner = self.rest().strip_prefix('"').ok_or(Stop::Other)?;
        let end = inner.find('"').ok_or(Stop::Other)?;
        let inner = &inner[..end];
        let mut parts: Vec<Box<str>> = Vec::new();
        let mut segments = inner.split('/');
        if !segments.next().is_some_and(str::is_empty) {
            return Err(Stop::Other);
        }
        for segment in segments {
            let fits =
                |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | ':' | '|');
            if segment.is_empty() || !segment.chars().all(fits) {
                return Err(Stop::Other);
            }
            parts.push(segment.replace("~1", "/").replace("~0", "~").into());
        }
        self.at += end + 2;
        Ok(Selector {
            parts: parts.into(),
        })
    }

    fn value(&mut self) -> Read<Literal> {
        let start = self.at;
        let quoted = self.rest().starts_with('"');
        if let Some(selector) = self.maybe(Self::selector)? {
            // A bare word is a value, too; a pointer counts without its first slash.
            let parts = &selector.parts;
            let text = if quoted {
                parts.join("/")
            } else {
                parts.join(".")
            };
            return Ok(Literal::from(&*text));
        }
        if let Some(()) = self.maybe(Self::number)? {
            return Ok(Literal::from(&self.text[start..self.at]));
        }
        self.string().map(|text| Literal::from(&*text))
    }

    fn number(&mut self) -> Read<()> {
        let rest = self.rest();
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let sign = usize::from(rest.starts_with('-'));
        let whole = digits(&rest[sign..]);
        let leading_zero = whole > 1 && rest[sign..].starts_with('0');
        if whole == 0 || leading_zero {
            return Err(self.expect("a number"));
        }
        let mut end = sign + whole;
        if let Some(fraction) = rest[end..].strip_prefix('.').map(digits)
            && fraction > 0
        {
            end += 1 + fraction;
        }
        self.at += end;
        match self.rest().chars().next() {
            None | Some(' ' | '\t' | '\r' | '\n' | ')' | '}') => Ok(()),
            Some(_) => Err(self.expect("the end of a number")),
        }
    }

    fn string(&mut self) -> Read<String> {
        self.step()?;
        let start = self.at;
        let quote = match self.rest().chars().next() {
            Some(quote @ ('"' | '`')) => quote,
            _ => return Err(self.expect("a string")),
        };
        let inner = &self.text[start + 1..];
        let Some(end) = inner.find(quote) else {
            return Err(Stop::Here(start, Problem::Unterminated(quote)));
        };
        self.at = start + end + 2;
        if quote == '`' {
            return Ok(inner[..end].to_owned());
        }
        text::unquote(&inner[..end]).ok_or(Stop::Here(start, Problem::Escape))
    }
}
