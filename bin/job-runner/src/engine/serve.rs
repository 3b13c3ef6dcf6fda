//! The engine's loop, and what each request of the services does.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use job::{JobId, Timestamp};
use rpc::client::Receiver;
use sched::{Action, Input, NodeSpec, Sched, Set, rset};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use wire::{Message, Request, errno, json_payload, parse_json};

use crate::engine::boot::Boot;
use crate::engine::connect::{Connecting, RECONNECT_AFTER, connect};
use crate::engine::exec::{Exec, Out};
use crate::engine::machine;
use crate::engine::nodes::{NodeEvent, NodeSetup, Nodes};
use crate::engine::orders::Site;
use crate::engine::requests::{self, Expiration};
use crate::engine::session::{Progress, Session};
use crate::engine::stdin::PendingStdin;
use crate::messages::{FromNode, ToShepherd};

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
}

/// The engine's state.
pub(super) struct Engine {
    specs: Vec<NodeSpec>,
    up: Vec<bool>,
    sched: Sched,
    pub(super) exec: Exec,
    nodes: Nodes,
    statedir: PathBuf,
    boot: Boot,
    pub(super) session: Option<Session>,
    limit: u32,
    pub(super) stdin: HashMap<u64, PendingStdin>,
    pub(super) next_stdin: u64,
    actions: Vec<Action>,
    /// Jobs named by the hello so far.
    held: HashSet<JobId>,
}

fn now() -> Timestamp {
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
        specs,
        nodes,
        boot: Boot::look(&config.statedir),
        statedir: config.statedir.clone(),
        session: None,
        limit,
        stdin: HashMap::new(),
        next_stdin: 0,
        actions: Vec::new(),
        held: HashSet::new(),
    };
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
            (connection, key) = &mut connecting, if receiver.is_none() => {
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
                engine.node(event);
                take_all(&mut heard, &mut engine);
            }
        }
    }
    engine.nodes.retire().await;
    Ok(())
}

