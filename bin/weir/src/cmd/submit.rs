//! `weir submit`: build a jobspec, hand it over, print the id. Many at once go out pipelined, ids come in order.

use crate::attach::{self, Options};
use crate::connect::{self, CallError, Pending, Session};
use crate::failure::{Exit, usage};
use crate::jobspec::build::{self, Surroundings};
use crate::jobspec::options::JobOptions;
use crate::jobspec::sign;
use crate::outcome::{self, Outcome};
use crate::output::{self, complain};
use crate::{ids, users};
use indicatif::{ProgressBar, ProgressStyle};
use job::JobId;
use job::idset::Idset;
use protocol::job_ingest::{SubmitRequest, SubmitResponse};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Write as _;

/// Submissions on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;
/// Jobs one command submits at most.
const JOBS_MAX: u64 = 1_000_000;
/// From this many jobs on a terminal gets a progress bar.
const PROGRESS_FROM: usize = 100;

/// Submit a job and print its id
///
/// The command is run when resources are free, with this environment and in this directory. Once the id is printed the job
/// is on disk: it survives a crash of anything. Its output is kept with it (see 'weir job attach') unless --output says
/// otherwise.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir submit -n4 ./solver input.dat            four tasks, one core each
  weir submit -t 30 --job-name=nightly make     thirty minutes at most
  weir submit --output=log.{{id}} ./run.sh      output to a file of its own
  weir submit --env='-*' --env=PATH env         almost no environment
  weir submit --cc=1-100 ./task.sh {cc}         a hundred jobs; WEIR_JOB_CC is their number
  weir submit --wait ./step1 && weir submit ./step2

ENVIRONMENT RULES (--env, in the order given)
  -PATTERN    removes variables       PATTERN     takes them from here again
  VAR=VALUE   sets one; $VAR works    ^FILE       rules from a file

EXIT STATUS
  0  every job was submitted (with --wait or --watch: and all succeeded)
  1  refused; nothing was submitted, or not all of --cc
  2  the command line is wrong
  N  with --wait or --watch: the highest status of the jobs, 128 + signal if one was killed")]
pub struct Args {
    #[command(flatten)]
    job: JobOptions,

    /// Submit a job for each number, e.g. 1-10; {cc} in the command is the number, so is $WEIR_JOB_CC
    #[arg(long, value_name = "IDSET", help_heading = "Submission")]
    cc: Option<Idset>,

    /// As --cc, without $WEIR_JOB_CC
    #[arg(
        long,
        value_name = "IDSET",
        conflicts_with = "cc",
        help_heading = "Submission"
    )]
    bcc: Option<Idset>,

    /// Wait until all have ended; the highest status is ours
    #[arg(long, help_heading = "Submission")]
    wait: bool,

    /// Show their output as it comes, then as --wait
    #[arg(long, help_heading = "Submission")]
    watch: bool,

    /// Do not print ids
    #[arg(long, help_heading = "Submission")]
    quiet: bool,
}

/// Submits.
///
/// # Errors
/// A wrong option, no instance, or a refusal.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let around = Surroundings::current()?;
    let copies = copies(args, &around)?;
    if args.job.dry_run {
        let mut out = output::stdout();
        for copy in &copies {
            writeln!(out, "{}", serde_json::to_string(copy)?)?;
        }
        out.flush()?;
        return Ok(());
    }
    let userid = users::me();
    let documents: Vec<String> = copies
        .iter()
        .map(|spec| sign::wrap(&spec.to_string(), userid))
        .collect();
    connect::block_on(async {
        let session = Session::open().await?;
        let (ids, refused) = submit_all(&session, args, &documents).await?;
        if args.watch {
            return watch(session, &ids, args.job.label_io, refused > 0).await;
        }
        let mut worst = u8::from(refused > 0);
        if args.wait {
            for outcome in outcome::wait_all(&session, &ids).await? {
                worst = worst.max(outcome.exit_status());
                say(&outcome);
            }
        }
        if worst == 0 {
            Ok(())
        } else {
            Err(Exit(worst).into())
        }
    })
}

fn say(outcome: &Outcome) {
    if let Some(reason) = outcome.reason() {
        complain(&format!("{}: {reason}", outcome.label()));
    }
}

async fn watch(session: Session, ids: &[JobId], label: bool, refused: bool) -> anyhow::Result<()> {
    let place = session.place().clone();
    let mut worst = u8::from(refused);
    let mut session = Some(session);
    for id in ids {
        let session = match session.take() {
            Some(session) => session,
            None => Session::open_at(&place).await?,
        };
        let options = Options {
            label,
            ..Options::default()
        };
        worst = worst.max(attach::attach(session, *id, options).await?);
    }
    if worst == 0 {
        Ok(())
    } else {
        Err(Exit(worst).into())
    }
}

