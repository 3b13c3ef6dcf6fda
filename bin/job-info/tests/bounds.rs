//! What one client can make job-info hold or do: bounds of its own, and requests that are refused before they cost anything.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Broker, Feed, OWNER, following, run};
use serde_json::{Value, json};

/// A refusal that takes longer than this has computed something.
const REFUSAL_TIME_MAX: Duration = Duration::from_secs(2);

fn all() -> Value {
    json!({"max_entries":0,"attrs":["state"]})
}

fn submit(broker: &Broker, feed: &mut Feed, jobs: u64) {
    let entries: Vec<Value> = (1..=jobs)
        .flat_map(|id| feed.submit(id, OWNER, 16))
        .collect();
    broker.play(&feed.live(&entries));
}

async fn ping(broker: &mut Broker) {
    let ping = broker.ask("p", "job-list.ping", &json!({}));
    broker.answer(ping).await;
}

#[test]
fn invariant_7_one_client_has_a_bounded_number_of_long_listings_and_others_go_on() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1100);
        broker.tell("rude", "job-list.pause", &json!({}));
        for _ in 0..64 {
            broker.ask_stream("rude", "job-list.list", &all());
        }
        for (streaming, what) in [(true, "a stream"), (false, "one answer")] {
            let tag = if streaming {
                broker.ask_stream("rude", "job-list.list", &all())
            } else {
                broker.ask("rude", "job-list.list", &all())
            };
            let (errnum, text) = broker.error(tag).await;
            let text = text.as_str().expect("a text").to_owned();
            assert!(
                errnum == 11 && text.contains("64 listings of more than 1024 jobs"),
                "{what}: {errnum} {text}"
            );
        }
        // A page is no long listing; another client has a share of its own.
        let page = broker.ask_stream(
            "rude",
            "job-list.list",
            &json!({"max_entries":25,"attrs":[]}),
        );
        let other = broker.ask_stream("other", "job-list.list", &all());
        assert_eq!(broker.drain(other).await.len(), 1100);
        broker.tell(
            "rude",
            "job-list.job-stats-cancel",
            &json!({"matchtag":page}),
        );
        assert_eq!(broker.error(page).await.0, 61, "it was open");
        // The client leaves: its share is free.
        broker.tell("rude", "job-list.disconnect", &Value::Null);
        let again = broker.ask_stream("rude", "job-list.list", &all());
        assert_eq!(broker.drain(again).await.len(), 1100);
        instance.stop().await;
    });
}

#[test]
fn invariant_7_rows_are_written_when_they_are_sent() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1000);
        broker.tell("a", "job-list.pause", &json!({}));
        let listing = broker.ask_stream("a", "job-list.list", &all());
        ping(&mut broker).await;
        // Its ids are fixed; now one job starts, one is new and one is purged.
        let mut entries = feed.alloc(500);
        entries.extend(feed.submit(2000, OWNER, 31));
        feed.seq += 1;
        let purge = json!({"timestamp":1e6,"name":"purge","context":{"jobs":[700]}});
        entries.push(json!({"seq":feed.seq,"log":"system","eventlog_seq":1,"entry":purge}));
        broker.play(&feed.live(&entries));
        broker.tell("a", "job-list.resume", &json!({}));
        let rows: Vec<Value> = broker
            .drain(listing)
            .await
            .iter()
            .map(|response| response["jobs"][0].clone())
            .collect();
        assert_eq!(rows.len(), 999);
        for (row, id) in rows.iter().zip((1..=1000).filter(|id| *id != 700)) {
            let state = if id == 500 { 16 } else { 8 };
            assert_eq!(*row, json!({"id":id,"state":state}));
        }
        instance.stop().await;
    });
}

