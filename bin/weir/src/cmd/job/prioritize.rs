//! `weir job prioritize`: absolute priorities of very many jobs, given by id, by a file, or by a query.
//!
//! Long lists go in requests of at most `BATCH` pairs, one after the other: each is one commit and one reordering, and between them
//! others are served. What is wrong with the words or the file is said before anything is sent.

use crate::connect::{self, Session};
use crate::document;
use crate::each;
use crate::failure::{Exit, lead, usage};
use crate::ids::{self, Problem};
use crate::listing::{self, Question};
use crate::output::{self, complain};
use crate::query;
use crate::when;
use indicatif::{ProgressBar, ProgressStyle};
use job::{JobId, State, Urgency};
use protocol::job_manager::{PrioritizeRequest, PrioritizeResponse, PrioritizeResult, PriorityAim};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::json;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use wire::errno;

/// Pairs of one request: what one turn of the instance takes some hundredths of a second for.
const BATCH: usize = 8192;
/// From this many jobs on a terminal gets a progress bar.
const PROGRESS_FROM: usize = 10_000;
/// Most bytes of `--from`: some millions of lines.
const FROM_BYTES_MAX: u64 = 256 << 20;

/// Set the priority of jobs that wait to a number, for very many at once
///
/// The priority is what the queue is ordered by: 0 to 4294967295, higher first; 0 keeps a job from starting. As long as nothing else is
/// said it follows from the urgency ('weir job priority'). A priority set here stays, over restarts too, until the urgency
/// of the job changes or it is set to 'default', which is what follows from the urgency. Only the owner of the instance may do it.
///
/// The jobs are named, or come from a file with a line 'ID PRIORITY' for each, or are all those that meet a query. Jobs that are
/// held (urgency 0) or expedited (31) keep their place: a query passes over them, named ones are refused, as are jobs that have
/// their resources or wait for others. Very many are set 8192 at a time, so that nobody has to wait meanwhile; a list that was
/// interrupted may be given again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job prioritize ƒCdza1gs 100000
  weir job prioritize ƒCdza1gs 4711 default
  fair-share | weir job prioritize --from -       lines: ID PRIORITY
  weir job prioritize --query 'name:nightly' --set 5
  weir job prioritize --query 'user:ann and t_submit:<-2h' --set +1000
  weir job prioritize --query pending --set default

FILES (--from)
  A line for each job: its id in any spelling, blanks or a comma, then 0 to 4294967295 or
  'default'. Empty lines, and what follows a '#', count for nothing. A job has one line.

QUERIES (--query)
  As 'weir jobs --filter', see there; of all users. Of the jobs that meet it those are set that
  wait for resources. --set +N and -N count from the priority each has, and end at 1 and
  4294967295: nothing is held by it. Jobs that start in the meantime are left alone.

EXIT STATUS
  0  all were set; also when no job meets the query
  1  no instance, or some were not set; each has its line, the others were
  2  the command line or a line of the file is wrong: nothing was set")]
pub struct Args {
    /// Jobs in any spelling ('-' reads them from standard input), then the priority: 0 to 4294967295, default
    #[arg(value_names = ["ID", "VALUE"], num_args = 2.., required_unless_present_any = ["from", "query"],
          conflicts_with_all = ["from", "query"], allow_negative_numbers = true)]
    ids_and_value: Vec<String>,

    /// Jobs and their priorities from a file, '-' for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    from: Option<String>,

    /// The jobs that meet this
    #[arg(long, value_name = "QUERY", requires = "set")]
    query: Option<String>,

    /// What theirs is to be: N, or so much more or less than it is (+N, -N), or default
    #[arg(
        long,
        value_name = "N|+N|-N",
        requires = "query",
        allow_hyphen_values = true
    )]
    set: Option<String>,

    /// Say what each was before
    #[arg(short, long)]
    verbose: bool,

    /// One JSON document: {"seq":…,"changed":[{"id","f58","old_priority","priority"}…],"passed_over":N,"errors":[…]};
    /// 'priority' is null for default
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `--set` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    To(PriorityAim),
    By(i64),
}

