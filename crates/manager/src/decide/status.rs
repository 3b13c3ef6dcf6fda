//! Numbers: `job-manager.getinfo`, `alloc-query`, `resource-status`, `stats-get`, `job-ingest.getinfo`.

use job::{JobId, State};
use protocol::job_ingest;
use protocol::job_manager::{AllocQueryResponse, GetinfoResponse};
use wire::errno;

use crate::action::Refusal;
use crate::decide::Answer;
use crate::input::Call;
use crate::manager::Manager;
use crate::write::{Object, json};

impl Manager {
    /// The highest id given out.
    pub(crate) fn getinfo(&self, call: &Call) -> Result<Answer, Refusal> {
        if self.config.private && !call.cred.is_owner() {
            return Err(Refusal::bare(errno::EPERM));
        }
        Ok(Answer::Json(json(&GetinfoResponse {
            max_jobid: JobId(self.ids.last),
        })))
    }

    /// The clock ids are made from.
    pub(crate) fn ingest_getinfo(&self) -> Result<Answer, Refusal> {
        Ok(Answer::Json(json(&job_ingest::GetinfoResponse {
            timestamp: self.now_ms(),
        })))
    }

    /// Milliseconds since the instance first started.
    pub(crate) fn now_ms(&self) -> u64 {
        let base = self.epoch_base.unwrap_or(self.now);
        ((self.now.0 - base.0) * 1000.0).max(0.0) as u64 // saturates
    }

    /// Jobs that wait, that are offered, that run.
    pub(crate) fn alloc_query(&self) -> Result<Answer, Refusal> {
        let offered = self.queue.live.len() + self.sched.cancelling.len();
        Ok(Answer::Json(json(&AllocQueryResponse {
            queue_length: self.queue.waiting.len() as u64,
            alloc_pending: offered as u64,
            running: self.in_state(State::Run) as u64,
        })))
    }

    /// `{allocated:R}`: what all jobs together hold.
    pub(crate) fn resource_status(&self) -> Result<Answer, Refusal> {
        let allocated = crate::allocated::union(self.resources.values());
        Ok(Answer::Json(
            Object::new(allocated.len())
                .raw("allocated", &allocated)
                .end(),
        ))
    }

    /// Counters; the shell adds those of the journal and the store.
    pub(crate) fn stats_get(&self) -> Result<Answer, Refusal> {
        let housekeeping =
            serde_json::json!({"running": {}, "config": {"release-after": 0.0, "command": ""}});
        let object = Object::new(256)
            .number("active_jobs", self.jobs.len() as u64)
            .number(
                "inactive_jobs",
                (self.known.len().saturating_sub(self.jobs.len())) as u64,
            )
            .number("inactive_purged", self.stats.purged_jobs)
            .number("unswept", self.purges.unswept() as u64)
            .value("max_jobid", &JobId(self.ids.last))
            .value("housekeeping", &housekeeping)
            .value("manager", &self.stats)
            .number("held", self.pending.len() as u64)
            // The newest that can be told: this answer does not wait for a disk that is full.
            .number("seq", self.pending.newest_durable().0);
        Ok(Answer::Json(object.end()))
    }
}
