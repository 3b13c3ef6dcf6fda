//! A job-manager for tests: serves the socket, says hello, offers jobs, and writes down what the engine answers.
//!
//! The engine under test is the real binary, in processes of its own, so that it can be killed. Nothing here sleeps: every wait
//! is for an event, and gives up loudly after [`WAIT_MAX`].
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test file uses its own part"
)]

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rpc::server::{ConnHandle, Inbound, Listener, Server, ServerConfig, Verdict, serve};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use wire::{Cred, Message, Request, Topic, errno, json_payload, parse_json};

/// Nothing takes this long.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

pub mod disk;

pub struct World {
    pub dir: tempfile::TempDir,
    pub disk: Option<disk::Disk>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    pub engine: Option<Child>,
    server: Option<Server>,
    inbound: mpsc::Receiver<Inbound>,
    conn: Option<ConnHandle>,
    answers: VecDeque<(String, Value)>,
    /// Ranks that the job-manager knows to be drained, as it answers an announcement; none if it keeps no resource log.
    pub drained: Option<Value>,
    /// What was told of nodes: announcements and events, in order. They are answered at once.
    pub nodes_told: VecDeque<(String, Value)>,
    /// Requests to the resource log that are refused, and how.
    pub refuses_nodes: Option<(u32, &'static str)>,
    /// What was told of parts, in order: (job, `ranks status`).
    pub parts_told: VecDeque<(u64, String)>,
    seq: u64,
    refused: usize,
}

pub fn owner() -> Cred {
    Cred {
        userid: rustix::process::geteuid().as_raw(),
        rolemask: wire::ROLE_OWNER,
    }
}

impl World {
    /// A job-manager, and an engine that is ready.
    pub async fn new(arguments: &[&str]) -> World {
        let mut world = World::without_engine(arguments);
        world.start_engine();
        world.greet(&[]).await;
        world
    }

    /// With its state directory on a disk of its own; none where there can be none.
    pub fn on_disk(kib: u32, arguments: &[&str]) -> Option<World> {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk::Disk::mount(dir.path(), kib)?;
        let mut world = World::within(dir, arguments);
        world.disk = Some(disk);
        Some(world)
    }

    pub fn without_engine(arguments: &[&str]) -> World {
        World::within(tempfile::tempdir().unwrap(), arguments)
    }

    fn within(dir: tempfile::TempDir, arguments: &[&str]) -> World {
        std::fs::write(dir.path().join("key"), "secret\n").unwrap();
        let (server, inbound) = listen(&dir);
        World {
            dir,
            disk: None,
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            environment: Vec::new(),
            engine: None,
            server: Some(server),
            inbound,
            conn: None,
            answers: VecDeque::new(),
            drained: Some(json!([])),
            nodes_told: VecDeque::new(),
            refuses_nodes: None,
            parts_told: VecDeque::new(),
            seq: 0,
            refused: 0,
        }
    }

    /// Waits until these ranks, an idset, are online.
    pub async fn until_online(&mut self, online: &str) {
        loop {
            self.ask_as("resource.status", &json!({}), 3, owner());
            if self.answer().await.1["online"] == online {
                return;
            }
        }
    }

    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    pub fn uri(&self) -> String {
        rpc::uri::of_socket(&self.dir.path().join("socket"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-job-runner"));
        command
            .args(["--uri", &self.uri(), "--statedir"])
            .arg(self.dir.path())
            .args(&self.arguments);
        if !self
            .arguments
            .iter()
            .any(|one| one == "--die-with-supervisor")
        {
            // A test that fails leaves nothing running.
            command
                .arg("--supervisor")
                .arg(std::process::id().to_string());
        }
        command
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        if std::env::var_os("WEIR_LOG").is_none() {
            command.env("WEIR_LOG", "error");
        }
        command
    }

    pub fn start_engine(&mut self) {
        self.engine = Some(self.command().spawn().unwrap());
    }

    pub fn kill_engine(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.kill().unwrap();
            engine.wait().unwrap();
        }
    }

    /// The engine ends politely; jobs go on.
    pub fn stop_engine(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            let pid = rustix::process::Pid::from_child(&engine);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            engine.wait().unwrap();
        }
    }

    /// For the next engine.
    pub fn set_arguments(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
    }

    /// The job-manager dies and comes back on the same socket.
    pub fn restart_manager(&mut self) {
        self.server = None;
        self.conn = None;
        self.answers.clear();
        let (server, inbound) = listen(&self.dir);
        (self.server, self.inbound) = (Some(server), inbound);
    }

