//! `job-manager.history.get`: the caller's own jobs, newest submission first.

use std::collections::VecDeque;

use job::JobId;
use protocol::job_manager::{HistoryGetRequest, HistoryGetResponse};
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;
use crate::slice::Slice;
use crate::write::json;

/// The most ids one answer holds.
const HISTORY_MAX: usize = 1 << 20;

impl Manager {
    /// `{slice}` → `{jobs}`.
    pub(crate) fn history_get(&self, call: &Call) -> Result<Answer, Refusal> {
        let request: HistoryGetRequest<'_> = parse(call)?;
        let slice = Slice::parse(&request.slice).map_err(|_| {
            Refusal::new(
                errno::EINVAL,
                "could not parse python-style slice expression",
            )
        })?;
        let oldest_first = self.known.of_user(call.cred.userid);
        let len = oldest_first.map_or(0, VecDeque::len);
        let newest_first = |at: usize| oldest_first?.get(len - 1 - at).copied();
        let jobs: Vec<JobId> = slice
            .indices(len)
            .map_while(newest_first)
            .take(HISTORY_MAX)
            .collect();
        Ok(Answer::Json(json(&HistoryGetResponse { jobs })))
    }
}
