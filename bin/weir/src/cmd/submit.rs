//! `weir submit`: build a jobspec, hand it over, print the id. Many at once go out pipelined, ids come in order.

use crate::bar::{self, Bar};
use crate::connect::{self, Session};
use crate::document;
use crate::failure::{self, Exit, usage};
use crate::jobspec::build::{self, Surroundings};
use crate::jobspec::options::JobOptions;
use crate::jobspec::sign;
use crate::outcome;
use crate::output::{self, complain};
use crate::submission::{self, JOBS_MAX, Jobs, Refusal, for_each_text};
use crate::{ids, users};
use job::JobId;
use job::idset::Idset;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::Write as _;

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
  weir submit --type=sysbatch -c1 ./update-caches     once on every node
  weir submit --key=nightly-2026-11-30 ./backup          once, however often this is typed

KINDS
  --type=sysbatch       one task on every node that is up and not drained when the job is granted;
                        one that fails, or whose node dies, does not end the others
  --parameterized       stays pending until it is canceled; 'weir dispatch ID' makes jobs from it,
                        with values for the keys of --meta-required and --meta-optional, which
                        their tasks find as $WEIR_META_KEY

KEYS
  The first submission under a key makes the job; each one after it prints the id of that job and
  makes none, for as long as the job is not purged: also when the first answer was lost, and after
  a restart of anything. So a script may simply submit again. Keys are each user's own. Compared
  are the command, its directory and its options, but not the environment, limits (ulimit),
  urgency and flags; another one is refused. 'weir info ID' shows a job's key.

ENVIRONMENT RULES (--env, in the order given)
  -PATTERN    removes variables       PATTERN     takes them from here again
  VAR=VALUE   sets one; $VAR works    ^FILE       rules from a file

JSON (--json: a line for each job, in order, those refused among them)
  {\"id\":N|null,\"f58\":…|null,\"seq\":N|null,\"known\":bool|null,\"errnum\":N|null,\"error\":…|null}
  known: it was there already, under this key. When nothing can be submitted, one line says why.

EXIT STATUS
  0  every job was submitted, or known (with --wait or --watch: and all succeeded)
  1  refused; nothing was submitted, or not all of --cc
  2  the command line is wrong
  N  with --wait or --watch: the highest status of the jobs, 128 + signal if one was killed
  75 likewise: the instance was shut down meanwhile")]
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

    /// Submit once: the same key gives the same job. With --cc it must hold {cc}
    #[arg(long, value_name = "KEY", value_parser = submission::key, help_heading = "Submission")]
    key: Option<String>,

    /// Print a JSON document for each job instead of its id
    #[arg(long, conflicts_with = "quiet", help_heading = "Submission")]
    json: bool,

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
    let done = submit(args);
    if let (true, Err(error)) = (args.json, &done)
        && error.downcast_ref::<Exit>().is_none()
        && !failure::is_broken_pipe(error)
    {
        let text = failure::text(error);
        let mut out = output::stdout();
        writeln!(out, "{}", unsubmitted(document::errnum(error), &text))?;
        out.flush()?;
    }
    done
}

fn submit(args: &Args) -> anyhow::Result<()> {
    // Nobody is there to end its input: a job that reads until the end would never see it.
    let around = Surroundings {
        input: Some("/dev/null".to_owned()),
        ..Surroundings::current()?
    };
    let copies = Copies::new(args, &around)?;
    if copies.count() > 1 {
        warn_shared(&args.job);
    }
    if args.job.dry_run {
        let mut out = output::stdout();
        for at in 0..copies.count() {
            writeln!(out, "{}", serde_json::to_string(&copies.spec(at)?)?)?;
        }
        out.flush()?;
        return Ok(());
    }
    if args.job.parameterized && (args.wait || args.watch) {
        return Err(usage(
            "--parameterized: such a job never ends by itself; wait for those that are dispatched from it",
        ));
    }
    connect::block_on(async {
        let mut session = Session::open().await?;
        let (ids, refused) = submit_all(&mut session, args, &copies).await?;
        let mut worst = u8::from(refused > 0);
        if args.watch {
            return submission::watch(session, ids, args.job.label_io, worst).await;
        }
        if args.wait {
            for outcome in outcome::wait_all(&session, &ids).await? {
                worst = worst.max(outcome.exit_status());
                submission::say(&outcome);
            }
        }
        submission::ended(worst)
    })
}

/// Many jobs that write to one file overwrite each other's output.
fn warn_shared(options: &JobOptions) {
    for (option, path) in [("--output", &options.output), ("--error", &options.error)] {
        if let Some(path) = path.as_deref().filter(|path| is_shared(path)) {
            complain(&format!(
                "submit: all jobs write to the same file {path}; {{cc}} or {{{{id}}}} in {option} gives each its own"
            ));
        }
    }
}

fn is_shared(path: &str) -> bool {
    !matches!(path, "none" | "kvs")
        && !path.starts_with("/dev/")
        && ![BLANK, "{{id", "{{jobid"]
            .iter()
            .any(|blank| path.contains(blank))
}