impl Change {
    fn parse(text: &str) -> anyhow::Result<Change> {
        let step = |digits: &str| {
            digits
                .parse::<u32>()
                .ok()
                .filter(|_| !digits.starts_with('+'))
                .map(i64::from)
        };
        let by = match text.as_bytes().first() {
            Some(b'+') => step(&text[1..]),
            Some(b'-') => step(&text[1..]).map(|step| -step),
            _ => return Ok(Change::To(aim(text).map_err(usage)?)),
        };
        by.map(Change::By).ok_or_else(|| {
            usage(format!(
                "--set={text}: expected 0 to 4294967295 with + or - before it, or without, or default"
            ))
        })
    }

    /// What it makes of a priority.
    fn of(self, old: u32) -> PriorityAim {
        match self {
            Change::To(aim) => aim,
            Change::By(step) => {
                let new = (i64::from(old) + step).clamp(1, i64::from(u32::MAX));
                PriorityAim::Absolute(u32::try_from(new).unwrap_or(u32::MAX))
            }
        }
    }
}

/// A priority as it is typed.
fn aim(text: &str) -> Result<PriorityAim, String> {
    if text.eq_ignore_ascii_case("default") {
        return Ok(PriorityAim::Default);
    }
    text.parse()
        .ok()
        .filter(|_| !text.starts_with('+'))
        .map(PriorityAim::Absolute)
        .ok_or_else(|| {
            format!("priority '{text}' is not understood: expected 0 to 4294967295, or default")
        })
}

/// A job that was set.
struct Changed {
    id: JobId,
    old: u32,
    new: PriorityAim,
}

impl Serialize for Changed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let new = match self.new {
            PriorityAim::Absolute(new) => Some(new),
            PriorityAim::Default | PriorityAim::Wrong => None,
        };
        let mut line = to.serialize_struct("Changed", 4)?;
        line.serialize_field("id", &self.id)?;
        line.serialize_field("f58", &self.id.to_string())?;
        line.serialize_field("old_priority", &self.old)?;
        line.serialize_field("priority", &new)?;
        line.end()
    }
}

/// What came of it so far.
#[derive(Default)]
struct Done {
    seq: u64,
    set: usize,
    /// Kept only if it is to be shown.
    changed: Vec<Changed>,
    errors: Vec<Problem>,
    passed_over: usize,
}

/// Sets priorities.
///
/// # Errors
/// A wrong id, value or line, no instance, or jobs that cannot be set.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut done = Done::default();
    let outcome = match (&args.query, &args.set, &args.from) {
        (Some(query), Some(set), _) => {
            let change = Change::parse(set)?;
            connect::block_on(async {
                let jobs = select(query, change, &mut done).await?;
                send(args, &jobs, &mut done).await
            })
        }
        (_, _, Some(from)) => {
            let jobs = lines(from)?;
            connect::block_on(send(args, &jobs, &mut done))
        }
        _ => {
            let jobs = named(&args.ids_and_value)?;
            connect::block_on(send(args, &jobs, &mut done))
        }
    };
    if outcome.is_err() && done.set > 0 {
        complain(&format!("{}{} were set before this", lead(), done.set));
    }
    outcome?;
    show(args, &done)
}

/// `ID… VALUE`; a job that is named twice is meant once.
fn named(words: &[String]) -> anyhow::Result<Vec<(JobId, PriorityAim)>> {
    let Some((value, given)) = words.split_last().filter(|(_, given)| !given.is_empty()) else {
        return Err(usage(
            "expected ID… VALUE, where VALUE is 0 to 4294967295 or default; or --from, or --query and --set",
        ));
    };
    let value = aim(value).map_err(usage)?;
    let mut jobs = ids::parse_all(given)?;
    let mut seen = std::collections::HashSet::new();
    jobs.retain(|id| seen.insert(*id));
    Ok(jobs.into_iter().map(|id| (id, value)).collect())
}

/// The lines of a file.
fn lines(from: &str) -> anyhow::Result<Vec<(JobId, PriorityAim)>> {
    let (name, mut text) = (
        if from == "-" { "standard input" } else { from },
        String::new(),
    );
    let read = if from == "-" {
        std::io::stdin()
            .take(FROM_BYTES_MAX + 1)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(from)
            .and_then(|file| file.take(FROM_BYTES_MAX + 1).read_to_string(&mut text))
    };
    read.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    if text.len() as u64 > FROM_BYTES_MAX {
        return Err(usage(format!(
            "{name} has more than {FROM_BYTES_MAX} bytes: give it in parts"
        )));
    }
    parse_lines(name, &text)
}

