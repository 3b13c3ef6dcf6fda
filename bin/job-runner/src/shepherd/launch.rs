//! The beginning of a job's tasks, in a thread of its own: what it touches is the job's, and may never answer.
//!
//! ```text
//!  directory ─▶ program ─▶ output files ─▶ per task: input file, spawn ─▶ done
//!      └──────────┴────────────┴───────────────┴─ given up: the thread stays where it hangs, and begins nothing any more
//! ```
//! A FIFO nobody reads, a file system that went away: opening them takes as long as it takes, and the shepherd has a time limit to keep and
//! cancels to obey meanwhile. Directory and file mask are the whole process's, so a shepherd whose thread hangs serves no other job.
//!
//! A spawn is not given up in the middle: either the thread never begins it, or its child is known.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use rustix::fs::Mode;
use rustix::process::{Pid, umask};

use crate::order::{Order, Output, Stdin};
use crate::shepherd::spawn::{self, Launcher, SpawnError, Streams};
use crate::shepherd::streams::{Input, Redirect, Stream, Target, fill};
use crate::shepherd::writer::Writer;

/// How long one spawn may take before the loop goes on beside it, with whatever limits.
const SPAWN_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two looks whether it is through.
const SPAWN_ROUND: Duration = Duration::from_micros(200);
/// Stack of the thread, in bytes.
const STACK_LEN: usize = 512 << 10;

/// What there is of the job so far.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) pids: Vec<Pid>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) redirects: Vec<Redirect>,
    pub(crate) writers: Vec<Arc<Writer>>,
    /// Why there is not more.
    pub(crate) failed: Option<SpawnError>,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Working,
    Spawning,
    Done,
    GivenUp,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    /// What is waited for, and what would help.
    at: String,
    begun: Begun,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Held while limits of the process are a task's.
    limits: Mutex<()>,
}

/// A beginning that is under way.
#[derive(Debug)]
pub(crate) struct Launch {
    shared: Arc<Shared>,
    /// Hung up by the thread's end.
    end: OwnedFd,
    /// Our own mask: files of the job are made with the job's.
    mask: Option<Mode>,
}

enum Stop {
    GivenUp,
    Failed(SpawnError),
}

impl From<SpawnError> for Stop {
    fn from(error: SpawnError) -> Stop {
        Stop::Failed(error)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is done next, unless it was given up.
    fn at(&self, what: String) -> Result<(), Stop> {
        let mut state = self.lock();
        if state.stage == Stage::GivenUp {
            return Err(Stop::GivenUp);
        }
        state.at = what;
        Ok(())
    }

    fn at_file(&self, what: &str, path: &str, other_end: &str) -> Result<(), Stop> {
        self.at(format!(
            "{what} {path} cannot be looked at: does its file system answer?"
        ))?;
        let is_fifo = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        self.at(if is_fifo {
            let (doing, who) = match other_end {
                "read" => ("reads", "reader"),
                _ => ("writes to", "writer"),
            };
            format!(
                "{what} {path} is a FIFO that nobody {doing}: start its {who} first, or name a plain file"
            )
        } else {
            format!("{what} {path} cannot be opened: does its file system answer?")
        })
    }

    fn begin_spawn(&self) -> Result<(), Stop> {
        let mut state = self.lock();
        if state.stage == Stage::GivenUp {
            return Err(Stop::GivenUp);
        }
        state.stage = Stage::Spawning;
        Ok(())
    }

    fn end_spawn(&self, spawned: Result<Pid, SpawnError>) -> Result<(), Stop> {
        let mut state = self.lock();
        state.stage = Stage::Working;
        state.begun.pids.push(spawned?);
        Ok(())
    }
}

impl Launch {
    /// Begins.
    pub(crate) fn start(order: &Arc<Order>) -> io::Result<Launch> {
        let (end, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                stage: Stage::Working,
                at: String::new(),
                begun: Begun::default(),
            }),
            limits: Mutex::new(()),
        });
        let mask = order
            .umask
            .map(|mask| umask(Mode::from_raw_mode(mask & 0o777)));
        let launch = Launch {
            shared: Arc::clone(&shared),
            end,
            mask,
        };
        let order = Arc::clone(order);
        std::thread::Builder::new()
            .stack_size(STACK_LEN)
            .spawn(move || {
                let stopped = begin(&order, &shared);
                let mut state = shared.lock();
                if let Err(Stop::Failed(error)) = stopped {
                    state.begun.failed = Some(error);
                }
                if state.stage != Stage::GivenUp {
                    state.stage = Stage::Done;
                }
                drop(state);
                drop(ours);
            })?;
        Ok(launch)
    }

    /// What has been begun, once [`AsFd`] is ready.
    pub(crate) fn finish(self) -> Begun {
        std::mem::take(&mut self.shared.lock().begun)
    }

    /// What it waits for.
    pub(crate) fn waits_for(&self) -> String {
        self.shared.lock().at.clone()
    }

    /// The process's limits, which are a task's while it is spawned.
    pub(crate) fn limits(&self) -> Limits {
        Limits(Arc::clone(&self.shared))
    }

    /// Nothing is begun from now on: what has been, and whether the thread is through. None in the middle of a spawn.
    pub(crate) fn give_up(&self) -> Option<(Begun, bool)> {
        let mut state = self.shared.lock();
        let through = match state.stage {
            Stage::Spawning => return None,
            Stage::Done => true,
            Stage::Working | Stage::GivenUp => {
                state.stage = Stage::GivenUp;
                false
            }
        };
        Some((std::mem::take(&mut state.begun), through))
    }
}

