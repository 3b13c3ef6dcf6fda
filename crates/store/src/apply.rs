//! Batches into SQL: everything one transaction holds is first gathered per job, so that each job costs one statement.
//!
//! ```text
//! batches ─► Gather: log chunks (≤ 256 entries, 16 MiB) · one Delta a job, in order of first mention · meta · trim
//!         ─► trim, DELETE · log, instancelog INSERT · job INSERT, or its tail INSERT, or the UPDATE that ends it
//! ```
//!
//! What goes, goes first: a purged job's key may be another's in the same transaction, and a full disk has room again.
//!
//! The caller owns the transaction; nothing here commits. Nothing here reads the clock or waits.

use std::collections::HashMap;

use bytes::Bytes;
use job::{JobId, Seq, Source, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::batch::{Batch, JobWrite};
use crate::blobs::Blobs;
use crate::error::is_damage;
use crate::gone::{self, Gone};
use crate::recover::{self, KEY_PREFIX};
use crate::removal::Removal;
use crate::rows::{Text, id_from_sql, id_to_sql, seq_to_sql};
use crate::tally::Change;

/// Entries of one row of the log; so a reader of a few entries reads a bounded row.
pub(crate) const LOG_CHUNK_ENTRIES_MAX: usize = 256;
/// Bytes of one row of the log that has more than one entry: SQLite takes no row of 1 GB.
pub(crate) const LOG_CHUNK_BYTES_MAX: usize = 16 << 20;

/// A batch the caller must never have made; storing it would break the file for good.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Misuse {
    /// Seqs must be gapless.
    #[error("entry {met} handed to the store after {newest}: a seq is missing or was given twice")]
    Gap { newest: Seq, met: Seq },
    /// A key of ours.
    #[error("meta key {key} belongs to the store")]
    Key { key: String },
}

/// Whether a row is there though its job is purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    /// It goes later.
    Whole,
    /// It cannot go.
    Broken,
}

/// What happens to one job in this transaction.
struct Delta {
    id: JobId,
    new: Option<New>,
    lines: Vec<u8>,
    last_seq: Option<Seq>,
    r: Option<Bytes>,
    done: Option<Done>,
    consumed: bool,
    delete: bool,
    /// Entries in `lines`, and the number of the last of them in the job's eventlog.
    entries: u32,
    last_entry: u32,
}

struct New {
    userid: u32,
    t_submit: Timestamp,
    flags: u32,
    jobspec: Bytes,
    j: Bytes,
    key: Option<Box<str>>,
}

struct Done {
    seq: Seq,
    t_inactive: Timestamp,
    result: u32,
}

struct Chunk {
    first: Seq,
    last: Seq,
    lines: Vec<u8>,
}

/// All that the batches of one transaction ask for.
pub(crate) struct Gather {
    /// The newest seq once this is committed.
    pub(crate) newest: Seq,
    chunks: Vec<Chunk>,
    other: Vec<(Seq, Bytes)>,
    deltas: Vec<Delta>,
    by_id: HashMap<u64, usize>,
    meta: Vec<(String, String)>,
    trim: Option<Seq>,
    /// What is known of the jobs that are to be removed.
    pub(crate) removal: Removal,
    /// What the rows written so far change.
    change: Change,
}

