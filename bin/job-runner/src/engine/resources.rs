//! The engine's side of the resource log: its nodes are announced, their comings and goings told, drains asked for and obeyed.
//!
//! ```text
//!  connect ─▶ resource-announce {R, pools, up} ─▶ {seq, drained} ─▶ sched-ready
//!                 ▲                                                    │ node up, down: resource-event online, offline
//!                 └──── a second later, whenever one is refused ───────┘ resource.drain, .undrain: resource-event, then the answer
//! ```
//! The job-manager keeps who is drained, and why; the engine learns it with every connection and gives no job away before. One that
//! has no resource log (ENOSYS) is told nothing. A node that is to be drained gets no job from the moment that is asked for on.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sched::{Input, NodeSpec, Set, rset};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{info, warn};
use wire::{Request, Response, errno, json_payload, parse_json};

use crate::engine::notes;
use crate::engine::serve::{Engine, now};
use crate::engine::targets;

/// Matchtags from here on are of requests to the resource log.
pub(super) const TAG_MIN: u32 = 100;
/// Pause before the nodes are announced again because something was refused.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Drains and undrains that wait for the job-manager, at most.
const DRAINS_PENDING_MAX: usize = 256;
/// The longest reason of a drain, in bytes.
pub(crate) const REASON_LEN_MAX: usize = job::resources::DRAIN_REASON_BYTES_MAX;

/// Since when a node is drained, and why.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drained {
    pub(crate) timestamp: f64,
    pub(crate) reason: Option<String>,
}

/// What a request to the resource log was for.
enum Asked {
    Announce,
    Event,
    Drain {
        request: Request,
        ranks: Set,
        reason: Option<String>,
        overwrite: i64,
    },
    Undrain {
        request: Request,
        ranks: Set,
    },
}

/// How the job-manager takes what is told of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// It was not asked yet, on this connection.
    Silent,
    /// It is told.
    Told,
    /// It has none.
    Missing,
}

/// The state of this side.
pub(super) struct Resources {
    pool: String,
    log: Log,
    asked: HashMap<u32, Asked>,
    next_tag: u32,
    again_at: Option<Instant>,
    /// The newest entry of the log that is known.
    seq: u64,
    drained: Vec<Option<Drained>>,
    /// That it has none was said.
    missing_said: bool,
    /// That it refuses was said, and it still does.
    refusal_said: bool,
}

#[derive(Deserialize)]
struct Announced {
    seq: u64,
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    drained: Vec<AnnouncedDrain>,
}

#[derive(Deserialize)]
struct AnnouncedDrain {
    idset: String,
    #[serde(default)]
    reason: Option<String>,
    timestamp: f64,
}

#[derive(Deserialize)]
struct Stored {
    seq: u64,
    #[serde(default)]
    timestamp: Option<f64>,
}

/// `resource.drain`: `{targets:s, reason?:s, overwrite?:I, mode?:s}`; `resource.undrain`: `{targets:s, mode?:s}`.
#[derive(Deserialize)]
struct DrainRequest {
    targets: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    overwrite: Option<i64>,
    #[serde(default)]
    mode: Option<String>,
}

/// What a drain does with nodes that are drained already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It is refused.
    New,
    /// They stay as they are.
    Update,
    /// They get the reason.
    Reason,
    /// They get reason and time.
    All,
}

impl DrainRequest {
    fn mode(&self) -> Result<Mode, String> {
        match (self.mode.as_deref(), self.overwrite) {
            (None, None | Some(0)) => Ok(Mode::New),
            (None, Some(1)) | (Some("overwrite"), _) => Ok(Mode::Reason),
            (None, Some(2)) | (Some("force-overwrite"), _) => Ok(Mode::All),
            (Some("update"), _) => Ok(Mode::Update),
            (None, Some(met)) => Err(format!(
                "overwrite: expected 0, 1 (the reason) or 2 (reason and time), got {met}"
            )),
            (Some(met), _) => Err(format!(
                "mode: expected update, overwrite or force-overwrite, got '{met}'"
            )),
        }
    }
}

impl Resources {
    pub(super) fn new(pool: String, nodes: &[NodeSpec]) -> Resources {
        Resources {
            pool,
            log: Log::Silent,
            asked: HashMap::new(),
            next_tag: TAG_MIN,
            again_at: None,
            seq: 0,
            drained: vec![None; nodes.len()],
            missing_said: false,
            refusal_said: false,
        }
    }

