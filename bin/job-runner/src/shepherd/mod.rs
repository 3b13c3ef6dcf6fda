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
mod launch;
mod logs;
mod reaper;
mod run;
mod signals;
mod spawn;
mod streams;
mod writer;

pub(crate) use logs::{Log, now_s, push_entry};

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::messages::{Ended, Exception, FromShepherd, ToShepherd};
use crate::order::Order;

/// Pause between two looks for room on a disk that is full.
const ROOM_ROUND: Duration = Duration::from_millis(200);

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
    // Stopped, it would not notice that its node process has died. (No more than a courtesy: without it the next node process sees to that.)
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::CONT));
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
                if !serve(&Arc::new(order), &mut control) {
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

/// Runs one job to its end. False if this process is of no use any more: the job could not be claimed, or something of it hangs here.
fn serve(order: &Arc<Order>, control: &mut control::Control) -> bool {
    let dir = Path::new(&order.dir);
    // An order that lay there while we were stopped, and whose node process is gone meanwhile, is another's by now.
    if !control.look() {
        return false;
    }
    let claim = match take_claim(order, control) {
        Ok(Some(claim)) => claim,
        // It shall not begin any more.
        Ok(None) => return !control.is_closed(),
        Err(error) => {
            control.send(&FromShepherd::Refused {
                note: error.to_string(),
            });
            return false;
        }
    };
    let (ended, hangs) = run::Run::new(Arc::clone(order), control).run();
    if hangs {
        control.send(&FromShepherd::Leaving {});
    }
    // When nobody is there to store what we say, it must be on disk before we go.
    let durable = control.is_closed();
    let written = claim.write_status(&ended, durable);
    if let Err(error) = &written
        && !claim::is_no_space(error)
    {
        let note = format!(
            "failed to write the status of the job in {}: {error}",
            dir.display()
        );
        control.send(&FromShepherd::Exception(Exception {
            severity: 1,
            kind: "exec".to_owned(),
            note,
        }));
    }
    control.send(&FromShepherd::Ended(ended.clone()));
    if written.is_err_and(|error| claim::is_no_space(&error)) {
        write_when_there_is_room(&claim, &ended, control);
    }
    drop(claim);
    // The job's directory may be on a file system that is to be unmounted.
    let _ = std::env::set_current_dir("/");
    !hangs
}

/// Claims the job, as soon as the disk has room for that. None if the job is to end before it began.
fn take_claim(
    order: &Order,
    control: &mut control::Control,
) -> Result<Option<claim::Claim>, claim::ClaimError> {
    let dir = Path::new(&order.dir);
    let mut expiration = order.expiration;
    let mut complained = false;
    loop {
        let error = match claim::Claim::take(dir, order.rank, order.nnodes) {
            Err(error) if error.is_no_space() => error,
            other => return other.map(Some),
        };
        if !std::mem::replace(&mut complained, true) {
            let note = format!("the job begins when there is room on the disk: {error}");
            control.send(&FromShepherd::Exception(Exception {
                severity: 2,
                kind: "exec".to_owned(),
                note,
            }));
        }
        control.wait_for_more(ROOM_ROUND);
        for message in control.take_messages() {
            match message {
                ToShepherd::Expiration { expiration: new } => expiration = new,
                ToShepherd::Stdin { tag, .. } => {
                    let errnum = rustix::io::Errno::AGAIN.raw_os_error().unsigned_abs();
                    control.send(&FromShepherd::Stdin { tag, errnum });
                }
                ToShepherd::Ping {} => control.send(&FromShepherd::Pong {}),
                ToShepherd::Signal { signum } if !signals::is_deadly(signum) => {}
                ToShepherd::Signal { .. } | ToShepherd::Cancel {} | ToShepherd::Die {} => {
                    let exceptions = Vec::new();
                    control.send(&FromShepherd::NotBegun { exceptions });
                    return Ok(None);
                }
            }
        }
        if expiration > 0.0 && expiration <= logs::now_s() {
            let exceptions = vec![Exception::fatal("timeout", run::EXPIRED)];
            control.send(&FromShepherd::NotBegun { exceptions });
            return Ok(None);
        }
        if control.is_closed() {
            return Ok(None);
        }
    }
}

/// The end of the job was told, and must outlive us and the node process: it is tried until there is room, or until the node process, which has
/// it in memory and does the same, has something else for us.
fn write_when_there_is_room(claim: &claim::Claim, ended: &Ended, control: &mut control::Control) {
    loop {
        if control.is_closed() {
            std::thread::sleep(ROOM_ROUND);
        } else {
            control.wait_for_more(ROOM_ROUND);
        }
        match claim.write_status(ended, true) {
            Err(error) if claim::is_no_space(&error) => {}
            _ => return,
        }
        if control.has_line() {
            return;
        }
    }
}
