//! An instance that is a script: answers as a test says and remembers what it was asked. Runs in a thread of its own on a real
//! socket, so that what is tested is the whole program.

use bytes::Bytes;
use rpc::server::{Inbound, Listener, ServerConfig, Verdict, serve};
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use wire::{Cred, Message, Request, json_payload};

/// How long a test waits for the program to ask for something.
const ASKED_WITHIN: Duration = Duration::from_secs(20);

/// What the fake answers.
pub(crate) enum Answer {
    /// A response.
    Ok(Value),
    /// An error response.
    Refuse(u32, Option<&'static str>),
    /// A stream of these, then its normal end.
    Stream(Vec<Value>),
    /// A stream of these that stays open.
    Open(Vec<Value>),
    /// A stream of these, then the connection is closed.
    Cut(Vec<Value>),
}

/// A request, as the fake got it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) topic: String,
    pub(crate) payload: Value,
}

/// The fake instance; gone when dropped.
pub(crate) struct Fake {
    dir: tempfile::TempDir,
    asked: Receiver<Asked>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Fake {
    /// Starts one whose main socket answers by `script`.
    pub(crate) fn start(script: impl FnMut(&str, &Value) -> Answer + Send + 'static) -> Self {
        Self::start_at("socket", script)
    }

    /// Starts one on another socket of its state directory.
    pub(crate) fn start_at(
        name: &str,
        script: impl FnMut(&str, &Value) -> Answer + Send + 'static,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (asked_sender, asked) = channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (bound_sender, bound) = channel();
        let path = dir.path().join(name);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = Listener::bind(&path, 0o700).unwrap();
                let cred = Cred {
                    userid: rustix::process::getuid().as_raw(),
                    rolemask: 5,
                };
                let (_server, inbound) = serve(listener, ServerConfig::default(), move |_| {
                    Verdict::Welcome(cred)
                });
                bound_sender.send(()).unwrap();
                tokio::select! {
                    () = answer(inbound, script, asked_sender, cred) => {}
                    _ = stopped => {}
                }
            });
        });
        bound.recv().unwrap();
        Self {
            dir,
            asked,
            _stop: stop,
        }
    }

    /// The main socket's path, whether or not that is the one served.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// The next request, whatever it is.
    pub(crate) fn asked(&self) -> Asked {
        self.asked
            .recv_timeout(ASKED_WITHIN)
            .expect("the program asked for nothing")
    }

    /// The next request for that topic; others before it are passed over.
    pub(crate) fn asked_for(&self, topic: &str) -> Value {
        loop {
            let asked = self.asked();
            if asked.topic == topic {
                return asked.payload;
            }
        }
    }
}

async fn answer(
    mut inbound: tokio::sync::mpsc::Receiver<Inbound>,
    mut script: impl FnMut(&str, &Value) -> Answer,
    asked: Sender<Asked>,
    cred: Cred,
) {
    let mut handles = HashMap::new();
    while let Some(input) = inbound.recv().await {
        let (conn, messages) = match input {
            Inbound::Opened { conn, handle, .. } => {
                handles.insert(conn, handle);
                continue;
            }
            Inbound::Messages { conn, messages, .. } => (conn, messages),
            Inbound::Closed { conn, .. } => {
                handles.remove(&conn);
                continue;
            }
            Inbound::Drained { .. } => continue,
        };
        for message in messages {
            let Message::Request(request) = message else {
                continue;
            };
            let payload: Value = request
                .payload
                .as_deref()
                .map_or(Value::Null, |bytes| wire::parse_json(bytes).unwrap());
            let topic = request.topic.as_str().to_owned();
            let _ = asked.send(Asked {
                topic: topic.clone(),
                payload: payload.clone(),
            });
            if !request.expects_response() {
                continue;
            }
            let Some(handle) = handles.get(&conn) else {
                continue;
            };
            let send = |response: wire::Response| {
                let _ = handle.send(wire::Response { cred, ..response });
            };
            let stream = |values: Vec<Value>, request: &Request| {
                for value in values {
                    send(request.respond(payload_of(&value)));
                }
            };
            match script(&topic, &payload) {
                Answer::Ok(value) => send(request.respond(payload_of(&value))),
                Answer::Refuse(errnum, text) => send(request.error(errnum, text)),
                Answer::Stream(values) => {
                    stream(values, &request);
                    send(request.error(61, None));
                }
                Answer::Open(values) => stream(values, &request),
                Answer::Cut(values) => {
                    stream(values, &request);
                    handle.finish();
                }
            }
        }
    }
}

fn payload_of(value: &Value) -> Option<Bytes> {
    (!value.is_null()).then(|| json_payload(value))
}
