//! HTTP: clients that are slow, many, or mad cost themselves and nobody else.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::Duration;

use common::{
    OWNER,
    http::{Web, Wire, options, serving},
    run,
};
use job_info::http::{Bounds, Options};
use serde_json::Value;

fn bounded(change: impl FnOnce(&mut Bounds)) -> Options {
    let mut options = options();
    change(&mut options.bounds);
    options
}

/// It still answers, and at once.
async fn is_well(web: &Web) {
    let reply = tokio::time::timeout(Duration::from_secs(20), web.get("/healthz")).await;
    assert_eq!(reply.expect("in time").status, 200);
}

#[test]
fn a_head_that_does_not_come_in_time_ends_the_connection() {
    run(async {
        let head_wait = Duration::from_millis(300);
        let (mut instance, _broker, _, web) =
            serving(bounded(|bounds| bounds.head_wait = head_wait)).await;
        let mut silent = Wire::open(web.address).await;
        let mut half = Wire::open(web.address).await;
        half.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: ")
            .await;
        let mut crawls = Wire::open(web.address).await;
        let crawl = async {
            // A byte now and then is no head.
            loop {
                crawls.send("G").await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            () = crawl => {}
            () = async {
                assert!(silent.is_closed().await);
                // It may be told first.
                while let Some(reply) = half.reply().await {
                    assert_eq!(reply.status, 408);
                }
            } => {}
        }
        while let Some(reply) = crawls.reply().await {
            assert!(matches!(reply.status, 400 | 408));
        }
        is_well(&web).await;
        // Nor does an idle connection stay for ever.
        let mut idle = web.begin("/healthz").await;
        assert_eq!(idle.reply().await.expect("an answer").status, 200);
        assert!(idle.is_closed().await);
        instance.stop().await;
    });
}

#[test]
fn garbage_is_answered_or_closed_and_harms_nobody() {
    run(async {
        let (mut instance, _broker, _, web) = serving(options()).await;
        let long = "x".repeat(300_000);
        let many: String = (0..200).map(|at| format!("X-{at}: y\r\n")).collect();
        for (text, statuses) in [
            ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\r\n\r\n".to_owned(), vec![400]),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), vec![400, 505]),
            ("GET\r\n\r\n".to_owned(), vec![400]),
            ("GET /healthz HTTP/9.9\r\n\r\n".to_owned(), vec![400, 505]),
            (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), vec![414, 431]),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n"), vec![431]),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), vec![431]),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n".to_owned(), vec![400]),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nBad Name: x\r\n\r\n".to_owned(), vec![400]),
            ("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc".to_owned(), vec![400, 405]),
            (web.head("POST", "/v1/jobs/statuses", "Transfer-Encoding: chunked\r\n") + "zz\r\n", vec![400]),
        ] {
            let mut wire = Wire::open(web.address).await;
            wire.send(&text).await;
            if let Some(reply) = wire.reply().await {
                let head: String = text.chars().take(60).collect();
                assert!(statuses.contains(&reply.status), "{head:?}: {}", reply.status);
            }
            is_well(&web).await;
        }
        // A body that is too long is refused, however it is announced.
        let body = "x".repeat((1 << 20) + 1);
        let announced = web.head(
            "POST",
            "/v1/jobs/statuses",
            &format!("Content-Length: {}\r\n", body.len()),
        );
        let mut wire = Wire::open(web.address).await;
        wire.send(&announced).await;
        // The refusal may come before all of it is sent, so a failure to send is no failure.
        let reply = tokio::select! {
            reply = async { wire.send(&body).await; wire.reply().await } => reply,
        };
        assert!(reply.is_none_or(|reply| reply.status == 413));
        is_well(&web).await;
        instance.stop().await;
    });
}

#[test]
fn bodies_that_do_not_end_take_a_bounded_amount_and_leave_it_when_they_go() {
    run(async {
        let (mut instance, _broker, _, web) = serving(options()).await;
        let announced = web.head(
            "POST",
            "/v1/jobs/statuses",
            &format!("Content-Length: {}\r\n", 1 << 20),
        );
        let most = "x".repeat((1 << 20) - 1);
        let small = r#"{"jobs":[{"id":"f2"}]}"#;
        let mut all = Vec::new();
        for at in 0..256 {
            let mut wire = Wire::open(web.address).await;
            wire.send(&announced).await;
            // Those that send nothing keep nobody out.
            if at == 250 {
                let reply = web.post("/v1/jobs/statuses", small).await;
                assert_eq!(reply.status, 200);
            }
            wire.send(&most).await;
            all.push(wire);
        }
        // There is no room for as much again: whose body that is depends on which came first.
        let mut more = Wire::open(web.address).await;
        more.send(&(announced.clone() + &most)).await;
        let refused = "weir_http_requests_total{route=\"/v1/jobs/statuses\",code=\"503\"} 1";
        web.metric(refused).await;
        all.push(more);
        drop(all);
        let reply = web.post("/v1/jobs/statuses", small).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        instance.stop().await;
    });
}