    /// When the nodes are to be announced again.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// A new connection: nothing that was asked on the one before is answered.
    pub(super) fn begin(&mut self) {
        self.log = Log::Silent;
        self.asked.clear();
        self.again_at = None;
    }

    /// Since when a node is drained, and why; none if it is not.
    pub(super) fn drained(&self) -> &[Option<Drained>] {
        &self.drained
    }

    /// Whether a node gets no jobs: drained, or to be.
    fn is_drained(&self, rank: u32) -> bool {
        let is_asked =
            |asked: &Asked| matches!(asked, Asked::Drain { ranks, .. } if ranks.contains(rank));
        self.has(rank).is_some() || self.asked.values().any(is_asked)
    }

    fn has(&self, rank: u32) -> Option<&Drained> {
        self.drained.get(rank as usize)?.as_ref()
    }

    fn tag(&mut self, asked: Asked) -> u32 {
        let tag = self.next_tag;
        self.next_tag = tag.checked_add(1).unwrap_or(TAG_MIN);
        self.asked.insert(tag, asked);
        tag
    }

    fn later(&mut self) {
        self.again_at.get_or_insert(Instant::now() + AGAIN_AFTER);
    }
}

impl Engine {
    fn ask(&mut self, topic: &'static str, payload: &Value, asked: Asked) -> anyhow::Result<()> {
        let tag = self.resources.tag(asked);
        match &self.session {
            Some(session) => session.send(wire::Message::Request(Request::new(
                topic,
                Some(json_payload(payload)),
                tag,
            ))),
            None => Ok(()),
        }
    }

    /// Says which nodes there are, and which of them are up.
    pub(super) fn announce(&mut self) -> anyhow::Result<()> {
        self.resources.again_at = None;
        if self.resources.log == Log::Missing || self.session.is_none() {
            return Ok(());
        }
        self.resources.log = Log::Told;
        let all = rset::whole(&self.specs, |_| true);
        let r = rset::to_r(&all, &self.specs, job::Timestamp(0.0), f64::INFINITY, false);
        let r: Value = serde_json::from_slice(&r.to_json())?;
        let ranks = |of: &dyn Fn(usize) -> bool| -> String {
            let ranks = (0u32..).zip(0..self.specs.len());
            ranks
                .filter(|(_, at)| of(*at))
                .map(|(rank, _)| rank)
                .collect::<Set>()
                .to_string()
        };
        let up = ranks(&|at| self.up.get(at).copied().unwrap_or(false));
        let mut pools = serde_json::Map::new();
        pools.insert(self.resources.pool.clone(), ranks(&|_| true).into());
        let payload = json!({"R": r, "pools": pools, "up": up});
        self.ask("job-manager.resource-announce", &payload, Asked::Announce)
    }

    /// Tells that nodes came or went.
    pub(super) fn tell_nodes(&mut self, ranks: &Set, up: bool) -> anyhow::Result<()> {
        if let Some(note) = self.notes.nodes(ranks, up, &self.specs) {
            info!("{note}");
            notes::say(&note);
        }
        // What changes before the nodes were announced is announced.
        if self.resources.log != Log::Told || ranks.is_empty() {
            return Ok(());
        }
        let payload = if up {
            json!({"name": "online", "idset": ranks.to_string()})
        } else {
            let reason = "the node process went away";
            json!({"name": "offline", "idset": ranks.to_string(), "reason": reason})
        };
        self.ask("job-manager.resource-event", &payload, Asked::Event)
    }

    /// Takes in an answer of the resource log.
    pub(super) fn resource_answer(&mut self, response: &Response) -> anyhow::Result<()> {
        let Some(asked) = self.resources.asked.remove(&response.matchtag) else {
            return Ok(());
        };
        let payload = response.payload.as_deref().unwrap_or_default();
        if response.errnum != 0 {
            let text = wire::text_of(payload)
                .unwrap_or_else(|| errno::text(response.errnum))
                .to_owned();
            return self.resource_refused(asked, response.errnum, &text);
        }
        match asked {
            Asked::Announce => self.announced(payload),
            Asked::Event => {
                self.stored(payload);
                Ok(())
            }
            Asked::Drain {
                request,
                ranks,
                reason,
                overwrite,
            } => {
                let (seq, timestamp) = self.stored(payload);
                for rank in ranks.iter() {
                    let Some(drained) = self.resources.drained.get_mut(rank as usize) else {
                        continue;
                    };
                    let was = drained.take();
                    let reason = match &was {
                        Some(was) if overwrite == 0 && was.reason.is_some() => was.reason.clone(),
                        _ => reason.clone(),
                    };
                    let timestamp = was
                        .filter(|_| overwrite < 2)
                        .map_or(timestamp, |was| was.timestamp);
                    *drained = Some(Drained { timestamp, reason });
                }
                self.obey_drains();
                info!(nodes = %ranks, "drained");
                self.respond(&request, Some(json_payload(&json!({"seq": seq}))))?;
                self.act()
            }
            Asked::Undrain { request, ranks } => {
                let (seq, _) = self.stored(payload);
                for rank in ranks.iter() {
                    if let Some(drained) = self.resources.drained.get_mut(rank as usize) {
                        *drained = None;
                    }
                }
                self.obey_drains();
                info!(nodes = %ranks, "no longer drained");
                self.respond(&request, Some(json_payload(&json!({"seq": seq}))))?;
                self.act()
            }
        }
    }

