//! [`Client`]: calls by topic, many at a time, over one connection.
//!
//! A background task reads and hands each response to who waits under its matchtag. A stream or subscription whose
//! buffer is full makes that task wait, and with it the whole connection: nothing is buffered without bound. So whoever
//! leaves a stream unread for long should give it a connection of its own.
//!
//! ```text
//!  take the lowest tag ─▶ request ─▶ … ─▶ final response ─▶ tag free again
//!  a call dropped meanwhile: the tag stays taken until its response has come
//! ```

use super::connect::{ConnectError, ConnectOptions};
use super::connection::{Connection, Receiver, SendError, Sender};
use super::error::RpcError;
use super::matchtags::Matchtags;
use super::stream::{EVENTS_BUFFERED_MAX, STREAM_BUFFERED_MAX, Stream, Subscription};
use crate::reader::ReadEnd;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use wire::{
    Event, Flags, MATCHTAG_NONE, Message, Request, Response, Topic, errno, json_bytes,
    json_payload, parse_json,
};

/// What a JSON object without keys looks like; an answer without a payload is read as this.
const EMPTY_OBJECT: &[u8] = b"{}\0";
/// How `()` looks as JSON: no payload is sent for it.
const NO_PAYLOAD: &[u8] = b"null\0";

/// A connection to call services through. Clones share it; it ends with the last clone, stream and subscription.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sender: Sender,
    table: Arc<Mutex<Table>>,
    reader: tokio::task::JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[derive(Debug)]
enum Waiter {
    Call(oneshot::Sender<Response>),
    Stream {
        responses: mpsc::Sender<Response>,
        serial: u64,
    },
}

/// What the callers and the reading task share.
#[derive(Debug, Default)]
struct Table {
    tags: Matchtags<Waiter>,
    subscriptions: Vec<(String, mpsc::Sender<Event>)>,
    /// Streams opened so far: tells one from a later one under the same tag.
    serials: u64,
    /// Why the connection is over.
    ended: Option<String>,
}

/// A response that a call waits for.
#[derive(Debug)]
#[must_use]
pub struct Reply {
    topic: Topic,
    response: oneshot::Receiver<Response>,
    client: Client,
}

impl Client {
    /// Connects once.
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(path: impl AsRef<Path>) -> Result<Client, ConnectError> {
        Ok(Client::new(Connection::connect(path).await?))
    }

    /// Connects as `options` say.
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_with(
        path: impl AsRef<Path>,
        options: &ConnectOptions,
    ) -> Result<Client, ConnectError> {
        Ok(Client::new(Connection::connect_with(path, options).await?))
    }

    /// Calls through `connection`. Spawns its tasks, so it must be called within a tokio runtime.
    #[must_use]
    pub fn new(connection: Connection) -> Client {
        let (sender, receiver) = connection.split();
        let table = Arc::new(Mutex::new(Table::default()));
        let reader = tokio::spawn(read(receiver, Arc::clone(&table)));
        Client {
            shared: Arc::new(Shared {
                sender,
                table,
                reader,
            }),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.shared.table)
    }

    /// Calls `topic` and waits for its answer: JSON without NUL, empty if the answer has no payload. For a `payload` of
    /// `()` none is sent.
    /// # Errors
    /// [`RpcError`]: refused, or the connection was lost.
    pub async fn call<P: Serialize + ?Sized>(
        &self,
        topic: impl Into<Topic>,
        payload: &P,
    ) -> Result<Bytes, RpcError> {
        self.begin(topic, payload).await?.json().await
    }

