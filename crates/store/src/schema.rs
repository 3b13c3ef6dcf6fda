//! Tables and indexes, and how a file of an older release becomes one of this.
//!
//! ```text
//! meta         key PK | value                     store.epoch, store.floor, store.max_jobid, and the manager's own keys
//! log          last_seq PK | first_seq | lines    every entry down to the floor; one row per commit, cut every 256 entries and 16 MiB
//! instancelog  seq PK | line                      entries that are no job's, kept beside the archive
//! job          id PK | userid flags t_submit active waitable done_seq t_inactive result spec j r | eventlog | key
//! tail         seq PK | job | lines                what an active job's eventlog gained since its row was written
//! blob         id PK | refs | data                jobspecs and Js, shared by the jobs that have the same bytes
//!
//! job_active    id                  where active           the queue, at start and for `from:"active"`
//! job_done      done_seq            where not active       inactive jobs in the order they became so
//! job_inactive  t_inactive, id      where not active       the listing order, read backwards
//! job_waitable  id                  where waitable, not active
//! job_user      userid (id)                                history of one user
//! job_key       userid, key         where key              the job a user submitted under a key; unique
//! tail_job      job (seq)                                  one job's tail
//! ```
//!
//! `lines`, `line` and `eventlog` are text: lines of `SEQ SOURCE ESEQ USERID LOG JSON\n` (see `rfc/6_store.md`). `done_seq` is the
//! seq of the entry that made the job inactive, and NULL before; so "active at seq S" is `done_seq IS NULL OR done_seq > S`.
//! A job id is stored as the 64-bit integer of the same bits.
//!
//! A job's row is written when it is submitted, allocated and done. What happens in between goes into `tail`, and moves into `eventlog` when
//! the job is done: a change of a million pending jobs then writes a million short rows side by side, not every row of `job` anew. The
//! view `joblog` shows whole eventlogs.
//!
//! The version is `user_version`, the kind of file is `application_id`. [`MIGRATIONS`]`[v]` takes a file from version v to v + 1,
//! in one transaction each.

use std::collections::BTreeMap;
use std::fmt;

use rusqlite::Connection;

/// `application_id` of a weir store: the bytes `weir`.
pub const APPLICATION_ID: i64 = 0x7765_6972;

/// The version this release writes.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// What takes a file from each version to the next.
pub const MIGRATIONS: &[&str] = &[V1, V2];

const V1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE log (last_seq INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, lines TEXT NOT NULL);
CREATE TABLE instancelog (seq INTEGER PRIMARY KEY, line TEXT NOT NULL);
CREATE TABLE blob (id INTEGER PRIMARY KEY, refs INTEGER NOT NULL, data TEXT NOT NULL);
CREATE TABLE job (
  id INTEGER PRIMARY KEY, userid INTEGER NOT NULL, flags INTEGER NOT NULL, t_submit REAL NOT NULL,
  active INTEGER NOT NULL, waitable INTEGER NOT NULL, done_seq INTEGER, t_inactive REAL, result INTEGER,
  spec INTEGER, j INTEGER, r TEXT, eventlog TEXT NOT NULL
);
CREATE TABLE tail (seq INTEGER PRIMARY KEY, job INTEGER NOT NULL, lines TEXT NOT NULL);
CREATE INDEX tail_job ON tail (job);
CREATE VIEW joblog AS
  SELECT id, eventlog || coalesce((SELECT group_concat(lines, '') FROM (SELECT lines FROM tail WHERE tail.job = job.id ORDER BY seq)), '') AS lines FROM job;
CREATE INDEX job_active ON job (id) WHERE active = 1;
CREATE INDEX job_done ON job (done_seq) WHERE active = 0;
CREATE INDEX job_inactive ON job (t_inactive, id) WHERE active = 0;
CREATE INDEX job_waitable ON job (id) WHERE waitable = 1 AND active = 0;
CREATE INDEX job_user ON job (userid);
";

/// Submit keys.
const V2: &str = "
ALTER TABLE job ADD COLUMN key TEXT;
CREATE UNIQUE INDEX job_key ON job (userid, key) WHERE key IS NOT NULL;
";

/// Brings the file to [`VERSION`], one transaction a version.
pub(crate) fn migrate(db: &mut Connection, from: i64) -> Result<(), rusqlite::Error> {
    let start = usize::try_from(from).unwrap_or(0);
    for (version, sql) in MIGRATIONS.iter().enumerate().skip(start) {
        let tx = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(
            None,
            "user_version",
            i64::try_from(version).unwrap_or(0) + 1,
        )?;
        tx.commit()?;
    }
    Ok(())
}

/// How the objects of a file differ from those of [`VERSION`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference {
    /// It should have this table, index or view.
    Missing(String),
    /// It has this one, which is another than it should be.
    Changed(String),
    /// It has this one, which is not ours.
    Foreign {
        /// `table`, `index`, `view` or `trigger`, and its name.
        name: String,
        /// It takes part in what is written: a trigger, or an index that refuses rows.
        interferes: bool,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "it has no {name}"),
            Self::Changed(name) => write!(f, "{name} is another than this release makes"),
            Self::Foreign { name, .. } => {
                write!(f, "{name} is not part of a store: drop it")
            }
        }
    }
}

/// All that is other in the schema, what is missing first.
pub(crate) fn differences(db: &Connection) -> Result<Vec<Difference>, rusqlite::Error> {
    let objects = |db: &Connection| -> Result<BTreeMap<String, String>, rusqlite::Error> {
        let mut rows = db.prepare(
            "SELECT type || ' ' || name, coalesce(sql, '') FROM sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'",
        )?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    };
    let mut made = Connection::open_in_memory()?;
    migrate(&mut made, 0)?;
    let (ours, there) = (objects(&made)?, objects(db)?);
    let missing = ours
        .keys()
        .filter(|name| !there.contains_key(*name))
        .map(|name| Difference::Missing(name.clone()));
    let others = there.iter().filter_map(|(name, sql)| match ours.get(name) {
        Some(made) if made == sql => None,
        Some(_) => Some(Difference::Changed(name.clone())),
        None => Some(Difference::Foreign {
            name: name.clone(),
            interferes: name.starts_with("trigger ")
                || (name.starts_with("index ") && sql.to_ascii_uppercase().contains("UNIQUE")),
        }),
    });
    Ok(missing.chain(others).collect())
}
