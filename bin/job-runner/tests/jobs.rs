//! What a job gets, what becomes of it, what it leaves: the engine with real processes and a stand-in job-manager.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, alloc, lives, until};
use serde_json::{Value, json};
use wire::{Cred, ROLE_USER};

#[tokio::test]
async fn a_job_runs_and_every_log_says_what_flux_clients_read() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let told = world.sh(1234, "echo out; echo err >&2; exit 3").await;
    assert_eq!(told, ["start", "finish 768"]);
    assert_eq!(
        (world.output(1234, "stdout"), world.output(1234, "stderr")),
        ("out\n".into(), "err\n".into())
    );

    let names: Vec<String> = world
        .log(1234, "exec.eventlog")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "init",
            "starting",
            "shell.init",
            "shell.start",
            "shell.task-exit",
            "complete",
            "done"
        ]
    );
    let exec = world.log(1234, "exec.eventlog");
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(
        exec[2].1,
        json!({"service": format!("{uid}-shell-fNH"), "leader-rank": 0, "size": 1})
    );
    assert_eq!(
        exec[3].1,
        json!({"taskmap": {"version": 1, "map": [[0, 1, 1, 1]]}})
    );
    assert_eq!(
        (&exec[4].1["wait_status"], &exec[4].1["exitcode"]),
        (&json!(768), &json!(3))
    );
    assert_eq!(exec[5].1, json!({"status": 768}));
    let output = world.log(1234, "output.eventlog");
    assert_eq!(output[0].0, "header");
    assert_eq!(
        output
            .iter()
            .filter(|(_, context)| context["eof"] == true)
            .count(),
        2
    );
}

#[tokio::test]
async fn a_job_knows_where_it_is() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let script = r#"for n in URI JOB_ID TASK_RANK TASK_LOCAL_ID JOB_SIZE JOB_NNODES; do
        eval "[ \"\$WEIR_$n\" = \"\$FLUX_$n\" ]" || echo differs $n; eval "echo $n=\$WEIR_$n"; done; pwd; env | grep -c secret"#;
    let mut jobspec = world.script(script);
    jobspec["resources"][0]["count"] = json!(2);
    assert_eq!(world.run(1234, &jobspec).await, ["start", "finish 256"]);
    let of = |world: &World, rank: &str| -> String {
        let log = world.log(1234, "output.eventlog");
        log.iter()
            .filter(|(_, it)| it["rank"] == rank)
            .filter_map(|(_, it)| it["data"].as_str())
            .collect()
    };
    let dir = world.dir.path().canonicalize().unwrap();
    for rank in ["0", "1"] {
        let expected = format!(
            "URI={}\nJOB_ID=ƒNH\nTASK_RANK={rank}\nTASK_LOCAL_ID={rank}\nJOB_SIZE=2\nJOB_NNODES=1\n{}\n0\n",
            world.uri(),
            dir.display()
        );
        assert_eq!(of(&world, rank), expected);
    }
}

