//! What the log knows and the archive has not: jobs whose rows are gone, and active jobs whose eventlogs are shorter than they were.
//!
//! ```text
//!  each line of the log: SEQ SOURCE ESEQ …  ─►  the last entry of each job, the jobs that are purged
//!        ─► no row, and not purged                     ─► set aside: nobody knows its jobspec
//!        ─► active, and its eventlog ends before that  ─► the missing lines, once more through the log ─► all there: put back
//!                                                                                                    └─► else set aside
//! ```
//! It costs a pass over all of the log that is kept, so it is done when the [`Tally`] says that something is missing, not at each start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use bytes::Bytes;
use job::{Entry, JobId, Seq, Source};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use crate::error::{Corrupt, OpenError, ReadError, is_damage};
use crate::reader::{Reader, floor};
use crate::recover::open_error;
use crate::rows::{Text, id_from_sql, id_to_sql, parse_lines, seq_to_sql};
use crate::stored::{Damage, JobsPage};
use crate::tally::{self, Tally};

/// Rows of the log read in one transaction.
const LOG_ROWS: usize = 200;

/// A job of which the archive has less than the log.
#[derive(Debug)]
pub struct Amiss {
    /// Its owner.
    pub userid: u32,
    /// The job, and what is missing of it.
    pub damage: Damage,
    /// The lines that put it right; none if that cannot be.
    lines: Option<(Seq, Vec<u8>)>,
}

/// What the log says of a job.
#[derive(Debug, Clone, Copy)]
struct Last {
    eventlog_seq: u32,
    userid: u32,
}

/// The lines of one job that its eventlog has not.
#[derive(Debug)]
struct Missing {
    userid: u32,
    /// Entries that the eventlog has, and that the log has.
    have: u32,
    last: u32,
    has_r: bool,
    found: Vec<Bytes>,
}

