//! `weir job purge`: jobs that ended are forgotten, with their output. Shows first; `--force` does it.

use crate::connect::{self, CallError, Session};
use crate::document;
use crate::failure::{Exit, usage};
use crate::ids::Problem;
use crate::output::{self, complain};
use crate::{each, ids, when};
use indicatif::{ProgressBar, ProgressStyle};
use job::JobId;
use protocol::job_manager::{PurgeIdRequest, PurgeRequest, PurgeResponse};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::Write as _;
use wire::errno;

/// Jobs of one request; the instance takes no more.
const BATCH: usize = 100;
/// So many ids are named when it is only shown what would go.
const SHOWN_MAX: usize = 10;
/// From this many jobs on a terminal gets a progress bar.
const PROGRESS_FROM: u64 = 1000;

/// Forget jobs that have ended, with all that is kept of them
///
/// Says what would go; with --force it goes: events, jobspec and output, for good. Files that jobs wrote elsewhere stay. Jobs
/// that have not ended are never touched. Those that ended first go first, a hundred at a time, so that nobody has to wait for
/// a purge of very many; it may be interrupted and given again.
///
/// A job whose result is still to be waited for (submitted with --flags=waitable) stays, unless it is named or --all is given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job purge --age-limit=30d                 what ended more than thirty days ago
  weir job purge --age-limit=30d --force
  weir job purge --num-limit=1000 --force        all but the thousand that ended last
  weir job purge --all --force                   all that ended
  weir job purge --force ƒCdza1gs ƒCdza1gt
  weir jobs -n -o '{id}' -f failed | weir job purge --force -

'weir start --inactive-age-limit, --inactive-num-limit' let the instance do it by itself.

EXIT STATUS
  0  they are gone; without --force: it was shown what would go
  1  no instance, or some of the jobs named have not ended or are not there: each has its line,
     the others went
  2  the command line is wrong, or does not say which jobs")]
pub struct Args {
    /// Jobs in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", conflicts_with_all = ["age_limit", "num_limit", "all"])]
    ids: Vec<String>,

    /// Jobs that ended longer ago than this (30d, 12h, 90m; seconds if there is no unit)
    #[arg(long, value_name = "FSD", value_parser = when::finite)]
    age_limit: Option<f64>,

    /// All but the N jobs that ended last
    #[arg(long, value_name = "N")]
    num_limit: Option<u32>,

    /// All jobs that have ended
    #[arg(long, conflicts_with_all = ["age_limit", "num_limit"])]
    all: bool,

    /// Do it
    #[arg(long)]
    force: bool,

    /// One JSON document: {"force","count","jobs":[{"id","f58"}…],"errors":[…],"inactive","seq"}; without
    /// --force 'jobs' are the first hundred
    #[arg(long)]
    pub(crate) json: bool,
}

impl Args {
    fn request(&self) -> PurgeRequest {
        PurgeRequest {
            age_limit: self.age_limit.unwrap_or(-1.0),
            // What an instance of Flux, which does not know of `all`, takes for it.
            num_limit: match self.num_limit {
                Some(num) => i64::from(num),
                None if self.all => 0,
                None => -1,
            },
            batch: BATCH as i64,
            force: self.force,
            jobs: None,
            all: self.all,
        }
    }
}

/// What went, or would go.
#[derive(Default)]
struct Purged {
    count: u64,
    jobs: Vec<JobId>,
    errors: Vec<(JobId, u32, Cow<'static, str>)>,
    seq: u64,
    /// Jobs that ended and are there now.
    inactive: u64,
}

impl Purged {
    fn take(&mut self, answer: PurgeResponse<'_>) {
        self.count += answer.count;
        self.jobs.extend_from_slice(&answer.jobs);
        self.errors.extend(answer.errors.into_owned());
        self.seq = self.seq.max(answer.seq);
    }
}

/// The part of `job-manager.stats-get` that is looked at.
#[derive(Deserialize)]
struct Stats {
    inactive_jobs: u64,
}

/// Purges, or shows what would go.
///
/// # Errors
/// It is not said which jobs; no instance; or jobs that cannot be purged.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let limited = args.all || args.age_limit.is_some() || args.num_limit.is_some();
    if args.ids.is_empty() && !limited {
        return Err(usage(
            "which jobs? Give --age-limit=FSD, --num-limit=N, --all, or the ids of jobs that ended",
        ));
    }
    let named = if args.ids.is_empty() {
        Vec::new()
    } else {
        ids::parse_all(&args.ids)?
    };
    let purged = connect::block_on(async {
        let session = Session::open().await?;
        let mut purged = Purged::default();
        let done = if limited {
            beyond_limits(&session, args, &mut purged).await
        } else {
            these(&session, args, &named, &mut purged).await
        };
        if let Err(error) = done {
            if args.force && purged.count > 0 {
                complain(&format!(
                    "job purge: {} went before this",
                    jobs(purged.count)
                ));
            }
            return Err(error);
        }
        let stats: Stats = session.call("job-manager.stats-get", &json!({})).await?;
        purged.inactive = stats.inactive_jobs;
        anyhow::Ok(purged)
    })?;
    show(args, &purged)
}

