//! How much is kept: of jobs that ended, and of the log behind the journal.
//!
//! The log is what a reader with an old cursor goes on from. Beyond its limit the oldest of it goes, a bounded piece with each commit, and
//! the floor rises: a cursor below it is refused, and says so. Each job's own eventlog stays until the job is purged; so it is the floor that
//! gives back the room that purged jobs had in the log.

use job::Seq;
use store::Batch;

/// Entries of the log kept by default.
pub const LOG_ENTRIES_LIMIT: u64 = 10_000_000;
/// Bytes of the log kept by default.
pub const LOG_BYTES_LIMIT: u64 = 4 << 30;
/// With one commit at most so many entries go, and twice what it brings.
const STEP_ENTRIES: u64 = 4096;

/// What is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Retention {
    /// Seconds that a job stays that has ended; `None` = for ever.
    pub inactive_age: Option<f64>,
    /// So many jobs stay of those that ended, the last ones; `None` = all.
    pub inactive_num: Option<u64>,
    /// Entries of the log.
    pub log_entries: u64,
    /// Bytes of the log, about.
    pub log_bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            inactive_age: None,
            inactive_num: None,
            log_entries: LOG_ENTRIES_LIMIT,
            log_bytes: LOG_BYTES_LIMIT,
        }
    }
}

/// The log's two ends and its size, and how large it may be.
#[derive(Debug)]
pub(crate) struct LogLimit {
    entries_max: u64,
    bytes_max: u64,
    floor: Seq,
    newest: Seq,
    /// Of all entries above the floor; what was there at the start is an estimate.
    bytes: f64,
}

impl LogLimit {
    /// The log as it is at the start, `bytes` long.
    pub(crate) fn new(retention: &Retention, floor: Seq, newest: Seq, bytes: u64) -> LogLimit {
        LogLimit {
            entries_max: retention.log_entries.max(1),
            bytes_max: retention.log_bytes.max(1),
            floor,
            newest,
            bytes: bytes as f64,
        }
    }

    /// Takes note of a batch that is about to be stored; what of the log is to go with it.
    pub(crate) fn trim(&mut self, batch: &Batch) -> Option<Seq> {
        let newest = batch.entries.last()?.seq;
        let before = std::mem::replace(&mut self.newest, newest);
        let brought = newest.0.saturating_sub(before.0);
        let lines = batch.entries.iter().map(|entry| entry.line().len());
        self.bytes += lines.sum::<usize>() as f64;
        let entries = newest.0.saturating_sub(self.floor.0);
        let each = self.bytes / entries.max(1) as f64;
        let too_many = entries.saturating_sub(self.entries_max);
        let too_long = ((self.bytes - self.bytes_max as f64) / each.max(1.0)).max(0.0) as u64;
        let excess = too_many.max(too_long);
        // Not with every commit a little.
        let slack = (self.entries_max.min(entries) / 16).min(STEP_ENTRIES);
        if excess <= slack {
            return None;
        }
        // What the batch brings is not there yet when the rest is cut.
        let gone = excess
            .min(STEP_ENTRIES.max(2 * brought))
            .min(before.0.saturating_sub(self.floor.0));
        if gone == 0 {
            return None;
        }
        self.floor = Seq(self.floor.0 + gone);
        self.bytes -= each * gone as f64;
        Some(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::{Attach, Entry, Event, Source};
    use std::sync::Arc;

    fn batch(from: u64, entries: u64) -> Batch {
        let event = Event::parse(br#"{"timestamp":1.5,"name":"x"}"#).unwrap();
        let entry = |seq| {
            let entry = Entry::new(Seq(seq), Source::System, 1, 0, true, &event, Attach::None);
            Arc::new(entry)
        };
        Batch {
            entries: (from..from + entries).map(entry).collect(),
            ..Batch::default()
        }
    }

    fn kept(retention: &Retention, entries: u64) -> (u64, u64) {
        let mut log = LogLimit::new(retention, Seq(0), Seq(0), 0);
        let (mut floor, mut newest, mut most) = (0, 0, 0);
        while newest < 100_000 {
            if let Some(upto) = log.trim(&batch(newest + 1, entries)) {
                assert!(upto.0 > floor && upto.0 - floor <= STEP_ENTRIES.max(2 * entries));
                floor = upto.0;
            }
            newest += entries;
            most = most.max(newest - floor);
        }
        (newest - floor, most)
    }

    #[test]
    fn the_log_stays_within_its_limits_whatever_the_size_of_commits() {
        for entries in [1, 7, 100, 9000] {
            let limit = Retention {
                log_entries: 10_000,
                ..Retention::default()
            };
            let (left, most) = kept(&limit, entries);
            assert!(
                left >= 10_000 && most <= 10_000 + 625 + 2 * entries,
                "{entries}: {left} {most}"
            );
            let line = batch(50_000, 1).entries[0].line().len() as u64;
            let limit = Retention {
                log_bytes: 10_000 * line,
                ..Retention::default()
            };
            let (left, most) = kept(&limit, entries);
            assert!(
                (9_000..=11_500).contains(&left) && most <= 11_500 + 2 * entries,
                "{entries}: {left} {most}"
            );
            assert_eq!(
                kept(&Retention::default(), entries).0,
                kept(&Retention::default(), entries).1
            );
        }
    }

    #[test]
    fn a_limit_that_was_lowered_is_reached_step_by_step_and_the_newest_entry_stays() {
        let limit = Retention {
            log_entries: 1,
            ..Retention::default()
        };
        let mut log = LogLimit::new(&limit, Seq(0), Seq(50_000), 5_000_000);
        let mut floor = 0;
        for seq in 50_001..50_100 {
            if let Some(upto) = log.trim(&batch(seq, 1)) {
                assert!(upto.0 - floor <= STEP_ENTRIES && upto.0 < seq);
                floor = upto.0;
            }
        }
        assert!(floor >= 50_097, "{floor}");
    }
}
