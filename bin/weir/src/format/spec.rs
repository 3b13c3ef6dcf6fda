//! The part of a field after its colon, and the letter after its exclamation mark: how a value becomes text of some width.

use crate::text::{self, Align};
use crate::when;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// Widest column that may be asked for.
const WIDTH_MAX: usize = 4096;

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Not defined for this job.
    None,
    /// Text; it may hold anything.
    Text(Cow<'a, str>),
    /// A whole number.
    Int(i128),
    /// Seconds, and points in time.
    Real(f64),
    /// True or false.
    Bool(bool),
}

impl Value<'_> {
    /// Which comes first when rows are sorted: what is not defined before all, numbers by value, texts by their letters.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let class = |value: &Self| match value {
            Self::None => 0,
            Self::Bool(_) => 1,
            Self::Int(_) | Self::Real(_) => 2,
            Self::Text(_) => 3,
        };
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Int(one), Self::Int(other)) => one.cmp(other),
            _ => match (self.number(), other.number()) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                _ => class(self).cmp(&class(other)),
            },
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "of an id and a time")]
    fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            _ => None,
        }
    }
}

/// How a number of seconds is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// `!F`: a duration with its unit.
    Duration,
    /// `!H`: a duration as on a clock.
    Clock,
    /// `!d`: a point in time, as a format of strftime says.
    Time,
    /// `!D`: a point in time, in full.
    Iso,
    /// `!P`: a share of one as a percentage.
    Percent,
}

impl Conversion {
    /// Reads the letter.
    ///
    /// # Errors
    /// It is none of the five.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "F" => Ok(Self::Duration),
            "H" => Ok(Self::Clock),
            "d" => Ok(Self::Time),
            "D" => Ok(Self::Iso),
            "P" => Ok(Self::Percent),
            _ => Err(format!(
                "there is no conversion '{text}'; expected F, H, d, D or P"
            )),
        }
    }
}

/// Width, place and precision of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    fill: char,
    align: Option<Align>,
    /// Least columns.
    pub width: usize,
    precision: Option<usize>,
    fixed: bool,
    dash: bool,
    /// `+`: a text that was cut ends in it.
    marks: bool,
}

impl Spec {
    /// Reads a spec; empty is a spec.
    ///
    /// # Errors
    /// What was met and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Self {
            fill: ' ',
            align: None,
            width: 0,
            precision: None,
            fixed: false,
            dash: false,
            marks: false,
        };
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let align = |c: Option<&char>| match c {
            Some('<') => Some(Align::Left),
            Some('>') => Some(Align::Right),
            Some('^') => Some(Align::Center),
            _ => None,
        };
        if let Some(found) = align(chars.get(1)) {
            spec.fill = chars[0];
            spec.align = Some(found);
            at = 2;
        } else if let Some(found) = align(chars.first()) {
            spec.align = Some(found);
            at = 1;
        }
        if chars.get(at) == Some(&'0') && spec.align.is_none() {
            spec.fill = '0';
            spec.align = Some(Align::Right);
        }
        let number = |at: &mut usize| {
            let start = *at;
            while chars.get(*at).is_some_and(char::is_ascii_digit) {
                *at += 1;
            }
            chars[start..*at]
                .iter()
                .collect::<String>()
                .parse::<usize>()
                .ok()
        };
        spec.width = number(&mut at).unwrap_or(0);
        if chars.get(at) == Some(&'.') {
            at += 1;
            spec.precision = Some(
                number(&mut at)
                    .ok_or_else(|| format!("'{text}': expected digits after the dot"))?,
            );
        }
        match chars.get(at) {
            Some('f') => {
                spec.fixed = true;
                at += 1;
            }
            Some('s' | 'd') => at += 1,
            _ => {}
        }
        if chars.get(at) == Some(&'h') {
            spec.dash = true;
            at += 1;
        }
        // Columns are counted as they are on the screen in any case.
        at += usize::from(chars.get(at) == Some(&'W'));
        if chars.get(at) == Some(&'+') {
            spec.marks = true;
            at += 1;
        }
        if at < chars.len() {
            return Err(format!(
                "'{text}': expected [[fill]<|>|^][width][.precision][s|d|f][h][+]"
            ));
        }
        if spec.width > WIDTH_MAX
            || spec
                .precision
                .is_some_and(|precision| precision > WIDTH_MAX)
        {
            return Err(format!("'{text}': at most {WIDTH_MAX} columns"));
        }
        Ok(spec)
    }

    /// The same spec with no width.
    #[must_use]
    pub fn bare(self) -> Self {
        Self { width: 0, ..self }
    }

    /// The same spec with another width, if one is given.
    #[must_use]
    pub fn with_width(self, width: Option<usize>) -> Self {
        Self {
            width: width.unwrap_or(self.width),
            ..self
        }
    }

    /// Appends the value.
    pub fn write(&self, value: &Value<'_>, conversion: Option<Conversion>, out: &mut String) {
        let mut buffer = String::new();
        let (shown, numeric): (Cow<'_, str>, bool) = match (value, conversion) {
            (Value::None, _) => (Cow::Borrowed(""), false),
            (Value::Text(text), _) => (text::escape(text), false),
            (Value::Bool(value), _) => {
                (Cow::Borrowed(if *value { "True" } else { "False" }), false)
            }
            (Value::Int(number), None) => {
                let _ = write!(buffer, "{number}");
                (Cow::Owned(buffer), true)
            }
            #[allow(clippy::cast_precision_loss)]
            (Value::Int(number), Some(conversion)) => {
                (Cow::Owned(converted(*number as f64, conversion)), false)
            }
            (Value::Real(number), Some(conversion)) => {
                (Cow::Owned(converted(*number, conversion)), false)
            }
            (Value::Real(number), None) => {
                let _ = match self.precision {
                    Some(precision) => write!(buffer, "{number:.precision$}"),
                    None if self.fixed => write!(buffer, "{number:.6}"),
                    None => write!(buffer, "{number:?}"),
                };
                (Cow::Owned(buffer), true)
            }
        };
        let marked;
        let shown = match self.precision {
            Some(precision) if self.marks && !numeric && text::width(&shown) > precision => {
                marked = format!("{}+", text::clip(&shown, precision.saturating_sub(1)));
                &marked
            }
            Some(precision) if !numeric => text::clip(&shown, precision),
            _ => &shown,
        };
        let empty = self.dash && matches!(shown, "" | "0" | "0.0" | "0s" | "0:00:00");
        let align = self
            .align
            .unwrap_or(if numeric { Align::Right } else { Align::Left });
        let fill = if empty { ' ' } else { self.fill };
        text::pad(
            out,
            if empty { "-" } else { shown },
            self.width,
            align,
            fill,
        );
    }

    /// Appends a heading in the place of a value.
    pub fn write_heading(&self, heading: &str, out: &mut String) {
        text::pad(
            out,
            heading,
            self.width,
            self.align.unwrap_or(Align::Left),
            ' ',
        );
    }
}

