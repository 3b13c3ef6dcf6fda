//! Options for what starts the tasks (`-o`): those that weir heeds, and words for the others.
//!
//! All are passed on in the jobspec, as Flux has it. One that nobody heeds is said once, since a typing error would otherwise never be noticed.

use crate::failure;
use crate::output::complain;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What the engine heeds.
const HEEDED: [&str; 6] = [
    "cpu-affinity",
    "input",
    "output",
    "per-resource",
    "rlimit",
    "umask",
];
/// What Flux's shell heeds, and weir's engine does not.
const OF_FLUX: [&str; 27] = [
    "cgroup",
    "exit-on-error",
    "exit-timeout",
    "gpu-affinity",
    "hostfile",
    "hwloc",
    "initrc",
    "mpi",
    "nosetpgrp",
    "oom",
    "pmi",
    "pmi-simple",
    "pmix",
    "pty",
    "rexec-shutdown-timeout",
    "signal",
    "singleton",
    "stage-in",
    "stop-tasks-in-group",
    "stop-tasks-on",
    "sysmonitor",
    "taskmap",
    "tmpdir",
    "unbuffered",
    "userrc",
    "verbose",
    "world",
];
/// So many are told apart.
const WARNED_MAX: usize = 64;

static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says once that an option is not heeded, if it is not.
pub fn warn(path: &str) {
    let Some(text) = of(path) else { return };
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.len() < WARNED_MAX && warned.insert(path.to_owned()) {
        complain(&format!("{}warning: {text}", failure::lead()));
    }
}

/// What is to be said of an option; `None` if it is heeded.
fn of(path: &str) -> Option<String> {
    let name = path.split('.').next().unwrap_or_default();
    if HEEDED.contains(&name) {
        None
    } else if OF_FLUX.contains(&name) {
        Some(format!("-o {path}: this option of Flux has no effect here"))
    } else {
        Some(format!(
            "-o {path}: no such option; it has no effect; there are {}",
            HEEDED.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_heeds_is_named() {
        assert_eq!(of("cpu-affinity"), None);
        assert_eq!(of("output.stdout.label"), None);
        assert!(of("pmi-simple.nomap").is_some_and(|text| text.contains("of Flux")));
        assert!(
            of("cpu-afinity").is_some_and(
                |text| text.contains("no such option") && text.contains("cpu-affinity")
            )
        );
    }
}
