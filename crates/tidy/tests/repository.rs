//! The whole repository passes every check.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use tidy::{PURE, check_tree, files};

#[test]
fn the_tree_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = files(&root).unwrap();
    // It looked at the right folder.
    for name in PURE {
        let lib = format!("crates/{name}/src/lib.rs");
        assert!(
            files.iter().any(|file| file.path == lib),
            "{lib} was not met"
        );
    }
    let findings = check_tree(&files);
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} to put right:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
