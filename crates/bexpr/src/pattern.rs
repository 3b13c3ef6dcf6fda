//! A pattern of the filter language (RE2's syntax, as Go has it) as one of the `regex` crate.
//!
//! The two differ in few places: `\Q…\E` is Go's only; `\d \s \w` and their opposites are of ASCII in Go; a `{` that begins no
//! repetition is a character there; in `[ ]`, `[ & ~ -` mean more here; `\<` and `\>` mean more here.

use regex::{Regex, RegexBuilder};

/// Memory the program of one compiled pattern may take; it has several, and what they note while they run.
pub const PATTERN_MEMORY_MAX: usize = 1 << 20;
/// Below this a pattern is small: its states are few, so that it is fast whatever it is asked about.
const SMALL_MEMORY_MAX: usize = 4 << 10;
/// How much a program takes, and what such a pattern holds in all, about, at most.
const SIZES: [(usize, usize); 3] = [
    (SMALL_MEMORY_MAX, 64 << 10),
    (256 << 10, 1 << 20),
    (PATTERN_MEMORY_MAX, 4 << 20),
];
/// What a pattern may note while it runs.
const NOTES_MAX: usize = 256 << 10;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    is_small: bool,
    held_bytes: usize,
}

impl Pattern {
    /// Whether it is met in a text, and the steps that took: they are time, whatever the text.
    pub(crate) fn is_met_in(&self, text: &str) -> (bool, usize) {
        // The worst of them look at many states for each byte.
        let steps = if self.is_small {
            text.len() / 2
        } else {
            text.len() * 8
        };
        (self.regex.is_match(text), steps)
    }

    /// Bytes it holds, about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

/// Compiles it.
///
/// # Errors
/// What is wrong with it, in one line.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, Box<str>> {
    let translated = translated(pattern);
    let within = |memory: usize| {
        RegexBuilder::new(&translated)
            .size_limit(memory)
            .dfa_size_limit(NOTES_MAX)
            .build()
    };
    let mut made = within(SMALL_MEMORY_MAX);
    let mut size = SIZES[0];
    for next in &SIZES[1..] {
        if !matches!(made, Err(regex::Error::CompiledTooBig(_))) {
            break;
        }
        size = *next;
        made = within(size.0);
    }
    made.map(|regex| Pattern {
        regex,
        is_small: size.0 == SMALL_MEMORY_MAX,
        held_bytes: size.1,
    })
    .map_err(|error| {
        // The first lines draw the pattern with a mark below.
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        last.trim_start_matches("error: ").into()
    })
}

fn translated(pattern: &str) -> String {
    let mut made = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut class = Class::Outside;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match (c, class) {
            ('\\', _) => rest = escape(after, class, &mut made),
            ('[', Class::Outside) => {
                made.push('[');
                rest = after.strip_prefix('^').map_or(after, |after| {
                    made.push('^');
                    after
                });
                class = Class::First;
                continue;
            }
            ('[', _) => match after.find(":]").filter(|_| after.starts_with(':')) {
                Some(end) => {
                    made.push('[');
                    made.push_str(&after[..end + 2]);
                    rest = &after[end + 2..];
                }
                None => made.push_str("\\["),
            },
            (']', Class::First) => made.push_str("\\]"),
            (']', Class::Inside) => {
                made.push(']');
                class = Class::Outside;
            }
            ('&' | '~', Class::First | Class::Inside) => {
                made.push('\\');
                made.push(c);
            }
            ('-', Class::First | Class::Inside) if after.starts_with('-') => {
                made.push_str("-\\-");
                rest = &after[1..];
            }
            ('{', Class::Outside) if !is_repetition(after) => made.push_str("\\{"),
            (other, _) => made.push(other),
        }
        if class == Class::First {
            class = Class::Inside;
        }
    }
    made
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Outside,
    /// Right after the bracket, where a closing one is a character.
    First,
    Inside,
}

/// `3}`, `3,}` or `3,5}`
fn is_repetition(text: &str) -> bool {
    let Some(end) = text.find('}') else {
        return false;
    };
    let (low, high) = text[..end].split_once(',').unwrap_or((&text[..end], ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

/// Writes what follows a backslash; gives what follows that.
fn escape<'a>(after: &'a str, class: Class, made: &mut String) -> &'a str {
    let outside = class == Class::Outside;
    let Some(kind) = after.chars().next() else {
        made.push('\\');
        return after;
    };
    let rest = &after[kind.len_utf8()..];
    let ascii = match kind {
        'd' => "0-9",
        's' => "\\t\\n\\x0C\\r ",
        'w' => "0-9A-Za-z_",
        'D' => "^0-9",
        'S' => "^\\t\\n\\x0C\\r ",
        'W' => "^0-9A-Za-z_",
        _ => "",
    };
    match kind {
        'd' | 's' | 'w' if !outside => made.push_str(ascii),
        'd' | 's' | 'w' | 'D' | 'S' | 'W' => {
            made.push('[');
            made.push_str(ascii);
            made.push(']');
        }
        'b' if outside => made.push_str("(?-u:\\b)"),
        '<' | '>' => made.push(kind),
        'Q' => {
            let end = rest.find("\\E").unwrap_or(rest.len());
            made.push_str(&regex::escape(&rest[..end]));
            return rest[end..].strip_prefix("\\E").unwrap_or_default();
        }
        // The end of nothing is nothing.
        'E' => {}
        other => {
            made.push('\\');
            made.push(other);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_patterns_mean_here_what_they_mean_there() {
        for (pattern, text, expected) in [
            ("(?i)shop", "my-SHOP-1", true),
            ("^a", "ba", false),
            (r"\Qa.b\E+", "a.bbb", true),
            (r"\Qa.b\E", "axb", false),
            (r"\Qa.b", "a.b", true),
            (r"\d", "٣", false),
            (r"^\w+$", "naïve", false),
            (r"[\d\-]", "-", true),
            (r"[^\D]", "x", false),
            (r"[\W]", "ä", true),
            ("[[a]", "[", true),
            ("[[a]", "a", true),
            ("[[:alpha:]]", "7", false),
            ("[]a]", "]", true),
            ("[^]a]", "]", false),
            ("[a&&b]", "&", true),
            ("[a~~b]", "~", true),
            ("[+--]", ",", true),
            ("a{", "a{", true),
            ("a{2}", "aa", true),
            ("a{2,}", "a", false),
            ("{x}", "{x}", true),
            (r"a\b", "a b", true),
            (r"a\b", "aé", true),
            (r"\<a\>", "<a>", true),
            (r"\x{41}", "A", true),
        ] {
            let regex = compile(pattern).unwrap_or_else(|why| panic!("{pattern}: {why}"));
            assert_eq!(regex.is_met_in(text).0, expected, "{pattern} of {text}");
        }
    }

    #[test]
    fn a_pattern_that_is_none_says_why_in_one_line() {
        for (pattern, expected) in [
            ("(", "unclosed group"),
            (
                "(?=a)",
                "look-around, including look-ahead and look-behind, is not supported",
            ),
            (r"(a)\1", "backreferences are not supported"),
            (
                "(a{1000}){1000}",
                "Compiled regex exceeds size limit of 1048576 bytes.",
            ),
        ] {
            let why = compile(pattern).err().unwrap_or_default();
            assert_eq!(&*why, expected, "{pattern}");
        }
    }
}
