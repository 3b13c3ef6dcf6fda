//! Frames: exact bytes, round trips, cuts at every byte, and each way a frame can be wrong.

#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::{
    Control, Cred, Event, FRAME_LEN_MAX_DEFAULT, Flags, Message, NODEID_ANY, ROUTE_HOPS_MAX,
    Request, Response, Topic, WireError, announced_len, decode, encode, encoded_len, json_payload,
    to_frame,
};

const CAP: usize = FRAME_LEN_MAX_DEFAULT;

fn read(bytes: &[u8]) -> Result<Option<Message>, WireError> {
    decode(&mut BytesMut::from(bytes), CAP)
}

/// `attr.get {"name":"rank"}` and its answer, spelled out.
const ATTR_GET: &str = "1200eeff 00000030 00 08 617474722e676574 10 7b226e616d65223a2272616e6b227d00 \
     14 8e 01 01 0b ffffffff 00000000 ffffffff 00000001";
const ATTR_GET_ANSWER: &str = "1200eeff 00000038 00 08 617474722e676574 \
     18 7b2276616c7565223a2230222c22666c616773223a317d00 14 8e 01 02 0b 000003e8 00000005 00000000 00000001";

fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text.replace(' ', "")).unwrap()
}

fn attr_get() -> Request {
    Request::new(
        "attr.get",
        Some(json_payload(&serde_json::json!({"name": "rank"}))),
        1,
    )
}

#[test]
fn exact_bytes_of_attr_get() {
    assert_eq!(to_frame(&attr_get().into()), unhex(ATTR_GET));
    let mut answer =
        attr_get().respond(Some(Bytes::from_static(b"{\"value\":\"0\",\"flags\":1}\0")));
    answer.cred = Cred::owner(1000);
    assert_eq!(to_frame(&answer.clone().into()), unhex(ATTR_GET_ANSWER));
    assert_eq!(read(&unhex(ATTR_GET)), Ok(Some(attr_get().into())));
    assert_eq!(read(&unhex(ATTR_GET_ANSWER)), Ok(Some(answer.into())));
}

#[test]
fn an_error_answer_echoes_topic_routes_matchtag_and_flags() {
    let mut request = attr_get();
    request.routes = Some(vec![
        Bytes::from_static(b"broker"),
        Bytes::from_static(b"client"),
    ]);
    request.flags = Flags::STREAMING | Flags::UPSTREAM;
    let answer = request.error(2, Some("gone"));
    assert_eq!(
        (&answer.topic, &answer.routes, answer.matchtag),
        (&request.topic, &request.routes, 1)
    );
    assert_eq!((answer.flags, answer.errnum), (request.flags, 2));
    assert_eq!(answer.payload, Some(Bytes::from_static(b"gone\0")));
    assert_eq!(request.error(2, None).payload, None);
    assert_ne!(
        request.error(0, None).errnum,
        0,
        "an error is never a success"
    );
}

#[test]
fn a_frame_cut_at_any_byte_waits_for_the_rest() {
    let whole = unhex(ATTR_GET);
    for end in 0..whole.len() {
        let mut buf = BytesMut::from(&whole[..end]);
        assert_eq!(decode(&mut buf, CAP), Ok(None), "cut at {end}");
        assert_eq!(&buf[..], &whole[..end], "a part of a frame is left alone");
    }
}

/// Cuts the body instead, and says so in the length: never a message, always an error.
#[test]
fn a_body_cut_at_any_byte_is_refused() {
    let whole = unhex(ATTR_GET);
    for body_len in 0..whole.len() - 8 {
        let mut cut = whole[..8 + body_len].to_vec();
        cut[4..8].copy_from_slice(&(body_len as u32).to_be_bytes());
        assert!(read(&cut).is_err(), "body of {body_len}");
    }
}

#[test]
fn wrong_magic_is_said_from_the_first_wrong_byte_on() {
    assert_eq!(read(&[0x12, 0x00]), Ok(None));
    assert_eq!(
        read(&[0x12, 0x01]),
        Err(WireError::FrameMagic {
            offset: 0,
            need: 0x1200_eeff,
            have: 0x1201_0000
        })
    );
    assert!(matches!(
        read(&[0xff, 0xee, 0x00, 0x12, 0, 0, 0, 48]),
        Err(WireError::FrameMagic { .. })
    ));
}

