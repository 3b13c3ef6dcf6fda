//! What goes on for a while: the journal, eventlogs, a job's output and input.

use crate::fake::{Answer, Fake};
use crate::{at, run};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

fn event(seq: u64, name: &str) -> Value {
    json!({"seq": seq, "id": 1234, "eventlog_seq": seq, "entry": {"timestamp": 1.5, "name": name}})
}

fn logged(text: &str) -> Value {
    json!({"event": format!("{text}\n")})
}

#[test]
fn the_journal_is_passed_on_byte_for_byte_and_resumed_behind_its_cursor() {
    let mut connections = 0;
    let fake = Fake::start(move |_, _| {
        connections += 1;
        match connections {
            1 => Answer::Cut(vec![
                json!({"epoch": "ab", "seq": 3, "caught_up": true, "events": []}),
                json!({"epoch": "ab", "seq": 5, "events": [event(4, "submit"), event(5, "start")]}),
                json!({"epoch": "ab", "seq": 7, "events": []}),
            ]),
            _ => Answer::Open(vec![
                json!({"epoch": "ab", "seq": 7, "caught_up": true, "events": []}),
                json!({"epoch": "ab", "seq": 8, "events": [event(8, "finish"), event(9, "clean")]}),
            ]),
        }
    });
    let ran = run(&mut at(
        &fake,
        [
            "journal",
            "--json",
            "--count=3",
            "--allow=submit,start,finish",
        ],
    ));
    let expected: String = [event(4, "submit"), event(5, "start"), event(8, "finish")]
        .iter()
        .map(|event| format!("{event}\n"))
        .collect();
    assert_eq!(
        (ran.out(), ran.status()),
        (expected.as_str(), 0),
        "{}",
        ran.err()
    );
    assert!(
        ran.err()
            .contains("behind event 7: the instance closed the connection; trying again"),
        "{}",
        ran.err()
    );
    assert_eq!(
        fake.asked().payload,
        json!({"allow": ["submit", "start", "finish"], "from": "now"})
    );
    assert_eq!(
        fake.asked().payload,
        json!({"allow": ["submit", "start", "finish"], "after": 7, "epoch": "ab"})
    );
}

#[test]
fn a_backlog_that_is_cut_is_an_error_and_never_a_short_list() {
    let fake = Fake::start(|_, _| {
        Answer::Cut(vec![
            json!({"epoch": "ab", "backlog": true, "events": [event(1, "submit")]}),
        ])
    });
    let ran = run(&mut at(
        &fake,
        ["journal", "--from=all", "--no-follow", "--json"],
    ));
    assert_eq!(ran.out().lines().count(), 1);
    ran.fails(1, &["lost before all earlier events had come"]);
}

#[test]
fn a11_a_cursor_that_cannot_be_continued_is_refused_with_both_ends() {
    let text =
        "cursor 400 of epoch ab cannot be continued: this journal (epoch ab) holds 206 to 305";
    let fake = Fake::start(move |_, _| {
        Answer::Refuse(
            116,
            Some(
                "cursor 400 of epoch ab cannot be continued: this journal (epoch ab) holds 206 to 305",
            ),
        )
    });
    run(&mut at(&fake, ["journal", "--after=400", "--epoch=ab"])).fails(1, &[text]);
    assert_eq!(fake.asked().payload, json!({"after": 400, "epoch": "ab"}));
}

