//! Is a store what it should be: SQLite's own look at every page, then ours at what the rows mean.
//!
//! ```text
//! pages and indexes ─► log: gapless, every line ─► jobs: columns, jobspec, R, eventlog applied; the same lines as in the log
//!        ─► tails, instance log, blobs counted ─► keys
//! ```
//! Reads only, each step in short transactions (SQLite's is one for each table), so a running daemon is not held up; what is stored
//! meanwhile is not looked at: everything is compared up to the seq that was newest at the beginning. All damage is named, none ends the look.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use bytes::Bytes;
use job::{Entry, Event, Job, JobId, Jobspec, R, Seq, Source};
use rusqlite::Connection;

use crate::error::{Corrupt, OpenError, ReadError, is_damage};
use crate::examine::{Verdict, beside, examine};
use crate::gone::Gone;
use crate::reader::{Reader, ReaderFactory, floor};
use crate::recover::{KEY_EPOCH, KEY_FLOOR, KEY_MAX_JOBID, absurd, behind, max_known, open_error};
use crate::rows::{bytes_at, id_from_sql, parse_lines, seq_from_sql, seq_to_sql};
use crate::schema;
use crate::stored::{JobsPage, StoredJob};
use crate::traces::{JobDirs, Mark};
use crate::wal;

/// Things of one kind that are named one by one; more are counted.
pub const NAMED_MAX: usize = 1000;
/// Times that a WAL is read once more that began anew meanwhile.
const WAL_LOOKS_MAX: usize = 3;
/// Keys of the job-manager's that a start has to read.
const KEY_QUEUES: &str = "queues";
const KEY_RESOURCES: &str = "resources";
/// Rows of the log read in one transaction.
const LOG_ROWS: i64 = 500;

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: `schema`, `wal`, `pages`, `log`, `job`, `tail`, `instancelog`, `blob` or `meta`.
    pub place: &'static str,
    /// The job it is about, if it is about one.
    pub job: Option<JobId>,
    /// What is wrong.
    pub what: String,
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Schema version of the file.
    pub schema: i64,
    /// The store's name.
    pub epoch: String,
    /// The newest seq when the look began.
    pub newest_seq: Seq,
    /// The newest seq that the log has forgotten.
    pub floor: Seq,
    /// Entries in the log.
    pub entries: u64,
    /// Jobs.
    pub jobs: u64,
    /// Those of them that are active.
    pub active: u64,
    /// Commits in the write-ahead log that are not in the main file yet.
    pub wal_commits: u64,
    /// Pages behind them, of a commit that is under way or was when its process was killed: told to nobody, and no damage.
    pub wal_torn: u64,
    /// All that is wrong; empty = the store is sound.
    pub problems: Vec<Problem>,
    /// How many more there are of a kind that is named [`NAMED_MAX`] times.
    pub more: u64,
    /// Jobs that cannot be used.
    aside: BTreeSet<JobId>,
}

impl Report {
    fn add(&mut self, place: &'static str, job: Option<JobId>, what: impl Into<String>) {
        let named = self
            .problems
            .iter()
            .filter(|one| one.place == place)
            .count();
        if named < NAMED_MAX {
            self.problems.push(Problem {
                place,
                job,
                what: what.into(),
            });
        } else {
            self.more += 1;
        }
    }

    /// A job that cannot be used.
    fn add_aside(&mut self, job: Option<JobId>, what: impl Into<String>) {
        self.aside.extend(job);
        self.add("job", job, what);
    }

    /// Jobs that cannot be used: the daemon sets them aside when it meets them. A job of which log and archive do not say the same is not
    /// among them, since what the archive says of it can be used.
    #[must_use]
    pub fn set_aside(&self) -> &BTreeSet<JobId> {
        &self.aside
    }
}

/// How far a look has come: what it does, and how much of how much.
pub type Progress<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// How many lines of a job there are, and what they hash to together, in any order.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Lines {
    count: u64,
    sum: u64,
}

