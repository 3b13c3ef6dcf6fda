//! `weir start`: an instance, for as long as this command runs; or a private one for as long as another command runs.

use crate::connect::{self, Session};
use crate::failure::{Exit, usage};
use crate::output::complain;
use crate::supervise::claim::{Claim, Ending};
use crate::supervise::daemon::{self, Daemon};
use crate::supervise::http::HttpArgs;
use crate::supervise::ready::{self, Awaited, Resources};
use crate::supervise::report::Report;
use crate::supervise::{self, Supervisor, layout};
use crate::text::shell_word;
use crate::uri::{self, From, Place, SOCKET_PATH_MAX};
use crate::{status, when};
use anyhow::Context as _;
use job::StateSet;
use protocol::job_manager::{RaiseallRequest, USERID_ALL};
use rustix::process::Signal as Number;
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long the jobs of a private instance may take to end when its command has.
const DRAIN_WITHIN: Duration = Duration::from_secs(30);
/// How long the job-manager may take to stop: it waits for the disk and for clients that read.
const MANAGER_STOP_WITHIN: Duration = Duration::from_secs(20);
/// How long the others may.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How long the job-manager may take to say how many jobs run.
const COUNTED_WITHIN: Duration = Duration::from_secs(1);
/// The status when the command is not there, and when it cannot be executed.
const STATUS_NOT_FOUND: u8 = 127;
const STATUS_NOT_EXECUTABLE: u8 = 126;

/// Start an instance; with a command, a private one that ends with it
///
/// Runs weir-job-manager, weir-job-info and weir-job-runner and restarts one that dies. Without a command it stays in the
/// foreground and says what to type next. SIGTERM or ctrl-C stops the daemons and leaves the jobs: they go on and are found
/// again at the next start on the same state directory. A daemon that takes too long is killed: after 10 seconds, the job-manager
/// after 20, all at the second signal. 'weir shutdown' waits for the jobs first.
///
/// With a command a private instance is started in a directory of its own (unless --statedir is given), the command runs with
/// WEIR_URI set, and when it ends what is left of the jobs is canceled, the instance stopped and the directory removed. A command that
/// shuts the instance down goes on without it. A --statedir whose jobs have not all ended is refused here: they would be canceled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir start                                     in the default state directory
  weir start --statedir=/var/lib/weir
  weir start -s 4                                pretend four nodes
  weir start --inactive-age-limit=90d            forget jobs ninety days after their end
  weir start --http=127.0.0.1:8080               the page and its interface there
  weir start --allow-guests --statedir=/srv/weir others may submit and look (see --allow-guests)
  weir start sh -c 'weir run -n2 hostname'       a private instance for one command

