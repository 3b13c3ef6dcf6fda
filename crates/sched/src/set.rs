//! A small set of numbers: the cores or the GPUs of one node, as a bitmap.
//!
//! Written and read as an RFC 22 idset. Ids are bounded by [`ID_MAX`], so that a set from outside costs little memory.

use std::fmt;

/// The largest id a set holds: no machine has more cores.
pub const ID_MAX: u32 = 65_535;

/// A set of ids, ascending.
#[derive(Debug, Clone, Default)]
pub struct Set {
    words: Vec<u64>,
}

impl Set {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Set {
        Set { words: Vec::new() }
    }

    /// The ids `0..count`.
    #[must_use]
    pub fn first(count: u32) -> Set {
        (0..count).collect()
    }

    /// Adds an id; ids above [`ID_MAX`] are ignored.
    pub fn insert(&mut self, id: u32) {
        if id > ID_MAX {
            return;
        }
        let word = (id / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (id % 64);
    }

    /// Whether `id` is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get((id / 64) as usize)
            .is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// How many ids there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..).zip(&self.words).flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = rest.trailing_zeros();
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }

    /// The lowest `count` ids, or fewer if there are fewer.
    #[must_use]
    pub fn lowest(&self, count: u32) -> Set {
        self.iter().take(count as usize).collect()
    }

    /// Adds all ids of `other`.
    pub fn add(&mut self, other: &Set) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Takes all ids of `other` out.
    pub fn remove(&mut self, other: &Set) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
    }

    /// What is in both.
    #[must_use]
    pub fn common(&self, other: &Set) -> Set {
        Set {
            words: self
                .words
                .iter()
                .zip(&other.words)
                .map(|(a, b)| a & b)
                .collect(),
        }
    }

    /// Reads an idset; `None` if the text is not one or names an id above [`ID_MAX`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Set> {
        let inner = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None => text,
        };
        let mut set = Set::new();
        if inner.is_empty() {
            return Some(set);
        }
        for part in inner.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            if low > high || high > ID_MAX {
                return None;
            }
            for id in low..=high {
                set.insert(id);
            }
        }
        Some(set)
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Set) -> bool {
        let longest = self.words.len().max(other.words.len());
        (0..longest).all(|at| self.words.get(at).unwrap_or(&0) == other.words.get(at).unwrap_or(&0))
    }
}

impl Eq for Set {}

impl FromIterator<u32> for Set {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Set {
        let mut set = Set::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut ids = self.iter().peekable();
        while let Some(low) = ids.next() {
            let mut high = low;
            while ids.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            let comma = if first { "" } else { "," };
            first = false;
            if low == high {
                write!(f, "{comma}{low}")?;
            } else {
                write!(f, "{comma}{low}-{high}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_back_what_it_wrote() {
        for text in ["", "0", "0-3", "1,3,5-7", "63-64", "0-1,127-129"] {
            assert_eq!(Set::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Set::parse("[2-3]").unwrap().to_string(), "2-3");
        for text in ["3-1", "x", "1-", "[1", "70000"] {
            assert_eq!(Set::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sets_of_unequal_length_compare_by_content() {
        let mut wide = Set::first(70);
        wide.remove(&(3..70).collect());
        assert_eq!(wide, Set::first(3));
        assert_eq!(wide.len(), 3);
        assert_eq!(wide.lowest(2), Set::first(2));
    }
}
