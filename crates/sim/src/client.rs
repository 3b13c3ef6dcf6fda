//! One client: what it asks, and what it makes of the answers.
//!
//! Every answer is held against the store as it is at that moment: what it says has happened is there. Answers of listings are held against
//! what this client was told before it asked. A request is answered once; at a quiet point, all are answered that can be.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use job::{JobId, Seq};
use serde_json::{Value, json};
use wire::{Response, errno};

use crate::plan::OWNER;
use crate::rng::Rng;
use crate::truth::{Truth, context};
use crate::violation::{Outcome, Promise, Violation};

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A job.
    Submit {
        /// Under which key.
        key: Option<String>,
    },
    /// A job that others are dispatched from.
    SubmitParent,
    /// A job from such a one.
    Dispatch {
        /// From which.
        parent: JobId,
        /// Under which key.
        key: Option<String>,
    },
    /// One job's urgency.
    Urgency(JobId, i64),
    /// Many jobs' urgencies.
    Priority(Vec<(JobId, i64)>),
    /// An exception on a job.
    Raise(JobId),
    /// An exception on all jobs.
    RaiseAll,
    /// A signal.
    Kill(JobId),
    /// The end of a waitable job.
    Wait(JobId),
    /// Active jobs, from the job-manager.
    Active,
    /// A note on a job.
    Memo(JobId),
    /// What is stored of a job.
    Lookup(JobId),
    /// Start or stop the queue.
    Queue(bool),
    /// Take submissions or none.
    Enable(bool),
    /// State of the queue.
    QueueStatus,
    /// The same at a quiet point: whether it takes jobs and gives them to the engine is known.
    QueueIs(bool, bool),
    /// Counters.
    Stats,
    /// Jobs go.
    Purge(Vec<JobId>),
    /// All jobs that ended go.
    PurgeAll,
    /// A list; streaming or not.
    List(bool),
    /// One job's row, maybe after it ended.
    ListId(JobId, bool),
    /// A job's rank.
    Rank(JobId),
    /// Counts.
    JobStats,
    /// A cursor that means nothing.
    BadCursor(u64, Option<String>),
    /// The end of the instance, when nothing runs any more.
    ShutDown {
        /// What runs is cancelled first.
        now: bool,
        /// What runs is not waited for.
        force: bool,
    },
    /// It is taken back, if this connection asked for it.
    GoOn,
}

/// A request that is not answered yet.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What.
    pub op: Op,
    /// The newest seq it had been told of when it asked, if the answer must include it: not on job-info's own socket without `after`.
    pub told: Seq,
    /// How many jobs had been acknowledged to it, likewise.
    pub known: usize,
    /// … whatever the connection.
    pub known_anywhere: usize,
    /// Rows of a list so far, with the list's seq.
    pub rows: Vec<JobId>,
    /// Answers so far.
    pub answers: usize,
    /// The row says stale, or the first answer of a list did.
    pub stale: bool,
    /// It was said that nothing runs any more.
    pub drained: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Client {
    /// Who it is.
    pub userid: u32,
    /// It uses job-info's own socket for what can be asked there.
    pub link: Option<u64>,
    /// Its connection to job-info's own socket.
    pub direct: Option<u64>,
    /// It stays away until then.
    pub away_until: f64,
    /// Unanswered, by connection and matchtag.
    pub asked: BTreeMap<(u64, u32), Asked>,
    tags: u32,
    /// The newest seq it was told of.
    pub told: Seq,
    /// Jobs that were acknowledged to it, in order.
    pub jobs: Vec<JobId>,
    /// Of these, those that others are dispatched from.
    pub parents: Vec<JobId>,
    /// Keys whose submission was not answered, and those that were.
    pub keys: BTreeMap<String, Option<JobId>>,
    /// Requests it sent.
    pub requests: u64,
    /// Somebody may have asked for a shutdown that waits for nothing.
    pub others_force: bool,
}

