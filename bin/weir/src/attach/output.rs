//! Entries of a job's output log (RFC 24), written to our standard output and error as they come.
//!
//! `header {…}` first, then `data {stream, rank, data?, encoding?, eof?}`, `redirect {stream, rank, path?}` and
//! `log {level, message}`. Each entry is written at once and flushed: output is live.

use crate::ids;
use crate::output::complain;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use job::JobId;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::{self, Write};

/// Whether the reader of our standard output is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Delivered {
    /// It is.
    Yes,
    /// It closed the pipe.
    Closed,
}

#[derive(Deserialize)]
struct Entry<'a> {
    name: &'a str,
    #[serde(borrow)]
    context: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Data<'a> {
    stream: &'a str,
    #[serde(borrow, default)]
    rank: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<Cow<'a, str>>,
    #[serde(default)]
    encoding: Option<&'a str>,
}

#[derive(Deserialize)]
struct Redirect<'a> {
    stream: &'a str,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Log<'a> {
    #[serde(borrow, default)]
    message: Cow<'a, str>,
}

/// Where output goes.
#[derive(Debug)]
pub struct Sink {
    id: JobId,
    label: bool,
    quiet: bool,
    seen: u64,
    skip: u64,
    /// Per stream: the last thing written ended a line.
    at_line_start: [bool; 2],
}

impl Sink {
    /// A sink for one job.
    #[must_use]
    pub fn new(id: JobId, label: bool, quiet: bool) -> Self {
        Self {
            id,
            label,
            quiet,
            seen: 0,
            skip: 0,
            at_line_start: [true; 2],
        }
    }

    /// Entries taken, over all readings of the log.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen.max(self.skip)
    }

    /// The log is read from its start again: what was seen is passed over.
    pub fn rewind(&mut self) {
        self.skip = self.seen();
        self.seen = 0;
    }

    /// Takes one line of the log.
    ///
    /// # Errors
    /// The line is no output entry, or writing failed for another reason than a closed pipe.
    pub fn take(&mut self, line: &str) -> anyhow::Result<Delivered> {
        self.seen += 1;
        if self.seen <= self.skip {
            return Ok(Delivered::Yes);
        }
        let entry: Entry<'_> = serde_json::from_str(line)?;
        let Some(context) = entry.context.map(RawValue::get) else {
            return Ok(Delivered::Yes);
        };
        match entry.name {
            "data" => return self.data(&serde_json::from_str(context)?),
            "redirect" if !self.quiet => {
                let redirect: Redirect<'_> = serde_json::from_str(context)?;
                if let Some(path) = redirect.path {
                    complain(&format!(
                        "{}: {} goes to {path}",
                        ids::show(self.id),
                        redirect.stream
                    ));
                }
            }
            "log" => {
                let log: Log<'_> = serde_json::from_str(context)?;
                complain(&format!("{}: {}", ids::show(self.id), log.message));
            }
            _ => {}
        }
        Ok(Delivered::Yes)
    }

    fn data(&mut self, data: &Data<'_>) -> anyhow::Result<Delivered> {
        let Some(text) = &data.data else {
            return Ok(Delivered::Yes);
        };
        let decoded;
        let bytes: &[u8] = match data.encoding {
            Some("base64") => {
                decoded = STANDARD.decode(text.as_bytes())?;
                &decoded
            }
            _ => text.as_bytes(),
        };
        let to_stderr = data.stream == "stderr";
        let labelled;
        let bytes = if self.label {
            labelled = label(
                &data.rank,
                bytes,
                &mut self.at_line_start[usize::from(to_stderr)],
            );
            &labelled
        } else {
            bytes
        };
        let written = if to_stderr {
            // Nobody reads standard error: nobody misses it.
            let _ = io::stderr().lock().write_all(bytes);
            Ok(())
        } else {
            let mut out = io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        match written {
            Ok(()) => Ok(Delivered::Yes),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Delivered::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes out what is left.
    ///
    /// # Errors
    /// Writing failed.
    pub fn flush(&mut self) -> io::Result<()> {
        match io::stdout().lock().flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// The bytes with `RANK: ` before each line.
fn label(rank: &str, bytes: &[u8], at_line_start: &mut bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if *at_line_start {
            out.extend_from_slice(rank.as_bytes());
            out.extend_from_slice(b": ");
        }
        out.extend_from_slice(line);
        *at_line_start = line.ends_with(b"\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_labelled_once_each() {
        let mut start = true;
        assert_eq!(label("3", b"a\nb", &mut start), b"3: a\n3: b");
        assert!(!start);
        assert_eq!(label("3", b"c\n", &mut start), b"c\n");
        assert!(start);
    }

    #[test]
    fn entries_of_every_kind_are_taken_and_what_was_seen_is_passed_over() {
        let mut sink = Sink::new(JobId(1), false, true);
        for line in [
            r#"{"timestamp":1.0,"name":"header","context":{"version":1}}"#,
            r#"{"timestamp":1.0,"name":"data","context":{"stream":"stdout","rank":"0","eof":true}}"#,
            r#"{"timestamp":1.0,"name":"redirect","context":{"stream":"stdout","rank":"0","path":"/x"}}"#,
            r#"{"timestamp":1.0,"name":"truncated","context":{"stream":"stdout"}}"#,
        ] {
            assert_eq!(sink.take(line).unwrap(), Delivered::Yes);
        }
        sink.rewind();
        for _ in 0..4 {
            assert_eq!(sink.take("not even JSON").unwrap(), Delivered::Yes);
        }
        assert!(sink.take("not even JSON").is_err());
    }
}
