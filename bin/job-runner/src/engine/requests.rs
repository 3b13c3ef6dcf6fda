//! Reading what the services are asked, and forming what they answer.

use bytes::Bytes;
use job::JobId;
use protocol::sched::{ALLOC_ANNOTATE, ALLOC_CANCEL, ALLOC_DENY, ALLOC_SUCCESS};
use sched::{Grant, Sched, rset};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{Request, json_payload};

use crate::engine::resources::Drained;

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

/// `resource.sched-status`, `sched.resource-status`: `{all:R, down:R, allocated:R}`. Down is what gets no jobs: offline, or drained.
pub(crate) fn sched_status(sched: &Sched) -> Bytes {
    let all = rset::whole(sched.nodes(), |_| true);
    let down = rset::whole(sched.nodes(), |rank| !sched.is_ready(rank));
    json_payload(&json!({
        "all": r_of(&all, sched), "down": r_of(&down, sched), "allocated": r_of(&sched.allocated(), sched)
    }))
}

/// `resource.status`: `{R, drain:{ranks:{timestamp:f, reason:s}}, online:s, offline:s, exclude:s, torpid:s}`. Nodes that are drained since
/// the same time for the same reason stand together.
pub(crate) fn resource_status(sched: &Sched, drained: &[Option<Drained>]) -> Bytes {
    let count = u32::try_from(sched.nodes().len()).unwrap_or(u32::MAX);
    let ranks = |up: bool| {
        (0..count)
            .filter(|rank| sched.is_up(*rank) == up)
            .collect::<sched::Set>()
            .to_string()
    };
    let mut groups: Vec<(&Drained, sched::Set)> = Vec::new();
    for (rank, drained) in (0u32..).zip(drained) {
        let Some(drained) = drained else { continue };
        match groups.iter_mut().find(|(known, _)| *known == drained) {
            Some((_, ranks)) => ranks.insert(rank),
            None => groups.push((drained, std::iter::once(rank).collect())),
        }
    }
    let drain: serde_json::Map<String, Value> = groups
        .into_iter()
        .map(|(drained, ranks)| {
            let reason = drained.reason.as_deref().unwrap_or_default();
            let value = json!({"timestamp": drained.timestamp, "reason": reason});
            (ranks.to_string(), value)
        })
        .collect();
    json_payload(&json!({
        "R": r_of(&rset::whole(sched.nodes(), |_| true), sched),
        "drain": drain, "online": ranks(true), "offline": ranks(false), "exclude": "", "torpid": ""
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

/// What the one hop of the job-manager's own requests begins with; those of its clients are named otherwise, and a client cannot take its own
/// hop off what it sends.
const MANAGER_HOP: &[u8] = b"job-manager-";

/// Whether the job-manager itself asks: no hop of a client is in the route.
pub(crate) fn is_managers(request: &Request) -> bool {
    match request.routes.as_deref() {
        None | Some([]) => true,
        Some([hop]) => hop.starts_with(MANAGER_HOP),
        Some(_) => false,
    }
}

/// The job that a payload is about which is no JSON, if that much can be read: the first key is `id`.
pub(crate) fn id_of_broken(payload: &[u8]) -> Option<JobId> {
    let start = payload.windows(5).position(|five| five == b"\"id\":")? + 5;
    let rest = &payload[start..];
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..len])
        .ok()?
        .parse()
        .ok()
        .map(JobId)
}

/// The job of a shell service's name, `UID-shell-F58`.
pub(crate) fn shell_job(service: &str) -> Option<JobId> {
    let (uid, id) = service.split_once("-shell-")?;
    uid.parse::<u32>().ok()?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_route_without_a_clients_hop_is_the_managers() {
        let asked = |hops: Option<&[&'static str]>| {
            let mut request = Request::new("sched.free", None, 0);
            request.routes = hops.map(|hops| {
                hops.iter()
                    .map(|hop| Bytes::from_static(hop.as_bytes()))
                    .collect()
            });
            is_managers(&request)
        };
        assert!(asked(None) && asked(Some(&[])) && asked(Some(&["job-manager-0123"])));
        assert!(!asked(Some(&["0123"])));
        // A client that forwards for others may say what it likes; its own hop is put before that.
        assert!(!asked(Some(&["0123", "job-manager-0123"])));
        assert!(!asked(Some(&["job-manager-0123", "0123"])));
    }

    #[test]
    fn the_id_is_found_in_what_is_no_json() {
        let id = |text: &str| id_of_broken(text.as_bytes()).map(|id| id.0);
        assert_eq!(id("{\"id\":12,\"jobspec\":{\"ver"), Some(12));
        assert_eq!(id("{\"id\":"), None);
        assert_eq!(id("{\"id\":-1}"), None);
        assert_eq!(id("{\"id\":99999999999999999999}"), None);
        assert_eq!(id(""), None);
    }
}
