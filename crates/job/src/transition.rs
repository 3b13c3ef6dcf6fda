//! The one transition function: `apply(&mut Job, &Event)` is the only thing that changes a job.
//!
//! Columns are states, cells the state after the event: a letter = that state, `=` = the same state,
//! `-` = the event is refused and nothing changes. `needs` says what else must hold.
//!
//! ```text
//! event              N D P S R C I   needs
//! submit             - - - - - - -   (it makes the job: Job::new)
//! validate           D - - - - - -
//! invalidate         = = - - - - -   (the job is to be forgotten)
//! dependency-add     = = - - - - -
//! dependency-remove  = = - - - - -   that dependency
//! depend             - P - - - - -   no dependency left
//! priority           - - S = - - -
//! urgency            = = = P - - -
//! jobspec-update     = = = P = = -
//! flux-restart       = = = P = = -
//! resource-update    - - - - = = -   resources
//! alloc              - - - R - = -   no resources, and none given back before
//! prolog-start       = = = = = - -   not started
//! prolog-finish      = = = = = = -   a prolog begun
//! epilog-start       - - - - = = -   resources
//! epilog-finish      - - - - = = -   an epilog begun
//! start              - - - - = = -   resources, not started, start exchange not over
//! exception 0        - C C C C = -
//! exception 1-7      - = = = = = -
//! finish             - - - - C = -   resources, not finished, start exchange not over
//! release            - - - - = = -   resources, start exchange not over
//! release final      - - - - - = -   resources, start exchange not over
//! free               - - - - - = -   resources, no prolog, no epilog, exchange over or never started
//! clean              - - - - - I -   no resources, no prolog, no epilog
//! memo               = = = = = = -
//! annotations        = = = = = = -
//! set-flags          = = = = = = -
//! alloc-status       - - - - = = -   resources
//! any other          = = = = = = -
//! ```
//!
//! Whoever reads events from elsewhere tells repeated ones by `eventlog_seq`; here a repeated event is
//! as wrong as any other that does not fit.

use crate::annotations::{merge, merge_memo};
use crate::event::{Event, EventKind, EventName, ExceptionEvent};
use crate::job::{Dependencies, Exception, Job, JobFields};
use crate::seq::Seq;
use crate::state::{JobFlags, State};
use crate::time::MaybeTimestamp;
use std::ops::{BitOr, BitOrAssign};

#[cfg(test)]
mod tests;

/// What an event changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state after; the same for most events.
    pub to: State,
    /// Which parts of the job are not as they were.
    pub changed: Changed,
}

impl Change {
    /// Whether the job entered another state.
    #[must_use]
    pub fn moved(&self) -> bool {
        self.from != self.to
    }
}

/// Parts of a job, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed(u32);

impl Changed {
    /// Nothing but the number of events.
    pub const NOTHING: Changed = Changed(0);
    /// The state, and the time that goes with it.
    pub const STATE: Changed = Changed(1);
    /// The priority, or whether there is one.
    pub const PRIORITY: Changed = Changed(1 << 1);
    /// The urgency.
    pub const URGENCY: Changed = Changed(1 << 2);
    /// The flags.
    pub const FLAGS: Changed = Changed(1 << 3);
    /// What it waits for.
    pub const DEPENDENCIES: Changed = Changed(1 << 4);
    /// The annotations.
    pub const ANNOTATIONS: Changed = Changed(1 << 5);
    /// The jobspec, which is kept elsewhere.
    pub const JOBSPEC: Changed = Changed(1 << 6);
    /// When its resources expire.
    pub const EXPIRATION: Changed = Changed(1 << 7);
    /// Whether it holds resources.
    pub const RESOURCES: Changed = Changed(1 << 8);
    /// An exception came.
    pub const EXCEPTION: Changed = Changed(1 << 9);
    /// Started, finished or released.
    pub const EXECUTION: Changed = Changed(1 << 10);
    /// Prologs or epilogs begun or finished.
    pub const HOLDS: Changed = Changed(1 << 11);
    /// The job is to be forgotten.
    pub const ERASED: Changed = Changed(1 << 12);
    /// What was said of single allocations.
    pub const ALLOCS: Changed = Changed(1 << 13);

