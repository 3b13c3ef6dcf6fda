//! The four ways in which the cores can be broken on purpose, by name.

use journal::sabotage::Sabotage as Journal;
use manager::sabotage::Sabotage as Manager;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing waits for the disk.
    FsyncWait,
    /// Listeners get entries when they are decided.
    FanOutBeforeCommit,
    /// A cursor of any epoch is accepted.
    ForgetEpoch,
    /// A purge is not told.
    SkipPurgeEntry,
}

impl Sabotage {
    /// All.
    pub const ALL: [Sabotage; 4] = [
        Sabotage::FsyncWait,
        Sabotage::FanOutBeforeCommit,
        Sabotage::ForgetEpoch,
        Sabotage::SkipPurgeEntry,
    ];

    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sabotage::FsyncWait => "fsync-wait",
            Sabotage::FanOutBeforeCommit => "fan-out-before-commit",
            Sabotage::ForgetEpoch => "forget-epoch",
            Sabotage::SkipPurgeEntry => "skip-purge-entry",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Sabotage> {
        Sabotage::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Breaks this in this thread, or nothing.
pub fn set(sabotage: Option<Sabotage>) {
    let (manager, journal) = match sabotage {
        None => (None, None),
        Some(Sabotage::FsyncWait) => (Some(Manager::FsyncWait), None),
        Some(Sabotage::SkipPurgeEntry) => (Some(Manager::PurgeEntry), None),
        Some(Sabotage::FanOutBeforeCommit) => (None, Some(Journal::FanOutBeforeCommit)),
        Some(Sabotage::ForgetEpoch) => (None, Some(Journal::Epoch)),
    };
    manager::sabotage::set(manager);
    journal::sabotage::set(journal);
}