fn parse_lines(name: &str, text: &str) -> anyhow::Result<Vec<(JobId, PriorityAim)>> {
    let mut jobs = Vec::new();
    let mut seen: HashMap<JobId, usize> = HashMap::new();
    for (line, number) in text.lines().zip(1..) {
        let wrong = |why: String| usage(format!("{name}, line {number}: {why}"));
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line
            .split([' ', '\t', ',', '\r'])
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else { continue };
        let (Some(second), None) = (words.next(), words.next()) else {
            return Err(wrong(format!(
                "expected an id and a priority, got '{}'",
                line.trim()
            )));
        };
        let id = ids::read(first).map_err(|error| wrong(error.to_string()))?;
        let aim = aim(second).map_err(wrong)?;
        if let Some(before) = seen.insert(id, number) {
            return Err(wrong(format!("job {first} is in line {before} already")));
        }
        jobs.push((id, aim));
    }
    Ok(jobs)
}

/// The jobs that wait for resources and meet the query, and what theirs is to be.
async fn select(
    text: &str,
    change: Change,
    done: &mut Done,
) -> anyhow::Result<Vec<(JobId, PriorityAim)>> {
    let constraint = query::parse(text, when::now())?.constraint;
    let constraint = json!({"and": [{"states": [State::Sched.bit()]}, constraint]});
    if query::is_impossible(&constraint) {
        complain(&format!(
            "{}no job that waits can be all of '{text}'",
            lead()
        ));
    }
    let question = Question {
        max_entries: 0,
        attributes: vec!["urgency", "priority"],
        since: 0.0,
        constraint,
    };
    let mut answer = listing::ask(&question, true).await?;
    let mut jobs = Vec::new();
    loop {
        let rows = answer.rows().await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let fixed = [Urgency::HOLD, Urgency::EXPEDITE]
                .iter()
                .any(|fixed| row.urgency == Some(fixed.get()));
            let old = row.priority.and_then(|old| u32::try_from(old).ok());
            match old.filter(|_| !fixed) {
                Some(old) => jobs.push((row.job_id(), change.of(old))),
                None => done.passed_over += 1,
            }
        }
    }
    if jobs.is_empty() {
        let over = match done.passed_over {
            0 => String::new(),
            count => format!(", but for {count} held or expedited"),
        };
        complain(&format!("{}no waiting job meets '{text}'{over}", lead()));
    }
    Ok(jobs)
}

/// Sends them, some at a time.
async fn send(args: &Args, jobs: &[(JobId, PriorityAim)], done: &mut Done) -> anyhow::Result<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let session = Session::open().await?;
    let bar = if jobs.len() >= PROGRESS_FROM && output::stderr_is_terminal() {
        let style = ProgressStyle::with_template("setting {wide_bar} {pos}/{len} {eta}")?;
        Some(ProgressBar::new(jobs.len() as u64).with_style(style))
    } else {
        None
    };
    let outcome = batches(args, &session, jobs, bar.as_ref(), done).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    outcome
}

async fn batches(
    args: &Args,
    session: &Session,
    jobs: &[(JobId, PriorityAim)],
    bar: Option<&ProgressBar>,
    done: &mut Done,
) -> anyhow::Result<()> {
    for some in jobs.chunks(BATCH) {
        let request = PrioritizeRequest {
            jobs: some.to_vec(),
        };
        let answer: PrioritizeResponse = session.call("job-manager.prioritize", &request).await?;
        done.take(args, some, answer)?;
        if let Some(bar) = bar {
            bar.inc(some.len() as u64);
        }
    }
    Ok(())
}

