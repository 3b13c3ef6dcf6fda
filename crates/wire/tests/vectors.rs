//! Every captured frame decodes to what stands beside it, and encodes back byte for byte.
//!
//! The captures are facts about a running Flux broker and its own clients (`rfc/vectors/flux-wire.jsonl`).

#![allow(clippy::unwrap_used, clippy::panic)]

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;
use wire::{FRAME_LEN_MAX_DEFAULT, Message, decode, encode, encoded_len, json_bytes, text_of};

#[derive(Deserialize)]
struct Vector {
    cmd: String,
    hex: String,
    decoded: Decoded,
}

#[derive(Deserialize)]
struct Decoded {
    #[serde(rename = "type")]
    kind: String,
    flagbits: u8,
    userid: u32,
    rolemask: u32,
    topic: String,
    matchtag: Option<u32>,
    nodeid: Option<u32>,
    errnum: Option<u32>,
    sequence: Option<u32>,
    routes: Option<Vec<String>>,
    payload: Option<Value>,
    payload_text: Option<String>,
    payload_hex: Option<String>,
}

fn vectors() -> Vec<Vector> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../rfc/vectors/flux-wire.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn check(message: &Message, vector: &Vector) {
    let (cmd, want) = (&vector.cmd, &vector.decoded);
    assert_eq!(message.topic().unwrap().as_str(), want.topic, "{cmd}");
    assert_eq!(
        (message.cred().userid, message.cred().rolemask),
        (want.userid, want.rolemask),
        "{cmd}"
    );
    let hops: Option<Vec<String>> = message.routes().as_ref().map(|hops| {
        hops.iter()
            .map(|hop| String::from_utf8(hop.to_vec()).unwrap())
            .collect()
    });
    assert_eq!(hops, want.routes, "{cmd}");

    let (kind, flags) = match message {
        Message::Request(request) => {
            assert_eq!(
                (Some(request.nodeid), Some(request.matchtag)),
                (want.nodeid, want.matchtag),
                "{cmd}"
            );
            ("request", request.flags)
        }
        Message::Response(response) => {
            assert_eq!(
                (Some(response.errnum), Some(response.matchtag)),
                (want.errnum, want.matchtag),
                "{cmd}"
            );
            ("response", response.flags)
        }
        Message::Event(event) => {
            assert_eq!(Some(event.sequence), want.sequence, "{cmd}");
            ("event", event.flags)
        }
        Message::Control(_) => panic!("{cmd}: none was captured"),
    };
    assert_eq!(kind, want.kind, "{cmd}");
    // Topic 1, payload 2, route 8 follow from the parts.
    assert_eq!(flags.bits(), want.flagbits & !0x0b, "{cmd}");

    match (
        message.payload(),
        &want.payload,
        &want.payload_text,
        &want.payload_hex,
    ) {
        (None, None, None, None) => {}
        (Some(have), Some(json), None, None) => {
            let have: Value = serde_json::from_slice(&json_bytes(have).unwrap()).unwrap();
            assert_eq!(&have, json, "{cmd}");
        }
        (Some(have), None, Some(text), None) => {
            assert_eq!(have.last(), Some(&0), "{cmd}");
            assert_eq!(text_of(have), Some(text.as_str()), "{cmd}");
        }
        (Some(have), None, None, Some(raw)) => {
            assert_eq!(have, &Bytes::from(hex::decode(raw).unwrap()), "{cmd}")
        }
        (have, ..) => panic!("{cmd}: payload {have:?}"),
    }
}

#[test]
fn all_130_captured_frames_decode_and_encode_back_byte_for_byte() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 130);
    for vector in &vectors {
        let bytes = hex::decode(&vector.hex).unwrap();
        let mut buf = BytesMut::from(&bytes[..]);
        let message = decode(&mut buf, FRAME_LEN_MAX_DEFAULT).unwrap().unwrap();
        assert!(buf.is_empty(), "{}", vector.cmd);
        check(&message, vector);

        let mut out = BytesMut::new();
        encode(&message, &mut out);
        assert_eq!(hex::encode(&out), vector.hex, "{}", vector.cmd);
        assert_eq!(encoded_len(&message), bytes.len(), "{}", vector.cmd);
    }
}

#[test]
fn captured_frames_back_to_back_and_one_byte_at_a_time() {
    let vectors = vectors();
    let whole: Vec<u8> = vectors
        .iter()
        .flat_map(|vector| hex::decode(&vector.hex).unwrap())
        .collect();
    let mut buf = BytesMut::new();
    let mut met = 0;
    for byte in whole {
        buf.extend_from_slice(&[byte]);
        while let Some(message) = decode(&mut buf, FRAME_LEN_MAX_DEFAULT).unwrap() {
            check(&message, &vectors[met]);
            met += 1;
        }
    }
    assert_eq!((met, buf.len()), (130, 0));
}
