//! What can go wrong with a store, split by who must act: [`OpenError`] ends the start of a daemon with one line that names the
//! remedy; [`ReadError`] answers one read; [`Corrupt`] marks one row or line and stops nothing.

use std::path::PathBuf;

/// Why a state directory could not be opened. Nothing was changed in it, but for a migration that had already ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another daemon holds the lock.
    #[error(
        "state directory {dir} is in use by process {holder}, or name another directory with --statedir",
        dir = dir.display(), holder = holder(*pid, *supervisor)
    )]
    InUse {
        /// The state directory.
        dir: PathBuf,
        /// The process that holds it, as it wrote itself into the lock file.
        pid: Option<u32>,
        /// The `weir start` that keeps it running, if it can be seen: stopping the holder alone would only have it restarted.
        supervisor: Option<u32>,
    },
    /// The file was written by a newer release.
    #[error(
        "{file} has schema {found}, newer than the {known} of this release: run the weir that wrote it, or name another directory with --statedir",
        file = file.display()
    )]
    NewerSchema {
        /// The database file.
        file: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version this release knows.
        known: i64,
    },
    /// A file of that name is there, and it is no store of ours.
    #[error("{file} is not a weir store: move it away, or name another directory with --statedir", file = file.display())]
    NotAStore {
        /// The database file.
        file: PathBuf,
    },
    /// The file ends before a store can.
    #[error(
        "{file} is cut short: it has {len} byte{plural}{rest}: put a backup in its place, or make a new one from what can be read with weir store recover",
        file = file.display(), plural = if *len == 1 { "" } else { "s" }, rest = whole.map_or(", not even a header".to_owned(), |whole| format!(" of {whole}"))
    )]
    Truncated {
        /// The database file.
        file: PathBuf,
        /// Bytes that it has.
        len: u64,
        /// Bytes that it should have, if it says so.
        whole: Option<u64>,
    },
    /// The file's own structure is broken.
    #[error("{file} is damaged ({detail}): make a new one from what can be read with weir store recover, or put a backup in its place", file = file.display())]
    Damaged {
        /// The database file.
        file: PathBuf,
        /// What was met.
        detail: String,
    },
    /// The file is gone or empty, and what belongs to it is still there.
    #[error(
        "{file} is missing or empty, but {left} beside it holds data: put the file back, or restore a backup and move {left} away",
        file = file.display(), left = left.display()
    )]
    Lost {
        /// The database file.
        file: PathBuf,
        /// What is left of it.
        left: PathBuf,
    },
    /// The file is gone or empty, and with a new one nobody would know what it held.
    #[error(
        "{file} is missing or empty, but {those} that there was a store: put it or a backup of it back, or move {them} away to begin anew",
        file = file.display(), those = those(proofs), them = if proofs.len() > 1 { "them" } else { "that" }
    )]
    Gone {
        /// The database file.
        file: PathBuf,
        /// What is made only after it.
        proofs: Vec<PathBuf>,
    },
    /// A WAL that is not this file's.
    #[error("{wal} is not of {file}, which was put in place of another: move {wal} away", file = file.display(), wal = wal.display())]
    OthersWal {
        /// The database file.
        file: PathBuf,
        /// What is left of the other.
        wal: PathBuf,
    },
    /// A recovery was ended in the middle of its last step.
    #[error("the recovery of {file} was cut short ({left} is not in place yet): run weir store recover once more", file = file.display(), left = left.display())]
    CutShort {
        /// The database file.
        file: PathBuf,
        /// What was about to take its place.
        left: PathBuf,
    },
    /// The disk is full, and opening needs some room.
    #[error("the disk with {file} is full ({detail}): free some space, then start again", file = file.display())]
    Full {
        /// The database file.
        file: PathBuf,
        /// What SQLite says.
        detail: String,
    },
    /// The directory or the lock file could not be used.
    #[error("cannot use state directory {dir}: {source}: see that its user may read and write it, or name another directory with --statedir", dir = dir.display())]
    Directory {
        /// The state directory.
        dir: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite failed in another way.
    #[error("cannot open {file}: {source}: see that it is a file that its user may read and write, or name another directory with --statedir", file = file.display())]
    Sqlite {
        /// The database file.
        file: PathBuf,
        /// Its error.
        source: rusqlite::Error,
    },
}

/// `a and b show`.
fn those(proofs: &[PathBuf]) -> String {
    let names: Vec<String> = proofs
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let verb = if names.len() > 1 { "show" } else { "shows" };
    format!("{} {verb}", names.join(" and "))
}

