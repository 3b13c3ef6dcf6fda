//! A server in a directory of its own, and waits that end.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use rpc::server::{
    CloseReason, ConnHandle, ConnId, Inbound, Listener, Server, ServerConfig, Verdict, serve,
};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use wire::{Cred, Message, Request};

/// Longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future)
        .await
        .expect("it should have happened by now")
}

pub struct World {
    pub dir: TempDir,
    pub path: PathBuf,
    pub server: Server,
    pub inbound: mpsc::Receiver<Inbound>,
}

pub fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

impl World {
    pub fn new() -> World {
        World::with(ServerConfig::default(), |uid| {
            Verdict::Welcome(Cred::owner(uid))
        })
    }

    pub fn with(config: ServerConfig, policy: impl Fn(u32) -> Verdict + Send + 'static) -> World {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = Listener::bind(&path, 0o777).unwrap();
        let (server, inbound) = serve(listener, config, policy);
        World {
            dir,
            path,
            server,
            inbound,
        }
    }

    /// A bare client, let in; and the server's handle to it.
    pub async fn connect(&mut self) -> (UnixStream, ConnHandle) {
        let mut stream = UnixStream::connect(&self.path).await.unwrap();
        assert_eq!(soon(stream.read_u8()).await.unwrap(), 0);
        let handle = self.opened().await;
        (stream, handle)
    }

    pub async fn next(&mut self) -> Inbound {
        soon(self.inbound.recv()).await.expect("the server lives")
    }

    pub async fn opened(&mut self) -> ConnHandle {
        match self.next().await {
            Inbound::Opened { handle, .. } => handle,
            other => panic!("not opened: {other:?}"),
        }
    }

    pub async fn messages(&mut self) -> (ConnId, Vec<Message>) {
        match self.next().await {
            Inbound::Messages { conn, messages, .. } => (conn, messages),
            other => panic!("no messages: {other:?}"),
        }
    }

    pub async fn closed(&mut self) -> (ConnId, CloseReason) {
        match self.next().await {
            Inbound::Closed { conn, reason } => (conn, reason),
            other => panic!("not closed: {other:?}"),
        }
    }
}

pub async fn write(stream: &mut UnixStream, message: impl Into<Message>) {
    soon(stream.write_all(&wire::to_frame(&message.into())))
        .await
        .unwrap();
}

pub fn ask(matchtag: u32) -> Request {
    Request::new("service.method", None, matchtag)
}

/// A server that answers by a few made-up methods; see `answer`.
pub fn spawn_service(
    mut inbound: mpsc::Receiver<Inbound>,
) -> tokio::task::JoinHandle<Vec<Request>> {
    tokio::spawn(async move {
        let mut handles = std::collections::HashMap::new();
        let mut streams = std::collections::HashMap::new();
        let mut seen = Vec::new();
        while let Some(inbound) = inbound.recv().await {
            match inbound {
                Inbound::Opened { conn, handle, .. } => {
                    handles.insert(conn, handle);
                }
                Inbound::Messages { conn, messages, .. } => {
                    for message in messages {
                        let Message::Request(request) = message else {
                            continue;
                        };
                        seen.push(request.clone());
                        if let Some(handle) = handles.get(&conn) {
                            answer(handle, request, &mut streams);
                        }
                    }
                }
                Inbound::Closed { .. } => return seen,
                Inbound::Drained { .. } => {}
            }
        }
        seen
    })
}

/// `echo` answers with its payload, `fail` with an error, `late` not at all; `count` streams 0, 1, 2 … as often as its
/// payload's `n` says and ends; `watch` streams one answer and goes on until cancelled; `event.subscribe` is answered and
/// followed by an event; `hangup` closes.
fn answer(
    handle: &ConnHandle,
    request: Request,
    streams: &mut std::collections::HashMap<u32, Request>,
) {
    let send = |mut response: wire::Response| {
        response.cred = Cred::owner(0);
        let _ = handle.send(response);
    };
    match request.topic.as_str() {
        "test.echo" => send(request.respond(request.payload.clone())),
        "test.fail" => send(request.error(wire::errno::EINVAL, Some("no such thing"))),
        "test.mute" => send(request.error(wire::errno::EPERM, None)),
        "test.raw" => send(request.respond(Some(bytes::Bytes::from_static(b"no nul")))),
        "test.late" => {}
        "test.count" => {
            #[derive(serde::Deserialize)]
            struct Count {
                n: u32,
            }
            let count: Count = wire::parse_json(request.payload.as_deref().unwrap()).unwrap();
            for at in 0..count.n {
                send(request.respond(Some(wire::json_payload(&serde_json::json!({"at": at})))));
            }
            send(request.error(wire::errno::ENODATA, None));
        }
        "test.watch" => {
            send(request.respond(Some(wire::json_payload(
                &serde_json::json!({"tag": request.matchtag}),
            ))));
            streams.insert(request.matchtag, request);
        }
        "test.watch-cancel" => {
            #[derive(serde::Deserialize)]
            struct Cancel {
                matchtag: u32,
            }
            let cancel: Cancel = wire::parse_json(request.payload.as_deref().unwrap()).unwrap();
            if let Some(watch) = streams.remove(&cancel.matchtag) {
                send(watch.error(wire::errno::ENODATA, None));
            }
        }
        "event.subscribe" => {
            send(request.respond(None));
            for topic in ["other.thing", "job-state"] {
                let event = wire::Event {
                    topic: topic.into(),
                    payload: None,
                    routes: Some(vec![]),
                    cred: Cred::owner(0),
                    flags: wire::Flags::NONE,
                    sequence: 1,
                };
                let _ = handle.send(event);
            }
        }
        "test.hangup" => handle.close(),
        _ => send(request.unknown_method()),
    }
}
