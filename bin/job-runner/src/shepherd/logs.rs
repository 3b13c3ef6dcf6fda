//! The two logs a shepherd writes: `exec.eventlog` (RFC 18 lines about the job) and `output.eventlog` (RFC 24).
//!
//! Opened for append, whole lines in one write, no fsync. A line that could not be written whole is cut off again, so a reader
//! never meets half a line. Beyond the cap output is thrown away after one `truncated` entry and a `log` entry for people.
//!
//! A disk without room costs output and nothing else: data is thrown away and counted, and one `truncated` and one `log` entry say how much
//! when there is room again, or at the end if they fit. What is no data (ends of streams, redirects) is kept until then.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
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

/// Room that must be there again, in bytes, before output is kept again: otherwise every last corner of a block would be filled with the news of it.
const ROOM_MIN: u64 = 256 << 10;
/// Bytes of entries that are kept in memory while there is no room.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Lines that could not be written.
#[derive(Debug)]
pub(crate) struct NotWritten {
    /// So many bytes of them, whole lines, are in the file.
    pub(crate) written: usize,
    pub(crate) error: io::Error,
}

/// A log that lines are appended to. It is opened, and made, when it is first written to.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// What a file that is new begins with, whoever comes first among several writers.
    first: Vec<u8>,
    /// Only this process writes to it: a torn line can be cut off.
    sole_writer: bool,
    file: Option<File>,
}

impl Log {
    pub(crate) fn new(path: &Path, first: Vec<u8>, sole_writer: bool) -> Log {
        Log {
            path: path.to_owned(),
            first,
            sole_writer,
            file: None,
        }
    }

    fn open(&self) -> io::Result<File> {
        // Read too: a line that a full disk tore is looked for and cut off.
        let open = || {
            OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .open(&self.path)
        };
        if self.sole_writer {
            let file = open()?;
            append(&file, &self.first, true).map_err(|failed| failed.error)?;
            return Ok(file);
        }
        // Made complete under another name, then linked: either all of the first line is there or none.
        let temporary = self.path.with_extension(format!("{}", std::process::id()));
        let written = std::fs::write(&temporary, &self.first);
        let linked = written.and_then(|()| std::fs::hard_link(&temporary, &self.path));
        let _ = std::fs::remove_file(&temporary);
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        }
    }

    fn file(&mut self) -> io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        Ok(self.file.insert(file))
    }

    /// Appends whole lines. With none it only sees to it that the file is there.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), NotWritten> {
        let sole_writer = self.sole_writer;
        let file = self
            .file()
            .map_err(|error| NotWritten { written: 0, error })?;
        append(file, lines, sole_writer)
    }

    /// Whether there is room for more than a line or two.
    fn has_room(&mut self) -> bool {
        let found = match self.file() {
            Ok(file) => rustix::fs::fstatvfs(file),
            Err(_) => return false,
        };
        found.map_or(true, |found| {
            found.f_bavail.saturating_mul(found.f_frsize) >= ROOM_MIN
        })
    }
}

fn append(mut file: &File, lines: &[u8], sole_writer: bool) -> Result<(), NotWritten> {
    if lines.is_empty() {
        return Ok(());
    }
    let len = |file: &File| file.metadata().map(|metadata| metadata.len());
    let before = if sole_writer { len(file).ok() } else { None };
    let Err(error) = file.write_all(lines) else {
        return Ok(());
    };
    // What is told is why it could not be written, whatever comes of cutting it.
    let after = if sole_writer {
        cut_torn_line(file).ok()
    } else {
        None
    };
    let written = before
        .zip(after)
        .map_or(0, |(before, after)| after.saturating_sub(before));
    Err(NotWritten {
        written: usize::try_from(written).unwrap_or(0).min(lines.len()),
        error,
    })
}

/// Cuts what follows the last whole line; the length that is left.
fn cut_torn_line(file: &File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let from = len.saturating_sub(1 << 20);
    let mut tail = vec![0; usize::try_from(len - from).unwrap_or(0)];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut tail, from)?;
    let keep = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at as u64 + 1);
    file.set_len(from + keep)?;
    Ok(from + keep)
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
struct NoRoom<'a> {
    stream: &'a str,
    rank: &'a str,
    bytes_lost: u64,
}

