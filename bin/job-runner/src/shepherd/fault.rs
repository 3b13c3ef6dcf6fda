//! A hook for tests: `WEIR_SHEPHERD_DIE_AT=STEP[@FILE]` makes a shepherd SIGKILL itself at a step of the claim protocol.
//!
//! With `@FILE` only the shepherd that manages to create FILE dies: the next one goes on. Not set, this costs one look into the
//! environment a step.

use std::fs::OpenOptions;

/// Steps of the claim protocol, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The directory is there, the claim is not.
    AfterMkdir,
    /// The claim is there and locked, "executing" is not in it.
    AfterClaim,
    /// The room for the status is taken, "executing" is not in the claim.
    AfterReserve,
    /// "executing" is written, nothing was run.
    AfterExecuting,
    /// The tasks run.
    AfterExec,
    /// All processes are gone, the status is not written.
    BeforeStatus,
    /// The status is written, nobody was told.
    AfterStatus,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::AfterMkdir => "after-mkdir",
            Step::AfterClaim => "after-claim",
            Step::AfterReserve => "after-reserve",
            Step::AfterExecuting => "after-executing",
            Step::AfterExec => "after-exec",
            Step::BeforeStatus => "before-status",
            Step::AfterStatus => "after-status",
        }
    }
}

/// Dies here if the environment says so.
pub(crate) fn at(step: Step) {
    let Some(wanted) = std::env::var_os("WEIR_SHEPHERD_DIE_AT") else {
        return;
    };
    let Some(wanted) = wanted.to_str() else {
        return;
    };
    let (name, once) = match wanted.split_once('@') {
        Some((name, file)) => (name, Some(file)),
        None => (wanted, None),
    };
    if name != step.name() {
        return;
    }
    if once.is_none_or(|file| {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .is_ok()
    }) {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
