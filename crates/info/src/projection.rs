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
//! Only a stream that is not the journal's at all (bad JSON, another epoch) is an error; an entry that makes no
//! sense is counted and passed over.

use std::borrow::Cow;

use job::{Event, EventKind, JobId};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::jobs::Jobs;

/// Name of the system event that lists purged jobs: `{"jobs":[ID…]}`.
pub const PURGE_EVENT: &str = "purge";

/// Why a stream cannot be followed further.
#[derive(Debug, Error)]
pub enum FoldError {
    /// Not a batch.
    #[error("malformed journal batch: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The stream of another journal.
    #[error("journal batch of epoch {met}, expected {expected}")]
    Epoch {
        /// Of the list so far.
        expected: Box<str>,
        /// Of the batch.
        met: Box<str>,
    },
    /// A batch while no stream was begun.
    #[error("journal batch before a stream was begun")]
    NotBegun,
}

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

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow, default)]
    epoch: Cow<'a, str>,
    seq: Option<u64>,
    #[serde(default)]
    caught_up: bool,
    mark: Option<u64>,
    #[serde(borrow, default)]
    events: Vec<NativeEntry<'a>>,
}

#[derive(Deserialize)]
struct NativeEntry<'a> {
    #[serde(default)]
    seq: u64,
    id: Option<u64>,
    #[serde(borrow, default)]
    log: Option<Cow<'a, str>>,
    #[serde(default)]
    eventlog_seq: u32,
    #[serde(default)]
    live: bool,
    #[serde(borrow)]
    entry: &'a RawValue,
    #[serde(borrow, default)]
    jobspec: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "R")]
    r: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FluxMessage<'a> {
    id: i64,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    jobspec: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "R")]
    r: Option<&'a RawValue>,
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
        }
    }

    /// The whole list that is served.
    #[must_use]
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
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
        let (jobs, live) = match &mut self.phase {
            Phase::Down => return Err(FoldError::NotBegun),
            Phase::Replaying { aside, epoch, .. } => {
                check_epoch(epoch, &batch.epoch)?;
                (aside.as_mut(), false)
            }
            Phase::Resuming | Phase::Live(_) => {
                check_epoch(&mut self.epoch, &batch.epoch)?;
                (&mut self.jobs, true)
            }
        };
        self.counters.batches += 1;
        for entry in &batch.events {
            match (entry.id, entry.log.as_deref()) {
                (Some(id), _) => {
                    let step = Step {
                        id: JobId(id),
                        eventlog_seq: entry.eventlog_seq,
                        live,
                        json: entry.entry.get(),
                        jobspec: entry.jobspec,
                        r: entry.r,
                    };
                    if step.apply(jobs, &mut self.counters) && live {
                        let (id, eventlog_seq) = (JobId(id), entry.eventlog_seq);
                        seen(Seen {
                            id,
                            eventlog_seq,
                            live_only: entry.live,
                            json: entry.entry.get(),
                        });
                    }
                }
                (None, Some("system")) => system(jobs, entry.entry.get(), &mut self.counters),
                // The resource log and logs of later versions are no part of a listing.
                (None, _) => {}
            }
            if live {
                self.applied = self.applied.max(entry.seq);
            }
        }
        if let Some(mark) = batch.mark {
            self.mark = self.mark.max(mark);
        }
        if batch.caught_up {
            return Ok(self.catch_up(batch.seq));
        }
        if !live {
            return Ok(Folded::default());
        }
        self.applied = self.applied.max(batch.seq.unwrap_or(0));
        Ok(self.settle(false))
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
        let (jobs, live) = match &mut self.phase {
            Phase::Down | Phase::Resuming => return Err(FoldError::NotBegun),
            Phase::Replaying { aside, .. } => (aside.as_mut(), false),
            Phase::Live(_) => (&mut self.jobs, true),
        };
        self.counters.batches += 1;
        if message.id == -1 {
            return Ok(self.catch_up(None));
        }
        let id = JobId(u64::from_ne_bytes(message.id.to_ne_bytes()));
        for event in message.events {
            let step = Step {
                id,
                eventlog_seq: 0,
                live,
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

    fn catch_up(&mut self, seq: Option<u64>) -> Folded {
        let form = match std::mem::replace(&mut self.phase, Phase::Down) {
            Phase::Replaying {
                form,
                mut aside,
                epoch,
            } => {
                aside.settle_all();
                self.jobs = *aside;
                self.counters.rebuilds += u64::from(self.served);
                self.served = true;
                self.epoch = epoch;
                self.applied = seq.unwrap_or(0);
                self.phase = Phase::Live(form);
                return Folded {
                    caught_up: true,
                    swapped: true,
                    changed: Vec::new(),
                };
            }
            Phase::Live(form) => form,
            Phase::Resuming | Phase::Down => Form::Native,
        };
        self.phase = Phase::Live(form);
        self.applied = self.applied.max(seq.unwrap_or(0));
        self.settle(true)
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

fn system(jobs: &mut Jobs, json: &str, counters: &mut FoldCounters) {
    #[derive(Deserialize)]
    struct Purged {
        jobs: Vec<u64>,
    }
    let Ok(event) = Event::parse(json.as_bytes()) else {
        counters.invalid += 1;
        return;
    };
    counters.events += 1;
    let EventKind::Other {
        name,
        context: Some(context),
    } = event.kind
    else {
        return;
    };
    if name.as_ref() == PURGE_EVENT {
        match serde_json::from_value::<Purged>(serde_json::Value::Object(context)) {
            Ok(purged) => {
                for id in purged.jobs {
                    jobs.purge(JobId(id));
                }
            }
            Err(_) => counters.invalid += 1,
        }
    }
}

/// One entry of a job.
struct Step<'a> {
    id: JobId,
    eventlog_seq: u32,
    live: bool,
    json: &'a str,
    jobspec: Option<&'a RawValue>,
    r: Option<&'a RawValue>,
}

impl Step<'_> {
    /// Applies it; whether it was new.
    fn apply(&self, jobs: &mut Jobs, counters: &mut FoldCounters) -> bool {
        if let Some(seen) = jobs.seen(self.id).filter(|_| self.eventlog_seq != 0) {
            if self.eventlog_seq <= seen {
                counters.duplicates += 1;
                return false;
            }
            counters.gaps += u64::from(self.live && self.eventlog_seq > seen + 1);
        }
        let Ok(event) = Event::parse(self.json.as_bytes()) else {
            counters.invalid += 1;
            jobs.note_seen(self.id, self.eventlog_seq);
            return false;
        };
        match event.kind {
            EventKind::Submit { .. } => {
                if jobs.seen(self.id).is_some() {
                    counters.duplicates += 1;
                    return false;
                }
                if !jobs.submit(
                    self.id,
                    &event,
                    self.jobspec.map(RawValue::get),
                    self.r_of_backlog(),
                    self.eventlog_seq,
                ) {
                    counters.invalid += 1;
                    return false;
                }
            }
            EventKind::Invalidate => {
                if !jobs.forget(self.id) {
                    counters.unknown += 1;
                    return false;
                }
            }
            _ => match jobs.apply(
                self.id,
                &event,
                self.r.map(RawValue::get),
                self.eventlog_seq,
            ) {
                Ok(()) => {}
                Err(crate::jobs::Skipped::Unknown) => {
                    counters.unknown += 1;
                    return false;
                }
                // The job did not take it, but it is part of its eventlog all the same.
                Err(crate::jobs::Skipped::Invalid) => counters.invalid += 1,
            },
        }
        counters.events += 1;
        true
    }

    /// Flux's backlog sends a job's R with the whole of its events, `submit` among them.
    fn r_of_backlog(&self) -> Option<&str> {
        self.r.map(RawValue::get)
    }
}
