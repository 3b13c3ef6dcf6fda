//! Nodes: announced, told of when they come and go, drained; and what becomes of parts of jobs on them.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, kill9, lives, owner, until};
use serde_json::{Value, json};
use wire::{Cred, errno};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});

fn host() -> String {
    job_runner::engine::machine::hostname()
}

/// The pid of a node's process; 0 while the next one begins.
fn node(world: &World, rank: u32) -> i32 {
    let lock = world.read(&format!("node-{}-{rank}.lock", host()));
    lock.trim().parse().unwrap_or(0)
}

fn sysbatch(world: &World, script: &str) -> Value {
    let mut jobspec = world.script(script);
    jobspec["attributes"]["system"]["weir"] = json!({"type": "sysbatch"});
    jobspec
}

/// Asks as a client, and waits for the answer.
async fn call(world: &mut World, topic: &str, payload: &Value) -> Value {
    world.ask_as(topic, payload, 7, owner());
    let (met, answer) = world.answer().await;
    assert_eq!(met, topic, "{answer}");
    answer
}

async fn status(world: &mut World) -> Value {
    call(world, "resource.status", &json!({})).await
}

/// Waits until a node event of that name is told, and says of which ranks.
async fn event(world: &mut World, name: &str) -> String {
    loop {
        let (kind, told) = world.node_told().await;
        if kind == "event" && told["name"] == name {
            return told["idset"].as_str().unwrap().to_owned();
        }
    }
}

/// The next of these ranks and statuses that is told of a job's parts.
async fn part(world: &mut World, id: u64) -> String {
    let (of, told) = world.part_told().await;
    assert_eq!(of, id);
    told
}

#[tokio::test]
async fn the_nodes_are_announced_with_every_connection_before_jobs_are_asked_for() {
    let mut world =
        World::new(&["-s", "3", "--cores", "0-1", "--pool", "fast", "--gpus", ""]).await;
    let (kind, told) = world.node_told().await;
    assert_eq!(kind, "announce");
    assert_eq!(told["pools"], json!({"fast": "0-2"}));
    assert_eq!(told["up"], "0-2", "an engine begins with all its nodes");
    let lite = json!([{"rank": "0-2", "children": {"core": "0-1"}}]);
    assert_eq!(told["R"]["execution"]["R_lite"], lite);
    assert_eq!(
        told["R"]["execution"]["nodelist"],
        json!([format!("{}-[0-2]", host())])
    );
    world.restart_manager();
    world.greet(&[]).await;
    assert_eq!(world.node_told().await, (kind, told), "and again");
    assert!(world.nodes_told.is_empty());
}

#[tokio::test]
async fn a_job_manager_without_a_resource_log_is_served_all_the_same() {
    let mut world = World::without_engine(&["-s", "2", "--cores", "0"]);
    world.drained = None;
    world.start_engine();
    world.greet(&[]).await;
    assert_eq!(world.sh(1, "exit 0").await, ["start", "finish 0"]);
    let refused = call(&mut world, "resource.drain", &json!({"targets": "0"})).await;
    assert_eq!(refused["errnum"], errno::ENOSYS);
    let pid = node(&world, 0);
    kill9(pid);
    until(|| ![0, pid].contains(&node(&world, 0))).await;
    world.until_online("0-1").await;
    assert!(world.nodes_told.is_empty());
}

#[tokio::test]
async fn an_announcement_that_is_refused_is_tried_again_and_no_job_is_asked_for_before() {
    let mut world = World::without_engine(&["--cores", "0"]);
    world.refuses_nodes = Some((errno::ENOSPC, "no space left"));
    world.start_engine();
    // `greet` ends with sched-ready, which comes after the announcement that is taken.
    world
        .greet_while(&[], |world, refused| {
            if refused == 2 {
                world.refuses_nodes = None;
            }
        })
        .await;
    assert_eq!(world.node_told().await.0, "announce");
}

