//! Checks of the tree that no lint has. `cargo test -p tidy` runs them over the whole repository; std only.
//!
//! | check | where | why |
//! |---|---|---|
//! | begins with `//!` | every `.rs` file | a file says what it is and what it leaves to others |
//! | at most [`LINES_MAX`] lines | every `.rs` file | one idea a file |
//! | no stub macros | every `.rs` file | what is not built answers ENOSYS |
//! | no io, clock, threads, randomness | `src/` of the [`PURE`] crates, tests excepted | time and ids come in as arguments |
//! | arrows | `[dependencies]` of every crate | see [`ARROWS`]; never back, never between siblings |
//! | no machine paths | every text file | a clone elsewhere must work |
//! | executable | `t/*.t` | a test that cannot be run is not run |
//! | promises | `rfc/8_promises.md` | each test it names is there, each test that carries a promise is named |

mod arrows;
mod promises;
mod rust;
mod text;
mod tree;

pub use arrows::{ARROWS, check_manifest};
pub use promises::{PROMISES, check_promises};
pub use rust::{LINES_MAX, PURE, check_pure, check_rust};
pub use text::check_paths;
pub use tree::{File, check_tree, files};

/// Something to put right, as `path:line: what`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository.
    pub path: String,
    /// Counted from 1; 0 = the whole file.
    pub line: usize,
    /// What is wrong, and what to do instead.
    pub what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Collects findings of one file.
pub(crate) struct Findings<'a> {
    path: &'a str,
    found: Vec<Finding>,
}

impl<'a> Findings<'a> {
    pub(crate) fn of(path: &'a str) -> Findings<'a> {
        Findings {
            path,
            found: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, line: usize, what: impl Into<String>) {
        self.found.push(Finding {
            path: self.path.to_owned(),
            line,
            what: what.into(),
        });
    }

    pub(crate) fn done(self) -> Vec<Finding> {
        self.found
    }
}
