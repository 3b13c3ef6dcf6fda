//! Frames around payloads that many connections share: what goes before the payload and what goes after it, so that the payload itself
//! is never copied per listener.
//!
//! ```text
//!  prefix                                            shared             suffix
//!  magic, length, routes, topic, length of payload | JSON bytes, NUL | header
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use wire::{FRAME_HEADER_LEN, FRAME_LEN_MIN, Message, Response, encode};

/// From this length on a part carries a long length.
const PART_LEN_LONG: usize = 255;

/// The two ends of a frame around a payload of `payload_len` bytes, its NUL included. `response.payload` is ignored.
pub(crate) fn around(response: Response, payload_len: usize) -> (Bytes, Bytes) {
    let hollow = Message::Response(Response {
        payload: Some(Bytes::new()),
        ..response
    });
    let mut whole = BytesMut::new();
    encode(&hollow, &mut whole);
    // The hollow payload is one length byte right before the header part.
    let header = whole.split_off(whole.len() - FRAME_LEN_MIN);
    whole.truncate(whole.len() - 1);
    if payload_len < PART_LEN_LONG {
        whole.put_u8(payload_len as u8);
    } else {
        whole.put_u8(0xff);
        whole.put_u32(u32::try_from(payload_len).unwrap_or(u32::MAX));
    }
    let body_len = whole.len() - FRAME_HEADER_LEN + payload_len + header.len();
    whole[4..8].copy_from_slice(&u32::try_from(body_len).unwrap_or(u32::MAX).to_be_bytes());
    (whole.freeze(), header.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Request, to_frame};

    #[test]
    fn the_three_pieces_are_the_whole_frame() {
        for len in [2usize, 253, 254, 255, 256, 70_000] {
            let json = format!("{{{}}}", " ".repeat(len - 2));
            let request = Request::new("job-manager.events", None, 7);
            let whole = to_frame(&Message::Response(
                request.respond(Some(wire::nul_terminated(json.as_bytes()))),
            ));
            let (prefix, suffix) = around(request.respond(None), json.len() + 1);
            let mut joined = prefix.to_vec();
            joined.extend_from_slice(json.as_bytes());
            joined.push(0);
            joined.extend_from_slice(&suffix);
            assert_eq!(joined, whole, "payload of {len} bytes");
        }
    }
}
