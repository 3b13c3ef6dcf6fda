//! A world around the manager for tests: a store that is a list of commits, a clock that is a number, and the names of jobs.
//!
//! A crash keeps the durable commits and nothing else; a restart is what the shell does with them.
#![allow(dead_code, unreachable_pub, clippy::expect_used)] // each test binary uses a part

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use job::{Entry, Event, Job, JobFlags, JobId, Seq, Source, Timestamp};
use manager::{
    Action, Call, Commit, Config, Find, Found, Input, JobWrite, Keep, Key, KeyFound, Manager,
    Recovered, Report, Sender, StoredJob, Token, Which,
};
use wire::{Cred, Topic, nul_terminated};

/// The user who runs the instance.
pub const OWNER: u32 = 1000;
/// A small jobspec.
pub const JOBSPEC: &str = r#"{"resources":[{"type":"slot","count":1,"with":[{"type":"core","count":1}],"label":"task"}],"tasks":[{"command":["true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0,"cwd":"/tmp","environment":{"HOME":"/root"}}},"version":1}"#;
/// The resources of every job.
pub const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["node0"],"starttime":1.0,"expiration":0.0}}"#;

/// A row of the store.
#[derive(Debug, Clone)]
pub struct Row {
    pub userid: u32,
    pub flags: u32,
    pub jobspec: Bytes,
    pub j: Bytes,
    pub key: Option<Box<str>>,
    pub r: Option<Bytes>,
    /// When it ended.
    pub inactive: Option<Timestamp>,
    pub consumed: bool,
    /// It cannot be read: set aside.
    pub damaged: bool,
}

/// What is on disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    pub entries: Vec<Arc<Entry>>,
    pub rows: BTreeMap<JobId, Row>,
    pub meta: BTreeMap<String, String>,
    pub max_jobid: u64,
}

impl Disk {
    pub fn perform(&mut self, commit: &Commit) {
        assert!(
            !commit.entries.is_empty(),
            "a commit without entries has no seq to wait for"
        );
        for entry in &commit.entries {
            assert_eq!(
                entry.seq.0,
                self.entries.len() as u64 + 1,
                "seqs have no gap"
            );
            self.entries.push(Arc::clone(entry));
        }
        for write in &commit.jobs {
            match write {
                JobWrite::Insert {
                    id,
                    userid,
                    flags,
                    jobspec,
                    j,
                    key,
                    ..
                } => {
                    let (jobspec, j) = (jobspec.clone(), j.clone());
                    if let Some(key) = key {
                        assert!(
                            self.by_key(*userid, key).is_none(),
                            "a key has one job of its user"
                        );
                    }
                    let row = Row {
                        userid: *userid,
                        flags: *flags,
                        jobspec,
                        j,
                        key: key.clone(),
                        r: None,
                        inactive: None,
                        consumed: false,
                        damaged: false,
                    };
                    assert!(id.0 > self.max_jobid, "an id is never given again");
                    self.max_jobid = id.0;
                    assert!(
                        self.rows.insert(*id, row).is_none(),
                        "an id is given out once"
                    );
                }
                JobWrite::SetR { id, r } => self.rows.get_mut(id).unwrap().r = Some(r.clone()),
                JobWrite::Inactive { id, t_inactive, .. } => {
                    self.rows.get_mut(id).unwrap().inactive = Some(*t_inactive);
                }
                JobWrite::Consumed { id } => self.rows.get_mut(id).unwrap().consumed = true,
                JobWrite::Delete { id } => {
                    let row = self.rows.remove(id).expect("a job is purged once");
                    assert!(
                        row.damaged || row.inactive.is_some(),
                        "no active job is purged"
                    );
                }
            }
        }
        self.meta.extend(commit.meta.iter().cloned());
        self.meta.retain(|_, value| !value.is_empty());
    }

    /// The job of a user's key.
    pub fn by_key(&self, userid: u32, key: &str) -> Option<(JobId, &Row)> {
        let mut rows = self.rows.iter();
        rows.find(|(_, row)| row.userid == userid && row.key.as_deref() == Some(key))
            .map(|(id, row)| (*id, row))
    }