#[test]
fn the_cap_is_checked_before_the_body_is_there() {
    let mut head = unhex("1200eeff 00000000");
    assert_eq!(
        read(&head),
        Err(WireError::FrameTooShort {
            offset: 4,
            need: 21,
            have: 0
        })
    );
    head[4..].copy_from_slice(&20u32.to_be_bytes());
    assert_eq!(
        read(&head),
        Err(WireError::FrameTooShort {
            offset: 4,
            need: 21,
            have: 20
        })
    );
    head[4..].copy_from_slice(&(CAP as u32 + 1).to_be_bytes());
    assert_eq!(
        read(&head),
        Err(WireError::FrameTooLong {
            offset: 4,
            need: CAP,
            have: CAP + 1
        })
    );
    head[4..].copy_from_slice(&(CAP as u32).to_be_bytes());
    let mut buf = BytesMut::from(&head[..]);
    let before = buf.capacity();
    assert_eq!(decode(&mut buf, CAP), Ok(None));
    assert_eq!(buf.capacity(), before, "no memory on a peer's word");
    assert_eq!(announced_len(&head, CAP), Ok(Some(CAP + 8)));
}

/// A body: `parts` as given, then a header of this type and these flags.
fn frame(parts: &[u8], kind: u8, flags: u8) -> Vec<u8> {
    let mut body = parts.to_vec();
    body.extend_from_slice(&[0x14, 0x8e, 1, kind, flags]);
    body.extend_from_slice(&[0; 16]);
    let mut out = vec![0x12, 0, 0xee, 0xff];
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

#[test]
fn every_wrong_mix_is_refused() {
    let topic = b"\x01a";
    assert!(matches!(
        read(&frame(topic, 1, 0x01)),
        Ok(Some(Message::Request(_)))
    ));
    for kind in [0, 3, 5, 16, 0xff] {
        let have = read(&frame(topic, kind, 0x01));
        assert!(
            matches!(have, Err(WireError::MessageType { have, .. }) if have == kind),
            "type {kind}: {have:?}"
        );
    }
    for kind in [1, 2, 4] {
        let have = read(&frame(b"", kind, 0x00));
        assert!(
            matches!(have, Err(WireError::FlagsMissing { need: 0x01, .. })),
            "type {kind}: {have:?}"
        );
        let have = read(&frame(topic, kind, 0x45));
        assert!(
            matches!(have, Err(WireError::FlagsRefused { refused: 0x44, .. })),
            "type {kind}: {have:?}"
        );
    }
    assert!(matches!(
        read(&frame(topic, 8, 0x01)),
        Err(WireError::FlagsRefused { refused: 0x01, .. })
    ));
    assert!(matches!(
        read(&frame(b"\x01x", 8, 0x02)),
        Err(WireError::FlagsRefused { refused: 0x02, .. })
    ));
    assert!(matches!(
        read(&frame(b"", 8, 0x00)),
        Ok(Some(Message::Control(_)))
    ));
}

#[test]
fn parts_that_do_not_add_up_are_refused() {
    // Announced, not there.
    assert!(matches!(
        read(&frame(b"\x01a", 1, 0x03)),
        Err(WireError::PartCut { .. })
    ));
    // There, not announced.
    assert!(matches!(
        read(&frame(b"\x01a\x01b", 1, 0x01)),
        Err(WireError::Trailing {
            offset: 10,
            need: 21,
            have: 23
        })
    ));
    // No delimiter: hops swallow the topic and the header.
    assert!(matches!(
        read(&frame(b"\x01a", 1, 0x09)),
        Err(WireError::PartCut { .. })
    ));
    // Absurd lengths.
    assert!(matches!(
        read(&frame(b"\xff\xff\xff\xff\xffa", 1, 0x01)),
        Err(WireError::PartCut { offset: 8, .. })
    ));
    assert!(matches!(
        read(&frame(b"\xfea", 1, 0x01)),
        Err(WireError::PartCut {
            offset: 8,
            need: 255,
            have: 23
        })
    ));
    // Not UTF-8.
    assert_eq!(
        read(&frame(b"\x02a\xc3", 1, 0x01)),
        Err(WireError::TopicNotUtf8 { offset: 10 })
    );
}

#[test]
fn hops_are_bounded_before_they_are_kept() {
    let hops = |count: usize| {
        let mut parts = b"\x01h".repeat(count);
        parts.extend_from_slice(b"\x00\x01a");
        frame(&parts, 1, 0x09)
    };
    let message = read(&hops(ROUTE_HOPS_MAX)).unwrap().unwrap();
    assert_eq!(
        message.routes().as_ref().map(Vec::len),
        Some(ROUTE_HOPS_MAX)
    );
    assert_eq!(
        read(&hops(ROUTE_HOPS_MAX + 1)),
        Err(WireError::TooManyHops {
            offset: 8 + 2 * ROUTE_HOPS_MAX,
            need: ROUTE_HOPS_MAX
        })
    );
}

#[test]
fn a_long_form_for_a_short_part_is_read_and_written_short() {
    let message = read(&frame(b"\xff\x00\x00\x00\x01a", 1, 0x01))
        .unwrap()
        .unwrap();
    assert_eq!(message.topic().map(Topic::as_str), Some("a"));
    assert_eq!(to_frame(&message), frame(b"\x01a", 1, 0x01));
}

#[test]
fn an_empty_payload_is_not_no_payload() {
    let message = read(&frame(b"\x01a\x00", 1, 0x03)).unwrap().unwrap();
    assert_eq!(message.payload(), Some(&Bytes::new()));
    assert_eq!(to_frame(&message), frame(b"\x01a\x00", 1, 0x03));
}

#[test]
fn a_new_request_goes_to_any_node() {
    let request = attr_get();
    assert_eq!((request.nodeid, request.cred), (NODEID_ANY, Cred::UNSET));
    assert!(request.expects_response());
    assert!(
        !Request {
            flags: Flags::NORESPONSE,
            ..attr_get()
        }
        .expects_response()
    );
    assert!(
        !Request {
            matchtag: 0,
            ..attr_get()
        }
        .expects_response()
    );
}

fn any_bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
    proptest::collection::vec(any::<u8>(), 0..=len_max).prop_map(Bytes::from)
}

