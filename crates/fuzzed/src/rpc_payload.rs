//! Requests to the job-manager's core, and answers of its engines, in any order and with any payload.
//!
//! A line is one input, played against an instance with jobs in every state:
//!
//! ```text
//! o job-manager.urgency {"id":1,"urgency":3}    a request of the owner; g u = of guests, s = streaming, n = no answer wanted
//! j {"resources":…}                             the owner submits this jobspec; J = a guest does
//! k KEY {"resources":…}                         the same under a key; K = a guest does
//! e sched.alloc {"id":2,"type":0,…}             the engine on the owner's connection says so; E = it failed
//! d   h   x1   f   F   t   r                    all is durable, one commit is; connection 1 is gone; disk full, not full; time; crash
//! ```
//! A `~` before a payload leaves out its final NUL. The first payload is read as every type of the protocol as well.

use crate::instance::{GUEST, OWNER, R, Stored, stored};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use job::{Event, JobId, Seq, Source, Timestamp};
use manager::{
    Action, Call, Commit, Config, Find, Found, Input, JobWrite, Key, KeyFound, Manager, Recovered,
    Report, Sender, StoredJob, Token, Which,
};
use protocol::{exec, job_info, job_ingest, job_list, job_manager, method, sched, service};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use wire::{Cred, ROLE_OWNER, ROLE_USER, Topic, json_payload, nul_terminated, parse_json};

/// Lines played of one input.
const LINES_MAX: usize = 64;
/// Answers of the shell that one input may lead to, in a chain.
const SHELL_ANSWERS_MAX: usize = 256;
/// The longest text a refusal may have.
const REFUSAL_BYTES_MAX: usize = 4096;
/// The highest errno.
const ERRNO_MAX: u32 = 133;
/// Methods that may let their caller wait for something to happen.
const WAITING: [&str; 5] = [
    "job-manager.wait",
    "job-manager.idle",
    "job-manager.drain",
    "job-manager.sched-hello",
    "job-manager.shutdown",
];

/// Plays the lines.
pub fn check(data: &[u8]) {
    let mut world = World::new();
    for line in data.split(|&byte| byte == b'\n').take(LINES_MAX) {
        world.line(line);
    }
    world.input(Input::NoSpace(false));
    world.durable(usize::MAX);
    for (token, (_, topic)) in &world.awaited {
        assert!(
            WAITING.contains(&topic.as_str()),
            "request {} of {topic} has no answer",
            token.0
        );
    }
    world.crash();
}

struct Row {
    jobspec: Bytes,
    r: Option<Bytes>,
    events: Vec<Event>,
    userid: u32,
    flags: u32,
    key: Option<Box<str>>,
    inactive: bool,
    consumed: bool,
}

struct World {
    manager: Manager,
    rows: BTreeMap<JobId, Row>,
    meta: BTreeMap<String, String>,
    seq: u64,
    last: Timestamp,
    /// The highest id ever given out.
    newest: JobId,
    on_the_way: VecDeque<Commit>,
    /// Answers of the shell that are due.
    due: VecDeque<Input>,
    now: f64,
    tokens: u64,
    awaited: HashMap<Token, (Sender, String)>,
    /// Requests of connections that are gone: an answer may still come.
    gone: HashSet<Token>,
}

impl World {
    fn new() -> World {
        let row = |job: Stored| {
            let row = Row {
                jobspec: Bytes::from(job.jobspec),
                r: job.has_r.then(|| Bytes::from_static(R.as_bytes())),
                events: job.events,
                userid: job.userid,
                flags: job.flags,
                key: None,
                inactive: job.inactive,
                consumed: false,
            };
            (job.id, row)
        };
        let rows: BTreeMap<JobId, Row> = stored().into_iter().map(row).collect();
        let seq = rows.values().map(|row| row.events.len() as u64).sum();
        let mut world = World {
            manager: manager(BTreeMap::new(), 0, JobId(0), Timestamp::ZERO),
            rows,
            meta: BTreeMap::new(),
            seq,
            last: Timestamp(1000.0),
            newest: JobId(0),
            on_the_way: VecDeque::new(),
            due: VecDeque::new(),
            now: 2000.0,
            tokens: 0,
            awaited: HashMap::new(),
            gone: HashSet::new(),
        };
        world.crash();
        world
    }