    /// Whether all of `other` changed.
    #[must_use]
    pub fn contains(self, other: Changed) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` changed.
    #[must_use]
    pub fn intersects(self, other: Changed) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Changed {
    type Output = Changed;

    fn bitor(self, other: Changed) -> Changed {
        Changed(self.0 | other.0)
    }
}

impl BitOrAssign for Changed {
    fn bitor_assign(&mut self, other: Changed) {
        self.0 |= other.0;
    }
}

/// An event that does not fit the job; the job is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} does not fit a job in state {state}: {reason}")]
pub struct Invalid {
    /// The name of the event.
    pub event: EventName,
    /// The state of the job.
    pub state: State,
    /// Why it does not fit.
    pub reason: Refused,
}

/// Why an event does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The first event must be `submit`.
    #[error("a job begins with submit")]
    NotSubmit,
    /// There is one `submit`, the first event.
    #[error("the job was submitted before")]
    AlreadySubmitted,
    /// Nothing comes after `clean`.
    #[error("the job is over")]
    Inactive,
    /// It never happens in this state.
    #[error("it does not happen in this state")]
    State,
    /// A dependency is removed that was not added.
    #[error("there is no such dependency")]
    NoSuchDependency,
    /// A dependency is left.
    #[error("a dependency is left")]
    DependencyLeft,
    /// The job holds no resources.
    #[error("the job holds no resources")]
    NoResources,
    /// The job holds resources.
    #[error("the job holds resources")]
    HoldsResources,
    /// The job gave its resources back.
    #[error("the job gave its resources back before")]
    Freed,
    /// There was a `start`.
    #[error("the job was started before")]
    AlreadyStarted,
    /// There was a `finish`.
    #[error("the job finished before")]
    AlreadyFinished,
    /// There was a final `release`.
    #[error("the last resources were released before")]
    ReleasedBefore,
    /// The job was started and there was no final `release`.
    #[error("the executor has not released the last resources")]
    NotReleased,
    /// A prolog or epilog has not finished.
    #[error("a prolog or epilog has not finished")]
    Held,
    /// A prolog or epilog finishes that was not begun.
    #[error("no prolog or epilog of that kind was begun")]
    NotBegun,
    /// More prologs or epilogs at once than can be counted.
    #[error("too many prologs or epilogs at once: expected at most 65535")]
    TooMany,
}

/// Folds an event into the job: the next state and everything that follows from the event.
/// # Errors
/// [`Invalid`]: the event does not fit, by the table above. The job is then unchanged.
pub fn apply(job: &mut Job, event: &Event) -> Result<Change, Invalid> {
    apply_at(job, event, Seq(0))
}

/// [`apply`], and what an `alloc-status` says remembers the place among all entries that the event has.
/// # Errors
/// As [`apply`].
pub fn apply_at(job: &mut Job, event: &Event, seq: Seq) -> Result<Change, Invalid> {
    let from = job.state;
    let to = next_state(job, &event.kind).map_err(|reason| Invalid {
        event: event.name(),
        state: from,
        reason,
    })?;
    let fields = &mut job.fields;
    let mut changed = take_effect(fields, event, seq);
    if to != from {
        fields.state = to;
        changed |= Changed::STATE;
        match to {
            State::New => {}
            State::Depend => fields.t_depend = event.timestamp.into(),
            State::Priority => {
                fields.t_priority.set_first(event.timestamp);
                if fields.priority.take().is_some() {
                    changed |= Changed::PRIORITY;
                }
            }
            State::Sched => fields.t_sched.set_first(event.timestamp),
            State::Run => fields.t_run = event.timestamp.into(),
            State::Cleanup => fields.t_cleanup = event.timestamp.into(),
            State::Inactive => fields.t_inactive = event.timestamp.into(),
        }
    }
    fields.eventlog_seq = fields.eventlog_seq.saturating_add(1);
    Ok(Change { from, to, changed })
}

impl Job {
    /// [`apply`], as a method.
    /// # Errors
    /// As [`apply`].
    pub fn apply(&mut self, event: &Event) -> Result<Change, Invalid> {
        apply(self, event)
    }

    /// [`apply_at`], as a method.
    /// # Errors
    /// As [`apply`].
    pub fn apply_at(&mut self, event: &Event, seq: Seq) -> Result<Change, Invalid> {
        apply_at(self, event, seq)
    }
}

/// The table: the state after the event, or why it is refused.
fn next_state(job: &JobFields, kind: &EventKind) -> Result<State, Refused> {
    use State::{Cleanup, Depend, Inactive, New, Priority, Run, Sched};
    let now = job.state;
    if now == Inactive {
        return Err(Refused::Inactive);
    }
    match kind {
        EventKind::Submit { .. } => Err(Refused::AlreadySubmitted),
        EventKind::Validate => {
            within(now, &[New])?;
            Ok(Depend)
        }
        EventKind::Invalidate | EventKind::DependencyAdd { .. } => within(now, &[New, Depend]),
        EventKind::DependencyRemove { description } => {
            within(now, &[New, Depend])?;
            let known = job
                .dependencies
                .as_ref()
                .is_some_and(|all| all.contains(description));
            unless(!known, Refused::NoSuchDependency)?;
            Ok(now)
        }
        EventKind::Depend => {
            within(now, &[Depend])?;
            let left = job.dependencies.as_ref().is_some_and(|all| !all.is_empty());
            unless(left, Refused::DependencyLeft)?;
            Ok(Priority)
        }
        EventKind::Priority { .. } => {
            within(now, &[Priority, Sched])?;
            Ok(Sched)
        }
        EventKind::Urgency { .. } => {
            within(now, &[New, Depend, Priority, Sched])?;
            Ok(if now == Sched { Priority } else { now })
        }
        EventKind::JobspecUpdate { .. } | EventKind::FluxRestart => {
            Ok(if now == Sched { Priority } else { now })
        }
        EventKind::ResourceUpdate { .. } | EventKind::EpilogStart { .. } => {
            within(now, &[Run, Cleanup])?;
            unless(!job.has_resources, Refused::NoResources)?;
            let full = matches!(kind, EventKind::EpilogStart { .. }) && job.epilogs == u16::MAX;
            unless(full, Refused::TooMany)?;
            Ok(now)
        }
        EventKind::Alloc { .. } => {
            within(now, &[Sched, Cleanup])?;
            unless(job.has_resources, Refused::HoldsResources)?;
            unless(job.freed, Refused::Freed)?;
            Ok(if now == Sched { Run } else { now })
        }
        EventKind::PrologStart { .. } => {
            within(now, &[New, Depend, Priority, Sched, Run])?;
            unless(job.started, Refused::AlreadyStarted)?;
            unless(job.prologs == u16::MAX, Refused::TooMany)?;
            Ok(now)
        }
        EventKind::PrologFinish { .. } => {
            unless(job.prologs == 0, Refused::NotBegun)?;
            Ok(now)
        }
        EventKind::EpilogFinish { .. } => {
            within(now, &[Run, Cleanup])?;
            unless(job.epilogs == 0, Refused::NotBegun)?;
            Ok(now)
        }
        EventKind::Start => {
            within(now, &[Run, Cleanup])?;
            unless(!job.has_resources, Refused::NoResources)?;
            unless(job.started, Refused::AlreadyStarted)?;
            unless(job.start_done, Refused::ReleasedBefore)?;
            Ok(now)
        }
        EventKind::Exception(exception) => {
            within(now, &[Depend, Priority, Sched, Run, Cleanup])?;
            Ok(if exception.severity == 0 {
                Cleanup
            } else {
                now
            })
        }
        EventKind::Finish { .. } => {
            within(now, &[Run, Cleanup])?;
            unless(!job.has_resources, Refused::NoResources)?;
            unless(job.finish_status.is_some(), Refused::AlreadyFinished)?;
            unless(job.start_done, Refused::ReleasedBefore)?;
            Ok(Cleanup)
        }
        EventKind::Release { last, .. } => {
            within(now, if *last { &[Cleanup] } else { &[Run, Cleanup] })?;
            unless(!job.has_resources, Refused::NoResources)?;
            unless(job.start_done, Refused::ReleasedBefore)?;
            Ok(now)
        }
        EventKind::Free => {
            within(now, &[Cleanup])?;
            unless(!job.has_resources, Refused::NoResources)?;
            unless(job.prologs > 0 || job.epilogs > 0, Refused::Held)?;
            unless(job.started && !job.start_done, Refused::NotReleased)?;
            Ok(now)
        }
        EventKind::Clean => {
            within(now, &[Cleanup])?;
            unless(job.has_resources, Refused::HoldsResources)?;
            unless(job.prologs > 0 || job.epilogs > 0, Refused::Held)?;
            Ok(Inactive)
        }
        EventKind::AllocStatus { .. } => {
            within(now, &[Run, Cleanup])?;
            unless(!job.has_resources, Refused::NoResources)?;
            Ok(now)
        }
        EventKind::Memo { .. }
        | EventKind::Annotations { .. }
        | EventKind::SetFlags { .. }
        | EventKind::Other { .. } => Ok(now),
    }
}

fn within(now: State, states: &[State]) -> Result<State, Refused> {
    if states.contains(&now) {
        Ok(now)
    } else {
        Err(Refused::State)
    }
}

fn unless(wrong: bool, reason: Refused) -> Result<(), Refused> {
    if wrong { Err(reason) } else { Ok(()) }
}

/// What the event does beside the state; it was found to fit.
fn take_effect(job: &mut JobFields, event: &Event, seq: Seq) -> Changed {
    match &event.kind {
        EventKind::Submit { .. }
        | EventKind::Validate
        | EventKind::Depend
        | EventKind::FluxRestart
        | EventKind::Clean
        | EventKind::Other { .. } => Changed::NOTHING,
        EventKind::Invalidate => Changed::ERASED,
        EventKind::DependencyAdd { description } => {
            job.dependencies
                .get_or_insert_with(Box::default)
                .0
                .push(description.clone());
            Changed::DEPENDENCIES
        }
        EventKind::DependencyRemove { description } => remove_dependency(job, description),
        EventKind::Priority { priority } => {
            job.priority = Some(*priority);
            Changed::PRIORITY
        }
        EventKind::Urgency { urgency, .. } => {
            job.urgency = *urgency;
            Changed::URGENCY
        }
        EventKind::JobspecUpdate { .. } => Changed::JOBSPEC,
        EventKind::ResourceUpdate { expiration } => {
            job.expiration = MaybeTimestamp::from(*expiration);
            Changed::EXPIRATION
        }
        EventKind::Alloc { annotations } => {
            job.has_resources = true;
            match annotations {
                None => Changed::RESOURCES,
                Some(annotations) => {
                    annotate(job, |all| merge(all, annotations));
                    Changed::RESOURCES | Changed::ANNOTATIONS
                }
            }
        }
        EventKind::PrologStart { .. } => {
            job.prologs = job.prologs.saturating_add(1);
            Changed::HOLDS
        }
        EventKind::PrologFinish { .. } => {
            job.prologs = job.prologs.saturating_sub(1);
            Changed::HOLDS
        }
        EventKind::EpilogStart { .. } => {
            job.epilogs = job.epilogs.saturating_add(1);
            Changed::HOLDS
        }
        EventKind::EpilogFinish { .. } => {
            job.epilogs = job.epilogs.saturating_sub(1);
            Changed::HOLDS
        }
        EventKind::Start => {
            job.started = true;
            Changed::EXECUTION
        }
        EventKind::Exception(exception) => {
            raise(job, exception);
            Changed::EXCEPTION
        }
        EventKind::Finish { status } => {
            job.finish_status = Some(*status);
            Changed::EXECUTION
        }
        EventKind::Release { last, .. } => {
            job.start_done |= *last;
            Changed::EXECUTION
        }
        EventKind::Free => {
            job.has_resources = false;
            job.freed = true;
            Changed::RESOURCES
        }
        EventKind::Memo { memo } => {
            annotate(job, |all| merge_memo(all, memo));
            Changed::ANNOTATIONS
        }
        EventKind::Annotations { annotations } => {
            annotate(job, |all| *all = annotations.clone().unwrap_or_default());
            Changed::ANNOTATIONS
        }
        EventKind::SetFlags { flags } => {
            let named = flags.iter().filter_map(|name| JobFlags::named(name));
            job.flags = named.fold(job.flags, |all, flag| all | flag);
            Changed::FLAGS
        }
        EventKind::AllocStatus { allocs } => {
            let said = job.allocs.get_or_insert_with(Box::default);
            said.take(seq, event.timestamp, allocs);
            Changed::ALLOCS
        }
    }
}

fn remove_dependency(job: &mut JobFields, description: &str) -> Changed {
    if let Some(Dependencies(all)) = job.dependencies.as_deref_mut()
        && let Some(at) = all.iter().position(|one| one == description)
    {
        all.remove(at);
    }
    Changed::DEPENDENCIES
}

/// Changes the annotations and drops the box when none is left.
fn annotate(job: &mut JobFields, change: impl FnOnce(&mut crate::Map)) {
    let all = job.annotations.get_or_insert_with(Box::default);
    change(all);
    if all.is_empty() {
        job.annotations = None;
    }
}

fn raise(job: &mut JobFields, event: &ExceptionEvent) {
    if event.severity == 0 {
        job.fatal = true;
        job.fatal_first |= job.finish_status.is_none();
    }
    let worse = job
        .exception
        .as_ref()
        .is_none_or(|shown| event.severity < shown.severity);
    if worse {
        job.exception = Some(Box::new(Exception {
            kind: event.kind.clone(),
            severity: event.severity,
            note: event.note.clone(),
        }));
    }
}
