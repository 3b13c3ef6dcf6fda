//! `job-manager.dispatch` (weir): a job is made from a parameterized one.

use std::borrow::Cow;

use job::JobId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `dispatch`: `{id:I, meta?:{KEY:s}, payload?:s, key?:s}`; answers as `job-ingest.submit`: `{id:I, seq:I, known?:b}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DispatchRequest<'a> {
    /// The parameterized job.
    pub id: JobId,
    /// Values of the keys that it asks for.
    #[serde(
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub meta: Option<Map<String, Value>>,
    /// Base64: what the tasks read from their standard input.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub payload: Option<Cow<'a, str>>,
    /// As the key of a submission, of the user whose job the parent is.
    #[serde(
        borrow,
        default,
        deserialize_with = "crate::given",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Cow<'a, str>>,
}
