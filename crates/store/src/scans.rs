//! Scans of jobs by page: ids from an index first, then each job by its id, so that a row that cannot be read is one job and not a page.

use std::collections::BTreeSet;

use bytes::Bytes;
use job::{JobId, Seq, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Params, params};

use crate::error::{Corrupt, ReadError, is_damage};
use crate::jobrow::{COLUMNS, stored};
use crate::reader::{PAGE_BYTES_MAX, PAGE_ROWS_MAX, Reader, sql_limit};
use crate::rows::{bytes_at, id_from_sql, id_to_sql, seq_to_sql};
use crate::stored::{Damage, JobsPage, Scope, StoredJob};

/// A job of a page, and where a scan goes on behind it.
type Place = (i64, i64);

impl Reader {
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
        let places = places(&tx, scope, cursor, limit)?;
        let full = places.len() >= limit;
        let (mut next, mut bytes) = (None, 0);
        for (place, id) in places {
            if bytes >= bytes_max.min(PAGE_BYTES_MAX) && next != Some(place) {
                page.next = next;
                return Ok(page);
            }
            let (before, damaged) = (page.jobs.len(), page.damaged.len());
            self.one(id, false, &mut page)?;
            if (before, damaged) == (page.jobs.len(), page.damaged.len()) && !self.gone.contains(id)
            {
                page.damaged.push(Damage {
                    job: Some(id_from_sql(id)),
                    seq: None,
                    what: Corrupt::Page {
                        detail: "an index names it, and its table does not have it".to_owned(),
                    },
                });
            }
            bytes += page.jobs[before..].iter().map(size).sum::<usize>();
            next = Some(place);
        }
        page.next = next.filter(|_| full);
        Ok(page)
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
        let sql = "SELECT id FROM job INDEXED BY job_inactive WHERE active = 0 AND (t_inactive, id) < (?1, ?2) ORDER BY t_inactive DESC, id DESC LIMIT ?3";
        let mut page = JobsPage::default();
        let mut rows = self.db.prepare_cached(sql)?;
        let rows = rows.query_map(params![time, id, sql_limit(limit)], |row| row.get(0))?;
        for id in rows.collect::<Result<Vec<i64>, _>>()? {
            self.one(id, false, &mut page)?;
        }
        Ok(page)
    }

    /// Jobs that no scan of [`Scope::Active`] or [`Scope::Inactive`] comes to, and no [`Reader::owners`], because of what their rows
    /// hold: at most `limit`. `newest`: no job can have ended later. Costs a pass over one index.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn strays(&self, newest: Seq, limit: usize) -> Result<Vec<Damage>, ReadError> {
        let tx = self.db.unchecked_transaction()?;
        let mut damaged = Vec::new();
        let newest = seq_to_sql(newest);
        let mut look = |sql: &str, column| -> Result<(), ReadError> {
            let mut rows = tx.prepare_cached(sql)?;
            let mut rows = rows.query(params![newest, sql_limit(limit)])?;
            while let Some(row) = rows.next()? {
                let (id, kind): (i64, String) = (row.get(0)?, row.get(1)?);
                if self.gone.contains(id) {
                    continue;
                }
                damaged.push(Damage {
                    job: Some(id_from_sql(id)),
                    seq: None,
                    what: Corrupt::Column { column, met: kind },
                });
            }
            Ok(())
        };
        look(
            "SELECT id, typeof(userid) FROM job INDEXED BY job_user
             WHERE (typeof(userid) <> 'integer' OR userid NOT BETWEEN 0 AND 4294967295) AND ?1 = ?1 LIMIT ?2",
            "userid",
        )?;
        for rule in ["done_seq IS NULL", "done_seq < 1", "done_seq > ?1"] {
            let sql = format!(
                "SELECT id, typeof(done_seq) FROM job INDEXED BY job_done WHERE active = 0 AND {rule} AND ?1 = ?1 LIMIT ?2"
            );
            look(&sql, "done_seq")?;
        }
        let count = |sql: &str| tx.query_row(sql, [], |row| row.get::<_, i64>(0));
        let all = count(
            "SELECT count(*) FROM job INDEXED BY job_user WHERE userid IS NOT NULL OR userid IS NULL",
        )?;
        let active = count("SELECT count(*) FROM job INDEXED BY job_active WHERE active = 1")?;
        let inactive = count("SELECT count(*) FROM job INDEXED BY job_done WHERE active = 0")?;
        // Read for nothing but to see that they can be: a commit writes into them.
        for (index, whose) in [
            ("job_inactive", "active = 0"),
            ("job_waitable", "waitable = 1 AND active = 0"),
        ] {
            let _ = count(&format!(
                "SELECT count(*) FROM job INDEXED BY {index} WHERE {whose}"
            ))?;
        }
        if all != active + inactive {
            look(
                "SELECT id, typeof(active) FROM job NOT INDEXED WHERE active IS NOT 0 AND active IS NOT 1 AND ?1 = ?1 LIMIT ?2",
                "active",
            )?;
            // Rows that are as they should be, and that neither of the two indexes has.
            look(
                "SELECT id, 'in no index' FROM job INDEXED BY job_user WHERE (userid IS NOT NULL OR userid IS NULL)
                   AND id NOT IN (SELECT id FROM job INDEXED BY job_active WHERE active = 1)
                   AND id NOT IN (SELECT id FROM job INDEXED BY job_done WHERE active = 0) AND ?1 = ?1 LIMIT ?2",
                "active",
            )?;
        }
        let mut named = BTreeSet::new();
        damaged.retain(|damage: &Damage| named.insert(damage.job));
        damaged.truncate(limit);
        Ok(damaged)
    }

    /// Adds the job to the page, or its damage; nothing if there is none of that id.
    pub(crate) fn one(&self, id: i64, with_j: bool, page: &mut JobsPage) -> Result<(), ReadError> {
        if self.gone.contains(id) {
            return Ok(());
        }
        match self.read_one(id, with_j, page) {
            Err(ReadError::Sqlite(error)) if is_damage(&error) => {
                page.damaged.push(Damage {
                    job: Some(id_from_sql(id)),
                    seq: None,
                    what: Corrupt::Page {
                        detail: error.to_string(),
                    },
                });
                Ok(())
            }
            read => read,
        }
    }

    fn read_one(&self, id: i64, with_j: bool, page: &mut JobsPage) -> Result<(), ReadError> {
        let j = if with_j { self.j(id)? } else { Ok(None) };
        let mut rows = self
            .db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE id = ?1"))?;
        let mut rows = rows.query([id])?;
        if let Some(row) = rows.next()? {
            match j {
                Ok(j) => stored(row, j, page),
                Err(what) => page.damaged.push(Damage {
                    job: Some(id_from_sql(id)),
                    seq: None,
                    what,
                }),
            }
        }
        Ok(())
    }

    fn j(&self, id: i64) -> Result<Result<Option<Bytes>, Corrupt>, ReadError> {
        let found = self
            .db
            .prepare_cached(
                "SELECT blob.data FROM job JOIN blob ON blob.id = job.j WHERE job.id = ?1",
            )?
            .query_row([id], |row| Ok(bytes_at(row, 0, "j")))
            .optional()?;
        Ok(found.unwrap_or(Ok(None)))
    }
}

