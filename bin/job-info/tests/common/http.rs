//! A client of HTTP for tests that hides nothing: what is sent is written out, what comes back is read as it is.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{net::SocketAddr, time::Duration};

use job_info::http::{Bounds, Options};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{Broker, Feed, Instance, caught_up, within};

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.0 == name);
        found.map(|header| header.1.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The ids of a list.
    pub(crate) fn ids(&self) -> Vec<String> {
        let list = self.json();
        let all = list.as_array().expect("an array").iter();
        all.map(|one| one["ID"].as_str().expect("an ID").to_owned())
            .collect()
    }

    pub(crate) fn index(&self) -> u64 {
        let index = self.header("x-nomad-index").expect("an index");
        index.parse().expect("a number")
    }
}

/// One connection.
pub(crate) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = within("a connection", TcpStream::connect(address));
        Self(BufReader::new(stream.await.expect("a connection")))
    }

    pub(crate) async fn send(&mut self, text: &str) {
        let sent = self.0.get_mut().write_all(text.as_bytes());
        within("room", sent).await.expect("sent");
    }

    /// The next line, without its end; `None`: the connection is closed.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match within("a line", self.0.read_line(&mut line)).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end_matches(['\r', '\n']).to_owned()),
        }
    }

    /// The head of an answer; `None`: the connection is closed.
    pub(crate) async fn head(&mut self) -> Option<Reply> {
        let first = self.line().await?;
        let status = first.strip_prefix("HTTP/1.").expect("a status line");
        let status = status[2..5].parse().expect("a status");
        let mut headers = Vec::new();
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a header");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Reply {
            status,
            headers,
            body: Vec::new(),
        })
    }

    /// A whole answer; `None`: the connection is closed.
    pub(crate) async fn reply(&mut self) -> Option<Reply> {
        let mut reply = self.head().await?;
        if reply.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                reply.body.extend_from_slice(&chunk);
            }
        } else if let Some(length) = reply.header("content-length") {
            reply.body = vec![0; length.parse().expect("a length")];
            let read = self.0.read_exact(&mut reply.body);
            within("a body", read).await.expect("a whole body");
        }
        Some(reply)
    }

    /// The next chunk of a body; `None`: it is over, properly.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line().await.expect("a chunk, or the last one");
        let length = usize::from_str_radix(&line, 16).expect("a length");
        let mut chunk = vec![0; length + 2];
        let read = self.0.read_exact(&mut chunk);
        within("a chunk", read).await.expect("a whole chunk");
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }

    /// Whether the other side closes, saying nothing more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0; 1];
        !matches!(within("the end", self.0.read(&mut byte)).await, Ok(1))
    }
}

/// The events of a stream.
pub(crate) struct Events {
    wire: Wire,
    text: String,
}

/// One event: its name, its id, its data.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Events {
    /// The next event; `None`: the stream is over, properly.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let mut lines = block.lines();
                    lines.find_map(|line| {
                        line.strip_prefix(name)?
                            .strip_prefix(": ")
                            .map(str::to_owned)
                    })
                };
                if let Some(name) = field("event") {
                    let data = field("data").expect("data");
                    return Some(Event {
                        name,
                        id: field("id").unwrap_or_default(),
                        data: serde_json::from_str(&data).unwrap_or(Value::String(data)),
                    });
                }
            }
            let chunk = self.wire.chunk().await?;
            self.text
                .push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }
}

/// Where the instance serves HTTP, and how one gets in.
#[derive(Debug, Clone)]
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Web {
    pub(crate) fn of(instance: &Instance) -> Self {
        Self::in_directory(instance.dir.path())
    }

    pub(crate) fn in_directory(dir: &std::path::Path) -> Self {
        let read = |name: &str| {
            let text = std::fs::read_to_string(dir.join(name));
            text.expect(name).trim().to_owned()
        };
        Self {
            address: read("http").parse().expect("an address"),
            token: read("http-token"),
        }
    }

    /// The head of a request that is let in.
    pub(crate) fn head(&self, method: &str, path: &str, more: &str) -> String {
        let Self { address, token } = self;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nX-Nomad-Token: {token}\r\n{more}\r\n"
        )
    }

    /// Sends a request on a connection of its own, whose answer is read later.
    pub(crate) async fn begin(&self, path: &str) -> Wire {
        let mut wire = Wire::open(self.address).await;
        wire.send(&self.head("GET", path, "")).await;
        wire
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_with(path, "").await
    }

    pub(crate) async fn get_with(&self, path: &str, more: &str) -> Reply {
        self.raw(&self.head("GET", path, more)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Reply {
        let more = format!(
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.raw(&(self.head("POST", path, &more) + body)).await
    }

    pub(crate) async fn method(&self, method: &str, path: &str) -> Reply {
        self.raw(&self.head(method, path, "")).await
    }

    /// Sends any text.
    pub(crate) async fn raw(&self, text: &str) -> Reply {
        let mut wire = Wire::open(self.address).await;
        wire.send(text).await;
        wire.reply().await.expect("an answer")
    }

    /// Opens a stream of events.
    pub(crate) async fn events(&self, path: &str, more: &str) -> Events {
        let mut wire = Wire::open(self.address).await;
        wire.send(&self.head("GET", path, more)).await;
        let head = wire.head().await.expect("an answer");
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Events {
            wire,
            text: String::new(),
        }
    }

    /// Waits until somebody serves here, and follows its journal.
    pub(crate) async fn ready(&self) {
        let is_ready = async || {
            let stream = TcpStream::connect(self.address).await.ok()?;
            let mut wire = Wire(BufReader::new(stream));
            let ask = self.head("GET", "/healthz", "");
            wire.0.get_mut().write_all(ask.as_bytes()).await.ok()?;
            wire.reply().await.filter(|reply| reply.status == 200)
        };
        let ready = async {
            while is_ready().await.is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within("somebody who serves", ready).await;
    }

    /// Waits until a metric has a value.
    pub(crate) async fn metric(&self, line: &str) {
        let met = async {
            loop {
                let text = self.get("/metrics").await;
                if text.text().lines().any(|met| met == line) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        within(line, met).await;
    }
}

/// How tests serve: any port, bounds that do not make them wait.
pub(crate) fn options() -> Options {
    Options {
        address: "127.0.0.1:0".parse().expect("an address"),
        open: false,
        bounds: Bounds {
            list_wait: Duration::from_millis(200),
            ..Bounds::default()
        },
    }
}

/// A job-info with HTTP that follows an empty journal.
pub(crate) async fn serving(options: Options) -> (Instance, Broker, Feed, Web) {
    let mut instance = Instance::new();
    let mut broker = Broker::new(&instance);
    instance.start_with(|config| config.http = Some(options));
    broker.accept().await;
    broker.play(&caught_up(0));
    let web = Web::of(&instance);
    // An answer from the list: it is there.
    web.get("/v1/jobs?after=0").await;
    (instance, broker, Feed::default(), web)
}
