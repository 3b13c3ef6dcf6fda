//! `recover`: a new store from all that can be read of a damaged one. The old one is kept beside it.
//!
//! ```text
//! every page ─► scratch: entries by seq (log, eventlogs and tails say the same), job rows, blobs, keys
//!       ─► jobs whose entries apply and whose jobspec is there ─► job, blob        ─► checked, synced, put in place
//!       ─► entries after the last gap ─► log                    ─► those that are lost: named, and one purge entry says so
//! ```
//! Continuity is promised only where it can be: if a seq is missing, the store is a copy put in place, or SQLite's own structure or the WAL was
//! broken (so that the newest entries may be gone without a trace), the new store has a new epoch, and every cursor of the old one is refused.

mod place;
mod raw;
mod scratch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use job::{
    Entry, Event, EventKind, Job, JobFlags, JobId, Jobspec, R, Seq, Source, State, Timestamp,
};
use rusqlite::{Connection, OpenFlags, params};

use crate::amiss::purges;
use crate::apply::{LOG_CHUNK_BYTES_MAX, LOG_CHUNK_ENTRIES_MAX};
use crate::backup::KEY_BACKUP;
use crate::check::Progress;
use crate::error::OpenError;
use crate::examine::{beside, examine};
use crate::gone;
use crate::jobrow::object;
use crate::lock::DirLock;
use crate::recover::{
    KEY_EPOCH, KEY_FLOOR, KEY_MAX_JOBID, KEY_PREFIX, new_epoch, open_error, set_meta, was_given,
};
use crate::rows::{Text, id_to_sql, seq_to_sql};
use crate::schema;
use crate::tally::{self, Tally};
use crate::traces::{ID_ABSURD, Mark};
use crate::wal;
use scratch::{Row, Scratch};

/// The key under which the job-manager counts the entries of its system log; a purge entry is one.
const KEY_SYSTEM_LOG: &str = "system-log";
/// Jobs named in one purge entry.
const PURGE_JOBS_MAX: usize = 10_000;

/// Why nothing was recovered. The old store is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SalvageError {
    /// It is in use, or no store of ours.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Nothing is left in it.
    #[error("{} holds nothing that can be read as a store: put a backup in its place", file.display())]
    Nothing {
        /// The store's file.
        file: PathBuf,
    },
    /// The system said no.
    #[error("cannot recover to {}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite said no.
    #[error("cannot recover to {}: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Its error.
        source: rusqlite::Error,
    },
}

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Where the old file is now.
    pub kept: PathBuf,
    /// The epoch of the new store, and whether it is another than before.
    pub epoch: String,
    /// Whether cursors of before are refused from now on.
    pub new_epoch: bool,
    /// The newest seq.
    pub newest_seq: Seq,
    /// The log holds what follows this seq.
    pub floor: Seq,
    /// Jobs that are there.
    pub jobs: u64,
    /// Jobs that could not be recovered, and why.
    pub lost_jobs: Vec<(JobId, String)>,
    /// Seqs whose entries are in no copy: first and last of each run.
    pub lost_entries: Vec<(Seq, Seq)>,
}

/// Makes a new store from what can be read of the one in `statedir`, and puts it in place.
/// # Errors
/// [`SalvageError`].
pub fn salvage(statedir: &Path, progress: &mut Progress<'_>) -> Result<Salvaged, SalvageError> {
    let _lock = DirLock::take(statedir)?;
    let file = statedir.join(crate::FILE_NAME);
    place::undo(&file).map_err(|source| SalvageError::System {
        path: file.clone(),
        source,
    })?;
    // Before SQLite looks at it. Of one that cannot be read to its end nobody knows.
    let doubtful = wal::doubt(&beside(&file, "-wal")).map_or(true, |why| why.is_some());
    let sound = match examine(&file) {
        // SQLite would make a file where there is none.
        Ok(_) if is_empty(&file) => return Err(SalvageError::Nothing { file }),
        Ok(_) => is_sound(&file) && !doubtful,
        Err(OpenError::Damaged { .. } | OpenError::Truncated { .. } | OpenError::Sqlite { .. }) => {
            false
        }
        // Its first page may be what is broken: then it is a store if rows of one are in it.
        Err(OpenError::NotAStore { .. }) if !begins_as_database(&file) => false,
        Err(error) => return Err(error.into()),
    };
    let new = beside(&file, ".new");
    let remove = || {
        for ending in ["", "-journal", ".scratch", ".scratch-journal"] {
            let _ = std::fs::remove_file(beside(&new, ending));
        }
    };
    remove();
    let made = make(&file, &new, sound, Mark::read(statedir), progress);
    if made.is_err() {
        remove();
    }
    let mut made = made?;
    made.kept = place::put(&file, &new).map_err(|source| SalvageError::System {
        path: new.clone(),
        source,
    })?;
    Ok(made)
}