    /// Serves the engine's handshake; `held` are (id, R) of jobs that hold resources.
    pub async fn greet(&mut self, held: &[(u64, Value)]) {
        self.greet_while(held, |_, _| {}).await;
    }

    /// The same; `look` is called with the number of announcements refused so far, at each step.
    pub async fn greet_while(&mut self, held: &[(u64, Value)], look: impl Fn(&mut World, usize)) {
        self.conn = None;
        self.refused = 0;
        self.answers.clear();
        let mut services = Vec::new();
        loop {
            let request = self.request(&look).await;
            let payload: Value = request
                .payload
                .as_deref()
                .map_or(Value::Null, |payload| parse_json(payload).unwrap());
            match request.topic.as_str() {
                "service.add" => {
                    assert_eq!(payload["key"], "secret");
                    services.push(payload["service"].as_str().unwrap().to_owned());
                    self.respond(&request, None);
                }
                "job-manager.sched-hello" => {
                    assert!(request.is_streaming());
                    for (id, r) in held {
                        let row = json!({"id": id, "priority": 16, "userid": owner().userid, "t_submit": 1.0, "R": r});
                        self.respond(&request, Some(&row));
                    }
                    self.send(Message::Response(request.error(errno::ENODATA, None)));
                }
                "job-manager.exec-hello" => {
                    assert_eq!(payload["service"], "job-exec");
                    self.respond(&request, None);
                }
                "job-manager.sched-ready" => {
                    assert_eq!(payload["mode"], "limited");
                    assert!(payload["limit"].as_u64().unwrap() >= 16);
                    self.respond(&request, Some(&json!({"count": 0})));
                    assert_eq!(services, ["sched", "job-exec", "resource"]);
                    return;
                }
                other => panic!("unexpected {other}"),
            }
        }
    }

    fn send(&self, message: Message) {
        let _ = self.conn.as_ref().expect("a connection").send(message);
    }

    fn respond(&self, request: &Request, payload: Option<&Value>) {
        self.send(Message::Response(
            request.respond(payload.map(json_payload)),
        ));
    }

    async fn inbound(&mut self) -> Vec<Message> {
        loop {
            let next = tokio::time::timeout(WAIT_MAX, self.inbound.recv())
                .await
                .expect("the engine says nothing");
            match next.expect("the server ended") {
                Inbound::Opened { handle, .. } => self.conn = Some(handle),
                Inbound::Messages { messages, .. } => {
                    for message in &messages {
                        self.hear_of_nodes(message);
                    }
                    return messages;
                }
                Inbound::Drained { .. } | Inbound::Closed { .. } => {}
            }
        }
    }

    /// Takes in what the engine says of nodes, and answers it.
    fn hear_of_nodes(&mut self, message: &Message) {
        let Message::Request(request) = message else {
            return;
        };
        let name = match request.topic.as_str() {
            "job-manager.resource-announce" => "announce",
            "job-manager.resource-event" => "event",
            _ => return,
        };
        let payload: Value = parse_json(request.payload.as_deref().unwrap()).unwrap();
        let refused = match (&self.drained, self.refuses_nodes) {
            (None, _) => Some((errno::ENOSYS, "Unknown service method")),
            (_, refused) => refused,
        };
        if let Some((errnum, text)) = refused {
            self.refused += 1;
            return self.send(Message::Response(request.error(errnum, Some(text))));
        }
        self.seq += 1;
        let mut answer = json!({"seq": self.seq});
        if name == "announce" {
            answer["drained"] = self.drained.clone().unwrap();
        }
        self.respond(request, Some(&answer));
        self.nodes_told.push_back((name.to_owned(), payload));
    }

    /// The next thing that is told of nodes.
    pub async fn node_told(&mut self) -> (String, Value) {
        loop {
            if let Some(told) = self.nodes_told.pop_front() {
                return told;
            }
            self.take_answers().await;
        }
    }

    /// The next thing that is told of parts of a job.
    pub async fn part_told(&mut self) -> (u64, String) {
        loop {
            self.put_parts_aside();
            if let Some(told) = self.parts_told.pop_front() {
                return told;
            }
            self.take_answers().await;
        }
    }

    async fn request(&mut self, look: impl Fn(&mut World, usize)) -> Request {
        loop {
            for message in self.inbound().await {
                look(self, self.refused);
                match message {
                    Message::Request(request)
                        if request.topic.as_str().starts_with("job-manager.resource-") => {}
                    Message::Request(request) => return request,
                    Message::Response(response) => {
                        panic!("unexpected response to {}", response.topic.as_str())
                    }
                    _ => {}
                }
            }
        }
    }

    /// Asks the engine something, as the job-manager does: matchtag 0.
    pub fn ask(&self, topic: &str, payload: &Value) {
        self.ask_as(topic, payload, 0, owner());
    }

