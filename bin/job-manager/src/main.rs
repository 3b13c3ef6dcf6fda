//! `weir-job-manager`: arguments, tracing and the exit code. What it does is in the library beside it.
use clap::Parser;
use job_manager::{Config, Retention, Stop};
use protocol::shutdown::STATUS_SHUT_DOWN;
use std::process::ExitCode;

const NAME: &str = "weir-job-manager";

/// The broker, the job-manager and the journal of one weir instance.
///
/// Owns the instance's socket and is its only writer. `weir start` runs it together with weir-job-info and weir-job-runner; run
/// it by hand only to look at it alone.
///
/// Exit status: 0 after SIGTERM or SIGINT; 3 after 'weir shutdown'; 78 when it cannot start until something is mended (the state directory is in use,
/// not writable, or of a newer schema; the socket path is too long; an argument is wrong), with one line that says what; 1 when it had to
/// stop (a failed write to the store), after which it may simply be started again.
#[derive(Parser, Debug)]
#[command(name = NAME, version)]
struct Args {
    /// State directory: store, key and socket live there. Made if it is missing.
    #[arg(long, value_name = "DIR")]
    statedir: std::path::PathBuf,
    /// Path of the socket [default: DIR/socket]
    #[arg(long, value_name = "PATH")]
    socket: Option<std::path::PathBuf>,
    /// Let other users of this machine connect, as guests with rights to their own jobs. They must get to the socket: see --socket.
    #[arg(long)]
    allow_guests: bool,
    /// Entries that the journal's ring holds in memory; older ones are read from the store.
    #[arg(long, value_name = "N", default_value_t = journal::limits::RING_ENTRIES_MAX)]
    journal_size_limit: usize,
    /// Milliseconds over which events are gathered for a listener under load. Commits never wait for it.
    #[arg(long, value_name = "MS", default_value_t = job_manager::BATCH_INTERVAL_MS, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    batch_interval: u64,
    #[command(flatten)]
    parent: daemon::StopWithParent,
    /// Largest frame accepted from a client, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = wire::FRAME_LEN_MAX_DEFAULT)]
    frame_limit: usize,
    /// Bytes that the store's file may have; beyond, it is as if the disk were full.
    #[arg(long, value_name = "BYTES")]
    store_size_limit: Option<u64>,
    /// Purge jobs so long after their end (90d, 12h, 30m; seconds if there is no unit)
    #[arg(long, value_name = "FSD", value_parser = age)]
    inactive_age_limit: Option<f64>,
    /// Of the jobs that ended keep the last N; purge the others.
    #[arg(long, value_name = "N")]
    inactive_num_limit: Option<u64>,
    /// Entries of the journal's log that are kept on disk, for readers that come back with a cursor.
    #[arg(long, value_name = "N", default_value_t = job_manager::LOG_ENTRIES_LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    log_entries_limit: u64,
    /// Bytes of that log, about.
    #[arg(long, value_name = "BYTES", default_value_t = job_manager::LOG_BYTES_LIMIT, value_parser = clap::value_parser!(u64).range(1..))]
    log_bytes_limit: u64,
}

/// A duration that limits the age of jobs; `inf` is none.
fn age(text: &str) -> Result<f64, job::FsdError> {
    text.parse::<job::Fsd>().map(|fsd| fsd.0)
}

fn main() -> ExitCode {
    let args: Args = match daemon::arguments(NAME) {
        Ok(args) => args,
        Err(status) => return status,
    };
    logs::init();
    if let Err(status) = args.parent.watch() {
        return status;
    }
    daemon::raise_open_files();
    let mut config = Config::new(args.statedir);
    if let Some(socket) = args.socket {
        config.socket = socket;
    }
    config.allow_guests = args.allow_guests;
    config.journal_size_limit = args.journal_size_limit.max(1);
    config.batch_interval = std::time::Duration::from_millis(args.batch_interval);
    config.frame_limit = args.frame_limit;
    config.store_size_limit = args.store_size_limit;
    config.retention = Retention {
        inactive_age: args.inactive_age_limit.filter(|age| age.is_finite()),
        inactive_num: args.inactive_num_limit,
        log_entries: args.log_entries_limit,
        log_bytes: args.log_bytes_limit,
    };
    daemon::run(NAME, async {
        match job_manager::run(config, daemon::signals()).await {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(Stop::ShutDown) => Ok(ExitCode::from(STATUS_SHUT_DOWN)),
            Err(Stop::CannotStart(text)) => Err((daemon::STATUS_CONFIG, text)),
            Err(Stop::Failed(text)) => Err((1, text)),
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_wrong_with_an_argument_is_one_line_with_the_value_and_the_range() {
        let all = ["x", "--statedir=/s", "--batch-interval=10001"];
        assert_eq!(
            daemon::one_line(&Args::try_parse_from(all).unwrap_err()),
            "invalid value '10001' for '--batch-interval <MS>': 10001 is not in 0..=10000"
        );
    }
}
