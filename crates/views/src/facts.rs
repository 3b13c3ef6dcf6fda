//! What Nomad's words mean of a job: the one place where a field that several bodies and the filter show is worked out.

use std::borrow::Cow;

use info::{Kind, Node, Record, Status};
use job::Timestamp;

/// The pool of a job that names no queue, and of a node that names none.
pub const POOL: &str = "default";

/// `ID`: ASCII F58; of a child its parent's, the second of its submit, and its own.
#[must_use]
pub fn job_id(record: &Record) -> String {
    let own = record.id().f58(true);
    match record.parent() {
        None => own,
        Some(parent) => {
            let parent = parent.f58(true);
            format!("{parent}/dispatch-{}-{own}", seconds(record.job().t_submit))
        }
    }
}

/// `ParentID`: empty if it has none.
#[must_use]
pub fn parent_id(record: &Record) -> String {
    record.parent().map_or_else(String::new, |id| id.f58(true))
}

/// `Name`.
#[must_use]
pub fn name(record: &Record) -> &str {
    record.spec().name.as_deref().unwrap_or_default()
}

/// `Type`; of a parent, what its children are.
#[must_use]
pub fn job_type(record: &Record) -> &'static str {
    if record.spec().sysbatch || record.kind() == Kind::Sysbatch {
        "sysbatch"
    } else {
        "batch"
    }
}

/// Whether others are dispatched from it.
#[must_use]
pub fn is_parent(record: &Record) -> bool {
    record.kind() == Kind::Parameterized
}

/// `NodePool`: the queue.
#[must_use]
pub fn pool(record: &Record) -> &str {
    record.spec().queue.as_deref().unwrap_or(POOL)
}

/// `Count` of its one group: how many allocations it should have, of a sysbatch job how many on each node.
#[must_use]
pub fn group_count(record: &Record) -> u32 {
    if job_type(record) == "sysbatch" {
        return 1;
    }
    let placed = record.allocation().map(|allocation| allocation.nnodes);
    placed.or(record.spec().nnodes).unwrap_or(1).max(1)
}

/// `Status`.
#[must_use]
pub fn status(record: &Record) -> &'static str {
    record.status().unwrap_or(Status::Pending).name()
}

/// `StatusDescription`: the exception that ended it, or nothing.
#[must_use]
pub fn status_description(record: &Record) -> Cow<'_, str> {
    match &record.job().exception {
        Some(exception) if record.job().fatal => match &*exception.note {
            "" => Cow::Borrowed(&exception.kind),
            note => Cow::Owned(format!("{}: {note}", exception.kind)),
        },
        _ => Cow::Borrowed(""),
    }
}

/// `Meta`: what it was dispatched with.
#[must_use]
pub fn meta(record: &Record) -> &[(String, String)] {
    record
        .spec()
        .dispatch
        .as_deref()
        .map_or(&[], |dispatch| &dispatch.meta)
}

/// Seconds since 1970.
#[must_use]
pub fn seconds(time: Timestamp) -> u64 {
    // The times of a journal are finite and after 1970.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let seconds = time.0.max(0.0) as u64;
    seconds
}

/// Nanoseconds since 1970, as exact as the journal has them: microseconds.
#[must_use]
pub fn nanoseconds(time: Timestamp) -> i64 {
    // Microseconds are exact up to the year 2255; a cast saturates.
    #[expect(clippy::cast_possible_truncation)]
    let microseconds = (time.0 * 1e6).round() as i64;
    microseconds.saturating_mul(1000)
}

/// A time as RFC 3339 writes it, in UTC, to the microsecond.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    let micros = (nanoseconds(time) / 1000).max(0);
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to a date of the Gregorian calendar, counted from 1 March of year 0, so that the leap day comes last.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + next;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// A time that never was.
pub const NEVER: &str = "0001-01-01T00:00:00Z";

/// `Status` of a node.
#[must_use]
pub fn node_status(node: &Node) -> &'static str {
    match (node.known, node.up) {
        (true, true) => "ready",
        (true, false) => "down",
        // A job ran on it, but nobody announced it.
        (false, _) => "initializing",
    }
}

/// `StatusDescription` of a node.
#[must_use]
pub fn node_description(node: &Node) -> &str {
    match (node.known, &node.down_reason) {
        (false, _) => "not announced",
        (true, Some(reason)) if !node.up => reason,
        _ => "",
    }
}

/// `SchedulingEligibility` of a node.
#[must_use]
pub fn eligibility(node: &Node) -> &'static str {
    if node.drain.is_some() {
        "ineligible"
    } else {
        "eligible"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, expected) in [
            (0.0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400.25, "2000-02-29T00:00:00.250000Z"),
            (1_790_000_000.5, "2026-09-21T14:13:20.500000Z"),
            (4_107_542_399.0, "2100-02-28T23:59:59.000000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(seconds)), expected);
        }
        assert_eq!(
            nanoseconds(Timestamp(1_790_000_000.123_456)),
            1_790_000_000_123_456_000
        );
    }
}
