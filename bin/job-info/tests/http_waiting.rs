//! HTTP: queries that wait, streams that go on, and how both end.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::{Duration, Instant};

use common::{
    Broker, EPOCH, Feed, OWNER,
    http::{Web, options, serving},
    run, within,
};
use serde_json::{Value, json};

/// Plays jobs 1 to `count`, and waits until they are listed.
async fn jobs(broker: &Broker, feed: &mut Feed, web: &Web, count: u64) {
    for id in 1..=count {
        let entries = feed.submit(id, OWNER, 16);
        broker.play(&feed.live(&entries));
    }
    web.get(&format!("/v1/jobs?after={}", feed.seq)).await;
}

fn start(broker: &Broker, feed: &mut Feed, id: u64) {
    let entries = feed.alloc(id);
    broker.play(&feed.live(&entries));
}

#[test]
fn a_query_waits_for_a_change_on_its_page_and_for_no_other() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 4).await;
        // The first page: jobs 4 and 3.
        let index = web.get("/v1/jobs/statuses?per_page=2").await.index();
        let mut on = web
            .begin(&format!("/v1/jobs/statuses?per_page=2&index={index}"))
            .await;
        let off = web
            .begin(&format!(
                "/v1/jobs/statuses?per_page=1&next_token=1&index={index}"
            ))
            .await;
        web.metric("weir_http_waiting 2").await;
        web.metric("weir_http_waiters 2").await;
        // Job 3 starts, and comes to the top.
        start(&broker, &mut feed, 3);
        let reply = on.reply().await.expect("an answer");
        assert_eq!(reply.ids(), ["f4", "f5"]);
        assert!(reply.index() > index);
        web.metric("weir_http_waiting 1").await;
        web.metric("weir_http_wakes_total 1").await;
        // Who leaves is forgotten.
        drop(off);
        web.metric("weir_http_waiting 0").await;
        web.metric("weir_http_waiters 0").await;
        instance.stop().await;
    });
}

#[test]
fn who_leaves_is_forgotten_also_when_more_had_come_than_was_read() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        let index = web.get("/v1/jobs/statuses").await.index();
        let path = format!("/v1/jobs/statuses?index={index}");
        let head = web.head("GET", &path, "");
        let mut all = Vec::new();
        // A line end too many, the begin of a next request, a whole one.
        for more in ["\r\n", "GET /healthz HT", head.as_str()] {
            let mut wire = web.begin(&path).await;
            wire.send(more).await;
            all.push(wire);
        }
        web.metric("weir_http_waiting 3").await;
        drop(all);
        web.metric("weir_http_waiting 0").await;
        web.metric("weir_http_waiters 0").await;
        web.metric("weir_http_connections 1").await;
        instance.stop().await;
    });
}

#[test]
fn a_query_whose_time_is_up_is_answered_with_the_body_as_it_is() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        let index = web.get("/v1/jobs/statuses").await.index();
        let begun = Instant::now();
        let reply = web
            .get(&format!("/v1/jobs/statuses?index={index}&wait=200ms"))
            .await;
        assert!(begun.elapsed() >= Duration::from_millis(200));
        assert_eq!(
            (reply.ids(), reply.index() <= index),
            (vec!["f2".to_owned()], true)
        );
        web.metric("weir_http_timeouts_total 1").await;
        // Index 0 never waits; an index that is still to come is answered at once.
        web.get("/v1/jobs/statuses?index=0").await;
        web.get("/v1/jobs/statuses?index=99999&wait=60s").await;
        instance.stop().await;
    });
}

#[test]
fn every_body_can_be_waited_for() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        let mut waiting = Vec::new();
        for path in [
            "/v1/jobs",
            "/v1/job/f2",
            "/v1/job/f2/summary",
            "/v1/job/f2/allocations",
            "/v1/allocations",
        ] {
            let index = web.get(path).await.index();
            waiting.push((path, web.begin(&format!("{path}?index={index}")).await));
        }
        web.metric("weir_http_waiting 5").await;
        start(&broker, &mut feed, 1);
        for (path, mut wire) in waiting {
            let reply = wire.reply().await.expect(path);
            assert_eq!(reply.status, 200, "{path}");
        }
        instance.stop().await;
    });
}

