//! The book, fact by fact: what is told, what is sent, what is forgotten.

use super::*;
use sched::Set;
use serde_json::{Value, json};

mod parts;

fn exec() -> Exec {
    let node = |host: &str| NodeSpec {
        host: host.to_owned(),
        cores: Set::first(1),
        gpus: Set::new(),
    };
    let site = Site {
        statedir: "/s".into(),
        uri: "u".into(),
        kill_grace_s: 5.0,
        userid: 7,
    };
    Exec::new(site, vec![node("h-0"), node("h-1")])
}

fn start(exec: &mut Exec, ranks: &str, reattach: bool) -> Vec<String> {
    start_on(exec, 9, ranks, &[], reattach)
}

fn start_on(exec: &mut Exec, id: u64, ranks: &str, hosts: &[&str], reattach: bool) -> Vec<String> {
    start_as(exec, id, ranks, hosts, reattach, &json!({}))
}

fn start_as(
    exec: &mut Exec,
    id: u64,
    ranks: &str,
    hosts: &[&str],
    reattach: bool,
    weir: &Value,
) -> Vec<String> {
    let text = json!({
        "id": id, "userid": 7, "reattach": reattach,
        "jobspec": {
            "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0, "weir": weir}}, "version": 1
        },
        "R": {"version": 1, "execution": {
            "R_lite": [{"rank": ranks, "children": {"core": "0"}}], "nodelist": hosts, "starttime": 0.0, "expiration": 0.0
        }}
    })
    .to_string();
    let mut out = Vec::new();
    exec.start(&serde_json::from_str(&text).unwrap(), &mut out);
    said(&out)
}

fn said(out: &[Out]) -> Vec<String> {
    out.iter()
        .map(|out| match out {
            Out::Answer { payload, .. } => {
                let value: Value = serde_json::from_slice(payload).unwrap();
                format!("{} {}", value["type"].as_str().unwrap(), value["data"])
            }
            Out::Node {
                place,
                message: ToNode::Start { reattach, .. },
            } => format!("node {place} start {reattach}"),
            Out::Node { place, message } => {
                format!("node {place} {}", serde_json::to_string(message).unwrap())
            }
            Out::Everywhere { message } => {
                format!("all nodes {}", serde_json::to_string(message).unwrap())
            }
            Out::Join { place, name } => format!("node {place} is {name}"),
            Out::Leave { place } => format!("node {place} leaves"),
            Out::Freed(_) => "freed".to_owned(),
            Out::Complete { status, .. } => format!("complete {status}"),
        })
        .collect()
}

fn fact(exec: &mut Exec, rank: u32, fact: Fact) -> Vec<String> {
    let mut out = Vec::new();
    exec.fact(JobId(9), rank, fact, &mut out);
    said(&out)
}

fn ended(status: i32) -> Fact {
    Fact::Ended(Ended {
        status: Some(status),
        exceptions: Vec::new(),
    })
}

const FINISHED: &str = r#"finish {"status":256,"release":{"ranks":"all","final":true}}"#;

