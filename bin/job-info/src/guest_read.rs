//! Look-ups of guest logs: files of some megabytes, read and encoded on a thread of their own.
//!
//! ```text
//!  Waiting ── one of READS_MAX is free ──► Reading ── done ──► Ready ── room on the client's way ──► sent
//! ```
//! The loop sees only the frame that is ready to be written. What the answers may take together is reserved in `share.rs`
//! before anything is read; small logs are read at once.

use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use info::row;
use job::{JobId, eventlog};
use rpc::Frame;
use serde_json::Value;
use tokio::task::JoinSet;
use wire::{Response, errno};

use crate::{
    core::{Info, finish_json},
    list::ANSWER_BYTES_MAX,
    peer::{Caller, ClientKey, Refusal},
    streams::{Body, Step, StreamId},
};

/// Longest guest log that is answered whole.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Logs up to this long are read in the loop: that takes less time than telling a thread.
const AT_ONCE_BYTES_MAX: u64 = 32 << 10;
/// Most look-ups that are being read at a time.
const READS_MAX: usize = 2;

/// What a look-up answers, in the order asked.
#[derive(Debug)]
pub(crate) struct Answer {
    id: JobId,
    parts: Vec<(String, Part)>,
}

#[derive(Debug)]
enum Part {
    Value(Value),
    /// Where a log is, and how much of it there was when it was asked for. Opened when it is read.
    Log(PathBuf, u64),
}

impl Answer {
    pub(crate) fn new(id: JobId) -> Self {
        Self {
            id,
            parts: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, key: &str, value: Value) {
        self.parts.push((key.to_owned(), Part::Value(value)));
    }

    /// Adds a log. `None`: there is no such file.
    pub(crate) fn add_log(&mut self, key: &str, path: &Path) -> Result<Option<()>, Refusal> {
        let Ok(met) = std::fs::metadata(path) else {
            return Ok(None);
        };
        let length = met.len();
        if length > LOG_BYTES_MAX {
            let text = format!(
                "{key}: {length} bytes are more than one answer holds; follow it with eventlog-watch"
            );
            return Err(Refusal::new(errno::EOVERFLOW, text));
        }
        self.parts
            .push((key.to_owned(), Part::Log(path.to_owned(), length)));
        Ok(Some(()))
    }

    fn log_bytes(&self) -> u64 {
        let length = |(_, part): &(String, Part)| match part {
            Part::Log(_, length) => *length,
            Part::Value(_) => 0,
        };
        self.parts.iter().map(length).sum()
    }

    /// The payload; reads the logs.
    fn write(self) -> Result<bytes::Bytes, Refusal> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(b"{\"id\":");
        row::integer(&mut out, self.id.0);
        for (key, part) in self.parts {
            out.push(b',');
            row::text(&mut out, &key);
            out.push(b':');
            match part {
                Part::Value(value) => out.extend_from_slice(value.to_string().as_bytes()),
                Part::Log(path, length) => {
                    let log = read(&path, length).map_err(|error| {
                        let errnum = error
                            .raw_os_error()
                            .and_then(|errnum| u32::try_from(errnum).ok());
                        Refusal::new(errnum.unwrap_or(errno::EIO), format!("{key}: {error}"))
                    })?;
                    let (whole, _partial) = eventlog::split_whole(&log);
                    row::text(&mut out, &String::from_utf8_lossy(whole));
                }
            }
            if out.len() > ANSWER_BYTES_MAX {
                let text = format!(
                    "the answer is longer than {ANSWER_BYTES_MAX} bytes: follow the log with eventlog-watch"
                );
                return Err(Refusal::new(errno::EOVERFLOW, text));
            }
        }
        Ok(finish_json(out))
    }
}

fn read(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut log = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    File::open(path)?.take(length).read_to_end(&mut log)?;
    Ok(log)
}

/// A look-up on its way.
#[derive(Debug)]
pub(crate) struct GuestRead {
    state: State,
    reserved: usize,
}

#[derive(Debug)]
enum State {
    Waiting(Answer),
    Reading,
    Ready(Result<Frame, Refusal>),
}

