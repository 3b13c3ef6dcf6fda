//! What is told of a good file at open: the epoch, how far it goes, and what the manager left for itself.
//!
//! What a file can be is settled before, in `examine`. Single damaged rows are found when they are read, see `reader`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use job::{JobId, Seq, Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use crate::archive;
use crate::error::{OpenError, is_damage, is_full};
use crate::rows::{bytes_at, id_from_sql, parse_lines};
use crate::tally::{self, Tally};
use crate::traces::{ID_ABSURD, Mark};

/// What a value of the meta table reads as that is neither text nor bytes.
const NOT_TEXT: &str = "\u{fffd}";
/// What the meta keys of the store itself start with.
pub(crate) const KEY_PREFIX: &str = "store.";
pub(crate) const KEY_EPOCH: &str = "store.epoch";
/// The newest seq that was trimmed from the log.
pub(crate) const KEY_FLOOR: &str = "store.floor";
pub(crate) const KEY_MAX_JOBID: &str = "store.max_jobid";

/// Seqs count up from 1: none comes to this.
const SEQ_ABSURD: i64 = 1 << 62;

/// What a store holds, as told at open.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Names this store among all: 16 hex digits, made once. A cursor of another epoch means nothing here.
    pub epoch: String,
    /// The newest stored seq; 0 = none yet.
    pub newest_seq: Seq,
    /// The newest seq the log has forgotten; a cursor may go on from here or later. 0 = all is there.
    pub floor: Seq,
    /// The largest job id ever stored, purged ones included; 0 = none yet.
    pub max_jobid: JobId,
    /// The timestamp of the newest entry; time must not go back behind it.
    pub last_timestamp: Timestamp,
    /// What the archive should have, if that is known.
    pub tally: Option<Tally>,
    /// The manager's own keys.
    pub meta: BTreeMap<String, String>,
}

/// Reads what [`Recovered`] tells; makes the epoch if the file has none.
pub(crate) fn recover(file: &Path, db: &Connection) -> Result<Recovered, OpenError> {
    recover_doubted(file, db, Doubts::default())
}

/// What says that more was told than a file holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doubts {
    /// What is wrong with its WAL.
    pub(crate) wal: Option<String>,
    /// The newest job that left something.
    pub(crate) told: Option<JobId>,
    /// How far its writer said that it was.
    pub(crate) mark: Option<Mark>,
}

