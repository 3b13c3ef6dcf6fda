//! A topic: `service.method`, split once when it is made.
//!
//! The text before the first dot says who gets the message; the rest is that service's business. Invariant: a topic is
//! valid UTF-8, so texts that quote it are too.

use bytes::Bytes;
use std::fmt;

/// `service.method`, no NUL on the wire.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Topic {
    bytes: Bytes,
    /// Where the first dot is, or the length if there is none.
    dot: usize,
}

/// Bytes that are no topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("topic is not UTF-8 from byte {at} on")]
pub struct TopicError {
    /// The first byte that is not UTF-8.
    pub at: usize,
}

impl Topic {
    /// Takes the bytes of a topic part.
    /// # Errors
    /// [`TopicError`]: not UTF-8.
    pub fn parse(bytes: Bytes) -> Result<Topic, TopicError> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Topic::split(bytes)),
            Err(error) => Err(TopicError {
                at: error.valid_up_to(),
            }),
        }
    }

    fn split(bytes: Bytes) -> Topic {
        let dot = bytes
            .iter()
            .position(|&byte| byte == b'.')
            .unwrap_or(bytes.len());
        Topic { bytes, dot }
    }

    fn text(bytes: &[u8]) -> &str {
        // Checked when the topic was made, and a cut beside a dot leaves UTF-8.
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The whole topic.
    #[must_use]
    pub fn as_str(&self) -> &str {
        Topic::text(&self.bytes)
    }

    /// The bytes as they travel.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The text before the first dot: who is asked.
    #[must_use]
    pub fn service(&self) -> &str {
        Topic::text(&self.bytes[..self.dot])
    }

    /// The text after the first dot: what is asked. Empty without a dot.
    #[must_use]
    pub fn method(&self) -> &str {
        Topic::text(self.bytes.get(self.dot + 1..).unwrap_or_default())
    }

    /// The same topic in memory of its own, so that keeping it does not keep a read buffer.
    #[must_use]
    pub fn detached(&self) -> Topic {
        Topic {
            bytes: Bytes::copy_from_slice(&self.bytes),
            dot: self.dot,
        }
    }
}

impl From<&'static str> for Topic {
    fn from(text: &'static str) -> Topic {
        Topic::split(Bytes::from_static(text.as_bytes()))
    }
}

impl From<String> for Topic {
    fn from(text: String) -> Topic {
        Topic::split(Bytes::from(text))
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq<str> for Topic {
    fn eq(&self, other: &str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&str> for Topic {
    fn eq(&self, other: &&str) -> bool {
        self.bytes == other.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_first_dot() {
        for (text, service, method) in [
            ("a.b.c", "a", "b.c"),
            ("a", "a", ""),
            ("a.", "a", ""),
            (".b", "", "b"),
            ("", "", ""),
            ("ƒ.ƒ", "ƒ", "ƒ"),
        ] {
            let topic = Topic::from(text.to_owned());
            assert_eq!(
                (topic.as_str(), topic.service(), topic.method()),
                (text, service, method)
            );
            assert_eq!(topic.detached(), topic);
        }
    }

    #[test]
    fn says_where_utf8_ends() {
        assert_eq!(
            Topic::parse(Bytes::from_static(b"ab\xff")),
            Err(TopicError { at: 2 })
        );
    }
}
