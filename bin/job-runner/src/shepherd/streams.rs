//! Standard streams of the tasks: pipes to the output log or to labelled files, files given to the tasks themselves, standard input.
//!
//! A file without labels is opened once and handed to the tasks, which write to it without us. Everything else comes through a
//! pipe that is read without blocking, so a task that writes much waits for the disk, never for a reader of its output.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::order::{Order, Output};
use crate::shepherd::logs::OutputLog;
use crate::shepherd::spawn::pipe;
use crate::shepherd::writer::Writer;

/// Bytes read from a stream at once.
const READ_LEN_MAX: usize = 64 << 10;
/// A line of a labelled file longer than this is cut.
const LINE_LEN_MAX: usize = 64 << 10;
/// Standard input waiting for one task, in bytes; more is refused with EAGAIN.
pub(crate) const STDIN_BYTES_MAX: usize = 16 << 20;

/// Where the output of one stream name goes, for all tasks.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// `output.eventlog`.
    Log,
    /// A file the tasks write to themselves.
    Direct { file: Arc<File>, path: String },
    /// A file whose lines are labelled.
    Labelled { writer: Arc<Writer> },
}

/// A stream that goes elsewhere.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) name: &'static str,
    pub(crate) rank: u32,
    pub(crate) path: String,
}

impl Target {
    /// Opens what the order says; `id` is the job's id as its tasks see it. Relative paths are the job's: its directory must be the current one.
    pub(crate) fn open(
        output: &Output,
        order: &Order,
        id: &str,
        stdout: Option<&Target>,
    ) -> Result<Target, (String, io::Error)> {
        match output {
            Output::Log => Ok(Target::Log),
            Output::Stdout => Ok(stdout.cloned().unwrap_or(Target::Log)),
            Output::File {
                path,
                label,
                append,
            } => {
                let path = fill(path, order, id);
                let opened = || {
                    // Several nodes' shepherds open the same file: append is how their writes do not overwrite one another.
                    let file = OpenOptions::new().append(true).create(true).open(&path)?;
                    // What has no length (a FIFO, a device) has nothing to cut.
                    if !append && order.is_leader() && file.metadata()?.is_file() {
                        file.set_len(0)?;
                    }
                    Ok(if *label {
                        Target::Labelled {
                            writer: Arc::new(Writer::start(file, path.clone())?),
                        }
                    } else {
                        Target::Direct {
                            file: Arc::new(file),
                            path: path.clone(),
                        }
                    })
                };
                opened().map_err(|error| (path.clone(), error))
            }
        }
    }

    fn path(&self) -> Option<&str> {
        match self {
            Target::Log => None,
            Target::Direct { path, .. } => Some(path),
            Target::Labelled { writer } => Some(&writer.path),
        }
    }

    /// Who writes to it, if the tasks do not.
    pub(crate) fn writer(&self) -> Option<Arc<Writer>> {
        match self {
            Target::Labelled { writer } => Some(Arc::clone(writer)),
            _ => None,
        }
    }

    /// What is said of it in the log, if it is not the log.
    pub(crate) fn redirect(&self, name: &'static str, rank: u32) -> Option<Redirect> {
        let path = self.path()?.to_owned();
        Some(Redirect { name, rank, path })
    }

    /// Makes the stream of one task: what it writes to, and our side of it if there is one.
    pub(crate) fn connect(
        &self,
        name: &'static str,
        rank: u32,
    ) -> io::Result<(OwnedFd, Option<Stream>)> {
        let rank = rank.to_string();
        if let Target::Direct { file, .. } = self {
            return Ok((file.try_clone()?.into(), None));
        }
        let (ours, theirs) = pipe(true)?;
        Ok((
            theirs,
            Some(Stream {
                fd: ours,
                name,
                rank,
                target: self.clone(),
                carry: Vec::new(),
            }),
        ))
    }
}

/// Fills in `{{id}}`, `{{jobid}}` (with `.f58`, `.f58plain`, `.dec`, `.hex`, `.dothex`) and `{{name}}`; others stay as they are.
/// `spelled` is the id as the tasks' environment has it.
pub(crate) fn fill(template: &str, order: &Order, spelled: &str) -> String {
    let id = job::JobId(order.id);
    let mut path = String::with_capacity(template.len() + 16);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        path.push_str(before);
        let Some((tag, after)) = after.split_once("}}") else {
            path.push_str("{{");
            rest = after;
            continue;
        };
        let (name, form) = tag.split_once('.').unwrap_or((tag, "f58"));
        match (name, form) {
            ("id" | "jobid", "f58") => path.push_str(spelled),
            ("id" | "jobid", "f58plain") => path.push_str(&id.f58(true)),
            ("id" | "jobid", "dec") => path.push_str(&order.id.to_string()),
            ("id" | "jobid", "hex") => path.push_str(&format!("{:#x}", order.id)),
            ("id" | "jobid", "dothex") => path.push_str(&id.dothex()),
            ("name", _) => path.push_str(&order.name),
            _ => path.push_str(&format!("{{{{{tag}}}}}")),
        }
        rest = after;
    }
    path.push_str(rest);
    path
}

/// Our side of one output stream of one task.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) fd: OwnedFd,
    name: &'static str,
    rank: String,
    target: Target,
    /// The beginning of a character, or of a line, whose end has not come yet.
    carry: Vec<u8>,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Something, and there may be more.
    Some,
    /// Nothing now.
    Nothing,
    /// Nothing ever again.
    End,
}

