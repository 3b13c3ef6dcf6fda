//! weir-job-info: arguments, logging, signals, exit code.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

/// Lists the jobs of an instance, and shows what is stored of each.
#[derive(Debug, Parser)]
#[command(name = "weir-job-info", version)]
struct Args {
    /// The instance: local:///PATH/socket
    #[arg(long, env = "WEIR_URI", value_parser = uri)]
    uri: String,
    /// The instance's state directory
    #[arg(long)]
    statedir: PathBuf,
    /// Seconds before the first attempt to connect again
    #[arg(long, default_value = "1", value_parser = seconds)]
    reconnect: Duration,
    /// Guests see their own jobs only
    #[arg(long)]
    private: bool,
    /// Let other users in, as guests
    #[arg(long)]
    allow_guests: bool,
    /// Stop when the process that started this one ends
    #[arg(long)]
    stop_with_parent: bool,
}

/// Longest pause that can be asked for.
const RECONNECT_SECONDS_MAX: f64 = 3600.0;

fn seconds(text: &str) -> Result<Duration, String> {
    let expected =
        || format!("expected seconds from 0.01 to {RECONNECT_SECONDS_MAX}, got {text:?}");
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    if (0.01..=RECONNECT_SECONDS_MAX).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(expected())
    }
}

fn uri(text: &str) -> Result<String, rpc::uri::UriError> {
    rpc::uri::socket_path(text)?;
    Ok(text.to_owned())
}

/// Exit code for arguments that will be as wrong the next time (EX_CONFIG).
const STATUS_CONFIG: u8 = 78;

/// What is wrong with the arguments, in one line: whoever started us shows that line. What follows clap's first empty line is how
/// to use it.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.strip_prefix("error: ").unwrap_or(&text).lines();
    let lines: Vec<&str> = lines
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            logs::say(&format!("weir-job-info: {}", one_line(&error)));
            return ExitCode::from(STATUS_CONFIG);
        }
    };
    logs::init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            logs::say(&format!("weir-job-info: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    if args.stop_with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("would outlive its parent")?;
    }
    let config = job_info::Config {
        socket: rpc::uri::socket_path(&args.uri)?,
        statedir: args.statedir,
        reconnect: args.reconnect,
        private: args.private,
        allow_guests: args.allow_guests,
    };
    anyhow::ensure!(
        config.statedir.is_dir(),
        "{}: no such directory",
        config.statedir.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
        let shutdown = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        job_info::run(config, shutdown).await
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_wrong_with_an_argument_is_one_line_with_the_value_and_the_range() {
        let wrong = |argument| {
            let all = ["x", "--statedir=/s", "--uri=local:///s/socket", argument];
            one_line(&Args::try_parse_from(all).unwrap_err())
        };
        assert_eq!(
            wrong("--reconnect=0"),
            "invalid value '0' for '--reconnect <RECONNECT>': expected seconds from 0.01 to 3600, got \"0\""
        );
        assert_eq!(
            wrong("--frobnicate"),
            "unexpected argument '--frobnicate' found"
        );
    }
}
