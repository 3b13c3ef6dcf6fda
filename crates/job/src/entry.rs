//! One event with its place among all events. Its JSON is made once; the store, the ring, listeners
//! and look-ups share the bytes (invariant 3).
//!
//! The line is what the store keeps, in the log and in each job's eventlog:
//!
//! ```text
//! SEQ SOURCE ESEQ USERID LOG JSON\n
//! 12 443035942912 4 1000 1 {"timestamp":1700000000.5,"name":"priority","context":{"priority":16}}
//! │  │            │ │    │ └ the event as RFC 18 writes it
//! │  │            │ │    └ 1 = part of the job's eventlog, 0 = live only (annotations, volatile memos)
//! │  │            │ └ the job's owner; 0 for logs
//! │  │            └ which entry of this job or log it is, from 1, live-only ones counted
//! │  └ job id in decimal, or `resource`, or `system`
//! └ place among all entries
//! ```
//!
//! What goes with an entry to listeners (jobspec, R) is an [`Attach`]; it is not part of the line.

use crate::event::{Event, EventError, EventName, name_of};
use crate::id::JobId;
use crate::json::{clip, push_u64};
use crate::seq::Seq;
use bytes::Bytes;

/// Room for the line of an ordinary entry.
const LINE_BYTES_USUAL: usize = 192;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A job.
    Job(JobId),
    /// The resources of the instance.
    Resource,
    /// The instance itself, purges for example.
    System,
}

/// What travels beside the event, as JSON; shared, never copied into the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    /// Nothing.
    None,
    /// The jobspec without its environment: with `submit`.
    Jobspec(Bytes),
    /// The resource set without `scheduling`: with `alloc`.
    R(Bytes),
}

/// One event with its place among all events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place among all entries.
    pub seq: Seq,
    /// What it is about.
    pub source: Source,
    /// Which entry of this job or log it is, from 1.
    pub eventlog_seq: u32,
    /// The job's owner; 0 for logs.
    pub userid: u32,
    /// Whether it is part of the stored eventlog; false = Flux keeps such an event live only.
    pub stored_log: bool,
    /// The name of its event.
    pub name: EventName,
    line: Bytes,
    json_at: usize,
    /// What travels beside it.
    pub attach: Attach,
}

/// Bytes that are no line of an entry.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// No newline at the end, or one in the middle.
    #[error("malformed entry: expected exactly one line ending in a newline, got {met:?}")]
    NotALine {
        /// The text met, shortened.
        met: String,
    },
    /// One of the five words before the JSON is missing or wrong.
    #[error("malformed entry: {field}: expected {expected}, got {met:?}")]
    Field {
        /// Which word.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
        /// The text met, shortened.
        met: String,
    },
    /// The JSON is no event.
    #[error("malformed entry: {0}")]
    Event(#[from] EventError),
}

impl Entry {
    /// An entry from its event: the JSON is made here, once.
    #[must_use]
    pub fn new(
        seq: Seq,
        source: Source,
        eventlog_seq: u32,
        userid: u32,
        stored_log: bool,
        event: &Event,
        attach: Attach,
    ) -> Entry {
        let mut buf = Vec::with_capacity(LINE_BYTES_USUAL);
        push_u64(&mut buf, seq.0);
        match source {
            Source::Job(id) => {
                buf.push(b' ');
                push_u64(&mut buf, id.0);
                buf.push(b' ');
            }
            Source::Resource => buf.extend_from_slice(b" resource "),
            Source::System => buf.extend_from_slice(b" system "),
        }
        push_u64(&mut buf, u64::from(eventlog_seq));
        buf.push(b' ');
        push_u64(&mut buf, u64::from(userid));
        buf.extend_from_slice(if stored_log { b" 1 " } else { b" 0 " });
        let json_at = buf.len();
        event.write_json(&mut buf);
        buf.push(b'\n');
        // Exactly its size: the ring keeps tens of thousands of these.
        let line = Bytes::from(buf.into_boxed_slice());
        Entry {
            seq,
            source,
            eventlog_seq,
            userid,
            stored_log,
            name: event.name(),
            line,
            json_at,
            attach,
        }
    }

