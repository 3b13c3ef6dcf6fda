//! JSON written field by field, compact, into a buffer that is there.

use info::row;
use job::Timestamp;

use crate::facts;

/// An object that is being written.
pub(crate) struct Object<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> Object<'o> {
    /// Begins one.
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Ends it.
    pub(crate) fn end(self) {
        self.out.push(b'}');
    }

    /// Writes a key; the value is to follow. Keys are our own: nothing in them needs an escape.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        row::text(self.key(key), value);
    }

    pub(crate) fn uint(&mut self, key: &str, value: impl Into<u64>) {
        row::integer(self.key(key), value.into());
    }

    pub(crate) fn int(&mut self, key: &str, value: i64) {
        let out = self.key(key);
        if value < 0 {
            out.push(b'-');
        }
        row::integer(out, value.unsigned_abs());
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.raw(key, if value { b"true" } else { b"false" });
    }

    /// A time in nanoseconds.
    pub(crate) fn nanos(&mut self, key: &str, time: Timestamp) {
        self.int(key, facts::nanoseconds(time));
    }

    pub(crate) fn nulls(&mut self, keys: &[&str]) {
        for key in keys {
            self.raw(key, b"null");
        }
    }

    /// Empty texts.
    pub(crate) fn blanks(&mut self, keys: &[&str]) {
        for key in keys {
            self.raw(key, b"\"\"");
        }
    }

    /// JSON that is there.
    pub(crate) fn raw(&mut self, key: &str, json: &[u8]) {
        self.key(key).extend_from_slice(json);
    }

    /// An object in it.
    pub(crate) fn object(&mut self, key: &str, write: impl FnOnce(&mut Object<'_>)) {
        let mut object = Object::new(self.key(key));
        write(&mut object);
        object.end();
    }

    /// Where the value of the last key goes on.
    pub(crate) fn open(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// A key that is text of others.
    pub(crate) fn any_key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        row::text(self.out, key);
        self.out.push(b':');
        self.out
    }
}

/// Writes an object.
pub(crate) fn object(out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
    let mut object = Object::new(out);
    write(&mut object);
    object.end();
}

/// Writes a list, each element by `write`.
pub(crate) fn list<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (n, element) in elements.into_iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write(out, element);
    }
    out.push(b']');
}
