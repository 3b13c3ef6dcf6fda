//! A connection with raw, ordered messages both ways, for services: they answer requests as well as send them.
//!
//! [`Receiver`] reads when it is asked to; what it is not asked for stays in the kernel, and makes the server's queue grow.
//! [`Sender`] queues, within bounds, and a task writes. The connection ends when the last [`Sender`] is dropped (what is
//! queued is still written) or the server closes it; then senders are refused as soon as the receiver has met the end.

use super::connect::{self, ConnectError, ConnectOptions};
use crate::frame::Frame;
use crate::outbox::{Outbox, OutboxLimits, Sent};
use crate::reader::{FrameReader, ReadEnd};
use rustix::net::Shutdown;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use tokio::net::UnixStream;
use wire::Message;

/// A connection that was let in.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    reader: FrameReader,
}

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The server does not read, and the queue is at its bound. Try again later.
    #[error("the server does not read, and {queued} bytes wait for it")]
    Full {
        /// Bytes in the queue.
        queued: usize,
    },
    /// The connection is over.
    #[error("the connection is closed")]
    Closed,
}

impl Connection {
    /// Connects once.
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(path: impl AsRef<Path>) -> Result<Connection, ConnectError> {
        Connection::connect_with(path, &ConnectOptions::default()).await
    }

    /// Connects as `options` say.
    /// # Errors
    /// [`ConnectError`]; that of the last attempt.
    pub async fn connect_with(
        path: impl AsRef<Path>,
        options: &ConnectOptions,
    ) -> Result<Connection, ConnectError> {
        let stream = connect::connect(path.as_ref(), options).await?;
        Ok(Connection {
            stream,
            reader: FrameReader::new(options.frame_len_max),
        })
    }

    /// The two ends, with the usual bounds.
    #[must_use]
    pub fn split(self) -> (Sender, Receiver) {
        self.split_with(OutboxLimits::default())
    }

    /// The two ends. Spawns the writing task, so it must be called within a tokio runtime.
    #[must_use]
    pub fn split_with(self, limits: OutboxLimits) -> (Sender, Receiver) {
        let stream = Arc::new(self.stream);
        let outbox = Arc::new(Outbox::new(limits));
        let writer = tokio::spawn(write(Arc::clone(&outbox), Arc::clone(&stream)));
        let ends = Arc::new(Ends {
            outbox,
            stream: Arc::clone(&stream),
            _writer: writer,
        });
        let receiver = Receiver {
            outbox: Arc::clone(&ends.outbox),
            stream,
            reader: self.reader,
            ready: VecDeque::new(),
        };
        (Sender { ends }, receiver)
    }
}

async fn write(outbox: Arc<Outbox>, stream: Arc<UnixStream>) {
    match outbox.write_to(&stream, || std::future::ready(())).await {
        Ok(()) => shut_down(&stream),
        Err(error) => tracing::debug!(%error, "server does not take what is written"),
    }
}

fn shut_down(stream: &UnixStream) {
    if let Err(error) = rustix::net::shutdown(stream, Shutdown::Both) {
        // The server was faster.
        tracing::trace!(%error, "shutdown");
    }
}

#[derive(Debug)]
struct Ends {
    outbox: Arc<Outbox>,
    stream: Arc<UnixStream>,
    _writer: tokio::task::JoinHandle<()>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.outbox.finish();
    }
}

/// The way out. Clones share one queue; the order of sending is the order of arrival.
#[derive(Debug, Clone)]
pub struct Sender {
    ends: Arc<Ends>,
}

impl Sender {
    /// Queues a frame, and before that waits while the queue is at high water or above.
    /// # Errors
    /// [`SendError::Closed`].
    pub async fn send(&self, frame: impl Into<Frame>) -> Result<(), SendError> {
        let frame = frame.into();
        loop {
            match self.push(frame.clone(), self.ends.outbox.limits().high_water) {
                Err(SendError::Full { .. }) => self.ready().await?,
                other => return other,
            }
        }
    }

    /// Queues a frame, unless the queue is at high water or above.
    /// # Errors
    /// [`SendError`].
    pub fn try_send(&self, frame: impl Into<Frame>) -> Result<(), SendError> {
        self.push(frame.into(), self.ends.outbox.limits().high_water)
    }

    /// Queues a frame that must not wait (an answer, a cancel), unless the queue is at its hard cap.
    /// # Errors
    /// [`SendError`].
    pub fn send_now(&self, frame: impl Into<Frame>) -> Result<(), SendError> {
        self.push(frame.into(), self.ends.outbox.limits().hard_cap)
    }

    fn push(&self, frame: Frame, cap: usize) -> Result<(), SendError> {
        match self.ends.outbox.push([frame.0], cap) {
            Sent::Queued | Sent::HighWater => Ok(()),
            Sent::Gone => Err(SendError::Closed),
            Sent::Overflow => Err(SendError::Full {
                queued: self.queued_bytes(),
            }),
        }
    }

    /// Waits until [`Sender::try_send`] takes a frame again.
    /// # Errors
    /// [`SendError::Closed`].
    pub async fn ready(&self) -> Result<(), SendError> {
        self.wait_below(self.ends.outbox.limits().high_water).await
    }

    /// Waits until all that was queued is with the kernel.
    /// # Errors
    /// [`SendError::Closed`]: it may not be.
    pub async fn flush(&self) -> Result<(), SendError> {
        self.wait_below(1).await
    }

    async fn wait_below(&self, bytes: usize) -> Result<(), SendError> {
        if self.ends.outbox.wait_below(bytes).await {
            Ok(())
        } else {
            Err(SendError::Closed)
        }
    }

    /// Bytes that wait for the server.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.ends.outbox.queued_bytes()
    }

    /// The bounds of the queue.
    #[must_use]
    pub fn limits(&self) -> OutboxLimits {
        self.ends.outbox.limits()
    }

    /// Ends the connection at once, for all clones and the receiver; what is queued is dropped.
    pub fn close(&self) {
        self.ends.outbox.close();
        shut_down(&self.ends.stream);
    }
}

/// The way in.
#[derive(Debug)]
pub struct Receiver {
    outbox: Arc<Outbox>,
    stream: Arc<UnixStream>,
    reader: FrameReader,
    ready: VecDeque<Message>,
}

impl Receiver {
    /// The next message. May be dropped while it waits; no message is lost.
    /// # Errors
    /// [`ReadEnd`], also for an orderly end.
    pub async fn recv(&mut self) -> Result<Message, ReadEnd> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(message);
            }
            let mut messages = Vec::new();
            let result = self.read(&mut messages).await;
            self.ready = messages.into();
            if self.ready.is_empty() {
                result?;
            }
        }
    }

    /// Waits for at least one message and appends all that are there to `out`, in order. May be dropped while it waits.
    /// # Errors
    /// [`ReadEnd`], also for an orderly end; messages before it were given out.
    pub async fn recv_many(&mut self, out: &mut Vec<Message>) -> Result<(), ReadEnd> {
        let before = out.len();
        out.extend(self.ready.drain(..));
        if out.len() > before {
            return Ok(());
        }
        match self.read(out).await {
            // The end is met again next time: the reader stays where it is.
            Err(_) if out.len() > before => Ok(()),
            other => other,
        }
    }

    async fn read(&mut self, out: &mut Vec<Message>) -> Result<(), ReadEnd> {
        let result = self.reader.read(&self.stream, out).await;
        if result.is_err() {
            // Nobody answers any more: senders are to know.
            self.outbox.close();
        }
        result.map(|_| ())
    }
}
