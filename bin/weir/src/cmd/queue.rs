//! `weir queue …`: whether jobs may be submitted and are started, and switching both.

use crate::connect::{self, CallError, Session};
use crate::failure::usage;
use crate::{document, limit, output, queues, when};
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::io::Write as _;

/// Show and switch queues: submission and the starting of jobs
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
EXAMPLES
  weir queue status
  weir queue stop -m 'disk is being replaced'
  weir queue drain -t 1h

EXIT STATUS
  0  done; 1 refused, or no instance; 2 the command line is wrong
  The --help of each command says more.")]
#[allow(missing_docs, reason = "each is described where its arguments are")]
pub enum QueueCommand {
    Status(Status),
    Start(Start),
    Stop(Stop),
    Enable(Enable),
    Disable(Disable),
    Idle(Idle),
    Drain(Drain),
}

/// Which queue is switched, and what is said of it: the arguments all switches share.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The queue [default: the only one]
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,

    /// All queues
    #[arg(short, long, conflicts_with = "queue")]
    all: bool,

    /// Do not print the status afterwards
    #[arg(long)]
    quiet: bool,
}

/// Say whether queues take submissions and start jobs
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir queue status
  weir queue status --json | jq -r '.queues[] | select(.started | not).name'

JSON
  {\"queues\":[{\"name\":…|null,\"enabled\":bool,\"started\":bool,
    \"disable_reason\":…|null,\"stop_reason\":…|null,\"blocked\":…|null}…],
    \"errors\":[…]}

EXIT STATUS
  0  shown
  1  no instance, or no such queue
  2  the command line is wrong")]
pub struct Status {
    /// The queue [default: all]
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Start jobs of a queue
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir queue start
  weir queue start --all

EXIT STATUS
  0  started (also if it was)
  1  no instance, no such queue, or no right to it
  2  the command line is wrong")]
pub struct Start {
    #[command(flatten)]
    which: Which,
}

/// Start no more jobs of a queue; those that run go on
///
/// Jobs may still be submitted; they wait. It stays so over restarts of the instance.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir queue stop -m 'disk is being replaced'
  weir queue stop debug

EXIT STATUS
  0  stopped (also if it was)
  1  no instance, no such queue, or no right to it
  2  the command line is wrong")]
pub struct Stop {
    #[command(flatten)]
    which: Which,

    /// Why; shown to those who ask
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
}

/// Take submissions to a queue
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXIT STATUS
  0  done (also if it was so)
  1  no instance, no such queue, or no right to it
  2  the command line is wrong")]
pub struct Enable {
    #[command(flatten)]
    which: Which,
}

/// Refuse submissions to a queue; jobs that are there are not touched
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXIT STATUS
  0  done (also if it was so)
  1  no instance, no such queue, or no right to it
  2  the command line is wrong")]
pub struct Disable {
    #[command(flatten)]
    which: Which,

    /// Why; told to those who submit
    #[arg(short, long, value_name = "TEXT", required = true)]
    message: String,
}

/// Wait until no job runs or ends
///
/// Jobs that wait are not waited for: see 'weir queue stop' first, or 'weir queue drain'.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXIT STATUS
  0    no job runs
  1    no instance, or no right to ask
  124  --timeout passed first")]
pub struct Idle {
    /// Longest time to wait
    #[arg(short, long, value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: Option<f64>,
}

/// Wait until no job is active: all have run and ended
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXIT STATUS
  0    no job is active
  1    no instance, or no right to ask
  124  --timeout passed first")]
pub struct Drain {
    /// Longest time to wait
    #[arg(short, long, value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: Option<f64>,
}

impl QueueCommand {
    /// The command's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status(_) => "queue status",
            Self::Start(_) => "queue start",
            Self::Stop(_) => "queue stop",
            Self::Enable(_) => "queue enable",
            Self::Disable(_) => "queue disable",
            Self::Idle(_) => "queue idle",
            Self::Drain(_) => "queue drain",
        }
    }

    /// True if one JSON document is asked for.
    #[must_use]
    pub fn json(&self) -> bool {
        matches!(self, Self::Status(args) if args.json)
    }

    /// Runs it.
    ///
    /// # Errors
    /// No instance, no such queue, no right to it.
    pub fn run(&self) -> anyhow::Result<()> {
        connect::block_on(async {
            let session = Session::open().await?;
            match self {
                Self::Status(args) => status(&session, args.queue.as_deref(), args.json).await,
                Self::Start(args) => switch(&session, "start", true, &args.which, None).await,
                Self::Stop(args) => {
                    let reason = args.message.as_deref();
                    switch(&session, "start", false, &args.which, reason).await
                }
                Self::Enable(args) => switch(&session, "enable", true, &args.which, None).await,
                Self::Disable(args) => {
                    let reason = Some(args.message.as_str());
                    switch(&session, "enable", false, &args.which, reason).await
                }
                Self::Idle(args) => until(&session, "idle", "running", args.timeout).await,
                Self::Drain(args) => until(&session, "drain", "active", args.timeout).await,
            }
        })
    }
}