    pub fn ask_as(&self, topic: &str, payload: &Value, tag: u32, cred: Cred) {
        let topic = Topic::parse(bytes::Bytes::copy_from_slice(topic.as_bytes())).unwrap();
        let mut request = Request::new(topic, Some(json_payload(payload)), tag);
        request.cred = cred;
        self.send(Message::Request(request));
    }

    /// As another client of the broker would: with a route.
    pub fn ask_by(&self, hops: &[&str], topic: &str, payload: &str, tag: u32) {
        let topic = Topic::parse(bytes::Bytes::copy_from_slice(topic.as_bytes())).unwrap();
        let payload = wire::nul_terminated(payload.as_bytes());
        let mut request = Request::new(topic, Some(payload), tag);
        request.cred = owner();
        let hops = hops.iter();
        request.routes = Some(hops.map(|hop| hop.as_bytes().to_vec().into()).collect());
        self.send(Message::Request(request));
    }

    /// Waits for the next answer: its topic and payload; for an error `{"errnum":…, "text":…}`. What is told of parts is put aside.
    pub async fn answer(&mut self) -> (String, Value) {
        loop {
            self.put_parts_aside();
            if let Some(answer) = self.answers.pop_front() {
                return answer;
            }
            self.take_answers().await;
        }
    }

    /// The same, what is told of parts as well.
    pub async fn any_answer(&mut self) -> (String, Value) {
        while self.answers.is_empty() {
            self.take_answers().await;
        }
        self.answers.pop_front().unwrap()
    }

    fn put_parts_aside(&mut self) {
        let is_of_parts = |answer: &(String, Value)| answer.1["type"] == "alloc-status";
        let (parts, others) = self.answers.drain(..).partition(is_of_parts);
        self.answers = others;
        let parts: VecDeque<(String, Value)> = parts;
        for (_, payload) in parts {
            let id = payload["id"].as_u64().unwrap();
            for one in payload["data"]["allocs"].as_array().unwrap() {
                let (ranks, status) = (one["ranks"].as_str(), one["status"].as_str());
                let told = format!("{} {}", ranks.unwrap(), status.unwrap());
                self.parts_told.push_back((id, told));
            }
        }
    }

    async fn take_answers(&mut self) {
        for message in self.inbound().await {
            let Message::Response(response) = message else {
                continue;
            };
            let payload = if response.errnum == 0 {
                response
                    .payload
                    .as_deref()
                    .map_or(Value::Null, |payload| parse_json(payload).unwrap())
            } else {
                json!({"errnum": response.errnum, "text": response.payload.as_deref().and_then(wire::text_of)})
            };
            self.answers
                .push_back((response.topic.as_str().to_owned(), payload));
        }
    }

    /// Offers a job and waits until it has resources: its R.
    pub async fn alloc(&mut self, id: u64, jobspec: &Value) -> Value {
        self.ask("sched.alloc", &alloc(id, jobspec));
        let (topic, answer) = self.answer().await;
        assert_eq!(
            (topic.as_str(), &answer["id"], &answer["type"]),
            ("sched.alloc", &json!(id), &json!(0)),
            "{answer}"
        );
        assert!(answer["annotations"]["sched"]["resource_summary"].is_string());
        answer["R"].clone()
    }

    pub fn start(&self, id: u64, jobspec: &Value, r: &Value, reattach: bool, environment: &Value) {
        let mut whole = jobspec.clone();
        whole["attributes"]["system"]["environment"] = environment.clone();
        use base64::Engine as _;
        let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
        let j = format!("{}.{}.none", encode("x".into()), encode(whole.to_string()));
        let start = json!({
            "id": id, "userid": owner().userid, "jobspec": jobspec, "reattach": reattach, "R": r, "J": j
        });
        self.ask("job-exec.start", &start);
    }

