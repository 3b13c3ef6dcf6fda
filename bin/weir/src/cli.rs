//! The command line: which commands there are, how help groups them, and what runs which.
//!
//! A command's help is the doc comment of its `Args`. Words that are wrong become one line on standard error.

use crate::cmd::job::JobCommand;
use crate::cmd::queue::QueueCommand;
use crate::cmd::resource::ResourceCommand;
use crate::cmd::store::StoreCommand;
use crate::cmd::{
    bulksubmit, cancel, completions, dispatch, info, job, jobs, journal, open, ping, run, shutdown,
    start, stats, submit, version,
};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use std::ffi::OsString;

/// The list of commands in `weir --help`, by what one wants to do.
const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Jobs:
  submit       Submit a job and print its id
  bulksubmit   Submit a job for each of many inputs
  run          Submit a job and stay with it
  dispatch     Make a job from a parameterized one
  jobs         List jobs
  info         Show all that is known about jobs
  wait         Wait until jobs have ended
  cancel       Cancel jobs
  job          Act on single jobs: priority, kill, attach, clients …

Watching:
  journal      Follow every event of every job
  stats        Show counts and counters
  open         Open the page in a browser

Instance:
  start        Start an instance; with a command, a private one
  shutdown     End it once nothing runs any more; or now
  queue        Show, stop and start queues
  resource     Show nodes, drain and undrain them
  store        Check, back up or recover the store
  ping         Is a service there?

More:
  version      Print versions
  completions  Print a completion script for a shell
  help         Print the help of a command

{options}{after-help}
";

/// Queue, run and follow jobs
///
/// weir runs jobs on this machine in the order of their priority and keeps a durable journal of all that happens to them.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true,
    help_template = TEMPLATE,
    override_usage = "weir COMMAND [ARGUMENTS…]",
    after_help = "\
Environment:
  WEIR_URI     the instance: local:///path/of/socket (else FLUX_URI, else the default state directory's)
  NO_COLOR     no colours

'weir COMMAND --help' says more, with examples and exit codes."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, once")]
#[allow(missing_docs, reason = "each is described where its arguments are")]
pub enum Command {
    Submit(submit::Args),
    Bulksubmit(bulksubmit::Args),
    Run(run::Args),
    Dispatch(dispatch::Args),
    #[command(aliases = ["ls", "list"])]
    Jobs(jobs::Args),
    Info(info::Args),
    Wait(job::wait::Args),
    Cancel(cancel::Args),
    /// What those type who expect it here; 'job kill' is its place.
    #[command(hide = true)]
    Kill(job::kill::Args),
    #[command(subcommand)]
    Job(JobCommand),
    Journal(journal::Args),
    Stats(stats::Args),
    Open(open::Args),
    Start(start::Args),
    Shutdown(shutdown::Args),
    #[command(subcommand)]
    Queue(QueueCommand),
    #[command(subcommand)]
    Resource(ResourceCommand),
    #[command(subcommand)]
    Store(StoreCommand),
    Ping(ping::Args),
    Version(version::Args),
    Completions(completions::Args),
}

impl Command {
    /// The command's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit",
            Self::Bulksubmit(_) => "bulksubmit",
            Self::Run(_) => "run",
            Self::Dispatch(_) => "dispatch",
            Self::Jobs(_) => "jobs",
            Self::Info(_) => "info",
            Self::Wait(_) => "wait",
            Self::Cancel(_) => "cancel",
            Self::Kill(_) => "kill",
            Self::Job(command) => command.name(),
            Self::Journal(_) => "journal",
            Self::Stats(_) => "stats",
            Self::Open(_) => "open",
            Self::Start(_) => "start",
            Self::Shutdown(_) => "shutdown",
            Self::Queue(command) => command.name(),
            Self::Resource(command) => command.name(),
            Self::Store(command) => command.name(),
            Self::Ping(_) => "ping",
            Self::Version(_) => "version",
            Self::Completions(_) => "completions",
        }
    }

    /// True if one JSON document is asked for.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::Bulksubmit(args) => args.json,
            Self::Cancel(args) => args.json,
            Self::Jobs(args) => args.json,
            Self::Info(args) => args.json,
            Self::Wait(args) => args.json,
            Self::Job(command) => command.json(),
            Self::Journal(args) => args.json,
            Self::Kill(args) => args.json,
            Self::Stats(args) => args.json,
            Self::Open(args) => args.json,
            Self::Dispatch(args) => args.json,
            Self::Shutdown(args) => args.json,
            Self::Queue(command) => command.json(),
            Self::Resource(command) => command.json(),
            Self::Store(command) => command.json(),
            _ => false,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Submit(args) => submit::run(args),
            Self::Bulksubmit(args) => bulksubmit::run(args),
            Self::Run(args) => run::run(args),
            Self::Dispatch(args) => dispatch::run(args),
            Self::Jobs(args) => jobs::run(args),
            Self::Info(args) => info::run(args),
            Self::Wait(args) => job::wait::run(args, "wait"),
            Self::Cancel(args) => cancel::run(args),
            Self::Kill(args) => job::kill::run(args),
            Self::Job(command) => command.run(),
            Self::Journal(args) => journal::run(args),
            Self::Stats(args) => stats::run(args),
            Self::Open(args) => open::run(args),
            Self::Start(args) => start::run(args),
            Self::Shutdown(args) => shutdown::run(args),
            Self::Queue(command) => command.run(),
            Self::Resource(command) => command.run(),
            Self::Store(command) => command.run(),
            Self::Ping(args) => ping::run(args),
            Self::Version(args) => version::run(args),
            Self::Completions(args) => completions::run(args),
        }
    }
}

