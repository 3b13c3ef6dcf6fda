//! Lists of host names as RFC 29 writes them: `foo[1-3],bar`, `n[00-2]-eth2`.
//!
//! Ordered, duplicates allowed. One `prefix[numbers]suffix` an element; a number keeps the width it
//! is written with, a range that of its first number. Held as ranges, expanded one name at a time.

use crate::json::clip;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// The most names one list may stand for.
pub const HOSTLIST_HOSTS_MAX: u64 = 1 << 20;

/// The most digits a number in a name may have to be counted with.
const DIGITS_MAX: usize = 18;

/// A list of host names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hostlist {
    runs: Vec<Run>,
    count: u64,
}

/// Neighbours in the list that differ in one number, counting up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    prefix: String,
    numbers: Option<Numbers>,
    suffix: String,
}

/// Numbers `first` to `last`, written with at least `width` digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Numbers {
    first: u64,
    last: u64,
    width: usize,
}

/// A text that is no hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// Brackets that do not close, nest, or come twice in one element.
    #[error("hostlist {met:?} is malformed: {element:?}: expected at most one [..] in a name")]
    Bracket {
        /// The text met, shortened.
        met: String,
        /// The element.
        element: String,
    },
    /// A character no host name has.
    #[error("hostlist {met:?} is malformed: {element:?}: white space in a name")]
    Space {
        /// The text met, shortened.
        met: String,
        /// The element.
        element: String,
    },
    /// Something between the brackets that is no number or range.
    #[error("hostlist {met:?} is malformed: {numbers:?}: expected numbers and ranges like 1,3-5")]
    Numbers {
        /// The text met, shortened.
        met: String,
        /// The piece between the brackets.
        numbers: String,
    },
    /// More names than a list may have.
    #[error("hostlist {met:?} stands for too many hosts: expected at most {HOSTLIST_HOSTS_MAX}")]
    TooMany {
        /// The text met, shortened.
        met: String,
    },
}

impl Numbers {
    fn count(self) -> u64 {
        self.last - self.first + 1
    }

    fn holds(self, digits: &str) -> bool {
        let number = digits.parse::<u64>().ok().filter(|_| is_number(digits));
        number.is_some_and(|n| {
            self.first <= n && n <= self.last && digits.len() == written_len(n).max(self.width)
        })
    }
}

impl Run {
    fn count(&self) -> u64 {
        self.numbers.map_or(1, Numbers::count)
    }

    fn name(&self, at: u64) -> String {
        match self.numbers {
            None => self.prefix.clone(),
            Some(Numbers { first, width, .. }) => {
                format!("{}{:0width$}{}", self.prefix, first + at, self.suffix)
            }
        }
    }

    fn holds(&self, name: &str) -> bool {
        match self.numbers {
            None => name == self.prefix,
            Some(numbers) => name
                .strip_prefix(self.prefix.as_str())
                .and_then(|rest| rest.strip_suffix(self.suffix.as_str()))
                .is_some_and(|digits| numbers.holds(digits)),
        }
    }

    fn same_name(&self, other: &Run) -> bool {
        self.numbers.is_some()
            && other.numbers.is_some()
            && self.prefix == other.prefix
            && self.suffix == other.suffix
    }
}

