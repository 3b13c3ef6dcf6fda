//! The job-manager daemon: broker, core, journal and store in one process.
//!
//! This crate is the shell: it performs what the cores (`router`, `manager`, `journal`) decide. [`run`] opens the store, restores the
//! jobs, binds the socket and loops until the shutdown future is ready or the store fails.
//!
//! | file | what |
//! | --- | --- |
//! | `shell.rs` | the loop's state, one turn |
//! | `conns.rs` | connections |
//! | `streams.rs` | journal listeners: batches out, backlog pages in |
//! | `committer.rs` | commits on their way to the disk |
//! | `reads.rs`, `pages.rs`, `lookup.rs` | reads of the store, off the loop |
//! | `builtin.rs` | `attr`, `config`, `ping`, `log` |

mod builtin;
mod clock;
mod committer;
mod conns;
mod frames;
mod lookup;
mod pages;
mod reads;
mod shell;
mod start;
mod streams;

use rpc::{Inbound, Verdict};
use shell::{Found, Shell};
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use wire::{Cred, ROLE_LOCAL, ROLE_OWNER, ROLE_USER, errno};

/// Messages and other news taken in one turn before what is due goes out.
const TURN_INBOUND_MAX: usize = 256;
/// `heartbeat.pulse` every so often.
const HEARTBEAT: Duration = Duration::from_secs(2);

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
}

/// Why the daemon did not run, or stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Something must be mended before it can start; one line says what.
    #[error("{0}")]
    CannotStart(String),
    /// It had to stop; it may be started again.
    #[error("{0}")]
    Failed(String),
}

/// Ready when the process gets SIGTERM or SIGINT.
pub async fn signals() {
    use tokio::signal::unix::{SignalKind, signal};
    match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

/// Runs the daemon until `shutdown` is ready. Everything acknowledged by then is on disk.
/// # Errors
/// [`Stop`].
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), Stop> {
    let start::Started {
        mut shell,
        listener,
        store_events,
        found,
    } = start::start(config).map_err(Stop::CannotStart)?;
    let owner = rustix::process::getuid().as_raw();
    let guests = shell.config.allow_guests;
    let server_config = rpc::ServerConfig {
        frame_len_max: shell.config.frame_limit,
        ..rpc::ServerConfig::default()
    };
    let (server, inbound) = rpc::server::serve(listener, server_config, move |uid| match uid {
        uid if uid == owner => Verdict::Welcome(Cred {
            userid: uid,
            rolemask: ROLE_OWNER | ROLE_LOCAL,
        }),
        uid if guests => Verdict::Welcome(Cred {
            userid: uid,
            rolemask: ROLE_USER | ROLE_LOCAL,
        }),
        _ => Verdict::Refuse(errno::EPERM),
    });
    tracing::info!(socket = %shell.config.socket.display(), "ready");
    let ended = turn_for_ever(&mut shell, inbound, store_events, found, shutdown).await;
    drop(server);
    shell.conns.finish_all();
    let closed = shell.committer.close();
    ended
        .and(closed)
        .map_err(|error| Stop::Failed(format!("{error:#}")))
}

/// The loop: wait for news, take what is there, send what is due, hand over what was decided.
async fn turn_for_ever(
    shell: &mut Shell,
    mut inbound: mpsc::Receiver<Inbound>,
    mut store_events: mpsc::Receiver<store::Event>,
    mut found: mpsc::Receiver<Found>,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    tokio::pin!(shutdown);
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut news = Vec::with_capacity(TURN_INBOUND_MAX);
    let mut more = false;
    loop {
        let due = shell.next_deadline();
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            event = store_events.recv() => take_store_event(shell, event)?,
            answer = found.recv() => {
                if let Some(answer) = answer {
                    shell.take_found(answer);
                }
            }
            count = inbound.recv_many(&mut news, TURN_INBOUND_MAX) => {
                anyhow::ensure!(count > 0, "the server has stopped");
                for one in news.drain(..) {
                    take_inbound(shell, one);
                }
            }
            _ = heartbeat.tick() => shell.heartbeat(),
            () = until(due), if due.is_some() && !more => {}
            () = std::future::ready(()), if more => {}
        }
        more = shell.end_turn()?;
    }
}

async fn until(due: Option<std::time::Instant>) {
    if let Some(due) = due {
        tokio::time::sleep_until(due.into()).await;
    }
}

fn take_store_event(shell: &mut Shell, event: Option<store::Event>) -> anyhow::Result<()> {
    match event {
        Some(store::Event::Durable {
            seq, commit_micros, ..
        }) => shell.take_durable(seq, commit_micros),
        Some(store::Event::NoSpace(full)) => {
            tracing::warn!(full, "space in the store");
            shell.take_no_space(full);
        }
        Some(store::Event::Fatal(text)) => {
            anyhow::bail!("the store cannot be written any more: {text}")
        }
        None => anyhow::bail!("the store's writer has ended"),
    }
    Ok(())
}

fn take_inbound(shell: &mut Shell, inbound: Inbound) {
    match inbound {
        Inbound::Opened {
            conn,
            handle,
            cred,
            uuid,
            ..
        } => shell.take_opened(router::PeerId(conn.0), handle, cred, uuid),
        Inbound::Messages {
            conn,
            messages,
            credit,
        } => {
            shell.take_messages(router::PeerId(conn.0), messages);
            drop(credit);
        }
        Inbound::Drained { conn } => shell.take_drained(router::PeerId(conn.0)),
        Inbound::Closed { conn, reason } => {
            tracing::debug!(conn = conn.0, %reason, "closed");
            shell.take_closed(router::PeerId(conn.0));
        }
    }
}
