//! Following one job from wherever it is to its end: its output to our streams, our standard input to it, its status to us.
//!
//! ```text
//! eventlog ──▶ exceptions to stderr, finish status kept        ends after clean
//! guest.output ──▶ stdout, stderr                              ends when all is delivered
//! stdin thread ──▶ guest.exec.eventlog says where ──▶ SERVICE.stdin
//! ```
//! All three streams are opened at once: those of a job that has not started wait. When the connection is lost (the
//! job-manager restarts) all of it is opened again and what was seen before is passed over, so the output has neither a
//! gap nor a repeat. [`output`] decodes output entries, [`stdin`] forwards standard input.
//!
//! Left to others: submitting (`cmd/submit`), what the status means (`status`).

pub mod output;
pub mod stdin;

use crate::connect::{CallError, Session, Stream};
use crate::eventtext::{EventText, LogEvent, Times};
use crate::failure::Exit;
use crate::outage::{self, Outage};
use crate::output::complain;
use crate::{ids, status};
use bytes::Bytes;
use job::JobId;
use output::{Delivered, Sink};
use serde::Deserialize;
use serde_json::json;
use std::time::{Duration, Instant};
use stdin::Stdin;
use tokio::signal::unix::{Signal, SignalKind, signal};
use wire::errno;

/// A second ctrl-C within this time cancels the job.
const INTERRUPT_WITHIN: Duration = Duration::from_secs(2);
/// The status of a process that ctrl-C ended.
const STATUS_INTERRUPTED: u8 = 130;
/// The status of a process whose standard output was closed.
const STATUS_PIPE_CLOSED: u8 = 141;

/// How long a job may wait before that is said.
const WAITING_AFTER: Duration = Duration::from_secs(1);

/// What to show and take.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Forward standard input.
    pub stdin: bool,
    /// Put the task's rank before each line.
    pub label: bool,
    /// Show the job's events on standard error.
    pub events: bool,
    /// Ctrl-C asks, and a second one cancels.
    pub interrupts: bool,
    /// Say nothing on standard error about how the job ended.
    pub quiet: bool,
    /// Say once what the job waits for, if it does for a while.
    pub waiting: bool,
}

/// A message of `job-info.eventlog-watch`: one event, as the text of its line.
#[derive(Deserialize)]
pub struct WatchResponse {
    /// Compact JSON and a line break.
    pub event: String,
}

/// Opens the stream of one log of a job.
///
/// # Errors
/// The connection is gone.
pub async fn watch(
    session: &Session,
    id: JobId,
    path: &str,
    flags: u32,
) -> Result<Stream, CallError> {
    session
        .stream(
            "job-info.eventlog-watch",
            &json!({"id": id, "path": path, "flags": flags}),
        )
        .await
}

/// One log of a job, followed over restarts of the instance: no event twice, none left out.
pub struct Followed<'a> {
    session: Session,
    id: JobId,
    path: &'a str,
    stream: Option<Stream>,
    outage: Outage,
    /// Events of the present stream, and of these how many to pass over.
    seen: u64,
    skip: u64,
}

impl<'a> Followed<'a> {
    /// Begins to follow; nothing is asked yet.
    #[must_use]
    pub fn new(session: Session, id: JobId, path: &'a str) -> Self {
        Self {
            session,
            id,
            path,
            stream: None,
            outage: Outage::default(),
            seen: 0,
            skip: 0,
        }
    }

    /// The next event's line; `None` after the last.
    ///
    /// # Errors
    /// No such job or log, no right to it, or the instance does not come back.
    pub async fn next(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            match self.attempt().await {
                Ok(None) => return Ok(None),
                Ok(Some(text)) => {
                    self.seen += 1;
                    if self.seen > self.skip {
                        self.outage.over();
                        return Ok(Some(text));
                    }
                }
                Err(error) => {
                    self.stream = None;
                    self.skip = self.skip.max(self.seen);
                    self.seen = 0;
                    let place = self.session.place().clone();
                    self.session = self
                        .outage
                        .survive(&place, error, &ids::show(self.id))
                        .await?;
                }
            }
        }
    }

    async fn attempt(&mut self) -> anyhow::Result<Option<String>> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self
                .stream
                .insert(watch(&self.session, self.id, self.path, 0).await?),
        };
        loop {
            match stream.next().await? {
                None => return Ok(None),
                Some(payload) => {
                    if let Some(text) = line(&payload)? {
                        return Ok(Some(text));
                    }
                }
            }
        }
    }
}

/// The line of a watch response; `None` for the sentinel.
///
/// # Errors
/// The response is no event.
pub fn line(payload: &Bytes) -> anyhow::Result<Option<String>> {
    if payload.is_empty() {
        return Ok(None);
    }
    Ok(Some(
        serde_json::from_slice::<WatchResponse>(payload)?.event,
    ))
}