#[test]
fn fault_no_follow_goes_on_until_the_purge_that_concerns_its_backlog_is_told() {
    let purge = json!({"seq": 3, "log": "system", "eventlog_seq": 0,
                       "entry": {"timestamp": 1.5, "name": "purge", "context": {"jobs": [1]}}});
    let fake = Fake::start(move |topic, asked| match topic {
        "job-manager.stats-get" => Answer::Ok(json!({"seq": 4})),
        "job-manager.lookup" => Answer::Refuse(2, Some("unknown job id")),
        // The connection is lost behind `caught_up`: the rest comes from the next one.
        _ if asked.get("after").is_none() => Answer::Cut(vec![
            json!({"epoch": "ab", "backlog": true, "events": [event(2, "submit")]}),
            json!({"epoch": "ab", "seq": 2, "caught_up": true, "events": []}),
        ]),
        _ => Answer::Open(vec![
            json!({"epoch": "ab", "seq": 2, "caught_up": true, "events": []}),
            json!({"epoch": "ab", "seq": 3, "events": [purge]}),
            json!({"epoch": "ab", "seq": 4, "events": [event(4, "submit")]}),
            json!({"epoch": "ab", "seq": 5, "events": [event(5, "submit")]}),
        ]),
    });
    let ran = run(&mut at(
        &fake,
        ["journal", "--from=all", "--no-follow", "--json"],
    ));
    assert_eq!(ran.status(), 0, "{}", ran.err());
    let seqs: Vec<Value> = ran
        .out()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone())
        .collect();
    assert_eq!(seqs, [2, 3, 4]);
    // Who does not hear of purges waits for none.
    for filter in ["--ids=1234", "--deny=purge", "--allow=submit"] {
        let fake = Fake::start(|topic, _| match topic {
            "job-manager.events" => Answer::Open(vec![
                json!({"epoch": "ab", "seq": 2, "caught_up": true, "events": []}),
            ]),
            _ => Answer::Refuse(71, Some("not asked for")),
        });
        run(&mut at(
            &fake,
            ["journal", "--from=all", "--no-follow", filter],
        ))
        .succeeds();
    }
}

#[test]
fn the_journal_ends_when_caught_up_if_asked_to() {
    let fake = Fake::start(|topic, _| match topic {
        "job-manager.stats-get" => Answer::Ok(json!({"seq": 1})),
        "job-manager.lookup" => Answer::Refuse(2, Some("unknown job id")),
        _ => Answer::Open(vec![
            json!({"epoch": "ab", "backlog": true, "events": [event(1, "submit")]}),
            json!({"epoch": "ab", "seq": 1, "caught_up": true, "events": []}),
        ]),
    });
    let ran = run(&mut at(&fake, ["journal", "--from=all", "--no-follow"]));
    assert_eq!(
        ran.succeeds(),
        "       1 1970-01-01T00:00:01.500000          ƒNH submit\n"
    );
}

