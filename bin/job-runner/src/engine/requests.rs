//! Reading what the services are asked, and forming what they answer.

use bytes::Bytes;
use job::JobId;
use protocol::sched::{ALLOC_ANNOTATE, ALLOC_CANCEL, ALLOC_DENY, ALLOC_SUCCESS};
use sched::{Grant, Sched, rset};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{Request, json_payload};

/// `SERVICE.expiration`, `sched.expiration`: `{id:I, expiration:f}`.
#[derive(Debug, Deserialize)]
pub(crate) struct Expiration {
    pub(crate) id: JobId,
    pub(crate) expiration: f64,
}

/// `UID-shell-ID.stdin`: `{stream:"stdin", rank:s, data?:s, eof?:b, encoding?:"base64"|"UTF-8"}`.
#[derive(Debug, Deserialize)]
pub(crate) struct StdinRequest {
    #[serde(default)]
    pub(crate) stream: String,
    #[serde(default)]
    pub(crate) rank: String,
    #[serde(default)]
    pub(crate) data: Option<String>,
    #[serde(default)]
    pub(crate) eof: bool,
    #[serde(default)]
    pub(crate) encoding: Option<String>,
}

/// `sched.alloc`, type 0.
#[derive(Serialize)]
struct Success<'a> {
    id: JobId,
    #[serde(rename = "type")]
    kind: i64,
    #[serde(rename = "R")]
    r: &'a RawValue,
    annotations: Annotations,
}

#[derive(Serialize)]
struct Annotations {
    sched: Annotation,
}

#[derive(Serialize)]
struct Annotation {
    resource_summary: String,
    /// A null takes an estimate back.
    #[serde(skip_serializing_if = "Option::is_none")]
    t_estimate: Option<Value>,
}

/// The answer that gives a job its resources.
pub(crate) fn allocated(id: JobId, r: &job::R, had_estimate: bool) -> Bytes {
    let text = r.to_json();
    let raw: &RawValue = serde_json::from_slice(&text).unwrap_or(RawValue::NULL);
    let annotation = Annotation {
        resource_summary: r.summary(),
        t_estimate: had_estimate.then_some(Value::Null),
    };
    json_payload(&Success {
        id,
        kind: ALLOC_SUCCESS,
        r: raw,
        annotations: Annotations { sched: annotation },
    })
}

/// The answer that refuses a job for good.
pub(crate) fn denied(id: JobId, note: &str) -> Bytes {
    json_payload(&json!({"id": id, "type": ALLOC_DENY, "note": note}))
}

/// The answer that takes an offer back.
pub(crate) fn cancelled(id: JobId) -> Bytes {
    json_payload(&json!({"id": id, "type": ALLOC_CANCEL}))
}

/// The answer that says when the first in line will start.
pub(crate) fn estimated(id: JobId, start_s: f64) -> Bytes {
    json_payload(
        &json!({"id": id, "type": ALLOC_ANNOTATE, "annotations": {"sched": {"t_estimate": start_s}}}),
    )
}

fn r_of(grant: &Grant, sched: &Sched) -> Value {
    let r = rset::to_r(
        grant,
        sched.nodes(),
        job::Timestamp(0.0),
        f64::INFINITY,
        false,
    );
    serde_json::from_slice(&r.to_json()).unwrap_or(Value::Null)
}

/// `resource.sched-status`, `sched.resource-status`: `{all:R, down:R, allocated:R}`.
pub(crate) fn sched_status(sched: &Sched) -> Bytes {
    let all = rset::whole(sched.nodes(), |_| true);
    let down = rset::whole(sched.nodes(), |rank| !sched.is_up(rank));
    json_payload(&json!({
        "all": r_of(&all, sched), "down": r_of(&down, sched), "allocated": r_of(&sched.allocated(), sched)
    }))
}

/// `resource.status`: `{R, drain:{}, online:s, offline:s, exclude:s, torpid:s}`.
pub(crate) fn resource_status(sched: &Sched) -> Bytes {
    let count = u32::try_from(sched.nodes().len()).unwrap_or(u32::MAX);
    let ranks = |up: bool| {
        (0..count)
            .filter(|rank| sched.is_up(*rank) == up)
            .collect::<sched::Set>()
            .to_string()
    };
    json_payload(&json!({
        "R": r_of(&rset::whole(sched.nodes(), |_| true), sched),
        "drain": {}, "online": ranks(true), "offline": ranks(false), "exclude": "", "torpid": ""
    }))
}

/// `SERVICE.ping`: what was sent, and how it came.
pub(crate) fn pong(request: &Request) -> Option<Bytes> {
    let mut object: serde_json::Map<String, Value> = match &request.payload {
        Some(payload) => wire::parse_json(payload).ok()?,
        None => serde_json::Map::new(),
    };
    let hops: Vec<String> = request
        .routes
        .iter()
        .flatten()
        .map(|hop| String::from_utf8_lossy(hop).chars().take(8).collect())
        .collect();
    object.insert("route".into(), hops.join("!").into());
    object.insert("userid".into(), request.cred.userid.into());
    object.insert("rolemask".into(), request.cred.rolemask.into());
    object.insert("rank".into(), 0.into());
    Some(json_payload(&object))
}

/// The job of a shell service's name, `UID-shell-F58`.
pub(crate) fn shell_job(service: &str) -> Option<JobId> {
    let (uid, id) = service.split_once("-shell-")?;
    uid.parse::<u32>().ok()?;
    id.parse().ok()
}
