//! What the manager can ask for. The shell performs each at once and in order.
//!
//! Everything but [`Action::Commit`] has already waited for the entries it rests on (see `pending.rs`): the shell may send it as it is.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use job::{Entry, JobId, JobResult, Seq, Timestamp};
use wire::Topic;

use crate::input::{Key, Sender, Token};

/// One thing to do.
#[derive(Debug, Clone)]
#[must_use]
pub enum Action {
    /// Store this, all or nothing, after every commit before it; then say [`crate::Input::Durable`] with its last seq.
    Commit(Commit),
    /// Answer a request.
    Respond {
        /// Which.
        token: Token,
        /// A payload (JSON without NUL) or none, or a refusal.
        result: Result<Option<Bytes>, Refusal>,
        /// No more answers follow; the token is free.
        last: bool,
    },
    /// Ask an engine (matchtag 0).
    Request {
        /// The connection that said hello.
        to: Sender,
        /// `sched.alloc`, `job-exec.kill` …
        topic: Topic,
        /// JSON without NUL.
        payload: Bytes,
        /// Set the flag of that name.
        noresponse: bool,
    },
    /// Ask the exec service to start a job: a request (matchtag 0) whose `J` the shell reads from the store and puts in with [`with_j`].
    Start {
        /// The connection that said exec-hello.
        to: Sender,
        /// `job-exec.start`.
        topic: Topic,
        /// Whose `J`. It is durable by now.
        id: JobId,
        /// `{id,userid,jobspec,reattach,R}`: JSON without NUL and without `J`.
        payload: Bytes,
    },
    /// Send an event message to those who subscribed.
    Publish {
        /// `job-exception`, `shell-123.kill`.
        topic: Topic,
        /// JSON without NUL.
        payload: Bytes,
        /// Private: only for the owner and this user.
        private_to: Option<u32>,
    },
    /// The answer to [`crate::Input::Read`]: what was applied when it was asked is durable now.
    Ready(Token),
    /// Look in the store for the job of a key: answered by [`crate::Input::KeysFound`]. What was decided before is in the store by now.
    FindKey(Key),
    /// Read the `J` of an active job: answered by [`crate::Input::JRead`]. It is in the store by now.
    ReadJ(JobId),
    /// Look in the store for jobs that ended: answered by [`crate::Input::Found`]. One at a time.
    Find(Find),
    /// The files of these jobs are to go: they are purged, and it is durable. Answered by [`crate::Input::Swept`]. A job's file that
    /// somebody still uses stays.
    Sweep {
        /// The entry that purged them: the name of this request.
        batch: Seq,
        /// Whose.
        jobs: Vec<JobId>,
    },
    /// The instance was asked to end, and who asked was told that it does: end this process, and say so to whoever keeps it running.
    ShutDown,
    /// This peer broke the protocol, or more cannot be taken from it: close its connection. It has been forgotten already.
    Close {
        /// The connection.
        sender: Sender,
        /// For the log.
        why: &'static str,
    },
}

/// Which jobs that ended are looked for. Those that ended first come first, then by id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Find {
    /// Which.
    pub which: Which,
    /// So many are named.
    pub limit: usize,
    /// How many there are is wanted, too.
    pub count: bool,
}

/// See [`Find`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Which {
    /// All that ended.
    All,
    /// Those that break a limit. A job whose result is still to be waited for breaks none, but counts for `keep`.
    Beyond {
        /// Ended before that.
        before: Option<Timestamp>,
        /// All but so many that ended last.
        keep: Option<u64>,
    },
}

/// What belongs together on disk. A handled input makes at most one.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// New entries, seqs ascending without a gap. Never empty.
    pub entries: Vec<Arc<Entry>>,
    /// Changes of the jobs' rows, in order.
    pub jobs: Vec<JobWrite>,
    /// Keys of `meta` to set; those with an empty value are to go.
    pub meta: Vec<(String, String)>,
}

/// One change of a job's row.
#[derive(Debug, Clone)]
pub enum JobWrite {
    /// A new job.
    Insert {
        /// Its id.
        id: JobId,
        /// Who submitted it.
        userid: u32,
        /// When.
        t_submit: Timestamp,
        /// Submit flags: 2 debug, 4 waitable, 8 novalidate.
        flags: u32,
        /// The jobspec without its environment.
        jobspec: Bytes,
        /// What was submitted, as it came.
        j: Bytes,
        /// The key it was submitted under; no other job of this user has it.
        key: Option<Box<str>>,
    },
    /// The resources a job was given, as the scheduler sent them.
    SetR {
        /// Which job.
        id: JobId,
        /// R version 1.
        r: Bytes,
    },
    /// The job has ended.
    Inactive {
        /// Which job.
        id: JobId,
        /// Time of its `clean`.
        t_inactive: Timestamp,
        /// How it ended.
        result: JobResult,
    },
    /// The result of a waitable job was taken: it is not to be restored.
    Consumed {
        /// Which job.
        id: JobId,
    },
    /// The job is to be forgotten.
    Delete {
        /// Which job.
        id: JobId,
    },
}

/// A request refused: an errno of [`wire::errno`] and a text for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Refusal {
    /// POSIX number.
    pub errnum: u32,
    /// One line, no final stop. None where Flux sends none.
    pub text: Option<Cow<'static, str>>,
}

impl Refusal {
    /// A refusal with a text.
    pub fn new(errnum: u32, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal {
            errnum,
            text: Some(text.into()),
        }
    }

    /// A refusal without one.
    pub fn bare(errnum: u32) -> Refusal {
        Refusal { errnum, text: None }
    }
}

/// The payload of [`Action::Start`] with `J` (base64 text, as stored) as its last key; JSON without NUL.
#[must_use]
pub fn with_j(payload: &[u8], j: &[u8]) -> Vec<u8> {
    let body = payload.strip_suffix(b"}").unwrap_or(payload);
    let mut whole = Vec::with_capacity(payload.len() + j.len() + 8);
    whole.extend_from_slice(body);
    whole.extend_from_slice(b",\"J\":\"");
    whole.extend_from_slice(j);
    whole.extend_from_slice(b"\"}");
    whole
}
