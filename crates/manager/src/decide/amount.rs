//! How much one request may make: the free texts that become events, and what is copied for every job of a request. Refused before anything
//! is applied. An engine is trusted with its reports, so that a text of one that is too long is cut, not refused.

use job::JobId;
use wire::errno;

use crate::action::Refusal;
use crate::write::json;

/// The longest note of an exception and reason of a queue's change, in bytes.
pub(crate) const NOTE_BYTES_MAX: usize = 4 << 10;
/// The longest type of an exception, in bytes.
pub(crate) const TYPE_BYTES_MAX: usize = 64;
/// The texts of one request, once for every job of it, as JSON.
pub(crate) const COPIES_BYTES_MAX: usize = 64 << 20;
/// Pairs of one `priority` or `prioritize`.
pub(crate) const PAIRS_MAX: usize = 1 << 20;
/// Of these, pairs of one job.
pub(crate) const PAIRS_OF_JOB_MAX: usize = 16;

/// # Errors
/// EINVAL: `what` has more than `max` bytes.
pub(crate) fn text(what: &str, text: &str, max: usize) -> Result<(), Refusal> {
    if text.len() <= max {
        return Ok(());
    }
    let met = text.len();
    Err(Refusal::new(
        errno::EINVAL,
        format!("{what} has {met} bytes: expected at most {max}"),
    ))
}

/// # Errors
/// EINVAL: `texts`, written for each of so many jobs, are too much for one request.
pub(crate) fn copies(jobs: usize, texts: [&str; 2]) -> Result<(), Refusal> {
    let each: usize = texts.iter().map(|text| json(text).len()).sum();
    if jobs.saturating_mul(each) <= COPIES_BYTES_MAX {
        return Ok(());
    }
    let most = COPIES_BYTES_MAX / each.max(1);
    Err(Refusal::new(
        errno::EINVAL,
        format!(
            "type and note of {jobs} jobs are more than one request may make: shorten the note, or ask for at most {most} jobs at a time"
        ),
    ))
}

/// # Errors
/// EINVAL: too many pairs, or too many of one job.
pub(crate) fn pairs<T>(jobs: &[(JobId, T)]) -> Result<(), Refusal> {
    if jobs.len() > PAIRS_MAX {
        let text = format!("{} pairs: expected at most {PAIRS_MAX}", jobs.len());
        return Err(Refusal::new(errno::EINVAL, text));
    }
    if jobs.len() <= PAIRS_OF_JOB_MAX {
        return Ok(());
    }
    let mut ids: Vec<JobId> = jobs.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    let beyond = ids
        .windows(PAIRS_OF_JOB_MAX + 1)
        .find(|run| run.first() == run.last());
    match beyond.and_then(<[JobId]>::first) {
        None => Ok(()),
        Some(id) => Err(Refusal::new(
            errno::EINVAL,
            format!("job {id} is in more than {PAIRS_OF_JOB_MAX} pairs"),
        )),
    }
}

/// As much of the text of an engine as is kept.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}
