//! Signals to every process of a job: its tasks' process groups, and whoever left them.
//!
//! A group is signalled by the kernel in one step, so no fork escapes it. Processes outside of the groups are found by walking our
//! descendants (we are their subreaper, so they stay below us); one that forks meanwhile is caught by the next round.

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use crate::proc;

/// Sends `signal` to the groups led by `leaders`, none of which has been reaped yet, and to all other descendants.
pub(crate) fn signal_all(leaders: &[Pid], signal: Signal) {
    for leader in leaders {
        let _ = kill_process_group(*leader, signal);
    }
    for pid in proc::descendants(getpid().as_raw_nonzero().get()) {
        let Some(stat) = proc::stat(pid) else {
            continue;
        };
        let in_group = leaders
            .iter()
            .any(|leader| leader.as_raw_nonzero().get() == stat.group);
        if let (false, false, Some(pid)) = (in_group, stat.state == b'Z', Pid::from_raw(pid)) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Whether a signal ends a process that does nothing about it.
pub(crate) fn is_deadly(signum: i32) -> bool {
    let Some(signal) = Signal::from_named_raw(signum) else {
        return false;
    };
    ![
        Signal::CONT,
        Signal::STOP,
        Signal::TSTP,
        Signal::TTIN,
        Signal::TTOU,
        Signal::CHILD,
        Signal::WINCH,
        Signal::URG,
    ]
    .contains(&signal)
}
