//! Names in the state directory that the runner makes, and sockets in it however long its path is.
//!
//! ```text
//! STATEDIR/jobs/<decimal id>/   claim exec.eventlog output.eventlog status; for a job on several nodes claim.RANK, status.RANK
//! STATEDIR/engine-boot         boot id of the machine when an engine last said hello
//! STATEDIR/node-NAME.lock       held by that node process for life
//! STATEDIR/node-NAME.socket     the node process listens here for the engine
//! ```
//! A socket's address holds 108 bytes. We go through an open directory, `/proc/self/fd/N/NAME`, and never hit that.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

/// The directory of all jobs.
#[must_use]
pub fn jobs(statedir: &Path) -> PathBuf {
    statedir.join("jobs")
}

/// The directory of one job.
#[must_use]
pub fn job(statedir: &Path, id: u64) -> PathBuf {
    jobs(statedir).join(id.to_string())
}

/// The instance's key, without the end of its line.
/// # Errors
/// What reading says.
pub fn read_key(statedir: &Path) -> io::Result<String> {
    let key = std::fs::read_to_string(statedir.join("key"))?;
    Ok(key.trim().to_owned())
}

/// Where the boot id is kept.
#[must_use]
pub fn engine_boot(statedir: &Path) -> PathBuf {
    statedir.join("engine-boot")
}

/// The lock of a node process.
#[must_use]
pub fn node_lock(statedir: &Path, name: &str) -> PathBuf {
    statedir.join(format!("node-{name}.lock"))
}

/// The file name of a node process's socket.
#[must_use]
pub fn node_socket(name: &str) -> String {
    format!("node-{name}.socket")
}

/// A directory that is open, so that names in it are short.
#[derive(Debug)]
pub struct ShortDir {
    dir: File,
}

impl ShortDir {
    /// Opens a directory.
    /// # Errors
    /// What open says.
    pub fn open(dir: &Path) -> io::Result<ShortDir> {
        Ok(ShortDir {
            dir: File::open(dir)?,
        })
    }

    /// A short path to a name in it, good as long as this value lives.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!(
            "/proc/self/fd/{}/{name}",
            self.dir.as_fd().as_raw_fd()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_a_long_directory_can_be_bound_and_reached() {
        let temporary = tempfile::tempdir().unwrap();
        let deep = temporary.path().join("x".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let short = ShortDir::open(&deep).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(short.path("s.socket")).unwrap();
        std::os::unix::net::UnixStream::connect(short.path("s.socket")).unwrap();
        assert!(deep.join("s.socket").exists());
    }
}
