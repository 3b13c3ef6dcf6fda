//! A thread that sits in `wait`: says who ended, and ends when nobody is left.
//!
//! We are the subreaper of everything below us, so "no child left" is exactly "the job's last process is gone".

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use job::WaitStatus;
use rustix::process::{Pid, WaitOptions};

/// Bytes of one record: pid and status.
const RECORD_LEN: usize = 8;
/// Records read at once.
const RECORDS_MAX: usize = 64;

/// Our end of the pipe that the thread writes to. It is closed when nobody is left.
#[derive(Debug)]
pub(crate) struct Reaper {
    pipe: File,
}

impl Reaper {
    /// Starts the thread. The children must be there already, or it ends at once.
    pub(crate) fn start() -> io::Result<Reaper> {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let write = File::from(write);
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || reap(write))?;
        Ok(Reaper {
            pipe: File::from(read),
        })
    }

    /// Who ended, as far as it is known by now; none when nobody is left. Waits if there is nothing to read.
    pub(crate) fn read(&mut self) -> Option<Vec<(Pid, WaitStatus)>> {
        let mut records = [0u8; RECORD_LEN * RECORDS_MAX];
        match self.pipe.read(&mut records) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(Vec::new()),
            Ok(0) | Err(_) => None,
            // Records are written whole, and a pipe keeps such small writes together.
            Ok(len) => Some(
                records[..len]
                    .chunks_exact(RECORD_LEN)
                    .filter_map(record)
                    .collect(),
            ),
        }
    }
}

impl AsFd for Reaper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

fn record(record: &[u8]) -> Option<(Pid, WaitStatus)> {
    let word = |at: usize| Some(i32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    Some((Pid::from_raw(word(0)?)?, WaitStatus(word(4)?)))
}

fn reap(mut pipe: File) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let mut record = [0u8; RECORD_LEN];
                record[..4].copy_from_slice(&pid.as_raw_nonzero().get().to_ne_bytes());
                record[4..].copy_from_slice(&status.as_raw().to_ne_bytes());
                if pipe.write_all(&record).is_err() {
                    return;
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            // ECHILD.
            Err(_) => return,
        }
    }
}
