//! Python's slice notation, `[start:stop:step]`, over a sequence of known length.

/// A slice as written; [`Slice::indices`] says which places it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
}

/// The text is no slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotASlice;

impl Slice {
    /// Reads `[a:b]` or `[a:b:c]`; each number may be left out.
    pub(crate) fn parse(text: &str) -> Result<Slice, NotASlice> {
        let inner = text
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .ok_or(NotASlice)?;
        let mut parts = [None; 3];
        let mut count = 0;
        for field in inner.split(':') {
            let part = parts.get_mut(count).ok_or(NotASlice)?;
            let field = field.trim();
            *part = if field.is_empty() {
                None
            } else {
                Some(field.parse::<i64>().map_err(|_| NotASlice)?)
            };
            count += 1;
        }
        let [start, stop, step] = parts;
        let step = step.unwrap_or(1);
        if count < 2 || step == 0 || step == i64::MIN {
            return Err(NotASlice);
        }
        Ok(Slice { start, stop, step })
    }

    /// The places meant in a sequence of `len`, in the order meant.
    pub(crate) fn indices(self, len: usize) -> impl Iterator<Item = usize> {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        let (low, high) = if self.step > 0 {
            (0, len)
        } else {
            (-1, len - 1)
        };
        let settle = |given: Option<i64>, absent: i64| match given {
            None => absent,
            Some(at) if at < 0 => at.saturating_add(len).max(low),
            Some(at) => at.min(high),
        };
        let (start, stop) = if self.step > 0 {
            (settle(self.start, low), settle(self.stop, high))
        } else {
            (settle(self.start, high), settle(self.stop, low))
        };
        let mut at = start;
        std::iter::from_fn(move || {
            let within = if self.step > 0 { at < stop } else { at > stop };
            let here = usize::try_from(at).ok().filter(|_| within)?;
            at = at.saturating_add(self.step);
            Some(here)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_mean_what_they_mean_in_python() {
        // What python gives for "01234"[…].
        for (text, want) in [
            ("[:]", "01234"),
            ("[:1]", "0"),
            ("[0:1]", "0"),
            ("[1:3]", "12"),
            ("[-1:]", "4"),
            ("[:-2]", "012"),
            ("[-2:]", "34"),
            ("[::2]", "024"),
            ("[::-1]", "43210"),
            ("[3:1:-1]", "32"),
            ("[-1:-4:-2]", "42"),
            ("[10:]", ""),
            ("[:10]", "01234"),
            ("[-10:2]", "01"),
            ("[4:2]", ""),
            ("[ 1 : 2 ]", "1"),
            ("[10::-3]", "41"),
            ("[:-10:-1]", "43210"),
            ("[2::9223372036854775807]", "2"),
        ] {
            let got: String = Slice::parse(text)
                .unwrap()
                .indices(5)
                .map(|at| char::from(b'0' + at as u8))
                .collect();
            assert_eq!(got, want, "{text}");
        }
        assert_eq!(Slice::parse("[:]").unwrap().indices(0).count(), 0);
        assert_eq!(Slice::parse("[::-1]").unwrap().indices(0).count(), 0);
        for bad in [
            "",
            "[]",
            "[1]",
            ":",
            "1:2",
            "[a:]",
            "[1:2:0]",
            "[1:2:3:4]",
            "[1:2",
            "[1.0:2]",
        ] {
            assert_eq!(Slice::parse(bad), Err(NotASlice), "{bad}");
        }
    }
}
