//! `weir jobs`: the listing. Fast is the point: one connection, one request, rows written as they come.

use crate::connect::{self, Session};
use crate::described::{self, Waits};
use crate::document;
use crate::failure::{self, usage};
use crate::format::fields::Context;
use crate::format::{self, Fit, Format};
use crate::ids::{self, Problem};
use crate::listing::{self, Question};
use crate::output::{self, Paint, Palette, When, complain};
use crate::queues::{self, QueueState};
use crate::row::{Row, RowJson};
use crate::{outage, query, stats, text, users, when};
use job::{JobResult, State, StateSet};
use protocol::job_manager::QueueListResponse;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write as _;

/// Jobs shown when nothing is said.
const COUNT_DEFAULT: u64 = 1000;
/// Rows kept to find the width of columns; beyond it columns are as wide as so far.
const LOOK_AHEAD_ROWS_MAX: usize = 1000;

/// List jobs: your active ones, or those you ask for
///
/// Pending jobs come first, in the order in which they will be considered, then running ones, latest first, then those that
/// ended, latest first. A listing is current: what this or any other command was told before it, it shows.
///
/// At a terminal columns are fitted, names first, and coloured. Into a pipe or file the columns are always the same, nothing
/// of up to 256 columns is cut and no cell is empty ('-' stands for nothing); use --json or -o in scripts.
///
/// When the job-manager is down or does not answer, job-info (while it runs) still serves the last list it had: a line on standard error says how old it is, the
/// JSON document says so in "stale" (null or seconds), and the exit status stays 0. With --fresh that is an error instead.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir jobs                           your pending and running jobs
  weir jobs -a                        the ended ones too
  weir jobs -A -f running             everybody's running jobs
  weir jobs -f failed,timeout --since=-1d
  weir jobs -f 'running and (name:make or queue:debug)'
  weir jobs ƒCdza1gs 4711             these two
  weir jobs -n -o '{id} {status}' -a  for a script
  weir jobs --json -a | jq '.jobs[] | select(.returncode != 0)'
  weir jobs -a -o 'sort:parent {id} {parent:>12h} {status}'     by parent; others have none

FILTERS (-f)
  States and results, joined by commas: pending, running, inactive, active, depend, priority,
  sched, run, cleanup, completed, failed, canceled, timeout. Or an expression of these and
  OPERATOR:VALUE[,VALUE…] with and, or, not and brackets; operators: name, queue, user, host,
  rank, parent, t_submit … t_inactive (as t_run:>-1h). Words side by side are joined by and:
  'completed failed' is no job, 'completed,failed' and 'completed or failed' are both kinds.
  Names are compared whole: there are no patterns.

FORMATS (-o)
  Text with {field}, {field:spec}, {field!conversion:spec}; --format=help lists fields,
  conversions and named formats.

