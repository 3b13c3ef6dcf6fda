//! Whatever is killed, and whenever: a body runs at most once, no slot is lost, the result is honest.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, kill9, lives, until};
use serde_json::{Value, json};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});

/// The pid of the process that leads the session a job runs in: its shepherd.
fn shepherd(world: &World, id: u64) -> i32 {
    let claim = world.read(&format!("jobs/{id}/claim"));
    let claimant: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    i32::try_from(claimant["pid"].as_i64().unwrap()).unwrap()
}

fn parent(pid: i32) -> i32 {
    job_runner::proc::stat(pid).unwrap().parent
}

#[tokio::test]
async fn an_engine_that_is_killed_finds_its_jobs_again() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let jobspec = world.script(
        "echo ran >> runs; echo before; while [ ! -e go ]; do sleep 0.01; done; echo after; exit 3",
    );
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.output(1, "stdout") == "before\n").await;
    let pid = shepherd(&world, 1);
    world.kill_engine();
    assert!(
        lives(pid) && lives(parent(pid)),
        "shepherd and node process are not touched"
    );

    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "reattached");
    assert_eq!(shepherd(&world, 1), pid);
    // What the job holds is not given to another: one core is left.
    assert_eq!(
        world.alloc(2, &jobspec).await["execution"]["R_lite"][0]["children"]["core"],
        "1"
    );
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    assert_eq!(
        (
            world.read("runs").as_str(),
            world.output(1, "stdout").as_str()
        ),
        ("ran\n", "before\nafter\n")
    );
}

#[tokio::test]
async fn a_job_that_ends_while_the_engine_is_away_ends_with_its_status() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 3");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    world.kill_engine();
    std::fs::write(world.path("go"), "").unwrap();
    until(|| world.read("jobs/1/status").ends_with('\n')).await;
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.told(1).await, ["reattached", "finish 768"]);
    assert_eq!(world.read("runs"), "ran\n");
}

#[tokio::test]
async fn a_start_whose_answer_was_never_stored_runs_nothing_twice() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs; while [ ! -e go ]; do sleep 0.01; done; exit 3");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.read("runs") == "ran\n").await;
    // The job-manager dies before it stores the answer: it asks as if it never had, and the engine knows better.
    world.restart_manager();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    // And now both at once.
    world.kill_engine();
    world.restart_manager();
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    assert_eq!(world.read("runs"), "ran\n");
}

/// Steps of the claim protocol at which a shepherd is killed, how often the body runs then, and what is told.
#[tokio::test]
async fn a_shepherd_killed_at_any_step_leaves_no_second_run_no_lost_slot_and_an_honest_result() {
    let lost = "exception exec: lost: the process that looked after it was killed; it may have run in part and is not run again";
    let ended = vec!["start", "finish 768"];
    let gone = vec!["start", lost, "release"];
    for (step, runs, told) in [
        ("after-mkdir", 1, &ended),
        ("after-claim", 1, &ended),
        ("after-reserve", 1, &ended),
        ("after-executing", 0, &gone),
        ("after-exec", 1, &gone),
        ("before-status", 1, &gone),
        ("after-status", 1, &ended),
    ] {
        let mut world = World::without_engine(&["--cores", "0"]);
        let once = world.path("died");
        world.set_environment(
            "WEIR_SHEPHERD_DIE_AT",
            &format!("{step}@{}", once.display()),
        );
        world.start_engine();
        world.greet(&[]).await;
        // After "after-exec" the body may be killed before or after it wrote: it waits for nothing and leaves a child behind.
        let script = match step {
            "after-exec" => "setsid env -i /bin/sleep 1000 & echo $! > pid; echo ran >> runs; wait",
            _ => "echo ran >> runs; exit 3",
        };
        let jobspec = world.script(script);
        let r = world.alloc(1, &jobspec).await;
        world.start(1, &jobspec, &r, false, &ENVIRONMENT());
        assert_eq!(&world.told(1).await, told, "{step}");
        assert!(once.exists(), "{step}: nobody died");
        let met = world.read("runs").lines().count();
        if step == "after-exec" {
            assert!(met <= runs, "{step}: it ran {met} times");
            if let Ok(pid) = world.read("pid").trim().parse::<i32>() {
                assert!(!lives(pid), "{step}: what it left behind is still there");
            }
        } else {
            assert_eq!(met, runs, "{step}");
        }
        // Asked again, the answer is the same and nothing runs.
        world.kill_engine();
        world.start_engine();
        world.greet(&[(1, r.clone())]).await;
        world.start(1, &jobspec, &r, true, &ENVIRONMENT());
        let again = world.told(1).await;
        assert_eq!(
            (again[0].as_str(), &again[1..]),
            (
                "reattached",
                &told[1..]
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()[..]
            ),
            "{step}"
        );
        assert_eq!(world.read("runs").lines().count(), met, "{step}");
        // The slot is free.
        world.free(1, &r);
        assert_eq!(world.sh(2, "exit 0").await, ["start", "finish 0"], "{step}");
    }
}