#[derive(Serialize)]
struct Message<'a> {
    level: u32,
    rank: u32,
    component: &'a str,
    message: &'a str,
}

/// Output that was thrown away for want of room, and not yet told of.
#[derive(Debug)]
struct Lost {
    stream: String,
    rank: String,
    bytes: u64,
}

/// The output log of a job.
#[derive(Debug)]
pub(crate) struct OutputLog {
    log: Log,
    lines: Vec<u8>,
    bytes: u64,
    bytes_max: u64,
    /// Output is thrown away: it reached the cap.
    truncated: bool,
    lost: Option<Lost>,
}

impl OutputLog {
    /// One with its header still to be written.
    pub(crate) fn new(path: &Path, ntasks: u32, bytes_max: u64, sole_writer: bool) -> OutputLog {
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
        OutputLog {
            log: Log::new(path, header, sole_writer),
            lines: Vec::new(),
            bytes: 0,
            bytes_max,
            truncated: false,
            lost: None,
        }
    }

    /// Adds data of a task.
    pub(crate) fn data(&mut self, stream: &str, rank: &str, data: &[u8]) {
        if self.truncated {
            return;
        }
        if let Some(lost) = &mut self.lost {
            lost.bytes += data.len() as u64;
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

    /// Whether there is something to be said that waits for room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.lost.is_some()
    }

    /// Writes what was added. An error is told once; until there is room again there is none.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.lost.is_some() {
            if self.log.has_room() {
                self.say_lost();
            }
            return Ok(());
        }
        match self.log.write(&self.lines) {
            Ok(()) => {
                self.lines.clear();
                Ok(())
            }
            Err(failed) => {
                self.lines.drain(..failed.written);
                self.throw_data_away();
                Err(failed.error)
            }
        }
    }

    /// The last chance: also what little room there is will do.
    pub(crate) fn flush_last(&mut self) -> io::Result<()> {
        let flushed = self.flush();
        if self.lost.is_some() {
            self.say_lost();
        }
        flushed
    }

    /// Says what was thrown away, then what was kept. Nothing changes if that cannot be written.
    fn say_lost(&mut self) {
        let Some(lost) = self.lost.take() else { return };
        let kept = std::mem::take(&mut self.lines);
        if lost.bytes > 0 {
            let context = NoRoom {
                stream: &lost.stream,
                rank: &lost.rank,
                bytes_lost: lost.bytes,
            };
            push_entry(&mut self.lines, "truncated", Some(context));
            let bytes = lost.bytes;
            let note = format!("{bytes} bytes of output are missing here: the disk had no room");
            self.message(4, "output", &note);
        }
        self.lines.extend_from_slice(&kept);
        match self.log.write(&self.lines) {
            Ok(()) => self.lines.clear(),
            Err(failed) if failed.written > 0 => {
                // The news is written at least, or part of it: what is missing is what was kept.
                self.lines.drain(..failed.written);
                self.lost = Some(Lost { bytes: 0, ..lost });
            }
            Err(_) => {
                self.lines = kept;
                self.lost = Some(lost);
            }
        }
    }

    /// There is no room for `lines`: keeps what is no data.
    fn throw_data_away(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let mut lost = Lost {
            stream: "stdout".to_owned(),
            rank: "0".to_owned(),
            bytes: 0,
        };
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            match data_of(line) {
                Some((stream, rank, bytes)) => {
                    if lost.bytes == 0 {
                        (lost.stream, lost.rank) = (stream, rank);
                    }
                    lost.bytes += bytes;
                }
                None if self.lines.len() + line.len() <= KEPT_BYTES_MAX => {
                    self.lines.extend_from_slice(line);
                }
                None => {}
            }
        }
        self.bytes = self.bytes.saturating_sub(lost.bytes);
        self.lost = Some(lost);
    }
}

