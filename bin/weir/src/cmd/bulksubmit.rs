//! `weir bulksubmit`: a job for each input, or each combination of inputs, filled into one command line.
//!
//! Inputs are [`crate::bulk::inputs`], blanks [`crate::bulk::template`], the jobs [`crate::bulk::jobs`], and how many go out together is
//! [`crate::submission`]'s.

use crate::bar::{self, Bar};
use crate::bulk::inputs::{self, Inputs, Separator};
use crate::bulk::jobs::{Bulk, Wanted};
use crate::bulk::template::Definitions;
use crate::connect::{self, Session};
use crate::document;
use crate::failure::{self, usage};
use crate::ids;
use crate::jobspec::build::Surroundings;
use crate::jobspec::options::JobOptions;
use crate::outcome;
use crate::output::{self, complain};
use crate::submission::{self, Jobs as _, Refusal};
use job::JobId;
use job::idset::Idset;
use protocol::job_ingest::SubmitResponse;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use std::io::Write as _;

/// Most refusals that have a line each on standard error.
const REFUSALS_SAID_MAX: usize = 20;

/// Submit a job for each of many inputs
///
/// The command is a text with blanks: {} stands for an input. Inputs come after ':::', one word each, from the lines of files
/// after '::::', or, without either, from the lines of standard input. With several lists there is a job for every
/// combination. The jobs go to the instance over one connection, many at a time, and their ids are printed in the order of
/// the inputs.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "weir bulksubmit [OPTIONS] COMMAND… [::: INPUT…] [:::: FILE…]",
    after_long_help = "\
EXAMPLES
  weir bulksubmit ./solve {} ::: a.dat b.dat c.dat
  find . -name '*.wav' | weir bulksubmit lame {} {.}.mp3
  weir bulksubmit ./run --size={0} --seed={1} ::: 10 20 40 ::: 1 2 3      nine jobs
  weir bulksubmit cp {0} {1} :::: from.txt ::::+ to.txt                   line by line
  weir bulksubmit --job-name={./.} --output={.}.log ./run {} ::: data/*
  weir bulksubmit --key=night-7 ./step :::: steps.txt      may be repeated: no job twice
  weir bulksubmit --urgency=hold --dry-run ./step {} ::: 1 2 | jq .tasks

INPUTS
  ::: WORDS     these words
  :::: FILES    the lines of these files, a list each; '-' is standard input. Blank lines are
                passed over. --sep says what stands between inputs, instead of a line's end
  :::+  ::::+   goes along with the list before, entry by entry, instead of all combinations

BLANKS, in the command and in --job-name, --output, --error, --input, --cwd and --env
  {} {0}        the input of the first list; {1} that of the second, and so on
  {.}  {%}      without its extension (also {.%})
  {/}  {./}     its last part, as of a path; {//} what is before that
  {/.} {./%}    its last part without the extension; each may name a list: {1./%}
  {seq} {seq1}  the number of the job, from 0 or from 1
  {cc}          the number of --cc or --bcc
  {NAME}        what --define=NAME=TEXT makes of the input; {1.NAME} of that of another list
  If no input is filled in anywhere, the inputs are added to the command's arguments.
  Other braces are text, and so is what stands in double ones, such as {{id}}.

KEYS (--key)
  Each job gets a key of its own: KEY with its blanks filled in, or, without any, KEY-SEQ. A job
  that is there under its key is not made again, its id is printed; an input list that has changed
  is refused where the job would be another. See 'weir submit --help'.

JSON (--json)
  {\"jobs\":[{\"id\",\"f58\",\"seq\",\"known\",\"index\",\"inputs\":[…],\"status\":N|null}…],
    \"errors\":[{\"id\":null,\"f58\":null,\"text\",\"errnum\",\"error\",\"index\"}…]}
  One document; index is {seq}. Without --wait status is null. text is where the input is from.

EXIT STATUS
  0  every job was submitted, or known (with --wait or --watch: and all succeeded)
  1  refused; not all were submitted. Each has its line, up to 20
  2  the command line is wrong
  N  with --wait or --watch: the highest status of the jobs, 128 + signal if one was killed
  75 likewise: the instance was shut down meanwhile"
)]
pub struct Args {
    #[command(flatten)]
    job: JobOptions,

    /// What stands between inputs in files and on standard input, instead of the end of a line; none is white space
    #[arg(long, value_name = "TEXT", value_parser = Separator::parse, default_value = "\n", hide_default_value = true, help_heading = "Inputs")]
    sep: Separator,

    /// Name a text with blanks: {NAME} stands for it; may be given often
    #[arg(long, value_name = "NAME=TEXT", help_heading = "Inputs")]
    define: Vec<String>,

    /// Submit in an order that is left to chance
    #[arg(long, help_heading = "Inputs")]
    shuffle: bool,

    /// Submit each of these so often, as 'weir submit --cc' does: a job for each number, in $WEIR_JOB_CC too
    #[arg(long, value_name = "IDSET", help_heading = "Inputs")]
    cc: Option<Idset>,

    /// As --cc, without $WEIR_JOB_CC
    #[arg(
        long,
        value_name = "IDSET",
        conflicts_with = "cc",
        help_heading = "Inputs"
    )]
    bcc: Option<Idset>,

    /// Submit once: each job gets a key made of this
    #[arg(long, value_name = "KEY", value_parser = submission::key, help_heading = "Submission")]
    key: Option<String>,

    /// One JSON document instead of ids
    #[arg(long, conflicts_with_all = ["quiet", "watch"], help_heading = "Submission")]
    pub(crate) json: bool,

    /// Wait until all have ended; the highest status is ours
    #[arg(long, help_heading = "Submission")]
    wait: bool,

    /// Show their output, one job after the other, then as --wait
    #[arg(long, help_heading = "Submission")]
    watch: bool,

    /// Do not print ids
    #[arg(long, help_heading = "Submission")]
    quiet: bool,

    /// A bar also for few jobs; on a terminal there is one from 100 jobs on
    #[arg(long, help_heading = "Submission")]
    progress: bool,

    /// Taken so that it can be refused in words.
    #[arg(long, hide = true)]
    jps: bool,

    /// Likewise.
    #[arg(long, value_name = "EVENT", hide = true)]
    wait_event: Option<String>,

    /// Likewise.
    #[arg(long, value_name = "FILE", hide = true)]
    log: Option<String>,

    /// Likewise.
    #[arg(long, value_name = "FILE", hide = true)]
    log_stderr: Option<String>,
}

/// Submits.
///
/// # Errors
/// A wrong option, inputs that cannot be read, no instance, or refusals.
pub fn run(args: &Args) -> anyhow::Result<()> {
    refuse_unbuilt(args)?;
    let (command, words) = inputs::command_of(&args.job.command);
    if command.is_empty() {
        return Err(usage(
            "expected a command before the inputs; for lines that are commands themselves: weir bulksubmit sh -c {}",
        ));
    }
    if args.job.parameterized && (args.wait || args.watch) {
        return Err(usage(
            "--parameterized: such a job never ends by itself; wait for those that are dispatched from it",
        ));
    }
    let mut options = args.job.clone();
    options.command = command.to_vec();
    let definitions = Definitions::parse(&args.define)?;
    let around = Surroundings {
        input: Some("/dev/null".to_owned()),
        ..Surroundings::current()?
    };
    let inputs = Inputs::read(words, &args.sep)?;
    let wanted = Wanted {
        key: args.key.as_deref(),
        numbers: args.cc.as_ref().or(args.bcc.as_ref()),
        tell_number: args.cc.is_some(),
        shuffle: args.shuffle,
    };
    let bulk = Bulk::new(wanted, options, &definitions, &around, inputs)?;
    if args.job.dry_run {
        let mut out = output::stdout();
        for at in 0..bulk.count() {
            writeln!(out, "{}", serde_json::to_string(&bulk.spec(at)?)?)?;
        }
        out.flush()?;
        return Ok(());
    }
    if bulk.count() == 0 {
        if args.json {
            document::print(&json!({"jobs": [], "errors": []}))?;
        }
        complain("bulksubmit: there are no inputs: nothing was submitted");
        return Ok(());
    }
    bulk.warn_shared();
    connect::block_on(submit(args, &bulk))
}

fn refuse_unbuilt(args: &Args) -> anyhow::Result<()> {
    let words = if args.jps {
        "--jps is not built: the bar of --progress shows the rate"
    } else if args.wait_event.is_some() {
        "--wait-event is not built: 'weir job wait-event ID EVENT' waits for that of one job"
    } else if args.log.is_some() || args.log_stderr.is_some() {
        "--log and --log-stderr are not built: redirect standard output and error"
    } else {
        return Ok(());
    };
    Err(usage(words))
}

async fn submit(args: &Args, bulk: &Bulk<'_>) -> anyhow::Result<()> {
    let mut session = Session::open().await?;
    let mut told = Report {
        bulk,
        taken: Vec::with_capacity(bulk.count()),
        statuses: Vec::new(),
        refused: Vec::new(),
    };
    let done = submit_all(&mut session, args, bulk, &mut told).await;
    let ids: Vec<JobId> = told.taken.iter().map(|(_, job)| job.id).collect();
    let mut worst = u8::from(!told.refused.is_empty());
    let waited = match done {
        Ok(()) if args.watch => {
            return submission::watch(session, ids, args.job.label_io, worst).await;
        }
        Ok(()) if args.wait => {
            let mut outcomes = Vec::with_capacity(ids.len());
            let waited = outcome::wait_into(&session, &ids, &mut outcomes).await;
            for outcome in outcomes {
                let status = outcome.exit_status();
                told.statuses.push(status);
                worst = worst.max(status);
                submission::say(&outcome);
            }
            waited
        }
        done => done,
    };
    if args.json {
        told.print(waited.as_ref().err())?;
    }
    waited?;
    submission::ended(worst)
}

async fn submit_all(
    session: &mut Session,
    args: &Args,
    bulk: &Bulk<'_>,
    told: &mut Report<'_>,
) -> anyhow::Result<()> {
    let bar = if args.quiet {
        Bar::none()
    } else {
        let from = if args.progress { 1 } else { bar::PIECES_FROM };
        Bar::over(bulk.count(), "jobs", from)
    };
    let mut out = output::stdout();
    let done = submission::submit_all(session, bulk, &bar, |one| {
        match one.answer {
            Ok(job) => {
                if !args.json && !args.quiet {
                    writeln!(out, "{}", ids::show(job.id))?;
                    if one.flush {
                        bar.aside(|| out.flush())?;
                    }
                }
                told.taken.push((one.at, job));
            }
            Err(refusal) => {
                if told.refused.len() < REFUSALS_SAID_MAX {
                    let place = bulk.place(one.at);
                    bar.aside(|| complain(&format!("bulksubmit: {place}: {}", refusal.text)));
                }
                told.refused.push((one.at, refusal));
            }
        }
        Ok(())
    })
    .await;
    drop(bar);
    out.flush()?;
    let (refused, count) = (told.refused.len(), bulk.count());
    if refused > REFUSALS_SAID_MAX {
        complain(&format!(
            "bulksubmit: {refused} of {count} jobs were refused"
        ));
    }
    done
}

/// What became of all, for the document.
struct Report<'a> {
    bulk: &'a Bulk<'a>,
    taken: Vec<(usize, SubmitResponse)>,
    /// Of those taken, as far as they were waited for.
    statuses: Vec<u8>,
    refused: Vec<(usize, Refusal)>,
}

impl Report<'_> {
    fn print(&self, failed: Option<&anyhow::Error>) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Document<J: Serialize, E: Serialize> {
            jobs: J,
            errors: E,
        }
        let jobs = self.taken.iter().enumerate().map(|(n, (at, job))| {
            let index = self.bulk.index(*at);
            json!({"id": job.id, "f58": job.id.to_string(), "seq": job.seq, "known": job.known, "index": index,
                   "inputs": self.bulk.row(*at), "status": self.statuses.get(n)})
        });
        let refused = self.refused.iter().map(|(at, refusal)| {
            let index = self.bulk.index(*at);
            json!({"id": null, "f58": null, "text": self.bulk.place(*at), "errnum": refusal.errnum,
                   "error": refusal.text, "index": index})
        });
        let of_all = failed.map(|error| {
            json!({"id": null, "f58": null, "text": null, "errnum": document::errnum(error),
                   "error": failure::text(error), "index": null})
        });
        document::print(&Document {
            jobs: Rows(|| jobs.clone()),
            errors: Rows(|| refused.clone().chain(of_all.clone())),
        })
    }
}

/// Rows that are made when they are written.
struct Rows<F>(F);

impl<I: Iterator<Item = Value>, F: Fn() -> I> Serialize for Rows<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
