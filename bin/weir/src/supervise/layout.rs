//! What stands in a state directory under the names that are ours: files where files are to be, directories where directories are.
//!
//! Looked at before anything is opened. A FIFO in the place of a file would be waited for without a word, and a daemon that meets a directory
//! there is started again without end. A name that is not there yet is well. What is in a file is its daemon's to judge.

use anyhow::bail;
use std::fs::{self, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Files, each opened by some process of the instance.
const FILES: [&str; 16] = [
    "supervisor",
    "lock",
    "key",
    "reserve",
    "durable",
    "store.sqlite",
    "store.sqlite-wal",
    "store.sqlite-shm",
    "store.sqlite-journal",
    "engine-boot",
    "job-info.lock",
    "log/job-manager.log",
    "log/job-info.log",
    "log/job-runner.log",
    "log/job-manager.log.1",
    "log/job-info.log.1",
];
/// Directories.
const DIRECTORIES: [&str; 2] = ["log", "jobs"];

/// Sees that everything there is of the kind that it has to be.
///
/// # Errors
/// The first that is not: what it is, and the remedy.
pub fn check(statedir: &Path) -> anyhow::Result<()> {
    for name in DIRECTORIES {
        expect(&statedir.join(name), "directory", FileType::is_dir)?;
    }
    for name in FILES {
        // Somebody may have sent a log to a terminal, or to nowhere.
        let is_log = name.starts_with("log/");
        expect(&statedir.join(name), "file", |met| {
            met.is_file() || (is_log && met.is_char_device())
        })?;
    }
    Ok(())
}

fn expect(path: &Path, what: &str, is: impl Fn(&FileType) -> bool) -> anyhow::Result<()> {
    let met = match fs::metadata(path) {
        Ok(met) if is(&met.file_type()) => return Ok(()),
        Ok(met) => kind(met.file_type()),
        // A link to nothing is as good as nothing where a file is made; a directory cannot be made there.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if what == "file" || fs::symlink_metadata(path).is_err() {
                return Ok(());
            }
            "a link to nothing"
        }
        Err(error) => bail!(
            "cannot look at {}: {error}: mend that, or name another directory with --statedir",
            path.display()
        ),
    };
    bail!(
        "{} is {met} where a {what} is to be: move it away and start again, or name another directory with --statedir",
        path.display()
    )
}

fn kind(met: FileType) -> &'static str {
    if met.is_dir() {
        "a directory"
    } else if met.is_fifo() {
        "a FIFO"
    } else if met.is_socket() {
        "a socket"
    } else if met.is_file() {
        "a file"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Made, Mode, mknodat};
    use std::os::unix::fs::symlink;

    fn refusal(make: impl Fn(&Path), name: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("log")).unwrap();
        check(dir.path()).unwrap();
        make(&dir.path().join(name));
        let text = check(dir.path()).unwrap_err().to_string();
        assert!(text.contains(name), "{text}");
        text
    }

    #[test]
    fn fault_what_is_no_file_where_a_file_is_to_be_is_one_refusal_and_not_a_wait() {
        for name in FILES {
            let fifo = |path: &Path| {
                mknodat(CWD, path, Made::Fifo, Mode::from_raw_mode(0o600), 0).unwrap()
            };
            let text = refusal(fifo, name);
            assert!(text.contains("is a FIFO where a file is to be"), "{text}");
            let text = refusal(|path| fs::create_dir(path).unwrap(), name);
            assert!(text.contains("is a directory where a file"), "{text}");
        }
    }

    #[test]
    fn fault_what_is_no_directory_where_jobs_are_to_be_is_one_refusal() {
        let text = refusal(|path| fs::write(path, "").unwrap(), "jobs");
        assert!(text.contains("is a file where a directory"), "{text}");
        let text = refusal(|path| symlink("nowhere", path).unwrap(), "jobs");
        assert!(text.contains("is a link to nothing"), "{text}");
    }
}
