//! The program itself: killed at any moment, told to end, started twice. In a test
//! program of its own: a child between fork and exec holds the locks of daemons that run in the process that forks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)]
#[path = "daemon/world.rs"]
mod world;

use rpc::client::{Client, ConnectOptions, Retry};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use wire::Request;
use world::{LONG, Tap, everything, ids, int, ok, soon, stats, submission, value};

struct Daemon {
    child: Child,
    socket: std::path::PathBuf,
}

impl Daemon {
    async fn start(statedir: &Path) -> Daemon {
        let child = command(statedir).spawn().unwrap();
        let socket = statedir.join("socket");
        let daemon = Daemon { child, socket };
        daemon.client().await;
        daemon
    }

    /// Connects, as soon as it is there.
    async fn client(&self) -> Client {
        let retry = Retry {
            attempts: 2000,
            first: Duration::from_millis(2),
            max: Duration::from_millis(20),
        };
        let options = ConnectOptions {
            retry,
            ..ConnectOptions::default()
        };
        soon(Client::connect_with(&self.socket, &options))
            .await
            .unwrap()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    async fn ended(mut self) -> std::process::ExitStatus {
        soon(self.child.wait()).await.unwrap()
    }
}

fn command(statedir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-job-manager"));
    command
        .arg("--statedir")
        .arg(statedir)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command.kill_on_drop(true);
    command
}

/// Whatever was acknowledged before a kill is there after it; a restart posts nothing; a second kill right after changes nothing.
#[tokio::test]
async fn invariants_1_and_2_kill_9_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let statedir = dir.path().join("state");
    let mut acknowledged: Vec<(u64, u64)> = Vec::new();
    let mut urgencies: Vec<(u64, u64)> = Vec::new();
    for round in 0..8u64 {
        let daemon = Daemon::start(&statedir).await;
        let client = daemon.client().await;
        let before = int(&stats(&client).await, "seq");
        assert!(acknowledged.iter().all(|(_, seq)| *seq <= before));
        let payload = submission(16);
        let mut replies = Vec::new();
        for _ in 0..2000 {
            replies.push(client.begin("job-ingest.submit", &payload).await.unwrap());
        }
        // In the middle of the answers, at another place each time.
        let mut killed = false;
        for (at, reply) in replies.into_iter().enumerate() {
            match soon(reply.json()).await {
                Ok(answer) => {
                    acknowledged.push(ids(&value(&answer)));
                    if at as u64 == round * 37 {
                        let change = json!({"id": acknowledged[at].0, "urgency": round});
                        if let Ok(answer) = soon(client.call("job-manager.urgency", &change)).await
                        {
                            urgencies.push((acknowledged[at].0, int(&value(&answer), "seq")));
                        }
                        daemon.signal(Signal::KILL);
                        killed = true;
                    }
                }
                Err(error) => assert!(killed && error.is_lost(), "{error}"),
            }
        }
        assert!(!daemon.ended().await.success());
    }
    let daemon = Daemon::start(&statedir).await;
    let client = daemon.client().await;
    let all = everything(&client).await;
    let newest = all.iter().map(|one| int(one, "seq")).max().unwrap();
    let mut seqs: Vec<u64> = all.iter().map(|one| int(one, "seq")).collect();
    seqs.sort_unstable();
    assert_eq!(
        seqs,
        (1..=newest).collect::<Vec<_>>(),
        "no seq is used twice or lost"
    );
    let by_seq: HashMap<u64, &Value> = all.iter().map(|one| (int(one, "seq"), one)).collect();
    let of = |seq: u64| by_seq[&seq];
    for (id, seq) in &acknowledged {
        let last = of(*seq);
        assert_eq!(
            (int(last, "id"), last["entry"]["name"].as_str()),
            (*id, Some("priority"))
        );
    }
    for (id, seq) in &urgencies {
        assert_eq!(int(of(*seq), "id"), *id);
    }
    // Jobs are whole or not there: all four entries of each.
    let submits = all
        .iter()
        .filter(|one| one["entry"]["name"] == "submit")
        .count();
    let validates = all
        .iter()
        .filter(|one| one["entry"]["name"] == "validate")
        .count();
    assert!(submits == validates && submits >= acknowledged.len());
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    daemon.signal(Signal::KILL);
    daemon.ended().await;
    let daemon = Daemon::start(&statedir).await;
    let client = daemon.client().await;
    assert_eq!(
        ok(&client, "job-manager.list", json!({"max_entries": 0})).await,
        list
    );
    assert_eq!(
        int(&stats(&client).await, "seq"),
        newest,
        "a start posts nothing"
    );
}

