//! `service.add`, `service.remove`: a client becomes the one who answers `NAME.*` on this socket.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// `service.add`: `{service:s, key?:s}`; the answer has no payload. The names of weir itself need the instance key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddRequest<'a> {
    /// The name: the first word of the topics to be had. No dot in it.
    #[serde(borrow)]
    pub service: Cow<'a, str>,
    /// The instance key.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
}

/// `service.remove`: `{service:s}`; the answer has no payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveRequest<'a> {
    /// A name this connection added.
    #[serde(borrow)]
    pub service: Cow<'a, str>,
}