/// The same; the epoch is new, too, if more may have been told than the file holds. Nobody gets the ids that were told again.
pub(crate) fn recover_doubted(
    file: &Path,
    db: &Connection,
    doubts: Doubts,
) -> Result<Recovered, OpenError> {
    let refused = |error| open_error(file, error);
    let damaged = |detail| OpenError::Damaged {
        file: file.to_owned(),
        detail,
    };
    if let Some(what) = absurd(db).map_err(refused)? {
        return Err(damaged(what));
    }
    probe(db).map_err(|error| match error.sqlite_error_code() {
        // What no row of ours meets: a trigger or a table that somebody changed.
        Some(ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation | ErrorCode::Unknown) => {
            damaged(format!("no row can be added: {error}"))
        }
        _ => open_error(file, error),
    })?;
    let mut meta = read_meta(db).map_err(refused)?;
    let is_one =
        |epoch: &String| epoch.len() == 16 && epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
    let purged = meta
        .remove(KEY_MAX_JOBID)
        .and_then(|text| text.parse().ok())
        .map_or(JobId(0), JobId);
    let mut max_jobid = max_jobid(db).map_err(refused)?.max(purged);
    let tally = tally::read(db).map_err(refused)?;
    let floor = meta
        .remove(KEY_FLOOR)
        .and_then(|text| text.parse().ok())
        .map_or(Seq(0), Seq);
    // The log says how far it goes. If its end is lost, the archive knows better: no seq may be given twice.
    let of_log = archive::newest_of_log(db).map_err(refused)?;
    let newest =
        archive::newest_seq(db, of_log.map_or(floor, |seq| seq.max(floor))).map_err(refused)?;
    let mut doubt = doubts
        .wal
        .map(|why| format!("its write-ahead log was damaged: {why}"));
    let of_this = |mark: &&Mark| meta.get(KEY_EPOCH) == Some(&mark.epoch);
    if let Some(mark) = doubts.mark.as_ref().filter(of_this)
        && mark.seq > newest
    {
        doubt.get_or_insert_with(|| behind(newest, mark.seq));
    }
    let told = doubts.told.max(doubts.mark.map(|mark| mark.max_jobid));
    if let Some(told) = told.filter(|id| *id > max_jobid && id.0 < ID_ABSURD) {
        doubt.get_or_insert_with(|| {
            format!("job {} was told and is newer than all of the store", told.0)
        });
        max_jobid = told;
    }
    if let Some(why) = &doubt {
        tracing::warn!(
            why,
            "the newest entries of this store may be lost though they were told: it gets a new epoch, and cursors of the old one are refused"
        );
    }
    let epoch = match meta
        .remove(KEY_EPOCH)
        .filter(|epoch| is_one(epoch) && doubt.is_none())
    {
        Some(epoch) => epoch,
        // New, or what was there cannot be told: then no cursor of before means anything.
        None => {
            let epoch = new_epoch().map_err(|errno| OpenError::Directory {
                dir: file.to_owned(),
                source: errno.into(),
            })?;
            let tx = db.unchecked_transaction().map_err(refused)?;
            if doubt.is_some() {
                raise_max_jobid(&tx, max_jobid).map_err(refused)?;
            }
            set_meta(&tx, KEY_EPOCH, &epoch).map_err(refused)?;
            tx.commit().map_err(refused)?;
            epoch
        }
    };
    meta.retain(|key, _| !key.starts_with(KEY_PREFIX));
    Ok(Recovered {
        epoch,
        newest_seq: newest,
        floor,
        max_jobid,
        last_timestamp: last_timestamp(db).map_err(refused)?,
        tally,
        meta,
    })
}

/// Why a store is doubted that ends before its mark.
pub(crate) fn behind(newest: Seq, mark: Seq) -> String {
    format!("it ends with seq {newest}, and seq {mark} was on disk and told")
}

