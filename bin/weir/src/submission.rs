//! Many submissions over one connection: a bounded window of them on their way, the answers in order.
//!
//! The job-manager commits what arrives together as one, so that a window of a thousand costs a few fsyncs. Under keys, what is not
//! answered when the connection is lost is simply submitted again. What to say about an answer is the commands'.

use crate::attach::{self, Options};
use crate::bar::Bar;
use crate::connect::{CallError, Pending, Session};
use crate::document;
use crate::failure::{self, Exit};
use crate::jobspec::options::JobOptions;
use crate::outcome::Outcome;
use crate::output::complain;
use job::JobId;
use protocol::job_ingest::{KEY_BYTES_MAX, SubmitRequest, SubmitResponse};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Submissions on their way at a time.
const IN_FLIGHT_MAX: usize = 1024;
/// Jobs one command submits at most.
pub const JOBS_MAX: u64 = 1_000_000;
/// So often in a row a lost connection is replaced, when keys make that safe.
const LOST_MAX: u32 = 5;
/// Ids wait in the buffer of standard output no longer than this, if others come.
const SHOWN_WITHIN: Duration = Duration::from_millis(100);

/// What is to be submitted; each is made when its turn comes.
pub trait Jobs {
    /// How many there are.
    fn count(&self) -> usize;
    /// The options they have in common.
    fn options(&self) -> &JobOptions;
    /// The form in which one is submitted.
    ///
    /// # Errors
    /// It cannot be made; the others can.
    fn document(&self, at: usize) -> anyhow::Result<Cow<'_, str>>;
    /// The key it is submitted under.
    fn key(&self, at: usize) -> Option<Cow<'_, str>>;
}

/// A job that was not submitted.
#[derive(Debug)]
pub struct Refusal {
    /// The number of the refusal, if the instance refused.
    pub errnum: Option<u32>,
    /// Why.
    pub text: String,
}

/// What became of one.
#[derive(Debug)]
pub struct Told {
    /// Which.
    pub at: usize,
    /// The answer.
    pub answer: Result<SubmitResponse, Refusal>,
    /// What was printed so far should be shown now.
    pub flush: bool,
}

enum Sent {
    Pending(Pending),
    Unmade(anyhow::Error),
}

/// Submits all; `tell` gets what became of each, in order.
///
/// # Errors
/// The connection is lost for good (the text says how many were submitted), or those of `tell`.
pub async fn submit_all<J: Jobs>(
    session: &mut Session,
    jobs: &J,
    bar: &Bar,
    mut tell: impl FnMut(Told) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let count = jobs.count();
    let mut in_flight: VecDeque<(usize, Sent)> = VecDeque::new();
    let mut lost_in_a_row = 0;
    let mut taken = 0;
    let mut next = 0;
    let mut shown = Instant::now();
    loop {
        let mut lost = None;
        while lost.is_none() && in_flight.len() < IN_FLIGHT_MAX && next < count {
            let document = match jobs.document(next) {
                Ok(document) => document,
                Err(error) => {
                    in_flight.push_back((next, Sent::Unmade(error)));
                    next += 1;
                    continue;
                }
            };
            match send(
                session,
                &document,
                jobs.key(next).as_deref(),
                jobs.options(),
            )
            .await
            {
                Ok(pending) => {
                    in_flight.push_back((next, Sent::Pending(pending)));
                    next += 1;
                }
                Err(error) => lost = Some((next, error)),
            }
        }
        let (at, answer) = match (in_flight.pop_front(), lost) {
            (Some((at, Sent::Pending(pending))), _) => {
                (at, pending.answer::<SubmitResponse>().await)
            }
            (Some((at, Sent::Unmade(error))), _) => {
                tell(Told {
                    at,
                    answer: Err(Refusal {
                        errnum: document::errnum(&error),
                        text: failure::text(&error),
                    }),
                    flush: in_flight.is_empty(),
                })?;
                bar.step();
                continue;
            }
            (None, Some((at, error))) => (at, Err(error)),
            (None, None) => return Ok(()),
        };
        let answer = match answer {
            Err(error) if error.is_lost() => {
                if jobs.key(at).is_none() || lost_in_a_row >= LOST_MAX {
                    return Err(
                        anyhow::Error::new(error).context(format!("{taken} of {count} submitted"))
                    );
                }
                lost_in_a_row += 1;
                (next, in_flight) = (at, VecDeque::new());
                *session = Session::open().await?;
                continue;
            }
            Err(error) => Err(Refusal {
                errnum: document::errnum_of(&error),
                text: refusal_text(jobs.options(), &error),
            }),
            Ok(response) => {
                lost_in_a_row = 0;
                taken += 1;
                Ok(response)
            }
        };
        let flush = in_flight.is_empty() || shown.elapsed() > SHOWN_WITHIN;
        if flush {
            shown = Instant::now();
        }
        tell(Told { at, answer, flush })?;
        bar.step();
    }
}

