//! What a purge does to the store: rows of jobs go, with their tails and their use of jobspecs; and what becomes of those that cannot go.
//!
//! ```text
//! transaction ─▶ a row on a broken page ─▶ all of it rolled back ─▶ each removal tried alone ─▶ transaction without those: they are `gone`
//! ```
//! With a full disk the rows of a purge may be more than the reserve has room for. Then the purge is stored with all of them noted as gone, which is little,
//! and they are removed one by one after it.
//!
//! SQLite writes nothing more in a transaction that met a broken page. So the jobs that cannot be removed are found beside it, once, whatever their
//! number; then they stay, noted as gone.

use std::collections::BTreeSet;

use job::JobId;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use crate::blobs::Blobs;
use crate::error::{is_damage, is_full};
use crate::gone::{self, Gone};
use crate::recover;
use crate::rows::{bytes_at, id_from_sql, id_to_sql};
use crate::tally::Change;

/// The jobs to be removed, as far as something is known of them.
#[derive(Debug, Default)]
pub(crate) struct Removal {
    /// Those whose rows are on pages that are broken.
    stay: BTreeSet<JobId>,
    /// … and those of which only the jobspec cannot be removed.
    keep_blobs: BTreeSet<JobId>,
    /// They were looked for.
    is_probed: bool,
    /// How often a transaction failed for that alone.
    retries: u32,
    /// All of them stay for now: their rows go later.
    is_deferred: bool,
}

