//! One total order: sorted keys in blocks, with a count tree over the blocks.
//!
//! ```text
//!  maxes  [ k7 | k15 | k21 ]          binary search: which block
//!  blocks [ k0…k7 | k8…k15 | k16…k21 ]  binary search: where in it
//!  counts   Fenwick tree over the block lengths: keys before a block, block of the n-th key
//! ```
//! Insert, remove, move and *rank* cost two binary searches, one move of at most [`BLOCK_KEYS_MAX`] keys and one
//! walk of the count tree. A block split or merge rebuilds the count tree; that is one small sum per block, paid
//! once in many changes. Reading in order is a walk over plain arrays.
//!
//! Why not a crate: the one maintained crate with rank keeps half-full nodes of 1,024 keys when ids are
//! appended (twice the memory we may use per job), has no bulk pass, and panics by contract at some edges.
//!
//! Each key may carry tags, as bits; `masks[i]` has at least those of all keys in `blocks[i]`, so a walk that wants one tag
//! skips whole blocks ([`Order::iter_tagged`]). A mask loses bits only when its block is made anew.
//!
//! Invariants: no block is empty; `maxes[i]` is the last key of `blocks[i]`; keys ascend within and across blocks.

use std::cmp::Ordering;

/// Most keys in one block.
pub const BLOCK_KEYS_MAX: usize = 256;
/// A rebuilt order fills its blocks this far, so that the next inserts do not split at once.
const BLOCK_KEYS_REBUILT: usize = 224;
/// Two neighbours that fit in this many keys together become one block.
const BLOCK_KEYS_MERGED: usize = 160;
/// A block with fewer keys than this looks for a neighbour to merge with.
const BLOCK_KEYS_SPARSE: usize = 48;
/// A bulk change of more than one key in this many rebuilds the order in one walk instead of moving each key.
const BULK_SHARE: usize = 24;
/// … but never for fewer keys than this.
const BULK_KEYS_MIN: usize = 512;

const _: () =
    assert!(BLOCK_KEYS_MERGED < BLOCK_KEYS_REBUILT && BLOCK_KEYS_REBUILT < BLOCK_KEYS_MAX);

/// A key that may carry tags.
pub trait Tagged: Copy + Ord {
    /// Its tags, one bit each.
    fn tags(&self) -> u64;
}

fn tags_of<K: Tagged>(keys: &[K]) -> u64 {
    keys.iter().fold(0, |mask, key| mask | key.tags())
}

/// Keys in ascending order, with rank.
#[derive(Debug, Clone)]
pub struct Order<K> {
    blocks: Vec<Vec<K>>,
    maxes: Vec<K>,
    masks: Vec<u64>,
    counts: Vec<u32>,
    len: usize,
}

impl<K> Default for Order<K> {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            maxes: Vec::new(),
            masks: Vec::new(),
            counts: Vec::new(),
            len: 0,
        }
    }
}

impl<K: Tagged> Order<K> {
    /// An order of no keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds an order from keys in any sequence; repeated keys are kept once.
    #[must_use]
    pub fn from_unsorted(mut keys: Vec<K>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self::from_ascending(keys.into_iter())
    }

    fn from_ascending(keys: impl Iterator<Item = K>) -> Self {
        let mut order = Self::new();
        let mut block: Vec<K> = Vec::new();
        for key in keys {
            if block.len() == BLOCK_KEYS_REBUILT {
                order.push_block(std::mem::take(&mut block));
            }
            if block.capacity() == 0 {
                block.reserve_exact(BLOCK_KEYS_MAX);
            }
            block.push(key);
        }
        order.push_block(block);
        order.recount();
        order
    }

    fn push_block(&mut self, block: Vec<K>) {
        if let Some(&last) = block.last() {
            self.len += block.len();
            self.maxes.push(last);
            self.masks.push(tags_of(&block));
            self.blocks.push(block);
        }
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes held, spare room included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let keys: usize = self.blocks.iter().map(Vec::capacity).sum();
        (keys + self.maxes.capacity()) * size_of::<K>()
            + self.blocks.capacity() * size_of::<Vec<K>>()
            + self.masks.capacity() * size_of::<u64>()
            + self.counts.capacity() * size_of::<u32>()
    }

    /// The block where `key` is or would be; `blocks.len()` when it is greater than every key.
    fn block_of(&self, key: &K) -> usize {
        self.maxes.partition_point(|max| max < key)
    }