    /// Calls `topic` and reads its answer as a `T`; no payload is read as `{}`.
    /// # Errors
    /// [`RpcError`]; EPROTO if the answer is no `T`.
    pub async fn call_as<T: DeserializeOwned>(
        &self,
        topic: impl Into<Topic>,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<T, RpcError> {
        self.begin(topic, payload).await?.json_as().await
    }

    /// Sends the request and returns while its answer is on the way: for many at a time. Waits only while the output queue
    /// is at high water.
    /// # Errors
    /// [`RpcError`]: the connection was lost.
    pub async fn begin<P: Serialize + ?Sized>(
        &self,
        topic: impl Into<Topic>,
        payload: &P,
    ) -> Result<Reply, RpcError> {
        let topic = topic.into();
        let (sender, response) = oneshot::channel();
        self.send(&topic, payload, Flags::NONE, Waiter::Call(sender))
            .await?;
        Ok(Reply {
            topic,
            response,
            client: self.clone(),
        })
    }

    /// Opens a stream. Read it, or it holds up the whole connection; drop it, or [`Stream::cancel`] it, to end it.
    /// # Errors
    /// [`RpcError`]: the connection was lost. A refusal is the stream's first item.
    pub async fn stream<P: Serialize + ?Sized>(
        &self,
        topic: impl Into<Topic>,
        payload: &P,
    ) -> Result<Stream, RpcError> {
        let topic = topic.into();
        let (sender, responses) = mpsc::channel(STREAM_BUFFERED_MAX);
        let serial = {
            let mut table = self.table();
            table.serials += 1;
            table.serials
        };
        let waiter = Waiter::Stream {
            responses: sender,
            serial,
        };
        let matchtag = self.send(&topic, payload, Flags::STREAMING, waiter).await?;
        Ok(Stream::new(
            topic,
            matchtag,
            serial,
            responses,
            self.clone(),
        ))
    }

    /// Cancels a stream, unless its end has come already: its tag may be another's then, whom a cancel would hit.
    pub(super) fn cancel(&self, topic: &Topic, matchtag: u32, stream: u64) {
        let table = self.table();
        if matches!(table.tags.get(matchtag), Some(Waiter::Stream { serial, .. }) if *serial == stream)
        {
            // Sent under the lock, so that it goes out before any request that uses the tag again.
            let payload = serde_json::json!({"matchtag": matchtag});
            self.notify_now(format!("{topic}-cancel"), &payload);
        }
    }

    /// Sends a request that is never answered.
    /// # Errors
    /// [`RpcError`]: the connection was lost.
    pub async fn notify<P: Serialize + ?Sized>(
        &self,
        topic: impl Into<Topic>,
        payload: &P,
    ) -> Result<(), RpcError> {
        let request = notification(topic.into(), payload);
        let topic = request.topic.clone();
        self.shared
            .sender
            .send(request)
            .await
            .map_err(|error| self.lost(&topic, &error))
    }

    /// Like [`Client::notify`], for where nothing can be waited for or answered (a drop).
    pub(super) fn notify_now<P: Serialize + ?Sized>(&self, topic: String, payload: &P) {
        if let Err(error) = self
            .shared
            .sender
            .send_now(notification(topic.into(), payload))
        {
            tracing::debug!(%error, "not sent");
        }
    }

    /// Subscribes to events whose topic begins with `prefix`.
    /// # Errors
    /// [`RpcError`].
    pub async fn subscribe(&self, prefix: &str) -> Result<Subscription, RpcError> {
        let (sender, events) = mpsc::channel(EVENTS_BUFFERED_MAX);
        // Before the call: the first event may come right behind its answer.
        self.table().subscriptions.push((prefix.to_owned(), sender));
        let subscription = Subscription::new(prefix.to_owned(), events, self.clone());
        self.call("event.subscribe", &serde_json::json!({"topic": prefix}))
            .await?;
        Ok(subscription)
    }

    /// Waits until all that was sent is with the kernel, so that the process may end.
    /// # Errors
    /// [`SendError::Closed`].
    pub async fn flush(&self) -> Result<(), SendError> {
        self.shared.sender.flush().await
    }

    /// Calls and streams that wait for a response.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.table().tags.len()
    }

    async fn send<P: Serialize + ?Sized>(
        &self,
        topic: &Topic,
        payload: &P,
        flags: Flags,
        waiter: Waiter,
    ) -> Result<u32, RpcError> {
        let sender = &self.shared.sender;
        let payload = payload_of(payload);
        sender
            .ready()
            .await
            .map_err(|error| self.lost(topic, &error))?;
        // From here on nothing waits: a tag is never taken for a request that is not sent.
        let mut table = self.table();
        if let Some(why) = &table.ended {
            return Err(RpcError::new(topic, errno::ECONNRESET, why.clone()));
        }
        let matchtag = table.tags.take(waiter);
        let request = Request {
            flags,
            ..Request::new(topic.clone(), payload, matchtag)
        };
        if let Err(error) = sender.send_now(request) {
            table.tags.release(matchtag);
            drop(table);
            return Err(self.lost(topic, &error));
        }
        Ok(matchtag)
    }

    fn lost(&self, topic: &Topic, error: &SendError) -> RpcError {
        let errnum = match error {
            SendError::Full { .. } => errno::EAGAIN,
            SendError::Closed => errno::ECONNRESET,
        };
        let text = self
            .table()
            .ended
            .clone()
            .unwrap_or_else(|| error.to_string());
        RpcError::new(topic, errnum, text)
    }