JSON
  {\"jobs\":[…],\"errors\":[{\"id\",\"f58\",\"text\",\"errnum\",\"error\"}…],\"stale\":null|seconds,
    \"queues\":null|[{\"name\",\"enabled\",\"started\",\"disable_reason\",\"stop_reason\"}…]}
  One document, the same keys and types whatever the count, also when the command fails; what is
  not defined is null. text is what was typed, errnum the number of a refusal. queues: whether
  jobs are started; null if the instance cannot say. So it is with every command that has --json;
  journal, submit and job eventlog print a line for each thing, each a document.

EXIT STATUS
  0  listed; also when nothing matched, and when the list is stale
  1  no instance, or a job that does not exist
  2  the command line is wrong, or an id is none")]
pub struct Args {
    /// Jobs to list, in any spelling; '-' reads them from standard input
    #[arg(value_name = "ID", conflicts_with_all = ["filter", "name", "queue", "include", "since", "user", "all_users", "count"])]
    ids: Vec<String>,

    /// Ended jobs too
    #[arg(short = 'a')]
    all: bool,

    /// Jobs of all users
    #[arg(short = 'A')]
    all_users: bool,

    /// Jobs of this user, by name or number; 'all' is -A
    #[arg(short = 'u', long, value_name = "USER", conflicts_with = "all_users")]
    user: Option<String>,

    /// At most so many; 0 is all [default: 1000]
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,

    /// States and results, or an expression; whatever -a says
    #[arg(short, long, value_name = "FILTER")]
    filter: Option<String>,

    /// Jobs with these names, joined by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    name: Vec<String>,

    /// Jobs of these queues, joined by commas
    #[arg(short, long, value_name = "QUEUE", value_delimiter = ',')]
    queue: Vec<String>,

    /// Jobs that use one of these hosts
    #[arg(short, long, value_name = "HOSTS")]
    include: Option<String>,

    /// Ended jobs too, if they ended after this: -1h, 14:30, 2026-11-30T14:00, seconds since 1970
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// No line of headings
    #[arg(short = 'n', long)]
    no_header: bool,

    /// Format, or its name; 'help' lists what there is
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,

    /// One JSON document
    #[arg(long, conflicts_with_all = ["format", "stats", "stats_only"])]
    pub(crate) json: bool,

    /// A line of counts first
    #[arg(long)]
    stats: bool,

    /// The line of counts, nothing else
    #[arg(long)]
    stats_only: bool,

    /// Refuse a list that is not up to date
    #[arg(long)]
    fresh: bool,

    /// Colours: auto, always, never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    color: When,
}

/// What goes into the document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    jobs: Vec<RowJson<'a>>,
    errors: &'a [Problem],
    stale: Option<f64>,
    queues: Option<&'a [QueueState]>,
}

/// Lists.
///
/// # Errors
/// A wrong option, no instance, a job that does not exist.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.format.as_deref() == Some("help") {
        return format::help::<Row>();
    }
    let format = match &args.format {
        Some(text) => Format::parse(text)?,
        None if output::stdout_is_terminal() => Format::parse(format::TERMINAL)?,
        None => Format::parse(format::PLAIN)?,
    };
    let attributes = if args.json {
        vec!["all"]
    } else {
        let mut attributes = format.attributes();
        // To know whether one waits.
        attributes.insert("state");
        attributes.into_iter().collect()
    };
    let now = when::now();
    let constraint = constraint(args, now)?;
    if let Some(filter) = &args.filter
        && query::is_impossible(&query::parse(filter, now)?.constraint)
    {
        complain(&format!(
            "jobs: no job can be all of '{filter}'; 'or', or a comma, joins what may be either"
        ));
    }
    for name in args.name.iter().filter(|name| query::has_pattern(name)) {
        complain(&format!(
            "jobs: --name={name}: there are no patterns, a name is compared whole"
        ));
    }
    connect::block_on(async {
        if !args.queue.is_empty() {
            note_queues(&args.queue).await;
        }
        if args.stats || args.stats_only {
            let counts =
                outage::patiently(async || Ok(stats::job_counts(&Session::open().await?).await?))
                    .await?;
            let mut out = output::stdout();
            writeln!(out, "{}", counts.sentence())?;
            out.flush()?;
            if args.stats_only {
                return Ok(());
            }
        }
        let mut shown = Shown {
            args,
            fit: fit(args.format.as_deref()),
            format,
            context: Context { now },
            palette: args.color.for_stdout(),
            queues: None,
            waits: None,
        };
        if args.ids.is_empty() {
            shown.query(attributes, constraint, now).await
        } else {
            shown.by_id(&attributes).await
        }
    })
}

/// Says so if jobs of a queue are asked for that the instance does not have. An instance that is down is told about later.
async fn note_queues(wanted: &[String]) {
    let known = async {
        let session = Session::open_briefly().await?;
        let list: QueueListResponse = session.call("job-manager.queue-list", &json!({})).await?;
        anyhow::Ok(list.queues)
    };
    let Ok(known) = known.await else { return };
    for name in wanted.iter().filter(|name| !known.contains(name)) {
        complain(&format!(
            "jobs: there is no queue '{name}'{}",
            if known.is_empty() {
                " (there are no named queues)".to_owned()
            } else {
                format!("; queues are {}", known.join(", "))
            }
        ));
    }
}

