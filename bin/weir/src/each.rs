//! One request per job, pipelined; what was refused is said one line per job, and the command fails if any was.

use crate::bar::{self, Bar};
use crate::connect::{CallError, Pending, Session};
use crate::document;
use crate::failure::Exit;
use crate::ids::{self, Problem};
use crate::output::complain;
use job::JobId;
use serde_json::{Value, json};
use std::collections::VecDeque;
use wire::errno;

/// Requests on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;

/// What became of all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Done.
    pub done: usize,
    /// Refused for a reason that does not matter.
    pub passed_over: usize,
    /// Refused; each was said.
    pub refused: usize,
}

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
    let count = counted(session, command, topic, jobs, request, |_| false).await?;
    if count.refused > 0 {
        Err(Exit(1).into())
    } else {
        Ok(())
    }
}

/// Likewise; a refusal that is `passed_over` is not told.
///
/// # Errors
/// The connection is lost.
pub async fn counted(
    session: &Session,
    command: &str,
    topic: &str,
    jobs: &[JobId],
    request: impl Fn(JobId) -> Value,
    passed_over: impl Fn(&CallError) -> bool,
) -> anyhow::Result<Count> {
    walk(
        session,
        command,
        topic,
        jobs,
        request,
        passed_over,
        |_, _| {},
    )
    .await
}

/// As [`job()`]; with `json` a document says what became of each: `{"jobs":[{"id","f58"}…],"errors":[…]}`.
///
/// # Errors
/// Likewise.
pub async fn told(
    session: &Session,
    command: &str,
    topic: &str,
    jobs: &[JobId],
    request: impl Fn(JobId) -> Value,
    json: bool,
) -> anyhow::Result<()> {
    if !json {
        return job(session, command, topic, jobs, request).await;
    }
    let (done, problems) = sorted(session, command, topic, jobs, request).await?;
    document::print(&json!({"jobs": done, "errors": problems}))?;
    ids::conclude(&problems)
}

/// Likewise; those that were done, as documents name them, and what was refused of the others. That is said, too.
///
/// # Errors
/// The connection is lost.
pub async fn sorted(
    session: &Session,
    command: &str,
    topic: &str,
    jobs: &[JobId],
    request: impl Fn(JobId) -> Value,
) -> anyhow::Result<(Vec<Value>, Vec<Problem>)> {
    let (mut done, mut problems) = (Vec::new(), Vec::new());
    let sort = |id: JobId, refused: Option<&CallError>| match refused {
        None => done.push(json!({"id": id, "f58": id.to_string()})),
        Some(error) => problems.push(Problem {
            errnum: document::errnum_of(error),
            ..Problem::of(id, refusal(id, error))
        }),
    };
    walk(session, command, topic, jobs, request, |_| false, sort).await?;
    Ok((done, problems))
}

async fn walk(
    session: &Session,
    command: &str,
    topic: &str,
    jobs: &[JobId],
    request: impl Fn(JobId) -> Value,
    passed_over: impl Fn(&CallError) -> bool,
    mut sort: impl FnMut(JobId, Option<&CallError>),
) -> anyhow::Result<Count> {
    let mut in_flight: VecDeque<(JobId, Pending)> = VecDeque::new();
    let mut next = jobs.iter();
    let mut count = Count::default();
    let bar = Bar::over(jobs.len(), "jobs", bar::PIECES_FROM);
    loop {
        while in_flight.len() < IN_FLIGHT_MAX {
            let Some(id) = next.next() else { break };
            in_flight.push_back((*id, session.start(topic, &request(*id)).await?));
        }
        let Some((id, pending)) = in_flight.pop_front() else {
            return Ok(count);
        };
        match pending.unit().await {
            Ok(()) => {
                count.done += 1;
                sort(id, None);
            }
            Err(error) if error.is_lost() => return Err(error.into()),
            Err(error) if passed_over(&error) => count.passed_over += 1,
            Err(error) => {
                count.refused += 1;
                sort(id, Some(&error));
                bar.aside(|| complain(&format!("{command}: {}", refusal(id, &error))));
            }
        }
        bar.step();
    }
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
