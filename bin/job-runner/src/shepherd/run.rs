//! The life of a job's tasks in one loop: wait for whatever comes first, take it in, until nobody is left.
//!
//! What can come: a task or an orphan of one ends (a thread that sits in `wait` says so), output, room for input, a word from the
//! node process, the time limit, the end of a grace. The thread ends when `wait` has no child left, and since we are the subreaper
//! of everything below us, that is exactly when the job's last process is gone.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use job::WaitStatus;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use serde::Serialize;

use crate::messages::{Ended, Exception, FromShepherd, ToShepherd};
use crate::order::Order;
use crate::shepherd::ROOM_ROUND;
use crate::shepherd::control::Control;
use crate::shepherd::launch::Launch;
use crate::shepherd::logs::{Log, OutputLog, now_s, push_entry};
use crate::shepherd::reaper::Reaper;
use crate::shepherd::signals::signal_all;
use crate::shepherd::spawn::{self, io_text};
use crate::shepherd::streams::{Input, Read, Stream};
use crate::shepherd::writer::Writer;

mod begin;

/// How long a last task's end may be alone before what it left behind is told to end, too.
const LEFTOVER_WAIT: Duration = Duration::from_millis(5);
/// A job that ends within this time is told of once, by its end: one message and one commit less. Others start so much later on paper.
const START_PATIENCE: Duration = Duration::from_millis(3);
/// Pause between two rounds of SIGKILL, for those who were just being forked.
const KILL_ROUND: Duration = Duration::from_millis(50);

/// How long a job that is told to end may still begin, so that what ends it reaches it.
const LAUNCH_PATIENCE: Duration = Duration::from_secs(1);
/// How long a job takes to begin before it is said what it waits for.
const COMPLAIN_AFTER: Duration = Duration::from_secs(5);
/// Pause between two looks whether a file takes more.
const HELD_ROUND: Duration = Duration::from_millis(20);
/// How long the files of a job that is over may take for the rest of its output.
const WRITER_WAIT: Duration = Duration::from_secs(5);
/// Bytes of entries for `exec.eventlog` that are kept in memory while there is no room.
const EXEC_LINES_LEN_MAX: usize = 1 << 20;

/// What is said of a job whose time is over.
pub(crate) const EXPIRED: &str = "resource allocation expired";

/// One task.
#[derive(Debug)]
struct Task {
    pid: Pid,
    status: Option<WaitStatus>,
}