/// Follows the job to its end.
///
/// Returns the status to exit with: the job's own (128 + signal), or 1 if it ended without having run.
///
/// # Errors
/// No such job, no right to it, or no instance any more.
pub async fn attach(session: Session, id: JobId, options: Options) -> anyhow::Result<u8> {
    let mut following = Following::new(session, id, options)?;
    let mut outage = Outage::default();
    loop {
        let seen = following.seen();
        match following.follow().await {
            Ok(()) => return following.conclude(),
            Err(error) => {
                if following.seen() > seen {
                    outage.over();
                }
                let place = following.session.place().clone();
                let shown = ids::show(id);
                following.session = tokio::select! {
                    session = outage.survive(&place, error, &shown) => session?,
                    () = recv(following.interrupts.as_mut()) => {
                        complain(&format!("{shown}: left; the job goes on (weir job attach {shown})"));
                        return Err(Exit(STATUS_INTERRUPTED).into());
                    }
                };
            }
        }
    }
}

struct Following {
    session: Session,
    id: JobId,
    options: Options,
    sink: Sink,
    stdin: Option<Stdin>,
    interrupts: Option<Signal>,
    interrupted: Option<Instant>,
    canceling: bool,
    text: EventText,
    /// Events of the present connection.
    events_seen: u64,
    /// Of these, to be passed over: they were seen on an earlier one.
    skip_events: u64,
    finish: Option<i32>,
    fatal: Option<String>,
    /// When it is to be said that the job waits; `None` once it does not, or it was said.
    waits_at: Option<Instant>,
}

impl Following {
    fn new(session: Session, id: JobId, options: Options) -> anyhow::Result<Self> {
        Ok(Self {
            session,
            id,
            options,
            sink: Sink::new(id, options.label, options.quiet),
            stdin: options.stdin.then(Stdin::start).transpose()?,
            interrupts: options
                .interrupts
                .then(|| signal(SignalKind::interrupt()))
                .transpose()?,
            interrupted: None,
            canceling: false,
            text: EventText::new(Times::Offset),
            events_seen: 0,
            skip_events: 0,
            finish: None,
            fatal: None,
            waits_at: options.waiting.then(|| Instant::now() + WAITING_AFTER),
        })
    }

    /// How much of the job was seen, over all connections.
    fn seen(&self) -> u64 {
        self.events_seen.max(self.skip_events) + self.sink.seen()
    }

    /// One connection's worth of following; returns when the job is over and all output delivered.
    async fn follow(&mut self) -> anyhow::Result<()> {
        // Field by field: forwarding standard input borrows the session for as long as it lasts.
        let Self {
            session,
            id,
            options,
            sink,
            stdin,
            interrupts,
            interrupted,
            canceling,
            text,
            events_seen,
            skip_events,
            finish,
            fatal,
            waits_at,
        } = self;
        let (session, id) = (&*session, *id);
        let mut main = watch(session, id, "eventlog", 0).await?;
        let mut output = watch(session, id, "guest.output", 0).await?;
        let forward = stdin::forward(session, id, stdin.as_mut());
        tokio::pin!(forward);
        let (mut main_open, mut output_open, mut forwarding) = (true, true, true);
        *skip_events = (*events_seen).max(*skip_events);
        *events_seen = 0;
        sink.rewind();
        while main_open || output_open {
            tokio::select! {
                biased;
                _ = recv(interrupts.as_mut()) => {
                    interrupt(session, id, interrupted, canceling).await?;
                }
                response = output.next(), if output_open => match response {
                    Ok(Some(payload)) => {
                        if let Some(line) = line(&payload)? {
                            match sink.take(&line)? {
                                Delivered::Yes => {}
                                Delivered::Closed => return Err(closed(id)),
                            }
                        }
                    }
                    Ok(None) => output_open = false,
                    // Never started, or its output is gone: there is nothing to wait for.
                    Err(CallError::Refused { errnum: errno::ENOENT, .. }) => output_open = false,
                    Err(error) => return Err(error.into()),
                },
                response = main.next(), if main_open => match response {
                    Ok(Some(payload)) => {
                        let Some(line) = line(&payload)? else { continue };
                        *events_seen += 1;
                        if *events_seen <= *skip_events {
                            continue;
                        }
                        let event = LogEvent::parse(&line)?;
                        if options.events {
                            let mut shown = String::new();
                            text.write(&event, &mut shown);
                            complain(&format!("{}: {shown}", ids::show(id)));
                        }
                        match &*event.name {
                            "alloc" | "clean" => *waits_at = None,
                            "finish" => *finish = event.int("status").and_then(|status| i32::try_from(status).ok()),
                            "exception" => exception(id, *options, &event, fatal),
                            _ => {}
                        }
                    }
                    Ok(None) => main_open = false,
                    Err(CallError::Refused { errnum: errno::ENOENT, .. }) if *events_seen == 0 => anyhow::bail!("{}", ids::unknown(id)),
                    Err(error) => return Err(error.into()),
                },
                () = at(*waits_at) => {
                    *waits_at = None;
                    if let Some(why) = waits_for(session, id).await {
                        complain(&format!("{}: {why}", ids::show(id)));
                    }
                }
                result = &mut forward, if forwarding => {
                    forwarding = false;
                    match result {
                        Ok(()) => {}
                        Err(error) if outage::is_passing(&error) => return Err(error),
                        Err(error) => complain(&format!("{}: standard input is not forwarded any more: {error:#}", ids::show(id))),
                    }
                }
            }
        }
        Ok(())
    }

