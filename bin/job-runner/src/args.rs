//! The command line of the engine and of a node process. (A shepherd has none: it is told apart before this is looked at.)

use std::path::PathBuf;

use clap::Parser;

use crate::engine::Config;
use crate::node::NodeConfig;

/// The embedded engine: schedules and runs jobs on this machine.
#[derive(Debug, Parser)]
#[command(name = "weir-job-runner", version, about)]
pub struct Args {
    /// The instance to work for
    #[arg(long, env = "WEIR_URI", required_unless_present = "node")]
    pub uri: Option<String>,
    /// The instance's state directory
    #[arg(long)]
    pub statedir: PathBuf,
    /// Present this machine as so many nodes, each with all its cores
    #[arg(short = 's', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub nodes: u32,
    /// Cores of each node, as a set of CPU numbers [default: all this process may use]
    #[arg(long, value_name = "IDSET", value_parser = idset)]
    pub cores: Option<sched::Set>,
    /// GPUs of each node [default: those found]
    #[arg(long, value_name = "IDSET", value_parser = idset)]
    pub gpus: Option<sched::Set>,
    /// Seconds between SIGTERM and SIGKILL when a job is to end
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub kill_grace: f64,
    /// Shepherds each node keeps ready [default: one a core, at most 4]
    #[arg(long, value_name = "N")]
    pub spares: Option<usize>,
    /// End all jobs when the process that started the engine ends
    #[arg(long)]
    pub die_with_supervisor: bool,
    /// Stop when the process that started the engine ends; jobs go on
    #[arg(long)]
    pub stop_with_parent: bool,
    /// Run as the process of one node
    #[arg(long, value_name = "NAME", hide = true)]
    pub node: Option<String>,
    /// The process whose end ends all jobs
    #[arg(long, value_name = "PID", hide = true)]
    pub supervisor: Option<u32>,
}

fn idset(text: &str) -> Result<sched::Set, String> {
    sched::Set::parse(text).ok_or_else(|| format!("'{text}' is not a set of numbers such as 0-3,5"))
}

impl Args {
    fn supervisor(&self) -> Option<u32> {
        let parent =
            || rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        self.supervisor
            .or_else(|| self.die_with_supervisor.then(parent).flatten())
    }

    /// The role this process was given.
    #[must_use]
    pub fn role(self) -> Role {
        let supervisor = self.supervisor();
        // A state directory named relative to where we are must not change its meaning in children.
        let statedir = std::path::absolute(&self.statedir).unwrap_or(self.statedir);
        match self.node {
            Some(name) => Role::Node(NodeConfig {
                name,
                statedir,
                spares: self.spares.unwrap_or(1),
                supervisor,
            }),
            None => Role::Engine(Config {
                uri: self.uri.unwrap_or_default(),
                statedir,
                nodes: self.nodes,
                cores: self.cores,
                gpus: self.gpus,
                kill_grace_s: self.kill_grace,
                spares: self.spares,
                supervisor,
            }),
        }
    }
}

/// What a process of this binary is.
#[derive(Debug)]
pub enum Role {
    /// The engine.
    Engine(Config),
    /// The process of one node.
    Node(NodeConfig),
}