/// The threads that read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    running: JoinSet<(StreamId, Result<Frame, Refusal>)>,
    waiting: Vec<StreamId>,
}

impl Reads {
    /// How many are being read.
    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }

    /// Waits for one to be done. May be dropped while it waits; nothing is lost.
    pub(crate) async fn done(&mut self) -> Option<(StreamId, Result<Frame, Refusal>)> {
        match self.running.join_next().await {
            None => std::future::pending().await,
            Some(Ok(done)) => Some(done),
            Some(Err(error)) => {
                tracing::error!(%error, "a look-up was not read to its end");
                None
            }
        }
    }

    fn begin(&mut self, stream: StreamId, answer: Answer, mut response: Response) {
        self.running.spawn_blocking(move || {
            let frame = answer.write().map(|payload| {
                response.payload = Some(payload);
                Frame::from(response)
            });
            (stream, frame)
        });
    }
}

impl Info {
    /// Answers a look-up: at once if that is quickly done.
    pub(crate) fn send_answer(&mut self, caller: &Caller, answer: Answer) -> Result<(), Refusal> {
        let bytes = answer.log_bytes();
        if bytes <= AT_ONCE_BYTES_MAX {
            let payload = answer.write()?;
            if self.out.has_room(caller.via) {
                self.out.make_room(caller.via, payload.len());
                self.out.respond(caller, Some(payload));
                return Ok(());
            }
            let (client, reserved) = (caller.key(), payload.len());
            let frame = Frame::from(self.out.response(caller, Some(payload)));
            return self.open_lookup(caller, State::Ready(Ok(frame)), &client, reserved);
        }
        // A log is JSON lines: as a string in JSON it is twice as long at most.
        let reserved = usize::try_from(bytes.saturating_mul(2))
            .unwrap_or(usize::MAX)
            .min(ANSWER_BYTES_MAX);
        let client = caller.key();
        self.open_lookup(caller, State::Waiting(answer), &client, reserved)
    }

    fn open_lookup(
        &mut self,
        caller: &Caller,
        state: State,
        client: &ClientKey,
        reserved: usize,
    ) -> Result<(), Refusal> {
        self.shares.take_bytes(client, reserved)?;
        let read = GuestRead { state, reserved };
        if let Err(refusal) = self.open(caller, Body::Lookup(Box::new(read))) {
            self.shares.give_bytes(client, reserved);
            return Err(refusal);
        }
        Ok(())
    }

    pub(crate) fn step_lookup(
        &mut self,
        stream: StreamId,
        caller: &Caller,
        read: &mut GuestRead,
    ) -> Step {
        match std::mem::replace(&mut read.state, State::Reading) {
            State::Waiting(answer) if self.reads.len() < READS_MAX => {
                let response = self.out.response(caller, None);
                self.reads.begin(stream, answer, response);
            }
            waiting @ State::Waiting(_) => {
                read.state = waiting;
                self.reads.waiting.push(stream);
            }
            State::Reading => {}
            State::Ready(Ok(frame)) => {
                self.out.make_room(caller.via, read.reserved);
                self.out.send_frame(caller.via, frame);
                return Step::Done;
            }
            State::Ready(Err(refusal)) => {
                self.out.refuse(caller, &refusal);
                return Step::Done;
            }
        }
        Step::Idle
    }

    /// One was read: it is sent when there is room, and those that wait try again, in their order.
    pub(crate) fn lookup_read(&mut self, done: Option<(StreamId, Result<Frame, Refusal>)>) {
        if let Some((id, frame)) = done
            && let Some(stream) = self.streams.get_mut(id)
            && let Body::Lookup(read) = &mut stream.body
        {
            read.state = State::Ready(frame);
            self.streams.wake(id);
        }
        // Whoever is not there any more, or may not send now, does not keep the others waiting.
        for id in std::mem::take(&mut self.reads.waiting) {
            self.streams.wake(id);
        }
    }

    /// A look-up is over.
    pub(crate) fn release_lookup(&mut self, caller: &Caller, read: &GuestRead) {
        self.shares.give_bytes(&caller.key(), read.reserved);
    }
}
