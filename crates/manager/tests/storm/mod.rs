//! A random world around the manager: requests, engines that answer truly, late or twice, a slow disk, crashes; and what must hold in it.

mod end;
mod engines;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use job::resources::ResourceChange;
use job::{Attach, Event, JobId, Resources, Seq, Source, State};
use manager::{Action, Find, Input, JobWrite, Keep, Key, KeyFound, Sender, Token};
use wire::Cred;

pub use step::{Step, step};

use crate::world::{JOBSPEC, OWNER, R, World, submission};

const SCHED: u64 = 101;
const EXEC: u64 = 102;

/// What an engine that keeps the protocol knows, and what was acknowledged.
#[derive(Default)]
struct Peers {
    sched: bool,
    limit: usize,
    /// Allocs received and not answered; true once a cancel came.
    open: BTreeMap<JobId, bool>,
    /// Jobs the scheduler believes hold resources.
    holding: BTreeSet<JobId>,
    exec: bool,
    /// Exchanges open with this exec service.
    exchanges: BTreeSet<JobId>,
    /// Bodies that run or ran: never two for one job.
    started: BTreeSet<JobId>,
    /// Results a client was told.
    told: BTreeSet<JobId>,
    acknowledged_jobs: BTreeSet<JobId>,
    /// Token of a submission or urgency change → how to read its answer.
    asked: BTreeMap<Token, Asked>,
    /// The last urgency a client was told of, and the seq of that change.
    urgencies: BTreeMap<JobId, (u64, u8)>,
    /// The search that is under way.
    find: Option<Find>,
    /// What was read of keys, and not told yet.
    keys: Vec<(Key, KeyFound)>,
    /// Parents whose J is to be read.
    parents: Vec<JobId>,
    /// The job that a client was told has this key.
    key_of: BTreeMap<usize, JobId>,
    /// Purges whose files are being removed.
    sweeps: BTreeMap<Seq, Vec<JobId>>,
    /// Jobs that a client was told are purged.
    purged: BTreeSet<JobId>,
    /// Jobs that have files.
    files: BTreeSet<JobId>,
}

#[derive(Clone)]
enum Asked {
    Submit,
    Key(usize),
    Urgency(JobId, u8),
    Wait,
    Hello,
    Purge,
    Other,
}

/// The ranks whose bits are set, of four.
fn ranks(bits: u8) -> job::Idset {
    (0..4).filter(|rank| bits >> rank & 1 == 1).collect()
}

/// A random world, checked after every step.
pub struct Run {
    pub world: World,
    peers: Peers,
    ids: Vec<JobId>,
}

impl Run {
    /// An empty one.
    pub fn new() -> Run {
        let mut world = World::new();
        world.now += 1.0;
        Run {
            world,
            peers: Peers::default(),
            ids: Vec::new(),
        }
    }

    fn pick(&self, pick: usize) -> JobId {
        self.ids
            .iter()
            .rev()
            .nth(pick % self.ids.len().max(1))
            .copied()
            .unwrap_or(JobId(7))
    }

    fn call(&mut self, asked: Asked, topic: &str, payload: &str, streaming: bool) {
        let actions = {
            let token = Token(self.world.next_token + 1);
            self.peers.asked.insert(token, asked);
            self.world
                .call(1, Cred::owner(OWNER), topic, Some(payload), streaming)
        };
        self.saw(actions, false);
    }

    fn engine_call(&mut self, from: u64, topic: &str, payload: &str, streaming: bool) {
        self.peers
            .asked
            .insert(Token(self.world.next_token + 1), Asked::Other);
        let actions = self
            .world
            .call(from, Cred::owner(OWNER), topic, Some(payload), streaming);
        self.saw(actions, false);
    }

    fn report(&mut self, from: u64, topic: &str, payload: &str) {
        let actions = self.world.input(Input::ServiceResponse(World::report(
            from, topic, payload, 0,
        )));
        self.saw(actions, false);
    }

