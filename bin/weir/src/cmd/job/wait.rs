//! `weir wait` and `weir job wait`: until jobs have ended, and how they did.

use crate::connect::{self, CallError, Session};
use crate::document;
use crate::failure::{Exit, usage};
use crate::ids::Problem;
use crate::limit::STATUS_TIMEOUT;
use crate::listing::{self, Question};
use crate::outcome::{self, Outcome};
use crate::output::{self, complain};
use crate::{ids, limit, outage, query, users, when};
use job::{JobId, State, StateSet};
use protocol::job_manager::WaitRequest;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;
use std::time::Duration;
use wire::errno;

/// Wait until jobs have ended; fail if one did not succeed, and say which and why
///
/// Any job can be waited for by its id, or with others by --queue, --name or --active. Without any of these one job that was
/// submitted with --flags=waitable is taken, the first to end; its result is then used up, so that the next call takes
/// another one. --all takes them until there are no more. Parameterized jobs, which have no end of their own, are waited for by id only.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir wait ƒCdza1gs 4712
  weir wait --active                      all your jobs that have not ended
  weir wait --queue=debug --json | jq '.failed[].reason'
  weir submit --flags=waitable ./step; weir wait --all

JSON
  {\"jobs\":[…],\"failed\":[{\"id\",\"f58\",\"name\",\"result\",\"returncode\",\"reason\"}…],
    \"errors\":[{\"id\",\"f58\",\"text\",\"errnum\",\"error\"}…]}
  One document, whatever happens; when --timeout passed, errors name those that have not ended.

EXIT STATUS
  0  all have ended and succeeded
  1  some did not succeed (each has its line), no such job, no job matches --queue or --name,
     no waitable job left, or no instance
  2  the command line is wrong
  75  the instance was shut down meanwhile
  124  --timeout passed first")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "name", "active", "all"])]
    ids: Vec<String>,

    /// All your jobs of these queues, those that have ended already too
    #[arg(short, long, value_name = "QUEUE", value_delimiter = ',')]
    queue: Vec<String>,

    /// All your jobs with these names, those that have ended already too
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,

    /// All your jobs that have not ended
    #[arg(long)]
    active: bool,

    /// With --queue or --name: of those that have ended, only those that did after this (-1h, 14:30 …)
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Every waitable job, until there are no more
    #[arg(short, long, conflicts_with_all = ["queue", "name", "active"])]
    all: bool,

    /// Longest time to wait
    #[arg(short, long, value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: Option<f64>,

    /// A line about jobs that succeeded, too
    #[arg(short, long)]
    verbose: bool,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Requests on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;
/// How long the last look may take, when the time to wait is over.
const LOOK_WITHIN: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
struct WaitAnswer {
    id: JobId,
}

/// Waits.
///
/// # Errors
/// A wrong id, no instance, or jobs that did not succeed.
pub fn run(args: &Args, command: &str) -> anyhow::Result<()> {
    let mut found = Found::default();
    if !args.ids.is_empty() {
        found.jobs = ids::parse_all(&args.ids)?;
    }
    let waited = connect::block_on(async {
        let waiting = wait(args, &mut found);
        let waited = limit::within(args.timeout, waiting, |after| {
            format!("{command}: not all have ended after {after}")
        })
        .await;
        let late = waited.as_ref().err().is_some_and(is_late);
        if late && args.json {
            found.look().await;
        }
        waited
    });
    let after = when::human(args.timeout.unwrap_or_default());
    match waited {
        // What is known is in the document all the same.
        Err(error) if args.json && is_late(&error) => {
            let late = found.jobs.iter().filter(|id| !found.has(**id));
            let problems = late.map(|id| Problem::of(*id, format!("has not ended after {after}")));
            let mut problems: Vec<Problem> = problems.collect();
            if problems.is_empty() {
                problems.push(Problem::of_all(
                    None,
                    format!("no waitable job has ended after {after}"),
                ));
            }
            document(&found.outcomes, problems)?;
            Err(Exit(STATUS_TIMEOUT).into())
        }
        Err(error) => Err(error),
        Ok(()) => show(args, command, &found.outcomes),
    }
}

fn is_late(error: &anyhow::Error) -> bool {
    let exit = error.downcast_ref::<Exit>();
    exit.is_some_and(|exit| exit.0 == STATUS_TIMEOUT)
}

/// The jobs that are waited for, and what became of them so far.
#[derive(Default)]
struct Found {
    jobs: Vec<JobId>,
    outcomes: Vec<Outcome>,
}

impl Found {
    fn has(&self, id: JobId) -> bool {
        self.outcomes.iter().any(|outcome| outcome.id() == id)
    }

    /// Those that have ended though an earlier one has not.
    async fn look(&mut self) {
        let left: Vec<JobId> = self
            .jobs
            .iter()
            .skip(self.outcomes.len())
            .copied()
            .collect();
        let rows = listing::by_id(&left, &outcome::ATTRIBUTES, false);
        let Ok(Ok((rows, None))) = tokio::time::timeout(LOOK_WITHIN, rows).await else {
            return;
        };
        let ended = rows
            .into_iter()
            .flatten()
            .filter(|row| row.state() == Some(State::Inactive));
        self.outcomes
            .extend(ended.map(|row| Outcome::Ended(Box::new(row))));
    }
}

async fn wait(args: &Args, found: &mut Found) -> anyhow::Result<()> {
    if !found.jobs.is_empty() {
        let session = Session::open().await?;
        outcome::wait_into(&session, &found.jobs, &mut found.outcomes).await?;
        return consume(&found.jobs).await;
    }
    if args.active || !args.queue.is_empty() || !args.name.is_empty() {
        return matching(args, found).await;
    }
    waitable(args, found).await
}

/// Takes the results of those that are waitable, so that a later wait for any does not give them again. The others have none to
/// take, and say so.
async fn consume(jobs: &[JobId]) -> anyhow::Result<()> {
    outage::patiently(async || {
        let session = Session::open().await?;
        for jobs in jobs.chunks(IN_FLIGHT_MAX) {
            let mut pending = Vec::with_capacity(jobs.len());
            for id in jobs {
                pending.push(
                    session
                        .start("job-manager.wait", &WaitRequest { id: *id })
                        .await?,
                );
            }
            for pending in pending {
                match pending.unit().await {
                    Err(error) if error.is_lost() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    })
    .await
}

async fn matching(args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let since = match &args.since {
        Some(text) => {
            when::instant(text, when::now()).map_err(|error| usage(format!("--since: {error}")))?
        }
        None => 0.0,
    };
    for name in args.name.iter().filter(|name| query::has_pattern(name)) {
        complain(&format!(
            "wait: --name={name}: there are no patterns, a name is compared whole"
        ));
    }
    let mut clauses = vec![json!({"userid": [users::me()]})];
    if !args.queue.is_empty() {
        clauses.push(json!({"queue": args.queue}));
    }
    if !args.name.is_empty() {
        clauses.push(json!({"name": args.name}));
    }
    let states = if args.active {
        StateSet::ACTIVE
    } else {
        StateSet::ANY
    };
    clauses.push(json!({"states": [states.0]}));
    let question = Question {
        max_entries: 0,
        attributes: vec!["state", "dependencies"],
        since,
        constraint: json!({"and": clauses}),
    };
    let mut answer = listing::ask(&question, true).await?;
    loop {
        let rows = answer.rows().await?;
        if rows.is_empty() {
            break;
        }
        // What is dispatched from has no end of its own.
        let rows = rows.iter().filter(|row| !row.is_parameterized());
        found.jobs.extend(rows.map(crate::row::Row::job_id));
    }
    // A name that is mistyped must not look like jobs that ended well.
    if found.jobs.is_empty() && !(args.queue.is_empty() && args.name.is_empty()) {
        anyhow::bail!("no job matches; 'weir jobs -a' lists yours");
    }
    outcome::wait_into(answer.session(), &found.jobs, &mut found.outcomes).await
}

async fn waitable(args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let session = Session::open().await?;
    loop {
        match session
            .call_patiently::<_, WaitAnswer>("job-manager.wait", &json!({"id": -1}))
            .await
        {
            Ok(answer) => found.jobs.push(answer.id),
            Err(CallError::Refused {
                errnum: errno::ECHILD,
                ..
            }) if args.all => break,
            Err(CallError::Refused {
                errnum: errno::ECHILD,
                ..
            }) => {
                anyhow::bail!(
                    "there are no more waitable jobs; name ids, or submit with --flags=waitable"
                )
            }
            Err(error) => return Err(error.into()),
        }
        if !args.all {
            break;
        }
    }
    outcome::wait_into(&session, &found.jobs, &mut found.outcomes).await
}

/// The document: what ended and how, and what is wrong with the others.
fn document(outcomes: &[Outcome], problems: Vec<Problem>) -> anyhow::Result<()> {
    let (mut jobs, mut failed, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome.json() {
            Ok(row) => {
                if !outcome.success() {
                    let reason = outcome.reason();
                    failed.push(
                        json!({"id": row.id, "f58": row.f58, "name": row.name, "result": row.result,
                                       "returncode": row.returncode, "reason": reason}),
                    );
                }
                jobs.push(row);
            }
            Err(error) => errors.push(error),
        }
    }
    errors.extend(problems);
    document::print(&json!({"jobs": jobs, "failed": failed, "errors": errors}))
}

fn show(args: &Args, command: &str, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let mut out = output::stdout();
    if args.json {
        document(outcomes, Vec::new())?;
    }
    for outcome in outcomes {
        match outcome.reason() {
            Some(reason) if matches!(outcome, Outcome::Unknown(..)) => {
                complain(&format!("{command}: {reason}"))
            }
            Some(reason) => complain(&format!("{command}: {}: {reason}", outcome.label())),
            None if args.verbose && !args.json => writeln!(out, "{}: completed", outcome.label())?,
            None => {}
        }
    }
    out.flush()?;
    if outcomes.iter().all(Outcome::success) {
        Ok(())
    } else {
        Err(Exit(1).into())
    }
}
