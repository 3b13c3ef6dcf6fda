//! Starting the tasks of a job: program, environment, limits, cores, streams.
//!
//! No fork hook is needed: what a task shall have of the working directory, the file mask, soft limits and cores, the shepherd
//! takes on itself (cores: the thread that spawns) for the moment of the spawn, and the child inherits it. Streams are made before the limits are set, so that a
//! small `nofile` hurts the task and not us.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit};
use rustix::thread::CpuSet;

use crate::order::{Order, Pin};

/// Where programs are looked for when the job's environment has no PATH.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
/// Exit code of a command that is not there, as shells have it.
pub(crate) const NOT_FOUND: i32 = 127;
/// Exit code of a command that is there and cannot be run.
pub(crate) const NOT_RUNNABLE: i32 = 126;

/// A task that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {}", io_text(.error))]
pub(crate) struct SpawnError {
    /// The program; or the directory or the file, named as such.
    pub(crate) what: String,
    /// What the kernel said.
    pub(crate) error: io::Error,
    /// Exit code that stands for it.
    pub(crate) code: i32,
}

/// The text of an error without Rust's "(os error 2)".
pub(crate) fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// The streams of one task, as it gets them.
pub(crate) struct Streams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// Our own standard streams are those of a task while it is spawned: it inherits them, and no descriptor is too high for its limits. We use none
/// of ours (the socket has a descriptor of its own).
struct Lent {
    stderr: OwnedFd,
}

impl Lent {
    fn to(streams: &Streams) -> io::Result<Lent> {
        let stderr = io::stderr().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(&streams.stdin)?;
        rustix::stdio::dup2_stdout(&streams.stdout)?;
        rustix::stdio::dup2_stderr(&streams.stderr)?;
        Ok(Lent { stderr })
    }
}

impl Drop for Lent {
    /// A pipe's end that we kept would keep its reader waiting.
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stderr(&self.stderr);
        if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&nothing);
            let _ = rustix::stdio::dup2_stdout(&nothing);
        }
    }
}

/// What all tasks of this part have in common.
#[derive(Debug)]
pub(crate) struct Launcher {
    program: PathBuf,
    environment: BTreeMap<String, String>,
    /// The job's id, spelled as its locale can show it.
    pub(crate) id: String,
    /// Our own, to return to after a spawn.
    cores: Option<CpuSet>,
}

impl Launcher {
    /// Reads the job's environment, finds its program. The job's directory must be the current one.
    pub(crate) fn new(order: &Order) -> Result<Launcher, SpawnError> {
        let (environment, id) = environment(order);
        let name = order.command.first().map_or("", String::as_str);
        let program = find(
            name,
            environment.get("PATH").map_or(PATH_DEFAULT, String::as_str),
        )?;
        let cores = if order.pin == Pin::Off {
            None
        } else {
            rustix::thread::sched_getaffinity(None).ok()
        };
        Ok(Launcher {
            program,
            environment,
            id,
            cores,
        })
    }

    /// Starts one task.
    pub(crate) fn spawn(
        &self,
        order: &Order,
        local: u32,
        streams: &Streams,
    ) -> Result<Pid, SpawnError> {
        let mut command = self.command(&self.program, order, local);
        command.arg0(&order.command[0]).args(&order.command[1..]);
        let lent = Lent::to(streams).map_err(|error| self.failed(order, error))?;
        self.pin(order, local);
        let limits = Limits::apply(&order.rlimit);
        let mut spawned = command.spawn();
        if spawned.as_ref().is_err_and(|error| {
            error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
        }) {
            // A script without a first line that names its interpreter: what execvp does.
            let mut shell = self.command(Path::new("/bin/sh"), order, local);
            shell.arg(&self.program).args(&order.command[1..]);
            spawned = shell.spawn();
        }
        limits.restore();
        drop(lent);
        if let Some(cores) = &self.cores {
            let _ = rustix::thread::sched_setaffinity(None, cores);
        }
        let child = spawned.map_err(|error| self.failed(order, error))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // The child is reaped by the shepherd's reaper with everybody else.
        pid.ok_or_else(|| self.failed(order, io::Error::from(io::ErrorKind::Other)))
    }

