//! Services on connections: names, keys, what a service that goes away means, what is answered when there is none.

use crate::peer::{Peer, body, result};
use crate::world::{World, int, ok, refused, soon, stats_until, submit, value};
use serde_json::{Value, json};
use wire::{Cred, Flags, Message, Request, errno, json_payload};

#[tokio::test]
async fn names_need_the_key_or_the_owner_and_are_given_once() {
    let world = World::new().await;
    let mut peer = Peer::new(&world).await;
    let add = |name: &str, key: Option<&str>| match key {
        Some(key) => json!({"service": name, "key": key}),
        None => json!({"service": name}),
    };
    let key = world.key();
    let wrong = "0".repeat(key.len());
    for name in ["job-list", "job-info", "sched", "job-exec", "resource"] {
        for bad in [
            None,
            Some(""),
            Some("x"),
            Some(wrong.as_str()),
            Some(&key[1..]),
        ] {
            let (errnum, text) = peer.call("service.add", add(name, bad)).await.unwrap_err();
            let said = format!(
                "service {name} belongs to the instance: `key` must be the text of the file key in the state directory"
            );
            assert_eq!((errnum, text), (errno::EPERM, said), "{bad:?}");
        }
        assert_eq!(
            peer.call("service.add", add(name, Some(&key))).await,
            Ok(Value::Null)
        );
    }
    let mut other = Peer::new(&world).await;
    for name in [
        "job-list",
        "job-manager",
        "job-ingest",
        "attr",
        "service",
        "event",
        "broker",
        "config",
        "log",
        "heartbeat",
    ] {
        let (errnum, text) = other
            .call("service.add", add(name, Some(&key)))
            .await
            .unwrap_err();
        assert_eq!(
            (errnum, text),
            (
                errno::EEXIST,
                format!("service {name} is registered already")
            )
        );
    }
    for name in ["", "a.b", "a\0b", &"n".repeat(129)] {
        assert_eq!(
            other
                .call("service.add", add(name, None))
                .await
                .unwrap_err()
                .0,
            errno::EINVAL,
            "{name:?}"
        );
    }
    assert_eq!(
        other.call("service.add", add("mine", None)).await,
        Ok(Value::Null)
    );
    assert_eq!(
        peer.call("service.remove", add("mine", None))
            .await
            .unwrap_err()
            .0,
        errno::ENOENT
    );
    assert_eq!(
        other.call("service.remove", add("mine", None)).await,
        Ok(Value::Null)
    );
    assert_eq!(
        peer.call("service.add", add("mine", None)).await,
        Ok(Value::Null)
    );
    for bad in [
        json!({}),
        json!({"service": 1}),
        json!({"service": "x", "key": 1}),
    ] {
        assert_eq!(
            peer.call("service.add", bad).await.unwrap_err().0,
            errno::EPROTO
        );
    }
    // A guest may have what begins with his own id.
    let mut guest = Peer::acting_as(&world, Cred::guest(1001)).await;
    assert_eq!(
        guest.call("service.add", add("1001-mine", None)).await,
        Ok(Value::Null)
    );
    for name in ["1002-mine", "theirs", "1001-", "01001-x"] {
        assert_eq!(
            guest
                .call("service.add", add(name, None))
                .await
                .unwrap_err()
                .0,
            errno::EPERM,
            "{name}"
        );
    }
    for at in 0.. {
        let name = format!("1001-{at}");
        if let Err((errnum, _)) = guest.call("service.add", add(&name, None)).await {
            assert_eq!((errnum, at), (errno::EMFILE, 63));
            break;
        }
    }
}

