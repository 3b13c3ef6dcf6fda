//! The client against a server that answers, and against sockets that are not there, refuse, or say nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{World, ask, soon, spawn_service};
use rpc::client::{
    Client, ConnectError, ConnectOptions, Connection, Retry, STREAM_BUFFERED_MAX, SendError,
};
use rpc::server::{Inbound, Listener, ServerConfig, Verdict, serve};
use rpc::{OutboxLimits, ReadEnd, RpcError};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use wire::{Cred, Flags, Message, Request, errno};

async fn refused(path: &Path) -> ConnectError {
    soon(Connection::connect(path)).await.unwrap_err()
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let error = refused(&path).await;
    assert!(matches!(error, ConnectError::NotThere { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.starts_with(path.to_str().unwrap())
            && text.contains("weir start")
            && !text.contains('\n'),
        "{text}"
    );

    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(matches!(
        refused(&path).await,
        ConnectError::NotServed { .. }
    ));

    let error = refused(&dir.path().join("x".repeat(120))).await;
    assert!(
        matches!(error, ConnectError::PathTooLong { .. }) && error.errnum() == errno::ENAMETOOLONG
    );
}

#[tokio::test]
async fn a_refusal_says_why() {
    let world = World::with(ServerConfig::default(), |_| Verdict::Refuse(errno::EACCES));
    let error = refused(&world.path).await;
    assert!(
        matches!(
            error,
            ConnectError::Refused {
                errnum: errno::EACCES,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("Permission denied"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_up_or_says_nothing_is_told_from_one_that_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let (error, _) = tokio::join!(refused(&path), async {
        drop(listener.accept().await.unwrap())
    });
    assert!(matches!(error, ConnectError::HungUp { .. }), "{error:?}");

    let options = ConnectOptions {
        handshake_wait: Duration::from_millis(20),
        ..ConnectOptions::default()
    };
    let error = soon(Connection::connect_with(&path, &options))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Silent { .. }), "{error:?}");
}

#[tokio::test]
async fn retrying_waits_for_a_server_that_comes_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let retry = Retry {
        attempts: 1000,
        first: Duration::from_millis(1),
        max: Duration::from_millis(5),
    };
    let options = ConnectOptions {
        retry,
        ..ConnectOptions::default()
    };
    let late = {
        let path = path.clone();
        tokio::spawn(async move { Connection::connect_with(&path, &options).await.map(drop) })
    };
    tokio::task::yield_now().await;
    let (_server, _inbound) = serve(
        Listener::bind(&path, 0o777).unwrap(),
        ServerConfig::default(),
        |uid| Verdict::Welcome(Cred::owner(uid)),
    );
    soon(late).await.unwrap().unwrap();

    let few = ConnectOptions {
        retry: Retry {
            attempts: 2,
            ..retry
        },
        ..options
    };
    let error = soon(Connection::connect_with(&dir.path().join("nosuch"), &few))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::NotThere { .. }), "{error:?}");
}

#[tokio::test]
async fn raw_messages_go_both_ways_in_order() {
    let mut world = World::new();
    let (sender, mut receiver) = Connection::connect(&world.path).await.unwrap().split();
    let handle = world.opened().await;
    for tag in 1..=1000 {
        sender.send(ask(tag)).await.unwrap();
    }
    let mut next = 1;
    while next <= 1000 {
        for message in world.messages().await.1 {
            let Message::Request(request) = message else {
                panic!("{message:?}")
            };
            assert_eq!(request.matchtag, next);
            let _ = handle.send(request.respond(None));
            next += 1;
        }
    }
    let mut back = Vec::new();
    back.push(soon(receiver.recv()).await.unwrap());
    while back.len() < 1000 {
        soon(receiver.recv_many(&mut back)).await.unwrap();
    }
    let tags: Vec<u32> = back
        .into_iter()
        .map(|message| match message {
            Message::Response(response) => response.matchtag,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(tags.into_iter().eq(1..=1000));

    handle.close();
    assert!(matches!(soon(receiver.recv()).await, Err(ReadEnd::Eof)));
    assert!(
        matches!(soon(receiver.recv()).await, Err(ReadEnd::Eof)),
        "and again"
    );
}

#[tokio::test]
async fn what_was_queued_is_written_before_the_last_sender_goes() {
    let mut world = World::new();
    let (sender, _receiver) = Connection::connect(&world.path).await.unwrap().split();
    world.opened().await;
    let big = Request::new("a.b", Some(Bytes::from(vec![7; 3 << 20])), 1);
    sender.send(big).await.unwrap();
    sender.send(ask(2)).await.unwrap();
    drop(sender.clone());
    drop(sender);
    let mut count = 0;
    loop {
        match world.next().await {
            Inbound::Messages { messages, .. } => count += messages.len(),
            Inbound::Closed { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, 2);
}

#[tokio::test]
async fn a_server_that_does_not_read_makes_senders_wait_or_be_refused() {
    // A listener whose connections are accepted and let in, and then not read.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        stream.try_write(&[0]).unwrap();
        stream
    });
    let connection = Connection::connect(&path).await.unwrap();
    let limits = OutboxLimits {
        low_water: 1 << 16,
        high_water: 1 << 20,
        hard_cap: 1 << 21,
    };
    let (sender, _receiver) = connection.split_with(limits);
    let mut stream = soon(server).await.unwrap();
    let frame = Bytes::from(vec![7; 1 << 16]);
    let mut sent = 0;
    while sender.try_send(frame.clone()).is_ok() {
        sent += frame.len();
        tokio::task::yield_now().await;
    }
    assert!(
        matches!(sender.try_send(frame.clone()), Err(SendError::Full { queued }) if queued >= limits.high_water)
    );
    while sender.send_now(frame.clone()).is_ok() {
        sent += frame.len();
    }
    assert!(sender.queued_bytes() < limits.hard_cap + frame.len());

    let waiting = {
        let (sender, frame) = (sender.clone(), frame.clone());
        tokio::spawn(async move { sender.send(frame).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let mut got = vec![0; sent + frame.len()];
    soon(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut got))
        .await
        .unwrap();
    soon(waiting).await.unwrap().unwrap();
    soon(sender.flush()).await.unwrap();
    sender.close();
    assert_eq!(sender.try_send(frame), Err(SendError::Closed));
}

async fn client() -> (World, Client, tokio::task::JoinHandle<Vec<Request>>) {
    let mut world = World::new();
    let (_, unused) = tokio::sync::mpsc::channel(1);
    let service = spawn_service(std::mem::replace(&mut world.inbound, unused));
    let client = Client::connect(&world.path).await.unwrap();
    (world, client, service)
}

#[tokio::test]
async fn calls_and_their_refusals() {
    let (_world, client, service) = client().await;
    let value: Value = soon(client.call_as("test.echo", &json!({"a": 1})))
        .await
        .unwrap();
    assert_eq!(value, json!({"a": 1}));
    assert_eq!(
        soon(client.call("test.echo", &json!({"a": 1})))
            .await
            .unwrap(),
        &b"{\"a\":1}"[..]
    );
    assert_eq!(
        soon(client.call("test.echo", &())).await.unwrap(),
        "",
        "no payload, none back"
    );
    assert_eq!(
        soon(client.call_as::<Value>("test.echo", &()))
            .await
            .unwrap(),
        json!({})
    );

    let refusal = |error: RpcError| (error.errnum, error.to_string(), error.topic.to_string());
    let error = soon(client.call("test.fail", &())).await.unwrap_err();
    assert_eq!(
        refusal(error),
        (
            errno::EINVAL,
            "no such thing".to_owned(),
            "test.fail".to_owned()
        )
    );
    let error = soon(client.call("test.mute", &())).await.unwrap_err();
    assert_eq!(
        refusal(error),
        (
            errno::EPERM,
            "Operation not permitted".to_owned(),
            "test.mute".to_owned()
        )
    );
    assert_eq!(
        soon(client.call("test.raw", &())).await.unwrap_err().errnum,
        errno::EPROTO
    );

    soon(client.notify("test.echo", &json!({}))).await.unwrap();
    soon(client.flush()).await.unwrap();
    drop(client);
    let seen = soon(service).await.unwrap();
    assert!(
        seen[..7].iter().all(|request| request.matchtag == 1),
        "the lowest free tag, again and again"
    );
    let last = seen.last().unwrap();
    assert_eq!((last.matchtag, last.flags), (0, Flags::NORESPONSE));
}

#[tokio::test]
async fn many_calls_at_a_time_and_the_lowest_free_tag() {
    let (_world, client, service) = client().await;
    let mut replies = Vec::new();
    for at in 0..1000 {
        replies.push(client.begin("test.echo", &json!({"at": at})).await.unwrap());
    }
    for (at, reply) in replies.into_iter().enumerate() {
        assert_eq!(
            soon(reply.json_as::<Value>()).await.unwrap(),
            json!({"at": at})
        );
    }
    assert_eq!(client.outstanding(), 0);
    let _late = client.begin("test.late", &()).await.unwrap();
    soon(client.call("test.echo", &())).await.unwrap();
    drop(_late);
    // The dropped call's tag stays taken: its answer may still come.
    soon(client.call("test.echo", &())).await.unwrap();
    assert_eq!(client.outstanding(), 1);
    drop(client);
    let tags: Vec<u32> = soon(service)
        .await
        .unwrap()
        .iter()
        .map(|request| request.matchtag)
        .collect();
    assert_eq!(tags[1000..], [1, 2, 2]);
    let used: std::collections::BTreeSet<u32> = tags[..1000].iter().copied().collect();
    assert_eq!(
        (used.first(), used.len()),
        (Some(&1), *used.last().unwrap() as usize),
        "no number is left out"
    );
}

#[tokio::test]
async fn a_stream_ends_as_none_and_a_refused_one_as_an_error() {
    let (_world, client, _service) = client().await;
    let mut stream = soon(client.stream("test.count", &json!({"n": 100})))
        .await
        .unwrap();
    let mut next = 0;
    while let Some(item) = soon(stream.next()).await {
        assert_eq!(
            serde_json::from_slice::<Value>(&item.unwrap()).unwrap(),
            json!({"at": next})
        );
        next += 1;
    }
    assert_eq!(
        (next, stream.is_over(), client.outstanding()),
        (100, true, 0)
    );
    assert!(soon(stream.next()).await.is_none());

    let mut stream = soon(client.stream("test.fail", &())).await.unwrap();
    assert_eq!(
        soon(stream.next()).await.unwrap().unwrap_err().errnum,
        errno::EINVAL
    );
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn a_cancelled_stream_ends_and_so_does_a_dropped_one() {
    let (_world, client, service) = client().await;
    let mut stream = soon(client.stream("test.watch", &())).await.unwrap();
    assert!(soon(stream.next()).await.is_some());
    stream.cancel();
    assert!(soon(stream.next()).await.is_none());
    drop(stream);

    let mut stream = soon(client.stream("test.watch", &())).await.unwrap();
    assert!(soon(stream.next()).await.is_some());
    drop(stream);
    // The service took the cancel before this.
    soon(client.call("test.echo", &())).await.unwrap();
    assert_eq!(client.outstanding(), 0);
    drop(client);
    let cancels = soon(service)
        .await
        .unwrap()
        .into_iter()
        .filter(|request| request.topic == "test.watch-cancel");
    let flags: Vec<(Flags, u32)> = cancels
        .map(|request| (request.flags, request.matchtag))
        .collect();
    assert_eq!(
        flags,
        [(Flags::NORESPONSE, 0); 2],
        "one each, and none for a stream that was over"
    );
}

/// The end of a stream has come but was not read; its tag is another stream's by now. Dropping the first one must not
/// cancel the second.
#[tokio::test]
async fn a_late_drop_does_not_cancel_the_stream_that_has_the_tag_now() {
    let (_world, client, service) = client().await;
    let over = soon(client.stream("test.count", &json!({"n": 1})))
        .await
        .unwrap();
    soon(client.call("test.echo", &())).await.unwrap();
    let mut watch = soon(client.stream("test.watch", &())).await.unwrap();
    assert_eq!(over.matchtag(), watch.matchtag());
    assert!(soon(watch.next()).await.is_some());
    drop(over);
    soon(client.call("test.echo", &())).await.unwrap();
    assert!(!watch.is_over());
    watch.cancel();
    assert!(soon(watch.next()).await.is_none());
    drop((watch, client));
    let cancels = soon(service)
        .await
        .unwrap()
        .iter()
        .filter(|request| request.topic == "test.watch-cancel")
        .count();
    assert_eq!(cancels, 1);
}

#[tokio::test]
async fn invariant_7_an_unread_stream_stops_the_reading_and_is_bounded() {
    let mut world = World::new();
    let client = Client::connect(&world.path).await.unwrap();
    let handle = world.opened().await;
    let mut stream = client.stream("test.flood", &()).await.unwrap();
    let Message::Request(request) = world.messages().await.1.remove(0) else {
        panic!()
    };
    let payload = Some(wire::json_payload(&json!({"x": "y".repeat(100_000)})));
    let mut response = request.respond(payload);
    response.cred = Cred::owner(0);
    let mut sent = 0;
    while handle.send(response.clone()) == rpc::Sent::Queued {
        sent += 1;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    // High water was met at all, so the client has stopped reading; what it holds are a few buffers.
    assert!(handle.queued_bytes() >= rpc::HIGH_WATER);
    sent += 1;
    let end = request.error(errno::ENODATA, None);
    let _ = handle.send(wire::Response {
        cred: Cred::owner(0),
        ..end
    });
    let mut got = 0;
    while let Some(item) = soon(stream.next()).await {
        item.unwrap();
        got += 1;
    }
    assert_eq!(got, sent);
    assert!(sent > STREAM_BUFFERED_MAX);
}

#[tokio::test]
async fn a_lost_connection_fails_all_that_wait_and_all_that_come() {
    let (_world, client, _service) = client().await;
    let late = client.begin("test.late", &()).await.unwrap();
    let mut watch = soon(client.stream("test.watch", &())).await.unwrap();
    assert!(soon(watch.next()).await.unwrap().is_ok());
    let error = soon(client.call("test.hangup", &())).await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    assert!(soon(late.json()).await.unwrap_err().is_lost());
    assert!(soon(watch.next()).await.unwrap().unwrap_err().is_lost());
    assert!(soon(watch.next()).await.is_none());
    let error = soon(client.call("test.echo", &())).await.unwrap_err();
    assert_eq!(
        (error.errnum, error.text.as_str()),
        (errno::ECONNRESET, "the instance closed the connection")
    );
    assert!(
        soon(client.notify("test.echo", &()))
            .await
            .unwrap_err()
            .is_lost()
    );
}

#[tokio::test]
async fn a_subscription_gets_what_matches_and_unsubscribes() {
    let (_world, client, service) = client().await;
    let mut events = soon(client.subscribe("job-")).await.unwrap();
    assert_eq!(soon(events.next()).await.unwrap().topic, "job-state");
    drop(events);
    soon(client.call("test.echo", &())).await.unwrap();
    drop(client);
    let topics: Vec<String> = soon(service)
        .await
        .unwrap()
        .iter()
        .map(|request| request.topic.to_string())
        .collect();
    assert_eq!(
        topics,
        ["event.subscribe", "event.unsubscribe", "test.echo"]
    );
}