#[tokio::test]
async fn the_status_is_exact() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    assert_eq!(world.sh(1, "exit 0").await, ["start", "finish 0"]);
    assert_eq!(world.sh(2, "exit 1").await, ["start", "finish 256"]);
    assert_eq!(
        world.sh(3, "kill -TERM $$").await,
        ["start", "finish 36608"]
    );
    let jobspec = world.jobspec(&["no-such-command"]);
    assert_eq!(
        world.run(4, &jobspec).await,
        [
            "start",
            &format!(
                "exception exec: task 0 (host {}): start failed: no-such-command: No such file or directory",
                host()
            ),
            "finish 32512"
        ]
    );
    let mut jobspec = world.jobspec(&["true"]);
    jobspec["attributes"]["system"]["cwd"] = json!("/no/such/directory");
    let told = world.run(5, &jobspec).await;
    assert_eq!(told[2], "finish 32256");
    assert!(
        told[1].ends_with("working directory /no/such/directory: No such file or directory"),
        "{told:?}"
    );
    // Several tasks: the highest counts.
    let mut jobspec = world.script("exit $WEIR_TASK_RANK");
    jobspec["resources"][0]["count"] = json!(2);
    assert_eq!(world.run(6, &jobspec).await, ["start", "finish 256"]);
    // A script without an interpreter line is run by sh.
    std::fs::write(world.path("plain"), "exit 7\n").unwrap();
    std::fs::set_permissions(
        world.path("plain"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let jobspec = world.jobspec(&["./plain"]);
    assert_eq!(world.run(7, &jobspec).await, ["start", "finish 1792"]);
}

fn host() -> String {
    job_runner::engine::machine::hostname()
}

#[tokio::test]
async fn a_time_limit_is_a_timeout_with_sigalrm() {
    let mut world = World::new(&["--kill-grace", "0.2"]).await;
    let mut jobspec = world.script("sleep 100");
    jobspec["attributes"]["system"]["duration"] = json!(0.2);
    let expected = [
        "start",
        "exception timeout: resource allocation expired",
        "finish 36352",
    ];
    assert_eq!(world.run(1, &jobspec).await, expected);
    // Who does not listen is killed when the grace is over.
    let mut jobspec = world.script("trap '' ALRM TERM; while :; do sleep 1; done");
    jobspec["attributes"]["system"]["duration"] = json!(0.2);
    assert_eq!(world.run(2, &jobspec).await[2], "finish 35072");
}

#[tokio::test]
async fn cancel_is_sigterm_and_after_the_grace_sigkill() {
    let mut world = World::new(&["--cores", "0", "--kill-grace", "0.2"]).await;
    for (id, script, status) in [
        (1, "echo ready; exec sleep 100", "finish 36608"),
        (
            2,
            "trap '' TERM; echo ready; while :; do sleep 100; done",
            "finish 35072",
        ),
        (
            3,
            "trap 'exit 5' TERM; echo ready; sleep 100 & wait",
            "finish 1280",
        ),
        (4, "echo ready; kill -STOP $$", "finish 36608"),
    ] {
        let jobspec = world.script(script);
        let r = world.alloc(id, &jobspec).await;
        world.start(id, &jobspec, &r, false, &json!({}));
        assert_eq!(world.tell(id).await.0, "start");
        until(|| world.output(id, "stdout") == "ready\n").await;
        world.ask("job-exec.cancel", &json!({"id": id, "type": "cancel"}));
        assert_eq!(world.told(id).await, [status], "{script}");
        world.free(id, &r);
    }
}

#[tokio::test]
async fn a_signal_reaches_every_process_of_a_job() {
    let mut world = World::new(&[]).await;
    let script = "trap 'echo got; exit 0' USR1; (trap 'echo got; exit 0' USR1; echo in; while :; do sleep 0.01; done) & \
                  setsid sh -c 'trap \"echo got; exit 0\" USR1; echo in; while :; do sleep 0.01; done' & echo in; \
                  while :; do sleep 0.01; done";
    let jobspec = world.script(script);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &json!({}));
    until(|| world.output(1, "stdout").matches("in\n").count() == 3).await;
    world.ask("job-exec.kill", &json!({"id": 1, "signum": 10}));
    let told = world.told(1).await;
    assert_eq!(told[0], "start");
    assert!(
        world.output(1, "stdout").matches("got\n").count() >= 2,
        "{}",
        world.output(1, "stdout")
    );
}

#[tokio::test]
async fn a_slot_is_free_when_every_descendant_is_gone() {
    let mut world = World::new(&["--cores", "0", "--kill-grace", "0.3"]).await;
    // The second left the session and ignores SIGTERM.
    let script = "sleep 1000 & echo $!; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & \
                  while [ ! -s pids ]; do :; done";
    let jobspec = world.script(script);
    let r = world.alloc(1, &jobspec).await;
    world.start(1, &jobspec, &r, false, &json!({}));
    until(|| world.output(1, "stdout").lines().count() == 2).await;
    let pids: Vec<i32> = world
        .output(1, "stdout")
        .lines()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.iter().all(|pid| lives(*pid)));
    // The next job wants the same core: it must not get it before they are gone.
    world.ask("sched.alloc", &alloc(2, &jobspec));
    std::fs::write(world.path("pids"), "x").unwrap();
    assert_eq!(world.told(1).await, ["start", "finish 0"]);
    assert!(pids.iter().all(|pid| !lives(*pid)));
    let (topic, answer) = world.answer().await;
    assert_eq!((topic.as_str(), &answer["id"]), ("sched.alloc", &json!(2)));
}

