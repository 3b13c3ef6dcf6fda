//! A log file and those before it: when one is put aside, and by whom.

use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A log longer than this is put aside.
pub const LIMIT_BYTES: u64 = 16 << 20;
/// Logs kept beside the one that is written.
pub const KEPT: u32 = 3;

/// The limit: what the variable says, if that is a number above 0.
#[must_use]
pub fn limit() -> u64 {
    std::env::var(crate::LIMIT_VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|bytes| *bytes > 0)
        .unwrap_or(LIMIT_BYTES)
}

/// `PATH.1` is the newest of those put aside.
fn aside(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// Puts the log at `path` aside if it is longer than `limit`, unless somebody else is about to; true if it was done here.
/// # Errors
/// A file cannot be opened or renamed.
pub fn put_aside(path: &Path, limit: u64) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() <= limit
        || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
        || !is_at(&file.metadata()?, path)
    {
        return Ok(false);
    }
    for number in (1..KEPT).rev() {
        match fs::rename(aside(path, number), aside(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, aside(path, 1))?;
    Ok(true)
}

/// Opens the log at `path` to add to it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Whether the file of this metadata is the one at `path`.
pub(crate) fn is_at(metadata: &Metadata, path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|there| (there.dev(), there.ino()) == (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_log_is_put_aside_when_it_is_too_long_and_so_many_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        assert!(!put_aside(&path, 10).unwrap(), "there is none");
        for round in 0..6 {
            open(&path).unwrap().write_all(b"0123456789").unwrap();
            assert!(!put_aside(&path, 10).unwrap(), "not longer than the limit");
            write!(open(&path).unwrap(), "{round}").unwrap();
            assert!(put_aside(&path, 10).unwrap());
            assert!(!path.exists());
        }
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["x.log.1", "x.log.2", "x.log.3"]);
        for (number, round) in [(1, '5'), (2, '4'), (3, '3')] {
            let text = fs::read_to_string(aside(&path, number)).unwrap();
            assert!(text.ends_with(round), "the newest is .1: {text}");
        }
    }

    #[test]
    fn of_several_writers_one_puts_it_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.log");
        open(&path).unwrap().write_all(b"0123456789").unwrap();
        let another = File::open(&path).unwrap();
        flock(&another, FlockOperation::LockExclusive).unwrap();
        assert!(!put_aside(&path, 5).unwrap(), "another one is at it");
        assert!(path.exists());
        drop(another);
        assert!(put_aside(&path, 5).unwrap());
    }
}
