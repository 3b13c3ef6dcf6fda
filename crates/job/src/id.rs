//! Job ids (RFC 19): 64 bits, given out in ascending order, written in several ways.
//!
//! ```text
//!  63                       24 23        10 9        0
//! +---------------------------+------------+----------+
//! | milliseconds (40)         | generator  | sequence |
//! +---------------------------+------------+----------+
//! ```
//!
//! Milliseconds count from the start of the instance, generator is 0 here. The clock is the
//! caller's; an [`IdGen`] only guarantees that each id is greater than the one before.

use crate::json::clip;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const F58_DIGITS_MAX: usize = 11;
/// Six words and what is between them.
const WORDS_BYTES_MAX: usize = 64;
const SEQUENCE_BITS: u32 = 10;
const TIME_SHIFT: u32 = 24;
const TIME_MAX: u64 = (1 << 40) - 1;

/// The id of a job. In JSON an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A text that is no job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty text.
    #[error("job id is empty: expected one like ƒCdza1gs or 443035942912")]
    Empty,
    /// Has a dot, but is not four groups of four hexadecimal digits.
    #[error(
        "job id {met:?} is malformed: expected four groups of four hexadecimal digits, 0000.0067.2700.0000"
    )]
    Dothex {
        /// The text met, shortened.
        met: String,
    },
    /// Has a dash, but is not six words of the mnemonicode list.
    #[error(
        "job id {met:?} is malformed: expected six words of its list, natural-analyze-verbal--natural-analyze-verbal"
    )]
    Words {
        /// The text met, shortened.
        met: String,
    },
    /// Starts like F58, but holds a character outside the alphabet, or none at all.
    #[error("job id {met:?} is malformed: expected base58 digits after the ƒ")]
    F58 {
        /// The text met, shortened.
        met: String,
    },
    /// Starts with `0x`, but is not hexadecimal.
    #[error("job id {met:?} is malformed: expected hexadecimal digits after the 0x")]
    Hex {
        /// The text met, shortened.
        met: String,
    },
    /// None of the forms.
    #[error(
        "job id {met:?} is malformed: expected ƒ…, a decimal number, 0x… or dotted hexadecimal"
    )]
    Decimal {
        /// The text met, shortened.
        met: String,
    },
    /// Well formed, but more than 64 bits.
    #[error("job id {met:?} is too large: expected at most 18446744073709551615")]
    TooLarge {
        /// The text met, shortened.
        met: String,
    },
}

impl JobId {
    /// All bits set: "any job" in requests, "no job" in a journal's sentinel. -1 in JSON.
    pub const ANY: JobId = JobId(u64::MAX);

    /// `ƒCdza1gs`, or `fCdza1gs` where the letter cannot be shown.
    #[must_use]
    pub fn f58(self, ascii: bool) -> String {
        let mut digits = [0u8; F58_DIGITS_MAX];
        let mut at = digits.len();
        let mut rest = self.0;
        loop {
            at -= 1;
            digits[at] = ALPHABET[(rest % 58) as usize];
            rest /= 58;
            if rest == 0 {
                break;
            }
        }
        let mut text = String::with_capacity(2 + F58_DIGITS_MAX);
        text.push_str(if ascii { "f" } else { "ƒ" });
        text.extend(digits[at..].iter().map(|&digit| char::from(digit)));
        text
    }

    /// `0000.0067.2700.0000`
    #[must_use]
    pub fn dothex(self) -> String {
        let word = |shift: u32| (self.0 >> shift) & 0xffff;
        format!(
            "{:04x}.{:04x}.{:04x}.{:04x}",
            word(48),
            word(32),
            word(16),
            word(0)
        )
    }

    /// `cake-plume-nepal--neuron-pencil-academy`: mnemonicode of the eight bytes, the lowest first.
    #[must_use]
    pub fn words(self) -> String {
        mnemonic::to_string(self.0.to_le_bytes())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.f58(false))
    }
}

impl FromStr for JobId {
    type Err = IdError;

    /// Every spelling, tried in this order: dotted hexadecimal (also with `job.` before it), words,
    /// F58, `0x` hexadecimal, decimal.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.contains('.') {
            return parse_dothex(text).map(JobId);
        }
        if text.contains('-') {
            return parse_words(text).map(JobId);
        }
        if let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) {
            return parse_f58(text, digits).map(JobId);
        }
        if let Some(digits) = text.strip_prefix("0x") {
            return parse_digits(text, digits, 16, |met| IdError::Hex { met }).map(JobId);
        }
        parse_digits(text, text, 10, |met| IdError::Decimal { met }).map(JobId)
    }
}

fn parse_dothex(text: &str) -> Result<u64, IdError> {
    let malformed = || IdError::Dothex { met: clip(text) };
    let mut value = 0u64;
    let mut groups = 0;
    for group in text.strip_prefix("job.").unwrap_or(text).split('.') {
        groups += 1;
        if groups > 4 || group.len() != 4 || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        value = value << 16 | u64::from_str_radix(group, 16).map_err(|_| malformed())?;
    }
    if groups == 4 {
        Ok(value)
    } else {
        Err(malformed())
    }
}

fn parse_words(text: &str) -> Result<u64, IdError> {
    let malformed = || IdError::Words { met: clip(text) };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    if text.len() > WORDS_BYTES_MAX || !text.bytes().all(is_word) {
        return Err(malformed());
    }
    let mut bytes = Vec::with_capacity(8);
    mnemonic::decode(text, &mut bytes).map_err(|_| malformed())?;
    Ok(u64::from_le_bytes(
        bytes.try_into().map_err(|_| malformed())?,
    ))
}

