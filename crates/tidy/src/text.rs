//! Checks of any text file: paths that exist on one machine only.

use crate::{Finding, Findings};

/// Spelled in two pieces, so that this file passes its own check.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Finds absolute paths of one machine; a `/` within a longer path is not their beginning.
#[must_use]
pub fn check_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Findings::of(path);
    for (at, line) in text.lines().enumerate() {
        for machine_path in MACHINE_PATHS {
            let begins = |(at, _): (usize, &str)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~}/".contains(c))
            };
            if line.match_indices(machine_path).any(begins) {
                findings.add(
                    at + 1,
                    format!(
                        "{machine_path}… is a path of one machine: make it relative, or an argument"
                    ),
                );
            }
        }
    }
    findings.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_path_counts() {
        for machine_path in MACHINE_PATHS {
            assert_eq!(
                check_paths("a", &format!("ok\ncd {machine_path}x")).len(),
                1
            );
            assert_eq!(check_paths("a", &format!("\"{machine_path}\"")).len(), 1);
            assert_eq!(
                check_paths("a", &format!("$HOME/a{machine_path} ~{machine_path}")),
                []
            );
        }
    }
}
