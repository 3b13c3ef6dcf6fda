//! Each thing that can be wrong before anything happens: one line that names the thing and the remedy, non-zero exit.

use crate::fake::{Answer, Fake};
use crate::{at, run, weir};
use std::process::Stdio;

#[test]
fn a_bad_command_line_is_one_line_with_the_way_to_help() {
    run(&mut weir(["jbos"])).fails(2, &["'jbos'", "see 'weir --help'"]);
    run(&mut weir(["jobs", "--colr"])).fails(2, &["--colr", "--color", "see 'weir jobs --help'"]);
    run(&mut weir(["submit"])).fails(2, &["COMMAND", "see 'weir submit --help'"]);
    run(&mut weir(["job", "priority", "5"])).fails(2, &["VALUE", "see 'weir job priority --help'"]);
    run(&mut weir(["submit", "-t", "5q", "true"])).fails(2, &["5q"]);
    run(&mut weir(["jobs", "-f", "runing"])).fails(2, &["'runing'", "pending, running"]);
    run(&mut weir(["jobs", "-o", "{nope}"])).fails(2, &["'nope'", "--format=help"]);
    run(&mut weir(["job", "kill", "-s", "NOPE", "5"])).fails(2, &["'NOPE'", "USR1"]);
    run(&mut weir(["submit", "--env=A=$NOPE", "true"])).fails(1, &["$NOPE is not set"]);
}

#[test]
fn a_priority_of_32_is_named_with_the_range() {
    for command in ["priority", "urgency"] {
        run(&mut weir(["job", command, "1234", "32"]))
            .fails(2, &["32", "0 to 31", "hold", "expedite", "default"]);
    }
    run(&mut weir(["submit", "--urgency=32", "true"]))
        .fails(2, &["32", "0 to 31", "hold", "expedite", "default"]);
}

#[test]
fn a_bad_id_is_named() {
    for line in [
        &["cancel", "abc"][..],
        &["job", "eventlog", "abc"],
        &["job", "attach", "ƒ0"],
        &["job", "id", "abc"],
        &["job", "priority", "abc", "5"],
    ] {
        run(&mut weir(line)).fails(2, &["job id", "malformed"]);
    }
}

#[test]
fn a_socket_that_is_not_there_is_named_with_the_remedy() {
    let no_socket = run(weir(["jobs"]).env("WEIR_URI", "local:///nonexistent/socket"));
    no_socket.fails(1, &["/nonexistent/socket", "weir start", "WEIR_URI"]);
    run(&mut weir(["submit", "true"]))
        .fails(1, &["/nonexistent/.local/state/weir/socket", "weir start"]);
    run(weir(["jobs"]).env("WEIR_URI", "ssh://host"))
        .fails(1, &["WEIR_URI='ssh://host'", "local:///"]);
    run(weir(["jobs"]).env("FLUX_URI", "local:///nonexistent/x"))
        .fails(1, &["/nonexistent/x", "FLUX_URI"]);
    // A socket nobody serves any more.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    run(weir(["ping"]).env("WEIR_URI", format!("local://{}", socket.display())))
        .fails(1, &["has stopped", "weir start"]);
}

#[test]
fn an_instance_that_refuses_a_guest_says_so() {
    use std::io::Write as _;
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let guard = std::thread::spawn(move || listener.accept().unwrap().0.write_all(&[1]).unwrap());
    run(weir(["jobs"]).env("WEIR_URI", format!("local://{}", socket.display())))
        .fails(1, &["Operation not permitted"]);
    guard.join().unwrap();
}

#[test]
fn a_missing_service_is_named_with_its_daemon() {
    let fake = Fake::start(|_, _| {
        Answer::Refuse(38, Some("No service matching job-list.list is registered"))
    });
    run(&mut at(&fake, ["jobs"])).fails(
        1,
        &["job-list", "weir-job-info is starting, or does not run"],
    );
    run(&mut at(&fake, ["ping", "nosuch"])).fails(1, &["no service 'nosuch'"]);
    let other = Fake::start(|topic, _| {
        Answer::Refuse(
            38,
            Some(if topic.is_empty() {
                ""
            } else {
                "Unknown service method 'x'"
            }),
        )
    });
    run(&mut at(&other, ["job", "purge", "--all"])).fails(1, &["does not offer job-manager.purge"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let fake = Fake::start(|_, _| {
        let rows: Vec<_> = (1..2000)
            .map(|id| serde_json::json!({"jobs": [{"id": id, "name": "x".repeat(100)}]}))
            .collect();
        Answer::Stream(rows)
    });
    for args in [
        &["jobs", "-c0"][..],
        &["jobs", "--json", "-c0"],
        &["jobs", "--help"],
    ] {
        let mut child = at(&fake, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!(
            (ended.status.code(), ended.stderr.len()),
            (Some(0), 0),
            "{args:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}