fn broken(promise: Promise, what: String) -> Outcome {
    Err(Violation::of(promise, what))
}

impl Client {
    /// A new one.
    #[must_use]
    pub fn new(userid: u32) -> Client {
        Client {
            userid,
            link: None,
            direct: None,
            away_until: 0.0,
            asked: BTreeMap::new(),
            tags: 0,
            told: Seq(0),
            jobs: Vec::new(),
            parents: Vec::new(),
            keys: BTreeMap::new(),
            requests: 0,
            others_force: false,
        }
    }

    /// A tag for a request.
    pub fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    /// Notes a request as sent.
    pub fn sent(&mut self, link: u64, tag: u32, op: Op, current: bool) {
        self.requests += 1;
        let asked = Asked {
            op,
            told: if current { self.told } else { Seq(0) },
            known: if current { self.jobs.len() } else { 0 },
            known_anywhere: self.jobs.len(),
            rows: Vec::new(),
            answers: 0,
            stale: false,
            drained: false,
        };
        self.asked.insert((link, tag), asked);
    }

    /// A connection is gone; what was asked on it is not answered any more.
    pub fn lost(&mut self, link: u64) {
        self.asked.retain(|(on, _), _| *on != link);
        if self.link == Some(link) {
            self.link = None;
        }
        if self.direct == Some(link) {
            self.direct = None;
        }
    }

    /// The store was replaced by another: what it knew means nothing.
    pub fn forget(&mut self) {
        self.told = Seq(0);
        self.jobs.clear();
        self.parents.clear();
        self.keys.clear();
        // What is answered now may be of either.
        self.asked.values_mut().for_each(|asked| asked.stale = true);
    }

    /// An answer.
    pub fn answer(&mut self, link: u64, response: &Response, truth: &Truth) -> Outcome {
        let key = (link, response.matchtag);
        let Some(mut asked) = self.asked.remove(&key) else {
            let what = format!(
                "an answer to {} nobody waits for: {} {:?}",
                response.matchtag,
                response.topic.as_str(),
                text(response)
            );
            return broken(Promise::Unique, what);
        };
        asked.answers += 1;
        let json: Value = response
            .payload
            .as_ref()
            .and_then(|payload| wire::json_bytes(payload).ok())
            .and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or(Value::Null);
        let seq = json.get("seq").and_then(Value::as_u64).map(Seq);
        asked.stale |= json.get("stale").is_some();
        // A list that is marked stale may be of a store that is no more.
        if let Some(seq) = seq.filter(|seq| *seq > truth.newest() && !asked.stale) {
            let what = format!(
                "{:?} was answered with seq {seq}, and the store ends at {}",
                asked.op,
                truth.newest()
            );
            return broken(Promise::Durable, what);
        }
        let streams = matches!(
            asked.op,
            Op::List(true) | Op::BadCursor(..) | Op::ShutDown { .. }
        );
        if response.errnum == 0 {
            self.said(&mut asked, &json, seq, truth)?;
            if streams {
                self.asked.insert(key, asked);
            }
            return Ok(());
        }
        if response.errnum == errno::ENODATA && streams {
            if matches!(asked.op, Op::ShutDown { .. }) && !asked.drained {
                let what = "a shutdown ended, and nobody said that it is drained";
                return broken(Promise::Honest, what.to_owned());
            }
            return self.listed(&asked, truth);
        }
        self.refused(&asked, response.errnum, &text(response), truth)
    }

