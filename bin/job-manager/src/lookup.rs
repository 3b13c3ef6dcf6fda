//! Look-ups of one job's data in the store: `job-manager.lookup` and `job-manager.getattr`. They run on a read thread.
//!
//! ```text
//! job-manager.lookup  {id, keys:[s]}   → {id, userid, seq, KEY: string…, eventlog_seq?}
//! job-manager.getattr {id, attrs:[s]}  → {KEY: JSON…}
//! ```
//! `eventlog` leaves out what is live only; `eventlog_seq` counts those too, so that a reader can go on from the journal exactly there.

use crate::builtin::{self, Answer, Refused};
use crate::set_aside::SetAside;
use base64::Engine as _;
use bytes::Bytes;
use job::{Entry, JobId, Seq};
use protocol::job_manager::{LookupRequest, LookupResponse};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use store::{Reader, StoredJob};
use wire::{Request, errno, json_bytes, json_payload};

/// Keys in one look-up, at most.
const KEYS_MAX: usize = 64;
/// The longest answer, so that it fits a frame.
const ANSWER_LEN_MAX: usize = 60 << 20;

/// Answers either request. `durable`: the newest seq that was durable before the store is read.
pub(crate) fn answer(
    reader: &Reader,
    request: &Request,
    durable: Seq,
    set_aside: &SetAside,
) -> Answer {
    let json = match request.topic.method() {
        "getattr" => getattr(reader, request, set_aside)?,
        _ => lookup(reader, request, durable, set_aside)?,
    };
    if json.len() > ANSWER_LEN_MAX {
        let text = format!(
            "the answer would have {} bytes, at most {ANSWER_LEN_MAX} may be: ask for fewer keys",
            json.len()
        );
        return Err((errno::EMSGSIZE, Some(text)));
    }
    Ok(Some(json))
}

fn lookup(
    reader: &Reader,
    request: &Request,
    durable: Seq,
    set_aside: &SetAside,
) -> Result<Bytes, Refused> {
    let ask: LookupRequest<'_> = builtin::payload(request)?;
    bounded("keys", ask.keys.len())?;
    let with_j = ask.keys.iter().any(|key| key == "J");
    let stored = fetch(
        reader,
        ask.id,
        with_j,
        (errno::ENOENT, "invalid job id"),
        set_aside,
    )?;
    if !request.cred.may_act_for(stored.userid) {
        return Err((
            errno::EPERM,
            Some("access is restricted to job/instance owner".into()),
        ));
    }
    let newest = stored.eventlog.last();
    let mut found = LookupResponse {
        id: stored.id,
        userid: stored.userid,
        // What was read may be newer than what the loop had been told of: it is durable all the same.
        seq: newest.map_or(durable, |entry| entry.seq.max(durable)).0,
        jobspec: None,
        j: None,
        r: None,
        eventlog: None,
        key: None,
        eventlog_seq: None,
    };
    for key in &ask.keys {
        match key.as_ref() {
            "jobspec" => found.jobspec = Some(text(&stored.jobspec)),
            "J" => found.j = Some(there(stored.j.as_ref(), key)?),
            "R" => found.r = Some(there(stored.r.as_ref(), key)?),
            "eventlog" => {
                found.eventlog_seq = Some(newest.map_or(0, |entry| entry.eventlog_seq));
                found.eventlog = Some(eventlog(&stored.eventlog).into());
            }
            "key" => {
                let submitted = reader
                    .key_of(ask.id)
                    .map_err(|error| (errno::EIO, Some(error.to_string())))?;
                found.key = Some(submitted.ok_or_else(|| not_found(key))?.into());
            }
            _ => return Err(not_found(key)),
        }
    }
    json_of(&found)
}

fn getattr(reader: &Reader, request: &Request, set_aside: &SetAside) -> Result<Bytes, Refused> {
    #[derive(Deserialize)]
    struct Getattr {
        id: JobId,
        attrs: Vec<String>,
    }
    let ask: Getattr = builtin::payload(request)?;
    bounded("attrs", ask.attrs.len())?;
    let stored = fetch(
        reader,
        ask.id,
        false,
        (errno::EINVAL, "unknown job"),
        set_aside,
    )?;
    if !request.cred.may_act_for(stored.userid) {
        return Err((
            errno::EPERM,
            Some("guests can only access their own jobs".into()),
        ));
    }
    let mut found: BTreeMap<String, Box<RawValue>> = BTreeMap::new();
    for attr in ask.attrs {
        let json = match attr.as_str() {
            "jobspec" => text(&stored.jobspec).into_owned(),
            "R" => match &stored.r {
                Some(r) => text(r).into_owned(),
                None => return Err((errno::ENOENT, Some("R is NULL".to_owned()))),
            },
            "eventlog" => {
                let events = eventlog(&stored.eventlog);
                format!("[{}]", events.trim_end().replace('\n', ","))
            }
            _ => {
                let attr: String = attr.chars().take(KEYS_MAX).collect();
                return Err((errno::ENOENT, Some(format!("unknown attr {attr}"))));
            }
        };
        let raw = RawValue::from_string(json)
            .map_err(|error| (errno::EIO, Some(format!("{attr}: {error}"))))?;
        found.insert(attr, raw);
    }
    json_of(&found)
}

fn json_of<T: serde::Serialize>(found: &T) -> Result<Bytes, Refused> {
    json_bytes(&json_payload(found)).map_err(|error| (errno::EIO, Some(error.to_string())))
}

fn bounded(what: &str, len: usize) -> Result<(), Refused> {
    if len > KEYS_MAX {
        let text = format!("{what}: expected {KEYS_MAX} at most, got {len}");
        return Err((errno::EPROTO, Some(text)));
    }
    Ok(())
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
    (errnum, unknown): (u32, &str),
    set_aside: &SetAside,
) -> Result<StoredJob, Refused> {
    match reader.job(id, with_j) {
        Ok(Some(Ok(stored))) => match set_aside.why(id) {
            None => Ok(stored),
            Some(why) => Err(unusable(&why)),
        },
        Ok(Some(Err(damage))) => {
            set_aside.damaged(id, &damage.what);
            Err(unusable(&damage.what.to_string()))
        }
        // Its row may be gone, and the job not purged.
        Ok(None) => Err(match set_aside.why(id) {
            Some(why) => unusable(&why),
            None => (errnum, Some(unknown.to_owned())),
        }),
        Err(error) => Err((errno::EIO, Some(error.to_string()))),
    }
}

fn unusable(why: &str) -> Refused {
    let text = format!("the job is damaged in the store: {why}; see weir store check");
    (errno::EIO, Some(text))
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

fn text(bytes: &Bytes) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn there<'a>(data: Option<&'a Bytes>, key: &str) -> Result<Cow<'a, str>, Refused> {
    data.map(text).ok_or_else(|| not_found(key))
}

fn not_found(key: &str) -> Refused {
    let key: String = key.chars().take(KEYS_MAX).collect();
    (errno::ENOENT, Some(format!("{key}: key not found")))
}

/// The raw payload of `event.publish`.
pub(crate) fn from_base64(text: &str) -> Result<Bytes, String> {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .map(Bytes::from)
        .map_err(|error| format!("payload: expected base64: {error}"))
}
