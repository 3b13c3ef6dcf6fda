//! The fold: batches of the journal in, the table of jobs out.
//!
//! ```text
//!              begin(fresh)                    caught_up
//!   nothing ──────────────► Replaying (aside) ──────────► Live ◄─┐ batches
//!      ▲                      ▲    │ cut: aside is dropped   │    │
//!      │                      │    ▼                         │────┘
//!      └── never served       └─ Down (last list is served) ◄┘ cut
//!                                  │ begin(resume): goes on with the same table, Live at caught_up
//! ```
//! Invariants: what is served is a whole list at every moment: a rebuild happens aside and is swapped in at its
//! `caught_up`. An entry is applied once: one that comes again (its `eventlog_seq` is not past the job's) changes
//! nothing and is counted. After each batch the orders, indexes and counts agree with the jobs, in one pass.
//!
//! What cannot be folded costs as little as it can. An entry that makes no sense for its job costs that job: it is set aside. A
//! response that cannot be part of this journal's stream (no JSON, another epoch, a seq that does not rise, entries missing) is
//! an error: nothing of it is folded, nothing behind it may be, and the list must be built anew from the start.

use job::JobId;
use serde_json::value::RawValue;

use crate::{
    aside::Why,
    batch::{Batch, FluxMessage, NativeEntry, RESOURCE_LOG},
    changes::{CHANGES_MAX, Changes},
    continuity::Continuity,
    jobs::Jobs,
    nodes::Nodes,
    step::Step,
};

pub use crate::{batch::PURGE_EVENT, fold_error::FoldError};

/// What was folded, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FoldCounters {
    /// Batches applied, progress included.
    pub batches: u64,
    /// Entries applied.
    pub events: u64,
    /// Entries that came again and were ignored.
    pub duplicates: u64,
    /// Entries of jobs that are not there (any more).
    pub unknown: u64,
    /// Entries that made no sense for their job, or could not be read.
    pub invalid: u64,
    /// Entries passed over because their job is set aside.
    pub aside: u64,
    /// Places where entries of a job were missing.
    pub gaps: u64,
    /// Whole lists swapped in after the first.
    pub rebuilds: u64,
    /// Passes that moved at least one job in an order.
    pub reorder_passes: u64,
    /// Moves made in them.
    pub moves: u64,
}

/// What one batch brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Folded {
    /// The stream went live with this batch.
    pub caught_up: bool,
    /// A whole list was swapped in: every job may have changed.
    pub swapped: bool,
    /// Jobs that were created, changed or removed; empty when `swapped`.
    pub changed: Vec<JobId>,
}

/// One live entry of a job, as a follower of its eventlog needs it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The job.
    pub id: JobId,
    /// Which entry of the job, from 1; 0 when the stream does not say.
    pub eventlog_seq: u32,
    /// Whether it is left out of the stored eventlog.
    pub live_only: bool,
    /// The entry's JSON.
    pub json: &'a str,
}

/// Which of the two forms a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `job-manager.events`: batches with a cursor.
    Native,
    /// `job-manager.events-journal`: one job a message, no cursor.
    Flux,
}

#[derive(Debug)]
enum Phase {
    Down,
    Replaying {
        form: Form,
        aside: Box<Jobs>,
        epoch: Option<Box<str>>,
        /// Native: the newest entry. Flux: entries counted.
        newest: u64,
    },
    Resuming,
    Live(Form),
}

/// The table of jobs and how far it is.
#[derive(Debug)]
pub struct Projection {
    jobs: Jobs,
    phase: Phase,
    served: bool,
    epoch: Option<Box<str>>,
    applied: u64,
    mark: u64,
    counters: FoldCounters,
    continuity: Continuity,
    /// Where the list was when changes were last taken; only while somebody watches.
    watched_from: Option<u64>,
    reset: bool,
}

impl Default for Projection {
    fn default() -> Self {
        Self::new()
    }
}

