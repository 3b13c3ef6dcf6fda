//! What a listener needs from the store, and how an answer becomes bytes.
//!
//! ```text
//! Fanout ─► Out::Need(Need) ─► shell: a thread that reads  ─► need.answer(Answer) ─► Page ─► Fanout::page
//!                                      the store, and encodes right there
//! ```
//!
//! [`Need::answer`] does all the encoding, so it belongs where the read ran: the loop that serves everybody else only passes the finished
//! bytes on. A need holds the moment it is about (`at`, `upto`): whatever the store holds beyond that is cut off, so a backlog is
//! an exact snapshot though the store goes on.

use std::sync::Arc;

use bytes::Bytes;
use job::{Entry, JobId, Seq, Source};

use crate::limits::Limits;
use crate::listener::{Format, Kind, ListenerId, Start};
use crate::payload::{self, Payload};
use crate::refused::Refused;

/// Where a scan of jobs starts: the store's own value for "the first".
pub const CURSOR_START: i64 = i64::MIN;

/// A read of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Entries of the logs (`resource`, `system`) with `after < seq <= upto`, oldest first. Answer: [`Answer::Entries`].
    Instance {
        /// After this one.
        after: Seq,
        /// Up to this one.
        upto: Seq,
        /// At most so many.
        limit: usize,
    },
    /// A page of jobs. Answer: [`Answer::Jobs`].
    Jobs {
        /// Which.
        scope: JobsScope,
        /// Where the page starts.
        cursor: i64,
        /// At most so many.
        limit: usize,
        /// About so many bytes.
        bytes: usize,
    },
    /// These jobs, as far as they exist. Answer: [`Answer::Jobs`]; `next`, if not all of them were read, is how many were.
    Named {
        /// Their ids.
        ids: Vec<JobId>,
        /// About so many bytes.
        bytes: usize,
    },
    /// The log, oldest first. Answer: [`Answer::Entries`].
    Log {
        /// After this one.
        after: Seq,
        /// At most so many.
        limit: usize,
        /// About so many bytes.
        bytes: usize,
    },
}

/// Which jobs a page is of. Both are exact for one seq, however long the scan takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobsScope {
    /// Those active at `at`.
    Active {
        /// The moment.
        at: Seq,
    },
    /// Those inactive at `upto`.
    Inactive {
        /// The moment.
        upto: Seq,
    },
}

/// What the store said.
#[derive(Debug)]
pub enum Answer {
    /// Entries in seq order with jobspec and R attached; complete up to `upto`.
    Entries {
        /// The entries.
        entries: Vec<Entry>,
        /// How far they are complete.
        upto: Seq,
    },
    /// Jobs, and where the next page starts.
    Jobs {
        /// The jobs.
        jobs: Vec<BacklogJob>,
        /// `None` = that was the last page.
        next: Option<i64>,
    },
    /// The log no longer holds what follows the cursor.
    BelowFloor {
        /// The newest seq that is gone.
        floor: Seq,
    },
    /// The read failed.
    Failed {
        /// Why.
        detail: String,
    },
}

/// A job as a backlog needs it.
#[derive(Debug, Clone)]
pub struct BacklogJob {
    /// The job.
    pub id: JobId,
    /// Its owner.
    pub userid: u32,
    /// The entry that made it inactive.
    pub done_seq: Option<Seq>,
    /// The jobspec without its environment.
    pub jobspec: Bytes,
    /// R, if it was ever allocated.
    pub r: Option<Bytes>,
    /// All its entries; `submit` with the jobspec and `alloc` with R attached.
    pub events: Vec<Entry>,
}

/// A read that a listener waits for, with all it takes to encode the answer. One at a time per listener.
#[derive(Debug)]
pub struct Need {
    /// Who waits.
    pub listener: ListenerId,
    /// For what.
    pub read: Read,
    pub(crate) kind: Kind,
    pub(crate) epoch: Arc<str>,
    /// The newest durable seq of the moment this is about.
    pub(crate) at: Seq,
    /// It is about jobs that were active at `at` only.
    pub(crate) active_only: bool,
    /// The answer is part of a backlog, not of what follows a cursor.
    pub(crate) backlog: bool,
}

/// An encoded answer, for [`crate::Fanout::page`].
#[derive(Debug)]
pub struct Page {
    pub(crate) listener: ListenerId,
    pub(crate) payload: Option<Payload>,
    pub(crate) entries: usize,
    pub(crate) next: Next,
}

#[derive(Debug)]
pub(crate) enum Next {
    Jobs(Option<i64>),
    Upto(Seq),
    BelowFloor(Seq),
    Failed(Refused),
}