/// One shepherd of two is killed: the parts are claimed apart, each runs at most once, and the job has one end.
#[tokio::test]
async fn a_shepherd_of_a_job_on_two_nodes_killed_at_any_step_leaves_no_second_run_and_no_lost_slot()
{
    for (step, is_lost) in [
        ("after-mkdir", false),
        ("after-claim", false),
        ("after-reserve", false),
        ("after-executing", true),
        ("after-exec", true),
        ("before-status", true),
        ("after-status", false),
    ] {
        let mut world = World::without_engine(&["-s", "2", "--cores", "0"]);
        let once = world.path("died");
        let value = format!("{step}@{}", once.display());
        world.set_environment("WEIR_SHEPHERD_DIE_AT", &value);
        world.start_engine();
        world.greet(&[]).await;
        world.until_online("0-1").await;
        let on_two = |world: &World, script: &str| {
            let mut jobspec = world.script(script);
            let slot = jobspec["resources"][0].take();
            jobspec["resources"] = json!([{"type": "node", "count": 2, "with": [slot]}]);
            jobspec
        };
        let jobspec = on_two(&world, "echo $WEIR_TASK_RANK >> runs; exit 3");
        let r = world.alloc(1, &jobspec).await;
        world.start(1, &jobspec, &r, false, &ENVIRONMENT());
        let told = world.told(1).await;
        assert!(once.exists(), "{step}: nobody died");
        let lost = told
            .iter()
            .any(|word| word.starts_with("exception exec: lost:"));
        assert_eq!(lost, is_lost, "{step}: {told:?}");
        assert_eq!(
            told.last().unwrap(),
            "finish 768",
            "{step}: of the part that ended"
        );
        let runs = world.read("runs");
        for rank in ["0", "1"] {
            let met = runs.lines().filter(|line| *line == rank).count();
            assert!(
                met <= 1 && (is_lost || met == 1),
                "{step}: {rank} ran {met} times"
            );
        }
        world.free(1, &r);
        let jobspec = on_two(&world, "exit 0");
        assert_eq!(
            world.run(2, &jobspec).await,
            ["start", "finish 0"],
            "{step}"
        );
    }
}

#[tokio::test]
async fn a_job_given_out_before_the_machine_was_restarted_is_lost_and_not_begun() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("echo ran >> runs");
    let r = world.alloc(1, &jobspec).await;
    world.kill_engine();
    // The machine stops before the job begins, or before the disk knows of it.
    std::fs::write(world.path("engine-boot"), "an earlier boot\n").unwrap();
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    let lost = "exception exec: lost: the machine was restarted while it ran; it may have run in part and is not run again";
    assert_eq!(world.told(1).await, ["start", lost, "release"]);
    assert_eq!(world.read("runs"), "");
    // What is given out from now on runs.
    world.free(1, &r);
    assert_eq!(world.sh(2, "echo ran >> runs").await, ["start", "finish 0"]);
    assert_eq!(world.read("runs"), "ran\n");
}

#[tokio::test]
async fn a_shepherd_that_served_a_job_serves_the_next_as_if_it_were_new() {
    let mut world = World::new(&["--cores", "0"]).await;
    let mut jobspec = world.script("cd /; umask 0; ulimit -n 20; ulimit -n; sleep 1000 & exit 1");
    jobspec["attributes"]["system"]["shell"] =
        json!({"options": {"rlimit": {"nofile": 30}, "umask": "077"}});
    assert_eq!(world.run(1, &jobspec).await, ["start", "finish 256"]);
    let first = shepherd(&world, 1);
    let mut second = None;
    // Which of the spares comes next is not said; in a few jobs it is that one again.
    for id in 2..10 {
        let expected = format!(
            "{}\n0022\n",
            rustix::process::getrlimit(rustix::process::Resource::Nofile)
                .current
                .unwrap()
        );
        assert_eq!(
            world.sh(id, "ulimit -n; umask").await,
            ["start", "finish 0"]
        );
        assert_eq!(world.output(id, "stdout"), expected);
        if shepherd(&world, id) == first {
            second = Some(id);
        }
    }
    assert!(second.is_some());
}

