//! The frame of the local socket, and the order of the parts in it.
//!
//! ```text
//!  0             4                    8
//!  | 12 00 ee ff | length, big-endian | length bytes:
//!                                      hop…  00   topic   payload   14 header
//!                                      └ if route ┘ if topic if payload  always last
//! ```
//!
//! [`decode`] takes whole frames off the front of a buffer and leaves a part of one alone. Reading more, and closing a
//! connection whose peer sent what is no frame, is left to `rpc`.

use crate::header::{FLAG_PAYLOAD, FLAG_ROUTE, FLAG_TOPIC, HEADER_LEN, Header};
use crate::header::{TYPE_CONTROL, TYPE_EVENT, TYPE_REQUEST, TYPE_RESPONSE};
use crate::part::{Parts, part_len, put_part};
use crate::{
    Control, Event, Flags, Message, ROUTE_HOPS_MAX, Request, Response, Routes, Topic, WireError,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Magic and length.
pub const FRAME_HEADER_LEN: usize = 8;
/// The first four bytes of a frame, as they travel.
pub const FRAME_MAGIC: [u8; 4] = [0x12, 0x00, 0xee, 0xff];
/// The longest body taken unless told otherwise.
pub const FRAME_LEN_MAX_DEFAULT: usize = 64 << 20;
/// The shortest body: a header part and nothing else.
pub const FRAME_LEN_MIN: usize = 1 + HEADER_LEN;

const LENGTH_AT: usize = 4;
/// Where type and flags stand in the header.
const TYPE_AT: usize = 2;
const FLAGS_AT: usize = 3;

/// [`decode`] with its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoder {
    frame_len_max: usize,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new(FRAME_LEN_MAX_DEFAULT)
    }
}

impl Decoder {
    /// Takes bodies of at most `frame_len_max` bytes.
    #[must_use]
    pub const fn new(frame_len_max: usize) -> Decoder {
        Decoder { frame_len_max }
    }

    /// See [`decode`].
    /// # Errors
    /// See [`decode`].
    pub fn decode(&self, buf: &mut BytesMut) -> Result<Option<Message>, WireError> {
        decode(buf, self.frame_len_max)
    }

    /// See [`announced_len`].
    /// # Errors
    /// See [`announced_len`].
    pub fn announced_len(&self, buf: &[u8]) -> Result<Option<usize>, WireError> {
        announced_len(buf, self.frame_len_max)
    }
}

/// The length of the whole frame at the front of `buf`, with its 8 bytes of magic and length; `None` if those are not
/// all there yet.
/// # Errors
/// Wrong magic (said from the first wrong byte on), too short to be a message, or longer than `frame_len_max`.
pub fn announced_len(buf: &[u8], frame_len_max: usize) -> Result<Option<usize>, WireError> {
    let there = buf.len().min(FRAME_MAGIC.len());
    if buf[..there] != FRAME_MAGIC[..there] {
        let mut have = [0; 4];
        have[..there].copy_from_slice(&buf[..there]);
        return Err(WireError::FrameMagic {
            offset: 0,
            need: u32::from_be_bytes(FRAME_MAGIC),
            have: u32::from_be_bytes(have),
        });
    }
    let Some(&[a, b, c, d]) = buf.get(LENGTH_AT..FRAME_HEADER_LEN) else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    if len < FRAME_LEN_MIN {
        return Err(WireError::FrameTooShort {
            offset: LENGTH_AT,
            need: FRAME_LEN_MIN,
            have: len,
        });
    }
    if len > frame_len_max {
        return Err(WireError::FrameTooLong {
            offset: LENGTH_AT,
            need: frame_len_max,
            have: len,
        });
    }
    Ok(Some(FRAME_HEADER_LEN + len))
}

