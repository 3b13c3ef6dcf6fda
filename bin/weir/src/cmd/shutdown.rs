//! `weir shutdown`: the instance ends once nothing runs; or now.
//!
//! ```text
//!  shutdown ─▶ progress … ─┬─ drained ─▶ the processes end │ 60 s ─▶ done
//!                          ├─ --timeout ─▶ taken back, 124       (--now: forced ─▶ as drained, naming what is left, 1)
//!                          ├─ ctrl-C ─▶ taken back, 130
//!                          └─ --now and no answer ─▶ SIGTERM to weir start ─▶ the processes end
//! ```
//! The job-manager decides (see `rfc/7_job_manager.md`); whoever started it stops the other daemons. Whether they have ended is seen by
//! their processes, not by what they say.

use crate::connect::{self, CallError, Session, Stream};
use crate::document;
use crate::failure::Exit;
use crate::ids;
use crate::limit::STATUS_TIMEOUT;
use crate::output::{self, complain};
use crate::supervise::processes::Processes;
use crate::uri::Place;
use crate::when;
use indicatif::{ProgressBar, ProgressStyle};
use job::{JobId, StateSet};
use protocol::shutdown::{ShutdownRequest, ShutdownResponse};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// With --now: how long canceled jobs may take to end, if --timeout does not say.
const NOW_WITHIN: Duration = Duration::from_secs(30);
/// How long the job-manager may take to say what it does, with --now.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A job-manager that dies is asked again so often.
const LOST_MAX: u32 = 5;
/// Names of jobs are a courtesy.
const NAMES_WITHIN: Duration = Duration::from_secs(2);
/// Between two lines for who has no terminal.
const SAY_EVERY: Duration = Duration::from_secs(1);
/// Jobs named in a line.
const NAMED_MAX: usize = 8;
/// The status after ctrl-C.
const STATUS_INTERRUPTED: u8 = 130;

/// End the instance once the jobs that run have ended; or now
///
/// From now on submissions are refused and no job is started. When no job runs any more the daemons stop, and 'weir start' with
/// them. Jobs that wait are kept and are there at the next start, and so is a stopped or disabled queue with its reason.
///
/// Ctrl-C, --timeout, or the end of this command by anything else take it back: the instance goes on as before. With --now the jobs that
/// run are canceled first, by an exception that says why; those that have not ended in time are named and left to themselves, and the
/// instance ends all the same.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir shutdown                      wait for what runs, however long
  weir shutdown --timeout=1h         at most an hour, else go on as before
  weir shutdown --now                cancel what runs; ends within a minute or so

SIGTERM or ctrl-C to 'weir start' itself stops the daemons at once and lets the jobs run on.