    /// Invariant 2: what leaves while something is on the way to the disk leaves because of the disk.
    fn saw(&mut self, actions: Vec<Action>, disk: bool) {
        let undurable = !self.world.on_the_way.is_empty();
        for action in actions {
            match action {
                Action::Commit(commit) => {
                    for write in &commit.jobs {
                        if let JobWrite::Insert { id, .. } = write {
                            self.ids.push(*id);
                            self.peers.files.insert(*id);
                        }
                    }
                }
                Action::Close { sender, .. } => self.gone(sender.0),
                other => {
                    assert!(
                        disk || !undurable,
                        "invariant 2: {other:?} left before the disk had what it rests on"
                    );
                    self.perform(other);
                }
            }
        }
    }

    fn gone(&mut self, sender: u64) {
        if sender == SCHED {
            self.peers.sched = false;
            self.peers.open.clear();
        } else {
            self.peers.exec = false;
            self.peers.exchanges.clear();
        }
    }

    fn perform(&mut self, action: Action) {
        let disk_seq = self.world.disk.entries.len() as u64;
        match action {
            Action::Respond { token, result, .. } => {
                let Ok(Some(payload)) = result else { return };
                let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
                if let Some(seq) = payload["seq"].as_u64() {
                    assert!(
                        seq <= disk_seq,
                        "invariant 2: an answer names seq {seq}, the disk has {disk_seq}"
                    );
                }
                match self.peers.asked.get(&token).cloned() {
                    Some(Asked::Submit) => {
                        let id = JobId(payload["id"].as_u64().unwrap());
                        self.peers.acknowledged_jobs.insert(id);
                    }
                    Some(Asked::Key(key)) => {
                        let id = JobId(payload["id"].as_u64().unwrap());
                        self.peers.acknowledged_jobs.insert(id);
                        if let Some(before) = self.peers.key_of.insert(key, id) {
                            assert!(
                                before == id || self.world.disk.purged().contains(&before),
                                "key {key} gave {before}, then {id}"
                            );
                        }
                    }
                    Some(Asked::Urgency(id, urgency)) => {
                        self.peers
                            .urgencies
                            .insert(id, (payload["seq"].as_u64().unwrap(), urgency));
                    }
                    Some(Asked::Wait) => {
                        let id = JobId(payload["id"].as_u64().unwrap());
                        assert!(
                            self.peers.told.insert(id),
                            "the result of {id} was told twice"
                        );
                    }
                    Some(Asked::Hello) => {
                        assert_eq!(payload["R"].to_string(), R);
                        let id = JobId(payload["id"].as_u64().unwrap());
                        self.peers.holding.insert(id);
                    }
                    Some(Asked::Purge) => {
                        for id in payload["jobs"].as_array().unwrap() {
                            self.peers.purged.insert(JobId(id.as_u64().unwrap()));
                        }
                    }
                    Some(Asked::Other) | None => {}
                }
            }
            Action::Request {
                to, topic, payload, ..
            } => {
                let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
                let id = payload["id"].as_u64().map(JobId);
                if to == Sender(SCHED) && self.peers.sched {
                    self.reaches_sched(topic.as_str(), id, &payload);
                }
            }
            Action::Start {
                to, id, payload, ..
            } => {
                assert!(
                    self.world.disk.rows.contains_key(&id),
                    "a start whose J is not durable"
                );
                let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
                if to == Sender(EXEC) && self.peers.exec {
                    assert!(self.peers.exchanges.insert(id), "two exchanges over {id}");
                    let job = self.world.disk.fold(id);
                    assert!(job.has_resources || job.freed);
                    if job.started {
                        assert_eq!(
                            payload["reattach"], true,
                            "a started job is never started again"
                        );
                    }
                }
            }
            // Read at once, told later: what happens in between must not matter.
            Action::FindKey(key) => {
                let found = self.world.disk.find_key(&key);
                self.peers.keys.push((key, found));
            }
            Action::ReadJ(id) => {
                assert!(self.world.disk.rows.contains_key(&id), "its J is durable");
                self.peers.parents.push(id);
            }
            Action::Find(find) => {
                assert!(
                    self.peers.find.replace(find).is_none(),
                    "one search at a time"
                );
            }
            Action::Sweep { batch, jobs } => {
                for id in &jobs {
                    assert!(
                        !self.world.disk.rows.contains_key(id),
                        "files of {id} go before its row"
                    );
                }
                assert!(
                    self.peers.sweeps.insert(batch, jobs).is_none(),
                    "removed twice"
                );
            }
            Action::Publish { .. } | Action::Ready(_) | Action::ShutDown => {}
            Action::Commit(_) | Action::Close { .. } => unreachable!(),
        }
    }