async fn status(session: &Session, queue: Option<&str>, as_json: bool) -> anyhow::Result<()> {
    let names = match queue {
        Some(name) => vec![Some(name.to_owned())],
        None => queues::names(session).await?,
    };
    let mut states = Vec::new();
    for name in names {
        states.push(queues::state(session, name).await?);
    }
    if as_json {
        return document::print(&json!({"queues": states, "errors": []}));
    }
    let mut out = output::stdout();
    for state in states {
        let lead = state
            .name
            .map_or_else(String::new, |name| format!("{name}: "));
        let submission = sentence(
            "Job submission is enabled",
            "Job submission is disabled",
            state.enabled,
            state.disable_reason.as_deref(),
        );
        let starting = sentence(
            "Scheduling is started",
            "Scheduling is stopped",
            state.started,
            state.stop_reason.as_deref(),
        );
        writeln!(out, "{lead}{submission}\n{lead}{starting}")?;
    }
    out.flush()?;
    Ok(())
}

fn sentence(yes: &str, no: &str, is: bool, reason: Option<&str>) -> String {
    match (is, reason) {
        (true, _) => yes.to_owned(),
        (false, Some(reason)) if !reason.is_empty() => {
            format!("{no}: {}", crate::text::escape(reason))
        }
        (false, _) => no.to_owned(),
    }
}

async fn switch(
    session: &Session,
    verb: &str,
    on: bool,
    which: &Which,
    reason: Option<&str>,
) -> anyhow::Result<()> {
    if which.queue.is_none() && !which.all && queues::names(session).await?.len() > 1 {
        return Err(usage("there are several queues: name one, or use --all"));
    }
    let mut request = Map::new();
    request.insert(verb.to_owned(), json!(on));
    request.insert("all".to_owned(), json!(which.all));
    if verb == "start" {
        request.insert("nocheckpoint".to_owned(), json!(false));
    }
    if let Some(name) = &which.queue {
        request.insert("name".to_owned(), json!(name));
    }
    if let Some(reason) = reason {
        request.insert("reason".to_owned(), json!(reason));
    }
    let topic = format!("job-manager.queue-{verb}");
    let switched = session.call_unit(&topic, &Value::Object(request)).await;
    if let (Err(CallError::Refused { .. }), Some(name)) = (&switched, &which.queue) {
        let known = queues::names(session).await.unwrap_or_default();
        if !known.iter().any(|known| known.as_ref() == Some(name)) {
            return Err(no_queue(name, &known));
        }
    }
    switched?;
    if which.quiet {
        Ok(())
    } else {
        status(session, which.queue.as_deref(), false).await
    }
}

/// There is no queue of that name: what there is, and what may have been meant.
fn no_queue(name: &str, known: &[Option<String>]) -> anyhow::Error {
    let known: Vec<&str> = known.iter().flatten().map(String::as_str).collect();
    let name = crate::text::escape(name);
    if known.is_empty() {
        anyhow::anyhow!(
            "there is no queue '{name}': there is one, without a name, and it is meant when none is given; a reason is given with -m '{name}'"
        )
    } else {
        anyhow::anyhow!(
            "there is no queue '{name}'; queues are {}",
            known.join(", ")
        )
    }
}

async fn until(
    session: &Session,
    method: &str,
    state: &str,
    timeout: Option<f64>,
) -> anyhow::Result<()> {
    let request = json!({});
    let topic = format!("job-manager.{method}");
    let waiting = async { Ok(session.call_unit_patiently(&topic, &request).await?) };
    limit::within(timeout, waiting, |after| {
        format!("queue {method}: jobs are still {state} after {after}")
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_not_there_may_have_been_meant_as_the_reason() {
        let only = no_queue("maintenance", &[None]).to_string();
        assert!(only.contains("-m 'maintenance'"), "{only}");
        let some = no_queue("x", &[Some("a".to_owned()), Some("b".to_owned())]);
        assert_eq!(some.to_string(), "there is no queue 'x'; queues are a, b");
    }

    #[test]
    fn the_reason_is_part_of_the_sentence() {
        assert_eq!(sentence("on", "off", true, Some("x")), "on");
        assert_eq!(sentence("on", "off", false, Some("disk\n")), "off: disk\\n");
        assert_eq!(sentence("on", "off", false, None), "off");
    }
}
