//! The first hello of a boot: what the job-manager gave out before it is marked before anything is begun.
//!
//! `STATEDIR/engine-boot` holds the id of the boot in which this was last done. It is written when all marks are made, so an engine that
//! is killed in between does it again, which changes nothing.

use std::io;
use std::path::Path;

use crate::paths;
use crate::proc;
use crate::shepherd::claim::mark_given_out;

/// The state directory's last boot, and what hangs on it.
#[derive(Debug)]
pub(crate) struct Boot {
    /// The id that is to be written; none if it stands there already.
    new: Option<String>,
}

impl Boot {
    /// Compares the state directory with the machine.
    pub(crate) fn look(statedir: &Path) -> Boot {
        let now = proc::boot_id();
        let last = std::fs::read_to_string(paths::engine_boot(statedir)).unwrap_or_default();
        Boot {
            new: (last.trim() != now || now.is_empty()).then_some(now),
        }
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
            marked |= mark_given_out(&dir, *rank, nnodes)?;
        }
        Ok(marked)
    }

    /// All jobs are marked that are to be: jobs may begin in this boot.
    pub(crate) fn done(&mut self, statedir: &Path) -> io::Result<()> {
        if let Some(now) = self.new.take() {
            std::fs::write(paths::engine_boot(statedir), format!("{now}\n"))?;
        }
        Ok(())
    }
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
}