#[tokio::test]
async fn two_services_answer_each_for_itself_with_the_callers_credentials() {
    let world = World::new().await;
    let client = world.client().await;
    let (mut one, mut two) = (
        Peer::service(&world, "one").await,
        Peer::service(&world, "two").await,
    );
    let first = client.begin("one.x", &json!({"to": 1})).await.unwrap();
    let second = client.begin("two.y", &json!({"to": 2})).await.unwrap();
    let uid = crate::world::own_uid();
    for (service, topic, to) in [(&mut one, "one.x", 1), (&mut two, "two.y", 2)] {
        let request = service.next_request().await;
        assert_eq!(
            (request.topic.as_str(), body(&request.payload)),
            (topic, json!({"to": to}))
        );
        assert_eq!(request.cred, Cred::owner(uid));
        assert_eq!(
            request.routes.as_ref().map(Vec::len),
            Some(1),
            "the client's hop"
        );
        service.respond(&request, &json!({"from": to}));
    }
    assert_eq!(
        value(&soon(second.json()).await.unwrap()),
        json!({"from": 2})
    );
    assert_eq!(
        value(&soon(first.json()).await.unwrap()),
        json!({"from": 1})
    );
    // No service can answer for the other, nor twice.
    let asked = client.begin("one.z", &json!({})).await.unwrap();
    let request = one.next_request().await;
    two.respond(&request, &json!({"forged": true}));
    two.call("job-manager.queue-list", json!({})).await.unwrap();
    one.respond(&request, &json!({"right": true}));
    one.respond(&request, &json!({"twice": true}));
    assert_eq!(
        value(&soon(asked.json()).await.unwrap()),
        json!({"right": true})
    );
    let dropped = stats_until(&client, |stats| int(&stats["router"], "dropped") >= 2).await;
    assert_eq!(int(&dropped["router"], "dropped"), 2);
}

#[tokio::test]
async fn what_nobody_serves_and_what_a_service_does_not_know() {
    let world = World::new().await;
    let client = world.client().await;
    for topic in [
        "nosuch.method",
        "nosuch",
        "job-list.list",
        "",
        ".",
        ".x",
        "ƒ.ƒ",
    ] {
        let text = format!("No service matching {topic} is registered");
        assert_eq!(refused(&client, topic, json!({})).await, (38, text));
    }
    for topic in [
        "job-manager.nosuch",
        "job-manager",
        "job-manager.",
        "job-manager.submit",
        "job-ingest.x",
        "attr.x",
        "broker.x",
        "service.x",
        "event.x",
        "config.x",
        "log.x",
        "heartbeat.x",
        "job-manager.pause",
        "job-manager.resume",
        "job-manager.x.pause",
        "job-manager.update",
        "attr.disconnect",
    ] {
        let text = format!("Unknown service method '{topic}'");
        assert_eq!(refused(&client, topic, json!({})).await, (38, text));
    }
    let mut peer = Peer::new(&world).await;
    for (nodeid, flags) in [
        (7, Flags::NONE),
        (0, Flags::UPSTREAM),
        (wire::NODEID_ANY, Flags::UPSTREAM),
    ] {
        let tag = peer.tag();
        peer.send(Request {
            nodeid,
            flags,
            ..Request::new("attr.list", None, tag)
        });
        assert_eq!(
            result(&peer.response(tag).await),
            Err((errno::EHOSTUNREACH, String::new()))
        );
    }
    let tag = peer.tag();
    peer.send(Request {
        nodeid: 0,
        ..Request::new("attr.list", None, tag)
    });
    assert_eq!(peer.response(tag).await.errnum, 0);
    // Longer than what is to be remembered of it.
    let long = "x".repeat(5000);
    let tag = peer.tag();
    peer.send(Request::new(format!("job-manager.{long}"), None, tag));
    assert_eq!(peer.response(tag).await.errnum, errno::EINVAL);
    let tag = peer.tag();
    let routes = Some(vec![bytes::Bytes::from(long)]);
    peer.send(Request {
        routes: routes.clone(),
        ..Request::new("attr.list", None, tag)
    });
    let response = peer.response(tag).await;
    assert_eq!((response.errnum, response.routes), (errno::EINVAL, routes));
}

#[tokio::test]
async fn the_small_services_answer_as_fluxs_do() {
    let world = World::new().await;
    let client = world.client().await;
    let uid = crate::world::own_uid().to_string();
    for (name, value) in [
        ("rank", "0"),
        ("size", "1"),
        ("security.owner", uid.as_str()),
        ("instance-level", "0"),
    ] {
        let answer = ok(&client, "attr.get", json!({"name": name})).await;
        assert_eq!(answer, json!({"value": value, "flags": 1}));
    }
    assert_eq!(
        refused(&client, "attr.get", json!({"name": "jobid"}))
            .await
            .0,
        2
    );
    let names = ok(&client, "attr.list", Value::Null).await;
    assert!(
        names["names"]
            .as_array()
            .unwrap()
            .contains(&json!("version"))
    );
    assert_eq!(
        refused(&client, "attr.set", json!({"name": "rank", "value": "1"}))
            .await
            .0,
        22
    );
    assert_eq!(ok(&client, "config.get", Value::Null).await, json!({}));
    for service in ["job-manager", "broker", "attr", "job-ingest"] {
        let pong = ok(
            &client,
            &format!("{service}.ping"),
            json!({"seq": 3, "pad": "x"}),
        )
        .await;
        assert_eq!(
            (&pong["seq"], &pong["pad"], &pong["rank"]),
            (&json!(3), &json!("x"), &json!(0))
        );
        assert_eq!(pong["userid"], json!(crate::world::own_uid()));
        assert_eq!(pong["route"].as_str().map(str::len), Some(8));
    }
    // A line for the log: without a matchtag it is never answered, with one it is.
    let mut peer = Peer::new(&world).await;
    let line = bytes::Bytes::from_static(b"<6>1 - 0 test - - - hello");
    peer.send(Request::new("log.append", Some(line.clone()), 0));
    let tag = peer.request("log.append", Some(line), Flags::NONE);
    assert!(
        matches!(peer.next().await, Some(Message::Response(response)) if response.matchtag == tag && response.errnum == 0)
    );
}

