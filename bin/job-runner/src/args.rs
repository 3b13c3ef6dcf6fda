//! The command line of the engine and of a node process. (A shepherd has none: it is told apart before this is looked at.)

use std::path::PathBuf;

use clap::Parser;

use crate::engine::Config;
use crate::engine::machine::NODES_MAX;
use crate::node::NodeConfig;

/// The longest grace, in seconds: a day.
pub const KILL_GRACE_S_MAX: f64 = 86_400.0;
/// The most shepherds a node keeps ready.
pub const SPARES_MAX: usize = 256;
/// The longest name of a pool, in bytes.
pub const POOL_LEN_MAX: usize = 64;
/// The program, as it names itself.
pub const NAME: &str = "weir-job-runner";

/// The embedded engine: schedules and runs jobs on this machine.
#[derive(Debug, Parser)]
#[command(name = NAME, version, about)]
pub struct Args {
    /// The instance to work for
    #[arg(long, env = "WEIR_URI", required_unless_present = "node", value_parser = uri)]
    pub uri: Option<String>,
    /// The instance's state directory
    #[arg(long)]
    pub statedir: PathBuf,
    /// Present this machine as so many nodes, each with all its cores
    #[arg(short = 's', long, default_value_t = 1, value_name = "N", value_parser = nodes)]
    pub nodes: u32,
    /// Cores of each node, as a set of CPU numbers [default: all this process may use]
    #[arg(long, value_name = "IDSET", value_parser = cores)]
    pub cores: Option<sched::Set>,
    /// GPUs of each node [default: those found]
    #[arg(long, value_name = "IDSET", value_parser = idset)]
    pub gpus: Option<sched::Set>,
    /// Seconds between SIGTERM and SIGKILL when a job is to end
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = grace)]
    pub kill_grace: f64,
    /// Shepherds each node keeps ready [default: one a core, at most 4]
    #[arg(long, value_name = "N", value_parser = spares)]
    pub spares: Option<usize>,
    /// The pool its nodes belong to
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = pool)]
    pub pool: String,
    /// End all jobs when the process that started the engine ends
    #[arg(long)]
    pub die_with_supervisor: bool,
    /// Whether it ends with the process that started it
    #[command(flatten)]
    pub parent: daemon::StopWithParent,
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

fn cores(text: &str) -> Result<sched::Set, String> {
    idset(text).and_then(|cores| {
        if cores.is_empty() {
            return Err("expected at least one core".to_owned());
        }
        Ok(cores)
    })
}

fn nodes(text: &str) -> Result<u32, String> {
    let nodes = text.parse().ok();
    nodes
        .filter(|nodes| (1..=NODES_MAX).contains(nodes))
        .ok_or_else(|| format!("expected a number of nodes from 1 to {NODES_MAX}"))
}

fn spares(text: &str) -> Result<usize, String> {
    let spares = text.parse().ok();
    spares
        .filter(|spares| *spares <= SPARES_MAX)
        .ok_or_else(|| format!("expected a number of shepherds from 0 to {SPARES_MAX}"))
}

fn pool(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > POOL_LEN_MAX || !text.chars().all(is_name) {
        return Err(format!(
            "expected 1 to {POOL_LEN_MAX} letters, digits, '-', '_' or '.'"
        ));
    }
    Ok(text.to_owned())
}

fn grace(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.0..=KILL_GRACE_S_MAX).contains(seconds))
        .ok_or_else(|| format!("expected seconds from 0 to {KILL_GRACE_S_MAX}"))
}

fn uri(text: &str) -> Result<String, String> {
    rpc::uri::socket_path(text).map_err(|reason| reason.to_string())?;
    Ok(text.to_owned())
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
                pool: self.pool,
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

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::one_line;

    fn wrong(arguments: &[&str]) -> String {
        let all = ["x", "--statedir=/s", "--uri=local:///s/socket"];
        one_line(&Args::try_parse_from(all.iter().chain(arguments)).unwrap_err())
    }

    #[test]
    fn what_is_wrong_with_an_argument_is_one_line_with_the_value_and_the_range() {
        for (arguments, expected) in [
            (
                &["-s", "1025"][..],
                "invalid value '1025' for '--nodes <N>': expected a number of nodes from 1 to 1024",
            ),
            (
                &["-s", "0"],
                "invalid value '0' for '--nodes <N>': expected a number of nodes from 1 to 1024",
            ),
            (
                &["--kill-grace=nan"],
                "invalid value 'nan' for '--kill-grace <SECONDS>': expected seconds from 0 to 86400",
            ),
            (
                &["--spares=1000000"],
                "invalid value '1000000' for '--spares <N>': expected a number of shepherds from 0 to 256",
            ),
            (
                &["--cores="],
                "invalid value '' for '--cores <IDSET>': expected at least one core",
            ),
            (
                &["--cores=3-1"],
                "invalid value '3-1' for '--cores <IDSET>': '3-1' is not a set of numbers such as 0-3,5",
            ),
            (
                &["--pool=a b"],
                "invalid value 'a b' for '--pool <NAME>': expected 1 to 64 letters, digits, '-', '_' or '.'",
            ),
            (
                &["--frobnicate"],
                "unexpected argument '--frobnicate' found",
            ),
        ] {
            assert_eq!(wrong(arguments), expected);
        }
        let missing = Args::try_parse_from(["x", "--uri=local:///s/socket"]).unwrap_err();
        assert_eq!(
            one_line(&missing),
            "the following required arguments were not provided: --statedir <STATEDIR>"
        );
    }
}
