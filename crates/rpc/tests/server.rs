//! The server against clients that behave, and against those that do not.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use bytes::Bytes;
use common::{World, ask, own_uid, soon, write};
use rpc::server::{
    BindError, CloseReason, Inbound, Listener, PartialLimits, ServerConfig, Verdict,
};
use rpc::{HARD_CAP, HIGH_WATER, LOW_WATER, OutboxLimits, ReadEnd, Sent};
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wire::{Cred, Event, FRAME_LEN_MAX_DEFAULT, Flags, Message, Request, WireError, to_frame};

#[tokio::test]
async fn one_byte_lets_a_client_in_and_it_is_who_the_kernel_says() {
    let mut world = World::new();
    let mut stream = UnixStream::connect(&world.path).await.unwrap();
    assert_eq!(soon(stream.read_u8()).await.unwrap(), 0);
    match world.next().await {
        Inbound::Opened {
            cred,
            pid,
            uuid,
            handle,
            conn,
        } => {
            assert_eq!(cred, Cred::owner(own_uid()));
            assert_eq!(pid, Some(std::process::id() as i32));
            assert_eq!((uuid.len(), handle.id()), (36, conn));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_refused_client_gets_the_number_and_eof_and_nobody_hears_of_it() {
    let mut world = World::with(ServerConfig::default(), |_| {
        Verdict::Refuse(wire::errno::EPERM)
    });
    let mut stream = UnixStream::connect(&world.path).await.unwrap();
    let mut said = Vec::new();
    soon(stream.read_to_end(&mut said)).await.unwrap();
    assert_eq!(said, [1]);
    assert_eq!(world.server.refused(), 1);
    assert!(world.inbound.try_recv().is_err());
}

#[tokio::test]
async fn with_no_place_left_a_client_is_told_to_come_again() {
    let config = ServerConfig {
        connections_max: 1,
        ..ServerConfig::default()
    };
    let mut world = World::with(config, |uid| Verdict::Welcome(Cred::owner(uid)));
    let (first, _handle) = world.connect().await;
    let mut second = UnixStream::connect(&world.path).await.unwrap();
    assert_eq!(
        soon(second.read_u8()).await.unwrap(),
        wire::errno::EAGAIN as u8
    );
    drop(first);
    world.closed().await;
    world.connect().await;
}

#[tokio::test]
async fn a_client_that_is_gone_before_the_handshake_hurts_nobody() {
    let mut world = World::new();
    for _ in 0..50 {
        drop(std::os::unix::net::UnixStream::connect(&world.path).unwrap());
    }
    // The last one in line is served.
    let mut stream = UnixStream::connect(&world.path).await.unwrap();
    assert_eq!(soon(stream.read_u8()).await.unwrap(), 0);
    write(&mut stream, ask(1)).await;
    loop {
        if let Inbound::Messages { messages, .. } = world.next().await {
            assert_eq!(messages.len(), 1);
            break;
        }
    }
}

#[tokio::test]
async fn messages_come_in_order_in_any_split() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    let frames: Vec<u8> = (1..=3)
        .flat_map(|tag| to_frame(&ask(tag).into()).to_vec())
        .collect();
    for byte in &frames {
        soon(stream.write_all(&[*byte])).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut tags = Vec::new();
    while tags.len() < 3 {
        let (conn, messages) = world.messages().await;
        assert_eq!(conn, handle.id());
        for message in messages {
            let Message::Request(request) = message else {
                panic!("{message:?}")
            };
            tags.push(request.matchtag);
        }
    }
    assert_eq!(tags, [1, 2, 3]);

    soon(stream.write_all(&frames)).await.unwrap();
    assert_eq!(
        world.messages().await.1.len(),
        3,
        "one read, one entry in the queue"
    );
}

#[tokio::test]
async fn a_guests_claims_are_overwritten_and_an_owners_kept() {
    for (cred, want) in [
        (Cred::guest(1001), Cred::guest(1001)),
        (Cred::owner(1000), Cred::guest(7)),
    ] {
        let mut world = World::with(ServerConfig::default(), move |_| Verdict::Welcome(cred));
        let (mut stream, _handle) = world.connect().await;
        write(
            &mut stream,
            Request {
                cred: Cred::guest(7),
                ..ask(1)
            },
        )
        .await;
        assert_eq!(world.messages().await.1[0].cred(), want);
        write(&mut stream, ask(1)).await;
        assert_eq!(world.messages().await.1[0].cred(), cred);
    }
}

#[tokio::test]
async fn a_client_closing_within_a_frame_is_over_and_said_so() {
    let mut world = World::new();
    let frame = to_frame(&ask(2).into());
    for cut in [1, 4, 8, 9, frame.len() - 1] {
        let (mut stream, handle) = world.connect().await;
        write(&mut stream, ask(1)).await;
        soon(stream.write_all(&frame[..cut])).await.unwrap();
        drop(stream);
        let (_, messages) = world.messages().await;
        assert_eq!(
            messages,
            [Request {
                cred: Cred::owner(own_uid()),
                ..ask(1)
            }
            .into()]
        );
        match world.closed().await {
            (conn, CloseReason::Read(ReadEnd::CutFrame { have })) => {
                assert_eq!((conn, have), (handle.id(), cut))
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(handle.send(ask(1)), Sent::Gone);
    }
}

#[tokio::test]
async fn a_frame_past_the_cap_closes_that_connection_alone() {
    let mut world = World::new();
    let (mut good, _) = world.connect().await;
    let (mut bad, handle) = world.connect().await;
    let mut head = vec![0x12, 0, 0xee, 0xff];
    head.extend_from_slice(&(FRAME_LEN_MAX_DEFAULT as u32 + 1).to_be_bytes());
    write(&mut bad, ask(1)).await;
    soon(bad.write_all(&head)).await.unwrap();
    assert_eq!(
        world.messages().await.1.len(),
        1,
        "what came before is still served"
    );
    match world.closed().await {
        (conn, CloseReason::Read(ReadEnd::Wire(WireError::FrameTooLong { need, have, .. }))) => {
            assert_eq!(
                (conn, need, have),
                (
                    handle.id(),
                    FRAME_LEN_MAX_DEFAULT,
                    FRAME_LEN_MAX_DEFAULT + 1
                )
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(soon(bad.read(&mut [0])).await.unwrap_or(0), 0);
    write(&mut good, ask(1)).await;
    assert_eq!(world.messages().await.1.len(), 1);
}

#[tokio::test]
async fn every_kind_of_nonsense_closes_that_connection_alone() {
    let mut world = World::new();
    let (mut good, _) = world.connect().await;
    for nonsense in ["GET / HTTP/1.1\r\n", "\u{12}\0", "\0\0\0\0\0\0\0\0"] {
        let (mut bad, handle) = world.connect().await;
        soon(bad.write_all(nonsense.as_bytes())).await.unwrap();
        soon(bad.shutdown()).await.unwrap();
        assert_eq!(world.closed().await.0, handle.id());
    }
    let zero_length = [0x12, 0, 0xee, 0xff, 0, 0, 0, 0];
    let (mut bad, _) = world.connect().await;
    soon(bad.write_all(&zero_length)).await.unwrap();
    assert!(matches!(
        world.closed().await.1,
        CloseReason::Read(ReadEnd::Wire(WireError::FrameTooShort { .. }))
    ));
    write(&mut good, ask(1)).await;
    assert_eq!(world.messages().await.1.len(), 1);
}

#[tokio::test]
async fn a_frame_of_the_full_length_comes_through_both_ways() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    let empty =
        to_frame(&Request::new("a.b", Some(Bytes::from(vec![7; 1000])), 1).into()).len() - 1000 - 8;
    let request = Request::new(
        "a.b",
        Some(Bytes::from(vec![7; FRAME_LEN_MAX_DEFAULT - empty])),
        1,
    );
    let frame = to_frame(&request.into());
    assert_eq!(frame.len(), FRAME_LEN_MAX_DEFAULT + 8);
    let sent = frame.clone();
    let client = tokio::spawn(async move {
        stream.write_all(&sent).await.unwrap();
        let mut back = vec![0; sent.len()];
        stream.read_exact(&mut back).await.unwrap();
        back == sent
    });
    assert_eq!(world.messages().await.1.len(), 1);
    assert_eq!(
        handle.send(frame),
        Sent::HighWater,
        "past the hard cap in one frame, and still taken"
    );
    assert!(soon(client).await.unwrap());
    assert!(matches!(world.next().await, Inbound::Drained { .. }));
}

/// A client that is stopped: it holds its connection and reads nothing.
#[tokio::test]
async fn invariant_7_a_client_that_does_not_read_has_a_bounded_queue_and_costs_nobody_else() {
    let mut world = World::new();
    let (mut other, _) = world.connect().await;
    let (stopped, handle) = world.connect().await;
    let frame = Bytes::from(vec![7; 64 << 10]);
    let (mut high_waters, mut queued_max) = (0, 0);
    let refused = loop {
        match handle.send(frame.clone()) {
            Sent::Queued => {}
            Sent::HighWater => high_waters += 1,
            other => break other,
        }
        queued_max = queued_max.max(handle.queued_bytes());
        tokio::task::yield_now().await;
    };
    assert_eq!((refused, high_waters), (Sent::Overflow, 1));
    assert!(
        (HARD_CAP..HARD_CAP + frame.len()).contains(&queued_max),
        "{queued_max}"
    );
    match world.closed().await {
        (conn, CloseReason::Overflow { queued }) => {
            assert!(conn == handle.id() && queued >= HARD_CAP)
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((handle.queued_bytes(), handle.send(frame)), (0, Sent::Gone));
    write(&mut other, ask(1)).await;
    assert_eq!(world.messages().await.1.len(), 1);
    drop(stopped);
}

#[tokio::test]
async fn a_client_that_reads_again_is_said_to_have_drained_and_has_it_all_in_order() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    let mut sent = 0u32;
    let event = |sequence| {
        let payload = Some(Bytes::from(vec![7; 10_000]));
        Event {
            topic: "a".into(),
            payload,
            routes: None,
            cred: Cred::UNSET,
            flags: Flags::NONE,
            sequence,
        }
    };
    loop {
        sent += 1;
        if handle.send(event(sent)) == Sent::HighWater {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(handle.queued_bytes() >= HIGH_WATER);
    let client = tokio::spawn(async move {
        let mut buf = bytes::BytesMut::new();
        let mut next = 1;
        while next <= sent {
            stream.read_buf(&mut buf).await.unwrap();
            while let Some(message) = wire::decode(&mut buf, FRAME_LEN_MAX_DEFAULT).unwrap() {
                let Message::Event(event) = message else {
                    panic!("{message:?}")
                };
                assert_eq!(event.sequence, next);
                next += 1;
            }
        }
        stream
    });
    assert!(matches!(world.next().await, Inbound::Drained { conn } if conn == handle.id()));
    assert!(handle.queued_bytes() <= LOW_WATER);
    let _stream = soon(client).await.unwrap();
    assert_eq!(handle.queued_bytes(), 0);
}

#[tokio::test]
async fn pieces_of_a_frame_arrive_as_one() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    let frame = to_frame(&ask(5).into());
    assert_eq!(
        handle.send_pieces([frame.slice(..3), frame.slice(3..10), frame.slice(10..)]),
        Sent::Queued
    );
    let mut back = vec![0; frame.len()];
    soon(stream.read_exact(&mut back)).await.unwrap();
    assert_eq!(back, frame);
}

#[tokio::test]
async fn what_a_client_sent_before_it_went_is_served_though_it_takes_nothing() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    write(&mut stream, ask(1)).await;
    drop(stream);
    // EPIPE, before or after the reader has seen the end.
    let _ = handle.send(ask(9));
    assert_eq!(world.messages().await.1.len(), 1);
    assert!(matches!(world.closed().await.1, CloseReason::Read(_)));
}

#[tokio::test]
async fn close_ends_it_and_finish_ends_it_after_the_last_frame() {
    let mut world = World::new();
    let (mut stream, handle) = world.connect().await;
    handle.close();
    assert!(matches!(world.closed().await, (conn, CloseReason::ClosedHere) if conn == handle.id()));
    assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0);

    let (mut stream, handle) = world.connect().await;
    let long = Bytes::from(vec![7; 5 << 20]);
    let _ = handle.send(long.clone());
    handle.finish();
    assert_eq!(handle.send(ask(1)), Sent::Gone);
    let mut back = Vec::new();
    soon(stream.read_to_end(&mut back)).await.unwrap();
    assert!(
        back == long,
        "all of it came: {} of {}",
        back.len(),
        long.len()
    );
    loop {
        match world.next().await {
            Inbound::Drained { .. } => {}
            Inbound::Closed {
                reason: CloseReason::ClosedHere,
                ..
            } => break,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn dropping_the_receiver_ends_all_connections() {
    let mut world = World::new();
    let (mut stream, _handle) = world.connect().await;
    let World {
        inbound,
        server: _server,
        dir: _dir,
        ..
    } = world;
    drop(inbound);
    assert_eq!(soon(stream.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn binding_takes_over_from_the_dead_and_only_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = Listener::bind(&path, 0o700).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert!(matches!(
        Listener::bind(&path, 0o777),
        Err(BindError::InUse { .. })
    ));
    drop(listener);
    assert!(!path.exists(), "an orderly end removes the socket");

    // What a killed server leaves.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let first = Listener::bind(&path, 0o777).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o777
    );

    // The file is another's by now: it stays.
    std::fs::remove_file(&path).unwrap();
    let second = Listener::bind(&path, 0o777).unwrap();
    drop(first);
    assert!(path.exists());
    drop(second);

    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(
        Listener::bind(&path, 0o777),
        Err(BindError::NotASocket { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");

    let long = dir.path().join("x".repeat(120));
    assert!(matches!(
        Listener::bind(&long, 0o777),
        Err(BindError::PathTooLong { .. })
    ));
}

#[tokio::test]
async fn limits_may_be_set() {
    let outbox = OutboxLimits {
        low_water: 10,
        high_water: 100,
        hard_cap: 1000,
    };
    let config = ServerConfig {
        outbox,
        frame_len_max: 100,
        ..ServerConfig::default()
    };
    let mut world = World::with(config, |uid| Verdict::Welcome(Cred::owner(uid)));
    let (mut stream, handle) = world.connect().await;
    assert_eq!(handle.send(Bytes::from(vec![7; 100])), Sent::HighWater);
    for _ in 0..9 {
        assert_eq!(handle.send(Bytes::from(vec![7; 100])), Sent::Queued);
    }
    assert_eq!(handle.send(Bytes::from(vec![7; 1])), Sent::Overflow);
    assert!(matches!(
        world.closed().await.1,
        CloseReason::Overflow { queued: 1000 }
    ));
    soon(stream.read_to_end(&mut Vec::new())).await.unwrap();

    let (mut stream, _) = world.connect().await;
    write(
        &mut stream,
        Request::new("a.b", Some(Bytes::from(vec![7; 100])), 1),
    )
    .await;
    assert!(matches!(
        world.closed().await.1,
        CloseReason::Read(ReadEnd::Wire(WireError::FrameTooLong { .. }))
    ));
}

#[tokio::test]
async fn invariant_7_half_frames_have_a_bound_in_all_and_the_longest_goes() {
    const ALL: usize = 1 << 20;
    let config = ServerConfig {
        partial: PartialLimits {
            all: ALL,
            others: ALL / 2,
        },
        ..ServerConfig::default()
    };
    let mut world = World::with(config, |uid| Verdict::Welcome(Cred::owner(uid)));
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(world.connect().await);
    }
    let mut head = vec![0x12, 0, 0xee, 0xff];
    head.extend_from_slice(&(FRAME_LEN_MAX_DEFAULT as u32).to_be_bytes());
    head.resize(ALL / 2, 0);
    let (rude, handle) = &mut clients[0];
    soon(rude.write_all(&head)).await.unwrap();
    let rude_id = handle.id();
    // Together with the first too much; each alone holds less.
    for (client, _) in &mut clients[1..] {
        soon(client.write_all(&head[..ALL / 4])).await.unwrap();
    }
    let (closed, reason) = world.closed().await;
    assert_eq!(closed, rude_id, "{reason:?}");
    // A whole frame comes in all the same.
    let (mut good, _handle) = world.connect().await;
    let long = Request {
        payload: Some(vec![1; ALL / 8].into()),
        ..ask(1)
    };
    write(&mut good, long).await;
    assert_eq!(world.messages().await.1.len(), 1);
}