    /// Power off, power on: what is durable comes back, all of it.
    fn crash(&mut self) {
        self.on_the_way.clear();
        self.awaited.clear();
        self.gone.clear();
        self.due.clear();
        self.newest = self
            .rows
            .keys()
            .next_back()
            .map_or(self.newest, |id| self.newest.max(*id));
        self.manager = manager(self.meta.clone(), self.seq, self.newest, self.last);
        for (&id, row) in &self.rows {
            if row.inactive {
                self.manager.restore_inactive(id, row.userid);
            }
            if !row.inactive || (row.flags & 4 != 0 && !row.consumed) {
                let restored = self.manager.restore_job(StoredJob {
                    id,
                    jobspec: row.jobspec.clone(),
                    r: row.r.clone(),
                    events: &row.events,
                });
                assert!(
                    restored.is_ok(),
                    "what it stored it does not take back: {restored:?}"
                );
            }
        }
        let seq = self.seq;
        self.input(Input::Start);
        assert_eq!(
            (self.seq, self.on_the_way.len()),
            (seq, 0),
            "a start posts nothing"
        );
    }

    fn line(&mut self, line: &[u8]) {
        let (&who, rest) = match line.split_first() {
            Some(found) => found,
            None => return,
        };
        let rest = rest.trim_ascii_start();
        match who {
            b'd' => self.durable(usize::MAX),
            b'h' => self.durable(1),
            b'x' => {
                let sender = Sender(u64::from(rest.first().copied().unwrap_or(b'1') & 3));
                let gone = self.awaited.extract_if(|_, (from, _)| *from == sender);
                self.gone.extend(gone.map(|(token, _)| token));
                self.input(Input::Disconnect { sender });
            }
            b'f' | b'F' => self.input(Input::NoSpace(who == b'f')),
            b't' => {
                self.now += 1.0;
                self.input(Input::Tick);
            }
            b'r' => self.crash(),
            b'j' | b'J' => self.submit(who == b'j', None, rest),
            b'k' | b'K' => {
                let at = rest.iter().position(|&byte| byte == b' ').unwrap_or(0);
                let key = String::from_utf8_lossy(&rest[..at]).into_owned();
                self.submit(who == b'k', Some(key), &rest[at..]);
            }
            b'o' | b'g' | b'u' | b's' | b'n' | b'e' | b'E' => {
                let (topic, payload) = match rest.iter().position(|&byte| byte == b' ') {
                    Some(at) => (&rest[..at], Some(&rest[at + 1..])),
                    None => (rest, None),
                };
                let Ok(topic) = String::from_utf8(topic.to_vec()) else {
                    return;
                };
                if matches!(who, b'e' | b'E') {
                    let payload = payload.map(payload_of);
                    self.input(Input::ServiceResponse(Report {
                        from: Sender(1),
                        topic: Topic::from(topic),
                        payload,
                        errnum: if who == b'E' { 38 } else { 0 },
                    }));
                } else {
                    self.request(who, topic, payload);
                }
            }
            _ => {}
        }
    }

    fn submit(&mut self, owner: bool, key: Option<String>, jobspec: &[u8]) {
        let (who, userid) = if owner { (b'o', OWNER) } else { (b'g', GUEST) };
        let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
        let payload = job_ingest::SubmitRequest {
            j: format!(
                "{}.{}.none",
                STANDARD.encode(header),
                STANDARD.encode(jobspec)
            )
            .into(),
            urgency: 16,
            flags: (jobspec.len() & 4) as i64,
            key: key.map(Into::into),
        };
        let payload = serde_json::to_vec(&payload).unwrap_or_default();
        self.request(who, "job-ingest.submit".to_owned(), Some(&payload));
    }

