//! The texts of the responses. Each is JSON and the closing NUL, as it travels, so that it can be sent without another copy.
//!
//! ```text
//! native   {"epoch":"E","backlog":true,"events":[…]}      backlog
//!          {"epoch":"E","seq":S,"caught_up":true,"set_aside"?:[ID…],"resources"?:{…},"events":[]}
//!          {"epoch":"E","seq":S,"events":[…]}             live; without events: progress
//!          {"epoch":"E","mark":S}
//! flux     {"id":N,"events":[…],"jobspec":{…},"R"?:{…}}   backlog, one job
//!          {"id":-1,"events":[]}                          the sentinel
//!          {"id":N,"events":[{…}],"jobspec"?:{…},"R"?:{…}} live, one event
//! ```

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use job::{Attach, Entry, JobId, Seq};

/// What goes to a listener: payloads as they travel (JSON and NUL), one response each. A clone costs one reference count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// One response.
    One(Bytes),
    /// Several, in this order.
    Many(Arc<[Bytes]>),
}

impl Payload {
    /// The responses in order.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        match self {
            Self::One(bytes) => std::slice::from_ref(bytes).iter(),
            Self::Many(many) => many.iter(),
        }
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A native response around `body` (entries with commas between them).
pub(crate) fn native(epoch: &str, seq: Option<Seq>, word: &str, body: &[u8]) -> Bytes {
    let mut buf = Vec::with_capacity(body.len() + epoch.len() + word.len() + 64);
    buf.extend_from_slice(b"{\"epoch\":\"");
    buf.extend_from_slice(epoch.as_bytes());
    buf.push(b'"');
    if let Some(seq) = seq {
        let _ = write!(buf, ",\"seq\":{seq}");
    }
    buf.extend_from_slice(word.as_bytes());
    buf.extend_from_slice(b",\"events\":[");
    buf.extend_from_slice(body);
    buf.extend_from_slice(b"]}\0");
    Bytes::from(buf)
}

/// What `native` puts before the events of a backlog.
pub(crate) const BACKLOG: &str = ",\"backlog\":true";

/// The response that ends a backlog or answers a cursor, with the jobs that cannot be read and the state of the nodes, if there are any.
pub(crate) fn caught_up(
    epoch: &str,
    seq: Seq,
    set_aside: &[JobId],
    resources: Option<&str>,
) -> Bytes {
    let mut word = String::from(",\"caught_up\":true");
    for (at, id) in set_aside.iter().enumerate() {
        word.push_str(if at == 0 { ",\"set_aside\":[" } else { "," });
        word.push_str(&id.0.to_string());
    }
    if !set_aside.is_empty() {
        word.push(']');
    }
    if let Some(resources) = resources {
        word.push_str(",\"resources\":");
        word.push_str(resources);
    }
    native(epoch, Some(seq), &word, b"")
}

/// `{"epoch":"E","mark":S}`
pub(crate) fn mark(epoch: &str, seq: Seq) -> Bytes {
    Bytes::from(format!("{{\"epoch\":\"{epoch}\",\"mark\":{seq}}}\0"))
}

/// The end of a backlog in Flux's form.
pub(crate) fn sentinel() -> Bytes {
    Bytes::from_static(b"{\"id\":-1,\"events\":[]}\0")
}

/// One event in Flux's form.
pub(crate) fn flux_event(buf: &mut Vec<u8>, id: JobId, entry: &Entry) {
    let _ = write!(buf, "{{\"id\":{},\"events\":[", id.0);
    buf.extend_from_slice(entry.json());
    buf.push(b']');
    match &entry.attach {
        Attach::None => {}
        Attach::Jobspec(json) => attach(buf, "jobspec", json),
        Attach::R(json) => attach(buf, "R", json),
    }
    buf.extend_from_slice(b"}\0");
}

/// One job's backlog in Flux's form.
pub(crate) fn flux_job<'a>(
    buf: &mut Vec<u8>,
    id: JobId,
    events: impl Iterator<Item = &'a Entry>,
    jobspec: &Bytes,
    r: Option<&Bytes>,
) -> usize {
    let _ = write!(buf, "{{\"id\":{},\"events\":[", id.0);
    let mut count = 0;
    for entry in events {
        if count > 0 {
            buf.push(b',');
        }
        count += 1;
        buf.extend_from_slice(entry.json());
    }
    buf.push(b']');
    if !jobspec.is_empty() {
        attach(buf, "jobspec", jobspec);
    }
    if let Some(r) = r {
        attach(buf, "R", r);
    }
    buf.extend_from_slice(b"}\0");
    count
}

fn attach(buf: &mut Vec<u8>, key: &str, json: &[u8]) {
    let _ = write!(buf, ",\"{key}\":");
    buf.extend_from_slice(json);
}

/// Cuts one buffer of texts that each end at one of `ends` into payloads that share it.
pub(crate) fn many(buf: Vec<u8>, ends: &[usize]) -> Payload {
    let all = Bytes::from(buf);
    let mut start = 0;
    let parts = ends.iter().map(|end| {
        let part = all.slice(start..*end);
        start = *end;
        part
    });
    Payload::Many(parts.collect())
}
