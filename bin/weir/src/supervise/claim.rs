//! One supervisor a state directory: `STATEDIR/supervisor`, held with flock for as long as `weir start` lives.
//!
//! ```text
//!  take ─┬─ held by one that is stopping ─▶ wait │ 10 s
//!        ├─ held ─▶ refused, naming it
//!        └─ free ─▶ daemons of one that was killed are still ending ─▶ wait │ 10 s ─▶ ours
//! ```
//! The kernel drops the lock with the process. The file holds `PID`, or `PID stopping [shutdown [left]]`: for messages, and to know whether
//! waiting helps. The words stay when the process has ended: who was connected reads there that the instance was shut down.
//! The store's own lock (`STATEDIR/lock`) stays what protects the store; it is looked at here, never taken. What either file says is believed
//! only while its lock is held: a copy of a directory names the processes of the one that it was copied from.

use crate::lock::is_held;
use crate::output::complain;
use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file.
pub const FILE_NAME: &str = "supervisor";
/// How long the processes of the supervisor before may take to end.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The wait between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So long a keeper may take to write who it is; then it is refused without a name (a full disk may keep it from writing).
const NAMED_WITHIN: Duration = Duration::from_secs(2);
/// More than a pid and a word is not ours.
const TEXT_BYTES_MAX: u64 = 64;

/// The directory is ours; dropping it lets it go.
#[derive(Debug)]
pub struct Claim {
    file: File,
}

impl Claim {
    /// Takes the directory, once the processes of the supervisor before have ended. They are ending if that one is stopping or was killed;
    /// they are waited for, which is said.
    ///
    /// # Errors
    /// Somebody keeps it, or does not end in time: the text names the process and the remedy.
    pub async fn take(statedir: &Path) -> anyhow::Result<Self> {
        let path = statedir.join(FILE_NAME);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| {
                format!(
                    "cannot use {}; choose another directory with --statedir",
                    path.display()
                )
            })?;
        let started = Instant::now();
        let mut told = false;
        let mut wait = async |what: &dyn Fn() -> String| -> bool {
            if started.elapsed() >= WAIT_MAX {
                return false;
            }
            if !std::mem::replace(&mut told, true) {
                complain(&format!("start: waiting for {} to end", what()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
            true
        };
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
            let keeper = Keeper::read(&mut file);
            // It has the lock, and is about to write who it is.
            if keeper.pid.is_none() && started.elapsed() < NAMED_WITHIN {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            if keeper.ending.is_none() || !wait(&|| keeper.to_string()).await {
                bail!(keeper.refuses(statedir));
            }
        }
        note(&mut file, "");
        while let Some(pid) = left_behind(statedir) {
            if !wait(&|| format!("weir-job-manager, process {pid}, whose weir start was killed"))
                .await
            {
                bail!(
                    "state directory {} is in use by process {pid} (weir-job-manager), which does not end though its weir start was killed: \
                     see what holds it up, or kill -KILL {pid}, and start again",
                    statedir.display()
                );
            }
        }
        Ok(Self { file })
    }

    /// From here on it is worth waiting for us.
    pub fn stopping(&mut self, why: Ending) {
        note(
            &mut self.file,
            match why {
                Ending::Stopped => " stopping",
                Ending::ShutDown => " stopping shutdown",
                Ending::Left => " stopping shutdown left",
            },
        );
    }
}

/// Why an instance ends, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its `weir start` was told to stop.
    Stopped,
    /// It was shut down.
    ShutDown,
    /// It was shut down, and the command of its `weir start CMD` goes on without it.
    Left,
}

/// Why the last instance on this directory ends or has ended, by the word of its supervisor; `None` if it does not, or did not say.
#[must_use]
pub fn ending(statedir: &Path) -> Option<Ending> {
    Keeper::read(&mut File::open(statedir.join(FILE_NAME)).ok()?).ending
}

/// A courtesy: a full disk must keep nobody from starting.
fn note(file: &mut File, word: &str) {
    let written = file
        .set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}{word}", std::process::id()));
    drop(written);
}

/// Who holds the lock, by its own word.
struct Keeper {
    pid: Option<u32>,
    ending: Option<Ending>,
}

impl Keeper {
    fn read(file: &mut File) -> Self {
        let mut text = String::new();
        // Unreadable is as good as empty.
        let _ = file
            .rewind()
            .and_then(|()| file.take(TEXT_BYTES_MAX).read_to_string(&mut text));
        let mut words = text.split_whitespace();
        Self {
            pid: words.next().and_then(|word| word.parse().ok()),
            ending: match (words.next(), words.next(), words.next()) {
                (Some("stopping"), None, _) => Some(Ending::Stopped),
                (Some("stopping"), Some("shutdown"), None) => Some(Ending::ShutDown),
                (Some("stopping"), Some("shutdown"), Some(_)) => Some(Ending::Left),
                _ => None,
            },
        }
    }

