//! Many answers to one request, and events: what the reading task hands on, within bounds.

use super::calls::{Client, json_of};
use super::error::RpcError;
use bytes::Bytes;
use tokio::sync::mpsc;
use wire::{Event, Response, Topic, errno};

/// Responses of one stream kept for its reader; then the connection is not read further.
pub const STREAM_BUFFERED_MAX: usize = 16;
/// Events of one subscription kept for its reader; likewise.
pub const EVENTS_BUFFERED_MAX: usize = 64;

/// A streaming call. Dropping it before its end cancels it.
#[derive(Debug)]
pub struct Stream {
    topic: Topic,
    matchtag: u32,
    serial: u64,
    responses: mpsc::Receiver<Response>,
    client: Client,
    over: bool,
}

impl Stream {
    pub(super) fn new(
        topic: Topic,
        matchtag: u32,
        serial: u64,
        responses: mpsc::Receiver<Response>,
        client: Client,
    ) -> Stream {
        Stream {
            topic,
            matchtag,
            serial,
            responses,
            client,
            over: false,
        }
    }

    /// The next answer: JSON without NUL, empty for one without payload. `None` after the normal end (ENODATA); any other
    /// error is the last item. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Result<Bytes, RpcError>> {
        if self.over {
            return None;
        }
        let item = match self.responses.recv().await {
            Some(response) if response.errnum == 0 => return Some(json_of(&self.topic, &response)),
            Some(response) if response.errnum == errno::ENODATA => None,
            Some(response) => Some(Err(RpcError::from_response(&response))),
            None => Some(Err(self.client.ended(&self.topic))),
        };
        self.over = true;
        item
    }

    /// Asks the service to end the stream. Read on: what is on the way still comes, and then the end.
    pub fn cancel(&self) {
        if !self.over {
            self.client.cancel(&self.topic, self.matchtag, self.serial);
        }
    }

    /// The stream's matchtag.
    #[must_use]
    pub fn matchtag(&self) -> u32 {
        self.matchtag
    }

    /// Its end has been read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Events whose topic begins with a prefix. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    prefix: String,
    events: mpsc::Receiver<Event>,
    client: Client,
}

impl Subscription {
    pub(super) fn new(
        prefix: String,
        events: mpsc::Receiver<Event>,
        client: Client,
    ) -> Subscription {
        Subscription {
            prefix,
            events,
            client,
        }
    }

    /// The next event; `None` once the connection is over. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.client.notify_now(
            "event.unsubscribe".to_owned(),
            &serde_json::json!({"topic": self.prefix}),
        );
    }
}
