//! An engine of another size than the one before: nodes it does not have are looked after until their jobs are gone.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, lives, until};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});

/// One slot on each of so many nodes.
fn on_nodes(world: &World, count: u32, script: &str) -> Value {
    let mut jobspec = world.script(script);
    let slot = jobspec["resources"][0].clone();
    jobspec["resources"][0] = json!({"type": "node", "count": count, "with": [slot]});
    jobspec
}

fn host(rank: u32) -> String {
    format!("{}-{rank}", job_runner::engine::machine::hostname())
}

/// Whether a node has no process.
fn has_left(world: &World, name: &str) -> bool {
    let lock = std::fs::File::open(world.path(&format!("node-{name}.lock"))).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

fn shepherd(world: &World, id: u64) -> i32 {
    let claim = world.read(&format!("jobs/{id}/claim"));
    let claimant: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    i32::try_from(claimant["pid"].as_i64().unwrap()).unwrap()
}

#[tokio::test]
async fn a_job_of_four_nodes_ends_with_its_status_when_there_is_one_and_its_ranks_are_free() {
    let mut world = World::new(&["-s", "4", "--cores", "0"]).await;
    world.until_online("0-3").await;
    let script = "while [ ! -e go ]; do sleep 0.01; done; exit $((WEIR_TASK_RANK / 3))";
    let jobspec = on_nodes(&world, 4, script);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    world.stop_engine();
    world.set_arguments(&["--cores", "0"]);
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "reattached");
    // The core of rank 0 is this engine's own, whatever the job holds of HOST-0.
    assert_eq!(world.sh(2, "exit 0").await, ["start", "finish 0"]);
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 256"]);
    world.free(1, &r);
    until(|| (0..4).all(|rank| has_left(&world, &host(rank)))).await;
    assert!(!has_left(&world, &job_runner::engine::machine::hostname()));
}

#[tokio::test]
async fn a_job_that_ended_on_a_node_that_is_no_more_ends_with_its_status() {
    let mut world = World::new(&["-s", "3", "--cores", "0"]).await;
    world.until_online("0-2").await;
    let jobspec = on_nodes(&world, 3, "while [ ! -e go ]; do sleep 0.01; done; exit 3");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    world.stop_engine();
    std::fs::write(world.path("go"), "").unwrap();
    // The node processes end with their last job: what the shepherds left is read by others.
    until(|| (0..3).all(|rank| has_left(&world, &host(rank)))).await;
    world.set_arguments(&["-s", "2", "--cores", "0"]);
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.told(1).await, ["reattached", "finish 768"]);
    world.free(1, &r);
    // Both nodes are whole again.
    let jobspec = on_nodes(&world, 2, "exit 0");
    assert_eq!(world.run(2, &jobspec).await, ["start", "finish 0"]);
    until(|| has_left(&world, &host(2))).await;
}

#[tokio::test]
async fn jobs_on_nodes_that_are_no_more_can_be_canceled_and_those_that_stay_keep_their_cores() {
    let mut world = World::new(&["-s", "3", "--cores", "0"]).await;
    world.until_online("0-2").await;
    let jobspec = world.script("exec sleep 1000");
    let mut held = Vec::new();
    for id in 1..=3 {
        let r = world.alloc(id, &jobspec).await;
        world.start(id, &jobspec, &r, false, &ENVIRONMENT());
        assert_eq!(world.tell(id).await.0, "start");
        held.push((id, r));
    }
    let shepherds: Vec<i32> = (1..=3).map(|id| shepherd(&world, id)).collect();
    world.kill_engine();
    world.set_arguments(&["-s", "2", "--cores", "0"]);
    world.start_engine();
    world.greet(&held).await;
    for (id, r) in &held {
        world.start(*id, &jobspec, r, true, &ENVIRONMENT());
        assert_eq!(world.tell(*id).await.0, "reattached");
    }
    assert!(shepherds.iter().all(|pid| lives(*pid)));
    // Told before its node process is reached, perhaps: then it is told again.
    world.ask("job-exec.cancel", &json!({"id": 3, "type": "cancel"}));
    assert_eq!(world.told(3).await, ["finish 36608"]);
    world.free(3, &held[2].1);
    until(|| has_left(&world, &host(2))).await;
    // Rank 2 is gone, ranks 0 and 1 are in use: the next waits for one of them.
    world.ask("sched.alloc", &common::alloc(4, &jobspec));
    world.ask("job-exec.cancel", &json!({"id": 2, "type": "cancel"}));
    assert_eq!(world.told(2).await, ["finish 36608"]);
    let (_, answer) = world.answer().await;
    assert_eq!(
        (
            &answer["id"],
            &answer["R"]["execution"]["R_lite"][0]["rank"]
        ),
        (&json!(4), &json!("1"))
    );
    world.ask("job-exec.cancel", &json!({"id": 1, "type": "cancel"}));
    assert_eq!(world.told(1).await, ["finish 36608"]);
}

#[tokio::test]
async fn a_job_given_out_by_an_engine_of_another_size_and_not_begun_runs_once() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs");
    let r = world.alloc(1, &jobspec).await;
    world.stop_engine();
    world.set_arguments(&["-s", "2", "--cores", "0"]);
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.told(1).await, ["start", "finish 0"]);
    assert_eq!(world.read("runs"), "ran\n");
    world.free(1, &r);
    until(|| has_left(&world, &job_runner::engine::machine::hostname())).await;
}

#[tokio::test]
async fn a_job_on_a_node_nobody_can_look_after_gets_an_exception_and_a_release() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs");
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "5", "children": {"core": "0"}}], "nodelist": ["a/b"], "starttime": 0.0, "expiration": 0.0
    }});
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(
        world.told(1).await,
        [
            "exception node-fail: node \"a/b\" is gone: not a name of 1 to 72 bytes without '/'",
            "release"
        ]
    );
    world.free(1, &r);
    assert_eq!(world.sh(2, "exit 0").await, ["start", "finish 0"]);
    assert_eq!(world.read("runs"), "");
}

#[test]
fn wrong_arguments_are_one_line_and_not_tried_again() {
    for (arguments, said) in [
        (
            &["-s", "1025"][..],
            "weir-job-runner: invalid value '1025' for '--nodes <N>': expected a number of nodes from 1 to 1024\n",
        ),
        (
            &["--uri", "tcp://x"],
            "weir-job-runner: invalid value 'tcp://x' for '--uri <URI>': tcp://x: only local:///PATH/socket is understood\n",
        ),
        (
            &[],
            "weir-job-runner: the following required arguments were not provided: --uri <URI>\n",
        ),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir-job-runner"))
            .args(["--statedir", "/nonexistent"])
            .args(arguments)
            .env_remove("WEIR_URI")
            .output()
            .unwrap();
        assert_eq!(
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stderr)
            ),
            (Some(78), said.into()),
        );
        assert!(output.stdout.is_empty());
    }
}