/// Sends one submission.
///
/// # Errors
/// The connection is gone.
pub async fn send(
    session: &Session,
    document: &str,
    key: Option<&str>,
    options: &JobOptions,
) -> Result<Pending, CallError> {
    let request = SubmitRequest {
        j: Cow::Borrowed(document),
        urgency: i64::from(options.urgency.get()),
        flags: i64::from(options.flag_bits()),
        key: key.map(Cow::Borrowed),
    };
    session.start("job-ingest.submit", &request).await
}

/// What a refusal means to who typed these options.
#[must_use]
pub fn refusal_text(options: &JobOptions, error: &CallError) -> String {
    match (&options.queue, error) {
        // The instance speaks of a queue as Flux does.
        (
            Some(queue),
            CallError::Refused {
                text: Some(text), ..
            },
        ) if text.starts_with("Invalid queue") => format!(
            "there is no queue '{queue}' ('weir queue status' lists those there are; without names there is one, and -q is not needed)"
        ),
        (_, error) => error.to_string(),
    }
}

/// A key as it may be.
///
/// # Errors
/// What is wrong with it.
pub fn key(text: &str) -> Result<String, String> {
    if (1..=KEY_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "expected 1 to {KEY_BYTES_MAX} bytes without control characters, got {} bytes",
            text.len()
        ))
    }
}

/// The texts of the options in which something may be filled in.
pub fn for_each_text(options: &mut JobOptions, change: impl FnMut(&mut String)) {
    let one = [
        &mut options.job_name,
        &mut options.output,
        &mut options.error,
        &mut options.input,
        &mut options.cwd,
    ];
    let many = options.command.iter_mut().chain(&mut options.env);
    many.chain(one.into_iter().flatten()).for_each(change);
}

/// Tells the job its number of `--cc`.
pub fn number(spec: &mut Value, number: &str) {
    if let Some(Value::Object(environment)) = spec.pointer_mut("/attributes/system/environment") {
        for name in ["WEIR_JOB_CC", "FLUX_JOB_CC"] {
            environment.insert(name.to_owned(), Value::from(number));
        }
    }
}

/// Says in one line why a job did not succeed.
pub fn say(outcome: &Outcome) {
    if let Some(reason) = outcome.reason() {
        complain(&format!("{}: {reason}", outcome.label()));
    }
}

/// Shows the output of these jobs, one after another.
///
/// # Errors
/// Those of attaching; the highest status of the jobs as [`Exit`], at least `worst`.
pub async fn watch(
    session: Session,
    ids: impl IntoIterator<Item = JobId>,
    label: bool,
    mut worst: u8,
) -> anyhow::Result<()> {
    let place = session.place().clone();
    let mut session = Some(session);
    for id in ids {
        let session = match session.take() {
            Some(session) => session,
            None => Session::open_at(&place).await?,
        };
        let options = Options {
            label,
            ..Options::default()
        };
        worst = worst.max(attach::attach(session, id, options).await?);
    }
    ended(worst)
}

/// A command that ends with this status and has said why.
///
/// # Errors
/// [`Exit`] with any status but 0.
pub fn ended(status: u8) -> anyhow::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(Exit(status).into())
    }
}
