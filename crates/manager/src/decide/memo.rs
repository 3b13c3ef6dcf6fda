//! `job-manager.memo`: what a user notes on a job; shown in listings under `annotations.user`.

use job::{Attach, EventKind};
use protocol::job_manager::MemoRequest;
use wire::errno;

use crate::action::Refusal;
use crate::decide::{Answer, parse};
use crate::input::Call;
use crate::manager::Manager;

/// The longest memo taken, as JSON.
const MEMO_BYTES_MAX: usize = 64 << 10;

impl Manager {
    /// Posts a memo; a volatile one is not part of the job's eventlog.
    pub(crate) fn memo(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let request: MemoRequest = parse(call)?;
        if call
            .payload
            .as_ref()
            .is_some_and(|payload| payload.len() > MEMO_BYTES_MAX)
        {
            return Err(Refusal::new(errno::EINVAL, "memo is longer than 64 KiB"));
        }
        self.may_change()?;
        let Some(record) = self.jobs.get(&request.id) else {
            return Err(self.absent(
                request.id,
                errno::ENOENT,
                "job is inactive",
                "unknown job id",
            ));
        };
        if !call.cred.may_act_for(record.job.userid) {
            return Err(Refusal::new(
                errno::EPERM,
                "guests can only add a memo to their own jobs",
            ));
        }
        match self.post(
            request.id,
            EventKind::Memo { memo: request.memo },
            !request.volatile,
            Attach::None,
        ) {
            Ok(_) => Ok(self.seq_answer()),
            Err(_) => Err(Refusal::new(errno::ENOENT, "unknown job id")),
        }
    }
}