#[tokio::test]
async fn nodes_that_come_and_go_are_told_of() {
    let mut world = World::new(&["-s", "4", "--cores", "0"]).await;
    assert_eq!(world.node_told().await.0, "announce");
    for rank in [1, 3] {
        let pid = node(&world, rank);
        kill9(pid);
        assert_eq!(event(&mut world, "offline").await, rank.to_string());
        assert_eq!(event(&mut world, "online").await, rank.to_string());
        assert_ne!(node(&world, rank), pid);
    }
    assert_eq!(status(&mut world).await["offline"], "");
}

#[tokio::test]
async fn a_drained_node_is_kept_from_new_jobs_and_shown_with_reason_and_time() {
    let mut world = World::new(&["-s", "2", "--cores", "0"]).await;
    let _ = world.node_told().await;
    let jobspec = world.script("while [ ! -e go ]; do sleep 0.01; done");
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    let before = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let targets = format!("{}-0", host());
    let asked = json!({"targets": targets, "reason": "dust"});
    let answer = call(&mut world, "resource.drain", &asked).await;
    assert!(answer["seq"].is_u64(), "{answer}");
    let userid = owner().userid;
    assert_eq!(
        world.node_told().await.1,
        json!({"name": "drain", "idset": "0", "overwrite": 0, "userid": userid, "reason": "dust"})
    );
    let shown = status(&mut world).await;
    assert_eq!(shown["drain"]["0"]["reason"], "dust");
    let timestamp = shown["drain"]["0"]["timestamp"].as_f64().unwrap();
    assert!(timestamp >= before && timestamp < before + 60.0);
    assert_eq!(
        (&shown["online"], &shown["offline"]),
        (&json!("0-1"), &json!(""))
    );
    let shown = call(&mut world, "sched.resource-status", &json!({})).await;
    assert_eq!(shown["down"]["execution"]["R_lite"][0]["rank"], "0");
    // What runs there goes on; its core is given to nobody after it.
    std::fs::write(world.path("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 0"]);
    world.free(1, &r);
    let r = world.alloc(2, &jobspec).await;
    assert_eq!(r["execution"]["R_lite"][0]["rank"], "1");
    world.ask("sched.alloc", &common::alloc(3, &jobspec));
    let answer = call(&mut world, "resource.undrain", &json!({"targets": "0"})).await;
    assert!(answer["seq"].is_u64(), "{answer}");
    assert_eq!(
        world.node_told().await.1,
        json!({"name": "undrain", "idset": "0", "userid": userid})
    );
    let (topic, given) = world.answer().await;
    assert_eq!((topic.as_str(), &given["id"]), ("sched.alloc", &json!(3)));
    assert_eq!(given["R"]["execution"]["R_lite"][0]["rank"], "0");
    assert_eq!(status(&mut world).await["drain"], json!({}));
}

