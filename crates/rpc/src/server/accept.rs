//! Accepting: peer credentials, the policy, the handshake byte; then the connection has tasks of its own.
//!
//! ```text
//!  client connects ─▶ SO_PEERCRED ─▶ policy(uid) ─┬─ Welcome(cred): byte 0, `Opened`
//!                                                └─ Refuse(errno): that byte, close
//! ```
//!
//! Places for connections are counted, those of a user who is not the one that runs this process apart: nobody takes all of them from the
//! others. The client sends nothing before it has the byte. When the process is out of file descriptors, accepting backs off and
//! tries again, for ever, without spinning.

use super::conn::{self, Place, Start};
use super::inbound::{ConnId, FIRST_CONN_ID, INBOX_BYTES_MAX, INBOX_CHUNKS_MAX, Inbound};
use super::listen::Listener;
use super::partial::{PartialLimits, Partials};
use crate::outbox::{Outbox, OutboxLimits};
use bytes::Bytes;
use rustix::net::SendFlags;
use rustix::rand::GetRandomFlags;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use wire::{Cred, FRAME_LEN_MAX_DEFAULT, errno};

/// Connections at a time unless told otherwise; one more is refused with EAGAIN.
const CONNECTIONS_MAX: usize = 65_536;
/// Another user than our own has one part in this many of them at most.
const USER_PARTS: usize = 4;
/// The first and the longest pause after accepting failed.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The byte that lets a client in.
const WELCOME: u8 = 0;

/// What the policy says about a user id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let in, with these credentials on all it sends (see [`Cred::stamped`]).
    Welcome(Cred),
    /// Kept out; the client prints this number's text.
    Refuse(u32),
}

/// The bounds of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerConfig {
    /// The longest frame body taken.
    pub frame_len_max: usize,
    /// The bounds of each connection's output queue.
    pub outbox: OutboxLimits,
    /// Connections at a time.
    pub connections_max: usize,
    /// Bytes of frames whose rest has not come.
    pub partial: PartialLimits,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            frame_len_max: FRAME_LEN_MAX_DEFAULT,
            outbox: OutboxLimits::default(),
            connections_max: CONNECTIONS_MAX,
            partial: PartialLimits::default(),
        }
    }
}

/// A server that accepts. Dropping it ends accepting and removes the socket file; connections go on.
#[derive(Debug)]
pub struct Server {
    task: tokio::task::JoinHandle<()>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    accept_failures: AtomicU64,
    refused: AtomicU64,
}

impl Server {
    /// How often accepting failed (no file descriptors, no memory).
    #[must_use]
    pub fn accept_failures(&self) -> u64 {
        self.counts.accept_failures.load(Ordering::Relaxed)
    }

    /// How many clients were refused, by the policy or for want of places.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.counts.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins to accept on `listener`. `policy` says for each peer's user id whether it gets in. What comes in is in the
/// receiver; dropping that ends all connections.
///
/// Must be called within a tokio runtime.
pub fn serve(
    listener: Listener,
    config: ServerConfig,
    policy: impl Fn(u32) -> Verdict + Send + 'static,
) -> (Server, mpsc::Receiver<Inbound>) {
    let (inbox, inbound) = mpsc::channel(INBOX_CHUNKS_MAX);
    let counts = Arc::new(Counts::default());
    let own_uid = rustix::process::getuid().as_raw();
    let acceptor = Acceptor {
        config,
        inbox,
        credits: Arc::new(Semaphore::new(conn::credits_for(INBOX_BYTES_MAX))),
        places: Places::new(config.connections_max, own_uid),
        partials: Partials::new(config.partial, own_uid),
        next_id: FIRST_CONN_ID,
        counts: Arc::clone(&counts),
    };
    let task = tokio::spawn(acceptor.run(listener, policy));
    (Server { task, counts }, inbound)
}

/// The places for connections.
struct Places {
    all: Arc<Semaphore>,
    /// Of each other user that was ever here.
    of_user: HashMap<u32, Arc<Semaphore>>,
    per_user: usize,
    own_uid: u32,
}

impl Places {
    fn new(most: usize, own_uid: u32) -> Places {
        let most = most.min(Semaphore::MAX_PERMITS);
        Places {
            all: Arc::new(Semaphore::new(most)),
            of_user: HashMap::new(),
            per_user: (most / USER_PARTS).max(1),
            own_uid,
        }
    }

    /// A place for this user, if there is one.
    fn take(&mut self, uid: u32) -> Option<Place> {
        let of_user = if uid == self.own_uid {
            None
        } else {
            let places = self
                .of_user
                .entry(uid)
                .or_insert_with(|| Arc::new(Semaphore::new(self.per_user)));
            Some(Arc::clone(places).try_acquire_owned().ok()?)
        };
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place {
            _of_all: of_all,
            _of_user: of_user,
        })
    }
}

