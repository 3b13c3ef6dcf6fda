//! Payloads as they travel: a JSON object or a text, with one final NUL that is counted in the part.
//!
//! What the object says is left to `protocol`. Everything wrong with a payload is answered EPROTO.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

/// A payload that is not what it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The message has no payload.
    #[error("a payload is needed, there is none")]
    Missing,
    /// The last byte is not NUL.
    #[error("payload of {len} bytes does not end in NUL")]
    NoNul {
        /// How long it is.
        len: usize,
    },
    /// Some other JSON value, or none.
    #[error("payload is not a JSON object")]
    NotAnObject,
    /// Not JSON, or a key is missing.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The value of a key is not what it should be.
    #[error("{path}: {error}")]
    Key {
        /// Which key, from the outermost on: `jobs[2].id`.
        path: Box<str>,
        /// What was expected and what was met.
        error: serde_json::Error,
    },
}

impl PayloadError {
    /// The number it is answered with.
    #[must_use]
    pub fn errnum(&self) -> u32 {
        crate::errno::EPROTO
    }
}

/// Compact JSON and a NUL. A value that JSON cannot say (a map with keys that are no strings) becomes `null`, which
/// every receiver refuses.
#[must_use]
pub fn json_payload<T: Serialize + ?Sized>(value: &T) -> Bytes {
    let mut out = BytesMut::with_capacity(128).writer();
    let written = serde_json::to_writer(&mut out, value);
    let mut out = out.into_inner();
    if written.is_err() {
        out.clear();
        out.put_slice(b"null");
    }
    out.put_u8(0);
    out.freeze()
}

/// A text and a NUL.
#[must_use]
pub fn text_payload(text: &str) -> Bytes {
    nul_terminated(text.as_bytes())
}

/// Bytes that are encoded already (JSON or text), and a NUL.
#[must_use]
pub fn nul_terminated(bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(bytes.len() + 1);
    out.put_slice(bytes);
    out.put_u8(0);
    out.freeze()
}

/// The JSON of a payload, without its NUL; a slice of it.
/// # Errors
/// [`PayloadError::NoNul`]. The JSON itself is not looked at.
pub fn json_bytes(payload: &Bytes) -> Result<Bytes, PayloadError> {
    without_nul(payload)?;
    Ok(payload.slice(..payload.len() - 1))
}

/// Reads a payload that is a JSON object and a NUL.
/// # Errors
/// [`PayloadError`]: no NUL, not an object, or not what `T` wants; a value of the wrong type is named by its key.
pub fn parse_json<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, PayloadError> {
    let json = without_nul(payload)?;
    match json.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => serde_json::from_slice(json).map_err(|error| named::<T>(json, error)),
        _ => Err(PayloadError::NotAnObject),
    }
}

/// Reads once more, slowly, to find the key that is to blame.
fn named<'a, T: Deserialize<'a>>(json: &'a [u8], error: serde_json::Error) -> PayloadError {
    if !error.is_data() {
        return error.into();
    }
    let mut reader = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(found) if found.path().iter().len() > 0 => PayloadError::Key {
            path: found.path().to_string().into(),
            error: found.into_inner(),
        },
        _ => error.into(),
    }
}

/// The text of an error response: what stands before the NUL, if it is UTF-8 and not empty.
#[must_use]
pub fn text_of(payload: &[u8]) -> Option<&str> {
    let text = payload.strip_suffix(&[0]).unwrap_or(payload);
    std::str::from_utf8(text)
        .ok()
        .filter(|text| !text.is_empty())
}

fn without_nul(payload: &[u8]) -> Result<&[u8], PayloadError> {
    payload
        .strip_suffix(&[0])
        .ok_or(PayloadError::NoNul { len: payload.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn json_goes_there_and_back() {
        let payload = json_payload(&serde_json::json!({"id": "ƒ1"}));
        assert_eq!(payload, "{\"id\":\"ƒ1\"}\0".as_bytes());
        assert_eq!(json_bytes(&payload).unwrap(), "{\"id\":\"ƒ1\"}".as_bytes());
        let back: HashMap<&str, &str> = parse_json(&payload).unwrap();
        assert_eq!(back["id"], "ƒ1");
    }

    #[test]
    fn every_wrong_payload_is_refused() {
        for bad in [
            &b""[..],
            b"{}",
            b"\0",
            b"[]\0",
            b"1\0",
            b"null\0",
            b"{\0",
            b"{}\0\0",
            b"{} {}\0",
        ] {
            assert!(parse_json::<serde_json::Value>(bad).is_err(), "{bad:?}");
        }
        assert!(json_bytes(&Bytes::new()).is_err());
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_key() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Ask<'a> {
            id: u64,
            #[serde(borrow, default)]
            names: Vec<std::borrow::Cow<'a, str>>,
            after: Option<u64>,
        }
        let said = |json: &str| {
            let payload = nul_terminated(json.as_bytes());
            parse_json::<Ask<'_>>(&payload)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert!(said(r#"{"id":1,"names":["a"],"after":2,"else":[]}"#).is_ok());
        for (json, begin) in [
            (
                r#"{"id":"x"}"#,
                "id: invalid type: string \"x\", expected u64",
            ),
            (
                r#"{"id":-1}"#,
                "id: invalid value: integer `-1`, expected u64",
            ),
            (
                r#"{"id":1,"after":1.5}"#,
                "after: invalid type: floating point `1.5`, expected u64",
            ),
            (
                r#"{"id":1,"names":["a",{}]}"#,
                "names[1]: invalid type: map, expected a string",
            ),
            (r#"{"names":[]}"#, "missing field `id`"),
        ] {
            let met = said(json).expect_err("refused");
            assert!(met.starts_with(begin), "{met}");
        }
    }

    #[test]
    fn a_value_json_cannot_say_is_refused_by_its_receiver() {
        let keyed_by_array = HashMap::from([([1, 2], 3)]);
        let payload = json_payload(&keyed_by_array);
        assert!(matches!(
            parse_json::<serde_json::Value>(&payload),
            Err(PayloadError::NotAnObject)
        ));
    }

    #[test]
    fn texts() {
        assert_eq!(text_of(&text_payload("no")), Some("no"));
        assert_eq!(text_of(b"no"), Some("no"));
        assert_eq!(text_of(b"\0"), None);
        assert_eq!(text_of(b"\xff\0"), None);
    }
}
