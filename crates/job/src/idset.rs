//! Sets of small numbers (ranks, cores) as RFC 22 writes them: `0-3,5`, or in brackets `[0-3,5]`.
//!
//! Held as ranges, ascending and never touching, so `0-4000000000` costs one of them. The text must
//! be ascending too; anything that is not is refused, only empty elements (`1,,2`) are let through.

use crate::json::clip;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The highest id; the two above it have a meaning of their own in RFC 22.
pub const IDSET_ID_MAX: u32 = u32::MAX - 2;

/// The most ranges a text may have.
pub const IDSET_RANGES_MAX: usize = 1 << 20;

/// A set of ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Idset {
    /// Ascending, not overlapping, not adjacent, both ends included.
    ranges: Vec<(u32, u32)>,
}

/// A text that is no idset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdsetError {
    /// One bracket without the other.
    #[error("idset {met:?} is malformed: a bracket without its other half")]
    Bracket {
        /// The text met, shortened.
        met: String,
    },
    /// Not a number, or one with leading zeros.
    #[error(
        "idset {met:?} is malformed: expected a decimal number without leading zeros, got {element:?}"
    )]
    Number {
        /// The text met, shortened.
        met: String,
        /// The piece that is wrong.
        element: String,
    },
    /// A number above the highest id.
    #[error("idset {met:?} is malformed: {element} is too large: expected at most {IDSET_ID_MAX}")]
    TooLarge {
        /// The text met, shortened.
        met: String,
        /// The number that is too large.
        element: String,
    },
    /// A range whose end is not above its start.
    #[error(
        "idset {met:?} is malformed: {element:?}: expected the end of a range to be greater than its start"
    )]
    Backwards {
        /// The text met, shortened.
        met: String,
        /// The range.
        element: String,
    },
    /// An element that is not above the one before it.
    #[error("idset {met:?} is malformed: {element:?}: expected ids to ascend, each one once")]
    NotAscending {
        /// The text met, shortened.
        met: String,
        /// The element.
        element: String,
    },
    /// More ranges than are read.
    #[error("idset {met:?} has too many ranges: expected at most {IDSET_RANGES_MAX}")]
    TooMany {
        /// The text met, shortened.
        met: String,
    },
}

impl Idset {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Idset {
        Idset { ranges: Vec::new() }
    }

    /// All ids from `first` to `last`; empty if there is none or one is above [`IDSET_ID_MAX`].
    #[must_use]
    pub fn from_range(first: u32, last: u32) -> Idset {
        let mut set = Idset::new();
        if first <= last && last <= IDSET_ID_MAX {
            set.ranges.push((first, last));
        }
        set
    }

    /// Adds one id; one above [`IDSET_ID_MAX`] is not taken.
    pub fn insert(&mut self, id: u32) {
        if id > IDSET_ID_MAX {
            return;
        }
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        let inside = self.ranges.get(at).is_some_and(|&(first, _)| first <= id);
        if inside {
            return;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 + 1 == id;
        let joins_right = self
            .ranges
            .get(at)
            .is_some_and(|&(first, _)| first == id + 1);
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = id,
            (false, true) => self.ranges[at].0 = id,
            (false, false) => self.ranges.insert(at, (id, id)),
        }
    }

    /// Takes one id out; whether it was there.
    pub fn remove(&mut self, id: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        let Some(&(first, last)) = self.ranges.get(at) else {
            return false;
        };
        if id < first {
            return false;
        }
        match (id == first, id == last) {
            (true, true) => {
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at].0 = id + 1,
            (false, true) => self.ranges[at].1 = id - 1,
            (false, false) => {
                self.ranges[at].1 = id - 1;
                self.ranges.insert(at + 1, (id + 1, last));
            }
        }
        true
    }

