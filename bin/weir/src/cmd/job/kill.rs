//! `weir job kill`: a signal to every process of running jobs.

use crate::connect::{self, Session};
use crate::{each, ids, status};
use serde_json::json;

/// Send a signal to running jobs
///
/// It goes to all tasks of the job. The job's result follows from what its tasks do with it; to be rid of a job, use
/// 'weir cancel'.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job kill ƒCdza1gs              SIGTERM
  weir job kill -s USR1 4711 4712

JSON
  {\"jobs\":[{\"id\",\"f58\"}…],\"errors\":[…]}: those it was sent for; what was refused

EXIT STATUS
  0  sent to every job
  1  no instance, or some jobs are not running; each has its line
  2  the command line is wrong")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// The signal, by name or number
    #[arg(short, long, default_value = "TERM", value_name = "SIGNAL", value_parser = status::signal_number)]
    signal: i64,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Sends the signal.
///
/// # Errors
/// A wrong id, no instance, or a refusal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let jobs = ids::parse_all(&args.ids)?;
    connect::block_on(async {
        let session = Session::open().await?;
        each::told(
            &session,
            "job kill",
            "job-manager.kill",
            &jobs,
            |id| json!({"id": id, "signum": args.signal}),
            args.json,
        )
        .await
    })
}
