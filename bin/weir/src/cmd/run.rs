//! `weir run`: submit, then attach; what a person types instead of the bare command.

use crate::attach::{self, Options};
use crate::connect::{self, CallError, Session};
use crate::failure::{Exit, usage};
use crate::jobspec::build::{self, Surroundings};
use crate::jobspec::options::JobOptions;
use crate::jobspec::sign;
use crate::output::{self, complain};
use crate::{ids, submission, users};
use protocol::job_ingest::SubmitResponse;
use std::io::Write as _;

/// Submit a job and stay with it: its output here, our input to it, its exit status ours
///
/// Output comes as it is written, standard input is forwarded, and the command ends when the job does. Ctrl-C asks first: a
/// second one within 2 seconds cancels the job. Closing the terminal leaves the job running; 'weir job attach' finds it again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir run -n4 hostname
  weir run -t 5 make test || echo failed
  sort -u names | weir run ./count | tee result

EXIT STATUS
  N    the job's: its exit code, or 128 + the signal that ended it
  1    refused, or the job ended without having run (canceled, no such resources)
  2    the command line is wrong
  75   the instance was shut down meanwhile; the job is there again at its next start
  130  ctrl-C a third time: the job is being canceled
  141  the reader of standard output went away; the job goes on")]
pub struct Args {
    #[command(flatten)]
    job: JobOptions,

    /// Print the job's id and its events on standard error
    #[arg(short, long, help_heading = "Submission")]
    verbose: bool,

    /// Say nothing about how the job ended
    #[arg(long, help_heading = "Submission")]
    quiet: bool,
}

/// Submits and attaches.
///
/// # Errors
/// A wrong option, no instance, a refusal; the job's status as [`Exit`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.job.parameterized {
        return Err(usage(
            "a parameterized job never runs: 'weir submit' makes it, 'weir dispatch' makes jobs from it",
        ));
    }
    let spec = build::build(&args.job, &Surroundings::current()?)?;
    if args.job.dry_run {
        let mut out = output::stdout();
        writeln!(out, "{}", serde_json::to_string(&spec)?)?;
        out.flush()?;
        return Ok(());
    }
    let document = sign::wrap(&spec.to_string(), users::me());
    let status = connect::block_on(async {
        let session = Session::open().await?;
        let answer = submission::send(&session, &document, None, &args.job)
            .await?
            .answer()
            .await;
        let SubmitResponse { id, .. } = match answer {
            Err(error @ CallError::Refused { .. }) => {
                anyhow::bail!("{}", submission::refusal_text(&args.job, &error))
            }
            answer => answer?,
        };
        if args.verbose {
            complain(&format!("submitted {}", ids::show(id)));
        }
        let options = Options {
            stdin: args.job.input.is_none(),
            label: args.job.label_io,
            events: args.verbose,
            interrupts: true,
            quiet: args.quiet,
            waiting: !args.quiet && output::stderr_is_terminal(),
        };
        attach::attach(session, id, options).await
    })?;
    if status == 0 {
        Ok(())
    } else {
        Err(Exit(status).into())
    }
}