fn is_empty(file: &Path) -> bool {
    std::fs::metadata(file).map_or(true, |metadata| metadata.len() == 0)
}

fn begins_as_database(file: &Path) -> bool {
    let mut magic = [0; 16];
    std::fs::File::open(file)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic))
        .is_ok_and(|()| &magic == b"SQLite format 3\0")
}

/// Whether SQLite finds nothing wrong with its own structure.
fn is_sound(file: &Path) -> bool {
    let ask = || -> Result<String, rusqlite::Error> {
        // Who may write copies the WAL into the file, and it is gone before the new store is made.
        let mode = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(file, mode)?;
        db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
    };
    ask().is_ok_and(|said| said == "ok")
}

/// The new file, whole and synced but not yet in place.
fn make(
    file: &Path,
    new: &Path,
    sound: bool,
    mark: Option<Mark>,
    progress: &mut Progress<'_>,
) -> Result<Salvaged, SalvageError> {
    let sql = |source| SalvageError::Sqlite {
        path: new.to_owned(),
        source,
    };
    let io = |source| SalvageError::System {
        path: file.to_owned(),
        source,
    };
    let pages = raw::Pages::open(file).map_err(io)?;
    std::os::unix::fs::OpenOptionsExt::mode(
        std::fs::File::options().write(true).create(true),
        0o600,
    )
    .open(new)
    .map_err(io)?;
    let scratch =
        Scratch::make(&pages, &beside(new, ".scratch"), progress).map_err(|error| match error {
            scratch::Error::System(source) => io(source),
            scratch::Error::Sqlite(source) => sql(source),
        })?;
    if scratch.is_empty().map_err(sql)? {
        return Err(SalvageError::Nothing {
            file: file.to_owned(),
        });
    }
    let mut db = Connection::open(new).map_err(|error| open_error(new, error))?;
    db.pragma_update(None, "auto_vacuum", 2).map_err(sql)?;
    db.pragma_update(None, "synchronous", "OFF").map_err(sql)?;
    schema::migrate(&mut db, 0).map_err(sql)?;
    let mut made = Making {
        scratch: &scratch,
        purged: BTreeSet::new(),
        uses: HashMap::new(),
        done: Salvaged::default(),
        last_timestamp: Timestamp(0.0),
        system_log: 0,
        mark,
        tally: Tally::default(),
    };
    let tx = db.transaction().map_err(sql)?;
    made.all(&tx, sound, progress).map_err(sql)?;
    tx.commit().map_err(sql)?;
    let said: String = db
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(sql)?;
    if said != "ok" {
        return Err(OpenError::Damaged {
            file: new.to_owned(),
            detail: said,
        }
        .into());
    }
    let done = made.done;
    db.close().map_err(|(_, error)| sql(error))?;
    drop(scratch);
    let _ = std::fs::remove_file(beside(new, ".scratch"));
    Ok(done)
}

struct Making<'a> {
    scratch: &'a Scratch,
    purged: BTreeSet<JobId>,
    /// How many rows use each blob.
    uses: HashMap<i64, i64>,
    done: Salvaged,
    last_timestamp: Timestamp,
    system_log: u32,
    /// How far the writer of the old store said that it was.
    mark: Option<Mark>,
    tally: Tally,
}

