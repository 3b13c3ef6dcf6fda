//! The engine's loop: connections come and go, messages and facts are taken in, what follows is sent.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use job::{JobId, Timestamp};
use rpc::client::Receiver;
use sched::{Action, Input, NodeSpec, Sched, Set, rset};
use tracing::{error, info, warn};
use wire::{Message, Request, parse_json};

use crate::engine::boot::Boot;
use crate::engine::connect::{Connecting, RECONNECT_AFTER, connect};
use crate::engine::exec::{Exec, Out};
use crate::engine::machine;
use crate::engine::nodes::{NodeSetup, Nodes};
use crate::engine::notes::Notes;
use crate::engine::orders::Site;
use crate::engine::requests;
use crate::engine::resources::{self, Resources};
use crate::engine::session::{Progress, Session};
use crate::engine::stdin::PendingStdin;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// The instance's URI.
    pub uri: String,
    /// The state directory.
    pub statedir: PathBuf,
    /// Nodes the machine is presented as.
    pub nodes: u32,
    /// Cores of each node; none means what the machine has.
    pub cores: Option<Set>,
    /// GPUs of each node; none means what the machine has.
    pub gpus: Option<Set>,
    /// Seconds between the polite signal and SIGKILL.
    pub kill_grace_s: f64,
    /// Shepherds each node keeps waiting; none means one a core, at most 4.
    pub spares: Option<usize>,
    /// When this process ends, all jobs end.
    pub supervisor: Option<u32>,
    /// The pool the nodes belong to.
    pub pool: String,
}

/// How long several parts' doings are gathered, to be told at once.
pub(super) const GATHER: Duration = Duration::from_millis(10);
/// Jobs that stand aside and are offered beside those that do not, at most.
const ASIDE_MAX: u32 = 4096;
/// How long a new engine waits for its node processes before it connects, so that it is ready with all of them.
const NODES_WAIT: Duration = Duration::from_secs(2);

/// The engine's state.
pub(super) struct Engine {
    pub(super) specs: Vec<NodeSpec>,
    pub(super) up: Vec<bool>,
    pub(super) sched: Sched,
    pub(super) resources: Resources,
    pub(super) exec: Exec,
    pub(super) nodes: Nodes,
    pub(super) notes: Notes,
    statedir: PathBuf,
    boot: Boot,
    pub(super) session: Option<Session>,
    pub(super) limit: u32,
    /// So many more are offered because others stand aside.
    aside: u32,
    pub(super) stdin: HashMap<u64, PendingStdin>,
    pub(super) next_stdin: u64,
    pub(super) actions: Vec<Action>,
    /// Jobs named by the hello so far.
    held: HashSet<JobId>,
    /// When parts are told of.
    pub(super) tell_at: Option<Instant>,
}

pub(super) fn now() -> Timestamp {
    Timestamp(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_secs_f64())
            .unwrap_or(0.0),
    )
}

