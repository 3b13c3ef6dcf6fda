//! What is true: the history of the store's log, read entry by entry as it is committed, and a fold of it.
//!
//! It is kept beside the store, so it goes on where the log is trimmed and jobs are purged. Everything that anybody is shown is held against
//! it. The fold uses `job`'s transition function, and nothing of `manager` or `info`.

use std::collections::{BTreeMap, BTreeSet};

use job::{Entry, Event, Job, JobId, Resources, Seq, Source, State};
use serde_json::Value;
use sim_io::model::Model;

use crate::violation::{Promise, Violation};

/// The history of one epoch.
#[derive(Debug, Default)]
pub struct Truth {
    /// Of which store.
    pub epoch: String,
    /// Entry `n` has seq `n + 1`.
    pub history: Vec<Entry>,
    /// The seq of the purge entry that named a job.
    pub purged: BTreeMap<JobId, Seq>,
    /// The jobs that are there, as their events make them.
    pub jobs: BTreeMap<JobId, Job>,
    /// The nodes, as the resource log makes them.
    pub resources: Resources,
    /// Jobs whose rows cannot be read any more.
    pub aside: BTreeSet<JobId>,
    /// All floors that the log ever had.
    pub floors: BTreeSet<Seq>,
    /// Where each job's entries are in the history.
    pub of_job: BTreeMap<JobId, Vec<usize>>,
}

impl Truth {
    /// The truth of a new store.
    #[must_use]
    pub fn new(epoch: String) -> Truth {
        Truth {
            epoch,
            floors: BTreeSet::from([Seq(0)]),
            ..Truth::default()
        }
    }

    /// The newest seq that is stored.
    #[must_use]
    pub fn newest(&self) -> Seq {
        Seq(self.history.len() as u64)
    }

    /// The entry of that seq.
    #[must_use]
    pub fn entry(&self, seq: Seq) -> Option<&Entry> {
        let at = usize::try_from(seq.0.checked_sub(1)?).ok()?;
        self.history.get(at)
    }

