//! Durations as `wait` has them: a sign, then numbers with units (`1m30s`, `250ms`, `1.5h`), or a bare `0`.

/// Units by name, in nanoseconds. Longer names come before those they end with.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds; `None` when the text is no duration or does not fit.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole_end = digits(rest);
        let (whole, after) = rest.split_at(whole_end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let name_end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (name, left) = after.split_at(name_end);
        let unit = UNITS.iter().find(|unit| unit.0 == name)?.1;
        let mut part = match whole {
            "" => 0,
            whole => whole.parse::<u64>().ok()?.checked_mul(unit)?,
        };
        // Digits below a nanosecond say nothing.
        let mut scale = unit as f64;
        let mut nanos = 0.0;
        for digit in fraction.bytes() {
            scale /= 10.0;
            nanos += f64::from(digit - b'0') * scale;
        }
        part = part.checked_add(nanos as u64)?;
        total = total.checked_add(part)?;
        rest = left;
    }
    let total = i64::try_from(total).ok()?;
    Some(if negative { -total } else { total })
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_clients_write_them() {
        for (text, nanos) in [
            ("10s", 10_000_000_000),
            ("5m", 300_000_000_000),
            ("1m30s", 90_000_000_000),
            ("250ms", 250_000_000),
            ("10000ms", 10_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("0", 0),
            ("0s", 0),
            ("-1s", -1_000_000_000),
            ("+.5s", 500_000_000),
            ("7µs", 7_000),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_none() {
        for text in [
            "",
            "10",
            "s",
            "-",
            "+",
            ".s",
            "1.s2",
            "10 s",
            "1d",
            "1S",
            "9999999999h",
            "0x1s",
            "1s1",
            "--1s",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