    fn refused(&self, asked: &Asked, errnum: u32, text: &str, truth: &Truth) -> Outcome {
        match &asked.op {
            Op::ListId(id, _)
                if errnum == errno::ENOENT
                    && self.knew(asked.known_anywhere, *id)
                    && !truth.may_lack(*id) =>
            {
                broken(
                    Promise::ReadYourWrites,
                    format!("job {id} was acknowledged and is unknown to the list"),
                )
            }
            Op::Rank(id)
                if errnum == errno::ENOENT
                    && self.knew(asked.known, *id)
                    && !truth.may_lack(*id) =>
            {
                broken(
                    Promise::ReadYourWrites,
                    format!("job {id} was acknowledged and is unknown to the list"),
                )
            }
            Op::Lookup(id)
                if errnum == errno::ENOENT
                    && self.knew(asked.known_anywhere, *id)
                    && !truth.may_lack(*id) =>
            {
                broken(
                    Promise::Durable,
                    format!("job {id} was acknowledged and is unknown: {text:?}"),
                )
            }
            Op::BadCursor(..) if errnum == errno::ESTALE => {
                crate::listener::honest_refusal(text, truth)
            }
            Op::BadCursor(seq, epoch) if errnum != errno::EAGAIN => broken(
                Promise::Honest,
                format!("cursor {seq} of epoch {epoch:?} was refused with {errnum} {text:?}"),
            ),
            _ => Ok(()),
        }
    }

    /// Whether a job is among the first that were acknowledged to this client.
    fn knew(&self, known: usize, id: JobId) -> bool {
        self.jobs
            .get(..known)
            .is_some_and(|jobs| jobs.contains(&id))
    }

    fn said(
        &mut self,
        asked: &mut Asked,
        json: &Value,
        seq: Option<Seq>,
        truth: &Truth,
    ) -> Outcome {
        let wrong = |what: String| {
            broken(
                Promise::Durable,
                format!("{:?} was answered {json}: {what}", asked.op),
            )
        };
        let at = seq.unwrap_or(truth.newest());
        match &asked.op {
            Op::SubmitParent => {
                let Some(id) = json.get("id").and_then(Value::as_u64).map(JobId) else {
                    return wrong("no id".to_owned());
                };
                if truth.last_of(id, &["dependency-add"], at).is_none() {
                    return wrong(format!("job {id} does not wait in the store"));
                }
                self.jobs.push(id);
                self.parents.push(id);
                self.told = self.told.max(at);
            }
            Op::Submit { key } | Op::Dispatch { key, .. } => {
                let Some(id) = json.get("id").and_then(Value::as_u64).map(JobId) else {
                    return wrong("no id".to_owned());
                };
                if !truth.of_job.contains_key(&id) {
                    return wrong(format!("job {id} is not in the store"));
                }
                match key {
                    None if self.jobs.contains(&id) => {
                        return wrong("this id was given before".to_owned());
                    }
                    None => self.jobs.push(id),
                    Some(key) => {
                        let first = self.keys.insert(key.clone(), Some(id)).flatten();
                        match first {
                            Some(first) if first != id && !truth.may_lack(first) => {
                                return wrong(format!("the same key gave job {first} before"));
                            }
                            Some(first) if first == id => {}
                            _ => self.jobs.push(id),
                        }
                    }
                }
                self.told = self.told.max(at);
            }
            Op::Urgency(id, urgency) => {
                urgency_is(truth, *id, *urgency, at)?;
                self.told = self.told.max(at);
            }
            Op::Priority(wanted) => {
                let results = json.get("results").and_then(Value::as_array);
                let mut set: BTreeMap<JobId, i64> = BTreeMap::new();
                for (result, (id, urgency)) in results.into_iter().flatten().zip(wanted) {
                    if result.as_array().is_some_and(|result| result.len() == 2) {
                        set.insert(*id, *urgency);
                    }
                }
                for (id, urgency) in set {
                    urgency_is(truth, id, urgency, at)?;
                }
                self.told = self.told.max(at);
            }
            Op::Raise(id) => {
                if truth.last_of(*id, &["exception"], at).is_none() {
                    return wrong("no exception is stored".to_owned());
                }
                self.told = self.told.max(at);
            }
            Op::Memo(_) | Op::RaiseAll | Op::Enable(_) | Op::Queue(_) => {
                self.told = self.told.max(at)
            }
            Op::Wait(id) => {
                let there = truth
                    .of_job
                    .get(id)
                    .and_then(|log| log.last())
                    .and_then(|at| truth.history.get(*at));
                let over = truth.last_of(*id, &["clean"], truth.newest()).is_some();
                if !over {
                    return wrong(format!("the job has not ended: {there:?}"));
                }
            }
            Op::Active => {
                let rows = json.get("jobs").and_then(Value::as_array);
                for row in rows.into_iter().flatten() {
                    let id = row.get("id").and_then(Value::as_u64).map(JobId);
                    if id.is_none_or(|id| !truth.of_job.contains_key(&id)) {
                        return wrong(format!("{row} is not in the store"));
                    }
                }
            }
            Op::Purge(_) | Op::PurgeAll => {
                let jobs = json.get("jobs").and_then(Value::as_array);
                for id in jobs.into_iter().flatten().filter_map(Value::as_u64) {
                    if !truth.purged.contains_key(&JobId(id)) {
                        return wrong(format!("no purge entry names job {id}"));
                    }
                }
                self.told = self.told.max(at);
            }
            Op::List(_) | Op::ListId(..) | Op::Rank(_) | Op::JobStats => {
                return self.list_said(asked, json, seq, truth);
            }
            Op::BadCursor(seq, epoch) => {
                let what = format!("cursor {seq} of epoch {epoch:?} was accepted: {json}");
                return broken(Promise::Honest, what);
            }
            Op::QueueIs(enable, start) => {
                let said = |key| json.get(key).and_then(Value::as_bool);
                if said("enable") != Some(*enable) || said("start") != Some(*start) {
                    return wrong("the journal says otherwise".to_owned());
                }
                // Whoever asked for a shutdown was answered, or is gone.
                if json.get("blocked").and_then(Value::as_str) == Some("shutdown") {
                    let what = format!("a shutdown that nobody waits for goes on: {json}");
                    return broken(Promise::Live, what);
                }
            }
            Op::ShutDown { .. } => return self.shutdown_said(asked, json, truth),
            Op::GoOn | Op::Kill(_) | Op::Lookup(_) | Op::QueueStatus | Op::Stats => {}
        }
        Ok(())
    }

