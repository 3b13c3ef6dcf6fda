//! `weir jobs`, `weir info` and `weir wait`: what is asked of job-list, and what the answer looks like.

use crate::fake::{Answer, Fake};
use crate::{at, run};
use serde_json::{Value, json};

fn jobs() -> Vec<Value> {
    vec![
        json!({"version": 1, "jobs": [{"id": 1234, "userid": 0, "state": 8, "priority": 16, "urgency": 16, "ntasks": 1, "name": "wait"}]}),
        json!({"jobs": [{"id": 1233, "userid": 0, "state": 16, "t_run": 10.0, "ntasks": 2, "nnodes": 1, "name": "a\u{1b}[2Jb", "nodelist": "node0"},
                        {"id": 57, "userid": 0, "state": 64, "result": 2, "waitstatus": 768, "t_run": 1.0, "t_cleanup": 2.0, "name": "bad"}]}),
    ]
}

fn one_job(id: u64) -> Value {
    json!({"job": {"id": id, "state": 64, "result": 1, "waitstatus": 0, "name": "fine"}})
}

/// Knows 1234 and 57, which failed.
fn by_id(_: &str, asked: &Value) -> Answer {
    match asked["id"].as_u64() {
        Some(1234) => Answer::Ok(one_job(1234)),
        Some(57) => Answer::Ok(
            json!({"job": {"id": 57, "state": 64, "result": 2, "waitstatus": 768, "name": "bad"}}),
        ),
        _ => Answer::Refuse(2, None),
    }
}

#[test]
fn a_listing_into_a_pipe_is_plain_whole_and_in_the_order_given() {
    let fake = Fake::start(|_, _| Answer::Stream(jobs()));
    let ran = run(&mut at(&fake, ["jobs"]));
    let lines: Vec<Vec<&str>> = ran
        .succeeds()
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "JOBID", "QUEUE", "USER", "NAME", "ST", "NTASKS", "NNODES", "TIME", "INFO"
        ]
    );
    assert_eq!(
        lines[1],
        ["ƒNH", "-", "root", "wait", "S", "1", "-", "-", "-"]
    );
    assert_eq!((lines[2][3], lines[2][8]), ("a\\x1b[2Jb", "node0"));
    assert_eq!(lines[3][7..], ["1s", "Exit", "3"]);
    let asked = fake.asked_for("job-list.list");
    assert_eq!(
        (&asked["max_entries"], &asked["since"]),
        (&json!(1001), &json!(0.0))
    );
    assert_eq!(asked["constraint"]["and"][1], json!({"states": [62]}));
    assert!(
        asked["attrs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|attribute| attribute != "all")
    );
}

#[test]
fn only_so_many_are_shown_and_that_there_are_more_is_said_unless_a_number_was_given() {
    let fake = Fake::start(|_, _| Answer::Stream(jobs()));
    let ran = run(&mut at(&fake, ["jobs", "-n", "-c", "2", "-o", "{id.dec}"]));
    assert_eq!(ran.succeeds(), "1234\n1233\n");
    assert_eq!(fake.asked_for("job-list.list")["max_entries"], json!(3));
    let many = Fake::start(|_, _| {
        let rows: Vec<Value> = (1..=1001).map(|id| json!({"id": id})).collect();
        Answer::Stream(vec![json!({ "jobs": rows })])
    });
    let ran = run(&mut at(&many, ["jobs", "-n", "-o", "{id.dec}"]));
    assert_eq!((ran.out().lines().count(), ran.status()), (1000, 0));
    assert_eq!(
        ran.err(),
        "weir: jobs: only the first 1000 are shown; -c 0 shows all\n"
    );
}

