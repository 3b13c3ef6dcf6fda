//! One event of an eventlog or of the journal as a line for people: when, what, and its context as `key=value`.
//!
//! The context keeps its order; texts are quoted only where a space or control character would make the line ambiguous, and
//! control characters are escaped, so a note can neither end the line nor act on the terminal.

use crate::{text, when};
use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write as _;

/// How the time of an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Times {
    /// Seconds since 1970, as stored
    Raw,
    /// Date and time, local
    Iso,
    /// Seconds since the first event
    Offset,
    /// The first in full, the others as seconds since then
    Human,
}

/// An RFC 18 event.
#[derive(Debug, Clone, Deserialize)]
pub struct LogEvent<'a> {
    /// Seconds since 1970.
    pub timestamp: f64,
    /// Its name.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// What else there is to say.
    #[serde(default)]
    pub context: Map<String, Value>,
}

impl<'a> LogEvent<'a> {
    /// Reads one line of an eventlog.
    ///
    /// # Errors
    /// The line is no event.
    pub fn parse(line: &'a str) -> anyhow::Result<Self> {
        serde_json::from_str(line).with_context(|| format!("not an event: {}", text::fit(line, 60)))
    }

    /// A text of the context.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.context.get(key).and_then(Value::as_str)
    }

    /// A number of the context.
    #[must_use]
    pub fn int(&self, key: &str) -> Option<i64> {
        self.context.get(key).and_then(Value::as_i64)
    }
}

/// Writes events one after another, knowing when the first was.
#[derive(Debug)]
pub struct EventText {
    times: Times,
    first: Option<f64>,
}

impl EventText {
    /// A writer that has seen no event yet.
    #[must_use]
    pub fn new(times: Times) -> Self {
        Self { times, first: None }
    }

    /// Appends the event, without a line break.
    pub fn write(&mut self, event: &LogEvent<'_>, out: &mut String) {
        let is_first = self.first.is_none();
        let first = *self.first.get_or_insert(event.timestamp);
        let _ = match self.times {
            Times::Raw => write!(out, "{:.6}", event.timestamp),
            Times::Iso => write!(out, "{}", when::iso(event.timestamp)),
            Times::Offset => write!(out, "{:.6}", event.timestamp - first),
            Times::Human if is_first => write!(out, "[{}]", when::short(event.timestamp)),
            Times::Human => write!(out, "[{:>+11.6}]", event.timestamp - first),
        };
        out.push(' ');
        out.push_str(&text::escape(&event.name));
        context(&event.context, out);
    }
}

/// Appends ` key=value` for each key.
pub fn context(map: &Map<String, Value>, out: &mut String) {
    for (key, value) in map {
        out.push(' ');
        out.push_str(&text::escape(key));
        out.push('=');
        match value {
            Value::String(value) if plain(value) => out.push_str(value),
            // JSON's own escapes make it one word again; what JSON lets through, `escape` does not.
            other => out.push_str(&text::escape(&other.to_string())),
        }
    }
}

fn plain(value: &str) -> bool {
    !value.is_empty()
        && !value
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=' | '\\'))
        && text::escape(value) == value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(times: Times) -> Vec<String> {
        let mut writer = EventText::new(times);
        [
            r#"{"timestamp":1700000000.0,"name":"submit","context":{"userid":1000,"urgency":16}}"#,
            r#"{"timestamp":1700000000.25,"name":"exception","context":{"type":"cancel","note":"no\nmore \u001b","x":{"a":[1]}}}"#,
            r#"{"timestamp":1700000001.0,"name":"clean"}"#,
        ]
        .iter()
        .map(|line| {
            let mut out = String::new();
            writer.write(&LogEvent::parse(line).unwrap(), &mut out);
            out
        })
        .collect()
    }

    #[test]
    fn an_event_is_one_line_whatever_it_holds() {
        assert_eq!(
            lines(Times::Raw),
            [
                "1700000000.000000 submit userid=1000 urgency=16",
                "1700000000.250000 exception type=cancel note=\"no\\nmore \\u001b\" x={\"a\":[1]}",
                "1700000001.000000 clean",
            ]
        );
        assert!(lines(Times::Offset)[1].starts_with("0.250000 exception"));
        assert!(lines(Times::Human)[2].starts_with("[  +1.000000] clean"));
        assert!(LogEvent::parse("{}").is_err());
    }
}