    /// Adds a key. Returns false, and changes nothing, when it is there already.
    pub fn insert(&mut self, key: K) -> bool {
        let mut at = self.block_of(&key);
        let mut place = match self.blocks.get(at) {
            Some(block) => match block.binary_search(&key) {
                Ok(_) => return false,
                Err(place) => place,
            },
            None => 0,
        };
        // A key that goes before the first of its block may as well follow the last of the one before. This keeps
        // the blocks of ever-growing ids full.
        if place == 0 && at > 0 {
            let before = self.blocks.get(at - 1).map_or(0, Vec::len);
            if before < BLOCK_KEYS_MAX {
                at -= 1;
                place = before;
            } else {
                let mut block = Vec::with_capacity(BLOCK_KEYS_MAX);
                block.push(key);
                self.blocks.insert(at, block);
                self.maxes.insert(at, key);
                self.masks.insert(at, key.tags());
                self.len += 1;
                self.recount();
                return true;
            }
        }
        if self.blocks.is_empty() {
            self.blocks.push(Vec::with_capacity(BLOCK_KEYS_MAX));
            self.maxes.push(key);
            self.masks.push(0);
            self.recount();
        }
        let Some(block) = self.blocks.get_mut(at) else {
            return false;
        };
        if block.len() < BLOCK_KEYS_MAX {
            block.insert(place, key);
            self.note_max(at);
            self.note_tags(at, key.tags());
            self.len += 1;
            self.count_add(at, 1);
            return true;
        }
        let mut upper = Vec::with_capacity(BLOCK_KEYS_MAX);
        let middle = BLOCK_KEYS_MAX / 2;
        upper.extend(block.drain(middle..));
        if place <= middle {
            block.insert(place, key);
        } else {
            upper.insert(place - middle, key);
        }
        let lower_tags = tags_of(block);
        self.note_max(at);
        if let Some(mask) = self.masks.get_mut(at) {
            *mask = lower_tags;
        }
        if let Some(&last) = upper.last() {
            self.masks.insert(at + 1, tags_of(&upper));
            self.blocks.insert(at + 1, upper);
            self.maxes.insert(at + 1, last);
        }
        self.len += 1;
        self.recount();
        true
    }