#[tokio::test]
async fn what_cannot_be_drained_is_refused_and_named() {
    let mut world = World::new(&["-s", "3", "--cores", "0"]).await;
    let drain = json!({"targets": "0-1", "reason": "a"});
    let _ = call(&mut world, "resource.drain", &drain).await;
    world.nodes_told.clear();
    let host = host();
    for (topic, payload, errnum, text) in [
        (
            "resource.drain",
            json!({"targets": "1-2", "reason": "b"}),
            errno::EEXIST,
            "rank 1 already drained: overwrite 1 replaces the reason".to_owned(),
        ),
        (
            "resource.drain",
            json!({"targets": "2-5"}),
            errno::EINVAL,
            "targets: no node has rank 3-5: there are ranks 0 to 2".to_owned(),
        ),
        (
            "resource.drain",
            json!({"targets": "x"}),
            errno::EINVAL,
            format!("targets: no node is named x: there are {host}-[0-2]"),
        ),
        (
            "resource.drain",
            json!({"targets": "2", "overwrite": 3}),
            errno::EINVAL,
            "overwrite: expected 0, 1 (the reason) or 2 (reason and time), got 3".to_owned(),
        ),
        (
            "resource.drain",
            json!({"targets": "2", "reason": "x".repeat(2000)}),
            errno::EINVAL,
            "reason: expected at most 1024 bytes, got 2000".to_owned(),
        ),
        (
            "resource.undrain",
            json!({"targets": "1-2"}),
            errno::EINVAL,
            "rank 2 not drained".to_owned(),
        ),
    ] {
        let refused = call(&mut world, topic, &payload).await;
        assert_eq!(refused, json!({"errnum": errnum, "text": text}));
    }
    let guest = Cred {
        userid: 12345,
        rolemask: wire::ROLE_USER,
    };
    world.ask_as("resource.drain", &json!({"targets": "2"}), 7, guest);
    assert_eq!(world.answer().await.1["errnum"], errno::EPERM);
    assert!(world.nodes_told.is_empty(), "nothing of that was passed on");
    // The job-manager has the last word.
    world.refuses_nodes = Some((errno::ENOSPC, "no space left"));
    let refused = call(&mut world, "resource.drain", &json!({"targets": "2"})).await;
    assert_eq!(refused["text"], "no space left");
    assert_eq!(
        status(&mut world).await["drain"].as_object().unwrap().len(),
        1
    );
    world.refuses_nodes = None;
    // As Flux's client forces it: the reason; and the time.
    let first = status(&mut world).await["drain"]["0-1"]["timestamp"].clone();
    for (overwrite, keeps) in [(1, true), (2, false)] {
        let drain = json!({"targets": "0-1", "reason": "c", "overwrite": overwrite});
        let _ = call(&mut world, "resource.drain", &drain).await;
        let shown = status(&mut world).await["drain"]["0-1"].clone();
        assert_eq!(shown["reason"], "c");
        assert_eq!(shown["timestamp"] == first, keeps);
    }
    world.nodes_told.clear();
    let update = json!({"targets": "0-2", "reason": "d", "mode": "update"});
    let _ = call(&mut world, "resource.drain", &update).await;
    assert_eq!(
        world.node_told().await.1["idset"],
        "2",
        "only what was not drained"
    );
}

#[tokio::test]
async fn a_new_connection_brings_what_is_drained_and_a_new_engine_obeys_it() {
    let mut world = World::without_engine(&["-s", "2", "--cores", "0"]);
    world.drained = Some(
        json!([{"idset": "0", "nodelist": format!("{}-0", host()), "reason": "dust", "timestamp": 5.5, "userid": 1}]),
    );
    world.start_engine();
    world.greet(&[]).await;
    let shown = status(&mut world).await;
    assert_eq!(
        shown["drain"],
        json!({"0": {"timestamp": 5.5, "reason": "dust"}})
    );
    let jobspec = world.script("exit 0");
    let r = world.alloc(1, &jobspec).await;
    assert_eq!(r["execution"]["R_lite"][0]["rank"], "1");
    // It was undrained while we were away.
    world.drained = Some(json!([]));
    world.restart_manager();
    world.greet(&[]).await;
    assert_eq!(status(&mut world).await["drain"], json!({}));
}