    /// How far a shutdown is: of what is named something is there; drained means that nothing holds resources, unless somebody does not care.
    fn shutdown_said(&self, asked: &mut Asked, json: &Value, truth: &Truth) -> Outcome {
        let named = json.get("jobs").and_then(Value::as_array);
        for id in named.into_iter().flatten().filter_map(Value::as_u64) {
            if truth
                .last_of(JobId(id), &["alloc"], truth.newest())
                .is_none()
                && !truth.may_lack(JobId(id))
            {
                let what = format!("a shutdown waits for job {id}, and no alloc of it is stored");
                return broken(Promise::Durable, what);
            }
        }
        asked.drained |= json.get("drained") == Some(&Value::Bool(true));
        let holds = |(id, job): &(&JobId, &job::Job)| {
            job.has_resources && job.state != job::State::Inactive && !truth.may_lack(**id)
        };
        match truth.jobs.iter().find(holds) {
            Some((id, job)) if asked.drained && !self.others_force => {
                let what = format!("drained was said, and job {id} holds resources: {job:?}");
                broken(Promise::Durable, what)
            }
            _ => Ok(()),
        }
    }

    fn list_said(
        &mut self,
        asked: &mut Asked,
        json: &Value,
        seq: Option<Seq>,
        truth: &Truth,
    ) -> Outcome {
        if asked.answers == 1 && seq.is_none() {
            let what = format!("{:?} was answered without a seq: {json}", asked.op);
            return broken(Promise::Honest, what);
        }
        if let Some(seq) = seq.filter(|seq| *seq < asked.told && !asked.stale) {
            let what = format!(
                "{:?} was answered from {seq}, and {} was told before",
                asked.op, asked.told
            );
            return broken(Promise::ReadYourWrites, what);
        }
        let rows = json.get("jobs").and_then(Value::as_array);
        let ids = rows
            .into_iter()
            .flatten()
            .filter_map(|row| row.get("id").and_then(Value::as_u64));
        for id in ids.map(JobId) {
            if !truth.of_job.contains_key(&id) && !asked.stale {
                let what = format!("a list shows job {id}, which is not in the store");
                return broken(Promise::Durable, what);
            }
            asked.rows.push(id);
        }
        if asked.op == Op::List(false) {
            return self.listed(asked, truth);
        }
        Ok(())
    }