/// Takes in what else is there already: facts of several jobs make one turn.
fn take_all(heard: &mut mpsc::Receiver<NodeEvent>, engine: &mut Engine) {
    while let Ok(event) = heard.try_recv() {
        engine.node(event);
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
        self.sched = Sched::new(self.specs.clone());
        for (rank, up) in (0u32..).zip(self.up.clone()) {
            self.sched
                .handle(now(), Input::Node { rank, up }, &mut self.actions);
        }
        self.actions.clear();
    }

    fn handle(&mut self, message: Message) -> anyhow::Result<()> {
        match message {
            Message::Request(request) => self.request(request),
            Message::Response(response) => {
                let Some(session) = &mut self.session else {
                    return Ok(());
                };
                match session.handle(response)? {
                    Progress::Held(payload) => self.held(&payload),
                    Progress::Step => Ok(()),
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

    fn request(&mut self, request: Request) -> anyhow::Result<()> {
        let (service, method) = (request.topic.service(), request.topic.method());
        match (service, method) {
            ("sched" | "job-exec" | "resource", "ping") => match requests::pong(&request) {
                Some(payload) => return self.respond(&request, Some(payload)),
                None => return self.refuse(&request, errno::EPROTO, None),
            },
            ("resource", "sched-status") | ("sched", "resource-status") => {
                let payload = requests::sched_status(&self.sched);
                return self.respond(&request, Some(payload));
            }
            ("resource", "status") => {
                let payload = requests::resource_status(&self.sched);
                return self.respond(&request, Some(payload));
            }
            ("sched" | "job-exec" | "resource", "disconnect" | "pause" | "resume") => return Ok(()),
            (service, "stdin") if requests::shell_job(service).is_some() => {
                return self.stdin(request);
            }
            _ => {}
        }
        let known = match service {
            "sched" => [
                "alloc",
                "cancel",
                "prioritize",
                "free",
                "expiration",
                "stats-get",
            ]
            .contains(&method),
            "job-exec" => ["start", "kill", "cancel", "expiration", "stats-get"].contains(&method),
            _ => false,
        };
        if !known {
            return match &self.session {
                Some(session) if request.expects_response() => {
                    session.answer(request.unknown_method())
                }
                _ => Ok(()),
            };
        }
        if method != "stats-get" && !requests::is_managers(&request) {
            let text = format!(
                "only the job-manager may ask for {}; use the methods of job-manager",
                request.topic.as_str()
            );
            return self.refuse(&request, errno::EPERM, Some(&text));
        }
        if !request.cred.is_owner() {
            return self.refuse(
                &request,
                errno::EPERM,
                Some("Request requires owner credentials"),
            );
        }
        let done = if service == "sched" {
            self.sched_request(&request)
        } else {
            self.exec_request(&request)
        };
        match done {
            Ok(()) => Ok(()),
            Err(Failed::Payload(reason)) => {
                warn!(
                    topic = request.topic.as_str(),
                    "payload not understood: {reason}"
                );
                self.not_understood(&request, &reason)
            }
            Err(Failed::Link(reason)) => Err(reason),
        }
    }

    /// A request that cannot be read. The job-manager expects no error to what it asks by id (matchtag 0): a job that it offers or starts
    /// would wait for ever, so the job is answered for in the terms of the protocol.
    fn not_understood(
        &mut self,
        request: &Request,
        reason: &wire::PayloadError,
    ) -> anyhow::Result<()> {
        let id = request.payload.as_deref().and_then(requests::id_of_broken);
        let note = format!("what the job-manager says of the job cannot be read: {reason}");
        let Some(session) = &self.session else {
            return Ok(());
        };
        match (request.topic.as_str(), id) {
            ("sched.alloc", Some(id)) => {
                session.answer(request.respond(Some(requests::denied(id, &note))))
            }
            ("job-exec.start", Some(id)) => {
                if let Some(session) = &mut self.session {
                    session.starts.insert(id, slim(request));
                }
                let mut out = Vec::new();
                self.exec.not_startable(id, &note, &mut out);
                self.perform(out)
            }
            _ => self.refuse(request, errno::EPROTO, None),
        }
    }

    fn sched_request(&mut self, request: &Request) -> Result<(), Failed> {
        let payload = request.payload.as_deref().unwrap_or_default();
        match request.topic.method() {
            "alloc" => {
                let alloc: protocol::sched::AllocRequest<'_> = parse_json(payload)?;
                let id = alloc.id;
                if let Some(session) = &mut self.session {
                    session.allocs.insert(id, request.clone());
                }
                let asked = job::Jobspec::parse(alloc.jobspec.get().as_bytes())
                    .map_err(|reason| reason.to_string())
                    .and_then(|jobspec| {
                        sched::Request::from_jobspec(&jobspec).map_err(|reason| reason.to_string())
                    });
                match asked {
                    Ok(asked) => {
                        let input = Input::Alloc {
                            id,
                            priority: alloc.priority,
                            request: asked,
                        };
                        self.sched.handle(now(), input, &mut self.actions);
                    }
                    Err(note) => self.actions.push(Action::Denied { id, note }),
                }
            }
            "cancel" => {
                let cancel: protocol::sched::CancelRequest = parse_json(payload)?;
                self.sched
                    .handle(now(), Input::Cancel(cancel.id), &mut self.actions);
            }
            "prioritize" => {
                let change: protocol::sched::PrioritizeRequest = parse_json(payload)?;
                self.sched
                    .handle(now(), Input::Prioritize(change.jobs), &mut self.actions);
            }
            "free" => {
                let free: protocol::sched::FreeRequest<'_> = parse_json(payload)?;
                let mut out = Vec::new();
                // What still has processes is not free, whatever is said: it will be when they are gone.
                if self.exec.freed(free.id, &mut out) {
                    self.sched
                        .handle(now(), Input::Free(free.id), &mut self.actions);
                }
                self.perform(out)?;
            }
            "expiration" => {
                let change: Expiration = parse_json(payload)?;
                let end_s = if change.expiration > 0.0 {
                    change.expiration
                } else {
                    f64::INFINITY
                };
                self.sched.handle(
                    now(),
                    Input::Expiration {
                        id: change.id,
                        end_s,
                    },
                    &mut self.actions,
                );
                self.respond(request, None)?;
            }
            _ => {
                let counters = self.sched.counters();
                let payload = json_payload(&json!({
                    "waiting": self.sched.waiting(), "holding": self.sched.holding(), "allocated": counters.allocated,
                    "backfilled": counters.backfilled, "denied": counters.denied, "passes": counters.passes,
                    "reorders": counters.reorders, "limit": self.limit
                }));
                self.respond(request, Some(payload))?;
            }
        }
        Ok(self.act()?)
    }

    fn exec_request(&mut self, request: &Request) -> Result<(), Failed> {
        let payload = request.payload.as_deref().unwrap_or_default();
        let mut out = Vec::new();
        match request.topic.method() {
            "start" => {
                let start: protocol::exec::StartRequest<'_> = parse_json(payload)?;
                if let Some(session) = &mut self.session {
                    session.starts.insert(start.id, slim(request));
                }
                self.exec.start(&start, &mut out);
            }
            "kill" => {
                let kill: protocol::exec::KillRequest = parse_json(payload)?;
                self.exec.tell(
                    kill.id,
                    &ToShepherd::Signal {
                        signum: kill.signum,
                    },
                    &mut out,
                );
            }
            "cancel" => {
                let cancel: protocol::exec::CancelRequest<'_> = parse_json(payload)?;
                self.exec.cancel(cancel.id, &cancel.kind, &mut out);
            }
            "expiration" => {
                let change: Expiration = parse_json(payload)?;
                self.exec.tell(
                    change.id,
                    &ToShepherd::Expiration {
                        expiration: change.expiration,
                    },
                    &mut out,
                );
                if request.expects_response() {
                    self.respond(request, None)?;
                }
            }
            _ => {
                let (running, started, finished) = self.exec.counts();
                let payload = json_payload(
                    &json!({"running": running, "started": started, "finished": finished}),
                );
                self.respond(request, Some(payload))?;
            }
        }
        Ok(self.perform(out)?)
    }

    fn node(&mut self, event: NodeEvent) {
        let done = match event {
            NodeEvent::Up(place) => {
                let mut out = Vec::new();
                self.exec.node_up(place, &mut out);
                self.set_up(place, true);
                self.perform(out)
            }
            NodeEvent::Down(place) => {
                warn!(node = place, "node down");
                self.set_up(place, false);
                self.act()
            }
            NodeEvent::Said(_, FromNode::Hello { name, pid, jobs }) => {
                info!(node = name, pid, jobs = jobs.len(), "node up");
                Ok(())
            }
            NodeEvent::Said(place, FromNode::Job { id, fact }) => {
                let mut out = Vec::new();
                self.exec.fact(JobId(id), place, fact, &mut out);
                self.perform(out)
            }
            NodeEvent::Said(_, FromNode::Stdin { tag, errnum, .. }) => self.stdin_done(tag, errnum),
        };
        if let Err(reason) = done {
            // The reader of the connection finds out, too, and begins again.
            debug!("{reason:#}");
        }
    }

    fn set_up(&mut self, place: u32, up: bool) {
        // The scheduler knows only our own nodes; their places are their ranks.
        let Some(state) = self.up.get_mut(place as usize) else {
            return;
        };
        *state = up;
        let rank = place;
        self.sched
            .handle(now(), Input::Node { rank, up }, &mut self.actions);
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
    fn act(&mut self) -> anyhow::Result<()> {
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
        result
    }
}

/// A request without its payload, which is not needed for the answers.
fn slim(request: &Request) -> Request {
    Request {
        payload: None,
        ..request.clone()
    }
}

/// Why a request was not served.
enum Failed {
    Payload(wire::PayloadError),
    Link(anyhow::Error),
}

impl From<wire::PayloadError> for Failed {
    fn from(reason: wire::PayloadError) -> Failed {
        Failed::Payload(reason)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(reason: anyhow::Error) -> Failed {
        Failed::Link(reason)
    }
}
