//! How many jobs and entries the archive should have: counted with each commit, so that a start notices what is gone without reading the log.
//!
//! A row that a broken page lost leaves no trace where it was, and neither does a row that somebody deleted: of a tail that is gone the job is
//! merely younger. Three numbers tell. What they do not fit is then looked for in the log, see `amiss`.

use std::fmt;
use std::str::FromStr;

use rusqlite::{Connection, OptionalExtension as _};

use crate::recover::set_meta;

/// The key; without it nothing is known, and a start looks through the log once.
pub(crate) const KEY_TALLY: &str = "store.tally";

/// What the archive has, or should have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Jobs.
    pub jobs: u64,
    /// Those that are active.
    pub active: u64,
    /// Entries in the eventlogs of those.
    pub entries: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.jobs, self.active, self.entries)
    }
}

impl FromStr for Tally {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(' ').map(str::parse);
        let mut next = || words.next().unwrap_or_else(|| "".parse());
        Ok(Self {
            jobs: next()?,
            active: next()?,
            entries: next()?,
        })
    }
}

/// What one transaction changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    pub(crate) jobs: i64,
    pub(crate) active: i64,
    pub(crate) entries: i64,
    /// More was changed, and nobody counted.
    pub(crate) unknown: bool,
}

impl Change {
    /// Notes it, inside the transaction.
    pub(crate) fn write(self, db: &Connection) -> Result<(), rusqlite::Error> {
        if self.unknown {
            return set_meta(db, KEY_TALLY, "");
        }
        if (self.jobs, self.active, self.entries) == (0, 0, 0) {
            return Ok(());
        }
        let Some(before) = read(db)? else {
            return Ok(());
        };
        let after = before
            .jobs
            .checked_add_signed(self.jobs)
            .zip(before.active.checked_add_signed(self.active))
            .zip(before.entries.checked_add_signed(self.entries))
            .map(|((jobs, active), entries)| Tally {
                jobs,
                active,
                entries,
            });
        set(db, after)
    }
}

/// What is noted, if anything is.
pub(crate) fn read(db: &Connection) -> Result<Option<Tally>, rusqlite::Error> {
    let text: Option<Option<String>> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY_TALLY], |row| Ok(row.get(0).ok()))
        .optional()?;
    Ok(text.flatten().and_then(|text| text.parse().ok()))
}

/// Notes it, or that nothing is known.
pub(crate) fn set(db: &Connection, tally: Option<Tally>) -> Result<(), rusqlite::Error> {
    let text = tally.map(|tally| tally.to_string());
    set_meta(db, KEY_TALLY, &text.unwrap_or_default())
}
