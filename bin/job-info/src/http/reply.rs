//! Answers: the headers every read carries, and refusals as plain text.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use std::borrow::Cow;

/// The content types that are used.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

const INDEX: HeaderName = HeaderName::from_static("x-nomad-index");
const LAST_CONTACT: HeaderName = HeaderName::from_static("x-nomad-lastcontact");
const KNOWN_LEADER: HeaderName = HeaderName::from_static("x-nomad-knownleader");
const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-nomad-nexttoken");
/// The journal's epoch: indexes of another one say nothing.
const EPOCH: HeaderName = HeaderName::from_static("x-weir-epoch");
/// Seconds for which the list has not followed its journal; absent while it does.
const STALE: HeaderName = HeaderName::from_static("x-weir-stale");

/// What a request is refused with: a status and a text, nothing else in the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    status: StatusCode,
    text: Cow<'static, str>,
    /// Seconds after which trying again makes sense.
    retry_after: Option<u32>,
}

impl Refused {
    pub(crate) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            text: text.into(),
            retry_after: None,
        }
    }

    pub(crate) fn bad(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(crate) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Invalid method")
    }

    /// The list cannot answer this now.
    pub(crate) fn unavailable(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }

    pub(crate) fn internal(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    pub(crate) fn denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Permission denied")
    }

    /// No such path.
    pub(crate) fn unknown() -> Self {
        Self::new(StatusCode::NOT_FOUND, "")
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let empty = self.text.is_empty();
        let mut response = Response::new(match self.text {
            Cow::Borrowed(text) => Body::from(text),
            Cow::Owned(text) => Body::from(text),
        });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if !empty {
            headers.insert(header::CONTENT_TYPE, TEXT);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::FORBIDDEN {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static(
                    "Bearer realm=\"weir\", error_description=\"'weir open --print' gives a token\"",
                ),
            );
        }
        response
    }
}

/// What a read's headers say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks<'a> {
    pub(crate) index: u64,
    pub(crate) next_token: Option<&'a str>,
    /// Seconds for which the list has not followed its journal.
    pub(crate) stale: Option<f64>,
    pub(crate) epoch: Option<&'a str>,
}

/// Sets the headers of a read.
pub(crate) fn mark(response: &mut Response, marks: Marks<'_>) {
    let headers = response.headers_mut();
    headers.insert(INDEX, marks.index.into());
    let contact = (marks.stale.unwrap_or(0.0) * 1000.0) as u64;
    headers.insert(LAST_CONTACT, contact.into());
    let known = if marks.stale.is_none() {
        "true"
    } else {
        "false"
    };
    headers.insert(KNOWN_LEADER, HeaderValue::from_static(known));
    if let Some(Ok(token)) = marks.next_token.map(HeaderValue::from_str) {
        headers.insert(NEXT_TOKEN, token);
    }
    if let Some(Ok(epoch)) = marks.epoch.map(HeaderValue::from_str) {
        headers.insert(EPOCH, epoch);
    }
    if let Some(age) = marks.stale
        && let Ok(age) = HeaderValue::from_str(&format!("{age:.3}"))
    {
        headers.insert(STALE, age);
    }
}

impl From<views::HttpError> for Refused {
    fn from(error: views::HttpError) -> Self {
        let status =
            StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, error.text.to_string())
    }
}

/// A JSON answer.
pub(crate) fn json(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