/// Submits all documents; the ids of those taken, in order, and how many were refused.
async fn submit_all(
    session: &Session,
    args: &Args,
    documents: &[String],
) -> anyhow::Result<(Vec<JobId>, usize)> {
    let bar = progress(args, documents.len())?;
    let mut in_flight: VecDeque<Pending> = VecDeque::new();
    let mut ids = Vec::with_capacity(documents.len());
    let mut refusals: Vec<CallError> = Vec::new();
    let mut out = output::stdout();
    let mut next = documents.iter();
    loop {
        while in_flight.len() < IN_FLIGHT_MAX {
            let Some(document) = next.next() else { break };
            in_flight.push_back(send(session, document, &args.job).await?);
        }
        let Some(pending) = in_flight.pop_front() else {
            break;
        };
        match pending.answer::<SubmitResponse>().await {
            Ok(response) => {
                if !args.quiet {
                    writeln!(out, "{}", ids::show(response.id))?;
                    // Nobody waits for the id of a job that is there already.
                    if documents.len() == 1 || in_flight.is_empty() {
                        out.flush()?;
                    }
                }
                ids.push(response.id);
            }
            Err(error) if error.is_lost() => {
                out.flush()?;
                return Err(anyhow::Error::new(error).context(format!(
                    "{} of {} submitted",
                    ids.len(),
                    documents.len()
                )));
            }
            Err(error) => refusals.push(error),
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
    }
    out.flush()?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if let Some(first) = refusals.first() {
        if documents.len() == 1 {
            anyhow::bail!("{first}");
        }
        complain(&format!(
            "submit: {} of {} jobs were refused; the first: {first}",
            refusals.len(),
            documents.len()
        ));
    }
    Ok((ids, refusals.len()))
}

/// Sends one submission.
///
/// # Errors
/// The connection is gone.
pub async fn send(
    session: &Session,
    document: &str,
    options: &JobOptions,
) -> Result<Pending, CallError> {
    let request = SubmitRequest {
        j: Cow::Borrowed(document),
        urgency: i64::from(options.urgency.get()),
        flags: i64::from(options.flag_bits()),
    };
    session.start("job-ingest.submit", &request).await
}

fn progress(args: &Args, jobs: usize) -> anyhow::Result<Option<ProgressBar>> {
    if jobs < PROGRESS_FROM || args.quiet || !output::stderr_is_terminal() {
        return Ok(None);
    }
    let style = ProgressStyle::with_template(
        "{bar:40} {human_pos}/{human_len} jobs, {per_sec}, {eta} left",
    )?;
    Ok(Some(ProgressBar::new(jobs as u64).with_style(style)))
}

/// The jobspecs to submit: one, or one for each number of `--cc`.
fn copies(args: &Args, around: &Surroundings) -> anyhow::Result<Vec<Value>> {
    let Some(numbers) = args.cc.as_ref().or(args.bcc.as_ref()) else {
        return Ok(vec![build::build(&args.job, around)?]);
    };
    if numbers.is_empty() || numbers.count() > JOBS_MAX {
        return Err(usage(format!(
            "--cc: {} jobs; expected 1 to {JOBS_MAX}",
            numbers.count()
        )));
    }
    numbers
        .iter()
        .map(|number| {
            let text = number.to_string();
            let mut options = args.job.clone();
            let with_number =
                |text_with: &mut String| *text_with = text_with.replace("{cc}", &text);
            options.command.iter_mut().for_each(with_number);
            options.env.iter_mut().for_each(with_number);
            for option in [
                &mut options.job_name,
                &mut options.output,
                &mut options.error,
                &mut options.input,
                &mut options.cwd,
            ] {
                option.iter_mut().for_each(with_number);
            }
            let mut spec = build::build(&options, around)?;
            if args.cc.is_some()
                && let Some(Value::Object(environment)) =
                    spec.pointer_mut("/attributes/system/environment")
            {
                for name in ["WEIR_JOB_CC", "FLUX_JOB_CC"] {
                    environment.insert(name.to_owned(), Value::from(text.as_str()));
                }
            }
            Ok(spec)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn cc_makes_a_job_for_each_number() {
        let args = Line::try_parse_from([
            "x",
            "--cc=1-2,5",
            "--output=o.{cc}.{{id}}",
            "--env=-*",
            "echo",
            "{cc}",
            "a{cc}b",
        ])
        .unwrap()
        .args;
        let around = Surroundings {
            environment: Default::default(),
            cwd: "/".to_owned(),
            limits: Default::default(),
        };
        let specs = copies(&args, &around).unwrap();
        assert_eq!(specs.len(), 3);
        assert_eq!(
            specs[2]["tasks"][0]["command"],
            serde_json::json!(["echo", "5", "a5b"])
        );
        assert_eq!(
            specs[1]["attributes"]["system"]["environment"],
            serde_json::json!({"WEIR_JOB_CC": "2", "FLUX_JOB_CC": "2"})
        );
        assert_eq!(
            specs[0]["attributes"]["system"]["shell"]["options"]["output"]["stdout"]["path"],
            "o.1.{{id}}"
        );
    }

    #[test]
    fn too_many_jobs_are_refused_before_anything_is_built() {
        let args = Line::try_parse_from(["x", "--bcc=0-4000000000", "true"])
            .unwrap()
            .args;
        let around = Surroundings {
            environment: Default::default(),
            cwd: "/".to_owned(),
            limits: Default::default(),
        };
        assert!(
            copies(&args, &around)
                .unwrap_err()
                .to_string()
                .contains("expected 1 to 1000000")
        );
    }
}
