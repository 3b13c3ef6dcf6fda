//! Keeping the daemons of an instance running: start, notice an end, start again, stop in order.
//!
//! ```text
//!  keep (a task per daemon):   spawn ─▶ wait ─┬─ ended by itself ─▶ Report::Ended ─▶ back-off 0.1 → 5 s ─▶ spawn
//!                                            ├─ ended with a final status ─▶ Report::Final, no more
//!                                            └─ told to stop ─▶ SIGTERM, after 10 s SIGKILL ─▶ done
//! ```
//! A status of 2, 75 or 78 is final: the daemon says that starting it again will not help (an argument it does not take, a state
//! directory in use, a store of a newer schema). Each daemon is a process group of its own, so ctrl-C reaches only us. [`daemon`] knows programs and logs,
//! [`ready`] when an instance answers.
//!
//! Left to others: what a daemon does, and everything about jobs.

pub mod daemon;
pub mod ready;

use crate::backoff::Backoff;
use daemon::Daemon;
use rustix::process::{Pid, Signal, kill_process};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::process::Child;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Statuses with which a daemon says that starting it again will not help (wrong arguments, EX_TEMPFAIL, EX_CONFIG).
const STATUSES_FINAL: [i32; 3] = [2, 75, 78];
/// A daemon that ran so long is well: the next restart is quick again.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// How long a daemon may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// Reports not yet read.
const REPORTS_MAX: usize = 64;

/// Something happened to a daemon.
#[derive(Debug)]
pub enum Report {
    /// It ended and is started again after this wait.
    Ended {
        /// Its name.
        name: &'static str,
        /// How it ended.
        how: String,
        /// What it said last, if anything.
        said: Option<String>,
        /// When it is started again.
        again_in: Duration,
    },
    /// It ended, or cannot be started at all, and is not started again.
    Final {
        /// Its name.
        name: &'static str,
        /// What it said last, or why it cannot be started.
        said: String,
    },
}

/// The daemons of an instance.
#[derive(Debug)]
pub struct Supervisor {
    kept: Vec<Kept>,
    reports: mpsc::Receiver<Report>,
    sender: mpsc::Sender<Report>,
}

#[derive(Debug)]
struct Kept {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Default for Supervisor {
    fn default() -> Self {
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        Self {
            kept: Vec::new(),
            reports,
            sender,
        }
    }
}

impl Supervisor {
    /// Starts a daemon and keeps it running. What is given back tells its process at any time; 0 is none.
    pub fn keep(&mut self, daemon: Daemon) -> watch::Receiver<u32> {
        let (stop, stopping) = watch::channel(false);
        let (process, at) = watch::channel(0);
        let task = tokio::spawn(keep(daemon, stopping, self.sender.clone(), process));
        self.kept.push(Kept { stop, task });
        at
    }

    /// The next thing that happens to a daemon. May be dropped while it waits.
    pub async fn report(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            // Cannot be: we hold a sender. Nothing happens any more, then.
            None => std::future::pending().await,
        }
    }

    /// Stops the daemons, the one started last first, each waited for. Jobs are not touched.
    pub async fn stop(self) {
        // Nobody reads reports now; a full queue must not hold up a daemon's end.
        drop(self.reports);
        for kept in self.kept.into_iter().rev() {
            // The task is over already: nothing to stop.
            let _ = kept.stop.send(true);
            let _ = kept.task.await;
        }
    }
}

async fn keep(
    daemon: Daemon,
    mut stopping: watch::Receiver<bool>,
    reports: mpsc::Sender<Report>,
    process: watch::Sender<u32>,
) {
    let mut backoff = Backoff::default();
    loop {
        let started = Instant::now();
        let (mut child, from) = match daemon.spawn() {
            Ok(started) => started,
            Err(error) => {
                let _ = reports
                    .send(Report::Final {
                        name: daemon.name,
                        said: format!("{error:#}"),
                    })
                    .await;
                return;
            }
        };
        process.send_replace(child.id().unwrap_or(0));
        let ended = tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => None,
            status = child.wait() => Some(status),
        };
        process.send_replace(0);
        let Some(status) = ended else {
            stop(&mut child).await;
            return;
        };
        // What it said before somebody killed it does not tell why it ended.
        let code = status.as_ref().ok().and_then(ExitStatus::code);
        let said = code.and_then(|_| daemon.last_words(from));
        if let Some(code) = code.filter(|code| STATUSES_FINAL.contains(code)) {
            let said = said.unwrap_or_else(|| format!("it ended with status {code}"));
            let _ = reports
                .send(Report::Final {
                    name: daemon.name,
                    said,
                })
                .await;
            return;
        }
        if started.elapsed() >= WELL_AFTER {
            backoff.reset();
        }
        let again_in = backoff.take();
        let how = status.map_or_else(|error| error.to_string(), how);
        let _ = reports
            .send(Report::Ended {
                name: daemon.name,
                how,
                said,
                again_in,
            })
            .await;
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(again_in) => {}
        }
    }
}

/// SIGTERM, and after a while SIGKILL.
async fn stop(child: &mut Child) {
    signal(child, Signal::TERM);
    if tokio::time::timeout(STOP_WITHIN, child.wait())
        .await
        .is_err()
    {
        signal(child, Signal::KILL);
        let _ = child.wait().await;
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn signal(child: &Child, signal: Signal) {
    let pid = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // Gone already: what was wanted.
        let _ = kill_process(pid, signal);
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (
        status.code(),
        status.signal().and_then(|signal| u8::try_from(signal).ok()),
    ) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!(
            "was ended by signal {signal} ({})",
            job::waitstatus::signal_text(signal)
        ),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn daemon(dir: &Path, script: &str) -> Daemon {
        Daemon {
            name: "test",
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            log: dir.join("test.log"),
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_daemon_that_dies_is_started_again_and_one_that_gave_up_is_not() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            let once = dir.path().join("once");
            let script = format!(
                "if [ -e {0} ]; then echo 'in use by 7' >&2; exit 78; fi; : > {0}; kill -9 $$",
                once.display()
            );
            supervisor.keep(daemon(dir.path(), &script));
            match supervisor.report().await {
                Report::Ended { how, .. } => assert_eq!(how, "was ended by signal 9 (Killed)"),
                other => panic!("{other:?}"),
            }
            match supervisor.report().await {
                Report::Final { said, .. } => assert_eq!(said, "in use by 7"),
                other => panic!("{other:?}"),
            }
            supervisor.stop().await;
        });
    }

    #[test]
    fn stopping_waits_for_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let ended = dir.path().join("ended");
        block_on(async {
            let mut supervisor = Supervisor::default();
            let up = dir.path().join("up");
            let script = format!(
                "trap ': > {}; exit 0' TERM; : > {}; while :; do sleep 0.01; done",
                ended.display(),
                up.display()
            );
            supervisor.keep(daemon(dir.path(), &script));
            for _ in 0..1000 {
                if up.exists() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            supervisor.stop().await;
        });
        assert!(ended.exists());
    }

    #[test]
    fn a_program_that_is_not_there_is_final_and_named() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            let mut absent = daemon(dir.path(), "");
            absent.program = "/nonexistent/weir-x".into();
            supervisor.keep(absent);
            match supervisor.report().await {
                Report::Final { said, .. } => {
                    assert!(said.contains("/nonexistent/weir-x"), "{said}")
                }
                other => panic!("{other:?}"),
            }
        });
    }
}