/// Takes the next message off the front of `buf`; `None` if its frame is not all there yet, and then `buf` is left as it
/// is. The message's parts are slices of the frame.
/// # Errors
/// [`WireError`]: what is at the front is no frame, or its body is longer than `frame_len_max`. Nothing after it can be
/// understood either; close the connection.
pub fn decode(buf: &mut BytesMut, frame_len_max: usize) -> Result<Option<Message>, WireError> {
    let Some(len) = announced_len(buf, frame_len_max)? else {
        return Ok(None);
    };
    if buf.len() < len {
        return Ok(None);
    }
    let mut frame = buf.split_to(len).freeze();
    frame.advance(FRAME_HEADER_LEN);
    decode_body(frame).map(Some)
}

fn decode_body(body: Bytes) -> Result<Message, WireError> {
    // The header stands last, but its flags say what stands before it.
    let header_at = FRAME_HEADER_LEN + body.len().saturating_sub(HEADER_LEN);
    let Some(&last) = body.last_chunk::<HEADER_LEN>() else {
        return Err(WireError::FrameTooShort {
            offset: LENGTH_AT,
            need: FRAME_LEN_MIN,
            have: body.len(),
        });
    };
    let header = Header::parse(&last, header_at)?;
    check_mix(&header, header_at)?;

    let mut parts = Parts::new(body, FRAME_HEADER_LEN);
    let routes = if header.flags & FLAG_ROUTE != 0 {
        Some(take_routes(&mut parts)?)
    } else {
        None
    };
    let topic = if header.flags & FLAG_TOPIC != 0 {
        Some(take_topic(&mut parts)?)
    } else {
        None
    };
    let payload = if header.flags & FLAG_PAYLOAD != 0 {
        Some(parts.next()?)
    } else {
        None
    };
    let offset = parts.offset();
    let left = parts.remaining();
    if parts.next()?.len() != HEADER_LEN || parts.remaining() != 0 {
        return Err(WireError::Trailing {
            offset,
            need: FRAME_LEN_MIN,
            have: left,
        });
    }

    let flags = Flags::from_bits(header.flags);
    let cred = header.cred;
    Ok(match (header.kind, topic) {
        (TYPE_REQUEST, Some(topic)) => Message::Request(Request {
            topic,
            payload,
            routes,
            cred,
            flags,
            nodeid: header.aux1,
            matchtag: header.aux2,
        }),
        (TYPE_RESPONSE, Some(topic)) => Message::Response(Response {
            topic,
            payload,
            routes,
            cred,
            flags,
            errnum: header.aux1,
            matchtag: header.aux2,
        }),
        (TYPE_EVENT, Some(topic)) => Message::Event(Event {
            topic,
            payload,
            routes,
            cred,
            flags,
            sequence: header.aux1,
        }),
        _ => Message::Control(Control {
            routes,
            cred,
            flags,
            kind: header.aux1,
            status: header.aux2,
        }),
    })
}

/// The one place that knows which flags a type of message must and cannot have.
fn check_mix(header: &Header, header_at: usize) -> Result<(), WireError> {
    let Header { kind, flags, .. } = *header;
    let offset = header_at + FLAGS_AT;
    let exclusive = Flags::NORESPONSE.with(Flags::STREAMING);
    let (need, refused) = match kind {
        TYPE_REQUEST | TYPE_RESPONSE | TYPE_EVENT => (FLAG_TOPIC, 0),
        TYPE_CONTROL => (0, FLAG_TOPIC | FLAG_PAYLOAD),
        _ => {
            return Err(WireError::MessageType {
                offset: header_at + TYPE_AT,
                have: kind,
            });
        }
    };
    if flags & need != need {
        return Err(WireError::FlagsMissing {
            offset,
            kind,
            need,
            have: flags,
        });
    }
    if flags & refused != 0 {
        return Err(WireError::FlagsRefused {
            offset,
            kind,
            refused: flags & refused,
            have: flags,
        });
    }
    if Flags::from_bits(flags).contains(exclusive) {
        return Err(WireError::FlagsRefused {
            offset,
            kind,
            refused: exclusive.bits(),
            have: flags,
        });
    }
    Ok(())
}