fn parse_f58(text: &str, digits: &str) -> Result<u64, IdError> {
    if digits.is_empty() {
        return Err(IdError::F58 { met: clip(text) });
    }
    let mut value = Some(0u64);
    for byte in digits.bytes() {
        let digit = ALPHABET.iter().position(|&letter| letter == byte);
        let digit = digit.ok_or_else(|| IdError::F58 { met: clip(text) })? as u64;
        value = value
            .and_then(|v| v.checked_mul(58))
            .and_then(|v| v.checked_add(digit));
    }
    value.ok_or_else(|| IdError::TooLarge { met: clip(text) })
}

fn parse_digits(
    text: &str,
    digits: &str,
    radix: u32,
    malformed: fn(String) -> IdError,
) -> Result<u64, IdError> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(malformed(clip(text)));
    }
    u64::from_str_radix(digits, radix).map_err(|_| IdError::TooLarge { met: clip(text) })
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == JobId::ANY {
            serializer.serialize_i64(-1)
        } else {
            serializer.serialize_u64(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Integer;
        impl Visitor<'_> for Integer {
            type Value = JobId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a job id, as an integer")
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<JobId, E> {
                Ok(JobId(value))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<JobId, E> {
                match u64::try_from(value) {
                    Ok(value) => Ok(JobId(value)),
                    Err(_) if value == -1 => Ok(JobId::ANY),
                    Err(_) => Err(E::custom(format_args!("job id {value} is negative"))),
                }
            }
        }
        // Asking for u64 would make some formats refuse the -1.
        deserializer.deserialize_any(Integer)
    }
}

/// Gives out ids, each greater than the one before, as near to the clock as that allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdGen {
    /// The newest id given out or known; the next one is greater.
    pub last: u64,
}

impl IdGen {
    /// Continues after `last`.
    #[must_use]
    pub fn after(last: JobId) -> IdGen {
        IdGen { last: last.0 }
    }

    /// The next id, `now_ms` milliseconds after the start of the instance. Within one millisecond, and
    /// when the clock stands still or goes back, ids count up by one; the 1,025th of a millisecond
    /// takes the next millisecond ahead of the clock.
    pub fn next(&mut self, now_ms: u64) -> JobId {
        let by_clock = now_ms.min(TIME_MAX) << TIME_SHIFT;
        let by_count = self.last.saturating_add(1);
        let full = by_count & ((1 << SEQUENCE_BITS) - 1) == 0;
        let time = self.last >> TIME_SHIFT;
        let by_count = if full && time < TIME_MAX {
            (time + 1) << TIME_SHIFT
        } else {
            by_count
        };
        self.last = by_clock.max(by_count);
        JobId(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_ascend_whatever_the_clock_does() {
        let mut ids = IdGen::default();
        let mut last = 0;
        for now in [0, 0, 5, 5, 5, 4, 0, 6, 1000, 999, u64::MAX, 0, 0] {
            let id = ids.next(now).0;
            assert!(id > last, "{id} after {last}");
            last = id;
        }
    }

    #[test]
    fn two_in_one_millisecond_are_neighbours() {
        let mut ids = IdGen::default();
        let first = ids.next(7);
        assert_eq!(first.0, 7 << 24);
        assert_eq!(ids.next(7).0, first.0 + 1);
        assert_eq!(ids.next(8).0, 8 << 24);
    }

    #[test]
    fn a_full_millisecond_borrows_from_the_next() {
        let mut ids = IdGen::after(JobId(7 << 24));
        let all: Vec<u64> = (0..3000).map(|_| ids.next(7).0).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(all[1022], (7 << 24) + 1023);
        assert_eq!(all[1023], 8 << 24);
        assert!(
            all.iter().all(|id| (id >> 10) & 0x3fff == 0),
            "generator stays 0"
        );
        assert_eq!(ids.next(50).0, 50 << 24, "back on the clock");
    }

    #[test]
    fn json_is_an_integer_and_any_is_minus_one() {
        assert_eq!(serde_json::to_string(&JobId(1234)).unwrap(), "1234");
        assert_eq!(serde_json::to_string(&JobId::ANY).unwrap(), "-1");
        assert_eq!(serde_json::from_str::<JobId>("-1").unwrap(), JobId::ANY);
        let top = "18446744073709551615";
        assert_eq!(serde_json::from_str::<JobId>(top).unwrap(), JobId::ANY);
        assert_eq!(
            serde_json::from_str::<JobId>("9223372036854775809")
                .unwrap()
                .0,
            (1 << 63) + 1
        );
        for bad in ["-2", "1.0", "\"1\"", "null", "18446744073709551616"] {
            assert!(serde_json::from_str::<JobId>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn malformed_texts_are_refused_by_name() {
        for text in [
            "ƒ0",
            "abc",
            "ƒ",
            "f",
            "ƒl",
            "ƒI",
            "ƒO",
            "ƒ1 ",
            " 1",
            "1 ",
            "+1",
            "0x",
            "0xg",
            "0x-1",
            "1.2.3.4",
            "0000.0000.0000",
            "0000.0000.0000.0000.0000",
            "00000.000.0000.0000",
            "job.0000.0000.0000.",
            "0000.0000.0000.+001",
            "academy-academy-academy",
            "-1",
            "--",
            "academy-academy-academy--academy-academy-ego",
            "academy-academy-academy--academy-academy-academy-academy",
            "Academy-academy-academy--academy-academy-academy",
            "academy academy-academy--academy-academy-academy",
            "verbal-verbal-verbal--verbal-verbal-verbal",
            "١",
            "18446744073709551616",
            "0x10000000000000000",
            "ƒjpXCZedGfVR",
            "ƒzzzzzzzzzzzz",
        ] {
            let error = text.parse::<JobId>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("{text:?}")),
                "{text}: {error}"
            );
        }
        assert_eq!("".parse::<JobId>(), Err(IdError::Empty));
    }
}
