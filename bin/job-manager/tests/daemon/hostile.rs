//! Every topic with every kind of nonsense: always an answer when one is expected, never a panic, and the state is as before.

use crate::peer::Peer;
use crate::world::{World, int, ok, soon, stats, submit};
use bytes::Bytes;
use protocol::method::METHODS;
use serde_json::{Value, json};
use wire::{Cred, Flags, Message, Request};

/// All topics of this process, and some that nobody has.
fn topics() -> Vec<String> {
    let own = [
        "job-manager.events",
        "job-manager.events-journal",
        "job-manager.events-cancel",
        "job-manager.events-journal-cancel",
        "job-manager.lookup",
        "job-manager.getattr",
        "job-manager.ping",
        "attr.get",
        "attr.list",
        "attr.set",
        "attr.rm",
        "config.get",
        "log.append",
        "service.add",
        "service.remove",
        "event.subscribe",
        "event.unsubscribe",
        "event.publish",
        "job-manager.pause",
        "job-manager.resume",
        "job-manager",
        "job-manager.",
        "broker.ping",
        "nosuch",
        "nosuch.x",
        "",
        "1000-shell-x.stdin",
    ];
    let methods = METHODS.iter().map(|(topic, ..)| (*topic).to_owned());
    methods.chain(own.map(str::to_owned)).collect()
}

/// Payloads that are not what anybody expects.
fn payloads(id: u64, seed: u64) -> Vec<Option<Bytes>> {
    let mut all: Vec<Option<Bytes>> = vec![None, Some(Bytes::new())];
    let texts = [
        "",
        "{",
        "{}",
        "[]",
        "null",
        "1",
        "\"x\"",
        "{}{}",
        "{\"id\":}",
        "\u{0}",
        "{\"id\":1e400}",
        "{\"id\":18446744073709551616}",
        "{\"a\":\"\\ud800\"}",
    ];
    for text in texts {
        all.push(Some(Bytes::copy_from_slice(text.as_bytes())));
        all.push(Some(wire::text_payload(text)));
    }
    let deep = |open: &str, close: &str, depth: usize| {
        format!(
            "{{\"id\":{id},\"memo\":{},\"x\":1}}",
            open.repeat(depth) + "1" + &close.repeat(depth)
        )
    };
    for depth in [100, 200, 100_000] {
        all.push(Some(wire::text_payload(&deep("[", "]", depth))));
        all.push(Some(wire::text_payload(&deep("{\"a\":", "}", depth))));
    }
    let keys = [
        "id",
        "urgency",
        "jobs",
        "keys",
        "attrs",
        "severity",
        "type",
        "note",
        "memo",
        "signum",
        "J",
        "flags",
        "max_entries",
        "name",
        "service",
        "key",
        "topic",
        "payload",
        "matchtag",
        "allow",
        "deny",
        "from",
        "after",
        "epoch",
        "ids",
        "full",
        "mode",
        "limit",
        "slice",
        "enable",
        "start",
        "all",
        "reason",
        "dry_run",
        "userid",
        "states",
        "value",
    ];
    for value in [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(id),
        json!(1.5),
        json!(u64::MAX),
        json!("x"),
        json!("\u{0}"),
        json!([]),
        json!([[]]),
        json!([1, 2]),
        json!([[id]]),
        json!([[id, -1, 3]]),
        json!({}),
        json!({"a": {}}),
        json!(["a"]),
        json!("ƒ\u{1f600}"),
    ] {
        let object: serde_json::Map<String, Value> = keys
            .iter()
            .map(|key| ((*key).to_owned(), value.clone()))
            .collect();
        all.push(Some(wire::json_payload(&object)));
    }
    let mut random = seed | 1;
    for len in [1, 7, 64, 5000] {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random as u8
            })
            .collect();
        all.push(Some(bytes.into()));
    }
    all.push(Some(Bytes::from_static(b"{\"id\":\xff}\0")));
    all
}

