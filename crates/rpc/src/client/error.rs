//! Why a call failed: a number, a text for people, and what was called.

use wire::{PayloadError, Response, Topic, errno, text_of};

/// A call that was refused, or that lost its connection (ECONNRESET).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RpcError {
    /// A POSIX number, see [`wire::errno`].
    pub errnum: u32,
    /// The service's words, or what the number means.
    pub text: String,
    /// What was called.
    pub topic: Topic,
}

impl RpcError {
    /// With a text of this side's own.
    pub fn new(topic: &Topic, errnum: u32, text: impl Into<String>) -> RpcError {
        RpcError {
            errnum,
            text: text.into(),
            topic: topic.clone(),
        }
    }

    /// What an error response says.
    #[must_use]
    pub fn from_response(response: &Response) -> RpcError {
        let text = response
            .payload
            .as_deref()
            .and_then(text_of)
            .unwrap_or_else(|| errno::text(response.errnum));
        RpcError::new(&response.topic, response.errnum, text)
    }

    /// An answer that cannot be read.
    #[must_use]
    pub fn payload(topic: &Topic, error: &PayloadError) -> RpcError {
        RpcError::new(topic, error.errnum(), format!("answer of {topic}: {error}"))
    }

    /// The connection was lost; the same call may succeed on a new one. Whether it took effect is unknown.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.errnum == errno::ECONNRESET
    }
}