#[tokio::test]
async fn a_node_process_that_was_told_to_go_and_is_found_again_keeps_shepherds_ready_again() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let jobspec = world.script("exec sleep 1000");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    let node = parent(shepherd(&world, 1));
    world.stop_engine();
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "reattached");
    // One that is not kept serves one job.
    let mut seen = std::collections::HashSet::new();
    let mut id = 2;
    loop {
        assert!(id < 20, "no shepherd served a second job");
        assert_eq!(world.sh(id, "exit 0").await, ["start", "finish 0"]);
        if !seen.insert(shepherd(&world, id)) {
            break;
        }
        id += 1;
    }
    assert_eq!(parent(shepherd(&world, 1)), node);
    world.ask("job-exec.cancel", &json!({"id": 1, "type": "cancel"}));
    assert_eq!(world.told(1).await, ["finish 36608"]);
}

#[tokio::test]
async fn shepherds_that_die_before_every_beginning_are_not_tried_for_ever() {
    let mut world = World::without_engine(&["--cores", "0"]);
    world.set_environment("WEIR_SHEPHERD_DIE_AT", "after-claim");
    world.start_engine();
    world.greet(&[]).await;
    assert_eq!(
        world.sh(1, "echo ran >> runs").await,
        [
            "exception exec: 3 shepherds died before the job began",
            "release"
        ]
    );
    assert_eq!(world.read("runs"), "");
}

#[tokio::test]
async fn a_node_process_that_is_killed_is_a_node_that_goes_down_and_comes_back() {
    let mut world = World::new(&["-s", "2", "--cores", "0"]).await;
    world.until_online("0-1").await;
    let jobspec = world.script("echo ran >> runs; setsid sleep 1000 & echo $!; wait");
    let r = world.alloc(1, &jobspec).await;
    let other = world.alloc(2, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    world.start(2, &jobspec, &other, false, &ENVIRONMENT());
    assert_eq!(world.tell(2).await.0, "start");
    until(|| {
        world.output(1, "stdout").ends_with('\n') && world.output(2, "stdout").ends_with('\n')
    })
    .await;
    let pid: i32 = world.output(1, "stdout").trim().parse().unwrap();
    kill9(parent(shepherd(&world, 1)));
    let host = job_runner::engine::machine::hostname();
    assert_eq!(
        world.told(1).await,
        [
            &format!("exception node-fail: the node process of {host}-0 went away"),
            "finish 35072"
        ]
    );
    assert!(!lives(pid));
    // The other node's job has noticed nothing, and the node is back.
    assert!(lives(shepherd(&world, 2)));
    world.free(1, &r);
    assert_eq!(world.sh(3, "exit 0").await, ["start", "finish 0"]);
    world.ask("job-exec.cancel", &json!({"id": 2, "type": "cancel"}));
    assert_eq!(world.told(2).await, ["finish 36608"]);
}

#[tokio::test]
async fn a_node_process_and_its_shepherd_killed_together_leave_nothing_running() {
    let mut world = World::new(&["--cores", "0"]).await;
    let jobspec = world.script("setsid sleep 1000 & echo $!; sleep 1000 & echo $!; wait");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.output(1, "stdout").lines().count() == 2).await;
    let pids: Vec<i32> = world
        .output(1, "stdout")
        .lines()
        .map(|pid| pid.parse().unwrap())
        .collect();
    let pid = shepherd(&world, 1);
    let node = parent(pid);
    // Stopped first, so that neither sees the other go.
    let stop = |pid: i32| {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    };
    stop(node);
    stop(pid);
    kill9(pid);
    kill9(node);
    let told = world.told(1).await;
    assert!(told[0].starts_with("exception exec: lost:"), "{told:?}");
    assert_eq!(told[1..], ["release"]);
    assert!(
        pids.iter().all(|pid| !lives(*pid)),
        "what was left behind is gone before the slot is free"
    );
}

#[tokio::test]
async fn a_private_instances_jobs_end_with_their_supervisor() {
    let mut world = World::without_engine(&["--cores", "0", "--die-with-supervisor"]);
    // A supervisor: starts the engine and waits.
    let command = world.command();
    let mut supervisor = std::process::Command::new("sh");
    supervisor
        .arg("-c")
        .arg("\"$@\" & wait")
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args());
    supervisor.env("WEIR_LOG", "error");
    let mut supervisor = supervisor.spawn().unwrap();
    world.greet(&[]).await;
    let jobspec = world.script("setsid sleep 1000 & echo $!; wait");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.output(1, "stdout").ends_with('\n')).await;
    let pid: i32 = world.output(1, "stdout").trim().parse().unwrap();
    let shepherd = shepherd(&world, 1);
    let node = parent(shepherd);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    until(|| !lives(pid) && !lives(shepherd) && !lives(node)).await;
    let status = world.read("jobs/1/status");
    assert!(
        status.contains("the instance that ran the job ended"),
        "{status}"
    );
}
