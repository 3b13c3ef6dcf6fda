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
        // A copy of exactly its size: the ring keeps tens of thousands of these, and shrinking costs more.
        let line = Bytes::copy_from_slice(&buf);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::priority::Priority;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    fn entry(source: Source, stored_log: bool, attach: Attach) -> Entry {
        let kind = EventKind::Priority {
            priority: Priority(16),
        };
        let event = Event::new(Timestamp(1.5), kind);
        Entry::new(Seq(12), source, 4, 1000, stored_log, &event, attach)
    }

    fn native(entry: &Entry) -> String {
        let mut buf = Vec::new();
        entry.encode_native(&mut buf);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn invariant_3_the_json_is_made_once_and_its_bytes_are_shared() {
        let made = entry(Source::Job(JobId(7)), true, Attach::None);
        let read = Entry::parse_line(made.line()).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.line().as_ptr(), made.line().as_ptr());
        assert_eq!(read.json().as_ptr(), made.json().as_ptr());
        assert_eq!(
            made.json(),
            &Event::parse(made.json()).unwrap().to_json()[..]
        );
    }

    #[test]
    fn what_goes_with_it_is_taken_as_it_is() {
        let json = "{\"timestamp\":1.5,\"name\":\"priority\",\"context\":{\"priority\":16}}";
        let head = "{\"seq\":12,\"id\":7,\"eventlog_seq\":4";
        let attach = Attach::Jobspec(Bytes::from_static(b"{\"x\": 1}"));
        let with_jobspec = entry(Source::Job(JobId(7)), true, attach);
        assert_eq!(
            native(&with_jobspec),
            format!("{head},\"entry\":{json},\"jobspec\":{{\"x\": 1}}}}")
        );
        let with_r = entry(
            Source::Job(JobId(7)),
            false,
            Attach::R(Bytes::from_static(b"{}")),
        );
        assert_eq!(
            native(&with_r),
            format!("{head},\"live\":true,\"entry\":{json},\"R\":{{}}}}")
        );
    }

    #[test]
    fn the_line_is_exactly_as_large_as_it_must_be() {
        let made = entry(Source::System, true, Attach::None);
        assert_eq!(
            made.line(),
            "12 system 4 1000 1 {\"timestamp\":1.5,\"name\":\"priority\",\"context\":{\"priority\":16}}\n"
        );
    }

    #[test]
    fn garbage_is_refused_by_field() {
        let json = "{\"timestamp\":1.5,\"name\":\"start\"}";
        for (line, error) in [
            (String::new(), "expected exactly one line"),
            ("1 2 3 4 1 ".to_owned() + json, "expected exactly one line"),
            (format!("1 2 3 4 1 {json}\n\n"), "expected exactly one line"),
            (
                format!("1 2 3 4 1 {json}\n1 2 3 4 1 {json}\n"),
                "expected exactly one line",
            ),
            ("\n".to_owned(), "seq: expected a decimal number, got \"\""),
            (
                format!("x 2 3 4 1 {json}\n"),
                "seq: expected a decimal number, got \"x\"",
            ),
            (
                format!("+1 2 3 4 1 {json}\n"),
                "seq: expected a decimal number, got \"+1\"",
            ),
            (
                format!("1  3 4 1 {json}\n"),
                "source: expected a decimal number, got \"\"",
            ),
            (
                format!("1 job 3 4 1 {json}\n"),
                "source: expected a decimal number, got \"job\"",
            ),
            (
                format!("1 2 4294967296 4 1 {json}\n"),
                "eventlog_seq: expected a decimal number",
            ),
            (
                format!("1 2 3 -4 1 {json}\n"),
                "userid: expected a decimal number, got \"-4\"",
            ),
            (
                format!("1 2 3 4 2 {json}\n"),
                "log: expected 1 or 0, got \"2\"",
            ),
            (format!("1 2 3 4 1{json}\n"), "log: expected 1 or 0"),
            ("1 2 3 4 1 \n".to_owned(), "malformed event"),
            (
                "1 2 3 4 1 {}\n".to_owned(),
                "malformed event: missing field `name`",
            ),
            (
                "1 2 3 4 1 {\"name\":\"start\"\n".to_owned(),
                "malformed event",
            ),
            (
                format!("1 2 3 4 1 {json}{json}\n"),
                "malformed event: trailing characters",
            ),
        ] {
            let met = Entry::parse_line(&Bytes::from(line.clone()))
                .unwrap_err()
                .to_string();
            assert!(met.contains(error), "{line:?}: {met}");
        }
        assert!(Entry::parse_line(&Bytes::from_static(b"1 2 3 4 1 \xff\n")).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Entry::parse_line(&Bytes::from(bytes));
        }

        #[test]
        fn cut_anywhere_it_is_refused(end in 0usize..84) {
            let line = entry(Source::Job(JobId(443_035_942_912)), true, Attach::None).line().clone();
            prop_assume!(end < line.len());
            prop_assert!(Entry::parse_line(&line.slice(..end)).is_err());
        }
    }
}