impl Making<'_> {
    fn all(
        &mut self,
        db: &Connection,
        sound: bool,
        progress: &mut Progress<'_>,
    ) -> Result<(), rusqlite::Error> {
        let floor = self
            .key(KEY_FLOOR)
            .and_then(|text| text.parse().ok())
            .map_or(Seq(0), Seq);
        // A floor above all that there is says nothing.
        let known = floor <= self.scratch.newest()?;
        self.extent(if known { floor } else { Seq(0) })?;
        // Its end is lost: what followed was told, and nobody knows what it was.
        let sound = sound
            && !self.mark.as_ref().is_some_and(|mark| {
                self.key(KEY_EPOCH) == Some(&mark.epoch) && mark.seq > self.done.newest_seq
            });
        self.jobs(db, progress)?;
        let named = self.purge_entries();
        self.log(db, &named, progress)?;
        for (id, uses) in &self.uses {
            if let Some(data) = self.scratch.blob(*id)? {
                db.execute(
                    "INSERT INTO blob (id, refs, data) VALUES (?1, ?2, ?3)",
                    params![id, uses, Text(&data)],
                )?;
            }
        }
        self.keys(db, sound)
    }

    fn key(&self, key: &str) -> Option<&String> {
        self.scratch.keys.get(key)
    }

    /// How far the entries go, where some are missing, and which jobs are purged.
    fn extent(&mut self, floor: Seq) -> Result<(), rusqlite::Error> {
        let mut last = floor;
        let (mut lost, mut purged, mut system_log) = (Vec::new(), BTreeSet::new(), 0);
        // Their purge entry may be below the floor.
        purged.extend(self.scratch.keys.keys().filter_map(|key| gone::of_key(key)));
        let mut newest = Timestamp(0.0);
        self.scratch.entries(Seq(0), |entry| {
            if entry.source == Source::System {
                system_log = system_log.max(entry.eventlog_seq);
                purged.extend(purges(&entry));
            }
            if let Ok(event) = Event::parse(entry.json()) {
                newest = newest.later_of(event.timestamp);
            }
            if entry.seq > last {
                if entry.seq.0 > last.0 + 1 {
                    lost.push((last.next(), Seq(entry.seq.0 - 1)));
                }
                last = entry.seq;
            }
            Ok(())
        })?;
        // The log begins after the last entry that is missing.
        self.done.floor = lost.last().map_or(floor, |(_, last)| *last);
        self.done.newest_seq = last;
        self.done.lost_entries = lost;
        (self.purged, self.system_log, self.last_timestamp) = (purged, system_log, newest);
        Ok(())
    }

    fn jobs(
        &mut self,
        db: &Connection,
        progress: &mut Progress<'_>,
    ) -> Result<(), rusqlite::Error> {
        let ids = self.scratch.job_ids()?;
        for (done, id) in ids.iter().enumerate() {
            if done % 256 == 0 {
                progress("jobs", done as u64, ids.len() as u64);
            }
            if self.purged.contains(id) {
                continue;
            }
            let lines = self.scratch.lines(*id)?;
            let row = self.scratch.row(*id)?;
            match self.job(db, *id, row, lines)? {
                Ok(()) => self.done.jobs += 1,
                Err(why) => self.done.lost_jobs.push((*id, why)),
            }
        }
        Ok(())
    }

    /// One job into the new store, or why it cannot be.
    fn job(
        &mut self,
        db: &Connection,
        id: JobId,
        row: Option<Row>,
        entries: Vec<Entry>,
    ) -> Result<Result<(), String>, rusqlite::Error> {
        let job = match fold(id, &entries) {
            Ok(job) => job,
            Err(why) => return Ok(Err(why)),
        };
        let Some(row) = row else {
            return Ok(Err(
                "its row is lost, and with it which jobspec is its".to_owned()
            ));
        };
        let Some(spec) = row.spec else {
            return Ok(Err("its jobspec is lost".to_owned()));
        };
        let Some(jobspec) = self.scratch.blob(spec)? else {
            return Ok(Err("its jobspec is lost".to_owned()));
        };
        if let Err(error) = Jobspec::parse(&jobspec) {
            return Ok(Err(format!("its jobspec: {error}")));
        }
        let r = row
            .r
            .filter(|r| object("r", r).is_ok() && R::parse(r).is_ok());
        let active = job.state != State::Inactive;
        if active && job.has_resources && r.is_none() {
            return Ok(Err("it holds resources, and its R is lost".to_owned()));
        }
        let j = match row.j {
            Some(j) if self.scratch.blob(j)?.is_some() => Some(j),
            _ if active && !job.started => {
                return Ok(Err("it has not begun, and its J is lost".to_owned()));
            }
            _ => None,
        };
        for used in [Some(spec), j].into_iter().flatten() {
            *self.uses.entry(used).or_default() += 1;
        }
        let done_seq = entries
            .iter()
            .rev()
            .find(|entry| entry.name.as_str() == "clean")
            .map(|entry| seq_to_sql(entry.seq));
        let t_inactive = job.t_inactive.get().map(|time| time.0);
        let waitable = row.waitable.unwrap_or(true) && job.flags.contains(JobFlags::WAITABLE);
        let eventlog: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.line().iter().copied())
            .collect();
        db.prepare_cached(
            "INSERT INTO job (id, userid, flags, t_submit, active, waitable, done_seq, t_inactive, result, spec, j, r, eventlog, key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            id_to_sql(id),
            job.userid,
            job.flags.0,
            job.t_submit.0,
            active,
            waitable,
            done_seq.filter(|_| !active),
            t_inactive.filter(|_| !active),
            job.result().filter(|_| !active).map(|result| result as u32),
            spec,
            j,
            r.as_ref().map(|r| Text(r)),
            Text(&eventlog),
            row.key,
        ])?;
        self.tally.jobs += 1;
        if active {
            self.tally.active += 1;
            self.tally.entries += entries.len() as u64;
        }
        Ok(Ok(()))
    }

    /// What tells those who follow that the lost jobs are gone.
    fn purge_entries(&mut self) -> Vec<Entry> {
        let lost: Vec<JobId> = self.done.lost_jobs.iter().map(|(id, _)| *id).collect();
        let mut made = Vec::new();
        for jobs in lost.chunks(PURGE_JOBS_MAX) {
            self.done.newest_seq = self.done.newest_seq.next();
            self.system_log += 1;
            let mut context = job::Map::new();
            context.insert("jobs".to_owned(), jobs.iter().map(|id| id.0).collect());
            let event = Event::new(
                self.last_timestamp,
                EventKind::Other {
                    name: "purge".into(),
                    context: Some(context),
                },
            );
            made.push(Entry::new(
                self.done.newest_seq,
                Source::System,
                self.system_log,
                0,
                true,
                &event,
                job::Attach::None,
            ));
        }
        made
    }

    fn log(
        &self,
        db: &Connection,
        named: &[Entry],
        progress: &mut Progress<'_>,
    ) -> Result<(), rusqlite::Error> {
        let mut chunk: Vec<u8> = Vec::new();
        let mut range: Option<(Seq, Seq)> = None;
        let mut count = 0;
        let newest = self.done.newest_seq.0;
        let mut put = |entry: &Entry| -> Result<(), rusqlite::Error> {
            if !matches!(entry.source, Source::Job(_)) {
                db.prepare_cached("INSERT INTO instancelog (seq, line) VALUES (?1, ?2)")?
                    .execute(params![seq_to_sql(entry.seq), Text(entry.line())])?;
            }
            if entry.seq <= self.done.floor {
                return Ok(());
            }
            let full = chunk.len().saturating_add(entry.line().len()) > LOG_CHUNK_BYTES_MAX;
            if count >= LOG_CHUNK_ENTRIES_MAX || (count > 0 && full) {
                write_chunk(db, range, &chunk)?;
                progress("log", entry.seq.0, newest);
                chunk.clear();
                (range, count) = (None, 0);
            }
            chunk.extend_from_slice(entry.line());
            range = Some((range.map_or(entry.seq, |(first, _)| first), entry.seq));
            count += 1;
            Ok(())
        };
        self.scratch.entries(Seq(0), |entry| put(&entry))?;
        named.iter().try_for_each(&mut put)?;
        write_chunk(db, range, &chunk)
    }

    fn keys(&mut self, db: &Connection, sound: bool) -> Result<(), rusqlite::Error> {
        for (key, value) in &self.scratch.keys {
            if !key.starts_with(KEY_PREFIX) {
                set_meta(db, key, value)?;
            }
        }
        let epoch = self
            .key(KEY_EPOCH)
            .filter(|epoch| epoch.len() == 16)
            .cloned();
        // A copy that was not opened yet is to get a new one, whoever makes a store of it.
        let copy = self.key(KEY_BACKUP).is_some();
        self.done.new_epoch =
            !sound || copy || !self.done.lost_entries.is_empty() || epoch.is_none();
        self.done.epoch = match epoch.filter(|_| !self.done.new_epoch) {
            Some(epoch) => epoch,
            None => new_epoch().map_err(|error| {
                rusqlite::Error::ToSqlConversionFailure(Box::new(std::io::Error::from(error)))
            })?,
        };
        set_meta(db, KEY_EPOCH, &self.done.epoch)?;
        if self.done.floor > Seq(0) {
            set_meta(db, KEY_FLOOR, &self.done.floor.0.to_string())?;
        }
        let known = self
            .key(KEY_MAX_JOBID)
            .and_then(|text| text.parse::<u64>().ok())
            // Behind this one there would be none.
            .filter(|id| *id < u64::MAX - 1)
            .unwrap_or(0);
        let lost = self.done.lost_jobs.iter().map(|(id, _)| *id);
        let marked = self.mark.as_ref().map_or(0, |mark| mark.max_jobid.0);
        let mut max = known.max(Some(marked).filter(|id| *id < ID_ABSURD).unwrap_or(0));
        for id in lost.chain(self.purged.iter().copied()) {
            // What a damaged row is called was given to nobody.
            if id.0 > max && (was_given(id, &[]) || !self.scratch.lines(id)?.is_empty()) {
                max = id.0;
            }
        }
        if max > 0 {
            set_meta(db, KEY_MAX_JOBID, &max.to_string())?;
        }
        tally::set(db, Some(self.tally))?;
        if self.system_log > 0 {
            set_meta(db, KEY_SYSTEM_LOG, &self.system_log.to_string())?;
        }
        Ok(())
    }
}