impl Lines {
    fn add(&mut self, entry: &Entry) {
        let mut hasher = DefaultHasher::new();
        entry.line().hash(&mut hasher);
        self.count += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}

/// Checks the store in `file`, running or not.
/// # Errors
/// [`OpenError`]: it is no store of this release, or cannot be looked at.
pub fn check(file: &Path, progress: &mut Progress<'_>) -> Result<Report, OpenError> {
    let told = |error: ReadError| match error {
        ReadError::Sqlite(error) => open_error(file, error),
        error @ ReadError::BelowFloor { .. } => OpenError::Damaged {
            file: file.to_owned(),
            detail: error.to_string(),
        },
    };
    let version = match examine(file)? {
        Verdict::Ours(version) => version,
        Verdict::Fresh => {
            return Err(OpenError::Directory {
                dir: file.to_owned(),
                source: std::io::Error::new(std::io::ErrorKind::NotFound, "there is no store"),
            });
        }
    };
    // Before the store is looked at: it does not become shorter meanwhile.
    let statedir = file.parent().unwrap_or(Path::new("."));
    let (mark, dirs) = (Mark::read(statedir), JobDirs::read(statedir));
    let gone = Gone::default();
    let reader = ReaderFactory::new(file.to_owned(), gone.clone())
        .open()
        .map_err(told)?;
    // What is damage is told below.
    let _ = gone.load(&reader.db);
    let mut report = Report {
        schema: version,
        ..Report::default()
    };
    if version < schema::VERSION {
        report.add(
            "meta",
            None,
            format!("schema {version} is older than {}: the next start migrates it, look again after that", schema::VERSION),
        );
        return Ok(report);
    }
    let differences = schema::differences(&reader.db).map_err(|error| open_error(file, error))?;
    let mut is_whole = true;
    for difference in differences {
        is_whole &= !matches!(difference, schema::Difference::Missing(_));
        report.add("schema", None, difference.to_string());
    }
    if !is_whole {
        return Ok(report);
    }
    let mut look = Look {
        reader,
        log: HashMap::new(),
        purged: BTreeSet::new(),
        report,
    };
    look.wal(&beside(file, "-wal")).map_err(told)?;
    look.all(progress).map_err(told)?;
    look.end(mark, dirs).map_err(told)?;
    Ok(look.report)
}

struct Look {
    reader: Reader,
    /// What the log has of each source.
    log: HashMap<Source, Lines>,
    purged: BTreeSet<JobId>,
    report: Report,
}

impl Look {
    fn all(&mut self, progress: &mut Progress<'_>) -> Result<(), ReadError> {
        self.keys()?;
        self.pages(progress)?;
        self.log(progress)?;
        self.instance()?;
        self.jobs(progress)?;
        self.blobs()?;
        Ok(())
    }

    fn db(&self) -> &Connection {
        &self.reader.db
    }

    /// Whether the WAL lost commits. SQLite reads it up to the first frame that does not check, and says nothing.
    fn wal(&mut self, wal: &Path) -> Result<(), ReadError> {
        // As long as somebody reads, the WAL does not begin anew; but for one of which nothing is to be read any more.
        let tx = self.reader.db.unchecked_transaction()?;
        tx.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
        let mut looked = wal::look(wal);
        for _ in 0..WAL_LOOKS_MAX {
            let again = wal::look(wal);
            if again.as_ref().ok().map(|look| look.salt)
                == looked.as_ref().ok().map(|look| look.salt)
            {
                break;
            }
            looked = again;
        }
        drop(tx);
        match looked {
            Ok(look) => {
                (self.report.wal_commits, self.report.wal_torn) = (look.commits, look.torn);
                if let Some(why) = look.doubt {
                    self.report
                        .add("wal", None, format!("commits are lost: {why}"));
                }
            }
            Err(error) => self
                .report
                .add("wal", None, format!("it cannot be read: {error}")),
        }
        Ok(())
    }

