//! The two logs a shepherd writes: `exec.eventlog` (RFC 18 lines about the job) and `output.eventlog` (RFC 24).
//!
//! Opened for append, whole lines in one write, no fsync. A line that could not be written whole is cut off again, so a reader
//! never meets half a line. Beyond the cap output is thrown away after one `truncated` entry and a `log` entry for people.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use serde::Serialize;

/// Seconds since 1970.
pub(crate) fn now_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|since| since.as_secs_f64())
        .unwrap_or(0.0)
}

#[derive(Serialize)]
struct Entry<'a, C: Serialize> {
    timestamp: f64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<C>,
}

/// Appends one RFC 18 line to `lines`.
pub(crate) fn push_entry<C: Serialize>(lines: &mut Vec<u8>, name: &str, context: Option<C>) {
    let start = lines.len();
    if serde_json::to_writer(
        &mut *lines,
        &Entry {
            timestamp: now_s(),
            name,
            context,
        },
    )
    .is_ok()
    {
        lines.push(b'\n');
    } else {
        lines.truncate(start);
    }
}

/// A log that lines are appended to.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    /// Only this process writes to it: a torn line can be cut off.
    sole_writer: bool,
}

impl Log {
    /// Opens a log, made if it is not there.
    pub(crate) fn open(path: &Path, sole_writer: bool) -> io::Result<Log> {
        // Read too: a line that a full disk tore is looked for and cut off.
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        Ok(Log { file, sole_writer })
    }

    /// Opens a log whose first line must be `first`, whoever comes first among several writers.
    pub(crate) fn open_with(path: &Path, first: &[u8], sole_writer: bool) -> io::Result<Log> {
        if sole_writer {
            let mut log = Log::open(path, true)?;
            log.write(first)?;
            return Ok(log);
        }
        // Made complete under another name, then linked: either all of the first line is there or none.
        let temporary = path.with_extension(format!("{}", std::process::id()));
        std::fs::write(&temporary, first)?;
        let linked = std::fs::hard_link(&temporary, path);
        std::fs::remove_file(&temporary)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Log::open(path, false),
        }
    }

    /// Appends whole lines.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(lines);
        if written.is_err() && self.sole_writer {
            self.cut_torn_line()?;
        }
        written
    }

    fn cut_torn_line(&mut self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let from = len.saturating_sub(1 << 20);
        let mut tail = vec![0; usize::try_from(len - from).unwrap_or(0)];
        std::os::unix::fs::FileExt::read_exact_at(&self.file, &mut tail, from)?;
        let keep = tail
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at as u64 + 1);
        self.file.set_len(from + keep)
    }
}

#[derive(Serialize)]
struct Header {
    version: u32,
    encoding: PerStream<&'static str>,
    count: PerStream<u32>,
    options: Options,
}

#[derive(Serialize)]
struct Options {}

#[derive(Serialize)]
struct PerStream<T> {
    stdout: T,
    stderr: T,
}

#[derive(Serialize)]
struct Data<'a> {
    stream: &'a str,
    rank: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    eof: bool,
}

#[derive(Serialize)]
struct Redirect<'a> {
    stream: &'a str,
    rank: &'a str,
    path: &'a str,
}

#[derive(Serialize)]
struct Truncated<'a> {
    stream: &'a str,
    rank: &'a str,
    bytes_max: u64,
}

#[derive(Serialize)]
struct Message<'a> {
    level: u32,
    rank: u32,
    component: &'a str,
    message: &'a str,
}

/// The output log of a job.
#[derive(Debug)]
pub(crate) struct OutputLog {
    log: Log,
    lines: Vec<u8>,
    bytes: u64,
    bytes_max: u64,
    /// Output was thrown away, by the cap or by the disk.
    pub(crate) truncated: bool,
}

impl OutputLog {
    /// Opens it and sees to its header.
    pub(crate) fn open(
        path: &Path,
        ntasks: u32,
        bytes_max: u64,
        sole_writer: bool,
    ) -> io::Result<OutputLog> {
        let mut header = Vec::with_capacity(256);
        let context = Header {
            version: 1,
            encoding: PerStream {
                stdout: "UTF-8",
                stderr: "UTF-8",
            },
            count: PerStream {
                stdout: ntasks,
                stderr: ntasks,
            },
            options: Options {},
        };
        push_entry(&mut header, "header", Some(context));
        let log = Log::open_with(path, &header, sole_writer)?;
        Ok(OutputLog {
            log,
            lines: Vec::new(),
            bytes: 0,
            bytes_max,
            truncated: false,
        })
    }

