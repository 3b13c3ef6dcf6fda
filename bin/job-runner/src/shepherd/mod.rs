//! One job's own small process: claim, run the tasks, keep their output, end them, leave their status on disk.
//!
//! ```text
//!  exec ─▶ spare ── order ──▶ claim ─▶ executing ─▶ tasks run ─▶ tasks ended ─▶ nobody left ─▶ status ─▶ ended
//!          ▲ │ node gone        │ refused             │ limit, cancel, node gone  │ leftovers: SIGTERM,        │
//!          │ ▼                  ▼                     ▼ SIGALRM, SIGTERM, SIGKILL ▼ SIGKILL after the grace    │
//!          │ exit             told, exit                                                                       │
//!          └───────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! It is started before it is needed and waits for its order as a spare, so that a job does not wait for an exec of ours; when a
//! job is over and nothing of it is left, the same process may serve the next one, never two at a time. It is the leader of
//! its own session and the subreaper of everything below it: when `wait` has nobody left, the job's part of the node is free.
//! No async runtime and no argument parser run here. Its only link is a socket to the node process, its standard input; when
//! that closes, the node is gone, and the job ends with it.
//!
//! Left to others: whether to run at all (`node`), what the job-manager is told (`engine`).

pub mod claim;
mod control;
mod fault;
mod logs;
mod reaper;
mod run;
mod signals;
mod spawn;
mod streams;

pub(crate) use logs::push_entry;

use std::path::Path;
use std::process::ExitCode;

use crate::messages::{Exception, FromShepherd, ToShepherd};
use crate::order::Order;

/// The argument that makes the binary a shepherd.
pub const ARGUMENT: &str = "--shepherd";

/// Runs as a shepherd; standard input is the socket to the node process.
#[must_use]
pub fn main() -> ExitCode {
    let _ = rustix::process::setsid();
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        eprintln!("weir-shepherd: failed to become the subreaper of its job: {error}");
        return ExitCode::FAILURE;
    }
    let mut control = match control::Control::of_stdin() {
        Ok(control) => control,
        Err(error) => {
            eprintln!("weir-shepherd: failed to take its socket from standard input: {error}");
            return ExitCode::FAILURE;
        }
    };
    // Once the node process is gone there is nothing to do.
    while let Some(line) = control.wait_for_line() {
        match crate::messages::from_line::<Order>(&line) {
            Ok(order) => {
                if !serve(&order, &mut control) {
                    return ExitCode::FAILURE;
                }
            }
            // Meant for the job before, which ended before it came.
            Err(_) if crate::messages::from_line::<ToShepherd>(&line).is_ok() => {}
            Err(error) => {
                control.send(&FromShepherd::Refused {
                    note: format!("failed to read its order: {error}"),
                });
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs one job to its end. False if it could not be claimed.
fn serve(order: &Order, control: &mut control::Control) -> bool {
    let dir = Path::new(&order.dir);
    let claim = match claim::Claim::take(dir, &order.part_file("claim")) {
        Ok(claim) => claim,
        Err(error) => {
            control.send(&FromShepherd::Refused {
                note: error.to_string(),
            });
            return false;
        }
    };
    let ended = run::Run::new(order, control).run();
    // When nobody is there to store what we say, it must be on disk before we go.
    let durable = control.is_closed();
    if let Err(error) = claim::write_status(dir, &order.part_file("status"), &ended, durable) {
        let note = format!("failed to write the status of the job: {error}");
        control.send(&FromShepherd::Exception(Exception {
            severity: 1,
            kind: "exec".to_owned(),
            note,
        }));
    }
    control.send(&FromShepherd::Ended(ended));
    drop(claim);
    // The job's directory may be on a file system that is to be unmounted.
    let _ = std::env::set_current_dir("/");
    true
}
