//! `weir job eventlog`: all that happened to a job, once or followed.

use super::wait_event::log_path;
use crate::attach::Followed;
use crate::connect::{self, CallError, Session};
use crate::document;
use crate::each;
use crate::eventtext::{EventText, LogEvent, Times};
use crate::ids;
use crate::{outage, output};
use job::JobId;
use serde_json::{Map, Value, json};
use std::io::Write as _;
use wire::errno;

/// Print what happened to a job
///
/// One event a line, oldest first, as it is stored. With --follow new events are printed as they happen, until the job's
/// last one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir job eventlog ƒCdza1gs
  weir job eventlog -H ƒCdza1gs              times for people
  weir job eventlog -F ƒCdza1gs              go on until it has ended
  weir job eventlog -p exec ƒCdza1gs         what the executor did
  weir job eventlog --json ƒCdza1gs | jq -r .name

EXIT STATUS
  0  printed
  1  no such job, no such log, no right to it, or no instance
  2  the command line is wrong
  75  with --follow: the instance was shut down meanwhile")]
pub struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: String,

    /// Go on with new events until the last
    #[arg(short = 'F', long)]
    follow: bool,

    /// Another log of the job: exec, output, or a path such as guest.exec.eventlog
    #[arg(short, long, default_value = "eventlog", value_name = "LOG")]
    path: String,

    /// Print events as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// How times are printed
    #[arg(short = 'T', long, value_name = "FORM", default_value = "raw")]
    time_format: Times,

    /// As --time-format=human
    #[arg(short = 'H', long)]
    human: bool,
}

/// Prints.
///
/// # Errors
/// A wrong id, no such log, no instance.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let id = ids::parse(&args.id)?;
    let mut printer = Printer {
        json: args.json,
        text: EventText::new(if args.human {
            Times::Human
        } else {
            args.time_format
        }),
    };
    let path = log_path(&args.path);
    connect::block_on(async {
        if args.follow {
            follow(id, path, &mut printer).await
        } else {
            once(id, path, &mut printer).await
        }
    })
}

struct Printer {
    json: bool,
    text: EventText,
}

impl Printer {
    fn print(&mut self, out: &mut output::Out, line: &str) -> anyhow::Result<()> {
        if self.json {
            document::printed();
            writeln!(out, "{}", line.trim_end_matches('\n'))?;
        } else {
            let mut shown = String::new();
            self.text.write(&LogEvent::parse(line)?, &mut shown);
            writeln!(out, "{shown}")?;
        }
        Ok(())
    }
}

async fn once(id: JobId, path: &str, printer: &mut Printer) -> anyhow::Result<()> {
    let request = json!({"id": id, "keys": [path], "flags": 0});
    let answer: Map<String, Value> = outage::patiently(async || {
        let session = Session::open().await?;
        Ok(session.call("job-info.lookup", &request).await?)
    })
    .await
    .map_err(|error| refusal(id, path, error))?;
    let mut out = output::stdout();
    for line in answer
        .get(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .lines()
    {
        printer.print(&mut out, line)?;
    }
    out.flush()?;
    Ok(())
}

async fn follow(id: JobId, path: &str, printer: &mut Printer) -> anyhow::Result<()> {
    let mut log = Followed::new(Session::open().await?, id, path);
    while let Some(line) = log.next().await.map_err(|error| refusal(id, path, error))? {
        let mut out = output::stdout();
        printer.print(&mut out, &line)?;
        out.flush()?;
    }
    Ok(())
}

/// What is said when a log cannot be read.
pub(super) fn refusal(id: JobId, path: &str, error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<CallError>() {
        Some(CallError::Refused {
            errnum: errno::ENOENT,
            text,
            ..
        }) => {
            if path == "eventlog" || text.as_deref() == Some("invalid job id") {
                anyhow::anyhow!("{}", ids::unknown(id))
            } else {
                anyhow::anyhow!("{}: there is no log '{path}'", ids::show(id))
            }
        }
        Some(
            refused @ CallError::Refused {
                errnum: errno::EPERM | errno::EINVAL,
                ..
            },
        ) => anyhow::anyhow!("{}", each::refusal(id, refused)),
        _ => error,
    }
}
