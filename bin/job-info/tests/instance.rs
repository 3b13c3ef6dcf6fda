//! job-info beside the real job-manager: what a client sees after what it did.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::{path::Path, thread::JoinHandle, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use common::{run, within};
use rpc::client::{Client, ConnectOptions, Connection, Retry};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A daemon on a thread and runtime of its own, as it would be a process of its own.
struct Daemon {
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn start<F: Future<Output = ()>>(
        daemon: impl FnOnce(oneshot::Receiver<()>) -> F + Send + 'static,
    ) -> Self {
        let (shutdown, asked) = oneshot::channel();
        let thread = std::thread::spawn(move || run(daemon(asked)));
        Self {
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    fn job_manager(dir: &Path) -> Self {
        let config = job_manager::Config {
            journal_size_limit: 1000,
            ..job_manager::Config::new(dir)
        };
        Self::start(move |asked| async move {
            let shutdown = async {
                let _ = asked.await;
            };
            job_manager::run(config, shutdown)
                .await
                .expect("job-manager runs");
        })
    }

    fn job_info(dir: &Path) -> Self {
        Self::job_info_with(dir, None)
    }

    fn job_info_with(dir: &Path, http: Option<job_info::http::Options>) -> Self {
        let config = job_info::Config {
            socket: dir.join("socket"),
            statedir: dir.to_owned(),
            reconnect: Duration::from_millis(50),
            private: false,
            allow_guests: false,
            http,
        };
        Self::start(move |asked| async move {
            let shutdown = async {
                let _ = asked.await;
            };
            job_info::run(config, shutdown)
                .await
                .expect("job-info runs");
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the daemon panicked"
            );
        }
    }
}

async fn connect(socket: &Path) -> Client {
    let retry = Retry {
        attempts: 100,
        first: Duration::from_millis(10),
        max: Duration::from_millis(100),
    };
    let options = ConnectOptions {
        retry,
        ..ConnectOptions::default()
    };
    Client::new(
        within("the socket", Connection::connect_with(socket, &options))
            .await
            .expect("a connection"),
    )
}

/// Until job-info serves its names on this connection's broker.
async fn serving(client: &Client) {
    let ping = async { while client.call("job-info.ping", &json!({})).await.is_err() {} };
    within("job-info to serve", ping).await;
}

async fn submit(client: &Client, urgency: u32) -> Value {
    let uid = rustix::process::getuid().as_raw();
    let jobspec = json!({
        "resources":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}],
        "tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],
        "attributes":{"system":{"duration":0,"cwd":"/"}},"version":1});
    let header = format!("version\0i1\0userid\0i{uid}\0mechanism\0snone\0");
    let signed = format!(
        "{}.{}.none",
        STANDARD.encode(header),
        STANDARD.encode(jobspec.to_string())
    );
    let ask = json!({"J":signed,"urgency":urgency,"flags":0});
    let answer: Value = within("submit", client.call_as("job-ingest.submit", &ask))
        .await
        .expect("accepted");
    answer["id"].clone()
}

async fn pending(client: &Client) -> Vec<Value> {
    let ask = json!({"max_entries":0,"attrs":[],"constraint":{"states":["pending"]}});
    let listed: Value = within("a list", client.call_as("job-list.list", &ask))
        .await
        .expect("a list");
    listed["jobs"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["id"].clone())
        .collect()
}

