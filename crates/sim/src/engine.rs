//! The engine: `crate sched` with a connection, and jobs that run for fake seconds and outlive it.
//!
//! Modelled, not real: what `bin/job-runner` does around the scheduler (its session, its answers), and shepherds. A job's body is begun at most
//! once whatever is asked, as the claim protocol has it; that protocol itself is tested by `bin/job-runner` and `t/`.

use std::collections::BTreeMap;

use bytes::Bytes;
use job::{JobId, Timestamp};
use sched::{Action, Input, NodeSpec, Sched, Set, rset};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wire::{Flags, Message, Request, Response, errno, json_payload};

use crate::plan::OWNER;
use crate::truth::Truth;
use crate::violation::{Promise, Violation};

/// What outlives the engine: one job's processes.
#[derive(Debug, Clone, Copy)]
pub struct Shepherd {
    /// When they are gone.
    pub ends_at: f64,
    /// Their wait status then.
    pub status: i32,
    /// They are gone.
    pub ended: bool,
}

/// Where the handshake is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Adding(usize),
    SchedHello,
    ExecHello,
    SchedReady,
    Ready,
}

const SERVICES: [&str; 3] = ["sched", "job-exec", "resource"];

/// Name of the node of this rank.
#[must_use]
pub fn node_name(rank: u32) -> String {
    format!("sim{rank}")
}

/// One connection of the engine.
pub struct Engine {
    sched: Sched,
    step: Step,
    key: String,
    allocs: BTreeMap<JobId, Request>,
    starts: BTreeMap<JobId, Request>,
    /// What it says next.
    pub out: Vec<Message>,
    /// A step was refused: it connects again.
    pub gave_up: bool,
    /// Fake seconds that the next job may run.
    pub job_max: f64,
    actions: Vec<Action>,
}

#[derive(Deserialize)]
struct Alloc<'a> {
    id: JobId,
    priority: u32,
    #[serde(borrow)]
    jobspec: &'a RawValue,
}

#[derive(Deserialize)]
struct OfJob {
    id: JobId,
}

impl Engine {
    /// A new connection: everything is learnt from the job-manager.
    #[must_use]
    pub fn new(nodes: u32, cores: u32, key: String, job_max: f64) -> Engine {
        let node = |rank| NodeSpec {
            host: node_name(rank),
            cores: Set::first(cores),
            gpus: Set::new(),
        };
        let mut engine = Engine {
            sched: Sched::new((0..nodes).map(node).collect()),
            step: Step::Adding(0),
            key,
            allocs: BTreeMap::new(),
            starts: BTreeMap::new(),
            out: Vec::new(),
            gave_up: false,
            job_max,
            actions: Vec::new(),
        };
        engine.add(0);
        engine
    }

