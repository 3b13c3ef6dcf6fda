//! Every answer from a list that does not follow its journal says so, with its age; none says that a job does not exist.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Broker, Feed, Instance, OWNER, caught_up, following, run, within};
use rpc::client::Client;
use serde_json::{Value, json};

async fn asked(direct: &Client, topic: &'static str, payload: &Value) -> Value {
    within(topic, direct.call_as(topic, payload))
        .await
        .expect("an answer")
}

/// Every question that is answered from the list, and what a stream says first.
const QUESTIONS: [(&str, &str); 6] = [
    ("job-list.list", r#"{"max_entries":0,"attrs":[]}"#),
    (
        "job-list.list",
        r#"{"max_entries":0,"attrs":[],"constraint":{"userid":[7]}}"#,
    ),
    ("job-list.list-id", r#"{"id":1,"attrs":["state"]}"#),
    ("job-list.rank", r#"{"id":1}"#),
    ("job-list.job-stats", "{}"),
    ("job-list.stats-get", "{}"),
];

async fn check(direct: &Client, stale: bool) {
    for (topic, text) in QUESTIONS {
        let payload: Value = serde_json::from_str(text).expect("JSON");
        let answer = asked(direct, topic, &payload).await;
        let age = answer.get("stale").and_then(Value::as_f64);
        assert_eq!(age.is_some(), stale, "{topic} {text}: {answer}");
        assert_eq!(answer["seq"], 4, "{topic} {text}");
        if topic == "job-list.list" {
            let mut stream = within(topic, direct.stream(topic, &payload))
                .await
                .expect("a stream");
            let first = within("the first response", stream.next()).await;
            match first {
                Some(Ok(first)) => {
                    let first: Value = serde_json::from_slice(&first).expect("JSON");
                    assert_eq!(first.get("stale").is_some(), stale, "{first}");
                }
                // Nothing matches, in a list that is current.
                None => assert!(!stale, "a stale list without a row says nothing"),
                Some(Err(error)) => panic!("{error}"),
            }
        }
    }
    // No job that the list does not hold: only a current list knows.
    for (topic, payload) in [
        ("job-list.list-id", json!({"id":99,"attrs":[]})),
        ("job-list.rank", json!({"id":99})),
        ("job-info.lookup", json!({"id":99,"keys":["R"],"flags":0})),
        (
            "job-info.update-lookup",
            json!({"id":99,"key":"R","flags":0}),
        ),
    ] {
        if !stale && topic == "job-list.list-id" {
            // The job-manager is asked.
            continue;
        }
        let error = within(topic, direct.call(topic, &payload)).await;
        let error = error.expect_err("not in the list");
        let expected = if stale { 11 } else { 2 };
        assert_eq!(error.errnum, expected, "{topic}: {error}");
        assert_eq!(
            error.text.contains("s old and does not hold job"),
            stale,
            "{topic}: {error}"
        );
    }
    // What cannot be answered without the job-manager is refused, not answered from nothing.
    if stale {
        let lookup = json!({"id":1,"keys":["R"],"flags":0});
        let error = within("a refusal", direct.call("job-info.lookup", &lookup)).await;
        assert_eq!(error.expect_err("it is away").errnum, 11);
    }
}

async fn one_job() -> (Instance, Broker, Feed, Client) {
    let (instance, broker, mut feed) = following().await;
    let entries = feed.submit(1, OWNER, 16);
    broker.play(&feed.live(&entries));
    let direct = instance.direct().await;
    let ask = json!({"max_entries":0,"attrs":[],"after":4});
    asked(&direct, "job-list.list", &ask).await;
    (instance, broker, feed, direct)
}

async fn until_stale(direct: &Client) {
    loop {
        let answer = asked(direct, "job-list.job-stats", &json!({})).await;
        if answer.get("stale").is_some() {
            return;
        }
    }
}

#[test]
fn every_answer_of_a_list_that_lost_its_journal_says_so() {
    run(async {
        let (mut instance, mut broker, _, direct) = one_job().await;
        check(&direct, false).await;
        broker.cut();
        drop(broker);
        until_stale(&direct).await;
        check(&direct, true).await;
        instance.stop().await;
    });
}

#[test]
fn every_answer_of_a_list_whose_journal_is_poisoned_says_so() {
    run(async {
        let (mut instance, mut broker, _, direct) = one_job().await;
        broker.play("no JSON");
        until_stale(&direct).await;
        // Connected again, and building a list anew: nothing of that is shown, and nothing is current.
        broker.accept().await;
        let names = broker.names_asked;
        assert_eq!(names, 4);
        broker.play(&common::backlog(&[]));
        for (topic, text) in QUESTIONS {
            let payload: Value = serde_json::from_str(text).expect("JSON");
            let answer = asked(&direct, topic, &payload).await;
            assert!(answer["stale"].is_f64(), "{topic} {text}: {answer}");
            assert_eq!(answer["seq"], 4);
        }
        instance.stop().await;
    });
}

#[test]
fn a_list_that_is_resumed_is_stale_until_it_has_caught_up_and_followers_of_its_counts_hear_both() {
    run(async {
        let (mut instance, mut broker, _, direct) = one_job().await;
        let nothing = json!({});
        let stats = direct.stream("job-list.job-stats", &nothing);
        let mut stats = within("a stream", stats).await.expect("a stream");
        let mut next = async || {
            let answer = within("an answer", stats.next()).await;
            let answer = answer.expect("an answer").expect("no error");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            answer.get("stale").is_some()
        };
        assert!(!next().await);
        broker.cut();
        assert!(next().await, "the stream is gone");
        assert_eq!(broker.accept().await["after"], 4);
        until_stale(&direct).await;
        broker.play(&caught_up(4));
        while next().await {}
        check(&direct, false).await;
        instance.stop().await;
    });
}
