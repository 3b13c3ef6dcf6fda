//! Allocations: one for each rank of a job's resources, each with a status of its own.
//!
//! What a job's events imply holds for all of its allocations ([`implied`]); what an `alloc-status` event says holds
//! for those it names, as long as it may ([`Allocs`]). A status that is terminal (complete, failed, lost) stays
//! whatever comes later; any other gives way to what the job's end implies.
//!
//! ```text
//! job                                     implied for allocations that are not terminal by an alloc-status
//! has R, not started                      pending
//! started                                 running
//! finish 0                                complete
//! finish ≠ 0                              failed
//!   … a fatal `cancel` came before        complete, to be stopped, "canceled"
//!   … a fatal `node-fail` came before     lost
//!   … any other fatal one came before     failed, and its words
//! over without `finish`, started          lost
//! over without `finish`, not started      canceled: complete, to be stopped; else failed
//! ```
//!
//! Held as runs of ranks that were said at once, by their lowest rank: a job of 100,000 ranks whose events name all of
//! them costs one run, one event a rank costs 100,000, and neither costs a text a rank.

use crate::event::{AllocReport, AllocStatus};
use crate::idset::Idset;
use crate::job::JobFields;
use crate::json::clip;
use crate::seq::Seq;
use crate::state::State;
use crate::time::Timestamp;
use crate::waitstatus::{Ended, WaitStatus, signal_text};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// What `alloc-status` events said of a job's allocations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Allocs {
    /// By the lowest rank; they do not overlap.
    runs: BTreeMap<u32, Run>,
}

#[derive(Debug, Clone, PartialEq)]
struct Run {
    last: u32,
    said: Said,
}

/// What was said of an allocation, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The entry that said it; 0 where nobody keeps count ([`crate::Job::apply`]).
    pub seq: Seq,
    /// When.
    pub time: Timestamp,
    /// Its status.
    pub status: AllocStatus,
    /// The wait status of its tasks, if they are over.
    pub wait_status: Option<i32>,
    /// Why, in short words.
    pub reason: Option<Arc<str>>,
}

impl Allocs {
    /// Takes in one event. Allocations that are terminal stay as they are.
    pub(crate) fn take(&mut self, seq: Seq, time: Timestamp, reports: &[AllocReport]) {
        for report in reports {
            let said = Said {
                seq,
                time,
                status: report.status,
                wait_status: report.wait_status,
                reason: report.reason.clone(),
            };
            for (first, last) in self.open_within(&report.ranks) {
                self.put(first, last, said.clone());
            }
        }
    }

    /// The parts of `ranks` that are not terminal, as ranges.
    fn open_within(&self, ranks: &Idset) -> Vec<(u32, u32)> {
        let mut open = Vec::new();
        for &(first, last) in ranks.ranges() {
            let mut from = Some(first);
            for (run_first, run) in self.overlapping(first, last) {
                if !run.said.status.is_terminal() {
                    continue;
                }
                if let Some(from) = from.filter(|&from| from < run_first) {
                    open.push((from, run_first - 1));
                }
                from = run.last.checked_add(1);
            }
            if let Some(from) = from.filter(|&from| from <= last) {
                open.push((from, last));
            }
        }
        open
    }

    /// The runs that have a rank from `first` to `last`, ascending.
    fn overlapping(&self, first: u32, last: u32) -> impl Iterator<Item = (u32, &Run)> {
        let before = self.runs.range(..first).next_back();
        let before = before.filter(|(_, run)| run.last >= first);
        before
            .into_iter()
            .chain(self.runs.range(first..=last))
            .map(|(&at, run)| (at, run))
    }