fn write_chunk(
    db: &Connection,
    range: Option<(Seq, Seq)>,
    lines: &[u8],
) -> Result<(), rusqlite::Error> {
    if let Some((first, last)) = range {
        db.prepare_cached("INSERT INTO log (last_seq, first_seq, lines) VALUES (?1, ?2, ?3)")?
            .execute(params![seq_to_sql(last), seq_to_sql(first), Text(lines)])?;
    }
    Ok(())
}

/// What the entries make of a job: all of them, in order.
fn fold(id: JobId, entries: &[Entry]) -> Result<Job, String> {
    let mut job: Option<Job> = None;
    for (at, entry) in entries.iter().enumerate() {
        if entry.eventlog_seq as usize != at + 1 {
            return Err(format!("its entry {} is lost", at + 1));
        }
        let event =
            Event::parse(entry.json()).map_err(|error| format!("its entry {}: {error}", at + 1))?;
        match &mut job {
            None => {
                job = Some(
                    Job::new(id, &event)
                        .map_err(|why| format!("its entry 1 does not apply: {why}"))?,
                )
            }
            Some(job) => drop(
                job.apply(&event)
                    .map_err(|why| format!("its entry {} does not apply: {why}", at + 1))?,
            ),
        }
    }
    let job = job.ok_or("its entries are lost")?;
    if entries
        .first()
        .is_some_and(|first| first.userid != job.userid)
    {
        return Err(format!(
            "its entries are of user {}, its submit of user {}",
            entries[0].userid, job.userid
        ));
    }
    Ok(job)
}

/// What [`Scratch`] and this need of bytes.
type Lines = Bytes;
type Keys = BTreeMap<String, String>;