/// Stream, rank and length of the data in a line.
fn data_of(line: &[u8]) -> Option<(String, String, u64)> {
    #[derive(serde::Deserialize)]
    struct Line {
        name: String,
        context: Option<Context>,
    }
    #[derive(serde::Deserialize)]
    struct Context {
        stream: Option<String>,
        rank: Option<String>,
        data: Option<String>,
        encoding: Option<String>,
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    let context = line.context.filter(|_| line.name == "data")?;
    let data = context.data?;
    let len = match context.encoding.as_deref() {
        Some("base64") => base64::engine::general_purpose::STANDARD
            .decode(&data)
            .map_or(data.len(), |data| data.len()),
        _ => data.len(),
    };
    Some((context.stream?, context.rank?, len as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Disk;

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
        let mut log = OutputLog::new(&path, 2, 10, true);
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
            .map(|_| OutputLog::new(&path, 3, 100, false))
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

    /// Opened for writing only, the torn line could not be read and stayed; and what was told was that failure, "Bad file descriptor".
    #[test]
    fn a_line_that_a_full_disk_tore_is_cut_off_and_the_true_reason_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::mount(dir.path(), 256) else {
            return;
        };
        let path = dir.path().join("exec.eventlog");
        let mut log = Log::new(&path, b"{\"name\":\"first\"}\n".to_vec(), true);
        log.write(b"").unwrap();
        disk.fill(1);
        // Some of these lines fit, the last of them in part.
        let many = "{\"name\":\"a line that is no divisor of a block\"}\n".repeat(300);
        let failed = log.write(many.as_bytes()).unwrap_err();
        assert!(
            crate::shepherd::claim::is_no_space(&failed.error),
            "{}",
            failed.error
        );
        assert!(failed.written > 4096 && failed.written < many.len());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with('\n'),
            "a torn line stays: {:?}",
            &text[text.len() - 60..]
        );
        assert_eq!(
            text,
            format!("{{\"name\":\"first\"}}\n{}", &many[..failed.written])
        );
        disk.empty();
        log.write(&many.as_bytes()[failed.written..]).unwrap();
        assert_eq!(lines(&path).len(), 301);
    }

    #[test]
    fn output_without_room_is_thrown_away_with_one_entry_that_says_how_much() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::mount(dir.path(), 1024) else {
            return;
        };
        let path = dir.path().join("output.eventlog");
        disk.fill(0);
        // Nothing fits, not even the header; then a corner is free again, then enough.
        let mut log = OutputLog::new(&path, 1, 1 << 20, true);
        log.redirect("stderr", "0", "somewhere");
        let error = log.flush().unwrap_err();
        assert!(crate::shepherd::claim::is_no_space(&error), "{error}");
        for but in [0, 0, 2, 2] {
            disk.fill(but);
            log.data("stdout", "0", &[b'x'; 1000]);
            log.flush().unwrap();
        }
        log.data("stderr", "1", &[0xff; 10]);
        assert!(log.waits_for_room());
        disk.empty();
        log.flush().unwrap();
        assert!(!log.waits_for_room());
        log.data("stdout", "0", b"after");
        log.eof("stdout", "0");
        log.flush_last().unwrap();
        let met: Vec<(String, serde_json::Value)> = lines(&path)
            .into_iter()
            .map(|line| {
                (
                    line["name"].as_str().unwrap().to_owned(),
                    line["context"].clone(),
                )
            })
            .collect();
        let names: Vec<&str> = met.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["header", "truncated", "log", "redirect", "data", "data"]
        );
        assert_eq!(
            met[1].1,
            serde_json::json!({"stream": "stdout", "rank": "0", "bytes_lost": 4010})
        );
        assert_eq!(met[4].1["data"], "after");
    }

    #[test]
    fn output_that_fits_in_part_is_kept_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::mount(dir.path(), 1024) else {
            return;
        };
        let path = dir.path().join("output.eventlog");
        let mut log = OutputLog::new(&path, 1, 1 << 20, true);
        log.flush().unwrap();
        disk.fill(1);
        for _ in 0..10 {
            log.data("stdout", "0", &[b'y'; 950]);
        }
        log.eof("stdout", "0");
        log.flush().unwrap_err();
        // The end of the job: the last corner will do.
        log.flush_last().unwrap();
        let met = lines(&path);
        let data = met
            .iter()
            .filter(|line| line["context"]["data"].is_string())
            .count();
        assert!(data > 0 && data < 10);
        let last: Vec<&str> = met[met.len() - 3..]
            .iter()
            .map(|line| line["name"].as_str().unwrap())
            .collect();
        assert_eq!(last, ["truncated", "log", "data"]);
        let lost = met[met.len() - 3]["context"]["bytes_lost"]
            .as_u64()
            .unwrap();
        assert_eq!(lost, (10 - data as u64) * 950);
    }
}
