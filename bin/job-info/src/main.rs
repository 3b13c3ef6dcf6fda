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
    #[arg(long, env = "WEIR_URI")]
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

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WEIR_LOG")
                .unwrap_or_else(|_| "info".into()),
        )
        .with_ansi(false)
        .init();
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-job-info: {error:#}");
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
