//! `/v1/event/stream`: changes as they happen, a line for all events of one change.

use axum::response::Response;

use super::{
    app::{Call, Shared},
    reply::Refused,
};

/// Opens a stream.
pub(crate) async fn serve(_app: &Shared, _call: Call) -> Result<Response, Refused> {
    Err(Refused::unknown())
}
