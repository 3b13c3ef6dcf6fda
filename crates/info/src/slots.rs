//! A set of jobs by slot number: a few as a sorted array, many as a compressed bitmap.
//!
//! An index has one such set per user, queue, name and node. Most names belong to a few jobs and must cost a few
//! bytes; some users own a million and must cost a bit each.

use roaring::RoaringBitmap;

/// Up to this many slots stay a plain array.
const FEW_SLOTS_MAX: usize = 24;

/// A job's place in the slab.
pub type Slot = u32;

/// A set of slots.
#[derive(Debug, Clone)]
pub enum Slots {
    /// At most `FEW_SLOTS_MAX`, ascending.
    Few(Vec<Slot>),
    /// Any number.
    Many(Box<RoaringBitmap>),
}

impl Default for Slots {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Slots {
    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        match self {
            Self::Few(few) => {
                let Err(place) = few.binary_search(&slot) else {
                    return;
                };
                if few.len() < FEW_SLOTS_MAX {
                    // Grow exactly at first: a name that one job has is the common case.
                    if few.len() < 2 {
                        few.reserve_exact(1);
                    }
                    few.insert(place, slot);
                } else {
                    let mut many: RoaringBitmap = few.iter().copied().collect();
                    many.insert(slot);
                    *self = Self::Many(Box::new(many));
                }
            }
            Self::Many(many) => {
                many.insert(slot);
            }
        }
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: Slot) {
        match self {
            Self::Few(few) => {
                if let Ok(place) = few.binary_search(&slot) {
                    few.remove(place);
                }
            }
            Self::Many(many) => {
                many.remove(slot);
                if many.len() < FEW_SLOTS_MAX as u64 / 2 {
                    *self = Self::Few(many.iter().collect());
                }
            }
        }
    }

    /// Whether the set holds `slot`.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        match self {
            Self::Few(few) => few.binary_search(&slot).is_ok(),
            Self::Many(many) => many.contains(slot),
        }
    }

    /// How many slots the set holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Few(few) => few.len() as u64,
            Self::Many(many) => many.len(),
        }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds all of this set to `sum`.
    pub fn add_to(&self, sum: &mut RoaringBitmap) {
        match self {
            Self::Few(few) => sum.extend(few.iter().copied()),
            Self::Many(many) => *sum |= many.as_ref(),
        }
    }

    /// Bytes held beside the value itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Few(few) => few.capacity() * size_of::<Slot>(),
            Self::Many(many) => size_of::<RoaringBitmap>() + many.serialized_size(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_set_is_the_same_set_in_both_forms() {
        let mut slots = Slots::default();
        let mut model = BTreeSet::new();
        // A fixed walk that crosses the border between the forms many times.
        let mut state = 7u32;
        for step in 0..4000u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (state >> 16) % 40;
            if (step / 60) % 2 == 0 || state & 4 == 0 {
                slots.insert(slot);
                model.insert(slot);
            } else {
                slots.remove(slot);
                model.remove(&slot);
            }
            assert_eq!(slots.len(), model.len() as u64);
            assert!((0..40).all(|slot| slots.contains(slot) == model.contains(&slot)));
        }
        let mut sum = RoaringBitmap::new();
        slots.add_to(&mut sum);
        assert!(sum.iter().eq(model.iter().copied()));
    }
}
