//! The loop: waits for whatever comes first, hands it to [`Info`], lets streams send a slice, and again.
//!
//! One task, and nothing in it waits for a reader: what is sent is queued, the connections' own tasks write it. What came
//! in is handled in order, for [`HANDLE_SLICE`] at most before streams have their turn.

use std::{
    collections::VecDeque,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    time::{Duration, Instant},
};

use anyhow::Context;
use rpc::{
    CloseReason, Connection, Inbound, Listener, Server, ServerConfig, Verdict,
    client::{ConnectError, ConnectOptions, Receiver, Sender},
    server,
};
use rustix::fs::{FlockOperation, Mode, OFlags};
use tokio::sync::mpsc;
use wire::{Cred, Message, errno};

use crate::{
    Config,
    core::Info,
    http::Serving,
    link::Lost,
    peer::{ClientKey, OUT_LIMITS, Via},
};

/// Longest time that incoming messages are handled before streams send.
const HANDLE_SLICE: Duration = Duration::from_millis(1);
/// How long the broker may take to let us in.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// Connections to our own socket at a time. Each may have a little unread.
const CONNECTIONS_MAX: usize = 4096;
/// Permissions of our own socket: who gets in is decided by the peer's user id.
const SOCKET_MODE: u32 = 0o777;

type Connecting = Pin<Box<dyn Future<Output = Result<Connection, ConnectError>> + Send>>;

/// Our own socket, while we hold the lock on it.
struct Direct {
    _lock: std::fs::File,
    _server: Server,
    inbound: mpsc::Receiver<Inbound>,
}

/// Serves until `shutdown`.
pub(crate) async fn serve(
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let now = Instant::now();
    let jitter = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), now);
    let retry_direct = config.reconnect;
    let socket = config.socket.clone();
    let mut direct = Direct::open(&config, uid)?;
    let mut direct_due = now + retry_direct;
    let mut http = Serving::new(config.http, uid, now);
    let mut http_left = false;
    let mut info = Info::new(config, Cred::owner(uid), jitter, now);
    let mut connecting: Option<Connecting> = None;
    let mut receiver: Option<Receiver> = None;
    let mut inbox: VecDeque<Message> = VecDeque::new();
    let mut read: Vec<Message> = Vec::new();
    tokio::pin!(shutdown);

    loop {
        let now = Instant::now();
        if !info.link.up && connecting.is_none() && info.link.due.is_some_and(|due| due <= now) {
            info.link.attempts += 1;
            info.link.due = None;
            connecting = Some(connect(socket.clone()));
        }
        if direct.is_none() && direct_due <= now {
            direct_due = now + retry_direct;
            direct = Direct::open(&info.config, uid).unwrap_or_else(|error| {
                tracing::debug!(%error, "our own socket is not there yet");
                None
            });
        }
        http.begin(&mut info, direct.is_some(), now)?;
        let connect_due = info
            .link
            .due
            .filter(|_| !info.link.up && connecting.is_none());
        let direct_wake = direct.is_none().then_some(direct_due);
        // Here too: where something else is always ready, the timer below never gets its turn.
        if info.next_tick(now).is_some_and(|due| due <= now) {
            info.tick(now);
        }
        let http_wake = http.due(direct.is_some());
        let deadline = [info.next_tick(now), connect_due, direct_wake, http_wake]
            .into_iter()
            .flatten()
            .min();
        let room = info
            .out
            .broker()
            .filter(|_| info.streams.has_blocked())
            .cloned();
        let busy = info.streams.has_ready() || !inbox.is_empty() || http_left;

        tokio::select! {
            biased;
            () = &mut shutdown => {
                http.end(&mut info).await;
                return Ok(());
            }
            result = recv(&mut receiver, &mut read), if inbox.is_empty() => match result {
                Ok(()) => inbox.extend(read.drain(..)),
                Err(end) => {
                    receiver = None;
                    info.link_lost(&end, Lost::Broken, Instant::now());
                }
            },
            inbound = Direct::recv(&mut direct) => take_inbound(&mut info, inbound),
            events = info.files.happened() => match events {
                Ok(events) => {
                    let jobs = info.files.take_in(events);
                    info.files_changed(jobs);
                }
                Err(error) => return Err(error).context("cannot read file events"),
            },
            connected = poll(&mut connecting) => {
                connecting = None;
                match connected {
                    Ok(connection) => {
                        let (sender, read_end) = connection.split_with(OUT_LIMITS);
                        receiver = Some(read_end);
                        info.link_up(sender);
                    }
                    Err(error) => {
                        let how = match error {
                            ConnectError::NotThere { .. } | ConnectError::NotServed { .. } => Lost::Absent,
                            _ => Lost::Broken,
                        };
                        info.link_lost(&error, how, Instant::now());
                    }
                }
            },
            done = info.reads.done() => info.lookup_read(done),
            () = http.ready() => {}
            () = has_room(room) => info.streams.unblock(Via::Broker),
            () = until(deadline) => info.tick(Instant::now()),
            () = std::future::ready(()), if busy => {}
        }

        let start = Instant::now();
        while let Some(message) = inbox.pop_front() {
            match message {
                Message::Request(request) => info.take_request(Via::Broker, request, start),
                Message::Response(response) => info.take_response(&response, start),
                Message::Event(_) | Message::Control(_) => {}
            }
            if start.elapsed() >= HANDLE_SLICE {
                break;
            }
        }
        info.pump();
        http_left = http.work(&mut info);
        // The connections' own tasks get to read and write.
        tokio::task::yield_now().await;
    }
}