    /// What an answer says was stored, and when.
    fn stored(&mut self, payload: &[u8]) -> (u64, f64) {
        let stored = parse_json(payload).unwrap_or(Stored {
            seq: self.resources.seq,
            timestamp: None,
        });
        self.resources.seq = self.resources.seq.max(stored.seq);
        (stored.seq, stored.timestamp.unwrap_or_else(|| now().0))
    }

    fn announced(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        let answer: Announced = parse_json(payload)?;
        self.resources.seq = self.resources.seq.max(answer.seq);
        if let Some(before) = &answer.before {
            let note = notes::others(before, &self.specs);
            warn!("{note}");
            notes::say(&note);
        }
        let mut drained: Vec<Option<Drained>> = vec![None; self.specs.len()];
        for one in answer.drained {
            let ranks = Set::parse(&one.idset).unwrap_or_default();
            for rank in ranks.iter() {
                if let Some(place) = drained.get_mut(rank as usize) {
                    *place = Some(Drained {
                        timestamp: one.timestamp,
                        reason: one.reason.clone().filter(|reason| !reason.is_empty()),
                    });
                }
            }
        }
        self.resources.drained = drained;
        self.resources.refusal_said = false;
        self.obey_drains();
        self.ready_for_jobs()?;
        self.act()
    }

    fn resource_refused(&mut self, asked: Asked, errnum: u32, text: &str) -> anyhow::Result<()> {
        match asked {
            Asked::Announce | Asked::Event if errnum == errno::ENOSYS => {
                if !std::mem::replace(&mut self.resources.missing_said, true) {
                    info!("the job-manager keeps no resource log: it is not told of nodes");
                }
                self.resources.log = Log::Missing;
                self.ready_for_jobs()
            }
            Asked::Announce | Asked::Event => {
                warn!(
                    "the job-manager does not take what it is told of nodes: {text}; trying again"
                );
                self.resources.later();
                Ok(())
            }
            Asked::Drain { request, .. } | Asked::Undrain { request, .. } => {
                self.obey_drains();
                self.refuse(&request, errnum, Some(text))?;
                self.act()
            }
        }
    }

    /// Tells the scheduler which nodes are drained.
    pub(super) fn obey_drains(&mut self) {
        let all = (0u32..).take(self.specs.len());
        let wanted = all.map(|rank| (rank, self.resources.is_drained(rank)));
        let changed: Vec<(u32, bool)> = wanted
            .filter(|&(rank, drained)| drained != self.sched.is_drained(rank))
            .collect();
        if !changed.is_empty() {
            self.sched
                .handle(now(), Input::Drain(changed), &mut self.actions);
        }
    }