    fn reaches_sched(&mut self, topic: &str, id: Option<JobId>, payload: &serde_json::Value) {
        match topic {
            "sched.alloc" => {
                assert!(
                    payload["priority"].as_u64().unwrap() > 0,
                    "a held job was offered"
                );
                assert!(
                    self.peers.open.insert(id.unwrap(), false).is_none(),
                    "offered twice"
                );
                assert!(
                    self.peers.open.len() <= self.peers.limit,
                    "more offers than the limit"
                );
            }
            "sched.cancel" => {
                if let Some(cancelled) = self.peers.open.get_mut(&id.unwrap()) {
                    assert!(!*cancelled, "taken back twice");
                    *cancelled = true;
                }
            }
            "sched.free" => assert!(
                self.peers.holding.remove(&id.unwrap()),
                "freed what was not held"
            ),
            "sched.prioritize" => {
                for pair in payload["jobs"].as_array().unwrap() {
                    let id = JobId(pair[0].as_u64().unwrap());
                    // It may have been answered, and even purged, while the message waited for the disk.
                    let disk = &self.world.disk;
                    assert!(disk.rows.contains_key(&id) || disk.purged().contains(&id));
                }
            }
            other => panic!("{other}"),
        }
    }

    /// So many commits reach the disk.
    pub fn durable(&mut self, count: usize) {
        let actions = self.world.durable(count);
        self.saw(actions, true);
    }

