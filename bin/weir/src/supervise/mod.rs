//! Keeping the daemons of an instance running: start, notice an end, start again, stop in order.
//!
//! ```text
//!  keep (a task per daemon):   spawn ─▶ wait ─┬─ ended ─▶ Report::Ended ─▶ back-off 0.1 → 5 s ─▶ spawn, for ever
//!                                            ├─ refused to start ─▶ Report::Final: at once, or after 5 in a row once all was ready
//!                                            ├─ job-manager was asked to shut down ─▶ Report::ShutDown
//!                                            └─ told to stop ─▶ SIGTERM, in time SIGKILL ─▶ done
//! ```
//! A status of 2, 75 or 78 is a refusal: the daemon says that starting it again will not help (an argument it does not take, a state
//! directory in use, a store of a newer schema). An instance that was ready has proved that it can be started, so there a few more attempts
//! are made. Any other end, however often, is never given up on. Each daemon is a process group of its own, so ctrl-C reaches only us.
//! [`layout`] looks at what is in the directory, [`claim`] keeps a second supervisor away, [`daemon`] knows programs and logs, [`ready`] when an
//! instance answers, [`report`] what is said of an end, [`processes`] when one that others keep has ended.
//!
//! What a daemon says on its standard output is a [`Report::Note`] each line.
//!
//! Left to others: what a daemon does, and everything about jobs.

pub mod claim;
pub mod daemon;
pub mod http;
pub mod layout;
pub mod processes;
pub mod ready;
pub mod report;

use crate::backoff::Backoff;
use crate::failure;
use daemon::Daemon;
use protocol::shutdown::STATUS_SHUT_DOWN;
use report::{Ends, Report};
use rustix::process::{Pid, Signal, kill_process};
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Statuses with which a daemon says that starting it again will not help (wrong arguments, EX_TEMPFAIL, EX_CONFIG).
const STATUSES_REFUSED: [i32; 3] = [2, 75, 78];
/// So many refusals in a row, of an instance that was ready, are the end of it.
const REFUSALS_MAX: u32 = 5;
/// A daemon that ran so long is well: the next restart is quick again.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// How long a process may take to be gone once it was killed; one that hangs in the kernel is left to it.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// The longest line of a daemon that is told whole, in bytes.
const NOTE_LEN_MAX: u64 = 4096;
/// Reports not yet read.
const REPORTS_MAX: usize = 64;

/// What the task of a daemon is to do with it. In this order: none is ever taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Run,
    Stop,
    Kill,
}

/// The daemons of an instance.
#[derive(Debug)]
pub struct Supervisor {
    kept: Vec<Kept>,
    ready: watch::Sender<bool>,
    reports: mpsc::Receiver<Report>,
    sender: mpsc::Sender<Report>,
}

#[derive(Debug)]
struct Kept {
    order: watch::Sender<Order>,
    task: JoinHandle<()>,
}

impl Default for Supervisor {
    fn default() -> Self {
        let (sender, reports) = mpsc::channel(REPORTS_MAX);
        Self {
            kept: Vec::new(),
            ready: watch::Sender::new(false),
            reports,
            sender,
        }
    }
}

impl Supervisor {
    /// Starts a daemon and keeps it running. What is given back tells its process at any time; 0 is none.
    pub fn keep(&mut self, daemon: Daemon) -> watch::Receiver<u32> {
        let (order, orders) = watch::channel(Order::Run);
        let (process, at) = watch::channel(0);
        let ready = self.ready.subscribe();
        let task = tokio::spawn(keep(daemon, orders, ready, self.sender.clone(), process));
        self.kept.push(Kept { order, task });
        at
    }

    /// The instance works: from here on a daemon that refuses to start is not taken at its first word.
    pub fn set_ready(&mut self) {
        self.ready.send_replace(true);
    }

    /// The next thing that happens to a daemon. May be dropped while it waits.
    pub async fn report(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            // Cannot be: we hold a sender. Nothing happens any more, then.
            None => std::future::pending().await,
        }
    }

    /// Tells the daemons to stop and does not wait for it: [`Self::stop`] does.
    pub fn begin_stop(&self) {
        for kept in &self.kept {
            kept.order
                .send_modify(|order| *order = Order::Stop.max(*order));
        }
    }

    /// Stops the daemons, the one started first last, as the others talk to it. Bounded: one that does not end in its time is killed, and all
    /// are once `hurry` is ready. Jobs are not touched.
    pub async fn stop(self, hurry: impl Future<Output = ()>) {
        // Nobody reads reports now; a full queue must not hold up a daemon's end.
        drop(self.reports);
        let orders: Vec<_> = self.kept.iter().map(|kept| kept.order.clone()).collect();
        let give = |order: &watch::Sender<Order>, new: Order| {
            order.send_modify(|order| *order = new.max(*order))
        };
        let stopping = async {
            let mut kept = self.kept.into_iter();
            let first = kept.next();
            let rest: Vec<Kept> = kept.collect();
            for kept in &rest {
                give(&kept.order, Order::Stop);
            }
            for kept in rest.into_iter().chain(first) {
                give(&kept.order, Order::Stop);
                // A task that is over already: nothing to stop.
                let _ = kept.task.await;
            }
        };
        tokio::pin!(stopping, hurry);
        tokio::select! {
            () = &mut stopping => return,
            () = &mut hurry => {}
        }
        for order in &orders {
            give(order, Order::Kill);
        }
        stopping.await;
    }
}

