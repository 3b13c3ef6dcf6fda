//! From a file to a connection that writes it, and what the file holds. What can be refused is refused before anything is changed.
//!
//! What a file can be is told in `examine`, what is read of a good one in `recover`; the thread that writes it then is in `writer`.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use job::JobId;
use rusqlite::Connection;

use crate::backup::is_copy;
use crate::error::OpenError;
use crate::examine::{Verdict, beside, examine};
use crate::gone::Gone;
use crate::recover::{Doubts, Recovered, open_error, recover_doubted};
use crate::tally::{self, Tally};
use crate::{removal, schema};

/// `auto_vacuum`: pages are moved when asked for.
pub(crate) const INCREMENTAL: i64 = 2;
/// WAL pages (4 KiB each) after which it is copied into the main file, if the reserve has room for that.
pub(crate) const WAL_PAGES_MAX: i32 = 4096;
const CACHE_KIB: i64 = 16 * 1024;

/// A file that is open for writing.
pub(crate) struct Opened {
    pub(crate) db: Connection,
    pub(crate) recovered: Recovered,
    /// Purged jobs whose rows are there still.
    pub(crate) gone: Gone,
    /// Those of them for which there was no room.
    pub(crate) later: Vec<i64>,
}

/// How a store is opened.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// The file may not grow past this many pages of 4 KiB; beyond, it is as if the disk were full. 0 = no limit.
    pub pages_max: u32,
    /// Files that are made only after a store is: while they are there, a store that is gone is not begun anew.
    pub proofs: Vec<PathBuf>,
    /// The newest job that left something outside of the store: a store that knows only older ones has lost its end.
    pub told_jobid: Option<JobId>,
}

/// Opens the file for writing; whatever is refused is refused before anything is changed.
pub(crate) fn open_file(
    file: &Path,
    options: &StoreOptions,
    doubts: &Doubts,
) -> Result<Opened, OpenError> {
    let proofs = &options.proofs;
    let told = |source: rusqlite::Error| open_error(file, source);
    let verdict = examine(file)?;
    if verdict == Verdict::Fresh {
        let begun = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0);
        if !begun && !proofs.is_empty() {
            return Err(OpenError::Gone {
                file: file.to_owned(),
                proofs: proofs.to_vec(),
            });
        }
        // SQLite gives its other files the mode of this one. It says what is wrong if it cannot be made.
        let _ = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(file);
    }
    let mut db = Connection::open(file).map_err(told)?;
    db.busy_timeout(Duration::from_secs(5)).map_err(told)?;
    db.set_prepared_statement_cache_capacity(64);
    if verdict == Verdict::Fresh {
        // The journal that the file is made with must not come back after a power cut: its removal is synced, too.
        db.pragma_update(None, "synchronous", "EXTRA")
            .map_err(told)?;
        give_space_back(&db).map_err(told)?;
    }
    db.pragma_update(None, "journal_mode", "WAL")
        .map_err(told)?;
    db.pragma_update(None, "journal_size_limit", WAL_PAGES_MAX * 4096)
        .map_err(told)?;
    db.pragma_update(None, "synchronous", "FULL")
        .map_err(told)?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)
        .map_err(told)?;
    db.pragma_update(None, "foreign_keys", false)
        .map_err(told)?;
    let from = match verdict {
        Verdict::Fresh => 0,
        Verdict::Ours(version) => version,
    };
    schema::migrate(&mut db, from).map_err(told)?;
    for difference in schema::differences(&db).map_err(told)? {
        match difference {
            schema::Difference::Missing(_)
            | schema::Difference::Foreign {
                interferes: true, ..
            } => {
                return Err(OpenError::Damaged {
                    file: file.to_owned(),
                    detail: difference.to_string(),
                });
            }
            other => tracing::warn!(%other, "the store's schema is not as it was made"),
        }
    }
    if is_copy(&db).map_err(told)? {
        tracing::warn!(
            "this store is a copy put in place: it gets a new epoch, and cursors of the old one are refused"
        );
    }
    if verdict == Verdict::Fresh {
        tally::set(&db, Some(Tally::default())).map_err(told)?;
    }
    let gone = Gone::default();
    let later = removal::remove_gone(&mut db, &gone).map_err(told)?;
    let recovered = recover_doubted(file, &db, doubts.clone())?;
    Ok(Opened {
        db,
        recovered,
        gone,
        later,
    })
}

/// What a process before wrote, and was killed before it synced it: whoever reads it is told that it is on disk.
pub(crate) fn sync(file: &Path) -> std::io::Result<()> {
    for ending in ["", "-wal"] {
        match File::open(beside(file, ending)) {
            Ok(file) => file.sync_all()?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A file that can be made shorter; to be said before it has tables.
fn give_space_back(db: &Connection) -> Result<(), rusqlite::Error> {
    db.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    let is: i64 = db.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if is != INCREMENTAL {
        // Its first page was written by a start that was cut short.
        db.execute_batch("VACUUM")?;
    }
    Ok(())
}
