//! One job as a listing shows it: the job itself, what its jobspec says, what its R says.
//!
//! What many jobs have in common is held once: [`Spec`] is shared by all jobs whose jobspecs say the same. A pending job
//! costs the job, a pointer to its spec and a null.

use std::sync::Arc;

use job::{AllocStatus, Event, EventKind, Job, JobId, MaybeTimestamp, Seq, State, StateSet};
use serde_json::Value;

use crate::{
    allocs::{self, Runs, Stamp},
    changes::What,
    constraint::TimeField,
    place::{ModifyKey, PendingKey, Place, TimedKey},
    slots::Slot,
};

/// What a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Kind {
    /// It runs once, on what it asks for.
    #[default]
    Batch,
    /// It runs once on every node that is ready when it begins.
    Sysbatch,
    /// It never runs: others are dispatched from it.
    Parameterized,
}

/// A job's status in the three words of Nomad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It has no resources yet.
    Pending,
    /// It has resources, or is a parent that is not over.
    Running,
    /// It is over.
    Dead,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 3] = [Status::Pending, Status::Running, Status::Dead];

    /// The name that travels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Dead => "dead",
        }
    }
}

/// The label of a slot when the jobspec gives none, and of most that do.
pub const GROUP_USUAL: &str = "task";

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
    /// The label of its slot, if it is not [`GROUP_USUAL`].
    pub group: Option<Arc<str>>,
    /// What it is.
    pub kind: Kind,
    /// Whether it, or what is dispatched from it, runs on every node.
    pub sysbatch: bool,
    /// The job it was dispatched from.
    pub parent: Option<JobId>,
    /// What can be dispatched from it, or what it was dispatched with, if there is anything to say.
    pub dispatch: Option<Box<Dispatch>>,
}

/// What can be dispatched from a job, or what a job was dispatched with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Dispatch {
    /// Of a parent: whether a payload may come: `optional`, `required`, `forbidden`.
    pub payload: &'static str,
    /// Of a parent: keys that must come.
    pub meta_required: Vec<String>,
    /// Of a parent: keys that may come.
    pub meta_optional: Vec<String>,
    /// Of a child: the keys that came, and their values.
    pub meta: Vec<(String, String)>,
}

impl Dispatch {
    /// Bytes held, about.
    pub(crate) fn heap_bytes(&self) -> usize {
        let keys = self.meta_required.iter().chain(&self.meta_optional);
        let pairs = self.meta.iter().map(|(key, value)| key.len() + value.len());
        size_of::<Self>()
            + keys
                .map(|key| key.len() + size_of::<String>())
                .sum::<usize>()
            + pairs
                .map(|bytes| bytes + 2 * size_of::<String>())
                .sum::<usize>()
    }
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
        (&self.group, self.kind, self.sysbatch, self.parent).hash(state);
        self.dispatch.hash(state);
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
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// The ranks and their nodes; empty until the job has them.
    pub(crate) runs: Runs,
    /// When the job got them.
    pub(crate) created: Stamp,
    /// When the status of those of which nothing else was said last changed.
    pub(crate) modified: Stamp,
}

/// One job as a listing shows it.
#[derive(Debug, Clone)]
pub struct Record {
    job: Job,
    pub(crate) spec: Arc<Spec>,
    pub(crate) allocation: Option<Box<Allocation>>,
    /// The entry that made it.
    create_seq: u64,
    /// The newest entry that changed its status or stopped it.
    modify_seq: u64,
    /// The newest entry.
    touched_seq: u64,
    /// The last entry of the job's eventlog that was seen.
    pub(crate) seen: u32,
    /// What this batch changed of it.
    pub(crate) what: What,
    stand: Stand,
}

/// What the order of modification is about: the status, none for a NEW job, and whether it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) status: Option<Status>,
    pub(crate) stopped: bool,
}

