//! A daemon in this process, clients of it, and waits that end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use job_manager::{Config, Stop};
use rpc::RpcError;
use rpc::client::{Client, Connection, Reply, Stream};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(120);

pub(crate) const JOBSPEC: &str = r#"{"resources":[{"type":"slot","count":1,"with":[{"type":"core","count":1}],"label":"task"}],"tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0,"cwd":"/tmp","environment":{"HOME":"/root"}}},"version":1}"#;

/// An id that no job of a young instance has.
pub(crate) const NOBODY: u64 = 1 << 60;

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future)
        .await
        .expect("it should have happened by now")
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// `J` with mechanism none.
pub(crate) fn wrap(userid: u32, jobspec: &str) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    format!(
        "{}.{}.none",
        STANDARD.encode(header),
        STANDARD.encode(jobspec)
    )
}

/// The payload of a plain submit.
pub(crate) fn submission(urgency: i64) -> Value {
    json!({"J": wrap(own_uid(), JOBSPEC), "urgency": urgency, "flags": 0})
}

pub(crate) struct World {
    pub(crate) config: Config,
    dir: TempDir,
    stop: oneshot::Sender<()>,
    daemon: JoinHandle<Result<(), Stop>>,
}

impl World {
    /// A new instance.
    pub(crate) async fn new() -> World {
        World::with(|_| {}).await
    }

    /// A new instance with other options.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new(dir.path().join("state"));
        change(&mut config);
        World::open(dir, config).await
    }

    /// The instance in `dir`.
    pub(crate) async fn open(dir: TempDir, config: Config) -> World {
        let (stop, stopped) = oneshot::channel();
        let daemon = tokio::spawn(job_manager::run(config.clone(), async {
            let _ = stopped.await;
        }));
        let world = World {
            config,
            dir,
            stop,
            daemon,
        };
        world.client().await;
        world
    }

    /// Ends the daemon as SIGTERM does; its directory stays.
    pub(crate) async fn stop(self) -> (TempDir, Config) {
        drop(self.stop);
        soon(self.daemon).await.unwrap().unwrap();
        (self.dir, self.config)
    }

    /// Waits for the daemon to give up: its directory, and why.
    pub(crate) async fn failed(self) -> (TempDir, Config, String) {
        match soon(self.daemon).await.unwrap() {
            Err(Stop::Failed(text)) => (self.dir, self.config, text),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for the daemon to end because it was asked to shut the instance down.
    pub(crate) async fn was_shut_down(self) {
        assert_eq!(soon(self.daemon).await.unwrap(), Err(Stop::ShutDown));
    }

    /// Ends the daemon and starts it again.
    pub(crate) async fn restart(self) -> World {
        let (dir, config) = self.stop().await;
        World::open(dir, config).await
    }

    /// Connects, once the daemon is there.
    pub(crate) async fn connection(&self) -> Connection {
        soon(async {
            loop {
                match Connection::connect(&self.config.socket).await {
                    Ok(connection) => return connection,
                    Err(error) if error.may_be_retried() && !self.daemon.is_finished() => {
                        tokio::task::yield_now().await;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::new(self.connection().await)
    }

    pub(crate) fn key(&self) -> String {
        let key = std::fs::read_to_string(self.path("key")).unwrap();
        key.trim().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.config.statedir.join(name)
    }
}

/// Calls and reads the answer; no payload is `null`.
pub(crate) async fn call(client: &Client, topic: &str, payload: Value) -> Result<Value, RpcError> {
    let answer = soon(client.call(topic.to_owned(), &payload)).await?;
    Ok(value(&answer))
}

/// The same where it is to succeed.
pub(crate) async fn ok(client: &Client, topic: &str, payload: Value) -> Value {
    match call(client, topic, payload).await {
        Ok(answer) => answer,
        Err(error) => panic!("{topic}: {} {error}", error.errnum),
    }
}

/// The same where it is to be refused: errno and text.
pub(crate) async fn refused(client: &Client, topic: &str, payload: Value) -> (u32, String) {
    match call(client, topic, payload).await {
        Ok(answer) => panic!("{topic} was answered {answer}"),
        Err(error) => (error.errnum, error.text),
    }
}

pub(crate) fn value(json: &Bytes) -> Value {
    if json.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(json).unwrap()
    }
}

/// Submits one job: id and seq.
pub(crate) async fn submit(client: &Client) -> (u64, u64) {
    submit_at(client, 16).await
}

pub(crate) async fn submit_at(client: &Client, urgency: i64) -> (u64, u64) {
    ids(&ok(client, "job-ingest.submit", submission(urgency)).await)
}

pub(crate) fn ids(answer: &Value) -> (u64, u64) {
    (int(answer, "id"), int(answer, "seq"))
}

pub(crate) fn int(value: &Value, key: &str) -> u64 {
    value[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Submits many, all on the way at once.
pub(crate) async fn submit_many(client: &Client, count: usize) -> Vec<(u64, u64)> {
    let payload = submission(16);
    let mut replies: Vec<Reply> = Vec::with_capacity(count);
    for _ in 0..count {
        replies.push(client.begin("job-ingest.submit", &payload).await.unwrap());
    }
    let mut all = Vec::with_capacity(count);
    for reply in replies {
        all.push(ids(&value(&soon(reply.json()).await.unwrap())));
    }
    all
}

/// The counters.
pub(crate) async fn stats(client: &Client) -> Value {
    ok(client, "job-manager.stats-get", json!({})).await
}

/// Asks for the counters until they are as they should be.
pub(crate) async fn stats_until(client: &Client, right: impl Fn(&Value) -> bool) -> Value {
    soon(async {
        loop {
            let stats = stats(client).await;
            if right(&stats) {
                return stats;
            }
        }
    })
    .await
}

/// A journal stream that is read as values.
pub(crate) struct Tap {
    pub(crate) stream: Stream,
}

impl Tap {
    pub(crate) async fn open(client: &Client, payload: Value) -> Tap {
        let stream = client.stream("job-manager.events", &payload).await.unwrap();
        Tap { stream }
    }

    /// The next response.
    pub(crate) async fn next(&mut self) -> Value {
        match soon(self.stream.next()).await {
            Some(Ok(json)) => value(&json),
            other => panic!("the stream ended: {other:?}"),
        }
    }

    /// All up to `caught_up`: the entries of the backlog.
    pub(crate) async fn backlog(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let response = self.next().await;
            all.extend(response["events"].as_array().unwrap().iter().cloned());
            if response["caught_up"] == true {
                return all;
            }
        }
    }

    /// Live entries until the stream is complete up to `seq`.
    pub(crate) async fn until(&mut self, seq: u64) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let response = self.next().await;
            all.extend(response["events"].as_array().unwrap().iter().cloned());
            if response["seq"].as_u64().is_some_and(|at| at >= seq) {
                return all;
            }
        }
    }
}

/// Names of the entries of one job.
pub(crate) fn names(entries: &[Value], id: u64) -> Vec<&str> {
    let of_job = entries.iter().filter(|entry| entry["id"] == id);
    of_job
        .map(|entry| entry["entry"]["name"].as_str().unwrap())
        .collect()
}

/// Every entry there is, from a stream of its own.
pub(crate) async fn everything(client: &Client) -> Vec<Value> {
    Tap::open(client, json!({"from": "all"}))
        .await
        .backlog()
        .await
}
