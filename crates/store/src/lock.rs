//! The lock of a state directory: `STATEDIR/lock`, held with flock from open until the writer is dropped.
//!
//! The kernel drops the lock with the process, so a crash leaves nothing to clean. The file holds the holder's pid as text, for
//! the error message only; it is never trusted for anything else.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::error::OpenError;

/// A held lock; dropping it lets the directory go.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Takes the lock of `dir`, or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let failed = |source: std::io::Error| OpenError::Directory {
            dir: dir.to_owned(),
            source,
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(crate::LOCK_NAME))
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                return Err(OpenError::InUse {
                    dir: dir.to_owned(),
                    pid,
                    supervisor: pid.and_then(supervisor),
                });
            }
            Err(errno) => return Err(failed(errno.into())),
        }
        file.set_len(0).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        // A full disk must not keep a daemon from starting to read: the pid is a courtesy.
        if let Err(error) = writeln!(file, "{}", std::process::id()) {
            tracing::warn!(%error, "cannot write the pid into the lock file");
        }
        Ok(Self { _file: file })
    }
}

/// The parent of that process, if it is a `weir start`.
fn supervisor(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim();
    let command = std::fs::read(format!("/proc/{parent}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0);
    let is_weir = words.next()?.rsplit(|byte| *byte == b'/').next() == Some(b"weir".as_slice());
    if is_weir && words.any(|word| word == b"start") {
        parent.parse().ok()
    } else {
        None
    }
}