    /// Whether it has jobs to look after.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.step == Step::Ready
    }

    fn ask(&mut self, topic: &'static str, payload: &Value, flags: Flags) {
        let mut request = Request::new(topic, Some(json_payload(payload)), 1);
        request.flags = flags;
        self.out.push(Message::Request(request));
    }

    fn add(&mut self, at: usize) {
        let service = SERVICES.get(at).copied().unwrap_or_default();
        let ask = json!({"service": service, "key": self.key});
        self.ask("service.add", &ask, Flags::NONE);
    }

    /// A message of the broker.
    /// # Errors
    /// It was asked for something that is not stored.
    pub fn message(
        &mut self,
        message: Message,
        now: f64,
        shepherds: &mut BTreeMap<JobId, Shepherd>,
        truth: &Truth,
        dice: f64,
    ) -> Result<(), Violation> {
        match message {
            Message::Response(response) => {
                self.response(&response, now);
                Ok(())
            }
            Message::Request(request) => self.request(request, now, shepherds, truth, dice),
            Message::Event(_) | Message::Control(_) => Ok(()),
        }
    }

    fn response(&mut self, response: &Response, now: f64) {
        let ends_hello = self.step == Step::SchedHello && response.errnum == errno::ENODATA;
        if response.errnum != 0 && !ends_hello {
            self.gave_up = true;
            return;
        }
        match self.step {
            Step::Adding(at) if at + 1 < SERVICES.len() => {
                self.step = Step::Adding(at + 1);
                self.add(at + 1);
            }
            Step::Adding(_) => {
                self.step = Step::SchedHello;
                self.ask("job-manager.sched-hello", &json!({}), Flags::STREAMING);
            }
            Step::SchedHello if !ends_hello => {
                let held: Option<protocol::sched::HelloResponse<'_>> = response
                    .payload
                    .as_deref()
                    .and_then(|payload| wire::parse_json(payload).ok());
                if let Some((held, r)) = held.and_then(|held| held.r.map(|r| (held.id, r)))
                    && let Ok(r) = job::R::parse(r.get().as_bytes())
                {
                    let (grant, end_s) = rset::from_r(&r, self.sched.nodes());
                    let hello = Input::Hello {
                        id: held,
                        grant,
                        end_s,
                    };
                    self.sched.handle(Timestamp(now), hello, &mut self.actions);
                }
            }
            Step::SchedHello => {
                self.step = Step::ExecHello;
                let ask = json!({"service": "job-exec"});
                self.ask("job-manager.exec-hello", &ask, Flags::NONE);
            }
            Step::ExecHello => {
                self.step = Step::SchedReady;
                let ask = json!({"mode": "limited", "limit": 8});
                self.ask("job-manager.sched-ready", &ask, Flags::NONE);
            }
            Step::SchedReady => {
                self.step = Step::Ready;
                self.announce();
            }
            Step::Ready => {}
        }
    }

    /// The last of its nodes.
    fn last_rank(&self) -> u32 {
        u32::try_from(self.sched.nodes().len())
            .unwrap_or(1)
            .saturating_sub(1)
    }

    /// Tells which nodes there are, and that all are up.
    fn announce(&mut self) {
        let nodes: Vec<job::r::Node> = (0..)
            .zip(self.sched.nodes())
            .map(|(rank, node)| job::r::Node {
                rank,
                host: node.host.clone(),
                cores: job::Idset::from_range(0, node.cores.len().saturating_sub(1)),
                gpus: job::Idset::new(),
            })
            .collect();
        let r = job::R::build(&nodes, 0.0, 0.0, None).to_json();
        let r: Value = serde_json::from_slice(&r).unwrap_or_default();
        let up = job::Idset::from_range(0, self.last_rank());
        let ask = json!({"R": r, "up": up.to_string()});
        self.ask("job-manager.resource-announce", &ask, Flags::NONE);
    }

    /// Something about its nodes, now and then: the engine says it, and goes on as if nothing were.
    fn tell_of_node(&mut self, dice: f64) {
        // Jobs are begun again before it has told which nodes there are.
        if !self.is_ready() {
            return;
        }
        let name = match dice {
            dice if dice < 0.05 => "drain",
            dice if dice < 0.10 => "undrain",
            dice if dice < 0.15 => "offline",
            dice if dice < 0.20 => "online",
            _ => return,
        };
        let last = self.last_rank();
        let idset = match (dice * 1000.0) as u32 % 3 {
            0 => "0".to_owned(),
            1 => last.to_string(),
            _ => job::Idset::from_range(0, last).to_string(),
        };
        let mut ask = json!({"name": name, "idset": idset});
        if let ("drain" | "offline", Some(ask)) = (name, ask.as_object_mut()) {
            ask.insert("reason".to_owned(), json!("sim"));
        }
        self.ask("job-manager.resource-event", &ask, Flags::NONE);
    }

    fn request(
        &mut self,
        request: Request,
        now: f64,
        shepherds: &mut BTreeMap<JobId, Shepherd>,
        truth: &Truth,
        dice: f64,
    ) -> Result<(), Violation> {
        let payload = request.payload.clone().unwrap_or_default();
        let of_job = wire::parse_json::<OfJob>(&payload).ok().map(|job| job.id);
        if let Some(id) = of_job.filter(|id| !truth.of_job.contains_key(id)) {
            let what = format!(
                "the engine was asked {} of job {id}, which is not in the store",
                request.topic.as_str()
            );
            return Err(Violation::of(Promise::Durable, what));
        }
        let input = match (request.topic.as_str(), of_job) {
            ("sched.alloc", Some(id)) => self.alloc(id, request, &payload),
            ("sched.cancel", Some(id)) => Some(Input::Cancel(id)),
            ("sched.free", Some(id)) => Some(Input::Free(id)),
            ("sched.prioritize", _) => {
                wire::parse_json::<protocol::sched::PrioritizeRequest>(&payload)
                    .ok()
                    .map(|ask| Input::Prioritize(ask.jobs))
            }
            ("job-exec.start", Some(id)) => {
                self.start(id, request, &payload, now, shepherds, truth, dice)?;
                None
            }
            ("job-exec.cancel" | "job-exec.kill", Some(id)) => {
                if let Some(shepherd) = shepherds.get_mut(&id).filter(|one| !one.ended) {
                    shepherd.ends_at = shepherd.ends_at.min(now + 0.01);
                    shepherd.status = 15;
                }
                None
            }
            _ => None,
        };
        if let Some(input) = input {
            self.sched.handle(Timestamp(now), input, &mut self.actions);
            self.act(now);
        }
        Ok(())
    }

    fn alloc(&mut self, id: JobId, request: Request, payload: &[u8]) -> Option<Input> {
        let ask: Alloc<'_> = wire::parse_json(payload).ok()?;
        let jobspec = job::Jobspec::parse(ask.jobspec.get().as_bytes()).ok()?;
        let asked = sched::Request::from_jobspec(&jobspec).ok()?;
        self.allocs.insert(id, request);
        Some(Input::Alloc {
            id: ask.id,
            priority: ask.priority,
            request: asked,
        })
    }

    fn act(&mut self, now: f64) {
        for action in std::mem::take(&mut self.actions) {
            let (id, answer) = match action {
                Action::Allocated {
                    id, grant, end_s, ..
                } => {
                    let r = rset::to_r(&grant, self.sched.nodes(), Timestamp(now), end_s, true);
                    let r: Value = serde_json::from_slice(&r.to_json()).unwrap_or_default();
                    (
                        id,
                        json!({"id": id, "type": 0, "R": r, "annotations": {"sched": {"resource_summary": "x"}}}),
                    )
                }
                Action::Denied { id, note } => (id, json!({"id": id, "type": 2, "note": note})),
                Action::Cancelled(id) => (id, json!({"id": id, "type": 3})),
                Action::Estimated { id, start_s } => (
                    id,
                    json!({"id": id, "type": 1, "annotations": {"sched": {"t_estimate": start_s}}}),
                ),
            };
            let goes_on = answer.get("type") == Some(&json!(1));
            let request = if goes_on {
                self.allocs.get(&id).cloned()
            } else {
                self.allocs.remove(&id)
            };
            if let Some(request) = request {
                self.answer(&request, Some(json_payload(&answer)));
            }
        }
    }

    fn answer(&mut self, request: &Request, payload: Option<Bytes>) {
        self.out.push(Message::Response(request.respond(payload)));
    }

    #[expect(clippy::too_many_arguments, reason = "all that a start rests on")]
    fn start(
        &mut self,
        id: JobId,
        request: Request,
        payload: &[u8],
        now: f64,
        shepherds: &mut BTreeMap<JobId, Shepherd>,
        truth: &Truth,
        dice: f64,
    ) -> Result<(), Violation> {
        let Ok(ask) = wire::parse_json::<protocol::exec::StartRequest<'_>>(payload) else {
            return Ok(());
        };
        if truth.last_of(id, &["alloc"], truth.newest()).is_none() {
            let what = format!("job {id} is to be started, and no alloc of it is stored");
            return Err(Violation::of(Promise::Durable, what));
        }
        self.starts.insert(id, request.clone());
        let said = |kind: &str, data: Value| json!({"id": id, "type": kind, "data": data});
        let known = shepherds.contains_key(&id);
        if !known && (ask.reattach || ask.userid != OWNER) {
            let note = if ask.reattach { "lost" } else { "not ours" };
            let data = json!({"severity": 0, "type": "exec", "note": note});
            self.answer(&request, Some(json_payload(&said("exception", data))));
            let data = json!({"ranks": "all", "final": true});
            self.answer(&request, Some(json_payload(&said("release", data))));
            self.starts.remove(&id);
            return Ok(());
        }
        let shepherd = shepherds.entry(id).or_insert(Shepherd {
            ends_at: now + dice * self.job_max,
            status: if dice > 0.8 { 256 } else { 0 },
            ended: false,
        });
        let ended = shepherd.ended;
        let kind = if ask.reattach { "reattached" } else { "start" };
        self.answer(&request, Some(json_payload(&said(kind, json!({})))));
        let status = shepherd.status;
        // What is said twice, or of a part that is over, is no news.
        let ranks: Vec<u32> = job::r::ranks_of(ask.r.get().as_bytes())
            .map(|ranks| ranks.iter().collect())
            .unwrap_or_default();
        let lost = json!({"status": "unknown", "reason": "sim"});
        let failed = json!({"status": "failed", "wait_status": 256});
        let parts: Vec<Value> = ranks
            .iter()
            .filter_map(|rank| {
                let mut part = match (dice * 10.0) as u32 + rank % 4 {
                    0..=2 => lost.clone(),
                    10.. => failed.clone(),
                    _ => return None,
                };
                part["ranks"] = json!(rank.to_string());
                Some(part)
            })
            .collect();
        if !parts.is_empty() {
            let data = json!({"allocs": parts});
            self.answer(&request, Some(json_payload(&said("alloc-status", data))));
        }
        self.tell_of_node(dice * 7.0 % 1.0);
        if ended {
            self.finish(id, status, now);
        }
        Ok(())
    }

    /// A job's processes are gone.
    pub fn finish(&mut self, id: JobId, status: i32, now: f64) {
        let Some(request) = self.starts.remove(&id) else {
            return;
        };
        let answer = json!({
            "id": id, "type": "finish",
            "data": {"status": status, "release": {"ranks": "all", "final": true}}
        });
        self.answer(&request, Some(json_payload(&answer)));
        self.sched
            .handle(Timestamp(now), Input::Free(id), &mut self.actions);
        self.act(now);
    }
}
