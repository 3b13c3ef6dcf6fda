//! The table of promises and cases in `rfc/8_promises.md` is true: each test it names is there, and each test that carries a promise is named.
//!
//! ```text
//! | PROMISE, … or CASE | `path` | `name` |
//! ```
//! In a `.rs` file the name is a function's; in a `.t` file it is the title of a test, or its beginning. A name carries its promises, or its
//! case; the invariants of `rfc/0_architecture.md` that promises rest on have names of their own.

use crate::{File, Finding, Findings};

/// The page.
pub(crate) const PAGE: &str = "rfc/8_promises.md";
/// The promises, as they are named.
pub const PROMISES: [&str; 7] = [
    "ordered",
    "unique",
    "complete",
    "durable",
    "resumable",
    "honest",
    "isolated",
];
/// How the name of a test function begins that carries a promise.
const FUNCTION: &str = concat!("fn prom", "ise_");
/// How the title of a shell test begins that does.
const TITLES: [&str; 2] = ["promise: ", "promise_"];

/// Checks the page against all files.
#[must_use]
pub fn check_promises(files: &[File]) -> Vec<Finding> {
    let text_of = |path: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.and_then(|file| file.text.as_deref())
    };
    let mut findings = Findings::of(PAGE);
    let Some(page) = text_of(PAGE) else {
        findings.add(0, "is not there");
        return findings.done();
    };
    let rows: Vec<Row<'_>> = rows(page).collect();
    for row in &rows {
        let names = carries(row.of, row.name);
        if !names {
            findings.add(row.line, format!("{} does not carry {}", row.name, row.of));
        }
        if !text_of(row.path).is_some_and(|text| has(row.path, text, row.name)) {
            let (name, path) = (row.name, row.path);
            findings.add(row.line, format!("there is no test {name} in {path}"));
        }
    }
    for promise in PROMISES {
        if !rows
            .iter()
            .any(|row| row.of.split(", ").any(|of| of == promise))
        {
            findings.add(0, format!("no test of the promise {promise} is named"));
        }
    }
    let mut findings = findings.done();
    for file in files {
        let Some(text) = &file.text else { continue };
        for (line, name) in tests(&file.path, text) {
            let named = |row: &Row<'_>| row.path == file.path && name.starts_with(row.name);
            if !rows.iter().any(named) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    what: format!("{name} carries a promise: name it in {PAGE}"),
                });
            }
        }
    }
    findings
}

/// One row of the table.
struct Row<'a> {
    line: usize,
    /// Promises with commas between, or a case.
    of: &'a str,
    path: &'a str,
    name: &'a str,
}

fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    page.lines().enumerate().filter_map(|(at, line)| {
        let cells: Vec<&str> = line
            .strip_prefix('|')?
            .strip_suffix('|')?
            .split('|')
            .collect();
        let [of, path, name] = cells.as_slice() else {
            return None;
        };
        let code = |cell: &&'_ str| {
            cell.trim()
                .strip_prefix('`')
                .and_then(|cell| cell.strip_suffix('`'))
                .map(str::len)
        };
        code(path).and(code(name))?;
        let of = of.trim();
        let is_one = |of: &str| PROMISES.contains(&of) || is_case(of);
        of.split(", ").all(is_one).then_some(Row {
            line: at + 1,
            of,
            path: path.trim().trim_matches('`'),
            name: name.trim().trim_matches('`'),
        })
    })
}

fn is_case(of: &str) -> bool {
    of.strip_prefix('A')
        .is_some_and(|number| number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A name carries what it is a test of; those of the invariants that promises rest on were there before them.
fn carries(of: &str, name: &str) -> bool {
    let invariant = name.starts_with("invariant") && !is_case(of);
    invariant || of.split(", ").all(|of| name.contains(of))
}

fn has(path: &str, text: &str, name: &str) -> bool {
    if path.ends_with(".rs") {
        text.contains(&format!("fn {name}("))
    } else {
        text.lines()
            .any(|line| line.contains("test_expect_success") && line.contains(name))
    }
}

/// Tests of a file whose names carry a promise, with their lines.
fn tests<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str)> {
    let shell = path.starts_with("t/") && path.ends_with(".t");
    let rust = path.ends_with(".rs");
    let name = |line: &'a str| {
        if shell && line.contains("test_expect_success") {
            let title = line.split_once(['\'', '"'])?.1;
            TITLES
                .iter()
                .any(|begin| title.starts_with(begin))
                .then_some(title)
        } else if rust {
            let begin = line
                .trim_start()
                .strip_prefix("async ")
                .unwrap_or(line.trim_start());
            let name = begin.starts_with(FUNCTION).then(|| &begin[3..])?;
            Some(name.split('(').next().unwrap_or(name))
        } else {
            None
        }
    };
    let numbered = text.lines().enumerate();
    numbered
        .filter_map(|(at, line)| Some((at + 1, name(line)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: &str = "t/t1-x.t";
    const R: &str = "crates/x/tests/y.rs";

    fn found(page: &str, shell: &str, rust: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            executable: true,
            text: Some(text.to_owned()),
        };
        let files = [file(PAGE, page), file(T, shell), file(R, rust)];
        let findings = check_promises(&files);
        let about_coverage =
            |finding: &&Finding| !finding.what.starts_with("no test of the promise");
        findings
            .iter()
            .filter(about_coverage)
            .map(ToString::to_string)
            .collect()
    }

    fn row(of: &str, path: &str, name: &str) -> String {
        format!("| {of} | `{path}` | `{name}` |\n")
    }

    #[test]
    fn what_is_named_is_there_and_what_is_there_is_named() {
        let shell = "test_expect_success 'promise: durable: a' '\n";
        let rust = format!("    {}ordered_unique_b() {{\n", FUNCTION);
        let page = row("durable", T, "promise: durable: a")
            + &row("ordered, unique", R, "promise_ordered_unique_b")
            + "| promise | where | test |\n| --- | --- | --- |\n";
        assert!(found(&page, shell, &rust).is_empty());
        assert_eq!(found("", shell, &rust).len(), 2, "both are not named");
        assert_eq!(found(&page, "", "").len(), 2, "neither is there");
    }

    #[test]
    fn a_name_carries_what_it_is_named_for() {
        let shell = "test_expect_success 'A01 order' '\n";
        assert!(found(&row("A01", T, "A01 order"), shell, "").is_empty());
        assert_eq!(found(&row("A02", T, "A01 order"), shell, "").len(), 1);
        let shell = "test_expect_success 'invariant 2: order' '\n";
        assert!(found(&row("durable", T, "invariant 2: order"), shell, "").is_empty());
        assert_eq!(
            found(&row("A02", T, "invariant 2: order"), shell, "").len(),
            1
        );
        assert_eq!(found(&row("A01", T, "A01 disorder"), shell, "").len(), 1);
    }

    #[test]
    fn every_promise_has_a_test() {
        let page = File {
            path: PAGE.to_owned(),
            executable: false,
            text: Some(String::new()),
        };
        assert_eq!(check_promises(&[page]).len(), PROMISES.len());
        assert_eq!(check_promises(&[]).len(), 1);
    }
}
