//! A purge as job-info sees it: rows, counts, and everybody who waits for or follows a job that is gone for good.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Broker, EPOCH, Feed, OWNER, backlog, caught_up, following, log_text, run, within};
use serde_json::{Value, json};

fn purge(feed: &mut Feed, jobs: &[u64]) -> Value {
    feed.seq += 1;
    feed.time += 0.5;
    let entry = json!({"timestamp":feed.time,"name":"purge","context":{"jobs":jobs}});
    json!({"seq":feed.seq,"log":"system","eventlog_seq":1,"entry":entry})
}

/// Some entries, complete up to the last of them.
fn up_to_last(entries: &[Value]) -> String {
    let seq = &entries[entries.len() - 1]["seq"];
    json!({"epoch":EPOCH,"seq":seq,"events":entries}).to_string()
}

/// A job from submit to clean.
fn over(feed: &mut Feed, id: u64) -> Vec<Value> {
    let mut entries = feed.submit(id, OWNER, 16);
    entries.extend(feed.alloc(id));
    entries.extend(feed.end(id));
    entries
}

fn all() -> Value {
    json!({"max_entries":0,"attrs":[]})
}

async fn listed(broker: &mut Broker) -> Vec<u64> {
    let tag = broker.ask("l", "job-list.list", &all());
    let list = broker.answer(tag).await;
    let jobs = list["jobs"].as_array().expect("jobs");
    jobs.iter().filter_map(|job| job["id"].as_u64()).collect()
}

async fn job_stats(broker: &mut Broker) -> Value {
    let tag = broker.ask("s", "job-list.job-stats", &json!({}));
    broker.answer(tag).await
}

#[test]
fn purged_jobs_are_in_no_list_and_asked_for_by_id_there_are_none() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = Vec::new();
        for id in 1..=4 {
            entries.extend(over(&mut feed, id));
        }
        broker.play(&feed.live(&entries));
        assert_eq!(listed(&mut broker).await, [4, 3, 2, 1]);
        let gone = purge(&mut feed, &[2, 3]);
        broker.play(&feed.live(&[gone]));
        assert_eq!(listed(&mut broker).await, [4, 1]);
        let stats = job_stats(&mut broker).await;
        assert_eq!(
            (
                &stats["inactive_purged"],
                &stats["job_states"]["inactive"],
                &stats["successful"]
            ),
            (&json!(2), &json!(2), &json!(2))
        );
        for (topic, payload, text) in [
            ("job-list.list-id", json!({"id":2,"attrs":[]}), Value::Null),
            (
                "job-list.list-id",
                json!({"id":2,"attrs":[],"state":64}),
                Value::Null,
            ),
            ("job-list.rank", json!({"id":2}), Value::Null),
            (
                "job-info.lookup",
                json!({"id":2,"keys":["R"],"flags":0}),
                json!("invalid job id"),
            ),
            (
                "job-info.update-lookup",
                json!({"id":2,"key":"R","flags":0}),
                json!("invalid job id"),
            ),
        ] {
            let tag = broker.ask("a", topic, &payload);
            assert_eq!(broker.error(tag).await, (2, text), "{topic} {payload}");
        }
        // Ids rise: a job that is gone below the newest never comes, so nobody waits for it to appear.
        for path in ["eventlog", "guest.exec.eventlog", "guest.output"] {
            for flags in [0, 1, 3] {
                let ask = json!({"id":2,"path":path,"flags":flags});
                let tag = broker.ask_stream("a", "job-info.eventlog-watch", &ask);
                assert_eq!(broker.error(tag).await, (2, Value::Null), "{ask}");
            }
        }
        // … but one that may still come is waited for.
        let ask = json!({"id":5,"path":"eventlog","flags":1});
        broker.ask_stream("a", "job-info.eventlog-watch", &ask);
        let entries = feed.submit(5, OWNER, 16);
        broker.play(&feed.live(&entries));
        let (asked, payload) = broker.request().await;
        assert_eq!(
            (asked.topic.as_str(), &payload["id"]),
            ("job-manager.lookup", &json!(5))
        );
        instance.stop().await;
    });
}

#[test]
fn whoever_waits_for_or_follows_a_purged_job_is_told_that_it_is_gone() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = over(&mut feed, 1);
        broker.play(&up_to_last(&entries[..6]));
        let dir = instance.job_dir(1);
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(
            dir.join("output.eventlog"),
            "{\"timestamp\":1.0,\"name\":\"data\"}\n",
        )
        .expect("a file");
        // A wait for its end, and clients that are stopped in the middle: of the log, the output, an update.
        let wait = json!({"id":1,"attrs":["state"],"state":64});
        let waits = broker.ask("w", "job-list.list-id", &wait);
        let mut stopped = Vec::new();
        for (name, topic, ask) in [
            (
                "log",
                "job-info.eventlog-watch",
                json!({"id":1,"path":"eventlog","flags":0}),
            ),
            (
                "waiting",
                "job-info.eventlog-watch",
                json!({"id":1,"path":"eventlog","flags":1}),
            ),
            (
                "output",
                "job-info.eventlog-watch",
                json!({"id":1,"path":"guest.output","flags":1}),
            ),
            (
                "update",
                "job-info.update-watch",
                json!({"id":1,"key":"R","flags":0}),
            ),
        ] {
            broker.tell(name, "job-info.pause", &json!({}));
            stopped.push((name, broker.ask_stream(name, topic, &ask)));
        }
        broker.play(&feed.live(&entries[6..]));
        // The wait was for what came to pass before the purge.
        assert_eq!(broker.answer(waits).await["job"]["state"], 64);
        let gone = purge(&mut feed, &[1]);
        std::fs::remove_dir_all(&dir).expect("its files go with it");
        broker.play(&feed.live(&[gone]));
        assert_eq!(listed(&mut broker).await, [0u64; 0]);
        // Not the usual end: what they had not taken is lost.
        for (name, tag) in stopped {
            broker.tell(name, "job-info.resume", &json!({}));
            assert_eq!(broker.error(tag).await, (2, Value::Null), "{name}");
        }
        let tag = broker.ask("s", "job-list.stats-get", &json!({}));
        let stats = broker.answer(tag).await;
        assert_eq!(
            (&stats["streams"], &stats["waiting"]),
            (&json!(0), &json!(0))
        );
        instance.stop().await;
    });
}

