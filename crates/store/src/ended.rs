//! Jobs that ended, the earliest first, as a purge looks for them: ids out of the index `job_inactive`, and how many there are.
//!
//! ```text
//!  t_inactive, id ─────────────────────────────────────────▶
//!  ├─ ended before a moment ─┤
//!  ├─ all but the last N ──────────────┤                  both limits are a place in this order: the later one counts
//! ```

use job::{JobId, Timestamp};
use rusqlite::{OptionalExtension as _, params};

use crate::error::ReadError;
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
    /// The first of these jobs, at most `limit`, and how many there are if `count` says that this is wanted (else 0).
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn ended(
        &self,
        which: Ended,
        limit: usize,
        count: bool,
    ) -> Result<(Vec<JobId>, u64), ReadError> {
        let limit = i64::try_from(limit.min(PAGE_ROWS_MAX)).unwrap_or(i64::MAX);
        let db = self.db.unchecked_transaction()?;
        let Ended::Beyond { before, keep } = which else {
            let mut ids = db.prepare_cached(
                "SELECT id FROM job WHERE active = 0 ORDER BY t_inactive, id LIMIT ?1",
            )?;
            let ids = ids.query_map([limit], |row| Ok(id_from_sql(row.get(0)?)))?;
            let ids = ids.collect::<Result<_, _>>()?;
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
            "SELECT id FROM job WHERE active = 0 AND (t_inactive, id) <= (?1, ?2) AND waitable = 0
             ORDER BY t_inactive, id LIMIT ?3",
        )?;
        let ids = ids.query_map(params![time, id, limit], |row| Ok(id_from_sql(row.get(0)?)))?;
        let ids = ids.collect::<Result<_, _>>()?;
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
}
