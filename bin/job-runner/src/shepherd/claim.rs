//! The claim protocol: `jobs/<id>/claim` decides that a job's body begins at most once, and what became of it.
//!
//! ```text
//!  nothing ─ mkdir ─▶ directory ─ open, flock ─▶ claimed ─ room for the status ─▶ reserved ─ "executing" ─▶ executing ─ status ─▶ ended
//!     │                  │                          │                                │                        │                   │
//!     └──────────────────┴────────────────── nothing ran ────────────────────────────┘                        │                   │
//!                              dies here: another may take over                        dies here: lost, never run again    told from the file
//! ```
//!
//! | claim file | lock | "executing" | status | verdict |
//! | --- | --- | --- | --- | --- |
//! | none | | | | [`Verdict::Free`]: may run |
//! | there | free | no | | [`Verdict::Free`]: the body never began |
//! | there | any | yes | whole | [`Verdict::Ended`] |
//! | there | held | any | none, empty or torn | [`Verdict::Held`]: its shepherd lives; wait for it |
//! | there | free | yes | none, empty or torn | [`Verdict::Lost`]: may have run in part; never again |
//!
//! What makes it safe when processes are killed: files that were written stay written, and the lock is the kernel's, so it is held
//! exactly as long as the shepherd lives. (The lock file is never inherited: it closes on exec.)
//!
//! What makes it safe when the disk is full: the status file is there, with [`STATUS_LEN`] bytes written to it, before the body begins, and
//! the status is written over them. A claim that finds no room for that is no claim: nothing has run, and it is tried again
//! (`ClaimError::is_no_space`). There is no fsync: file systems that write in place (ext4, xfs, tmpfs) take the room when the bytes are
//! written; on those that never do (btrfs) an fsync would not help, and the end of a job is kept in memory until it can be written.
//!
//! What makes it safe when the machine stops: no fsync, but [`mark_given_out`]. Nothing runs across a boot, and a job is only
//! begun when the job-manager has stored that it was given resources. So whatever it says is given out at the first hello
//! of a boot may have run before, and is marked so, claim or no claim, before anything is begun in this boot. The price: a job
//! that was given out and not begun when the power went is lost, too. The gain: no job waits for a disk to begin. A status is
//! durable when the job-manager stores what it was told; if that takes longer than a second, [`sync_status`] sees to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
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
/// Bytes that a status file has before the job's body begins. A status is never longer: one block, which is written whole or not.
pub const STATUS_LEN: usize = 4096;
/// What it is filled with.
const EMPTY: [u8; STATUS_LEN] = [b' '; STATUS_LEN];

/// What the files of one part of a job say.
#[derive(Debug)]
pub enum Verdict {
    /// The body never began: it may run.
    Free,
    /// A shepherd has it. Locking this file waits for its end.
    Held(File, Claimant),
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
    /// When it started, in clock ticks since boot: with the pid it names one process. 0 is not known.
    #[serde(default)]
    pub start: u64,
    /// Device and inode of the claim file: a copy has others. None is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<(u64, u64)>,
    /// It was marked by an engine that found its state directory to be a copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
    /// The file this was read from is not the one that was written.
    #[serde(skip)]
    elsewhere: bool,
}

impl Claimant {
    /// This process, in that file.
    fn here(file: &File) -> io::Result<Claimant> {
        Ok(Claimant {
            boot: proc::boot_id(),
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            start: proc::own_start(),
            file: Some(place(file)?),
            ..Claimant::default()
        })
    }

    fn read(claim: &mut File) -> io::Result<Claimant> {
        let text = read_some(claim)?;
        let line = text.split(|byte| *byte == b'\n').next();
        let found = line.and_then(|line| serde_json::from_slice(line).ok());
        let mut claimant: Claimant = found.unwrap_or_default();
        let here = place(claim)?;
        claimant.elsewhere = claimant.file.is_some_and(|there| there != here);
        Ok(claimant)
    }

    /// The claim is another instance's: the state directory was copied, or moved to another file system. What it speaks of must not be touched.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.copy || self.elsewhere
    }
}

