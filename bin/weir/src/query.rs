//! What stands after `weir jobs -f`: a list of states and results as Flux takes it, or an RFC 35 expression; made into an
//! RFC 31 constraint for job-list.
//!
//! ```text
//! expr  = and { ("or" | "|" | "||") and }
//! and   = unary { ["and" | "&" | "&&"] unary }
//! unary = ("not" | "-") unary | "(" expr ")" | term
//! term  = OPERATOR ":" value { "," value } | word { "," word }      words are states and results
//! ```
//! A value or word may stand in quotes. Names and queues are compared whole: RFC 35 leaves that to the operator, job-list has no patterns,
//! and `*` or `?` outside quotes is refused rather than found nowhere. Operators: `name queue user states results host rank parent` and `t_submit` … `t_inactive`
//! with a comparison such as `t_run:>-1h`. The text is bounded, so is the depth of brackets.

use crate::failure::usage;
use crate::{ids, users, when};
use job::{JobResult, StateSet};
use serde_json::{Value, json};

/// Longest expression taken.
const QUERY_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting taken.
const DEPTH_MAX: usize = 64;

/// A filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The constraint to send.
    pub constraint: Value,
}

/// Reads a filter; `now` is what relative times count from, in seconds since 1970.
///
/// # Errors
/// What was met and what was expected, with its place.
pub fn parse(text: &str, now: f64) -> anyhow::Result<Filter> {
    if text.len() > QUERY_BYTES_MAX {
        return Err(usage(format!(
            "the filter has {} bytes, {QUERY_BYTES_MAX} are allowed",
            text.len()
        )));
    }
    let tokens = tokenize(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        now,
    };
    let constraint = parser.or(0)?;
    match parser.peek() {
        None => Ok(Filter { constraint }),
        Some(token) => Err(usage(format!(
            "filter '{text}': unexpected {}",
            token.describe()
        ))),
    }
}

/// True if no job can meet this, whatever it is called and wherever it ran: its states and results exclude each other.
#[must_use]
pub fn is_impossible(constraint: &Value) -> bool {
    let active = [1, 2, 4, 8, 16, 32].map(|state| (state, 0));
    let ended = [1, 2, 4, 8].map(|result| (64, result));
    active
        .into_iter()
        .chain(ended)
        .all(|job| holds(constraint, job) == Some(false))
}

/// Whether a job of that state and result meets the constraint; `None` if more must be known of it.
fn holds(constraint: &Value, (state, result): (u64, u64)) -> Option<bool> {
    let (operator, values) = constraint.as_object()?.iter().next()?;
    let values = values.as_array()?;
    let has_bit = |bit: u64| {
        Some(
            values
                .iter()
                .any(|set| set.as_u64().unwrap_or(0) & bit != 0),
        )
    };
    let mut inner = values.iter().map(|value| holds(value, (state, result)));
    let all = |inner: &mut dyn Iterator<Item = Option<bool>>| {
        let mut all = Some(true);
        for one in inner {
            match one {
                Some(false) => return Some(false),
                Some(true) => {}
                None => all = None,
            }
        }
        all
    };
    match operator.as_str() {
        "states" => has_bit(state),
        "results" => has_bit(result),
        "and" => all(&mut inner),
        // None of them holds.
        "not" => all(&mut inner.map(|one| one.map(|is| !is))),
        "or" => all(&mut inner.map(|one| one.map(|is| !is))).map(|none| !none),
        _ => None,
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Open,
    Close,
    And,
    Or,
    Not,
    Colon,
    Comma,
    Word { text: String, quoted: bool },
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Self::Open => "'('".to_owned(),
            Self::Close => "')'".to_owned(),
            Self::And => "'and'".to_owned(),
            Self::Or => "'or'".to_owned(),
            Self::Not => "'not'".to_owned(),
            Self::Colon => "':'".to_owned(),
            Self::Comma => "','".to_owned(),
            Self::Word { text, .. } => format!("'{text}'"),
        }
    }
}