    /// Takes a key out. Returns whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        let at = self.block_of(key);
        let Some(block) = self.blocks.get_mut(at) else {
            return false;
        };
        let Ok(place) = block.binary_search(key) else {
            return false;
        };
        block.remove(place);
        let left = block.len();
        self.len -= 1;
        if left == 0 {
            self.blocks.remove(at);
            self.maxes.remove(at);
            self.masks.remove(at);
            self.recount();
        } else {
            self.note_max(at);
            if left >= BLOCK_KEYS_SPARSE
                || !(self.merge_with_next(at) || at > 0 && self.merge_with_next(at - 1))
            {
                self.count_sub(at, 1);
            }
        }
        true
    }

    fn merge_with_next(&mut self, at: usize) -> bool {
        let (Some(here), Some(next)) = (self.blocks.get(at), self.blocks.get(at + 1)) else {
            return false;
        };
        if here.len() + next.len() > BLOCK_KEYS_MERGED {
            return false;
        }
        let next = self.blocks.remove(at + 1);
        self.maxes.remove(at + 1);
        let tags = self.masks.remove(at + 1);
        self.note_tags(at, tags);
        if let Some(here) = self.blocks.get_mut(at) {
            here.extend(next);
        }
        self.note_max(at);
        self.recount();
        true
    }

    fn note_max(&mut self, at: usize) {
        if let (Some(max), Some(&last)) = (
            self.maxes.get_mut(at),
            self.blocks.get(at).and_then(|block| block.last()),
        ) {
            *max = last;
        }
    }

    fn note_tags(&mut self, at: usize, tags: u64) {
        if let Some(mask) = self.masks.get_mut(at) {
            *mask |= tags;
        }
    }

    /// One pass over many changes: takes `gone` out, puts `new` in. Few changes are made one by one; many cost one
    /// walk over the whole order. Keys that are not there, or there already, are passed over.
    pub fn change(&mut self, mut gone: Vec<K>, mut new: Vec<K>) {
        let changes = gone.len() + new.len();
        if changes < BULK_KEYS_MIN || changes < self.len / BULK_SHARE {
            for key in &gone {
                self.remove(key);
            }
            for key in new {
                self.insert(key);
            }
            return;
        }
        gone.sort_unstable();
        new.sort_unstable();
        new.dedup();
        let old = std::mem::take(self);
        let mut gone = gone.into_iter().peekable();
        let kept = old.blocks.into_iter().flatten().filter(move |key| {
            while gone.next_if(|g| g < key).is_some() {}
            gone.peek() != Some(key)
        });
        *self = Self::from_ascending(Merge {
            left: kept.peekable(),
            right: new.into_iter().peekable(),
        });
    }

    /// How many keys come before `key`, whether or not it is in the order itself.
    #[must_use]
    pub fn before(&self, key: &K) -> usize {
        let at = self.block_of(key);
        let inside = self
            .blocks
            .get(at)
            .map_or(0, |block| block.partition_point(|k| k < key));
        self.prefix(at) + inside
    }

    /// How many keys come before `key`; `None` when it is not in the order.
    #[must_use]
    pub fn rank(&self, key: &K) -> Option<usize> {
        let at = self.block_of(key);
        let inside = self.blocks.get(at)?.binary_search(key).ok()?;
        Some(self.prefix(at) + inside)
    }

    /// Whether `key` is in the order.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.blocks
            .get(self.block_of(key))
            .is_some_and(|block| block.binary_search(key).is_ok())
    }

    /// The key that has `rank` keys before it.
    #[must_use]
    pub fn get(&self, rank: usize) -> Option<&K> {
        let (block, place) = self.locate(rank)?;
        self.blocks.get(block)?.get(place)
    }

    /// All keys, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &K> + '_ {
        self.blocks.iter().flatten()
    }

    /// Keys, ascending, of every block that may have one with some of `tags`; others of those blocks come along.
    pub fn iter_tagged(&self, tags: u64) -> impl Iterator<Item = &K> + '_ {
        let blocks = self.blocks.iter().zip(&self.masks);
        blocks
            .filter(move |(_, mask)| *mask & tags != 0)
            .flat_map(|(block, _)| block)
    }

    /// All keys from rank `rank` on, ascending.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = &K> + '_ {
        let (block, place) = self.locate(rank).unwrap_or((self.blocks.len(), 0));
        self.blocks.iter().skip(block).flatten().skip(place)
    }

    /// The first `len` keys, the last of them first.
    pub fn iter_down(&self, len: usize) -> impl Iterator<Item = &K> + '_ {
        let (blocks, rest) = self.locate(len).unwrap_or((self.blocks.len(), 0));
        let part = self.blocks.get(blocks).and_then(|block| block.get(..rest));
        let whole = self.blocks.get(..blocks).unwrap_or_default();
        let part = part.unwrap_or_default().iter().rev();
        part.chain(whole.iter().rev().flat_map(|block| block.iter().rev()))
    }

    fn locate(&self, rank: usize) -> Option<(usize, usize)> {
        if rank >= self.len {
            return None;
        }
        let mut left = u32::try_from(rank).ok()?;
        let mut at = 0;
        let mut step = self.counts.len().next_power_of_two();
        while step > 0 {
            if let Some(&count) = self.counts.get(at + step)
                && count <= left
            {
                at += step;
                left -= count;
            }
            step /= 2;
        }
        Some((at, left as usize))
    }

    // The Fenwick tree is one-based: counts[0] is unused.
    fn recount(&mut self) {
        self.counts.clear();
        self.counts.resize(self.blocks.len() + 1, 0);
        for at in 1..self.counts.len() {
            let own = self
                .blocks
                .get(at - 1)
                .map_or(0, |block| u32::try_from(block.len()).unwrap_or(u32::MAX));
            let parent = at + (at & at.wrapping_neg());
            let sum = match self.counts.get_mut(at) {
                Some(count) => {
                    *count += own;
                    *count
                }
                None => 0,
            };
            if let Some(count) = self.counts.get_mut(parent) {
                *count += sum;
            }
        }
    }

    fn count_add(&mut self, block: usize, by: u32) {
        let mut at = block + 1;
        while let Some(count) = self.counts.get_mut(at) {
            *count += by;
            at += at & at.wrapping_neg();
        }
    }

    fn count_sub(&mut self, block: usize, by: u32) {
        let mut at = block + 1;
        while let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_sub(by);
            at += at & at.wrapping_neg();
        }
    }

    fn prefix(&self, blocks: usize) -> usize {
        let mut at = blocks.min(self.blocks.len());
        let mut sum = 0;
        while at > 0 {
            sum += self.counts.get(at).copied().unwrap_or(0) as usize;
            at -= at & at.wrapping_neg();
        }
        sum
    }

    #[cfg(test)]
    fn check(&self) {
        assert_eq!(self.blocks.len(), self.maxes.len());
        assert_eq!(self.blocks.len(), self.masks.len());
        assert_eq!(self.len, self.blocks.iter().map(Vec::len).sum::<usize>());
        for (at, block) in self.blocks.iter().enumerate() {
            assert!(!block.is_empty() && block.len() <= BLOCK_KEYS_MAX);
            assert!(block.last() == self.maxes.get(at));
            let tags = tags_of(block);
            assert_eq!(self.masks[at] & tags, tags);
            assert_eq!(
                self.prefix(at),
                self.blocks[..at].iter().map(Vec::len).sum::<usize>()
            );
        }
        assert!(self.iter().zip(self.iter().skip(1)).all(|(a, b)| a < b));
    }
}

