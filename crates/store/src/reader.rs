//! Read-only connections: the log from a seq, jobs by page, one job, one user's history.
//!
//! Every call is one short transaction: at most [`PAGE_ROWS_MAX`] rows and about [`PAGE_BYTES_MAX`] bytes, since a long one keeps
//! the WAL from being reset. A scan of many pages is made exact by its [`Scope`], not by a long transaction. A reader may see
//! entries that are committed but not yet told Durable; whoever shows them to others cuts at the seq that was told.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use job::{Attach, Entry, JobId, Seq, Source, Timestamp};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};

use crate::error::{Corrupt, ReadError};
use crate::recover::KEY_FLOOR;
use crate::rows::{
    attach, bytes_at, id_from_sql, id_to_sql, parse_lines, seq_from_sql, seq_to_sql,
};
use crate::stored::{Damage, JobsPage, LogPage, Scope, StoredJob};

/// Rows of one page, at most.
pub const PAGE_ROWS_MAX: usize = 1000;
/// A page ends with the row that passes this size; a single row may be larger.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// What [`stored`] reads, in its order.
const COLUMNS: &str = "job.id, job.userid, job.flags, job.t_submit, job.active, job.waitable, job.done_seq, job.t_inactive, job.result, \
     (SELECT data FROM blob WHERE blob.id = job.spec), job.r, job.eventlog, \
     (SELECT group_concat(lines, '') FROM (SELECT lines FROM tail WHERE tail.job = job.id ORDER BY seq))";

/// Opens readers; may be cloned and used from any thread.
#[derive(Debug, Clone)]
pub struct ReaderFactory {
    file: Arc<PathBuf>,
}

impl ReaderFactory {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self {
            file: Arc::new(file),
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
        Ok(Reader { db })
    }
}

/// One read-only connection. `Send`, not shared: one read at a time.
#[derive(Debug)]
pub struct Reader {
    pub(crate) db: Connection,
}

impl Reader {
    /// Entries after `after`, oldest first, with jobspec and R attached: at most `entries_max`, and about `bytes_max` of all that
    /// (at least one row of the log is looked at, so a page is never empty while there is more).
    /// # Errors
    /// [`ReadError::BelowFloor`]: the log has forgotten what follows `after`. [`ReadError::Sqlite`].
    pub fn log_after(
        &self,
        after: Seq,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<LogPage, ReadError> {
        let tx = self.db.unchecked_transaction()?;
        let floor = floor(&tx)?;
        if after < floor {
            return Err(ReadError::BelowFloor { after, floor });
        }
        let entries_max = entries_max.clamp(1, PAGE_ROWS_MAX);
        let mut page = LogPage {
            upto: after,
            ..LogPage::default()
        };
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        let mut rows = tx.prepare_cached(
            "SELECT last_seq, lines FROM log WHERE last_seq > ?1 ORDER BY last_seq",
        )?;
        let mut rows = rows.query([seq_to_sql(after)])?;
        'rows: while let Some(row) = rows.next()? {
            let last = seq_from_sql(row.get(0)?);
            let (found, wrong) = match bytes_at(row, 1, "lines") {
                Ok(Some(lines)) => parse_lines(&lines),
                Ok(None) => (Vec::new(), vec![Corrupt::Column { column: "lines" }]),
                Err(what) => (Vec::new(), vec![what]),
            };
            page.damaged.extend(wrong.into_iter().map(|what| Damage {
                job: None,
                seq: Some(last),
                what,
            }));
            for entry in found {
                if entry.seq <= page.upto || entry.seq > last {
                    continue;
                }
                if entries.len() >= entries_max || (bytes >= bytes_max && !entries.is_empty()) {
                    break 'rows;
                }
                bytes += entry.line().len();
                page.upto = entry.seq;
                entries.push(entry);
            }
            page.upto = last;
            if entries.len() >= entries_max || bytes >= bytes_max {
                break;
            }
        }
        let mut known = HashMap::new();
        let mut bytes = 0;
        for mut entry in entries {
            if bytes >= bytes_max {
                // What goes with the entries counts too: the rest is for the next page.
                page.upto = Seq(entry.seq.0 - 1);
                break;
            }
            if self.attach_or_omit(&mut entry, &mut known)? {
                bytes += entry.line().len() + attached(&entry);
                page.entries.push(entry);
            }
        }
        Ok(page)
    }

