//! What is found broken, by the name of the promise.

/// The promises of the journal (`rfc/8_promises.md`), and what hangs on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Seq strictly rising in a stream; a job's entries in its order.
    Ordered,
    /// No entry twice in a stream; one answer to one request.
    Unique,
    /// No entry missing between two cursors but for filter, rights and purged jobs; and no other entry.
    Complete,
    /// What anyone was shown is in the store, whatever crashes.
    Durable,
    /// A cursor and its epoch go on exactly.
    Resumable,
    /// What cannot be continued is refused, naming both ends; what is old says so.
    Honest,
    /// Who does not read costs others nothing, and a bounded amount of memory.
    Isolated,
    /// job-info's lists are a fold of what is stored, and so are the job-manager's jobs.
    Listed,
    /// A listing shows what its reader was told before.
    ReadYourWrites,
    /// Everything comes to rest: what is asked is answered, streams catch up.
    Live,
}

impl Promise {
    /// As the specification names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Promise::Ordered => "ordered",
            Promise::Unique => "unique",
            Promise::Complete => "complete",
            Promise::Durable => "durable",
            Promise::Resumable => "resumable",
            Promise::Honest => "honest",
            Promise::Isolated => "isolated",
            Promise::Listed => "listed",
            Promise::ReadYourWrites => "read-your-writes",
            Promise::Live => "live",
        }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", promise.name())]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// What was met, and what was expected.
    pub what: String,
}

impl Violation {
    /// Of this promise.
    pub fn of(promise: Promise, what: impl Into<String>) -> Violation {
        Violation {
            promise,
            what: what.into(),
        }
    }
}

/// What a step comes to.
pub type Outcome = Result<(), Violation>;
