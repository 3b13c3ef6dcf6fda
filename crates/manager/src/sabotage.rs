//! Deliberate faults, for the simulator to show that it would notice them. Only with the feature `sabotage`, which no binary has; of one
//! thread, and off until it is switched on.

use std::cell::Cell;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing waits for the disk.
    FsyncWait,
    /// A purge is not told in the journal.
    PurgeEntry,
}

thread_local! {
    static BROKEN: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

/// Breaks this, or nothing, in this thread.
pub fn set(broken: Option<Sabotage>) {
    BROKEN.set(broken);
}

pub(crate) fn is(broken: Sabotage) -> bool {
    BROKEN.get() == Some(broken)
}