JSON
  {\"shut_down\":bool,\"waiting\":N|null,\"jobs\":[{\"id\",\"f58\",\"name\"}…],\"elapsed\":seconds|null,
    \"errors\":[…]}
  waiting: jobs that still run; jobs: the first of them. null: with --now, a job-manager
  that did not answer; 'weir start' was told to stop

EXIT STATUS
  0    the instance has ended, and no job runs
  1    no instance, no right to it, or a process that does not end; with --now also when
       jobs are left that have not ended
  124  --timeout passed first (without --now): it was taken back
  130  interrupted: it was taken back, or the line says that the instance is ending")]
pub struct Args {
    /// Longest time to wait for jobs to end [default: no limit; with --now 30s]
    #[arg(short, long, value_name = "FSD", value_parser = when::finite, allow_hyphen_values = true)]
    timeout: Option<f64>,

    /// Cancel the jobs that run
    #[arg(long)]
    now: bool,

    /// One JSON document at the end, and no progress
    #[arg(long)]
    pub(crate) json: bool,

    /// No progress
    #[arg(long)]
    quiet: bool,
}

/// Shuts the instance down.
///
/// # Errors
/// No instance, no right to it, jobs or processes that have not ended; the status when it was taken back.
pub fn run(args: &Args) -> anyhow::Result<()> {
    connect::block_on(async {
        let place = Place::find()?;
        let processes = Processes::of(&place);
        let mut signals = Signals::new()?;
        let session = match Session::open_within(ANSWER_WITHIN).await {
            Ok(session) => session,
            Err(error) if args.now => return by_signal(args, processes, error).await,
            Err(error) => return Err(error),
        };
        let processes = processes.with_manager(&session).await;
        let mut waiting = Waiting::new(args, session);
        let ended = tokio::select! {
            ended = waiting.drained_whatever_dies() => Some(ended),
            () = signals.next() => None,
        };
        let left = match ended {
            None => return waiting.interrupted().await,
            Some(Ok(End::Drained)) => waiting.shown.word.clone(),
            Some(Ok(End::TakenBack)) => return waiting.taken_back(),
            Some(Err(error)) if args.now && is_silent(&error) => {
                return by_signal(args, processes, error).await;
            }
            Some(Err(error)) => return Err(error),
        };
        waiting.shown.say("waiting for the daemons to end");
        tokio::select! {
            ended = processes.end() => ended?,
            () = signals.next() => {
                waiting.shown.clear();
                complain("shutdown: not waited for any longer; the instance is ending");
                return Err(Exit(STATUS_INTERRUPTED).into());
            }
        }
        waiting.done(&left)
    })
}

/// The job-manager says nothing: its supervisor ends it and the others, in bounded time.
async fn by_signal(args: &Args, processes: Processes, error: anyhow::Error) -> anyhow::Result<()> {
    let Some(supervisor) = &processes.supervisor else {
        return Err(error);
    };
    complain(&format!(
        "shutdown: {error:#}; weir start, process {}, is told to stop: jobs that run go on",
        supervisor.pid
    ));
    supervisor.terminate();
    processes.end().await?;
    if args.json {
        document::print(
            &json!({"shut_down": true, "waiting": Value::Null, "jobs": [], "elapsed": Value::Null, "errors": []}),
        )?;
    }
    Err(Exit(1).into())
}

fn is_silent(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<CallError>()
        .is_some_and(CallError::is_silent)
}

enum End {
    Drained,
    TakenBack,
}

/// The request, and what was said of it.
struct Waiting<'a> {
    args: &'a Args,
    session: Session,
    started: Instant,
    shown: Shown,
}

impl<'a> Waiting<'a> {
    fn new(args: &'a Args, session: Session) -> Self {
        let shown = Shown::new(args);
        Self {
            args,
            session,
            started: Instant::now(),
            shown,
        }
    }

    /// As [`Self::drained`]; a job-manager that dies has forgotten it, and its successor is asked again.
    async fn drained_whatever_dies(&mut self) -> anyhow::Result<End> {
        let mut lost = 0;
        loop {
            match self.drained().await {
                Err(error) if error.is_lost() && lost < LOST_MAX => {
                    lost += 1;
                    self.session = Session::open_within(ANSWER_WITHIN).await?;
                }
                other => return Ok(other?),
            }
        }
    }

