//! `weir job purge`: forget jobs that have ended. Without a limit, ids or --all it forgets nothing and says so.

use crate::connect::{self, CallError, Session};
use crate::failure::{Exit, usage};
use crate::outcome::ListIdResponse;
use crate::output::{self, complain};
use crate::{each, ids, when};
use job::JobId;
use serde::Deserialize;
use serde_json::json;
use std::io::Write as _;
use wire::errno;

/// Jobs removed by one request.
const BATCH: u64 = 50;
/// What a limit that is not given is in the request.
const NO_LIMIT: f64 = -1.0;

/// Forget jobs that have ended: their eventlogs, jobspecs and output
///
/// Says how many there are; with --force they are removed. Which ones must be said: by id, by --age-limit, by --num-limit or
/// with --all. Jobs that have not ended are never removed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job purge --age-limit=30d             how many ended more than 30 days ago?
  weir job purge --age-limit=30d --force     remove them
  weir job purge --num-limit=1000 --force    keep the newest thousand
  weir job purge --force ƒCdza1gs
  weir job purge --all --force

EXIT STATUS
  0  removed, or counted
  1  no instance, a job that has not ended, or no such job
  2  the command line is wrong, or does not say which jobs")]
pub struct Args {
    /// Jobs, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", conflicts_with_all = ["all", "age_limit", "num_limit"])]
    ids: Vec<String>,

    /// All that have ended
    #[arg(long, conflicts_with_all = ["age_limit", "num_limit"])]
    all: bool,

    /// Those that ended longer ago than this
    #[arg(long, value_name = "FSD", value_parser = when::finite)]
    age_limit: Option<f64>,

    /// The oldest, so that this many remain
    #[arg(long, value_name = "N")]
    num_limit: Option<u64>,

    /// Remove them, do not only count
    #[arg(short, long)]
    force: bool,
}

#[derive(Deserialize)]
struct Count {
    count: u64,
}

/// Purges.
///
/// # Errors
/// Nothing says which jobs, no instance, or a job that cannot be removed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.ids.is_empty() && !args.all && args.age_limit.is_none() && args.num_limit.is_none() {
        return Err(usage(
            "nothing says which jobs: give ids, --age-limit=FSD, --num-limit=N, or --all for all that have ended; nothing was removed",
        ));
    }
    let jobs = if args.ids.is_empty() {
        Vec::new()
    } else {
        ids::parse_all(&args.ids)?
    };
    connect::block_on(async {
        let session = Session::open().await?;
        if jobs.is_empty() {
            by_limit(args, &session).await
        } else {
            by_id(args, &session, &jobs).await
        }
    })
}

async fn by_limit(args: &Args, session: &Session) -> anyhow::Result<()> {
    let num_limit = if args.all {
        0
    } else {
        args.num_limit
            .map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
    };
    let request = json!({"age_limit": args.age_limit.unwrap_or(NO_LIMIT), "num_limit": num_limit, "batch": BATCH, "force": args.force});
    let mut total = 0;
    loop {
        let Count { count } = session.call("job-manager.purge", &request).await?;
        total += count;
        if !args.force || count < BATCH {
            break;
        }
    }
    say(args.force, total)
}

fn say(force: bool, count: u64) -> anyhow::Result<()> {
    let mut out = output::stdout();
    let jobs = if count == 1 { "job" } else { "jobs" };
    if force {
        writeln!(out, "removed {count} {jobs}")?;
    } else {
        writeln!(out, "{count} {jobs} would be removed; add --force to do it")?;
    }
    out.flush()?;
    Ok(())
}

async fn by_id(args: &Args, session: &Session, jobs: &[JobId]) -> anyhow::Result<()> {
    let (mut count, mut failed) = (0, false);
    for id in jobs {
        match session
            .call_unit(
                "job-manager.purge-id",
                &json!({"id": id, "force": i32::from(args.force)}),
            )
            .await
        {
            Ok(()) => count += 1,
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(error) => {
                failed = true;
                let line = match &error {
                    CallError::Refused {
                        errnum: errno::EINVAL,
                        ..
                    } => match state(session, *id).await? {
                        Some(state) => format!(
                            "{}: it is in state {state} and has not ended; 'weir cancel' first",
                            ids::show(*id)
                        ),
                        None => each::refusal(*id, &error),
                    },
                    _ => each::refusal(*id, &error),
                };
                complain(&format!("job purge: {line}"));
            }
        }
    }
    say(args.force, count)?;
    if failed { Err(Exit(1).into()) } else { Ok(()) }
}

async fn state(session: &Session, id: JobId) -> anyhow::Result<Option<&'static str>> {
    match session
        .call::<_, ListIdResponse>("job-list.list-id", &json!({"id": id, "attrs": ["state"]}))
        .await
    {
        Ok(response) => Ok(response.job.state().map(job::State::long)),
        Err(CallError::Refused { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
