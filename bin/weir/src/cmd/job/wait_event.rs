//! `weir job wait-event`: until something has happened to a job.

use super::eventlog::refusal;
use crate::attach::Followed;
use crate::connect::{self, Session};
use crate::document;
use crate::eventtext::{EventText, LogEvent, Times};
use crate::failure::usage;
use crate::output;
use crate::{ids, limit, when};
use job::JobId;
use serde_json::Value;
use std::io::Write as _;

/// Wait for an event of a job and print it
///
/// Events that happened before count: what has happened is found at once. The command fails if the job ends without the
/// event.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job wait-event ƒCdza1gs start
  weir job wait-event -t 30s ƒCdza1gs clean
  weir job wait-event -m type=cancel ƒCdza1gs exception
  weir job wait-event -p exec ƒCdza1gs shell.start

EXIT STATUS
  0    it happened
  1    the job ended without it, no such job, or no instance
  2    the command line is wrong
  75   the instance was shut down meanwhile
  124  --timeout passed first")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// The event: submit, alloc, start, finish, clean, exception …
    #[arg(value_name = "EVENT")]
    event: String,

    /// Longest time to wait
    #[arg(short, long, value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: Option<f64>,

    /// Wait until it has happened so many times
    #[arg(short, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Only events with this in their context
    #[arg(short, long, value_name = "KEY=VALUE")]
    match_context: Option<String>,

    /// Another log of the job: exec, output, or a path such as guest.exec.eventlog
    #[arg(short, long, default_value = "eventlog", value_name = "LOG")]
    path: String,

    /// Print the events before it too
    #[arg(short, long)]
    verbose: bool,

    /// Print nothing
    #[arg(long)]
    quiet: bool,

    /// Print events as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// How times are printed
    #[arg(short = 'T', long, value_name = "FORM", default_value = "raw")]
    time_format: Times,
}

/// Waits.
///
/// # Errors
/// A wrong id, no instance, or the event did not happen.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let condition = match args
        .match_context
        .as_deref()
        .map(|text| text.split_once('=').ok_or(text))
    {
        None => None,
        Some(Ok((key, value))) => Some((
            key.to_owned(),
            serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
        )),
        Some(Err(text)) => {
            return Err(usage(format!("--match-context={text}: expected KEY=VALUE")));
        }
    };
    let waiting = wait(args, id, condition);
    connect::block_on(limit::within(args.timeout, waiting, |after| {
        format!(
            "job wait-event: {}: no '{}' within {after}",
            ids::show(id),
            args.event
        )
    }))
}

async fn wait(args: &Args, id: JobId, condition: Option<(String, Value)>) -> anyhow::Result<()> {
    let path = log_path(&args.path);
    let mut log = Followed::new(Session::open().await?, id, path);
    let mut text = EventText::new(args.time_format);
    let mut left = args.count;
    let mut unmatched = false;
    loop {
        let Some(line) = log.next().await.map_err(|error| refusal(id, path, error))? else {
            let (shown, name) = (ids::show(id), &args.event);
            match (&args.match_context, unmatched, args.count - left) {
                (Some(wanted), true, 0) => {
                    anyhow::bail!("{shown}: '{name}' came, but not with {wanted}")
                }
                (_, _, 0) => anyhow::bail!("{shown}: ended without '{name}'"),
                (_, _, times) => anyhow::bail!(
                    "{shown}: ended after {times} of {} times '{name}'",
                    args.count
                ),
            }
        };
        let event = LogEvent::parse(&line)?;
        let meets = condition.as_ref().is_none_or(|(key, value)| {
            event
                .context
                .get(key)
                .is_some_and(|met| met == value || value.as_str() == Some(&met.to_string()))
        });
        unmatched |= event.name == args.event && !meets;
        left -= u64::from(event.name == args.event && meets);
        if !args.quiet && (args.verbose || left == 0) {
            let mut out = output::stdout();
            if args.json {
                document::printed();
                write!(out, "{line}")?;
            } else {
                let mut shown = String::new();
                text.write(&event, &mut shown);
                writeln!(out, "{shown}")?;
            }
            out.flush()?;
        }
        if left == 0 {
            return Ok(());
        }
    }
}

/// The path of a log under its short name.
pub(super) fn log_path(name: &str) -> &str {
    match name {
        "exec" => "guest.exec.eventlog",
        "output" => "guest.output",
        "input" => "guest.input",
        path => path,
    }
}
