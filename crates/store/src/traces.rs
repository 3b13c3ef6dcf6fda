//! What is beside a store and tells how far it went: the mark that its writer leaves, and the files of jobs.
//!
//! ```text
//! STATEDIR/durable   `weir EPOCH SEQ MAXID SUM\n`, overwritten in place after each commit that is on disk, before anybody is told of it
//! STATEDIR/jobs/ID   made by an engine after it was told of the job
//! ```
//! The mark is never synced, so it costs no commit anything. A process that is killed leaves it as it was written last; after a power cut it may
//! be older, or nothing. It never is ahead of what is on disk: a store that is behind its mark has lost what was told.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use job::{JobId, Seq};

/// Name of the mark inside a state directory.
pub const MARK_NAME: &str = "durable";
/// Name of the directory that has one for each job, inside a state directory.
const JOBS_NAME: &str = "jobs";
/// Ids from here on are not given in the first 17 years of an instance.
pub(crate) const ID_ABSURD: u64 = 1 << 63;
/// The mark is so long, whatever it says: so one write replaces all of it.
const MARK_LEN: usize = 96;

/// The directories of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobDirs {
    /// How many there are.
    pub count: usize,
    /// The newest of those with an id that can have been given.
    pub newest: Option<JobId>,
}

impl JobDirs {
    /// Reads the directory once; none at all is as one that is empty.
    #[must_use]
    pub fn read(statedir: &Path) -> Self {
        let names = std::fs::read_dir(statedir.join(JOBS_NAME));
        let ids = names
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found = Self::default();
        for id in ids {
            found.count += 1;
            if id < ID_ABSURD {
                found.newest = found.newest.max(Some(JobId(id)));
            }
        }
        found
    }
}

/// How far a store was, as its mark says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) epoch: String,
    pub(crate) seq: Seq,
    pub(crate) max_jobid: JobId,
}

impl Mark {
    /// The mark in this state directory; none if it does not check.
    pub(crate) fn read(statedir: &Path) -> Option<Self> {
        let mut line = Vec::new();
        let path = statedir.join(MARK_NAME);
        if !is_file_or_none(&path) {
            return None;
        }
        File::open(path)
            .ok()?
            .take(MARK_LEN as u64)
            .read_to_end(&mut line)
            .ok()?;
        let line = std::str::from_utf8(&line).ok()?;
        let (said, sum) = line.trim_end().rsplit_once(' ')?;
        if format!("{:016x}", checksum(said)) != sum {
            return None;
        }
        let mut words = said.split(' ');
        if words.next() != Some("weir") {
            return None;
        }
        Some(Self {
            epoch: words.next()?.to_owned(),
            seq: Seq(words.next()?.parse().ok()?),
            max_jobid: JobId(words.next()?.parse().ok()?),
        })
    }
}

/// Writes the mark. Where it cannot, there is none, and that is said once.
#[derive(Debug)]
pub(crate) struct Marker {
    path: PathBuf,
    file: Option<File>,
    mark: Mark,
}

impl Marker {
    /// The mark of a store that is as far as this.
    pub(crate) fn begin(statedir: &Path, mark: Mark) -> Self {
        let path = statedir.join(MARK_NAME);
        let file = if is_file_or_none(&path) {
            File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        } else {
            Err(std::io::Error::other("it is no file"))
        };
        let mut this = Self {
            path,
            file: None,
            mark,
        };
        match file {
            Ok(file) => {
                this.file = Some(file);
                this.write();
            }
            Err(error) => this.tell(&error),
        }
        this
    }

    /// The store is as far as this, on disk.
    pub(crate) fn set(&mut self, seq: Seq, newest_job: Option<JobId>) {
        self.mark.seq = seq;
        self.mark.max_jobid = self.mark.max_jobid.max(newest_job.unwrap_or(JobId(0)));
        self.write();
    }

    fn write(&mut self) {
        let Some(file) = &self.file else { return };
        let Mark {
            epoch,
            seq,
            max_jobid,
        } = &self.mark;
        let said = format!("weir {epoch} {} {}", seq.0, max_jobid.0);
        let line = format!("{said} {:016x}", checksum(&said));
        let line = format!("{line:<width$}\n", width = MARK_LEN - 1);
        if let Err(error) = file.write_all_at(line.as_bytes(), 0) {
            self.file = None;
            self.tell(&error);
        }
    }

    fn tell(&self, error: &std::io::Error) {
        tracing::warn!(path = %self.path.display(), %error, "a write-ahead log that is cut short would not be noticed");
    }
}

/// What is there may be a pipe, which would be waited for.
fn is_file_or_none(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

/// FNV-1a: against bytes that were not written together, not against anybody.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_last_and_nothing_else_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MARK_NAME);
        assert_eq!(Mark::read(dir.path()), None);
        let mut mark = Mark {
            epoch: "0123456789abcdef".to_owned(),
            seq: Seq(u64::MAX >> 1),
            max_jobid: JobId(u64::MAX - 2),
        };
        let mut marker = Marker::begin(dir.path(), mark.clone());
        assert_eq!(Mark::read(dir.path()), Some(mark.clone()));
        marker.set(Seq(7), Some(JobId(3)));
        mark.seq = Seq(7);
        assert_eq!(Mark::read(dir.path()), Some(mark), "ids do not go back");
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len(), MARK_LEN);
        for at in 0..whole.len() - 8 {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            assert!(Mark::read(dir.path()).is_none_or(|mark| mark.seq == Seq(7)));
            std::fs::write(&path, &whole[..at.min(40)]).unwrap();
            assert_eq!(Mark::read(dir.path()), None);
        }
    }

    #[test]
    fn fault_what_is_no_file_in_the_place_of_the_mark_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MARK_NAME);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        if !made.is_ok_and(|status| status.success()) {
            return;
        }
        assert_eq!(Mark::read(dir.path()), None);
        let mark = Mark {
            epoch: String::new(),
            seq: Seq(1),
            max_jobid: JobId(1),
        };
        let mut marker = Marker::begin(dir.path(), mark);
        marker.set(Seq(2), None);
        assert!(marker.file.is_none());
    }

    #[test]
    fn fault_a_directory_with_an_id_that_was_never_given_hides_the_newest_that_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(JobDirs::read(dir.path()), JobDirs::default());
        for name in [
            "7",
            "4711",
            "9223372036854775808",
            "18446744073709551615",
            "x",
            "12.old",
        ] {
            std::fs::create_dir_all(dir.path().join(JOBS_NAME).join(name)).unwrap();
        }
        let found = JobDirs::read(dir.path());
        assert_eq!((found.count, found.newest), (4, Some(JobId(4711))));
    }
}
