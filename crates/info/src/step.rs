//! One entry of a job, folded into the table.
//!
//! In the native form the journal is weir's own: an entry that cannot be read or does not fit its job is damage, and the job is
//! set aside. Flux's journal follows Flux's rules, some of which are not ours: there such an entry is counted and passed over.

use job::{Event, EventKind, JobId};
use serde_json::value::RawValue;

use crate::{
    aside::Why,
    jobs::{Jobs, Skipped},
    projection::FoldCounters,
};

/// One entry of a job.
pub(crate) struct Step<'a> {
    pub(crate) id: JobId,
    /// 0 when the stream does not number them: Flux's form.
    pub(crate) eventlog_seq: u32,
    pub(crate) json: &'a str,
    pub(crate) jobspec: Option<&'a RawValue>,
    pub(crate) r: Option<&'a RawValue>,
}

impl Step<'_> {
    /// Applies it; whether it was new.
    pub(crate) fn apply(&self, jobs: &mut Jobs, counters: &mut FoldCounters) -> bool {
        if jobs.set_aside().contains(self.id) {
            counters.aside += 1;
            return false;
        }
        match self.try_apply(jobs, counters) {
            Ok(applied) => {
                counters.events += u64::from(applied);
                applied
            }
            Err(why) => {
                counters.invalid += 1;
                jobs.put_aside(self.id, why);
                false
            }
        }
    }

    fn is_strict(&self) -> bool {
        self.eventlog_seq != 0
    }

    fn try_apply(&self, jobs: &mut Jobs, counters: &mut FoldCounters) -> Result<bool, Why> {
        let eventlog_seq = self.eventlog_seq;
        let seen = jobs.seen(self.id);
        if self.is_strict() {
            let seen = seen.unwrap_or(0);
            if eventlog_seq <= seen {
                counters.duplicates += 1;
                return Ok(false);
            }
            if seen > 0 && eventlog_seq > seen + 1 {
                counters.gaps += 1;
                return Err(Why::Gap {
                    expected: seen + 1,
                    met: eventlog_seq,
                });
            }
        }
        let event = match Event::parse(self.json.as_bytes()) {
            Ok(event) => event,
            Err(error) if self.is_strict() => return Err(Why::unreadable(eventlog_seq, &error)),
            Err(_) => {
                counters.invalid += 1;
                return Ok(false);
            }
        };
        let applied = match event.kind {
            EventKind::Submit { .. } if seen.is_none() => {
                return self.submit(&event, jobs, counters);
            }
            EventKind::Submit { .. } if !self.is_strict() => {
                counters.duplicates += 1;
                return Ok(false);
            }
            EventKind::Invalidate => {
                let known = jobs.forget(self.id);
                counters.unknown += u64::from(!known);
                return Ok(known);
            }
            _ => jobs.apply(self.id, &event, self.r.map(RawValue::get), eventlog_seq),
        };
        match applied {
            Ok(()) => Ok(true),
            Err(Skipped::Unknown) if self.is_strict() => Err(Why::NoSubmit { eventlog_seq }),
            Err(Skipped::Unknown) => {
                counters.unknown += 1;
                Ok(false)
            }
            Err(Skipped::Invalid(invalid)) if self.is_strict() => Err(Why::Unfit {
                eventlog_seq,
                invalid,
            }),
            // The job did not take it, but it is part of its eventlog all the same.
            Err(Skipped::Invalid(_)) => {
                counters.invalid += 1;
                Ok(true)
            }
            Err(Skipped::BadR) if self.is_strict() => Err(Why::R { eventlog_seq }),
            Err(Skipped::BadR) => Ok(true),
        }
    }

    fn submit(
        &self,
        event: &Event,
        jobs: &mut Jobs,
        counters: &mut FoldCounters,
    ) -> Result<bool, Why> {
        let jobspec = self.jobspec.map(RawValue::get);
        if self.is_strict() {
            if self.eventlog_seq != 1 {
                counters.gaps += 1;
                return Err(Why::Gap {
                    expected: 1,
                    met: self.eventlog_seq,
                });
            }
            if jobspec.is_some_and(|text| !text.starts_with('{')) {
                return Err(Why::Jobspec);
            }
        }
        // Flux's backlog sends a job's R with the whole of its events, `submit` among them.
        let r = self.r.map(RawValue::get);
        match jobs.submit(self.id, event, jobspec, r, self.eventlog_seq) {
            Ok(()) => Ok(true),
            Err(invalid) if self.is_strict() => Err(Why::Unfit {
                eventlog_seq: self.eventlog_seq,
                invalid,
            }),
            Err(_) => {
                counters.invalid += 1;
                Ok(false)
            }
        }
    }
}
