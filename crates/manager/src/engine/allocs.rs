//! `alloc-status` of the exec service: what is so on single ranks of a job. Posted where it says something new, and for ranks that the job has.

use job::{AllocReport, AllocView, EventKind, Idset, Job, JobId, allocs};
use protocol::exec::AllocStatusData;

use crate::manager::Manager;

impl Manager {
    /// Posts what is new of a report; false if nothing is.
    pub(super) fn alloc_status(&mut self, id: JobId, data: AllocStatusData) -> bool {
        let ranks = self.resources.get(&id).map(|r| job::r::ranks_of(r));
        let (Some(Ok(ranks)), Some(record)) = (ranks, self.jobs.get(&id)) else {
            return false;
        };
        let mut news = Vec::new();
        for report in data.allocs {
            let ranks = what_is_new(&record.job, &report.ranks.intersection(&ranks), &report);
            if !ranks.is_empty() {
                news.push(AllocReport { ranks, ..report });
            }
        }
        if news.is_empty() {
            return false;
        }
        self.post_stored(id, EventKind::AllocStatus { allocs: news })
            .is_ok()
    }
}

/// Of these ranks those for which the report tells something else than what holds, and something may change.
fn what_is_new(job: &Job, ranks: &Idset, report: &AllocReport) -> Idset {
    let mut known = Vec::new();
    for (first, last, view) in allocs::runs(job, ranks) {
        if !tells(report, &view) {
            known.push(Idset::from_range(first, last));
        }
    }
    ranks.difference(&Idset::union_of(&known))
}

fn tells(report: &AllocReport, view: &AllocView<'_>) -> bool {
    match view.said {
        Some(said) if said.status.is_terminal() => false,
        Some(said) => {
            said.status != report.status
                || said.wait_status != report.wait_status
                || said.reason != report.reason
        }
        // What the job's own events say needs no event, unless there is more to say of it.
        None => {
            report.status != view.status
                || report.reason.is_some()
                || (report.wait_status.is_some() && report.wait_status != view.wait_status)
        }
    }
}
