//! The writer under `tracing`: one line a write, none of which can fail, and the look at the file now and then.

use crate::file::{self, is_at, open, put_aside};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Between two looks at the file: so long …
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// … or so much of the limit written here, one part in this many.
const LOOK_PARTS: u64 = 64;

/// Has everything that is traced written as lines to standard error, filtered by `WEIR_LOG`.
pub fn init() {
    let filter = EnvFilter::try_from_env(crate::FILTER_VARIABLE).unwrap_or_else(|_| "info".into());
    let path = std::env::var_os(crate::FILE_VARIABLE).map(PathBuf::from);
    tracing_subscriber::fmt()
        .with_writer(Lines::new(path, file::limit()))
        .with_env_filter(filter)
        .with_ansi(false)
        .init();
}

/// Writes a line to standard error; one that cannot be written is nobody's end.
pub fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Standard error, kept short if it is a file whose path we know.
#[derive(Debug)]
pub struct Lines {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    path: Option<PathBuf>,
    limit: u64,
    /// Written since the last look.
    bytes: u64,
    looked: Instant,
    /// Lines that could not be written since one could.
    lost: u64,
    why: Option<io::Error>,
}

impl Lines {
    /// `path`: of the file that standard error is, if it is one that may be put aside.
    #[must_use]
    pub fn new(path: Option<PathBuf>, limit: u64) -> Lines {
        Lines {
            state: Mutex::new(State {
                path: path.filter(|path| is_stderr(path)),
                limit,
                bytes: 0,
                looked: Instant::now(),
                lost: 0,
                why: None,
            }),
        }
    }
}

/// Whether standard error is the file at `path`.
fn is_stderr(path: &Path) -> bool {
    metadata_of_stderr().is_ok_and(|metadata| is_at(&metadata, path))
}

fn metadata_of_stderr() -> io::Result<std::fs::Metadata> {
    File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()
}

impl State {
    fn write(&mut self, line: &[u8], mut out: impl Write) {
        if self.lost > 0 {
            let why = self.why.as_ref().map(ToString::to_string);
            let note = format!(
                "\n({} lines are missing here: {})\n",
                self.lost,
                why.unwrap_or_default()
            );
            if out.write_all(note.as_bytes()).is_err() {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        match out.write_all(line) {
            Ok(()) => self.bytes += line.len() as u64,
            Err(error) => {
                self.lost += 1;
                self.why = Some(error);
            }
        }
    }

    /// Puts the file aside if it is too long, and goes over to the new one if that has been done.
    fn look(&mut self) {
        let Some(path) = &self.path else { return };
        if self.bytes < self.limit / LOOK_PARTS && self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        (self.bytes, self.looked) = (0, Instant::now());
        // What fails here is tried again at the next look; there is nowhere to say so.
        let _ = put_aside(path, self.limit);
        if !is_stderr(path)
            && let Ok(file) = open(path)
        {
            let _ = rustix::stdio::dup2_stderr(&file);
            // A pipe is somebody's who reads it.
            if is_file(io::stdout()) {
                let _ = rustix::stdio::dup2_stdout(&file);
            }
        }
    }
}

fn is_file(stream: impl std::os::fd::AsFd) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile
    })
}

impl Write for &Lines {
    /// One line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.look();
        state.write(line, io::stderr());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> &'a Lines {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= 1;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_told_later() {
        let lines = Lines::new(None, 1);
        let mut state = lines.state.lock().unwrap();
        for _ in 0..3 {
            state.write(b"x\n", Full(0));
        }
        assert_eq!((state.lost, state.bytes), (3, 0));
        let mut text = Vec::new();
        state.write(b"y\n", &mut text);
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("(3 lines are missing here: ") && text.ends_with(")\ny\n"),
            "{text}"
        );
        assert_eq!(state.lost, 0);
    }

    #[test]
    fn only_the_file_that_standard_error_is_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("another.log");
        std::fs::write(&path, "0123456789").unwrap();
        let lines = Lines::new(Some(path.clone()), 1);
        (&lines).write_all(b"").unwrap();
        assert!(lines.state.lock().unwrap().path.is_none());
        assert_eq!(std::fs::read(&path).unwrap(), b"0123456789");
    }
}
