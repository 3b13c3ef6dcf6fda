//! Processes of a job whose shepherd is dead: found, killed, and found to be gone.
//!
//! Those that fell to this node process are its children and no shepherds. Those of an earlier node process fell to someone else;
//! they are found by the session their shepherd led, or by the job's name in their environment.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::proc::{self, Stat};
use crate::shepherd::claim::Claimant;

/// Kills every child of ours that is no shepherd. True if there is none.
pub(crate) fn kill_strays(is_shepherd: impl Fn(i32) -> bool) -> bool {
    let mut none = true;
    for pid in proc::children(rustix::process::getpid().as_raw_nonzero().get()) {
        if is_shepherd(pid) {
            continue;
        }
        let Some(stat) = proc::stat(pid) else {
            continue;
        };
        if stat.state == b'Z' {
            continue;
        }
        none = false;
        kill(stat);
    }
    none
}

fn kill(stat: Stat) {
    let Some(pid) = Pid::from_raw(stat.pid) else {
        return;
    };
    if stat.group == stat.pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = kill_process(pid, Signal::KILL);
}

/// Kills what a lost job of an earlier shepherd has left. True if nothing is left.
pub(crate) fn kill_left_behind(claimant: &Claimant, id: job::JobId, uri: &str) -> bool {
    // After a restart of the machine nothing can be left, and its process ids mean others. What a copy speaks of is another instance's.
    if claimant.boot != proc::boot_id() || claimant.is_copied() {
        return true;
    }
    let settings = |id: String| [format!("WEIR_URI={uri}"), format!("WEIR_JOB_ID={id}")];
    let spellings = [settings(id.f58(false)), settings(id.f58(true))];
    // Should the leader be alive, the number was given to someone else since.
    let session_is_theirs = claimant.pid > 1 && proc::stat(claimant.pid).is_none();
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let mut none = true;
    for stat in proc::all() {
        if stat.state == b'Z' || stat.pid == me {
            continue;
        }
        let theirs = (session_is_theirs && stat.session == claimant.pid)
            || spellings
                .iter()
                .any(|settings| proc::environment_has(stat.pid, settings));
        if theirs {
            none = false;
            kill(stat);
        }
    }
    none
}
