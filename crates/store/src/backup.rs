//! A copy of a store in one file, from a running instance or one that is not.
//!
//! The copy is SQLite's `VACUUM INTO`: of one moment, without free pages, read in one transaction. A running daemon commits on meanwhile; its WAL
//! grows until the copy is done. The copy carries a mark ([`KEY_BACKUP`]): a store that opens with it gets a new epoch, since cursors of
//! the old one may be ahead of what the copy holds.

use std::fs::File;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use job::Seq;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::error::OpenError;
use crate::examine::{Verdict, beside, examine};
use crate::recover::{KEY_EPOCH, open_error, recover, set_meta};

/// The mark of a copy: the epoch it was taken of.
pub(crate) const KEY_BACKUP: &str = "store.backup";

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// There is nothing to copy.
    #[error("{} is not there: there is nothing to copy", file.display())]
    Nothing {
        /// The store's file.
        file: PathBuf,
    },
    /// A file of that name is there.
    #[error("{} is there already: name another file, or remove it", to.display())]
    Exists {
        /// The copy's file.
        to: PathBuf,
    },
    /// The copy cannot be written.
    #[error("cannot write {}: {source}", to.display())]
    Write {
        /// The copy's file.
        to: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite's error on the way.
    #[error("cannot copy the store to {}: {source}", to.display())]
    Copy {
        /// The copy's file.
        to: PathBuf,
        /// Its error.
        source: rusqlite::Error,
    },
}

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The epoch of the store it was taken of.
    pub epoch: String,
    /// The newest seq in it.
    pub newest_seq: Seq,
    /// Its size.
    pub bytes: u64,
}

/// Copies the store in `file` to `to`, which must not exist: written beside it, synced, then named so. Readable by its owner only.
/// # Errors
/// [`BackupError`]; nothing of the copy is left.
pub fn backup(file: &Path, to: &Path) -> Result<Copied, BackupError> {
    if !matches!(examine(file)?, Verdict::Ours(_)) {
        return Err(BackupError::Nothing {
            file: file.to_owned(),
        });
    }
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists { to: to.to_owned() });
    }
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    let copied = copy(file, &part, to);
    if copied.is_err() {
        for ending in ["", "-journal", "-wal", "-shm"] {
            let _ = std::fs::remove_file(beside(&part, ending));
        }
    }
    copied
}

fn copy(file: &Path, part: &Path, to: &Path) -> Result<Copied, BackupError> {
    let write = |source| BackupError::Write {
        to: to.to_owned(),
        source,
    };
    let sql = |source| BackupError::Copy {
        to: to.to_owned(),
        source,
    };
    // SQLite writes into an empty file, which so has its mode from the beginning.
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
        .map_err(write)?;
    let from = Connection::open_with_flags(
        file,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .map_err(|error| open_error(file, error))?;
    from.busy_timeout(Duration::from_secs(5)).map_err(sql)?;
    from.execute("VACUUM INTO ?1", [part.to_string_lossy()])
        .map_err(sql)?;
    drop(from);
    let db = Connection::open(part).map_err(sql)?;
    // A copy that fails is thrown away: nothing of it need be rolled back.
    db.pragma_update(None, "journal_mode", "MEMORY")
        .map_err(sql)?;
    let told = recover(part, &db)?;
    set_meta(&db, KEY_BACKUP, &told.epoch).map_err(sql)?;
    db.close().map_err(|(_, error)| sql(error))?;
    let made = File::open(part).map_err(write)?;
    made.sync_all().map_err(write)?;
    let bytes = made.metadata().map_err(write)?.len();
    // Somebody may have put a file there meanwhile: a link does not replace it.
    std::fs::hard_link(part, to).map_err(|source| {
        if source.kind() == std::io::ErrorKind::AlreadyExists {
            BackupError::Exists { to: to.to_owned() }
        } else {
            write(source)
        }
    })?;
    let _ = std::fs::remove_file(part);
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).map_err(write)?;
    sync_dir(to).map_err(write)?;
    Ok(Copied {
        epoch: told.epoch,
        newest_seq: told.newest_seq,
        bytes,
    })
}

/// Makes the names in the directory of `path` durable.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    File::open(dir)?.sync_all()
}

/// A store that was a copy gets a new epoch, once: what followed the copy in the old one is not here.
pub(crate) fn is_copy(db: &Connection) -> Result<bool, rusqlite::Error> {
    let mark: Option<()> = db
        .query_row(
            "SELECT 1 FROM meta WHERE key = ?1",
            [KEY_BACKUP],
            |_| Ok(()),
        )
        .optional()?;
    if mark.is_some() {
        let tx = db.unchecked_transaction()?;
        tx.execute(
            "DELETE FROM meta WHERE key IN (?1, ?2)",
            [KEY_BACKUP, KEY_EPOCH],
        )?;
        tx.commit()?;
    }
    Ok(mark.is_some())
}