fn is_number(digits: &str) -> bool {
    (1..=DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
}

fn written_len(number: u64) -> usize {
    number
        .checked_ilog10()
        .map_or(1, |digits| digits as usize + 1)
}

impl Hostlist {
    /// The empty list.
    #[must_use]
    pub const fn new() -> Hostlist {
        Hostlist {
            runs: Vec::new(),
            count: 0,
        }
    }

    /// A list of names as they are, nothing in them expanded; names past [`HOSTLIST_HOSTS_MAX`] are left out.
    pub fn from_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Hostlist {
        let mut list = Hostlist::new();
        for name in names {
            list.push(name.as_ref());
        }
        list
    }

    /// Adds a name at the end; whether there was room.
    pub fn push(&mut self, name: &str) -> bool {
        if self.count >= HOSTLIST_HOSTS_MAX {
            return false;
        }
        self.count += 1;
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at(name.len() - digits);
        let parsed = if is_number(number) {
            number.parse::<u64>().ok()
        } else {
            None
        };
        let Some(parsed) = parsed else {
            self.runs.push(Run {
                prefix: name.to_owned(),
                numbers: None,
                suffix: String::new(),
            });
            return true;
        };
        if let Some(Run {
            prefix: last_prefix,
            numbers: Some(last),
            suffix,
        }) = self.runs.last_mut()
        {
            let follows = last.last + 1 == parsed
                && number.len() == written_len(parsed).max(last.width)
                && suffix.is_empty()
                && last_prefix == prefix;
            if follows {
                last.last = parsed;
                return true;
            }
        }
        let numbers = Some(Numbers {
            first: parsed,
            last: parsed,
            width: number.len(),
        });
        self.runs.push(Run {
            prefix: prefix.to_owned(),
            numbers,
            suffix: String::new(),
        });
        true
    }

    /// How many names there are, duplicates counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether the name is in the list.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.runs.iter().any(|run| run.holds(name))
    }

    /// Whether the two have a name in common; takes the smaller number of names times the other's runs.
    #[must_use]
    pub fn intersects(&self, other: &Hostlist) -> bool {
        let (few, many) = if self.count <= other.count {
            (self, other)
        } else {
            (other, self)
        };
        few.iter().any(|name| many.contains(&name))
    }

    /// The names in order; made one at a time.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        self.runs
            .iter()
            .flat_map(|run| (0..run.count()).map(move |at| run.name(at)))
    }

    /// The names at these places, from and (not included) to, ascending and not overlapping. Takes one pass over the runs, however many names
    /// they stand for.
    #[must_use]
    pub fn pick(&self, places: impl IntoIterator<Item = (u64, u64)>) -> Hostlist {
        let mut picked = Hostlist::new();
        let (mut runs, mut start) = (self.runs.iter().peekable(), 0);
        for (from, to) in places {
            while let Some(run) = runs.peek() {
                let end = start + run.count();
                let (low, high) = (from.max(start), to.min(end));
                if low < high {
                    picked.count += high - low;
                    let mut part = (*run).clone();
                    if let Some(numbers) = &mut part.numbers {
                        numbers.last = numbers.first + (high - start) - 1;
                        numbers.first += low - start;
                    }
                    picked.push_run(part);
                }
                if end > to {
                    break;
                }
                start = end;
                runs.next();
            }
        }
        picked
    }

    /// Adds a run that was counted, to the last one if it goes on from there.
    fn push_run(&mut self, run: Run) {
        if let Some(last) = self.runs.last_mut()
            && last.same_name(&run)
            && let (Some(before), Some(next)) = (&mut last.numbers, run.numbers)
            && before.last + 1 == next.first
            && before.width == next.width
        {
            before.last = next.last;
            return;
        }
        self.runs.push(run);
    }

    /// Adds all names of `other` at the end, as far as there is room.
    pub fn append(&mut self, other: &Hostlist) {
        for run in &other.runs {
            if self.count + run.count() > HOSTLIST_HOSTS_MAX {
                return;
            }
            self.count += run.count();
            self.runs.push(run.clone());
        }
    }
}

impl fmt::Display for Hostlist {
    /// Compressed: neighbours of one name share their brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.runs.len() {
            let run = &self.runs[at];
            let same = self.runs[at..]
                .iter()
                .take_while(|next| run.same_name(next))
                .count()
                .max(1);
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(&run.prefix)?;
            let several = same > 1 || run.count() > 1;
            f.write_str(if several { "[" } else { "" })?;
            for (nth, numbers) in self.runs[at..at + same]
                .iter()
                .filter_map(|r| r.numbers)
                .enumerate()
            {
                let Numbers { first, last, width } = numbers;
                write!(f, "{}{first:0width$}", if nth == 0 { "" } else { "," })?;
                if last > first {
                    write!(f, "-{last:0width$}")?;
                }
            }
            f.write_str(if several { "]" } else { "" })?;
            f.write_str(&run.suffix)?;
            at += same;
        }
        Ok(())
    }
}

impl FromStr for Hostlist {
    type Err = HostlistError;

    fn from_str(text: &str) -> Result<Hostlist, HostlistError> {
        let mut list = Hostlist::new();
        let mut depth = 0u32;
        let split = |c: char| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        for element in text.split(split).filter(|element| !element.is_empty()) {
            parse_element(text, element, &mut list)?;
        }
        Ok(list)
    }
}

fn parse_element(text: &str, element: &str, list: &mut Hostlist) -> Result<(), HostlistError> {
    let bracket = || HostlistError::Bracket {
        met: clip(text),
        element: clip(element),
    };
    if element.chars().any(char::is_whitespace) {
        return Err(HostlistError::Space {
            met: clip(text),
            element: clip(element),
        });
    }
    let too_many = || HostlistError::TooMany { met: clip(text) };
    let Some((prefix, rest)) = element.split_once('[') else {
        if element.contains(']') {
            return Err(bracket());
        }
        return if list.push(element) {
            Ok(())
        } else {
            Err(too_many())
        };
    };
    let (numbers, suffix) = rest.split_once(']').ok_or_else(bracket)?;
    if prefix.contains(']') || numbers.contains('[') || suffix.contains(['[', ']']) {
        return Err(bracket());
    }
    for piece in numbers.split(',') {
        let numbers = parse_numbers(piece).ok_or_else(|| HostlistError::Numbers {
            met: clip(text),
            numbers: clip(numbers),
        })?;
        if numbers.count() > HOSTLIST_HOSTS_MAX - list.count {
            return Err(too_many());
        }
        list.count += numbers.count();
        let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
        list.runs.push(Run {
            prefix,
            numbers: Some(numbers),
            suffix,
        });
    }
    Ok(())
}

fn parse_numbers(piece: &str) -> Option<Numbers> {
    let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
    if !is_number(first) || !is_number(last) {
        return None;
    }
    let numbers = Numbers {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
        width: first.len(),
    };
    if numbers.first <= numbers.last {
        Some(numbers)
    } else {
        None
    }
}

