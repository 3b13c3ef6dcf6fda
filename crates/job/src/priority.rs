//! Urgency (what a user says, 0 to 31) and priority (what the queue is ordered by, 0 to 4294967295).
//!
//! The default rule from one to the other lives here; who may set what is the manager's.

use crate::json::clip;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// How urgent a job is to its user: 0 (hold) to 31 (expedite).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Urgency(u8);

/// A value that is no urgency.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrgencyError {
    /// A number outside the range.
    #[error("urgency {met} is out of range: expected 0 to 31")]
    OutOfRange {
        /// The number met.
        met: i64,
    },
    /// Neither a number nor one of the words.
    #[error("urgency {met:?} is not understood: expected 0 to 31, hold, default or expedite")]
    NotAnUrgency {
        /// The text met, shortened.
        met: String,
    },
}

impl Urgency {
    /// 0: the job waits until its urgency is changed.
    pub const HOLD: Urgency = Urgency(0);
    /// 16: what a job gets when nothing is said, and the most a guest may ask for.
    pub const DEFAULT: Urgency = Urgency(16);
    /// 31: the job goes before all that are not expedited.
    pub const EXPEDITE: Urgency = Urgency(31);

    /// An urgency from a number of any size.
    /// # Errors
    /// [`UrgencyError::OutOfRange`] outside 0 to 31.
    pub fn new(value: i64) -> Result<Urgency, UrgencyError> {
        match u8::try_from(value) {
            Ok(small) if small <= Urgency::EXPEDITE.0 => Ok(Urgency(small)),
            _ => Err(UrgencyError::OutOfRange { met: value }),
        }
    }

    /// The number, 0 to 31.
    #[must_use]
    pub fn get(self) -> u8 {
        self.0
    }

    /// The priority that follows by the default rule: the same number, but hold is 0 and expedite the maximum.
    #[must_use]
    pub fn priority(self) -> Priority {
        match self {
            Urgency::HOLD => Priority::HELD,
            Urgency::EXPEDITE => Priority::MAX,
            Urgency(value) => Priority(u32::from(value)),
        }
    }
}

impl Default for Urgency {
    fn default() -> Self {
        Urgency::DEFAULT
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Urgency {
    type Err = UrgencyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "hold" => Ok(Urgency::HOLD),
            "default" => Ok(Urgency::DEFAULT),
            "expedite" => Ok(Urgency::EXPEDITE),
            _ => match text.parse() {
                Ok(number) => Urgency::new(number),
                Err(_) => Err(UrgencyError::NotAnUrgency { met: clip(text) }),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Urgency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Urgency::new(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Where a job stands in the queue: higher goes first, ties by id. 0 is never offered to a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u32);

impl Priority {
    /// 0: held back.
    pub const HELD: Priority = Priority(0);
    /// The highest there is: expedited.
    pub const MAX: Priority = Priority(u32::MAX);
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rule() {
        assert_eq!(Urgency::HOLD.priority(), Priority(0));
        assert_eq!(Urgency::DEFAULT.priority(), Priority(16));
        assert_eq!(Urgency::new(30).unwrap().priority(), Priority(30));
        assert_eq!(Urgency::EXPEDITE.priority(), Priority(4_294_967_295));
    }

    #[test]
    fn words_numbers_and_the_range_in_the_error() {
        assert_eq!("hold".parse(), Ok(Urgency::HOLD));
        assert_eq!("Default".parse(), Ok(Urgency::DEFAULT));
        assert_eq!("EXPEDITE".parse(), Ok(Urgency::EXPEDITE));
        assert_eq!("31".parse(), Ok(Urgency::EXPEDITE));
        for (text, error) in [
            ("32", "urgency 32 is out of range: expected 0 to 31"),
            ("-1", "urgency -1 is out of range: expected 0 to 31"),
            (
                "",
                "urgency \"\" is not understood: expected 0 to 31, hold, default or expedite",
            ),
            (
                "1.5",
                "urgency \"1.5\" is not understood: expected 0 to 31, hold, default or expedite",
            ),
        ] {
            assert_eq!(text.parse::<Urgency>().unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn json_is_an_integer_within_the_range() {
        assert_eq!(serde_json::to_string(&Urgency::DEFAULT).unwrap(), "16");
        assert_eq!(
            serde_json::from_str::<Urgency>("31").unwrap(),
            Urgency::EXPEDITE
        );
        for bad in ["32", "-1", "1.0", "\"16\"", "9223372036854775808"] {
            assert!(serde_json::from_str::<Urgency>(bad).is_err(), "{bad}");
        }
    }
}
