//! Durations as RFC 23 writes them: `1.5h`, `30`, `inf`. Seconds as a real number inside.

use crate::json::clip;
use std::fmt;
use std::str::FromStr;

/// A duration in seconds: not negative, not NaN; infinity is allowed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Fsd(pub f64);

/// A text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FsdError {
    /// Not a number with one of the suffixes.
    #[error(
        "duration {met:?} is malformed: expected a number ≥ 0 with ms, s, m, h or d after it, or inf"
    )]
    Malformed {
        /// The text met, shortened.
        met: String,
    },
    /// More than can be counted.
    #[error("duration {met:?} is too large: say inf for no limit")]
    TooLarge {
        /// The text met, shortened.
        met: String,
    },
}

/// Suffixes with what one of them is in seconds; `ms` before `s` and `m`.
const SUFFIXES: [(&str, f64); 5] = [
    ("ms", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
];

impl FromStr for Fsd {
    type Err = FsdError;

    fn from_str(text: &str) -> Result<Fsd, FsdError> {
        if text.eq_ignore_ascii_case("inf") || text.eq_ignore_ascii_case("infinity") {
            return Ok(Fsd(f64::INFINITY));
        }
        let suffix = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix));
        let (suffix, factor) = suffix.copied().unwrap_or(("", 1.0));
        let number = &text[..text.len() - suffix.len()];
        let plain = number
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let begins = number
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_digit() || b == b'.');
        let value = if plain && begins {
            number.parse::<f64>().ok()
        } else {
            None
        };
        let value = value.ok_or_else(|| FsdError::Malformed { met: clip(text) })?;
        // Dividing gives 0.002 for 2ms, multiplying by 0.001 need not.
        let seconds = if factor < 1.0 {
            value / (1.0 / factor)
        } else {
            value * factor
        };
        if seconds.is_finite() {
            Ok(Fsd(seconds))
        } else {
            Err(FsdError::TooLarge { met: clip(text) })
        }
    }
}

impl fmt::Display for Fsd {
    /// In the largest unit of which there is one, six digits: `90` → `1.5m`, `0.002` → `2ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        if seconds.is_infinite() {
            return f.pad("inf");
        }
        let (suffix, factor) = match seconds {
            s if s == 0.0 || (1.0..60.0).contains(&s) => SUFFIXES[1],
            s if s < 1.0 => SUFFIXES[0],
            s if s < 3600.0 => SUFFIXES[2],
            s if s < 86400.0 => SUFFIXES[3],
            _ => SUFFIXES[4],
        };
        f.pad(&format!("{}{suffix}", six_digits(seconds / factor)))
    }
}

/// A number with six significant digits, or all digits of its whole part, without trailing zeros.
fn six_digits(value: f64) -> String {
    let whole = if value >= 1.0 {
        value.log10().floor() as usize + 1
    } else {
        1
    };
    let text = format!("{value:.*}", 6usize.saturating_sub(whole));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted() {
        for (text, seconds) in [
            ("2ms", 0.002),
            ("0.1s", 0.1),
            ("30", 30.0),
            ("1.2h", 4320.0),
            ("5m", 300.0),
            ("5d", 432_000.0),
            ("0", 0.0),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("inf", f64::INFINITY),
            ("INFINITY", f64::INFINITY),
            ("Inf", f64::INFINITY),
        ] {
            assert_eq!(text.parse(), Ok(Fsd(seconds)), "{text}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "", "-1", "-0", "nan", "NaN", "1S", "1M", "1H", "1D", "1MS", "s", "1 s", " 1", "1 ",
            "+1", "1x", "1ss", "0x10", "1h30m", "-inf", "1e", "1e999", "infs", "e5", ".",
        ] {
            let error = text.parse::<Fsd>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("{text:?}")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn shown_in_the_largest_unit() {
        for (seconds, shown) in [
            (0.0, "0s"),
            (0.002, "2ms"),
            (0.5, "500ms"),
            (1.0, "1s"),
            (59.5, "59.5s"),
            (60.0, "1m"),
            (90.0, "1.5m"),
            (7200.0, "2h"),
            (10800.0, "3h"),
            (432_000.0, "5d"),
            (90061.0, "1.04237d"),
            (86_400_000_000.0, "1000000d"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(Fsd(seconds).to_string(), shown);
        }
    }
}