    /// A list is whole: it has every job that was acknowledged before it was asked for.
    fn listed(&self, asked: &Asked, truth: &Truth) -> Outcome {
        if !matches!(asked.op, Op::List(_)) || asked.stale {
            return Ok(());
        }
        let mut rows = asked.rows.clone();
        rows.sort_unstable();
        if let Some(twice) = rows.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = format!("a list shows job {} twice", twice[0]);
            return broken(Promise::Listed, what);
        }
        let known = self.jobs.get(..asked.known).unwrap_or_default();
        let missing = known
            .iter()
            .find(|id| !truth.may_lack(**id) && rows.binary_search(id).is_err());
        match missing {
            Some(id) => broken(
                Promise::ReadYourWrites,
                format!("job {id} was acknowledged and is missing in the list"),
            ),
            None => Ok(()),
        }
    }
}

fn urgency_is(truth: &Truth, id: JobId, urgency: i64, at: Seq) -> Outcome {
    let stored = truth
        .last_of(id, &["urgency", "submit"], at)
        .and_then(|entry| context(entry, "urgency"))
        .and_then(|value| value.as_i64());
    if stored == Some(urgency) {
        return Ok(());
    }
    let what = format!(
        "job {id} was given urgency {urgency} at {at}, and the store says {stored:?} there"
    );
    broken(Promise::Durable, what)
}

/// The text of an answer.
fn text(response: &Response) -> String {
    response
        .payload
        .as_deref()
        .and_then(wire::text_of)
        .unwrap_or_default()
        .to_owned()
}

/// A jobspec of `slots` slots, wrapped as `J`.
#[must_use]
pub fn wrapped(userid: u32, slots: u64, name: &str) -> String {
    wrapped_with(userid, slots, name, &json!({}))
}

/// The same; `weir`: what kind of job it is.
fn wrapped_with(userid: u32, slots: u64, name: &str, weir: &Value) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": slots, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": [name], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "cwd": "/", "environment": {"A": name}, "weir": weir}}
    });
    format!(
        "{}.{}.none",
        STANDARD.encode(header),
        STANDARD.encode(jobspec.to_string())
    )
}

