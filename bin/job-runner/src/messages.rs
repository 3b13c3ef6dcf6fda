//! What engine, node process and shepherd say to one another: JSON objects, one a line.
//!
//! ```text
//!  engine ── ToNode ──▶ node ── ToShepherd ──▶ shepherd
//!         ◀─ FromNode ─      ◀─ FromShepherd ─
//! ```
//! Facts travel up, and every fact may be told again: whoever takes one in must not mind. A node process tells all it knows of a
//! job whenever it is asked to `start` it.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// Engine to node process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToNode {
    /// First message on a connection: an engine of this instance, which knows its key. Without it a connection is closed.
    Engine {
        /// What stands in `STATEDIR/key`.
        key: String,
    },
    /// Run this, if it has not been run yet; tell all that is known of it.
    Start {
        /// Job id.
        id: u64,
        /// This part's rank, and how many parts there are.
        rank: u32,
        /// See `rank`.
        nnodes: u32,
        /// The job's directory.
        dir: String,
        /// It did start once: never begin it, only find out.
        reattach: bool,
        /// An [`crate::order::Order`].
        order: Box<RawValue>,
    },
    /// Pass on to the job's shepherd.
    Tell {
        /// Job id.
        id: u64,
        /// What.
        what: ToShepherd,
    },
    /// The job-manager has its end: forget it.
    Forget {
        /// Job id.
        id: u64,
    },
    /// The engine ends for good: end too as soon as no job is left.
    Retire {},
}

/// Node process to shepherd. The first line to a shepherd is its order, not one of these.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToShepherd {
    /// Send a signal to every process of the job.
    Signal {
        /// Its number.
        signum: i32,
    },
    /// SIGTERM now, SIGKILL after the grace.
    Cancel {},
    /// The time limit is now another.
    Expiration {
        /// Seconds since 1970; 0 is none.
        expiration: f64,
    },
    /// Standard input for tasks.
    Stdin {
        /// For the answer.
        tag: u64,
        /// Which tasks (global ranks); none means all.
        ranks: Option<Vec<u32>>,
        /// Data, base64.
        data: Option<String>,
        /// Nothing follows.
        eof: bool,
    },
    /// Say that you are well.
    Ping {},
    /// End the job at once: whoever looks after this node is going.
    Die {},
}

/// Shepherd to node process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FromShepherd {
    /// The claim is taken and the body begun. Left out if the end follows at once.
    Started {},
    /// Something went wrong with the job.
    Exception(Exception),
    /// All processes are gone, and this is how it went.
    Ended(Ended),
    /// Answer to [`ToShepherd::Ping`].
    Pong {},
    /// This is the last job of this process.
    Leaving {},
    /// It was told to end before it could begin, and will not.
    NotBegun {
        /// Exceptions for it.
        exceptions: Vec<Exception>,
    },
    /// A [`ToShepherd::Stdin`] was taken; 0 or an errno.
    Stdin {
        /// Its tag.
        tag: u64,
        /// 0, or an errno.
        errnum: u32,
    },
    /// The claim could not be taken.
    Refused {
        /// Why.
        note: String,
    },
}

/// Node process to engine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FromNode {
    /// First message on a connection.
    Hello {
        /// The node's name.
        name: String,
        /// The node process.
        pid: u32,
        /// The jobs it looks after.
        jobs: Vec<u64>,
    },
    /// A fact about a job.
    Job {
        /// Its id.
        id: u64,
        /// What.
        fact: Fact,
    },
    /// Answer to a [`ToShepherd::Stdin`].
    Stdin {
        /// Job id.
        id: u64,
        /// Its tag.
        tag: u64,
        /// 0, or an errno.
        errnum: u32,
    },
}

/// A fact about one part of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fact {
    /// Its body began.
    Started,
    /// Something went wrong.
    Exception(Exception),
    /// It is over, its processes are gone, its part of the node is free.
    Ended(Ended),
}

/// What `exception` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exception {
    /// 0 is fatal.
    pub severity: u32,
    /// One word.
    #[serde(rename = "type")]
    pub kind: String,
    /// For people.
    pub note: String,
}

impl Exception {
    /// A fatal one.
    #[must_use]
    pub fn fatal(kind: &str, note: impl Into<String>) -> Exception {
        Exception {
            severity: 0,
            kind: kind.to_owned(),
            note: note.into(),
        }
    }
}

/// How one part of a job ended. The line in its `status` file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Wait status; none if nobody knows.
    pub status: Option<i32>,
    /// Exceptions raised on the way, for whoever was not there to hear them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<Exception>,
}

/// A message as one line, newline included.
#[must_use]
pub fn to_line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = Vec::with_capacity(128);
    // These types always have a JSON form; an empty line is ignored by the reader.
    if serde_json::to_writer(&mut line, message).is_err() {
        line.clear();
    }
    line.push(b'\n');
    line
}

/// Reads one line.
/// # Errors
/// What serde_json says of it.
pub fn from_line<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(line)
}
