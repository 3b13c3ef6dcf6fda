//! Text on its way to a screen: control characters made visible, widths counted in columns, cuts that are seen.
//!
//! A job's name is whatever its owner typed. Nothing from a job reaches the terminal without passing [`escape`], so a name
//! can neither move the cursor nor break a line, and nothing is cut in the middle of a wide character.
//!
//! Invariants: `escape` gives no character that is a control or a bidirectional override; `fit` never returns more columns
//! than it was given.

use crate::locale;
use std::borrow::Cow;
use std::fmt::Write as _;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands at the end of a text that was cut, by whether the locale can show it.
const CUT: char = '…';
const CUT_ASCII: char = '+';

/// True for characters that would act on the screen instead of being shown.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// The text with every acting character written as an escape (`\n`, `\t`, `\x1b`, `\u{202e}`).
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if acts(c) && u32::from(c) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if acts(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// How many columns the text takes on a screen.
#[must_use]
pub fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.width()
    }
}

/// The text cut to `columns` columns. A cut text ends in `…` (`+` where the locale has no such character); one column is left
/// for it.
#[must_use]
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    fit_with(
        text,
        columns,
        if locale::is_utf8() { CUT } else { CUT_ASCII },
    )
}

fn fit_with(text: &str, columns: usize, cut: char) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut out = clip(text, columns.saturating_sub(1)).to_owned();
    if columns > 0 {
        out.push(cut);
    }
    Cow::Owned(out)
}

/// The longest start of the text that takes at most `columns` columns, with no mark that it was cut.
#[must_use]
pub fn clip(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

/// Where a text stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// `<`
    Left,
    /// `>`
    Right,
    /// `^`
    Center,
}

/// Appends the text filled up to `columns` columns.
pub fn pad(out: &mut String, text: &str, columns: usize, align: Align, fill: char) {
    let missing = columns.saturating_sub(width(text));
    let before = match align {
        Align::Left => 0,
        Align::Right => missing,
        Align::Center => missing / 2,
    };
    out.extend(std::iter::repeat_n(fill, before));
    out.push_str(text);
    out.extend(std::iter::repeat_n(fill, missing - before));
}

/// A word as a shell reads it back.
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    if !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/:._-=+,@".contains(c))
    {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_name_are_shown_and_do_not_act() {
        assert_eq!(escape("plain ƒ 名前"), "plain ƒ 名前");
        assert_eq!(escape("a\x1b[31mb\nc\td\r"), "a\\x1b[31mb\\nc\\td\\r");
        assert_eq!(escape("\u{202e}gnp.exe\u{9b}"), "\\u{202e}gnp.exe\\x9b");
        for code in 0..=0x2100u32 {
            if let Some(c) = char::from_u32(code) {
                assert!(!escape(&c.to_string()).chars().any(acts), "U+{code:04x}");
            }
        }
    }

    #[test]
    fn wide_names_are_cut_at_a_character_and_never_too_wide() {
        for columns in 0..12 {
            let cut = fit_with("日本語テキスト", columns, CUT);
            assert!(width(&cut) <= columns, "{columns}: {cut}");
        }
        assert_eq!(fit_with("日本語", 6, CUT), "日本語");
        assert_eq!(fit_with("日本語", 5, CUT), "日本…");
        assert_eq!(fit_with("日本語", 4, CUT_ASCII), "日+");
        assert_eq!(clip("abcdef", 4), "abcd");
    }

    #[test]
    fn padding_counts_columns_not_bytes() {
        let mut out = String::new();
        pad(&mut out, "日", 4, Align::Right, ' ');
        pad(&mut out, "ab", 5, Align::Center, '.');
        pad(&mut out, "é", 3, Align::Left, '_');
        assert_eq!(out, "  日.ab..é__");
    }

    #[test]
    fn what_is_said_can_be_pasted_into_a_shell() {
        assert_eq!(
            shell_word("local:///run/weir/socket"),
            "local:///run/weir/socket"
        );
        assert_eq!(
            (shell_word(""), shell_word("a b")),
            ("''".into(), "'a b'".into())
        );
        assert_eq!(
            shell_word("/tmp/trash directory.x/it's"),
            "'/tmp/trash directory.x/it'\\''s'"
        );
    }
}