fn tokenize(text: &str) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            c if c.is_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            ':' => Token::Colon,
            '|' | '&' => {
                chars.next_if_eq(&c);
                if c == '|' { Token::Or } else { Token::And }
            }
            '-' if !matches!(tokens.last(), Some(Token::Colon | Token::Comma)) => Token::Not,
            '\'' | '"' => {
                let mut word = String::new();
                loop {
                    match chars.next() {
                        Some(end) if end == c => break,
                        Some(inner) => word.push(inner),
                        None => {
                            return Err(usage(format!(
                                "filter '{text}': a quote {c} is not closed"
                            )));
                        }
                    }
                }
                Token::Word {
                    text: word,
                    quoted: true,
                }
            }
            first => {
                let mut word = String::from(first);
                // In a value a colon is a character like others (12:30); between operator and value it is not.
                let in_value = matches!(tokens.last(), Some(Token::Colon | Token::Comma));
                while let Some(next) = chars.next_if(|next| {
                    !next.is_whitespace()
                        && !"(),|&'\"".contains(*next)
                        && (in_value || *next != ':')
                }) {
                    word.push(next);
                }
                match word.as_str() {
                    _ if in_value => Token::Word {
                        text: word,
                        quoted: false,
                    },
                    "and" | "AND" => Token::And,
                    "or" | "OR" => Token::Or,
                    "not" | "NOT" => Token::Not,
                    _ => Token::Word {
                        text: word,
                        quoted: false,
                    },
                }
            }
        };
        tokens.push(token);
    }
    Ok(tokens)
}

/// True for what a shell would take for a pattern.
#[must_use]
pub fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    now: f64,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn or(&mut self, depth: usize) -> anyhow::Result<Value> {
        if depth > DEPTH_MAX {
            return Err(usage(format!(
                "the filter is nested more than {DEPTH_MAX} deep"
            )));
        }
        let mut parts = vec![self.and(depth)?];
        while self.take(&Token::Or) {
            parts.push(self.and(depth)?);
        }
        Ok(joined("or", parts))
    }

    fn and(&mut self, depth: usize) -> anyhow::Result<Value> {
        let mut parts = vec![self.unary(depth)?];
        loop {
            if self.take(&Token::And)
                || matches!(
                    self.peek(),
                    Some(Token::Not | Token::Open | Token::Word { .. })
                )
            {
                parts.push(self.unary(depth)?);
            } else {
                return Ok(joined("and", parts));
            }
        }
    }

    fn unary(&mut self, depth: usize) -> anyhow::Result<Value> {
        if depth > DEPTH_MAX {
            return Err(usage(format!(
                "the filter is nested more than {DEPTH_MAX} deep"
            )));
        }
        if self.take(&Token::Not) {
            return Ok(json!({"not": [self.unary(depth + 1)?]}));
        }
        if self.take(&Token::Open) {
            let inner = self.or(depth + 1)?;
            return if self.take(&Token::Close) {
                Ok(inner)
            } else {
                Err(usage("filter: a bracket '(' is not closed"))
            };
        }
        self.term()
    }

    fn word(&mut self, what: &str) -> anyhow::Result<(String, bool)> {
        match self.peek() {
            Some(Token::Word { text, quoted }) => {
                let word = (text.clone(), *quoted);
                self.at += 1;
                Ok(word)
            }
            met => {
                let met = met.map_or_else(|| "the end".to_owned(), Token::describe);
                Err(usage(format!("filter: expected {what}, got {met}")))
            }
        }
    }

    fn value(&mut self, operator: &str, what: &str) -> anyhow::Result<String> {
        let (text, quoted) = self.word(what)?;
        if !quoted && matches!(operator, "name" | "queue") && has_pattern(&text) {
            return Err(usage(format!(
                "{operator}:{text}: there are no patterns, a {operator} is compared whole: list it with --json and select there; one that \
                 holds these characters goes into quotes: {operator}:\"{text}\""
            )));
        }
        Ok(text)
    }

    fn term(&mut self) -> anyhow::Result<Value> {
        let (first, quoted) = self.word("a state, a result or OPERATOR:VALUE")?;
        if !quoted && self.take(&Token::Colon) {
            let mut values = vec![self.value(&first, &format!("a value after '{first}:'"))?];
            while self.take(&Token::Comma) {
                values.push(self.value(&first, &format!("another value of '{first}'"))?);
            }
            return operator(&first, &values, self.now);
        }
        let mut words = vec![first];
        while self.take(&Token::Comma) {
            words.push(self.word("another state or result")?.0);
        }
        states_and_results(&words)
    }
}