    /// What the store says of a key.
    pub fn find_key(&self, key: &Key) -> KeyFound {
        match self.by_key(key.userid, &key.text) {
            None => KeyFound::None,
            Some((id, row)) if row.damaged => KeyFound::Damaged {
                id,
                why: "torn".to_owned(),
            },
            Some((id, row)) => KeyFound::Job {
                id,
                jobspec: row.jobspec.clone(),
            },
        }
    }

    /// What the store finds of jobs that ended.
    pub fn find(&self, find: &Find) -> Found {
        let mut ended: Vec<(Timestamp, JobId, bool)> = self
            .rows
            .iter()
            .filter_map(|(id, row)| {
                let waitable = JobFlags(row.flags).contains(JobFlags::WAITABLE) && !row.consumed;
                Some((row.inactive?, *id, waitable))
            })
            .collect();
        ended.sort_by(|a, b| (a.0.0, a.1).partial_cmp(&(b.0.0, b.1)).unwrap());
        let kept = match find.which {
            Which::All => 0,
            Which::Beyond { keep, .. } => keep.map_or(usize::MAX, |keep| keep as usize),
        };
        let beyond = ended.len().saturating_sub(kept);
        let of_which =
            |(at, (time, _, waitable)): &(usize, (Timestamp, JobId, bool))| match find.which {
                Which::All => true,
                Which::Beyond { before, .. } => {
                    !waitable && (*at < beyond || before.is_some_and(|before| time.0 < before.0))
                }
            };
        let all: Vec<JobId> = ended
            .into_iter()
            .enumerate()
            .filter(of_which)
            .map(|(_, (_, id, _))| id)
            .collect();
        Found {
            total: if find.count { all.len() as u64 } else { 0 },
            jobs: all.into_iter().take(find.limit).collect(),
        }
    }

    /// Jobs that purge entries name.
    pub fn purged(&self) -> BTreeSet<JobId> {
        let purges = self
            .entries
            .iter()
            .filter(|entry| entry.source == Source::System && entry.name.as_str() == "purge");
        purges
            .flat_map(|entry| {
                let event: serde_json::Value = serde_json::from_slice(entry.json()).unwrap();
                let jobs = event["context"]["jobs"].as_array().unwrap().clone();
                jobs.into_iter().map(|id| JobId(id.as_u64().unwrap()))
            })
            .collect()
    }

    /// Ended jobs whose result is still to be taken.
    pub fn waited_for(&self) -> Vec<JobId> {
        let waitable =
            |row: &Row| JobFlags(row.flags).contains(JobFlags::WAITABLE) && !row.consumed;
        let rows = self
            .rows
            .iter()
            .filter(|(_, row)| row.inactive.is_some() && waitable(row));
        rows.map(|(id, _)| *id).collect()
    }

    /// A job's events, all of them.
    pub fn events(&self, id: JobId) -> Vec<Event> {
        let of_job = self
            .entries
            .iter()
            .filter(|entry| entry.source == Source::Job(id));
        of_job
            .map(|entry| Event::parse(entry.json()).unwrap())
            .collect()
    }

    /// A job as its events make it.
    pub fn fold(&self, id: JobId) -> Job {
        let events = self.events(id);
        let mut job = Job::new(id, &events[0]).unwrap();
        for event in &events[1..] {
            let _ = job.apply(event).unwrap();
        }
        job
    }