#[test]
fn a_look_up_that_is_under_way_when_its_job_is_purged_ends_too() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let entries = over(&mut feed, 1);
        broker.play(&feed.live(&entries));
        let ask = json!({"id":1,"path":"eventlog","flags":0});
        let watch = broker.ask_stream("a", "job-info.eventlog-watch", &ask);
        let (first, _) = broker.request().await;
        let lookup = broker.ask(
            "b",
            "job-info.lookup",
            &json!({"id":1,"keys":["eventlog"],"flags":0}),
        );
        let (second, _) = broker.request().await;
        let gone = purge(&mut feed, &[1]);
        broker.play(&feed.live(&[gone]));
        // Read before the purge, answered after it: the look-up is a true answer, the watch is over.
        assert_eq!(broker.error(watch).await, (2, Value::Null));
        broker.respond(
            &first,
            &json!({"id":1,"eventlog":log_text(&entries),"eventlog_seq":10}),
        );
        broker.respond(&second, &json!({"id":1,"eventlog":log_text(&entries)}));
        assert_eq!(broker.answer(lookup).await["eventlog"], log_text(&entries));
        instance.stop().await;
    });
}

#[test]
fn a_purge_in_the_middle_of_a_listing_leaves_rows_out_and_one_entry_purges_thousands_in_one_pass() {
    const JOBS: u64 = 3000;
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = Vec::new();
        for id in 1..=JOBS {
            entries.extend(over(&mut feed, id));
        }
        for some in entries.chunks(5000) {
            broker.play(&up_to_last(some));
        }
        broker.tell("slow", "job-list.pause", &json!({}));
        let listing = broker.ask_stream("slow", "job-list.list", &all());
        let stats = broker.ask("s", "job-list.stats-get", &json!({}));
        let before = broker.answer(stats).await["journal"].clone();
        let ids: Vec<u64> = (1..JOBS).collect();
        let gone = purge(&mut feed, &ids);
        broker.play(&feed.live(&[gone]));
        assert_eq!(listed(&mut broker).await, [JOBS]);
        let stats = broker.ask("s", "job-list.stats-get", &json!({}));
        let after = broker.answer(stats).await["journal"].clone();
        let passes = |journal: &Value| journal["reorder_passes"].as_u64().expect("a number");
        assert_eq!(passes(&after), passes(&before) + 1);
        let stats = job_stats(&mut broker).await;
        assert_eq!(
            (&stats["inactive_purged"], &stats["job_states"]["total"]),
            (&json!(JOBS - 1), &json!(1))
        );
        broker.tell("slow", "job-list.resume", &json!({}));
        assert_eq!(broker.drain(listing).await.len(), 1);
        instance.stop().await;
    });
}

#[test]
fn jobs_purged_while_nobody_followed_are_gone_after_a_resume_and_after_a_rebuild() {
    run(async {
        let (mut instance, mut broker, mut feed) = following().await;
        let mut entries = over(&mut feed, 1);
        entries.extend(feed.submit(2, OWNER, 16));
        entries.extend(over(&mut feed, 3));
        broker.play(&feed.live(&entries));
        let direct = instance.direct().await;
        let at = json!({"max_entries":0,"attrs":[],"after":feed.seq});
        let list: Value = within("a list", direct.call_as("job-list.list", &at))
            .await
            .expect("a list");
        assert_eq!(list["jobs"].as_array().map(Vec::len), Some(3));
        // On our own socket a wait outlives the stream.
        let wait = json!({"id":2,"attrs":[],"state":64});
        let waits = direct.begin("job-list.list-id", &wait).await.expect("sent");
        broker.cut();
        let cursor = feed.seq;
        assert_eq!(broker.accept().await["after"], cursor);
        let gone = purge(&mut feed, &[1]);
        broker.play(&caught_up(cursor));
        broker.play(&feed.live(&[gone]));
        assert_eq!(listed(&mut broker).await, [2, 3]);
        // The cursor is lost with the log; 2 ended and was purged meanwhile.
        broker.cut();
        broker.accept().await;
        broker.end_journal(116, "cursor 25 cannot be continued");
        assert_eq!(broker.request_journal().await, json!({"from":"all"}));
        let three: Vec<Value> = entries
            .into_iter()
            .filter(|entry| entry["id"] == 3)
            .collect();
        broker.play(&backlog(&three));
        broker.play(&caught_up(40));
        assert_eq!(listed(&mut broker).await, [3]);
        let error = within("the end of the wait", waits.json())
            .await
            .expect_err("no such job");
        assert_eq!(error.errnum, 2, "{error}");
        instance.stop().await;
    });
}