impl Need {
    /// Encodes what the store said. Costs time in proportion to the page; run it where the read ran.
    #[must_use]
    pub fn answer(self, answer: Answer) -> Page {
        match (&self.read, answer) {
            (Read::Log { .. }, Answer::Entries { entries, upto }) => {
                self.log(&entries, upto.min(self.at))
            }
            (Read::Instance { .. }, Answer::Entries { entries, upto }) => {
                self.instance(&entries, upto.min(self.at))
            }
            (Read::Jobs { .. } | Read::Named { .. }, Answer::Jobs { jobs, next }) => {
                match self.kind.format {
                    Format::Native => self.jobs_native(&jobs, next),
                    Format::Flux => self.jobs_flux(&jobs, next),
                }
            }
            (_, Answer::BelowFloor { floor }) => self.page(None, 0, Next::BelowFloor(floor)),
            (_, Answer::Failed { detail }) => {
                self.page(None, 0, Next::Failed(Refused::Unreadable { detail }))
            }
            (_, Answer::Entries { .. } | Answer::Jobs { .. }) => {
                let detail = "the answer is of another kind than the read".to_owned();
                self.page(None, 0, Next::Failed(Refused::Unreadable { detail }))
            }
        }
    }

    fn page(&self, payload: Option<Payload>, entries: usize, next: Next) -> Page {
        Page {
            listener: self.listener,
            payload,
            entries,
            next,
        }
    }

    /// Entries of the log that follow the listener's cursor, or the place a backlog has come to.
    fn log(&self, entries: &[Entry], upto: Seq) -> Page {
        let Read::Log { after, .. } = self.read else {
            return self.page(None, 0, Next::Upto(upto));
        };
        let passing = entries.iter().filter(|entry| {
            entry.seq > after && entry.seq <= upto && self.kind.filter.passes_entry(entry)
        });
        let (mut buf, mut ends) = (Vec::new(), Vec::new());
        match self.kind.format {
            Format::Native => {
                let count = native_body(&mut buf, passing);
                if self.backlog {
                    return self.backlog_native(&buf, count, Next::Upto(upto));
                }
                let payload = (count > 0)
                    .then(|| Payload::One(payload::native(&self.epoch, Some(upto), "", &buf)));
                self.page(payload, count, Next::Upto(upto))
            }
            Format::Flux => {
                for entry in passing {
                    if let Source::Job(id) = entry.source {
                        payload::flux_event(&mut buf, id, entry);
                        ends.push(buf.len());
                    }
                }
                let payload = (!ends.is_empty()).then(|| payload::many(buf, &ends));
                self.page(payload, ends.len(), Next::Upto(upto))
            }
        }
    }

    /// Entries of the logs, part of a native backlog.
    fn instance(&self, entries: &[Entry], upto: Seq) -> Page {
        let passing = entries
            .iter()
            .filter(|entry| entry.seq <= self.at && self.kind.filter.passes_entry(entry));
        let mut buf = Vec::new();
        let count = native_body(&mut buf, passing);
        self.backlog_native(&buf, count, Next::Upto(upto))
    }

    fn backlog_native(&self, body: &[u8], count: usize, next: Next) -> Page {
        let payload = (count > 0)
            .then(|| Payload::One(payload::native(&self.epoch, None, payload::BACKLOG, body)));
        self.page(payload, count, next)
    }

    /// Whether a job is part of the snapshot: somebody may see it, it existed, it was active if it had to be.
    fn takes(&self, job: &BacklogJob) -> bool {
        self.kind.filter.passes_source(Some(job.id), job.userid)
            && job.events.first().is_some_and(|entry| entry.seq <= self.at)
            && (!self.active_only || job.done_seq.is_none_or(|done| done > self.at))
    }

    fn jobs_native(&self, jobs: &[BacklogJob], next: Option<i64>) -> Page {
        let mut buf = Vec::new();
        let passing = jobs
            .iter()
            .filter(|job| self.takes(job))
            .flat_map(|job| &job.events);
        let count = native_body(
            &mut buf,
            passing.filter(|entry| entry.seq <= self.at && self.kind.filter.passes_entry(entry)),
        );
        self.backlog_native(&buf, count, Next::Jobs(next))
    }

    fn jobs_flux(&self, jobs: &[BacklogJob], next: Option<i64>) -> Page {
        let (mut buf, mut ends, mut count) = (Vec::new(), Vec::new(), 0);
        for job in jobs.iter().filter(|job| self.takes(job)) {
            let then = job.events.iter().filter(|entry| entry.seq <= self.at);
            let allocated = then.clone().any(|entry| entry.name.as_str() == "alloc");
            let events =
                then.filter(|entry| entry.stored_log && self.kind.filter.passes_entry(entry));
            count += payload::flux_job(
                &mut buf,
                job.id,
                events,
                &job.jobspec,
                job.r.as_ref().filter(|_| allocated),
            );
            ends.push(buf.len());
        }
        let payload = (!ends.is_empty()).then(|| payload::many(buf, &ends));
        self.page(payload, count, Next::Jobs(next))
    }
}