    /// The status to exit with, and a word about it.
    fn conclude(&mut self) -> anyhow::Result<u8> {
        self.sink.flush()?;
        let shown = ids::show(self.id);
        match (self.finish, &self.fatal) {
            (Some(status), _) => {
                if let (Some(sentence), false) = (status::sentence(status), self.options.quiet) {
                    complain(&format!("{shown}: {sentence}"));
                }
                Ok(status::exit_status(status))
            }
            (None, Some(_)) => Ok(1),
            (None, None) => {
                anyhow::bail!("{shown}: its eventlog ended without saying how the job did")
            }
        }
    }
}

fn exception(id: JobId, options: Options, event: &LogEvent<'_>, fatal: &mut Option<String>) {
    let kind = event.text("type").unwrap_or("unknown").to_owned();
    let severity = event.int("severity").unwrap_or(0);
    if !options.quiet {
        let note = event
            .text("note")
            .filter(|note| !note.is_empty())
            .map_or_else(String::new, |note| format!(": {note}"));
        complain(&format!(
            "{}: exception {kind}, severity {severity}{note}",
            ids::show(id)
        ));
    }
    if severity == 0 {
        fatal.get_or_insert(kind);
    }
}

/// Until then; for ever if there is no then.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

#[derive(Deserialize)]
struct Queue {
    start: bool,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// What a pending job waits for, as a sentence; `None` if it does not wait any more, or the instance cannot say.
async fn waits_for(session: &Session, id: JobId) -> Option<String> {
    let rank = json!({"id": id});
    let place: serde_json::Value = session.call("job-list.rank", &rank).await.ok()?;
    if place["group"] != "pending" {
        return None;
    }
    let queue: Result<Queue, _> = session.call("job-manager.queue-status", &json!({})).await;
    if let Ok(Queue {
        start: false,
        stop_reason,
    }) = queue
    {
        let reason = stop_reason.filter(|reason| !reason.is_empty());
        return Some(format!(
            "waiting for the queue to be started{}",
            reason.map_or_else(String::new, |reason| format!(" (stopped: {reason})"))
        ));
    }
    let before = place["rank"].as_u64().unwrap_or(0);
    Some(format!("waiting for resources ({before} before it)"))
}

async fn recv(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// One ctrl-C: the first says what a second one does, the second cancels, one more leaves.
async fn interrupt(
    session: &Session,
    id: JobId,
    last: &mut Option<Instant>,
    canceling: &mut bool,
) -> anyhow::Result<()> {
    let shown = ids::show(id);
    if *canceling {
        complain(&format!(
            "{shown}: left while it is being canceled; see 'weir jobs {shown}'"
        ));
        return Err(Exit(STATUS_INTERRUPTED).into());
    }
    if last.is_none_or(|last| last.elapsed() > INTERRUPT_WITHIN) {
        complain(&format!(
            "{shown}: press ctrl-C again within 2 s to cancel the job"
        ));
        *last = Some(Instant::now());
        return Ok(());
    }
    complain(&format!("{shown}: canceling"));
    *canceling = true;
    let request =
        json!({"id": id, "severity": 0, "type": "cancel", "note": "interrupted by ctrl-C"});
    match session.call_unit("job-manager.raise", &request).await {
        // It ended by itself in the meantime.
        Ok(())
        | Err(CallError::Refused {
            errnum: errno::ENOENT,
            ..
        }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn closed(id: JobId) -> anyhow::Error {
    let shown = ids::show(id);
    complain(&format!(
        "standard output was closed; the job goes on (weir job attach {shown})"
    ));
    Exit(STATUS_PIPE_CLOSED).into()
}