/// How a daemon ended.
enum End {
    /// As the instance was asked to.
    ShutDown,
    /// It will not do better the next time.
    Refused { said: String },
    /// It may.
    Ended { how: String, said: Option<String> },
}

/// Ends of a daemon that was not well in between.
struct Row {
    since: Instant,
    ends: u32,
    refusals: u32,
    backoff: Backoff,
}

impl Row {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            ends: 0,
            refusals: 0,
            backoff: Backoff::default(),
        }
    }

    fn ends(&self, daemon: &Daemon) -> Ends {
        Ends {
            count: self.ends,
            within: self.since.elapsed(),
            log: daemon.log.clone(),
        }
    }
}

async fn keep(
    daemon: Daemon,
    mut orders: watch::Receiver<Order>,
    ready: watch::Receiver<bool>,
    reports: mpsc::Sender<Report>,
    process: watch::Sender<u32>,
) {
    let name = daemon.name;
    let mut row = Row::new();
    loop {
        let started = Instant::now();
        let end = match daemon.spawn() {
            Err(error) => End::Refused {
                said: failure::text(&error),
            },
            Ok((mut child, from)) => {
                if let Some(out) = child.stdout.take() {
                    tokio::spawn(notes(name, out, reports.clone()));
                }
                process.send_replace(child.id().unwrap_or(0));
                let ended = tokio::select! {
                    _ = orders.wait_for(|order| *order > Order::Run) => None,
                    status = child.wait() => Some(status),
                };
                process.send_replace(0);
                match ended {
                    None => return stop(&mut child, daemon.stop_within, &mut orders).await,
                    Some(status) => end_of(&daemon, status, from),
                }
            }
        };
        if started.elapsed() >= WELL_AFTER {
            row = Row::new();
        }
        row.ends += 1;
        let (how, said) = match end {
            End::ShutDown => {
                let _ = reports.send(Report::ShutDown).await;
                return;
            }
            End::Refused { said } => {
                row.refusals += 1;
                let ready = *ready.borrow();
                if !ready || row.refusals >= REFUSALS_MAX {
                    let ends = ready.then(|| row.ends(&daemon));
                    let _ = reports.send(Report::Final { name, said, ends }).await;
                    return;
                }
                ("refuses to start".to_owned(), Some(said))
            }
            End::Ended { how, said } => {
                row.refusals = 0;
                (how, said)
            }
        };
        let again_in = row.backoff.take();
        let _ = reports
            .send(Report::Ended {
                name,
                how,
                said,
                again_in,
                ends: row.ends(&daemon),
            })
            .await;
        tokio::select! {
            _ = orders.wait_for(|order| *order > Order::Run) => return,
            () = tokio::time::sleep(again_in) => {}
        }
    }
}

/// Passes on what a daemon says, until it or we end.
async fn notes(name: &'static str, out: ChildStdout, reports: mpsc::Sender<Report>) {
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut first = (&mut out).take(NOTE_LEN_MAX);
        let read = first.read_until(b'\n', &mut line);
        if !read.await.is_ok_and(|len| len > 0) {
            return;
        }
        let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
        if !text.is_empty() && reports.send(Report::Note { name, text }).await.is_err() {
            return;
        }
    }
}

fn end_of(daemon: &Daemon, status: std::io::Result<ExitStatus>, from: u64) -> End {
    // What it said before somebody killed it does not tell why it ended.
    let code = status.as_ref().ok().and_then(ExitStatus::code);
    let said = code.and_then(|_| daemon.last_words(from));
    let unsaid = || daemon.why_unsaid().unwrap_or_default();
    match code {
        Some(code) if daemon.may_shut_down && code == i32::from(STATUS_SHUT_DOWN) => End::ShutDown,
        Some(code) if STATUSES_REFUSED.contains(&code) => End::Refused {
            said: said.unwrap_or_else(|| format!("it ended with status {code}{}", unsaid())),
        },
        _ => {
            let more = if code.is_some() && said.is_none() {
                unsaid()
            } else {
                String::new()
            };
            let how = status.map_or_else(|error| error.to_string(), how);
            End::Ended {
                how: how + &more,
                said,
            }
        }
    }
}