    /// The job of a key, as the store has it.
    fn find_key(&self, key: &Key) -> KeyFound {
        let is_it = |row: &Row| row.userid == key.userid && row.key.as_ref() == Some(&key.text);
        match self.rows.iter().find(|(_, row)| is_it(row)) {
            Some((&id, row)) => KeyFound::Job {
                id,
                jobspec: row.jobspec.clone(),
            },
            None => KeyFound::None,
        }
    }

    fn request(&mut self, who: u8, topic: String, payload: Option<&[u8]>) {
        let payload = payload.map(payload_of);
        // Once an input: it takes ten times as long as all the rest.
        if let Some(payload) = payload.as_ref().filter(|_| self.tokens == 0) {
            every_type(payload);
        }
        let (sender, userid, rolemask) = match who {
            b'g' => (2, GUEST, ROLE_USER),
            b'u' => (3, 1002, ROLE_USER),
            _ => (1, OWNER, ROLE_OWNER | ROLE_USER),
        };
        self.tokens += 1;
        let token = Token(self.tokens);
        // What is no method of the core never comes to it.
        if method::find(&topic).is_none() {
            return;
        }
        let noresponse = who == b'n';
        if !noresponse {
            self.awaited.insert(token, (Sender(sender), topic.clone()));
        }
        self.input(Input::Request(Call {
            token,
            sender: Sender(sender),
            cred: Cred { userid, rolemask },
            topic: Topic::from(topic),
            payload,
            streaming: who == b's',
            noresponse,
        }));
    }

    fn input(&mut self, input: Input) {
        let (mut out, mut commits) = (Vec::new(), 0);
        self.manager.handle(Timestamp(self.now), input, &mut out);
        for action in out {
            match action {
                Action::Commit(commit) => {
                    commits += 1;
                    self.on_the_way.push_back(commit);
                }
                Action::Respond {
                    token,
                    result,
                    last,
                } => {
                    let awaited = self.awaited.contains_key(&token) || self.gone.contains(&token);
                    assert!(awaited, "an answer nobody waits for");
                    if last {
                        self.gone.remove(&token);
                        self.awaited.remove(&token);
                    }
                    match result {
                        Ok(payload) => payload.iter().for_each(|json| object(json)),
                        Err(refusal) => {
                            assert!((1..=ERRNO_MAX).contains(&refusal.errnum), "{refusal:?}");
                            let text = refusal.text.unwrap_or_default();
                            assert!(
                                text.len() <= REFUSAL_BYTES_MAX,
                                "{} bytes of text",
                                text.len()
                            );
                            assert!(!text.contains('\0'), "a NUL in a text");
                        }
                    }
                }
                Action::Request { payload, .. }
                | Action::Start { payload, .. }
                | Action::Publish { payload, .. } => object(&payload),
                Action::FindKey(key) => {
                    let found = self.find_key(&key);
                    self.due.push_back(Input::KeysFound(vec![(key, found)]));
                }
                Action::ReadJ(id) => {
                    let j = Err("its page is torn".to_owned());
                    self.due.push_back(Input::JRead { id, j });
                }
                Action::Find(find) => self.due.push_back(Input::Found(Ok(self.find(find)))),
                Action::Sweep { batch, jobs } => {
                    assert!(
                        jobs.iter().all(|id| !self.rows.contains_key(id)),
                        "files of a job that is there"
                    );
                    // Every third time some of them are in use.
                    let left = if batch.0.is_multiple_of(3) {
                        jobs
                    } else {
                        Vec::new()
                    };
                    self.due.push_back(Input::Swept { batch, left });
                }
                _ => {}
            }
        }
        assert!(commits <= 1, "{commits} commits of one input");
    }

    /// What the shell was asked for comes back.
    fn answer(&mut self) {
        for _ in 0..SHELL_ANSWERS_MAX {
            match self.due.pop_front() {
                Some(input) => self.input(input),
                None => return,
            }
        }
    }