    /// Puts a run in the place of all that is from `first` to `last`; none of that is terminal.
    fn put(&mut self, mut first: u32, mut last: u32, said: Said) {
        let met: Vec<u32> = self.overlapping(first, last).map(|(at, _)| at).collect();
        for at in met {
            let Some(run) = self.runs.remove(&at) else {
                continue;
            };
            if run.last > last {
                let rest = Run {
                    last: run.last,
                    said: run.said.clone(),
                };
                self.runs.insert(last + 1, rest);
            }
            if at < first {
                let last = first - 1;
                self.runs.insert(
                    at,
                    Run {
                        last,
                        said: run.said,
                    },
                );
            }
        }
        // Neighbours that the same event said the same of are one run.
        if let Some((&at, before)) = self.runs.range(..first).next_back()
            && before.last.checked_add(1) == Some(first)
            && before.said == said
        {
            first = at;
        }
        if let Some(next) = last.checked_add(1)
            && let Some(after) = self.runs.get(&next).filter(|after| after.said == said)
        {
            last = after.last;
            self.runs.remove(&next);
        }
        self.runs.insert(first, Run { last, said });
    }

    /// What was said of the allocation on `rank`, if anything was.
    #[must_use]
    pub fn at(&self, rank: u32) -> Option<&Said> {
        self.runs
            .range(..=rank)
            .next_back()
            .filter(|(_, run)| run.last >= rank)
            .map(|(_, run)| &run.said)
    }

    /// All that was said: lowest rank, highest rank, what; ascending.
    pub fn runs(&self) -> impl Iterator<Item = (u32, u32, &Said)> {
        self.runs
            .iter()
            .map(|(&first, run)| (first, run.last, &run.said))
    }

    /// How many runs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether nothing was said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// An allocation as it is: what was said of it, or what the job's own events imply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocView<'j> {
    /// Its status.
    pub status: AllocStatus,
    /// Whether it is to stop, as Nomad's desired status tells.
    pub stop: bool,
    /// Why it is so.
    pub reason: Option<Reason<'j>>,
    /// The wait status of its tasks, if they are over and it is known.
    pub wait_status: Option<i32>,
    /// What was said of it, if that is what counts; the job's own events otherwise.
    pub said: Option<&'j Said>,
}

/// Why an allocation is as it is; shown in short words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason<'j> {
    /// The job was canceled.
    Canceled,
    /// The job ran longer than it may.
    Timeout,
    /// Its tasks ended with this wait status, not 0.
    Ended(WaitStatus),
    /// An exception ended the job.
    Exception {
        /// Its type.
        kind: &'j str,
        /// Its note.
        note: &'j str,
    },
    /// The job is over, and nobody reported its end.
    NotReported,
    /// As an `alloc-status` event has it.
    Said(&'j str),
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Canceled => f.write_str("canceled"),
            Reason::Timeout => f.write_str("timeout"),
            Reason::Ended(status) => match status.ended() {
                Ended::Exited(code) => write!(f, "exit code {code}"),
                Ended::Signaled(signal) => write!(f, "signal {signal} ({})", signal_text(signal)),
            },
            Reason::Exception { kind, note: "" } => f.write_str(&clip(kind)),
            Reason::Exception { kind, note } => write!(f, "{}: {}", clip(kind), clip(note)),
            Reason::NotReported => f.write_str("its end was not reported"),
            Reason::Said(text) => f.write_str(text),
        }
    }
}