fn joined(operator: &str, mut parts: Vec<Value>) -> Value {
    if parts.len() == 1 {
        parts.remove(0)
    } else {
        json!({operator: parts})
    }
}

/// Names of states and results, any of which may match; as Flux builds it.
fn states_and_results(words: &[String]) -> anyhow::Result<Value> {
    let (mut states, mut results) = (0u32, 0u32);
    for word in words {
        if let Ok(set) = word.parse::<StateSet>() {
            states |= set.0;
        } else if let Ok(result) = word.parse::<JobResult>() {
            results |= result.bit();
        } else {
            return Err(usage(format!(
                "'{word}' is no state and no result; expected pending, running, active, inactive, depend, priority, sched, run, \
                 cleanup, completed, failed, canceled, timeout, or OPERATOR:VALUE (name, queue, user, host, rank, t_run …)"
            )));
        }
    }
    Ok(match (states, results) {
        (states, 0) => json!({"states": [states]}),
        (0, results) => json!({"results": [results]}),
        (states, results) => json!({"or": [{"states": [states]}, {"results": [results]}]}),
    })
}

fn operator(name: &str, values: &[String], now: f64) -> anyhow::Result<Value> {
    Ok(match name {
        "name" | "queue" => json!({name: values}),
        "state" | "states" | "result" | "results" | "is" => states_and_results(values)?,
        "user" | "userid" => {
            let uids = values
                .iter()
                .map(|value| users::uid(value))
                .collect::<anyhow::Result<Vec<_>>>()?;
            json!({"userid": uids})
        }
        "parent" => {
            let ids = values
                .iter()
                .map(|value| Ok(ids::parse(value)?.0))
                .collect::<anyhow::Result<Vec<_>>>()?;
            json!({"parent": ids})
        }
        "host" | "hosts" | "hostlist" => json!({"hostlist": values}),
        "rank" | "ranks" => json!({"ranks": values}),
        "t_submit" | "t_depend" | "t_priority" | "t_sched" | "t_run" | "t_cleanup"
        | "t_inactive" => {
            let mut parts = Vec::new();
            for value in values {
                let rest = value.trim_start_matches(['<', '>', '=']);
                let comparison = &value[..value.len() - rest.len()];
                if !matches!(comparison, ">" | "<" | ">=" | "<=") {
                    return Err(usage(format!(
                        "{name}:{value}: expected a comparison such as {name}:>-1h"
                    )));
                }
                let time = when::instant(rest, now)
                    .map_err(|error| usage(format!("{name}:{value}: {error}")))?;
                // job-info knows no times before 1970, and no job has one: `>-99999d` is any.
                let time = time.max(0.0);
                parts.push(json!({name: [format!("{comparison}{time:?}")]}));
            }
            joined("and", parts)
        }
        _ => {
            return Err(usage(format!(
                "'{name}' is no operator; expected name, queue, user, states, results, host, rank, parent, t_submit, t_depend, \
                 t_priority, t_sched, t_run, t_cleanup or t_inactive"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constraint(text: &str) -> String {
        parse(text, 1000.0).unwrap().constraint.to_string()
    }

    #[test]
    fn lists_of_states_and_results_are_those_of_flux() {
        assert_eq!(constraint("running"), r#"{"states":[48]}"#);
        assert_eq!(constraint("pending,running"), r#"{"states":[62]}"#);
        assert_eq!(constraint("failed,canceled"), r#"{"results":[6]}"#);
        assert_eq!(
            constraint("sched,FAILED"),
            r#"{"or":[{"states":[8]},{"results":[2]}]}"#
        );
        assert_eq!(
            constraint("pd,cd"),
            r#"{"or":[{"states":[14]},{"results":[1]}]}"#
        );
    }

    #[test]
    fn expressions_become_constraints() {
        assert_eq!(
            constraint("running and name:a,b"),
            r#"{"and":[{"states":[48]},{"name":["a","b"]}]}"#
        );
        assert_eq!(
            constraint("name:a queue:q"),
            r#"{"and":[{"name":["a"]},{"queue":["q"]}]}"#
        );
        assert_eq!(
            constraint("not (failed or -name:'x y') | queue:\"a,b\""),
            r#"{"or":[{"not":[{"or":[{"results":[2]},{"not":[{"name":["x y"]}]}]}]},{"queue":["a,b"]}]}"#
        );
        assert_eq!(constraint("user:4711"), r#"{"userid":[4711]}"#);
        assert_eq!(
            constraint("host:node[0-3]"),
            r#"{"hostlist":["node[0-3]"]}"#
        );
        assert_eq!(constraint("parent:4711,fNH"), r#"{"parent":[4711,1234]}"#);
        assert!(parse("parent:abc", 0.0).is_err());
        assert_eq!(constraint("t_run:>=-1m"), r#"{"t_run":[">=940.0"]}"#);
        assert_eq!(
            constraint("t_submit:>100,<200.5"),
            r#"{"and":[{"t_submit":[">100.0"]},{"t_submit":["<200.5"]}]}"#
        );
        assert_eq!(constraint("name:and"), r#"{"name":["and"]}"#);
    }

    #[test]
    fn a_pattern_is_refused_unless_it_is_quoted() {
        for text in ["name:a*", "queue:x,b?", "not name:*"] {
            let error = parse(text, 0.0).unwrap_err().to_string();
            assert!(error.contains("there are no patterns"), "{text}: {error}");
        }
        assert_eq!(constraint("name:'a*'"), r#"{"name":["a*"]}"#);
    }

    #[test]
    fn a_time_before_1970_is_one_that_job_info_takes() {
        for text in ["t_run:>-99999d", "t_run:>1011-11-14"] {
            assert_eq!(constraint(text), r#"{"t_run":[">0.0"]}"#, "{text}");
        }
    }

    #[test]
    fn a_filter_that_no_job_can_meet_is_recognised() {
        let impossible = |text: &str| is_impossible(&parse(text, 0.0).unwrap().constraint);
        for text in [
            "completed failed",
            "pending running",
            "running and completed",
            "name:a and (failed not failed)",
        ] {
            assert!(impossible(text), "{text}");
        }
        for text in [
            "completed,failed",
            "completed or failed",
            "inactive failed",
            "not running",
            "not name:a",
            "pending not name:x",
            "active not (running)",
        ] {
            assert!(!impossible(text), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("runing", "'runing' is no state and no result"),
            ("nme:x", "'nme' is no operator"),
            ("(running", "not closed"),
            ("running)", "unexpected ')'"),
            ("name:", "expected a value after 'name:', got the end"),
            (
                "",
                "expected a state, a result or OPERATOR:VALUE, got the end",
            ),
            ("name:'x", "quote ' is not closed"),
            ("t_run:5", "expected a comparison"),
            ("or running", "got 'or'"),
        ] {
            assert!(
                parse(text, 0.0).unwrap_err().to_string().contains(expected),
                "{text}"
            );
        }
        assert!(
            parse(&"(".repeat(10_000), 0.0)
                .unwrap_err()
                .to_string()
                .contains("nested")
        );
        assert!(
            parse(&"-".repeat(10_000), 0.0)
                .unwrap_err()
                .to_string()
                .contains("nested")
        );
        assert!(
            parse(&"a ".repeat(100_000), 0.0)
                .unwrap_err()
                .to_string()
                .contains("65536 are allowed")
        );
    }
}