impl Projection {
    /// A projection that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            jobs: Jobs::new(),
            phase: Phase::Down,
            served: false,
            epoch: None,
            applied: 0,
            mark: 0,
            counters: FoldCounters::default(),
            continuity: Continuity::default(),
            watched_from: None,
            reset: false,
        }
    }

    /// The whole list that is served.
    #[must_use]
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The nodes of that list.
    #[must_use]
    pub fn nodes(&self) -> &Nodes {
        self.jobs.nodes()
    }

    /// Which form of the journal is followed, while one is.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        match self.phase {
            Phase::Live(form) => Some(form),
            _ => None,
        }
    }

    /// Whether changes are noted for [`Projection::take_changes`]. Off at first, and then they cost nothing.
    pub fn watch_changes(&mut self, on: bool) {
        if on != self.watched_from.is_some() {
            self.jobs.watch(on);
            self.watched_from = on.then_some(self.applied);
            self.reset = false;
        }
    }

    /// What changed since this was last called; to be called after every fold.
    pub fn take_changes(&mut self) -> Changes {
        let Some(from_seq) = self.watched_from else {
            return Changes::default();
        };
        self.watched_from = Some(self.applied);
        let jobs = self.jobs.take_notices();
        let nodes = self.jobs.nodes_mut().take_changed();
        let mut changes = Changes {
            from_seq,
            to_seq: self.applied,
            reset: std::mem::take(&mut self.reset),
            ..Changes::default()
        };
        match jobs {
            Some(jobs) if !changes.reset && nodes.len() <= CHANGES_MAX => {
                changes.jobs = jobs;
                changes.nodes = nodes;
            }
            _ => changes.reset = true,
        }
        changes
    }

    /// Whether there is a list to serve at all.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.served
    }

    /// Whether the list follows the journal at this moment.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// How far the list is.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Requests that came after this mark must be answered from a state that includes it.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Where a new stream may go on: the seq after which, and the epoch. `None`: only from the start.
    #[must_use]
    pub fn cursor(&self) -> Option<(u64, &str)> {
        if self.served {
            self.epoch.as_deref().map(|epoch| (self.applied, epoch))
        } else {
            None
        }
    }

    /// What was folded so far.
    #[must_use]
    pub fn counters(&self) -> FoldCounters {
        self.counters
    }

    /// A stream from the start begins: it is folded aside.
    pub fn begin_fresh(&mut self, form: Form) {
        self.mark = 0;
        self.phase = Phase::Replaying {
            form,
            aside: Box::new(Jobs::for_replay()),
            epoch: None,
            // Entries of Flux's form have no seq. They get one of a counter of our own, which goes on from list to list.
            newest: if form == Form::Flux { self.applied } else { 0 },
        };
    }

    /// A stream that goes on at [`Projection::cursor`] begins.
    pub fn begin_resume(&mut self) {
        self.mark = 0;
        self.phase = Phase::Resuming;
    }

    /// The stream was cut. The list stays as it is; a rebuild that was under way is dropped.
    pub fn cut(&mut self) {
        self.mark = 0;
        self.phase = Phase::Down;
    }

    /// Folds one response of a native stream. `seen` is shown each entry that is applied to a job of the served list.
    ///
    /// # Errors
    /// [`FoldError`]: the stream is not what was asked for; cut it and begin another.
    pub fn fold_native(
        &mut self,
        json: &[u8],
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> Result<Folded, FoldError> {
        let batch: Batch<'_> = serde_json::from_slice(json)?;
        match &mut self.phase {
            Phase::Down => return Err(FoldError::NotBegun),
            Phase::Replaying {
                aside,
                epoch,
                newest,
                ..
            } => {
                check_epoch(epoch, &batch.epoch)?;
                let counters = &mut self.counters;
                counters.batches += 1;
                for entry in &batch.events {
                    *newest = entry.seq.max(*newest);
                    // A purge that cannot be read is no loss here: the jobs it names are not in a backlog. Neither is an entry of
                    // resources: what is so now is told at the end.
                    let _applied = fold_entry(entry, aside, counters);
                }
            }
            Phase::Resuming | Phase::Live(_) => {
                check_epoch(&mut self.epoch, &batch.epoch)?;
                if let Err(error) = self.continuity.check(&batch, &self.jobs, self.applied) {
                    self.counters.gaps += 1;
                    return Err(error);
                }
                self.counters.batches += 1;
                self.fold_live(&batch.events, seen);
                if !batch.caught_up {
                    self.applied = self.applied.max(batch.seq.unwrap_or(0));
                }
            }
        }
        if let Some(mark) = batch.mark {
            self.mark = self.mark.max(mark);
        }
        if batch.caught_up {
            let seq = batch.seq.ok_or(FoldError::NoCursor)?;
            return self.catch_up(seq, &batch.set_aside, batch.resources);
        }
        Ok(match self.phase {
            Phase::Replaying { .. } => Folded::default(),
            _ => self.settle(false),
        })
    }

    /// Folds entries that follow the list. They have been looked at: [`Continuity::check`].
    fn fold_live(&mut self, entries: &[NativeEntry<'_>], seen: &mut dyn FnMut(Seen<'_>)) {
        for entry in entries {
            let known = entry
                .id
                .is_some_and(|id| self.jobs.get(JobId(id)).is_some());
            if entry.seq <= self.applied && !known {
                // Of a job that is purged, or of a log.
                self.counters.duplicates += 1;
                continue;
            }
            if fold_entry(entry, &mut self.jobs, &mut self.counters) {
                seen(Seen {
                    id: JobId(entry.id.unwrap_or_default()),
                    eventlog_seq: entry.eventlog_seq,
                    live_only: entry.live,
                    json: entry.entry.get(),
                });
            }
            self.applied = self.applied.max(entry.seq);
        }
    }

    /// Folds one response of a Flux journal stream.
    ///
    /// # Errors
    /// As [`Projection::fold_native`].
    pub fn fold_flux(
        &mut self,
        json: &[u8],
        seen: &mut dyn FnMut(Seen<'_>),
    ) -> Result<Folded, FoldError> {
        let message: FluxMessage<'_> = serde_json::from_slice(json)?;
        let (jobs, seq, live) = match &mut self.phase {
            Phase::Down | Phase::Resuming => return Err(FoldError::NotBegun),
            Phase::Replaying { aside, newest, .. } => (aside.as_mut(), newest, false),
            Phase::Live(_) => (&mut self.jobs, &mut self.applied, true),
        };
        self.counters.batches += 1;
        if message.id == -1 {
            let seq = *seq;
            return self.catch_up(seq, &[], None);
        }
        let id = JobId(u64::from_ne_bytes(message.id.to_ne_bytes()));
        for event in message.events {
            *seq += 1;
            jobs.set_entry(*seq);
            let step = Step {
                id,
                eventlog_seq: 0,
                json: event.get(),
                jobspec: message.jobspec,
                r: message.r,
            };
            if step.apply(jobs, &mut self.counters) && live {
                seen(Seen {
                    id,
                    eventlog_seq: 0,
                    live_only: false,
                    json: event.get(),
                });
            }
        }
        Ok(if live {
            self.settle(false)
        } else {
            Folded::default()
        })
    }

    /// The backlog, or the resumed stream, is at `seq`; `set_aside` names the jobs that the job-manager cannot read.
    fn catch_up(
        &mut self,
        seq: u64,
        set_aside: &[u64],
        resources: Option<&RawValue>,
    ) -> Result<Folded, FoldError> {
        let form = match std::mem::replace(&mut self.phase, Phase::Down) {
            Phase::Replaying {
                form,
                mut aside,
                epoch,
                newest,
            } => {
                if form == Form::Native && newest > seq {
                    return Err(FoldError::Order {
                        met: seq,
                        after: newest,
                    });
                }
                for &id in set_aside {
                    aside.put_aside(JobId(id), Why::Told);
                }
                take_base(&mut aside, resources, seq, &mut self.counters);
                aside.settle_all();
                if epoch == self.epoch {
                    aside.nodes_mut().inherit(self.jobs.nodes());
                }
                self.jobs = *aside;
                self.jobs.watch(self.watched_from.is_some());
                self.reset = self.watched_from.is_some();
                self.counters.rebuilds += u64::from(self.served);
                self.served = true;
                self.epoch = epoch;
                self.applied = seq;
                self.phase = Phase::Live(form);
                return Ok(Folded {
                    caught_up: true,
                    swapped: true,
                    changed: Vec::new(),
                });
            }
            Phase::Live(form) => form,
            Phase::Resuming | Phase::Down => Form::Native,
        };
        if form == Form::Native {
            if seq != self.applied {
                return Err(FoldError::Resumed {
                    expected: self.applied,
                    met: seq,
                });
            }
            self.jobs.set_entry(seq);
            for &id in set_aside {
                self.jobs.put_aside(JobId(id), Why::Told);
            }
            take_base(&mut self.jobs, resources, seq, &mut self.counters);
        }
        self.phase = Phase::Live(form);
        Ok(self.settle(true))
    }

    fn settle(&mut self, caught_up: bool) -> Folded {
        let settled = self.jobs.settle();
        self.counters.reorder_passes += u64::from(settled.moves > 0);
        self.counters.moves += settled.moves as u64;
        Folded {
            caught_up,
            swapped: false,
            changed: settled.changed,
        }
    }
}

/// Takes the state of the nodes that `caught_up` tells.
fn take_base(jobs: &mut Jobs, resources: Option<&RawValue>, seq: u64, counters: &mut FoldCounters) {
    let nodes = jobs.nodes_mut();
    match resources.map(|json| nodes.take_base(json.get(), seq)) {
        None => {}
        Some(Ok(())) => nodes.fault = None,
        Some(Err(fault)) => {
            counters.invalid += 1;
            nodes.fault = Some(fault);
        }
    }
}

fn check_epoch(known: &mut Option<Box<str>>, met: &str) -> Result<(), FoldError> {
    match known {
        Some(expected) if expected.as_ref() != met => Err(FoldError::Epoch {
            expected: expected.clone(),
            met: met.into(),
        }),
        Some(_) => Ok(()),
        None => {
            *known = Some(met.into());
            Ok(())
        }
    }
}

/// Folds one entry; whether it is part of a job now.
fn fold_entry(entry: &NativeEntry<'_>, jobs: &mut Jobs, counters: &mut FoldCounters) -> bool {
    jobs.set_entry(entry.seq);
    if let Some(id) = entry.id {
        let step = Step {
            id: JobId(id),
            // No entry of weir's own has the number 0.
            eventlog_seq: entry.eventlog_seq.max(1),
            json: entry.entry.get(),
            jobspec: entry.jobspec,
            r: entry.r,
        };
        return step.apply(jobs, counters);
    }
    if entry.log.as_deref() == Some(RESOURCE_LOG) {
        let event = job::Event::parse(entry.entry.get().as_bytes());
        let event = event.map_err(|error| error.to_string().into());
        let nodes = jobs.nodes_mut();
        match event.and_then(|event| nodes.apply(&event, entry.seq)) {
            Ok(()) => counters.events += 1,
            Err(fault) => {
                counters.invalid += 1;
                nodes.fault = Some(fault);
            }
        }
        return false;
    }
    match entry.purged() {
        Some(Ok(ids)) => {
            counters.events += 1;
            for id in ids {
                jobs.purge(JobId(id));
            }
        }
        Some(Err(_)) => counters.invalid += 1,
        // Other logs are no part of a listing.
        None => {}
    }
    false
}