#[test]
fn a_job_is_started_told_of_and_forgotten() {
    let mut exec = exec();
    assert_eq!(start(&mut exec, "0", false), ["node 0 start false"]);
    assert_eq!(fact(&mut exec, 0, Fact::Started), ["start {}"]);
    assert!(
        fact(&mut exec, 0, Fact::Started).is_empty(),
        "a fact told twice"
    );
    assert!(exec.is_running(JobId(9)));
    assert_eq!(fact(&mut exec, 0, ended(256)), [FINISHED, "freed"]);
    assert!(fact(&mut exec, 0, ended(256)).is_empty());
    let mut out = Vec::new();
    assert!(exec.freed(JobId(9), &mut out));
    assert_eq!(said(&out), [r#"node 0 {"forget":{"id":9}}"#]);
    assert_eq!(exec.counts(), (0, 1, 1));
}

#[test]
fn a_job_manager_that_comes_back_is_told_everything_again_and_nothing_is_begun_twice() {
    let mut exec = exec();
    let _ = start(&mut exec, "0", false);
    let _ = fact(&mut exec, 0, Fact::Started);
    assert_eq!(start(&mut exec, "0", true), ["reattached {}"]);
    let _ = fact(
        &mut exec,
        0,
        Fact::Exception(Exception::fatal("timeout", "n")),
    );
    let _ = fact(&mut exec, 0, ended(256));
    let again = [
        r#"exception {"severity":0,"type":"timeout","note":"n"}"#,
        "start {}",
        FINISHED,
    ];
    assert_eq!(
        start(&mut exec, "0", false),
        again,
        "it did not even store the start"
    );
}

#[test]
fn several_parts_make_one_job() {
    let mut exec = exec();
    assert_eq!(
        start(&mut exec, "0-1", false),
        ["node 0 start false", "node 1 start false"]
    );
    assert!(fact(&mut exec, 1, Fact::Started).is_empty());
    assert_eq!(fact(&mut exec, 0, Fact::Started), ["start {}"]);
    assert!(fact(&mut exec, 0, ended(0)).is_empty());
    let mut out = Vec::new();
    exec.node_up(1, &mut out);
    exec.node_up(0, &mut out);
    assert_eq!(
        said(&out),
        ["node 1 start true"],
        "only what is not over, and never begun again"
    );
    assert_eq!(
        fact(&mut exec, 1, ended(256)),
        [
            r#"alloc-status {"allocs":[{"ranks":"0","status":"complete"}]}"#,
            FINISHED,
            "complete 256",
            "freed"
        ]
    );
}

#[test]
fn a_lost_job_is_released_without_a_status() {
    let mut exec = exec();
    assert_eq!(
        start(&mut exec, "0", true),
        ["reattached {}", "node 0 start true"]
    );
    let lost = Ended {
        status: None,
        exceptions: vec![Exception::fatal("exec", "lost: x")],
    };
    assert_eq!(
        fact(&mut exec, 0, Fact::Ended(lost)),
        [
            r#"exception {"severity":0,"type":"exec","note":"lost: x"}"#,
            r#"release {"ranks":"all","final":true}"#,
            "freed"
        ]
    );
}

#[test]
fn resources_are_not_free_before_the_last_process_is_gone() {
    let mut exec = exec();
    let _ = start(&mut exec, "0", false);
    assert!(!exec.freed(JobId(9), &mut Vec::new()));
    let _ = fact(&mut exec, 0, ended(0));
    assert!(exec.freed(JobId(9), &mut Vec::new()));
}

#[test]
fn our_own_exception_is_not_a_second_reason_to_kill() {
    let mut exec = exec();
    let _ = start(&mut exec, "0", false);
    let _ = fact(
        &mut exec,
        0,
        Fact::Exception(Exception::fatal("timeout", "n")),
    );
    let mut out = Vec::new();
    exec.cancel(JobId(9), "timeout", &mut out);
    assert!(out.is_empty());
    exec.cancel(JobId(9), "cancel", &mut out);
    assert_eq!(
        said(&out),
        [r#"node 0 {"tell":{"id":9,"what":{"cancel":{}}}}"#]
    );
}

fn freed(exec: &mut Exec, id: u64) -> Vec<String> {
    let mut out = Vec::new();
    assert!(exec.freed(JobId(id), &mut out));
    said(&out)
}

#[test]
fn parts_on_nodes_of_another_size_are_looked_after_until_the_last_is_gone() {
    let mut exec = exec();
    assert_eq!(
        start_on(&mut exec, 9, "1-2", &["h-[1-2]"], true),
        [
            "reattached {}",
            "node 2 is h-2",
            "node 1 start true",
            "node 2 start true"
        ]
    );
    // Rank 0, and another node than ours of rank 0.
    assert_eq!(
        start_on(&mut exec, 10, "0", &["h"], false),
        ["node 3 is h", "node 3 start false"]
    );
    assert_eq!(
        start_on(&mut exec, 11, "2", &["h-2"], true),
        ["reattached {}", "node 2 start true"]
    );
    let _ = fact(&mut exec, 1, ended(0));
    assert_eq!(
        fact(&mut exec, 2, ended(256)),
        [
            r#"alloc-status {"allocs":[{"ranks":"1","status":"complete"}]}"#,
            FINISHED,
            "complete 256",
            "freed"
        ]
    );
    assert_eq!(
        freed(&mut exec, 9),
        [
            r#"node 1 {"forget":{"id":9}}"#,
            r#"node 2 {"forget":{"id":9}}"#
        ]
    );
    let mut out = Vec::new();
    exec.fact(JobId(11), 2, ended(0), &mut out);
    assert_eq!(
        freed(&mut exec, 11),
        [r#"node 2 {"forget":{"id":11}}"#, "node 2 leaves"]
    );
}

#[test]
fn a_job_on_a_node_that_is_gone_is_told_so_and_ends() {
    let mut exec = exec();
    let gone = r#"exception {"severity":0,"type":"node-fail","note":"node of rank 5 is gone: this engine has ranks 0 to 1"}"#;
    let release = r#"release {"ranks":"all","final":true}"#;
    for (id, reattach) in [(1, false), (2, true)] {
        let told = start_on(&mut exec, id, "5", &[], reattach);
        assert_eq!(told[usize::from(reattach)..], [gone, release, "freed"]);
        assert!(freed(&mut exec, id).is_empty());
    }
    // The part whose node is there is not begun now; if it was, its status is told.
    assert_eq!(
        start_on(&mut exec, 9, "0,5", &[], false),
        [
            gone,
            "node 0 start true",
            r#"node 0 {"tell":{"id":9,"what":{"cancel":{}}}}"#,
            r#"alloc-status {"allocs":[{"ranks":"5","status":"lost","reason":"node of rank 5 is gone: this engine has ranks 0 to 1"}]}"#
        ]
    );
    // The one that is gone is lost, as follows from the exception; the other was ended because of that.
    assert_eq!(
        fact(&mut exec, 0, ended(256)),
        [
            r#"alloc-status {"allocs":[{"ranks":"0","status":"failed","wait_status":256}]}"#,
            FINISHED,
            "complete 256",
            "freed"
        ]
    );
}

#[test]
fn a_node_process_that_was_away_is_told_of_a_cancel() {
    let mut exec = exec();
    let _ = start(&mut exec, "0", true);
    exec.cancel(JobId(9), "cancel", &mut Vec::new());
    let mut out = Vec::new();
    exec.node_up(0, &mut out);
    assert_eq!(
        said(&out),
        [
            "node 0 start true",
            r#"node 0 {"tell":{"id":9,"what":{"cancel":{}}}}"#
        ]
    );
}

#[test]
fn what_the_job_manager_does_not_name_any_more_is_forgotten() {
    let mut exec = exec();
    let _ = start_on(&mut exec, 9, "2", &["h-2"], true);
    let _ = start_on(&mut exec, 10, "0", &["h-0"], true);
    let _ = fact(&mut exec, 2, ended(0));
    let mut out = Vec::new();
    exec.held(&HashSet::from([JobId(9)]), &mut out);
    assert!(said(&out).is_empty());
    exec.held(&HashSet::new(), &mut out);
    assert_eq!(
        said(&out),
        [r#"node 2 {"forget":{"id":9}}"#, "node 2 leaves"]
    );
    assert!(exec.is_running(JobId(10)), "it has processes");
}
