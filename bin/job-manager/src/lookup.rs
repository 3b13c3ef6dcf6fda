//! Look-ups of one job's data in the store: `job-manager.lookup` and `job-manager.getattr`. They run on a read thread.
//!
//! ```text
//! job-manager.lookup  {id, keys:[s]}   → {id, userid, seq, KEY: string…, eventlog_seq?}
//! job-manager.getattr {id, attrs:[s]}  → {KEY: JSON…}
//! ```
//! `eventlog` leaves out what is live only; `eventlog_seq` counts those too, so that a reader can go on from the journal exactly there.

use crate::builtin::{self, Answer};
use base64::Engine as _;
use bytes::Bytes;
use job::{Entry, JobId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use store::{Reader, StoredJob};
use wire::{Request, errno, json_payload};

/// Keys in one look-up, at most.
const KEYS_MAX: usize = 64;

/// Answers either request.
pub(crate) fn answer(reader: &Reader, request: &Request) -> Answer {
    match request.topic.method() {
        "getattr" => getattr(reader, request),
        _ => lookup(reader, request),
    }
}

fn lookup(reader: &Reader, request: &Request) -> Answer {
    #[derive(Deserialize)]
    struct Lookup {
        id: JobId,
        keys: Vec<String>,
    }
    let ask: Lookup = builtin::payload(request)?;
    if ask.keys.len() > KEYS_MAX {
        return Err((
            errno::EPROTO,
            Some(format!(
                "keys: expected {KEYS_MAX} at most, got {}",
                ask.keys.len()
            )),
        ));
    }
    let with_j = ask.keys.iter().any(|key| key == "J");
    let stored = fetch(reader, ask.id, with_j, errno::ENOENT, "invalid job id")?;
    if !request.cred.may_act_for(stored.userid) {
        return Err((
            errno::EPERM,
            Some("access is restricted to job/instance owner".into()),
        ));
    }
    let mut found = Map::new();
    found.insert("id".into(), stored.id.0.into());
    found.insert("userid".into(), stored.userid.into());
    found.insert(
        "seq".into(),
        stored.eventlog.last().map_or(0, |entry| entry.seq.0).into(),
    );
    for key in ask.keys {
        let text = match key.as_str() {
            "jobspec" => text(&stored.jobspec),
            "J" => stored.j.as_ref().map(text).ok_or_else(|| not_found(&key))?,
            "R" => stored.r.as_ref().map(text).ok_or_else(|| not_found(&key))?,
            "eventlog" => {
                found.insert(
                    "eventlog_seq".into(),
                    stored
                        .eventlog
                        .last()
                        .map_or(0, |entry| entry.eventlog_seq)
                        .into(),
                );
                eventlog(&stored.eventlog)
            }
            _ => return Err(not_found(&key)),
        };
        found.insert(key, text.into());
    }
    builtin::answer(&Value::Object(found))
}

fn getattr(reader: &Reader, request: &Request) -> Answer {
    #[derive(Deserialize)]
    struct Getattr {
        id: JobId,
        attrs: Vec<String>,
    }
    let ask: Getattr = builtin::payload(request)?;
    let stored = fetch(reader, ask.id, false, errno::EINVAL, "unknown job")?;
    if !request.cred.may_act_for(stored.userid) {
        return Err((
            errno::EPERM,
            Some("guests can only access their own jobs".into()),
        ));
    }
    let mut found: Vec<(String, Box<RawValue>)> = Vec::new();
    for attr in ask.attrs.into_iter().take(KEYS_MAX) {
        let json = match attr.as_str() {
            "jobspec" => text(&stored.jobspec),
            "R" => stored
                .r
                .as_ref()
                .map(text)
                .ok_or((errno::ENOENT, Some("R is NULL".to_owned())))?,
            "eventlog" => {
                let events = eventlog(&stored.eventlog);
                format!("[{}]", events.trim_end().replace('\n', ","))
            }
            _ => return Err((errno::ENOENT, Some(format!("unknown attr {attr}")))),
        };
        let raw = RawValue::from_string(json)
            .map_err(|error| (errno::EPROTO, Some(error.to_string())))?;
        found.push((attr, raw));
    }
    let object: std::collections::BTreeMap<String, Box<RawValue>> = found.into_iter().collect();
    wire::json_bytes(&json_payload(&object))
        .map(Some)
        .map_err(|error| (errno::EPROTO, Some(error.to_string())))
}

/// The `J` a job was submitted with.
pub(crate) fn j(reader: &Reader, id: JobId) -> Result<Bytes, String> {
    match reader.job(id, true) {
        Ok(Some(Ok(stored))) => stored.j.ok_or_else(|| "there is no J".to_owned()),
        Ok(Some(Err(damage))) => Err(damage.to_string()),
        Ok(None) => Err("the job is not in the store".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn fetch(
    reader: &Reader,
    id: JobId,
    with_j: bool,
    errnum: u32,
    unknown: &str,
) -> Result<StoredJob, (u32, Option<String>)> {
    match reader.job(id, with_j) {
        Ok(Some(Ok(stored))) => Ok(stored),
        Ok(Some(Err(damage))) => Err((
            errno::EIO,
            Some(format!("{damage}; see the store's integrity with sqlite3")),
        )),
        Ok(None) => Err((errnum, Some(unknown.to_owned()))),
        Err(error) => Err((errno::EIO, Some(error.to_string()))),
    }
}

/// RFC 18: one event a line; what is live only left out.
fn eventlog(entries: &[Entry]) -> String {
    let mut out = String::new();
    for entry in entries.iter().filter(|entry| entry.stored_log) {
        out.push_str(&String::from_utf8_lossy(entry.json()));
        out.push('\n');
    }
    out
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn not_found(key: &str) -> (u32, Option<String>) {
    (errno::ENOENT, Some(format!("{key}: key not found")))
}

/// The raw payload of `event.publish`.
pub(crate) fn from_base64(text: &str) -> Result<Bytes, String> {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map(Bytes::from)
        .map_err(|error| format!("payload: expected base64: {error}"))
}
