//! `weir cancel`: a fatal exception of type `cancel` for each job named, or for all that match.
//!
//! `--all` is one request. `--query` asks the listing which jobs there are and cancels those, many requests on their way at a time; what
//! has ended meanwhile is passed over.

use crate::connect::{self, CallError, Session};
use crate::document;
use crate::failure::{self, Exit, usage};
use crate::listing::{self, Question};
use crate::output::{self, complain};
use crate::{each, ids, query, users, when};
use job::{JobId, StateSet};
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
  weir cancel --query 'pending and name:make'
  weir cancel --query 't_submit:<-7d' --user all --dry-run
  weir cancel --query name:make --ids | weir wait -

QUERIES (--query)
  As 'weir jobs --filter', see there; of your active jobs, or those of --user. Those are canceled
  that meet it now; one that has ended meanwhile is passed over. Without a condition that the list
  must know, --all is one request and faster.

EXIT STATUS
  0  every job named was canceled (with --all, --query: also when there was none)
  1  no instance, or some jobs could not be canceled; each has its line
  2  the command line is wrong")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", required_unless_present_any = ["all", "query"])]
    ids: Vec<String>,

    /// All active jobs of yours (see --user, --states)
    #[arg(long, conflicts_with = "ids", group = "many")]
    all: bool,

    /// The active jobs of yours that meet this, e.g. 'pending and name:make'
    #[arg(long, value_name = "QUERY", conflicts_with_all = ["ids", "all"], group = "many")]
    query: Option<String>,

    /// With --all or --query: jobs of this user, by name or number; 'all' is everybody
    #[arg(short, long, value_name = "USER", requires = "many")]
    user: Option<String>,

    /// With --all or --query: jobs in these states, joined by commas
    #[arg(
        short = 'S',
        long,
        value_name = "STATES",
        value_delimiter = ',',
        requires = "many"
    )]
    states: Vec<String>,

    /// With --all or --query: only say how many there are
    #[arg(short = 'n', long, requires = "many")]
    dry_run: bool,

    /// With --query: print the ids of those that are canceled, or would be
    #[arg(long = "ids", requires = "query", conflicts_with_all = ["quiet", "json"])]
    print_ids: bool,

    /// One JSON document: {"count":N,"canceled":N,"dry_run":B,"jobs":[{"id","f58"}…],"errors":[…]}; with --all jobs is empty
    #[arg(long)]
    pub(crate) json: bool,

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
    if let Some(text) = &args.query {
        return matching(args, text);
    }
    let jobs = ids::parse_all(&args.ids)?;
    connect::block_on(async {
        let session = Session::open().await?;
        let (topic, request) = ("job-manager.raise", |id| request(args, id));
        if !args.json {
            return each::job(&session, "cancel", topic, &jobs, request).await;
        }
        let (done, errors) = each::sorted(&session, "cancel", topic, &jobs, request).await?;
        let (count, canceled) = (jobs.len(), done.len());
        document::print(
            &json!({"count": count, "canceled": canceled, "dry_run": false, "jobs": done, "errors": errors}),
        )?;
        ids::conclude(&errors)
    })
}

fn request(args: &Args, id: JobId) -> Value {
    let mut request = json!({"id": id, "severity": 0, "type": "cancel"});
    if let (Some(note), Value::Object(map)) = (&args.message, &mut request) {
        map.insert("note".to_owned(), json!(note));
    }
    request
}

/// Whose jobs.
fn userid(args: &Args) -> anyhow::Result<u32> {
    Ok(match args.user.as_deref() {
        None => users::me(),
        Some("all") => USERID_ALL,
        Some(user) => users::uid(user)?,
    })
}

/// In which states.
fn states(args: &Args) -> anyhow::Result<StateSet> {
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
    Ok(StateSet(states.0 & StateSet::ACTIVE.0))
}

