//! Bytes of a connection: frames to messages, however they were cut on the way; messages to frames and back; messages to a router.

use bytes::{Bytes, BytesMut};
use router::{Delivery, PeerId, PeerInfo, PeerKind, Router};
use wire::{
    Cred, FRAME_HEADER_LEN, Message, ROLE_OWNER, ROLE_USER, ROUTE_HOPS_MAX, decode, encoded_len,
    to_frame,
};

/// The longest body taken here; the inputs of a fuzzer are shorter.
const FRAME_LEN_MAX: usize = 1 << 16;
/// Clients of the router.
const PEERS: u64 = 4;

/// Reads the bytes as a connection would, in one piece and in pieces; the first byte says how it is cut.
pub fn check(data: &[u8]) {
    let Some((&seed, data)) = data.split_first() else {
        return;
    };
    let (whole, whole_end) = read(&mut [data].into_iter());
    let (cut, cut_end) = read(&mut pieces(data, seed));
    assert_eq!(whole, cut, "the messages depend on how the bytes were cut");
    assert_eq!(
        whole_end, cut_end,
        "the error depends on how the bytes were cut"
    );
    for message in &whole {
        round_trip(message);
    }
    route(whole);
}

/// Decodes until nothing more comes: the messages, and the error that ended it.
fn read(pieces: &mut dyn Iterator<Item = &[u8]>) -> (Vec<Message>, Option<String>) {
    let (mut messages, mut buf) = (Vec::new(), BytesMut::new());
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            let before = buf.len();
            match decode(&mut buf, FRAME_LEN_MAX) {
                Ok(Some(message)) => {
                    assert!(
                        before - buf.len() > FRAME_HEADER_LEN,
                        "a message out of nothing"
                    );
                    assert!(
                        message
                            .routes()
                            .as_ref()
                            .is_none_or(|hops| hops.len() <= ROUTE_HOPS_MAX)
                    );
                    messages.push(message);
                }
                Ok(None) => {
                    assert_eq!(
                        buf.len(),
                        before,
                        "bytes of a frame that is not whole are gone"
                    );
                    break;
                }
                // What was met is said as far as it had come.
                Err(error) => {
                    let text = error.to_string();
                    let kind = text.split(", have").next().unwrap_or_default();
                    return (messages, Some(kind.to_owned()));
                }
            }
        }
    }
    (messages, None)
}

/// The bytes in pieces of 1 to 16, as the seed has it.
fn pieces(data: &[u8], seed: u8) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut state) = (data, u32::from(seed) * 2 + 1);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        state = state.wrapping_mul(0x9e37_79b1);
        let (piece, after) = rest.split_at(rest.len().min(1 + (state >> 28) as usize));
        rest = after;
        Some(piece)
    })
}

fn round_trip(message: &Message) {
    let frame = to_frame(message);
    assert_eq!(frame.len(), encoded_len(message), "the length is foretold");
    let mut buf = BytesMut::from(&frame[..]);
    let back = decode(&mut buf, usize::MAX);
    assert_eq!(
        back.ok().flatten().as_ref(),
        Some(message),
        "written and read again"
    );
    assert!(buf.is_empty());
}

/// Gives the messages to a router with a few peers, one of which goes away in the middle.
fn route(messages: Vec<Message>) {
    let owner = Cred {
        userid: 1000,
        rolemask: ROLE_OWNER | ROLE_USER,
    };
    let mut router = Router::new(owner, Bytes::from_static(b"broker"));
    for number in 0..PEERS {
        let added = router.add_peer(PeerInfo {
            id: PeerId(number),
            uuid: Bytes::from(number.to_string()),
            cred: owner,
            kind: if number == 0 {
                PeerKind::InProcess
            } else {
                PeerKind::Connection
            },
        });
        assert!(added);
    }
    for (number, service) in [(0, "job-manager"), (1, "job-list"), (2, "a")] {
        let given = router.add_service(PeerId(number), owner, service, true);
        assert!(given.is_ok(), "{given:?}");
    }
    let mut out = Vec::new();
    let half = messages.len() / 2;
    for (at, message) in messages.into_iter().enumerate() {
        router.handle(PeerId(at as u64 % PEERS), message, &mut out);
        deliveries(&router, &mut out, PEERS as usize);
        if at == half {
            let _ = router.remove_peer(PeerId(1), &mut out);
            deliveries(&router, &mut out, usize::MAX);
        }
    }
}

/// One message leads to at most one a peer; they can be written.
fn deliveries(router: &Router, out: &mut Vec<Delivery>, most: usize) {
    assert!(out.len() <= most, "{} deliveries of one message", out.len());
    for delivery in out.drain(..) {
        round_trip(&delivery.message);
        assert!(router.inflight(delivery.to) <= router::INFLIGHT_PER_CLIENT_MAX);
    }
}