    /// Adds data of a task.
    pub(crate) fn data(&mut self, stream: &str, rank: &str, data: &[u8]) {
        if self.truncated {
            return;
        }
        if self.bytes + data.len() as u64 > self.bytes_max {
            self.truncated = true;
            let bytes_max = self.bytes_max;
            push_entry(
                &mut self.lines,
                "truncated",
                Some(Truncated {
                    stream,
                    rank,
                    bytes_max,
                }),
            );
            self.message(
                4,
                "output",
                &format!("output is truncated here: it is longer than {bytes_max} bytes"),
            );
            return;
        }
        self.bytes += data.len() as u64;
        let base64;
        let (text, encoding) = match std::str::from_utf8(data) {
            Ok(text) => (text, None),
            Err(_) => {
                base64 = base64::engine::general_purpose::STANDARD.encode(data);
                (base64.as_str(), Some("base64"))
            }
        };
        push_entry(
            &mut self.lines,
            "data",
            Some(Data {
                stream,
                rank,
                data: Some(text),
                encoding,
                eof: false,
            }),
        );
    }

    /// Says that nothing more comes.
    pub(crate) fn eof(&mut self, stream: &str, rank: &str) {
        push_entry(
            &mut self.lines,
            "data",
            Some(Data {
                stream,
                rank,
                data: None,
                encoding: None,
                eof: true,
            }),
        );
    }

    /// Says that a stream goes elsewhere.
    pub(crate) fn redirect(&mut self, stream: &str, rank: &str, path: &str) {
        push_entry(
            &mut self.lines,
            "redirect",
            Some(Redirect { stream, rank, path }),
        );
    }

    /// A message for people. Levels are syslog's.
    pub(crate) fn message(&mut self, level: u32, component: &str, message: &str) {
        push_entry(
            &mut self.lines,
            "log",
            Some(Message {
                level,
                rank: 0,
                component,
                message,
            }),
        );
    }

    /// Writes what was added.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let written = self.log.write(&self.lines);
        self.lines.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        std::fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn output_is_rfc_24_with_a_header_and_a_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.eventlog");
        let mut log = OutputLog::open(&path, 2, 10, true).unwrap();
        log.data("stdout", "0", "häh\n".as_bytes());
        log.data("stderr", "1", &[0xff, 0xfe]);
        log.data("stdout", "0", b"too much");
        log.data("stdout", "0", b"x");
        log.eof("stdout", "0");
        log.flush().unwrap();
        let lines = lines(&path);
        let names: Vec<&str> = lines
            .iter()
            .map(|line| line["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["header", "data", "data", "truncated", "log", "data"]
        );
        assert_eq!(
            lines[0]["context"].to_string(),
            r#"{"version":1,"encoding":{"stdout":"UTF-8","stderr":"UTF-8"},"count":{"stdout":2,"stderr":2},"options":{}}"#
        );
        assert_eq!(
            lines[1]["context"].to_string(),
            r#"{"stream":"stdout","rank":"0","data":"häh\n"}"#
        );
        assert_eq!(
            lines[2]["context"].to_string(),
            r#"{"stream":"stderr","rank":"1","data":"//4=","encoding":"base64"}"#
        );
        assert_eq!(
            lines[5]["context"].to_string(),
            r#"{"stream":"stdout","rank":"0","eof":true}"#
        );
    }

    #[test]
    fn among_several_writers_the_header_comes_first_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.eventlog");
        let mut logs: Vec<OutputLog> = (0..3)
            .map(|_| OutputLog::open(&path, 3, 100, false).unwrap())
            .collect();
        for (rank, log) in logs.iter_mut().enumerate().rev() {
            log.data("stdout", &rank.to_string(), b"x");
            log.flush().unwrap();
        }
        let names: Vec<String> = lines(&path)
            .iter()
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["header", "data", "data", "data"]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
