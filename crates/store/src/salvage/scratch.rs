//! What was found on the pages of a damaged file, by what it is: in a file of its own, since it may be more than memory holds.

use std::path::Path;

use job::{Entry, JobId, Seq, Source};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::raw::{Pages, Value};
use super::{Keys, Lines};
use crate::check::Progress;
use crate::rows::{id_from_sql, id_to_sql, parse_lines, seq_from_sql, seq_to_sql};

const TABLES: &str = "
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE entry (seq INTEGER PRIMARY KEY, job INTEGER, line BLOB NOT NULL);
CREATE TABLE row (id INTEGER PRIMARY KEY, waitable INTEGER, spec INTEGER, j INTEGER, r BLOB, key TEXT, len INTEGER NOT NULL);
CREATE TABLE blob (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// What of a job's row does not follow from its entries.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) waitable: Option<bool>,
    pub(crate) spec: Option<i64>,
    pub(crate) j: Option<i64>,
    pub(crate) r: Option<Lines>,
    pub(crate) key: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Scratch {
    db: Connection,
    pub(crate) keys: Keys,
}

impl Scratch {
    /// Reads every page.
    pub(crate) fn make(
        pages: &Pages,
        path: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Self, Error> {
        let db = Connection::open(path)?;
        db.execute_batch(TABLES)?;
        let mut this = Self {
            db,
            keys: Keys::new(),
        };
        let free = pages.free()?;
        this.db.execute_batch("BEGIN")?;
        for number in 1..=pages.count() {
            if number % 1024 == 1 {
                progress("pages", u64::from(number), u64::from(pages.count()));
            }
            if free.get(number as usize).copied().unwrap_or(false) {
                continue;
            }
            for (rowid, values) in pages.rows(number)? {
                this.row_found(rowid, values)?;
            }
        }
        this.db
            .execute_batch("CREATE INDEX entry_job ON entry (job, seq); COMMIT")?;
        Ok(this)
    }

    /// Which table a row is of is told by its columns.
    fn row_found(&mut self, rowid: Option<i64>, values: Vec<Value>) -> Result<(), rusqlite::Error> {
        match (rowid, values.as_slice()) {
            (None, [Value::Text(key), Value::Text(value)]) => {
                if let (Ok(key), Ok(value)) = (std::str::from_utf8(key), std::str::from_utf8(value))
                {
                    self.keys.insert(key.to_owned(), value.to_owned());
                }
                Ok(())
            }
            (Some(_), [Value::Null, Value::Text(line) | Value::Blob(line)]) => {
                self.lines_found(line, None).map(drop)
            }
            (
                Some(rowid),
                [
                    Value::Null,
                    Value::Int(_),
                    Value::Text(data) | Value::Blob(data),
                ],
            ) => {
                // The log's rows, tails and blobs look alike; only blobs do not begin with a line.
                if self.lines_found(data, None)? == 0 {
                    self.db
                        .prepare_cached("INSERT OR IGNORE INTO blob (id, data) VALUES (?1, ?2)")?
                        .execute(params![rowid, data])?;
                }
                Ok(())
            }
            (
                Some(id),
                [
                    Value::Null,
                    _,
                    _,
                    _,
                    _,
                    waitable,
                    _,
                    _,
                    _,
                    spec,
                    j,
                    r,
                    eventlog,
                    rest @ ..,
                ],
            ) if rest.len() < 8 => {
                if let Value::Text(lines) | Value::Blob(lines) = eventlog {
                    self.lines_found(lines, Some(id))?;
                }
                let len = if let Value::Text(lines) | Value::Blob(lines) = eventlog {
                    lines.len()
                } else {
                    0
                };
                // Of several the one that has seen most.
                self.db
                    .prepare_cached(
                        "INSERT INTO row (id, waitable, spec, j, r, key, len) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                         ON CONFLICT (id) DO UPDATE SET waitable = ?2, spec = ?3, j = ?4, r = ?5, key = ?6, len = ?7 WHERE len < ?7",
                    )?
                    .execute(params![id, int(waitable), int(spec), int(j), bytes(r), rest.first().and_then(text), i64::try_from(len).unwrap_or(i64::MAX)])?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes the lines that are entries (of this job, if one is said); how many.
    fn lines_found(&self, lines: &[u8], of: Option<i64>) -> Result<usize, rusqlite::Error> {
        let (entries, _) = parse_lines(&Lines::copy_from_slice(lines));
        let mut put = self
            .db
            .prepare_cached("INSERT OR IGNORE INTO entry (seq, job, line) VALUES (?1, ?2, ?3)")?;
        for entry in &entries {
            let job = match entry.source {
                Source::Job(id) => Some(id_to_sql(id)),
                Source::Resource | Source::System => None,
            };
            if of.is_none() || of == job {
                put.execute(params![seq_to_sql(entry.seq), job, entry.line().as_ref()])?;
            }
        }
        Ok(entries.len())
    }

    /// Whether there is nothing of a store.
    pub(crate) fn is_empty(&self) -> Result<bool, rusqlite::Error> {
        let rows: i64 = self.db.query_row(
            "SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM row)",
            [],
            |row| row.get(0),
        )?;
        Ok(rows == 0
            && !self
                .keys
                .keys()
                .any(|key| key.starts_with(crate::recover::KEY_PREFIX)))
    }

    /// The newest seq that an entry was found of; 0 = there is none.
    pub(crate) fn newest(&self) -> Result<Seq, rusqlite::Error> {
        self.db
            .query_row("SELECT max(seq) FROM entry", [], |row| {
                row.get::<_, Option<i64>>(0)
            })
            .map(|newest| newest.map_or(Seq(0), seq_from_sql))
    }

    /// All entries after `after`, in order.
    pub(crate) fn entries(
        &self,
        after: Seq,
        mut each: impl FnMut(Entry) -> Result<(), rusqlite::Error>,
    ) -> Result<(), rusqlite::Error> {
        let mut rows = self
            .db
            .prepare("SELECT line FROM entry WHERE seq > ?1 ORDER BY seq")?;
        let mut rows = rows.query([seq_to_sql(after)])?;
        while let Some(row) = rows.next()? {
            let line = Lines::from(row.get::<_, Vec<u8>>(0)?);
            if let Ok(entry) = Entry::parse_line(&line) {
                each(entry)?;
            }
        }
        Ok(())
    }

    /// Every job that anything was found of.
    pub(crate) fn job_ids(&self) -> Result<Vec<JobId>, rusqlite::Error> {
        let mut ids = self.db.prepare(
            "SELECT id FROM row UNION SELECT DISTINCT job FROM entry WHERE job IS NOT NULL",
        )?;
        let ids = ids.query_map([], |row| row.get(0).map(id_from_sql))?;
        ids.collect()
    }

    /// A job's entries, in order.
    pub(crate) fn lines(&self, id: JobId) -> Result<Vec<Entry>, rusqlite::Error> {
        let mut rows = self
            .db
            .prepare_cached("SELECT line FROM entry WHERE job = ?1 ORDER BY seq")?;
        let rows = rows.query_map([id_to_sql(id)], |row| row.get::<_, Vec<u8>>(0))?;
        let mut entries = Vec::new();
        for line in rows {
            entries.extend(Entry::parse_line(&Lines::from(line?)));
        }
        Ok(entries)
    }

    pub(crate) fn row(&self, id: JobId) -> Result<Option<Row>, rusqlite::Error> {
        self.db
            .prepare_cached("SELECT waitable, spec, j, r, key FROM row WHERE id = ?1")?
            .query_row([id_to_sql(id)], |row| {
                Ok(Row {
                    waitable: row.get::<_, Option<i64>>(0)?.map(|waitable| waitable != 0),
                    spec: row.get(1)?,
                    j: row.get(2)?,
                    r: row.get::<_, Option<Vec<u8>>>(3)?.map(Lines::from),
                    key: row.get(4)?,
                })
            })
            .optional()
    }

    pub(crate) fn blob(&self, id: i64) -> Result<Option<Lines>, rusqlite::Error> {
        self.db
            .prepare_cached("SELECT data FROM blob WHERE id = ?1")?
            .query_row([id], |row| row.get::<_, Vec<u8>>(0).map(Lines::from))
            .optional()
    }
}

fn int(value: &Value) -> Option<i64> {
    if let Value::Int(number) = value {
        Some(*number)
    } else {
        None
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Text(bytes) | Value::Blob(bytes) = value {
        Some(bytes)
    } else {
        None
    }
}

fn text(value: &Value) -> Option<&str> {
    bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok())
}