/// The running job.
pub(crate) struct Run<'a> {
    order: Arc<Order>,
    control: &'a mut Control,
    /// The tasks are being started.
    launch: Option<Launch>,
    /// What we are told while they are, and how much of it is input.
    early: Vec<ToShepherd>,
    early_len: usize,
    /// When they are started no more, and the exit code that stands for that.
    give_up: Option<(Instant, i32)>,
    complain_at: Option<Instant>,
    /// A thread of ours hangs.
    hangs: bool,
    exec: Log,
    exec_lines: Vec<u8>,
    /// There was no room for them.
    exec_waits: bool,
    output: OutputLog,
    tasks: Vec<Task>,
    streams: Vec<Stream>,
    inputs: Vec<Input>,
    writers: Vec<Arc<Writer>>,
    /// Tags of input that is on its way.
    input_tags: Vec<u64>,
    reaper: Option<Reaper>,
    /// When the start is to be told; none once it was.
    start_at: Option<Instant>,
    limit_at: Option<Instant>,
    kill_at: Option<Instant>,
    leftover_at: Option<Instant>,
    /// When it is looked whether the disk has room again.
    room_at: Option<Instant>,
    exceptions: Vec<Exception>,
    /// Exit code that stands for a task that could not be started.
    failed_code: Option<i32>,
    output_failed: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(order: Arc<Order>, control: &'a mut Control) -> Run<'a> {
        let dir = Path::new(&order.dir);
        let alone = order.nnodes <= 1;
        let (ntasks, bytes_max) = (order.ntasks_total, order.output_bytes_max);
        // Every part knows the beginning, and whichever comes first writes it.
        let mut first = Vec::with_capacity(512);
        push_entry::<()>(&mut first, "init", None);
        push_entry::<()>(&mut first, "starting", None);
        let init = ShellInit {
            service: &order.service,
            leader_rank: order.leader_rank,
            size: order.nnodes,
        };
        push_entry(&mut first, "shell.init", Some(init));
        let taskmap = &order.taskmap;
        push_entry(&mut first, "shell.start", Some(ShellStart { taskmap }));
        Run {
            control,
            launch: None,
            early: Vec::new(),
            early_len: 0,
            give_up: None,
            complain_at: Some(Instant::now() + COMPLAIN_AFTER),
            hangs: false,
            exec: Log::new(&dir.join("exec.eventlog"), first, alone),
            exec_lines: Vec::with_capacity(1024),
            exec_waits: false,
            output: OutputLog::new(&dir.join("output.eventlog"), ntasks, bytes_max, alone),
            order,
            tasks: Vec::new(),
            streams: Vec::new(),
            inputs: Vec::new(),
            writers: Vec::new(),
            input_tags: Vec::new(),
            reaper: None,
            start_at: Some(Instant::now() + START_PATIENCE),
            limit_at: None,
            kill_at: None,
            leftover_at: None,
            room_at: None,
            exceptions: Vec::new(),
            failed_code: None,
            output_failed: false,
        }
    }

    /// Runs the job to its end: how it ended, and whether something of it hangs in this process.
    pub(crate) fn run(mut self) -> (Ended, bool) {
        self.open_logs();
        self.set_limit(self.order.expiration);
        match Launch::start(&self.order) {
            Ok(launch) => self.launch = Some(launch),
            Err(error) => {
                self.failed_code = Some(spawn::NOT_RUNNABLE);
                let note = self.not_started(&error);
                self.raise(Exception::fatal("exec", note));
            }
        }
        while self.launch.is_some() || self.reaper.is_some() {
            self.turn();
        }
        self.finish()
    }

    fn count(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    fn leaders(&self) -> Vec<Pid> {
        self.tasks
            .iter()
            .filter(|task| task.status.is_none())
            .map(|task| task.pid)
            .collect()
    }

    // ---- one turn of the loop ------------------------------------------------------------------

    fn turn(&mut self) {
        let deadlines = [
            self.start_at,
            self.limit_at,
            self.kill_at,
            self.leftover_at,
            self.room_at,
            self.give_up.map(|(at, _)| at),
            self.launch.as_ref().and(self.complain_at),
            self.held_back().then(|| Instant::now() + HELD_ROUND),
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let ready = self.wait(deadline);
        // While a task is spawned, its limits are ours.
        let spawns = self.launch.as_ref().map(Launch::limits);
        let _ours = spawns.as_ref().map(|limits| limits.hold());
        let mut ready = ready.into_iter();
        let mut next = || ready.next().unwrap_or(false);
        let (first, told) = (next(), next());
        let streams: Vec<bool> = self.streams.iter().map(|_| next()).collect();
        let inputs: Vec<bool> = self.inputs.iter().map(|_| next()).collect();

        self.read_streams(&streams);
        if inputs.contains(&true) {
            self.write_inputs();
        }
        if told && !self.control.is_closed() {
            for message in self.control.take_messages() {
                self.tell(message);
            }
            if self.control.is_closed() {
                let note = format!("the node process of {} went away", self.order.host);
                self.raise(Exception::fatal("node-fail", note));
                self.kill_now();
            }
        }
        match first {
            true if self.launch.is_some() => self.launched(),
            true => self.read_reaper(),
            false => {}
        }
        self.check_deadlines();
        self.flush_output();
        let due = self.room_at.is_some_and(|at| at <= Instant::now());
        if due || (self.exec_lines.len() > 4096 && !self.exec_waits) {
            self.write_exec();
        }
        self.room_at =
            (self.exec_waits || self.output.waits_for_room()).then(|| match self.room_at {
                Some(at) if !due => at,
                _ => Instant::now() + ROOM_ROUND,
            });
    }

    /// Waits until something is ready or a deadline passes: flags for reaper, control, each stream, each input.
    fn wait(&self, deadline: Option<Instant>) -> Vec<bool> {
        let mut fds = Vec::with_capacity(2 + self.streams.len() + self.inputs.len());
        let first = match (&self.launch, &self.reaper) {
            (Some(launch), _) => launch.as_fd(),
            (None, Some(reaper)) => reaper.as_fd(),
            (None, None) => return Vec::new(),
        };
        fds.push(PollFd::from_borrowed_fd(first, PollFlags::IN));
        // What is not to be waited for asks for nothing; poll then tells only of errors, so those are asked of `first` again.
        let nothing = || PollFd::from_borrowed_fd(first, PollFlags::empty());
        let control = self.control.fd();
        fds.push(if self.control.is_closed() {
            nothing()
        } else {
            PollFd::from_borrowed_fd(control, PollFlags::IN)
        });
        for stream in &self.streams {
            fds.push(if stream.has_room() {
                PollFd::new(&stream.fd, PollFlags::IN)
            } else {
                nothing()
            });
        }
        for input in &self.inputs {
            fds.push(match &input.fd {
                Some(fd) if input.is_waiting() => PollFd::new(fd, PollFlags::OUT),
                // Not waiting, but whether the task closed its side matters to those who would write.
                _ => nothing(),
            });
        }
        let mut timeout = deadline.map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: wait.subsec_nanos().into(),
            }
        });
        if self.control.has_line() {
            timeout = Some(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
        }
        let polled = poll(&mut fds, timeout.as_ref());
        let mut ready: Vec<bool> = fds
            .iter()
            .map(|fd| polled.is_ok() && !fd.revents().is_empty())
            .collect();
        if self.control.is_closed() {
            ready[1] = false;
        } else if self.control.has_line() {
            ready[1] = true;
        }
        ready
    }

    /// Whether a stream is not read because its file takes no more now: nobody says when it does.
    fn held_back(&self) -> bool {
        self.streams.iter().any(|stream| !stream.has_room())
    }

    fn read_streams(&mut self, ready: &[bool]) {
        let log = &mut self.output;
        let mut buffer = Vec::new();
        let mut ready = ready.iter();
        self.streams.retain_mut(|stream| {
            let ready = ready.next().copied().unwrap_or(false) && stream.has_room();
            !ready || stream.read(&mut buffer, log) != Read::End
        });
    }

    fn write_inputs(&mut self) {
        for input in &mut self.inputs {
            input.write();
        }
        self.answer_inputs();
    }

    fn answer_inputs(&mut self) {
        let inputs = &self.inputs;
        let (waiting, through) = self
            .input_tags
            .iter()
            .partition(|tag| inputs.iter().any(|input| input.holds(**tag)));
        self.input_tags = waiting;
        let through: Vec<u64> = through;
        for tag in through {
            self.control.send(&FromShepherd::Stdin { tag, errnum: 0 });
        }
    }

    fn read_reaper(&mut self) {
        let Some(reaper) = &mut self.reaper else {
            return;
        };
        match reaper.read() {
            None => self.reaper = None,
            Some(reaped) => {
                for (pid, status) in reaped {
                    self.reaped(pid, status);
                }
            }
        }
    }

    fn reaped(&mut self, pid: Pid, status: WaitStatus) {
        let first = self.order.first_task;
        let Some((local, task)) = (0u32..)
            .zip(&mut self.tasks)
            .find(|(_, task)| task.pid == pid && task.status.is_none())
        else {
            return;
        };
        task.status = Some(status);
        let (exitcode, signaled) = match status.ended() {
            job::waitstatus::Ended::Exited(code) => (i32::from(code), 0),
            job::waitstatus::Ended::Signaled(signal) => (-1, i32::from(signal)),
        };
        let context = TaskExit {
            localid: local,
            rank: first + local,
            state: "Exited",
            pid: pid.as_raw_nonzero().get(),
            wait_status: status.0,
            signaled,
            exitcode,
        };
        push_entry(&mut self.exec_lines, "shell.task-exit", Some(context));
        if self.tasks.iter().all(|task| task.status.is_some()) {
            self.leftover_at = Some(Instant::now() + LEFTOVER_WAIT);
        }
    }

    fn check_deadlines(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.reaper.is_none() && self.launch.is_none() {
            return;
        }
        if due(self.start_at) {
            self.tell_start();
        }
        if due(self.limit_at) {
            self.limit_at = None;
            let waits = self.launch.as_ref().map(Launch::waits_for);
            let note = match waits {
                Some(waits) => format!("{EXPIRED} before the job could begin: {waits}"),
                None => EXPIRED.to_owned(),
            };
            self.raise(Exception::fatal("timeout", note));
            self.end_politely(Signal::ALARM);
        }
        if due(self.complain_at) {
            self.complain_at = None;
            self.complain();
        }
        if let Some((at, code)) = self.give_up
            && at <= now
        {
            self.give_up_now(code);
        }
        if due(self.leftover_at) {
            self.leftover_at = None;
            self.end_politely(Signal::TERM);
        }
        if due(self.kill_at) {
            self.kill_now();
        }
    }

    // ---- what we are told ----------------------------------------------------------------------

    fn tell(&mut self, message: ToShepherd) {
        if self.launch.is_some() && !matches!(message, ToShepherd::Die {} | ToShepherd::Ping {}) {
            return self.tell_early(message);
        }
        match message {
            ToShepherd::Signal { signum } => {
                if let Some(signal) = Signal::from_named_raw(signum) {
                    signal_all(&self.leaders(), signal);
                }
            }
            ToShepherd::Ping {} => self.control.send(&FromShepherd::Pong {}),
            ToShepherd::Cancel {} => self.end_politely(Signal::TERM),
            ToShepherd::Expiration { expiration } => self.set_limit(expiration),
            ToShepherd::Stdin {
                tag,
                ranks,
                data,
                eof,
            } => self.take_input(tag, ranks.as_deref(), data.as_deref(), eof),
            ToShepherd::Die {} => {
                self.raise(Exception::fatal(
                    "exec",
                    "the instance that ran the job ended",
                ));
                self.kill_now();
            }
        }
    }

    fn take_input(&mut self, tag: u64, ranks: Option<&[u32]>, data: Option<&str>, eof: bool) {
        let data = match base64::engine::general_purpose::STANDARD.decode(data.unwrap_or("")) {
            Ok(data) => Arc::new(data),
            Err(_) => {
                let errnum = rustix::io::Errno::PROTO.raw_os_error().unsigned_abs();
                return self.control.send(&FromShepherd::Stdin { tag, errnum });
            }
        };
        let wanted = |input: &Input| ranks.is_none_or(|ranks| ranks.contains(&input.rank));
        if !self
            .inputs
            .iter()
            .filter(|input| wanted(input))
            .all(|input| input.has_room(data.len()))
        {
            let errnum = rustix::io::Errno::AGAIN.raw_os_error().unsigned_abs();
            return self.control.send(&FromShepherd::Stdin { tag, errnum });
        }
        for input in self.inputs.iter_mut().filter(|input| wanted(input)) {
            input.add(tag, Arc::clone(&data), eof);
        }
        self.input_tags.push(tag);
        self.write_inputs();
    }

    fn set_limit(&mut self, expiration: f64) {
        self.limit_at = (expiration > 0.0).then(|| {
            let left = Duration::try_from_secs_f64((expiration - now_s()).max(0.0))
                .unwrap_or(Duration::MAX);
            let now = Instant::now();
            // A limit beyond what the clock can hold is none; a century will do.
            now.checked_add(left)
                .unwrap_or(now + Duration::from_secs(100 * 365 * 86_400))
        });
    }

    fn tell_start(&mut self) {
        if self.start_at.take().is_some() {
            self.control.send(&FromShepherd::Started {});
        }
    }

    fn raise(&mut self, exception: Exception) {
        self.tell_start();
        self.control
            .send(&FromShepherd::Exception(exception.clone()));
        self.exceptions.push(exception);
    }

    /// `signal` now, SIGKILL when the grace is over; the first grace counts.
    fn end_politely(&mut self, signal: Signal) {
        if self.launch.is_some() {
            return self.give_up(128 + signal.as_raw(), Duration::ZERO);
        }
        let leaders = self.leaders();
        signal_all(&leaders, signal);
        // Who is stopped would not notice.
        signal_all(&leaders, Signal::CONT);
        let grace =
            Duration::try_from_secs_f64(self.order.kill_grace_s.max(0.0)).unwrap_or(Duration::MAX);
        if self.kill_at.is_none() {
            self.kill_at = Instant::now().checked_add(grace);
        }
    }

    fn kill_now(&mut self) {
        if self.launch.is_some() {
            return self.give_up(128 + Signal::KILL.as_raw(), Duration::ZERO);
        }
        signal_all(&self.leaders(), Signal::KILL);
        self.kill_at = Some(Instant::now() + KILL_ROUND);
    }

    // ---- the end -------------------------------------------------------------------------------

    fn finish(mut self) -> (Ended, bool) {
        let mut buffer = Vec::new();
        for mut stream in self.streams.drain(..) {
            let last = loop {
                match stream.read(&mut buffer, &mut self.output) {
                    Read::Some => {}
                    last => break last,
                }
            };
            // Someone outside of the job holds the pipe: what comes from there is not the job's.
            if last == Read::Nothing {
                stream.close(&mut self.output);
            }
        }
        if let Err(error) = self.output.flush_last() {
            self.output_error(&error);
        }
        let deadline = Instant::now() + WRITER_WAIT;
        for writer in std::mem::take(&mut self.writers) {
            let Err(missed) = writer.finish(deadline) else {
                continue;
            };
            self.hangs |= missed.error.is_none();
            let why = missed.error.as_ref().map_or_else(
                || "it takes no more; is it a FIFO that nobody reads?".to_owned(),
                io_text,
            );
            let (bytes, path) = (missed.bytes, &writer.path);
            let note = format!("{bytes} bytes of output for {path} are lost: {why}");
            self.raise(Exception {
                severity: 2,
                kind: "output".to_owned(),
                note,
            });
        }
        let codes = self
            .tasks
            .iter()
            .filter_map(|task| task.status)
            .map(|status| i32::from(status.exit_code()));
        let code = codes.chain(self.failed_code).max().unwrap_or(0);
        // As a shell would say it: the highest exit code, 128 and the signal for a task that was killed.
        let status = code << 8;
        if self.order.nnodes <= 1 {
            push_entry(&mut self.exec_lines, "complete", Some(Complete { status }));
            push_entry::<()>(&mut self.exec_lines, "done", None);
        }
        self.write_exec();
        let early = std::mem::take(&mut self.early).into_iter();
        self.input_tags
            .extend(early.filter_map(|message| match message {
                ToShepherd::Stdin { tag, .. } => Some(tag),
                _ => None,
            }));
        for tag in std::mem::take(&mut self.input_tags) {
            self.control.send(&FromShepherd::Stdin { tag, errnum: 0 });
        }
        let ended = Ended {
            status: Some(status),
            exceptions: self.exceptions,
        };
        (ended, self.hangs)
    }
}

#[derive(Serialize)]
struct ShellInit<'a> {
    service: &'a str,
    #[serde(rename = "leader-rank")]
    leader_rank: u32,
    size: u32,
}

#[derive(Serialize)]
struct ShellStart<'a> {
    taskmap: &'a serde_json::value::RawValue,
}

#[derive(Serialize)]
struct TaskExit {
    localid: u32,
    rank: u32,
    state: &'static str,
    pid: i32,
    wait_status: i32,
    signaled: i32,
    exitcode: i32,
}

#[derive(Serialize)]
struct Complete {
    status: i32,
}