    /// Whether the store ends where it did: `mark` and `dirs` are as they were before the look.
    fn end(&mut self, mark: Option<Mark>, dirs: JobDirs) -> Result<(), ReadError> {
        let newest = self.report.newest_seq;
        if let Some(mark) = &mark
            && mark.epoch == self.report.epoch
            && mark.seq > newest
        {
            self.report.add("wal", None, behind(newest, mark.seq));
        }
        let known = max_known(self.db())?;
        if let Some(id) = dirs.newest.filter(|id| *id > known) {
            let what = "it has files, and is newer than all that the store knows: the end of the store is lost";
            self.report.add("wal", Some(id), what);
        }
        Ok(())
    }

    /// The store's own keys, and how far it goes.
    fn keys(&mut self) -> Result<(), ReadError> {
        let mut keys = BTreeMap::new();
        {
            let mut rows = self.db().prepare("SELECT key, value FROM meta")?;
            let mut rows = rows.query([])?;
            loop {
                match rows.next() {
                    Ok(Some(row)) => {
                        let key = row.get::<_, String>(0);
                        keys.insert(key.unwrap_or_default(), row.get::<_, String>(1).ok());
                    }
                    Ok(None) => break,
                    Err(error) if is_damage(&error) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        for (key, value) in &keys {
            if value.is_none() || key.is_empty() {
                self.report
                    .add("meta", None, format!("key {key:?} is not text"));
            }
        }
        let epoch = keys.get(KEY_EPOCH).cloned().flatten().unwrap_or_default();
        if epoch.len() != 16 || !epoch.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            self.report.add(
                "meta",
                None,
                format!("{KEY_EPOCH} is {epoch:?}: expected 16 hex digits"),
            );
        }
        if let Some(text) = keys.get(KEY_FLOOR).cloned().flatten()
            && text.parse::<u64>().is_err()
        {
            self.report.add(
                "meta",
                None,
                format!("{KEY_FLOOR} is {text:?}: expected a number"),
            );
        }
        if let Some(text) = keys.get(KEY_MAX_JOBID).cloned().flatten()
            && text.parse::<u64>().map_or(true, |id| id >= u64::MAX - 1)
        {
            self.report.add(
                "meta",
                None,
                format!(
                    "{KEY_MAX_JOBID} is {text:?}: expected a job's id, and no more can be given"
                ),
            );
        }
        if let Some(text) = keys.get(KEY_QUEUES).cloned().flatten()
            && serde_json::from_str::<job::Map>(&text).is_err()
        {
            let what = "queues cannot be read: the queue is closed at a start, until it is opened";
            self.report.add("meta", None, what);
        }
        if let Some(text) = keys.get(KEY_RESOURCES).cloned().flatten()
            && let Err(error) = job::Resources::from_json(text.as_bytes())
        {
            let what = format!("resources: {error}: a start makes it of what the log has of nodes");
            self.report.add("meta", None, what);
        }
        self.report.epoch = epoch;
        if let Some(what) = absurd(self.db())? {
            self.report.add("meta", None, what);
        }
        self.report.floor = floor(self.db()).unwrap_or(Seq(0));
        let of_log = crate::archive::newest_of_log(self.db())?;
        let known = of_log.unwrap_or(Seq(0)).max(self.report.floor);
        self.report.newest_seq = crate::archive::newest_seq(self.db(), known)?;
        Ok(())
    }

    /// SQLite's own look, a table at a time.
    fn pages(&mut self, progress: &mut Progress<'_>) -> Result<(), ReadError> {
        let tables = ["meta", "log", "instancelog", "blob", "job", "tail"];
        for (done, table) in tables.iter().enumerate() {
            progress("pages", done as u64, tables.len() as u64);
            let found: Result<Vec<String>, rusqlite::Error> = self
                .db()
                .prepare(&format!("PRAGMA integrity_check('{table}')"))
                .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect());
            match found {
                Ok(lines) => {
                    for line in lines.iter().filter(|line| *line != "ok") {
                        self.report.add("pages", None, format!("{table}: {line}"));
                    }
                }
                Err(error) if is_damage(&error) => {
                    self.report.add("pages", None, format!("{table}: {error}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Every line of the log, gapless from the floor on.
    fn log(&mut self, progress: &mut Progress<'_>) -> Result<(), ReadError> {
        let newest = self.report.newest_seq;
        let mut upto = self.report.floor;
        'pages: loop {
            progress("log", upto.0, newest.0);
            // What is trimmed while we look is no gap.
            let floor = floor(self.db()).unwrap_or(Seq(0));
            if floor > self.report.floor {
                self.report.floor = floor;
                upto = upto.max(floor);
            }
            let mut rows: Vec<(Seq, Option<Bytes>)> = Vec::new();
            let mut cut = None;
            {
                let tx = self.db().unchecked_transaction()?;
                let mut found = tx.prepare_cached("SELECT last_seq, lines FROM log WHERE last_seq > ?1 AND last_seq <= ?2 ORDER BY last_seq LIMIT ?3")?;
                let mut found = found.query(rusqlite::params![
                    seq_to_sql(upto),
                    seq_to_sql(newest),
                    LOG_ROWS
                ])?;
                loop {
                    match found.next() {
                        Ok(Some(row)) => {
                            let lines = bytes_at(row, 1, "lines").ok().flatten();
                            rows.push((seq_from_sql(row.get(0)?), lines));
                        }
                        Ok(None) => break,
                        Err(error) if is_damage(&error) => {
                            cut = Some(error.to_string());
                            break;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            let last_page = rows.len() < LOG_ROWS as usize;
            for (last, lines) in rows {
                self.log_row(&mut upto, last, lines);
            }
            if let Some(detail) = cut {
                self.report.add(
                    "log",
                    None,
                    format!("from seq {} on it cannot be read: {detail}", upto.next()),
                );
                break 'pages;
            }
            if last_page {
                if upto < newest {
                    self.report.add(
                        "log",
                        None,
                        Corrupt::Gap {
                            first: upto.next(),
                            last: newest,
                        }
                        .to_string(),
                    );
                }
                break;
            }
        }
        Ok(())
    }

    fn log_row(&mut self, upto: &mut Seq, last: Seq, lines: Option<Bytes>) {
        let (entries, wrong) = parse_lines(&lines.unwrap_or_default());
        for what in wrong {
            self.report.add("log", None, format!("row {last}: {what}"));
        }
        for entry in entries {
            if entry.seq.0 > upto.0 + 1 {
                let gap = Corrupt::Gap {
                    first: upto.next(),
                    last: Seq(entry.seq.0 - 1),
                };
                self.report.add("log", None, gap.to_string());
            }
            if entry.seq <= *upto || entry.seq > last {
                self.report.add(
                    "log",
                    None,
                    format!("row {last} holds seq {} out of its place", entry.seq),
                );
                continue;
            }
            *upto = entry.seq;
            self.report.entries += 1;
            self.log.entry(entry.source).or_default().add(&entry);
            self.purge(&entry);
        }
        *upto = (*upto).max(last);
    }

    /// Notes the jobs that a purge names.
    fn purge(&mut self, entry: &Entry) {
        if entry.source == Source::System && entry.name.as_str() == "purge" {
            #[derive(serde::Deserialize)]
            struct Line {
                context: Purge,
            }
            #[derive(serde::Deserialize)]
            struct Purge {
                jobs: Vec<JobId>,
            }
            match serde_json::from_slice::<Line>(entry.json()) {
                Ok(line) => self.purged.extend(line.context.jobs),
                Err(error) => self
                    .report
                    .add("log", None, format!("purge {}: {error}", entry.seq)),
            }
        }
    }

    /// The instance's own entries: each where it should be, and as the log has it.
    fn instance(&mut self) -> Result<(), ReadError> {
        let (newest, floor) = (self.report.newest_seq, self.report.floor);
        let mut found: HashMap<Source, Lines> = HashMap::new();
        let mut after = Seq(0);
        loop {
            let page = match self.reader.instance_entries(after, newest, 1000) {
                Ok(page) => page,
                Err(ReadError::Sqlite(error)) if is_damage(&error) => {
                    self.report.add("instancelog", None, error.to_string());
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            for damage in &page.damaged {
                self.report.add(
                    "instancelog",
                    None,
                    format!("seq {}: {}", damage.seq.unwrap_or(Seq(0)), damage.what),
                );
            }
            for entry in &page.entries {
                self.purge(entry);
                if matches!(entry.source, Source::Job(_)) {
                    self.report
                        .add("instancelog", None, format!("seq {} is a job's", entry.seq));
                } else if entry.seq > floor {
                    found.entry(entry.source).or_default().add(entry);
                }
            }
            if page.upto >= newest || page.upto <= after {
                break;
            }
            after = page.upto;
        }
        for source in [Source::Resource, Source::System] {
            let (log, kept) = (self.log.get(&source), found.get(&source));
            if log.copied().unwrap_or_default() != kept.copied().unwrap_or_default() {
                self.report.add(
                    "instancelog",
                    None,
                    format!("its entries of {source:?} are not those of the log"),
                );
            }
        }
        Ok(())
    }

    /// Every job: its row, what its entries make of it, and that the log has the same.
    fn jobs(&mut self, progress: &mut Progress<'_>) -> Result<(), ReadError> {
        for stray in self
            .reader
            .strays(Seq(u64::MAX >> 1), NAMED_MAX)
            .unwrap_or_default()
        {
            self.report.add_aside(stray.job, stray.what.to_string());
        }
        for id in self.reader.gone.all().into_iter().map(id_from_sql) {
            let what =
                "it is purged, and its row is on a page that is broken, so it cannot be removed";
            self.purged.insert(id);
            self.report.add("pages", Some(id), what);
        }
        let mut ids = self.ids()?;
        ids.retain(|id| !self.reader.gone.contains(*id));
        self.report.jobs = ids.len() as u64;
        for (done, id) in ids.iter().enumerate() {
            if done % 256 == 0 {
                progress("jobs", done as u64, ids.len() as u64);
            }
            let mut page = JobsPage::default();
            let tx = self.reader.db.unchecked_transaction()?;
            self.reader.one(*id, true, &mut page)?;
            drop(tx);
            let of_log = self.log.remove(&Source::Job(id_from_sql(*id)));
            for damage in page.damaged {
                self.report.add_aside(damage.job, damage.what.to_string());
            }
            for job in page.jobs {
                self.report.active += u64::from(job.active);
                match self.job(&job) {
                    Err(what) => self.report.add_aside(Some(job.id), what),
                    Ok(lines) => {
                        let of_log = of_log.unwrap_or_default();
                        if lines != of_log {
                            let what = format!(
                                "its eventlog has {} entries between floor and newest seq, the log {}, or they are not the same",
                                lines.count, of_log.count
                            );
                            self.report.add("log", Some(job.id), what);
                        }
                    }
                }
            }
        }
        let left: Vec<Source> = self.log.keys().copied().collect();
        for source in left {
            if let Source::Job(id) = source
                && !self.purged.contains(&id)
                && self.is_gone(id)?
            {
                self.report.add(
                    "job",
                    None,
                    format!(
                        "job {} is in the log and has no row, and no purge names it",
                        id.0
                    ),
                );
            }
        }
        Ok(())
    }

    /// Whether there is no row and no later purge.
    fn is_gone(&self, id: JobId) -> Result<bool, ReadError> {
        if self.reader.job(id, false)?.is_some() {
            return Ok(false);
        }
        let page =
            self.reader
                .instance_entries(self.report.newest_seq, Seq(u64::MAX >> 1), 1000)?;
        let number = id.0.to_string();
        let named = |entry: &Entry| {
            entry.name.as_str() == "purge"
                && String::from_utf8_lossy(entry.json()).contains(&number)
        };
        Ok(!page.entries.iter().any(named))
    }

    fn ids(&self) -> Result<Vec<i64>, ReadError> {
        let ask = |sql: &str| -> Result<Vec<i64>, rusqlite::Error> {
            self.reader
                .db
                .prepare(sql)?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        match ask("SELECT id FROM job INDEXED BY job_user") {
            Err(error) if is_damage(&error) => match ask("SELECT id FROM job NOT INDEXED") {
                // Named already, among the pages.
                Err(error) if is_damage(&error) => Ok(Vec::new()),
                ids => Ok(ids?),
            },
            ids => Ok(ids?),
        }
    }

    fn job(&self, job: &StoredJob) -> Result<Lines, String> {
        let _ = Jobspec::parse(&job.jobspec).map_err(|error| format!("its jobspec: {error}"))?;
        if let Some(r) = &job.r {
            let _ = R::parse(r).map_err(|error| format!("its R: {error}"))?;
        }
        let mut folded: Option<Job> = None;
        let mut lines = Lines::default();
        for (at, entry) in job.eventlog.iter().enumerate() {
            let event =
                Event::parse(entry.json()).map_err(|error| format!("entry {}: {error}", at + 1))?;
            match &mut folded {
                None => {
                    folded = Some(
                        Job::new(job.id, &event)
                            .map_err(|why| format!("entry 1 does not apply: {why}"))?,
                    )
                }
                Some(folded) => drop(
                    folded
                        .apply(&event)
                        .map_err(|why| format!("entry {} does not apply: {why}", at + 1))?,
                ),
            }
            if entry.seq > self.report.floor && entry.seq <= self.report.newest_seq {
                lines.add(entry);
            }
        }
        Ok(lines)
    }

    /// Tails that are somebody's, and blobs that are counted right.
    fn blobs(&mut self) -> Result<(), ReadError> {
        let tx = self.reader.db.unchecked_transaction()?;
        let mut found: Vec<(&'static str, String)> = Vec::new();
        for (place, what, sql) in [
            (
                "tail",
                "of a job that is not there or not active",
                "SELECT seq FROM tail LEFT JOIN job ON job.id = tail.job WHERE job.id IS NULL OR job.active IS NOT 1 LIMIT 1000",
            ),
            (
                "blob",
                "is used by more rows than it counts",
                "SELECT id FROM blob JOIN (SELECT b, count(*) AS n FROM (SELECT spec AS b FROM job UNION ALL SELECT j FROM job) WHERE b IS NOT NULL GROUP BY b) ON b = id WHERE refs < n LIMIT 1000",
            ),
            (
                "blob",
                "is used by fewer rows than it counts: it will never go",
                "SELECT id FROM blob LEFT JOIN (SELECT b, count(*) AS n FROM (SELECT spec AS b FROM job UNION ALL SELECT j FROM job) WHERE b IS NOT NULL GROUP BY b) ON b = id WHERE refs > coalesce(n, 0) LIMIT 1000",
            ),
        ] {
            let rows: Result<Vec<i64>, rusqlite::Error> = tx
                .prepare(sql)
                .and_then(|mut rows| rows.query_map([], |row| row.get(0))?.collect());
            match rows {
                Ok(rows) => {
                    found.extend(rows.iter().map(|row| (place, format!("row {row}: {what}"))))
                }
                Err(error) if is_damage(&error) => found.push((place, error.to_string())),
                Err(error) => return Err(error.into()),
            }
        }
        drop(tx);
        for (place, what) in found {
            self.report.add(place, None, what);
        }
        Ok(())
    }
}
