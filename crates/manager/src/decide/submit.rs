//! `job-ingest.submit`: a wrapped jobspec becomes a job.
//!
//! Decided here: the flags, the urgency, who signed, whether the jobspec is one. The events after `submit` come from react, in the same
//! commit. An identical submission of a moment ago is not parsed again.

use bytes::Bytes;
use job::jobspec::JobType;
use job::{
    Attach, Entry, Event, EventKind, Job, JobFlags, JobId, Jobspec, JobspecError, Source, Urgency,
};
use protocol::job_ingest::{FLAG_NOVALIDATE, FLAG_WAITABLE, FLAGS, SubmitRequest, SubmitResponse};
use std::sync::Arc;
use wire::{PayloadError, ROLE_LOCAL, errno, parse_json};

use crate::action::{JobWrite, Refusal};
use crate::decide::Answer;
use crate::decide::dispatch::WAITS_FOR_DISPATCH;
use crate::decide::shutdown::SHUTTING_DOWN;
use crate::dispatches::PARENT_BYTES_MAX;
use crate::input::Call;
use crate::keys::Submission;
use crate::manager::Manager;
use crate::record::Record;
use crate::specs::Recent;
use crate::unwrap::unwrap_j;
use crate::write::json;

/// Version of the eventlog, in every `submit` event.
const EVENTLOG_VERSION: u32 = 1;

