//! The place of an entry among all entries of one instance.
//!
//! Gapless, starting at 1, never reused, kept across restarts. 0 means "before the first".

use serde::{Deserialize, Serialize};
use std::fmt;

/// Place of an entry among all entries; also "how far" a reader, a store or an answer is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first entry.
    pub const ZERO: Seq = Seq(0);

    /// The place right after this one.
    #[must_use]
    pub fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
