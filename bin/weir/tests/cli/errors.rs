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
fn a_negative_number_is_out_of_range_and_no_option() {
    run(&mut weir(["submit", "-n", "-1", "true"])).fails(2, &["-1 is not in 1.."]);
    run(&mut weir(["submit", "-t", "-5", "true"])).fails(2, &["-5"]);
    run(&mut weir(["submit", "-t", "-5m", "true"])).fails(2, &["-5m"]);
    run(&mut weir(["wait", "-t", "-1", "5"])).fails(2, &["-1"]);
    run(&mut weir(["jobs", "-c", "-1"])).fails(2, &["-1"]);
    run(&mut weir(["job", "priority", "1234", "-1"])).fails(2, &["-1", "0 to 31"]);
    for line in [
        &["submit", "-n", "-1", "true"][..],
        &["submit", "-t", "-5", "true"],
        &["submit", "-c", "-1", "true"],
        &["jobs", "-c", "-1"],
        &["ping", "-c", "-1"],
    ] {
        let ran = run(&mut weir(line));
        assert!(!ran.err().contains("unexpected argument"), "{}", ran.err());
    }
}

#[test]
fn what_is_not_built_is_not_offered_and_refused_in_words() {
    let dependency = ["submit", "--dependency=afterok:5", "true"];
    run(&mut weir(dependency)).fails(2, &["dependencies are not built yet", "weir wait"]);
    let help = run(&mut weir(["submit", "--help"]));
    assert!(!help.succeeds().contains("--dependency"));
}

#[test]
fn a08_a_purge_that_does_not_say_which_jobs_is_told_what_to_give() {
    for line in [&["job", "purge"][..], &["job", "purge", "--force"]] {
        let remedy = ["--age-limit", "--num-limit", "--all", "ids"];
        run(&mut weir(line)).fails(2, &remedy);
    }
    let both = ["job", "purge", "--all", "--num-limit=3"];
    run(&mut weir(both)).fails(2, &["--all", "cannot be used"]);
    run(&mut weir(["job", "purge", "--all", "123"])).fails(2, &["cannot be used"]);
    run(&mut weir(["job", "purge", "--age-limit=soon"])).fails(2, &["soon"]);
    run(&mut weir(["job", "purge", "--num-limit=-1"])).fails(2, &["-1"]);
}

/// A pipe from a listing of nothing is no wrong command line: a job of cron must not fail on a good day.
#[test]
fn fault_ids_from_a_pipe_that_names_none_are_nothing_to_do() {
    for line in [
        &["job", "purge", "--force", "-"][..],
        &["cancel", "-"],
        &["wait", "-"],
        &["job", "urgency", "-", "5"],
    ] {
        run(&mut weir(line)).fails(0, &["named no job"]);
    }
    run(&mut weir(["cancel", ","])).fails(2, &["no job id was given"]);
}

#[test]
fn a_count_of_none_is_no_count() {
    run(&mut weir(["job", "last", "0"])).fails(2, &["0 is not a count"]);
}

#[test]
fn ids_and_a_filter_exclude_each_other() {
    run(&mut weir(["jobs", "-f", "running", "1234"])).fails(2, &["--filter", "cannot be used"]);
    run(&mut weir(["jobs", "--name=x", "1234"])).fails(2, &["--name", "cannot be used"]);
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
fn prioritize_is_told_what_and_for_which_jobs() {
    for (line, words) in [
        (
            &["1234", "4294967296"][..],
            &["4294967296", "0 to 4294967295", "default"][..],
        ),
        (&["1234", "-1"], &["-1", "0 to 4294967295"]),
        (&["1234"], &["VALUE"]),
        (&[], &["ID"]),
        (&["abc", "5"], &["job id", "malformed"]),
        (&["--query", "pending"], &["--set"]),
        (&["--set", "5"], &["--query"]),
        (&["--query", "pending", "--set", "+x"], &["+x"]),
        (&["--query", "colour:red", "--set", "-5"], &["colour"]),
        (
            &["--query", "pending", "--set", "5", "1234", "5"],
            &["--query"],
        ),
        (
            &[
                "--from",
                "/nonexistent/x",
                "--query",
                "pending",
                "--set",
                "5",
            ],
            &["--from"],
        ),
    ] {
        let line: Vec<&str> = ["job", "prioritize"].iter().chain(line).copied().collect();
        run(&mut weir(&line)).fails(2, words);
    }
    run(&mut weir(["job", "prioritize", "--from", "/nonexistent/x"])).fails(1, &["/nonexistent/x"]);
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
    run(&mut at(&other, ["job", "last"])).fails(1, &["does not offer job-manager.history.get"]);
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