/// Who holds a directory, and what stops it.
fn holder(pid: Option<u32>, supervisor: Option<u32>) -> String {
    match (pid, supervisor) {
        (Some(pid), Some(start)) => {
            format!(
                "{pid} (weir start is process {start}): stop that first: kill {start} or 'weir shutdown'"
            )
        }
        (Some(pid), None) => format!("{pid}: stop that first: kill {pid}"),
        (None, _) => "(unknown): stop that first".to_owned(),
    }
}

/// Why a read gave nothing. Reads change nothing; all but [`ReadError::BelowFloor`] may be tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The log no longer holds what follows the cursor.
    #[error("the log starts after {floor}, and the read wants what follows {after}")]
    BelowFloor {
        /// Where the read wanted to go on.
        after: job::Seq,
        /// The newest seq that is gone.
        floor: job::Seq,
    },
    /// SQLite failed.
    #[error("cannot read the store: {0}{remedy}", remedy = remedy(.0))]
    Sqlite(#[from] rusqlite::Error),
}

/// Whether SQLite says that there is no room. ENOSPC comes as SQLITE_FULL, but for the WAL's index, where it comes as a failure to size it.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|code| {
        code.code == rusqlite::ErrorCode::DiskFull
            || code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
    })
}

fn remedy(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) {
        ": see weir store check, then weir store recover"
    } else {
        ""
    }
}

/// Whether SQLite says that the file is broken here, and not that it cannot be read now.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(code, _) => {
            matches!(
                code.code,
                rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase
            ) || code.extended_code == rusqlite::ffi::SQLITE_IOERR_SHORT_READ
                || code.extended_code == rusqlite::ffi::SQLITE_IOERR_READ
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}

/// What is wrong with one row or line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Corrupt {
    /// A line is not `SEQ SOURCE ESEQ USERID LOG JSON`.
    #[error("line {line} cannot be read: {detail}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What the parser says.
        detail: String,
    },
    /// The text does not end with a newline, so its last line may be cut.
    #[error("the last line is cut")]
    Cut,
    /// The eventlog is empty or absent.
    #[error("the eventlog is empty")]
    NoEventlog,
    /// The jobspec the row names is not there.
    #[error("the jobspec is missing")]
    NoJobspec,
    /// A column holds what the schema does not allow there.
    #[error("column {column}: {met} cannot stand there")]
    Column {
        /// The column.
        column: &'static str,
        /// What it holds.
        met: String,
    },
    /// The jobspec, R or `J` is not what it was.
    #[error("{what} cannot be read: {detail}")]
    NotJson {
        /// Which.
        what: &'static str,
        /// What the parser says.
        detail: String,
    },
    /// The row and the entries disagree on whether the job has ended.
    #[error(
        "the row says that the job is {}, its entries that it {}",
        if *active { "active" } else { "inactive" },
        cleaned.map_or_else(|| "has not ended".to_owned(), |seq| format!("ended with seq {seq}"))
    )]
    State {
        /// What the row says.
        active: bool,
        /// The entry that ended it.
        cleaned: Option<job::Seq>,
    },
    /// The file's pages that hold it cannot be read.
    #[error("its page of the file cannot be read: {detail}")]
    Page {
        /// What SQLite says.
        detail: String,
    },
    /// The log has entries of the job, and the job is neither there nor purged.
    #[error("its row is gone: the log has {entries} of its entries, and no purge names it")]
    NoRow {
        /// The number of its last entry.
        entries: u32,
    },
    /// The log has more of the job than its eventlog.
    #[error("its eventlog ends with entry {have}, the log has {log} of its entries")]
    Short {
        /// The last entry of the eventlog.
        have: u32,
        /// The last one of the log.
        log: u32,
    },
    /// Entries are in no copy: neither in the log nor in the archive.
    #[error(
        "seq {first} to {last} are lost: {entries} of their entries are neither in the log nor in the archive"
    )]
    Lost {
        /// The first seq looked for.
        first: job::Seq,
        /// The last one.
        last: job::Seq,
        /// How many were not found.
        entries: usize,
    },
    /// Rows of the log are not there.
    #[error("the log has no rows for seq {first} to {last}")]
    Gap {
        /// The first seq that is missing.
        first: job::Seq,
        /// The last one.
        last: job::Seq,
    },
}

impl ReadError {
    /// Whether the same read may succeed later.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        !matches!(self, Self::BelowFloor { .. })
    }
}
