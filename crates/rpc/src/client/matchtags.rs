//! Matchtags of one connection: the lowest free number first, used again at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What waits under each matchtag. Tag N is at place N-1.
#[derive(Debug)]
pub(crate) struct Matchtags<T> {
    waiting: Vec<Option<T>>,
    free: BinaryHeap<Reverse<u32>>,
}

impl<T> Default for Matchtags<T> {
    fn default() -> Matchtags<T> {
        Matchtags {
            waiting: Vec::new(),
            free: BinaryHeap::new(),
        }
    }
}

impl<T> Matchtags<T> {
    /// Takes the lowest free tag; never 0.
    pub(crate) fn take(&mut self, waiter: T) -> u32 {
        if let Some(Reverse(tag)) = self.free.pop() {
            self.waiting[tag as usize - 1] = Some(waiter);
            return tag;
        }
        self.waiting.push(Some(waiter));
        u32::try_from(self.waiting.len()).unwrap_or(u32::MAX)
    }

    /// Who waits under `tag`.
    pub(crate) fn get(&self, tag: u32) -> Option<&T> {
        let at = (tag as usize).checked_sub(1)?;
        self.waiting.get(at)?.as_ref()
    }

    /// Frees `tag`; who waited under it.
    pub(crate) fn release(&mut self, tag: u32) -> Option<T> {
        let at = (tag as usize).checked_sub(1)?;
        let waiter = self.waiting.get_mut(at)?.take()?;
        self.free.push(Reverse(tag));
        Some(waiter)
    }

    /// Tags in use.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() - self.free.len()
    }

    /// Frees all.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_tag_comes_first() {
        let mut tags = Matchtags::default();
        assert_eq!((tags.take('a'), tags.take('b'), tags.take('c')), (1, 2, 3));
        assert_eq!(
            (tags.release(3), tags.release(1), tags.release(1)),
            (Some('c'), Some('a'), None)
        );
        assert_eq!((tags.take('d'), tags.take('e'), tags.take('f')), (1, 3, 4));
        assert_eq!(
            (tags.get(2), tags.get(3), tags.get(0), tags.get(9)),
            (Some(&'b'), Some(&'e'), None, None)
        );
        assert_eq!(
            (tags.release(0), tags.release(9), tags.len()),
            (None, None, 4)
        );
    }
}
