//! `/v1/event/stream`: changes as they happen, a line for all events of one change.
//!
//! The first line, and one whenever nothing came for a while, is `{}`. The next line is asked for when the one before is on its way; a
//! client that falls behind what is kept gets a last line that says so, and the end.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::Response,
};
use futures::stream;
use tokio::time::Instant;
use views::stream::{Cursor, HEARTBEAT, HEARTBEAT_SECONDS, Start, Subscription};

use super::{
    app::{Call, End, Shared, Waited},
    line::{Given, Want},
    live::{Asking, Counted, asking, given},
    query::Query,
    reply::{self, Refused},
};

/// One open stream.
struct Reading {
    app: Shared,
    wants: Arc<Subscription>,
    cursor: Cursor,
    asking: Option<Asking>,
    heartbeat: Instant,
    end: End,
    is_first: bool,
    is_over: bool,
    _counted: Counted,
}

/// Opens a stream. What is wrong with what is asked for is said before it begins.
pub(crate) async fn serve(app: &Shared, call: Call) -> Result<Response, Refused> {
    let query = Query::new(call.parts.uri.query().unwrap_or_default());
    let start = Start::parse(query.get("index"))?;
    let viewer = app.viewer(call.who);
    let wants = Subscription::new(query.all("topic"), query.get("namespace"), viewer)?;
    app.line.ready(0).await?;
    let epoch = query.filled("epoch").map(Arc::from);
    let Given::Subscribed(place) = app.line.ask(Want::Subscribe(start, epoch), None).await? else {
        return Err(Refused::internal("no place"));
    };
    let reading = Reading {
        app: app.clone(),
        wants: Arc::new(wants),
        cursor: place?,
        asking: None,
        heartbeat: Instant::now(),
        end: End::new(app, call.who),
        is_first: true,
        is_over: false,
        _counted: Counted::new(app),
    };
    let lines = stream::unfold(reading, |mut reading| async move {
        let line = reading.next_line().await?;
        Some((Ok::<_, Infallible>(line), reading))
    });
    let mut response = reply::json(Body::from_stream(lines));
    let no_cache = HeaderValue::from_static("no-cache");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_cache);
    response.extensions_mut().insert(Waited);
    Ok(response)
}

impl Reading {
    /// The next line; `None`: the end.
    async fn next_line(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.is_first {
            self.is_first = false;
            return Some(self.beat());
        }
        if self.asking.is_none() {
            let want = Want::Next(self.wants.clone(), self.cursor);
            self.asking = Some(asking(self.app.clone(), want));
        }
        tokio::select! {
            biased;
            () = self.end.come() => None,
            given = given(&mut self.asking) => {
                self.asking = None;
                let Ok(Given::Line(line, cursor, is_last)) = given else {
                    return None;
                };
                self.cursor = cursor;
                self.is_over = is_last;
                self.beat();
                Some(line)
            }
            () = tokio::time::sleep_until(self.heartbeat) => Some(self.beat()),
        }
    }

    fn beat(&mut self) -> Bytes {
        self.heartbeat = Instant::now() + Duration::from_secs(HEARTBEAT_SECONDS);
        Bytes::from_static(HEARTBEAT)
    }
}