fn size(job: &StoredJob) -> usize {
    let lines: usize = job.eventlog.iter().map(|entry| entry.line().len()).sum();
    lines + job.jobspec.len() + job.r.as_ref().map_or(0, Bytes::len)
}

/// The jobs of a page: `limit` of them, more only if several stand at one place.
fn places(
    db: &Connection,
    scope: Scope,
    cursor: i64,
    limit: usize,
) -> Result<Vec<Place>, ReadError> {
    let most = sql_limit(limit);
    Ok(match scope {
        Scope::Active { at } => {
            let active = rows(
                db,
                "SELECT id, id FROM job INDEXED BY job_active WHERE active = 1 AND id > ?1 ORDER BY id LIMIT ?2",
                params![cursor, most],
            )?;
            // Those that became inactive since: few, since only those of the time a scan takes.
            let late = rows(
                db,
                "SELECT id, id FROM job INDEXED BY job_done WHERE active = 0 AND done_seq > ?3 AND id > ?1 ORDER BY id LIMIT ?2",
                params![cursor, most, seq_to_sql(at)],
            )?;
            merge(active, late, limit)
        }
        Scope::Inactive { upto } => {
            let mut done = rows(
                db,
                "SELECT CAST(done_seq AS INTEGER), id FROM job INDEXED BY job_done WHERE active = 0 AND done_seq > ?1 AND done_seq <= ?3 ORDER BY done_seq, id LIMIT ?2",
                params![cursor, most, seq_to_sql(upto)],
            )?;
            // Each job ends with an entry of its own. If rows say otherwise, they are on one page all the same.
            if let Some((place, id)) = done.last().copied().filter(|_| done.len() >= limit) {
                done.extend(rows(
                    db,
                    "SELECT done_seq, id FROM job INDEXED BY job_done WHERE active = 0 AND done_seq = ?1 AND id > ?2",
                    params![place, id],
                )?);
            }
            done
        }
        Scope::Waitable => rows(
            db,
            "SELECT id, id FROM job INDEXED BY job_waitable WHERE waitable = 1 AND active = 0 AND id > ?1 ORDER BY id LIMIT ?2",
            params![cursor, most],
        )?,
        Scope::All => rows(
            db,
            "SELECT id, id FROM job WHERE id > ?1 ORDER BY id LIMIT ?2",
            params![cursor, most],
        )?,
    })
}

fn rows(db: &Connection, sql: &str, with: impl Params) -> Result<Vec<Place>, ReadError> {
    let mut rows = db.prepare_cached(sql)?;
    let rows = rows.query_map(with, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The first `limit` of two ascending lists with no job in common.
fn merge(left: Vec<Place>, right: Vec<Place>, limit: usize) -> Vec<Place> {
    if right.is_empty() {
        return left;
    }
    let mut all = left;
    all.extend(right);
    all.sort_unstable();
    all.truncate(limit);
    all
}