fn place(file: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// A claim that was taken. The lock lasts as long as this value.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
    status: File,
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

impl ClaimError {
    /// There is no room for it: it may be tried again.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, ClaimError::Io { error, .. } if is_no_space(error))
    }
}

/// Whether more room would have helped: the disk is full, or the user's share of it.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ClaimError + '_ {
    move |error| ClaimError::Io {
        path: path.display().to_string(),
        error,
    }
}

impl Claim {
    /// Claims one part of a job. The body may begin after this and not before.
    pub(crate) fn take(dir: &Path, rank: u32, nnodes: u32) -> Result<Claim, ClaimError> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at(dir)(error));
            }
            _ => {}
        }
        fault::at(Step::AfterMkdir);
        let path = dir.join(part_file("claim", rank, nnodes));
        let mut claim = open(&path).map_err(at(&path))?;
        match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(ClaimError::Held),
            other => other.map_err(io::Error::from).map_err(at(&path))?,
        }
        if was_executing(&mut claim).map_err(at(&path))? {
            return Err(ClaimError::Used);
        }
        claim.set_len(0).map_err(at(&path))?;
        let claimant = Claimant::here(&claim).map_err(at(&path))?;
        let mut line = serde_json::to_vec(&claimant).unwrap_or_default();
        line.push(b'\n');
        claim.write_all_at(&line, 0).map_err(at(&path))?;
        fault::at(Step::AfterClaim);
        let status_path = dir.join(part_file("status", rank, nnodes));
        let status = open(&status_path).map_err(at(&status_path))?;
        status.write_all_at(&EMPTY, 0).map_err(at(&status_path))?;
        fault::at(Step::AfterReserve);
        // Into the block that the first line is in: it needs no room.
        claim
            .write_all_at(EXECUTING.as_bytes(), line.len() as u64)
            .map_err(at(&path))?;
        fault::at(Step::AfterExecuting);
        Ok(Claim {
            _file: claim,
            status,
        })
    }

    /// Writes how it ended, over what was reserved for it.
    pub(crate) fn write_status(&self, ended: &Ended, durable: bool) -> io::Result<()> {
        fault::at(Step::BeforeStatus);
        write_over(&self.status, ended)?;
        if durable {
            self.status.sync_all()?;
        }
        fault::at(Step::AfterStatus);
        Ok(())
    }
}

/// A file to be locked and written to, made if it is not there.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

/// One line in one block: it is there whole or, after a power cut, not.
fn write_over(status: &File, ended: &Ended) -> io::Result<()> {
    let line = status_line(ended);
    status.write_all_at(&line, 0)?;
    // For people. A reader takes the first line.
    let _ = status.set_len(line.len() as u64);
    Ok(())
}

/// A status as it is written: never longer than what was reserved, at the expense of the longest notes.
fn status_line(ended: &Ended) -> Vec<u8> {
    let mut line = crate::messages::to_line(ended);
    let mut short = ended.clone();
    while line.len() > STATUS_LEN {
        match short
            .exceptions
            .iter_mut()
            .max_by_key(|exception| exception.note.len())
        {
            Some(longest) if longest.note.len() > 80 => {
                let half = longest.note.chars().count() / 2;
                longest.note = longest.note.chars().take(half).chain(['…']).collect();
            }
            // Many short ones: the first is what the job failed of.
            _ => short.exceptions.truncate(short.exceptions.len() / 2),
        }
        line = crate::messages::to_line(&short);
    }
    line
}