    /// What the engine tells of a job until it is released: `start`, `exception timeout: note`, `finish 256`, `release`.
    pub async fn told(&mut self, id: u64) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let (word, last) = self.tell(id).await;
            told.push(word);
            if last {
                return told;
            }
        }
    }

    /// The next thing told of a job, and whether it is the last.
    pub async fn tell(&mut self, id: u64) -> (String, bool) {
        let (topic, answer) = self.answer().await;
        assert_eq!(
            (topic.as_str(), &answer["id"]),
            ("job-exec.start", &json!(id)),
            "{answer}"
        );
        let data = &answer["data"];
        match answer["type"].as_str().unwrap() {
            "exception" => {
                assert_eq!(data["severity"], 0, "{answer}");
                (
                    format!(
                        "exception {}: {}",
                        data["type"].as_str().unwrap(),
                        data["note"].as_str().unwrap()
                    ),
                    false,
                )
            }
            "finish" => (
                format!("finish {}", data["status"]),
                data["release"]["final"] == true,
            ),
            "release" => ("release".to_owned(), data["final"] == true),
            other => (other.to_owned(), false),
        }
    }

    /// The next thing told of a job, exceptions with their severity, and whether it is the last.
    pub async fn tell_any(&mut self, id: u64) -> (String, bool) {
        let (topic, answer) = self.answer().await;
        assert_eq!(
            (topic.as_str(), &answer["id"]),
            ("job-exec.start", &json!(id)),
            "{answer}"
        );
        let data = &answer["data"];
        let kind = answer["type"].as_str().unwrap();
        let told = match kind {
            "exception" => format!(
                "exception {} {}: {}",
                data["severity"],
                data["type"].as_str().unwrap(),
                data["note"].as_str().unwrap()
            ),
            "finish" => format!("finish {}", data["status"]),
            other => other.to_owned(),
        };
        (told, kind == "release" || kind == "finish")
    }

    /// All that is told of a job until it is released, exceptions with their severity: `start`, `exception 2 output: note`, `finish 256`.
    pub async fn told_all(&mut self, id: u64) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let (word, last) = self.tell_any(id).await;
            told.push(word);
            if last {
                return told;
            }
        }
    }

    pub fn free(&self, id: u64, r: &Value) {
        self.ask("sched.free", &json!({"id": id, "R": r, "final": true}));
    }

    /// Runs a job from offer to end.
    pub async fn run(&mut self, id: u64, jobspec: &Value) -> Vec<String> {
        let r = self.alloc(id, jobspec).await;
        self.start(
            id,
            jobspec,
            &r,
            false,
            &json!({"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}),
        );
        let told = self.told(id).await;
        self.free(id, &r);
        told
    }

    /// Runs `sh -c SCRIPT` in the state directory.
    pub async fn sh(&mut self, id: u64, script: &str) -> Vec<String> {
        let jobspec = self.script(script);
        self.run(id, &jobspec).await
    }

    pub fn script(&self, script: &str) -> Value {
        self.jobspec(&["sh", "-c", script])
    }

    pub fn jobspec(&self, command: &[&str]) -> Value {
        jobspec(command, self.dir.path().to_str().unwrap())
    }

    /// Entries of a log of a job, as (name, context).
    pub fn log(&self, id: u64, name: &str) -> Vec<(String, Value)> {
        entries(&self.read(&format!("jobs/{id}/{name}")))
    }

    /// All data a job wrote to a stream.
    pub fn output(&self, id: u64, stream: &str) -> String {
        self.log(id, "output.eventlog")
            .iter()
            .filter(|(name, context)| name == "data" && context["stream"] == stream)
            .filter_map(|(_, context)| context["data"].as_str())
            .collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            // Node processes end when they are told so, which a polite end of the engine does.
            let pid = rustix::process::Pid::from_child(&engine);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = engine.wait();
        }
        self.server = None;
        self.disk = None;
    }
}

fn listen(dir: &tempfile::TempDir) -> (Server, mpsc::Receiver<Inbound>) {
    let path = dir.path().join("socket");
    let _ = std::fs::remove_file(&path);
    let listener = Listener::bind(&path, 0o600).unwrap();
    serve(listener, ServerConfig::default(), |_| {
        Verdict::Welcome(owner())
    })
}

pub fn jobspec(command: &[&str], cwd: &str) -> Value {
    json!({
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "cwd": cwd}},
        "version": 1
    })
}

pub fn alloc(id: u64, jobspec: &Value) -> Value {
    json!({"id": id, "priority": 16, "userid": owner().userid, "t_submit": 1.5, "jobspec": jobspec})
}

pub fn entries(text: &str) -> Vec<(String, Value)> {
    assert!(
        text.is_empty() || text.ends_with('\n'),
        "a torn line: {text}"
    );
    text.lines()
        .map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            assert!(entry["timestamp"].is_f64(), "{line}");
            (
                entry["name"].as_str().unwrap().to_owned(),
                entry["context"].clone(),
            )
        })
        .collect()
}

/// Waits until `what` holds, woken by changes below `dir`.
pub async fn until(mut what: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    while !what() {
        assert!(
            tokio::time::Instant::now() < deadline,
            "it did not come to that"
        );
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether a process is there and no zombie.
pub fn lives(pid: i32) -> bool {
    job_runner::proc::stat(pid).is_some_and(|stat| stat.state != b'Z')
}

pub fn kill9(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