#[tokio::test]
async fn a_service_that_dies_answers_its_callers_at_once_streams_too() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "mortal").await;
    let client = world.client().await;
    let call = client.begin("mortal.call", &json!({})).await.unwrap();
    let mut stream = client.stream("mortal.watch", &json!({})).await.unwrap();
    let _ = service.next_request().await;
    let watch = service.next_request().await;
    service.respond(&watch, &json!({"at": 1}));
    assert_eq!(
        value(&soon(stream.next()).await.unwrap().unwrap()),
        json!({"at": 1})
    );
    drop(service);
    let error = soon(call.json()).await.unwrap_err();
    assert_eq!(
        (error.errnum, error.text.as_str()),
        (
            errno::ECONNRESET,
            "service mortal went away before it answered"
        )
    );
    assert_eq!(
        soon(stream.next()).await.unwrap().unwrap_err().errnum,
        errno::ECONNRESET
    );
    assert_eq!(refused(&client, "mortal.call", json!({})).await.0, 38);
    // The name is free the moment it is gone.
    let mut again = Peer::service(&world, "mortal").await;
    let call = client.begin("mortal.call", &json!({})).await.unwrap();
    let request = again.next_request().await;
    again.respond(&request, &json!({"alive": true}));
    assert_eq!(
        value(&soon(call.json()).await.unwrap()),
        json!({"alive": true})
    );
}

#[tokio::test]
async fn a_service_hears_of_a_client_that_leaves_once_for_each_prefix() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "svc").await;
    let mut client = Peer::new(&world).await;
    let first = client.request("svc.foo", None, Flags::NONE);
    client.request("svc.bar.baz", None, Flags::STREAMING);
    client.request("svc.foo2", None, Flags::NONE);
    client.request("svc.silent.x", None, Flags::NORESPONSE);
    let mut hop = None;
    for _ in 0..4 {
        hop = service.next_request().await.routes.unwrap().pop();
    }
    drop(client);
    let mut topics = Vec::new();
    for _ in 0..2 {
        let request = service.next_request().await;
        assert!(request.flags.contains(Flags::NORESPONSE) && request.payload.is_none());
        assert_eq!(request.routes.unwrap().last(), hop.as_ref());
        topics.push((request.topic.as_str().to_owned(), request.matchtag));
    }
    topics.sort();
    assert_eq!(
        topics,
        [
            ("svc.bar.disconnect".to_owned(), first + 1),
            ("svc.disconnect".to_owned(), first)
        ]
    );
}

#[tokio::test]
async fn stdin_of_a_job_goes_to_the_exec_service_until_a_shell_takes_the_name() {
    let world = World::new().await;
    let mut exec = Peer::service(&world, "job-exec").await;
    let client = world.client().await;
    let uid = crate::world::own_uid();
    let topic = format!("{uid}-shell-f2ab.stdin");
    let call = client
        .begin(topic.clone(), &json!({"eof": true}))
        .await
        .unwrap();
    let request = exec.next_request().await;
    assert_eq!(request.topic.as_str(), topic);
    exec.respond(&request, &json!({}));
    soon(call.json()).await.unwrap();
    let mut shell = Peer::service(&world, &format!("{uid}-shell-f2ab")).await;
    let call = client
        .begin(topic.clone(), &json!({"eof": true}))
        .await
        .unwrap();
    let request = shell.next_request().await;
    shell.respond(&request, &json!({"shell": true}));
    assert_eq!(
        value(&soon(call.json()).await.unwrap()),
        json!({"shell": true})
    );
}

