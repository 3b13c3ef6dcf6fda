//! One request per job, pipelined; what was refused is said one line per job, and the command fails if any was.

use crate::connect::{CallError, Pending, Session};
use crate::failure::Exit;
use crate::ids;
use crate::output::complain;
use job::JobId;
use serde_json::Value;
use std::collections::VecDeque;
use wire::errno;

/// Requests on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;

/// Sends `topic` for each job and tells what was refused.
///
/// # Errors
/// The connection is lost; or, told already, some jobs were refused.
pub async fn job(
    session: &Session,
    command: &str,
    topic: &str,
    jobs: &[JobId],
    request: impl Fn(JobId) -> Value,
) -> anyhow::Result<()> {
    let mut in_flight: VecDeque<(JobId, Pending)> = VecDeque::new();
    let mut next = jobs.iter();
    let mut refused = false;
    loop {
        while in_flight.len() < IN_FLIGHT_MAX {
            let Some(id) = next.next() else { break };
            in_flight.push_back((*id, session.start(topic, &request(*id)).await?));
        }
        let Some((id, pending)) = in_flight.pop_front() else {
            break;
        };
        match pending.unit().await {
            Ok(()) => {}
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(error) => {
                refused = true;
                complain(&format!("{command}: {}", refusal(id, &error)));
            }
        }
    }
    if refused { Err(Exit(1).into()) } else { Ok(()) }
}

/// One line about a refusal that names the job.
#[must_use]
pub fn refusal(id: JobId, error: &CallError) -> String {
    match error {
        CallError::Refused { errnum, text, .. } if is_unknown(*errnum, text.as_deref()) => {
            ids::unknown(id)
        }
        error => format!("{}: {error}", ids::show(id)),
    }
}

/// True if a refusal means that there is no such job; the errno differs by method, so the text decides.
#[must_use]
pub fn is_unknown(errnum: u32, text: Option<&str>) -> bool {
    match text {
        Some(text) => {
            matches!(
                text,
                "unknown job id" | "unknown job" | "invalid job id" | "id not found"
            ) || text.starts_with("no such job")
        }
        None => errnum == errno::ENOENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_job_is_recognised_by_the_text_of_every_method() {
        assert!(is_unknown(2, Some("unknown job id")));
        assert!(is_unknown(22, Some("unknown job")));
        assert!(is_unknown(2, Some("invalid job id")));
        assert!(is_unknown(2, None));
        assert!(!is_unknown(2, Some("job is inactive")));
        assert!(!is_unknown(22, None));
    }
}
