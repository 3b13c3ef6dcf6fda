//! What this machine has: its name, the cores we may use, GPUs; and the nodes it is presented as.

use sched::{NodeSpec, Set};

/// Nodes one machine may be presented as: each has a process.
pub const NODES_MAX: u32 = 1024;
/// Jobs offered to the scheduler at a time, at least.
const LIMIT_MIN: u32 = 16;

/// Cores this process may use: those of its affinity mask, no more than its cgroup's quota pays for.
#[must_use]
pub fn cores() -> Set {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut cores = Set::new();
    if let Ok(allowed) = rustix::thread::sched_getaffinity(None) {
        let ids = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        for core in ids.take(count) {
            cores.insert(u32::try_from(core).unwrap_or(u32::MAX));
        }
    }
    if cores.is_empty() {
        Set::first(1)
    } else {
        cores
    }
}

/// GPUs whose device files are there.
#[must_use]
pub fn gpus() -> Set {
    (0..64)
        .filter(|gpu| std::path::Path::new(&format!("/dev/nvidia{gpu}")).exists())
        .collect()
}

/// The machine's name.
#[must_use]
pub fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The machine as `count` nodes: one bears its name, more of them its name and a number; each has all its cores.
#[must_use]
pub fn nodes(count: u32, cores: &Set, gpus: &Set) -> Vec<NodeSpec> {
    let host = hostname();
    (0..count.max(1))
        .map(|rank| NodeSpec {
            host: if count <= 1 {
                host.clone()
            } else {
                format!("{host}-{rank}")
            },
            cores: cores.clone(),
            gpus: gpus.clone(),
        })
        .collect()
}

/// How many jobs the job-manager shall offer at a time.
#[must_use]
pub fn limit(nodes: &[NodeSpec]) -> u32 {
    let cores: u32 = nodes.iter().map(|node| node.cores.len()).sum();
    cores.saturating_mul(4).max(LIMIT_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_bears_the_machines_name_and_several_are_numbered() {
        let cores = cores();
        assert!(!cores.is_empty());
        let one = nodes(1, &cores, &Set::new());
        assert_eq!(one[0].host, hostname());
        let three = nodes(3, &cores, &Set::new());
        assert_eq!(three[2].host, format!("{}-2", hostname()));
        assert_eq!(limit(&nodes(1, &Set::first(2), &Set::new())), 16);
        assert_eq!(limit(&nodes(4, &Set::first(8), &Set::new())), 128);
    }
}