    /// Lets one thing happen, then looks whether all is well.
    pub fn take(&mut self, step: Step) {
        self.world.now += 0.001;
        match step {
            Step::Submit { urgency, flags } => {
                let payload = submission(OWNER, JOBSPEC, urgency, flags);
                self.call(Asked::Submit, "job-ingest.submit", &payload, false);
            }
            Step::SubmitKey { key } => {
                let payload = submission(OWNER, JOBSPEC, 16, 0);
                let payload = payload.replacen('{', &format!(r#"{{"key":"k{key}","#), 1);
                self.call(Asked::Key(key), "job-ingest.submit", &payload, false);
            }
            Step::Keys(count) => {
                let count = count.min(self.peers.keys.len());
                let found = self.peers.keys.drain(..count).collect();
                let actions = self.world.input(Input::KeysFound(found));
                self.saw(actions, false);
            }
            Step::SubmitParent => {
                let spec = JOBSPEC.replace(
                    r#""system":{"#,
                    r#""system":{"weir":{"parameterized":{"meta_optional":["k"]}},"#,
                );
                let payload = submission(OWNER, &spec, 16, 0);
                self.call(Asked::Submit, "job-ingest.submit", &payload, false);
            }
            Step::Dispatch { pick, key } => {
                let id = self.pick(pick).0;
                let mut payload = serde_json::json!({"id": id, "meta": {"k": "v"}});
                let mut asked = Asked::Submit;
                if let Some(key) = key {
                    // Keys of dispatches are others than those of submissions: the jobspecs differ.
                    payload["key"] = format!("d{key}-{id}").into();
                    asked = Asked::Other;
                }
                self.call(asked, "job-manager.dispatch", &payload.to_string(), false);
            }
            Step::JRead(sound) => {
                if let Some(id) = self.peers.parents.pop() {
                    // Read when it is told; a parent that ended and was purged is no longer there.
                    let row = self.world.disk.rows.get(&id).filter(|_| sound);
                    let j = row.map(|row| row.j.clone()).ok_or("torn".to_owned());
                    let actions = self.world.input(Input::JRead { id, j });
                    self.saw(actions, false);
                }
            }
            Step::Announce { set, up } => {
                let names = ["n[0-3]", "n[2-5]", "n[0-3]"][set];
                let cores = ["0", "0", "0-1"][set];
                let r = format!(
                    r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0-3","children":{{"core":"{cores}"}}}}],"nodelist":["{names}"]}}}}"#
                );
                let payload = format!(r#"{{"R":{r},"up":"{}"}}"#, ranks(up));
                self.engine_call(EXEC, "job-manager.resource-announce", &payload, false);
            }
            Step::Nodes { kind, ranks: set } => {
                let (name, overwrite) = [
                    ("online", 0),
                    ("offline", 0),
                    ("drain", 0),
                    ("drain", 1),
                    ("drain", 2),
                    ("undrain", 0),
                ][kind];
                let payload = format!(
                    r#"{{"name":"{name}","idset":"{}","reason":"r{}","overwrite":{overwrite}}}"#,
                    ranks(set),
                    set % 2
                );
                self.engine_call(EXEC, "job-manager.resource-event", &payload, false);
            }
            Step::Urgency { pick, urgency } => {
                let id = self.pick(pick);
                let asked = u8::try_from(urgency)
                    .map_or(Asked::Other, |urgency| Asked::Urgency(id, urgency));
                self.call(
                    asked,
                    "job-manager.urgency",
                    &format!(r#"{{"id":{},"urgency":{urgency}}}"#, id.0),
                    false,
                );
            }
            Step::Many(pairs) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(pick, urgency)| format!("[{},{urgency}]", self.pick(*pick).0))
                    .collect();
                self.call(
                    Asked::Other,
                    "job-manager.priority",
                    &format!(r#"{{"jobs":[{}]}}"#, pairs.join(",")),
                    false,
                );
                // What was acknowledged by hand no longer tells what holds.
                self.peers.urgencies.clear();
            }
            Step::Raise { pick, severity } => {
                let payload = format!(
                    r#"{{"id":{},"severity":{severity},"type":"cancel"}}"#,
                    self.pick(pick).0
                );
                self.call(Asked::Other, "job-manager.raise", &payload, false);
            }
            Step::Kill { pick } => {
                let payload = format!(r#"{{"id":{},"signum":15}}"#, self.pick(pick).0);
                self.call(Asked::Other, "job-manager.kill", &payload, false);
            }
            Step::Memo { pick } => {
                let payload = format!(
                    r#"{{"id":{},"memo":{{"x":1}},"volatile":true}}"#,
                    self.pick(pick).0
                );
                self.call(Asked::Other, "job-manager.memo", &payload, false);
            }
            Step::Wait { pick } => {
                let payload = format!(r#"{{"id":{}}}"#, self.pick(pick).0);
                self.call(Asked::Wait, "job-manager.wait", &payload, false);
            }
            Step::Queue { start } => {
                self.call(
                    Asked::Other,
                    "job-manager.queue-start",
                    &format!(r#"{{"start":{start},"all":true}}"#),
                    false,
                );
            }
            Step::SchedHello { limit } => self.sched_hello(limit),
            Step::SchedGone => {
                let actions = self.world.input(Input::Disconnect {
                    sender: Sender(SCHED),
                });
                self.gone(SCHED);
                self.saw(actions, false);
            }
            Step::Sched { pick, kind } => self.sched_answers(pick, kind),
            Step::ExecHello => self.exec_hello(),
            Step::ExecGone => {
                let actions = self.world.input(Input::Disconnect {
                    sender: Sender(EXEC),
                });
                self.gone(EXEC);
                self.saw(actions, false);
            }
            Step::Exec { pick, kind } => self.exec_answers(pick, kind),
            Step::Nonsense { pick, kind } => self.nonsense(pick, kind),
            Step::Purge { named, keep, force } => {
                let ids: Vec<u64> = named.iter().map(|pick| self.pick(*pick).0).collect();
                let mut payload = serde_json::json!({"age_limit": -1.0, "num_limit": -1, "batch": 3, "force": force});
                match (ids.is_empty(), keep) {
                    (false, _) => payload["jobs"] = ids.into(),
                    (true, Some(keep)) => payload["num_limit"] = keep.into(),
                    (true, None) => payload["all"] = true.into(),
                }
                let asked = if force { Asked::Purge } else { Asked::Other };
                self.call(asked, "job-manager.purge", &payload.to_string(), false);
            }
            Step::Found => self.found(),
            Step::Swept { left } => self.swept(left),
            Step::Limit(num) => {
                self.world.keep = Keep { age: None, num };
                self.world.manager.keep(self.world.keep);
            }
            Step::Durable(count) => self.durable(count),
            Step::Crash => self.crash(),
            Step::Tick => {
                let actions = self.world.input(Input::Tick);
                self.saw(actions, false);
            }
        }
        self.check();
    }

    fn found(&mut self) {
        if let Some(find) = self.peers.find.take() {
            let found = self.world.disk.find(&find);
            let actions = self.world.input(Input::Found(Ok(found)));
            self.saw(actions, false);
        }
    }

    fn swept(&mut self, stay: bool) {
        let Some((batch, jobs)) = self.peers.sweeps.pop_first() else {
            return;
        };
        let (left, gone) = if stay { (jobs, vec![]) } else { (vec![], jobs) };
        for id in gone {
            self.peers.files.remove(&id);
        }
        let actions = self.world.input(Input::Swept { batch, left });
        self.saw(actions, false);
    }

    /// Invariant 1: a restart applies all and posts nothing; and nothing that was acknowledged is lost.
    pub fn crash(&mut self) {
        let before = self.world.disk.entries.len();
        self.peers.asked.clear();
        (self.peers.find, self.peers.sweeps) = (None, BTreeMap::new());
        self.peers.keys.clear();
        self.peers.parents.clear();
        self.gone(SCHED);
        self.gone(EXEC);
        let actions = self.world.crash();
        assert!(
            actions.is_empty(),
            "invariant 1: a start asks for nothing: {actions:?}"
        );
        assert_eq!(self.world.manager.newest_seq().0 as usize, before);
        self.ids.retain(|id| self.world.disk.rows.contains_key(id));
        // What was never stored was never begun.
        let purged = self.world.disk.purged();
        let stored = |id: &JobId| self.world.disk.rows.contains_key(id) || purged.contains(id);
        self.peers.files.retain(stored);
        for id in &self.peers.acknowledged_jobs {
            assert!(stored(id), "acknowledged job {id} is missing");
        }
        for id in &self.peers.purged {
            assert!(
                purged.contains(id) && !self.world.disk.rows.contains_key(id),
                "purged job {id} is back"
            );
        }
        for (id, (seq, urgency)) in &self.peers.urgencies {
            let changes = self
                .world
                .disk
                .entries
                .iter()
                .filter(|entry| entry.seq.0 >= *seq - 1 && entry.source == Source::Job(*id));
            let later = changes
                .filter(|entry| entry.name == job::EventName::Urgency)
                .count();
            if later == 1 {
                assert_eq!(
                    self.world.disk.fold(*id).urgency.get(),
                    *urgency,
                    "acknowledged urgency of {id}"
                );
            }
        }
        self.check_folds();
    }

    /// The manager's jobs are what the events on disk add up to (nothing is on the way), and so are its nodes.
    fn check_folds(&self) {
        let mut nodes = Resources::new();
        let log = self.world.disk.entries.iter();
        for entry in log.filter(|entry| entry.source == Source::Resource) {
            let event = Event::parse(entry.json()).unwrap();
            let change = nodes.apply(entry.seq, &event).unwrap();
            assert_ne!(change, ResourceChange::Nothing);
            assert_eq!(nodes.eventlog_seq(), entry.eventlog_seq);
        }
        assert_eq!(
            *self.world.manager.nodes(),
            nodes,
            "the nodes are what the resource log adds up to"
        );
        let kept = self.world.disk.meta.get("resources");
        let kept = kept.map(|text| Resources::from_json(text.as_bytes()).unwrap());
        assert_eq!(kept.unwrap_or_default(), nodes, "and what is kept of them");
        for (id, row) in &self.world.disk.rows {
            let fold = self.world.disk.fold(*id);
            assert_eq!(
                row.inactive.is_some(),
                fold.state == State::Inactive,
                "the row of {id} tells of its state"
            );
            match self.world.manager.job(*id) {
                Some(job) => assert_eq!(
                    *job, fold,
                    "invariant 1: apply is the only thing that changes a job"
                ),
                None => assert_eq!(fold.state, State::Inactive, "an active job is missing"),
            }
        }
    }

    fn check(&self) {
        if self.world.on_the_way.is_empty() {
            self.check_folds();
        }
        // Each commit that tells of an alloc brings its R.
        for commit in &self.world.on_the_way {
            for entry in &commit.entries {
                if let (Source::Job(id), Attach::R(_)) = (entry.source, &entry.attach) {
                    assert!(
                        commit.jobs.iter().any(
                            |write| matches!(write, JobWrite::SetR { id: of, .. } if *of == id)
                        )
                    );
                }
            }
        }
    }
}