#[tokio::test]
async fn standard_input_comes_by_rpc_or_from_a_file() {
    let mut world = World::new(&[]).await;
    let uid = rustix::process::geteuid().as_raw();
    let jobspec = world.jobspec(&["cat"]);
    let r = world.alloc(1234, &jobspec).await;
    world.start(1234, &jobspec, &r, false, &json!({}));
    assert_eq!(world.tell(1234).await.0, "start");
    let topic = format!("{uid}-shell-fNH.stdin");
    let owner = Cred {
        userid: uid,
        rolemask: wire::ROLE_OWNER,
    };
    let guest = Cred {
        userid: uid + 1,
        rolemask: ROLE_USER,
    };
    world.ask_as(
        &topic,
        &json!({"stream": "stdin", "rank": "all", "data": "not mine\n"}),
        7,
        guest,
    );
    assert_eq!(world.answer().await.1["errnum"], 1);
    world.ask_as(
        &topic,
        &json!({"stream": "stdin", "rank": "all", "data": "häh\n"}),
        7,
        owner,
    );
    assert_eq!(world.answer().await, (topic.clone(), Value::Null));
    world.ask_as(
        &topic,
        &json!({"stream": "stdin", "rank": "0", "data": "eA==", "encoding": "base64", "eof": true}),
        7,
        owner,
    );
    assert_eq!(world.answer().await, (topic.clone(), Value::Null));
    assert_eq!(world.told(1234).await, ["finish 0"]);
    assert_eq!(world.output(1234, "stdout"), "häh\nx");
    world.ask_as(
        &topic,
        &json!({"stream": "stdin", "rank": "all", "eof": true}),
        7,
        owner,
    );
    assert_eq!(
        world.answer().await.1,
        json!({"errnum": 38, "text": format!("No service matching {topic} is registered")})
    );

    std::fs::write(world.path("in-f21"), "from a file").unwrap();
    let mut jobspec = world.jobspec(&["cat"]);
    jobspec["attributes"]["system"]["shell"] =
        json!({"options": {"input": {"stdin": {"type": "file", "path": "in-{{id.f58plain}}"}}}});
    assert_eq!(world.run(58, &jobspec).await, ["start", "finish 0"]);
    assert_eq!(world.output(58, "stdout"), "from a file");
}

#[tokio::test]
async fn output_goes_to_files_with_templates_and_labels() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let mut jobspec = world.script("echo out $WEIR_TASK_RANK; echo err >&2");
    jobspec["resources"][0]["count"] = json!(2);
    jobspec["attributes"]["system"]["job"] = json!({"name": "nom"});
    jobspec["attributes"]["system"]["shell"] = json!({"options": {"output": {
        "stdout": {"type": "file", "path": "o-{{id}}-{{name}}-{{x}}", "label": true},
        "stderr": {"type": "file", "path": "e-{{jobid.dec}}"}
    }}});
    assert_eq!(world.run(58, &jobspec).await, ["start", "finish 0"]);
    let mut lines: Vec<String> = world
        .read("o-ƒ21-nom-{{x}}")
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["0: out 0", "1: out 1"]);
    assert_eq!(world.read("e-58"), "err\nerr\n");
    let redirects: Vec<Value> = world
        .log(58, "output.eventlog")
        .into_iter()
        .filter_map(|(name, context)| (name == "redirect").then_some(context))
        .collect();
    assert_eq!(redirects.len(), 4);
    assert_eq!(
        redirects[1],
        json!({"stream": "stderr", "rank": "0", "path": "e-58"})
    );

    // Standard error follows standard output; a file that cannot be opened is an honest failure.
    jobspec["attributes"]["system"]["shell"] = json!({"options": {"output": {"stdout": {"type": "file", "path": "both"}, "mode": "append"}}});
    std::fs::write(world.path("both"), "before\n").unwrap();
    assert_eq!(world.run(59, &jobspec).await, ["start", "finish 0"]);
    assert_eq!(world.read("both").lines().count(), 5);
    jobspec["attributes"]["system"]["shell"] =
        json!({"options": {"output": {"stdout": {"type": "file", "path": "/no/such/dir/file"}}}});
    let told = world.run(60, &jobspec).await;
    assert!(
        told[1].ends_with("output file /no/such/dir/file: No such file or directory"),
        "{told:?}"
    );
}

