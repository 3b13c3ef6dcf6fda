//! Texts: what a double-quoted string means, by Go's rules, and how one is written that means a given text.

/// What stands between double quotes, with its escapes resolved; `None` if one is invalid, or the whole is no UTF-8.
pub(crate) fn unquote(inner: &str) -> Option<String> {
    if !inner.contains(['\\', '\n']) {
        return Some(inner.to_owned());
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '\n' => return None,
            '\\' => rest = escape(rest, &mut bytes)?,
            other => push(&mut bytes, other),
        }
    }
    String::from_utf8(bytes).ok()
}

fn push(bytes: &mut Vec<u8>, character: char) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Resolves what follows a backslash; gives what follows that.
fn escape<'a>(rest: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let kind = rest.chars().next()?;
    let after = &rest[kind.len_utf8()..];
    let simple = match kind {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        '"' => b'"',
        'x' => return digits(after, 2, 16, bytes, false),
        'u' => return digits(after, 4, 16, bytes, true),
        'U' => return digits(after, 8, 16, bytes, true),
        '0'..='7' => return digits(rest, 3, 8, bytes, false),
        _ => return None,
    };
    bytes.push(simple);
    Some(after)
}

/// A number of exactly `count` digits: a byte, or a character.
fn digits<'a>(
    text: &'a str,
    count: usize,
    radix: u32,
    bytes: &mut Vec<u8>,
    character: bool,
) -> Option<&'a str> {
    let number = text.get(..count)?;
    if !number
        .bytes()
        .all(|digit| char::from(digit).is_digit(radix))
    {
        return None;
    }
    let number = u32::from_str_radix(number, radix).ok()?;
    if character {
        push(bytes, char::from_u32(number)?);
    } else {
        bytes.push(u8::try_from(number).ok()?);
    }
    text.get(count..)
}

/// A double-quoted string that means this text and is not read as a selector.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted.push_str("\\x22"),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            // It would be a way through the subject.
            '/' if at == 0 => quoted.push_str("\\x2f"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A whole number as Go reads one when it is left to see the base: `0x`, `0o`, `0b`, a leading 0 for octal.
pub(crate) fn int(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (2, binary)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, &*lower)
    };
    if digits.is_empty()
        || !digits
            .bytes()
            .all(|digit| char::from(digit).is_digit(radix))
    {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

/// True or false as the interface writes it.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
