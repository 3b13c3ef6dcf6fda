//! The beginning of a job, from its logs to its tasks; what is told it meanwhile; and a beginning that does not end.

use std::time::{Duration, Instant};

use job::WaitStatus;
use rustix::process::{Signal, WaitOptions};

use super::{EXEC_LINES_LEN_MAX, KILL_ROUND, LAUNCH_PATIENCE, Run, Task};
use crate::messages::{Exception, FromShepherd, ToShepherd};
use crate::shepherd::fault::{self, Step};
use crate::shepherd::launch::Begun;
use crate::shepherd::reaper::Reaper;
use crate::shepherd::signals::{is_deadly, signal_all};
use crate::shepherd::spawn::io_text;
use crate::shepherd::streams::STDIN_BYTES_MAX;

impl Run<'_> {
    pub(super) fn open_logs(&mut self) {
        self.flush_output();
        self.write_exec();
    }

    pub(super) fn write_exec(&mut self) {
        match self.exec.write(&self.exec_lines) {
            Ok(()) => {
                self.exec_lines.clear();
                self.exec_waits = false;
            }
            Err(failed) => {
                // Kept, and written when there is room.
                self.exec_lines.drain(..failed.written);
                self.exec_waits = true;
                if self.exec_lines.len() > EXEC_LINES_LEN_MAX {
                    self.exec_lines.clear();
                }
                self.output_error(&failed.error);
            }
        }
    }

    pub(super) fn flush_output(&mut self) {
        if let Err(error) = self.output.flush() {
            self.output_error(&error);
        }
    }

    /// Tells once that the logs are incomplete.
    pub(super) fn output_error(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.output_failed, true) {
            let (dir, error) = (&self.order.dir, io_text(error));
            let note =
                format!("failed to write the job's logs in {dir}, some output is lost: {error}");
            self.raise(Exception {
                severity: 2,
                kind: "output".to_owned(),
                note,
            });
        }
    }

    /// The tasks are there, or those that could be had.
    pub(super) fn launched(&mut self) {
        if let Some(launch) = self.launch.take() {
            self.give_up = None;
            self.adopt(launch.finish());
        }
    }

    pub(super) fn adopt(&mut self, begun: Begun) {
        for redirect in begun.redirects {
            let rank = redirect.rank.to_string();
            self.output.redirect(redirect.name, &rank, &redirect.path);
        }
        self.flush_output();
        let pids = begun.pids.into_iter();
        self.tasks = pids.map(|pid| Task { pid, status: None }).collect();
        self.streams = begun.streams;
        self.inputs = begun.inputs;
        self.writers = begun.writers;
        fault::at(Step::AfterExec);
        if let Some(error) = begun.failed {
            self.failed_code = Some(error.code);
            let note = self.not_started(&error);
            self.raise(Exception::fatal("exec", note));
            self.end_politely(Signal::TERM);
        }
        match (!self.tasks.is_empty()).then(Reaper::start) {
            None => {}
            Some(Ok(reaper)) => self.reaper = Some(reaper),
            Some(Err(error)) => {
                // Without it nobody would notice the end: end the tasks and wait for them here.
                let note = format!("failed to watch over the tasks: {error}");
                self.raise(Exception::fatal("exec", note));
                signal_all(&self.leaders(), Signal::KILL);
                while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::empty()) {
                    self.reaped(pid, WaitStatus(status.as_raw()));
                }
            }
        }
        for message in std::mem::take(&mut self.early) {
            self.tell(message);
        }
    }

    pub(super) fn not_started(&self, why: &dyn std::fmt::Display) -> String {
        let (rank, host) = (self.order.first_task + self.count(), &self.order.host);
        format!("task {rank} (host {host}): start failed: {why}")
    }

    // ---- a beginning that does not end ----------------------------------------------------------

    /// The job shall end, as of that exit code, though it has not begun: what it waits for may come until then.
    pub(super) fn give_up(&mut self, code: i32, after: Duration) {
        let at = Instant::now() + after;
        let (was, _) = *self.give_up.get_or_insert((at, code));
        if at < was {
            self.give_up = Some((at, code));
        }
    }

    pub(super) fn give_up_now(&mut self, code: i32) {
        let Some(launch) = &self.launch else { return };
        let waited_for = launch.waits_for();
        let Some((begun, through)) = launch.give_up() else {
            // The program does not begin to run: an end that it can be given ends the spawn, too.
            signal_all(&[], Signal::KILL);
            self.give_up = Some((Instant::now() + KILL_ROUND, code));
            return;
        };
        self.launch = None;
        self.give_up = None;
        if !through {
            self.hangs = true;
            self.failed_code = Some(code);
            let note = self.not_started(&waited_for);
            // Whoever told it to end has said why, the time limit also what was waited for.
            if self.exceptions.iter().all(|known| known.kind != "timeout") {
                self.raise(Exception {
                    severity: 1,
                    kind: "exec".to_owned(),
                    note,
                });
            }
        }
        self.adopt(begun);
        self.end_politely(Signal::from_named_raw(code - 128).unwrap_or(Signal::TERM));
    }

    /// Says to whoever looks at the output what is waited for.
    pub(super) fn complain(&mut self) {
        let Some(launch) = &self.launch else { return };
        let text = format!("the job has not begun: {}", launch.waits_for());
        self.output.message(4, "exec", &text);
    }

    /// Takes in a message while the tasks are not there.
    pub(super) fn tell_early(&mut self, message: ToShepherd) {
        match &message {
            ToShepherd::Expiration { expiration } => return self.set_limit(*expiration),
            ToShepherd::Cancel {} => self.give_up(128 + Signal::TERM.as_raw(), LAUNCH_PATIENCE),
            ToShepherd::Signal { signum } if is_deadly(*signum) => {
                self.give_up(128 + *signum, LAUNCH_PATIENCE);
            }
            ToShepherd::Stdin { tag, data, .. } => {
                self.early_len += data.as_ref().map_or(0, String::len);
                if self.early_len > STDIN_BYTES_MAX {
                    let errnum = rustix::io::Errno::AGAIN.raw_os_error().unsigned_abs();
                    return self
                        .control
                        .send(&FromShepherd::Stdin { tag: *tag, errnum });
                }
            }
            _ => {}
        }
        self.early.push(message);
    }
}