struct Acceptor {
    config: ServerConfig,
    inbox: mpsc::Sender<Inbound>,
    credits: Arc<Semaphore>,
    places: Places,
    partials: Arc<Partials>,
    next_id: u64,
    counts: Arc<Counts>,
}

impl Acceptor {
    async fn run(mut self, listener: Listener, policy: impl Fn(u32) -> Verdict) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let accepted = tokio::select! {
                accepted = listener.listener.accept() => accepted,
                () = self.inbox.closed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    backoff = BACKOFF_MIN;
                    if let Err(error) = self.greet(stream, &policy) {
                        tracing::debug!(%error, "client gone before it was let in");
                    }
                }
                // The client gave up while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.counts.accept_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(%error, again_in_ms = backoff.as_millis(), "cannot accept a client");
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(BACKOFF_MAX);
                }
            }
        }
    }

    fn greet(&mut self, stream: UnixStream, policy: impl Fn(u32) -> Verdict) -> io::Result<()> {
        // Not rustix's: its type cannot say the pid 0 that a peer in a foreign pid namespace has.
        let peer = stream.peer_cred()?;
        let uid = peer.uid();
        let cred = match policy(uid) {
            Verdict::Welcome(cred) => cred,
            Verdict::Refuse(errnum) => return self.refuse(&stream, uid, errnum),
        };
        let Some(place) = self.places.take(uid) else {
            return self.refuse(&stream, uid, errno::EAGAIN);
        };
        let uuid = random_uuid()?;
        say(&stream, WELCOME)?;
        let id = ConnId(self.next_id);
        self.next_id += 1;
        tokio::spawn(conn::run(
            stream,
            Start {
                id,
                cred,
                pid: peer.pid(),
                uuid,
                outbox: Outbox::new(self.config.outbox),
                frame_len_max: self.config.frame_len_max,
                inbox: self.inbox.clone(),
                credits: Arc::clone(&self.credits),
                partials: Arc::clone(&self.partials),
                uid,
                place,
            },
        ));
        Ok(())
    }

    fn refuse(&self, stream: &UnixStream, uid: u32, errnum: u32) -> io::Result<()> {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        tracing::info!(uid, errnum, "client refused");
        let byte = u8::try_from(errnum)
            .ok()
            .filter(|byte| *byte != WELCOME)
            .unwrap_or(errno::EPERM as u8);
        say(stream, byte)
    }
}

/// Writes the handshake byte. The socket is new, so there is room for it: this never waits.
fn say(stream: &UnixStream, byte: u8) -> io::Result<()> {
    rustix::net::send(stream, &[byte], SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A random (version 4) UUID in its usual spelling: the hop of a peer.
/// # Errors
/// The system has no randomness.
pub fn random_uuid() -> io::Result<Bytes> {
    let mut random = [0u8; 16];
    let mut filled = 0;
    while filled < random.len() {
        filled += rustix::rand::getrandom(&mut random[filled..], GetRandomFlags::empty())?;
    }
    random[6] = (random[6] & 0x0f) | 0x40;
    random[8] = (random[8] & 0x3f) | 0x80;
    let mut text = Vec::with_capacity(36);
    for (at, byte) in random.into_iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push(b'-');
        }
        for nibble in [byte >> 4, byte & 0x0f] {
            text.push(b"0123456789abcdef"[usize::from(nibble)]);
        }
    }
    Ok(Bytes::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invariant_7_another_user_has_a_part_of_the_places_and_our_own_all_that_are_left() {
        let mut places = Places::new(16, 7);
        let guest: Vec<_> = (0..10).map_while(|_| places.take(8)).collect();
        assert_eq!(guest.len(), 4);
        assert!(places.take(9).is_some(), "it is free again at once");
        let own: Vec<_> = (0..20).map_while(|_| places.take(7)).collect();
        assert_eq!(own.len(), 12);
        assert!(places.take(9).is_none(), "none is left");
        drop(guest);
        assert!(places.take(8).is_some());
    }

    #[test]
    fn uuids_have_36_characters_and_differ() {
        let (a, b) = (random_uuid().unwrap(), random_uuid().unwrap());
        assert_ne!(a, b);
        for uuid in [a, b] {
            assert_eq!((uuid.len(), uuid[14]), (36, b'4'));
            let dashes: Vec<usize> = uuid
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'-')
                .map(|(at, _)| at)
                .collect();
            assert_eq!(dashes, [8, 13, 18, 23]);
        }
    }
}