/// Reads a command line.
///
/// # Errors
/// Those of clap, help among them.
pub fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = negative_numbers_are_values(Cli::command()).try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches)
}

/// Where a command is that is typed as if it were one of the first level: `job attach` for `attach`.
#[must_use]
pub fn place_of(word: &str) -> Option<String> {
    let command = Cli::command();
    let mut places = command.get_subcommands().filter_map(|group| {
        let sub = group.find_subcommand(word)?;
        (!group.is_hide_set() && word != "help")
            .then(|| format!("{} {}", group.get_name(), sub.get_name()))
    });
    places.next()
}

/// `-c -1` is a count that is out of range, not an option `-1` that does not exist.
fn negative_numbers_are_values(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            if arg.get_action().takes_values() && !arg.is_positional() {
                arg.allow_negative_numbers(true)
            } else {
                arg
            }
        })
        .mut_subcommands(negative_numbers_are_values)
}

/// The words of a command line that name the command: `job priority`.
#[must_use]
pub fn command_words(words: &[String]) -> String {
    let mut names = words
        .iter()
        .skip(1)
        .take_while(|word| !word.starts_with('-'));
    match names.next().map(String::as_str) {
        Some(first @ ("job" | "queue" | "resource" | "store")) => match names.next() {
            Some(second) if second.chars().all(|c| c.is_ascii_alphabetic() || c == '-') => {
                format!("{first} {second}")
            }
            _ => first.to_owned(),
        },
        Some(first) if first.chars().all(|c| c.is_ascii_alphabetic() || c == '-') => {
            first.to_owned()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        negative_numbers_are_values(Cli::command()).debug_assert();
    }

    #[test]
    fn help_lists_every_command_once() {
        let help = Cli::command().render_help().to_string();
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            let lines = help
                .lines()
                .filter(|line| {
                    line.split_whitespace().next() == Some(command.get_name())
                        && line.starts_with("  ")
                })
                .count();
            assert_eq!(lines, 1, "{}\n{help}", command.get_name());
        }
    }

    #[test]
    fn every_command_has_examples_or_exit_codes_in_its_help() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command
                .get_subcommands()
                .filter(|sub| sub.get_name() != "help")
            {
                let name = format!("{path} {}", sub.get_name());
                if sub.has_subcommands() {
                    walk(sub, &name);
                    continue;
                }
                let help = sub.clone().render_long_help().to_string();
                assert!(help.contains("EXIT STATUS"), "{name}");
                // Wider blocks are wrapped in the middle of an example.
                let block = sub.get_after_long_help().map(ToString::to_string);
                for line in block.iter().flat_map(|block| block.lines()) {
                    assert!(line.chars().count() <= 98, "{name}: {line}");
                }
                assert!(sub.get_about().is_some(), "{name}");
            }
        }
        walk(&Cli::command(), "weir");
    }

    #[test]
    fn a_command_of_a_group_is_found_without_it() {
        for (word, place) in [
            ("attach", Some("job attach")),
            ("priority", Some("job priority")),
            ("urgency", Some("job priority")),
            ("stop", Some("queue stop")),
            ("check", Some("store check")),
            ("nosuch", None),
            ("help", None),
        ] {
            assert_eq!(place_of(word).as_deref(), place, "{word}");
        }
    }

    #[test]
    fn the_words_that_name_a_command() {
        let words = |line: &str| {
            command_words(
                &line
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(words("weir job priority 5 32"), "job priority");
        assert_eq!(words("weir jobs --x"), "jobs");
        assert_eq!(words("weir job"), "job");
        assert_eq!(words("weir --x"), "");
    }
}
