//! Read-only connections: one job, one user's history, the instance's own entries. The log is read in `log`, jobs by page in `scans`.
//!
//! Every call is one short transaction: at most [`PAGE_ROWS_MAX`] rows and about [`PAGE_BYTES_MAX`] bytes, since a long one keeps
//! the WAL from being reset. A scan of many pages is made exact by its [`crate::Scope`], not by a long transaction. A reader may see
//! entries that are committed but not yet told Durable; whoever shows them to others cuts at the seq that was told.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use job::{JobId, Seq};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::error::ReadError;
use crate::gone::Gone;
use crate::log::Repaired;
use crate::recover::KEY_FLOOR;
use crate::rows::{bytes_at, id_from_sql, id_to_sql, parse_lines, seq_from_sql, seq_to_sql};
use crate::stored::{Damage, FoundJob, JobsPage, LogPage};

/// Rows of one page, at most.
pub const PAGE_ROWS_MAX: usize = 1000;
/// A page ends with the row that passes this size; a single row may be larger.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// Opens readers; may be cloned and used from any thread.
#[derive(Debug, Clone)]
pub struct ReaderFactory {
    file: Arc<PathBuf>,
    gone: Gone,
}

impl ReaderFactory {
    /// Readers of this file that pass over what is `gone`.
    pub(crate) fn new(file: PathBuf, gone: Gone) -> Self {
        Self {
            file: Arc::new(file),
            gone,
        }
    }