    /// `resource.drain` and `resource.undrain`.
    pub(super) fn drain(&mut self, request: Request) -> anyhow::Result<()> {
        if !request.cred.is_owner() {
            let text = "Request requires owner credentials";
            return self.refuse(&request, errno::EPERM, Some(text));
        }
        let payload = request.payload.as_deref().unwrap_or_default();
        let asked: DrainRequest = match parse_json(payload) {
            Ok(asked) => asked,
            Err(reason) => {
                return self.refuse(&request, errno::EPROTO, Some(&reason.to_string()));
            }
        };
        if self.resources.log != Log::Told {
            let text = "the job-manager keeps no resource log, so no node can be drained";
            return self.refuse(&request, errno::ENOSYS, Some(text));
        }
        if self.resources.asked.len() >= DRAINS_PENDING_MAX {
            let text = "too many changes of nodes wait for the job-manager: try again";
            return self.refuse(&request, errno::EAGAIN, Some(text));
        }
        let checked = targets::ranks(&asked.targets, &self.specs)
            .map_err(|error| (errno::EINVAL, error.to_string()));
        let undrains = request.topic.method() == "undrain";
        let planned = checked.and_then(|ranks| {
            if undrains {
                self.plan_undrain(&ranks, &asked).map(|ranks| (ranks, 0))
            } else {
                self.plan_drain(&ranks, &asked)
            }
        });
        let (ranks, overwrite) = match planned {
            Ok(planned) => planned,
            Err((errnum, text)) => return self.refuse(&request, errnum, Some(&text)),
        };
        if ranks.is_empty() {
            let seq = self.resources.seq;
            return self.respond(&request, Some(json_payload(&json!({"seq": seq}))));
        }
        let idset = ranks.to_string();
        let userid = request.cred.userid;
        let request = slim(request);
        if undrains {
            let payload = json!({"name": "undrain", "idset": idset, "userid": userid});
            return self.ask(EVENT, &payload, Asked::Undrain { request, ranks });
        }
        let mut payload =
            json!({"name": "drain", "idset": idset, "overwrite": overwrite, "userid": userid});
        let reason = asked.reason.filter(|reason| !reason.is_empty());
        if let Some(reason) = &reason {
            payload["reason"] = reason.as_str().into();
        }
        let drain = Asked::Drain {
            request,
            ranks,
            reason,
            overwrite,
        };
        self.ask(EVENT, &payload, drain)?;
        // Nothing is given out there from here on: what the log says next must be true.
        self.obey_drains();
        self.act()
    }

    /// Which nodes are to be drained, and how far that replaces what is.
    fn plan_drain(&self, ranks: &Set, asked: &DrainRequest) -> Result<(Set, i64), (u32, String)> {
        let mode = asked.mode().map_err(|text| (errno::EINVAL, text))?;
        if let Some(len) = asked.reason.as_ref().map(String::len)
            && len > REASON_LEN_MAX
        {
            let text = format!("reason: expected at most {REASON_LEN_MAX} bytes, got {len}");
            return Err((errno::EINVAL, text));
        }
        let has_reason = |rank: u32| {
            let drained = self.resources.has(rank);
            drained.is_some_and(|drained| drained.reason.is_some())
        };
        let already: Set = ranks.iter().filter(|rank| has_reason(*rank)).collect();
        // One that is drained without a reason may get one; it has been drained since it was.
        let is_drained = |rank: u32| self.resources.has(rank).is_some();
        let adds_reason = asked.reason.is_some() && ranks.iter().any(is_drained);
        Ok(match mode {
            Mode::New if !already.is_empty() => {
                let text = format!(
                    "{} already drained: overwrite 1 replaces the reason",
                    targets::spelled(&asked.targets, &already, &self.specs)
                );
                return Err((errno::EEXIST, text));
            }
            Mode::New => (ranks.clone(), i64::from(adds_reason)),
            Mode::Update => {
                let mut rest = ranks.clone();
                rest.remove(&already);
                let adds_reason = asked.reason.is_some() && rest.iter().any(is_drained);
                (rest, i64::from(adds_reason))
            }
            Mode::Reason => (ranks.clone(), 1),
            Mode::All => (ranks.clone(), 2),
        })
    }

    fn plan_undrain(&self, ranks: &Set, asked: &DrainRequest) -> Result<Set, (u32, String)> {
        let is_drained = |rank: &u32| self.resources.has(*rank).is_some();
        match asked.mode.as_deref() {
            Some("force") => return Ok(ranks.iter().filter(is_drained).collect()),
            Some(met) => {
                let text = format!("mode: expected force, got '{met}'");
                return Err((errno::EINVAL, text));
            }
            None => {}
        }
        let others: Set = ranks.iter().filter(|rank| !is_drained(rank)).collect();
        if others.is_empty() {
            return Ok(ranks.clone());
        }
        Err((
            errno::EINVAL,
            format!(
                "{} not drained",
                targets::spelled(&asked.targets, &others, &self.specs)
            ),
        ))
    }

    /// `resource.status`.
    pub(super) fn resource_status(&self) -> Bytes {
        crate::engine::requests::resource_status(&self.sched, self.resources.drained())
    }
}

const EVENT: &str = "job-manager.resource-event";

fn slim(request: Request) -> Request {
    Request {
        payload: None,
        ..request
    }
}
