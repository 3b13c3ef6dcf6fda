//! The job-manager daemon: broker, core, journal and store in one process.
//!
//! This crate is the shell: it performs what the cores (`router`, `manager`, `journal`) decide. [`run`] opens the store, restores the
//! jobs, binds the socket and loops until the shutdown future is ready or the store fails.
//!
//! | file | what |
//! | --- | --- |
//! | `open.rs`, `restore.rs`, `missing.rs` | from a state directory to a shell; the jobs of the store into the manager; those that are gone |
//! | `turns.rs`, `stop.rs` | the loop, and its end |
//! | `shell.rs`, `deliver.rs` | the loop's state, one turn: in, and out |
//! | `serve.rs`, `broker.rs`, `builtin.rs` | requests that are served here: the manager's and the store's · `service`, `event` · `attr`, `config`, `ping` |
//! | `client_log.rs`, `events.rs` | `log.append`; how much may be published, and to whom it does not go |
//! | `asked.rs` | requests that wait for their answer |
//! | `conns.rs` | connections and their output queues |
//! | `inbox.rs`, `forward.rs` | requests of clients on their way to services: who has his turn, what is refused |
//! | `engines.rs`, `to_engines.rs` | what goes to the scheduler and the exec service, in order |
//! | `streams.rs`, `specs.rs`, `frames.rs` | journal listeners: what they ask for; batches out, backlog pages in |
//! | `committer.rs` | commits on their way to the disk |
//! | `reads.rs`, `pages.rs`, `lookup.rs`, `keys.rs` | reads of the store, off the loop |
//! | `set_aside.rs` | jobs that cannot be used |
//! | `retain.rs` | how much of the log is kept |
//! | `purge.rs` | searches for jobs that ended, and the files of purged ones |

#[cfg(feature = "sabotage")]
compile_error!(
    "the feature sabotage is for crates/sim, which breaks what it compiles; no daemon is built with it"
);

mod asked;
#[cfg(test)]
mod bounds_table;
mod broker;
mod builtin;
mod client_log;
mod clock;
mod committer;
mod conns;
mod deliver;
mod engines;
mod events;
mod forward;
mod frames;
mod inbox;
mod keys;
mod lookup;
mod missing;
mod open;
mod pages;
mod purge;
mod reads;
mod restore;
mod retain;
mod serve;
mod set_aside;
mod shell;
mod specs;
mod stop;
mod streams;
mod to_engines;
mod turns;

pub use retain::{LOG_BYTES_LIMIT, LOG_ENTRIES_LIMIT, Retention};
use rpc::Verdict;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use wire::{Cred, errno};

/// What the daemon is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Store, key and lock live here.
    pub statedir: PathBuf,
    /// Path of the socket.
    pub socket: PathBuf,
    /// Users other than the one who runs it may connect.
    pub allow_guests: bool,
    /// Entries in the journal's ring.
    pub journal_size_limit: usize,
    /// Over which events are gathered for a busy listener.
    pub batch_interval: Duration,
    /// Largest frame taken from a client, in bytes.
    pub frame_limit: usize,
    /// The store's file may not grow past so many bytes: beyond, it is as if the disk were full.
    pub store_size_limit: Option<u64>,
    /// How much is kept of what is over.
    pub retention: Retention,
}

impl Config {
    /// An instance in `statedir`, with what the program's options default to.
    #[must_use]
    pub fn new(statedir: impl Into<PathBuf>) -> Config {
        let statedir = statedir.into();
        Config {
            socket: statedir.join("socket"),
            statedir,
            allow_guests: false,
            journal_size_limit: journal::limits::RING_ENTRIES_MAX,
            batch_interval: Duration::from_millis(BATCH_INTERVAL_MS),
            frame_limit: wire::FRAME_LEN_MAX_DEFAULT,
            store_size_limit: None,
            retention: Retention::default(),
        }
    }
}

/// Default of [`Config::batch_interval`], in milliseconds.
pub const BATCH_INTERVAL_MS: u64 = 10;

/// Why the daemon did not run, or stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Something must be mended before it can start; one line says what.
    #[error("{0}")]
    CannotStart(String),
    /// It was asked to shut the instance down.
    #[error("the instance was shut down")]
    ShutDown,
    /// It had to stop; it may be started again.
    #[error("{0}")]
    Failed(String),
}

/// Descriptors kept for what is not a connection: the store's files, the socket, the log.
const DESCRIPTORS_KEPT: u64 = 128;
/// Connections at a time, if the system lets us have so many descriptors.
pub(crate) const CONNECTIONS_MAX: u64 = 65_536;

/// As many connections as there can be descriptors for: with none left nobody would be told anything. The soft limit is raised to the hard one; this
/// process has no children that would inherit it.
fn descriptors() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let most = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of descriptors stays as it is");
            limit.current
        }
    };
    let most = most.unwrap_or(u64::MAX).saturating_sub(DESCRIPTORS_KEPT);
    usize::try_from(most.clamp(1, CONNECTIONS_MAX)).unwrap_or(usize::MAX)
}

/// Runs the daemon until `shutdown` is ready. Everything acknowledged by then is on disk; it ends in bounded time.
/// # Errors
/// [`Stop`].
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Stop> {
    let open::Opened {
        mut shell,
        listener,
        mut news,
    } = open::open(config).map_err(Stop::CannotStart)?;
    let owner = rustix::process::getuid().as_raw();
    let guests = shell.config.allow_guests;
    let server_config = rpc::ServerConfig {
        frame_len_max: shell.config.frame_limit,
        outbox: conns::OUTBOX_LIMITS,
        connections_max: descriptors(),
        partial: rpc::server::PartialLimits {
            // Room for several of the longest frames, whatever limit was asked for.
            all: rpc::server::PARTIAL_BYTES_MAX.max(shell.config.frame_limit.saturating_mul(8)),
            others: rpc::server::PARTIAL_BYTES_OTHERS_MAX
                .max(shell.config.frame_limit.saturating_mul(4)),
        },
    };
    let (server, inbound) = rpc::server::serve(listener, server_config, move |uid| match uid {
        uid if uid == owner => Verdict::Welcome(Cred::owner(uid)),
        uid if guests => Verdict::Welcome(Cred::guest(uid)),
        _ => Verdict::Refuse(errno::EPERM),
    });
    news.inbound = Some(inbound);
    tracing::info!(socket = %shell.config.socket.display(), "ready");
    let ended = turns::turn_for_ever(&mut shell, &mut news, shutdown).await;
    // Nobody is let in any more, and the socket's file goes.
    drop(server);
    stop::stop(shell, news, ended.is_ok()).await;
    match ended {
        Ok(false) => Ok(()),
        Ok(true) => Err(Stop::ShutDown),
        Err(error) => Err(Stop::Failed(format!("{error:#}"))),
    }
}
