//! One connection: a reader task, a writer task, and the handle to both.
//!
//! ```text
//!  reader: frames ─▶ stamp ─▶ inbox (waits when it is full)         ends: EOF, no frame, socket broken, inbox gone
//!  writer: outbox ─▶ socket (waits when the peer does not read)     ends: outbox closed or finished, EPIPE
//! ```
//!
//! The reader says `Closed`, whoever ended it; a writer that ends shuts the socket down so that the reader hears of it.
//! After EPIPE the reader first takes in what the peer sent before it went.

use super::inbound::{CloseReason, ConnId, Credit, Inbound};
use super::partial::Partials;
use crate::frame::Frame;
use crate::outbox::{Outbox, Sent};
use crate::reader::FrameReader;
use bytes::Bytes;
use rustix::net::Shutdown;
use std::sync::{Arc, OnceLock, Weak};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use wire::Cred;

/// Reads of one connection that wait in the inbox at a time; then it is not read until one is taken. So nobody stands behind more of a
/// connection that floods than this.
const CHUNKS_PER_CONNECTION_MAX: usize = 2;
/// One unit of [`super::INBOX_BYTES_MAX`] in the semaphore's count.
const CREDIT_UNIT: usize = 1 << 10;

/// The broker's end of a connection's output. Cheap to clone; a handle to a connection that is over does nothing.
#[derive(Debug, Clone)]
pub struct ConnHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: ConnId,
    outbox: Outbox,
    /// The tasks hold the socket; when they are done, it is closed.
    stream: Weak<UnixStream>,
    /// Why this side ended it, if it did.
    ended: OnceLock<Ended>,
}

#[derive(Debug, Clone, Copy)]
enum Ended {
    Here,
    Overflow(usize),
}

impl ConnHandle {
    /// The connection's number.
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.shared.id
    }

    /// Queues a frame. Never waits. A peer that lets its queue reach the hard cap loses its connection.
    pub fn send(&self, frame: impl Into<Frame>) -> Sent {
        self.send_pieces([frame.into().0])
    }

    /// Queues the pieces of one or several frames, all or none of them, without joining them.
    pub fn send_pieces(&self, pieces: impl IntoIterator<Item = Bytes>) -> Sent {
        let outbox = &self.shared.outbox;
        let sent = outbox.push(pieces, outbox.limits().hard_cap);
        if sent == Sent::Overflow {
            self.end(Ended::Overflow(outbox.queued_bytes()));
        }
        sent
    }

    /// Bytes that wait for the peer.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.shared.outbox.queued_bytes()
    }

    /// Bytes that were ever queued, and how many of them the peer's socket took (or, at the end, were dropped).
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.shared.outbox.progress()
    }

    /// Nothing sent from now on arrives.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.outbox.is_closed()
    }

    /// Ends the connection; what waits for the peer is dropped. `Closed` follows.
    pub fn close(&self) {
        self.end(Ended::Here);
    }

    /// Ends the connection once the peer has read what waits for it. `Closed` follows.
    pub fn finish(&self) {
        let _ = self.shared.ended.set(Ended::Here);
        self.shared.outbox.finish();
    }

    /// A handle to no connection.
    #[cfg(test)]
    pub(super) fn loose(id: ConnId) -> ConnHandle {
        ConnHandle {
            shared: Arc::new(Shared {
                id,
                outbox: Outbox::new(crate::OutboxLimits::default()),
                stream: Weak::new(),
                ended: OnceLock::new(),
            }),
        }
    }

    fn end(&self, why: Ended) {
        let _ = self.shared.ended.set(why);
        self.shared.outbox.close();
        if let Some(stream) = self.shared.stream.upgrade() {
            shut_down(&stream);
        }
    }
}

/// Both directions: the peer sees EOF, and so does our reader.
fn shut_down(stream: &UnixStream) {
    if let Err(error) = rustix::net::shutdown(stream, Shutdown::Both) {
        // The peer was faster.
        tracing::trace!(%error, "shutdown");
    }
}

