//! The small services that the broker answers itself: `attr`, `config`, `ping`. Each is a function of the attributes and the
//! request; what needs the router or the connections (`service.*`, `event.*`) is in `broker.rs`.
//!
//! Source of the shapes: the local connector's and broker's behaviour as written in `rfc/1_wire.md`.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::{Request, errno, json_bytes, parse_json};

/// A refusal: errno, and a text where Flux has one or people need one.
pub(crate) type Refused = (u32, Option<String>);

/// An answer: JSON without NUL, or nothing; or a refusal.
pub(crate) type Answer = Result<Option<Bytes>, Refused>;

/// What does not change while the instance runs.
#[derive(Debug)]
pub(crate) struct Attrs {
    values: Vec<(&'static str, String)>,
}

impl Attrs {
    /// `(name, value)` pairs; all are immutable to clients.
    pub(crate) fn new(values: Vec<(&'static str, String)>) -> Attrs {
        Attrs { values }
    }

    /// `{name:s}` → `{value:s, flags:1}`.
    fn get(&self, request: &Request) -> Answer {
        #[derive(Deserialize)]
        struct Get {
            name: String,
        }
        let get: Get = payload(request)?;
        match self.values.iter().find(|(name, _)| *name == get.name) {
            Some((_, value)) => answer(&json!({"value": value, "flags": 1})),
            None => Err((errno::ENOENT, None)),
        }
    }

    /// → `{names:[s]}`.
    fn list(&self) -> Answer {
        answer(&json!({"names": self.values.iter().map(|(name, _)| *name).collect::<Vec<_>>()}))
    }
}

/// Answers a request of one of the services of this file; `None` = no such method here.
pub(crate) fn handle(attrs: &Attrs, request: &Request) -> Option<Answer> {
    let cred = request.cred;
    Some(match request.topic.as_str() {
        "attr.get" => attrs.get(request),
        "attr.list" => attrs.list(),
        "attr.set" | "attr.rm" if !cred.is_owner() => Err(owner_only()),
        "attr.set" | "attr.rm" => Err((errno::EINVAL, Some("attribute may not be updated".into()))),
        "config.get" => answer(&json!({})),
        topic if topic.ends_with(".ping") => ping(request),
        _ => return None,
    })
}

/// `SERVICE.ping {…}` → the same object with `route`, `userid`, `rolemask`, `rank`.
fn ping(request: &Request) -> Answer {
    let mut body: Map<String, Value> = payload(request)?;
    let route: Vec<String> = request
        .routes
        .iter()
        .flatten()
        .rev()
        .map(|hop| String::from_utf8_lossy(&hop[..hop.len().min(8)]).into_owned())
        .collect();
    body.insert("route".into(), route.join("!").into());
    body.insert("userid".into(), request.cred.userid.into());
    body.insert("rolemask".into(), request.cred.rolemask.into());
    body.insert("rank".into(), 0.into());
    answer(&Value::Object(body))
}

/// The refusal of a method that only the owner may call.
pub(crate) fn owner_only() -> Refused {
    let text = "Request requires owner credentials";
    (errno::EPERM, Some(text.into()))
}

/// The payload as `T`, or EPROTO.
pub(crate) fn payload<'a, T: Deserialize<'a>>(request: &'a Request) -> Result<T, Refused> {
    let bytes = request.payload.as_deref().ok_or((errno::EPROTO, None))?;
    parse_json(bytes).map_err(|error| (errno::EPROTO, Some(error.to_string())))
}

/// A payload from a value.
pub(crate) fn answer(value: &Value) -> Answer {
    json_bytes(&wire::json_payload(value))
        .map(Some)
        .map_err(|error| (errno::EPROTO, Some(error.to_string())))
}