/// SIGTERM, which one that was stopped (SIGSTOP) is to see too; when its time is over, or in a hurry, SIGKILL.
async fn stop(child: &mut Child, within: Duration, orders: &mut watch::Receiver<Order>) {
    signal(child, Signal::TERM);
    signal(child, Signal::CONT);
    tokio::select! {
        _ = child.wait() => return,
        () = tokio::time::sleep(within) => {}
        _ = orders.wait_for(|order| *order == Order::Kill) => {}
    }
    signal(child, Signal::KILL);
    let _ = tokio::time::timeout(GONE_WITHIN, child.wait()).await;
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
    use super::report::ENDS_TOLD;
    use super::*;
    use std::path::Path;

    fn daemon(dir: &Path, script: &str) -> Daemon {
        Daemon {
            name: "test",
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            log: dir.join("test.log"),
            stop_within: Duration::from_secs(10),
            may_shut_down: true,
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
            supervisor.stop(std::future::pending()).await;
        });
    }

    #[test]
    fn what_a_daemon_says_to_its_starter_is_told_a_line_each() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            supervisor.keep(daemon(
                dir.path(),
                "echo one; echo; echo two; exec sleep 1000",
            ));
            for expected in ["one", "two"] {
                match next(&mut supervisor).await {
                    Report::Note { name, text } => assert_eq!((name, &*text), ("test", expected)),
                    other => panic!("{other:?}"),
                }
            }
            supervisor.stop(std::future::pending()).await;
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
            supervisor.stop(std::future::pending()).await;
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

    /// The next report.
    async fn next(supervisor: &mut Supervisor) -> Report {
        tokio::time::timeout(Duration::from_secs(30), supervisor.report())
            .await
            .unwrap()
    }

    #[test]
    fn fault_a_daemon_that_is_killed_again_and_again_is_never_given_up_on_and_its_log_is_named() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            supervisor.keep(daemon(dir.path(), "kill -9 $$"));
            supervisor.set_ready();
            for at in 1..=ENDS_TOLD {
                let report = next(&mut supervisor).await;
                let Report::Ended { ends, .. } = &report else {
                    panic!("{report:?}");
                };
                assert_eq!((ends.count, &ends.log), (at, &dir.path().join("test.log")));
                report.tell().unwrap();
            }
            supervisor.stop(std::future::pending()).await;
        });
    }

    #[test]
    fn fault_one_that_refuses_once_all_was_ready_is_tried_some_times_and_then_given_up_on_aloud() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            supervisor.keep(daemon(dir.path(), "echo 'test: in use by 7' >&2; exit 78"));
            supervisor.set_ready();
            for _ in 1..REFUSALS_MAX {
                let report = next(&mut supervisor).await;
                assert!(matches!(report, Report::Ended { .. }), "{report:?}");
                report.tell().unwrap();
            }
            let text = next(&mut supervisor).await.tell().unwrap_err().to_string();
            for part in [
                "giving up",
                "5 attempts",
                "in use by 7",
                "test.log",
                "start the instance again",
            ] {
                assert!(text.contains(part), "{text}");
            }
        });
    }

    #[test]
    fn fault_one_that_ends_without_a_word_on_a_full_disk_has_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            for status in [78, 1] {
                let mut supervisor = Supervisor::default();
                let mut one = daemon(dir.path(), &format!("echo why >&2; exit {status}"));
                one.log = "/dev/full".into();
                supervisor.keep(one);
                let text = match next(&mut supervisor).await {
                    Report::Final { said, .. } => said,
                    Report::Ended { how, .. } => how,
                    other => panic!("{other:?}"),
                };
                for part in [
                    &format!("status {status}"),
                    "/dev/full",
                    "No space left",
                    "free some space",
                ] {
                    assert!(text.contains(part), "{text}");
                }
                supervisor.stop(std::future::pending()).await;
            }
        });
    }

    #[test]
    fn one_that_was_asked_to_shut_down_is_not_started_again() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            supervisor.keep(daemon(dir.path(), &format!("exit {STATUS_SHUT_DOWN}")));
            let report = next(&mut supervisor).await;
            assert!(matches!(report, Report::ShutDown), "{report:?}");
            supervisor.stop(std::future::pending()).await;
        });
    }

    #[test]
    fn stopping_is_bounded_with_a_daemon_that_is_stopped_and_one_that_does_not_listen() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            let (stopped, deaf) = (dir.path().join("stopped"), dir.path().join("deaf"));
            let script = format!(": > {}; kill -STOP $$; sleep 1000", stopped.display());
            supervisor.keep(daemon(dir.path(), &script));
            let script = format!(
                "trap '' TERM; : > {}; while :; do sleep 0.01; done",
                deaf.display()
            );
            let mut one = daemon(dir.path(), &script);
            one.stop_within = Duration::from_millis(100);
            supervisor.keep(one);
            while !(stopped.exists() && deaf.exists()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let stop = supervisor.stop(std::future::pending());
            tokio::time::timeout(Duration::from_secs(5), stop)
                .await
                .unwrap();
        });
    }

    #[test]
    fn a_second_signal_kills_at_once() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let mut supervisor = Supervisor::default();
            let deaf = dir.path().join("deaf");
            let script = format!(
                "trap '' TERM; : > {}; while :; do sleep 0.01; done",
                deaf.display()
            );
            for _ in 0..2 {
                let mut one = daemon(dir.path(), &script);
                one.stop_within = Duration::from_secs(1000);
                supervisor.keep(one);
            }
            while !deaf.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let stop = supervisor.stop(std::future::ready(()));
            tokio::time::timeout(Duration::from_secs(5), stop)
                .await
                .unwrap();
        });
    }
}
