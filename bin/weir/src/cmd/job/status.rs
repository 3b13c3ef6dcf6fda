//! `weir job status`: wait for jobs and return the worst of their statuses.

use crate::connect::{self, Session};
use crate::failure::Exit;
use crate::output::{self, complain};
use crate::{document, ids, outcome, submission};
use serde_json::json;
use std::io::Write as _;

/// Wait until jobs have ended and return the highest of their statuses
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job status $(weir job last) && echo fine
  weir job status -v 4711 4712

JSON
  {\"jobs\":[as 'weir jobs --json'…],\"status\":N|null,\"errors\":[…]}

EXIT STATUS
  0  all succeeded
  N  the highest status among them: exit code, 128 + signal, 1 for a job that never ran
  1  no instance, or no such job
  2  the command line is wrong
  75  the instance was shut down meanwhile")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// A line about each
    #[arg(short, long)]
    verbose: bool,

    /// One JSON document
    #[arg(long, conflicts_with = "verbose")]
    pub(crate) json: bool,
}

/// Waits.
///
/// # Errors
/// A wrong id, no instance; the highest status as [`Exit`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    let jobs = ids::parse_all(&args.ids)?;
    connect::block_on(async {
        let session = Session::open().await?;
        let mut worst = 0;
        let mut out = output::stdout();
        let outcomes = outcome::wait_all(&session, &jobs).await?;
        if args.json {
            let (mut jobs, mut errors) = (Vec::new(), Vec::new());
            for outcome in &outcomes {
                worst = worst.max(outcome.exit_status());
                match outcome.json() {
                    Ok(job) => jobs.push(job),
                    Err(problem) => errors.push(problem),
                }
            }
            document::print(&json!({"jobs": jobs, "status": worst, "errors": errors}))?;
            for problem in &errors {
                complain(&format!("job status: {}", problem.error));
            }
            return submission::ended(worst);
        }
        for outcome in outcomes {
            worst = worst.max(outcome.exit_status());
            match outcome.reason() {
                Some(reason) if args.verbose => writeln!(out, "{}: {reason}", outcome.label())?,
                None if args.verbose => writeln!(out, "{}: completed", outcome.label())?,
                Some(reason) if matches!(outcome, outcome::Outcome::Unknown(..)) => {
                    complain(&format!("job status: {reason}"))
                }
                _ => {}
            }
        }
        out.flush()?;
        if worst == 0 {
            Ok(())
        } else {
            Err(Exit(worst).into())
        }
    })
}