impl Gather {
    /// Gathers `batches`, of which the first entry must follow `newest`.
    pub(crate) fn new<'a>(
        newest: Seq,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<Self, Misuse> {
        let mut this = Self {
            newest,
            chunks: Vec::new(),
            other: Vec::new(),
            deltas: Vec::new(),
            by_id: HashMap::new(),
            meta: Vec::new(),
            trim: None,
            removal: Removal::default(),
            change: Change::default(),
        };
        for batch in batches {
            this.batch(batch)?;
        }
        Ok(this)
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), Misuse> {
        let mut in_chunk = self
            .chunks
            .last()
            .map_or(0, |chunk| chunk.last.0 - chunk.first.0 + 1);
        for entry in &batch.entries {
            if entry.seq.0 != self.newest.0 + 1 {
                return Err(Misuse::Gap {
                    newest: self.newest,
                    met: entry.seq,
                });
            }
            self.newest = entry.seq;
            let bytes = self.chunks.last().map_or(0, |chunk| chunk.lines.len());
            let full = bytes.saturating_add(entry.line().len()) > LOG_CHUNK_BYTES_MAX;
            if self.chunks.is_empty() || in_chunk >= LOG_CHUNK_ENTRIES_MAX as u64 || full {
                self.chunks.push(Chunk {
                    first: entry.seq,
                    last: entry.seq,
                    lines: Vec::new(),
                });
                in_chunk = 0;
            }
            in_chunk += 1;
            if let Some(chunk) = self.chunks.last_mut() {
                chunk.last = entry.seq;
                chunk.lines.extend_from_slice(entry.line());
            }
            match entry.source {
                Source::Job(id) => {
                    let delta = self.delta(id);
                    delta.lines.extend_from_slice(entry.line());
                    delta.last_seq = Some(entry.seq);
                    delta.entries += 1;
                    delta.last_entry = entry.eventlog_seq;
                }
                Source::Resource | Source::System => {
                    self.other.push((entry.seq, entry.line().clone()))
                }
            }
        }
        let newest = self.newest;
        for write in &batch.jobs {
            let delta = self.delta(write.id());
            match write {
                JobWrite::Insert {
                    userid,
                    t_submit,
                    flags,
                    jobspec,
                    j,
                    key,
                    ..
                } => {
                    delta.new = Some(New {
                        userid: *userid,
                        t_submit: *t_submit,
                        flags: *flags,
                        jobspec: jobspec.clone(),
                        j: j.clone(),
                        key: key.clone(),
                    });
                }
                JobWrite::SetR { r, .. } => delta.r = Some(r.clone()),
                JobWrite::Inactive {
                    t_inactive, result, ..
                } => {
                    delta.done = Some(Done {
                        seq: delta.last_seq.unwrap_or(newest),
                        t_inactive: *t_inactive,
                        result: *result,
                    });
                }
                JobWrite::Consumed { .. } => delta.consumed = true,
                JobWrite::Delete { .. } => delta.delete = true,
            }
        }
        for (key, value) in &batch.meta {
            if key.starts_with(KEY_PREFIX) {
                return Err(Misuse::Key { key: key.clone() });
            }
            self.meta.push((key.clone(), value.clone()));
        }
        self.trim = self.trim.max(batch.trim);
        Ok(())
    }

    fn delta(&mut self, id: JobId) -> &mut Delta {
        let deltas = &mut self.deltas;
        let at = *self.by_id.entry(id.0).or_insert_with(|| {
            deltas.push(Delta {
                id,
                new: None,
                lines: Vec::new(),
                last_seq: None,
                r: None,
                done: None,
                consumed: false,
                delete: false,
                entries: 0,
                last_entry: 0,
            });
            deltas.len() - 1
        });
        &mut deltas[at]
    }

    /// Writes it all inside the transaction that is open on `db`.
    pub(crate) fn write(
        &mut self,
        db: &Connection,
        blobs: &mut Blobs,
        gone: &Gone,
        later: &[i64],
    ) -> Result<(), rusqlite::Error> {
        self.change = Change::default();
        if let Some(upto) = self.trim {
            match trim(db, upto) {
                // It stays as it is then; the commit is not to be lost for that.
                Err(error) if is_damage(&error) => {
                    tracing::error!(%error, "the log cannot be trimmed: see weir store check");
                }
                trimmed => trimmed?,
            }
        }
        let deletes = self.deltas.iter().filter(|delta| delta.delete);
        let ids: Vec<JobId> = deletes.map(|delta| delta.id).collect();
        self.removal.remove(db, blobs, &ids, &mut self.change)?;
        {
            let mut log = db.prepare_cached(
                "INSERT INTO log (last_seq, first_seq, lines) VALUES (?1, ?2, ?3)",
            )?;
            for chunk in &self.chunks {
                log.execute(params![
                    seq_to_sql(chunk.last),
                    seq_to_sql(chunk.first),
                    Text(&chunk.lines)
                ])?;
            }
            let mut other =
                db.prepare_cached("INSERT INTO instancelog (seq, line) VALUES (?1, ?2)")?;
            for (seq, line) in &self.other {
                other.execute(params![seq_to_sql(*seq), Text(line)])?;
            }
        }
        for delta in self.deltas.iter().filter(|delta| !delta.delete) {
            let held = |id| {
                let is_deferred = self.removal.is_deferred();
                if self.removal.stays_for_now(id_from_sql(id)) && is_deferred || later.contains(&id)
                {
                    Held::Whole
                } else if self.removal.stays_for_now(id_from_sql(id)) || gone.contains(id) {
                    Held::Broken
                } else {
                    Held::No
                }
            };
            delta.write(db, blobs, &held, &mut self.change)?;
        }
        for (key, value) in &self.meta {
            recover::set_meta(db, key, value)?;
        }
        for id in self.removal.stay() {
            gone::note(db, id, self.newest)?;
            // Who knows what of a broken one counts; of the others, what goes is counted when it does.
            self.change.unknown |= !self.removal.is_deferred();
        }
        self.change.write(db)?;
        blobs.flush(db)
    }

