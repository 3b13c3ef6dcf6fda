//! The connections: accepting, their bounds and times, and their end.
//!
//! | what | bound |
//! |---|---|
//! | connections | [`Bounds::connections`]; more are told 429 and closed |
//! | head of a request | [`HEAD_BYTES_MAX`], within [`Bounds::head_wait`] of the one before; slower: closed |
//! | an answer nobody reads | [`Bounds::read_wait`] for each step; slower: closed |
//! | the end | everybody has [`END_WAIT`] to take what is there |

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{
    app::{Shared, stopped},
    stall::Stall,
    watched::{Watched, gone},
};

/// Longest head of a request, and what is buffered of a connection at most in each direction.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 100;
/// How long connections may take to end.
pub(crate) const END_WAIT: Duration = Duration::from_secs(3);
/// The pause when no connection can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often forms of bodies that are gone are given back.
const SWEEP: Duration = Duration::from_secs(5);

const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain; charset=utf-8\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 31\r\n\r\ntoo many connections, try later";

/// What a connection may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most connections at a time, if the limit of open files has room for them.
    pub connections: usize,
    /// How long a request's head may take, and how long a connection may idle between requests.
    pub head_wait: Duration,
    /// How long a client may take to read a step of what is to be sent.
    pub read_wait: Duration,
    /// How long a read waits for the first list after a start.
    pub list_wait: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 32_768,
            head_wait: Duration::from_secs(30),
            read_wait: Duration::from_secs(30),
            list_wait: Duration::from_secs(10),
        }
    }
}

/// Serves until `stop`, and until what was begun then has ended.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Shared,
    router: Router,
    bounds: Bounds,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            _ = sweep.tick() => {
                app.forms.sweep();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < bounds.connections => {
                app.counters.accepted.fetch_add(1, Relaxed);
                let connection =
                    connection(stream, app.clone(), router.clone(), bounds, stop.clone());
                connections.spawn(connection);
            }
            Ok((stream, _)) => {
                app.counters.refused.fetch_add(1, Relaxed);
                refuse(&stream);
            }
            Err(error) => {
                tracing::debug!(%error, "no connection could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(END_WAIT, ended).await.is_err() {
        tracing::info!(
            left = connections.len(),
            "connections that have not ended are closed"
        );
    }
}

/// Tells it, if the kernel takes it at once, and closes.
fn refuse(stream: &TcpStream) {
    // What came and is not read would make the kernel throw our word away.
    let mut unread = [0; 4096];
    let _ = stream.try_read(&mut unread);
    let _ = stream.try_write(TOO_MANY);
}

/// Counts a connection for as long as it lives.
struct Counted(Shared);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Relaxed);
    }
}

async fn connection(
    stream: TcpStream,
    app: Shared,
    router: Router,
    bounds: Bounds,
    mut stop: watch::Receiver<bool>,
) {
    app.counters.connections.fetch_add(1, Relaxed);
    let _counted = Counted(app);
    // Answers are written whole: nothing is gained by waiting for more.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let io = Watched(stream.clone());
    let io = TokioIo::new(Stall::new(io, bounds.read_wait));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_wait)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(served);
    let ended = tokio::select! {
        biased;
        () = stopped(&mut stop) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
        ended = served.as_mut() => ended,
        () = gone(&stream) => {
            tracing::debug!("a client went away");
            return;
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
