//! What a shepherd is told to run: everything one node's part of a job needs, and nothing it would have to ask for.
//!
//! Made by the engine from a `start` request, carried by the node process unread, read by the shepherd. JSON, one line.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest order, in bytes of JSON.
pub const ORDER_LEN_MAX: usize = 16 << 20;

/// One node's part of a job.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Job id.
    pub id: u64,
    /// This part's rank.
    pub rank: u32,
    /// The lowest rank of the job: its shepherd sees to what is done once.
    pub leader_rank: u32,
    /// How many parts there are.
    pub nnodes: u32,
    /// This part's place among them.
    pub node_index: u32,
    /// Host name, as the engine presents the node.
    pub host: String,
    /// All hosts of the job, as a hostlist.
    #[serde(default)]
    pub nodelist: String,
    /// The job's directory.
    pub dir: String,
    /// The instance's URI, for the job's environment.
    pub uri: String,
    /// `UID-shell-F58`, announced in the exec eventlog.
    pub service: String,
    /// The job's name.
    pub name: String,
    /// Tasks of the whole job.
    pub ntasks_total: u32,
    /// Global rank of the first task here.
    pub first_task: u32,
    /// Tasks here.
    pub ntasks: u32,
    /// RFC 34 map of tasks to nodes.
    pub taskmap: Box<RawValue>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Where it runs; none means where the shepherd is.
    pub cwd: Option<String>,
    /// The environment, a JSON object of strings.
    pub environment: Option<Box<RawValue>>,
    /// Soft limits by RFC name, as in `shell.options.rlimit`.
    pub rlimit: Vec<(String, i64)>,
    /// File mode creation mask.
    pub umask: Option<u32>,
    /// Where standard input comes from.
    pub stdin: Stdin,
    /// Where standard output goes.
    pub stdout: Output,
    /// Where standard error goes.
    pub stderr: Output,
    /// Cores of this part.
    pub cores: Vec<u32>,
    /// GPUs of this part.
    pub gpus: Vec<u32>,
    /// Whether tasks are bound to cores.
    pub pin: Pin,
    /// When the time limit ends, seconds since 1970; 0 is none.
    pub expiration: f64,
    /// Seconds between the polite signal and SIGKILL.
    pub kill_grace_s: f64,
    /// Output beyond this many bytes is thrown away.
    pub output_bytes_max: u64,
}

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stdin {
    /// The shell service's `stdin` RPC.
    Service,
    /// A file.
    File(String),
    /// This, base64, and then the end: every task gets it.
    Data(String),
}

/// Where an output stream goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// `output.eventlog`.
    Log,
    /// A file, opened in the job's working directory.
    File {
        /// Its name, templates not yet filled in.
        path: String,
        /// Put `RANK: ` before each line.
        label: bool,
        /// Keep what is in it.
        append: bool,
    },
    /// Where standard output goes.
    Stdout,
}

/// Whether tasks are bound to cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pin {
    /// Not at all.
    Off,
    /// Each to all cores of this part.
    Job,
    /// Each to its share of them.
    Task,
}

impl Order {
    /// Whether this part's shepherd sees to what is done once a job.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.rank == self.leader_rank
    }

    /// The name of one of this part's own files: `claim` for a job of one part, else `claim.RANK`.
    #[must_use]
    pub fn part_file(&self, name: &str) -> String {
        part_file(name, self.rank, self.nnodes)
    }
}

/// The name of a file that every part of a job has.
#[must_use]
pub fn part_file(name: &str, rank: u32, nnodes: u32) -> String {
    if nnodes <= 1 {
        name.to_owned()
    } else {
        format!("{name}.{rank}")
    }
}
