//! Writing JSON straight into a buffer, for the paths that run for every event.
//!
//! Leaves parsing to serde_json. Every function appends one complete JSON value and cannot fail.

use serde::Serialize;

/// The longest piece of foreign text an error message repeats, in characters.
const CLIP_MAX: usize = 64;

/// Appends the decimal digits of `value`.
pub(crate) fn push_u64(buf: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buf.extend_from_slice(&digits[at..]);
}

/// Appends the decimal digits of `value`, with a sign if it is negative.
pub(crate) fn push_i64(buf: &mut Vec<u8>, value: i64) {
    if value < 0 {
        buf.push(b'-');
    }
    push_u64(buf, value.unsigned_abs());
}

/// Appends a real number: shortest text that reads back to the same bits, always with a decimal point.
pub(crate) fn push_f64(buf: &mut Vec<u8>, value: f64) {
    let start = buf.len();
    push_value(buf, &value);
    let text = &buf[start..];
    if !text.contains(&b'.') || text.contains(&b'e') {
        // An exponent form or `null`: written out in full, as readers of RFC 18 expect.
        buf.truncate(start);
        let text = if value.is_finite() {
            value.to_string()
        } else {
            String::from("0.0")
        };
        buf.extend_from_slice(text.as_bytes());
        if !text.contains('.') {
            buf.extend_from_slice(b".0");
        }
    }
}

/// Appends a string with its quotes and escapes.
pub(crate) fn push_str(buf: &mut Vec<u8>, value: &str) {
    let plain = value
        .bytes()
        .all(|b| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\');
    if plain {
        buf.push(b'"');
        buf.extend_from_slice(value.as_bytes());
        buf.push(b'"');
    } else {
        push_value(buf, value);
    }
}

/// Appends any value; one that has no JSON form (it does not occur here) becomes `null`.
pub(crate) fn push_value<T: Serialize + ?Sized>(buf: &mut Vec<u8>, value: &T) {
    let start = buf.len();
    if serde_json::to_writer(&mut *buf, value).is_err() {
        buf.truncate(start);
        buf.extend_from_slice(b"null");
    }
}

/// Foreign text, shortened for an error message.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(CLIP_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64_text(value: f64) -> String {
        let mut buf = Vec::new();
        push_f64(&mut buf, value);
        String::from_utf8(buf).unwrap()
    }

    #[test]
    fn reals_have_a_decimal_point_and_read_back_exactly() {
        assert_eq!(f64_text(0.0), "0.0");
        assert_eq!(f64_text(1_700_000_000.0), "1700000000.0");
        assert_eq!(f64_text(1_700_000_000.123_456_7), "1700000000.1234567");
        for value in [
            1e16,
            1e22,
            1e-7,
            5e-324,
            f64::MAX,
            0.1 + 0.2,
            1_764_512_345.678_901_3,
        ] {
            let text = f64_text(value);
            assert!(text.contains('.') && !text.contains('e'), "{text}");
            assert_eq!(
                serde_json::from_str::<f64>(&text).unwrap().to_bits(),
                value.to_bits(),
                "{text}"
            );
        }
        assert_eq!(f64_text(f64::NAN), "0.0");
    }

    #[test]
    fn integers_and_strings() {
        for value in [0, 9, 10, 12_345, u64::MAX] {
            let mut buf = Vec::new();
            push_u64(&mut buf, value);
            assert_eq!(buf, value.to_string().into_bytes());
        }
        for value in [0, -1, i64::MIN, i64::MAX] {
            let mut buf = Vec::new();
            push_i64(&mut buf, value);
            assert_eq!(buf, value.to_string().into_bytes());
        }
        for value in ["", "plain", "q\"b\\", "tab\tnul\0", "ƒé", "\u{7f}"] {
            let mut buf = Vec::new();
            push_str(&mut buf, value);
            assert_eq!(serde_json::from_slice::<String>(&buf).unwrap(), value);
        }
    }

    #[test]
    fn long_text_is_clipped_at_a_character() {
        assert_eq!(clip("short"), "short");
        let clipped = clip(&"ƒ".repeat(1000));
        assert_eq!(clipped.chars().count(), CLIP_MAX + 1);
    }
}
