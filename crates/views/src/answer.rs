//! What a request is answered with.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

/// A body as a list of pieces, in order. Shared by all who get it: the pieces are not copied, and two bodies that are the same
/// list ([`Body::key`]) are the same text, so that a compressed form can be kept beside it.
#[derive(Debug, Clone)]
pub struct Body {
    pieces: Arc<[Bytes]>,
    len: usize,
}

impl Body {
    /// A body of these pieces.
    #[must_use]
    pub fn new(pieces: Vec<Bytes>) -> Self {
        let len = pieces.iter().map(Bytes::len).sum();
        Self {
            pieces: pieces.into(),
            len,
        }
    }

    /// The pieces, in order; none is empty unless the body is.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The list itself, to be kept by who sends it.
    #[must_use]
    pub fn shared(&self) -> Arc<[Bytes]> {
        self.pieces.clone()
    }

    /// Bytes of the whole.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Identity: equal for clones of one body while any of them lives. Keep a clone beside the key.
    #[must_use]
    pub fn key(&self) -> usize {
        self.pieces.as_ptr().addr()
    }

    /// All in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.len);
        for piece in self.pieces.iter() {
            whole.extend_from_slice(piece);
        }
        whole
    }
}

/// What an answer is, for those that are sent as events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The whole.
    Whole,
    /// What changed since the index that was asked with: only to [`crate::What::StatusesStream`].
    Delta,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The seq at which the body is true: `X-Nomad-Index`. Never 0.
    pub index: u64,
    /// `X-Nomad-NextToken`, if there is a further page.
    pub next_token: Option<Arc<str>>,
    /// The body.
    pub body: Body,
    /// Whole or delta.
    pub kind: Kind,
}

/// A refusal: its status and its bare text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{status} {text}")]
pub struct HttpError {
    /// HTTP status.
    pub status: u16,
    /// The body, plain text.
    pub text: Arc<str>,
}

impl HttpError {
    /// A refusal.
    #[must_use]
    pub fn new(status: u16, text: impl Into<Arc<str>>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }

    /// 400.
    #[must_use]
    pub fn bad(text: impl Into<Arc<str>>) -> Self {
        Self::new(400, text)
    }

    /// 404.
    #[must_use]
    pub fn absent(text: impl Into<Arc<str>>) -> Self {
        Self::new(404, text)
    }
}

/// What an ask comes to.
pub type Reply = Result<Answer, HttpError>;
