//! The claim protocol: `jobs/<id>/claim` decides that a job's body begins at most once, and what became of it.
//!
//! ```text
//!  nothing ─ mkdir ─▶ directory ─ open, flock ─▶ claimed ─ "executing" ─▶ executing ─ status ─▶ ended
//!     │                  │                          │                        │                   │
//!     └──────────────────┴──── nothing ran ─────────┘                        │                   │
//!              dies here: another may take over              dies here: lost, never run again    told from the file
//! ```
//!
//! | claim file | lock | "executing" | status | verdict |
//! | --- | --- | --- | --- | --- |
//! | none | | | | [`Verdict::Free`]: may run |
//! | there | held | any | any | [`Verdict::Held`]: its shepherd lives; wait for it |
//! | there | free | no | | [`Verdict::Free`]: the body never began |
//! | there | free | yes | none or torn | [`Verdict::Lost`]: may have run in part; never again |
//! | there | free | yes | there | [`Verdict::Ended`] |
//!
//! What makes it safe when processes are killed: files that were written stay written, and the lock is the kernel's, so it is held
//! exactly as long as the shepherd lives. (The lock file is never inherited: it closes on exec.)
//!
//! What makes it safe when the machine stops: no fsync, but [`mark_given_out`]. Nothing runs across a boot, and a job is only
//! begun when the job-manager has stored that it was given resources. So whatever it says is given out at the first hello
//! of a boot may have run before, and is marked so, claim or no claim, before anything is begun in this boot. The price: a job
//! that was given out and not begun when the power went is lost, too. The gain: no job waits for a disk to begin. A status is
//! durable when the job-manager stores what it was told; if that takes longer than a second, [`sync_status`] sees to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::messages::Ended;
use crate::order::part_file;
use crate::proc;
use crate::shepherd::fault::{self, Step};

/// The mark after which a body may have run.
const EXECUTING: &str = "executing\n";
/// Bytes of a claim or status file that are looked at.
const FILE_LEN_MAX: u64 = 1 << 20;

/// What the files of one part of a job say.
#[derive(Debug)]
pub enum Verdict {
    /// The body never began: it may run.
    Free,
    /// A shepherd has it. Locking this file waits for its end.
    Held(File),
    /// It may have run in part, and nobody knows how it ended.
    Lost(Claimant),
    /// It ended so.
    Ended(Ended),
}

/// Who claimed, as written in the claim file.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Claimant {
    /// Boot id of the machine then.
    pub boot: String,
    /// The shepherd, which leads the session that the job's processes started in.
    pub pid: i32,
}

/// A claim that was taken. The lock lasts as long as this value.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
}

/// Why a claim was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
    #[error("another shepherd has this job")]
    Held,
    #[error("this job was run before")]
    Used,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ClaimError + '_ {
    move |error| ClaimError::Io {
        path: path.display().to_string(),
        error,
    }
}

impl Claim {
    /// Claims one part of a job. The body may begin after this and not before.
    pub(crate) fn take(dir: &Path, file: &str) -> Result<Claim, ClaimError> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(dir)(error));
            }
            _ => {}
        }
        fault::at(Step::AfterMkdir);
        let path = dir.join(file);
        let mut claim = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(at(&path))?;
        match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ClaimError::Held),
            other => other.map_err(io::Error::from).map_err(at(&path))?,
        }
        if was_executing(&mut claim).map_err(at(&path))? {
            return Err(ClaimError::Used);
        }
        claim.set_len(0).map_err(at(&path))?;
        let claimant = Claimant {
            boot: proc::boot_id(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
        };
        let mut line = serde_json::to_vec(&claimant).unwrap_or_default();
        line.push(b'\n');
        rustix::io::pwrite(&claim, &line, 0)
            .map_err(io::Error::from)
            .map_err(at(&path))?;
        fault::at(Step::AfterClaim);
        rustix::io::pwrite(&claim, EXECUTING.as_bytes(), line.len() as u64)
            .map_err(io::Error::from)
            .map_err(at(&path))?;
        fault::at(Step::AfterExecuting);
        Ok(Claim { _file: claim })
    }
}

/// At the first hello of a boot: whatever was given out before and did not end may have run, also if its claim was never written to
/// the disk. True if that is what it is marked as now.
/// # Errors
/// What the file system says; then nothing may be begun.
pub fn mark_given_out(dir: &Path, rank: u32, nnodes: u32) -> io::Result<bool> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = dir.join(part_file("claim", rank, nnodes));
    let mut claim = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        other => other?,
    }
    if !was_executing(&mut claim)? {
        claim.set_len(0)?;
        let text = format!(
            "{}\n{EXECUTING}",
            serde_json::to_string(&Claimant::default()).unwrap_or_default()
        );
        rustix::io::pwrite(&claim, text.as_bytes(), 0)?;
    }
    Ok(true)
}

/// Writes how it ended: one line, one write, so that it is there whole or (after a power cut) not.
pub(crate) fn write_status(dir: &Path, file: &str, ended: &Ended, durable: bool) -> io::Result<()> {
    fault::at(Step::BeforeStatus);
    let mut status = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.join(file))?;
    status.write_all(&crate::messages::to_line(ended))?;
    if durable {
        status.sync_all()?;
    }
    fault::at(Step::AfterStatus);
    Ok(())
}

fn read_some(file: &mut File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    io::Seek::rewind(file)?;
    file.take(FILE_LEN_MAX).read_to_end(&mut text)?;
    Ok(text)
}

