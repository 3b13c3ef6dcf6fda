//! Shepherds that are stopped, or do not do what they are told: continued, asked, and in the end killed with what is below them.
//!
//! ```text
//!  stopped ─ 0.5 s ─▶ continued … the sixth time within 10 s ─▶ killed
//!  told to end, or its limit passed ─ grace, 15 s ─▶ asked ─┬ answers: asked again later ─┐
//!                                                    ▲      └ 10 s of silence ─▶ killed    │
//!                                                    └─────────────────────────────────────┘
//! ```
//! A job runs as the same user as its shepherd, so it can stop and kill it; that must cost nobody else anything. One that answers is let be however
//! long it takes: it waits for a process that the kernel does not let go of, and killing it would only lose the status.
//!
//! A shepherd of an earlier node process is no child of ours: it is looked at every second. It ends by itself when it runs, for its node is
//! gone.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tracing::{info, warn};

use crate::messages::{ToShepherd, to_line};
use crate::node::child::Key;
use crate::node::jobs::{Jobs, Phase};
use crate::proc;
use crate::shepherd::claim::Claimant;

/// How long a stopped shepherd is left alone.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// So often within [`STOPS_WINDOW`] a shepherd is continued.
const STOPS_MAX: usize = 5;
/// See [`STOPS_MAX`].
const STOPS_WINDOW: Duration = Duration::from_secs(10);
/// How long after SIGKILL is due a shepherd may take to report the end of its job before it is asked whether it is well.
const OBEY_SLACK: Duration = Duration::from_secs(15);
/// How long it may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks at shepherds of an earlier node process.
const FOREIGN_ROUND: Duration = Duration::from_secs(1);
/// So often such a one is continued.
const FOREIGN_STOPS_MAX: u32 = 10;

/// Why a shepherd was killed: it continues "lost: …".
const STOPPED: &str =
    "the process that looked after it was stopped again and again, and then killed";
/// Likewise.
const DEAF: &str =
    "the process that looked after it did not answer when the job had to end, and was killed";

/// Where a job is that has to end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Obey {
    /// It should be over by then.
    By(Instant),
    /// Its shepherd was asked, and should have answered by then.
    Asked(Instant),
}

impl Obey {
    fn at(self) -> Instant {
        match self {
            Obey::By(at) | Obey::Asked(at) => at,
        }
    }
}

/// A shepherd of an earlier node process.
#[derive(Debug)]
pub(super) struct Foreign {
    claimant: Claimant,
    stops: u32,
}

impl Foreign {
    pub(super) fn new(claimant: Claimant) -> Foreign {
        Foreign { claimant, stops: 0 }
    }

    /// Its process, if it is certain that it is.
    fn stat(&self) -> Option<proc::Stat> {
        let is_of_now = self.claimant.boot == proc::boot_id() && !self.claimant.is_copied();
        let stat = proc::stat(self.claimant.pid).filter(|_| is_of_now)?;
        (stat.start == self.claimant.start).then_some(stat)
    }
}

/// What the order says of the end of a job.
#[derive(Deserialize)]
struct Ends {
    expiration: f64,
    kill_grace_s: f64,
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills a process and what is below it. What escapes falls to its next subreaper.
fn kill_tree(pid: i32) {
    for below in proc::descendants(pid) {
        send(below, Signal::KILL);
    }
    send(pid, Signal::KILL);
}

fn is_stopped(stat: Option<proc::Stat>) -> bool {
    stat.is_some_and(|stat| stat.state == b'T')
}

impl Jobs {
    /// A child was stopped by a signal.
    pub(super) fn stopped(&mut self, pid: i32) {
        let found = self.children.values_mut().find(|child| child.pid == pid);
        if let Some(child) = found {
            child.go_on_at.get_or_insert(Instant::now() + STOP_PATIENCE);
        }
    }

