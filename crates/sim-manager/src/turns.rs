//! As `Share` of `bin/job-manager/src/turns.rs`, by count alone: time stands still within a turn.

/// How much of one connection is taken before it is another one's turn.
pub(crate) struct Share {
    left: usize,
}

impl Share {
    pub(crate) fn new(messages: usize) -> Share {
        Share { left: messages }
    }

    /// Whether one more may be taken; it counts as taken then.
    pub(crate) fn one_more(&mut self) -> bool {
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}
