//! `/`: a small live page, and what a browser gets in the place of what it may not see. Their files are part of the program; they ask nobody but this server, and run
//! nothing but their own scripts.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};

use super::app::typed;

const PAGE: &str = include_str!("page/page.html");
const SCRIPT: &str = include_str!("page/page.js");
const ENTER: &str = include_str!("page/enter.html");
const ENTER_SCRIPT: &str = include_str!("page/enter.js");
const STYLE: &str = include_str!("page/page.css");

/// Nothing from elsewhere, nothing inline, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn page() -> Response {
    html(PAGE)
}

/// Whether the answer to a request is shown by a browser as a page.
pub(crate) fn is_navigation(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-dest").map(HeaderValue::as_bytes) == Some(b"document")
}

/// Puts a page in the place of a refusal that exchanges the token in the address, which only its script sees, for a cookie.
pub(crate) fn enter(refusal: Response) -> Response {
    let mut response = html(ENTER);
    *response.status_mut() = refusal.status();
    let challenge = refusal.headers().get(header::WWW_AUTHENTICATE);
    if let Some(challenge) = challenge {
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    response
}

pub(crate) fn enter_script() -> Response {
    typed(Body::from(ENTER_SCRIPT), "text/javascript; charset=utf-8")
}

fn html(text: &'static str) -> Response {
    let mut response = typed(Body::from(text), "text/html; charset=utf-8");
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    response
}

pub(crate) fn script() -> Response {
    typed(Body::from(SCRIPT), "text/javascript; charset=utf-8")
}

pub(crate) fn style() -> Response {
    typed(Body::from(STYLE), "text/css; charset=utf-8")
}