#[test]
fn at_the_end_every_waiter_is_answered_and_streams_end_properly() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 2).await;
        let index = web.get("/v1/jobs/statuses").await.index();
        let mut waiting = Vec::new();
        for at in 0..20 {
            let path = format!("/v1/jobs/statuses?index={index}&reverse={}", at % 2 == 0);
            waiting.push(web.begin(&path).await);
        }
        let mut events = web.events("/v1/jobs/statuses/stream", "").await;
        assert_eq!(events.next().await.expect("the page").name, "page");
        let mut lines = web.begin("/v1/event/stream").await;
        lines.head().await.expect("a head");
        assert_eq!(lines.chunk().await.expect("a heartbeat"), b"{}\n");
        web.metric("weir_http_waiting 20").await;
        instance.stop().await;
        for mut wire in waiting {
            let reply = wire.reply().await.expect("an answer");
            assert_eq!(reply.json().as_array().map(Vec::len), Some(2));
            assert_eq!(reply.header("connection"), Some("close"));
            assert!(wire.is_closed().await);
        }
        assert!(events.next().await.is_none(), "the last chunk is empty");
        while let Some(line) = lines.chunk().await {
            assert!(line.ends_with(b"}\n"));
        }
    });
}

#[test]
fn a_stream_shows_the_page_and_then_what_changed_on_it() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 3).await;
        let mut events = web.events("/v1/jobs/statuses/stream?per_page=2", "").await;
        let page = events.next().await.expect("the page");
        assert_eq!(
            (page.name.as_str(), ids(&page.data)),
            ("page", vec!["f4", "f3"])
        );
        let index = web.get("/v1/jobs/statuses?per_page=2").await.index();
        assert_eq!(page.id, format!("{index}-{EPOCH}"));
        start(&broker, &mut feed, 3);
        let change = events.next().await.expect("a change");
        assert_eq!(
            (change.name.as_str(), ids(&change.data)),
            ("change", vec!["f4"])
        );
        assert_eq!(change.data["rows"][0]["Status"], "running");
        // A job that is not on the page says nothing; the next one that is comes alone.
        start(&broker, &mut feed, 1);
        let change = events.next().await.expect("a change");
        assert_eq!(ids(&change.data), ["f2"]);
        assert_eq!(change.data["order"], json!(["f2", "f4"]));
        assert_eq!(change.data["removed"], json!(["f3"]));
        // Whoever comes back gets what happened meanwhile, and no page.
        let entries = feed.end(1);
        broker.play(&feed.live(&entries));
        web.get(&format!("/v1/jobs?after={}", feed.seq)).await;
        let last = format!("Last-Event-ID: {}\r\n", change.id);
        let mut again = web
            .events("/v1/jobs/statuses/stream?per_page=2", &last)
            .await;
        let change = again.next().await.expect("a change");
        assert_eq!(
            (change.name.as_str(), ids(&change.data)),
            ("change", vec!["f2"])
        );
        // Of another life, or from nowhere: the whole page.
        for last in [format!("{index}-00000000000000ff"), "999999".to_owned()] {
            let header = format!("Last-Event-ID: {last}\r\n");
            let mut other = web
                .events("/v1/jobs/statuses/stream?per_page=2", &header)
                .await;
            assert_eq!(other.next().await.expect("the page").name, "page", "{last}");
        }
        instance.stop().await;
    });
}

fn ids(data: &Value) -> Vec<&str> {
    let rows = data["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["ID"].as_str().expect("an ID")).collect()
}

#[test]
fn a_stream_that_is_read_late_gets_the_newest_and_not_a_queue() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        let mut events = web.events("/v1/jobs/statuses/stream", "").await;
        events.next().await.expect("the page");
        // Far more changes than there are pauses between events.
        for urgency in (1..=31).cycle().take(500) {
            let context = json!({"userid": OWNER, "urgency": urgency});
            let urgency_entry = feed.entry(1, "urgency", context, Value::Null);
            let priority = feed.entry(1, "priority", json!({"priority": urgency}), Value::Null);
            broker.play(&feed.live(&[urgency_entry, priority]));
        }
        start(&broker, &mut feed, 1);
        let mut count = 0;
        loop {
            let event = events.next().await.expect("an event");
            count += 1;
            if event.data["rows"][0]["Status"] == "running" {
                break;
            }
        }
        assert!(count < 100, "{count} events for 501 changes");
        instance.stop().await;
    });
}

