//! A hash map by job id. Ids are given out by us, so a multiplication mixes well enough and nobody can aim collisions.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use job::JobId;

/// Jobs by id.
pub(crate) type IdMap<T> = HashMap<JobId, T, BuildHasherDefault<IdHasher>>;

/// Hashes the one integer of a [`JobId`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // Ids differ in their upper bits (time) and lower bits (sequence); the table looks at the top and at the bottom.
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}