impl Manager {
    /// `{J, urgency, flags, key?}` → `{id, seq, known?}`.
    pub(crate) fn submit(&mut self, call: &Call) -> Result<Answer, Refusal> {
        let undecodable =
            || Refusal::new(errno::EPROTO, "error decoding job request: Protocol error");
        let payload = call.payload.as_deref().ok_or_else(undecodable)?;
        let request: SubmitRequest<'_> = parse_json(payload).map_err(|error| match error {
            PayloadError::Key { path, .. } if &*path == "key" => Refusal::new(
                errno::EPROTO,
                "error decoding job request: key: expected a string",
            ),
            _ => undecodable(),
        })?;
        let flags = u32::try_from(request.flags)
            .ok()
            .filter(|flags| flags & !FLAGS == 0);
        let flags = flags.ok_or(Refusal::new(errno::EPROTO, "invalid job flags"))?;
        let owner = call.cred.is_owner();
        if !owner && flags & FLAG_NOVALIDATE != 0 {
            return Err(Refusal::new(
                errno::EPERM,
                "only the instance owner can submit with FLUX_JOB_NOVALIDATE",
            ));
        }
        let urgency = Urgency::new(request.urgency)
            .map_err(|_| Refusal::new(errno::EINVAL, "urgency range is [0:31]"))?;
        if !owner && urgency > Urgency::DEFAULT {
            return Err(Refusal::new(
                errno::EINVAL,
                "only the instance owner can submit with urgency >16",
            ));
        }
        if !owner && flags & FLAG_WAITABLE != 0 {
            return Err(Refusal::new(
                errno::EINVAL,
                "only the instance owner can submit with FLUX_JOB_WAITABLE",
            ));
        }
        let ingested = self.ingest(call, &request.j, flags)?;
        let submission = Submission::new(call, urgency, JobFlags(flags), ingested);
        let userid = call.cred.userid;
        match request.key {
            Some(key) => self.submit_under_key(userid, &key, submission),
            None => {
                self.may_submit()?;
                let answer = self.admit(userid, submission, None)?;
                Ok(Answer::Json(json(&answer)))
            }
        }
    }

    /// Whether a new job may be made now.
    /// # Errors
    /// The instance is shutting down, the queue takes none, or what [`Manager::may_change`] says.
    pub(crate) fn may_submit(&self) -> Result<(), Refusal> {
        if self.is_shutting_down() {
            return Err(Refusal::new(
                errno::ESHUTDOWN,
                format!("{SHUTTING_DOWN}: it takes no jobs"),
            ));
        }
        let queue = self.queues.anonymous();
        if !queue.enable {
            let reason = queue.disable_reason.as_deref().unwrap_or_default();
            return Err(Refusal::new(
                errno::EINVAL,
                format!("job submission is disabled: {reason}"),
            ));
        }
        self.may_change()
    }

    /// Who signed, and whether it is a jobspec.
    fn ingest(&mut self, call: &Call, j: &str, flags: u32) -> Result<Ingested, Refusal> {
        let requestor = call.cred.userid;
        // A jobspec that was not validated is not remembered as a good one.
        let recalled = if flags & FLAG_NOVALIDATE == 0 {
            self.specs.recall(j.as_bytes())
        } else {
            None
        };
        if let Some(recent) = recalled {
            signed_by(call, recent.userid)?;
            return Ok(Ingested {
                j: recent.j.clone(),
                jobspec: recent.jobspec.clone(),
                parameterized: recent.parameterized,
            });
        }
        let unwrapped = unwrap_j(j).map_err(|_| {
            Refusal::new(errno::EINVAL, "could not unwrap jobspec: Invalid argument")
        })?;
        signed_by(call, unwrapped.userid)?;
        let parameterized;
        let jobspec = if flags & FLAG_NOVALIDATE == 0 {
            let (checked, stripped) =
                Jobspec::ingest(&unwrapped.jobspec).map_err(|error| refused(&error))?;
            if let Some(queue) = &checked.queue {
                return Err(Refusal::new(
                    errno::EPERM,
                    format!("Invalid queue '{queue}' specified"),
                ));
            }
            if let Some(dependency) = checked.dependencies.first() {
                let text = format!(
                    "dependency: scheme \"{}\" is not supported",
                    dependency.scheme
                );
                return Err(Refusal::new(errno::EINVAL, text));
            }
            only_from_dispatch(&checked)?;
            parameterized = checked.job_type() == JobType::Parameterized;
            Bytes::copy_from_slice(&stripped) // exactly its size: it is kept as long as the job
        } else {
            let stripped = unvalidated(&unwrapped.jobspec)?;
            // It never runs, however it came.
            let checked = Jobspec::parse(&stripped).ok();
            parameterized = checked.is_some_and(|all| all.job_type() == JobType::Parameterized);
            stripped
        };
        if parameterized && j.len() > PARENT_BYTES_MAX {
            return Err(Refusal::new(
                errno::EINVAL,
                format!(
                    "attributes.system.weir.parameterized: J has {} bytes: expected at most {PARENT_BYTES_MAX}, since each dispatch makes a job of it",
                    j.len()
                ),
            ));
        }
        let j = Bytes::copy_from_slice(j.as_bytes());
        if flags & FLAG_NOVALIDATE == 0 {
            self.specs.remember(Recent {
                j: j.clone(),
                userid: requestor,
                jobspec: jobspec.clone(),
                parameterized,
            });
        }
        Ok(Ingested {
            j,
            jobspec,
            parameterized,
        })
    }

    /// A parameterized job waits for as long as others may be dispatched from it.
    fn become_parent(&mut self, id: JobId) {
        self.parents.insert(id);
        let wait = EventKind::DependencyAdd {
            description: WAITS_FOR_DISPATCH.to_owned(),
        };
        // Both fit a new job.
        let _ = self.post(id, EventKind::Validate, true, Attach::None);
        let _ = self.post(id, wait, true, Attach::None);
    }

    /// An id that no job has: rows that are damaged may have any.
    fn next_id(&mut self) -> Result<JobId, Refusal> {
        loop {
            if self.ids.last >= u64::MAX - 1 {
                return Err(Refusal::new(
                    errno::EOVERFLOW,
                    "there are no more job ids: see weir store check",
                ));
            }
            let id = self.ids.next(self.now_ms());
            if !self.known.contains(id) {
                return Ok(id);
            }
        }
    }

    /// Makes the job: its `submit`, its row, and what its states owe.
    pub(crate) fn admit(
        &mut self,
        userid: u32,
        submission: Submission,
        key: Option<&str>,
    ) -> Result<SubmitResponse, Refusal> {
        let Submission {
            urgency,
            flags,
            j,
            jobspec,
            parameterized,
            ..
        } = submission;
        let id = self.next_id()?;
        let event = Event::new(
            self.now,
            EventKind::Submit {
                userid,
                urgency,
                flags,
                version: EVENTLOG_VERSION,
            },
        );
        let Ok(job) = Job::new(id, &event) else {
            return Err(Refusal::bare(errno::EINVAL));
        };
        let jobspec = self.specs.take(jobspec);
        self.seq = self.seq.next();
        let attach = Attach::Jobspec(jobspec.clone());
        let entry = Entry::new(
            self.seq,
            Source::Job(id),
            job.eventlog_seq,
            userid,
            true,
            &event,
            attach,
        );
        self.turn.entries.push(Arc::new(entry));
        let t_submit = job.t_submit;
        self.turn.writes.push(JobWrite::Insert {
            id,
            userid,
            t_submit,
            flags: flags.0,
            jobspec: jobspec.clone(),
            j,
            key: key.map(Into::into),
        });
        self.count(job.state, 1);
        self.known.add(id, userid);
        self.waits.add_job(&job);
        self.jobs.insert(id, Box::new(Record::new(job, jobspec)));
        self.stats.submits += 1;
        if parameterized {
            self.become_parent(id);
        }
        self.settle(id);
        Ok(SubmitResponse {
            id,
            seq: self.seq.0,
            known: false,
        })
    }
}

