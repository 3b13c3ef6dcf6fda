//! What a node process knows of its jobs, and what it does when one of them begins, speaks, or dies.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::WaitOptions;
use serde::Deserialize;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::messages::{
    Ended, Exception, Fact, FromNode, FromShepherd, ToNode, ToShepherd, to_line,
};
use crate::node::child::{Child, Heard, Key};
use crate::node::obey::{Foreign, Obey};
use crate::node::orphans;
use crate::shepherd::claim::{self, Claimant, Verdict};

/// Shepherds tried for one job, as long as each died before the job's body began.
const ATTEMPTS_MAX: u32 = 3;
/// How long the end of a job may wait for the job-manager to store it before its status file is made durable.
const STATUS_SYNC_AFTER: Duration = Duration::from_secs(1);
/// Pause between two looks for processes of a lost job.
const ORPHAN_ROUND: Duration = Duration::from_millis(20);

/// What happens outside of the loop and comes back into it.
#[derive(Debug)]
pub(crate) enum Event {
    /// The lock of a job's claim is free: its foreign shepherd is gone.
    Unlocked(u64),
    /// Nothing of a lost job is left.
    Cleared(u64, Claimant),
}

#[derive(Debug)]
pub(super) enum Phase {
    /// Its shepherd is ours.
    Shepherd(Key),
    /// Its shepherd belonged to an earlier node process and is still there; or it is dead, and what it left is being killed (none).
    Foreign(Option<Foreign>),
    /// Its shepherd is dead, its processes are being killed.
    Clearing,
    /// It is over.
    Over,
}

#[derive(Debug)]
pub(super) struct Job {
    rank: u32,
    nnodes: u32,
    dir: PathBuf,
    pub(super) order: Vec<u8>,
    pub(super) phase: Phase,
    /// When it has to be over.
    pub(super) obey: Option<Obey>,
    /// Why we killed its shepherd.
    pub(super) put_down: Option<&'static str>,
    reattach: bool,
    attempts: u32,
    started: bool,
    exceptions: Vec<Exception>,
    ended: Option<Ended>,
}

impl Job {
    /// Whether its files say how it ended.
    pub(super) fn has_status(&self) -> bool {
        let verdict = claim::verdict(&self.dir, self.rank, self.nnodes);
        matches!(verdict, Ok(Verdict::Ended(_)))
    }
}

/// All jobs and all shepherds of this node.
#[derive(Debug)]
pub(crate) struct Jobs {
    pub(super) jobs: HashMap<u64, Job>,
    pub(super) children: HashMap<Key, Child>,
    pub(super) owners: HashMap<Key, u64>,
    /// When shepherds of an earlier node process are looked at.
    pub(super) foreign_at: Instant,
    spares: VecDeque<Key>,
    spares_wanted: usize,
    next_key: u64,
    heard: mpsc::Sender<(Key, Heard)>,
    events: mpsc::Sender<Event>,
    /// Ends that nobody is known to have stored, oldest first: their status is made durable at that time, again and again if it must be.
    /// They keep this process from ending.
    unsynced: VecDeque<(Instant, u64)>,
    /// A status could not be made durable, and that was said.
    sync_failed: bool,
    /// What the engine is to be told.
    pub(crate) out: Vec<FromNode>,
}

impl Jobs {
    pub(crate) fn new(
        spares: usize,
        heard: mpsc::Sender<(Key, Heard)>,
        events: mpsc::Sender<Event>,
    ) -> Jobs {
        Jobs {
            jobs: HashMap::new(),
            children: HashMap::new(),
            owners: HashMap::new(),
            foreign_at: Instant::now(),
            spares: VecDeque::new(),
            spares_wanted: spares,
            next_key: 0,
            heard,
            events,
            unsynced: VecDeque::new(),
            sync_failed: false,
            out: Vec::new(),
        }
    }