    fn failed(&self, order: &Order, error: io::Error) -> SpawnError {
        let code = if error.kind() == io::ErrorKind::NotFound {
            NOT_FOUND
        } else {
            NOT_RUNNABLE
        };
        SpawnError {
            what: order.command.first().cloned().unwrap_or_default(),
            error,
            code,
        }
    }

    fn command(&self, program: &Path, order: &Order, local: u32) -> Command {
        let rank = (order.first_task + local).to_string();
        let local = local.to_string();
        let mut command = Command::new(program);
        command.env_clear().envs(&self.environment).process_group(0);
        for (name, value) in [("TASK_RANK", &rank), ("TASK_LOCAL_ID", &local)] {
            command
                .env(format!("WEIR_{name}"), value)
                .env(format!("FLUX_{name}"), value);
        }
        command
    }

    fn pin(&self, order: &Order, local: u32) {
        let share = match order.pin {
            Pin::Off => return,
            Pin::Job => &order.cores[..],
            Pin::Task => share(&order.cores, local, order.ntasks),
        };
        let mut cores = CpuSet::new();
        for core in share
            .iter()
            .filter(|core| (**core as usize) < CpuSet::MAX_CPU)
        {
            cores.set(*core as usize);
        }
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// Goes to the job's directory.
pub(crate) fn enter(cwd: &str) -> Result<(), SpawnError> {
    std::env::set_current_dir(cwd).map_err(|error| SpawnError {
        what: format!("working directory {cwd}"),
        error,
        code: NOT_RUNNABLE,
    })
}

/// Task `local`'s part of `cores` among `ntasks`; all of them if there are more tasks than cores.
fn share(cores: &[u32], local: u32, ntasks: u32) -> &[u32] {
    let (local, ntasks) = (local as usize, ntasks.max(1) as usize);
    let each = cores.len() / ntasks;
    if each == 0 {
        cores
    } else {
        &cores[local * each..(local + 1) * each]
    }
}

/// The environment of every task: the job's own, and what tells it where it is. And the job's id as it stands there.
fn environment(order: &Order) -> (BTreeMap<String, String>, String) {
    let mut environment: BTreeMap<String, String> = BTreeMap::new();
    if let Some(json) = &order.environment {
        let given: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(json.get()).unwrap_or_default();
        environment.extend(given.into_iter().filter_map(|(name, value)| match value {
            serde_json::Value::String(text) => Some((name, text)),
            _ => None,
        }));
    }
    let id = job::JobId(order.id).f58(!is_utf8(&environment));
    for (name, value) in [
        ("URI", order.uri.clone()),
        ("JOB_ID", id.clone()),
        ("JOB_SIZE", order.ntasks_total.to_string()),
        ("JOB_NNODES", order.nnodes.to_string()),
    ] {
        environment.insert(format!("FLUX_{name}"), value.clone());
        environment.insert(format!("WEIR_{name}"), value);
    }
    // Flux has no name for these.
    for (name, value) in [
        ("WEIR_NODE", &order.host),
        ("WEIR_NODELIST", &order.nodelist),
    ] {
        environment.insert(name.to_owned(), value.clone());
    }
    if !order.gpus.is_empty() {
        let gpus: Vec<String> = order.gpus.iter().map(ToString::to_string).collect();
        environment.insert("CUDA_VISIBLE_DEVICES".to_owned(), gpus.join(","));
    }
    (environment, id)
}

/// Whether the job was submitted from a UTF-8 locale: its id then begins with ƒ.
fn is_utf8(environment: &BTreeMap<String, String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| environment.get(*name))
        .find(|text| !text.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// Finds a program as a shell would.
fn find(name: &str, path: &str) -> Result<PathBuf, SpawnError> {
    let failed = |code, kind: rustix::io::Errno| SpawnError {
        what: name.to_owned(),
        error: kind.into(),
        code,
    };
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let mut code = failed(NOT_FOUND, rustix::io::Errno::NOENT);
    if name.is_empty() {
        return Err(code);
    }
    for dir in path.split(':') {
        let candidate = Path::new(if dir.is_empty() { "." } else { dir }).join(name);
        if !candidate.is_file() {
            continue;
        }
        if rustix::fs::access(&candidate, rustix::fs::Access::EXEC_OK).is_ok() {
            // A path with a slash: it is executed as it is, never searched for again.
            return Ok(candidate);
        }
        code = failed(NOT_RUNNABLE, rustix::io::Errno::ACCESS);
    }
    Err(code)
}

/// Soft limits, set for the moment of a spawn.
struct Limits {
    before: Vec<(Resource, Rlimit)>,
}

impl Limits {
    fn apply(wanted: &[(String, i64)]) -> Limits {
        let mut before = Vec::with_capacity(wanted.len());
        for (name, value) in wanted {
            let Some(resource) = resource(name) else {
                continue;
            };
            let now = rustix::process::getrlimit(resource);
            let wanted = u64::try_from(*value).ok();
            // Never above the hard limit: that needs privilege, and a job gets as much as there is.
            let current = match (wanted, now.maximum) {
                (Some(wanted), Some(maximum)) => Some(wanted.min(maximum)),
                (None, maximum) => maximum,
                (wanted, None) => wanted,
            };
            if current != now.current
                && rustix::process::setrlimit(
                    resource,
                    Rlimit {
                        current,
                        maximum: now.maximum,
                    },
                )
                .is_ok()
            {
                before.push((resource, now));
            }
        }
        Limits { before }
    }

    fn restore(self) {
        for (resource, limit) in self.before {
            let _ = rustix::process::setrlimit(resource, limit);
        }
    }
}

fn resource(name: &str) -> Option<Resource> {
    Some(match name {
        "as" => Resource::As,
        "core" => Resource::Core,
        "cpu" => Resource::Cpu,
        "data" => Resource::Data,
        "fsize" => Resource::Fsize,
        "memlock" => Resource::Memlock,
        "msgqueue" => Resource::Msgqueue,
        "nice" => Resource::Nice,
        "nofile" => Resource::Nofile,
        "nproc" => Resource::Nproc,
        "rss" => Resource::Rss,
        "rtprio" => Resource::Rtprio,
        "rttime" => Resource::Rttime,
        "sigpending" => Resource::Sigpending,
        "stack" => Resource::Stack,
        _ => return None,
    })
}

/// A pipe whose first end, ours, does not block: (ours, the task's). `reads` says which end is ours.
pub(crate) fn pipe(reads: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (ours, theirs) = if reads { (read, write) } else { (write, read) };
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// A file, or another thing the streams are made of, that cannot be had. `what` says what it is.
pub(crate) fn open_failed(what: impl Into<String>, error: io::Error) -> SpawnError {
    SpawnError {
        what: what.into(),
        error,
        code: NOT_RUNNABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_evenly_or_by_all() {
        assert_eq!(share(&[4, 5, 6, 7], 1, 2), [6, 7]);
        assert_eq!(share(&[4, 5, 6], 1, 2), [5]);
        assert_eq!(share(&[4], 1, 2), [4]);
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert_eq!(find("sh", "/nowhere:/bin").unwrap(), Path::new("/bin/sh"));
        assert_eq!(find("./x", "").unwrap(), Path::new("./x"));
        let missing = find("no-such-command", "/bin").unwrap_err();
        assert_eq!(
            (missing.code, missing.to_string().as_str()),
            (127, "no-such-command: No such file or directory")
        );
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plain"), "").unwrap();
        assert_eq!(
            find("plain", dir.path().to_str().unwrap())
                .unwrap_err()
                .code,
            126
        );
    }

    #[test]
    fn the_locale_says_how_an_id_is_spelled() {
        let utf8 = |pairs: &[(&str, &str)]| {
            is_utf8(
                &pairs
                    .iter()
                    .map(|(n, v)| ((*n).into(), (*v).into()))
                    .collect(),
            )
        };
        assert!(utf8(&[("LANG", "C.UTF-8")]));
        assert!(!utf8(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "en_GB.utf8")]));
        assert!(!utf8(&[]));
    }
}