#[test]
fn listings_that_ask_for_the_impossible_are_refused_at_once() {
    let deep = |levels: usize| {
        format!(
            r#"{{"max_entries":0,"attrs":[],"constraint":{}{{}}{}}}"#,
            r#"{"not":["#.repeat(levels),
            "]}".repeat(levels)
        )
    };
    let with = |rest: &str| format!(r#"{{"max_entries":0,"attrs":[],{rest}}}"#);
    let long = with(&format!(r#""x":"{}""#, "x".repeat(1 << 20)));
    let cases = [
        (with(r#""since":NaN"#), ""),
        (with(r#""since":1e999"#), ""),
        (with(r#""since":"NaN""#), ""),
        (with(r#""since":-0.5"#), "since < 0.0 not allowed"),
        (
            r#"{"max_entries":18446744073709551615,"attrs":[]}"#.to_owned(),
            "",
        ),
        (
            deep(32),
            "constraint object invalid: nested deeper than 32 levels",
        ),
        (
            deep(50),
            "constraint object invalid: nested deeper than 32 levels",
        ),
        (deep(10_000), ""),
        (deep(100_000), ""),
        (
            with(r#""constraint":{"hostlist":["[0-4000000000]"]}"#),
            "constraint object invalid: operator hostlist: expected a hostlist string, got \"[0-4000000000]\"",
        ),
        (
            with(r#""constraint":{"hostlist":["n[0-4000000000]"]}"#),
            "constraint object invalid: operator hostlist: expected a hostlist string, got \"n[0-4000000000]\"",
        ),
        (
            with(r#""constraint":{"hostlist":["n[0-2000]"]}"#),
            "constraint object invalid: operator hostlist: more than 1024 hosts or ranks",
        ),
        (
            with(r#""constraint":{"ranks":["0-4000000000"]}"#),
            "constraint object invalid: operator ranks: more than 1024 hosts or ranks",
        ),
        (long, "expected at most 1048576 bytes, got "),
    ];
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 3);
        for (payload, expected) in &cases {
            let shown: String = payload.chars().take(80).collect();
            let start = Instant::now();
            let tag = broker.ask_text("a", "job-list.list", payload);
            let (errnum, text) = broker.error(tag).await;
            let text = text.as_str().expect("a text");
            let expected = format!("invalid payload: {expected}");
            assert!(
                errnum == 71 && text.starts_with(&expected),
                "{shown}: {text}"
            );
            assert!(text.len() < 300, "{shown}: {} bytes", text.len());
            assert!(start.elapsed() < REFUSAL_TIME_MAX, "{shown}");
        }
        // As much as there is, and attributes that do not exist: only a row tells.
        let most = json!({"max_entries":i64::MAX,"attrs":[]});
        let tag = broker.ask("a", "job-list.list", &most);
        assert_eq!(
            broker.answer(tag).await["jobs"].as_array().map(Vec::len),
            Some(3)
        );
        let attrs: Vec<String> = (0..1000).map(|number| format!("no-{number}")).collect();
        let tag = broker.ask(
            "a",
            "job-list.list",
            &json!({"max_entries":0,"attrs":attrs}),
        );
        assert_eq!(
            broker.error(tag).await,
            (22, json!("no-0 is not a valid attribute"))
        );
        let tag = broker.ask_text("a", "job-list.list", &deep(31));
        broker.answer(tag).await;
        instance.stop().await;
    });
}

#[test]
fn a_long_guest_log_is_read_aside_while_others_are_answered() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1);
        std::fs::create_dir_all(instance.job_dir(1)).expect("a directory");
        let line = "{\"data\":\"é\\n\\\"quoted\\\"\"}\n";
        let log = line.repeat(100_000);
        let path = instance.job_dir(1).join("output.eventlog");
        std::fs::write(&path, format!("{log}{{\"half")).expect("written");
        let ask = json!({"id":1,"keys":["guest.output","guest.output"],"flags":0});
        let tags: Vec<u32> = ["a", "b", "c", "a", "b"]
            .map(|client| broker.ask(client, "job-info.lookup", &ask))
            .into();
        let ping = broker.ask("p", "job-info.ping", &json!({}));
        assert_eq!(broker.response().await.0, ping, "it did not wait");
        let mut answered = Vec::new();
        for _ in &tags {
            let (tag, errnum, answer) = broker.response().await;
            assert_eq!(errnum, 0, "{answer}");
            assert_eq!(answer.as_object().map(serde_json::Map::len), Some(2));
            assert!(answer["guest.output"] == log.as_str(), "not what is there");
            answered.push(tag);
        }
        answered.sort_unstable();
        assert_eq!(answered, tags);
        instance.stop().await;
    });
}

#[test]
fn invariant_7_one_client_has_a_bound_for_answers_it_has_not_taken() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        submit(&broker, &mut feed, 1);
        std::fs::create_dir_all(instance.job_dir(1)).expect("a directory");
        let path = instance.job_dir(1).join("output.eventlog");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(16 << 20).expect("a long file");
        broker.tell("rude", "job-info.pause", &json!({}));
        let ask = json!({"id":1,"keys":["guest.output"],"flags":0});
        for _ in 0..2 {
            broker.ask("rude", "job-info.lookup", &ask);
        }
        let tag = broker.ask("rude", "job-info.lookup", &ask);
        let (errnum, text) = broker.error(tag).await;
        let text = text.as_str().expect("a text");
        assert!(errnum == 11 && text.contains("67108864 bytes"), "{text}");
        // Another's is read: all zeros, so no line.
        let tag = broker.ask("other", "job-info.lookup", &ask);
        assert_eq!(broker.answer(tag).await["guest.output"], "");
        broker.tell("rude", "job-info.disconnect", &Value::Null);
        let tag = broker.ask("rude", "job-info.lookup", &ask);
        assert_eq!(broker.answer(tag).await["guest.output"], "");
        file.set_len((16 << 20) + 1).expect("a longer file");
        let tag = broker.ask("other", "job-info.lookup", &ask);
        assert_eq!(broker.error(tag).await.0, 75);
        instance.stop().await;
    });
}
