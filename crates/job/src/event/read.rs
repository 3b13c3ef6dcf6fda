//! JSON into an event. A known name must have the context RFC 21 gives it; keys beyond that are
//! ignored; an unknown name keeps its context as it is. No input makes this panic.

use super::{AllocReport, Event, EventKind, EventName, ExceptionEvent, alloc};
use crate::Map;
use crate::json::clip;
use crate::priority::{Priority, Urgency};
use crate::state::JobFlags;
use crate::time::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The highest severity number an exception may have.
pub const SEVERITY_MAX: u8 = 7;

/// Bytes that are no event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not JSON, or without a number `timestamp` and a string `name`.
    #[error("malformed event: {0}")]
    Malformed(serde_json::Error),
    /// Not a JSON object.
    #[error("malformed event: expected a JSON object, got {met:?}")]
    NotAnObject {
        /// The text met, shortened.
        met: String,
    },
    /// The time is not a number a log may hold.
    #[error(
        "malformed event {event:?}: timestamp {met} is not a time: expected seconds since 1970"
    )]
    Timestamp {
        /// The name of the event.
        event: String,
        /// The number met.
        met: f64,
    },
    /// The name is empty.
    #[error("malformed event: the name is empty")]
    NoName,
    /// The context does not fit the name.
    #[error("malformed event {event:?}: context: {source}")]
    Context {
        /// The name of the event.
        event: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A severity outside the range.
    #[error(
        "malformed event \"exception\": severity {met} is out of range: expected 0 to {SEVERITY_MAX}"
    )]
    Severity {
        /// The number met.
        met: i64,
    },
}

#[derive(Deserialize)]
struct Raw<'a> {
    timestamp: f64,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    context: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Submit {
    userid: u32,
    urgency: Urgency,
    flags: JobFlags,
    #[serde(default = "version_one")]
    version: u32,
}

#[derive(Deserialize)]
struct Described {
    description: String,
}

#[derive(Deserialize)]
struct DescribedEnd {
    description: String,
    status: i32,
}

#[derive(Deserialize)]
struct PriorityContext {
    priority: Priority,
}

#[derive(Deserialize)]
struct UrgencyContext {
    userid: u32,
    urgency: Urgency,
}

#[derive(Deserialize)]
struct ResourceUpdate {
    expiration: f64,
}

#[derive(Deserialize)]
struct Annotated {
    #[serde(default)]
    annotations: Option<Map>,
}

#[derive(Deserialize)]
struct Raised {
    #[serde(rename = "type")]
    kind: String,
    severity: i64,
    #[serde(default)]
    note: String,
    #[serde(default)]
    userid: Option<u32>,
    #[serde(default)]
    wait_status: Option<i32>,
}

#[derive(Deserialize)]
struct Status {
    status: i32,
}

#[derive(Deserialize)]
struct Release {
    ranks: String,
    #[serde(rename = "final")]
    last: bool,
}

#[derive(Deserialize)]
struct SetFlags {
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct AllocStatuses {
    #[serde(deserialize_with = "alloc::read_all")]
    allocs: Vec<AllocReport>,
}

fn version_one() -> u32 {
    1
}

impl Event {
    /// Reads one event from its JSON; white space around it is allowed.
    /// # Errors
    /// [`EventError`]: not JSON, not an event, or a context that does not fit a known name.
    pub fn parse(json: &[u8]) -> Result<Event, EventError> {
        must_be_object(json)?;
        let raw: Raw<'_> = serde_json::from_slice(json).map_err(EventError::Malformed)?;
        if raw.name.is_empty() {
            return Err(EventError::NoName);
        }
        let timestamp = Timestamp(raw.timestamp);
        if !timestamp.is_valid() {
            return Err(EventError::Timestamp {
                event: clip(&raw.name),
                met: raw.timestamp,
            });
        }
        Ok(Event {
            timestamp,
            kind: kind(&raw)?,
        })
    }
}

/// Only the name of an event, from its JSON.
pub(crate) fn name_of(json: &[u8]) -> Result<EventName, EventError> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    must_be_object(json)?;
    let named: Named<'_> = serde_json::from_slice(json).map_err(EventError::Malformed)?;
    if named.name.is_empty() {
        Err(EventError::NoName)
    } else {
        Ok(EventName::from(&*named.name))
    }
}

/// A JSON array in the right order would do for a derived struct.
fn must_be_object(json: &[u8]) -> Result<(), EventError> {
    if json.trim_ascii_start().starts_with(b"{") {
        return Ok(());
    }
    let met = clip(&String::from_utf8_lossy(&json[..json.len().min(256)]));
    Err(EventError::NotAnObject { met })
}