#[tokio::test]
async fn what_a_job_lacks_is_said_to_be_its_directory_or_its_file() {
    let mut world = World::new(&["--cores", "0"]).await;
    let file = |path: &str| json!({"type": "file", "path": path});
    let missing = "/no/such/dir/file";
    for (id, cwd, options, what) in [
        (
            1,
            "/nope",
            json!({}),
            "working directory /nope: No such file or directory",
        ),
        (
            2,
            "/dev/null",
            json!({}),
            "working directory /dev/null: Not a directory",
        ),
        (
            3,
            "/",
            json!({"output": {"stdout": file(missing)}}),
            "output file /no/such/dir/file: No such file or directory",
        ),
        (
            4,
            "/",
            json!({"output": {"stderr": file("/")}}),
            "error output file /: Is a directory",
        ),
        (
            5,
            "/",
            json!({"input": {"stdin": file(missing)}}),
            "input file /no/such/dir/file: No such file or directory",
        ),
    ] {
        let mut jobspec = world.jobspec(&["true"]);
        jobspec["attributes"]["system"]["cwd"] = json!(cwd);
        jobspec["attributes"]["system"]["shell"] = json!({ "options": options });
        let exception = format!(
            "exception exec: task 0 (host {}): start failed: {what}",
            host()
        );
        assert_eq!(
            world.run(id, &jobspec).await,
            ["start", &exception, "finish 32256"]
        );
    }
}

#[tokio::test]
async fn an_id_in_a_file_name_is_spelled_as_in_the_jobs_environment() {
    let mut world = World::new(&["--cores", "0"]).await;
    let mut jobspec = world.script("echo $WEIR_JOB_ID");
    jobspec["attributes"]["system"]["shell"] = json!({"options": {"output": {"stdout": {"type": "file", "path": "o.{{id}}.{{jobid.f58}}.{{id.f58plain}}"}}}});
    for (id, locale, name) in [
        (1234, "C.UTF-8", "o.ƒNH.ƒNH.fNH"),
        (1235, "C", "o.fNJ.fNJ.fNJ"),
    ] {
        let r = world.alloc(id, &jobspec).await;
        let environment = json!({"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": locale});
        world.start(id, &jobspec, &r, false, &environment);
        assert_eq!(world.told(id).await, ["start", "finish 0"]);
        world.free(id, &r);
        let spelled = name.split('.').nth(1).unwrap();
        assert_eq!(world.read(name), format!("{spelled}\n"), "{name}");
    }
}

#[tokio::test]
async fn what_is_not_utf_8_travels_as_base64_and_a_flood_is_cut() {
    let mut world = World::new(&[]).await;
    assert_eq!(
        world.sh(1, r"printf '\377\376'").await,
        ["start", "finish 0"]
    );
    let data = world.log(1, "output.eventlog").remove(1).1;
    assert_eq!(
        data,
        json!({"stream": "stdout", "rank": "0", "data": "//4=", "encoding": "base64"})
    );
    let mut jobspec = world.script("head -c 3000000 /dev/zero | tr '\\0' x");
    jobspec["attributes"]["system"]["shell"] = json!({"options": {"output": {"limit": "1M"}}});
    assert_eq!(
        world.run(2, &jobspec).await,
        ["start", "finish 0"],
        "the job is not held up by the cap"
    );
    let log = world.log(2, "output.eventlog");
    assert_eq!(
        log.iter().filter(|(name, _)| name == "truncated").count(),
        1
    );
    assert!(world.output(2, "stdout").len() <= 1 << 20);
    assert_eq!(log.last().unwrap().1["eof"], true);
}

/// The streams came with descriptors of the shepherd's, which a small limit forbade: "Bad file descriptor".
#[tokio::test]
async fn a_task_may_have_as_few_files_as_it_likes() {
    let mut world = World::new(&["--cores", "0"]).await;
    for (id, nofile) in [(1, 10), (2, 4), (3, 3)] {
        let mut jobspec = world.jobspec(&["/bin/echo", "hello"]);
        jobspec["attributes"]["system"]["shell"] =
            json!({"options": {"rlimit": {"nofile": nofile}}});
        let told = world.run(id, &jobspec).await;
        // With three there is no descriptor for a library; that is echo's trouble, and echo's to say.
        let expected = if nofile > 3 {
            "finish 0"
        } else {
            "finish 32512"
        };
        assert_eq!(told, ["start", expected], "{nofile}");
        let stream = if nofile > 3 { "stdout" } else { "stderr" };
        assert!(!world.output(id, stream).is_empty());
    }
    assert_eq!(world.sh(4, "exit 3").await, ["start", "finish 768"]);
}

