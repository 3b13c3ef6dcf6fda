//! The fixed 20-byte part at the end of every message: type, flags, sender, and two words typed per message type.
//!
//! ```text
//!  0    1    2     3      4        8          12     16
//!  | 8e | 01 | type | flags | userid | rolemask | aux1 | aux2 |     words are big-endian
//!              1 request   aux1 = nodeid     aux2 = matchtag
//!              2 response  aux1 = errnum     aux2 = matchtag
//!              4 event     aux1 = sequence   aux2 = 0
//!              8 control   aux1 = type       aux2 = status
//! ```
//!
//! Which flags and words go together is `message`'s.

use crate::{Cred, WireError};
use std::fmt;

pub(crate) const HEADER_LEN: usize = 20;
const HEADER_MAGIC: u8 = 0x8e;
const HEADER_VERSION: u8 = 1;

pub(crate) const TYPE_REQUEST: u8 = 1;
pub(crate) const TYPE_RESPONSE: u8 = 2;
pub(crate) const TYPE_EVENT: u8 = 4;
pub(crate) const TYPE_CONTROL: u8 = 8;

/// Flag bits that follow from the parts a message has; never kept in [`Flags`].
pub(crate) const FLAG_TOPIC: u8 = 0x01;
pub(crate) const FLAG_PAYLOAD: u8 = 0x02;
pub(crate) const FLAG_ROUTE: u8 = 0x08;
const FLAGS_OF_PARTS: u8 = FLAG_TOPIC | FLAG_PAYLOAD | FLAG_ROUTE;

/// The flag bits a sender chooses. Those for topic, payload and route follow from what the message holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No bit set.
    pub const NONE: Flags = Flags(0);
    /// Never answer, not even with an error.
    pub const NORESPONSE: Flags = Flags(0x04);
    /// Answered to another instance's parent; unreachable on a one-node instance.
    pub const UPSTREAM: Flags = Flags(0x10);
    /// An event for the owner and the user it is about only.
    pub const PRIVATE: Flags = Flags(0x20);
    /// Zero or more responses, then one error response ends it.
    pub const STREAMING: Flags = Flags(0x40);
    /// Free for services to use.
    pub const USER1: Flags = Flags(0x80);

    /// Keeps the bits of `bits` that a sender chooses.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Flags {
        Flags(bits & !FLAGS_OF_PARTS)
    }

    /// The bits as they travel.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// All bits of `other` are set here.
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits and those of `other`.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These bits without those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_set();
        for (flag, name) in [
            (Flags::NORESPONSE, "noresponse"),
            (Flags::UPSTREAM, "upstream"),
            (Flags::PRIVATE, "private"),
            (Flags::STREAMING, "streaming"),
            (Flags::USER1, "user1"),
        ] {
            if self.contains(flag) {
                set.entry(&format_args!("{name}"));
            }
        }
        set.finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    /// All eight bits, those of the parts too.
    pub(crate) flags: u8,
    pub(crate) cred: Cred,
    pub(crate) aux1: u32,
    pub(crate) aux2: u32,
}

impl Header {
    /// Reads a header that stands at `offset` of its frame.
    pub(crate) fn parse(bytes: &[u8; HEADER_LEN], offset: usize) -> Result<Header, WireError> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[0] != HEADER_MAGIC {
            return Err(WireError::HeaderMagic {
                offset,
                need: HEADER_MAGIC,
                have: bytes[0],
            });
        }
        if bytes[1] != HEADER_VERSION {
            return Err(WireError::HeaderVersion {
                offset: offset + 1,
                need: HEADER_VERSION,
                have: bytes[1],
            });
        }
        Ok(Header {
            kind: bytes[2],
            flags: bytes[3],
            cred: Cred {
                userid: word(4),
                rolemask: word(8),
            },
            aux1: word(12),
            aux2: word(16),
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = HEADER_MAGIC;
        bytes[1] = HEADER_VERSION;
        bytes[2] = self.kind;
        bytes[3] = self.flags;
        bytes[4..8].copy_from_slice(&self.cred.userid.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.cred.rolemask.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.aux1.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.aux2.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_parts_are_not_a_senders_choice() {
        assert_eq!(Flags::from_bits(0xff).bits(), 0xf4);
        assert_eq!(
            format!("{:?}", Flags::STREAMING | Flags::USER1),
            "{streaming, user1}"
        );
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let good = Header {
            kind: 1,
            flags: 0x0b,
            cred: Cred::UNSET,
            aux1: u32::MAX,
            aux2: 1,
        };
        let mut bytes = good.to_bytes();
        assert_eq!(Header::parse(&bytes, 0), Ok(good));
        bytes[1] = 2;
        assert_eq!(
            Header::parse(&bytes, 30),
            Err(WireError::HeaderVersion {
                offset: 31,
                need: 1,
                have: 2
            })
        );
        bytes[0] = 0;
        assert_eq!(
            Header::parse(&bytes, 30),
            Err(WireError::HeaderMagic {
                offset: 30,
                need: 0x8e,
                have: 0
            })
        );
    }
}