FILES
  STATEDIR/socket      where clients connect: WEIR_URI=local://STATEDIR/socket
  STATEDIR/http        where HTTP is served; STATEDIR/http-token lets in
  STATEDIR/log/*.log   what the daemons say; WEIR_LOG=debug makes it more
  STATEDIR defaults to $XDG_STATE_HOME/weir, else ~/.local/state/weir
  WEIR_EXEC_DIR        where the daemons' programs are, if not beside weir

EXIT STATUS
  0  stopped by SIGTERM, ctrl-C or 'weir shutdown'
  N  with a command: its status, 128 + the signal that ended it, 127 if it was not found
  1  the instance cannot be started, or a daemon cannot be started again: the line says why, where
     its log is and what to do. A daemon that ends in any other way is started again, for ever.
  2  the command line is wrong")]
pub struct Args {
    /// Pretend so many nodes, each a process of its own
    #[arg(short = 's', long = "size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    size: Option<u32>,

    /// State directory; made if it is missing
    #[arg(long, value_name = "DIR")]
    statedir: Option<PathBuf>,

    /// Purge jobs so long after their end (90d, 12h; seconds if there is no unit); without this they stay
    #[arg(long, value_name = "FSD", value_parser = age)]
    inactive_age_limit: Option<String>,

    /// Of the jobs that have ended keep the last N, purge the others; without this all stay
    #[arg(long, value_name = "N")]
    inactive_num_limit: Option<u32>,

    #[command(flatten)]
    http: HttpArgs,

    /// Let other users of this machine connect, to submit and to look; the engine runs jobs of yours only
    #[arg(long)]
    allow_guests: bool,

    /// One more argument for weir-job-manager; may be given often
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    manager_arg: Vec<OsString>,

    /// One more argument for weir-job-info; may be given often
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    info_arg: Vec<OsString>,

    /// One more argument for weir-job-runner; may be given often
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    runner_arg: Vec<OsString>,

    /// Say nothing when ready
    #[arg(long)]
    quiet: bool,

    /// A command to run in a private instance
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A duration, as it was typed.
fn age(text: &str) -> Result<String, String> {
    when::duration(text).map(|_| text.to_owned())
}

impl Args {
    /// The options that are the job-manager's.
    fn limits(&self) -> Vec<String> {
        let age = self.inactive_age_limit.as_ref();
        let num = self.inactive_num_limit.as_ref();
        let age = age.map(|age| format!("--inactive-age-limit={age}"));
        let num = num.map(|num| format!("--inactive-num-limit={num}"));
        age.into_iter().chain(num).collect()
    }
}

/// Runs an instance.
///
/// # Errors
/// It cannot be started; or the status of the command as [`Exit`].
pub fn run(args: &Args) -> anyhow::Result<()> {
    // Held until the end: dropping it removes the directory.
    let (statedir, private) = statedir(args)?;
    let result = connect::block_on(instance(args, &statedir, private.is_some()));
    if let Some(private) = private {
        private
            .close()
            .with_context(|| format!("cannot remove {}", statedir.display()))?;
    }
    match result? {
        0 => Ok(()),
        status => Err(Exit(status).into()),
    }
}

/// The state directory, and the same again if it is to be removed at the end.
fn statedir(args: &Args) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    let (path, private) = match &args.statedir {
        Some(path) => (std::path::absolute(path)?, None),
        None if args.command.is_empty() => (uri::default_statedir()?, None),
        None => {
            let dir = tempfile::Builder::new()
                .prefix("weir-")
                .tempdir()
                .context("cannot make a directory for the private instance; set TMPDIR")?;
            (dir.path().to_owned(), Some(dir))
        }
    };
    let socket = path.join("socket");
    let length = socket.as_os_str().len();
    if length > SOCKET_PATH_MAX {
        return Err(usage(format!(
            "{}: a socket path may have {SOCKET_PATH_MAX} bytes, this one has {length}; choose a shorter --statedir",
            socket.display()
        )));
    }
    make(&path, args.allow_guests, private.is_some()).with_context(|| {
        format!(
            "cannot make the state directory {}; choose another with --statedir",
            path.display()
        )
    })?;
    if args.allow_guests {
        let mode = std::fs::metadata(&path)?.permissions().mode() & 0o777;
        if mode & 0o001 == 0 {
            let path = path.display();
            return Err(usage(format!(
                "--allow-guests: {path} is closed to them (mode {mode:o}), and the socket with it: 'chmod 711 {path}' lets them \
                 through (the store, the key and the output of jobs stay closed), or name another with --statedir"
            )));
        }
    }
    Ok((path, private))
}

/// Makes the state directory and what the daemons' logs are in. One that is made here is open to guests if they are let in, as far as the socket:
/// what else is in it is closed by itself.
fn make(path: &Path, for_guests: bool, private: bool) -> io::Result<()> {
    let ours = private || !path.exists();
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path.join("log"))?;
    if ours && for_guests {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o711))?;
    }
    Ok(())
}

/// Everything from the first daemon to the last; the status to exit with.
async fn instance(args: &Args, statedir: &Path, private: bool) -> anyhow::Result<u8> {
    // Before anything is started, so that no signal finds us without.
    let mut signals = Signals::new()?;
    let place = Place {
        socket: statedir.join("socket"),
        from: From::WeirUri,
    };
    let [manager, info, runner] = daemons(args, statedir, &place, private)?;
    layout::check(statedir)?;
    let mut claim = tokio::select! {
        claim = Claim::take(statedir) => claim?,
        number = signals.next() => return Err(stopped(number)),
    };
    args.http.check()?;
    let mut supervisor = Supervisor::default();
    let awaited = Awaited::of(&manager);
    let process = supervisor.keep(manager);
    let started = tokio::select! {
        session = ready::manager(&mut supervisor, &place, &process, &awaited) => session,
        number = signals.next() => Err(stopped(number)),
    };
    let mut session = match started {
        Ok(session) => session,
        Err(error) => {
            claim.stopping(Ending::Stopped);
            supervisor.stop(signals.stop()).await;
            return Err(error);
        }
    };
    // Before anything runs jobs, or could cancel them.
    if !args.command.is_empty()
        && !private
        && let Err(error) = nothing_to_lose(&session, statedir).await
    {
        claim.stopping(Ending::Stopped);
        supervisor.stop(signals.stop()).await;
        return Err(error);
    }
    let awaited = [Awaited::of(&info), Awaited::of(&runner)];
    supervisor.keep(info);
    supervisor.keep(runner);
    let ready = tokio::select! {
        resources = ready::all(&mut supervisor, &mut session, &awaited) => resources,
        number = signals.next() => Err(stopped(number)),
    };
    if ready.is_ok() {
        supervisor.set_ready();
    }
    let mut ending = Ending::Stopped;
    let status = match ready {
        Err(error) => Err(error),
        Ok(resources) if args.command.is_empty() => {
            if !args.quiet {
                say_ready(args, &place, resources);
            }
            let served = serve(&mut supervisor, &mut signals).await;
            ending = *served.as_ref().unwrap_or(&ending);
            // First of all: whoever is disconnected looks there.
            claim.stopping(ending);
            if let (Ok(Ending::Stopped), false) = (&served, args.quiet) {
                say_stopping(args, &session).await;
            }
            served.map(|_| 0)
        }
        Ok(_) => {
            let status = command(args, &place, &mut supervisor, &mut signals, &mut claim).await;
            match status {
                Ok((status, Ending::Left)) => {
                    ending = Ending::Left;
                    Ok(status)
                }
                other => {
                    end_jobs(&session).await;
                    other.map(|(status, _)| status)
                }
            }
        }
    };
    drop(session);
    claim.stopping(ending);
    supervisor.stop(signals.stop()).await;
    if args.command.is_empty() && status.is_ok() && !args.quiet {
        // Somebody who does not read this does not want it.
        let _ = writeln!(
            io::stdout(),
            "weir: {}",
            match ending {
                Ending::Stopped => "stopped",
                Ending::ShutDown | Ending::Left => "the instance was shut down",
            }
        );
    }
    status
}

fn stopped(number: Number) -> anyhow::Error {
    complain(&format!(
        "start: stopped by signal {} before the instance was ready",
        number.as_raw()
    ));
    let status = u8::try_from(number.as_raw()).map_or(u8::MAX, |number| 128 + number);
    Exit(status).into()
}

/// The three daemons with their arguments.
fn daemons(
    args: &Args,
    statedir: &Path,
    place: &Place,
    private: bool,
) -> anyhow::Result<[Daemon; 3]> {
    let uri = uri::of_socket(&place.socket);
    let make = |name: &'static str, log: &str, mut arguments: Vec<OsString>, more: &[OsString]| {
        arguments.extend_from_slice(more);
        anyhow::Ok(Daemon {
            name,
            program: daemon::find(name)?,
            arguments,
            log: statedir.join("log").join(log),
            stop_within: STOP_WITHIN,
            may_shut_down: false,
        })
    };
    let common = || {
        vec![
            OsString::from("--uri"),
            uri.clone().into(),
            "--statedir".into(),
            statedir.into(),
        ]
    };
    let mut manager = vec![OsString::from("--statedir"), statedir.into()];
    manager.extend(args.limits().into_iter().map(OsString::from));
    let mut info = common();
    if args.allow_guests {
        for arguments in [&mut manager, &mut info] {
            arguments.push("--allow-guests".into());
        }
    }
    info.extend(args.http.arguments());
    let mut runner = common();
    if let Some(size) = args.size {
        runner.extend(["-s".into(), size.to_string().into()]);
    }
    // Daemons whose supervisor was killed would be in the way of the next one on this directory.
    for arguments in [&mut manager, &mut info, &mut runner] {
        arguments.push(format!("--stop-with-parent={}", std::process::id()).into());
    }
    if private {
        runner.push("--die-with-supervisor".into());
    }
    let manager = make(
        "weir-job-manager",
        "job-manager.log",
        manager,
        &args.manager_arg,
    )?;
    Ok([
        Daemon {
            stop_within: MANAGER_STOP_WITHIN,
            may_shut_down: true,
            ..manager
        },
        make("weir-job-info", "job-info.log", info, &args.info_arg)?,
        make(
            "weir-job-runner",
            "job-runner.log",
            runner,
            &args.runner_arg,
        )?,
    ])
}

fn say_ready(args: &Args, place: &Place, resources: Resources) {
    let uri = uri::of_socket(&place.socket);
    let mut out = io::stdout().lock();
    let plural =
        |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let on = if resources.cores > 0 {
        format!(
            " on {}, {}",
            plural(resources.nodes, "node"),
            plural(resources.cores, "core")
        )
    } else {
        String::new()
    };
    let page = args.http.page(place.statedir());
    // Somebody who does not read this does not want it.
    let _ = writeln!(
        out,
        "weir: ready{on}. In another terminal:\n\n  export WEIR_URI={}\n  weir submit -n1 sleep 60\n  weir jobs\n\n{page}Ctrl-C stops the instance; \
         running jobs go on and are found again by\n\n  {}",
        shell_word(&uri),
        again(args, place.statedir())
    );
    let _ = out.flush();
}

/// The command line that starts the same instance again.
fn again(args: &Args, statedir: &Path) -> String {
    let mut words = vec![format!("--statedir={}", statedir.display())];
    if let Some(size) = args.size {
        words.extend(["-s".to_owned(), size.to_string()]);
    }
    words.extend(args.limits());
    words.extend(args.http.words());
    if args.allow_guests {
        words.push("--allow-guests".to_owned());
    }
    for (option, given) in [
        ("manager", &args.manager_arg),
        ("info", &args.info_arg),
        ("runner", &args.runner_arg),
    ] {
        for word in given {
            words.push(format!("--{option}-arg={}", word.to_string_lossy()));
        }
    }
    if args.quiet {
        words.push("--quiet".to_owned());
    }
    words
        .iter()
        .fold("weir start".to_owned(), |mut line, word| {
            line.push(' ');
            line.push_str(&shell_word(word));
            line
        })
}

/// Until a signal or the job-manager says stop, or a daemon is given up on.
async fn serve(supervisor: &mut Supervisor, signals: &mut Signals) -> anyhow::Result<Ending> {
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(Ending::Stopped),
            report = supervisor.report() => match report {
                Report::ShutDown => return Ok(Ending::ShutDown),
                report => report.tell()?,
            },
        }
    }
}

/// Says what goes on after a signal, and what becomes of the jobs.
async fn say_stopping(args: &Args, session: &Session) {
    #[derive(Deserialize)]
    struct Running {
        running: u64,
    }
    let request = json!({});
    let asked = session.call::<_, Running>("job-manager.alloc-query", &request);
    let jobs = match tokio::time::timeout(COUNTED_WITHIN, asked).await {
        Ok(Ok(Running { running: 0 })) => "no job runs".to_owned(),
        Ok(Ok(Running { running: 1 })) => "1 job runs on and is found again by".to_owned(),
        Ok(Ok(Running { running })) => format!("{running} jobs run on and are found again by"),
        _ => "jobs that run go on and are found again by".to_owned(),
    };
    let found = if jobs == "no job runs" {
        String::new()
    } else {
        format!("\n\n  {}\n", again(args, session.place().statedir()))
    };
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "weir: stopping the daemons; {jobs}{found}");
    let _ = out.flush();
}

/// Sees that there are no jobs of another session in this directory: a private instance cancels what is left when its command ends.
async fn nothing_to_lose(session: &Session, statedir: &Path) -> anyhow::Result<()> {
    #[derive(Deserialize)]
    struct Stats {
        #[serde(default)]
        active_jobs: u64,
    }
    let stats: Stats = session.call("job-manager.stats-get", &json!({})).await?;
    let jobs = match stats.active_jobs {
        0 => return Ok(()),
        1 => "a job that has not ended, which".to_owned(),
        jobs => format!("{jobs} jobs that have not ended, which"),
    };
    let statedir = statedir.display().to_string();
    anyhow::bail!(
        "the state directory {statedir} holds {jobs} would be canceled when the command ends: leave --statedir out for an instance of its own, or start it \
         without a command and run that beside it: weir start {}",
        shell_word(&format!("--statedir={statedir}"))
    )
}

/// Runs the command in the instance; its status.
async fn command(
    args: &Args,
    place: &Place,
    supervisor: &mut Supervisor,
    signals: &mut Signals,
    claim: &mut Claim,
) -> anyhow::Result<(u8, Ending)> {
    let mut ending = Ending::Stopped;
    let Some((program, arguments)) = args.command.split_first() else {
        return Ok((0, ending));
    };
    let uri = uri::of_socket(&place.socket);
    let spawned = Command::new(program)
        .args(arguments)
        .env("WEIR_URI", &uri)
        .env("FLUX_URI", &uri)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("start: {}: {error}", program.to_string_lossy()));
            let status = if error.kind() == io::ErrorKind::NotFound {
                STATUS_NOT_FOUND
            } else {
                STATUS_NOT_EXECUTABLE
            };
            return Ok((status, ending));
        }
    };
    // A terminal sends ctrl-C to the command as well as to us.
    let from_terminal = io::stdin().is_terminal();
    loop {
        tokio::select! {
            status = child.wait() => return Ok((status::exit_status(status?.into_raw()), ending)),
            number = signals.next() => {
                if !(from_terminal && number == Number::INT) {
                    supervise::signal(&child, number);
                }
            }
            // Perhaps by the command itself: it goes on, and its status is ours.
            report = supervisor.report() => if let Report::ShutDown = report {
                ending = Ending::Left;
                claim.stopping(ending);
                supervisor.begin_stop();
            } else {
                if let Err(error) = report.tell() {
                    end(&mut child).await;
                    return Err(error);
                }
            }
        }
    }
}

async fn end(child: &mut Child) {
    supervise::signal(child, Number::TERM);
    if tokio::time::timeout(DRAIN_WITHIN, child.wait())
        .await
        .is_err()
    {
        supervise::signal(child, Number::KILL);
        let _ = child.wait().await;
    }
}

/// Cancels what is left and waits, not for ever, until it is gone.
async fn end_jobs(session: &Session) {
    let all = RaiseallRequest {
        dry_run: false,
        userid: USERID_ALL,
        states: StateSet::ACTIVE.0,
        severity: 0,
        kind: Cow::Borrowed("cancel"),
        note: Some(Cow::Borrowed("the private instance ends")),
    };
    let ending = async {
        // A new connection if the old one did not live as long as the command.
        let fresh;
        let session = match session.call_unit("job-manager.raiseall", &all).await {
            Err(error) if error.is_lost() => {
                fresh = Session::open_at(session.place()).await?;
                fresh.call_unit("job-manager.raiseall", &all).await?;
                &fresh
            }
            other => {
                other?;
                session
            }
        };
        session
            .call_unit_patiently("job-manager.drain", &json!({}))
            .await?;
        anyhow::Ok(())
    };
    match tokio::time::timeout(DRAIN_WITHIN, ending).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => complain(&format!(
            "start: jobs that are left could not be canceled: {error:#}"
        )),
        Err(_) => complain(&format!(
            "start: some jobs have not ended after {}; they are left to the runner",
            when::human(DRAIN_WITHIN.as_secs_f64())
        )),
    }
}

/// The signals that end an instance.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Any of them.
    async fn stop(&mut self) {
        self.next().await;
    }

    async fn next(&mut self) -> Number {
        tokio::select! {
            _ = self.terminate.recv() => Number::TERM,
            _ = self.interrupt.recv() => Number::INT,
            _ = self.hangup.recv() => Number::HUP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_hint_for_starting_again_has_the_same_options() {
        let line = [
            "x",
            "-s",
            "4",
            "--runner-arg=--cores=0-1",
            "--manager-arg",
            "--x y",
            "--allow-guests",
        ];
        assert_eq!(
            again(&Line::parse_from(line).args, Path::new("/run/w")),
            "weir start --statedir=/run/w -s 4 --allow-guests '--manager-arg=--x y' --runner-arg=--cores=0-1"
        );
        assert_eq!(
            again(&Line::parse_from(["x"]).args, Path::new("/run/w")),
            "weir start --statedir=/run/w"
        );
    }
}
