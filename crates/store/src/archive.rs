//! The archive read in seq order, which it is not made for: only to fill what the log has lost, and to know how far it should go.

use std::collections::BTreeMap;

use job::{Entry, Seq, Source};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::{ReadError, is_damage};
use crate::rows::{bytes_at, id_from_sql, parse_lines, seq_from_sql, seq_to_sql};

/// Rows that are looked at from the newest end before a table is believed to say nothing.
const TRIES_MAX: usize = 64;
/// Entries of one transaction, so that a tail whose row is of a later seq may begin before it.
const TRANSACTION_SPAN: u64 = 1 << 21;

/// The newest seq of the archive, if that is beyond `known`; `known` otherwise. Rows that do not hold the seq they stand under are passed.
pub(crate) fn newest_seq(db: &Connection, known: Seq) -> Result<Seq, rusqlite::Error> {
    let mut newest = known;
    for (sql, column) in [
        (
            "SELECT seq, lines FROM tail WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2",
            "lines",
        ),
        (
            "SELECT seq, line FROM instancelog WHERE seq > ?1 ORDER BY seq DESC LIMIT ?2",
            "line",
        ),
        (
            "SELECT done_seq, eventlog FROM job INDEXED BY job_done WHERE active = 0 AND done_seq > ?1 AND typeof(done_seq) = 'integer' ORDER BY done_seq DESC LIMIT ?2",
            "eventlog",
        ),
        // A job that has just been submitted has neither.
        (
            "SELECT ?1 + 1, eventlog FROM job WHERE id IN (SELECT id FROM job INDEXED BY job_active WHERE active = 1 ORDER BY id DESC LIMIT 1) AND ?2 = ?2",
            "eventlog",
        ),
    ] {
        let mut rows = db.prepare_cached(sql)?;
        let mut rows = rows.query(params![seq_to_sql(newest), TRIES_MAX as i64])?;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) if is_damage(&error) => break,
                Err(error) => return Err(error),
            };
            let Ok(Some(lines)) = bytes_at(row, 1, column) else {
                continue;
            };
            let (entries, _) = parse_lines(&lines);
            let last = entries.last().map_or(Seq(0), |entry| entry.seq);
            if last > newest {
                newest = last;
                break;
            }
        }
    }
    Ok(newest)
}

/// Adds what the archive holds with `first <= seq <= last` and is not there yet. True if entries may be missing for a reason: jobs were
/// purged, or jobs cannot be read (which is told when they are).
pub(crate) fn entries_between(
    db: &Connection,
    first: Seq,
    last: Seq,
    entries: &mut BTreeMap<Seq, Entry>,
) -> Result<bool, ReadError> {
    let mut explained = false;
    let mut take = |lines: &bytes::Bytes, job: Option<i64>| {
        let (found, wrong) = parse_lines(lines);
        for entry in found {
            let its = job.is_none_or(|id| entry.source == Source::Job(id_from_sql(id)));
            if its && entry.seq >= first && entry.seq <= last {
                entries.entry(entry.seq).or_insert(entry);
            }
        }
        !wrong.is_empty()
    };
    let span = Seq(last.0.saturating_add(TRANSACTION_SPAN));
    for (sql, column) in [
        (
            "SELECT line FROM instancelog WHERE seq >= ?1 AND seq <= ?2",
            "line",
        ),
        (
            "SELECT lines FROM tail WHERE seq >= ?1 AND seq <= ?2",
            "lines",
        ),
    ] {
        let mut rows = db.prepare_cached(sql)?;
        let mut rows = rows.query([seq_to_sql(first), seq_to_sql(span)])?;
        loop {
            match rows.next() {
                Ok(Some(row)) => match bytes_at(row, 0, column) {
                    Ok(Some(lines)) => explained |= take(&lines, None),
                    _ => explained = true,
                },
                Ok(None) => break,
                Err(error) if is_damage(&error) => {
                    explained = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut ids = db.prepare_cached("SELECT id FROM job INDEXED BY job_user")?;
    // An eventlog begins with the seq of its submit, and text that begins with a number casts to it.
    let mut one = db.prepare_cached(
        "SELECT eventlog FROM job WHERE id = ?1 AND CAST(eventlog AS INTEGER) <= ?3 AND (active <> 0 OR done_seq IS NULL OR done_seq >= ?2)",
    )?;
    let mut ids = ids.query([])?;
    while let Some(row) = ids.next()? {
        let id: i64 = row.get(0)?;
        let found = one
            .query_row(params![id, seq_to_sql(first), seq_to_sql(last)], |row| {
                Ok(bytes_at(row, 0, "eventlog"))
            })
            .optional();
        match found {
            Ok(None) => {}
            Ok(Some(Ok(Some(lines)))) => explained |= take(&lines, Some(id)),
            Ok(Some(_)) => explained = true,
            Err(error) if is_damage(&error) => explained = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(explained || purges(db)?)
}

/// Whether a job was ever purged: an entry of the instance's log says so.
fn purges(db: &Connection) -> Result<bool, ReadError> {
    let found = db
        .prepare_cached("SELECT 1 FROM instancelog WHERE line LIKE '%\"name\":\"purge\"%' LIMIT 1")?
        .query_row([], |_| Ok(()))
        .optional();
    match found {
        Ok(found) => Ok(found.is_some()),
        Err(error) if is_damage(&error) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The newest seq that the log has; `None` = it has no rows, or its end cannot be read.
pub(crate) fn newest_of_log(db: &Connection) -> Result<Option<Seq>, rusqlite::Error> {
    let newest: Result<Option<i64>, _> =
        db.query_row("SELECT max(last_seq) FROM log", [], |row| row.get(0));
    match newest {
        Ok(newest) => Ok(newest.map(seq_from_sql)),
        Err(error) if is_damage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