fn was_executing(claim: &mut File) -> io::Result<bool> {
    Ok(read_some(claim)?.ends_with(EXECUTING.as_bytes()))
}

/// Looks at one part of a job. Takes the claim's lock for a moment if it is free.
/// # Errors
/// A file that is there and cannot be read.
pub fn verdict(dir: &Path, rank: u32, nnodes: u32) -> io::Result<Verdict> {
    let mut claim = match OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.join(part_file("claim", rank, nnodes)))
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Verdict::Free),
        other => other?,
    };
    match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Verdict::Held(claim)),
        other => other?,
    }
    if !was_executing(&mut claim)? {
        return Ok(Verdict::Free);
    }
    match fs::read(dir.join(part_file("status", rank, nnodes))) {
        Ok(line) if line.ends_with(b"\n") => {
            if let Ok(ended) = crate::messages::from_line::<Ended>(&line) {
                return Ok(Verdict::Ended(ended));
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let text = read_some(&mut claim)?;
    let claimant = text
        .split(|byte| *byte == b'\n')
        .next()
        .and_then(|line| serde_json::from_slice(line).ok());
    Ok(Verdict::Lost(claimant.unwrap_or_default()))
}

/// Makes a status that was written without fsync durable.
/// # Errors
/// What open or fsync say.
pub fn sync_status(dir: &Path, rank: u32, nnodes: u32) -> io::Result<()> {
    File::open(dir.join(part_file("status", rank, nnodes)))?.sync_all()?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(dir: &Path) -> &'static str {
        match verdict(dir, 0, 1).unwrap() {
            Verdict::Free => "free",
            Verdict::Held(_) => "held",
            Verdict::Lost(_) => "lost",
            Verdict::Ended(_) => "ended",
        }
    }

    #[test]
    fn every_row_of_the_table_of_verdicts() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("1");
        assert_eq!(verdict_of(&dir), "free");
        fs::create_dir(&dir).unwrap();
        assert_eq!(verdict_of(&dir), "free");
        // Claimed, dead before "executing".
        fs::write(dir.join("claim"), "{\"boot\":\"b\",\"pid\":1}\n").unwrap();
        assert_eq!(verdict_of(&dir), "free");
        let claim = Claim::take(&dir, "claim").unwrap();
        assert_eq!(verdict_of(&dir), "held");
        assert!(matches!(Claim::take(&dir, "claim"), Err(ClaimError::Held)));
        let Verdict::Held(file) = verdict(&dir, 0, 1).unwrap() else {
            panic!("held")
        };
        drop(claim);
        // Whoever waited for the lock gets it now.
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop(file);
        let Verdict::Lost(claimant) = verdict(&dir, 0, 1).unwrap() else {
            panic!("lost")
        };
        assert_eq!(
            claimant,
            Claimant {
                boot: proc::boot_id(),
                pid: std::process::id() as i32
            }
        );
        assert!(matches!(Claim::take(&dir, "claim"), Err(ClaimError::Used)));
        for torn in ["", "{\"status\":0}", "{\"sta\n"] {
            fs::write(dir.join("status"), torn).unwrap();
            assert_eq!(verdict_of(&dir), "lost", "{torn:?}");
        }
        let ended = Ended {
            status: Some(256),
            exceptions: Vec::new(),
        };
        write_status(&dir, "status", &ended, true).unwrap();
        assert!(matches!(verdict(&dir, 0, 1).unwrap(), Verdict::Ended(met) if met == ended));
        sync_status(&dir, 0, 1).unwrap();
    }

    #[test]
    fn after_a_restart_of_the_machine_what_was_given_out_is_lost_unless_it_ended() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = |name: &str| temporary.path().join(name);
        // No trace of it on the disk.
        assert!(mark_given_out(&dir("1"), 0, 1).unwrap());
        let Verdict::Lost(claimant) = verdict(&dir("1"), 0, 1).unwrap() else {
            panic!("lost")
        };
        assert_ne!(claimant.boot, proc::boot_id());
        assert!(matches!(
            Claim::take(&dir("1"), "claim"),
            Err(ClaimError::Used)
        ));
        // A claim that never came to "executing", or whose "executing" never came to the disk.
        fs::create_dir(dir("2")).unwrap();
        fs::write(dir("2").join("claim"), "{\"boot\":\"b\",\"pid\":1}\n").unwrap();
        assert!(mark_given_out(&dir("2"), 0, 1).unwrap());
        assert_eq!(verdict_of(&dir("2")), "lost");
        // Its end is on the disk.
        write_status(
            &dir("2"),
            "status",
            &Ended {
                status: Some(0),
                exceptions: Vec::new(),
            },
            true,
        )
        .unwrap();
        assert!(mark_given_out(&dir("2"), 0, 1).unwrap());
        assert_eq!(verdict_of(&dir("2")), "ended");
        // Its shepherd lives: not from before.
        let _claim = Claim::take(&dir("3"), "claim").unwrap();
        assert!(!mark_given_out(&dir("3"), 0, 1).unwrap());
    }

    #[test]
    fn parts_of_a_job_on_several_nodes_are_claimed_apart() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("1");
        let first = Claim::take(&dir, &part_file("claim", 0, 2)).unwrap();
        let second = Claim::take(&dir, &part_file("claim", 1, 2)).unwrap();
        drop(first);
        assert!(matches!(verdict(&dir, 0, 2).unwrap(), Verdict::Lost(_)));
        assert!(matches!(verdict(&dir, 1, 2).unwrap(), Verdict::Held(_)));
        drop(second);
    }
}