    /// After a [`Gather::write`] that failed and [`Removal::retries`] grew: what cannot be removed is found, and the next attempt leaves it.
    pub(crate) fn probe(&mut self, db: &mut Connection) -> Result<(), rusqlite::Error> {
        let deletes = self.deltas.iter().filter(|delta| delta.delete);
        let ids: Vec<JobId> = deletes.map(|delta| delta.id).collect();
        self.removal.probe(db, &ids)
    }

    /// There is no room for all of it: rows of purged jobs go later, if there are any. False if that is no help.
    pub(crate) fn defer_removal(&mut self) -> bool {
        let deletes = self.deltas.iter().filter(|delta| delta.delete);
        let ids: Vec<JobId> = deletes.map(|delta| delta.id).collect();
        self.removal.defer(&ids)
    }

    /// The jobs of this transaction with the largest id, if it makes any.
    pub(crate) fn newest_job(&self) -> Option<JobId> {
        let made = self.deltas.iter().filter(|delta| delta.new.is_some());
        made.map(|delta| delta.id).max()
    }
}

impl Delta {
    fn write(
        &self,
        db: &Connection,
        blobs: &mut Blobs,
        held: &dyn Fn(i64) -> Held,
        change: &mut Change,
    ) -> Result<(), rusqlite::Error> {
        let id = id_to_sql(self.id);
        match &self.new {
            Some(new) => {
                self.insert(db, blobs, held, new)?;
                change.jobs += 1;
                if self.done.is_none() {
                    change.active += 1;
                    change.entries += i64::from(self.entries);
                }
            }
            None => {
                let changed = self.update(db, id, change)?;
                if changed == 0 {
                    tracing::warn!(job = %self.id, "entries of a job that has no row: kept in the log only");
                }
            }
        }
        Ok(())
    }

    fn insert(
        &self,
        db: &Connection,
        blobs: &mut Blobs,
        held: &dyn Fn(i64) -> Held,
        new: &New,
    ) -> Result<(), rusqlite::Error> {
        let mut key = new.key.as_deref();
        if key.is_some() {
            let id: Option<i64> = db
                .prepare_cached(
                    "SELECT id FROM job INDEXED BY job_key WHERE userid = ?1 AND key = ?2",
                )?
                .query_row(params![new.userid, key], |row| row.get(0))
                .optional()?;
            match id.map(held) {
                None | Some(Held::No) => {}
                Some(Held::Whole) => {
                    db.prepare_cached("UPDATE job SET key = NULL WHERE id = ?1")?
                        .execute([id])?;
                }
                Some(Held::Broken) => {
                    tracing::error!(job = %self.id, key, "its key is that of a purged job that cannot be removed: stored without");
                    key = None;
                }
            }
        }
        let spec = blobs.add(db, &new.jobspec)?;
        let j = blobs.add(db, &new.j)?;
        let waitable = new.flags & crate::FLAG_WAITABLE != 0 && !self.consumed;
        db.prepare_cached(
            "INSERT INTO job (id, userid, flags, t_submit, active, waitable, done_seq, t_inactive, result, spec, j, r, eventlog, key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            id_to_sql(self.id),
            new.userid,
            new.flags,
            new.t_submit.0,
            self.done.is_none(),
            waitable,
            self.done.as_ref().map(|done| seq_to_sql(done.seq)),
            self.done.as_ref().map(|done| done.t_inactive.0),
            self.done.as_ref().map(|done| done.result),
            spec,
            j,
            self.r.as_ref().map(|r| Text(r)),
            Text(&self.lines),
            key,
        ])?;
        Ok(())
    }

    fn update(
        &self,
        db: &Connection,
        id: i64,
        change: &mut Change,
    ) -> Result<usize, rusqlite::Error> {
        let lines = Text(&self.lines);
        if self.consumed {
            db.prepare_cached("UPDATE job SET waitable = 0 WHERE id = ?1")?
                .execute([id])?;
        }
        if let Some(done) = &self.done {
            let changed = db
                .prepare_cached(
                    "UPDATE job SET active = 0, done_seq = ?3, t_inactive = ?4, result = ?5, r = coalesce(?6, r), eventlog = eventlog
                       || coalesce((SELECT group_concat(lines, '') FROM (SELECT lines FROM tail WHERE tail.job = job.id ORDER BY seq)), '') || ?2
                     WHERE id = ?1",
                )?
                .execute(params![id, lines, seq_to_sql(done.seq), done.t_inactive.0, done.result, self.r.as_ref().map(|r| Text(r))])?;
            if changed > 0 {
                change.active -= 1;
                change.entries -= i64::from(self.last_entry.saturating_sub(self.entries));
                change.unknown |= self.entries == 0;
            }
            db.prepare_cached("DELETE FROM tail WHERE job = ?1")?
                .execute([id])?;
            return Ok(changed);
        }
        if let Some(r) = &self.r {
            db.prepare_cached("UPDATE job SET r = ?2 WHERE id = ?1")?
                .execute(params![id, Text(r)])?;
        }
        let Some(seq) = self.last_seq else {
            return Ok(1);
        };
        // Two statements: one that inserts what it selects has SQLite copy each page it changes beside the file, to undo it alone. That was
        // a third of the time of a change of all priorities.
        let active = db
            .prepare_cached("SELECT 1 FROM job INDEXED BY job_active WHERE active = 1 AND id = ?1")?
            .exists([id])?;
        if active {
            change.entries += i64::from(self.entries);
            return db
                .prepare_cached("INSERT INTO tail (job, seq, lines) VALUES (?1, ?2, ?3)")?
                .execute(params![id, seq_to_sql(seq), lines]);
        }
        // Not active: a late word about a job that is done, or about none.
        db.prepare_cached("UPDATE job SET eventlog = eventlog || ?2 WHERE id = ?1")?
            .execute(params![id, lines])
    }
}

