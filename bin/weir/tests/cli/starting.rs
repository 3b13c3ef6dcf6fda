//! `weir start` with daemons that are scripts: what is said when an instance cannot be, and how it ends.

use crate::fake::{Answer, Fake};
use crate::{run, weir};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn program(dir: &Path, name: &str, script: &str) {
    let path = dir.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn programs(manager: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path(), "weir-job-manager", manager);
    program(dir.path(), "weir-job-info", "exit 0");
    program(dir.path(), "weir-job-runner", "exit 0");
    dir
}

#[test]
fn a_job_manager_that_cannot_start_is_quoted() {
    let exec =
        programs("echo 'weir-job-manager: /x: in use by process 7; stop it first' >&2; exit 78");
    let state = tempfile::tempdir().unwrap();
    let ran = run(weir(["start", "--statedir"])
        .arg(state.path())
        .env("WEIR_EXEC_DIR", exec.path()));
    ran.fails(
        1,
        &["start: weir-job-manager: /x: in use by process 7; stop it first"],
    );
    // The same for a private instance, and its directory is gone afterwards.
    let temporary = tempfile::tempdir().unwrap();
    let ran = run(weir(["start", "true"])
        .env("WEIR_EXEC_DIR", exec.path())
        .env("TMPDIR", temporary.path()));
    ran.fails(1, &["in use by process 7"]);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_job_manager_that_dies_at_once_is_not_tried_for_ever() {
    let exec = programs("echo 'weir-job-manager: boom' >&2; exit 1");
    let state = tempfile::tempdir().unwrap();
    let ran = run(weir(["start", "--statedir"])
        .arg(state.path())
        .env("WEIR_EXEC_DIR", exec.path()));
    assert_eq!(ran.status(), 1);
    let lines: Vec<&str> = ran.err().lines().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for line in &lines[..3] {
        assert!(
            line.contains("start: weir-job-manager ended with status 1, starting it again in"),
            "{line}"
        );
    }
    for part in [
        "giving up",
        "4 times",
        "ended with status 1: boom",
        "log/job-manager.log",
    ] {
        assert!(lines[3].contains(part), "{lines:?}");
    }
}

#[test]
fn what_is_missing_or_cannot_be_made_is_named() {
    let state = tempfile::tempdir().unwrap();
    let nowhere = run(weir(["start", "--statedir"])
        .arg(state.path())
        .env("WEIR_EXEC_DIR", "/nonexistent"));
    nowhere.fails(
        1,
        &[
            "/nonexistent/weir-job-manager is not there",
            "WEIR_EXEC_DIR",
        ],
    );
    let file = state.path().join("file");
    fs::write(&file, "").unwrap();
    run(weir(["start", "--statedir"]).arg(file.join("x")))
        .fails(1, &["cannot make the state directory", "--statedir"]);
    run(weir(["start", "--statedir"]).arg(state.path().join("x".repeat(120))))
        .fails(2, &["107 bytes", "--statedir"]);
}

#[test]
fn an_argument_that_a_daemon_does_not_take_is_named_and_not_tried_again() {
    let exec = programs(
        "echo x >>tried; printf 'error: unexpected argument '\\''--foo'\\'' found\\n\\nFor more information, try --help\\n' >&2; exit 2",
    );
    let state = tempfile::tempdir().unwrap();
    let ran = run(weir(["start", "--manager-arg=--foo", "--statedir"])
        .arg(state.path())
        .current_dir(state.path())
        .env("WEIR_EXEC_DIR", exec.path()));
    ran.fails(
        1,
        &["start: weir-job-manager: unexpected argument '--foo' found"],
    );
    assert_eq!(
        fs::read_to_string(state.path().join("tried")).unwrap(),
        "x\n"
    );
}

#[test]
fn an_old_log_is_not_quoted() {
    let exec = programs("exit 78");
    let state = tempfile::tempdir().unwrap();
    fs::create_dir(state.path().join("log")).unwrap();
    fs::write(state.path().join("log/job-manager.log"), "an old line\n").unwrap();
    let ran = run(weir(["start", "--statedir"])
        .arg(state.path())
        .env("WEIR_EXEC_DIR", exec.path()));
    ran.fails(1, &["weir-job-manager: it ended with status 78"]);
}

/// A job-manager that leaves answering to a fake, which then knows its process.
const SLEEPS: &str = "echo $$ >$PID_FILE.new; mv $PID_FILE.new $PID_FILE; exec sleep 1000";

#[test]
fn fault_on_a_full_disk_it_is_said_that_room_is_waited_for() {
    let exec = programs(SLEEPS);
    for name in ["weir-job-info", "weir-job-runner"] {
        program(exec.path(), name, "exec sleep 1000");
    }
    let pid_file = exec.path().join("pid");
    let pid = pid_file.clone();
    let mut full = 0;
    let fake = Fake::start(move |topic, _| match topic {
        "job-manager.stats-get" => {
            let pid = fs::read_to_string(&pid).unwrap_or_default();
            let pid: u32 = pid.trim().parse().unwrap_or(0);
            full += u32::from(pid != 0);
            Answer::Ok(json!({"pid": pid, "no_space": true}))
        }
        "job-manager.queue-list" => Answer::Ok(json!({"queues": []})),
        // There is room once it was asked a third time, after the first that only wants to know who answers.
        "job-manager.queue-status" if full < 4 => Answer::Ok(json!({"blocked": "scheduler"})),
        _ => Answer::Ok(Value::Object(serde_json::Map::new())),
    });
    let socket = fake.socket();
    let ran = run(weir(["start", "--statedir"])
        .arg(socket.parent().unwrap())
        .args(["echo", "well"])
        .env("PID_FILE", &pid_file)
        .env("WEIR_EXEC_DIR", exec.path()));
    assert_eq!((ran.status(), ran.out()), (0, "well\n"), "{}", ran.err());
    let said: Vec<&str> = ran.err().lines().collect();
    assert_eq!(said.len(), 1, "{said:?}");
    for part in ["the disk", "is full: waiting for room", "free some space"] {
        assert!(said[0].contains(part), "{said:?}");
    }
}

#[test]
fn fault_an_engine_that_never_is_ready_is_named_with_its_last_word() {
    let exec = programs(SLEEPS);
    program(exec.path(), "weir-job-info", "exec sleep 1000");
    program(
        exec.path(),
        "weir-job-runner",
        "echo 'weir-job-runner: cannot do it' >&2; exec sleep 1000",
    );
    let pid_file = exec.path().join("pid");
    let pid = pid_file.clone();
    let began = std::time::Instant::now();
    let fake = Fake::start(move |topic, _| match topic {
        "job-manager.stats-get" => {
            let pid = fs::read_to_string(&pid).unwrap_or_default();
            let pid: u32 = pid.trim().parse().unwrap_or(0);
            Answer::Ok(json!({"pid": pid}))
        }
        "job-manager.queue-list" => Answer::Ok(json!({"queues": []})),
        "job-manager.queue-status" if began.elapsed().as_secs() < 6 => {
            Answer::Ok(json!({"blocked": "scheduler"}))
        }
        _ => Answer::Ok(Value::Object(serde_json::Map::new())),
    });
    let socket = fake.socket();
    let ran = run(weir(["start", "--statedir"])
        .arg(socket.parent().unwrap())
        .arg("true")
        .env("PID_FILE", &pid_file)
        .env("WEIR_EXEC_DIR", exec.path()));
    assert_eq!(ran.status(), 0, "{}", ran.err());
    for part in [
        "still waiting for weir-job-runner",
        "job-runner.log",
        "cannot do it",
    ] {
        assert!(ran.err().contains(part), "{}", ran.err());
    }
}

#[test]
fn fault_a_fifo_in_the_place_of_the_key_is_one_refusal() {
    let state = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(state.path().join("key"))
        .status();
    assert!(made.unwrap().success());
    let ran = run(weir(["start", "--statedir"]).arg(state.path()));
    ran.fails(1, &["/key is a FIFO where a file is to be: move it away"]);
    assert_eq!(ran.err().lines().count(), 1);
}

#[test]
fn a_command_is_not_run_where_jobs_of_another_session_would_be_canceled() {
    let exec = programs(SLEEPS);
    for name in ["weir-job-info", "weir-job-runner"] {
        program(exec.path(), name, "echo started >started; exec sleep 1000");
    }
    let pid_file = exec.path().join("pid");
    let pid = pid_file.clone();
    let fake = Fake::start(move |topic, _| match topic {
        "job-manager.stats-get" => {
            let pid = fs::read_to_string(&pid).unwrap_or_default();
            let pid: u32 = pid.trim().parse().unwrap_or(0);
            Answer::Ok(json!({"pid": pid, "active_jobs": 2}))
        }
        topic => panic!("{topic} was asked"),
    });
    let socket = fake.socket();
    let state = socket.parent().unwrap();
    let ran = run(weir(["start", "--statedir"])
        .arg(state)
        .args(["touch", "ran"])
        .current_dir(exec.path())
        .env("PID_FILE", &pid_file)
        .env("WEIR_EXEC_DIR", exec.path()));
    ran.fails(
        1,
        &[
            "holds 2 jobs that have not ended, which would be canceled",
            &format!(
                "run that beside it: weir start --statedir={}",
                state.display()
            ),
        ],
    );
    assert!(!exec.path().join("ran").exists() && !exec.path().join("started").exists());
}

#[test]
fn guests_are_let_in_to_a_directory_that_is_open_to_them() {
    let exec = programs("echo \"weir-job-manager: $*\" >&2; exit 78");
    let temporary = tempfile::tempdir().unwrap();
    let start = |state: &Path| {
        run(weir(["start", "--allow-guests", "--statedir"])
            .arg(state)
            .env("WEIR_EXEC_DIR", exec.path()))
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let fresh = temporary.path().join("fresh");
    start(&fresh).fails(1, &["--allow-guests"]);
    assert_eq!((mode(&fresh), mode(&fresh.join("log"))), (0o711, 0o700));
    let closed = temporary.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    start(&closed).fails(2, &["closed to them (mode 700)", "chmod 711", "--statedir"]);
    assert_eq!(mode(&closed), 0o700);
}