impl Done {
    fn take(
        &mut self,
        args: &Args,
        asked: &[(JobId, PriorityAim)],
        answer: PrioritizeResponse,
    ) -> anyhow::Result<()> {
        if answer.results.len() != asked.len() {
            anyhow::bail!(
                "job-manager.prioritize answered {} results for {} jobs",
                answer.results.len(),
                asked.len()
            );
        }
        self.seq = self.seq.max(answer.seq);
        for (result, (_, new)) in answer.results.into_iter().zip(asked) {
            match result {
                PrioritizeResult::Changed { id, old_priority } => {
                    self.set += 1;
                    if args.json || args.verbose {
                        let (old, new) = (old_priority, *new);
                        self.changed.push(Changed { id, old, new });
                    }
                }
                // It was not named, and it waits no more, or is held since.
                PrioritizeResult::Refused {
                    errnum: errno::EINVAL,
                    ..
                } if args.query.is_some() => self.passed_over += 1,
                PrioritizeResult::Refused { id, errnum, text } => {
                    let line = if each::is_unknown(errnum, Some(&text)) {
                        ids::unknown(id)
                    } else {
                        format!("{}: {text}", ids::show(id))
                    };
                    complain(&format!("{}{line}", lead()));
                    self.errors
                        .push(Problem::refused(id, errnum, text.into_owned()));
                }
            }
        }
        Ok(())
    }
}

fn show(args: &Args, done: &Done) -> anyhow::Result<()> {
    if args.json {
        #[derive(serde::Serialize)]
        struct Document<'a> {
            seq: u64,
            changed: &'a [Changed],
            passed_over: usize,
            errors: &'a [Problem],
        }
        document::print(&Document {
            seq: done.seq,
            changed: &done.changed,
            passed_over: done.passed_over,
            errors: &done.errors,
        })?;
    } else if args.verbose {
        let mut out = output::stdout();
        for Changed { id, old, new } in &done.changed {
            match new {
                PriorityAim::Absolute(new) => writeln!(out, "{}: {old} -> {new}", ids::show(*id))?,
                _ => writeln!(out, "{}: {old} -> default", ids::show(*id))?,
            }
        }
        out.flush()?;
    }
    if done.errors.is_empty() {
        Ok(())
    } else {
        Err(Exit(1).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_set_is_a_number_a_step_or_default() {
        let set = |text: &str| Change::parse(text).ok();
        let to = |priority| Some(Change::To(PriorityAim::Absolute(priority)));
        assert_eq!(set("0"), to(0));
        assert_eq!(set("4294967295"), to(u32::MAX));
        assert_eq!(set("Default"), Some(Change::To(PriorityAim::Default)));
        assert_eq!(set("+5"), Some(Change::By(5)));
        assert_eq!(set("-4294967295"), Some(Change::By(-4_294_967_295)));
        for bad in [
            "",
            "+",
            "-",
            "++1",
            "-+1",
            "--1",
            "4294967296",
            "+x",
            "1.5",
            "high",
        ] {
            assert_eq!(set(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_step_holds_no_job_and_goes_beyond_no_end() {
        for (old, step, new) in [
            (16, 5, 21),
            (16, -5, 11),
            (16, -16, 1),
            (16, -4_294_967_295, 1),
            (u32::MAX - 1, 5, u32::MAX),
            (0, 3, 3),
        ] {
            assert_eq!(Change::By(step).of(old), PriorityAim::Absolute(new));
        }
    }

    #[test]
    fn a_file_has_a_line_a_job_and_a_wrong_line_is_named() {
        let text = "# shares\n1234 5\n\n0x4d3,default # the other\r\n\tƒz\t4294967295\r\n";
        assert_eq!(
            parse_lines("f", text).unwrap(),
            [
                (JobId(1234), PriorityAim::Absolute(5)),
                (JobId(1235), PriorityAim::Default),
                (JobId(57), PriorityAim::Absolute(u32::MAX)),
            ]
        );
        for (text, want) in [
            (
                "1 2\n3",
                "f, line 2: expected an id and a priority, got '3'",
            ),
            ("1 2 3", "line 1: expected an id and a priority"),
            (
                "1 x",
                "line 1: priority 'x' is not understood: expected 0 to 4294967295",
            ),
            ("1 -2", "priority '-2'"),
            ("!! 2", "line 1: "),
            ("1 2\n3 4\n0x1 5", "line 3: job 0x1 is in line 1 already"),
        ] {
            let error = parse_lines("f", text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