#[tokio::test]
async fn every_topic_answers_every_payload_of_everybody() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    for (seed, cred) in [
        Cred::UNSET,
        Cred::guest(1001),
        Cred {
            userid: 0,
            rolemask: 4,
        },
    ]
    .into_iter()
    .enumerate()
    {
        for topic in topics() {
            // From its owner, most of these payloads end the instance, as they should; whoever else asks is refused.
            if topic == "job-manager.shutdown" && cred == Cred::UNSET {
                continue;
            }
            // Its own connection, as an engine that is malformed loses it.
            let mut peer = Peer::acting_as(&world, cred).await;
            let mut tags = Vec::new();
            let payloads = payloads(id, seed as u64 + 99);
            for payload in payloads {
                for flags in [Flags::NONE, Flags::STREAMING] {
                    tags.push((peer.request(&topic, payload.clone(), flags), flags));
                }
                // Never answered, whatever it is.
                let request = Request {
                    flags: Flags::NORESPONSE,
                    cred,
                    ..Request::new(topic.clone(), payload.clone(), 0)
                };
                peer.send(request);
            }
            let silent = topic.ends_with("-cancel");
            let waits = matches!(
                topic.as_str(),
                "job-manager.wait" | "job-manager.idle" | "job-manager.drain"
            );
            let shows = !silent && !waits;
            for (tag, _) in tags {
                if shows {
                    let response = peer.response(tag).await;
                    assert_eq!(response.topic.as_str(), topic);
                }
            }
            // Whatever it was, the connection is there and is served.
            let pong = peer
                .call("broker.ping", json!({"still": "there"}))
                .await
                .unwrap();
            assert_eq!(pong["still"], "there", "{topic}");
        }
    }
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert!(list["jobs"].is_array());
    assert!(int(&stats(&client).await, "seq") >= 4);
    submit(&client).await;
}

/// Responses, events and control messages that nobody asked for.
#[tokio::test]
async fn messages_that_are_no_requests_are_dropped_or_published_and_nothing_else() {
    let world = World::new().await;
    let client = world.client().await;
    let mut peer = Peer::new(&world).await;
    let request = Request::new("job-manager.urgency", None, 1);
    for routes in [
        None,
        Some(vec![]),
        Some(vec![Bytes::from_static(b"x")]),
        Some(vec![Bytes::from_static(b"hop"); 60]),
    ] {
        for (topic, payload) in [
            ("sched.alloc", "{\"id\":1,\"type\":0}"),
            ("x", ""),
            ("job-exec.start", "{"),
        ] {
            let mut response = request.respond(Some(wire::text_payload(payload)));
            response.topic = topic.into();
            response.routes = routes.clone();
            for matchtag in [0, 1, u32::MAX] {
                peer.send(wire::Response {
                    matchtag,
                    ..response.clone()
                });
            }
        }
        let control = wire::Control {
            routes: routes.clone(),
            cred: Cred::UNSET,
            flags: Flags::NONE,
            kind: 1,
            status: 2,
        };
        peer.send(Message::Control(control));
        peer.send(wire::Event {
            topic: "a.b".into(),
            payload: None,
            routes,
            cred: Cred::UNSET,
            flags: Flags::PRIVATE,
            sequence: 9,
        });
    }
    assert_eq!(
        peer.call("broker.ping", json!({"x": 1})).await.unwrap()["x"],
        1
    );
    submit(&client).await;
}

/// Real requests with one byte changed, in one stream of frames; the connection may end, the daemon may not.
#[tokio::test]
async fn frames_with_a_byte_changed_harm_at_most_their_connection() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = World::new().await;
    let client = world.client().await;
    let (id, _) = submit(&client).await;
    let payload = wire::json_payload(
        &json!({"id": id, "urgency": 3, "keys": ["eventlog"], "max_entries": 1}),
    );
    for topic in [
        "job-manager.urgency",
        "job-manager.lookup",
        "job-manager.list",
    ] {
        let frame = wire::to_frame(&Request::new(topic, Some(payload.clone()), 1).into());
        for at in 0..frame.len() {
            let mut stream = tokio::net::UnixStream::connect(&world.config.socket)
                .await
                .unwrap();
            soon(stream.read_u8()).await.unwrap();
            let mut bad = frame.to_vec();
            bad[at] ^= 1 << (at % 8);
            // It may be closed while we write.
            let _ = stream.write_all(&bad).await;
            let _ = stream.write_all(&frame).await;
            let _ = stream.shutdown().await;
            let mut rest = Vec::new();
            let _ = soon(stream.read_to_end(&mut rest)).await;
        }
    }
    let (again, _) = submit(&client).await;
    assert!(again > id);
}