fn connect(socket: PathBuf) -> Connecting {
    let options = ConnectOptions {
        handshake_wait: HANDSHAKE_WAIT,
        ..ConnectOptions::default()
    };
    Box::pin(async move { Connection::connect_with(&socket, &options).await })
}

async fn recv(
    receiver: &mut Option<Receiver>,
    read: &mut Vec<Message>,
) -> Result<(), rpc::ReadEnd> {
    match receiver {
        Some(receiver) => receiver.recv_many(read).await,
        None => std::future::pending().await,
    }
}

async fn poll(connecting: &mut Option<Connecting>) -> Result<Connection, ConnectError> {
    match connecting {
        Some(connecting) => connecting.await,
        None => std::future::pending().await,
    }
}

async fn has_room(sender: Option<Sender>) {
    match sender {
        // An error means that the connection is over; the reader tells.
        Some(sender) if sender.ready().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

fn take_inbound(info: &mut Info, inbound: Inbound) {
    let now = Instant::now();
    match inbound {
        Inbound::Opened { conn, handle, .. } => info.out.open(conn, handle),
        Inbound::Messages {
            conn,
            messages,
            credit,
        } => {
            for message in messages {
                if let Message::Request(request) = message {
                    info.take_request(Via::Direct(conn), request, now);
                }
            }
            drop(credit);
        }
        Inbound::Drained { conn } => info.streams.unblock(Via::Direct(conn)),
        Inbound::Closed { conn, reason } => {
            if let CloseReason::Overflow { .. } = reason {
                tracing::info!(conn = conn.0, %reason, "client dropped");
            }
            info.out.close(conn);
            info.forget_client(&ClientKey::new(Via::Direct(conn), None), |_| true);
        }
    }
}

impl Direct {
    /// Takes our own socket, unless another job-info of this state directory has it.
    fn open(config: &Config, uid: u32) -> anyhow::Result<Option<Self>> {
        let path = config.statedir.join("job-info.lock");
        let Some(lock) = lock(&path).with_context(|| format!("cannot lock {}", path.display()))?
        else {
            tracing::info!("another job-info serves job-info.socket; on standby");
            return Ok(None);
        };
        let listener = Listener::bind(&config.statedir.join("job-info.socket"), SOCKET_MODE)?;
        let guests = config.allow_guests;
        let policy = move |peer: u32| {
            if peer == uid {
                Verdict::Welcome(Cred::owner(peer))
            } else if guests {
                Verdict::Welcome(Cred::guest(peer))
            } else {
                Verdict::Refuse(errno::EPERM)
            }
        };
        let limits = ServerConfig {
            outbox: OUT_LIMITS,
            connections_max: CONNECTIONS_MAX,
            ..ServerConfig::default()
        };
        let (server, inbound) = server::serve(listener, limits, policy);
        Ok(Some(Self {
            _lock: lock,
            _server: server,
            inbound,
        }))
    }

    async fn recv(direct: &mut Option<Self>) -> Inbound {
        let received = match direct {
            Some(direct) => direct.inbound.recv().await,
            None => std::future::pending().await,
        };
        match received {
            Some(inbound) => inbound,
            // The server lives as long as `direct`.
            None => std::future::pending().await,
        }
    }
}

/// The lock file, locked; `None` when another process holds the lock.
fn lock(path: &Path) -> std::io::Result<Option<std::fs::File>> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
