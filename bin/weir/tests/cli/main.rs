//! The whole program against a scripted instance: what it asks, what it prints, how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod errors;
mod fake;
mod follow;
mod listings;
mod prioritizing;
mod starting;
mod submitting;

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

/// The program with a clean environment that names no instance.
fn weir(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env_clear()
        .env("HOME", "/nonexistent")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .args(args);
    command
}

/// The program, talking to the fake.
fn at(fake: &fake::Fake, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = weir(args);
    command.env("WEIR_URI", format!("local://{}", fake.socket().display()));
    command
}

/// Runs to the end.
fn run(command: &mut Command) -> Ran {
    Ran(command.output().unwrap())
}

struct Ran(Output);

impl Ran {
    fn out(&self) -> &str {
        std::str::from_utf8(&self.0.stdout).unwrap()
    }

    fn err(&self) -> &str {
        std::str::from_utf8(&self.0.stderr).unwrap()
    }

    fn status(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    /// It failed with that status and said one line that holds all of these.
    #[track_caller]
    fn fails(&self, status: i32, holds: &[&str]) {
        assert_eq!(self.status(), status, "{}", self.err());
        assert_eq!(self.err().lines().count(), 1, "{}", self.err());
        assert!(self.err().starts_with("weir: "), "{}", self.err());
        for text in holds {
            assert!(
                self.err().contains(text),
                "'{text}' is not in: {}",
                self.err()
            );
        }
    }

    #[track_caller]
    fn succeeds(&self) -> &str {
        assert_eq!(self.status(), 0, "{}", self.err());
        assert_eq!(self.err(), "");
        self.out()
    }
}