    /// Jobs that ended, as the store finds them.
    fn find(&self, find: Find) -> Found {
        let ended = |row: &Row| {
            row.events
                .last()
                .map_or(Timestamp::ZERO, |event| event.timestamp)
        };
        let mut all: Vec<(Timestamp, JobId)> = self
            .rows
            .iter()
            .filter(|(_, row)| row.inactive)
            .map(|(&id, row)| (ended(row), id))
            .collect();
        all.sort_unstable();
        if let Which::Beyond { before, keep } = find.which {
            let beyond = keep.map_or(0, |keep| all.len().saturating_sub(keep as usize));
            let rows = &self.rows;
            let mut at = 0;
            all.retain(|(ended, id)| {
                at += 1;
                let waited_for = rows
                    .get(id)
                    .is_some_and(|row| row.flags & 4 != 0 && !row.consumed);
                !waited_for && (at <= beyond || before.is_some_and(|before| *ended < before))
            });
        }
        let total = if find.count { all.len() as u64 } else { 0 };
        let jobs = all.into_iter().map(|(_, id)| id).take(find.limit).collect();
        Found { jobs, total }
    }

    /// The next commits reach the disk.
    fn durable(&mut self, count: usize) {
        for _ in 0..count {
            let Some(commit) = self.on_the_way.pop_front() else {
                break;
            };
            self.perform(commit);
        }
        let seq = Seq(self.seq);
        self.input(Input::Durable(seq));
        self.answer();
        // What was owed and is asked for now may make more.
        if count == usize::MAX {
            while let Some(commit) = self.on_the_way.pop_front() {
                self.perform(commit);
                let seq = Seq(self.seq);
                self.input(Input::Durable(seq));
                self.answer();
            }
        }
    }

    fn perform(&mut self, commit: Commit) {
        assert!(
            !commit.entries.is_empty(),
            "a commit without entries has no seq"
        );
        for write in commit.jobs {
            let changed = match write {
                JobWrite::Insert {
                    id,
                    userid,
                    flags,
                    jobspec,
                    key,
                    ..
                } => {
                    let text = key.clone().unwrap_or_default();
                    let found = self.find_key(&Key { userid, text });
                    assert!(
                        key.is_none() || found == KeyFound::None,
                        "two jobs of one key"
                    );
                    let row = Row {
                        jobspec,
                        r: None,
                        events: Vec::new(),
                        userid,
                        flags,
                        key,
                        inactive: false,
                        consumed: false,
                    };
                    assert!(
                        self.rows.insert(id, row).is_none(),
                        "id {id} is given out twice"
                    );
                    continue;
                }
                JobWrite::SetR { id, r } => self.rows.get_mut(&id).map(|row| row.r = Some(r)),
                JobWrite::Inactive { id, .. } => {
                    self.rows.get_mut(&id).map(|row| row.inactive = true)
                }
                JobWrite::Consumed { id } => self.rows.get_mut(&id).map(|row| row.consumed = true),
                JobWrite::Delete { id } => self.rows.remove(&id).map(drop),
            };
            assert!(changed.is_some(), "a change of a job that is not there");
        }
        for entry in commit.entries {
            self.seq += 1;
            assert_eq!(entry.seq.0, self.seq, "seqs have no gap");
            let event = Event::parse(entry.json());
            assert!(event.is_ok(), "an entry that cannot be read: {event:?}");
            let Ok(event) = event else { continue };
            assert!(event.timestamp >= self.last, "time goes back");
            self.last = event.timestamp;
            if let Source::Job(id) = entry.source
                && let Some(row) = self.rows.get_mut(&id)
            {
                assert_eq!(
                    entry.eventlog_seq as usize,
                    row.events.len() + 1,
                    "entries of a job have no gap"
                );
                row.events.push(event);
            }
        }
        for (key, value) in commit.meta {
            if value.is_empty() {
                self.meta.remove(&key);
            } else {
                self.meta.insert(key, value);
            }
        }
    }
}