#[test]
fn a15_json_is_one_document_with_an_array_whatever_the_count() {
    let fake = Fake::start(by_id);
    let document = |args: &[&str], status: i32| -> Value {
        let ran = run(&mut at(&fake, args));
        assert_eq!(ran.status(), status, "{}", ran.err());
        serde_json::from_str(ran.out()).unwrap()
    };
    for command in ["info", "jobs"] {
        assert_eq!(
            document(&[command, "1234,57", "--json"], 0)["jobs"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(
            document(&[command, "1234", "--json"], 0)["jobs"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let unknown = document(&[command, "99", "--json"], 1);
        assert_eq!(
            (
                unknown["jobs"].as_array().unwrap().len(),
                &unknown["errors"][0]["error"]
            ),
            (0, &json!("no such job 99 (ƒ2i)"))
        );
        let bad = document(&[command, "abc", "1234", "--json"], 2);
        assert_eq!(
            (&bad["errors"][0]["id"], &bad["jobs"][0]["id"]),
            (&Value::Null, &json!(1234))
        );
        assert_eq!(bad["errors"][0]["text"], json!("abc"));
        assert_eq!(
            unknown["errors"][0],
            json!({"id": 99, "f58": "ƒ2i", "text": "99", "errnum": null, "error": "no such job 99 (ƒ2i)"})
        );
    }
    let none = Fake::start(|_, _| Answer::Stream(Vec::new()));
    let ran = run(&mut at(&none, ["jobs", "--json"]));
    assert_eq!(
        ran.succeeds(),
        "{\"jobs\":[],\"errors\":[],\"stale\":null,\"queues\":null}\n"
    );
}

#[test]
fn an_unknown_id_is_named_in_a_line_and_the_others_are_listed() {
    let fake = Fake::start(by_id);
    let ran = run(&mut at(
        &fake,
        ["jobs", "-n", "-o", "{id}", "1234", "99", "57"],
    ));
    assert_eq!(ran.out(), "ƒNH\nƒz\n");
    ran.fails(1, &["no such job 99 (ƒ2i)"]);
    let ran = run(at(&fake, ["jobs", "-n", "-o", "{id}", "1234", "99"]).env("LC_ALL", "C"));
    assert_eq!(ran.out(), "fNH\n");
    ran.fails(1, &["no such job 99 (f2i)"]);
}

#[test]
fn a_list_of_an_instance_that_is_down_is_shown_as_stale() {
    let fake = Fake::start_at("job-info.socket", |_, _| {
        Answer::Stream(vec![json!({"jobs": [{"id": 5}], "stale": 12.4})])
    });
    let ran = run(&mut at(&fake, ["jobs", "-n", "-o", "{id.dec}"]));
    assert_eq!((ran.out(), ran.status()), ("5\n", 0));
    assert!(ran.err().contains("stale, 12s old"), "{}", ran.err());
    let ran = run(&mut at(&fake, ["jobs", "--json"]));
    assert_eq!(
        serde_json::from_str::<Value>(ran.out()).unwrap()["stale"],
        json!(12.4)
    );
    run(&mut at(&fake, ["jobs", "--fresh"])).fails(1, &["no instance at", "weir start"]);
}

#[test]
fn a14_wait_names_what_did_not_succeed_and_why() {
    let fake = Fake::start(|topic, asked| match topic {
        "job-list.list" => Answer::Stream(vec![
            json!({"jobs": [{"id": 1234}, {"id": 57}, {"id": 58}]}),
        ]),
        "job-list.list-id" if asked["id"] == json!(58) => Answer::Ok(
            json!({"job": {"id": 58, "state": 64, "result": 2, "name": "dependent",
            "exception_occurred": true, "exception_severity": 0, "exception_type": "dependency", "exception_note": "ƒz failed"}}),
        ),
        _ => by_id(topic, asked),
    });
    let ran = run(&mut at(&fake, ["wait", "--queue=g"]));
    assert_eq!(ran.status(), 1);
    assert_eq!(
        ran.err(),
        "weir: wait: ƒz (bad): Exit 3\nweir: wait: ƒ21 (dependent): Exception: dependency: ƒz failed\n"
    );
    let asked = fake.asked_for("job-list.list");
    assert_eq!(asked["constraint"]["and"][1], json!({"queue": ["g"]}));
    assert_eq!(fake.asked_for("job-list.list-id")["state"], json!(64));
    let ran = run(&mut at(&fake, ["wait", "--queue=g", "--json"]));
    let document: Value = serde_json::from_str(ran.out()).unwrap();
    assert_eq!(
        (ran.status(), document["jobs"].as_array().unwrap().len()),
        (1, 3)
    );
    assert_eq!(
        document["failed"][0],
        json!({"id": 57, "f58": "ƒz", "name": "bad", "result": "FAILED", "returncode": 3, "reason": "Exit 3"})
    );
    assert_eq!(run(&mut at(&fake, ["wait", "1234"])).succeeds(), "");
}

#[test]
fn counts_are_a_line() {
    let fake = Fake::start(|topic, _| match topic {
        "job-list.job-stats" => Answer::Ok(
            json!({"job_states": {"sched": 2, "run": 1}, "successful": 4, "failed": 0, "canceled": 1, "timeout": 0}),
        ),
        _ => Answer::Stream(Vec::new()),
    });
    assert_eq!(
        run(&mut at(&fake, ["jobs", "--stats-only"])).succeeds(),
        "1 running, 4 completed, 0 failed, 2 pending, 1 canceled\n"
    );
}

#[test]
fn a_name_that_matches_nothing_does_not_look_like_success() {
    let fake = Fake::start(|topic, _| match topic {
        "job-manager.queue-list" => Answer::Ok(json!({"queues": []})),
        _ => Answer::Stream(Vec::new()),
    });
    run(&mut at(&fake, ["wait", "--name=nosuch"])).fails(1, &["wait: no job matches"]);
    run(&mut at(&fake, ["wait", "--queue=nosuch"])).fails(1, &["wait: no job matches"]);
    assert_eq!(run(&mut at(&fake, ["wait", "--active"])).succeeds(), "");
    let ran = run(&mut at(&fake, ["jobs", "-n", "-q", "nosuch"]));
    assert_eq!((ran.status(), ran.out()), (0, ""));
    assert_eq!(
        ran.err(),
        "weir: jobs: there is no queue 'nosuch' (there are no named queues)\n"
    );
    let ran = run(&mut at(&fake, ["jobs", "-n", "-f", "completed failed"]));
    assert_eq!((ran.status(), ran.out()), (0, ""));
    assert!(
        ran.err()
            .contains("no job can be all of 'completed failed'"),
        "{}",
        ran.err()
    );
}

#[test]
fn into_a_pipe_the_columns_line_up_whatever_the_names() {
    let fake = Fake::start(|_, _| {
        Answer::Stream(vec![json!({"jobs": [
            {"id": 1, "userid": 0, "state": 16, "ntasks": 1, "name": "x".repeat(60), "nodelist": "n0"},
            {"id": 2, "userid": 0, "state": 8, "ntasks": 1, "name": "short"},
        ]})])
    });
    let ran = run(&mut at(&fake, ["jobs"]));
    let at: Vec<usize> = [" ST ", " R ", " S "]
        .iter()
        .zip(ran.succeeds().lines())
        .map(|(status, line)| line.split(status).next().unwrap().chars().count() + status.len())
        .collect();
    assert!(at.iter().all(|place| *place == at[0]), "{}", ran.out());
}

#[test]
fn a_daemon_that_is_stopped_is_named_and_the_other_is_asked() {
    // The job-manager's socket takes connections and says nothing; job-info answers on its own.
    let fake = Fake::start_at("job-info.socket", |topic, _| match topic {
        "job-list.list" => Answer::Stream(vec![json!({"jobs": [{"id": 5}]})]),
        "job-list.stats-get" => Answer::Ok(json!({"jobs": 1})),
        "job-list.job-stats" => Answer::Ok(json!({"successful": 4})),
        _ => Answer::Open(Vec::new()),
    });
    let _silent = std::os::unix::net::UnixListener::bind(fake.socket()).unwrap();
    let ran = run(&mut at(&fake, ["jobs", "-n", "-o", "{id.dec}"]));
    assert_eq!((ran.out(), ran.status()), ("5\n", 0), "{}", ran.err());
    assert!(
        ran.err()
            .contains("the job-manager does not answer; this list is stale"),
        "{}",
        ran.err()
    );
    let ran = run(&mut at(&fake, ["stats"]));
    assert_eq!(ran.status(), 1);
    assert!(
        ran.err().contains("the job-manager at") && ran.err().contains("does not answer (3s)"),
        "{}",
        ran.err()
    );
    assert!(ran.out().contains("completed"), "{}", ran.out());
    run(&mut at(&fake, ["ping", "-t", "0.1s"])).fails(1, &["does not answer (0.1s)"]);
}

#[test]
fn stats_names_the_part_that_says_nothing_and_shows_the_others() {
    let fake = Fake::start(|topic, _| match topic {
        "attr.get" => Answer::Ok(json!({"value": "ab12"})),
        "job-manager.stats-get" => Answer::Ok(json!({"pid": 7})),
        _ => Answer::Open(Vec::new()),
    });
    let ran = run(&mut at(&fake, ["stats", "--json"]));
    let document: Value = serde_json::from_str(ran.out()).unwrap();
    assert_eq!(ran.status(), 1);
    assert_eq!(
        (
            &document["epoch"],
            &document["job-manager"]["pid"],
            &document["job-list"]
        ),
        (&json!("ab12"), &json!(7), &Value::Null)
    );
    assert!(
        ran.err().contains("job-info does not answer (3s)"),
        "{}",
        ran.err()
    );
}