fn any_routes() -> impl Strategy<Value = Option<Vec<Bytes>>> {
    let hop = proptest::collection::vec(any::<u8>(), 1..300).prop_map(Bytes::from);
    proptest::option::of(proptest::collection::vec(hop, 0..5))
}

fn any_flags() -> impl Strategy<Value = Flags> {
    any::<u8>().prop_map(|bits| {
        let flags = Flags::from_bits(bits);
        if flags.contains(Flags::NORESPONSE) {
            flags.without(Flags::STREAMING)
        } else {
            flags
        }
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let payload = proptest::option::of(prop_oneof![
        any_bytes(300),
        any_bytes(3),
        Just(Bytes::from(vec![7; 70_000]))
    ]);
    let words = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    (
        0..4u8,
        ".{0,300}",
        payload,
        any_routes(),
        any_flags(),
        words,
    )
        .prop_map(
            |(kind, topic, payload, routes, flags, (userid, rolemask, aux1, aux2))| {
                let topic = Topic::from(topic);
                let cred = Cred { userid, rolemask };
                match kind {
                    0 => Request {
                        topic,
                        payload,
                        routes,
                        cred,
                        flags,
                        nodeid: aux1,
                        matchtag: aux2,
                    }
                    .into(),
                    1 => Response {
                        topic,
                        payload,
                        routes,
                        cred,
                        flags,
                        errnum: aux1,
                        matchtag: aux2,
                    }
                    .into(),
                    2 => Event {
                        topic,
                        payload,
                        routes,
                        cred,
                        flags,
                        sequence: aux1,
                    }
                    .into(),
                    _ => Control {
                        routes,
                        cred,
                        flags,
                        kind: aux1,
                        status: aux2,
                    }
                    .into(),
                }
            },
        )
}

proptest! {
    #[test]
    fn what_was_encoded_decodes_to_the_same(messages in proptest::collection::vec(any_message(), 1..4)) {
        let mut buf = BytesMut::new();
        for message in &messages {
            let before = buf.len();
            encode(message, &mut buf);
            prop_assert_eq!(buf.len() - before, encoded_len(message));
        }
        for message in messages {
            prop_assert_eq!(decode(&mut buf, CAP), Ok(Some(message)));
        }
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut framed = vec![0x12, 0, 0xee, 0xff];
        framed.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        framed.extend_from_slice(&bytes);
        let _ = read(&framed);
        let _ = read(&bytes);
    }

    /// One byte of a good frame changed: an error, a wait, or some other message that encodes again.
    #[test]
    fn one_wrong_byte(message in any_message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = to_frame(&message).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(Some(other)) = read(&bytes) {
            prop_assert_eq!(read(&to_frame(&other)), Ok(Some(other)));
        }
    }
}
