//! Which crate may use which: read from the `[dependencies]` of each manifest.
//!
//! `wire, job ← protocol ← manager, info · wire ← router · job ← journal, store, sched, info · info, bexpr ← views · wire ← rpc · all ← bin`

use crate::{Finding, Findings, PURE};

/// A crate of `crates/`, and the crates of this workspace it may use.
pub const ARROWS: [(&str, &[&str]); 20] = [
    ("wire", &[]),
    ("job", &[]),
    ("protocol", &["wire", "job"]),
    ("router", &["wire"]),
    ("manager", &["wire", "job", "protocol"]),
    ("info", &["wire", "job", "protocol"]),
    ("bexpr", &[]),
    ("views", &["job", "info", "bexpr"]),
    ("journal", &["job"]),
    ("sched", &["job"]),
    ("store", &["job"]),
    ("rpc", &["wire"]),
    ("logs", &[]),
    ("daemon", &["logs"]),
    ("tidy", &[]),
    (
        "fuzzed",
        &[
            "wire", "job", "protocol", "router", "manager", "info", "bexpr",
        ],
    ),
    ("sim-io", &["wire", "job", "store"]),
    (
        "sim-manager",
        &[
            "wire", "job", "protocol", "router", "manager", "journal", "sim-io",
        ],
    ),
    ("sim-info", &["wire", "job", "protocol", "info", "sim-io"]),
    (
        "sim",
        &[
            "wire",
            "job",
            "protocol",
            "manager",
            "journal",
            "info",
            "sched",
            "sim-io",
            "sim-manager",
            "sim-info",
        ],
    ),
];

/// What no pure crate may depend on.
const IO_CRATES: [&str; 10] = [
    "tokio",
    "tokio-util",
    "futures",
    "rustix",
    "nix",
    "libc",
    "rusqlite",
    "inotify",
    "rand",
    "tracing-subscriber",
];

/// Checks the manifest of `crates/NAME`.
#[must_use]
pub fn check_manifest(path: &str, name: &str, text: &str) -> Vec<Finding> {
    let mut findings = Findings::of(path);
    let Some((_, may_use)) = ARROWS.iter().find(|(of, _)| *of == name) else {
        findings.add(0, format!("crate {name} is not in the table of arrows: a new crate is a change of its own, add it there"));
        return findings.done();
    };
    let mut section = "";
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        }
        if section != "[dependencies]" {
            continue;
        }
        let used = line.split(['.', '=', ' ']).next().unwrap_or_default();
        if ARROWS.iter().any(|(of, _)| *of == used) && !may_use.contains(&used) {
            findings.add(
                at + 1,
                format!("{name} uses {used}: arrows go from {name} to {may_use:?} only"),
            );
        }
        if PURE.contains(&name) && IO_CRATES.contains(&used) {
            findings.add(
                at + 1,
                format!("{used} in the pure crate {name}: leave it to the shell in bin/"),
            );
        }
    }
    findings.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, text: &str) -> Vec<usize> {
        check_manifest("crates/x/Cargo.toml", name, text)
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn arrows_go_one_way() {
        assert_eq!(
            lines(
                "router",
                "[dependencies]\nwire.workspace = true\nbytes = \"1\"\n"
            ),
            []
        );
        assert_eq!(
            lines("router", "[dependencies]\njob.workspace = true\n"),
            [2]
        );
        assert_eq!(
            lines(
                "wire",
                "[dependencies]\nrouter = { path = \"../router\" }\n"
            ),
            [2]
        );
        assert_eq!(
            lines("wire", "[dev-dependencies]\nrouter.workspace = true\n"),
            [],
            "tests may"
        );
        assert_eq!(lines("another", "[dependencies]\n"), [0]);
    }

    #[test]
    fn pure_crates_depend_on_no_io() {
        assert_eq!(
            lines(
                "journal",
                "[dependencies]\njob.workspace = true\ntokio.workspace = true\n"
            ),
            [3]
        );
        assert_eq!(lines("rpc", "[dependencies]\ntokio.workspace = true\n"), []);
    }

    #[test]
    fn no_arrow_goes_in_a_circle() {
        for (from, to) in ARROWS {
            let earlier = ARROWS.iter().position(|(of, _)| *of == from);
            for used in to {
                assert!(
                    ARROWS.iter().position(|(of, _)| of == used) < earlier,
                    "{from} before {used}"
                );
            }
        }
    }
}
