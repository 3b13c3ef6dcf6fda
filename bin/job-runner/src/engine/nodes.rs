//! Links to the node processes: reached if they are there, started if they are not, started again when they die.
//!
//! One task a node. The engine talks to it through [`Nodes`]; what it says comes as [`NodeEvent`]s on one queue. Nodes are
//! called by their place (see `roster`); leaving ones come and go while the engine runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, info, warn};

use crate::messages::{FromNode, ToNode, from_line, to_line};
use crate::node::{READY_LINE, STOPPED_ROUND};
use crate::paths::{self, ShortDir};
use crate::proc;

/// Messages on their way to one node process.
const QUEUE_LEN_MAX: usize = 4096;
/// Pause before a node process that could not be started is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// The first pause after a connection that came to nothing: a process that is dying can still be connected to.
const DYING_PAUSE: Duration = Duration::from_millis(5);
/// How long the last words to the node processes may take.
const RETIRE_WAIT: Duration = Duration::from_secs(2);
/// Looks in a row at which a node process is found stopped, and continued.
const STOPS_MAX: u32 = 5;

/// How node processes are started.
#[derive(Debug, Clone)]
pub(crate) struct NodeSetup {
    pub(crate) statedir: PathBuf,
    pub(crate) spares: usize,
    pub(crate) supervisor: Option<u32>,
}

/// What a link brings.
#[derive(Debug)]
pub(crate) enum NodeEvent {
    /// The node process of that place can be talked to.
    Up(u32),
    /// It said this.
    Said(u32, FromNode),
    /// It is gone; the link sees to another one.
    Down(u32),
}

/// All links.
#[derive(Debug)]
pub(crate) struct Nodes {
    setup: NodeSetup,
    links: HashMap<u32, mpsc::Sender<Vec<u8>>>,
    events: mpsc::Sender<NodeEvent>,
    tasks: JoinSet<()>,
}

impl Nodes {
    /// Starts the links of our own nodes; ranks are places in `names`.
    pub(crate) fn start(names: &[String], setup: NodeSetup) -> (Nodes, mpsc::Receiver<NodeEvent>) {
        let (events, heard) = mpsc::channel(1024);
        let spares = setup.spares;
        let mut nodes = Nodes {
            setup,
            links: HashMap::new(),
            events,
            tasks: JoinSet::new(),
        };
        for (rank, name) in (0u32..).zip(names) {
            nodes.add(rank, name.clone(), spares);
        }
        (nodes, heard)
    }

    fn add(&mut self, place: u32, name: String, spares: usize) {
        let (lines, queue) = mpsc::channel(QUEUE_LEN_MAX);
        self.links.insert(place, lines);
        let setup = NodeSetup {
            spares,
            ..self.setup.clone()
        };
        self.tasks
            .spawn(link(place, name, setup, queue, self.events.clone()));
    }

    /// Looks after a node that is leaving: no shepherds are kept ready for it.
    pub(crate) fn join(&mut self, place: u32, name: String) {
        info!(
            node = name,
            "none of this engine's: looked after until its jobs are gone"
        );
        self.add(place, name, 0);
    }

    /// A leaving node's last job is gone: its process may end.
    pub(crate) fn leave(&mut self, place: u32) {
        self.send(place, &ToNode::Retire {});
        // The link ends when it has passed that on.
        self.links.remove(&place);
        while self.tasks.try_join_next().is_some() {}
    }

    /// Sends a message. One to a node that is down is dropped: it is asked again for all it should know when it comes back.
    pub(crate) fn send(&self, place: u32, message: &ToNode) {
        let Some(link) = self.links.get(&place) else {
            return;
        };
        if link.try_send(to_line(message)).is_err() {
            warn!(node = place, "a node process does not take what it is told");
        }
    }

    /// Sends a message to all.
    pub(crate) fn send_all(&self, message: &ToNode) {
        for place in self.links.keys() {
            self.send(*place, message);
        }
    }

    /// Tells all node processes to end when they have no jobs left.
    pub(crate) async fn retire(mut self) {
        self.send_all(&ToNode::Retire {});
        self.links.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(RETIRE_WAIT, all).await;
    }
}

async fn link(
    place: u32,
    name: String,
    setup: NodeSetup,
    mut queue: mpsc::Receiver<Vec<u8>>,
    events: mpsc::Sender<NodeEvent>,
) {
    let mut pause = DYING_PAUSE;
    loop {
        match reach(&name, &setup).await {
            Ok(stream) => {
                match talk(place, &setup.statedir, stream, &mut queue, &events).await {
                    Talked::Enough => return,
                    Talked::Never => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(RETRY_AFTER);
                    }
                    Talked::Lost => {
                        pause = DYING_PAUSE;
                        if events.send(NodeEvent::Down(place)).await.is_err() {
                            return;
                        }
                    }
                }
                debug!(node = name, "the node process hung up");
            }
            Err(error) => {
                wake_locked(&setup.statedir, &name);
                warn!(
                    node = name,
                    "failed to reach or start the node process: {error:#}"
                );
                tokio::select! {
                    () = tokio::time::sleep(RETRY_AFTER) => {}
                    // The engine is ending.
                    () = closed(&mut queue) => return,
                }
            }
        }
    }
}

