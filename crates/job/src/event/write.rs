//! An event as JSON: compact, keys in the order timestamp, name, context; no context when it is empty.
//!
//! Runs four times for every submitted job, so it writes bytes straight into one buffer.

use super::{Event, EventKind, ExceptionEvent};
use crate::Map;
use crate::json::{push_f64, push_i64, push_str, push_u64, push_value};
use bytes::Bytes;

/// Room for the longest event of an ordinary job.
const JSON_BYTES_USUAL: usize = 128;

impl Event {
    /// `{"timestamp":1700000000.5,"name":"finish","context":{"status":0}}`
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let mut buf = Vec::with_capacity(JSON_BYTES_USUAL);
        self.write_json(&mut buf);
        Bytes::from(buf)
    }

    /// Appends what [`Event::to_json`] returns.
    pub fn write_json(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(b"{\"timestamp\":");
        push_f64(buf, self.timestamp.0);
        buf.extend_from_slice(b",\"name\":");
        match &self.kind {
            EventKind::Other { name, .. } => push_str(buf, name),
            known => {
                buf.push(b'"');
                buf.extend_from_slice(known.name().as_str().as_bytes());
                buf.push(b'"');
            }
        }
        let before = buf.len();
        buf.extend_from_slice(b",\"context\":");
        let empty = buf.len();
        self.kind.write_context(buf);
        if buf.len() == empty {
            buf.truncate(before);
        }
        buf.push(b'}');
    }
}

impl EventKind {
    /// Appends the context as an object; nothing when there is none.
    fn write_context(&self, buf: &mut Vec<u8>) {
        match self {
            EventKind::Validate
            | EventKind::Invalidate
            | EventKind::Depend
            | EventKind::FluxRestart
            | EventKind::Start
            | EventKind::Free
            | EventKind::Clean => {}
            EventKind::Submit {
                userid,
                urgency,
                flags,
                version,
            } => {
                key(buf, b"{\"userid\":", u64::from(*userid));
                key(buf, b",\"urgency\":", u64::from(urgency.get()));
                key(buf, b",\"flags\":", u64::from(flags.0));
                key(buf, b",\"version\":", u64::from(*version));
                buf.push(b'}');
            }
            EventKind::DependencyAdd { description }
            | EventKind::DependencyRemove { description }
            | EventKind::PrologStart { description }
            | EventKind::EpilogStart { description } => {
                buf.extend_from_slice(b"{\"description\":");
                push_str(buf, description);
                buf.push(b'}');
            }
            EventKind::PrologFinish {
                description,
                status,
            }
            | EventKind::EpilogFinish {
                description,
                status,
            } => {
                buf.extend_from_slice(b"{\"description\":");
                push_str(buf, description);
                buf.extend_from_slice(b",\"status\":");
                push_i64(buf, i64::from(*status));
                buf.push(b'}');
            }
            EventKind::Priority { priority } => {
                key(buf, b"{\"priority\":", u64::from(priority.0));
                buf.push(b'}');
            }
            EventKind::Urgency { userid, urgency } => {
                key(buf, b"{\"userid\":", u64::from(*userid));
                key(buf, b",\"urgency\":", u64::from(urgency.get()));
                buf.push(b'}');
            }
            EventKind::ResourceUpdate { expiration } => {
                buf.extend_from_slice(b"{\"expiration\":");
                push_f64(buf, expiration.0);
                buf.push(b'}');
            }
            EventKind::Alloc { annotations: None } => {}
            EventKind::Alloc {
                annotations: Some(annotations),
            }
            | EventKind::Annotations {
                annotations: Some(annotations),
            } => {
                buf.extend_from_slice(b"{\"annotations\":");
                push_value(buf, annotations);
                buf.push(b'}');
            }
            EventKind::Annotations { annotations: None } => {
                buf.extend_from_slice(b"{\"annotations\":null}");
            }
            EventKind::Exception(exception) => exception.write(buf),
            EventKind::Finish { status } => {
                buf.extend_from_slice(b"{\"status\":");
                push_i64(buf, i64::from(*status));
                buf.push(b'}');
            }
            EventKind::Release { ranks, last } => {
                buf.extend_from_slice(b"{\"ranks\":");
                push_str(buf, ranks);
                buf.extend_from_slice(if *last {
                    b",\"final\":true}"
                } else {
                    b",\"final\":false}"
                });
            }
            EventKind::SetFlags { flags } => {
                buf.extend_from_slice(b"{\"flags\":");
                push_value(buf, flags);
                buf.push(b'}');
            }
            EventKind::AllocStatus { allocs } => {
                buf.extend_from_slice(b"{\"allocs\":[");
                for (at, report) in allocs.iter().enumerate() {
                    if at > 0 {
                        buf.push(b',');
                    }
                    report.write(buf);
                }
                buf.extend_from_slice(b"]}");
            }
            EventKind::JobspecUpdate { updates: object } | EventKind::Memo { memo: object } => {
                whole(buf, object);
            }
            EventKind::Other { context, .. } => {
                if let Some(context) = context {
                    push_value(buf, context);
                }
            }
        }
    }
}

impl ExceptionEvent {
    fn write(&self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(b"{\"type\":");
        push_str(buf, &self.kind);
        key(buf, b",\"severity\":", u64::from(self.severity));
        buf.extend_from_slice(b",\"note\":");
        push_str(buf, &self.note);
        if let Some(userid) = self.userid {
            key(buf, b",\"userid\":", u64::from(userid));
        }
        if let Some(wait_status) = self.wait_status {
            buf.extend_from_slice(b",\"wait_status\":");
            push_i64(buf, i64::from(wait_status));
        }
        buf.push(b'}');
    }
}

fn key(buf: &mut Vec<u8>, before: &[u8], value: u64) {
    buf.extend_from_slice(before);
    push_u64(buf, value);
}

fn whole(buf: &mut Vec<u8>, object: &Map) {
    if !object.is_empty() {
        push_value(buf, object);
    }
}
