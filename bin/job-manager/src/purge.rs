//! Purges: searches of the store for jobs that ended, and the removal of the files of purged jobs. Both on threads that read.
//!
//! What is removed is `jobs/ID`, whole, of jobs that a purge names and that have no row any more. A job whose shepherd is still there (it
//! holds the lock of its claim) keeps its files until that has ended.

use crate::reads::Lane;
use crate::shell::{Found, LOCAL, Shell};
use job::{JobId, Seq};
use manager::{Find, Input, Which};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use store::{Ended, Reader};

/// The jobs' directories, in the state directory.
pub(crate) const JOBS_DIR: &str = "jobs";
/// What the claims of a job are called, one for each of its nodes; `rfc/5_engine.md`.
const CLAIM: &str = "claim";

impl Shell {
    /// Has the store looked through for jobs that ended.
    pub(crate) fn find_ended(&mut self, find: Find) {
        let asked = self.reads.ask(Lane::Lookup, LOCAL, move |reader| {
            let which = match find.which {
                Which::All => Ended::All,
                Which::Beyond { before, keep } => Ended::Beyond { before, keep },
            };
            Found::Ended(match reader.ended(which, find.limit, find.count) {
                Ok((jobs, total)) => Ok(manager::Found { jobs, total }),
                Err(error) => {
                    tracing::error!(%error, "jobs that ended cannot be looked for");
                    Err(error.to_string())
                }
            })
        });
        if !asked {
            let found = Err("too many look-ups wait; try again later".to_owned());
            self.late.push_back(Input::Found(found));
        }
    }

    /// Has the files of purged jobs removed.
    pub(crate) fn sweep(&mut self, batch: Seq, jobs: Vec<JobId>) {
        jobs.iter().for_each(|id| self.set_aside.remove(*id));
        let dir = self.config.statedir.join(JOBS_DIR);
        let left = jobs.clone();
        let asked = self.reads.ask(Lane::Sweep, LOCAL, move |reader| {
            let left = remove_all(&dir, reader, jobs);
            Found::Swept { batch, left }
        });
        if !asked {
            self.late.push_back(Input::Swept { batch, left });
        }
    }
}

/// Removes the directories of purged jobs; those whose directory is still there. When this returns, the others are gone for good.
fn remove_all(dir: &Path, reader: &Reader, mut jobs: Vec<JobId>) -> Vec<JobId> {
    let before = jobs.len();
    jobs.retain(|id| {
        let removed = match reader.job(*id, false) {
            Ok(None) => remove(&dir.join(id.0.to_string())),
            Ok(Some(_)) => Err(io::Error::other("the job is in the store")),
            Err(error) => Err(io::Error::other(error)),
        };
        match removed {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(job = %id, id = id.0, %error, "the files of this purged job stay for now");
                true
            }
        }
    });
    // No entry may come back by a power cut once it is noted that there is none.
    if jobs.len() < before
        && let Err(error) = File::open(dir).and_then(|dir| dir.sync_all())
    {
        tracing::warn!(%error, dir = %dir.display(), "the removal of files may not outlive a power cut");
    }
    jobs
}

/// Removes a job's directory unless somebody holds a claim in it.
fn remove(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return fs::remove_file(dir),
        other => other?,
    };
    // Held until the files are gone.
    let mut claims = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(CLAIM) || !entry.file_type()?.is_file()
        {
            continue;
        }
        let claim = File::open(entry.path())?;
        match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(io::Error::other("its shepherd is still there"));
            }
            other => other?,
        }
        claims.push(claim);
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_whole_but_not_while_its_claim_is_held() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("7");
        fs::create_dir_all(dir.join("deep/er")).unwrap();
        fs::write(dir.join("deep/er/file"), "x").unwrap();
        fs::write(dir.join("claim.1"), "x").unwrap();
        std::os::unix::fs::symlink("/", dir.join("root")).unwrap();
        let claim = File::open(dir.join("claim.1")).unwrap();
        flock(&claim, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(remove(&dir).is_err());
        assert!(dir.join("deep/er/file").exists());
        drop(claim);
        remove(&dir).unwrap();
        assert!(!dir.exists());
        remove(&dir).unwrap();
        assert!(Path::new("/").exists());
    }

    #[test]
    fn what_is_no_directory_goes_and_a_link_is_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let (file, link) = (temporary.path().join("8"), temporary.path().join("9"));
        fs::write(&file, "x").unwrap();
        remove(&file).unwrap();
        assert!(!file.exists());
        let other = temporary.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        remove(&link).unwrap();
        assert!(!link.is_symlink() && other.join("kept").exists());
    }
}