    /// Until nothing is waited for, or the time is over and it is taken back.
    async fn drained(&mut self) -> Result<End, CallError> {
        let now = self.args.now;
        let mut stream = self.ask(now, false).await?;
        let limit = self.args.timeout.map(Duration::from_secs_f64);
        let limit = limit.or(now.then_some(NOW_WITHIN));
        let limit = limit.map(|limit| limit.saturating_sub(self.started.elapsed()));
        let deadline = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let session = self.session.clone();
        let named = names(&session);
        tokio::pin!(deadline, named);
        let (mut first, mut unnamed) = (true, true);
        loop {
            let word = tokio::select! {
                biased;
                names = &mut named, if unnamed => {
                    unnamed = false;
                    self.shown.names = Some(names);
                    self.shown.again(self.started);
                    continue;
                }
                word = read(&mut stream, first && now) => word,
                () = &mut deadline => break,
            };
            match word {
                Ok(Some(word)) => {
                    first = false;
                    let drained = word.drained;
                    self.shown.word(word, self.started);
                    if drained {
                        return Ok(End::Drained);
                    }
                }
                Ok(None) => return Ok(End::Drained),
                Err(CallError::Refused { errnum, text, .. })
                    if first && now && errnum == wire::errno::ENOSPC =>
                {
                    complain(&format!(
                        "shutdown: jobs cannot be canceled: {}; they are left to themselves",
                        text.unwrap_or_default()
                    ));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if now {
            return self.force().await;
        }
        self.take_back(&mut stream).await
    }

    async fn ask(&self, now: bool, force: bool) -> Result<Stream, CallError> {
        let request = ShutdownRequest { now, force };
        self.session.stream("job-manager.shutdown", &request).await
    }

    /// What runs is left to itself.
    async fn force(&mut self) -> Result<End, CallError> {
        let mut stream = self.ask(false, true).await?;
        while let Some(word) = read(&mut stream, true).await? {
            let drained = word.drained;
            self.shown.word(word, self.started);
            if drained {
                break;
            }
        }
        Ok(End::Drained)
    }

    /// Takes it back, unless it was done in this very moment.
    async fn take_back(&mut self, stream: &mut Stream) -> Result<End, CallError> {
        self.session
            .call_unit("job-manager.shutdown-cancel", &json!({}))
            .await?;
        loop {
            match read(stream, true).await {
                Ok(Some(word)) => {
                    let drained = word.drained;
                    self.shown.word(word, self.started);
                    if drained {
                        return Ok(End::Drained);
                    }
                }
                Ok(None) => return Ok(End::Drained),
                Err(CallError::Refused {
                    errnum: wire::errno::ECANCELED,
                    ..
                }) => return Ok(End::TakenBack),
                Err(error) => return Err(error),
            }
        }
    }

    fn taken_back(&self) -> anyhow::Result<()> {
        self.shown.clear();
        complain(&format!(
            "shutdown: {} after {}: {}; it was taken back: the instance goes on, unless somebody else shuts it down",
            self.shown.still(),
            when::human(self.args.timeout.unwrap_or_default()),
            self.shown.list()
        ));
        self.document(false)?;
        Err(Exit(STATUS_TIMEOUT).into())
    }

    /// The connection's end alone would take it back; this way it is known that it was.
    async fn interrupted(mut self) -> anyhow::Result<()> {
        self.shown.clear();
        let cancel = json!({});
        let taken_back = self
            .session
            .call_unit("job-manager.shutdown-cancel", &cancel);
        let told = tokio::time::timeout(ANSWER_WITHIN, taken_back).await;
        complain(match told {
            Ok(Ok(())) if self.args.now => {
                "shutdown: taken back: the instance goes on; jobs that were canceled are ending"
            }
            Ok(Ok(())) => {
                "shutdown: taken back: the instance goes on, unless somebody else shuts it down"
            }
            _ => {
                "shutdown: interrupted; the instance takes it back when it notices that this command has ended"
            }
        });
        self.shown.word.drained = false;
        self.document(false)?;
        Err(Exit(STATUS_INTERRUPTED).into())
    }

    fn done(&self, left: &ShutdownResponse) -> anyhow::Result<()> {
        self.shown.clear();
        self.document(true)?;
        if left.waiting > 0 {
            complain(&format!(
                "shutdown: the instance has ended, but {}: {}; they are found again at the next start",
                self.shown.still(),
                self.shown.list()
            ));
            return Err(Exit(1).into());
        }
        Ok(())
    }

    fn document(&self, shut_down: bool) -> anyhow::Result<()> {
        if !self.args.json {
            return Ok(());
        }
        let word = &self.shown.word;
        let jobs: Vec<Value> = word
            .jobs
            .iter()
            .map(|id| json!({"id": id, "f58": id.to_string(), "name": self.shown.name(*id)}))
            .collect();
        let elapsed = self.started.elapsed().as_secs_f64();
        document::print(
            &json!({"shut_down": shut_down, "waiting": word.waiting, "jobs": jobs, "elapsed": elapsed, "errors": []}),
        )
    }
}

/// The next word; `bounded`: it is due.
async fn read(stream: &mut Stream, bounded: bool) -> Result<Option<ShutdownResponse>, CallError> {
    let word = if bounded {
        stream.next_within(ANSWER_WITHIN).await?
    } else {
        stream.next().await?
    };
    // What is not understood names nothing.
    Ok(word.map(|word| serde_json::from_slice(&word).unwrap_or_default()))
}

/// Names of the jobs that run, as far as the listing service knows them in time.
async fn names(session: &Session) -> HashMap<JobId, String> {
    #[derive(Deserialize)]
    struct Row {
        id: JobId,
        #[serde(default)]
        name: String,
    }
    #[derive(Deserialize)]
    struct Page {
        jobs: Vec<Row>,
    }
    let ask = json!({"max_entries": 1000, "attrs": ["name"], "since": 0.0, "constraint": {"states": [StateSet::RUNNING.0]}});
    let page = session.call_patiently::<_, Page>("job-list.list", &ask);
    match tokio::time::timeout(NAMES_WITHIN, page).await {
        Ok(Ok(page)) => page
            .jobs
            .into_iter()
            .map(|row| (row.id, row.name))
            .collect(),
        _ => HashMap::new(),
    }
}

/// What a person sees of it.
struct Shown {
    bar: Option<ProgressBar>,
    lines: bool,
    said: Option<Instant>,
    limit: String,
    word: ShutdownResponse,
    /// None as long as they are waited for.
    names: Option<HashMap<JobId, String>>,
}

impl Shown {
    fn new(args: &Args) -> Self {
        let silent = args.json || args.quiet;
        let terminal = output::stderr_is_terminal();
        let bar = (!silent && terminal).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} · {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let limit = match args.timeout {
            Some(limit) => format!(" (at most {})", when::human(limit)),
            None => String::new(),
        };
        Self {
            bar,
            lines: !silent && !terminal,
            said: None,
            limit,
            word: ShutdownResponse::default(),
            names: None,
        }
    }

    fn word(&mut self, word: ShutdownResponse, started: Instant) {
        self.word = word;
        // The first line waits for the names.
        if self.bar.is_some() || self.names.is_some() {
            self.again(started);
        }
    }

    fn again(&mut self, started: Instant) {
        if self.word.waiting == 0 || self.word.drained {
            return;
        }
        let text = format!(
            "waiting for {}: {}{}",
            jobs(self.word.waiting),
            self.list(),
            self.limit
        );
        self.say(&text);
        if self.lines && self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            let after = started.elapsed();
            let after = if after >= SAY_EVERY {
                format!(", {} so far", when::human(after.as_secs_f64()))
            } else {
                String::new()
            };
            complain(&format!("shutdown: {text}{after}"));
        }
    }

    fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn name(&self, id: JobId) -> Option<&String> {
        self.names.as_ref()?.get(&id)
    }

    /// `3 jobs still run`
    fn still(&self) -> String {
        let run = if self.word.waiting == 1 {
            "runs"
        } else {
            "run"
        };
        format!("{} still {run}", jobs(self.word.waiting))
    }

    /// `ƒA (sleep), ƒB and 3 more`
    fn list(&self) -> String {
        let named = self.word.jobs.iter().take(NAMED_MAX).map(|id| {
            let name = self.name(*id).filter(|name| !name.is_empty());
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            format!("{}{name}", ids::show(*id))
        });
        let named: Vec<String> = named.collect();
        let more = self.word.waiting.saturating_sub(named.len() as u64);
        let mut list = named.join(", ");
        if more > 0 {
            list.push_str(&format!(" and {more} more"));
        }
        list
    }
}

fn jobs(count: u64) -> String {
    format!("{count} job{}", if count == 1 { "" } else { "s" })
}

/// The signals that take it back.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