fn take_routes(parts: &mut Parts) -> Result<Routes, WireError> {
    let mut routes = Routes::new();
    loop {
        let offset = parts.offset();
        let hop = parts.next()?;
        if hop.is_empty() {
            return Ok(routes);
        }
        if routes.len() == ROUTE_HOPS_MAX {
            return Err(WireError::TooManyHops {
                offset,
                need: ROUTE_HOPS_MAX,
            });
        }
        routes.push(hop);
    }
}

fn take_topic(parts: &mut Parts) -> Result<Topic, WireError> {
    let offset = parts.offset();
    let bytes = parts.next()?;
    let prefix = part_len(bytes.len()) - bytes.len();
    Topic::parse(bytes).map_err(|error| WireError::TopicNotUtf8 {
        offset: offset + prefix + error.at,
    })
}

/// What a message holds, whatever its type.
struct Fields<'a> {
    routes: &'a Option<Routes>,
    topic: Option<&'a Topic>,
    payload: Option<&'a Bytes>,
    header: Header,
}

fn fields(message: &Message) -> Fields<'_> {
    let (kind, flags, aux1, aux2) = match message {
        Message::Request(message) => (
            TYPE_REQUEST,
            message.flags,
            message.nodeid,
            message.matchtag,
        ),
        Message::Response(message) => (
            TYPE_RESPONSE,
            message.flags,
            message.errnum,
            message.matchtag,
        ),
        Message::Event(message) => (TYPE_EVENT, message.flags, message.sequence, 0),
        Message::Control(message) => (TYPE_CONTROL, message.flags, message.kind, message.status),
    };
    let (routes, topic, payload) = (message.routes(), message.topic(), message.payload());
    let bit = |there: bool, bit: u8| if there { bit } else { 0 };
    let flags = flags.bits()
        | bit(routes.is_some(), FLAG_ROUTE)
        | bit(topic.is_some(), FLAG_TOPIC)
        | bit(payload.is_some(), FLAG_PAYLOAD);
    Fields {
        routes,
        topic,
        payload,
        header: Header {
            kind,
            flags,
            cred: message.cred(),
            aux1,
            aux2,
        },
    }
}

impl Fields<'_> {
    fn body_len(&self) -> usize {
        let hops = self.routes.as_ref().map_or(0, |hops| {
            1 + hops.iter().map(|hop| part_len(hop.len())).sum::<usize>()
        });
        hops + self
            .topic
            .map_or(0, |topic| part_len(topic.as_bytes().len()))
            + self.payload.map_or(0, |payload| part_len(payload.len()))
            + FRAME_LEN_MIN
    }
}

/// The length of the whole frame that [`encode`] writes for `message`.
#[must_use]
pub fn encoded_len(message: &Message) -> usize {
    FRAME_HEADER_LEN + fields(message).body_len()
}

/// Appends the whole frame of `message` to `out`.
pub fn encode(message: &Message, out: &mut BytesMut) {
    let fields = fields(message);
    let len = fields.body_len();
    out.reserve(FRAME_HEADER_LEN + len);
    out.put_slice(&FRAME_MAGIC);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    if let Some(hops) = fields.routes {
        for hop in hops {
            put_part(out, hop);
        }
        put_part(out, &[]);
    }
    if let Some(topic) = fields.topic {
        put_part(out, topic.as_bytes());
    }
    if let Some(payload) = fields.payload {
        put_part(out, payload);
    }
    put_part(out, &fields.header.to_bytes());
}

/// The whole frame of `message`, in memory of its own.
#[must_use]
pub fn to_frame(message: &Message) -> Bytes {
    let mut out = BytesMut::with_capacity(encoded_len(message));
    encode(message, &mut out);
    out.freeze()
}
