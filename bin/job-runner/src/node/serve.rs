//! The node process's loop: one engine at a time, the shepherds, and the signals of the kernel.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::messages::{FromNode, ToNode, from_line, to_line};
use crate::node::jobs::{Event, Jobs};
use crate::paths::{self, ShortDir};
use crate::proc;

/// What a node process prints when it can be reached.
pub const READY_LINE: &str = "ready";
/// Messages on their way to the engine; an engine that lets more gather is cut off and asks again.
const OUT_LEN_MAX: usize = 4096;
/// How long a node process without jobs waits for an engine to come back.
const LINGER: Duration = Duration::from_secs(30);
/// How long shepherds may take to die with their supervisor.
const DIE_WAIT: Duration = Duration::from_secs(10);
/// How long they may take before they are killed with their jobs.
const DIE_PATIENCE: Duration = Duration::from_secs(3);
/// Pause between two looks whether a process that must run was stopped.
pub(crate) const STOPPED_ROUND: Duration = Duration::from_secs(2);
/// The longest first line of a connection, in bytes.
const FIRST_LINE_LEN_MAX: u64 = 4096;
/// How long a connection may take to say it.
const INTRODUCE_WAIT: Duration = Duration::from_secs(5);
/// Connections that have not said it yet.
const ARRIVING_MAX: usize = 64;

/// How a node process is started.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Its name.
    pub name: String,
    /// The state directory.
    pub statedir: PathBuf,
    /// Shepherds kept waiting.
    pub spares: usize,
    /// End all jobs when this process ends.
    pub supervisor: Option<u32>,
}

/// A connection to an engine.
struct Engine {
    generation: u64,
    lines: mpsc::Sender<Vec<u8>>,
    /// Its process, if that is known.
    pid: Option<i32>,
    look_at: Instant,
}

impl Engine {
    /// A job may have stopped it.
    fn look(&mut self, now: Instant) {
        if self.look_at <= now {
            self.look_at = now + STOPPED_ROUND;
            if let Some(pid) = self.pid {
                proc::go_on(pid);
            }
        }
    }
}

enum FromEngine {
    Said(ToNode),
    Hung,
}