/// Forgets the rows of the log that end at or before `upto`, and remembers the newest seq that went.
fn trim(db: &Connection, upto: Seq) -> Result<(), rusqlite::Error> {
    let upto = seq_to_sql(upto);
    let floor: Option<i64> = db.query_row(
        "SELECT max(last_seq) FROM log WHERE last_seq <= ?1",
        [upto],
        |row| row.get(0),
    )?;
    if let Some(floor) = floor {
        db.execute("DELETE FROM log WHERE last_seq <= ?1", [upto])?;
        // Below the floor nothing is left that a purge would explain, and what entries of nodes add up to is in meta.
        let before = recover::floor(db)?;
        db.execute(
            "DELETE FROM instancelog WHERE seq > ?1 AND seq <= ?2 AND (line LIKE '%,\"name\":\"purge\",%' OR substr(line, instr(line, ' ') + 1, 9) = 'resource ')",
            [before, floor],
        )?;
        recover::set_meta(db, recover::KEY_FLOOR, &floor.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::{Attach, Entry, Event, EventKind, Map};
    use std::sync::Arc;

    #[test]
    fn fault_a_row_of_the_log_is_cut_by_bytes_too() {
        let long = "x".repeat(LOG_CHUNK_BYTES_MAX / 2);
        let entry = |seq: u64| {
            let context = Map::from_iter([("text".to_owned(), long.as_str().into())]);
            let kind = EventKind::Other {
                name: "note".into(),
                context: Some(context),
            };
            let event = Event::new(Timestamp(1.0), kind);
            let number = u32::try_from(seq).unwrap();
            let entry = Entry::new(
                Seq(seq),
                Source::System,
                number,
                0,
                true,
                &event,
                Attach::None,
            );
            Arc::new(entry)
        };
        let batch = Batch {
            entries: (1..=3).map(entry).collect(),
            ..Batch::default()
        };
        let gathered = Gather::new(Seq(0), [&batch]).unwrap();
        let rows: Vec<_> = gathered
            .chunks
            .iter()
            .map(|chunk| (chunk.first.0, chunk.last.0))
            .collect();
        assert_eq!(rows, [(1, 1), (2, 2), (3, 3)]);
        assert!(
            gathered
                .chunks
                .iter()
                .all(|chunk| chunk.lines.len() <= LOG_CHUNK_BYTES_MAX)
        );
    }
}
