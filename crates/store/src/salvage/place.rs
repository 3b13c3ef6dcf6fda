//! The new store takes the old one's place: whatever the moment of a kill or a power cut, no start takes a part of it for a store.
//!
//! ```text
//! .new ─► .recovered-N ─► -wal, -shm, -journal become .damaged-N-wal … ─► the main file .damaged-N ─► .recovered-N becomes the main file
//!            └ from here on nobody opens what is there (`examine`) …                                       └ … until here
//! ```
//! Each step is synced before the next. One that fails is undone at once ([`put`]); one that was cut short by the next recovery ([`undo`]),
//! which then reads the old store again, so that it can tell what is lost.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

use crate::backup::sync_dir;
use crate::examine::{DAMAGED, RECOVERED, beside, numbered};

/// What SQLite keeps beside a file.
const SIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The old file and what is beside it get another name, the new one theirs. On an error all is as it was.
pub(super) fn put(file: &Path, new: &Path) -> Result<PathBuf> {
    let number = numbered(file, DAMAGED)?.into_iter().max().unwrap_or(0) + 1;
    std::fs::File::open(new)?.sync_all()?;
    let mark = beside(file, &format!("{RECOVERED}{number}"));
    let kept = beside(file, &format!("{DAMAGED}{number}"));
    let moved = moved(file, new, &mark, &kept);
    if moved.is_err() {
        undo(file)?;
    }
    moved.map(|()| kept)
}

fn moved(file: &Path, new: &Path, mark: &Path, kept: &Path) -> Result<()> {
    std::fs::rename(new, mark)?;
    sync_dir(file)?;
    for ending in SIDE {
        rename(&beside(file, ending), &beside(kept, ending))?;
    }
    sync_dir(file)?;
    std::fs::rename(file, kept)?;
    sync_dir(file)?;
    std::fs::rename(mark, file)?;
    sync_dir(file)
}

/// Takes back what a recovery that was cut short has moved, and removes what it had made.
pub(super) fn undo(file: &Path) -> Result<()> {
    for number in numbered(file, RECOVERED)? {
        let kept = beside(file, &format!("{DAMAGED}{number}"));
        // With both there, somebody has put a file in the place of the one that was moved: that one stays kept.
        if !(exists(file) && exists(&kept)) {
            rename(&kept, file)?;
            for ending in SIDE {
                rename(&beside(&kept, ending), &beside(file, ending))?;
            }
            sync_dir(file)?;
        }
        let mark = beside(file, &format!("{RECOVERED}{number}"));
        for ending in SIDE.into_iter().chain([""]) {
            match std::fs::remove_file(beside(&mark, ending)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sync_dir(file)?;
    }
    Ok(())
}

/// One without bytes is no store: it may go.
fn exists(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.len() > 0)
}

/// What is not there need not be moved.
fn rename(from: &Path, to: &Path) -> Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