#[tokio::test]
async fn events_reach_who_subscribed_in_order_once() {
    let world = World::new().await;
    let client = world.client().await;
    let mut all = client.subscribe("").await.unwrap();
    let other = world.client().await;
    let mut some = other.subscribe("my.").await.unwrap();
    let base64 = "eyJ4IjoxfQA="; // {"x":1} and NUL
    let first = ok(
        &other,
        "event.publish",
        json!({"topic": "my.news", "flags": 0, "payload": base64}),
    )
    .await;
    let second = ok(
        &other,
        "event.publish",
        json!({"topic": "your.news", "flags": 32}),
    )
    .await;
    // The heart may beat between them.
    assert!(int(&second, "seq") > int(&first, "seq"));
    for (subscription, topics) in [
        (&mut all, vec!["my.news", "your.news"]),
        (&mut some, vec!["my.news"]),
    ] {
        for topic in topics {
            let event = loop {
                let event = soon(subscription.next()).await.unwrap();
                if event.topic.as_str() != "heartbeat.pulse" {
                    break event;
                }
            };
            assert_eq!(event.topic.as_str(), topic);
            assert!(event.cred.is_owner());
            assert_eq!(event.flags.contains(Flags::PRIVATE), topic == "your.news");
            if topic == "my.news" {
                assert_eq!(event.payload.as_deref(), Some(&b"{\"x\":1}\0"[..]));
            }
        }
    }
    for (bad, errnum) in [
        (json!({}), 71),
        (json!({"topic": 1}), 71),
        (json!({"topic": "x", "flags": 1}), 71),
        (json!({"topic": "x", "flags": -1}), 71),
        (json!({"topic": "x", "payload": "!"}), 71),
    ] {
        assert_eq!(refused(&client, "event.publish", bad).await.0, errnum);
    }
    let long = json!({"topic": "x".repeat(257)});
    assert_eq!(refused(&client, "event.subscribe", long).await.0, 22);
    assert_eq!(
        refused(&client, "event.unsubscribe", json!({"topic": "never"}))
            .await
            .0,
        2
    );
    // An event message, as `flux event pub` sends it, is numbered and passed on.
    let peer = Peer::new(&world).await;
    peer.send(wire::Event {
        topic: "my.frame".into(),
        payload: None,
        routes: Some(vec![]),
        cred: Cred::UNSET,
        flags: Flags::NONE,
        sequence: 0,
    });
    let event = soon(some.next()).await.unwrap();
    assert_eq!(event.topic.as_str(), "my.frame");
    assert!(u64::from(event.sequence) > int(&second, "seq"));
    assert!(
        event.routes.is_some_and(|hops| hops.len() == 1),
        "the broker's own, not the publisher's"
    );
}

#[tokio::test]
async fn an_exception_is_published_privately_and_the_heart_beats() {
    let world = World::new().await;
    let client = world.client().await;
    let mut exceptions = client.subscribe("job-exception").await.unwrap();
    let mut pulses = client.subscribe("heartbeat.").await.unwrap();
    let (id, _) = submit(&client).await;
    let raise = json!({"id": id, "type": "cancel", "severity": 0, "note": "n"});
    ok(&client, "job-manager.raise", raise).await;
    let event = soon(exceptions.next()).await.unwrap();
    assert!(event.flags.contains(Flags::PRIVATE) && event.cred.is_owner());
    assert_eq!(event.cred.userid, crate::world::own_uid());
    assert_eq!(
        body(&event.payload),
        json!({"id": id, "type": "cancel", "severity": 0})
    );
    assert_eq!(soon(pulses.next()).await.unwrap().payload, None);
}

#[tokio::test]
async fn a_service_that_gave_its_name_up_may_still_answer() {
    let world = World::new().await;
    let client = world.client().await;
    let mut service = Peer::service(&world, "brief").await;
    let call = client.begin("brief.x", &json!({})).await.unwrap();
    let request = service.next_request().await;
    service
        .call("service.remove", json!({"service": "brief"}))
        .await
        .unwrap();
    assert_eq!(refused(&client, "brief.x", json!({})).await.0, 38);
    service.send(request.respond(Some(json_payload(&json!({"late": 1})))));
    assert_eq!(value(&soon(call.json()).await.unwrap()), json!({"late": 1}));
}