fn manager(
    meta: BTreeMap<String, String>,
    seq: u64,
    max_jobid: JobId,
    last_timestamp: Timestamp,
) -> Manager {
    let config = Config {
        owner: OWNER,
        private: false,
    };
    let recovered = Recovered {
        newest_seq: Seq(seq),
        max_jobid,
        last_timestamp,
        meta: meta.into_iter().collect(),
    };
    Manager::new(config, recovered)
}

fn payload_of(text: &[u8]) -> Bytes {
    match text.strip_prefix(b"~") {
        Some(bare) => Bytes::copy_from_slice(bare),
        None => nul_terminated(text),
    }
}

fn object(json: &[u8]) {
    let value = serde_json::from_slice::<Value>(json);
    assert!(
        value.is_ok_and(|value| value.is_object()),
        "no object: {}",
        String::from_utf8_lossy(json)
    );
}

/// Reads a payload as each type there is. What reads is written and read again, to the same.
fn every_type(payload: &[u8]) {
    macro_rules! same {
        ($($kind:ty,)*) => { $(
            if let Ok(met) = parse_json::<$kind>(payload) {
                let json = json_payload(&met);
                let again = parse_json::<$kind>(&json);
                assert_eq!(again.ok().as_ref(), Some(&met), "written as {}", String::from_utf8_lossy(&json));
            }
        )* };
    }
    macro_rules! read {
        ($($kind:ty,)*) => { $( let _ = parse_json::<$kind>(payload); )* };
    }
    same! {
        job_manager::UrgencyRequest,
        job_manager::UrgencyResponse,
        job_manager::PriorityRequest,
        job_manager::PriorityResponse,
        job_manager::PrioritizeRequest,
        job_manager::PrioritizeResponse,
        job_manager::RaiseRequest<'_>,
        job_manager::RaiseallRequest<'_>,
        job_manager::AllResponse,
        job_manager::KillRequest,
        job_manager::KillallRequest,
        job_manager::MemoRequest,
        job_manager::SeqResponse,
        job_manager::WaitRequest,
        job_manager::WaitResponse<'_>,
        job_manager::ListRequest,
        job_manager::HistoryGetRequest<'_>,
        job_manager::HistoryGetResponse,
        job_manager::QueueStatusRequest<'_>,
        job_manager::QueueStatusResponse<'_>,
        job_manager::QueueEnableRequest<'_>,
        job_manager::QueueStartRequest<'_>,
        job_manager::LookupRequest<'_>,
        job_manager::LookupResponse<'_>,
        job_manager::EventsRequest,
        job_manager::PurgeRequest,
        job_manager::PurgeIdRequest,
        job_ingest::SubmitRequest<'_>,
        job_ingest::SubmitResponse,
        job_list::AfterRequest,
        job_list::ListRequest<'_>,
        job_list::ListIdRequest,
        job_list::RankRequest,
        job_list::RankResponse<'_>,
        job_list::CancelRequest,
        job_info::LookupRequest<'_>,
        job_info::EventlogWatchRequest<'_>,
        job_info::UpdateRequest<'_>,
        service::AddRequest<'_>,
        service::RemoveRequest<'_>,
        sched::HelloRequest,
        sched::ReadyRequest<'_>,
        sched::CancelRequest,
        sched::PrioritizeRequest,
        exec::HelloRequest<'_>,
        exec::FinishData<'_>,
        exec::ReleaseData<'_>,
        exec::ExceptionData<'_>,
        exec::KillRequest,
        exec::CancelRequest<'_>,
    }
    // Those hold JSON as it came, which has no equality.
    read! {
        sched::HelloResponse<'_>,
        sched::AllocRequest<'_>,
        sched::AllocResponse<'_>,
        sched::FreeRequest<'_>,
        exec::StartRequest<'_>,
        exec::StartResponse<'_>,
    }
}