impl Stand {
    fn of(job: &Job, kind: Kind) -> Self {
        let status = match job.state {
            State::New => None,
            State::Inactive => Some(Status::Dead),
            _ if kind == Kind::Parameterized || job.has_resources || job.freed => {
                Some(Status::Running)
            }
            _ => Some(Status::Pending),
        };
        let stopped = job.fatal && allocs::is_stopped(job);
        Self { status, stopped }
    }
}

impl Record {
    pub(crate) fn new(job: Job, spec: Arc<Spec>, seen: u32, seq: u64) -> Self {
        let stand = Stand::of(&job, spec.kind);
        Self {
            job,
            spec,
            allocation: None,
            create_seq: seq,
            modify_seq: seq,
            touched_seq: seq,
            seen,
            what: What::default(),
            stand,
        }
    }

    /// Applies an event, entry `seq`; what it changed.
    pub(crate) fn apply(&mut self, event: &Event, seq: u64) -> Result<What, job::Invalid> {
        use job::Changed;
        self.touched_seq = seq;
        let before = self.alloc_stand();
        let change = self.job.apply_at(event, Seq(seq))?;
        let notes = Changed::ANNOTATIONS;
        let mut what = match change.changed {
            changed if changed == Changed::NOTHING || changed == notes => return Ok(What::NOTES),
            _ => What::ROW,
        };
        let stand = Stand::of(&self.job, self.spec.kind);
        if stand != self.stand {
            self.stand = stand;
            self.modify_seq = seq;
            what = what.and(What::STATUS);
        }
        let after = self.alloc_stand();
        if after != before {
            // What a job's own entries say changed.
            let stamp = Stamp {
                seq,
                time: event.timestamp,
            };
            if let Some(allocation) = &mut self.allocation {
                allocation.modified = stamp;
            }
            what = what.and(What::ALLOCS);
        }
        if change.changed.contains(Changed::ALLOCS) {
            what = what.and(What::ALLOCS);
        }
        Ok(what)
    }

    /// What a job's own entries say of its allocations; none while it has none.
    fn alloc_stand(&self) -> Option<(AllocStatus, bool)> {
        let implied = job::allocs::implied(&self.job)?;
        Some((implied.status, implied.stop))
    }

    /// Its allocation, also when it got it too late to run.
    pub(crate) fn held(&self) -> Option<&Allocation> {
        self.allocation
            .as_deref()
            .filter(|_| self.job.has_resources || self.job.freed)
    }

    /// When it got resources, if it did.
    #[must_use]
    pub fn allocated(&self) -> Option<Stamp> {
        self.held().map(|held| held.created)
    }

    /// The entry that made it.
    #[must_use]
    pub fn create_seq(&self) -> u64 {
        self.create_seq
    }

    /// The newest entry that changed its status (pending, running, dead) or stopped it; when it is listed first, that is the one by
    /// which it left NEW. No two jobs have the same.
    #[must_use]
    pub fn modify_seq(&self) -> u64 {
        self.modify_seq
    }

    /// The newest entry of any kind.
    #[must_use]
    pub fn touched_seq(&self) -> u64 {
        self.touched_seq
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.spec.kind
    }

    /// The job it was dispatched from.
    #[must_use]
    pub fn parent(&self) -> Option<JobId> {
        self.spec.parent
    }

    /// The label of its slot.
    #[must_use]
    pub fn group(&self) -> &str {
        self.spec.group.as_deref().unwrap_or(GROUP_USUAL)
    }

    /// Its status; none while it is NEW, and not listed.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.stand.status
    }

    /// Whether its user stopped it: a fatal exception `cancel`.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stand.stopped
    }

    pub(crate) fn stand(&self) -> Stand {
        self.stand
    }

    /// Its place in the order of modification; none while it is NEW.
    #[must_use]
    pub fn modify_key(&self, slot: Slot) -> Option<ModifyKey> {
        self.stand.status?;
        Some(ModifyKey::new(self.modify_seq, slot, self.job.userid))
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