async fn ask(
    session: &Session,
    request: &PurgeRequest,
) -> Result<PurgeResponse<'static>, CallError> {
    session.call("job-manager.purge", request).await
}

/// Those beyond the limits, until there are no more.
async fn beyond_limits(session: &Session, args: &Args, purged: &mut Purged) -> anyhow::Result<()> {
    let mut request = args.request();
    if !args.force {
        purged.take(ask(session, &request).await?);
        return Ok(());
    }
    let bar = if output::stderr_is_terminal() {
        request.force = false;
        let total = ask(session, &request).await?.count;
        request.force = true;
        (total >= PROGRESS_FROM)
            .then(|| progress(total))
            .transpose()?
    } else {
        None
    };
    loop {
        let answer = ask(session, &request).await?;
        let count = answer.count;
        purged.take(answer);
        if let Some(bar) = &bar {
            bar.inc(count);
        }
        if count < BATCH as u64 {
            break;
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(())
}

fn progress(total: u64) -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("purging {wide_bar} {pos}/{len} {eta}")?;
    Ok(ProgressBar::new(total).with_style(style))
}

/// The jobs that were named.
async fn these(
    session: &Session,
    args: &Args,
    named: &[JobId],
    purged: &mut Purged,
) -> anyhow::Result<()> {
    for some in named.chunks(BATCH) {
        let request = PurgeRequest {
            jobs: Some(some.to_vec()),
            ..args.request()
        };
        let answer = ask(session, &request).await?;
        if answer.jobs.is_empty() && answer.errors.is_empty() {
            // An instance of Flux itself: one request each.
            for id in some {
                one(session, *id, args.force, purged).await?;
            }
        } else {
            purged.take(answer);
        }
    }
    Ok(())
}

async fn one(session: &Session, id: JobId, force: bool, purged: &mut Purged) -> anyhow::Result<()> {
    let request = PurgeIdRequest {
        id,
        force: i64::from(force),
    };
    match session
        .call::<_, PurgeResponse<'static>>("job-manager.purge-id", &request)
        .await
    {
        Ok(answer) => {
            purged.count += answer.count;
            purged.jobs.push(id);
        }
        Err(CallError::Refused { errnum, text, .. }) => {
            let text = text.unwrap_or_else(|| errno::text(errnum).to_owned());
            purged.errors.push((id, errnum, text.into()));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

fn show(args: &Args, purged: &Purged) -> anyhow::Result<()> {
    let named = |id: &JobId| json!({"id": id, "f58": id.to_string()});
    let mut errors = Vec::new();
    for (id, errnum, text) in &purged.errors {
        errors.push(Problem::refused(*id, *errnum, text.to_string()));
        let line = if each::is_unknown(*errnum, Some(text)) {
            ids::unknown(*id)
        } else {
            format!("{}: {text}; 'weir cancel' ends it", ids::show(*id))
        };
        complain(&format!("job purge: {line}"));
    }
    let mut out = output::stdout();
    if args.json {
        let jobs: Vec<Value> = purged.jobs.iter().map(named).collect();
        document::print(
            &json!({"force": args.force, "count": purged.count, "jobs": jobs, "errors": errors,
                    "inactive": purged.inactive, "seq": purged.seq}),
        )?;
    } else if args.force {
        if purged.count > 0 || errors.is_empty() {
            let left = match purged.inactive {
                0 => "no ended jobs are left".to_owned(),
                1 => "1 ended job is left".to_owned(),
                left => format!("{left} ended jobs are left"),
            };
            writeln!(out, "purged {}; {left}", jobs(purged.count))?;
        }
    } else if purged.count > 0 {
        let shown: Vec<String> = purged
            .jobs
            .iter()
            .take(SHOWN_MAX)
            .map(|id| ids::show(*id))
            .collect();
        let more = if purged.count > shown.len() as u64 {
            " …"
        } else {
            ""
        };
        writeln!(
            out,
            "{} of {} that ended would be purged: {}{more}\n--force does it",
            purged.count,
            jobs(purged.inactive),
            shown.join(" ")
        )?;
    } else if errors.is_empty() {
        writeln!(
            out,
            "none of {} that ended would be purged",
            jobs(purged.inactive)
        )?;
    }
    out.flush()?;
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Exit(1).into())
    }
}

fn jobs(count: u64) -> String {
    format!("{count} job{}", if count == 1 { "" } else { "s" })
}
