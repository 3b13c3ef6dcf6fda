//! daemon (io): what every daemon of weir does first and last: read its arguments, log, end with its parent, raise its limit of open files, notice signals, and say
//! with its exit status whether starting it again can help.
//!
//! ```text
//!  arguments ─▶ log ─▶ parent ─▶ run on one thread until SIGTERM or SIGINT ─▶ status
//!      │ wrong: 78          │ gone already: 0                                     │ 1, with one line
//! ```
//! Left to others: what the daemon does, and which of its own failures starting it again cannot mend (those are 78 too).

mod files;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};

pub use files::{OPEN_FILES_MAX, raise_open_files};

/// Exit status when starting it again will not help (EX_CONFIG): whoever keeps it running shows its last line and gives up.
pub const STATUS_CONFIG: u8 = 78;

/// `--stop-with-parent[=PID]`: one more argument of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub struct StopWithParent {
    /// Stop when the process that started this one ends. Jobs go on. With PID, stop at once if it is gone already
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    stop_with_parent: Option<i32>,
}

/// The arguments, or the status to exit with: what is wrong was said in one line.
///
/// # Errors
/// They are wrong.
pub fn arguments<T: Parser>(name: &str) -> Result<T, ExitCode> {
    match T::try_parse() {
        Ok(args) => Ok(args),
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            logs::say(&format!("{name}: {}", one_line(&error)));
            Err(ExitCode::from(STATUS_CONFIG))
        }
    }
}

/// What is wrong with the arguments, in one line: whoever started us shows that line.
#[must_use]
pub fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    // What follows the first empty line is how to use it.
    let lines = text.lines().map(str::trim);
    lines
        .take_while(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

impl StopWithParent {
    /// Asks the kernel for SIGTERM at the parent's end. The parent may have ended before that was asked for: then nobody would ever tell.
    ///
    /// # Errors
    /// It has: the status to exit with.
    pub fn watch(self) -> Result<(), ExitCode> {
        let Some(parent) = self.stop_with_parent else {
            return Ok(());
        };
        if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
            tracing::warn!(%error, "would outlive its parent");
        }
        let now = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        if parent != 0 && parent != now {
            tracing::info!(parent, "the process that started this one is gone");
            return Err(ExitCode::SUCCESS);
        }
        Ok(())
    }
}

/// Ready when the process gets SIGTERM or SIGINT. From the first poll on neither ends it.
pub async fn signals() {
    match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        (terminate, interrupt) => {
            let error = terminate.err().or(interrupt.err());
            tracing::error!(
                ?error,
                "cannot watch for signals: they end this process at once"
            );
            std::future::pending().await
        }
    }
}

/// How a daemon failed: the status to exit with, and why.
pub type Failure = (u8, String);

/// Runs `main` to its end on one thread; why it failed is said in one line.
pub fn run(name: &str, main: impl Future<Output = Result<ExitCode, Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(main),
        Err(error) => Err((1, format!("failed to start its runtime: {error}"))),
    };
    ended.unwrap_or_else(|(status, why)| {
        logs::say(&format!("{name}: {why}"));
        ExitCode::from(status)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        parent: StopWithParent,
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=9))]
        count: Option<u64>,
    }

    fn parent(argument: &str) -> StopWithParent {
        Line::try_parse_from(["x", argument]).unwrap().parent
    }

    #[test]
    fn what_is_wrong_with_an_argument_is_one_line_with_the_value_and_the_range() {
        let wrong = |argument| one_line(&Line::try_parse_from(["x", argument]).unwrap_err());
        assert_eq!(
            wrong("--count=10"),
            "invalid value '10' for '--count <COUNT>': 10 is not in 1..=9"
        );
        assert_eq!(
            wrong("--frobnicate"),
            "unexpected argument '--frobnicate' found"
        );
    }

    #[test]
    fn fault_a_parent_that_is_gone_before_it_is_watched_is_noticed() {
        let now = getppid().unwrap().as_raw_nonzero().get();
        assert!(parent(&format!("--stop-with-parent={now}")).watch().is_ok());
        assert!(parent("--stop-with-parent").watch().is_ok());
        assert!(parent("--count=1").watch().is_ok());
        let another = format!("--stop-with-parent={}", now + 1);
        assert!(parent(&another).watch().is_err());
    }
}
