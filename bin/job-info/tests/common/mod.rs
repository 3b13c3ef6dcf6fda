//! A broker for tests: it speaks the wire, follows a script and decides nothing.
//!
//! The job-info under test connects to it as to any broker; the test plays journal batches, sends requests as if a client
//! had, and reads what comes back, in order. Every wait is bounded.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

pub(crate) mod http;

use std::{collections::VecDeque, future::Future, path::PathBuf, time::Duration};

use bytes::Bytes;
use job_info::Config;
use rpc::{
    ConnHandle, ConnId, Inbound, Listener, Server, ServerConfig, Verdict,
    client::{Client, Connection, Retry},
    server,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use wire::{Cred, Flags, Message, Request, Response, Topic};

pub(crate) const EPOCH: &str = "00000000000000e1";
pub(crate) const OWNER: u32 = 1000;
/// Nothing waits so long but on a machine that is busy with other things.
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(WAIT_MAX, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Processor time of this test so far: its runtime, with job-info and the broker in it, is one thread. What others do on the machine
/// does not count.
pub(crate) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a time")
}

/// Runs a test on a runtime as the daemons have it.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}

pub(crate) struct Instance {
    pub(crate) dir: tempfile::TempDir,
    shutdown: Option<oneshot::Sender<()>>,
    task: Option<tokio::task::JoinHandle<anyhow::Result<()>>>,
}

impl Instance {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("key"), "c0ffee\n").expect("a key");
        Self {
            dir,
            shutdown: None,
            task: None,
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn job_dir(&self, id: u64) -> PathBuf {
        self.dir.path().join("jobs").join(id.to_string())
    }

    pub(crate) fn start(&mut self) {
        self.start_with(|_| {});
    }

    pub(crate) fn start_with(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = Config {
            socket: self.socket(),
            statedir: self.dir.path().to_owned(),
            reconnect: Duration::from_millis(50),
            private: false,
            allow_guests: false,
            http: None,
        };
        change(&mut config);
        let (shutdown, asked) = oneshot::channel();
        self.shutdown = Some(shutdown);
        self.task = Some(tokio::spawn(job_info::run(config, async {
            let _ = asked.await;
        })));
    }

    pub(crate) async fn stop(&mut self) {
        drop(self.shutdown.take());
        if let Some(task) = self.task.take() {
            within("job-info to stop", task)
                .await
                .expect("no panic")
                .expect("no error");
        }
    }

    /// A client of job-info's own socket.
    pub(crate) async fn direct(&self) -> Client {
        let options = rpc::client::ConnectOptions {
            retry: Retry::USUAL,
            ..Default::default()
        };
        let connection =
            Connection::connect_with(self.dir.path().join("job-info.socket"), &options);
        Client::new(
            within("job-info's own socket", connection)
                .await
                .expect("a connection"),
        )
    }
}

pub(crate) struct Broker {
    _server: Server,
    inbound: mpsc::Receiver<Inbound>,
    conn: Option<(ConnId, ConnHandle)>,
    ready: VecDeque<Message>,
    pub(crate) journal: Option<Request>,
    /// Names that are refused with EEXIST.
    pub(crate) taken: Vec<&'static str>,
    pub(crate) names_asked: usize,
    last_tag: u32,
}

impl Broker {
    pub(crate) fn new(instance: &Instance) -> Self {
        let listener = Listener::bind(&instance.socket(), 0o777).expect("a socket");
        let (server, inbound) = server::serve(listener, ServerConfig::default(), |uid| {
            Verdict::Welcome(Cred::owner(uid))
        });
        Self {
            _server: server,
            inbound,
            conn: None,
            ready: VecDeque::new(),
            journal: None,
            taken: Vec::new(),
            names_asked: 0,
            last_tag: 0,
        }
    }

    /// Waits for a connection and its journal request, answering `service.add` on the way; the journal request's payload.
    pub(crate) async fn accept(&mut self) -> Value {
        self.journal = None;
        self.ready.clear();
        while self.journal.is_none() {
            let message = self.next_message().await;
            self.ready.push_back(message);
            self.take_known();
        }
        payload_of(
            self.journal
                .as_ref()
                .and_then(|request| request.payload.as_ref()),
        )
    }

    /// Answers what every broker answers; keeps the journal request.
    fn take_known(&mut self) {
        let mut left = VecDeque::new();
        while let Some(message) = self.ready.pop_front() {
            match message {
                Message::Request(request) if request.topic.as_str() == "service.add" => {
                    self.names_asked += 1;
                    let ask = payload_of(request.payload.as_ref());
                    assert_eq!(ask["key"], "c0ffee");
                    let taken = self.taken.iter().any(|name| ask["service"] == *name);
                    let answer = if taken {
                        request.error(17, None)
                    } else {
                        request.respond(None)
                    };
                    self.send(answer);
                }
                Message::Request(request)
                    if request.topic.as_str().starts_with("job-manager.events") =>
                {
                    self.journal = Some(request);
                }
                other => left.push_back(other),
            }
        }
        self.ready = left;
    }

    async fn next_message(&mut self) -> Message {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return message;
            }
            match within("a message of job-info", self.inbound.recv())
                .await
                .expect("the server runs")
            {
                Inbound::Opened { conn, handle, .. } => {
                    self.conn = Some((conn, handle));
                    self.ready.clear();
                }
                Inbound::Messages { conn, messages, .. }
                    if self.conn.as_ref().is_some_and(|(id, _)| *id == conn) =>
                {
                    self.ready.extend(messages);
                }
                _ => {}
            }
        }
    }

    /// Waits for another journal request on the same connection; its payload.
    pub(crate) async fn request_journal(&mut self) -> Value {
        self.journal = None;
        while self.journal.is_none() {
            self.look().await;
        }
        payload_of(
            self.journal
                .as_ref()
                .and_then(|request| request.payload.as_ref()),
        )
    }

    /// Takes in one message, and handles it if every broker would.
    pub(crate) async fn look(&mut self) {
        let message = self.next_message().await;
        self.ready.push_front(message);
        self.take_known();
    }

    /// The next message that is neither a name nor a journal request.
    pub(crate) async fn next(&mut self) -> Message {
        loop {
            let message = self.next_message().await;
            self.ready.push_front(message);
            self.take_known();
            if let Some(message) = self.ready.pop_front() {
                return message;
            }
        }
    }

    /// The next message must be a response: its matchtag, errnum and payload.
    pub(crate) async fn response(&mut self) -> (u32, u32, Value) {
        match self.next().await {
            Message::Response(response) => {
                let value = match response.errnum {
                    0 => payload_of(response.payload.as_ref()),
                    _ => json!(response.payload.as_deref().and_then(wire::text_of)),
                };
                (response.matchtag, response.errnum, value)
            }
            other => panic!("expected a response, got {other:?}"),
        }
    }

    /// The next message must be the success of `tag`.
    pub(crate) async fn answer(&mut self, tag: u32) -> Value {
        let (met, errnum, value) = self.response().await;
        assert_eq!((met, errnum), (tag, 0), "{value}");
        value
    }

    /// The next message must be an error of `tag`: errnum and text.
    pub(crate) async fn error(&mut self, tag: u32) -> (u32, Value) {
        let (met, errnum, value) = self.response().await;
        assert_eq!(met, tag, "errnum {errnum} {value}");
        assert_ne!(errnum, 0, "{value}");
        (errnum, value)
    }

    /// The next message must be a request of job-info's own.
    pub(crate) async fn request(&mut self) -> (Request, Value) {
        match self.next().await {
            Message::Request(request) => {
                let payload = payload_of(request.payload.as_ref());
                (request, payload)
            }
            other => panic!("expected a request, got {other:?}"),
        }
    }

    pub(crate) fn send(&self, message: impl Into<rpc::Frame>) {
        let (_, handle) = self.conn.as_ref().expect("a connection");
        let _ = handle.send(message);
    }

    pub(crate) fn respond(&self, request: &Request, payload: &Value) {
        self.send(request.respond(Some(wire::json_payload(payload))));
    }

    /// Plays journal text.
    pub(crate) fn play(&self, text: &str) {
        let journal = self.journal.as_ref().expect("a journal request");
        self.send(journal.respond(Some(wire::nul_terminated(text.as_bytes()))));
    }

    pub(crate) fn end_journal(&self, errnum: u32, text: &str) {
        let journal = self.journal.as_ref().expect("a journal request");
        self.send(journal.error(errnum, Some(text)));
    }

    /// Sends a request as if the client `hop` had; its tag.
    pub(crate) fn ask(&mut self, hop: &'static str, topic: &'static str, payload: &Value) -> u32 {
        self.ask_as(hop, topic, payload, Cred::owner(OWNER), Flags::NONE)
    }

    pub(crate) fn ask_stream(
        &mut self,
        hop: &'static str,
        topic: &'static str,
        payload: &Value,
    ) -> u32 {
        self.ask_as(hop, topic, payload, Cred::owner(OWNER), Flags::STREAMING)
    }

    pub(crate) fn ask_as(
        &mut self,
        hop: &'static str,
        topic: &'static str,
        payload: &Value,
        cred: Cred,
        flags: Flags,
    ) -> u32 {
        let payload = (!payload.is_null()).then(|| wire::json_payload(payload));
        self.ask_bytes(hop, topic, payload, cred, flags)
    }

    /// Sends a request whose payload is any text.
    pub(crate) fn ask_text(&mut self, hop: &'static str, topic: &'static str, text: &str) -> u32 {
        let payload = Some(wire::nul_terminated(text.as_bytes()));
        self.ask_bytes(hop, topic, payload, Cred::owner(OWNER), Flags::NONE)
    }

    /// The same from a client that writes hops of its own: the newest is the broker's.
    pub(crate) fn ask_hops(
        &mut self,
        hops: &[&'static str],
        topic: &'static str,
        flags: Flags,
    ) -> u32 {
        self.last_tag += 1;
        let payload = Some(wire::nul_terminated(b"{}"));
        let mut request = Request::new(Topic::from(topic), payload, self.last_tag);
        let hops = hops.iter().map(|hop| Bytes::from_static(hop.as_bytes()));
        request.routes = Some(hops.collect());
        request.cred = Cred::owner(OWNER);
        request.flags = flags;
        self.send(request);
        self.last_tag
    }

    fn ask_bytes(
        &mut self,
        hop: &'static str,
        topic: &'static str,
        payload: Option<Bytes>,
        cred: Cred,
        flags: Flags,
    ) -> u32 {
        self.last_tag += 1;
        let mut request = Request::new(Topic::from(topic), payload, self.last_tag);
        request.routes = Some(vec![
            Bytes::from_static(hop.as_bytes()),
            Bytes::from_static(b"behind"),
        ]);
        request.cred = cred;
        request.flags = flags;
        self.send(request);
        self.last_tag
    }

    /// Sends a request that is not answered.
    pub(crate) fn tell(&mut self, hop: &'static str, topic: &'static str, payload: &Value) {
        self.ask_as(hop, topic, payload, Cred::owner(OWNER), Flags::NORESPONSE);
    }

    /// All that comes until the end of stream `tag`.
    pub(crate) async fn drain(&mut self, tag: u32) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            match self.response().await {
                (met, 61, _) if met == tag => return all,
                (met, 0, value) if met == tag => all.push(value),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Cuts the connection; the broker is still there.
    pub(crate) fn cut(&mut self) {
        if let Some((_, handle)) = self.conn.take() {
            handle.close();
        }
    }
}

pub(crate) fn payload_of(payload: Option<&Bytes>) -> Value {
    match payload {
        None => Value::Null,
        Some(payload) => wire::parse_json(payload).expect("a JSON object"),
    }
}

/// Makes journal text.
#[derive(Default)]
pub(crate) struct Feed {
    pub(crate) seq: u64,
    pub(crate) time: f64,
    numbers: std::collections::HashMap<u64, u32>,
}

impl Feed {
    pub(crate) fn entry(&mut self, id: u64, name: &str, context: Value, attach: Value) -> Value {
        self.seq += 1;
        self.time += 0.5;
        let number = self
            .numbers
            .entry(id)
            .and_modify(|number| *number += 1)
            .or_insert(1);
        let mut event = json!({"timestamp": self.time, "name": name});
        if !context.is_null() {
            event["context"] = context;
        }
        let mut entry = json!({"seq": self.seq, "id": id, "eventlog_seq": *number, "entry": event});
        for (key, value) in attach.as_object().into_iter().flatten() {
            entry[key] = value.clone();
        }
        entry
    }

    pub(crate) fn submit(&mut self, id: u64, user: u32, urgency: u32) -> Vec<Value> {
        let spec = json!({
            "resources":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}],
            "tasks":[{"command":["sleep","1"],"slot":"task","count":{"per_slot":1}}],
            "attributes":{"system":{"duration":0}},"version":1});
        vec![
            self.entry(
                id,
                "submit",
                json!({"userid":user,"urgency":urgency,"flags":0,"version":1}),
                json!({"jobspec":spec}),
            ),
            self.entry(id, "validate", Value::Null, Value::Null),
            self.entry(id, "depend", Value::Null, Value::Null),
            self.entry(id, "priority", json!({"priority":urgency}), Value::Null),
        ]
    }

    pub(crate) fn alloc(&mut self, id: u64) -> Vec<Value> {
        let r = json!({"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],
            "nodelist":["n0"],"starttime":0.0,"expiration":0.0}});
        vec![
            self.entry(id, "alloc", Value::Null, json!({"R":r})),
            self.entry(id, "start", Value::Null, Value::Null),
        ]
    }

    pub(crate) fn end(&mut self, id: u64) -> Vec<Value> {
        vec![
            self.entry(id, "finish", json!({"status":0}), Value::Null),
            self.entry(
                id,
                "release",
                json!({"ranks":"all","final":true}),
                Value::Null,
            ),
            self.entry(id, "free", Value::Null, Value::Null),
            self.entry(id, "clean", Value::Null, Value::Null),
        ]
    }

    pub(crate) fn live(&self, entries: &[Value]) -> String {
        json!({"epoch":EPOCH,"seq":self.seq,"events":entries}).to_string()
    }
}

