//! `?pretty`: a compact JSON text written out with four spaces a level, and a newline at its end.
//!
//! The text is not parsed: only brackets, commas and colons outside of strings matter, so every number and string stays as it was.

/// Spaces of one level.
const INDENT: &[u8] = b"    ";

/// The same value, indented.
pub(crate) fn pretty(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    let mut out = Vec::with_capacity(length * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    // A bracket was opened, and nothing came behind it yet.
    let mut opened = false;
    for &byte in parts.iter().flat_map(|part| part.as_ref()) {
        if in_string {
            out.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b']' | b'}');
        if opened && !closes {
            line(&mut out, depth);
        }
        match byte {
            b'{' | b'[' => {
                depth += 1;
                out.push(byte);
                opened = true;
                continue;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !opened {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            _ => out.push(byte),
        }
        opened = false;
    }
    out.push(b'\n');
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    for _ in 0..depth {
        out.extend_from_slice(INDENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_indented_by_four_and_says_the_same() {
        let text = r#"[{"a":1.50,"b":"x{[,:\"]}","c":[],"d":{},"e":[1,[2]]},null]"#;
        let cut = text.len() / 2;
        let out = pretty(&[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]);
        let out = String::from_utf8(out).expect("text");
        let expected = "[\n    {\n        \"a\": 1.50,\n        \"b\": \"x{[,:\\\"]}\",\n        \"c\": [],\n        \"d\": {},\n        \"e\": [\n            1,\n            [\n                2\n            ]\n        ]\n    },\n    null\n]\n";
        assert_eq!(out, expected);
        assert_eq!(pretty(&[b"[]"]), b"[]\n");
        assert_eq!(pretty(&[b"null"]), b"null\n");
    }
}