/// Topic, payload and whether it streams.
#[must_use]
pub fn request(op: &Op, userid: u32, rng: &mut Rng) -> (&'static str, Value, bool) {
    let owner = userid == OWNER;
    let attrs = json!(["state", "priority", "urgency", "t_submit"]);
    match op {
        Op::Submit { key } => {
            let slots = rng.between(1, 3) as u64;
            let urgency = rng.between(0, if owner { 31 } else { 16 });
            let urgency = if rng.one_in(2) { 16 } else { urgency };
            let flags = if owner && key.is_none() && rng.one_in(4) {
                4
            } else {
                0
            };
            let name = *rng.pick(&["true", "sleep", "make"]).unwrap_or(&"true");
            let mut ask = match key {
                // The same request each time.
                Some(key) => {
                    json!({"J": wrapped(userid, 1, "key"), "urgency": 16, "flags": 0, "key": key})
                }
                None => {
                    json!({"J": wrapped(userid, slots, name), "urgency": urgency, "flags": flags})
                }
            };
            if rng.one_in(50) && key.is_none() {
                ask["urgency"] = json!(32);
            }
            ("job-ingest.submit", ask, false)
        }
        Op::SubmitParent => {
            let j = wrapped_with(
                userid,
                1,
                "child",
                &json!({"parameterized": {"meta_required": ["who"]}}),
            );
            (
                "job-ingest.submit",
                json!({"J": j, "urgency": 16, "flags": 0}),
                false,
            )
        }
        Op::Dispatch { parent, key } => {
            let who = *rng.pick(&["a", "b"]).unwrap_or(&"a");
            let mut ask = json!({"id": parent, "meta": {"who": who}});
            if let Some(key) = key {
                // The same request each time.
                ask = json!({"id": parent, "meta": {"who": "key"}, "key": key});
            }
            ("job-manager.dispatch", ask, false)
        }
        Op::Urgency(id, urgency) => (
            "job-manager.urgency",
            json!({"id": id, "urgency": urgency}),
            false,
        ),
        Op::Priority(jobs) => ("job-manager.priority", json!({"jobs": jobs}), false),
        Op::Raise(id) => (
            "job-manager.raise",
            json!({"id": id, "severity": if rng.one_in(4) { 3 } else { 0 }, "type": "cancel", "note": "n"}),
            false,
        ),
        Op::RaiseAll => (
            "job-manager.raiseall",
            json!({"dry_run": rng.one_in(2), "userid": userid, "states": 14, "severity": 0, "type": "cancel"}),
            false,
        ),
        Op::Kill(id) => ("job-manager.kill", json!({"id": id, "signum": 15}), false),
        Op::Wait(id) => ("job-manager.wait", json!({"id": id}), false),
        Op::Active => (
            "job-manager.list",
            json!({"max_entries": 0, "attrs": ["id"]}),
            false,
        ),
        Op::Memo(id) => (
            "job-manager.memo",
            json!({"id": id, "memo": {"n": rng.below(100)}, "volatile": rng.one_in(2)}),
            false,
        ),
        Op::Lookup(id) => (
            "job-manager.lookup",
            json!({"id": id, "keys": ["eventlog", "jobspec"]}),
            false,
        ),
        Op::Queue(start) => (
            "job-manager.queue-start",
            json!({"start": start, "all": true, "reason": "sim"}),
            false,
        ),
        Op::Enable(enable) => (
            "job-manager.queue-enable",
            json!({"enable": enable, "all": true, "reason": "sim"}),
            false,
        ),
        Op::QueueStatus | Op::QueueIs(..) => ("job-manager.queue-status", json!({}), false),
        Op::Stats => ("job-manager.stats-get", json!({}), false),
        Op::Purge(jobs) => (
            "job-manager.purge",
            json!({"age_limit": -1.0, "num_limit": -1, "batch": 100, "force": true, "jobs": jobs}),
            false,
        ),
        Op::PurgeAll => (
            "job-manager.purge",
            json!({"age_limit": -1.0, "num_limit": rng.below(4), "batch": rng.between(1, 100), "force": true}),
            false,
        ),
        Op::List(streaming) => (
            "job-list.list",
            json!({"max_entries": 0, "attrs": attrs}),
            *streaming,
        ),
        Op::ListId(id, wait) => {
            let mut ask = json!({"id": id, "attrs": attrs});
            if *wait {
                ask["state"] = json!(job::State::Inactive as u32);
            }
            ("job-list.list-id", ask, false)
        }
        Op::Rank(id) => ("job-list.rank", json!({"id": id}), false),
        Op::JobStats => ("job-list.job-stats", json!({}), false),
        Op::ShutDown { now, force } => (
            "job-manager.shutdown",
            json!({"now": now, "force": force}),
            true,
        ),
        Op::GoOn => ("job-manager.shutdown-cancel", json!({}), false),
        Op::BadCursor(seq, epoch) => {
            let mut ask = json!({"after": seq});
            if let Some(epoch) = epoch {
                ask["epoch"] = json!(epoch);
            }
            ("job-manager.events", ask, true)
        }
    }
}