impl Serialize for Hostlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hostlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        text.parse::<Hostlist>().unwrap().iter().collect()
    }

    #[test]
    fn what_a_list_stands_for() {
        assert_eq!(names("foo[1-3]"), ["foo1", "foo2", "foo3"]);
        assert_eq!(names("[00-2]"), ["00", "01", "02"]);
        assert_eq!(names("foo[0-1]-eth2"), ["foo0-eth2", "foo1-eth2"]);
        assert_eq!(names("foo[1,1,2]"), ["foo1", "foo1", "foo2"]);
        assert_eq!(names("a,b[3,1],,a"), ["a", "b3", "b1", "a"]);
        assert_eq!(names("n[9-11]"), ["n9", "n10", "n11"]);
        assert_eq!(names("n[01,5-5]"), ["n01", "n5"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "a[",
            "a]",
            "a[1",
            "a1]",
            "a[1]b[2]",
            "a[[1]]",
            "a[]",
            "a[x]",
            "a[2-1]",
            "a[1-]",
            "a[-1]",
            "a[1,]",
            "a b",
            "a[1 ]",
            "a[1-2-3]",
            "a[1]]",
            "a[9999999999999999999]",
        ] {
            let error = text.parse::<Hostlist>().unwrap_err();
            assert!(
                error.to_string().contains(&format!("{text:?}")),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_hostile_range_is_refused_before_memory_is_taken() {
        for text in [
            "n[0-4000000000]",
            "n[0-999999999999999999]",
            "n[0-1048575],m",
        ] {
            let error = text.parse::<Hostlist>().unwrap_err();
            assert!(matches!(error, HostlistError::TooMany { .. }), "{error}");
        }
        assert_eq!(
            "n[0-1048575]".parse::<Hostlist>().unwrap().count(),
            HOSTLIST_HOSTS_MAX
        );
    }

    #[test]
    fn names_are_compressed() {
        for (names, shown) in [
            (&["node0"][..], "node0"),
            (&["node0", "node1", "node3"], "node[0-1,3]"),
            (&["node9", "node10", "x"], "node[9-10],x"),
            (&["n08", "n09", "n10"], "n[08-10]"),
            (&["n8", "n09"], "n[8,09]"),
            (&["b2", "a1", "b3"], "b2,a1,b3"),
            (&["x", "x"], "x,x"),
            (&["h99999999999999999999"], "h99999999999999999999"),
        ] {
            let list = Hostlist::from_names(names);
            assert_eq!(list.to_string(), shown);
            assert!(list.iter().eq(names.iter().copied()), "{shown}");
        }
    }

    #[test]
    fn membership_is_of_the_written_name() {
        let list: Hostlist = "n[08-12]-x,login".parse().unwrap();
        for name in ["n08-x", "n12-x", "login"] {
            assert!(list.contains(name), "{name}");
        }
        for name in [
            "n8-x", "n008-x", "n13-x", "n08", "n08-xy", "logi", "n-x", "n+9-x",
        ] {
            assert!(!list.contains(name), "{name}");
        }
        assert!(list.intersects(&"a,n09-x".parse().unwrap()));
        assert!(!list.intersects(&"a,n9-x".parse().unwrap()));
    }

    proptest! {
        #[test]
        fn compressing_keeps_names_and_order(names in prop::collection::vec("[ab]{1,2}[0-9]{0,3}", 0..12)) {
            let list = Hostlist::from_names(&names);
            let back: Hostlist = list.to_string().parse().unwrap();
            prop_assert!(back.iter().eq(names.iter().cloned()));
            prop_assert_eq!(list.count(), names.len() as u64);
            prop_assert!(names.iter().all(|name| back.contains(name)));
        }

        #[test]
        fn names_at_places_are_those_of_the_list(
            names in prop::collection::vec("[ab]{1,2}[0-9]{0,2}", 0..20),
            picked in prop::collection::vec(any::<bool>(), 20),
        ) {
            let list = Hostlist::from_names(&names);
            let mut places: Vec<(u64, u64)> = Vec::new();
            for (at, _) in names.iter().enumerate().filter(|(at, _)| picked[*at]) {
                let at = at as u64;
                match places.last_mut() {
                    // Neighbours in one range, or each in its own.
                    Some(last) if last.1 == at && !at.is_multiple_of(3) => last.1 += 1,
                    _ => places.push((at, at + 1)),
                }
            }
            let part = list.pick(places);
            let expected = names.iter().enumerate().filter(|(at, _)| picked[*at]);
            prop_assert!(part.iter().eq(expected.map(|(_, name)| name.clone())));
            prop_assert_eq!(part.count(), part.iter().count() as u64);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a\\[\\]0-9,\\- ]{0,16}") {
            if let Ok(list) = text.parse::<Hostlist>() {
                let back: Hostlist = list.to_string().parse().unwrap();
                prop_assert_eq!(back.count(), list.count());
                prop_assert!(back.iter().take(50).eq(list.iter().take(50)));
            }
        }
    }
}