/// A seq that no store comes to, or a floor above all that there is: the next commit would not know its place.
pub(crate) fn absurd(db: &Connection) -> Result<Option<String>, rusqlite::Error> {
    let mut newest = 0;
    for (table, column) in [("log", "last_seq"), ("tail", "seq"), ("instancelog", "seq")] {
        let found = db.query_row(&format!("SELECT max({column}) FROM {table}"), [], |row| {
            row.get::<_, Option<i64>>(0)
        });
        match found {
            Ok(found) if found >= Some(SEQ_ABSURD) => {
                return Ok(Some(format!("{table} has seq {}", found.unwrap_or(0))));
            }
            Ok(found) if table == "log" => newest = found.unwrap_or(0),
            Ok(_) => {}
            Err(error) if is_damage(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let floor: Option<String> = db
        .query_row(
            "SELECT value FROM meta WHERE key = ?1",
            [KEY_FLOOR],
            |row| Ok(row.get(0).ok()),
        )
        .optional()?
        .flatten();
    let floor = floor.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    // Of a log without rows, or whose end cannot be read, the floor is the end.
    let beyond = newest > 0 && floor > newest.unsigned_abs();
    Ok((beyond || floor >= SEQ_ABSURD.unsigned_abs())
        .then(|| format!("{KEY_FLOOR} is {floor}, above the newest seq")))
}

/// Whether rows can be added to each table: a page that is broken where the next commit must write would end the daemon with it, and
/// again after each restart. Nothing of this is kept.
fn probe(db: &Connection) -> Result<(), rusqlite::Error> {
    let tx = db.unchecked_transaction()?;
    for sql in [
        "INSERT INTO log (last_seq, first_seq, lines) SELECT coalesce(max(last_seq), 0) + 1, 0, '' FROM log",
        "INSERT INTO instancelog (seq, line) SELECT coalesce(max(seq), 0) + 1, '' FROM instancelog",
        "INSERT INTO tail (seq, job, lines) SELECT coalesce(max(seq), 0) + 1, 0, '' FROM tail",
        "INSERT INTO blob (refs, data) VALUES (0, '')",
        "INSERT INTO job (userid, flags, t_submit, active, waitable, eventlog) VALUES (-1, 0, 0, 1, 0, '')",
        "INSERT OR REPLACE INTO meta (key, value) VALUES ('store.probe', '')",
    ] {
        tx.execute(sql, [])?;
    }
    tx.rollback()
}

/// What is no text: a key of the store's own is left out, as if it had never been set; any other is given as it is, its bytes that are no text
/// replaced, so that whose it is can tell that it cannot be read.
fn read_meta(db: &Connection) -> Result<BTreeMap<String, String>, rusqlite::Error> {
    let mut meta = BTreeMap::new();
    let mut rows = db.prepare("SELECT key, value FROM meta")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let read = |at| row.get::<_, String>(at);
        match (read(0), read(1)) {
            (Ok(key), Ok(value)) => drop(meta.insert(key, value)),
            (Ok(key), Err(_)) if !key.starts_with(KEY_PREFIX) => {
                tracing::error!(key, "a value of the store's meta table is not text");
                let value = row.get_ref(1)?;
                let value = value.as_bytes().map(String::from_utf8_lossy);
                meta.insert(key, value.unwrap_or(NOT_TEXT.into()).into_owned());
            }
            (key, Ok(_) | Err(_)) => {
                tracing::error!(
                    key = key.ok(),
                    "a key of the store's meta table is not text: left out"
                );
            }
        }
    }
    Ok(meta)
}

/// Sets one key of the meta table; one with an empty value goes.
pub(crate) fn set_meta(db: &Connection, key: &str, value: &str) -> Result<(), rusqlite::Error> {
    if value.is_empty() {
        db.prepare_cached("DELETE FROM meta WHERE key = ?1")?
            .execute([key])?;
        return Ok(());
    }
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    )?
    .execute([key, value])?;
    Ok(())
}

/// The newest seq that was trimmed from the log, as SQL has it; 0 = none.
pub(crate) fn floor(db: &Connection) -> Result<i64, rusqlite::Error> {
    let text: Option<String> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY_FLOOR], |row| row.get(0))
        .optional()?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Remembers a purged id, so that it is not given again.
pub(crate) fn raise_max_jobid(db: &Connection, id: JobId) -> Result<(), rusqlite::Error> {
    let known: Option<String> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY_MAX_JOBID], |row| row.get(0))
        .optional()?;
    if known
        .and_then(|text| text.parse::<u64>().ok())
        .is_none_or(|known| known < id.0)
    {
        set_meta(db, KEY_MAX_JOBID, &id.0.to_string())?;
    }
    Ok(())
}

/// Whether a row's id was given to its job: its eventlog begins with an entry of that job. If that cannot be read, what is not absurd is believed.
pub(crate) fn was_given(id: JobId, eventlog: &[u8]) -> bool {
    let words = std::str::from_utf8(eventlog.get(..64).unwrap_or(eventlog)).unwrap_or_default();
    match words.split(' ').nth(1).map(str::parse::<u64>) {
        Some(Ok(source)) => source == id.0,
        _ => id.0 < ID_ABSURD,
    }
}

