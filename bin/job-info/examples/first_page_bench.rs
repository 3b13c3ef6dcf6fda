//! First page over job-info's own socket, quiet and while another client reads a long listing.
//!
//! ```text
//!  cargo run --release -p job-info --example first_page_bench [JOBS]
//! ```
//! A stand-in broker plays the journal of JOBS pending jobs (default 200,000). Round trips in microseconds: median, 99th
//! percentile, longest. Targets of design.md: first page < 150 at a million; the long listing must not move the others.

#![allow(clippy::expect_used, reason = "a bench ends by panicking")]

use std::{fmt::Write as _, path::Path, time::Instant};

use rpc::{
    Inbound, Listener, ServerConfig, Verdict,
    client::{Client, ConnectOptions, Connection, Retry},
    server,
};
use serde_json::{Value, json};
use wire::{Cred, Message};

const EPOCH: &str = "00000000000000e1";

fn batches(jobs: u64) -> impl Iterator<Item = String> {
    let spec = r#"{"resources":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1}]}],"tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}},"version":1}"#;
    (1..=jobs).step_by(250).map(move |first| {
        let mut text = format!(r#"{{"epoch":"{EPOCH}","backlog":true,"events":["#);
        for job in first..=(first + 249).min(jobs) {
            let (id, priority, user) = (job << 24, job % 32, 1000 + job % 8);
            let comma = if job == first { "" } else { "," };
            let _ = write!(
                text,
                r#"{comma}{{"seq":{job},"id":{id},"eventlog_seq":1,"entry":{{"timestamp":1.5,"name":"submit","context":{{"userid":{user},"urgency":16,"flags":0,"version":1}}}},"jobspec":{spec}}}"#
            );
            for (number, event) in [(2, r#""name":"validate""#.to_owned()), (3, r#""name":"depend""#.to_owned()), (4, format!(r#""name":"priority","context":{{"priority":{priority}}}"#))] {
                let _ = write!(
                    text,
                    r#",{{"seq":{job},"id":{id},"eventlog_seq":{number},"entry":{{"timestamp":1.5,{event}}}}}"#
                );
            }
        }
        text.push_str("]}");
        text
    })
}

fn main() {
    let jobs = std::env::args()
        .nth(1)
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or(200_000);
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
    };
    let listener_path = dir.path().join("socket");
    std::thread::spawn({
        let path = listener_path.clone();
        move || runtime().block_on(broker(&path, jobs))
    });
    std::thread::spawn({
        let config = job_info::Config {
            socket: listener_path,
            statedir: dir.path().to_owned(),
            reconnect: std::time::Duration::from_millis(20),
            private: false,
            allow_guests: false,
            http: None,
        };
        move || runtime().block_on(job_info::run(config, std::future::pending()))
    });
    let socket = dir.path().join("job-info.socket");
    runtime().block_on(async {
        let client = connect(&socket).await;
        let start = Instant::now();
        // Held until the list is there.
        let _ = client.call("job-list.list", &page()).await.expect("a page");
        println!("{jobs} pending jobs; from start to first list {:.2} s", start.elapsed().as_secs_f64());
        measure("first 25 pending", &client, &page(), 2000).await;
        let mine = json!({"max_entries":25,"attrs":["state","name"],"constraint":{"and":[{"userid":[1003]},{"states":[62]}]}});
        measure("first 25 of one user", &client, &mine, 2000).await;
        let nobody = json!({"max_entries":25,"attrs":["state"],"constraint":{"name":["nosuch"]}});
        measure("no match", &client, &nobody, 2000).await;
        let reader = std::thread::spawn(move || {
            runtime().block_on(async {
                let client = connect(&socket).await;
                let all = json!({"max_entries":0,"attrs":["state","priority","name","t_submit"],"constraint":{"states":[126]}});
                let mut rows = 0u64;
                let start = Instant::now();
                for _ in 0..3 {
                    let mut stream = client.stream("job-list.list", &all).await.expect("a stream");
                    while let Some(Ok(_)) = stream.next().await {
                        rows += 1;
                    }
                }
                println!("long listing: {:.2} µs a row", start.elapsed().as_secs_f64() * 1e6 / rows as f64);
            });
        });
        let mut calls = 0;
        while !reader.is_finished() && calls < 20 {
            measure("… beside a long listing", &client, &page(), 500).await;
            calls += 1;
        }
        reader.join().expect("the reader ends");
    });
}

fn page() -> Value {
    json!({"max_entries":25,"attrs":["state","priority","name"],"since":0.0,"constraint":{"states":[14]}})
}

async fn connect(socket: &Path) -> Client {
    let retry = Retry {
        attempts: 200,
        first: std::time::Duration::from_millis(5),
        max: std::time::Duration::from_millis(50),
    };
    let options = ConnectOptions {
        retry,
        ..ConnectOptions::default()
    };
    Client::new(
        Connection::connect_with(socket, &options)
            .await
            .expect("a connection"),
    )
}

async fn measure(what: &str, client: &Client, ask: &Value, calls: usize) {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let start = Instant::now();
        let _ = client.call("job-list.list", ask).await.expect("a page");
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((calls - 1) as f64 * share) as usize];
    println!(
        "{what:<26} median {:>8.1}   p99 {:>8.1}   max {:>8.1} µs",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

async fn broker(path: &Path, jobs: u64) {
    let listener = Listener::bind(path, 0o700).expect("a socket");
    let (_server, mut inbound) = server::serve(listener, ServerConfig::default(), |uid| {
        Verdict::Welcome(Cred::owner(uid))
    });
    let mut conn = None;
    while let Some(news) = inbound.recv().await {
        match news {
            Inbound::Opened { handle, .. } => conn = Some(handle),
            Inbound::Messages { messages, .. } => {
                let handle = conn.clone().expect("opened before");
                for message in messages {
                    let Message::Request(request) = message else {
                        continue;
                    };
                    if request.topic.as_str() != "job-manager.events" {
                        let _ = handle.send(request.respond(None));
                        continue;
                    }
                    for text in batches(jobs) {
                        while handle.queued_bytes() > 1 << 20 {
                            tokio::task::yield_now().await;
                        }
                        let _ = handle
                            .send(request.respond(Some(wire::nul_terminated(text.as_bytes()))));
                    }
                    let end = format!(
                        r#"{{"epoch":"{EPOCH}","seq":{jobs},"caught_up":true,"events":[]}}"#
                    );
                    let _ =
                        handle.send(request.respond(Some(wire::nul_terminated(end.as_bytes()))));
                }
            }
            _ => {}
        }
    }
}