/// How the columns are made to fit: a format that somebody wrote is left as it is, ours suit what they are written to.
fn fit(format: Option<&str>) -> Fit {
    match format {
        Some(text) if !format::NAMED.iter().any(|(name, ..)| *name == text) => Fit::Written,
        _ if output::stdout_is_terminal() => Fit::Columns(output::columns()),
        _ => Fit::Widest,
    }
}

/// Whether jobs are asked for that are not active.
fn default_states(args: &Args) -> StateSet {
    if args.all || args.since.is_some() {
        StateSet::ANY
    } else {
        StateSet::ACTIVE
    }
}

/// The constraint of the question, clauses in Flux's order.
fn constraint(args: &Args, now: f64) -> anyhow::Result<Value> {
    let mut clauses = Vec::new();
    if let Some(hosts) = &args.include {
        clauses.push(json!({"hostlist": [hosts]}));
    }
    match args.user.as_deref() {
        Some("all") => {}
        Some(user) => clauses.push(json!({"userid": [users::uid(user)?]})),
        None if args.all_users => {}
        None => clauses.push(json!({"userid": [users::me()]})),
    }
    if !args.name.is_empty() {
        clauses.push(json!({"name": args.name}));
    }
    if !args.queue.is_empty() {
        clauses.push(json!({"queue": args.queue}));
    }
    match &args.filter {
        Some(filter) => clauses.push(query::parse(filter, now)?.constraint),
        None => clauses.push(json!({"states": [default_states(args).0]})),
    }
    Ok(json!({"and": clauses}))
}

struct Shown<'a> {
    args: &'a Args,
    format: Format,
    fit: Fit,
    context: Context,
    palette: Palette,
    /// Whether jobs are started, if that was asked.
    queues: Option<Vec<QueueState>>,
    /// Why jobs wait, if that was asked.
    waits: Option<Waits>,
}