/// Submits all documents; the ids of those taken, in order, and how many were refused.
async fn submit_all(
    session: &mut Session,
    args: &Args,
    copies: &Copies<'_>,
) -> anyhow::Result<(Vec<JobId>, usize)> {
    let bar = if args.quiet {
        Bar::none()
    } else {
        Bar::over(copies.count(), "jobs", bar::PIECES_FROM)
    };
    let mut ids = Vec::with_capacity(copies.count());
    let mut refused = 0;
    let mut first: Option<Refusal> = None;
    let mut out = output::stdout();
    let done = submission::submit_all(session, copies, &bar, |told| {
        match told.answer {
            Ok(response) => {
                if args.json {
                    let id = response.id;
                    let line = json!({"id": id, "f58": id.to_string(), "seq": response.seq, "known": response.known,
                                      "errnum": null, "error": null});
                    writeln!(out, "{line}")?;
                } else if !args.quiet {
                    writeln!(out, "{}", ids::show(response.id))?;
                }
                // Nobody waits for the id of a job that is there already.
                if told.flush && !args.quiet {
                    bar.aside(|| out.flush())?;
                }
                ids.push(response.id);
            }
            Err(refusal) => {
                if args.json {
                    writeln!(out, "{}", unsubmitted(refusal.errnum, &refusal.text))?;
                }
                refused += 1;
                first.get_or_insert(refusal);
            }
        }
        Ok(())
    })
    .await;
    drop(bar);
    out.flush()?;
    done?;
    if let Some(first) = first {
        let first = first.text;
        if copies.count() == 1 {
            complain(&format!("submit: {first}"));
            return Err(Exit(1).into());
        }
        complain(&format!(
            "submit: {refused} of {} jobs were refused; the first: {first}",
            copies.count()
        ));
    }
    Ok((ids, refused))
}

/// The line of a job that was not submitted.
fn unsubmitted(errnum: Option<u32>, text: &str) -> Value {
    json!({"id": null, "f58": null, "seq": null, "known": null, "errnum": errnum, "error": text})
}

/// What is to be submitted: one job, or one for each number of `--cc`; each is made when its turn comes.
struct Copies<'a> {
    args: &'a Args,
    around: &'a Surroundings,
    userid: u32,
    /// The jobspec with nothing filled in; also the proof that the options make sense.
    base: Value,
    /// Empty for a single job.
    numbers: Vec<u32>,
    /// Some text of the options holds `{cc}`.
    has_blanks: bool,
    /// What is submitted each time, if that is always the same.
    same: Option<String>,
}

impl<'a> Copies<'a> {
    fn new(args: &'a Args, around: &'a Surroundings) -> anyhow::Result<Self> {
        let numbers: Vec<u32> = match args.cc.as_ref().or(args.bcc.as_ref()) {
            None => Vec::new(),
            Some(numbers) if numbers.is_empty() || numbers.count() > JOBS_MAX => {
                let count = numbers.count();
                return Err(usage(format!(
                    "--cc: {count} jobs; expected 1 to {JOBS_MAX}"
                )));
            }
            Some(numbers) => numbers.iter().collect(),
        };
        if args.key.as_ref().is_some_and(|key| !key.contains(BLANK)) && numbers.len() > 1 {
            return Err(usage(format!(
                "--key: one key is one job; with --cc put {BLANK} into it"
            )));
        }
        let base = build::build(&args.job, around)?;
        let mut has_blanks = false;
        if !numbers.is_empty() {
            for_each_text(&mut args.job.clone(), |text| {
                has_blanks |= text.contains(BLANK)
            });
        }
        let userid = users::me();
        let same =
            (args.cc.is_none() && !has_blanks).then(|| sign::wrap(&base.to_string(), userid));
        Ok(Self {
            args,
            around,
            userid,
            base,
            numbers,
            has_blanks,
            same,
        })
    }

    /// The jobspec of one of them.
    fn spec(&self, at: usize) -> anyhow::Result<Value> {
        let Some(number) = self.numbers.get(at).map(u32::to_string) else {
            return Ok(self.base.clone());
        };
        let mut spec = if self.has_blanks {
            let mut options = self.args.job.clone();
            for_each_text(&mut options, |text| *text = text.replace(BLANK, &number));
            build::build(&options, self.around)?
        } else {
            self.base.clone()
        };
        if self.args.cc.is_some() {
            submission::number(&mut spec, &number);
        }
        Ok(spec)
    }
}

impl Jobs for Copies<'_> {
    fn count(&self) -> usize {
        self.numbers.len().max(1)
    }

    fn options(&self) -> &JobOptions {
        &self.args.job
    }

    fn key(&self, at: usize) -> Option<Cow<'_, str>> {
        let key = self.args.key.as_deref()?;
        Some(match self.numbers.get(at) {
            Some(number) => Cow::Owned(key.replace(BLANK, &number.to_string())),
            None => Cow::Borrowed(key),
        })
    }

    fn document(&self, at: usize) -> anyhow::Result<Cow<'_, str>> {
        match &self.same {
            Some(same) => Ok(Cow::Borrowed(same)),
            None => Ok(Cow::Owned(sign::wrap(
                &self.spec(at)?.to_string(),
                self.userid,
            ))),
        }
    }
}

/// What stands for the number in the texts of the options.
const BLANK: &str = "{cc}";

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
            input: None,
        };
        let copies = Copies::new(&args, &around).unwrap();
        assert_eq!(copies.count(), 3);
        let specs: Vec<Value> = (0..3).map(|at| copies.spec(at).unwrap()).collect();
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
    fn one_file_for_many_jobs_is_recognised() {
        for path in ["log", "log.{{name}}"] {
            assert!(is_shared(path), "{path}");
        }
        for path in ["log.{cc}", "log.{{id}}", "none", "/dev/null"] {
            assert!(!is_shared(path), "{path}");
        }
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
            input: None,
        };
        assert!(
            Copies::new(&args, &around)
                .err()
                .unwrap()
                .to_string()
                .contains("expected 1 to 1000000")
        );
    }
}
