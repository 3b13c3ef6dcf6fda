//! The examples of `rfc/4_listing.md`, one after another, against the jobs its first table describes.

#![allow(
    clippy::panic,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use common::{Broker, Feed, backlog, caught_up_with, run};
use serde_json::{Value, json};
use wire::{Cred, Flags};

/// What one example asks, and what comes back.
struct Example {
    line: usize,
    streaming: bool,
    topic: &'static str,
    payload: Value,
    responses: Vec<&'static str>,
}

fn examples() -> Vec<Example> {
    let text: &'static str = include_str!("../../../rfc/4_listing.md");
    let mut examples: Vec<Example> = Vec::new();
    let mut within = false;
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            within = !within;
        } else if let Some(request) = line.strip_prefix("> ").filter(|_| within) {
            let (streaming, request) = match request.strip_prefix("stream ") {
                Some(rest) => (true, rest),
                None => (false, request),
            };
            let (topic, payload) = request.split_once(' ').expect("a topic and a payload");
            let payload = serde_json::from_str(payload).expect("a JSON payload");
            examples.push(Example {
                line: at + 1,
                streaming,
                topic,
                payload,
                responses: Vec::new(),
            });
        } else if let Some(response) = line.strip_prefix("< ").filter(|_| within) {
            examples
                .last_mut()
                .expect("a request before")
                .responses
                .push(response);
        }
    }
    examples
}

fn jobs() -> (Feed, Vec<Value>) {
    let mut feed = Feed::default();
    let mut all = Vec::new();
    for (id, user, urgency) in [
        (10, 1000, 16),
        (20, 1000, 16),
        (30, 1001, 20),
        (40, 1000, 16),
    ] {
        all.extend(feed.submit(id, user, urgency));
    }
    all.extend(feed.alloc(40));
    all.extend(feed.submit(50, 1000, 16));
    all.extend(feed.alloc(50));
    all.extend(feed.end(50));
    all.extend(feed.submit(60, 1001, 16));
    all.push(feed.entry(
        60,
        "exception",
        json!({"type":"cancel","severity":0,"note":""}),
        Value::Null,
    ));
    all.push(feed.entry(60, "clean", Value::Null, Value::Null));
    (feed, all)
}

/// The nodes as `caught_up` tells them.
fn nodes() -> Value {
    let r = json!({"version":1,"execution":{"R_lite":[{"rank":"0-2","children":{"core":"0-3"}}],
        "nodelist":["n[0-2]"],"starttime":0.0,"expiration":0.0}});
    let drained =
        json!({"idset":"1","nodelist":"n1","reason":"fans","timestamp":3.5,"userid":1000});
    json!({"seq":9,"define":{"method":"announced","R":r,"pools":{}},"up":"0-1","drained":[drained]})
}

#[test]
fn the_examples_of_the_specification_are_what_happens() {
    run(async {
        let mut instance = common::Instance::new();
        let mut broker = Broker::new(&instance);
        instance.start();
        broker.accept().await;
        let (feed, entries) = jobs();
        broker.play(&backlog(&entries));
        broker.play(&caught_up_with(feed.seq, &nodes()));
        let examples = examples();
        assert!(examples.len() >= 20, "{} examples", examples.len());
        for example in examples {
            let flags = if example.streaming {
                Flags::STREAMING
            } else {
                Flags::NONE
            };
            let tag = broker.ask_as(
                "a",
                example.topic,
                &example.payload,
                Cred::owner(1000),
                flags,
            );
            for expected in example.responses {
                let (met, errnum, value) = broker.response().await;
                assert_eq!(met, tag);
                let shown = match (errnum, value) {
                    (0, value) => value.to_string(),
                    (errnum, Value::String(text)) => format!("!{errnum} {text}"),
                    (errnum, _) => format!("!{errnum}"),
                };
                assert_eq!(shown, expected, "rfc/4_listing.md, line {}", example.line);
            }
        }
        // Nothing more came.
        let ping = broker.ask("a", "job-list.ping", &json!({}));
        broker.answer(ping).await;
        instance.stop().await;
    });
}