/// Runs the engine until `shutdown` is ready. Jobs are left running.
/// # Errors
/// The state directory cannot be used: [`CannotStart`](super::CannotStart).
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> anyhow::Result<()> {
    super::boot::prepare(&config.statedir)?;
    let specs = machine::nodes(
        config.nodes,
        &config.cores.clone().unwrap_or_else(machine::cores),
        &config.gpus.clone().unwrap_or_else(machine::gpus),
    );
    let limit = machine::limit(&specs);
    let cores = specs.first().map_or(1, |node| node.cores.len() as usize);
    let setup = NodeSetup {
        statedir: config.statedir.clone(),
        spares: config.spares.unwrap_or(cores.min(4)),
        supervisor: config.supervisor,
    };
    let supervisor = config.supervisor.map(crate::node::watch).transpose()?;
    let names: Vec<String> = specs.iter().map(|node| node.host.clone()).collect();
    let (nodes, mut heard) = Nodes::start(&names, setup);
    let site = Site {
        statedir: config.statedir.clone(),
        uri: config.uri.clone(),
        kill_grace_s: config.kill_grace_s,
        userid: rustix::process::geteuid().as_raw(),
    };
    let mut engine = Engine {
        sched: Sched::new(specs.clone()),
        up: vec![false; specs.len()],
        exec: Exec::new(site, specs.clone()),
        resources: Resources::new(config.pool.clone(), &specs),
        specs,
        nodes,
        notes: Notes::default(),
        boot: Boot::look(&config.statedir),
        statedir: config.statedir.clone(),
        session: None,
        limit,
        aside: 0,
        stdin: HashMap::new(),
        next_stdin: 0,
        actions: Vec::new(),
        held: HashSet::new(),
        tell_at: None,
    };
    let mut nodes_awaited = Some(Instant::now() + NODES_WAIT);
    tokio::pin!(shutdown);
    let mut receiver: Option<Receiver> = None;
    let mut connecting: Connecting = Box::pin(connect(config.clone(), Duration::ZERO));
    let mut messages: Vec<Message> = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = crate::node::gone(supervisor.as_ref()) => {
                info!("the supervisor is gone");
                break;
            }
            read = receive(&mut receiver, &mut messages) => {
                let mut result = read;
                for message in messages.drain(..) {
                    result = result.and_then(|()| engine.handle(message));
                }
                if let Err(reason) = result {
                    warn!("the job-manager is lost: {reason:#}");
                    receiver = None;
                    engine.session = None;
                    connecting = Box::pin(connect(config.clone(), RECONNECT_AFTER));
                }
            }
            (connection, key) = &mut connecting, if receiver.is_none() && nodes_awaited.is_none() => {
                match Session::begin(connection, key, engine.limit) {
                    Ok((session, way_in)) => {
                        engine.begin(session);
                        receiver = Some(way_in);
                    }
                    Err(reason) => warn!("failed to greet the job-manager: {reason:#}"),
                }
                if receiver.is_none() {
                    connecting = Box::pin(connect(config.clone(), RECONNECT_AFTER));
                }
            }
            Some(event) = heard.recv() => {
                // Facts of several jobs make one turn.
                let mut events = vec![event];
                while let Ok(event) = heard.try_recv() {
                    events.push(event);
                }
                engine.nodes(events);
                if engine.up.iter().all(|up| *up) {
                    nodes_awaited = None;
                }
            }
            () = until(engine.due_at()) => engine.due(),
            () = until(nodes_awaited) => {
                nodes_awaited = None;
                engine.not_there();
            }
        }
    }
    engine.nodes.retire().await;
    Ok(())
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

async fn receive(
    receiver: &mut Option<Receiver>,
    messages: &mut Vec<Message>,
) -> anyhow::Result<()> {
    match receiver {
        Some(receiver) => receiver
            .recv_many(messages)
            .await
            .context("connection ended"),
        None => std::future::pending().await,
    }
}

impl Engine {
    /// A new connection: the scheduler starts from what the job-manager says is held.
    fn begin(&mut self, session: Session) {
        self.session = Some(session);
        self.held.clear();
        self.resources.begin();
        self.aside = 0;
        self.sched = Sched::new(self.specs.clone());
        let nodes = Input::Nodes((0u32..).zip(self.up.iter().copied()).collect());
        self.sched.handle(now(), nodes, &mut self.actions);
        self.obey_drains();
        self.actions.clear();
    }

    fn handle(&mut self, message: Message) -> anyhow::Result<()> {
        match message {
            Message::Request(request) => self.request(request),
            Message::Response(response) if response.matchtag >= resources::TAG_MIN => {
                self.resource_answer(&response)
            }
            Message::Response(response) => {
                let Some(session) = &mut self.session else {
                    return Ok(());
                };
                match session.handle(response)? {
                    Progress::Held(payload) => self.held(&payload),
                    Progress::Step => Ok(()),
                    Progress::Known => self.announce(),
                    Progress::AllHeld => {
                        let mut out = Vec::new();
                        self.exec.held(&std::mem::take(&mut self.held), &mut out);
                        self.perform(out)?;
                        self.boot
                            .done(&self.statedir)
                            .context("failed to write down the machine's boot id")
                    }
                    Progress::Ready => {
                        info!(jobs = self.sched.holding(), "ready for jobs");
                        Ok(())
                    }
                }
            }
            Message::Event(_) | Message::Control(_) => Ok(()),
        }
    }

    /// The nodes are known to the job-manager, or it does not want to know them.
    pub(super) fn ready_for_jobs(&mut self) -> anyhow::Result<()> {
        self.session.as_mut().map_or(Ok(()), Session::ready)
    }