impl Shown<'_> {
    async fn query(
        &mut self,
        attributes: Vec<&'static str>,
        constraint: Value,
        now: f64,
    ) -> anyhow::Result<()> {
        let since = match &self.args.since {
            Some(text) => {
                when::instant(text, now).map_err(|error| usage(format!("--since: {error}")))?
            }
            None => 0.0,
        };
        let wanted = self.args.count.unwrap_or(COUNT_DEFAULT);
        // One more than wanted, to know whether there are more.
        let max_entries = if wanted == 0 {
            0
        } else {
            wanted.saturating_add(1)
        };
        let question = Question {
            max_entries,
            attributes,
            since,
            constraint,
        };
        let mut answer = listing::ask(&question, self.args.fresh).await?;
        let mut left = if wanted == 0 { u64::MAX } else { wanted };
        let (mut more, mut waits) = (false, false);
        let keep = self.args.json || self.looks_ahead();
        let mut kept: Vec<Row> = Vec::new();
        let mut writer = None;
        loop {
            let mut rows = answer.rows().await?;
            if rows.is_empty() {
                break;
            }
            if rows.len() as u64 > left {
                rows.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                more = true;
            }
            left -= rows.len() as u64;
            if answer.stale.is_none() {
                self.explain(&mut rows).await;
            }
            waits |= rows.iter().any(Row::is_pending);
            match &mut writer {
                None if keep
                    && (self.args.json
                        || self.format.sorts()
                        || kept.len() < LOOK_AHEAD_ROWS_MAX) =>
                {
                    kept.append(&mut rows)
                }
                None => {
                    let mut started = self.start(&kept)?;
                    for row in kept.drain(..).chain(rows) {
                        self.write(&mut started, &row)?;
                    }
                    writer = Some(started);
                }
                Some(writer) => {
                    for row in &rows {
                        self.write(writer, row)?;
                    }
                }
            }
        }
        self.refuse_stale(answer.stale)?;
        if answer.stale.is_none() {
            self.ask_queues(answer.session(), waits).await;
        }
        if self.args.json {
            self.document(&kept, &[], answer.stale)?;
        } else {
            self.format.sort(&mut kept, &self.context);
            let mut writer = match writer {
                Some(writer) => writer,
                None => self.start(&kept)?,
            };
            for row in &kept {
                self.write(&mut writer, row)?;
            }
            writer.out.flush()?;
        }
        // Whoever gave a number knows that there may be more.
        if more && self.args.count.is_none() {
            complain(&format!(
                "jobs: only the first {wanted} are shown; -c 0 shows all"
            ));
        }
        self.tell_queues();
        Ok(())
    }

    async fn by_id(&mut self, attributes: &[&'static str]) -> anyhow::Result<()> {
        let (jobs, mut problems) = ids::sorted_out(&self.args.ids)?;
        let mut rows = Vec::new();
        let mut stale = None;
        if !jobs.is_empty() {
            let (found, age) = match listing::by_id(&jobs, attributes, self.args.fresh).await {
                Ok(found) => found,
                // One document, whatever happens.
                Err(error) if self.args.json => {
                    problems.extend(
                        jobs.iter()
                            .map(|id| Problem::of(*id, failure::text(&error))),
                    );
                    self.document(&[], &problems, None)?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            };
            stale = age;
            for (id, result) in jobs.iter().zip(found) {
                match result {
                    Ok(row) => rows.push(row),
                    Err(error) => problems.push(Problem::of(*id, error)),
                }
            }
        }
        self.refuse_stale(stale)?;
        if stale.is_none() {
            self.explain(&mut rows).await;
        }
        let waits = rows.iter().any(Row::is_pending);
        if stale.is_none()
            && self.tells_queues(waits)
            && let Ok(session) = Session::open_briefly().await
        {
            self.ask_queues(&session, waits).await;
        }
        if self.args.json {
            self.document(&rows, &problems, stale)?;
        } else if !rows.is_empty() {
            self.format.sort(&mut rows, &self.context);
            let mut writer = self.start(&rows)?;
            for row in &rows {
                self.write(&mut writer, row)?;
            }
            writer.out.flush()?;
        }
        for problem in &problems {
            complain(&format!("jobs: {}", problem.error));
        }
        self.tell_queues();
        ids::conclude(&problems)
    }

    /// Finds out why these wait, if that is shown and some do.
    async fn explain(&mut self, rows: &mut [Row]) {
        // What the column is made of, and no other.
        if self.args.json || !self.format.attributes().contains("annotations") {
            return;
        }
        if !rows.iter().any(described::waits_unexplained) {
            return;
        }
        let waits = match &mut self.waits {
            Some(waits) => waits,
            none => none.insert(Waits::ask().await),
        };
        rows.iter_mut().for_each(|row| waits.tell(row));
    }

    /// Whether somebody is to be told if jobs are started: the document says it, and a person is told when jobs wait.
    fn tells_queues(&self, waits: bool) -> bool {
        self.args.json || (waits && output::stderr_is_terminal())
    }

    /// Asks whether jobs are started, if somebody is to be told.
    async fn ask_queues(&mut self, session: &Session, waits: bool) {
        if self.tells_queues(waits) {
            // An instance that cannot say does not make a listing fail.
            self.queues = queues::states(session).await.ok();
        }
    }

    fn tell_queues(&self) {
        if self.args.json || !output::stderr_is_terminal() {
            return;
        }
        for state in self.queues.iter().flatten() {
            if let Some(holds) = state.holds() {
                complain(&format!("jobs: {holds}"));
            }
        }
    }

    fn refuse_stale(&self, stale: Option<f64>) -> anyhow::Result<()> {
        match stale {
            Some(age) if self.args.fresh => anyhow::bail!(
                "the list is stale, {} old; without --fresh it is shown",
                when::human(age.round())
            ),
            _ => Ok(()),
        }
    }

    fn document(&self, rows: &[Row], errors: &[Problem], stale: Option<f64>) -> anyhow::Result<()> {
        let jobs = rows.iter().map(|row| row.json(self.context.now)).collect();
        document::print(&Document {
            jobs,
            errors,
            stale,
            queues: self.queues.as_deref(),
        })
    }

    fn looks_ahead(&self) -> bool {
        self.fit != Fit::Written || self.format.looks_ahead() || self.format.sorts()
    }

    fn start(&self, rows: &[Row]) -> anyhow::Result<Writer> {
        let layout = if self.looks_ahead() && !rows.is_empty() {
            self.format.fitted(rows, &self.context, self.fit)
        } else {
            self.format.as_written()
        };
        let columns = match self.fit {
            Fit::Columns(columns) => Some(columns),
            Fit::Written | Fit::Widest => None,
        };
        let mut writer = Writer {
            out: output::stdout(),
            layout,
            columns,
            line: String::new(),
        };
        if !self.args.no_header {
            self.format.write_header(&writer.layout, &mut writer.line);
            let heading = format!(
                "{}{}{}",
                self.palette.start(Paint::Bold),
                writer.fitted(),
                self.palette.end()
            );
            writeln!(writer.out, "{heading}")?;
        }
        Ok(writer)
    }

    fn write(&self, writer: &mut Writer, row: &Row) -> anyhow::Result<()> {
        writer.line.clear();
        let status = self
            .format
            .write_row(row, &self.context, &writer.layout, &mut writer.line);
        if let Some(columns) = writer.columns
            && text::width(&writer.line) > columns
        {
            writer.line = text::fit(&writer.line, columns).into_owned();
        }
        match (
            status.filter(|range| {
                writer.line.is_char_boundary(range.end) && range.end <= writer.line.len()
            }),
            paint(row),
        ) {
            (Some(range), Some(paint)) if !self.palette.start(paint).is_empty() => {
                let line = &writer.line;
                writeln!(
                    writer.out,
                    "{}{}{}{}{}",
                    &line[..range.start],
                    self.palette.start(paint),
                    &line[range.clone()],
                    self.palette.end(),
                    &line[range.end..]
                )?;
            }
            _ => {
                writer.line.push('\n');
                writer.out.write_all(writer.line.as_bytes())?;
            }
        }
        Ok(())
    }
}

struct Writer {
    out: output::Out,
    layout: format::Layout,
    columns: Option<usize>,
    line: String,
}

impl Writer {
    fn fitted(&self) -> String {
        match self.columns {
            Some(columns) => text::fit(&self.line, columns).into_owned(),
            None => self.line.clone(),
        }
    }
}

/// The colour of a job's status.
fn paint(row: &Row) -> Option<Paint> {
    match (row.result(), row.state()) {
        (Some(JobResult::Completed), _) => None,
        (Some(JobResult::Canceled), _) => Some(Paint::Dim),
        (Some(_), _) => Some(Paint::Red),
        (None, Some(State::Run | State::Cleanup)) => Some(Paint::Green),
        (None, Some(_)) => Some(Paint::Yellow),
        (None, None) => None,
    }
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

    fn asked(line: &[&str]) -> String {
        let args = Line::try_parse_from(std::iter::once(&"x").chain(line))
            .unwrap()
            .args;
        constraint(&args, 1000.0).unwrap().to_string()
    }

    #[test]
    fn the_questions_are_those_of_flux_jobs() {
        let me = users::me();
        assert_eq!(
            asked(&[]),
            format!(r#"{{"and":[{{"userid":[{me}]}},{{"states":[62]}}]}}"#)
        );
        assert_eq!(
            asked(&["-a"]),
            format!(r#"{{"and":[{{"userid":[{me}]}},{{"states":[126]}}]}}"#)
        );
        assert_eq!(asked(&["-A"]), r#"{"and":[{"states":[62]}]}"#);
        assert_eq!(
            asked(&["-A", "-f", "failed,canceled"]),
            r#"{"and":[{"results":[6]}]}"#
        );
        assert_eq!(
            asked(&["-u", "all", "--since=-1h"]),
            r#"{"and":[{"states":[126]}]}"#
        );
        assert_eq!(
            asked(&["-u", "4711", "--name", "a,b", "-q", "q"]),
            r#"{"and":[{"userid":[4711]},{"name":["a","b"]},{"queue":["q"]},{"states":[62]}]}"#
        );
        assert_eq!(
            asked(&["-A", "-i", "node[0-1]"]),
            r#"{"and":[{"hostlist":["node[0-1]"]},{"states":[62]}]}"#
        );
    }
}
