//! Points in time as RFC 18 writes them: seconds since 1970 as a real number.
//!
//! Never read here: whoever has a clock passes the time in. An instance never lets time go back
//! (`later_of` of now and the last one), so orders by time are orders by event.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// Seconds since 1970. Totally ordered; reads back to the same bits after being written.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timestamp(pub f64);

impl Timestamp {
    /// The beginning of 1970.
    pub const ZERO: Timestamp = Timestamp(0.0);

    /// The later of the two.
    #[must_use]
    pub fn later_of(self, other: Timestamp) -> Timestamp {
        if other > self { other } else { self }
    }

    /// Whether this is a number a log may hold: finite and not before 1970.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.0.is_finite() && self.0 >= 0.0
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Timestamp {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buf = Vec::with_capacity(20);
        crate::json::push_f64(&mut buf, self.0);
        f.write_str(&String::from_utf8_lossy(&buf))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Timestamp)
    }
}

/// A time that may not have come yet, in the space of one: a job holds seven of them.
#[derive(Clone, Copy)]
pub struct MaybeTimestamp(f64);

impl MaybeTimestamp {
    /// Not yet.
    pub const NONE: MaybeTimestamp = MaybeTimestamp(f64::NAN);

    /// The time, if it has come.
    #[must_use]
    pub fn get(self) -> Option<Timestamp> {
        if self.0.is_nan() {
            None
        } else {
            Some(Timestamp(self.0))
        }
    }

    /// Whether it has come.
    #[must_use]
    pub fn is_some(self) -> bool {
        !self.0.is_nan()
    }

    /// Whether it has not come yet.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0.is_nan()
    }

    pub(crate) fn set_first(&mut self, time: Timestamp) {
        if self.is_none() {
            *self = MaybeTimestamp::from(time);
        }
    }
}

impl From<Timestamp> for MaybeTimestamp {
    fn from(time: Timestamp) -> Self {
        MaybeTimestamp(time.0)
    }
}

impl PartialEq for MaybeTimestamp {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for MaybeTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_total_and_text_has_a_point() {
        let (a, b) = (Timestamp(1.0), Timestamp(1.5));
        assert!(a < b && a.later_of(b) == b && b.later_of(a) == b);
        assert_eq!(a.to_string(), "1.0");
        assert_eq!(serde_json::to_string(&a).unwrap(), "1.0");
        assert_eq!(serde_json::from_str::<Timestamp>("1").unwrap(), a);
        assert!(!Timestamp(f64::NAN).is_valid() && !Timestamp(-1.0).is_valid());
    }

    #[test]
    fn a_missing_time_takes_no_extra_space() {
        assert_eq!(size_of::<MaybeTimestamp>(), 8);
        let mut time = MaybeTimestamp::NONE;
        assert_eq!(time.get(), None);
        time.set_first(Timestamp(2.0));
        time.set_first(Timestamp(3.0));
        assert_eq!(time.get(), Some(Timestamp(2.0)));
    }
}
