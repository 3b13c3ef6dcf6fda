//! The options that describe a job, shared by `weir submit` and `weir run`; names as in Flux.
//!
//! Only their form is checked here; [`super::build`] turns them into a jobspec.

use crate::when;
use clap::Args;
use job::{Urgency, UrgencyError};

/// What a job is to be: resources, limits, surroundings, command.
#[derive(Debug, Clone, Args)]
pub struct JobOptions {
    /// Number of tasks [default: 1]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Resources")]
    pub ntasks: Option<u32>,

    /// Cores for each task
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Resources")]
    pub cores_per_task: u32,

    /// GPUs for each task
    #[arg(
        short = 'g',
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Resources"
    )]
    pub gpus_per_task: u32,

    /// Number of nodes; without -n the nodes are taken whole
    #[arg(short = 'N', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Resources")]
    pub nodes: Option<u32>,

    /// Take the nodes of -N whole
    #[arg(short = 'x', long, requires = "nodes", help_heading = "Resources")]
    pub exclusive: bool,

    /// Tasks on each node, instead of -n
    #[arg(long, value_name = "N", requires = "nodes", conflicts_with = "ntasks", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Resources")]
    pub tasks_per_node: Option<u32>,

    /// Time limit: minutes, or a duration such as 30s, 1.5h, 2d; 0 is no limit
    #[arg(short = 't', long, value_name = "MINUTES|FSD", value_parser = when::time_limit, allow_hyphen_values = true, help_heading = "Resources")]
    pub time_limit: Option<f64>,

    /// Kind of job: batch runs once, sysbatch once on every node that is up and not drained
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value = "batch",
        hide_default_value = true,
        help_heading = "Kind"
    )]
    pub kind: Kind,

    /// A job that never runs: others are made from it with 'weir dispatch'
    #[arg(long, conflicts_with = "kind", help_heading = "Kind")]
    pub parameterized: bool,

    /// Keys that a dispatch must give a value for, joined by commas
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        requires = "parameterized",
        help_heading = "Kind"
    )]
    pub meta_required: Vec<String>,

    /// Keys that a dispatch may give a value for
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        requires = "parameterized",
        help_heading = "Kind"
    )]
    pub meta_optional: Vec<String>,

    /// Whether a dispatch comes with a payload, which the tasks read from standard input: optional, required, forbidden
    #[arg(
        long,
        value_name = "WORD",
        requires = "parameterized",
        hide_possible_values = true,
        help_heading = "Kind"
    )]
    pub payload: Option<Payload>,

    /// Queue to submit to
    #[arg(short = 'q', long, value_name = "NAME", help_heading = "Queueing")]
    pub queue: Option<String>,

    /// Bank to charge
    #[arg(short = 'B', long, value_name = "NAME", help_heading = "Queueing")]
    pub bank: Option<String>,

    /// Urgency: 0 to 31, hold (0), default (16) or expedite (31)
    #[arg(long, value_name = "N", default_value = "default", value_parser = urgency, hide_default_value = true, help_heading = "Queueing")]
    pub urgency: Urgency,

    /// Taken so that it can be refused in words: not built yet
    #[arg(long, value_name = "SCHEME:VALUE", hide = true)]
    pub dependency: Vec<String>,

    /// Likewise.
    #[arg(long, value_name = "WHEN", hide = true, allow_hyphen_values = true)]
    pub begin_time: Option<String>,

    /// Flags, separated by commas: waitable, debug, novalidate
    #[arg(
        long,
        value_name = "FLAGS",
        value_delimiter = ',',
        help_heading = "Queueing"
    )]
    pub flags: Vec<Flag>,

    /// Name shown in listings [default: the command's name]
    #[arg(
        short = 'J',
        long,
        alias = "name",
        value_name = "NAME",
        help_heading = "Job"
    )]
    pub job_name: Option<String>,

    /// Working directory [default: this one]
    #[arg(long, value_name = "DIR", help_heading = "Job")]
    pub cwd: Option<String>,

    /// Environment rule: -PATTERN, PATTERN, VAR=VALUE or ^FILE; may be given often, applied in order
    #[arg(
        long,
        value_name = "RULE",
        allow_hyphen_values = true,
        help_heading = "Job"
    )]
    pub env: Vec<String>,

    /// Resource limit rule: -PATTERN, PATTERN or NAME=VALUE; may be given often, applied in order
    #[arg(
        long,
        value_name = "RULE",
        allow_hyphen_values = true,
        help_heading = "Job"
    )]
    pub rlimit: Vec<String>,

    /// Write standard output to a file, and standard error too if --error is not given; in its name {{id}} is the job's id, {{name}} its name, and {cc} the number of --cc
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub output: Option<String>,

    /// Write standard error to a file, named likewise
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub error: Option<String>,

    /// Read standard input from a file; '-' is a pipe that 'weir job attach' writes to. Without it 'weir submit' gives none, 'weir run' its own
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub input: Option<String>,

    /// Put the task's rank before each line of output
    #[arg(short = 'l', long, help_heading = "Job")]
    pub label_io: bool,

    /// Do not gather the tasks' output into lines
    #[arg(short = 'u', long, help_heading = "Job")]
    pub unbuffered: bool,

    /// Option for what starts the tasks, e.g. cpu-affinity=per-task; without a value: 1
    #[arg(short = 'o', long, value_name = "KEY[=VALUE]", help_heading = "Job")]
    pub setopt: Vec<String>,

    /// Attribute of the jobspec, below system unless it starts with user. or a dot; the value is JSON, else text
    #[arg(long, value_name = "KEY[=VALUE]", help_heading = "Job")]
    pub setattr: Vec<String>,

    /// Print the jobspec and do not submit it
    #[arg(long, help_heading = "Job")]
    pub dry_run: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Runs once
    Batch,
    /// Runs once on every node that is ready
    Sysbatch,
}

/// Whether a dispatch comes with a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Payload {
    /// It may
    Optional,
    /// It must
    Required,
    /// It must not
    Forbidden,
}

/// A flag of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Flag {
    /// The job's result is kept until 'weir job wait' takes it
    Waitable,
    /// More events about the job
    Debug,
    /// Do not check the jobspec (owner only)
    Novalidate,
}

impl JobOptions {
    /// The flags as the bits of the request.
    #[must_use]
    pub fn flag_bits(&self) -> u32 {
        self.flags.iter().fold(0, |bits, flag| {
            bits | match flag {
                Flag::Debug => 2,
                Flag::Waitable => 4,
                Flag::Novalidate => 8,
            }
        })
    }
}

/// An urgency on the command line; the error states the range.
///
/// # Errors
/// What was met, and what is allowed.
pub fn urgency(text: &str) -> Result<Urgency, String> {
    text.parse::<Urgency>().map_err(|error| match error {
        UrgencyError::OutOfRange { .. } => {
            format!("{error}, or hold (0), default (16), expedite (31)")
        }
        other => other.to_string(),
    })
}