/// Runs a node process until it is not needed any more.
/// # Errors
/// It could not be set up: the lock is another's, the socket cannot be bound.
pub async fn run(config: NodeConfig) -> anyhow::Result<()> {
    // Not in the terminal's session: an interrupt there is meant for the daemons, not for jobs.
    let _ = rustix::process::setsid();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("failed to become a subreaper")?;
    let lock_path = paths::node_lock(&config.statedir, &config.name);
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&lock_path)
        .with_context(|| format!("failed to open {}", lock_path.display()))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        anyhow::bail!(
            "node {} has a process already: {} is locked",
            config.name,
            lock_path.display()
        );
    }
    // For an engine that finds this process stopped before it can be reached.
    let _ = lock
        .set_len(0)
        .and_then(|()| (&lock).write_all(format!("{}\n", std::process::id()).as_bytes()));
    let dir = ShortDir::open(&config.statedir).context("failed to open the state directory")?;
    let socket_name = paths::node_socket(&config.name);
    let _ = std::fs::remove_file(config.statedir.join(&socket_name));
    let listener =
        UnixListener::bind(dir.path(&socket_name)).context("failed to bind the node's socket")?;
    let supervisor = config.supervisor.map(watch).transpose()?;

    let (heard_to, mut heard) = mpsc::channel(256);
    let (events_to, mut events) = mpsc::channel(64);
    let (said_to, mut said) = mpsc::channel::<(u64, FromEngine)>(256);
    let mut children = signal(SignalKind::child())?;
    let mut jobs = Jobs::new(config.spares, heard_to, events_to);
    while jobs.refill() {}
    println!("{READY_LINE}");
    let _ = std::io::stdout().flush();
    info!(
        node = config.name,
        pid = std::process::id(),
        "node process is ready"
    );

    let mut engine: Option<Engine> = None;
    let mut arriving = JoinSet::new();
    let mut generation = 0;
    let mut retired = false;
    let mut alone_since = Instant::now();
    loop {
        if engine.is_none() && jobs.is_idle() && (retired || alone_since.elapsed() >= LINGER) {
            info!(node = config.name, "no engine and no jobs: done");
            return Ok(());
        }
        let wait_until = [
            jobs.sync_at(),
            jobs.watch_at(),
            engine.as_ref().map(|engine| engine.look_at),
            (engine.is_none() && jobs.is_idle()).then(|| alone_since + LINGER),
        ];
        let wait_until = wait_until.into_iter().flatten().min();
        tokio::select! {
            biased;
            () = gone(supervisor.as_ref()) => {
                info!(node = config.name, "the supervisor is gone: ending all jobs");
                jobs.die();
                return finish_dying(jobs, heard, children, events).await;
            }
            Some((key, message)) = heard.recv() => jobs.hear(key, message),
            Some((from, message)) = said.recv() => {
                if engine.as_ref().is_some_and(|engine| engine.generation == from) {
                    match message {
                        FromEngine::Said(ToNode::Retire {}) => {
                            retired = true;
                            jobs.drop_spares();
                            // What is on disk is waited for by nobody.
                            jobs.sync_now();
                        }
                        FromEngine::Said(message) => jobs.take(message),
                        FromEngine::Hung => {
                            engine = None;
                            alone_since = Instant::now();
                        }
                    }
                }
            }
            _ = children.recv() => jobs.reap(),
            Some(event) = events.recv() => jobs.happened(event),
            accepted = listener.accept() => {
                if let (Some(stream), true) = (accept(accepted), arriving.len() < ARRIVING_MAX) {
                    arriving.spawn(introduce(stream, config.statedir.clone()));
                }
            }
            Some(arrived) = arriving.join_next() => {
                if let Ok(Some((pid, read, write))) = arrived {
                    generation += 1;
                    retired = false;
                    jobs.keep_spares(config.spares);
                    let hello = FromNode::Hello { name: config.name.clone(), pid: std::process::id(), jobs: jobs.ids() };
                    let (lines, queue) = mpsc::channel(OUT_LEN_MAX);
                    let _ = lines.try_send(to_line(&hello));
                    tokio::spawn(talk(generation, read, write, queue, said_to.clone()));
                    let look_at = Instant::now() + STOPPED_ROUND;
                    engine = Some(Engine { generation, lines, pid, look_at });
                }
            }
            () = until(wait_until) => {
                let now = Instant::now();
                jobs.sync_due(now);
                jobs.watch(now);
                if let Some(engine) = &mut engine {
                    engine.look(now);
                }
            }
            // Last in line: spares are started when there is nothing else to do.
            () = std::future::ready(()), if jobs.refill_wanted() => { jobs.refill(); }
        }
        deliver(&mut jobs, &mut engine);
    }
}

fn deliver(jobs: &mut Jobs, engine: &mut Option<Engine>) {
    if jobs.out.is_empty() {
        return;
    }
    let mut lines = Vec::with_capacity(256);
    for message in jobs.out.drain(..) {
        lines.extend_from_slice(&to_line(&message));
    }
    if engine
        .as_ref()
        .is_some_and(|engine| engine.lines.try_send(lines).is_err())
    {
        warn!("the engine does not take what it is told: cutting it off");
        *engine = None;
    }
}

fn accept(
    accepted: std::io::Result<(UnixStream, tokio::net::unix::SocketAddr)>,
) -> Option<UnixStream> {
    match accepted {
        Ok((stream, _)) => {
            let ours = rustix::process::geteuid().as_raw();
            let theirs = stream.peer_cred().map(|cred| cred.uid());
            (theirs.is_ok_and(|uid| uid == ours || uid == 0)).then_some(stream)
        }
        Err(error) => {
            warn!(%error, "failed to accept an engine");
            None
        }
    }
}