    /// Takes in what was committed since.
    /// # Errors
    /// The log does not go on where it was, or an entry does not fit its job.
    pub fn catch_up(&mut self, model: &Model) -> Result<(), Violation> {
        let newest = self.newest();
        self.floors.insert(model.floor);
        if model.newest() == newest {
            return Ok(());
        }
        for seq in newest.0 + 1..=model.newest().0 {
            let Some(entry) = model.entry(Seq(seq)) else {
                let what = format!("the log has no entry {seq}");
                return Err(Violation::of(Promise::Durable, what));
            };
            self.take(entry)?;
        }
        Ok(())
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Violation> {
        let broken = |what: String| Err(Violation::of(Promise::Ordered, what));
        let event = match Event::parse(entry.json()) {
            Ok(event) => event,
            Err(error) => return broken(format!("entry {} cannot be read: {error}", entry.seq)),
        };
        let at = self.history.len();
        match entry.source {
            Source::Job(id) => {
                let log = self.of_job.entry(id).or_default();
                log.push(at);
                if entry.eventlog_seq as usize != log.len() {
                    return broken(format!(
                        "entry {} of job {id} is number {} of its eventlog, expected {}",
                        entry.seq,
                        entry.eventlog_seq,
                        log.len()
                    ));
                }
                let applied = match self.jobs.get_mut(&id) {
                    Some(job) => job.apply_at(&event, entry.seq).map(|_| ()),
                    None => Job::new(id, &event).map(|job| {
                        self.jobs.insert(id, job);
                    }),
                };
                if let Err(error) = applied {
                    return broken(format!(
                        "entry {} of job {id} does not fit: {error}",
                        entry.seq
                    ));
                }
            }
            Source::System if entry.name.as_str() == info::projection::PURGE_EVENT => {
                for id in purged(entry) {
                    self.purged.insert(id, entry.seq);
                    self.jobs.remove(&id);
                    self.aside.remove(&id);
                }
            }
            Source::Resource => {
                if let Err(error) = self.resources.apply(entry.seq, &event) {
                    return broken(format!("entry {} does not fit: {error}", entry.seq));
                }
            }
            Source::System => {}
        }
        self.history.push(entry.clone());
        Ok(())
    }

    /// Whether a job may be left out of what is handed out: it is purged, or cannot be read.
    #[must_use]
    pub fn may_lack(&self, id: JobId) -> bool {
        self.purged.contains_key(&id) || self.aside.contains(&id)
    }

    /// Whether an entry may be left out of what is handed out.
    #[must_use]
    pub fn is_excused(&self, entry: &Entry) -> bool {
        match entry.source {
            Source::Job(id) => self.may_lack(id),
            Source::Resource | Source::System => false,
        }
    }

    /// Whether a job cannot be read.
    #[must_use]
    pub fn is_aside(&self, entry: &Entry) -> bool {
        matches!(entry.source, Source::Job(id) if self.aside.contains(&id))
    }

    /// Whether the queue takes jobs, and gives them to the engine.
    #[must_use]
    pub fn queue(&self) -> (bool, bool) {
        let last = |on: &str, off: &str| {
            let newest = self.history.iter().rev().find(|entry| {
                entry.source == Source::System && [on, off].contains(&entry.name.as_str())
            });
            newest.is_none_or(|entry| entry.name.as_str() == on)
        };
        (
            last("queue-enable", "queue-disable"),
            last("queue-start", "queue-stop"),
        )
    }

    /// Whether a job was active right after `at`.
    #[must_use]
    pub fn was_active(&self, id: JobId, at: Seq) -> bool {
        let Some(log) = self.of_job.get(&id) else {
            return false;
        };
        let upto = log
            .iter()
            .filter_map(|at| self.history.get(*at))
            .take_while(|entry| entry.seq <= at);
        let mut job: Option<Job> = None;
        for entry in upto {
            let Ok(event) = Event::parse(entry.json()) else {
                continue;
            };
            match &mut job {
                Some(job) => drop(job.apply_at(&event, entry.seq)),
                None => job = Job::new(id, &event).ok(),
            }
        }
        job.is_some_and(|job| job.state != State::Inactive)
    }

    /// The newest event of that name of a job at or before `at`.
    #[must_use]
    pub fn last_of(&self, id: JobId, names: &[&str], at: Seq) -> Option<&Entry> {
        let log = self.of_job.get(&id)?;
        log.iter()
            .rev()
            .filter_map(|place| self.history.get(*place))
            .find(|entry| entry.seq <= at && names.contains(&entry.name.as_str()))
    }
}

/// The jobs as they were at an earlier seq.
#[derive(Debug, Default)]
pub struct Fold {
    epoch: String,
    at: Seq,
    /// The jobs.
    pub jobs: BTreeMap<JobId, Job>,
}

impl Fold {
    /// Goes on, or begins anew, up to `to`.
    pub fn go_to(&mut self, to: Seq, truth: &Truth) {
        if self.epoch != truth.epoch || to < self.at {
            *self = Fold {
                epoch: truth.epoch.clone(),
                ..Fold::default()
            };
        }
        while self.at < to
            && let Some(entry) = truth.entry(self.at.next())
        {
            self.at = entry.seq;
            match entry.source {
                Source::Job(id) => {
                    let Ok(event) = Event::parse(entry.json()) else {
                        continue;
                    };
                    match self.jobs.get_mut(&id) {
                        Some(job) => drop(job.apply_at(&event, entry.seq)),
                        None => {
                            self.jobs
                                .extend(Job::new(id, &event).ok().map(|job| (id, job)));
                        }
                    }
                }
                Source::System if entry.name.as_str() == info::projection::PURGE_EVENT => {
                    for id in purged(entry) {
                        self.jobs.remove(&id);
                    }
                }
                Source::System | Source::Resource => {}
            }
        }
    }
}

/// The jobs a purge entry names.
#[must_use]
pub fn purged(entry: &Entry) -> Vec<JobId> {
    let value: Value = serde_json::from_slice(entry.json()).unwrap_or_default();
    let jobs = value
        .get("context")
        .and_then(|context| context.get("jobs"))
        .and_then(Value::as_array);
    jobs.into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .map(JobId)
        .collect()
}

/// A key of an entry's context.
#[must_use]
pub fn context(entry: &Entry, key: &str) -> Option<Value> {
    let value: Value = serde_json::from_slice(entry.json()).ok()?;
    value.get("context")?.get(key).cloned()
}