/// At the first hello of a boot: whatever was given out before and did not end may have run, also if its claim was never written to
/// the disk. True if that is what it is marked as now.
/// # Errors
/// What the file system says; then nothing may be begun.
pub fn mark_given_out(dir: &Path, rank: u32, nnodes: u32, copy: bool) -> io::Result<bool> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let path = dir.join(part_file("claim", rank, nnodes));
    let mut claim = open(&path)?;
    match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        other => other?,
    }
    if !was_executing(&mut claim)? {
        claim.set_len(0)?;
        let nobody = Claimant {
            copy,
            ..Claimant::default()
        };
        let text = format!(
            "{}\n{EXECUTING}",
            serde_json::to_string(&nobody).unwrap_or_default()
        );
        claim.write_all_at(text.as_bytes(), 0)?;
    }
    Ok(true)
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
    let held = match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => true,
        other => other.map(|()| false)?,
    };
    let executing = was_executing(&mut claim)?;
    if executing && let Some(ended) = read_status(dir, rank, nnodes)? {
        return Ok(Verdict::Ended(ended));
    }
    if held {
        let claimant = Claimant::read(&mut claim)?;
        return Ok(Verdict::Held(claim, claimant));
    }
    if !executing {
        return Ok(Verdict::Free);
    }
    Ok(Verdict::Lost(Claimant::read(&mut claim)?))
}

