//! The first hello of a boot, or of a copy: what the job-manager gave out before it is marked before anything is begun.
//!
//! `STATEDIR/engine-boot` holds the id of the boot in which this was last done, and a second line that tells the directory from a copy of it. It
//! is written when all marks are made, so an engine that is killed in between does it again, which changes nothing.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::paths;
use crate::proc;
use crate::shepherd::claim::mark_given_out;

/// Where `engine-boot` is. A copy has another inode; where inodes happen to be equal, another device and another path.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    dev: u64,
    ino: u64,
    path: String,
}

impl Place {
    fn of(file: &File, statedir: &Path) -> io::Result<Place> {
        let found = file.metadata()?;
        let path = std::fs::canonicalize(statedir)?;
        Ok(Place {
            dev: found.dev(),
            ino: found.ino(),
            path: path.to_string_lossy().into_owned(),
        })
    }

    /// Moved within a file system, or mounted again, it is the same.
    fn is_same(&self, other: &Place) -> bool {
        self.ino == other.ino && (self.dev == other.dev || self.path == other.path)
    }
}

/// The state directory's last boot, and what hangs on it.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The id that is to be written; none if it stands there already.
    new: Option<String>,
    /// The directory was copied from another, where jobs may still run.
    copy: bool,
}

/// The engine cannot start until something in the state directory is mended; starting it again does not help.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be used: {why}: move it away, or mend it, then start again", path.display())]
pub struct CannotStart {
    path: PathBuf,
    why: String,
}

/// Makes the directory of jobs, and sees that `engine-boot` can be written once the hello is over.
///
/// # Errors
/// They are of another kind, or not ours to write.
pub(crate) fn prepare(statedir: &Path) -> Result<(), CannotStart> {
    let refused = |path: PathBuf, why: String| CannotStart { path, why };
    let jobs = paths::jobs(statedir);
    std::fs::create_dir_all(&jobs).map_err(|error| refused(jobs, error.to_string()))?;
    let path = paths::engine_boot(statedir);
    match std::fs::metadata(&path) {
        // Opening a FIFO would wait for whoever reads it.
        Ok(met) if !met.is_file() => return Err(refused(path, "it is not a file".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(refused(path, error.to_string())),
        Ok(_) => {}
    }
    match File::options().write(true).open(&path) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(path, error.to_string())),
    }
}

impl Boot {
    /// Compares the state directory with the machine.
    pub(crate) fn look(statedir: &Path) -> Boot {
        let now = proc::boot_id();
        let path = paths::engine_boot(statedir);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut lines = text.lines();
        let is_same_boot = lines.next() == Some(now.as_str()) && !now.is_empty();
        let was = lines
            .next()
            .and_then(|line| serde_json::from_str(line).ok());
        let is = File::open(&path).and_then(|file| Place::of(&file, statedir));
        let is_same_place = match (was, &is) {
            (Some(was), Ok(is)) => Place::is_same(&was, is),
            _ => false,
        };
        Boot {
            new: (!is_same_boot || !is_same_place).then_some(now),
            copy: is_same_boot && !is_same_place,
        }
    }

    /// Whether the directory was copied within this boot.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy
    }

    /// A job holds resources on nodes of these ranks: if that is from an earlier boot, it is marked. True if it was.
    pub(crate) fn given_out(
        &self,
        statedir: &Path,
        id: job::JobId,
        ranks: &[u32],
    ) -> io::Result<bool> {
        if self.new.is_none() {
            return Ok(false);
        }
        let dir = paths::job(statedir, id.0);
        let nnodes = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        let mut marked = false;
        for rank in ranks {
            marked |= mark_given_out(&dir, *rank, nnodes, self.copy)?;
        }
        Ok(marked)
    }

    /// All jobs are marked that are to be: jobs may begin in this boot.
    pub(crate) fn done(&mut self, statedir: &Path) -> io::Result<()> {
        if let Some(now) = self.new.take() {
            let written = write(statedir, &now);
            if written.is_err() {
                self.new = Some(now);
            }
            written?;
        }
        Ok(())
    }
}

fn write(statedir: &Path, boot: &str) -> io::Result<()> {
    let mut file = File::create(paths::engine_boot(statedir))?;
    let place = serde_json::to_string(&Place::of(&file, statedir)?)?;
    file.write_all(format!("{boot}\n{place}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_hello_of_a_boot_marks() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(paths::jobs(dir.path())).unwrap();
        std::fs::write(paths::engine_boot(dir.path()), "another boot\n").unwrap();
        let mut boot = Boot::look(dir.path());
        assert!(boot.given_out(dir.path(), job::JobId(1), &[0, 1]).unwrap());
        assert!(
            dir.path().join("jobs/1/claim.0").exists()
                && dir.path().join("jobs/1/claim.1").exists()
        );
        boot.done(dir.path()).unwrap();
        let again = Boot::look(dir.path());
        assert!(!again.given_out(dir.path(), job::JobId(2), &[0]).unwrap());
        assert!(!dir.path().join("jobs/2").exists());
    }

    #[test]
    fn fault_an_engine_boot_that_cannot_be_written_is_a_refusal_to_start() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).unwrap();
        let path = paths::engine_boot(dir.path());
        std::fs::create_dir(&path).unwrap();
        let text = prepare(dir.path()).unwrap_err().to_string();
        assert!(
            text.contains("engine-boot cannot be used: it is not a file"),
            "{text}"
        );
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        prepare(dir.path()).unwrap();
        std::fs::remove_dir(paths::jobs(dir.path())).unwrap();
        std::fs::write(paths::jobs(dir.path()), "").unwrap();
        let text = prepare(dir.path()).unwrap_err().to_string();
        assert!(text.contains("jobs cannot be used"), "{text}");
    }

    #[test]
    fn a_copy_is_as_good_as_another_boot_and_a_move_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("a")).unwrap();
        let mut boot = Boot::look(&at("a"));
        boot.done(&at("a")).unwrap();
        assert!(Boot::look(&at("a")).new.is_none());
        std::fs::create_dir(at("b")).unwrap();
        std::fs::copy(at("a/engine-boot"), at("b/engine-boot")).unwrap();
        let copy = Boot::look(&at("b"));
        assert!(copy.is_copy() && copy.new.is_some());
        std::fs::rename(at("a"), at("c")).unwrap();
        assert!(Boot::look(&at("c")).new.is_none());
        // Put in the place of the first, it is a copy still.
        std::fs::rename(at("b"), at("a")).unwrap();
        assert!(Boot::look(&at("a")).is_copy());
        // What an engine of before wrote does not say where it was: jobs that live are known by their locks.
        std::fs::write(at("c/engine-boot"), format!("{}\n", proc::boot_id())).unwrap();
        assert!(Boot::look(&at("c")).new.is_some());
    }
}