impl Removal {
    /// Grows when a [`Removal::remove`] fails for a job that cannot be removed: the transaction can be tried again after a [`Removal::probe`]. Once,
    /// whatever the number of such jobs; only what can be removed alone and not with others costs an attempt each.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// The jobs that were purged and are there still.
    pub(crate) fn stay(&self) -> impl Iterator<Item = JobId> + '_ {
        self.stay.iter().copied()
    }

    /// The rows of these jobs are to go later, one by one, since what it takes to remove them all at once is more than there is room for. False if
    /// that was said before, or there are none.
    pub(crate) fn defer(&mut self, ids: &[JobId]) -> bool {
        if self.is_deferred || ids.is_empty() {
            return false;
        }
        self.is_deferred = true;
        self.stay.extend(ids);
        true
    }

    /// Whether this one was purged with this transaction and is there still.
    pub(crate) fn stays_for_now(&self, id: JobId) -> bool {
        self.stay.contains(&id)
    }

    /// Whether those that stay are to go later.
    pub(crate) fn is_deferred(&self) -> bool {
        self.is_deferred
    }

    /// Removes these jobs, but for those that cannot be, inside the transaction that is open; `change` counts them.
    pub(crate) fn remove(
        &mut self,
        db: &Connection,
        blobs: &mut Blobs,
        ids: &[JobId],
        change: &mut Change,
    ) -> Result<(), rusqlite::Error> {
        let (mut removed, mut newest) = (false, None);
        for id in ids.iter().copied() {
            if self.stay.contains(&id) {
                continue;
            }
            let gone = remove_rows(db, id_to_sql(id)).and_then(|row| {
                if let Some(row) = &row
                    && !self.keep_blobs.contains(&id)
                {
                    for blob in row.used {
                        blobs.drop_use(db, blob)?;
                    }
                }
                Ok(row)
            });
            removed = true;
            match gone {
                Ok(None) => {}
                Ok(Some(row)) => {
                    change.jobs -= 1;
                    change.unknown |= row.active;
                    newest = newest.max(Some(id).filter(|_| row.given));
                }
                Err(error) => {
                    if is_damage(&error) {
                        self.retries += 1;
                        if self.is_probed {
                            self.stays(id, &error);
                        }
                    }
                    return Err(error);
                }
            }
        }
        if removed {
            blobs.forget_gone();
        }
        if let Some(newest) = newest {
            recover::raise_max_jobid(db, newest)?;
        }
        Ok(())
    }

    fn stays(&mut self, id: JobId, error: &rusqlite::Error) {
        tracing::error!(job = %id, id = id.0, %error, "purged, but its row cannot be removed: it is passed over; see weir store recover");
        self.stay.insert(id);
    }

    /// After a [`Removal::remove`] that failed for one of these: finds all that cannot be removed, each in a transaction that is taken back.
    pub(crate) fn probe(
        &mut self,
        db: &mut Connection,
        ids: &[JobId],
    ) -> Result<(), rusqlite::Error> {
        if std::mem::replace(&mut self.is_probed, true) {
            return Ok(());
        }
        for id in ids.iter().copied() {
            let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let removed = remove_rows(&tx, id_to_sql(id));
            let dropped = match &removed {
                Ok(Some(row)) => {
                    let mut blobs = Blobs::default();
                    let mut used = row.used.iter();
                    used.try_for_each(|blob| blobs.drop_use(&tx, *blob))
                }
                _ => Ok(()),
            };
            tx.rollback()?;
            match (removed, dropped) {
                (Ok(_), Ok(())) => {}
                (Err(error), _) if is_damage(&error) => self.stays(id, &error),
                (Ok(_), Err(error)) if is_damage(&error) => {
                    tracing::error!(job = %id, id = id.0, %error, "purged, but its jobspec cannot be removed: see weir store recover");
                    self.keep_blobs.insert(id);
                }
                (Err(error), _) | (_, Err(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Tries once more to remove the rows of jobs that were purged; those that stay are `gone`. Those for which there is no room now come back.
pub(crate) fn remove_gone(db: &mut Connection, gone: &Gone) -> Result<Vec<i64>, rusqlite::Error> {
    gone.load(db)?;
    let mut later = Vec::new();
    for id in gone.all() {
        match remove_one(db, id) {
            Ok(true) => gone.remove(id),
            Ok(false) => {}
            Err(error) if is_full(&error) => later.push(id),
            Err(error) => return Err(error),
        }
    }
    Ok(later)
}

/// Removes the row of a job that was purged before, in a transaction of its own. False: it cannot be removed.
pub(crate) fn remove_one(db: &mut Connection, id: i64) -> Result<bool, rusqlite::Error> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut blobs = Blobs::default();
    let removed = remove_rows(&tx, id).and_then(|row| {
        let change = Change {
            jobs: -i64::from(row.is_some()),
            unknown: row.as_ref().is_some_and(|row| row.active),
            ..Change::default()
        };
        if row.as_ref().is_some_and(|row| row.given) {
            recover::raise_max_jobid(&tx, id_from_sql(id))?;
        }
        for blob in row.into_iter().flat_map(|row| row.used) {
            blobs.drop_use(&tx, blob)?;
        }
        gone::forget(&tx, id_from_sql(id))?;
        change.write(&tx)
    });
    match removed {
        Ok(()) => tx.commit().map(|()| true),
        Err(error) if is_damage(&error) => tx.rollback().map(|()| false),
        Err(error) => Err(error),
    }
}

/// What a removed row said.
struct Removed {
    /// The blobs that the job used.
    used: [Option<i64>; 2],
    /// Its id was one that was given.
    given: bool,
    /// It was not known to have ended.
    active: bool,
}

/// Removes a job's row and its tail; none if there was no row.
fn remove_rows(db: &Connection, id: i64) -> Result<Option<Removed>, rusqlite::Error> {
    let row = db
        .prepare_cached(
            "DELETE FROM job WHERE id = ?1 RETURNING spec, j, substr(eventlog, 1, 64), active",
        )?
        // A damaged row goes, too; a blob it may have shared stays.
        .query_row([id], |row| {
            let head = bytes_at(row, 2, "eventlog").ok().flatten();
            Ok(Removed {
                used: [row.get(0).unwrap_or(None), row.get(1).unwrap_or(None)],
                given: recover::was_given(id_from_sql(id), &head.unwrap_or_default()),
                active: row.get::<_, i64>(3) != Ok(0),
            })
        })
        .optional()?;
    db.prepare_cached("DELETE FROM tail WHERE job = ?1")?
        .execute([id])?;
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Gather;
    use crate::batch::{Batch, JobWrite};
    use job::Seq;
    use rusqlite::params;

    #[test]
    fn fault_jobs_that_cannot_be_removed_cost_one_attempt_more_whatever_their_number() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("store");
        let mut db = Connection::open(&file).unwrap();
        crate::schema::migrate(&mut db, 0).unwrap();
        let jobs = 200_i64;
        for id in 1..=jobs {
            db.execute(
                "INSERT INTO job (id, userid, flags, t_submit, active, waitable, done_seq, t_inactive, result, eventlog) VALUES (?1, 0, 0, 0.5, 0, 0, 1, 0.5, 1, ?2)",
                params![id, format!("1 {id} {}", "x".repeat(20_000))],
            )
            .unwrap();
        }
        drop(db);
        let mut bytes = std::fs::read(&file).unwrap();
        for page in bytes.chunks_mut(4096) {
            // Pages that rows run over to, but for the last of each.
            if page[0] == 0 && page[..4] != [0; 4] && page[4..].iter().all(|byte| *byte == b'x') {
                page[..4].fill(0);
            }
        }
        std::fs::write(&file, bytes).unwrap();
        let mut db = Connection::open(&file).unwrap();
        let batch = Batch {
            jobs: (1..=jobs.unsigned_abs())
                .map(|id| JobWrite::Delete { id: JobId(id) })
                .collect(),
            ..Batch::default()
        };
        let mut gather = Gather::new(Seq(0), [&batch]).unwrap();
        let mut blobs = Blobs::default();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let tx = db.transaction().unwrap();
            let before = gather.removal.retries();
            match gather.write(&tx, &mut blobs, &Gone::default(), &[]) {
                Ok(()) => break tx.commit().unwrap(),
                Err(_) if gather.removal.retries() > before => {
                    blobs.rolled_back();
                    drop(tx);
                    gather.probe(&mut db).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((attempts, gather.removal.stay().count()), (2, 200));
    }
}
