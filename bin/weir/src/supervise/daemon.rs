//! One daemon: which program, with which arguments, and what it said last.
//!
//! Standard error goes to its log, appended. The daemon itself keeps that file short (`logs`); one that ends before it could is helped at its
//! next start. Standard output is a pipe: lines for whoever started the instance.

use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// How much of a log's end is looked at for the last words.
const LAST_WORDS_BYTES: u64 = 4096;
/// A disk with less room than this is full: a daemon has to make files before it has anything to say.
const DISK_FULL_BYTES: u64 = 128 << 10;
/// Where the programs are, if not beside our own.
pub const EXEC_DIR: &str = "WEIR_EXEC_DIR";

/// A program to be kept running.
#[derive(Debug, Clone)]
pub struct Daemon {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where what it prints goes.
    pub log: PathBuf,
    /// How long it may take to stop.
    pub stop_within: Duration,
    /// It may end because the instance was asked to shut down, and says so by its status.
    pub may_shut_down: bool,
}

impl Daemon {
    /// Starts it; also tells where in its log what it says begins.
    ///
    /// # Errors
    /// The program or the log cannot be opened.
    pub fn spawn(&self) -> anyhow::Result<(Child, u64)> {
        let log = self
            .open_log()
            .with_context(|| format!("log {}", self.log.display()))?;
        let from = log.metadata()?.len();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            // A job's surroundings are not a daemon's.
            .env_remove("WEIR_JOB_ID")
            .env_remove("FLUX_JOB_ID")
            .env_remove("WEIR_URI")
            .env_remove("FLUX_URI")
            .env(logs::FILE_VARIABLE, &self.log);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        Ok((child, from))
    }

    fn open_log(&self) -> std::io::Result<File> {
        logs::put_aside(&self.log, logs::limit())?;
        OpenOptions::new().append(true).create(true).open(&self.log)
    }

    /// What it said behind that place in its log about why it ended: its own last word, the first line about a wrong argument,
    /// else the last line.
    #[must_use]
    pub fn last_words(&self, from: u64) -> Option<String> {
        let mut file = File::open(&self.log).ok()?;
        let length = file.metadata().ok()?.len();
        // Put aside meanwhile: all of it is new.
        let from = if length < from { 0 } else { from };
        file.seek(SeekFrom::Start(
            from.max(length.saturating_sub(LAST_WORDS_BYTES)),
        ))
        .ok()?;
        let mut tail = Vec::new();
        file.take(LAST_WORDS_BYTES).read_to_end(&mut tail).ok()?;
        words(&plain(&String::from_utf8_lossy(&tail)), self.name)
    }

    /// Why it may have said nothing: its log cannot be written.
    #[must_use]
    pub fn why_unsaid(&self) -> Option<String> {
        let written = self.open_log().and_then(|mut log| log.write_all(b"\n"));
        let error = match written {
            Err(error) => error,
            // It has given back what it took.
            Ok(()) if self.is_disk_full() => ErrorKind::StorageFull.into(),
            Ok(()) => return None,
        };
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                ": the disk is full; free some space on it, then start the instance again"
            }
            _ => "",
        };
        Some(format!(
            ", and could not say why: its log {} cannot be written: {error}{remedy}",
            self.log.display()
        ))
    }

    fn is_disk_full(&self) -> bool {
        let dir = self.log.parent().unwrap_or(&self.log);
        rustix::fs::statvfs(dir)
            .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < DISK_FULL_BYTES)
    }

    /// Where its log ends now.
    #[must_use]
    pub fn log_length(&self) -> u64 {
        self.log.metadata().map_or(0, |log| log.len())
    }
}

fn words(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = |line: &str| {
        line.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(": "))
            .map(str::to_owned)
    };
    lines
        .clone()
        .rev()
        .find_map(own)
        .or_else(|| {
            lines
                .clone()
                .find_map(|line| line.strip_prefix("error: "))
                .map(str::to_owned)
        })
        .or_else(|| lines.next_back().map(str::to_owned))
}

/// The text without the sequences that act on a terminal, and without the zeros that a power cut leaves in a file.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            if c != '\0' {
                out.push(c);
            }
        } else if chars.as_str().starts_with('[') {
            // `ESC [ parameters letter`
            chars.next();
            chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
    }
    out
}

/// Finds a program of weir: in `WEIR_EXEC_DIR`, else beside this program.
///
/// # Errors
/// It is not there; the text says where it was looked for.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let dir = match std::env::var_os(EXEC_DIR) {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => {
            let own = std::env::current_exe().context("the place of this program")?;
            own.parent().map(Path::to_owned).unwrap_or_default()
        }
    };
    let program = dir.join(name);
    if !program.is_file() {
        bail!(
            "{} is not there; build it ('cargo build'), or set {EXEC_DIR} to the directory that holds weir's programs",
            program.display()
        );
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_last_line_is_what_it_said_last() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon {
            name: "weir-x",
            program: "/x".into(),
            arguments: Vec::new(),
            log: dir.path().join("x.log"),
            stop_within: Duration::ZERO,
            may_shut_down: false,
        };
        assert_eq!(daemon.last_words(0), None);
        fs::write(
            &daemon.log,
            format!("{}\nweir-x: in use\n\n", "y".repeat(10_000)),
        )
        .unwrap();
        assert_eq!(daemon.last_words(0).unwrap(), "in use");
        assert_eq!(
            daemon.last_words(fs::metadata(&daemon.log).unwrap().len()),
            None
        );
    }

    #[test]
    fn the_line_that_names_the_problem_is_quoted_without_colours() {
        let clap = "error: invalid value '9' for '-s': 9 is not in 1..=4\n\nFor more information, try '--help'.\n";
        assert_eq!(
            words(clap, "weir-x").unwrap(),
            "invalid value '9' for '-s': 9 is not in 1..=4"
        );
        assert_eq!(
            words("weir-x: no space\n2026 INFO stopped\n", "weir-x").unwrap(),
            "no space"
        );
        assert_eq!(
            plain("\u{1b}[2m12:00\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m x"),
            "12:00 ERROR x"
        );
        assert_eq!(words("\n \n", "weir-x"), None);
    }

    #[test]
    fn a_log_that_has_grown_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon {
            name: "weir-x",
            program: "/x".into(),
            arguments: Vec::new(),
            log: dir.path().join("x.log"),
            stop_within: Duration::ZERO,
            may_shut_down: false,
        };
        File::create(&daemon.log)
            .unwrap()
            .set_len(logs::LIMIT_BYTES + 1)
            .unwrap();
        daemon.open_log().unwrap();
        assert_eq!(fs::metadata(&daemon.log).unwrap().len(), 0);
        assert!(dir.path().join("x.log.1").exists());
    }
}