impl Stream {
    /// Whether what is read could be passed on: else the task waits, as it would for the file itself.
    pub(crate) fn has_room(&self) -> bool {
        match &self.target {
            Target::Labelled { writer } => writer.has_room(),
            _ => true,
        }
    }

    /// Reads once. `buffer` is scratch space.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, log: &mut OutputLog) -> Read {
        buffer.clear();
        buffer.append(&mut self.carry);
        let before = buffer.len();
        buffer.resize(before + READ_LEN_MAX, 0);
        let read = rustix::io::read(&self.fd, &mut buffer[before..]);
        buffer.truncate(before + read.unwrap_or(0));
        match read {
            Ok(0) => {
                self.deliver(buffer, true, log);
                self.eof(log);
                Read::End
            }
            Ok(_) => {
                self.deliver(buffer, false, log);
                Read::Some
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                self.carry.append(buffer);
                Read::Nothing
            }
            Err(_) => {
                self.eof(log);
                Read::End
            }
        }
    }

    /// Nobody is left who could write: passes on what was carried.
    pub(crate) fn close(mut self, log: &mut OutputLog) {
        let carried = std::mem::take(&mut self.carry);
        self.deliver(&carried, true, log);
        self.eof(log);
    }

    fn eof(&self, log: &mut OutputLog) {
        if matches!(self.target, Target::Log) {
            log.eof(self.name, &self.rank);
        }
    }

    fn deliver(&mut self, data: &[u8], last: bool, log: &mut OutputLog) {
        if data.is_empty() {
            return;
        }
        match &self.target {
            Target::Labelled { writer } => {
                let whole = if last || data.len() > LINE_LEN_MAX {
                    data.len()
                } else {
                    data.iter()
                        .rposition(|byte| *byte == b'\n')
                        .map_or(0, |at| at + 1)
                };
                self.carry.extend_from_slice(&data[whole..]);
                let mut text = Vec::with_capacity(whole + 64);
                for line in data[..whole].split_inclusive(|byte| *byte == b'\n') {
                    text.extend_from_slice(self.rank.as_bytes());
                    text.extend_from_slice(b": ");
                    text.extend_from_slice(line);
                }
                writer.push(&text);
            }
            _ => {
                let whole = if last {
                    data.len()
                } else {
                    whole_characters(data)
                };
                self.carry.extend_from_slice(&data[whole..]);
                if whole > 0 {
                    log.data(self.name, &self.rank, &data[..whole]);
                }
            }
        }
    }
}

/// How much of `data` does not end within a UTF-8 character.
fn whole_characters(data: &[u8]) -> usize {
    match std::str::from_utf8(data) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => data.len(),
    }
}

/// Standard input of one task.
#[derive(Debug)]
pub(crate) struct Input {
    /// None once closed.
    pub(crate) fd: Option<OwnedFd>,
    pub(crate) rank: u32,
    /// Data, and the tag to answer when it is through.
    queue: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// Bytes of the first entry that are through.
    written: usize,
    bytes: usize,
    eof: bool,
}

impl Input {
    pub(crate) fn new(fd: OwnedFd, rank: u32) -> Input {
        Input {
            fd: Some(fd),
            rank,
            queue: VecDeque::new(),
            written: 0,
            bytes: 0,
            eof: false,
        }
    }

    /// Whether there is something to write.
    pub(crate) fn is_waiting(&self) -> bool {
        self.fd.is_some() && !self.queue.is_empty()
    }

    /// Whether `len` more bytes are taken.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.fd.is_none() || self.bytes + len <= STDIN_BYTES_MAX
    }

    /// Adds data. After the end, or when the task has closed its side, data is thrown away as a pipe would.
    pub(crate) fn add(&mut self, tag: u64, data: Arc<Vec<u8>>, eof: bool) {
        if self.fd.is_some() && !self.eof {
            self.bytes += data.len();
            self.queue.push_back((tag, data));
            self.eof = eof;
        }
    }

    /// Whether data of that tag is still on its way.
    pub(crate) fn holds(&self, tag: u64) -> bool {
        self.fd.is_some() && self.queue.iter().any(|(one, _)| *one == tag)
    }

    /// Writes what the pipe takes.
    pub(crate) fn write(&mut self) {
        let Some(fd) = &self.fd else { return };
        while let Some((_, data)) = self.queue.front() {
            if self.written < data.len() {
                match rustix::io::write(fd, &data[self.written..]) {
                    Ok(len) => {
                        self.written += len;
                        continue;
                    }
                    Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                    Err(_) => {
                        self.close();
                        return;
                    }
                }
            }
            self.bytes -= data.len();
            self.written = 0;
            self.queue.pop_front();
        }
        if self.eof {
            self.close();
        }
    }

    /// Closes our side.
    pub(crate) fn close(&mut self) {
        self.fd = None;
        self.queue.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_cut_in_two_is_kept_for_the_next_read() {
        assert_eq!(whole_characters("häh".as_bytes()), 4);
        assert_eq!(whole_characters(&"hä".as_bytes()[..2]), 1);
        assert_eq!(
            whole_characters(&[0xff, 0xfe]),
            2,
            "not UTF-8 at all: goes out as it is"
        );
    }
}