/// A submission that was looked at: `J` and the jobspec without environment, both in memory of their own.
pub(crate) struct Ingested {
    pub(crate) j: Bytes,
    pub(crate) jobspec: Bytes,
    /// It never runs: others are dispatched from it.
    pub(crate) parameterized: bool,
}

/// # Errors
/// It says of itself that it was dispatched: only a dispatch makes such a job.
fn only_from_dispatch(jobspec: &Jobspec) -> Result<(), Refusal> {
    match &jobspec.weir {
        Some(weir) if weir.parent.is_some() => Err(Refusal::new(
            errno::EINVAL,
            "attributes.system.weir.parent: only job-manager.dispatch makes a job that has one",
        )),
        _ => Ok(()),
    }
}

/// # Errors
/// The signer is not who asks; or a guest's user id was not seen by this machine's kernel, so that an unsigned `J` proves nothing.
fn signed_by(call: &Call, signer: u32) -> Result<(), Refusal> {
    let requestor = call.cred.userid;
    if signer != requestor {
        return Err(Refusal::new(
            errno::EPERM,
            format!("signer={signer} != requestor={requestor}"),
        ));
    }
    if !call.cred.is_owner() && call.cred.rolemask & ROLE_LOCAL == 0 {
        return Err(Refusal::new(
            errno::EPERM,
            "only instance owner can use sign-type=none",
        ));
    }
    Ok(())
}

/// Flux's numbers: what is no JSON is EINVAL, what a validator refuses EPERM.
fn refused(error: &JobspecError) -> Refusal {
    match error {
        JobspecError::Json(error) => {
            Refusal::new(errno::EINVAL, format!("jobspec: invalid JSON: {error}"))
        }
        error => Refusal::new(errno::EPERM, error.to_string()),
    }
}

/// A jobspec the owner wants taken as it is; it must be a JSON object all the same, since it is shown as one.
fn unvalidated(json: &[u8]) -> Result<Bytes, Refusal> {
    let stripped = job::jobspec::strip_environment(json).map_err(|error| refused(&error))?;
    if stripped.first() == Some(&b'{') {
        Ok(stripped)
    } else {
        Err(Refusal::new(errno::EPERM, "jobspec: expected an object"))
    }
}