/// A status that is there and whole.
fn read_status(dir: &Path, rank: u32, nnodes: u32) -> io::Result<Option<Ended>> {
    let mut file = match File::open(dir.join(part_file("status", rank, nnodes))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let text = read_some(&mut file)?;
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    Ok(crate::messages::from_line(&text[..end]).ok())
}

/// Makes a status that was written without fsync durable; one that could not be written is written now.
/// # Errors
/// What the file system says; then it is not durable.
pub fn sync_status(dir: &Path, rank: u32, nnodes: u32, ended: &Ended) -> io::Result<()> {
    let status = open(&dir.join(part_file("status", rank, nnodes)))?;
    if read_status(dir, rank, nnodes)?.is_none() {
        write_over(&status, ended)?;
    }
    status.sync_all()?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(dir: &Path) -> &'static str {
        match verdict(dir, 0, 1).unwrap() {
            Verdict::Free => "free",
            Verdict::Held(..) => "held",
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
        let claim = Claim::take(&dir, 0, 1).unwrap();
        assert_eq!(verdict_of(&dir), "held");
        assert!(matches!(Claim::take(&dir, 0, 1), Err(ClaimError::Held)));
        let Verdict::Held(file, _) = verdict(&dir, 0, 1).unwrap() else {
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
            Claimant::here(&open(&dir.join("claim")).unwrap()).unwrap()
        );
        assert!(!claimant.is_copied());
        assert!(matches!(Claim::take(&dir, 0, 1), Err(ClaimError::Used)));
        for torn in ["", "{\"status\":0}", "{\"sta\n"] {
            fs::write(dir.join("status"), torn).unwrap();
            assert_eq!(verdict_of(&dir), "lost", "{torn:?}");
        }
        let ended = Ended {
            status: Some(256),
            exceptions: Vec::new(),
        };
        write_over(&open(&dir.join("status")).unwrap(), &ended).unwrap();
        assert!(matches!(verdict(&dir, 0, 1).unwrap(), Verdict::Ended(met) if met == ended));
    }

    #[test]
    fn a_status_needs_no_room_that_was_not_taken_before_the_body_began() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("1");
        let claim = Claim::take(&dir, 0, 1).unwrap();
        let status = dir.join("status");
        let before = fs::read(&status).unwrap();
        assert_eq!(before, EMPTY);
        assert_eq!(verdict_of(&dir), "held");
        let long = |note: &str| crate::messages::Exception::fatal("exec", note);
        let ended = Ended {
            status: Some(32512),
            exceptions: vec![
                long(&"ä\n".repeat(5000)),
                long("short"),
                long(&"y".repeat(3000)),
            ],
        };
        claim.write_status(&ended, false).unwrap();
        assert!(fs::metadata(&status).unwrap().len() <= STATUS_LEN as u64);
        // It is whole before the lock is free: nobody waits for a shepherd that is held up in between.
        let Verdict::Ended(met) = verdict(&dir, 0, 1).unwrap() else {
            panic!("ended")
        };
        assert_eq!((met.status, met.exceptions.len()), (Some(32512), 3));
        assert_eq!(met.exceptions[1].note, "short");
        assert!(met.exceptions[0].note.ends_with('…'));
        let many = Ended {
            status: None,
            exceptions: vec![long("note"); 1000],
        };
        assert!(status_line(&many).len() <= STATUS_LEN);
    }

    #[test]
    fn a_status_that_was_never_written_is_written_before_it_is_said_to_be_durable() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("1");
        drop(Claim::take(&dir, 0, 1).unwrap());
        assert_eq!(verdict_of(&dir), "lost");
        let ended = Ended {
            status: Some(0),
            exceptions: Vec::new(),
        };
        sync_status(&dir, 0, 1, &ended).unwrap();
        assert!(matches!(verdict(&dir, 0, 1).unwrap(), Verdict::Ended(met) if met == ended));
        // One that stands there is the shepherd's own.
        sync_status(&dir, 0, 1, &Ended::default()).unwrap();
        assert!(matches!(verdict(&dir, 0, 1).unwrap(), Verdict::Ended(met) if met == ended));
    }

    #[test]
    fn after_a_restart_of_the_machine_what_was_given_out_is_lost_unless_it_ended() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = |name: &str| temporary.path().join(name);
        // No trace of it on the disk.
        assert!(mark_given_out(&dir("1"), 0, 1, false).unwrap());
        let Verdict::Lost(claimant) = verdict(&dir("1"), 0, 1).unwrap() else {
            panic!("lost")
        };
        assert_ne!(claimant.boot, proc::boot_id());
        assert!(matches!(
            Claim::take(&dir("1"), 0, 1),
            Err(ClaimError::Used)
        ));
        // A claim that never came to "executing", or whose "executing" never came to the disk.
        fs::create_dir(dir("2")).unwrap();
        fs::write(dir("2").join("claim"), "{\"boot\":\"b\",\"pid\":1}\n").unwrap();
        assert!(mark_given_out(&dir("2"), 0, 1, false).unwrap());
        assert_eq!(verdict_of(&dir("2")), "lost");
        // Its end is on the disk.
        let ended = Ended {
            status: Some(0),
            exceptions: Vec::new(),
        };
        write_over(&open(&dir("2").join("status")).unwrap(), &ended).unwrap();
        assert!(mark_given_out(&dir("2"), 0, 1, false).unwrap());
        assert_eq!(verdict_of(&dir("2")), "ended");
        // Its shepherd lives: not from before.
        let _claim = Claim::take(&dir("3"), 0, 1).unwrap();
        assert!(!mark_given_out(&dir("3"), 0, 1, false).unwrap());
    }

    #[test]
    fn a_claim_that_was_copied_is_known_for_a_copy() {
        let temporary = tempfile::tempdir().unwrap();
        let (dir, copy) = (temporary.path().join("1"), temporary.path().join("2"));
        let _claim = Claim::take(&dir, 0, 1).unwrap();
        fs::create_dir(&copy).unwrap();
        for name in ["claim", "status"] {
            fs::copy(dir.join(name), copy.join(name)).unwrap();
        }
        let Verdict::Lost(claimant) = verdict(&copy, 0, 1).unwrap() else {
            panic!("lost")
        };
        assert!(claimant.is_copied());
        let Verdict::Held(_, claimant) = verdict(&dir, 0, 1).unwrap() else {
            panic!("held")
        };
        assert!(!claimant.is_copied() && claimant.start > 0);
        // Moved, it is the same.
        fs::rename(&dir, temporary.path().join("3")).unwrap();
        let moved = verdict(&temporary.path().join("3"), 0, 1).unwrap();
        assert!(matches!(moved, Verdict::Held(_, claimant) if !claimant.is_copied()));
    }

    #[test]
    fn parts_of_a_job_on_several_nodes_are_claimed_apart() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("1");
        let first = Claim::take(&dir, 0, 2).unwrap();
        let second = Claim::take(&dir, 1, 2).unwrap();
        drop(first);
        assert!(matches!(verdict(&dir, 0, 2).unwrap(), Verdict::Lost(_)));
        assert!(matches!(verdict(&dir, 1, 2).unwrap(), Verdict::Held(..)));
        drop(second);
    }
}