    /// How many ids there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(first, last)| u64::from(last - first) + 1)
            .sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest id.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|&(first, _)| first)
    }

    /// The highest id.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|&(_, last)| last)
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < id);
        self.ranges.get(at).is_some_and(|&(first, _)| first <= id)
    }

    /// Whether the two have an id in common.
    #[must_use]
    pub fn intersects(&self, other: &Idset) -> bool {
        let (mut left, mut right) = (
            self.ranges.iter().peekable(),
            other.ranges.iter().peekable(),
        );
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            if a.0 <= b.1 && b.0 <= a.1 {
                return true;
            }
            if a.1 < b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        false
    }

    /// All ids of both.
    #[must_use]
    pub fn union(&self, other: &Idset) -> Idset {
        Idset::union_of([self, other])
    }

    /// All ids of all of them, in one pass.
    pub fn union_of<'s>(sets: impl IntoIterator<Item = &'s Idset>) -> Idset {
        let mut all: Vec<(u32, u32)> = sets
            .into_iter()
            .flat_map(|set| &set.ranges)
            .copied()
            .collect();
        all.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match ranges.last_mut() {
                Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
                _ => ranges.push((first, last)),
            }
        }
        Idset { ranges }
    }

    /// The ids of this set that are not in the other, in one pass.
    #[must_use]
    pub fn difference(&self, other: &Idset) -> Idset {
        let mut ranges = Vec::new();
        let mut holes = other.ranges.iter().peekable();
        for &(first, last) in &self.ranges {
            // From here on nothing of the range is decided; `None` when all of it is.
            let mut from = Some(first);
            while let Some(&&(hole_first, hole_last)) = holes.peek() {
                if hole_first > last {
                    break;
                }
                if let Some(at) = from.filter(|&at| at < hole_first) {
                    ranges.push((at, hole_first - 1));
                }
                if hole_last >= last {
                    from = None;
                    break;
                }
                from = from.map(|at| at.max(hole_last + 1));
                holes.next();
            }
            if let Some(at) = from {
                ranges.push((at, last));
            }
        }
        Idset { ranges }
    }

    /// The ids that both have, in one pass.
    #[must_use]
    pub fn intersection(&self, other: &Idset) -> Idset {
        let mut ranges = Vec::new();
        let (mut left, mut right) = (
            self.ranges.iter().peekable(),
            other.ranges.iter().peekable(),
        );
        while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
            let (first, last) = (a.0.max(b.0), a.1.min(b.1));
            if first <= last {
                ranges.push((first, last));
            }
            if a.1 < b.1 {
                left.next();
            } else {
                right.next();
            }
        }
        Idset { ranges }
    }

    /// Whether the other has all ids of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Idset) -> bool {
        self.ranges.iter().all(|&(first, last)| {
            let at = other.ranges.partition_point(|&(_, end)| end < last);
            let over = other.ranges.get(at);
            over.is_some_and(|&(start, _)| start <= first)
        })
    }

    /// The ranges, ascending, both ends included.
    #[must_use]
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    /// The ids, ascending; made one at a time.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| first..=last)
    }

    /// As listings show it: in brackets if there is more than one id, `0`, `[0-3]`.
    #[must_use]
    pub fn bracketed(&self) -> String {
        if self.count() > 1 {
            format!("[{self}]")
        } else {
            self.to_string()
        }
    }
}

impl FromIterator<u32> for Idset {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Idset {
        let mut set = Idset::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl fmt::Display for Idset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Idset {
    type Err = IdsetError;

    fn from_str(text: &str) -> Result<Idset, IdsetError> {
        let inner = match (text.strip_prefix('['), text.strip_suffix(']')) {
            (None, None) => text,
            (Some(_), Some(_)) if text.len() >= 2 => &text[1..text.len() - 1],
            _ => return Err(IdsetError::Bracket { met: clip(text) }),
        };
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for element in inner.split(',').filter(|element| !element.is_empty()) {
            let (first, last) = parse_element(text, element)?;
            let full = ranges.len() == IDSET_RANGES_MAX;
            match ranges.last_mut() {
                Some(end) if first <= end.1 => {
                    let (met, element) = (clip(text), clip(element));
                    return Err(IdsetError::NotAscending { met, element });
                }
                Some(end) if first == end.1 + 1 => end.1 = last,
                _ if full => {
                    return Err(IdsetError::TooMany { met: clip(text) });
                }
                _ => ranges.push((first, last)),
            }
        }
        Ok(Idset { ranges })
    }
}

fn parse_element(text: &str, element: &str) -> Result<(u32, u32), IdsetError> {
    match element.split_once('-') {
        None => parse_id(text, element).map(|id| (id, id)),
        Some((first, last)) => {
            let (first, last) = (parse_id(text, first)?, parse_id(text, last)?);
            if first < last {
                Ok((first, last))
            } else {
                Err(IdsetError::Backwards {
                    met: clip(text),
                    element: clip(element),
                })
            }
        }
    }
}

fn parse_id(text: &str, digits: &str) -> Result<u32, IdsetError> {
    let padded = digits.len() > 1 && digits.starts_with('0');
    if padded || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IdsetError::Number {
            met: clip(text),
            element: clip(digits),
        });
    }
    match digits.parse() {
        Ok(id) if id <= IDSET_ID_MAX => Ok(id),
        _ => Err(IdsetError::TooLarge {
            met: clip(text),
            element: clip(digits),
        }),
    }
}