impl Reader {
    /// How many rows the job table has: from an index.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn job_count(&self) -> Result<u64, ReadError> {
        let count: i64 = self.db.query_row(
            "SELECT count(*) FROM job INDEXED BY job_user WHERE userid IS NOT NULL OR userid IS NULL",
            [],
            |row| row.get(0),
        )?;
        Ok(count.unsigned_abs())
    }

    /// Looks through the log for jobs that the archive should have and has not, up to `upto`. A job that is damaged otherwise is not among them.
    /// # Errors
    /// [`ReadError::Sqlite`].
    pub fn amiss(&self, upto: Seq) -> Result<Vec<Amiss>, ReadError> {
        let (mut known, purged) = self.what_the_log_knows(upto)?;
        known.retain(|id, _| !purged.contains(id));
        let mut missing: BTreeMap<u64, Missing> = BTreeMap::new();
        for id in self.all_ids("SELECT id FROM job INDEXED BY job_active WHERE active = 1")? {
            let Some(last) = known.remove(&id_from_sql(id).0) else {
                continue;
            };
            let mut page = JobsPage::default();
            let tx = self.db.unchecked_transaction()?;
            self.one(id, false, &mut page)?;
            drop(tx);
            for job in page.jobs {
                let have = u32::try_from(job.eventlog.len()).unwrap_or(u32::MAX);
                if have < last.eventlog_seq {
                    let entry = Missing {
                        userid: job.userid,
                        have,
                        last: last.eventlog_seq,
                        has_r: job.r.is_some(),
                        found: Vec::new(),
                    };
                    missing.insert(job.id.0, entry);
                }
            }
        }
        for id in self.all_ids("SELECT id FROM job INDEXED BY job_user")? {
            known.remove(&id_from_sql(id).0);
        }
        let mut found: Vec<Amiss> = known
            .into_iter()
            .map(|(id, last)| Amiss {
                userid: last.userid,
                damage: damage(
                    id,
                    Corrupt::NoRow {
                        entries: last.eventlog_seq,
                    },
                ),
                lines: None,
            })
            .collect();
        if !missing.is_empty() {
            self.find_lines(upto, &mut missing)?;
            found.extend(missing.into_iter().map(|(id, missing)| missing.told(id)));
        }
        found.sort_by_key(|amiss| amiss.damage.job);
        Ok(found)
    }

    fn all_ids(&self, sql: &str) -> Result<Vec<i64>, ReadError> {
        let mut rows = self.db.prepare(sql)?;
        let ids = rows.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// The last entry of each job of the log, and the jobs that are purged.
    fn what_the_log_knows(
        &self,
        upto: Seq,
    ) -> Result<(HashMap<u64, Last>, BTreeSet<u64>), ReadError> {
        let mut known: HashMap<u64, Last> = HashMap::new();
        let mut purged: BTreeSet<u64> = BTreeSet::new();
        let mut purge = |line: &[u8]| {
            let (entries, _) = parse_lines(&Bytes::copy_from_slice(line));
            for entry in entries {
                purged.extend(purges(&entry).into_iter().map(|id| id.0));
            }
        };
        self.each_line(upto, |line| match words(line) {
            Some((Of::Job(id), eventlog_seq, userid)) => {
                let last = known.entry(id).or_insert(Last {
                    eventlog_seq,
                    userid,
                });
                last.eventlog_seq = last.eventlog_seq.max(eventlog_seq);
            }
            Some((Of::System, ..)) => purge(line),
            Some((Of::Other, ..)) | None => {}
        })?;
        // A purge may be newer than the look, or in a row that the log lost.
        let mut rows = self
            .db
            .prepare("SELECT line FROM instancelog WHERE line LIKE '%\"name\":\"purge\"%'")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            if let ValueRef::Text(line) | ValueRef::Blob(line) = row.get_ref(0)? {
                purge(line);
            }
        }
        purged.extend(self.gone.all().into_iter().map(|id| id_from_sql(id).0));
        Ok((known, purged))
    }

    /// Hands over every line of the log that can be had, a few rows a transaction.
    fn each_line(&self, upto: Seq, mut line: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let mut after = seq_to_sql(floor(&self.db).unwrap_or(Seq(0)));
        loop {
            let tx = self.db.unchecked_transaction()?;
            let mut rows = tx.prepare_cached(
                "SELECT last_seq, lines FROM log WHERE last_seq > ?1 AND last_seq <= ?2 ORDER BY last_seq LIMIT ?3",
            )?;
            let mut rows = rows.query(params![after, seq_to_sql(upto), LOG_ROWS as i64])?;
            let mut count = 0;
            loop {
                match rows.next() {
                    Ok(Some(row)) => {
                        after = row.get(0)?;
                        count += 1;
                        if let Ok(ValueRef::Text(lines) | ValueRef::Blob(lines)) = row.get_ref(1) {
                            lines
                                .split_inclusive(|byte| *byte == b'\n')
                                .for_each(&mut line);
                        }
                    }
                    Ok(None) => break,
                    // What stands behind it is not known; whoever reads the log is told so.
                    Err(error) if is_damage(&error) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            if count < LOG_ROWS {
                return Ok(());
            }
        }
    }

    fn find_lines(&self, upto: Seq, missing: &mut BTreeMap<u64, Missing>) -> Result<(), ReadError> {
        self.each_line(upto, |line| {
            if let Some((Of::Job(id), eventlog_seq, _)) = words(line)
                && let Some(missing) = missing.get_mut(&id)
                && u64::from(eventlog_seq)
                    == u64::from(missing.have) + missing.found.len() as u64 + 1
            {
                missing.found.push(Bytes::copy_from_slice(line));
            }
        })
    }
}

impl Missing {
    /// What is told of it, and what would put it right.
    fn told(self, id: u64) -> Amiss {
        let lines: Bytes = self.found.concat().into();
        let (entries, wrong) = parse_lines(&lines);
        let whole = wrong.is_empty()
            && entries.len() as u64 == u64::from(self.last) - u64::from(self.have)
            // R and what the row says of the end are in no log.
            && entries.iter().all(|entry| match entry.name.as_str() {
                "alloc" => self.has_r,
                "clean" => false,
                _ => true,
            });
        Amiss {
            userid: self.userid,
            damage: damage(
                id,
                Corrupt::Short {
                    have: self.have,
                    log: self.last,
                },
            ),
            lines: entries
                .last()
                .filter(|_| whole)
                .map(|last| (last.seq, lines.to_vec())),
        }
    }
}

fn damage(id: u64, what: Corrupt) -> Damage {
    Damage {
        job: Some(JobId(id)),
        seq: None,
        what,
    }
}

/// Whose a line is.
enum Of {
    Job(u64),
    System,
    Other,
}

/// Whose a line is, the number of its entry, and the user.
fn words(line: &[u8]) -> Option<(Of, u32, u32)> {
    let mut words = line.splitn(5, |byte| *byte == b' ');
    let _seq = words.next()?;
    let source = words.next()?;
    let of = match source.first()? {
        b'0'..=b'9' => Of::Job(number(source)?),
        b's' => Of::System,
        _ => Of::Other,
    };
    let mut small = || u32::try_from(number(words.next()?)?).ok();
    Some((of, small()?, small()?))
}

fn number(word: &[u8]) -> Option<u64> {
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The jobs that a purge entry names; none if it is another entry.
pub(crate) fn purges(entry: &Entry) -> Vec<JobId> {
    #[derive(serde::Deserialize)]
    struct Line {
        context: Context,
    }
    #[derive(serde::Deserialize)]
    struct Context {
        jobs: Vec<JobId>,
    }
    if entry.source != Source::System || entry.name.as_str() != "purge" {
        return Vec::new();
    }
    serde_json::from_slice::<Line>(entry.json())
        .map(|line| line.context.jobs)
        .unwrap_or_default()
}

/// Puts back what can be, all of it or nothing; the jobs whose eventlogs are whole again. To be called before anything is handed to the writer.
/// # Errors
/// [`OpenError`]: the store cannot be written.
pub fn repair(statedir: &Path, amiss: &[Amiss]) -> Result<Vec<JobId>, OpenError> {
    let able = amiss.iter().filter_map(|one| {
        let (seq, lines) = one.lines.as_ref()?;
        Some((one.damage.job?, *seq, lines))
    });
    let able: Vec<_> = able.collect();
    if able.is_empty() {
        return Ok(Vec::new());
    }
    let file = statedir.join(crate::FILE_NAME);
    let put_back = || -> Result<Vec<JobId>, rusqlite::Error> {
        let mut db = writable(&file)?;
        let tx = db.transaction()?;
        for (id, seq, lines) in &able {
            tx.execute(
                "INSERT OR REPLACE INTO tail (seq, job, lines) VALUES (?1, ?2, ?3)",
                params![seq_to_sql(*seq), id_to_sql(*id), Text(lines)],
            )?;
        }
        tx.commit()?;
        Ok(able.iter().map(|(id, ..)| *id).collect())
    };
    put_back().map_err(|error| open_error(&file, error))
}

/// Notes what the archive has: from now on that is what it should have. `None`: it should have more, so that the next start looks again.
/// # Errors
/// [`OpenError`]: the store cannot be written.
pub fn settle(statedir: &Path, tally: Option<Tally>) -> Result<(), OpenError> {
    let file = statedir.join(crate::FILE_NAME);
    writable(&file)
        .and_then(|db| tally::set(&db, tally))
        .map_err(|error| open_error(&file, error))
}

fn writable(file: &Path) -> Result<Connection, rusqlite::Error> {
    let db = Connection::open(file)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    Ok(db)
}