#[tokio::test]
async fn limits_mask_and_cores_are_the_jobs_and_not_ours() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let mut jobspec =
        world.script("ulimit -n; umask; touch made; grep Cpus_allowed_list /proc/self/status");
    jobspec["attributes"]["system"]["shell"] =
        json!({"options": {"rlimit": {"nofile": 17}, "umask": "0077", "cpu-affinity": "on"}});
    assert_eq!(world.run(1, &jobspec).await, ["start", "finish 0"]);
    assert_eq!(
        world.output(1, "stdout"),
        "17\n0077\nCpus_allowed_list:\t0\n"
    );
    let mode = |name: &str| {
        std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(world.path(name)).unwrap().permissions(),
        )
    };
    assert_eq!(mode("made") & 0o777, 0o600);
    assert_ne!(mode("jobs/1/status") & 0o777, 0);
    let mut jobspec = world.script("grep Cpus_allowed_list /proc/self/status");
    jobspec["attributes"]["system"]["shell"] = json!({"options": {"cpu-affinity": "per-task"}});
    jobspec["resources"][0]["count"] = json!(2);
    assert_eq!(world.run(2, &jobspec).await, ["start", "finish 0"]);
    let mut lines: Vec<String> = world
        .output(2, "stdout")
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["Cpus_allowed_list:\t0", "Cpus_allowed_list:\t1"]);
}

#[tokio::test]
async fn a_request_that_can_never_be_served_says_what_there_is() {
    let mut world = World::new(&["--cores", "0-1"]).await;
    let mut jobspec = world.script("true");
    jobspec["resources"][0]["count"] = json!(3);
    world.ask("sched.alloc", &alloc(1, &jobspec));
    let (_, answer) = world.answer().await;
    assert_eq!(
        answer,
        json!({"id": 1, "type": 2, "note":
            "unsatisfiable request: asked for 3 slots of 1 core; there is 1 node with 2 cores and no GPUs"})
    );
}

#[tokio::test]
async fn engines_services_answer_who_asks() {
    let world = &mut World::new(&["-s", "2", "--cores", "0-1"]).await;
    let guest = Cred {
        userid: 12345,
        rolemask: ROLE_USER,
    };
    world.ask_as("sched.ping", &json!({"seq": 1}), 3, guest);
    assert_eq!(world.answer().await.1["seq"], 1);
    world.ask_as("sched.alloc", &alloc(1, &world.script("true")), 3, guest);
    assert_eq!(
        world.answer().await.1,
        json!({"errnum": 1, "text": "Request requires owner credentials"})
    );
    world.ask_as("job-exec.nosuch", &json!({}), 3, guest);
    assert_eq!(
        world.answer().await.1,
        json!({"errnum": 38, "text": "Unknown service method 'job-exec.nosuch'"})
    );
    world.ask_as("resource.sched-status", &json!({}), 3, guest);
    let (_, status) = world.answer().await;
    assert_eq!(status["all"]["execution"]["R_lite"][0]["rank"], "0-1");
    assert_eq!(status["allocated"]["execution"]["R_lite"], json!([]));
    world.ask_as(
        "job-exec.stats-get",
        &json!({}),
        3,
        Cred {
            userid: 0,
            rolemask: wire::ROLE_OWNER,
        },
    );
    assert_eq!(
        world.answer().await.1,
        json!({"running": 0, "started": 0, "finished": 0})
    );
}

#[tokio::test]
async fn a_job_on_several_nodes_is_one_job() {
    let mut world = World::new(&["-s", "3", "--cores", "0-1"]).await;
    let mut jobspec =
        world.script("echo $WEIR_TASK_RANK/$WEIR_JOB_SIZE $WEIR_JOB_NNODES; exit $WEIR_TASK_RANK");
    jobspec["resources"] = json!([{"type": "node", "count": 3, "exclusive": true, "with": [
        {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}]}]);
    world.until_online("0-2").await;
    assert_eq!(world.run(1, &jobspec).await, ["start", "finish 512"]);
    let mut lines: Vec<String> = world
        .output(1, "stdout")
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(lines, ["0/3 3", "1/3 3", "2/3 3"]);
    let names: Vec<String> = world
        .log(1, "exec.eventlog")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names
            .iter()
            .filter(|name| *name == "shell.task-exit")
            .count(),
        3
    );
    assert_eq!(&names[..1], ["init"].as_slice());
    assert_eq!(names[names.len() - 2..], ["complete", "done"]);
    assert_eq!(world.log(1, "output.eventlog")[0].0, "header");
    assert_eq!(
        world
            .log(1, "output.eventlog")
            .iter()
            .filter(|(name, _)| name == "header")
            .count(),
        1
    );
}