impl Serialize for Idset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Idset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_the_real_parser_accepts() {
        for (text, shown) in [
            ("1,2,3,5", "1-3,5"),
            ("[1-3]", "1-3"),
            ("", ""),
            ("[]", ""),
            ("1,,2", "1-2"),
            ("0", "0"),
            ("1-3,4", "1-4"),
            ("4294967293", "4294967293"),
        ] {
            assert_eq!(text.parse::<Idset>().unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_the_real_parser_refuses() {
        for text in [
            "0-0",
            "3,1",
            "2-1",
            "01",
            "1,1",
            "1-",
            "[1",
            "1 ,2",
            "4294967294",
            "1]",
            "[",
            "]",
            "-1",
            "-",
            "1-2-3",
            "a",
            "+1",
            "1-3,3",
            "99999999999999999999",
            "[[1]]",
            "0x1",
            "1-01",
            "[1]-",
        ] {
            let error = text.parse::<Idset>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("{text:?}")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_hostile_range_takes_no_memory() {
        let set: Idset = "[0-4000000000]".parse().unwrap();
        assert_eq!((set.count(), set.ranges().len()), (4_000_000_001, 1));
        assert!(set.contains(3_999_999_999) && !set.contains(4_000_000_001));
        assert_eq!(set.iter().nth(5), Some(5));
    }

    #[test]
    fn brackets_only_around_more_than_one() {
        for (text, shown) in [("", ""), ("0", "0"), ("0-3", "[0-3]"), ("0,2", "[0,2]")] {
            assert_eq!(text.parse::<Idset>().unwrap().bracketed(), shown);
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_set(ids in prop::collection::vec(0u32..64, 0..40), other in prop::collection::vec(0u32..64, 0..40)) {
            let mut model = BTreeSet::new();
            let mut set = Idset::new();
            for id in ids {
                if model.remove(&id) {
                    prop_assert!(set.remove(id));
                } else {
                    model.insert(id);
                    set.insert(id);
                }
                prop_assert_eq!(set.count(), model.len() as u64);
            }
            prop_assert!(set.iter().eq(model.iter().copied()));
            prop_assert!((0..64).all(|id| set.contains(id) == model.contains(&id)));
            prop_assert!(!set.clone().remove(100));
            prop_assert_eq!(set.to_string().parse::<Idset>().unwrap(), set.clone());
            let other_set: Idset = other.iter().copied().collect();
            prop_assert_eq!(set.intersects(&other_set), other.iter().any(|id| model.contains(id)));
            let others: BTreeSet<u32> = other.iter().copied().collect();
            let difference = set.difference(&other_set);
            prop_assert!(difference.iter().eq(model.difference(&others).copied()));
            prop_assert_eq!(&difference, &difference.iter().collect());
            let shared = set.intersection(&other_set);
            prop_assert!(shared.iter().eq(model.intersection(&others).copied()));
            prop_assert_eq!(&shared, &shared.iter().collect());
            prop_assert_eq!(set.is_subset(&other_set), model.is_subset(&others));
            prop_assert!(shared.is_subset(&set) && difference.is_subset(&set));
            let both: BTreeSet<u32> = model.iter().chain(&other).copied().collect();
            prop_assert!(set.union(&other_set).iter().eq(both.iter().copied()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]0-9,\\- ]{0,20}") {
            if let Ok(set) = text.parse::<Idset>() {
                prop_assert_eq!(set.to_string().parse::<Idset>().unwrap(), set);
            }
        }
    }
}