/// The largest id that was given, as far as this file knows.
pub(crate) fn max_known(db: &Connection) -> Result<JobId, rusqlite::Error> {
    let purged: Option<String> = db
        .query_row(
            "SELECT value FROM meta WHERE key = ?1",
            [KEY_MAX_JOBID],
            |row| Ok(row.get(0).ok()),
        )
        .optional()?
        .flatten();
    let purged = purged
        .and_then(|text| text.parse().ok())
        .map_or(JobId(0), JobId);
    match max_jobid(db) {
        Ok(id) => Ok(id.max(purged)),
        // Named among the pages.
        Err(error) if is_damage(&error) => Ok(JobId(u64::MAX)),
        Err(error) => Err(error),
    }
}

/// The largest id that was given to the job of a row. Ids are compared as the unsigned numbers they are; SQLite's integers are signed.
fn max_jobid(db: &Connection) -> Result<JobId, rusqlite::Error> {
    for half in ["id < 0", "id >= 0"] {
        let mut ids = db.prepare(&format!(
            "SELECT id, eventlog FROM job WHERE {half} ORDER BY id DESC"
        ))?;
        let mut ids = ids.query([])?;
        loop {
            match ids.next() {
                Ok(Some(row)) => {
                    let id = id_from_sql(row.get(0)?);
                    let lines = bytes_at(row, 1, "eventlog").ok().flatten();
                    if was_given(id, &lines.unwrap_or_default()) {
                        return Ok(id);
                    }
                }
                Ok(None) => break,
                Err(error) if is_damage(&error) => return max_of_index(db),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(JobId(0))
}

/// The largest id that stands in an index: if the end of the table is lost, that knows.
fn max_of_index(db: &Connection) -> Result<JobId, rusqlite::Error> {
    let ask = |sql: &str| db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0));
    let high = ask("SELECT max(id) FROM job INDEXED BY job_user WHERE id < 0")?;
    let low = ask("SELECT max(id) FROM job INDEXED BY job_user")?;
    Ok(high.or(low).map_or(JobId(0), id_from_sql))
}

/// The newest timestamp that can be read: of the last row of the log, or else of the job table.
fn last_timestamp(db: &Connection) -> Result<Timestamp, rusqlite::Error> {
    let lines = db
        .query_row(
            "SELECT lines FROM log ORDER BY last_seq DESC LIMIT 1",
            [],
            |row| Ok(bytes_at(row, 0, "lines")),
        )
        .optional();
    let lines = match lines {
        Ok(read) => read.and_then(|read| read.ok().flatten()),
        Err(error) if is_damage(&error) => None,
        Err(error) => return Err(error),
    };
    let newest = lines.and_then(|lines| {
        let (entries, _) = parse_lines(&lines);
        entries
            .iter()
            .rev()
            .find_map(|entry| job::Event::parse(entry.json()).ok())
            .map(|event| event.timestamp)
    });
    if let Some(timestamp) = newest {
        return Ok(timestamp);
    }
    let t = db.query_row(
        "SELECT max(max(t_submit), coalesce(max(t_inactive), 0)) FROM job WHERE typeof(t_submit) = 'real' AND typeof(t_inactive) IN ('real', 'null')",
        [],
        |row| row.get::<_, Option<f64>>(0),
    );
    match t {
        Ok(t) => Ok(Timestamp(t.unwrap_or(0.0))),
        Err(error) if is_damage(&error) => Ok(Timestamp(0.0)),
        Err(error) => Err(error),
    }
}

/// 16 hex digits that nobody has seen before.
pub(crate) fn new_epoch() -> Result<String, rustix::io::Errno> {
    let mut bytes = [0_u8; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let mut text = String::with_capacity(16);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// SQLite's error at open, sorted by what the user can do about it.
pub(crate) fn open_error(file: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        _ if is_full(&error) => OpenError::Full {
            file: file.to_owned(),
            detail: error.to_string(),
        },
        Some(ErrorCode::NotADatabase) => OpenError::NotAStore {
            file: file.to_owned(),
        },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
            file: file.to_owned(),
            detail: error.to_string(),
        },
        _ => OpenError::Sqlite {
            file: file.to_owned(),
            source: error,
        },
    }
}
