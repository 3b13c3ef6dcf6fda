//! What can happen to the manager: requests, reports of the engines, durability, time.
//!
//! The shell turns messages into these and leaves nothing to be looked up: who asked ([`Sender`], [`wire::Cred`]), under which name an
//! answer is awaited ([`Token`]), what was said. Nothing here is read from a clock or a file.

use bytes::Bytes;
use job::{Event, JobId, Seq, Timestamp};
use wire::{Cred, Topic};

/// The shell's name of one request that awaits an answer. Never reused while the manager may still answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// One client connection, or one service process. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sender(pub u64);

/// All that can happen to the manager.
#[derive(Debug, Clone)]
pub enum Input {
    /// Once, after the last [`crate::Manager::restore_job`]. Posts no event.
    Start,
    /// A request for one of the manager's methods.
    Request(Call),
    /// One response of the scheduler or the exec service to one of our requests.
    ServiceResponse(Report),
    /// Several of them, read together: one commit, in this order.
    ServiceResponses(Vec<Report>),
    /// This connection is gone: its waits are forgotten; a scheduler or exec service is no longer there.
    Disconnect {
        /// The connection.
        sender: Sender,
    },
    /// All entries up to and including this one are on disk.
    Durable(Seq),
    /// The store has no room (`true`), or has room again (`false`).
    NoSpace(bool),
    /// The shell wants to read the store as of now: answered by [`crate::Action::Ready`].
    Read {
        /// Handed back.
        token: Token,
    },
    /// What [`crate::Action::FindKey`] found, of one or more of them.
    KeysFound(Vec<(Key, KeyFound)>),
    /// What [`crate::Action::ReadJ`] read: base64 text as it was submitted, or why it could not be read.
    JRead {
        /// Whose.
        id: JobId,
        /// See above.
        j: Result<Bytes, String>,
    },
    /// What [`crate::Action::Find`] found, or why it could not be looked for.
    Found(Result<Found, String>),
    /// The files of the jobs of a [`crate::Action::Sweep`] are gone, but for those of the jobs in `left`.
    Swept {
        /// As it was named there.
        batch: Seq,
        /// Whose files could not be removed yet.
        left: Vec<JobId>,
    },
    /// Time passed: takes up what [`Input::Start`] left owed, and looks after the limits ([`crate::Keep`]).
    Tick,
}

/// Jobs that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The first of them, as many as were asked for.
    pub jobs: Vec<JobId>,
    /// How many there are, if that was asked for.
    pub total: u64,
}

/// A user's key of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Whose.
    pub userid: u32,
    /// 1 to 255 bytes.
    pub text: Box<str>,
}

/// What the store knows of a [`Key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFound {
    /// No job has it.
    None,
    /// This one has.
    Job {
        /// Its id.
        id: JobId,
        /// Its jobspec without environment.
        jobspec: Bytes,
    },
    /// This one has, and it cannot be read.
    Damaged {
        /// Its id.
        id: JobId,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot be read.
    Failed {
        /// Why.
        why: String,
    },
}

/// One request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Names the answer.
    pub token: Token,
    /// Who asks.
    pub sender: Sender,
    /// Rights of who asks, as stamped by the broker.
    pub cred: Cred,
    /// The whole topic, `job-manager.urgency`.
    pub topic: Topic,
    /// The payload with its final NUL, as it came.
    pub payload: Option<Bytes>,
    /// The streaming flag was set.
    pub streaming: bool,
    /// No answer is wanted: none is ever given.
    pub noresponse: bool,
}

/// One response of an engine.
#[derive(Debug, Clone)]
pub struct Report {
    /// The connection it came on.
    pub from: Sender,
    /// The topic of the request it answers: `sched.alloc`, `job-exec.start`.
    pub topic: Topic,
    /// The payload with its final NUL, as it came.
    pub payload: Option<Bytes>,
    /// 0, or what the engine failed with.
    pub errnum: u32,
}

/// What the instance is; never changes while it runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The user who runs the instance.
    pub owner: u32,
    /// Guests may not learn of the jobs of others.
    pub private: bool,
}

/// What the store knew of the whole when it was opened.
#[derive(Debug, Clone)]
pub struct Recovered {
    /// The newest entry stored; 0 for none.
    pub newest_seq: Seq,
    /// The highest id ever given out; 0 for none.
    pub max_jobid: JobId,
    /// Timestamp of the newest entry; 0 for none.
    pub last_timestamp: Timestamp,
    /// All of the store's `meta` that the manager wrote (more keys do no harm).
    pub meta: Vec<(String, String)>,
}

/// A job read back from the store: every active one, and every inactive one whose result may still be waited for.
#[derive(Debug, Clone)]
pub struct StoredJob<'a> {
    /// Its id.
    pub id: JobId,
    /// Its jobspec without environment, as given by [`crate::JobWrite::Insert`].
    pub jobspec: Bytes,
    /// Its R as given by [`crate::JobWrite::SetR`].
    pub r: Option<Bytes>,
    /// All its entries in order, the live-only ones too.
    pub events: &'a [Event],
}