/// Two ascending runs as one, equal keys once.
struct Merge<L: Iterator, R: Iterator> {
    left: std::iter::Peekable<L>,
    right: std::iter::Peekable<R>,
}

impl<K: Ord, L: Iterator<Item = K>, R: Iterator<Item = K>> Iterator for Merge<L, R> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        match (self.left.peek(), self.right.peek()) {
            (Some(left), Some(right)) => match left.cmp(right) {
                Ordering::Less => self.left.next(),
                Ordering::Greater => self.right.next(),
                Ordering::Equal => {
                    self.right.next();
                    self.left.next()
                }
            },
            (Some(_), None) => self.left.next(),
            (None, _) => self.right.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    impl Tagged for u16 {
        fn tags(&self) -> u64 {
            1 << (self % 61)
        }
    }

    impl Tagged for u32 {
        fn tags(&self) -> u64 {
            u64::MAX
        }
    }

    impl Tagged for (u32, u64) {
        fn tags(&self) -> u64 {
            1
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16),
        Remove(u16),
        Bulk(Vec<u16>, Vec<u16>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u16..2000).prop_map(Step::Insert),
            6 => (0u16..2000).prop_map(Step::Remove),
            1 => (proptest::collection::vec(0u16..2000, 0..700), proptest::collection::vec(0u16..2000, 0..700))
                .prop_map(|(gone, new)| Step::Bulk(gone, new)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn an_order_equals_a_sorted_set_after_any_changes(steps in proptest::collection::vec(step(), 1..400)) {
            let mut order = Order::new();
            let mut model = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(key) => prop_assert_eq!(order.insert(key), model.insert(key)),
                    Step::Remove(key) => prop_assert_eq!(order.remove(&key), model.remove(&key)),
                    Step::Bulk(gone, new) => {
                        for key in &gone { model.remove(key); }
                        model.extend(new.iter().copied());
                        order.change(gone, new);
                    }
                }
                order.check();
            }
            prop_assert!(order.iter().eq(model.iter()));
            for (rank, key) in model.iter().enumerate() {
                prop_assert_eq!(order.rank(key), Some(rank));
                prop_assert_eq!(order.get(rank), Some(key));
            }
            for key in 0u16..2000 {
                prop_assert_eq!(order.before(&key), model.range(..key).count());
                prop_assert_eq!(order.contains(&key), model.contains(&key));
            }
            let tags = 1 << 7;
            let tagged: Vec<u16> = order.iter_tagged(tags).copied().filter(|key| key.tags() == tags).collect();
            let expected: Vec<u16> = model.iter().copied().filter(|key| key.tags() == tags).collect();
            prop_assert_eq!(tagged, expected);
            let half = model.len() / 2;
            prop_assert!(order.iter_from(half).eq(model.iter().skip(half)));
        }
    }

    #[test]
    fn growing_ids_fill_their_blocks() {
        let mut order = Order::new();
        for id in 0..100_000u64 {
            order.insert((1u32, id));
            order.insert((7u32, id));
        }
        order.check();
        assert!(
            order.heap_bytes() < 200_000 * 16 * 11 / 10,
            "{} bytes",
            order.heap_bytes()
        );
    }

    #[test]
    fn a_large_order_shrinks_to_nothing() {
        let mut order = Order::from_unsorted((0..50_000u32).rev().collect());
        for key in (0..50_000).step_by(2) {
            assert!(order.remove(&key));
        }
        order.check();
        for key in (1..50_000).step_by(2) {
            assert!(order.remove(&key));
        }
        order.check();
        assert!(order.is_empty() && order.get(0).is_none() && order.iter_from(0).next().is_none());
    }
}