/// What a connection needs besides its socket.
pub(super) struct Start {
    pub(super) id: ConnId,
    pub(super) cred: Cred,
    pub(super) pid: Option<i32>,
    pub(super) uuid: Bytes,
    pub(super) outbox: Outbox,
    pub(super) frame_len_max: usize,
    pub(super) inbox: mpsc::Sender<Inbound>,
    pub(super) credits: Arc<Semaphore>,
    pub(super) partials: Arc<Partials>,
    pub(super) uid: u32,
    /// Dropped when the connection is over.
    pub(super) place: Place,
}

/// One of the places a server has for connections, and one of those its user has.
pub(super) struct Place {
    pub(super) _of_all: OwnedSemaphorePermit,
    pub(super) _of_user: Option<OwnedSemaphorePermit>,
}

/// Announces the connection and runs it to its end.
pub(super) async fn run(stream: UnixStream, start: Start) {
    let Start {
        id,
        cred,
        pid,
        uuid,
        outbox,
        frame_len_max,
        inbox,
        credits,
        partials,
        uid,
        place,
    } = start;
    let stream = Arc::new(stream);
    let shared = Arc::new(Shared {
        id,
        outbox,
        stream: Arc::downgrade(&stream),
        ended: OnceLock::new(),
    });
    let handle = ConnHandle {
        shared: Arc::clone(&shared),
    };
    let share = partials.share(uid, handle.clone());
    if inbox
        .send(Inbound::Opened {
            conn: id,
            handle,
            cred,
            pid,
            uuid,
        })
        .await
        .is_err()
    {
        return;
    }

    let writer = tokio::spawn({
        let (shared, stream, inbox) = (Arc::clone(&shared), Arc::clone(&stream), inbox.clone());
        async move {
            let drained = || async {
                let _ = inbox.send(Inbound::Drained { conn: id }).await;
            };
            match shared.outbox.write_to(&stream, drained).await {
                Ok(()) => shut_down(&stream),
                // The peer is gone; the reader takes in what it left, and then its EOF.
                Err(error) => {
                    tracing::debug!(conn = id.0, %error, "peer does not take what is written")
                }
            }
        }
    });

    let mut reader = FrameReader::new(frame_len_max).counted(share);
    let own = Arc::new(Semaphore::new(CHUNKS_PER_CONNECTION_MAX));
    let end = loop {
        let mut messages = Vec::new();
        let result = tokio::select! {
            biased;
            result = reader.read(&stream, &mut messages) => result,
            () = inbox.closed() => break None,
        };
        for message in &mut messages {
            *message.cred_mut() = cred.stamped(message.cred());
        }
        if !messages.is_empty() {
            let bytes = result.as_ref().map_or(0, |bytes| *bytes);
            let Some(credit) = take_credit(&own, &credits, bytes).await else {
                break None;
            };
            if inbox
                .send(Inbound::Messages {
                    conn: id,
                    messages,
                    credit,
                })
                .await
                .is_err()
            {
                break None;
            }
        }
        if let Err(end) = result {
            break Some(end);
        }
    };
    shared.outbox.close();
    shut_down(&stream);
    let _ = writer.await;
    drop((stream, place));
    if let Some(end) = end {
        let reason = match shared.ended.get() {
            Some(Ended::Here) => CloseReason::ClosedHere,
            Some(Ended::Overflow(queued)) => CloseReason::Overflow { queued: *queued },
            None => CloseReason::Read(end),
        };
        let _ = inbox.send(Inbound::Closed { conn: id, reason }).await;
    }
}

/// How many units there are for `bytes` in all.
pub(super) fn credits_for(bytes: usize) -> usize {
    bytes.div_ceil(CREDIT_UNIT)
}

async fn take_credit(
    own: &Arc<Semaphore>,
    credits: &Arc<Semaphore>,
    bytes: usize,
) -> Option<Credit> {
    let own = Arc::clone(own).acquire_owned().await.ok()?;
    let all = credits_for(super::INBOX_BYTES_MAX);
    let units = u32::try_from(credits_for(bytes).min(all)).unwrap_or(u32::MAX);
    Arc::clone(credits)
        .acquire_many_owned(units)
        .await
        .ok()
        .map(|all| Credit { own, all })
}