    fn refuses(&self, statedir: &Path) -> String {
        let by = match (manager_of(statedir), self.pid) {
            (Some(manager), Some(pid)) => {
                format!("process {manager} (weir start is process {pid})")
            }
            (None, Some(pid)) => format!("weir start, process {pid}"),
            (_, None) => "another weir start".to_owned(),
        };
        let stop = match self.pid {
            Some(pid) if self.ending.is_some() => format!("it does not end: kill -KILL {pid}"),
            Some(pid) => format!("stop that first: kill {pid} or 'weir shutdown'"),
            None => "stop that first".to_owned(),
        };
        format!(
            "state directory {} is in use by {by}: {stop}, or name another directory with --statedir",
            statedir.display()
        )
    }
}

impl std::fmt::Display for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "weir start, process {pid}, which is stopping,"),
            None => f.write_str("another weir start, which is stopping,"),
        }
    }
}

/// The supervisor that keeps the directory, if one does: it lives, and holds the lock.
#[must_use]
pub fn keeper(statedir: &Path) -> Option<u32> {
    let path = statedir.join(FILE_NAME);
    let mut file = File::open(&path).ok()?;
    if !is_held(&path) {
        return None;
    }
    let pid = Keeper::read(&mut file).pid?;
    let words = words_of(pid);
    let is = |at: usize, word: &[u8]| words.get(at).is_some_and(|met| met.ends_with(word));
    (is(0, b"weir") && words.iter().any(|word| word == b"start")).then_some(pid)
}

/// The process in the store's lock file, if it holds that lock and is a job-manager.
fn manager_of(statedir: &Path) -> Option<u32> {
    let path = statedir.join("lock");
    if !is_held(&path) {
        return None;
    }
    let mut text = String::new();
    File::open(path)
        .ok()?
        .take(TEXT_BYTES_MAX)
        .read_to_string(&mut text)
        .ok()?;
    let pid = text.trim().parse().ok()?;
    words_of(pid)
        .first()
        .is_some_and(|word| word.ends_with(b"weir-job-manager"))
        .then_some(pid)
}

/// The job-manager of a supervisor that was killed: ours is the only one that lives, so one that is to end with its supervisor is ending.
fn left_behind(statedir: &Path) -> Option<u32> {
    manager_of(statedir).filter(|pid| {
        words_of(*pid)
            .iter()
            .any(|word| word.starts_with(b"--stop-with-parent"))
    })
}

/// The command line of a process; none if it is gone or a zombie.
fn words_of(pid: u32) -> Vec<Vec<u8>> {
    let path = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let line = fs::read(path).unwrap_or_default();
    line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_second_supervisor_is_refused_and_the_first_named() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let held = Claim::take(dir.path()).await.unwrap();
            let text = Claim::take(dir.path()).await.unwrap_err().to_string();
            let pid = std::process::id();
            for part in [
                dir.path().to_str().unwrap(),
                &format!("in use by weir start, process {pid}: stop that first: kill {pid}"),
                "--statedir",
            ] {
                assert!(text.contains(part), "{text}");
            }
            drop(held);
            Claim::take(dir.path()).await.unwrap();
        });
    }

    /// A process that looks like a job-manager which ends with its supervisor; it ends with its standard input.
    fn like_a_manager(dir: &Path) -> std::process::Child {
        use std::os::unix::fs::symlink;
        let program = dir.join("weir-job-manager");
        symlink("/bin/sh", &program).unwrap();
        std::process::Command::new(program)
            .args(["-c", "read x", "--stop-with-parent=1"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn fault_a_copy_of_a_live_directory_does_not_wait_for_the_processes_of_the_original() {
        let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut manager = like_a_manager(original.path());
        let pid = manager.id();
        for dir in [&original, &copy] {
            fs::write(dir.path().join("lock"), format!("{pid}\n")).unwrap();
            fs::write(dir.path().join(FILE_NAME), format!("{pid}\n")).unwrap();
        }
        // The process has become what it looks like once it is seen here.
        let lock = File::open(original.path().join("lock")).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let started = Instant::now();
        while left_behind(original.path()) != Some(pid) {
            assert!(started.elapsed() < WAIT_MAX);
            std::thread::yield_now();
        }
        assert_eq!(left_behind(copy.path()), None);
        assert_eq!(keeper(copy.path()), None);
        block_on(async {
            let taking = tokio::time::timeout(WAIT_MAX / 2, Claim::take(copy.path()));
            taking.await.unwrap().unwrap();
        });
        drop(manager.stdin.take());
        manager.wait().unwrap();
    }

    #[test]
    fn fault_one_that_is_stopping_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut held = Claim::take(dir.path()).await.unwrap();
            for why in [Ending::Stopped, Ending::ShutDown, Ending::Left] {
                held.stopping(why);
                assert_eq!(ending(dir.path()), Some(why));
            }
            let release = async {
                tokio::task::yield_now().await;
                drop(held);
            };
            let (next, ()) = tokio::join!(Claim::take(dir.path()), release);
            next.unwrap();
        });
    }
}
