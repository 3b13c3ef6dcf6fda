//! `weir job …`: what is done to, or asked about, single jobs. One file a command.

pub mod allocs;
pub mod attach;
pub mod clients;
pub mod eventlog;
pub mod id;
pub mod info;
pub mod kill;
pub mod last;
pub mod prioritize;
pub mod purge;
pub mod raise;
pub mod status;
pub mod urgency;
pub mod wait;
pub mod wait_event;

use clap::Subcommand;

/// Act on single jobs, or ask about them
///
/// Jobs are named by id in any spelling (ƒCdza1gs, fCdza1gs, 443035942912, 0x6727000000, 0000.0067.2700.0000).
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
EXAMPLES
  weir job priority ƒCdza1gs 20
  weir job attach $(weir job last)
  weir job clients ƒCdza1gs

EXIT STATUS
  0  done; 1 refused, or no instance; 2 the command line is wrong
  The --help of each command says more.")]
#[allow(missing_docs, reason = "each is described where its arguments are")]
pub enum JobCommand {
    #[command(visible_alias = "urgency")]
    Priority(urgency::Args),
    Prioritize(prioritize::Args),
    Raise(raise::Args),
    Kill(kill::Args),
    Attach(attach::Args),
    Clients(clients::Args),
    Allocs(allocs::Args),
    Status(status::Args),
    Wait(wait::Args),
    WaitEvent(wait_event::Args),
    Eventlog(eventlog::Args),
    Info(info::Args),
    Last(last::Args),
    Id(id::Args),
    Purge(purge::Args),
}

impl JobCommand {
    /// The command's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Priority(_) => "job priority",
            Self::Prioritize(_) => "job prioritize",
            Self::Raise(_) => "job raise",
            Self::Kill(_) => "job kill",
            Self::Attach(_) => "job attach",
            Self::Clients(_) => "job clients",
            Self::Allocs(_) => "job allocs",
            Self::Status(_) => "job status",
            Self::Wait(_) => "job wait",
            Self::WaitEvent(_) => "job wait-event",
            Self::Eventlog(_) => "job eventlog",
            Self::Info(_) => "job info",
            Self::Last(_) => "job last",
            Self::Id(_) => "job id",
            Self::Purge(_) => "job purge",
        }
    }

    /// True if one JSON document is asked for.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::Priority(args) => args.json,
            Self::Prioritize(args) => args.json,
            Self::Wait(args) => args.json,
            Self::Purge(args) => args.json,
            Self::Clients(args) => args.json,
            Self::Allocs(args) => args.json,
            Self::WaitEvent(args) => args.json,
            Self::Eventlog(args) => args.json,
            Self::Raise(args) => args.json,
            Self::Kill(args) => args.json,
            Self::Status(args) => args.json,
            Self::Info(args) => args.json,
            Self::Last(args) => args.json,
            Self::Id(args) => args.json,
            Self::Attach(_) => false,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Those of the command.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Priority(args) => urgency::run(args),
            Self::Prioritize(args) => prioritize::run(args),
            Self::Raise(args) => raise::run(args),
            Self::Kill(args) => kill::run(args),
            Self::Attach(args) => attach::run(args),
            Self::Clients(args) => clients::run(args),
            Self::Allocs(args) => allocs::run(args),
            Self::Status(args) => status::run(args),
            Self::Wait(args) => wait::run(args, "job wait"),
            Self::WaitEvent(args) => wait_event::run(args),
            Self::Eventlog(args) => eventlog::run(args),
            Self::Info(args) => info::run(args),
            Self::Last(args) => last::run(args),
            Self::Id(args) => id::run(args),
            Self::Purge(args) => purge::run(args),
        }
    }
}