/// Continues a node process that is stopped; one that is each time it is looked at is killed. How often in a row it was.
fn wake(pid: Option<i32>, stops: u32) -> u32 {
    let Some(pid) = pid else { return 0 };
    if !proc::go_on(pid) {
        return 0;
    }
    warn!(pid, "a node process was stopped: continued");
    if stops >= STOPS_MAX
        && let Some(pid) = rustix::process::Pid::from_raw(pid)
    {
        warn!("and stopped again and again: killed");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    stops + 1
}

/// A node process may have been stopped before it could be reached; its lock says who it is.
fn wake_locked(statedir: &Path, name: &str) {
    let Ok(mut lock) = std::fs::File::open(paths::node_lock(statedir, name)) else {
        return;
    };
    let held = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).is_err();
    let mut text = String::new();
    if held && std::io::Read::read_to_string(&mut lock, &mut text).is_ok() {
        wake(text.trim().parse().ok(), 0);
    }
}

async fn closed(queue: &mut mpsc::Receiver<Vec<u8>>) {
    while queue.recv().await.is_some() {}
}

async fn reach(name: &str, setup: &NodeSetup) -> anyhow::Result<UnixStream> {
    paths::read_key(&setup.statedir).context("failed to read the instance key")?;
    let dir = ShortDir::open(&setup.statedir).with_context(|| {
        let statedir = setup.statedir.display();
        format!("failed to open the state directory {statedir}")
    })?;
    let socket = dir.path(&paths::node_socket(name));
    if let Ok(stream) = UnixStream::connect(&socket).await {
        return Ok(stream);
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("weir-node")
        .arg(format!("--node={name}"))
        .arg("--statedir")
        .arg(&setup.statedir);
    command.arg("--spares").arg(setup.spares.to_string());
    if let Some(supervisor) = setup.supervisor {
        command.arg("--supervisor").arg(supervisor.to_string());
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(false);
    let mut child = command.spawn().context("failed to start it")?;
    let stdout = child.stdout.take().context("it has no standard output")?;
    let mut lines = BufReader::new(stdout).lines();
    let ready = lines.next_line().await;
    // Whoever started it reaps it.
    tokio::spawn(async move {
        let _ = child.wait().await;
    });
    match ready {
        Ok(Some(line)) if line == READY_LINE => UnixStream::connect(&socket)
            .await
            .context("failed to connect to it"),
        Ok(_) => anyhow::bail!("it ended before it was ready"),
        Err(error) => Err(error).context("failed to hear from it"),
    }
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talked {
    /// The node process never said who it is.
    Never,
    /// It is gone.
    Lost,
    /// The engine is ending, or wants no more of it.
    Enough,
}

/// Moves lines both ways. The node is up when its process has said who it is; what was to be told it before, it is not told.
async fn talk(
    place: u32,
    statedir: &Path,
    mut stream: UnixStream,
    queue: &mut mpsc::Receiver<Vec<u8>>,
    events: &mpsc::Sender<NodeEvent>,
) -> Talked {
    let Ok(key) = paths::read_key(statedir) else {
        return Talked::Never;
    };
    let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
    let mut look = tokio::time::interval(STOPPED_ROUND);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stops = 0;
    let (read, mut write) = stream.split();
    let mut read = BufReader::with_capacity(16 << 10, read);
    let mut line = Vec::new();
    let mut hung_up = Talked::Never;
    // It was to be told, before it was up, that it is not needed any more. That alone is told it all the same.
    let retire = to_line(&ToNode::Retire {});
    let mut retires = false;
    if write
        .write_all(&to_line(&ToNode::Engine { key }))
        .await
        .is_err()
    {
        return hung_up;
    }
    loop {
        tokio::select! {
            _ = look.tick() => stops = wake(pid, stops),
            got = read.read_until(b'\n', &mut line) => {
                if !got.is_ok_and(|len| len > 0) || !line.ends_with(b"\n") {
                    return hung_up;
                }
                match from_line::<FromNode>(&line) {
                    Ok(message) => {
                        if hung_up == Talked::Never {
                            hung_up = Talked::Lost;
                            // What was meant for the one before is of no use to this one.
                            while let Ok(line) = queue.try_recv() {
                                retires |= line == retire;
                            }
                            if events.send(NodeEvent::Up(place)).await.is_err() {
                                return Talked::Enough;
                            }
                        }
                        if events.send(NodeEvent::Said(place, message)).await.is_err() {
                            return Talked::Enough;
                        }
                    }
                    Err(error) => warn!(node = place, %error, "a node process said what is no message"),
                }
                line.clear();
            }
            next = queue.recv() => {
                let Some(line) = next else {
                    // Nobody will do that after us.
                    wake(pid, 0);
                    if retires {
                        let _ = write.write_all(&retire).await;
                    }
                    return Talked::Enough;
                };
                if hung_up == Talked::Never {
                    retires |= line == retire;
                    continue;
                }
                let written = write.write_all(&line);
                tokio::pin!(written);
                // One that is stopped takes no more at some point, and is to be continued all the same.
                let written = loop {
                    tokio::select! {
                        written = &mut written => break written,
                        _ = look.tick() => stops = wake(pid, stops),
                    }
                };
                if written.is_err() {
                    return hung_up;
                }
            }
        }
    }
}