/// What listeners were shown before a kill is what they find after it.
#[tokio::test]
async fn invariant_2_a_listener_was_shown_nothing_that_a_kill_takes_back() {
    let dir = tempfile::tempdir().unwrap();
    let statedir = dir.path().join("state");
    let daemon = Daemon::start(&statedir).await;
    let (client, watcher) = (daemon.client().await, daemon.client().await);
    let mut tap = Tap::open(&watcher, json!({"from": "all"})).await;
    tap.backlog().await;
    let payload = submission(16);
    let mut replies = Vec::new();
    for _ in 0..3000 {
        replies.push(client.begin("job-ingest.submit", &payload).await.unwrap());
    }
    let mut seen: Vec<Value> = Vec::new();
    while seen.len() < 2000 {
        seen.extend(
            tap.next().await["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    daemon.signal(Signal::KILL);
    while let Some(Ok(json)) = soon(tap.stream.next()).await {
        seen.extend(value(&json)["events"].as_array().unwrap().iter().cloned());
    }
    daemon.ended().await;
    let daemon = Daemon::start(&statedir).await;
    let after = daemon.client().await;
    let mut tap = Tap::open(&after, json!({"after": 0})).await;
    tap.next().await;
    let mut again: Vec<Value> = Vec::new();
    while again.len() < seen.len() {
        again.extend(
            tap.next().await["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    again.truncate(seen.len());
    assert!(again == seen, "entry for entry, byte for byte");
    daemon.signal(Signal::KILL);
    daemon.ended().await;
}

/// SIGTERM: everything asked before it is answered and on the disk, the socket goes, status 0, in bounded time though a client does not read.
#[tokio::test]
async fn sigterm_ends_it_in_order_and_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let statedir = dir.path().join("state");
    let daemon = Daemon::start(&statedir).await;
    let client = daemon.client().await;
    // One that asks and never reads.
    let (deaf, _unread) = rpc::client::Connection::connect(&daemon.socket)
        .await
        .unwrap()
        .split();
    for tag in 1..200 {
        let all = wire::json_payload(&json!({"max_entries": 0}));
        deaf.send_now(Request::new("job-manager.list", Some(all), tag))
            .unwrap();
    }
    let payload = submission(16);
    let mut replies = Vec::new();
    for _ in 0..2000 {
        replies.push(client.begin("job-ingest.submit", &payload).await.unwrap());
    }
    let mut acknowledged = Vec::new();
    for (at, reply) in replies.into_iter().enumerate() {
        match soon(reply.json()).await {
            Ok(answer) => acknowledged.push(ids(&value(&answer))),
            Err(error) => assert!(error.is_lost() && at > 0, "{error}"),
        }
        if at == 0 {
            daemon.signal(Signal::TERM);
        }
    }
    let socket = daemon.socket.clone();
    let ended = tokio::time::timeout(Duration::from_secs(20), daemon.ended());
    assert_eq!(ended.await.expect("in time").code(), Some(0));
    assert!(!socket.exists());
    let daemon = Daemon::start(&statedir).await;
    let client = daemon.client().await;
    let all = everything(&client).await;
    let by_seq: HashMap<u64, &Value> = all.iter().map(|one| (int(one, "seq"), one)).collect();
    for (id, seq) in acknowledged {
        assert_eq!(int(by_seq[&seq], "id"), id);
    }
    daemon.signal(Signal::INT);
    assert_eq!(daemon.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_second_one_says_in_one_line_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let statedir = dir.path().join("state");
    let daemon = Daemon::start(&statedir).await;
    let second = command(&statedir).stderr(Stdio::piped()).output();
    let output = tokio::time::timeout(LONG, second).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(78));
    let text = String::from_utf8(output.stderr).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("weir-job-manager: state directory")
            && last.contains("is in use by process"),
        "{text}"
    );
    ok(&daemon.client().await, "attr.list", Value::Null).await;
    daemon.signal(Signal::TERM);
    daemon.ended().await;
}

/// The disk of the log may be full, as that of the store may: that ends nobody.
#[tokio::test]
async fn a_log_that_cannot_be_written_ends_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let statedir = dir.path().join("state");
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let child = command(&statedir).stderr(full).spawn().unwrap();
    let socket = statedir.join("socket");
    let daemon = Daemon { child, socket };
    let client = daemon.client().await;
    ok(&client, "job-ingest.submit", submission(16)).await;
    soon(client.call("log.append", &json!({"any": "line"})))
        .await
        .unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0));
}
