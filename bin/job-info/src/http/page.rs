//! `/`: a small live page. Its three files are part of the program; it asks nobody but this server, and runs nothing but its own script.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::Response,
};

use super::app::typed;

const PAGE: &str = include_str!("page/page.html");
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");

/// Nothing from elsewhere, nothing inline, in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn page() -> Response {
    let mut response = typed(Body::from(PAGE), "text/html; charset=utf-8");
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
