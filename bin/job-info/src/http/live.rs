//! `/v1/jobs/statuses/stream`: server-sent events of one page: the page, then what changed on it.
//!
//! ```text
//!  retry: 1000                                  how soon a browser comes back when this ends
//!  event: page     id: INDEX-EPOCH   data: {"rows":[…],"next"?:TOKEN}                            the whole page
//!  event: change   id: INDEX-EPOCH   data: {"rows":[…],"removed":[ID…],"order"?:[ID…],"next"?:…}  what changed on it
//!  event: stale    data: {"Stale":SECONDS|null} the list does not follow its journal (any more), or does again
//!  event: end      data: text                   the query came to an end; nothing follows
//!  :                                            a comment, so that a connection that is gone is noticed
//! ```
//! No queue: the next event is asked for when the one before is on its way, so a client that reads slowly gets one event with all that
//! happened meanwhile. Events are [`EVENT_PAUSE`] apart at least. With `Last-Event-ID` (or `index`) it goes on where it was.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::stream;
use tokio::time::Instant;
use views::{Answer, Ask, Kind, What};

use super::{
    app::{self, Call, End, Shared, Waited, statuses_ask},
    line::{Given, Want},
    query::parse_u64,
    reply::Refused,
};

/// Shortest time between two events of one stream.
const EVENT_PAUSE: Duration = Duration::from_millis(100);
/// How often something is sent at least.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often it is looked at whether the list is stale.
const STALE_CHECK: Duration = Duration::from_secs(1);

pub(crate) type Asking = Pin<Box<dyn Future<Output = Result<Given, Refused>> + Send>>;

/// One open stream.
struct Live {
    app: Shared,
    ask: Ask,
    asking: Option<Asking>,
    frames: VecDeque<Bytes>,
    end: End,
    /// When the next event may be asked for.
    next: Instant,
    heartbeat: Instant,
    was_stale: bool,
    over: bool,
    _counted: Counted,
}

/// Counts a stream for as long as it lives.
pub(crate) struct Counted(Shared);