    fn held(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        let job: protocol::sched::HelloResponse<'_> = parse_json(payload)?;
        self.held.insert(job.id);
        let r = match job.r.map(|r| job::R::parse(r.get().as_bytes())) {
            Some(Ok(r)) => r,
            Some(Err(reason)) => {
                error!(job = %job.id, "its R cannot be read, what it holds is not known: {reason}");
                return Ok(());
            }
            None => {
                error!(job = %job.id, "the job-manager does not say what it holds");
                return Ok(());
            }
        };
        let ranks: Vec<u32> = r.nodes().iter().map(|node| node.rank).collect();
        if self.boot.given_out(&self.statedir, job.id, &ranks)? {
            let why = if self.boot.is_copy() {
                "given out by the instance that the state directory was copied from"
            } else {
                "given out before the machine was restarted"
            };
            warn!(job = %job.id, "{why}: not begun again");
        }
        let (grant, end_s) = rset::from_r(&r, &self.specs);
        self.sched.handle(
            now(),
            Input::Hello {
                id: job.id,
                grant,
                end_s,
            },
            &mut self.actions,
        );
        Ok(())
    }

    pub(super) fn respond(
        &mut self,
        request: &Request,
        payload: Option<bytes::Bytes>,
    ) -> anyhow::Result<()> {
        match &self.session {
            Some(session) => session.answer(request.respond(payload)),
            None => Ok(()),
        }
    }

    pub(super) fn refuse(
        &mut self,
        request: &Request,
        errnum: u32,
        text: Option<&str>,
    ) -> anyhow::Result<()> {
        match &self.session {
            Some(session) if request.expects_response() => {
                session.answer(request.error(errnum, text))
            }
            _ => Ok(()),
        }
    }

    /// Sends what the executor's book wants sent.
    pub(super) fn perform(&mut self, out: Vec<Out>) -> anyhow::Result<()> {
        let mut result = Ok(());
        for out in out {
            match out {
                Out::Answer { id, payload } => {
                    if let Some(session) = &self.session
                        && let Some(request) = session.starts.get(&id)
                    {
                        let sent =
                            session.answer(request.respond(Some(wire::nul_terminated(&payload))));
                        result = result.and(sent);
                    }
                }
                Out::Node { place, message } => self.nodes.send(place, &message),
                Out::Everywhere { message } => self.nodes.send_all(&message),
                Out::Join { place, name } => self.nodes.join(place, name),
                Out::Leave { place } => self.nodes.leave(place),
                Out::Freed(id) => {
                    if let Some(session) = &mut self.session {
                        session.starts.remove(&id);
                    }
                    let input = Input::Free(id);
                    self.sched.handle(now(), input, &mut self.actions);
                    result = result.and(self.stdin_too_late(id));
                }
                Out::Complete { dir, status } => crate::engine::complete(&dir, status),
            }
        }
        result.and(self.act())
    }

    /// Sends what the scheduler decided.
    pub(super) fn act(&mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        for action in std::mem::take(&mut self.actions) {
            let Some(session) = &mut self.session else {
                continue;
            };
            let (id, payload, last) = match action {
                Action::Allocated {
                    id,
                    grant,
                    end_s,
                    had_estimate,
                } => {
                    let r = rset::to_r(&grant, &self.specs, now(), end_s, true);
                    (id, requests::allocated(id, &r, had_estimate), true)
                }
                Action::Denied { id, note } => (id, requests::denied(id, &note), true),
                Action::Cancelled(id) => (id, requests::cancelled(id), true),
                Action::Estimated { id, start_s } => (id, requests::estimated(id, start_s), false),
            };
            let request = if last {
                session.allocs.remove(&id)
            } else {
                session.allocs.get(&id).cloned()
            };
            if let Some(request) = request {
                result = result.and(session.answer(request.respond(Some(payload))));
            }
        }
        result.and(self.widen())
    }

    /// Jobs that stand aside, because they lack drained nodes, take no places among those that are offered.
    fn widen(&mut self) -> anyhow::Result<()> {
        let aside = u32::try_from(self.sched.aside()).unwrap_or(u32::MAX);
        let more = if aside > self.aside {
            aside.saturating_mul(2).next_power_of_two().min(ASIDE_MAX)
        } else if aside == 0 {
            0
        } else {
            return Ok(());
        };
        if more == self.aside {
            return Ok(());
        }
        self.aside = more;
        match &mut self.session {
            Some(session) => session.set_limit(self.limit.saturating_add(more)),
            None => Ok(()),
        }
    }
}