#[test]
fn more_connections_than_there_may_be_are_told_so() {
    run(async {
        let (mut instance, _broker, _, web) =
            serving(bounded(|bounds| bounds.connections = 8)).await;
        web.metric("weir_http_connections 1").await;
        let mut open = Vec::new();
        for _ in 0..8 {
            let mut wire = web.begin("/healthz").await;
            let reply = wire.reply().await.expect("an answer");
            assert_eq!(reply.status, 200);
            open.push(wire);
        }
        let mut more = Wire::open(web.address).await;
        let reply = more.reply().await.expect("a word");
        assert_eq!(
            (reply.status, reply.text()),
            (429, "too many connections, try later")
        );
        assert!(more.is_closed().await);
        // One that goes makes room.
        drop(open.pop());
        loop {
            let mut wire = web.begin("/healthz").await;
            match wire.reply().await {
                Some(reply) if reply.status == 200 => break,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        instance.stop().await;
    });
}

#[test]
fn two_thousand_connections_are_far_from_too_many() {
    run(async {
        let (mut instance, broker, mut feed, web) = serving(options()).await;
        let entries = feed.submit(1, OWNER, 16);
        broker.play(&feed.live(&entries));
        let index = web.get("/v1/jobs/statuses?after=4").await.index();
        // This process has both ends.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let count = limit
            .current
            .map_or(2000, |files| 2000.min((files - 200) / 2));
        let mut waiting = Vec::new();
        for _ in 0..count {
            waiting.push(web.begin(&format!("/v1/jobs/statuses?index={index}")).await);
        }
        web.metric(&format!("weir_http_waiting {count}")).await;
        is_well(&web).await;
        let entries = feed.alloc(1);
        broker.play(&feed.live(&entries));
        for mut wire in waiting {
            assert_eq!(wire.reply().await.expect("an answer").ids(), ["f2"]);
        }
        instance.stop().await;
    });
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_others_are_served_meanwhile() {
    run(async {
        let read_wait = Duration::from_millis(1500);
        let (mut instance, broker, mut feed, web) =
            serving(bounded(|bounds| bounds.read_wait = read_wait)).await;
        // A body larger than what the kernel takes: some megabytes.
        let mut entries = Vec::new();
        for id in 1..=10_000 {
            entries.extend(feed.submit(id, OWNER, 16));
            if entries.len() >= 8_000 {
                broker.play(&feed.live(&entries));
                entries.clear();
            }
        }
        broker.play(&feed.live(&entries));
        let whole = web.get("/v1/jobs/statuses?after=40000").await;
        assert!(whole.body.len() > 4_000_000);
        let mut stuck = Vec::new();
        for _ in 0..8 {
            stuck.push(web.begin("/v1/jobs/statuses").await);
        }
        web.metric("weir_http_connections 9").await;
        is_well(&web).await;
        assert_eq!(web.get("/v1/jobs/statuses?per_page=1").await.ids().len(), 1);
        // They are closed, though they never said a word.
        web.metric("weir_http_connections 1").await;
        web.metric("weir_http_sending_bytes 0").await;
        drop(stuck);
        instance.stop().await;
    });
}

#[test]
fn a_list_of_jobs_that_is_as_long_as_it_may_be_is_answered() {
    run(async {
        let (mut instance, _broker, _, web) = serving(options()).await;
        let all: Vec<Value> = (0..10_000)
            .map(|id| serde_json::json!({"ID": id.to_string()}))
            .collect();
        let body = serde_json::json!({ "Jobs": all }).to_string();
        assert_eq!(web.post("/v1/jobs/statuses", &body).await.text(), "[]");
        let all: Vec<Value> = (0..10_001)
            .map(|id| serde_json::json!({"ID": id.to_string()}))
            .collect();
        let body = serde_json::json!({ "Jobs": all }).to_string();
        let refused = web.post("/v1/jobs/statuses", &body).await;
        assert_eq!(refused.status, 400);
        assert!(refused.text().contains("expected at most 10000, got 10001"));
        instance.stop().await;
    });
}