#[test]
fn invariant_read_your_writes_a_job_is_never_unknown_and_never_old() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let _manager = Daemon::job_manager(dir.path());
        let _info = Daemon::job_info(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        for round in 0..200 {
            let id = submit(&client, 16).await;
            let ask = json!({"id":id,"attrs":["urgency","priority","state"]});
            let row: Value = within("a row", client.call_as("job-list.list-id", &ask))
                .await
                .expect("known");
            assert_eq!(
                row["job"],
                json!({"id":id,"urgency":16,"priority":16,"state":8}),
                "round {round}"
            );
            let urgency = 17 + round % 14;
            let change = json!({"id":id,"urgency":urgency});
            within("urgency", client.call("job-manager.urgency", &change))
                .await
                .expect("changed");
            let row: Value = within("a row", client.call_as("job-list.list-id", &ask))
                .await
                .expect("known");
            assert_eq!(row["job"]["priority"], urgency, "round {round}");
        }
        let never = json!({"id":123_456,"attrs":[]});
        let refused = within("a refusal", client.call("job-list.list-id", &never))
            .await
            .expect_err("unknown");
        assert_eq!(refused.errnum, 2);
    });
}

#[test]
fn a01_order_follows_priority_then_submission_with_the_real_job_manager() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let _manager = Daemon::job_manager(dir.path());
        let _info = Daemon::job_info(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        let (a, b, c) = (
            submit(&client, 16).await,
            submit(&client, 16).await,
            submit(&client, 16).await,
        );
        assert_eq!(pending(&client).await, [a.clone(), b.clone(), c.clone()]);
        for (urgency, expected) in [(17, [&c, &a, &b]), (16, [&a, &b, &c])] {
            let ask = json!({"jobs":[[c, urgency]]});
            within("priority", client.call("job-manager.priority", &ask))
                .await
                .expect("changed");
            assert_eq!(pending(&client).await.iter().collect::<Vec<_>>(), expected);
        }
        let stats: Value = within("stats", client.call_as("job-list.stats-get", &()))
            .await
            .expect("stats");
        assert_eq!(stats["journal"]["duplicates"], 0);
        assert_eq!(stats["journal"]["gaps"], 0);
        assert_eq!(stats["journal"]["invalid"], 0);
    });
}

#[test]
fn one_request_that_changes_many_jobs_is_one_reorder_pass() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let _manager = Daemon::job_manager(dir.path());
        let _info = Daemon::job_info(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        let mut ids = Vec::new();
        for _ in 0..50 {
            ids.push(submit(&client, 16).await);
        }
        assert_eq!(pending(&client).await, ids);
        let passes = async || {
            let stats: Value = within("stats", client.call_as("job-list.stats-get", &()))
                .await
                .expect("stats");
            stats["journal"]["reorder_passes"]
                .as_u64()
                .expect("a number")
        };
        let before = passes().await;
        let raised: Vec<Value> = ids[40..].iter().map(|id| json!([id, 31])).collect();
        within(
            "priority",
            client.call("job-manager.priority", &json!({"jobs":raised})),
        )
        .await
        .expect("changed");
        let expected: Vec<Value> = ids[40..].iter().chain(&ids[..40]).cloned().collect();
        assert_eq!(pending(&client).await, expected, "in the very next listing");
        assert_eq!(passes().await, before + 1);
    });
}

#[test]
fn a04_after_a_restart_of_job_manager_the_list_holds_each_job_once() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let manager = Daemon::job_manager(dir.path());
        let _info = Daemon::job_info(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        let mut ids = Vec::new();
        for _ in 0..25 {
            ids.push(submit(&client, 16).await);
        }
        for id in &ids[..20] {
            let cancel = json!({"id":id,"type":"cancel","severity":0});
            within("cancel", client.call("job-manager.raise", &cancel))
                .await
                .expect("raised");
        }
        assert_eq!(pending(&client).await, ids[20..]);
        let direct = connect(&dir.path().join("job-info.socket")).await;
        drop(manager);
        let list = json!({"max_entries":0,"attrs":["state"]});
        let stale = async {
            loop {
                let listed: Value = direct
                    .call_as("job-list.list", &list)
                    .await
                    .expect("served in the gap");
                assert_eq!(listed["jobs"].as_array().expect("rows").len(), 25);
                if listed["stale"].is_f64() {
                    return;
                }
            }
        };
        within("the list to be marked stale", stale).await;
        let _manager = Daemon::job_manager(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        let id = submit(&client, 16).await;
        ids.push(id);
        assert_eq!(pending(&client).await, ids[20..]);
        let listed: Value = within("a list", client.call_as("job-list.list", &list))
            .await
            .expect("a list");
        assert_eq!(
            (
                listed["jobs"].as_array().expect("rows").len(),
                listed.get("stale")
            ),
            (26, None)
        );
        let stats: Value = within("stats", client.call_as("job-list.stats-get", &()))
            .await
            .expect("stats");
        assert_eq!(
            (
                &stats["journal"]["rebuilds"],
                &stats["journal"]["duplicates"]
            ),
            (&json!(0), &json!(0))
        );
        // A second job-info, started anew, folds the same list from the store.
        drop(_info);
        let _info = Daemon::job_info(dir.path());
        serving(&client).await;
        let anew: Value = within("a list", client.call_as("job-list.list", &list))
            .await
            .expect("a list");
        assert_eq!(anew["jobs"], listed["jobs"]);
    });
}

