//! A job can stop and kill whoever looks after it: that costs it itself its end, and nobody else anything.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, kill9, lives, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});
/// The parent of a task's shepherd.
const NODE: &str = "$(cut -d' ' -f4 /proc/$PPID/stat)";

fn shepherd(world: &World, id: u64) -> i32 {
    let claim = world.read(&format!("jobs/{id}/claim"));
    let claimant: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    i32::try_from(claimant["pid"].as_i64().unwrap()).unwrap()
}

fn state(pid: i32) -> Option<u8> {
    job_runner::proc::stat(pid).map(|stat| stat.state)
}

fn parent(pid: i32) -> i32 {
    job_runner::proc::stat(pid).unwrap().parent
}

/// Stops a process and waits until it is.
async fn stop(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    until(|| state(pid) == Some(b'T')).await;
}

async fn started(world: &mut World, id: u64, script: &str) -> (Value, Value) {
    let jobspec = world.script(script);
    let r = world.alloc(id, &jobspec).await;
    world.start(id, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(id).await.0, "start");
    (jobspec, r)
}

#[tokio::test]
async fn a_job_that_stops_its_shepherd_goes_on() {
    let mut world = World::new(&["--cores", "0"]).await;
    let script = "kill -STOP $PPID; echo ran >> runs; exit 3";
    let jobspec = world.script(script);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.told(1).await.last().unwrap(), "finish 768");
    world.free(1, &r);
    // One that is stopped can be canceled.
    let (_, r) = started(&mut world, 2, "sleep 1000").await;
    stop(shepherd(&world, 2)).await;
    world.ask("job-exec.cancel", &json!({"id": 2, "type": "cancel"}));
    assert_eq!(world.told(2).await, ["finish 36608"]);
    world.free(2, &r);
    assert_eq!(world.read("runs"), "ran\n");
}

#[tokio::test]
async fn a_job_that_stops_its_shepherd_again_and_again_is_ended_and_no_other() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let (_, other) = started(
        &mut world,
        1,
        "while [ ! -e go ]; do sleep 0.01; done; exit 3",
    )
    .await;
    let script = "setsid sleep 1000 & echo $! > pid; while :; do kill -STOP $PPID; done";
    let jobspec = world.script(script);
    let r = world.alloc(2, &jobspec).await;
    world.start(2, &jobspec, &r, false, &ENVIRONMENT());
    let told = world.told(2).await;
    let lost = "exception exec: lost: the process that looked after it was stopped again and again, and then killed; \
                it may have run in part and is not run again";
    assert_eq!(told[told.len() - 2..], [lost, "release"]);
    let pid = world.read("pid").trim().parse().unwrap();
    assert!(!lives(pid), "what it left behind is still there");
    world.free(2, &r);
    // Its core is free, the other job has noticed nothing.
    assert_eq!(world.sh(3, "exit 0").await, ["start", "finish 0"]);
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    world.free(1, &other);
}

#[tokio::test]
async fn a_job_that_kills_its_shepherd_is_lost_and_no_other() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let (_, _other) = started(
        &mut world,
        1,
        "while [ ! -e go ]; do sleep 0.01; done; exit 3",
    )
    .await;
    let script = "setsid sleep 1000 & echo $! > pid; kill -KILL $PPID; sleep 1000";
    let told = world.sh(2, script).await;
    let lost = "exception exec: lost: the process that looked after it was killed; it may have run in part and is not run again";
    assert_eq!(told[told.len() - 2..], [lost, "release"]);
    assert!(!lives(world.read("pid").trim().parse().unwrap()));
    assert_eq!(world.sh(3, "exit 0").await, ["start", "finish 0"]);
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
}

#[tokio::test]
async fn a_job_that_stops_its_node_process_or_the_engine_goes_on_and_others_begin() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let engine = world.engine.as_ref().unwrap().id();
    for (id, target) in [(1, NODE.to_owned()), (2, engine.to_string())] {
        let script = format!("kill -STOP {target}; echo ran >> runs; exit 3");
        let jobspec = world.script(&script);
        let r = world.alloc(id, &jobspec).await;
        world.start(id, &jobspec, &r, false, &ENVIRONMENT());
        until(|| world.read("runs").lines().count() as u64 == id).await;
        let told = world.told(id).await;
        assert_eq!(told.last().unwrap(), "finish 768", "{told:?}");
        world.free(id, &r);
        assert_eq!(world.sh(10 + id, "exit 0").await, ["start", "finish 0"]);
    }
}

/// Its node process is killed while the shepherd cannot notice: it once was waited for, for ever.
#[tokio::test]
async fn a_stopped_shepherd_whose_node_process_died_is_continued_by_the_next() {
    let mut world = World::new(&["--cores", "0"]).await;
    let (_, r) = started(&mut world, 1, "echo ran >> runs; exec sleep 1000").await;
    until(|| world.read("runs") == "ran\n").await;
    let pid = shepherd(&world, 1);
    let node = parent(pid);
    stop(node).await;
    stop(pid).await;
    kill9(node);
    let host = job_runner::engine::machine::hostname();
    assert_eq!(
        world.told(1).await,
        [
            &format!("exception node-fail: the node process of {host} went away"),
            "finish 35072"
        ]
    );
    world.free(1, &r);
    assert_eq!(world.sh(2, "exit 0").await, ["start", "finish 0"]);
    assert_eq!(world.read("runs"), "ran\n");
}