/// Entries with commas between them; how many.
fn native_body<'a>(buf: &mut Vec<u8>, entries: impl Iterator<Item = &'a Entry>) -> usize {
    let mut count = 0;
    for entry in entries {
        if count > 0 {
            buf.push(b',');
        }
        entry.encode_native(buf);
        count += 1;
    }
    count
}

/// What of a backlog comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The logs, native form only.
    Instance {
        after: Seq,
        then_all: bool,
    },
    /// The log from its very beginning, native form only.
    Log {
        after: Seq,
    },
    /// The jobs the filter names, from this place in its list.
    Named {
        from: usize,
        active_only: bool,
    },
    Inactive {
        cursor: i64,
    },
    Active {
        cursor: i64,
    },
}

impl Stage {
    /// The first stage of a backlog.
    ///
    /// A log that has forgotten nothing is the whole backlog already, and in order; below a floor, and for named jobs, the archive
    /// is read job by job.
    pub(crate) fn first(kind: &Kind, start: &Start, floor: Seq) -> Self {
        let all = *start == Start::All;
        if all && kind.format == Format::Native && floor == Seq(0) && kind.filter.ids().is_none() {
            return Self::Log { after: floor };
        }
        if kind.format == Format::Native && kind.filter.sees_logs() {
            Self::Instance {
                after: Seq(0),
                then_all: all,
            }
        } else {
            Self::jobs(kind, all)
        }
    }

    fn jobs(kind: &Kind, all: bool) -> Self {
        match (kind.filter.ids().is_some(), all) {
            (true, all) => Self::Named {
                from: 0,
                active_only: !all,
            },
            (false, true) => Self::Inactive {
                cursor: CURSOR_START,
            },
            (false, false) => Self::Active {
                cursor: CURSOR_START,
            },
        }
    }

    /// The read this stage waits for.
    pub(crate) fn need(
        self,
        listener: ListenerId,
        kind: &Kind,
        epoch: &Arc<str>,
        at: Seq,
        limits: &Limits,
    ) -> Need {
        let jobs = |scope, cursor| Read::Jobs {
            scope,
            cursor,
            limit: limits.page_jobs,
            bytes: limits.page_bytes,
        };
        let read = match self {
            Self::Instance { after, .. } => Read::Instance {
                after,
                upto: at,
                limit: limits.page_entries,
            },
            Self::Log { after } => Read::Log {
                after,
                limit: limits.page_entries,
                bytes: limits.page_bytes,
            },
            Self::Named { from, .. } => {
                let ids = kind.filter.ids().unwrap_or_default();
                Read::Named {
                    ids: ids[from.min(ids.len())..]
                        .iter()
                        .take(limits.page_jobs)
                        .copied()
                        .collect(),
                    bytes: limits.page_bytes,
                }
            }
            Self::Inactive { cursor } => jobs(JobsScope::Inactive { upto: at }, cursor),
            Self::Active { cursor } => jobs(JobsScope::Active { at }, cursor),
        };
        let active_only = matches!(
            self,
            Self::Active { .. }
                | Self::Named {
                    active_only: true,
                    ..
                }
        );
        Need {
            listener,
            read,
            kind: kind.clone(),
            epoch: epoch.clone(),
            at,
            active_only,
            backlog: true,
        }
    }

    /// The stage after a page; `None` = the backlog is complete.
    pub(crate) fn after(self, kind: &Kind, at: Seq, next: &Next, limits: &Limits) -> Option<Self> {
        match (self, next) {
            (Self::Instance { then_all, .. }, Next::Upto(upto)) if *upto < at => {
                Some(Self::Instance {
                    after: *upto,
                    then_all,
                })
            }
            (Self::Log { .. }, Next::Upto(upto)) if *upto < at => Some(Self::Log { after: *upto }),
            (Self::Log { .. }, Next::BelowFloor(floor)) => {
                Some(Self::first(kind, &Start::All, *floor))
            }
            (Self::Log { .. }, _) => None,
            (Self::Instance { then_all, .. }, _) => Some(Self::jobs(kind, then_all)),
            (Self::Named { from, active_only }, next) => {
                let read = match next {
                    Next::Jobs(Some(read)) => usize::try_from(*read).unwrap_or(0),
                    _ => limits.page_jobs,
                };
                let from = from + read.max(1);
                let more = kind.filter.ids().is_some_and(|ids| from < ids.len());
                more.then_some(Self::Named { from, active_only })
            }
            (Self::Inactive { .. }, Next::Jobs(Some(cursor))) => {
                Some(Self::Inactive { cursor: *cursor })
            }
            (Self::Inactive { .. }, _) => Some(Self::Active {
                cursor: CURSOR_START,
            }),
            (Self::Active { .. }, Next::Jobs(Some(cursor))) => {
                Some(Self::Active { cursor: *cursor })
            }
            (Self::Active { .. }, _) => None,
        }
    }
}
