//! `weir job attach`: come back to a job, running or not.

use crate::attach::{self, Options};
use crate::connect::{self, Session};
use crate::failure::Exit;
use crate::ids;

/// Show a job's output from its start, follow it to its end, and return its status
///
/// A job that has not started is waited for; one that has ended gives its output at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job attach ƒCdza1gs
  weir job attach $(weir job last)

EXIT STATUS
  N    the job's: its exit code, or 128 + the signal that ended it
  1    no instance, no such job, or it ended without having run
  75   the instance was shut down meanwhile
  130  ctrl-C a third time
  141  the reader of standard output went away")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// Put the task's rank before each line
    #[arg(short, long)]
    label_io: bool,

    /// Show the job's events on standard error
    #[arg(short = 'E', long)]
    show_events: bool,

    /// Do not forward standard input
    #[arg(short, long)]
    read_only: bool,

    /// Say nothing about how the job ended
    #[arg(long)]
    quiet: bool,
}

/// Attaches.
///
/// # Errors
/// No such job, no instance; the job's status as [`Exit`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let options = Options {
        stdin: !args.read_only,
        label: args.label_io,
        events: args.show_events,
        interrupts: true,
        quiet: args.quiet,
        waiting: false,
    };
    let status =
        connect::block_on(async { attach::attach(Session::open().await?, id, options).await })?;
    if status == 0 {
        Ok(())
    } else {
        Err(Exit(status).into())
    }
}
