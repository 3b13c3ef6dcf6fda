//! One job as a listing shows it: the job itself, what its jobspec says, what its R says.
//!
//! What many jobs have in common is held once: [`Spec`] is shared by all jobs whose jobspecs say the same. A pending job
//! costs the job, a pointer to its spec and a null.

use std::sync::Arc;

use job::{Event, EventKind, Job, JobId, MaybeTimestamp, State, StateSet};
use serde_json::Value;

use crate::{
    constraint::TimeField,
    place::{PendingKey, Place, TimedKey},
    slots::Slot,
};

/// What a listing needs of a jobspec. Absent is absent: nothing is filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spec {
    /// `attributes.system.job.name`, or the last part of the command's path.
    pub name: Option<Arc<str>>,
    /// Working directory.
    pub cwd: Option<Arc<str>>,
    /// Queue.
    pub queue: Option<Arc<str>>,
    /// Project.
    pub project: Option<Arc<str>>,
    /// Bank.
    pub bank: Option<Arc<str>>,
    /// Tasks.
    pub ntasks: Option<u32>,
    /// Cores; unknown while whole nodes are asked for.
    pub ncores: Option<u32>,
    /// Nodes, if it names a number of them.
    pub nnodes: Option<u32>,
    /// Time limit in seconds, as bits, so that specs can be compared and hashed. See [`Spec::duration`].
    pub(crate) duration_bits: Option<u64>,
}

impl Eq for Spec {}

impl std::hash::Hash for Spec {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (
            &self.name,
            &self.cwd,
            &self.queue,
            &self.project,
            &self.bank,
        )
            .hash(state);
        (self.ntasks, self.ncores, self.nnodes, self.duration_bits).hash(state);
    }
}

impl Spec {
    /// Time limit in seconds; 0 is none.
    #[must_use]
    pub fn duration(&self) -> Option<f64> {
        self.duration_bits.map(f64::from_bits)
    }

    /// This spec after one `jobspec-update`, whose keys are dotted paths; `None` when nothing a listing shows changed.
    #[must_use]
    pub fn updated(&self, updates: &job::Map) -> Option<Self> {
        let mut spec = self.clone();
        for (path, value) in updates {
            let text = || value.as_str().map(Into::into);
            match path.as_str() {
                "attributes.system.duration" => {
                    spec.duration_bits = value.as_f64().map(f64::to_bits)
                }
                "attributes.system.job.name" => spec.name = text(),
                "attributes.system.cwd" => spec.cwd = text(),
                "attributes.system.queue" => spec.queue = text(),
                "attributes.system.project" => spec.project = text(),
                "attributes.system.bank" => spec.bank = text(),
                // Whole subtrees may be replaced, too.
                "attributes.system" => spec.update_system(value),
                _ => {}
            }
        }
        (spec != *self).then_some(spec)
    }

    fn update_system(&mut self, system: &Value) {
        let text = |key: &str| system.get(key).and_then(Value::as_str).map(Into::into);
        self.duration_bits = system
            .get("duration")
            .and_then(Value::as_f64)
            .map(f64::to_bits)
            .or(self.duration_bits);
        self.queue = text("queue").or_else(|| self.queue.take());
        self.project = text("project").or_else(|| self.project.take());
        self.bank = text("bank").or_else(|| self.bank.take());
        self.cwd = text("cwd").or_else(|| self.cwd.take());
    }
}

/// What a listing needs of an R.
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Ranks, as an idset with brackets where there is more than one.
    pub ranks: Box<str>,
    /// Hosts, compressed.
    pub nodelist: Box<str>,
    /// Cores.
    pub ncores: u32,
    /// Nodes.
    pub nnodes: u32,
    /// End, seconds since 1970; 0 is none.
    pub expiration: f64,
}

/// One job as a listing shows it.
#[derive(Debug, Clone)]
pub struct Record {
    job: Job,
    pub(crate) spec: Arc<Spec>,
    pub(crate) allocation: Option<Box<Allocation>>,
    /// The last entry of the job's eventlog that was seen.
    pub(crate) seen: u32,
    /// Whether this batch changed it.
    pub(crate) touched: bool,
}

impl Record {
    pub(crate) fn new(job: Job, spec: Arc<Spec>, seen: u32) -> Self {
        Self {
            job,
            spec,
            allocation: None,
            seen,
            touched: false,
        }
    }

    pub(crate) fn apply(&mut self, event: &Event) -> Result<job::Change, job::Invalid> {
        job::transition::apply(&mut self.job, event)
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// What its jobspec says.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What its R says, once it has entered RUN.
    #[must_use]
    pub fn allocation(&self) -> Option<&Allocation> {
        if self.job.t_run.is_some() {
            self.allocation.as_deref()
        } else {
            None
        }
    }

    /// The job's id.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// The end of its allocation; 0 is none. A `resource-update` overrides R.
    #[must_use]
    pub fn expiration(&self) -> Option<f64> {
        if self.job.t_run.is_none() {
            return None;
        }
        let of_r = || {
            self.allocation
                .as_ref()
                .map_or(0.0, |allocation| allocation.expiration)
        };
        Some(self.job.expiration.get().map_or_else(of_r, |time| time.0))
    }

    fn maybe(&self, field: TimeField) -> MaybeTimestamp {
        match field {
            TimeField::Submit => self.job.t_submit.into(),
            TimeField::Depend => self.job.t_depend,
            TimeField::Priority => self.job.t_priority,
            TimeField::Sched => self.job.t_sched,
            TimeField::Run => self.job.t_run,
            TimeField::Cleanup => self.job.t_cleanup,
            TimeField::Inactive => self.job.t_inactive,
        }
    }

    /// One of its times, if it has come.
    #[must_use]
    pub fn time(&self, field: TimeField) -> Option<f64> {
        self.maybe(field).get().map(|time| time.0)
    }

    /// Whether the job is, or once was, in one of these states.
    #[must_use]
    pub fn has_been_in(&self, states: StateSet) -> bool {
        State::ALL
            .into_iter()
            .filter(|&state| states.contains(state))
            .any(|state| {
                state == self.job.state
                    || match state {
                        State::New => true,
                        State::Depend => self.job.t_depend.is_some(),
                        State::Priority => self.job.t_priority.is_some(),
                        State::Sched => self.job.t_sched.is_some(),
                        State::Run => self.job.t_run.is_some(),
                        State::Cleanup => self.job.t_cleanup.is_some(),
                        State::Inactive => self.job.t_inactive.is_some(),
                    }
            })
    }

    /// Where it stands in the listing.
    #[must_use]
    pub fn place(&self, slot: Slot) -> Place {
        let (id, user) = (self.job.id, self.job.userid);
        match self.job.state {
            State::New => Place::Nowhere,
            State::Depend | State::Priority | State::Sched => {
                Place::Pending(PendingKey::new(self.job.priority, id, slot, user))
            }
            State::Run | State::Cleanup => {
                Place::Running(TimedKey::new(self.job.t_run.get(), id, slot, user))
            }
            State::Inactive => {
                Place::Inactive(TimedKey::new(self.job.t_inactive.get(), id, slot, user))
            }
        }
    }

    /// The spec after this event, if the event changes it.
    pub(crate) fn updated_spec(&self, event: &Event) -> Option<Spec> {
        match &event.kind {
            EventKind::JobspecUpdate { updates } => self.spec.updated(updates),
            _ => None,
        }
    }
}
