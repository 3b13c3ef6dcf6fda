//! JSON written by hand, for payloads that hold other JSON as it is (jobspecs, R) or are many.

use bytes::Bytes;
use job::{JobId, Timestamp};
use serde::Serialize;
use std::io::Write as _;

/// An object being written; keys in the order given.
#[derive(Debug)]
pub(crate) struct Object(Vec<u8>);

impl Object {
    /// An empty one with room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Object {
        let mut body = Vec::with_capacity(bytes + 96);
        body.push(b'{');
        Object(body)
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
        &mut self.0
    }

    /// A number.
    pub(crate) fn number(mut self, key: &str, value: impl Into<u64>) -> Object {
        let value: u64 = value.into();
        let _ = write!(self.key(key), "{value}"); // a Vec takes everything
        self
    }

    /// `"id"`.
    pub(crate) fn id(self, id: JobId) -> Object {
        self.number("id", id.0)
    }

    /// A point in time, always a real.
    pub(crate) fn time(mut self, key: &str, value: Timestamp) -> Object {
        let _ = write!(self.key(key), "{value}");
        self
    }

    /// True or false.
    pub(crate) fn flag(mut self, key: &str, value: bool) -> Object {
        self.key(key)
            .extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// JSON as it is.
    pub(crate) fn raw(mut self, key: &str, json: &[u8]) -> Object {
        self.key(key).extend_from_slice(json);
        self
    }

    /// Anything that serializes.
    pub(crate) fn value<T: Serialize + ?Sized>(mut self, key: &str, value: &T) -> Object {
        let body = self.key(key);
        let start = body.len();
        if serde_json::to_writer(&mut *body, value).is_err() {
            body.truncate(start);
            body.extend_from_slice(b"null");
        }
        self
    }

    /// The whole object.
    pub(crate) fn end(mut self) -> Bytes {
        self.0.push(b'}');
        Bytes::from(self.0)
    }
}

/// Any payload as JSON. The types of `protocol` always have a JSON form.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec()))
}