#[test]
fn eventlogs_are_printed_once_or_followed() {
    let fake = Fake::start(|topic, asked| match topic {
        "job-info.lookup" if asked["id"] == json!(1234) => Answer::Ok(
            json!({"id": 1234, "eventlog": "{\"timestamp\":1.0,\"name\":\"submit\",\"context\":{\"urgency\":16}}\n{\"timestamp\":2.0,\"name\":\"clean\"}\n"}),
        ),
        "job-info.lookup" => Answer::Refuse(2, Some("invalid job id")),
        _ => Answer::Stream(vec![
            logged(r#"{"timestamp":1.0,"name":"submit"}"#),
            logged(r#"{"timestamp":2.0,"name":"clean"}"#),
        ]),
    });
    assert_eq!(
        run(&mut at(&fake, ["job", "eventlog", "1234"])).succeeds(),
        "1.000000 submit urgency=16\n2.000000 clean\n"
    );
    assert_eq!(
        run(&mut at(
            &fake,
            ["job", "eventlog", "-F", "-T", "offset", "1234"]
        ))
        .succeeds(),
        "0.000000 submit\n1.000000 clean\n"
    );
    assert_eq!(
        run(&mut at(&fake, ["job", "eventlog", "--json", "1234"]))
            .succeeds()
            .lines()
            .count(),
        2
    );
    run(&mut at(&fake, ["job", "eventlog", "57"])).fails(1, &["no such job 57 (ƒz)"]);
}

#[test]
fn wait_event_finds_it_or_says_that_it_will_not_come() {
    let fake = Fake::start(|_, asked| {
        let log = vec![
            logged(r#"{"timestamp":1.0,"name":"submit"}"#),
            logged(
                r#"{"timestamp":2.0,"name":"exception","context":{"type":"cancel","severity":0}}"#,
            ),
        ];
        match asked["id"].as_u64() {
            Some(1234) => Answer::Stream(log),
            Some(1235) => Answer::Open(log),
            _ => Answer::Refuse(2, None),
        }
    });
    assert_eq!(
        run(&mut at(&fake, ["job", "wait-event", "1234", "submit"])).succeeds(),
        "1.000000 submit\n"
    );
    assert_eq!(
        run(&mut at(
            &fake,
            [
                "job",
                "wait-event",
                "--quiet",
                "-m",
                "severity=0",
                "1234",
                "exception"
            ]
        ))
        .succeeds(),
        ""
    );
    run(&mut at(&fake, ["job", "wait-event", "1234", "start"]))
        .fails(1, &["ended without 'start'"]);
    run(&mut at(
        &fake,
        ["job", "wait-event", "-m", "type=x", "1234", "exception"],
    ))
    .fails(1, &["'exception' came, but not with type=x"]);
    run(&mut at(
        &fake,
        ["job", "wait-event", "-t", "0.05s", "1235", "start"],
    ))
    .fails(124, &["no 'start' within 0.05s"]);
    run(&mut at(&fake, ["job", "wait-event", "57", "start"])).fails(1, &["no such job 57 (ƒz)"]);
}

/// A job that prints and ends with this wait status; its input is taken by `shell.stdin`.
fn job(status: i32) -> impl FnMut(&str, &Value) -> Answer + Send {
    move |topic, asked| match (topic, asked["path"].as_str()) {
        ("job-ingest.submit", _) => Answer::Ok(json!({"id": 1234, "seq": 1})),
        (_, Some("eventlog")) => Answer::Stream(vec![
            logged(r#"{"timestamp":1.0,"name":"submit"}"#),
            logged(&format!(
                r#"{{"timestamp":2.0,"name":"finish","context":{{"status":{status}}}}}"#
            )),
            logged(r#"{"timestamp":2.0,"name":"clean"}"#),
        ]),
        (_, Some("guest.output")) => Answer::Stream(vec![
            logged(r#"{"timestamp":1.0,"name":"header","context":{"version":1}}"#),
            logged(
                r#"{"timestamp":1.0,"name":"data","context":{"stream":"stdout","rank":"0","data":"out\n"}}"#,
            ),
            logged(
                r#"{"timestamp":1.0,"name":"data","context":{"stream":"stderr","rank":"0","data":"err\n"}}"#,
            ),
            logged(
                r#"{"timestamp":1.0,"name":"data","context":{"stream":"stdout","rank":"0","data":"/wo=","encoding":"base64"}}"#,
            ),
            logged(
                r#"{"timestamp":1.0,"name":"data","context":{"stream":"stdout","rank":"0","eof":true}}"#,
            ),
        ]),
        (_, Some("guest.exec.eventlog")) => Answer::Open(vec![logged(
            r#"{"timestamp":1.0,"name":"shell.init","context":{"service":"shell","leader-rank":0,"size":1}}"#,
        )]),
        _ => Answer::Ok(Value::Null),
    }
}

#[test]
fn run_gives_the_jobs_output_and_its_status() {
    let fake = Fake::start(job(0));
    let ran = run(&mut at(&fake, ["run", "x"]));
    assert_eq!(
        (ran.0.stdout.as_slice(), ran.err(), ran.status()),
        (&b"out\n\xff\n"[..], "err\n", 0)
    );
    let fake = Fake::start(job(3 << 8));
    let ran = run(&mut at(&fake, ["run", "-l", "x"]));
    assert_eq!(
        (ran.0.stdout.as_slice(), ran.status()),
        (&b"0: out\n0: \xff\n"[..], 3)
    );
    assert_eq!(ran.err(), "0: err\nweir: ƒNH: exited with exit code 3\n");
    let fake = Fake::start(job(9));
    assert_eq!(run(&mut at(&fake, ["run", "--quiet", "x"])).status(), 137);
    assert_eq!(
        run(&mut at(&fake, ["job", "attach", "--quiet", "ƒNH"])).status(),
        137
    );
}

#[test]
fn a_job_that_never_ran_is_status_1_with_the_exception() {
    let fake = Fake::start(|topic, asked| match (topic, asked["path"].as_str()) {
        ("job-ingest.submit", _) => Answer::Ok(json!({"id": 1234})),
        (_, Some("eventlog")) => Answer::Stream(vec![logged(
            r#"{"timestamp":2.0,"name":"exception","context":{"type":"alloc","severity":0,"note":"cannot be satisfied"}}"#,
        )]),
        _ => Answer::Stream(Vec::new()),
    });
    run(&mut at(&fake, ["run", "x"])).fails(1, &["ƒNH", "alloc", "cannot be satisfied"]);
}

#[test]
fn standard_input_goes_to_the_job_and_its_end_too() {
    let mut standing = job(0);
    let fake = Fake::start(move |topic, asked| match (topic, asked["path"].as_str()) {
        (_, Some("eventlog" | "guest.output")) => Answer::Open(Vec::new()),
        _ => standing(topic, asked),
    });
    let mut child = at(&fake, ["run", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"hello\n").unwrap();
    assert_eq!(
        fake.asked_for("shell.stdin"),
        json!({"stream": "stdin", "rank": "all", "data": "hello\n"})
    );
    drop(input);
    assert_eq!(
        fake.asked_for("shell.stdin"),
        json!({"stream": "stdin", "rank": "all", "eof": true})
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn output_goes_on_without_gap_or_repeat_when_the_instance_comes_back() {
    let mut outputs = 0;
    let fake = Fake::start(move |topic, asked| match (topic, asked["path"].as_str()) {
        ("job-ingest.submit", _) => Answer::Ok(json!({"id": 1234})),
        (_, Some("eventlog")) if outputs == 0 => {
            Answer::Open(vec![logged(r#"{"timestamp":1.0,"name":"submit"}"#)])
        }
        (_, Some("eventlog")) => Answer::Stream(vec![
            logged(r#"{"timestamp":1.0,"name":"submit"}"#),
            logged(r#"{"timestamp":2.0,"name":"finish","context":{"status":0}}"#),
        ]),
        (_, Some("guest.output")) => {
            outputs += 1;
            let data = |text: &str| {
                logged(&format!(r#"{{"timestamp":1.0,"name":"data","context":{{"stream":"stdout","rank":"0","data":"{text}\n"}}}}"#).replace('\n', "\\n"))
            };
            if outputs == 1 {
                Answer::Cut(vec![data("a"), data("b")])
            } else {
                Answer::Stream(vec![data("a"), data("b"), data("c")])
            }
        }
        _ => Answer::Open(Vec::new()),
    });
    let ran = run(&mut at(&fake, ["run", "x"]));
    assert_eq!((ran.out(), ran.status()), ("a\nb\nc\n", 0), "{}", ran.err());
    assert!(ran.err().contains("trying again"), "{}", ran.err());
}

#[test]
fn ctrl_c_asks_first_and_cancels_then() {
    let fake = Fake::start(|topic, asked| match (topic, asked["path"].as_str()) {
        ("job-ingest.submit", _) => Answer::Ok(json!({"id": 1234})),
        ("job-manager.raise", _) => Answer::Ok(Value::Null),
        (_, Some("guest.output")) => Answer::Open(vec![logged(
            r#"{"timestamp":1.0,"name":"data","context":{"stream":"stdout","rank":"0","data":"up\n"}}"#,
        )]),
        _ => Answer::Open(Vec::new()),
    });
    let mut child = at(&fake, ["run", "x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let mut interrupt = |expected: &str| {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        assert!(line.contains(expected), "{line}");
    };
    interrupt("press ctrl-C again within 2 s to cancel");
    interrupt("canceling");
    assert_eq!(fake.asked_for("job-manager.raise")["type"], json!("cancel"));
    interrupt("left while it is being canceled");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(
        (child.wait().unwrap().code(), rest.as_str()),
        (Some(130), "")
    );
}
