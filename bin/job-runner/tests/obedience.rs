//! Whom the engine obeys, and what it says to what it cannot read.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, alloc};
use serde_json::{Value, json};

const MANAGER: &[&str] = &["job-manager-0123456789abcdef"];

/// A program with the owner's rights could give out what was not its own, start what was never submitted, and end what ran.
#[tokio::test]
async fn the_engine_obeys_the_job_manager_and_no_client_of_it() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs; while [ ! -e go ]; do sleep 0.01; done");
    let environment = json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &environment);
    assert_eq!(world.tell(1).await.0, "start");
    let start =
        json!({"id": 2, "userid": rustix::process::geteuid().as_raw(), "jobspec": jobspec, "R": r});
    for hops in [
        &["client"][..],
        &["client", MANAGER[0]],
        &[MANAGER[0], "client"],
    ] {
        for (topic, payload) in [
            ("sched.alloc", alloc(2, &jobspec)),
            ("sched.cancel", json!({"id": 1})),
            ("sched.prioritize", json!({"jobs": [[1, 31]]})),
            ("sched.free", json!({"id": 1, "R": r, "final": true})),
            ("sched.expiration", json!({"id": 1, "expiration": 1.0})),
            ("job-exec.start", start.clone()),
            ("job-exec.kill", json!({"id": 1, "signum": 9})),
            ("job-exec.cancel", json!({"id": 1, "type": "cancel"})),
            ("job-exec.expiration", json!({"id": 1, "expiration": 1.0})),
        ] {
            // One that expects no answer is not obeyed either.
            world.ask_by(hops, topic, &payload.to_string(), 0);
            world.ask_by(hops, topic, &payload.to_string(), 7);
            let text =
                format!("only the job-manager may ask for {topic}; use the methods of job-manager");
            assert_eq!(
                world.answer().await,
                (topic.to_owned(), json!({"errnum": 1, "text": text}))
            );
        }
    }
    for topic in [
        "sched.stats-get",
        "job-exec.stats-get",
        "sched.ping",
        "resource.status",
    ] {
        world.ask_by(&["client"], topic, "{}", 7);
        assert_eq!(world.answer().await.1["errnum"], Value::Null, "{topic}");
    }
    // Nothing of it was done: the job runs, its core is not given to another, and it ends as it would have.
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 0"]);
    assert_eq!(world.read("runs"), "ran\n");
}

/// Nobody waits for an error to a request with matchtag 0: the job would wait for ever.
#[tokio::test]
async fn a_job_that_cannot_be_read_is_denied_with_the_reason_or_ended_with_an_exception() {
    let mut world = World::new(&["--cores", "0"]).await;
    let alloc = |jobspec: &str| {
        format!(r#"{{"id":5,"priority":16,"userid":0,"t_submit":1.0,"jobspec":{jobspec}}}"#)
    };
    for (jobspec, reason) in [
        ("{\"version\":1,", "cannot be read"),
        ("\u{1}", "cannot be read"),
        ("", "cannot be read"),
        ("[]", "jobspec"),
        ("{\"version\":1}", "resources"),
        ("null", "jobspec"),
    ] {
        world.ask_by(MANAGER, "sched.alloc", &alloc(jobspec), 0);
        let (topic, answer) = world.answer().await;
        assert_eq!(
            (topic.as_str(), &answer["id"], &answer["type"]),
            ("sched.alloc", &json!(5), &json!(2)),
            "{jobspec:?}: {answer}"
        );
        let note = answer["note"].as_str().unwrap();
        assert!(note.contains(reason), "{jobspec:?}: {note}");
    }
    let start = r#"{"id":6,"userid":0,"jobspec":{"version":1,"R":{}}"#;
    world.ask_by(MANAGER, "job-exec.start", start, 0);
    let told = world.told(6).await;
    assert!(
        told[0].starts_with("exception exec: what the job-manager says of the job cannot be read:"),
        "{told:?}"
    );
    assert_eq!(told[1..], ["release"]);
    // The engine goes on.
    assert_eq!(world.sh(7, "exit 3").await, ["start", "finish 768"]);
}

/// Whoever connected to a node process put the engine out of its place, and could start and end jobs there.
#[tokio::test]
async fn a_node_process_obeys_an_engine_of_its_instance_only() {
    use std::io::{Read as _, Write as _};
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 3");
    let r = world.alloc(1, &jobspec).await;
    let environment = json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});
    world.start(1, &jobspec, &r, false, &environment);
    assert_eq!(world.tell(1).await.0, "start");
    let name = job_runner::engine::machine::hostname();
    let path = world.path(&job_runner::paths::node_socket(&name));
    let cancel = "{\"tell\":{\"id\":1,\"what\":{\"cancel\":{}}}}\n";
    for first in [
        String::new(),
        "{\"engine\":{\"key\":\"guessed\"}}\n".to_owned(),
        "{\"retire\":{}}\n".to_owned(),
        "x".repeat(5000),
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        // It may be closed before all is written.
        let _ = stream.write_all(format!("{first}{cancel}").as_bytes());
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        assert_eq!(said, "", "closed without a word");
    }
    // Connections that say nothing are in nobody's way.
    let _silent: Vec<_> = (0..100)
        .map(|_| std::os::unix::net::UnixStream::connect(&path).unwrap())
        .collect();
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
}
