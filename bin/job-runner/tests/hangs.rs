//! What a job's beginning waits for may never come: its shepherd keeps the time limit, obeys, and gives the cores back.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, lives, until};
use serde_json::{Value, json};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});

fn mkfifo(world: &World, name: &str) -> String {
    let path = world.path(name);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    path.display().to_string()
}

fn with(mut jobspec: Value, options: Value, duration: f64) -> Value {
    jobspec["attributes"]["system"]["shell"] = json!({"options": options});
    jobspec["attributes"]["system"]["duration"] = json!(duration);
    jobspec
}

fn output(path: &str, label: bool) -> Value {
    json!({"output": {"stdout": {"type": "file", "path": path, "label": label}}})
}

fn shepherd(world: &World, id: u64) -> i32 {
    let claim = world.read(&format!("jobs/{id}/claim"));
    let claimant: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    i32::try_from(claimant["pid"].as_i64().unwrap()).unwrap()
}

#[tokio::test]
async fn a_fifo_that_nobody_opens_does_not_hold_up_the_time_limit() {
    let mut world = World::new(&["--cores", "0"]).await;
    let fifo = mkfifo(&world, "fifo");
    let waits = |what: &str, doing: &str, who: &str| {
        format!(
            "{what} {fifo} is a FIFO that nobody {doing}: start its {who} first, or name a plain file"
        )
    };
    let stderr = json!({"output": {"stderr": {"type": "file", "path": fifo}}});
    let stdin = json!({"input": {"stdin": {"type": "file", "path": fifo}}});
    for (id, options, waited) in [
        (
            1,
            output(&fifo, false),
            waits("output file", "reads", "reader"),
        ),
        (
            2,
            output(&fifo, true),
            waits("output file", "reads", "reader"),
        ),
        (3, stderr, waits("error output file", "reads", "reader")),
        (4, stdin, waits("input file", "writes to", "writer")),
    ] {
        let jobspec = with(world.script("echo ran >> runs"), options, 0.3);
        let r = world.alloc(id, &jobspec).await;
        world.start(id, &jobspec, &r, false, &ENVIRONMENT());
        assert_eq!(
            world.told_all(id).await,
            [
                "start".to_owned(),
                format!(
                    "exception 0 timeout: resource allocation expired before the job could begin: {waited}"
                ),
                "finish 36352".to_owned(),
            ]
        );
        world.free(id, &r);
        // Its thread hangs: it serves nobody any more.
        let pid = shepherd(&world, id);
        until(|| !lives(pid)).await;
    }
    assert_eq!(world.sh(5, "umask; pwd").await, ["start", "finish 0"]);
    assert_eq!(world.read("runs"), "");
}

#[tokio::test]
async fn a_job_that_waits_for_a_fifo_obeys_cancel_and_kill_and_begins_when_it_is_opened() {
    let mut world = World::new(&["--cores", "0"]).await;
    let fifo = mkfifo(&world, "fifo");
    for (id, topic, payload, status) in [
        (
            1,
            "job-exec.cancel",
            json!({"id": 1, "type": "cancel"}),
            143,
        ),
        (2, "job-exec.kill", json!({"id": 2, "signum": 9}), 137),
    ] {
        let jobspec = with(world.script("echo ran >> runs"), output(&fifo, false), 0.0);
        let r = world.alloc(id, &jobspec).await;
        world.start(id, &jobspec, &r, false, &ENVIRONMENT());
        assert_eq!(world.tell(id).await.0, "start");
        // This ends nobody.
        world.ask("job-exec.kill", &json!({"id": id, "signum": 18}));
        world.ask(topic, &payload);
        let told = world.told_all(id).await;
        assert!(
            told[0].starts_with("exception 1 exec: task 0 (host "),
            "{told:?}"
        );
        assert!(told[0].contains("is a FIFO that nobody reads"), "{told:?}");
        assert_eq!(told[1..], [format!("finish {}", status << 8)]);
        world.free(id, &r);
    }
    let jobspec = with(world.script("cat; exit 3"), output(&fifo, false), 0.0);
    let r = world.alloc(3, &jobspec).await;
    world.start(3, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(3).await.0, "start");
    // Input that comes meanwhile is kept.
    let topic =
        job_runner::engine::orders::service(job::JobId(3), rustix::process::geteuid().as_raw());
    let input = json!({"stream": "stdin", "rank": "all", "data": "hello\n", "eof": true});
    world.ask(&format!("{topic}.stdin"), &input);
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(fifo).unwrap());
    assert_eq!(world.told(3).await, ["finish 768"]);
    assert_eq!(read.await.unwrap(), "hello\n");
    assert_eq!(world.read("runs"), "");
}

/// The shepherd itself writes labelled lines: a reader that stopped held it up.
#[tokio::test]
async fn a_labelled_fifo_whose_reader_stopped_holds_up_the_task_and_not_its_shepherd() {
    let mut world = World::new(&["--cores", "0"]).await;
    let fifo = mkfifo(&world, "fifo");
    let reader = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .unwrap();
    let script = "head -c 8000000 /dev/zero | tr '\\0' '\\n'";
    let jobspec = with(world.script(script), output(&fifo, true), 1.0);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    let told = world.told_all(1).await;
    assert_eq!(
        told[..2],
        ["start", "exception 0 timeout: resource allocation expired"]
    );
    assert!(told[2].starts_with("exception 2 output: "), "{told:?}");
    assert!(
        told[2].ends_with(&format!(
            "bytes of output for {fifo} are lost: it takes no more; is it a FIFO that nobody reads?"
        )),
        "{told:?}"
    );
    assert_eq!(told[3..], ["finish 36352"]);
    world.free(1, &r);
    drop(reader);
    assert_eq!(world.sh(2, "exit 3").await, ["start", "finish 768"]);
}

#[tokio::test]
async fn labelled_lines_are_all_in_the_file_when_the_end_is_told() {
    let mut world = World::new(&["--cores", "0"]).await;
    let script = "head -c 300000 /dev/zero | tr '\\0' '\\n'; echo end >&2; exit 3";
    let jobspec = with(world.script(script), output("labelled", true), 0.0);
    assert_eq!(world.run(1, &jobspec).await, ["start", "finish 768"]);
    let text = world.read("labelled");
    assert_eq!(text.lines().count(), 300_001);
    assert!(text.lines().all(|line| line == "0: " || line == "0: end"));
}