    /// Fills what goes with an entry of the log; `false` = its job is purged.
    fn attach_or_omit(
        &self,
        entry: &mut Entry,
        known: &mut HashMap<u64, bool>,
    ) -> Result<bool, ReadError> {
        let Source::Job(id) = entry.source else {
            return Ok(true);
        };
        let sql = match entry.name.as_str() {
            "submit" => {
                "SELECT (SELECT data FROM blob WHERE blob.id = job.spec) FROM job WHERE id = ?1"
            }
            "alloc" => "SELECT r FROM job WHERE id = ?1",
            _ => {
                if let Some(there) = known.get(&id.0) {
                    return Ok(*there);
                }
                "SELECT NULL FROM job WHERE id = ?1"
            }
        };
        let found = self
            .db
            .prepare_cached(sql)?
            .query_row([id_to_sql(id)], |row| Ok(bytes_at(row, 0, "attached")))
            .optional()?;
        known.insert(id.0, found.is_some());
        let Some(read) = found else { return Ok(false) };
        if let Ok(Some(data)) = read {
            attach(entry, Some(&data), Some(&data));
        }
        Ok(true)
    }

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

    /// One page of a scan of jobs: start with [`crate::CURSOR_START`], go on with `next`. At most `limit` jobs, and about
    /// `bytes_max` bytes.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn jobs_page(
        &self,
        scope: Scope,
        cursor: i64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<JobsPage, ReadError> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let tx = self.db.unchecked_transaction()?;
        let mut page = JobsPage::default();
        match scope {
            Scope::Active { at } => {
                let ids = merge(
                    active_ids(&tx, cursor, limit)?,
                    late_ids(&tx, at, cursor, limit)?,
                    limit,
                );
                let (mut next, mut bytes) = (None, 0);
                for id in &ids {
                    if bytes >= bytes_max.min(PAGE_BYTES_MAX) {
                        page.next = next;
                        return Ok(page);
                    }
                    let before = page.jobs.len();
                    self.one(*id, false, &mut page)?;
                    bytes += page.jobs[before..].iter().map(size).sum::<usize>();
                    next = Some(*id);
                }
                page.next = next.filter(|_| ids.len() >= limit);
            }
            Scope::Inactive { upto } => scan(
                &tx,
                &format!(
                    "SELECT {COLUMNS}, job.done_seq FROM job WHERE active = 0 AND done_seq > ?1 AND done_seq <= ?2 ORDER BY done_seq LIMIT ?3"
                ),
                (cursor, seq_to_sql(upto), limit, bytes_max),
                &mut page,
            )?,
            Scope::Waitable => scan(
                &tx,
                &format!(
                    "SELECT {COLUMNS}, job.id FROM job WHERE waitable = 1 AND active = 0 AND id > ?1 AND ?2 = ?2 ORDER BY id LIMIT ?3"
                ),
                (cursor, 0, limit, bytes_max),
                &mut page,
            )?,
            Scope::All => scan(
                &tx,
                &format!(
                    "SELECT {COLUMNS}, job.id FROM job WHERE id > ?1 AND ?2 = ?2 ORDER BY id LIMIT ?3"
                ),
                (cursor, 0, limit, bytes_max),
                &mut page,
            )?,
        }
        Ok(page)
    }

    /// One job, with its `J` if asked for. `Ok(None)` = there is none of that id.
    /// # Errors
    /// [`ReadError::Sqlite`]; the inner error: the job is there, and damaged.
    pub fn job(
        &self,
        id: JobId,
        with_j: bool,
    ) -> Result<Option<Result<StoredJob, Damage>>, ReadError> {
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
    pub fn by_key(
        &self,
        userid: u32,
        key: &str,
    ) -> Result<Option<(JobId, Result<StoredJob, Damage>)>, ReadError> {
        let id: Option<i64> = self
            .db
            .prepare_cached("SELECT id FROM job INDEXED BY job_key WHERE userid = ?1 AND key = ?2")?
            .query_row(params![userid, key], |row| row.get(0))
            .optional()?;
        let Some(id) = id.map(id_from_sql) else {
            return Ok(None);
        };
        // Purged in between: it is there no more.
        Ok(self.job(id, false)?.map(|job| (id, job)))
    }

    /// The ids of all jobs with their owners, by owner and id: the page after `after`, or the first. Read from an index alone.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn owners(
        &self,
        after: Option<(u32, JobId)>,
        limit: usize,
    ) -> Result<Vec<(u32, JobId)>, ReadError> {
        let (user, id) = after.map_or((-1, 0), |(user, id)| (i64::from(user), id_to_sql(id)));
        let mut rows = self.db.prepare_cached(
            "SELECT userid, id FROM job INDEXED BY job_user WHERE (userid, id) > (?1, ?2) ORDER BY userid, id LIMIT ?3",
        )?;
        let rows = rows.query_map(params![user, id, sql_limit(limit)], |row| {
            Ok((row.get(0)?, id_from_sql(row.get(1)?)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
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
        let ids = ids.query_map(params![userid, sql_limit(limit), skip], |row| {
            Ok(id_from_sql(row.get(0)?))
        })?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Inactive jobs in listing order (`t_inactive` descending, then id descending): the page after `after`, or the first.
    /// `next` of the page is not used; go on from the last job.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn inactive(
        &self,
        after: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<JobsPage, ReadError> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX);
        let (time, id) = after.map_or((f64::INFINITY, i64::MAX), |(time, id)| {
            (time.0, id_to_sql(id))
        });
        let sql = format!(
            "SELECT {COLUMNS}, job.id FROM job WHERE active = 0 AND (t_inactive, id) < (?1, ?2) ORDER BY t_inactive DESC, id DESC LIMIT ?3"
        );
        let mut page = JobsPage::default();
        let mut rows = self.db.prepare_cached(&sql)?;
        let mut rows = rows.query(params![time, id, sql_limit(limit)])?;
        while let Some(row) = rows.next()? {
            stored(row, None, &mut page);
        }
        Ok(page)
    }

    /// The newest seq the log has forgotten; 0 = none.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn floor(&self) -> Result<Seq, ReadError> {
        floor(&self.db)
    }

    fn one(&self, id: i64, with_j: bool, page: &mut JobsPage) -> Result<(), ReadError> {
        let j = if with_j {
            self.db
                .prepare_cached(
                    "SELECT blob.data FROM job JOIN blob ON blob.id = job.j WHERE job.id = ?1",
                )?
                .query_row([id], |row| Ok(bytes_at(row, 0, "j")))
                .optional()?
                .and_then(|read| read.ok().flatten())
        } else {
            None
        };
        let mut rows = self
            .db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE id = ?1"))?;
        let mut rows = rows.query([id])?;
        if let Some(row) = rows.next()? {
            stored(row, j, page);
        }
        Ok(())
    }
}

/// Bytes of what goes with an entry.
fn attached(entry: &Entry) -> usize {
    match &entry.attach {
        Attach::None => 0,
        Attach::Jobspec(bytes) | Attach::R(bytes) => bytes.len(),
    }
}

fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn floor(db: &Connection) -> Result<Seq, ReadError> {
    let text: Option<String> = db
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([KEY_FLOOR], |row| row.get(0))
        .optional()?;
    Ok(Seq(text.and_then(|text| text.parse().ok()).unwrap_or(0)))
}

fn size(job: &StoredJob) -> usize {
    let lines: usize = job.eventlog.iter().map(|entry| entry.line().len()).sum();
    lines + job.jobspec.len() + job.r.as_ref().map_or(0, Bytes::len)
}

/// Ids of jobs that are active now.
fn active_ids(db: &Connection, cursor: i64, limit: usize) -> Result<Vec<i64>, ReadError> {
    let mut ids = db.prepare_cached("SELECT id FROM job INDEXED BY job_active WHERE active = 1 AND id > ?1 ORDER BY id LIMIT ?2")?;
    let ids = ids.query_map(params![cursor, sql_limit(limit)], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Ids of jobs that became inactive after `at`: few, since only those of the time a scan takes.
fn late_ids(db: &Connection, at: Seq, cursor: i64, limit: usize) -> Result<Vec<i64>, ReadError> {
    let mut ids = db.prepare_cached(
        "SELECT id FROM job INDEXED BY job_done WHERE active = 0 AND done_seq > ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let ids = ids.query_map(params![seq_to_sql(at), cursor, sql_limit(limit)], |row| {
        row.get(0)
    })?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// The first `limit` of two ascending lists with no id in common.
fn merge(left: Vec<i64>, right: Vec<i64>, limit: usize) -> Vec<i64> {
    if right.is_empty() {
        return left;
    }
    let mut all = left;
    all.extend(right);
    all.sort_unstable();
    all.truncate(limit);
    all
}

/// Runs a scan whose last column is its cursor.
fn scan(
    db: &Connection,
    sql: &str,
    (cursor, bound, limit, bytes_max): (i64, i64, usize, usize),
    page: &mut JobsPage,
) -> Result<(), ReadError> {
    let mut rows = db.prepare_cached(sql)?;
    let mut rows = rows.query(params![cursor, bound, sql_limit(limit)])?;
    let mut count = 0;
    let mut bytes = 0;
    let mut next = None;
    while let Some(row) = rows.next()? {
        if bytes >= bytes_max.min(PAGE_BYTES_MAX) {
            page.next = next;
            return Ok(());
        }
        count += 1;
        next = Some(row.get(13)?);
        let before = page.jobs.len();
        stored(row, None, page);
        bytes += page.jobs[before..].iter().map(size).sum::<usize>();
    }
    page.next = next.filter(|_| count >= limit);
    Ok(())
}

/// Adds the job of this row to the page, or its damage.
fn stored(row: &Row<'_>, j: Option<Bytes>, page: &mut JobsPage) {
    let Ok(id) = row.get(0).map(id_from_sql) else {
        return;
    };
    let mut damage = |what| {
        page.damaged.push(Damage {
            job: Some(id),
            seq: None,
            what,
        })
    };
    let read = || -> Result<StoredJob, rusqlite::Error> {
        Ok(StoredJob {
            id,
            userid: row.get(1)?,
            flags: row.get(2)?,
            t_submit: Timestamp(row.get(3)?),
            active: row.get(4)?,
            waitable: row.get(5)?,
            done_seq: row.get::<_, Option<i64>>(6)?.map(seq_from_sql),
            t_inactive: row.get::<_, Option<f64>>(7)?.map(Timestamp),
            result: row.get(8)?,
            jobspec: Bytes::new(),
            r: None,
            j,
            eventlog: Vec::new(),
        })
    };
    let Ok(mut job) = read() else {
        return damage(Corrupt::Column {
            column: "userid to result",
        });
    };
    match (
        bytes_at(row, 9, "spec"),
        bytes_at(row, 10, "r"),
        eventlog(row),
    ) {
        (Ok(Some(jobspec)), Ok(r), Ok(Some(eventlog))) => {
            let (mut entries, wrong) = parse_lines(&eventlog);
            let foreign = entries
                .iter()
                .position(|entry| entry.source != Source::Job(id));
            if let Some(at) = foreign {
                damage(Corrupt::Line {
                    line: at + 1,
                    detail: "it is another job's".to_owned(),
                });
            } else if !wrong.is_empty() {
                wrong.into_iter().for_each(damage);
            } else if entries.is_empty() {
                damage(Corrupt::NoEventlog);
            } else {
                entries
                    .iter_mut()
                    .for_each(|entry| attach(entry, Some(&jobspec), r.as_ref()));
                (job.jobspec, job.r, job.eventlog) = (jobspec, r, entries);
                page.jobs.push(job);
            }
        }
        (Ok(None), ..) => damage(Corrupt::NoJobspec),
        (Err(what), ..) | (_, Err(what), _) | (_, _, Err(what)) => damage(what),
        (_, _, Ok(None)) => damage(Corrupt::NoEventlog),
    }
}

/// The whole eventlog: what the job's row has, and its tail.
fn eventlog(row: &Row<'_>) -> Result<Option<Bytes>, Corrupt> {
    let written = bytes_at(row, 11, "eventlog")?;
    match (written, bytes_at(row, 12, "tail")?) {
        (Some(written), Some(tail)) => Ok(Some([written, tail].concat().into())),
        (written, _) => Ok(written),
    }
}