type Read = BufReader<OwnedReadHalf>;

/// Lets an engine say that it is one of this instance. Whoever connects and is none puts nobody out of his place.
async fn introduce(
    stream: UnixStream,
    statedir: PathBuf,
) -> Option<(Option<i32>, Read, OwnedWriteHalf)> {
    let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
    let (read, write) = stream.into_split();
    let mut read = BufReader::with_capacity(16 << 10, read);
    let mut line = Vec::new();
    let mut first = (&mut read).take(FIRST_LINE_LEN_MAX);
    let got = tokio::time::timeout(INTRODUCE_WAIT, first.read_until(b'\n', &mut line)).await;
    let is_engine = match from_line(&line) {
        Ok(ToNode::Engine { key }) => paths::read_key(&statedir).is_ok_and(|ours| ours == key),
        _ => false,
    };
    if !is_engine || got.is_err() {
        warn!(
            pid,
            "a connection that is no engine of this instance: closed"
        );
        return None;
    }
    Some((pid, read, write))
}

/// Moves lines between the loop and one engine.
async fn talk(
    generation: u64,
    mut read: Read,
    mut write: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Vec<u8>>,
    said: mpsc::Sender<(u64, FromEngine)>,
) {
    let mut line = Vec::new();
    loop {
        tokio::select! {
            got = read.read_until(b'\n', &mut line) => {
                if !got.is_ok_and(|len| len > 0) || !line.ends_with(b"\n") {
                    break;
                }
                match from_line(&line) {
                    Ok(message) => {
                        if said.send((generation, FromEngine::Said(message))).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => warn!(%error, "an engine said what is no message"),
                }
                line.clear();
            }
            next = queue.recv() => {
                let Some(lines) = next else { return };
                if write.write_all(&lines).await.is_err() {
                    break;
                }
            }
        }
    }
    let _ = said.send((generation, FromEngine::Hung)).await;
}

/// The end of a process that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    gone: tokio::sync::watch::Receiver<bool>,
}

/// Watches a process. A thread waits for its end: it may wait for ever, which a task of the runtime must not.
pub(crate) fn watch(pid: u32) -> anyhow::Result<Watched> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("not a process id")?;
    let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .context("the supervisor is gone already")?;
    let (tell, gone) = tokio::sync::watch::channel(false);
    std::thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
            let _ = tell.send(true);
        })?;
    Ok(Watched { gone })
}

/// Waits for the end of a watched process; for ever if there is none.
pub(crate) async fn gone(watched: Option<&Watched>) {
    match watched {
        Some(watched) => {
            let _ = watched.gone.clone().wait_for(|gone| *gone).await;
        }
        None => std::future::pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the shepherds to end their jobs, a bounded time.
async fn finish_dying(
    mut jobs: Jobs,
    mut heard: mpsc::Receiver<(crate::node::child::Key, crate::node::child::Heard)>,
    mut children: tokio::signal::unix::Signal,
    mut events: mpsc::Receiver<Event>,
) -> anyhow::Result<()> {
    let begun = tokio::time::Instant::now();
    let mut patience = Some(begun + DIE_PATIENCE);
    while !jobs.all_over() {
        let watch_at = jobs.watch_at();
        tokio::select! {
            Some((key, message)) = heard.recv() => jobs.hear(key, message),
            _ = children.recv() => jobs.reap(),
            Some(event) = events.recv() => jobs.happened(event),
            () = until(patience.map(Into::into)) => {
                patience = None;
                jobs.put_all_down();
            }
            () = until(watch_at) => jobs.watch(Instant::now()),
            () = tokio::time::sleep_until(begun + DIE_WAIT) => break,
        }
    }
    // Once, whatever comes of it: what is private is not asked for again.
    jobs.sync_now();
    Ok(())
}