    /// Names of a job's stored events; live-only ones with a star, as flux-protocol.md 6.2 writes them.
    pub fn names(&self, id: JobId) -> String {
        let of_job = self
            .entries
            .iter()
            .filter(|entry| entry.source == Source::Job(id));
        let star = |entry: &Arc<Entry>| if entry.stored_log { "" } else { "*" };
        of_job
            .map(|entry| format!("{}{}", star(entry), entry.name))
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// A manager made from what is on disk, not yet started.
    pub fn recover(&self, config: Config) -> Manager {
        let last_timestamp = self
            .entries
            .last()
            .map(|entry| Event::parse(entry.json()).unwrap().timestamp);
        let mut manager = Manager::new(
            config,
            Recovered {
                newest_seq: Seq(self.entries.len() as u64),
                max_jobid: JobId(self.max_jobid),
                last_timestamp: last_timestamp.unwrap_or(Timestamp::ZERO),
                meta: self
                    .meta
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            },
        );
        for (id, row) in &self.rows {
            manager.restore_inactive(*id, row.userid);
            if row.damaged {
                continue;
            }
            let waitable = JobFlags(row.flags).contains(JobFlags::WAITABLE) && !row.consumed;
            if row.inactive.is_none() || waitable {
                let events = self.events(*id);
                let stored = StoredJob {
                    id: *id,
                    jobspec: row.jobspec.clone(),
                    r: row.r.clone(),
                    events: &events,
                };
                manager.restore_job(stored).unwrap();
            }
        }
        manager
    }
}

/// The manager, its disk, and what is on the way there.
pub struct World {
    pub manager: Manager,
    pub disk: Disk,
    pub on_the_way: VecDeque<Commit>,
    pub now: f64,
    pub next_token: u64,
    pub config: Config,
    pub keep: Keep,
}

impl World {
    /// An empty instance, started.
    pub fn new() -> World {
        let config = Config {
            owner: OWNER,
            private: false,
        };
        let (disk, now) = (Disk::default(), 1_700_000_000.0);
        let manager = disk.recover(config.clone());
        let mut world = World {
            manager,
            disk,
            on_the_way: VecDeque::new(),
            now,
            next_token: 0,
            config,
            keep: Keep::default(),
        };
        assert!(world.input(Input::Start).is_empty());
        world
    }

    /// Hands in an input; commits are put on their way, all actions are returned.
    pub fn input(&mut self, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        self.manager.handle(Timestamp(self.now), input, &mut out);
        let mut commits = 0;
        for action in &out {
            if let Action::Commit(commit) = action {
                self.on_the_way.push_back(commit.clone());
                commits += 1;
            }
        }
        assert!(commits <= 1, "one input makes at most one commit");
        out
    }

    /// The next `count` commits reach the disk.
    pub fn durable(&mut self, count: usize) -> Vec<Action> {
        for _ in 0..count {
            let Some(commit) = self.on_the_way.pop_front() else {
                break;
            };
            self.disk.perform(&commit);
        }
        self.input(Input::Durable(Seq(self.disk.entries.len() as u64)))
    }

    /// A request; its token is the newest.
    pub fn call(
        &mut self,
        sender: u64,
        cred: Cred,
        topic: &str,
        payload: Option<&str>,
        streaming: bool,
    ) -> Vec<Action> {
        self.next_token += 1;
        let call = Call {
            token: Token(self.next_token),
            sender: Sender(sender),
            cred,
            topic: Topic::from(topic.to_owned()),
            payload: payload.map(|text| nul_terminated(text.as_bytes())),
            streaming,
            noresponse: false,
        };
        self.input(Input::Request(call))
    }

    /// A response of an engine.
    pub fn report(from: u64, topic: &str, payload: &str, errnum: u32) -> Report {
        Report {
            from: Sender(from),
            topic: Topic::from(topic.to_owned()),
            payload: Some(nul_terminated(payload.as_bytes())),
            errnum,
        }
    }

    /// Ids of the jobs on the way to the disk.
    pub fn manager_ids(&self) -> Vec<JobId> {
        let writes = self.on_the_way.iter().flat_map(|commit| &commit.jobs);
        writes
            .filter_map(|write| match write {
                JobWrite::Insert { id, .. } => Some(*id),
                _ => None,
            })
            .collect()
    }

    /// Power off, power on: what was on the way is lost.
    pub fn crash(&mut self) -> Vec<Action> {
        self.on_the_way.clear();
        self.manager = self.disk.recover(self.config.clone());
        self.manager.keep(self.keep);
        self.input(Input::Start)
    }
}

/// A wrapped jobspec.
pub fn wrap(userid: u32, jobspec: &str) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    format!(
        "{}.{}.none",
        STANDARD.encode(header),
        STANDARD.encode(jobspec)
    )
}

/// The payload of a submission.
pub fn submission(userid: u32, jobspec: &str, urgency: i64, flags: i64) -> String {
    serde_json::json!({"J": wrap(userid, jobspec), "urgency": urgency, "flags": flags}).to_string()
}
