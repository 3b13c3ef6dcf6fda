//! Streams that cannot be followed, and jobs that cannot be folded: what is served meanwhile, what is said, what comes after.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Broker, EPOCH, Feed, Instance, OWNER, backlog, caught_up, following, run, within};
use rpc::client::Client;
use serde_json::{Value, json};

fn all() -> Value {
    json!({"max_entries":0,"attrs":["state"]})
}

fn ids(list: &Value) -> Vec<u64> {
    let jobs = list["jobs"].as_array().expect("jobs");
    jobs.iter().filter_map(|job| job["id"].as_u64()).collect()
}

async fn asked(direct: &Client, topic: &'static str, payload: &Value) -> Value {
    within(topic, direct.call_as(topic, payload))
        .await
        .expect("an answer")
}

async fn listed(direct: &Client) -> Value {
    asked(direct, "job-list.list", &all()).await
}

async fn stats(direct: &Client) -> Value {
    asked(direct, "job-list.stats-get", &json!({})).await
}

/// The list up to `seq`, on job-info's own socket.
async fn at(direct: &Client, seq: u64) -> Value {
    let ask = json!({"max_entries":0,"attrs":["state"],"after":seq});
    asked(direct, "job-list.list", &ask).await
}

/// A job-info whose list holds jobs 1 and 2, at seq 8.
async fn two_jobs() -> (Instance, Broker, Feed, Client) {
    let (instance, broker, mut feed) = following().await;
    let mut entries = feed.submit(1, OWNER, 16);
    entries.extend(feed.submit(2, OWNER, 16));
    broker.play(&feed.live(&entries));
    let direct = instance.direct().await;
    assert_eq!(ids(&at(&direct, 8).await), [1, 2]);
    (instance, broker, feed, direct)
}

/// Batches after which nothing may be folded, and what is said of them.
fn poisons(feed: &mut Feed) -> Vec<(String, &'static str)> {
    let next = feed.submit(3, OWNER, 16);
    let good = feed.live(&next);
    let renamed = |from: &str, to: &str| {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from}");
        bad
    };
    vec![
        ("[]".to_owned(), "malformed journal batch"),
        (renamed("\"entry\"", "\"e\""), "malformed journal batch"),
        (renamed(EPOCH, "00000000000000e2"), "journal batch of epoch"),
        (renamed("\"seq\":12", "\"seq\":11"), "comes after 11"),
        (
            renamed("\"eventlog_seq\":2", "\"eventlog_seq\":3"),
            "comes where its entry 2 should",
        ),
    ]
}

#[test]
fn fault_a_caught_up_behind_a_batch_that_cannot_be_folded_is_not_folded() {
    run(async {
        for kind in 0.. {
            let (mut instance, mut broker, mut feed, direct) = two_jobs().await;
            let Some((bad, reason)) = poisons(&mut feed).into_iter().nth(kind) else {
                return;
            };
            // Live, and then in the middle of a rebuild: what ends a backlog comes right behind.
            broker.play(&bad);
            broker.play(&caught_up(0));
            let asked = broker.accept().await;
            assert_eq!(asked, json!({"from":"all"}), "{reason}: built anew");
            let stats = self::stats(&direct).await;
            let said = stats["journal"]["poisoned"].as_str().expect("a reason");
            assert!(said.contains(reason), "{said}");
            broker.play("{");
            broker.play(&caught_up(0));
            broker.play(&backlog(&[]));
            broker.play(&caught_up(12));
            let stale = listed(&direct).await;
            assert_eq!(ids(&stale), [1, 2], "{reason}: the last list stays");
            assert!(stale["stale"].is_f64(), "{reason}: {stale}");
            assert_eq!(stale["seq"], 8, "{reason}");
            assert_eq!(broker.accept().await, json!({"from":"all"}));
            let stats = self::stats(&direct).await;
            assert_eq!(stats["journal"]["poisonings"], 2);
            let said = stats["journal"]["poisoned"].as_str().expect("a reason");
            assert!(said.starts_with("malformed"), "{said}");
            assert!(stats["stale"].is_f64());
            // A good one: the list is whole and fresh again.
            let mut anew = Feed::default();
            let mut entries = anew.submit(1, OWNER, 16);
            entries.extend(anew.submit(2, OWNER, 16));
            broker.play(&backlog(&entries));
            broker.play(&caught_up(8));
            let fresh = loop {
                let list = listed(&direct).await;
                if list.get("stale").is_none() {
                    break list;
                }
            };
            assert_eq!(ids(&fresh), [1, 2]);
            let stats = self::stats(&direct).await;
            assert_eq!(stats["journal"].get("poisoned"), None);
            instance.stop().await;
        }
    });
}

#[test]
fn fault_a_poisoned_stream_is_named_in_stats_and_tried_again_with_growing_pauses() {
    run(async {
        let (mut instance, mut broker, mut feed, direct) = two_jobs().await;
        let (bad, reason) = poisons(&mut feed).remove(3);
        let mut pauses = Vec::new();
        broker.play(&bad);
        for _ in 0..4 {
            let since = Instant::now();
            broker.accept().await;
            pauses.push(since.elapsed());
            broker.play("{");
        }
        assert!(reason.contains("after 11"));
        // 50, 100, 200, 400 ms, a fifth less at most.
        for (pause, least) in pauses.iter().zip([40, 80, 160, 320]) {
            assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
        }
        let first = listed(&direct).await;
        let second = listed(&direct).await;
        assert!(
            second["stale"].as_f64() > first["stale"].as_f64(),
            "the age grows: {first} {second}"
        );
        assert!(first["stale"].as_f64() >= Some(0.6), "{first}");
        instance.stop().await;
    });
}

