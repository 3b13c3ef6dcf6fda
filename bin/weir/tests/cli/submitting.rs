//! `weir submit`, and what is done to jobs by id.

use crate::fake::{Answer, Fake};
use crate::{at, run};
use base64::Engine as _;
use serde_json::{Value, json};

/// Gives out ids from 1234 on.
fn taking() -> impl FnMut(&str, &Value) -> Answer + Send {
    let mut id = 1233;
    move |_, _| {
        id += 1;
        Answer::Ok(json!({"id": id, "seq": 4}))
    }
}

fn jobspec(asked: &Value) -> Value {
    let j = asked["J"].as_str().unwrap();
    let text = base64::engine::general_purpose::STANDARD
        .decode(j.split('.').nth(1).unwrap())
        .unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn an_id_is_printed_as_the_locale_can_show_it() {
    let fake = Fake::start(taking());
    assert_eq!(run(&mut at(&fake, ["submit", "true"])).succeeds(), "ƒNH\n");
    assert_eq!(
        run(at(&fake, ["submit", "true"]).env("LC_ALL", "C")).succeeds(),
        "fNJ\n"
    );
    assert_eq!(
        run(&mut at(&fake, ["submit", "--quiet", "true"])).succeeds(),
        ""
    );
}

#[test]
fn what_is_submitted_is_what_was_typed() {
    let fake = Fake::start(taking());
    let line = [
        "submit",
        "-n2",
        "--urgency=hold",
        "--flags=waitable,debug",
        "--env=-*",
        "--env=X=1",
        "--",
        "sh",
        "-c",
        "-n9 $X",
    ];
    run(&mut at(&fake, line)).succeeds();
    let asked = fake.asked_for("job-ingest.submit");
    assert_eq!((&asked["urgency"], &asked["flags"]), (&json!(0), &json!(6)));
    let spec = jobspec(&asked);
    assert_eq!(spec["tasks"][0]["command"], json!(["sh", "-c", "-n9 $X"]));
    assert_eq!(spec["resources"][0]["count"], json!(2));
    assert_eq!(
        spec["attributes"]["system"]["environment"],
        json!({"X": "1"})
    );
    let dry = run(&mut at(&fake, ["submit", "--dry-run", "true", "-n5"]));
    assert_eq!(
        serde_json::from_str::<Value>(dry.succeeds()).unwrap()["tasks"][0]["command"],
        json!(["true", "-n5"])
    );
}

#[test]
fn a_thousand_jobs_keep_their_order() {
    let fake = Fake::start(taking());
    let ran = run(&mut at(
        &fake,
        ["submit", "--cc=0-2999", "--env=-*", "echo", "{cc}"],
    ));
    let expected: String = (1234..4234)
        .map(|id| format!("{}\n", job::JobId(id)))
        .collect();
    assert_eq!(ran.succeeds(), expected);
    for number in [0, 1, 2] {
        assert_eq!(
            jobspec(&fake.asked_for("job-ingest.submit"))["tasks"][0]["command"][1],
            json!(number.to_string())
        );
    }
}

#[test]
fn a_refusal_is_said_once_and_nothing_is_printed() {
    let fake = Fake::start(|_, _| {
        Answer::Refuse(
            22,
            Some("attributes.system.duration: expected a number ≥ 0, got \"x\""),
        )
    });
    let ran = run(&mut at(&fake, ["submit", "true"]));
    assert_eq!(ran.out(), "");
    ran.fails(
        1,
        &["submit: attributes.system.duration: expected a number"],
    );
    run(&mut at(&fake, ["submit", "--cc=1-5", "true"])).fails(1, &["5 of 5 jobs were refused"]);
}

#[test]
fn many_priorities_are_one_request_and_those_not_changed_are_named() {
    let fake = Fake::start(|_, _| {
        Answer::Ok(
            json!({"seq": 9, "results": [[1234, 16], [57, 22, "unknown job"], [58, 22, "job is inactive"]]}),
        )
    });
    let ran = run(&mut at(
        &fake,
        ["job", "priority", "-v", "1234", "ƒz,58", "expedite"],
    ));
    assert_eq!((ran.status(), ran.out()), (1, "ƒNH: 16 -> 31\n"));
    assert_eq!(
        ran.err(),
        "weir: job priority: no such job ƒz\nweir: job priority: ƒ21: job is inactive\n"
    );
    assert_eq!(
        fake.asked_for("job-manager.priority"),
        json!({"jobs": [[1234, 31], [57, 31], [58, 31]]})
    );
    let ran = run(&mut at(&fake, ["job", "urgency", "--json", "1234", "0"]));
    let document: Value = serde_json::from_str(ran.out()).unwrap();
    assert_eq!(
        (
            &document["seq"],
            &document["changed"][0]["old_urgency"],
            &document["errors"][1]["errnum"]
        ),
        (&json!(9), &json!(16), &json!(22))
    );
}

#[test]
fn flux_itself_is_asked_for_one_urgency_at_a_time() {
    let fake = Fake::start(|topic, _| match topic {
        "job-manager.urgency" => Answer::Ok(json!({"old_urgency": 16})),
        _ => Answer::Refuse(38, Some("Unknown service method 'job-manager.priority'")),
    });
    assert_eq!(
        run(&mut at(&fake, ["job", "urgency", "-v", "1234", "5"])).succeeds(),
        "ƒNH: 16 -> 5\n"
    );
}

#[test]
fn cancel_raises_for_each_and_names_the_refused() {
    let fake = Fake::start(|_, asked| {
        if asked["id"] == json!(57) {
            Answer::Refuse(2, Some("job is inactive"))
        } else {
            Answer::Ok(json!({}))
        }
    });
    run(&mut at(&fake, ["cancel", "-m", "why", "1234", "57"]))
        .fails(1, &["cancel: ƒz: job is inactive"]);
    assert_eq!(
        fake.asked_for("job-manager.raise"),
        json!({"id": 1234, "severity": 0, "type": "cancel", "note": "why"})
    );
    let all = Fake::start(|_, _| Answer::Ok(json!({"count": 2, "errors": 0})));
    assert_eq!(
        run(&mut at(&all, ["cancel", "--all", "--user=all"])).succeeds(),
        "2 jobs canceled\n"
    );
    assert_eq!(
        all.asked_for("job-manager.raiseall")["userid"],
        json!(u32::MAX)
    );
}