fn kind(raw: &Raw<'_>) -> Result<EventKind, EventError> {
    Ok(match EventName::from(&*raw.name) {
        EventName::Submit => {
            let c: Submit = context(raw)?;
            EventKind::Submit {
                userid: c.userid,
                urgency: c.urgency,
                flags: c.flags,
                version: c.version,
            }
        }
        EventName::Validate => EventKind::Validate,
        EventName::Invalidate => EventKind::Invalidate,
        EventName::DependencyAdd => EventKind::DependencyAdd {
            description: context::<Described>(raw)?.description,
        },
        EventName::DependencyRemove => EventKind::DependencyRemove {
            description: context::<Described>(raw)?.description,
        },
        EventName::Depend => EventKind::Depend,
        EventName::Priority => EventKind::Priority {
            priority: context::<PriorityContext>(raw)?.priority,
        },
        EventName::Urgency => {
            let c: UrgencyContext = context(raw)?;
            EventKind::Urgency {
                userid: c.userid,
                urgency: c.urgency,
            }
        }
        EventName::JobspecUpdate => EventKind::JobspecUpdate {
            updates: context(raw)?,
        },
        EventName::FluxRestart => EventKind::FluxRestart,
        EventName::ResourceUpdate => {
            let met = context::<ResourceUpdate>(raw)?.expiration;
            let expiration = Timestamp(met);
            if !expiration.is_valid() {
                return Err(EventError::Timestamp {
                    event: clip(&raw.name),
                    met,
                });
            }
            EventKind::ResourceUpdate { expiration }
        }
        EventName::Alloc => {
            let c = if raw.context.is_none() {
                None
            } else {
                Some(context::<Annotated>(raw)?)
            };
            EventKind::Alloc {
                annotations: c.and_then(|c| c.annotations),
            }
        }
        EventName::PrologStart => EventKind::PrologStart {
            description: context::<Described>(raw)?.description,
        },
        EventName::PrologFinish => {
            let c: DescribedEnd = context(raw)?;
            EventKind::PrologFinish {
                description: c.description,
                status: c.status,
            }
        }
        EventName::EpilogStart => EventKind::EpilogStart {
            description: context::<Described>(raw)?.description,
        },
        EventName::EpilogFinish => {
            let c: DescribedEnd = context(raw)?;
            EventKind::EpilogFinish {
                description: c.description,
                status: c.status,
            }
        }
        EventName::Start => EventKind::Start,
        EventName::Exception => EventKind::Exception(exception(context(raw)?)?),
        EventName::Finish => EventKind::Finish {
            status: context::<Status>(raw)?.status,
        },
        EventName::Release => {
            let c: Release = context(raw)?;
            EventKind::Release {
                ranks: c.ranks,
                last: c.last,
            }
        }
        EventName::Free => EventKind::Free,
        EventName::Clean => EventKind::Clean,
        EventName::Memo => EventKind::Memo {
            memo: context(raw)?,
        },
        EventName::Annotations => EventKind::Annotations {
            annotations: context::<Annotated>(raw)?.annotations,
        },
        EventName::SetFlags => EventKind::SetFlags {
            flags: context::<SetFlags>(raw)?.flags,
        },
        EventName::AllocStatus => EventKind::AllocStatus {
            allocs: context::<AllocStatuses>(raw)?.allocs,
        },
        EventName::Other(name) => {
            let context = if raw.context.is_none() {
                None
            } else {
                Some(context(raw)?)
            };
            EventKind::Other { name, context }
        }
    })
}

/// The context as `T`; a missing one reads as an empty object.
fn context<'a, T: Deserialize<'a>>(raw: &Raw<'a>) -> Result<T, EventError> {
    let json = raw.context.map_or("{}", RawValue::get);
    // A sequence would do for a derived struct; RFC 18 wants an object.
    let object = json.starts_with('{');
    let parsed = if object {
        serde_json::from_str(json)
    } else {
        not_an_object(json)
    };
    parsed.map_err(|source| EventError::Context {
        event: clip(&raw.name),
        source,
    })
}

fn not_an_object<T>(json: &str) -> Result<T, serde_json::Error> {
    let met = clip(json);
    Err(serde::de::Error::custom(format_args!(
        "expected an object, got {met}"
    )))
}

fn exception(c: Raised) -> Result<ExceptionEvent, EventError> {
    match u8::try_from(c.severity) {
        Ok(severity) if severity <= SEVERITY_MAX => Ok(ExceptionEvent {
            kind: c.kind,
            severity,
            note: c.note,
            userid: c.userid,
            wait_status: c.wait_status,
        }),
        _ => Err(EventError::Severity { met: c.severity }),
    }
}
