//! One part of a message: its length, then its bytes.
//!
//! ```text
//! 0..=254   | length | bytes |                      short form
//! 255..     | ff | length, 32-bit big-endian | bytes |   long form; also read for a short part, never written for one
//! ```
//!
//! What the parts stand for is `frame`'s.

use crate::WireError;
use bytes::{BufMut, Bytes, BytesMut};

const LONG: u8 = 0xff;
const LONG_PREFIX_LEN: usize = 5;

/// Reads parts off the body of a frame, front to back.
#[derive(Debug)]
pub(crate) struct Parts {
    body: Bytes,
    at: usize,
    /// Where the body stands in its frame, for errors.
    base: usize,
}

impl Parts {
    pub(crate) fn new(body: Bytes, base: usize) -> Parts {
        Parts { body, at: 0, base }
    }

    /// Where the next part begins, counted from the start of the frame.
    pub(crate) fn offset(&self) -> usize {
        self.base + self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.body.len() - self.at
    }

    /// The next part, a slice of the frame.
    pub(crate) fn next(&mut self) -> Result<Bytes, WireError> {
        let rest = &self.body[self.at..];
        let cut = |need: usize| WireError::PartCut {
            offset: self.base + self.at,
            need,
            have: rest.len(),
        };
        let (start, len) = match rest.first() {
            None => return Err(cut(1)),
            Some(&LONG) => match rest.get(1..LONG_PREFIX_LEN) {
                Some(&[a, b, c, d]) => (LONG_PREFIX_LEN, u32::from_be_bytes([a, b, c, d]) as usize),
                _ => return Err(cut(LONG_PREFIX_LEN)),
            },
            Some(&short) => (1, usize::from(short)),
        };
        if len > rest.len() - start {
            return Err(cut(start.saturating_add(len)));
        }
        let from = self.at + start;
        self.at = from + len;
        Ok(self.body.slice(from..self.at))
    }
}

/// How many bytes a part of `len` takes.
pub(crate) fn part_len(len: usize) -> usize {
    if len < usize::from(LONG) {
        1 + len
    } else {
        LONG_PREFIX_LEN + len
    }
}

/// Writes a part.
pub(crate) fn put_part(out: &mut BytesMut, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(len) if len != LONG => out.put_u8(len),
        _ => {
            out.put_u8(LONG);
            out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
    }
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_around_the_long_form() {
        for len in [0, 1, 254, 255, 256, 70_000] {
            let mut out = BytesMut::new();
            put_part(&mut out, &vec![7; len]);
            assert_eq!(out.len(), part_len(len));
            assert_eq!(out[0], if len < 255 { len as u8 } else { 0xff });
            let mut parts = Parts::new(out.freeze(), 0);
            assert_eq!(parts.next().unwrap(), vec![7; len]);
            assert_eq!(parts.remaining(), 0);
        }
    }

    #[test]
    fn a_long_form_for_a_short_part_is_read() {
        let mut parts = Parts::new(Bytes::from_static(&[0xff, 0, 0, 0, 1, 9]), 0);
        assert_eq!(parts.next().unwrap(), Bytes::from_static(&[9]));
    }

    #[test]
    fn a_cut_part_says_what_is_missing() {
        for (bytes, need) in [
            (&[][..], 1),
            (&[3, 1, 2], 4),
            (&[0xff, 0, 0], 5),
            (&[0xff, 0, 0, 0, 2, 1], 7),
        ] {
            let mut parts = Parts::new(Bytes::copy_from_slice(bytes), 8);
            assert_eq!(
                parts.next(),
                Err(WireError::PartCut {
                    offset: 8,
                    need,
                    have: bytes.len()
                })
            );
        }
        let mut parts = Parts::new(Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0xff, 1]), 0);
        assert!(matches!(
            parts.next(),
            Err(WireError::PartCut { have: 6, .. })
        ));
    }
}
