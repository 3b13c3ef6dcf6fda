//! Checks of one `.rs` file: how it begins, how long it is, stub macros; and of the pure crates, what they may not touch.
//!
//! Comments are not looked at, and in pure crates neither are tests (from `#[cfg(test)]` before an inline module to the end,
//! files named `tests.rs`, folders named `tests`).

use crate::{Finding, Findings};

/// The longest file.
pub const LINES_MAX: usize = 800;

/// Crates that decide and compute, and touch nothing.
pub const PURE: [&str; 10] = [
    "wire", "job", "protocol", "router", "manager", "journal", "info", "sched", "bexpr", "views",
];

/// What pure code may not name, and what it does instead.
const BANNED: [(&str, &str); 12] = [
    (
        "tokio",
        "cores are synchronous: return an action, the shell in bin/ performs it",
    ),
    ("std::fs", "return an action, the shell in bin/ performs it"),
    (
        "std::net",
        "return an action, the shell in bin/ performs it",
    ),
    ("std::os", "return an action, the shell in bin/ performs it"),
    ("std::env", "take it as an argument"),
    (
        "std::process",
        "return an action, the shell in bin/ performs it",
    ),
    ("std::thread", "cores have no threads"),
    ("std::io", "return an action, the shell in bin/ performs it"),
    ("Instant::now", "take the time as an argument"),
    ("SystemTime", "take the time as an argument"),
    ("rustix", "return an action, the shell in bin/ performs it"),
    ("rand::", "take it as an argument"),
];
/// Formatting into memory is no io.
const ALLOWED: [&str; 1] = ["std::io::Write"];

/// Spelled in two pieces, so that this file passes its own check.
const STUBS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// Checks any Rust file.
#[must_use]
pub fn check_rust(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Findings::of(path);
    if !text.starts_with("//!") {
        findings.add(
            1,
            "begins without //!: say what the file is and what it leaves to others",
        );
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.add(
            0,
            format!("{lines} lines, at most {LINES_MAX}: it holds more than one idea, split it"),
        );
    }
    for (number, code) in code_lines(text) {
        for stub in STUBS {
            if code.contains(stub) {
                findings.add(
                    number,
                    format!("{stub}…): build it, or answer ENOSYS and list it in the README"),
                );
            }
        }
    }
    findings.done()
}

/// Checks a file of a pure crate's `src/`.
#[must_use]
pub fn check_pure(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Findings::of(path);
    if path.ends_with("/tests.rs") || path.contains("/tests/") {
        return findings.done();
    }
    let tests_from = tests_begin(text);
    for (number, code) in code_lines(text).take_while(|(number, _)| *number < tests_from) {
        let code = ALLOWED
            .iter()
            .fold(code.to_owned(), |code, allowed| code.replace(allowed, ""));
        for (word, instead) in BANNED {
            if names(&code, word) {
                findings.add(number, format!("{word} in a pure crate: {instead}"));
            }
        }
    }
    findings.done()
}

/// The line where an inline test module begins, or past the end.
fn tests_begin(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        let item = lines[at + 1..]
            .iter()
            .find(|line| !line.trim_start().starts_with("#["));
        if item.is_some_and(|item| item.contains("mod ") && item.trim_end().ends_with('{')) {
            return at + 1;
        }
    }
    usize::MAX
}

/// Lines with their number, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, without_comment(line)))
}

/// Cuts a line at `//`, unless that stands within a string or a URL.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    while let Some(at) = line[from..].find("//").map(|at| at + from) {
        let before = &line[..at];
        let in_string = before.replace("\\\"", "").matches('"').count() % 2 == 1;
        if !in_string && !before.ends_with(':') {
            return before;
        }
        from = at + 2;
    }
    line
}

/// `word` stands in `code`, not as a part of a longer name.
fn names(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part_of_name)
            && (word.ends_with(':') || !after.is_some_and(part_of_name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pure(text: &str) -> Vec<usize> {
        check_pure("crates/job/src/x.rs", text)
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_file_begins_with_its_doc() {
        assert_eq!(check_rust("a.rs", "//! what it is\n"), []);
        for bad in ["", "use x;\n", "\n//! late\n", "// no doc\n"] {
            assert_eq!(check_rust("a.rs", bad).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn a_file_is_not_too_long() {
        let long = |lines: usize| format!("//! x\n{}", "\n".repeat(lines - 1));
        assert_eq!(check_rust("a.rs", &long(LINES_MAX)), []);
        assert_eq!(check_rust("a.rs", &long(LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn no_stubs() {
        for stub in STUBS {
            assert_eq!(
                check_rust("a.rs", &format!("//! x\nfn f() {{ {stub}) }}\n"))[0].line,
                2
            );
            assert_eq!(
                check_rust("a.rs", &format!("//! {stub})\n// {stub})\n")),
                [],
                "in a comment"
            );
        }
    }

    #[test]
    fn pure_crates_touch_nothing() {
        assert_eq!(
            pure(
                "//! x\nuse std::fs;\nuse tokio::net::X;\nlet t = Instant::now();\nlet s: SystemTime = x;\n"
            ),
            [2, 3, 4, 5]
        );
        assert_eq!(pure("use std::io::Read;\nuse std::io;\n"), [1, 2]);
        assert_eq!(pure("use std::io::Write as _;\n"), [], "into memory");
        assert_eq!(
            pure(
                "// tokio\nlet x = 1; // std::fs\n/// Instant::now\nlet operand::x = tokio_like;\n"
            ),
            []
        );
        assert_eq!(pure("let url = \"http://std::fs\";\n"), [1]);
    }

    #[test]
    fn tests_of_pure_crates_may() {
        assert_eq!(
            pure("//! x\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"),
            []
        );
        assert_eq!(
            pure("//! x\n#[cfg(test)]\nmod tests;\nuse std::fs;\n"),
            [4],
            "only the tests"
        );
        assert_eq!(check_pure("crates/job/src/tests.rs", "use std::fs;\n"), []);
        assert_eq!(
            check_pure("crates/job/src/tests/a.rs", "use std::fs;\n"),
            []
        );
    }
}
