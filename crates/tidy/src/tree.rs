//! The repository: which files there are, and which check each gets.

use crate::{Finding, PURE, check_manifest, check_paths, check_promises, check_pure, check_rust};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Folders that are not part of the source.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// A file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Some execute bit is set.
    pub executable: bool,
    /// `None` if it is no text.
    pub text: Option<String>,
}

/// All files below `root`, in order of path. Symbolic links are not followed.
/// # Errors
/// A folder or file cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<File>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<File>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        let path = format!("{prefix}{name}");
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            walk(&entry.path(), &format!("{path}/"), found)?;
        } else if kind.is_file() {
            let executable = entry.metadata()?.permissions().mode() & 0o111 != 0;
            let text = String::from_utf8(std::fs::read(entry.path())?).ok();
            found.push(File {
                path,
                executable,
                text,
            });
        }
    }
    Ok(())
}

/// All checks over all files.
#[must_use]
pub fn check_tree(files: &[File]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    findings.extend(check_promises(files));
    findings
}

fn check_file(file: &File) -> Vec<Finding> {
    let path = file.path.as_str();
    let mut findings = Vec::new();
    if is_test_script(path) && !file.executable {
        let what = "is not executable, so it is not run: chmod +x".to_owned();
        findings.push(Finding {
            path: path.to_owned(),
            line: 0,
            what,
        });
    }
    let Some(text) = &file.text else {
        return findings;
    };
    findings.extend(check_paths(path, text));
    if path.ends_with(".rs") {
        findings.extend(check_rust(path, text));
    }
    if let Some((name, rest)) = path
        .strip_prefix("crates/")
        .and_then(|path| path.split_once('/'))
    {
        if PURE.contains(&name) && rest.starts_with("src/") && rest.ends_with(".rs") {
            findings.extend(check_pure(path, text));
        }
        if rest == "Cargo.toml" {
            findings.extend(check_manifest(path, name, text));
        }
    }
    findings
}

/// `t/*.t`, itself and not in a folder below.
fn is_test_script(path: &str) -> bool {
    path.strip_prefix("t/")
        .is_some_and(|name| name.ends_with(".t") && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, executable: bool, text: &str) -> File {
        File {
            path: path.to_owned(),
            executable,
            text: Some(text.to_owned()),
        }
    }

    #[test]
    fn each_file_gets_its_checks() {
        let bad = [
            file("t/t1000-x.t", false, "#!/bin/sh\n"),
            file("crates/job/src/a.rs", false, "//! x\nuse std::fs;\n"),
            file(
                "crates/job/Cargo.toml",
                false,
                "[dependencies]\nwire.workspace = true\n",
            ),
            file("bin/weir/src/a.rs", false, "fn a() {}\n"),
        ];
        for file in &bad {
            assert_eq!(check_file(file).len(), 1, "{}", file.path);
        }
        let good = [
            file("t/t1000-x.t", true, "#!/bin/sh\n"),
            file("t/data/x.t", false, ""),
            file("crates/job/tests/a.rs", false, "//! x\nuse std::fs;\n"),
            file("bin/weir/src/a.rs", false, "//! x\nuse std::fs;\n"),
            File {
                path: "a.png".to_owned(),
                executable: false,
                text: None,
            },
        ];
        for file in &good {
            assert_eq!(check_file(file), [], "{}", file.path);
        }
    }
}