/// An order that lay in the socket of a stopped shepherd must not begin a second run, nor the shepherd stay.
#[tokio::test]
async fn an_order_that_was_never_read_is_no_second_run_and_its_shepherd_ends() {
    let mut world = World::new(&["--cores", "0", "--spares", "2"]).await;
    world.until_online("0").await;
    assert_eq!(world.sh(1, "exit 0").await, ["start", "finish 0"]);
    let node = parent(shepherd(&world, 1));
    until(|| job_runner::proc::children(node).len() >= 2).await;
    let spares = job_runner::proc::children(node);
    for pid in &spares {
        stop(*pid).await;
    }
    let jobspec = world.script("echo ran >> runs; exit 3");
    let r = world.alloc(2, &jobspec).await;
    world.start(2, &jobspec, &r, false, &ENVIRONMENT());
    // All that was sent to the node process has been passed on once it answers.
    world.ask_as(
        "sched.ping",
        &json!({}),
        9,
        wire::Cred {
            userid: 0,
            rolemask: wire::ROLE_OWNER,
        },
    );
    world.answer().await;
    kill9(node);
    // A slow machine gives the node process time to continue its shepherds before it dies: then the job had begun under it.
    let mut told = world.told(2).await;
    told.retain(|word| !word.starts_with("exception node-fail"));
    assert_eq!(told, ["start", "finish 768"]);
    until(|| spares.iter().all(|pid| !lives(*pid))).await;
    assert_eq!(world.read("runs"), "ran\n");
}

#[tokio::test]
async fn a_shepherd_stopped_across_a_restart_of_every_daemon_is_found_again_and_ends_once() {
    let mut world = World::new(&["-s", "2", "--cores", "0"]).await;
    world.until_online("0-1").await;
    let script = "echo ran >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 3";
    let (jobspec, r) = started(&mut world, 1, script).await;
    until(|| world.read("runs") == "ran\n").await;
    let pid = shepherd(&world, 1);
    let node = parent(pid);
    // Both, or the one would continue the other.
    stop(node).await;
    stop(pid).await;
    world.kill_engine();
    world.restart_manager();
    std::fs::write(world.path("go"), "").unwrap();
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "reattached");
    // Whatever happens there: another job runs, is canceled, ends.
    let other = world.alloc(2, &jobspec).await;
    world.start(
        2,
        &world.script("exec sleep 1000"),
        &other,
        false,
        &ENVIRONMENT(),
    );
    world.ask("job-exec.cancel", &json!({"id": 2, "type": "cancel"}));
    let mut told = (Vec::new(), Vec::new());
    while told
        .0
        .last()
        .is_none_or(|word: &String| !word.starts_with("finish"))
        || told
            .1
            .last()
            .is_none_or(|word: &String| !word.starts_with("finish"))
    {
        let (_, answer) = world.answer().await;
        let word = format!(
            "{} {}",
            answer["type"].as_str().unwrap(),
            answer["data"]["status"]
        );
        if answer["id"] == 1 {
            told.0.push(word)
        } else {
            told.1.push(word)
        }
    }
    assert_eq!(told.0, ["finish 768"]);
    assert_eq!(told.1.last().unwrap(), "finish 36608");
    assert_eq!(world.read("runs"), "ran\n");
}

/// With their supervisor, in bounded time, though none of them can notice.
#[tokio::test]
async fn a_private_instances_stopped_processes_end_with_it() {
    let mut world = World::without_engine(&["--cores", "0-1", "--die-with-supervisor"]);
    let command = world.command();
    let mut supervisor = std::process::Command::new("sh");
    // It ends the engine politely, as `weir start` does.
    let script = "\"$@\" & trap 'kill -TERM $!; wait $!; exit' TERM; wait";
    supervisor
        .arg("-c")
        .arg(script)
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args());
    supervisor.env("WEIR_LOG", "error");
    let mut supervisor = supervisor.spawn().unwrap();
    world.greet(&[]).await;
    started(&mut world, 1, "setsid sleep 1000 & echo $! > pid; wait").await;
    until(|| world.read("pid").ends_with('\n')).await;
    let body: i32 = world.read("pid").trim().parse().unwrap();
    let pid = shepherd(&world, 1);
    let node = parent(pid);
    let spares: Vec<i32> = job_runner::proc::children(node);
    for pid in &spares {
        stop(*pid).await;
    }
    stop(node).await;
    kill_process(Pid::from_child(&supervisor), Signal::TERM).unwrap();
    supervisor.wait().unwrap();
    until(|| !lives(body) && !lives(node) && spares.iter().all(|pid| !lives(*pid))).await;
    let status = world.read("jobs/1/status");
    assert!(
        status.contains("the instance that ran the job ended"),
        "{status}"
    );
}
