//! `weir-bench`: arguments and the exit code.
use clap::Parser;
use std::process::ExitCode;
use weir_bench::{Config, run};

/// Measures weir: every row of the table of the README, end to end, on this machine.
///
/// Starts an instance of its own on the file system of --dir (durable rows mean nothing on tmpfs), loads it through the public RPCs, and prints a
/// table: median, 99th percentile, the target, and whether it was reached. Nothing is asserted: machines are noisy, so compare
/// ratios and medians of several runs.
#[derive(Parser)]
#[command(name = "weir-bench", version)]
struct Args {
    /// Pending jobs to measure with.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    jobs: usize,
    /// Jobs that are really run for the throughput row.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    run_jobs: usize,
    /// Listeners of the fan-out row.
    #[arg(long, value_name = "N", default_value_t = 100)]
    listeners: usize,
    /// Connections that wait for pages of statuses, in the rows of watchers.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    watchers: usize,
    /// Events that happen while a listener is stopped, in the rows of isolation.
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    events: u64,
    /// Only the rows whose name contains this, or one of several with commas between. `isolation` (what clients that do not read, or ask without
    /// end, cost the others), `statuses` and `watchers` (HTTP) are measured alone; other rows build upon each other, so all are measured and
    /// these are shown.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Where the instance's state goes; a new folder is made inside and removed at the end.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: std::path::PathBuf,
    /// Folder of the weir programs [default: that of this program].
    #[arg(long, value_name = "DIR", env = "WEIR_BIN")]
    bin: Option<std::path::PathBuf>,
    /// Print the rows as one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let bin = args
        .bin
        .or_else(|| std::env::current_exe().ok()?.parent().map(Into::into))
        .unwrap_or_default();
    let config = Config {
        jobs: args.jobs.max(100),
        run_jobs: args.run_jobs.max(10),
        listeners: args.listeners.max(1),
        watchers: args.watchers.max(500),
        events: args.events.max(1000),
        only: args.only,
        dir: args.dir,
        bin,
        json: args.json,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("weir-bench: failed to start its runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