#[test]
fn fault_a_list_that_could_never_be_built_is_no_empty_list() {
    run(async {
        let mut instance = Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start();
        broker.accept().await;
        broker.play("{\"epoch\":1}");
        broker.play(&caught_up(0));
        broker.accept().await;
        let direct = instance.direct().await;
        for (topic, payload) in [
            ("job-list.list", all()),
            ("job-list.list-id", json!({"id":1,"attrs":[]})),
            ("job-list.job-stats", json!({})),
            ("job-list.rank", json!({"id":1})),
            ("job-info.lookup", json!({"id":1,"keys":[],"flags":0})),
        ] {
            let error = within(topic, direct.call(topic, &payload)).await;
            let error = error.expect_err("there is no list");
            assert!(
                error.errnum == 11 && error.text.contains("there is no list: malformed"),
                "{topic}: {error}"
            );
        }
        broker.play(&caught_up(0));
        let list = loop {
            let list: Result<Value, _> = direct.call_as("job-list.list", &all()).await;
            if let Ok(list) = list {
                break list;
            }
        };
        assert_eq!((ids(&list), list.get("stale")), (vec![], None));
        instance.stop().await;
    });
}

#[test]
fn fault_a_job_that_cannot_be_folded_is_set_aside_and_the_listing_goes_on() {
    run(async {
        let (mut instance, mut broker, mut feed, direct) = two_jobs().await;
        // A wait and a follower of job 1, which is about to be damaged.
        let waits = broker.ask(
            "w",
            "job-list.list-id",
            &json!({"id":1,"attrs":[],"state":64}),
        );
        let ping = broker.ask("w", "job-list.ping", &json!({}));
        broker.answer(ping).await;
        let bad = feed.entry(1, "clean", Value::Null, Value::Null);
        let good = feed.submit(3, OWNER, 31);
        let mut entries = vec![bad];
        entries.extend(good);
        broker.play(&feed.live(&entries));
        let (errnum, text) = broker.error(waits).await;
        let text = text.as_str().expect("a text").to_owned();
        assert!(
            errnum == 5 && text.starts_with("set aside: entry 5: event clean does not fit"),
            "{errnum} {text}"
        );
        let list = at(&direct, 13).await;
        assert_eq!((ids(&list), list.get("stale")), (vec![3, 2], None));
        assert_eq!(
            list["set_aside"], 1,
            "the list says that it is not of all jobs"
        );
        for (topic, payload, errnum) in [
            ("job-list.list-id", json!({"id":1,"attrs":[]}), 5),
            ("job-list.rank", json!({"id":1}), 5),
            ("job-list.list-id", json!({"id":99,"attrs":[]}), 2),
        ] {
            let tag = broker.ask("a", topic, &payload);
            assert_eq!(broker.error(tag).await.0, errnum, "{topic} {payload}");
        }
        for path in ["eventlog", "guest.output"] {
            let ask = json!({"id":1,"path":path,"flags":1});
            let tag = broker.ask_stream("a", "job-info.eventlog-watch", &ask);
            assert_eq!(broker.error(tag).await.0, 5, "{path}");
        }
        // What is stored of it is still the owner's to see.
        let tag = broker.ask(
            "a",
            "job-info.lookup",
            &json!({"id":1,"keys":["eventlog"],"flags":0}),
        );
        let (request, _) = broker.request().await;
        broker.respond(&request, &json!({"id":1,"eventlog":"x\n"}));
        assert_eq!(broker.answer(tag).await["eventlog"], "x\n");
        let stats = stats(&direct).await;
        assert_eq!(stats["set_aside"]["count"], 1);
        assert_eq!(stats["set_aside"]["jobs"][0]["id"], 1);
        assert_eq!(stats["journal"]["invalid"], 1);
        // It is purged: an id that nobody knows.
        let purge = purge(&mut feed, &[1]);
        broker.play(&feed.live(&[purge]));
        let list = at(&direct, 14).await;
        assert_eq!((ids(&list), list.get("set_aside")), (vec![3, 2], None));
        instance.stop().await;
    });
}

fn purge(feed: &mut Feed, jobs: &[u64]) -> Value {
    feed.seq += 1;
    feed.time += 0.5;
    let entry = json!({"timestamp":feed.time,"name":"purge","context":{"jobs":jobs}});
    json!({"seq":feed.seq,"log":"system","eventlog_seq":1,"entry":entry})
}

#[test]
fn fault_jobs_the_job_manager_sets_aside_are_in_no_list_also_after_a_resume_by_cursor() {
    run(async {
        let (mut instance, mut broker, _feed, direct) = two_jobs().await;
        // A follower of job 2, on our own socket, over the restart.
        let mut follower = within(
            "a stream",
            direct.stream(
                "job-info.eventlog-watch",
                &json!({"id":2,"path":"eventlog","flags":0}),
            ),
        )
        .await
        .expect("a stream");
        broker.request().await;
        broker.cut();
        assert_eq!(broker.accept().await["after"], 8);
        let aside = |ids: Value| {
            json!({"epoch":EPOCH,"seq":8,"caught_up":true,"set_aside":ids,"events":[]}).to_string()
        };
        broker.play(&aside(json!([2])));
        let error = within("the end of the follower", follower.next())
            .await
            .expect("an answer")
            .expect_err("an error");
        assert_eq!(error.errnum, 5, "{error}");
        let list = listed(&direct).await;
        assert_eq!((ids(&list), list.get("stale")), (vec![1], None));
        let tag = broker.ask("a", "job-list.list-id", &json!({"id":2,"attrs":[]}));
        let (errnum, text) = broker.error(tag).await;
        assert_eq!(errnum, 5, "{text}");
        assert!(
            text.as_str()
                .is_some_and(|text| text.contains("the job-manager cannot read it"))
        );
        instance.stop().await;
    });
}