pub(crate) fn backlog(entries: &[Value]) -> String {
    json!({"epoch":EPOCH,"backlog":true,"events":entries}).to_string()
}

pub(crate) fn caught_up(seq: u64) -> String {
    json!({"epoch":EPOCH,"seq":seq,"caught_up":true,"events":[]}).to_string()
}

/// The same, with the state of the nodes.
pub(crate) fn caught_up_with(seq: u64, resources: &Value) -> String {
    json!({"epoch":EPOCH,"seq":seq,"caught_up":true,"resources":resources,"events":[]}).to_string()
}

pub(crate) fn mark(seq: u64) -> String {
    json!({"epoch":EPOCH,"mark":seq}).to_string()
}

/// Eventlog text of entries.
pub(crate) fn log_text(entries: &[Value]) -> String {
    entries
        .iter()
        .map(|entry| format!("{}\n", entry["entry"]))
        .collect()
}

/// A job-info that follows an empty journal of this broker.
pub(crate) async fn following() -> (Instance, Broker, Feed) {
    let mut instance = Instance::new();
    let mut broker = Broker::new(&instance);
    instance.start();
    assert_eq!(broker.accept().await, json!({"from":"all"}));
    broker.play(&caught_up(0));
    (instance, broker, Feed::default())
}

pub(crate) fn respond_error(request: &Request, errnum: u32, text: &str) -> Response {
    request.error(errnum, Some(text))
}