impl Counted {
    pub(crate) fn new(app: &Shared) -> Self {
        app.counters.streams.fetch_add(1, Relaxed);
        Self(app.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counters.streams.fetch_sub(1, Relaxed);
    }
}

/// Where a client was: `INDEX` or `INDEX-EPOCH`.
fn place(text: &str) -> Option<(u64, Option<Arc<str>>)> {
    let (index, epoch) = match text.split_once('-') {
        Some((index, epoch)) => (index, Some(epoch.into())),
        None => (text, None),
    };
    Some((parse_u64(index).filter(|_| !index.is_empty())?, epoch))
}

/// Opens a stream. What is wrong with the query is said before it begins.
pub(crate) async fn serve(app: &Shared, call: Call) -> Result<Response, Refused> {
    let query = call.parts.uri.query();
    let (read, statuses) = statuses_ask(app, query, true, call.body).await?;
    app.line.ready(read.after).await?;
    let mut ask = app.ask_of(call.who, query, read.index, What::StatusesStream(statuses));
    let last = call.parts.headers.get("last-event-id");
    if let Some((index, epoch)) = last.and_then(|last| place(last.to_str().ok()?)) {
        (ask.index, ask.epoch) = (index, epoch);
    }
    let known = app.line.status();
    if ask.index > known.applied || ask.epoch.is_some() && ask.epoch != known.epoch {
        // What a client saw of another journal says nothing of this one.
        (ask.index, ask.epoch) = (0, known.epoch);
    }
    let now = Instant::now();
    let mut live = Live {
        app: app.clone(),
        asking: None,
        frames: VecDeque::new(),
        end: End::new(app, call.who),
        next: now,
        heartbeat: now + HEARTBEAT,
        was_stale: false,
        over: false,
        ask,
        _counted: Counted::new(app),
    };
    live.frames
        .push_back(Bytes::from_static(b"retry: 1000\n\n"));
    if live.ask.index == 0 {
        // The first answer comes at once: a filter that is none gets its status.
        let ask = Box::new(live.ask.clone());
        match app.line.ask(Want::View(ask), None).await? {
            Given::View(answer) => live.show(&answer?),
            _ => return Err(Refused::internal("no body")),
        }
    }
    let frames = stream::unfold(live, |mut live| async move {
        let frame = live.next_frame().await?;
        Some((Ok::<_, Infallible>(frame), live))
    });
    let mut response = app::typed(Body::from_stream(frames), "text/event-stream");
    response.extensions_mut().insert(Waited);
    Ok(response)
}

impl Live {
    /// The next piece to send; `None`: the end.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.over {
                return None;
            }
            let now = Instant::now();
            self.note_stale();
            if now >= self.heartbeat {
                self.push(Bytes::from_static(b":\n\n"));
            }
            if !self.frames.is_empty() {
                continue;
            }
            if self.asking.is_none() && now >= self.next {
                self.asking = Some(asking(
                    self.app.clone(),
                    Want::View(Box::new(self.ask.clone())),
                ));
            }
            let wake = if self.asking.is_none() {
                self.next
            } else {
                self.heartbeat.min(now + STALE_CHECK)
            };
            tokio::select! {
                biased;
                () = self.end.come() => return None,
                given = given(&mut self.asking) => {
                    self.asking = None;
                    self.take(given);
                }
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn take(&mut self, given: Result<Given, Refused>) {
        let refused = match given {
            Ok(Given::View(Ok(answer))) => return self.show(&answer),
            Ok(Given::View(Err(error))) => Refused::from(error),
            Ok(_) => Refused::internal("no body"),
            Err(refused) => refused,
        };
        let text = refused.text().replace(['\n', '\r'], " ");
        self.push(Bytes::from(format!("event: end\ndata: {text}\n\n")));
        self.over = true;
    }

    /// An answer as an event.
    fn show(&mut self, answer: &Answer) {
        let name = match answer.kind {
            Kind::Whole => "page",
            Kind::Delta => "change",
        };
        let epoch = self.app.line.status().epoch;
        let id = match &epoch {
            Some(epoch) => format!("{}-{epoch}", answer.index),
            None => answer.index.to_string(),
        };
        self.push(Bytes::from(format!("event: {name}\nid: {id}\ndata: ")));
        self.frames.extend(answer.body.pieces().iter().cloned());
        self.push(Bytes::from_static(b"\n\n"));
        self.ask.index = answer.index;
        self.ask.epoch = epoch;
        self.next = Instant::now() + EVENT_PAUSE;
    }

    fn note_stale(&mut self) {
        let stale = self.app.line.status().stale(std::time::Instant::now());
        if stale.is_some() != self.was_stale {
            self.was_stale = stale.is_some();
            let said = stale.map_or("null".to_owned(), |stale| format!("{stale:.3}"));
            self.push(Bytes::from(format!(
                "event: stale\ndata: {{\"Stale\":{said}}}\n\n"
            )));
        }
    }

    fn push(&mut self, frame: Bytes) {
        self.frames.push_back(frame);
        self.heartbeat = Instant::now() + HEARTBEAT;
    }
}

/// An ask that goes on while other things are looked at.
pub(crate) fn asking(app: Shared, want: Want) -> Asking {
    Box::pin(async move { app.line.ask(want, None).await })
}

pub(crate) async fn given(asking: &mut Option<Asking>) -> Result<Given, Refused> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_index_with_or_without_its_epoch() {
        assert_eq!(place("17"), Some((17, None)));
        assert_eq!(place("17-00e1"), Some((17, Some("00e1".into()))));
        for none in ["", "-", "x", "-00e1", "1.5", "+1"] {
            assert_eq!(place(none), None, "{none}");
        }
    }
}