    /// A new reader with a connection of its own.
    /// # Errors
    /// [`ReadError::Sqlite`]: the file cannot be opened.
    pub fn open(&self) -> Result<Reader, ReadError> {
        let db = Connection::open_with_flags(
            self.file.as_path(),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.pragma_update(None, "query_only", true)?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(Reader {
            db,
            gone: self.gone.clone(),
            repaired: RefCell::new(None),
        })
    }
}

/// One read-only connection. `Send`, not shared: one read at a time.
#[derive(Debug)]
pub struct Reader {
    pub(crate) db: Connection,
    /// Purged jobs whose rows are still there.
    pub(crate) gone: Gone,
    /// What was last taken from the archive in place of the log.
    pub(crate) repaired: RefCell<Option<Repaired>>,
}

impl Reader {
    /// Entries that are no job's (`resource`, `system`) with `after < seq <= upto`, oldest first, at most `limit`.
    /// They stay when the log is trimmed. A page of fewer than `limit` entries and damages together is the last.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn instance_entries(
        &self,
        after: Seq,
        upto: Seq,
        limit: usize,
    ) -> Result<LogPage, ReadError> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let mut page = LogPage {
            upto,
            ..LogPage::default()
        };
        let mut rows = self.db.prepare_cached(
            "SELECT seq, line FROM instancelog WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3",
        )?;
        let mut rows = rows.query(params![
            seq_to_sql(after),
            seq_to_sql(upto),
            sql_limit(limit)
        ])?;
        let mut last = after;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            last = seq_from_sql(row.get(0)?);
            count += 1;
            let (found, wrong) = match bytes_at(row, 1, "line") {
                Ok(line) => parse_lines(&line.unwrap_or_default()),
                Err(what) => (Vec::new(), vec![what]),
            };
            page.entries.extend(found);
            page.damaged.extend(wrong.into_iter().map(|what| Damage {
                job: None,
                seq: Some(last),
                what,
            }));
        }
        if count >= limit {
            page.upto = last;
        }
        Ok(page)
    }

    /// One job, with its `J` if asked for. `Ok(None)` = there is none of that id.
    /// # Errors
    /// [`ReadError::Sqlite`]; the inner error: the job is there, and damaged.
    pub fn job(&self, id: JobId, with_j: bool) -> Result<Option<FoundJob>, ReadError> {
        let tx = self.db.unchecked_transaction()?;
        let mut page = JobsPage::default();
        self.one(id_to_sql(id), with_j, &mut page)?;
        drop(tx);
        Ok(match (page.jobs.pop(), page.damaged.pop()) {
            (_, Some(damage)) => Some(Err(damage)),
            (Some(job), None) => Some(Ok(job)),
            (None, None) => None,
        })
    }

    /// The job that a user submitted under a key, if it is there still.
    /// # Errors
    /// [`ReadError::Sqlite`]; the inner error: the job is there, and damaged.
    pub fn by_key(&self, userid: u32, key: &str) -> Result<Option<(JobId, FoundJob)>, ReadError> {
        let id: Option<i64> = self
            .db
            .prepare_cached("SELECT id FROM job INDEXED BY job_key WHERE userid = ?1 AND key = ?2")?
            .query_row(params![userid, key], |row| row.get(0))
            .optional()?;
        let Some(id) = id.filter(|id| !self.gone.contains(*id)).map(id_from_sql) else {
            return Ok(None);
        };
        // Purged in between: it is there no more.
        Ok(self.job(id, false)?.map(|job| (id, job)))
    }

    /// The key that a job was submitted under, if it was under one and is there.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn key_of(&self, id: JobId) -> Result<Option<String>, ReadError> {
        let key = self
            .db
            .prepare_cached("SELECT key FROM job WHERE id = ?1")?
            .query_row([id_to_sql(id)], |row| row.get(0))
            .optional()?;
        Ok(key.flatten())
    }

    /// The ids of all jobs with their owners, by owner and id: the page after `after`, or the first. Read from an index alone. A job whose
    /// owner cannot be read is not among them, but among the [`Reader::strays`].
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn owners(
        &self,
        after: Option<(u32, JobId)>,
        limit: usize,
    ) -> Result<Vec<(u32, JobId)>, ReadError> {
        let (user, id) = after.map_or((-1, i64::MAX), |(user, id)| {
            (i64::from(user), id_to_sql(id))
        });
        let mut rows = self.db.prepare_cached(
            "SELECT userid, id FROM job INDEXED BY job_user WHERE (userid, id) > (?1, ?2) AND userid <= 4294967295 AND typeof(userid) = 'integer'
             ORDER BY userid, id LIMIT ?3",
        )?;
        // So many that none is missing on a page when those that are gone are left out.
        let rows = rows.query_map(
            params![user, id, sql_limit(limit + self.gone.len())],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let rows: Vec<(u32, i64)> = rows.collect::<Result<_, _>>()?;
        let there = rows.into_iter().filter(|(_, id)| !self.gone.contains(*id));
        Ok(there
            .take(limit)
            .map(|(user, id)| (user, id_from_sql(id)))
            .collect())
    }

    /// How many jobs of a user there are, purged ones not counted.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn history_len(&self, userid: u32) -> Result<u64, ReadError> {
        let count: i64 = self
            .db
            .prepare_cached("SELECT count(*) FROM job WHERE userid = ?1")?
            .query_row([userid], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// A user's jobs, newest submit first: at most `limit` (and [`PAGE_ROWS_MAX`]), after leaving out the `skip` newest.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn history(&self, userid: u32, skip: u64, limit: usize) -> Result<Vec<JobId>, ReadError> {
        let limit = limit.min(PAGE_ROWS_MAX);
        let skip = i64::try_from(skip).unwrap_or(i64::MAX);
        let mut ids = self.db.prepare_cached(
            "SELECT id FROM job WHERE userid = ?1 ORDER BY id DESC LIMIT ?2 OFFSET ?3",
        )?;
        let ids = ids.query_map(params![userid, sql_limit(limit), skip], |row| row.get(0))?;
        let ids = ids.collect::<Result<Vec<i64>, _>>()?.into_iter();
        let there = ids.filter(|id| !self.gone.contains(*id));
        Ok(there.map(id_from_sql).collect())
    }

    /// The newest seq the log has forgotten; 0 = none.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn floor(&self) -> Result<Seq, ReadError> {
        floor(&self.db)
    }
}

pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) fn floor(db: &Connection) -> Result<Seq, ReadError> {
    let text: Option<String> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY_FLOOR], |row| row.get(0))
        .optional()?;
    Ok(Seq(text.and_then(|text| text.parse().ok()).unwrap_or(0)))
}