    /// A job has to be over when this limit and its grace are.
    pub(super) fn must_end(&mut self, id: u64, after: Option<Duration>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Ok(ends) = serde_json::from_slice::<Ends>(&job.order) else {
            return;
        };
        let left = after.or_else(|| {
            let left = ends.expiration - crate::shepherd::now_s();
            (ends.expiration > 0.0).then(|| duration(left))
        });
        let Some(left) = left else { return };
        let wait = left
            .saturating_add(duration(ends.kill_grace_s))
            .saturating_add(OBEY_SLACK);
        // What the clock cannot hold does not come.
        let Some(at) = Instant::now().checked_add(wait) else {
            return;
        };
        if job.obey.is_none_or(|obey| at < obey.at()) {
            job.obey = Some(Obey::By(at));
        }
    }

    /// Its time limit is another.
    pub(super) fn set_expiration(&mut self, id: u64, expiration: f64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.obey = None;
        }
        if expiration > 0.0 {
            let left = duration(expiration - crate::shepherd::now_s());
            self.must_end(id, Some(left));
        }
    }

    /// A shepherd said that it is well.
    pub(super) fn answered(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id)
            && job.obey.is_some()
        {
            job.obey = Some(Obey::By(Instant::now() + OBEY_SLACK));
        }
    }

    /// When there is something to be looked at.
    pub(crate) fn watch_at(&self) -> Option<Instant> {
        let stopped = self.children.values().filter_map(|child| child.go_on_at);
        let obey = self.jobs.values().filter_map(|job| job.obey.map(Obey::at));
        let foreign = self
            .jobs
            .values()
            .any(|job| matches!(job.phase, Phase::Foreign(_)));
        let foreign = foreign.then_some(self.foreign_at);
        stopped.chain(obey).chain(foreign).min()
    }

    /// Looks at those it is time for.
    pub(crate) fn watch(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let children = self.children.values().filter(|child| due(child.go_on_at));
        for key in children.map(|child| child.key).collect::<Vec<_>>() {
            self.go_on(key, now);
        }
        let jobs = self.jobs.iter();
        let jobs = jobs.filter(|(_, job)| due(job.obey.map(Obey::at)));
        for id in jobs.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.urge(id, now);
        }
        if self.foreign_at <= now {
            self.foreign_at = now + FOREIGN_ROUND;
            self.watch_foreign();
        }
    }

    fn go_on(&mut self, key: Key, now: Instant) {
        let owner = self.owners.get(&key).copied();
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        child.go_on_at = None;
        if !is_stopped(proc::stat(child.pid)) {
            return;
        }
        child
            .stops
            .retain(|at| now.duration_since(*at) < STOPS_WINDOW);
        if child.stops.len() < STOPS_MAX {
            info!(pid = child.pid, "a shepherd was stopped: continued");
            child.stops.push(now);
            child.go_on_at = Some(now + STOP_PATIENCE);
            return send(child.pid, Signal::CONT);
        }
        match owner {
            Some(id) => self.put_down(id, STOPPED),
            None => send(child.pid, Signal::KILL),
        }
    }

    fn urge(&mut self, id: u64, now: Instant) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        match (&job.phase, job.obey) {
            (Phase::Shepherd(key), Some(Obey::By(_))) => {
                job.obey = Some(Obey::Asked(now + ANSWER_WAIT));
                if let Some(child) = self.children.get(key) {
                    child.send(to_line(&ToShepherd::Ping {}));
                }
            }
            (Phase::Shepherd(_), Some(Obey::Asked(_))) => {
                job.obey = None;
                self.put_down(id, DEAF);
            }
            _ => job.obey = None,
        }
    }

    fn watch_foreign(&mut self) {
        let (mut hopeless, mut ended) = (Vec::new(), Vec::new());
        for (id, job) in &mut self.jobs {
            if matches!(job.phase, Phase::Foreign(Some(_))) && job.has_status() {
                ended.push(*id);
                continue;
            }
            if let Phase::Foreign(Some(foreign)) = &mut job.phase
                && is_stopped(foreign.stat())
            {
                foreign.stops += 1;
                if foreign.stops > FOREIGN_STOPS_MAX {
                    hopeless.push(*id);
                } else {
                    send(foreign.claimant.pid, Signal::CONT);
                }
            }
        }
        for id in hopeless {
            self.put_down(id, STOPPED);
        }
        // Whatever its shepherd is held up with after that.
        for id in ended {
            self.judge(id);
        }
    }

    /// Kills the shepherd of a job and what is below it. What becomes of the job, its files say when nothing is left.
    pub(super) fn put_down(&mut self, id: u64, why: &'static str) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let pid = match &job.phase {
            Phase::Shepherd(key) => self.children.get(key).map(|child| child.pid),
            Phase::Foreign(Some(foreign)) => foreign.stat().map(|stat| stat.pid),
            _ => None,
        };
        if let Some(pid) = pid {
            warn!(job = id, pid, "killing its shepherd: {why}");
            job.put_down = Some(why);
            kill_tree(pid);
        }
    }

    /// Continues all shepherds, so that they notice what is to be noticed.
    pub(super) fn wake_all(&self) {
        for child in self.children.values() {
            send(child.pid, Signal::CONT);
        }
    }

    /// All jobs must be over now.
    pub(crate) fn put_all_down(&mut self) {
        for id in self.ids() {
            self.put_down(id, DEAF);
        }
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{FromShepherd, ToNode};
    use crate::node::child::{Child, Heard};
    use tokio::sync::mpsc;

    fn start(dir: &std::path::Path, expiration: f64) -> ToNode {
        let order =
            format!("{{\"expiration\":{expiration},\"kill_grace_s\":1.0,\"uri\":\"local:///x\"}}");
        ToNode::Start {
            id: 1,
            rank: 0,
            nnodes: 1,
            dir: dir.display().to_string(),
            reattach: false,
            order: serde_json::value::RawValue::from_string(order).unwrap(),
        }
    }

    #[tokio::test]
    async fn a_shepherd_that_is_deaf_when_its_job_must_end_is_killed_and_one_that_answers_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (heard, _heard) = mpsc::channel(8);
        let (events, _events) = mpsc::channel(8);
        let mut jobs = Jobs::new(0, heard, events);
        let mut sleep = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let key = Key(7);
        let (child, mut told) = Child::fake(key, i32::try_from(sleep.id()).unwrap());
        jobs.add_spare_for_tests(child);
        jobs.take(start(dir.path(), 0.0));
        assert!(told.try_recv().is_ok(), "its order");
        assert!(jobs.watch_at().is_none(), "no limit, nobody told it to end");
        jobs.take(ToNode::Tell {
            id: 1,
            what: ToShepherd::Cancel {},
        });
        assert!(told.try_recv().is_ok());
        let grace = Duration::from_secs(1);
        let at = jobs.watch_at().unwrap();
        assert!(at > Instant::now() + grace + OBEY_SLACK - Duration::from_secs(1));
        jobs.watch(at);
        assert_eq!(told.try_recv().unwrap(), to_line(&ToShepherd::Ping {}));
        // It is well, and waits for somebody the kernel does not let go of.
        jobs.hear(key, Heard::Said(FromShepherd::Pong {}));
        let at = jobs.watch_at().unwrap();
        jobs.watch(at);
        assert_eq!(told.try_recv().unwrap(), to_line(&ToShepherd::Ping {}));
        assert!(sleep.try_wait().unwrap().is_none());
        let at = jobs.watch_at().unwrap();
        jobs.watch(at);
        sleep.wait().unwrap();
        assert!(jobs.watch_at().is_none());
    }

    #[tokio::test]
    async fn a_time_limit_is_watched_over_and_can_be_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (heard, _heard) = mpsc::channel(8);
        let (events, _events) = mpsc::channel(8);
        let mut jobs = Jobs::new(0, heard, events);
        let (child, _told) = Child::fake(Key(7), 0);
        jobs.add_spare_for_tests(child);
        jobs.take(start(dir.path(), crate::shepherd::now_s() + 100.0));
        let change = |expiration: f64| ToNode::Tell {
            id: 1,
            what: ToShepherd::Expiration { expiration },
        };
        let left = |jobs: &Jobs| {
            let at = jobs.watch_at()?;
            Some(at.saturating_duration_since(Instant::now()).as_secs())
        };
        assert!((114..=116).contains(&left(&jobs).unwrap()));
        jobs.take(change(crate::shepherd::now_s() + 1000.0));
        assert!((1014..=1016).contains(&left(&jobs).unwrap()));
        jobs.take(change(0.0));
        assert_eq!(left(&jobs), None);
        jobs.take(change(1e300));
        assert_eq!(left(&jobs), None);
    }
}
