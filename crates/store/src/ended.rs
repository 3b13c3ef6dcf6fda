//! Jobs that ended, the earliest first, as a purge looks for them: ids out of the index `job_inactive`, and how many there are.
//!
//! ```text
//!  t_inactive, id ─────────────────────────────────────────▶
//!  ├─ ended before a moment ─┤
//!  ├─ all but the last N ──────────────┤                  both limits are a place in this order: the later one counts
//! ```

use job::{JobId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Rows, params};

use crate::error::{ReadError, is_damage};
use crate::reader::{PAGE_ROWS_MAX, Reader};
use crate::rows::id_from_sql;

/// Which jobs that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ended {
    /// All.
    All,
    /// Those beyond a limit. Jobs whose result is still to be taken are left out, but count for `keep`.
    Beyond {
        /// They ended before this.
        before: Option<Timestamp>,
        /// All but so many that ended last.
        keep: Option<u64>,
    },
}

impl Reader {
    /// The first of these jobs, at most `limit`, and how many there are if `count` says that this is wanted (else 0). A job whose row cannot
    /// be read is passed over, though counted: it cannot be removed either. Whether its whole eventlog can be is not looked at.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn ended(
        &self,
        which: Ended,
        limit: usize,
        count: bool,
    ) -> Result<(Vec<JobId>, u64), ReadError> {
        let limit = limit.min(PAGE_ROWS_MAX);
        let db = self.db.unchecked_transaction()?;
        let Ended::Beyond { before, keep } = which else {
            let mut ids = db.prepare_cached(
                "SELECT id FROM job INDEXED BY job_inactive WHERE active = 0 ORDER BY t_inactive, id",
            )?;
            let ids = self.first(&db, ids.query([])?, limit, |_| true)?;
            let total: i64 = if count {
                db.query_row("SELECT count(*) FROM job WHERE active = 0", [], |row| {
                    row.get(0)
                })?
            } else {
                0
            };
            return Ok((ids, total.unsigned_abs()));
        };
        // Up to and with this place.
        let mut end = before.map(|before| (before.0, i64::MIN));
        if let Some(keep) = keep {
            let place: Option<(f64, i64)> = db
                .prepare_cached(
                    "SELECT t_inactive, id FROM job WHERE active = 0 ORDER BY t_inactive DESC, id DESC LIMIT 1 OFFSET ?1",
                )?
                .query_row([i64::try_from(keep).unwrap_or(i64::MAX)], |row| {
                    // What is no time sorts before all times.
                    Ok((row.get(0).unwrap_or(f64::NEG_INFINITY), row.get(1)?))
                })
                .optional()?;
            end = match (end, place) {
                (Some(end), Some(place)) if place < end => Some(end),
                (end, place) => place.or(end),
            };
        }
        let Some((time, id)) = end else {
            return Ok((Vec::new(), 0));
        };
        let mut ids = db.prepare_cached(
            "SELECT id FROM job INDEXED BY job_inactive WHERE active = 0 AND (t_inactive, id) <= (?1, ?2) ORDER BY t_inactive, id",
        )?;
        let ids = self.first(&db, ids.query(params![time, id])?, limit, |waitable| {
            waitable == Some(0)
        })?;
        let total: i64 = if count {
            // The first from an index alone; the jobs of the second are few.
            db.query_row(
                "SELECT (SELECT count(*) FROM job WHERE active = 0 AND (t_inactive, id) <= (?1, ?2))
                      - (SELECT count(*) FROM job INDEXED BY job_waitable WHERE waitable = 1 AND active = 0 AND (t_inactive, id) <= (?1, ?2))",
                params![time, id],
                |row| row.get(0),
            )?
        } else {
            0
        };
        Ok((ids, total.unsigned_abs()))
    }

    /// The first of these ids whose rows begin on pages that can be read, and are `wanted` for what `waitable` says. The eventlogs stay unread:
    /// each may be of many pages.
    fn first(
        &self,
        db: &Connection,
        mut ids: Rows<'_>,
        limit: usize,
        wanted: impl Fn(Option<i64>) -> bool,
    ) -> Result<Vec<JobId>, ReadError> {
        let mut found = Vec::new();
        let mut one = db.prepare_cached("SELECT waitable FROM job WHERE id = ?1")?;
        while found.len() < limit
            && let Some(row) = ids.next()?
        {
            let id: i64 = row.get(0)?;
            if self.gone.contains(id) {
                continue;
            }
            match one.query_row([id], |row| Ok(row.get::<_, i64>(0).ok())) {
                Ok(waitable) if wanted(waitable) => found.push(id_from_sql(id)),
                Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => {}
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}