fn matching(args: &Args, text: &str) -> anyhow::Result<()> {
    let mut clauses = vec![json!({"states": [states(args)?.0]})];
    let userid = userid(args)?;
    if userid != USERID_ALL {
        clauses.push(json!({"userid": [userid]}));
    }
    clauses.push(query::parse(text, when::now())?.constraint);
    let constraint = json!({"and": clauses});
    if query::is_impossible(&constraint) {
        complain(&format!("cancel: no active job can be all of '{text}'"));
    }
    let question = Question {
        max_entries: 0,
        attributes: vec!["state"],
        since: 0.0,
        constraint,
    };
    let (jobs, count) = connect::block_on(async {
        let mut answer = listing::ask(&question, true).await?;
        let mut jobs: Vec<JobId> = Vec::new();
        loop {
            let rows = answer.rows().await?;
            if rows.is_empty() {
                break;
            }
            jobs.extend(rows.iter().map(crate::row::Row::job_id));
        }
        let count = if args.dry_run {
            each::Count {
                done: jobs.len(),
                ..each::Count::default()
            }
        } else {
            let session = answer.session();
            let request = |id| request(args, id);
            each::counted(
                session,
                "cancel",
                "job-manager.raise",
                &jobs,
                request,
                has_ended,
            )
            .await?
        };
        anyhow::Ok((jobs, count))
    })?;
    if args.print_ids {
        let mut out = output::stdout();
        for id in &jobs {
            writeln!(out, "{}", ids::show(*id))?;
        }
        out.flush()?;
    } else if args.json {
        let errors = if count.refused > 0 {
            vec![ids::Problem::of_all(
                None,
                format!(
                    "{} of {} jobs could not be canceled",
                    count.refused,
                    jobs.len()
                ),
            )]
        } else {
            Vec::new()
        };
        show_json(args, &jobs, jobs.len() as u64, count.done as u64, &errors)?;
    } else {
        show(args, count.done as u64)?;
    }
    if count.refused > 0 {
        return Err(Exit(1).into());
    }
    Ok(())
}

/// It ended, and was perhaps purged, between the listing and this.
fn has_ended(error: &CallError) -> bool {
    matches!(error, CallError::Refused { errnum, text, .. }
        if text.as_deref() == Some("job is inactive") || each::is_unknown(*errnum, text.as_deref()))
}

fn all(args: &Args) -> anyhow::Result<()> {
    let request = RaiseallRequest {
        dry_run: args.dry_run,
        userid: userid(args)?,
        states: states(args)?.0,
        severity: 0,
        kind: Cow::Borrowed("cancel"),
        note: args.message.as_deref().map(Cow::Borrowed),
    };
    let answer: AllResponse = connect::block_on(async {
        let session = Session::open().await?;
        anyhow::Ok(session.call("job-manager.raiseall", &request).await?)
    })?;
    let failed = (answer.errors > 0).then(|| {
        anyhow::anyhow!(
            "{} of {} jobs could not be canceled",
            answer.errors,
            answer.count
        )
    });
    if args.json {
        let errors: Vec<ids::Problem> = failed
            .iter()
            .map(|error| ids::Problem::of_all(None, failure::text(error)))
            .collect();
        let done = answer.count.saturating_sub(answer.errors);
        show_json(args, &[], answer.count, done, &errors)?;
    } else {
        show(args, answer.count)?;
    }
    failed.map_or(Ok(()), Err)
}

fn show(args: &Args, count: u64) -> anyhow::Result<()> {
    if args.quiet {
        return Ok(());
    }
    let mut out = output::stdout();
    let verb = if args.dry_run {
        "would be canceled"
    } else {
        "canceled"
    };
    let jobs = if count == 1 { "job" } else { "jobs" };
    writeln!(out, "{count} {jobs} {verb}")?;
    out.flush()?;
    Ok(())
}

fn show_json(
    args: &Args,
    jobs: &[JobId],
    count: u64,
    done: u64,
    errors: &[ids::Problem],
) -> anyhow::Result<()> {
    let done = if args.dry_run { 0 } else { done };
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|id| json!({"id": id, "f58": id.to_string()}))
        .collect();
    document::print(
        &json!({"count": count, "canceled": done, "dry_run": args.dry_run, "jobs": jobs, "errors": errors}),
    )
}