/// What a job's own events imply for all of its allocations; `None` while it has none: it never got resources.
#[must_use]
pub fn implied(job: &JobFields) -> Option<AllocView<'_>> {
    if !job.has_resources && !job.freed {
        return None;
    }
    // A fatal exception that came before `finish`. The one that is kept is then the first fatal one.
    let fatal = job.exception.as_deref().filter(|_| job.fatal_first);
    let kind = fatal.map(|fatal| fatal.kind.as_str());
    let canceled = kind == Some("cancel");
    let words = fatal.map(|fatal| match fatal.kind.as_str() {
        "cancel" => Reason::Canceled,
        "timeout" => Reason::Timeout,
        kind => Reason::Exception {
            kind,
            note: &fatal.note,
        },
    });
    let over = job.freed || job.state == State::Inactive;
    let (status, reason) = match job.finish_status {
        Some(status) => match kind {
            Some("cancel") => (AllocStatus::Complete, words),
            Some("node-fail") => (AllocStatus::Lost, words),
            Some(_) => (AllocStatus::Failed, words),
            None if status == 0 => (AllocStatus::Complete, None),
            None => (AllocStatus::Failed, Some(Reason::Ended(WaitStatus(status)))),
        },
        None if over && job.started => (AllocStatus::Lost, words.or(Some(Reason::NotReported))),
        None if over && canceled => (AllocStatus::Complete, words),
        None if over => (AllocStatus::Failed, words.or(Some(Reason::NotReported))),
        None if job.started => (AllocStatus::Running, words),
        None => (AllocStatus::Pending, words),
    };
    Some(AllocView {
        status,
        stop: canceled,
        reason,
        wait_status: job.finish_status,
        said: None,
    })
}

/// The allocation on `rank`, which is one of the job's; `None` if the job never got resources.
#[must_use]
pub fn at(job: &JobFields, rank: u32) -> Option<AllocView<'_>> {
    let implied = implied(job)?;
    let said = job.allocs.as_deref().and_then(|allocs| allocs.at(rank));
    Some(view(job, implied, said))
}

/// All allocations on `ranks`, the ranks of the job's R, as runs: lowest rank, highest rank, and what they all are.
/// Nothing if the job never got resources. Costs one step for each run, not for each rank.
pub fn runs<'j>(
    job: &'j JobFields,
    ranks: &'j Idset,
) -> impl Iterator<Item = (u32, u32, AllocView<'j>)> {
    let implied = implied(job);
    ranks
        .ranges()
        .iter()
        .flat_map(move |&(first, last)| Within {
            allocs: job.allocs.as_deref(),
            next: Some(first),
            last,
        })
        .filter_map(move |(first, last, said)| Some((first, last, view(job, implied?, said))))
}

/// One range of ranks, cut where what was said of them changes.
struct Within<'j> {
    allocs: Option<&'j Allocs>,
    next: Option<u32>,
    last: u32,
}

impl<'j> Iterator for Within<'j> {
    type Item = (u32, u32, Option<&'j Said>);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.next.filter(|&next| next <= self.last)?;
        let runs = self.allocs.map(|allocs| &allocs.runs);
        let run = runs.and_then(|runs| {
            let before = runs.range(..=first).next_back();
            before.filter(|(_, run)| run.last >= first)
        });
        let (last, said) = match run {
            Some((_, run)) => (run.last.min(self.last), Some(&run.said)),
            None => {
                let after = runs.and_then(|runs| runs.range(first..=self.last).next());
                (after.map_or(self.last, |(&at, _)| at - 1), None)
            }
        };
        self.next = last.checked_add(1);
        Some((first, last, said))
    }
}

/// An allocation of which `said` was said, if anything was, of a job whose own events imply `implied`. What counts is what was said,
/// unless it is not terminal and the job is over.
#[must_use]
pub fn view<'j>(
    job: &'j JobFields,
    implied: AllocView<'j>,
    said: Option<&'j Said>,
) -> AllocView<'j> {
    let over = job.finish_status.is_some() || job.freed || job.state == State::Inactive;
    match said {
        Some(said) if said.status.is_terminal() || !over => AllocView {
            status: said.status,
            stop: implied.stop && !said.status.is_terminal(),
            reason: match (&said.reason, said.wait_status) {
                (Some(text), _) => Some(Reason::Said(text)),
                (None, Some(status)) if status != 0 => Some(Reason::Ended(WaitStatus(status))),
                (None, _) if said.status.is_terminal() => None,
                (None, _) => implied.reason,
            },
            wait_status: said.wait_status,
            said: Some(said),
        },
        _ => implied,
    }
}