    /// The event as RFC 18 writes it, without a newline.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.line[self.json_at..self.line.len() - 1]
    }

    /// The whole line, with its newline.
    #[must_use]
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// Reads back a line; the entry shares its bytes. Only the event's name is looked at, not its context.
    /// # Errors
    /// [`EntryError`]: not one whole line, a word that is missing or wrong, or JSON that is no event.
    pub fn parse_line(line: &Bytes) -> Result<Entry, EntryError> {
        let text = std::str::from_utf8(line).map_err(|_| not_a_line(line))?;
        let body = text.strip_suffix('\n').ok_or_else(|| not_a_line(line))?;
        if body.contains('\n') {
            return Err(not_a_line(line));
        }
        let mut words = body.splitn(6, ' ');
        let mut word = || words.next().unwrap_or_default();
        let seq = Seq(number(word(), "seq")?);
        let source = match word() {
            "resource" => Source::Resource,
            "system" => Source::System,
            id => Source::Job(JobId(number(id, "source")?)),
        };
        let eventlog_seq = number(word(), "eventlog_seq")?;
        let userid = number(word(), "userid")?;
        let stored_log = match word() {
            "1" => true,
            "0" => false,
            met => {
                return Err(EntryError::Field {
                    field: "log",
                    expected: "1 or 0",
                    met: clip(met),
                });
            }
        };
        let json = word();
        let json_at = body.len() - json.len();
        let name = name_of(json.as_bytes())?;
        let (line, attach) = (line.clone(), Attach::None);
        Ok(Entry {
            seq,
            source,
            eventlog_seq,
            userid,
            stored_log,
            name,
            line,
            json_at,
            attach,
        })
    }

    /// Appends the entry as listeners of the native form get it, its JSON taken as it is:
    /// `{"seq":N,"id":N,"eventlog_seq":N,"live"?:true,"entry":{…},"jobspec"?:{…},"R"?:{…}}`;
    /// for the logs `"log":"resource"` or `"log":"system"` stands in place of the id.
    pub fn encode_native(&self, buf: &mut Vec<u8>) {
        let attached = match &self.attach {
            Attach::None => 0,
            Attach::Jobspec(json) | Attach::R(json) => json.len() + 12,
        };
        buf.reserve(self.line.len() + attached + 64);
        buf.extend_from_slice(b"{\"seq\":");
        push_u64(buf, self.seq.0);
        match self.source {
            Source::Job(id) => {
                buf.extend_from_slice(b",\"id\":");
                push_u64(buf, id.0);
            }
            Source::Resource => buf.extend_from_slice(b",\"log\":\"resource\""),
            Source::System => buf.extend_from_slice(b",\"log\":\"system\""),
        }
        buf.extend_from_slice(b",\"eventlog_seq\":");
        push_u64(buf, u64::from(self.eventlog_seq));
        if !self.stored_log {
            buf.extend_from_slice(b",\"live\":true");
        }
        buf.extend_from_slice(b",\"entry\":");
        buf.extend_from_slice(self.json());
        match &self.attach {
            Attach::None => {}
            Attach::Jobspec(json) => {
                buf.extend_from_slice(b",\"jobspec\":");
                buf.extend_from_slice(json);
            }
            Attach::R(json) => {
                buf.extend_from_slice(b",\"R\":");
                buf.extend_from_slice(json);
            }
        }
        buf.push(b'}');
    }
}

fn not_a_line(line: &[u8]) -> EntryError {
    EntryError::NotALine {
        met: clip(&String::from_utf8_lossy(&line[..line.len().min(256)])),
    }
}

/// A decimal number as `Entry::new` writes it: digits only.
fn number<T: TryFrom<u64>>(word: &str, field: &'static str) -> Result<T, EntryError> {
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let value = if digits {
        word.parse::<u64>().ok()
    } else {
        None
    };
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| EntryError::Field {
            field,
            expected: "a decimal number",
            met: clip(word),
        })
}