fn converted(seconds: f64, conversion: Conversion) -> String {
    match conversion {
        Conversion::Duration => when::human(seconds),
        Conversion::Clock => when::clock(seconds),
        Conversion::Time | Conversion::Iso => when::iso_seconds(seconds),
        Conversion::Percent => percent(seconds * 100.0),
    }
}

/// With three digits; a small one with two behind the point.
fn percent(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    let mut text = format!("{value:.decimals$}");
    if value >= 1.0 && text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if value == 0.0 {
        "0".clone_into(&mut text);
    }
    text.push('%');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(spec: &str, value: &Value<'_>, conversion: Option<Conversion>) -> String {
        let mut out = String::new();
        Spec::parse(spec)
            .unwrap()
            .write(value, conversion, &mut out);
        out
    }

    #[test]
    fn values_are_placed_as_python_places_them() {
        let text = Value::Text(Cow::Borrowed("abc"));
        assert_eq!(shown("", &text, None), "abc");
        assert_eq!(shown("5", &text, None), "abc  ");
        assert_eq!(shown(">5", &text, None), "  abc");
        assert_eq!(shown("*^7", &text, None), "**abc**");
        assert_eq!(shown("<5.2", &text, None), "ab   ");
        assert_eq!(shown("<5.2s+", &text, None), "a+   ");
        assert_eq!(shown("<5.3+", &text, None), "abc  ");
        for (share, expected) in [
            (0.5, "50%"),
            (0.0, "0%"),
            (0.005, "0.50%"),
            (0.125, "12.5%"),
        ] {
            let value = Value::Real(share);
            assert_eq!(shown("", &value, Some(Conversion::Percent)), expected);
        }
        assert_eq!(shown("5", &Value::Int(42), None), "   42");
        assert_eq!(shown("05d", &Value::Int(42), None), "00042");
        assert_eq!(shown("<5", &Value::Int(42), None), "42   ");
        assert_eq!(shown(".2f", &Value::Real(1.0), None), "1.00");
        assert_eq!(shown("", &Value::Real(1.0), None), "1.0");
        assert_eq!(shown("", &Value::Int(-1), None), "-1");
        assert_eq!(
            shown(">8", &Value::Real(90.0), Some(Conversion::Duration)),
            "    1.5m"
        );
    }

    #[test]
    fn a_dash_stands_for_what_is_empty_or_zero() {
        assert_eq!(shown(">3h", &Value::None, None), "  -");
        assert_eq!(shown("h", &Value::Int(0), None), "-");
        assert_eq!(
            shown("h", &Value::Real(0.0), Some(Conversion::Duration)),
            "-"
        );
        assert_eq!(shown("h", &Value::Int(7), None), "7");
        assert_eq!(shown("", &Value::None, None), "");
    }

    #[test]
    fn names_cannot_act_on_the_terminal() {
        assert_eq!(
            shown("", &Value::Text(Cow::Borrowed("a\x1b[2J\n")), None),
            "a\\x1b[2J\\n"
        );
    }

    #[test]
    fn a_wrong_spec_is_refused() {
        for spec in ["x", "5x", ">", ".", "5.x", "99999"] {
            assert!(Spec::parse(spec).is_err() || spec == ">", "{spec}");
        }
        assert!(Conversion::parse("Z").is_err());
    }
}
