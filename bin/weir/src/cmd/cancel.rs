//! `weir cancel`: a fatal exception of type `cancel` for each job named, or for all that match.

use crate::connect::{self, Session};
use crate::failure::usage;
use crate::output;
use crate::{each, ids, users};
use job::StateSet;
use protocol::job_manager::{AllResponse, RaiseallRequest, USERID_ALL};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::Write as _;

/// Cancel jobs
///
/// Pending jobs end at once; running ones get SIGTERM, and SIGKILL if they do not go. The command does not wait for that:
/// 'weir wait ID' does.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir cancel ƒCdza1gs
  weir cancel -m 'wrong input' 4711 4712
  weir cancel --all                      all your active jobs
  weir cancel --all --states pending     those that have not started
  weir jobs -n -o '{id}' -f name:make | weir cancel -

EXIT STATUS
  0  every job named was canceled (with --all: also when there was none)
  1  no instance, or some jobs could not be canceled; each has its line
  2  the command line is wrong")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", required_unless_present = "all")]
    ids: Vec<String>,

    /// All active jobs of yours (see --user, --states)
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// With --all: jobs of this user, by name or number; 'all' is everybody
    #[arg(short, long, value_name = "USER", requires = "all")]
    user: Option<String>,

    /// With --all: jobs in these states, joined by commas
    #[arg(
        short = 'S',
        long,
        value_name = "STATES",
        value_delimiter = ',',
        requires = "all"
    )]
    states: Vec<String>,

    /// With --all: only say how many there are
    #[arg(short = 'n', long, requires = "all")]
    dry_run: bool,

    /// Why; kept with the job
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,

    /// Do not say how many were canceled
    #[arg(long)]
    quiet: bool,
}

/// Cancels.
///
/// # Errors
/// A wrong option, no instance, or jobs that cannot be canceled.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.all {
        return all(args);
    }
    let jobs = ids::parse_all(&args.ids)?;
    connect::block_on(async {
        let session = Session::open().await?;
        each::job(&session, "cancel", "job-manager.raise", &jobs, |id| {
            let mut request = json!({"id": id, "severity": 0, "type": "cancel"});
            if let (Some(note), Value::Object(map)) = (&args.message, &mut request) {
                map.insert("note".to_owned(), json!(note));
            }
            request
        })
        .await
    })
}

fn all(args: &Args) -> anyhow::Result<()> {
    let userid = match args.user.as_deref() {
        None => users::me(),
        Some("all") => USERID_ALL,
        Some(user) => users::uid(user)?,
    };
    let mut states = StateSet::EMPTY;
    for word in &args.states {
        states = states
            | word
                .parse::<StateSet>()
                .map_err(|error| usage(format!("--states: {error}")))?;
    }
    if states.is_empty() {
        states = StateSet::ACTIVE;
    }
    let request = RaiseallRequest {
        dry_run: args.dry_run,
        userid,
        states: states.0 & StateSet::ACTIVE.0,
        severity: 0,
        kind: Cow::Borrowed("cancel"),
        note: args.message.as_deref().map(Cow::Borrowed),
    };
    let answer: AllResponse = connect::block_on(async {
        let session = Session::open().await?;
        anyhow::Ok(session.call("job-manager.raiseall", &request).await?)
    })?;
    if !args.quiet {
        let mut out = output::stdout();
        let verb = if args.dry_run {
            "would be canceled"
        } else {
            "canceled"
        };
        writeln!(
            out,
            "{} {} {verb}",
            answer.count,
            if answer.count == 1 { "job" } else { "jobs" }
        )?;
        out.flush()?;
    }
    if answer.errors > 0 {
        anyhow::bail!(
            "{} of {} jobs could not be canceled",
            answer.errors,
            answer.count
        );
    }
    Ok(())
}