#[tokio::test]
async fn a_sysbatch_job_runs_once_on_every_ready_node_and_outlives_those_that_die() {
    let mut world = World::new(&["-s", "4", "--cores", "0"]).await;
    let _ = world.node_told().await;
    let _ = call(&mut world, "resource.drain", &json!({"targets": "3"})).await;
    let jobspec = sysbatch(
        &world,
        "echo $WEIR_TASK_RANK $WEIR_JOB_NNODES >> runs; while [ ! -e go-$WEIR_TASK_RANK ]; do sleep 0.01; done; exit $WEIR_TASK_RANK",
    );
    let r = world.alloc(1, &jobspec).await;
    assert_eq!(r["execution"]["R_lite"][0]["rank"], "0-2");
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.read("runs").lines().count() == 3).await;
    kill9(node(&world, 2));
    assert_eq!(event(&mut world, "offline").await, "2");
    assert_eq!(part(&mut world, 1).await, "2 unknown");
    assert_eq!(part(&mut world, 1).await, "2 lost");
    let (told, _) = world.tell_any(1).await;
    let note = format!(
        "exception 1 node-fail: the node process of {}-2 went away",
        host()
    );
    assert_eq!(told, note);
    assert_eq!(event(&mut world, "online").await, "2");
    std::fs::write(world.path("go-1"), "").unwrap();
    assert_eq!(part(&mut world, 1).await, "1 failed");
    // A new engine and a new job-manager are told the same.
    world.kill_engine();
    world.start_engine();
    world.greet(&[(1, r.clone())]).await;
    world.start(1, &jobspec, &r, true, &ENVIRONMENT());
    let (told, _) = world.tell(1).await;
    assert_eq!(told, "reattached");
    let mut again = Vec::new();
    while !["0 running", "1 failed", "2 lost"]
        .iter()
        .all(|one| again.iter().any(|met| met == one))
    {
        again.push(part(&mut world, 1).await);
    }
    std::fs::write(world.path("go-0"), "").unwrap();
    let mut all = Vec::new();
    loop {
        let (told, last) = world.tell_any(1).await;
        all.push(told);
        if last {
            break;
        }
    }
    assert_eq!(all, [note, "finish 35072".to_owned()]);
    assert_eq!(part(&mut world, 1).await, "0 complete");
    let mut runs: Vec<String> = world.read("runs").lines().map(str::to_owned).collect();
    runs.sort();
    assert_eq!(runs, ["0 3", "1 3", "2 3"], "never begun again");
    world.free(1, &r);
    // All that is ready is free again.
    let jobspec = sysbatch(&world, "exit 0");
    assert_eq!(world.run(2, &jobspec).await, ["start", "finish 0"]);
}

#[tokio::test]
async fn a_dead_nodes_part_of_a_common_job_is_lost_and_the_job_fails() {
    let mut world = World::new(&["-s", "2", "--cores", "0"]).await;
    let _ = world.node_told().await;
    let mut jobspec = world.script("setsid sleep 1000 & echo $!; wait");
    let slot = jobspec["resources"][0].take();
    jobspec["resources"] = json!([{"type": "node", "count": 2, "with": [slot]}]);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(1).await.0, "start");
    until(|| world.output(1, "stdout").lines().count() == 2).await;
    let pids: Vec<i32> = world
        .output(1, "stdout")
        .lines()
        .map(|pid| pid.parse().unwrap())
        .collect();
    kill9(node(&world, 1));
    assert_eq!(part(&mut world, 1).await, "1 unknown");
    let (told, _) = world.tell_any(1).await;
    assert!(told.starts_with("exception 0 node-fail:"), "{told}");
    assert_eq!(world.told(1).await, ["finish 36608"]);
    // Lost follows from the exception; it is said if the other part takes its time.
    let told: Vec<String> = world.parts_told.drain(..).map(|(_, told)| told).collect();
    assert!(
        told == ["0 failed"] || told == ["1 lost", "0 failed"],
        "{told:?}"
    );
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[tokio::test]
async fn what_a_job_was_dispatched_with_is_what_its_tasks_read() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let mut jobspec = world.script("cat; echo \"<$WEIR_META_COLOUR>\"");
    jobspec["resources"][0]["count"] = json!(2);
    for (id, payload, read) in [
        (1, "aGVsbG8=", "hello"),
        (2, "", ""),
        (3, &base64_of(&"x".repeat(16 << 10)), &"x".repeat(16 << 10)),
    ] {
        jobspec["attributes"]["system"]["weir"] = json!({
            "parent": 99, "dispatch": {"meta": {"colour": "red"}, "payload": payload}
        });
        let r = world.alloc(id, &jobspec).await;
        let environment = json!({"PATH": "/usr/bin:/bin", "WEIR_META_COLOUR": "red"});
        world.start(id, &jobspec, &r, false, &environment);
        assert_eq!(world.told(id).await, ["start", "finish 0"]);
        world.free(id, &r);
        let written = world.output(id, "stdout");
        let expected = format!("{read}<red>\n");
        assert_eq!(written.len(), 2 * expected.len(), "both tasks: {written}");
        assert_eq!(written.matches("<red>").count(), 2);
    }
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