#[test]
fn a_stream_says_when_the_list_does_not_follow_its_journal() {
    run(async {
        let (mut instance, mut broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        let mut events = web.events("/v1/jobs/statuses/stream", "").await;
        events.next().await.expect("the page");
        broker.cut();
        let stale = events.next().await.expect("an event");
        assert_eq!(stale.name, "stale");
        assert!(stale.data["Stale"].is_number());
        broker.accept().await;
        broker.play(&common::caught_up(feed.seq));
        let fresh = events.next().await.expect("an event");
        assert_eq!(
            (fresh.name.as_str(), &fresh.data["Stale"]),
            ("stale", &Value::Null)
        );
        instance.stop().await;
    });
}

#[test]
fn events_come_in_lines_with_a_heartbeat_first() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 1).await;
        for (query, text) in [
            ("index=x", "Unable to parse index: "),
            ("topic=Job:a:b", "Invalid topic query: Job:a:b"),
        ] {
            let reply = web.get(&format!("/v1/event/stream?{query}")).await;
            assert_eq!(reply.status, 400);
            assert!(reply.text().starts_with(text), "{}", reply.text());
        }
        let mut wire = web
            .begin("/v1/event/stream?index=now&topic=Job:f2&topic=Allocation:*")
            .await;
        let head = wire.head().await.expect("a head");
        assert_eq!(head.header("content-type"), Some("application/json"));
        assert_eq!(head.header("cache-control"), Some("no-cache"));
        assert_eq!(head.header("content-encoding"), None);
        assert_eq!(wire.chunk().await.expect("a heartbeat"), b"{}\n");
        start(&broker, &mut feed, 1);
        loop {
            let line = wire.chunk().await.expect("a line");
            if line == b"{}\n" {
                continue;
            }
            let line: Value = serde_json::from_slice(&line).expect("JSON");
            let topics: Vec<_> = line["Events"]
                .as_array()
                .expect("events")
                .iter()
                .map(|event| &event["Topic"])
                .collect();
            assert_eq!(topics, ["Job", "Allocation"]);
            assert_eq!(line["Index"], feed.seq);
            break;
        }
        // A client that leaves is forgotten.
        web.metric("weir_http_streams 1").await;
        drop(wire);
        web.metric("weir_http_streams 0").await;
        web.metric("weir_http_waiters 0").await;
        instance.stop().await;
    });
}

#[test]
fn an_answer_may_be_asked_for_from_a_seq_that_is_still_to_come() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        let mut early = web.begin("/v1/jobs/statuses?after=4").await;
        web.metric("weir_http_connections 2").await;
        jobs(&broker, &mut feed, &web, 1).await;
        assert_eq!(early.reply().await.expect("an answer").ids(), ["f2"]);
        instance.stop().await;
    });
}

#[test]
fn many_watchers_of_one_page_get_one_body_and_are_told_quickly() {
    const WATCHERS: usize = 500;
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        jobs(&broker, &mut feed, &web, 50).await;
        let index = web.get("/v1/jobs/statuses").await.index();
        let mut waiting = Vec::new();
        for _ in 0..WATCHERS {
            let more = "Accept-Encoding: gzip\r\n";
            let mut wire = common::http::Wire::open(web.address).await;
            let path = format!("/v1/jobs/statuses?index={index}");
            wire.send(&web.head("GET", &path, more)).await;
            waiting.push(wire);
        }
        web.metric(&format!("weir_http_waiting {WATCHERS}")).await;
        start(&broker, &mut feed, 1);
        let mut first = None;
        for mut wire in waiting {
            let reply = wire.reply().await.expect("an answer");
            assert_eq!(reply.header("content-encoding"), Some("gzip"));
            assert_eq!(first.get_or_insert_with(|| reply.body.clone()), &reply.body);
        }
        let text = within("metrics", web.get("/metrics")).await;
        let made = text
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("weir_http_forms_made_total "));
        assert_eq!(made, Some("1"), "compressed once");
        instance.stop().await;
    });
}