/// See [`Launch::limits`].
pub(crate) struct Limits(Arc<Shared>);

impl Limits {
    /// No task is spawned while this is held. A spawn that hangs is not waited for.
    pub(crate) fn hold(&self) -> Option<MutexGuard<'_, ()>> {
        let until = Instant::now() + SPAWN_PATIENCE;
        loop {
            match self.0.limits.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(SPAWN_ROUND),
            }
        }
    }
}

impl AsFd for Launch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if let Some(mask) = self.mask {
            umask(mask);
        }
    }
}

fn begin(order: &Order, shared: &Shared) -> Result<(), Stop> {
    if let Some(cwd) = &order.cwd {
        shared.at(format!(
            "working directory {cwd} cannot be entered: does its file system answer?"
        ))?;
        spawn::enter(cwd)?;
    }
    let command = order.command.first().map_or("", String::as_str);
    let silent = format!("command {command} cannot be read: does its file system answer?");
    shared.at(silent.clone())?;
    let launcher = Launcher::new(order)?;
    let stdout = open(
        &order.stdout,
        "output file",
        order,
        &launcher.id,
        None,
        shared,
    )?;
    let stderr = open(
        &order.stderr,
        "error output file",
        order,
        &launcher.id,
        Some(&stdout),
        shared,
    )?;
    for local in 0..order.ntasks {
        let rank = order.first_task + local;
        let streams = connect(order, rank, &launcher.id, &stdout, &stderr, shared)?;
        shared.at(silent.clone())?;
        let _limits = shared.limits.lock().unwrap_or_else(PoisonError::into_inner);
        shared.begin_spawn()?;
        shared.end_spawn(launcher.spawn(order, local, &streams))?;
    }
    Ok(())
}

fn open(
    output: &Output,
    what: &'static str,
    order: &Order,
    id: &str,
    stdout: Option<&Target>,
    shared: &Shared,
) -> Result<Target, Stop> {
    if let Output::File { path, .. } = output {
        shared.at_file(what, &fill(path, order, id), "read")?;
    }
    let target = Target::open(output, order, id, stdout)
        .map_err(|(path, error)| spawn::open_failed(format!("{what} {path}"), error))?;
    if let (Output::File { .. }, Some(writer)) = (output, target.writer()) {
        shared.lock().begun.writers.push(writer);
    }
    Ok(target)
}

fn connect(
    order: &Order,
    rank: u32,
    id: &str,
    stdout: &Target,
    stderr: &Target,
    shared: &Shared,
) -> Result<Streams, Stop> {
    let failed = |error| spawn::open_failed("standard streams", error);
    let stdin: OwnedFd = match &order.stdin {
        Stdin::Service => {
            let (ours, theirs) = spawn::pipe(false).map_err(failed)?;
            shared.lock().begun.inputs.push(Input::new(ours, rank));
            theirs
        }
        Stdin::Data(data) => {
            let data = base64::engine::general_purpose::STANDARD
                .decode(data)
                .map_err(|error| {
                    let error = io::Error::new(io::ErrorKind::InvalidData, error);
                    spawn::open_failed("the payload it was dispatched with", error)
                })?;
            let (ours, theirs) = spawn::pipe(false).map_err(failed)?;
            let mut input = Input::new(ours, rank);
            // Nobody waits for an answer to that: what a task does not read is not missed.
            input.add(0, Arc::new(data), true);
            shared.lock().begun.inputs.push(input);
            theirs
        }
        Stdin::File(path) => {
            let path = fill(path, order, id);
            shared.at_file("input file", &path, "write")?;
            fs::File::open(&path)
                .map_err(|error| spawn::open_failed(format!("input file {path}"), error))?
                .into()
        }
    };
    let mut begun = Vec::with_capacity(2);
    for (target, name) in [(stdout, "stdout"), (stderr, "stderr")] {
        let (theirs, ours) = target.connect(name, rank).map_err(failed)?;
        let mut state = shared.lock();
        state.begun.redirects.extend(target.redirect(name, rank));
        state.begun.streams.extend(ours);
        begun.push(theirs);
    }
    let (Some(stderr), Some(stdout)) = (begun.pop(), begun.pop()) else {
        return Err(failed(io::ErrorKind::Other.into()).into());
    };
    Ok(Streams {
        stdin,
        stdout,
        stderr,
    })
}