#[test]
fn logs_are_read_through_job_info() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let _manager = Daemon::job_manager(dir.path());
        let _info = Daemon::job_info(dir.path());
        let client = connect(&dir.path().join("socket")).await;
        serving(&client).await;
        let id = submit(&client, 16).await;
        let watch = json!({"id":id,"path":"eventlog","flags":2});
        let mut follow = client
            .stream("job-info.eventlog-watch", &watch)
            .await
            .expect("a stream");
        let mut names = Vec::new();
        let mut cancelled = false;
        while let Some(item) = within("a line", follow.next()).await {
            let item = item.expect("no refusal");
            if item.is_empty() {
                names.push("(sentinel)".to_owned());
                if !cancelled {
                    cancelled = true;
                    let cancel = json!({"id":id,"type":"cancel","severity":0});
                    within("cancel", client.call("job-manager.raise", &cancel))
                        .await
                        .expect("raised");
                }
                continue;
            }
            let value: Value = serde_json::from_slice(&item).expect("JSON");
            let event = value["event"].as_str().expect("an event");
            let event: Value = serde_json::from_str(event).expect("an event");
            names.push(event["name"].as_str().expect("a name").to_owned());
        }
        assert_eq!(
            names,
            [
                "submit",
                "validate",
                "depend",
                "priority",
                "(sentinel)",
                "exception",
                "clean"
            ]
        );
        let ask = json!({"id":id,"keys":["jobspec","eventlog"],"flags":1});
        let answer: Value = within("a look-up", client.call_as("job-info.lookup", &ask))
            .await
            .expect("found");
        assert_eq!(answer["jobspec"]["tasks"][0]["command"], json!(["true"]));
        assert_eq!(
            answer["eventlog"].as_str().expect("text").lines().count(),
            6
        );
    });
}

#[test]
fn of_two_that_serve_http_at_any_port_one_does_and_the_other_takes_its_place() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let _manager = Daemon::job_manager(dir.path());
        let options = common::http::options();
        let first = Daemon::job_info_with(dir.path(), Some(options));
        serving(&connect(&dir.path().join("socket")).await).await;
        let web = common::http::Web::in_directory(dir.path());
        web.ready().await;
        // With a port of its own it serves in any case, and the file stays the first one's.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let own = job_info::http::Options { address, ..options };
        let other = Daemon::job_info_with(dir.path(), Some(own));
        let second = Daemon::job_info_with(dir.path(), Some(options));
        let at = |address| common::http::Web {
            address,
            ..web.clone()
        };
        at(address).ready().await;
        assert_eq!(
            common::http::Web::in_directory(dir.path()).address,
            web.address
        );
        drop(other);
        // The same address and the same token, served by the other.
        drop(first);
        web.ready().await;
        assert_eq!(web.get("/v1/jobs").await.text(), "[]");
        drop(second);
    });
}
