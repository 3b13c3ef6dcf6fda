//! `job-manager.list`: the active jobs as the manager holds them, for its own debugging; users ask job-info.

use job::Job;
use protocol::job_manager::ListRequest;
use serde::Serialize;
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::record::Place;
use crate::write::{Object, json};

/// The most rows one answer holds, so that it fits a frame.
const LIST_ROWS_MAX: usize = 100_000;

#[derive(Serialize)]
struct Row<'a> {
    id: job::JobId,
    userid: u32,
    urgency: job::Urgency,
    priority: u32,
    t_submit: job::Timestamp,
    state: job::State,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a job::Map>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dependencies: Option<&'a [String]>,
}

impl<'a> Row<'a> {
    fn new(job: &'a Job) -> Row<'a> {
        Row {
            id: job.id,
            userid: job.userid,
            urgency: job.urgency,
            priority: job.priority.map_or(0, |priority| priority.0),
            t_submit: job.t_submit,
            state: job.state,
            annotations: job.annotations.as_deref(),
            dependencies: job
                .dependencies
                .as_deref()
                .map(|left| &left[..])
                .filter(|left| !left.is_empty()),
        }
    }
}

impl Manager {
    /// Queued ones in order, then the other active ones, then ended ones whose result was not waited for; oldest first.
    pub(crate) fn list(&self, call: &Call) -> Result<Answer, Refusal> {
        let request: ListRequest = parse(call)?;
        let wanted =
            usize::try_from(request.max_entries).map_err(|_| Refusal::bare(errno::EPROTO))?;
        let wanted = if wanted == 0 {
            self.jobs.len() + self.zombies.len()
        } else {
            wanted.min(self.jobs.len() + self.zombies.len())
        };
        if wanted > LIST_ROWS_MAX {
            return Err(Refusal::new(
                errno::EMSGSIZE,
                format!("more than {LIST_ROWS_MAX} jobs: ask for at most so many with max_entries"),
            ));
        }
        let queued = self
            .queue
            .ordered()
            .filter_map(|key| self.jobs.get(&key.id))
            .map(|record| &record.job);
        let mut rows: Vec<Row<'_>> = queued.take(wanted).map(Row::new).collect();
        if rows.len() < wanted {
            let mut others: Vec<&Job> = self
                .jobs
                .values()
                .filter(|record| record.place == Place::Nowhere)
                .map(|record| &record.job)
                .collect();
            others.sort_unstable_by_key(|job| job.id);
            let rest = others
                .into_iter()
                .chain(self.zombies.values().map(|job| &**job));
            let room = wanted - rows.len();
            rows.extend(rest.take(room).map(Row::new));
        }
        Ok(Answer::Json(
            Object::new(rows.len() * 128)
                .raw("jobs", &json(&rows))
                .end(),
        ))
    }
}