    /// What a waiter is told when its response will not come.
    pub(super) fn ended(&self, topic: &Topic) -> RpcError {
        let text = self
            .table()
            .ended
            .clone()
            .unwrap_or_else(|| SendError::Closed.to_string());
        RpcError::new(topic, errno::ECONNRESET, text)
    }
}

impl Reply {
    /// Waits for the answer: JSON without NUL, empty if it has no payload.
    /// # Errors
    /// [`RpcError`].
    pub async fn json(self) -> Result<Bytes, RpcError> {
        let topic = self.topic.clone();
        let response = self.response().await?;
        json_of(&topic, &response)
    }

    /// Waits for the answer and reads it as a `T`; no payload is read as `{}`.
    /// # Errors
    /// [`RpcError`]; EPROTO if the answer is no `T`.
    pub async fn json_as<T: DeserializeOwned>(self) -> Result<T, RpcError> {
        let topic = self.topic.clone();
        let response = self.response().await?;
        let payload = response.payload.as_deref().unwrap_or(EMPTY_OBJECT);
        parse_json(payload).map_err(|error| RpcError::payload(&topic, &error))
    }

    async fn response(self) -> Result<Response, RpcError> {
        match self.response.await {
            Ok(response) if response.errnum == 0 => Ok(response),
            Ok(response) => Err(RpcError::from_response(&response)),
            Err(_) => Err(self.client.ended(&self.topic)),
        }
    }
}

/// The JSON of a response, without NUL; empty if it has no payload.
pub(super) fn json_of(topic: &Topic, response: &Response) -> Result<Bytes, RpcError> {
    match &response.payload {
        None => Ok(Bytes::new()),
        Some(payload) => json_bytes(payload).map_err(|error| RpcError::payload(topic, &error)),
    }
}

fn payload_of<P: Serialize + ?Sized>(payload: &P) -> Option<Bytes> {
    Some(json_payload(payload)).filter(|payload| payload != NO_PAYLOAD)
}

fn notification<P: Serialize + ?Sized>(topic: Topic, payload: &P) -> Request {
    Request {
        flags: Flags::NORESPONSE,
        ..Request::new(topic, payload_of(payload), MATCHTAG_NONE)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // Nothing panics while holding it.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reading task: to its waiter with each response, until the connection is over.
async fn read(mut receiver: Receiver, table: Arc<Mutex<Table>>) {
    let mut messages = Vec::new();
    let end = loop {
        if let Err(end) = receiver.recv_many(&mut messages).await {
            break end;
        }
        for message in messages.drain(..) {
            match message {
                Message::Response(response) => hand_out(&table, response).await,
                Message::Event(event) => publish(&table, event).await,
                // A command serves nothing.
                Message::Request(request) => {
                    tracing::debug!(topic = %request.topic, "request to a client dropped")
                }
                Message::Control(_) => {}
            }
        }
    };
    let why = match end {
        ReadEnd::Eof => "the instance closed the connection".to_owned(),
        other => format!("the connection was lost: {other}"),
    };
    let mut table = lock(&table);
    table.ended = Some(why);
    // Their receivers see it.
    table.tags.clear();
    table.subscriptions.clear();
}

async fn hand_out(table: &Mutex<Table>, response: Response) {
    let matchtag = response.matchtag;
    let stream = {
        let mut table = lock(table);
        match table.tags.get(matchtag) {
            None => {
                tracing::debug!(topic = %response.topic, matchtag, "response nobody waits for");
                return;
            }
            Some(Waiter::Stream { responses, .. }) => {
                let stream = responses.clone();
                if response.errnum != 0 {
                    table.tags.release(matchtag);
                }
                stream
            }
            Some(Waiter::Call(_)) => {
                if let Some(Waiter::Call(call)) = table.tags.release(matchtag) {
                    // Nobody there: the call was dropped.
                    let _ = call.send(response);
                }
                return;
            }
        }
    };
    // Waits while the stream is not read. Nobody there: it was dropped, and its end will free the tag.
    let _ = stream.send(response).await;
}

async fn publish(table: &Mutex<Table>, event: Event) {
    let subscribers: Vec<mpsc::Sender<Event>> = {
        let mut table = lock(table);
        table
            .subscriptions
            .retain(|(_, events)| !events.is_closed());
        let topic = event.topic.as_str();
        table
            .subscriptions
            .iter()
            .filter(|(prefix, _)| topic.starts_with(prefix))
            .map(|(_, events)| events.clone())
            .collect()
    };
    for subscriber in subscribers {
        let _ = subscriber.send(event.clone()).await;
    }
}