    /// Ids of all jobs known.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.jobs.keys().copied().collect()
    }

    /// Whether no job is left that is not over and on disk.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsynced.is_empty()
            && self
                .jobs
                .values()
                .all(|job| matches!(job.phase, Phase::Over))
    }

    /// Takes in a message of the engine.
    pub(crate) fn take(&mut self, message: ToNode) {
        match message {
            ToNode::Start {
                id,
                rank,
                nnodes,
                dir,
                reattach,
                order,
            } => {
                if self.jobs.contains_key(&id) {
                    return self.tell_all(id);
                }
                let job = Job {
                    rank,
                    nnodes,
                    dir: dir.into(),
                    order: order.get().as_bytes().to_vec(),
                    phase: Phase::Over,
                    obey: None,
                    put_down: None,
                    reattach,
                    attempts: 0,
                    started: false,
                    exceptions: Vec::new(),
                    ended: None,
                };
                self.jobs.insert(id, job);
                self.judge(id);
                self.must_end(id, None);
            }
            ToNode::Tell { id, what } => {
                let tag = if let ToShepherd::Stdin { tag, .. } = &what {
                    Some(*tag)
                } else {
                    None
                };
                let sent = match self.jobs.get(&id).map(|job| &job.phase) {
                    Some(Phase::Shepherd(key)) => self
                        .children
                        .get(key)
                        .is_some_and(|child| child.send(to_line(&what))),
                    _ => false,
                };
                if let (false, Some(tag)) = (sent, tag) {
                    let errnum = rustix::io::Errno::AGAIN.raw_os_error().unsigned_abs();
                    self.out.push(FromNode::Stdin { id, tag, errnum });
                }
                match what {
                    ToShepherd::Cancel {} => self.must_end(id, Some(Duration::ZERO)),
                    ToShepherd::Expiration { expiration } => self.set_expiration(id, expiration),
                    _ => {}
                }
            }
            ToNode::Forget { id } => {
                if self
                    .jobs
                    .get(&id)
                    .is_some_and(|job| matches!(job.phase, Phase::Over))
                {
                    self.jobs.remove(&id);
                }
            }
            ToNode::Engine { .. } | ToNode::Retire {} => {}
        }
    }

    /// Takes in what a shepherd says.
    pub(crate) fn hear(&mut self, key: Key, heard: Heard) {
        match heard {
            Heard::Hung => {
                if let Some(child) = self.children.get_mut(&key) {
                    child.hung = true;
                }
                self.check_gone(key);
            }
            Heard::Said(said) => {
                let Some(id) = self.owners.get(&key).copied() else {
                    return;
                };
                let Some(job) = self.jobs.get_mut(&id) else {
                    return;
                };
                match said {
                    FromShepherd::Started {} => {
                        job.started = true;
                        self.out.push(FromNode::Job {
                            id,
                            fact: Fact::Started,
                        });
                    }
                    FromShepherd::Exception(exception) => {
                        job.exceptions.push(exception.clone());
                        self.out.push(FromNode::Job {
                            id,
                            fact: Fact::Exception(exception),
                        });
                    }
                    FromShepherd::Ended(ended) => {
                        // Said without a word of the start when the job was very short.
                        job.started = true;
                        self.over(id, ended, true);
                        self.keep(key);
                    }
                    FromShepherd::Pong {} => self.answered(id),
                    FromShepherd::Leaving {} => {
                        if let Some(child) = self.children.get_mut(&key) {
                            child.leaving = true;
                        }
                    }
                    FromShepherd::NotBegun { exceptions } => {
                        let ended = Ended {
                            status: None,
                            exceptions,
                        };
                        self.over(id, ended, false);
                        self.keep(key);
                    }
                    FromShepherd::Stdin { tag, errnum } => {
                        self.out.push(FromNode::Stdin { id, tag, errnum })
                    }
                    FromShepherd::Refused { note } => {
                        // Its death is what counts: then the files are looked at again.
                        warn!(job = id, note, "a shepherd could not claim its job");
                        job.exceptions.retain(|old| old.kind != "exec");
                        job.exceptions.push(Exception::fatal(
                            "exec",
                            format!("failed to claim the job: {note}"),
                        ));
                    }
                }
            }
        }
    }

    /// Reaps whoever has exited.
    pub(crate) fn reap(&mut self) {
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            let pid = pid.as_raw_nonzero().get();
            if status.stopped() {
                self.stopped(pid);
                continue;
            }
            let key = self
                .children
                .values()
                .find(|child| child.pid == pid && !child.exited)
                .map(|child| child.key);
            if let Some(key) = key {
                if let Some(child) = self.children.get_mut(&key) {
                    child.exited = true;
                }
                self.check_gone(key);
            }
        }
        self.clear();
    }

    fn check_gone(&mut self, key: Key) {
        if !self.children.get(&key).is_some_and(Child::is_gone) {
            return;
        }
        self.children.remove(&key);
        self.spares.retain(|spare| *spare != key);
        let Some(id) = self.owners.remove(&key) else {
            return;
        };
        if let Some(job) = self.jobs.get_mut(&id)
            && matches!(job.phase, Phase::Shepherd(own) if own == key)
        {
            job.phase = Phase::Clearing;
            self.clear();
        }
    }

    /// Kills what dead shepherds left behind; once nothing is left, finds out what became of their jobs.
    fn clear(&mut self) {
        let clearing: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| matches!(job.phase, Phase::Clearing))
            .map(|(id, _)| *id)
            .collect();
        if clearing.is_empty() {
            return;
        }
        let children = &self.children;
        if orphans::kill_strays(|pid| {
            children
                .values()
                .any(|child| child.pid == pid && !child.exited)
        }) {
            for id in clearing {
                self.judge(id);
            }
        }
    }

    /// Looks at a job's files and does what they call for.
    pub(super) fn judge(&mut self, id: u64) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let verdict = claim::verdict(&job.dir, job.rank, job.nnodes);
        match verdict {
            Ok(Verdict::Free) if job.reattach => {
                let note = "lost: it may have run, its files are gone from the state directory, and it is not run again".to_owned();
                self.lost(id, note);
            }
            Ok(Verdict::Free) if job.put_down.is_some() => {
                let note = format!("not begun: {}", job.put_down.unwrap_or_default());
                let exceptions = vec![Exception::fatal("exec", note)];
                let ended = Ended {
                    status: None,
                    exceptions,
                };
                self.over(id, ended, false);
            }
            Ok(Verdict::Free) if job.attempts >= ATTEMPTS_MAX => {
                let mut exceptions = job.exceptions.clone();
                if exceptions.is_empty() {
                    let note = format!("{ATTEMPTS_MAX} shepherds died before the job began");
                    exceptions.push(Exception::fatal("exec", note));
                }
                self.over(
                    id,
                    Ended {
                        status: None,
                        exceptions,
                    },
                    false,
                );
            }
            Ok(Verdict::Free) => {
                job.attempts += 1;
                self.begin(id);
            }
            Ok(Verdict::Held(file, claimant)) => {
                job.phase = Phase::Foreign(Some(Foreign::new(claimant)));
                info!(job = id, "its shepherd is from before: waiting for its end");
                self.wait_for_lock(id, file);
            }
            Ok(Verdict::Lost(claimant)) => {
                job.phase = Phase::Foreign(None);
                job.started = true;
                self.clear_lost(id, claimant);
            }
            Ok(Verdict::Ended(ended)) => {
                job.started = true;
                self.over(id, ended, true);
            }
            Err(error) => {
                let note = format!(
                    "failed to read the job's claim in {}: {error}",
                    job.dir.display()
                );
                self.over(
                    id,
                    Ended {
                        status: None,
                        exceptions: vec![Exception::fatal("exec", note)],
                    },
                    false,
                );
            }
        }
    }

    /// Gives a job to a spare.
    fn begin(&mut self, id: u64) {
        if self.spares.is_empty() {
            self.add_spare();
        }
        let (Some(key), Some(job)) = (self.spares.pop_front(), self.jobs.get_mut(&id)) else {
            let exceptions = vec![Exception::fatal("exec", "failed to start a shepherd")];
            return self.over(
                id,
                Ended {
                    status: None,
                    exceptions,
                },
                false,
            );
        };
        job.phase = Phase::Shepherd(key);
        self.owners.insert(key, id);
        let mut line = job.order.clone();
        line.push(b'\n');
        if let Some(child) = self.children.get(&key) {
            // If it is dead already, its exit says so.
            child.send(line);
        }
    }

    /// A shepherd has done its job: it may get another, or is let go of.
    fn keep(&mut self, key: Key) {
        self.owners.remove(&key);
        if self.children.get(&key).is_some_and(|child| child.leaving) {
            self.children.remove(&key);
            return;
        }
        // More than are kept ready, or each job would cost one that is let go of and one that is started.
        if self.spares.len() < 2 * self.spares_wanted {
            self.spares.push_front(key);
        } else {
            self.children.remove(&key);
        }
    }

    /// Whether a spare is missing.
    pub(crate) fn refill_wanted(&self) -> bool {
        self.spares.len() < self.spares_wanted
    }

    /// Whether no job has processes any more.
    pub(crate) fn all_over(&self) -> bool {
        self.jobs
            .values()
            .all(|job| matches!(job.phase, Phase::Over))
    }

    /// Starts a spare if one is missing. Not on the way of a job: called when there is nothing better to do.
    pub(crate) fn refill(&mut self) -> bool {
        self.refill_wanted() && self.add_spare()
    }

    fn add_spare(&mut self) -> bool {
        self.next_key += 1;
        let key = Key(self.next_key);
        match Child::spawn(key, self.heard.clone()) {
            Ok(child) => {
                self.children.insert(key, child);
                self.spares.push_back(key);
                true
            }
            Err(error) => {
                warn!(%error, "failed to start a shepherd");
                false
            }
        }
    }

    #[cfg(test)]
    pub(super) fn add_spare_for_tests(&mut self, child: Child) {
        self.spares.push_back(child.key);
        self.children.insert(child.key, child);
    }

    fn wait_for_lock(&mut self, id: u64, file: File) {
        let events = self.events.clone();
        // A thread: this may take as long as the job, which nothing of the runtime must.
        let wait = move || {
            while rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
                == Err(rustix::io::Errno::INTR)
            {}
            drop(file);
            let _ = events.blocking_send(Event::Unlocked(id));
        };
        if let Err(error) = std::thread::Builder::new().stack_size(64 << 10).spawn(wait) {
            let note = format!("failed to wait for the shepherd that has the job: {error}");
            self.over(
                id,
                Ended {
                    status: None,
                    exceptions: vec![Exception::fatal("exec", note)],
                },
                false,
            );
        }
    }

    fn clear_lost(&mut self, id: u64, claimant: Claimant) {
        #[derive(Deserialize)]
        struct HasUri {
            uri: String,
        }
        let order = self
            .jobs
            .get(&id)
            .map(|job| job.order.clone())
            .unwrap_or_default();
        let uri = serde_json::from_slice::<HasUri>(&order)
            .map(|order| order.uri)
            .unwrap_or_default();
        let events = self.events.clone();
        tokio::spawn(async move {
            while !orphans::kill_left_behind(&claimant, job::JobId(id), &uri) {
                tokio::time::sleep(ORPHAN_ROUND).await;
            }
            let _ = events.send(Event::Cleared(id, claimant)).await;
        });
    }

    /// Takes in what happened elsewhere.
    pub(crate) fn happened(&mut self, event: Event) {
        match event {
            Event::Unlocked(id) => {
                let job = self.jobs.get(&id);
                if job.is_some_and(|job| matches!(job.phase, Phase::Foreign(_))) {
                    self.judge(id);
                }
            }
            Event::Cleared(id, claimant) => {
                let put_down = self.jobs.get(&id).and_then(|job| job.put_down);
                let why = match put_down {
                    Some(why) => why,
                    None if claimant.is_copied() => {
                        "the state directory is a copy, and the job is the business of the instance it was copied from"
                    }
                    None if claimant.boot == crate::proc::boot_id() => {
                        "the process that looked after it was killed"
                    }
                    None => "the machine was restarted while it ran",
                };
                self.lost(
                    id,
                    format!("lost: {why}; it may have run in part and is not run again"),
                );
            }
        }
    }

    fn lost(&mut self, id: u64, note: String) {
        let mut exceptions = self
            .jobs
            .get(&id)
            .map(|job| job.exceptions.clone())
            .unwrap_or_default();
        exceptions.push(Exception::fatal("exec", note));
        self.over(
            id,
            Ended {
                status: None,
                exceptions,
            },
            false,
        );
    }

    fn over(&mut self, id: u64, ended: Ended, has_status_file: bool) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.phase = Phase::Over;
        job.order = Vec::new();
        job.obey = None;
        job.ended = Some(ended.clone());
        if has_status_file {
            self.unsynced
                .push_back((Instant::now() + STATUS_SYNC_AFTER, id));
        }
        if job.started {
            self.out.push(FromNode::Job {
                id,
                fact: Fact::Started,
            });
        }
        self.out.push(FromNode::Job {
            id,
            fact: Fact::Ended(ended),
        });
    }

    /// Tells all that is known of a job.
    fn tell_all(&mut self, id: u64) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let mut facts = Vec::new();
        if job.started {
            facts.push(Fact::Started);
        }
        facts.extend(job.exceptions.iter().cloned().map(Fact::Exception));
        facts.extend(job.ended.clone().map(Fact::Ended));
        self.out
            .extend(facts.into_iter().map(|fact| FromNode::Job { id, fact }));
    }

    /// When the next status file is due.
    pub(crate) fn sync_at(&self) -> Option<Instant> {
        self.unsynced.front().map(|(at, _)| *at)
    }

    /// Makes status files durable whose job-manager has not said that it has them. What cannot be is tried again.
    pub(crate) fn sync_due(&mut self, now: Instant) {
        for _ in 0..self.unsynced.len() {
            let Some((at, id)) = self.unsynced.front().copied() else {
                return;
            };
            let job = self.jobs.get(&id);
            if job.is_some() && at > now {
                return;
            }
            self.unsynced.pop_front();
            let Some((job, ended)) = job.and_then(|job| Some((job, job.ended.as_ref()?))) else {
                continue;
            };
            match claim::sync_status(&job.dir, job.rank, job.nnodes, ended) {
                Ok(()) => self.sync_failed = false,
                // The job's directory is gone: whoever removed it has no use for the status.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    if !std::mem::replace(&mut self.sync_failed, true) {
                        warn!(job = id, %error, "failed to make a job's status durable; trying again");
                    }
                    self.unsynced.push_back((now + STATUS_SYNC_AFTER, id));
                }
            }
        }
    }

    /// Makes all status files durable that can be.
    pub(crate) fn sync_now(&mut self) {
        for (at, _) in &mut self.unsynced {
            *at = Instant::now();
        }
        self.sync_due(Instant::now());
    }

    /// Ends every job at once.
    pub(crate) fn die(&mut self) {
        self.spares_wanted = 0;
        // One that is stopped would not notice that it is not needed.
        self.wake_all();
        for key in std::mem::take(&mut self.spares) {
            self.children.remove(&key);
        }
        for child in self.children.values() {
            child.send(to_line(&ToShepherd::Die {}));
        }
    }

    /// An engine is there (again): so many spares are kept.
    pub(crate) fn keep_spares(&mut self, wanted: usize) {
        self.spares_wanted = wanted;
    }

    /// Lets the spares go.
    pub(crate) fn drop_spares(&mut self) {
        self.spares_wanted = 0;
        self.wake_all();
        for key in std::mem::take(&mut self.spares) {
            self.children.remove(&key);
        }
    }
}
