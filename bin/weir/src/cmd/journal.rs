//! `weir journal`: everything that happens, as it happens, from any point on; and never a hole that is not told.
//!
//! ```text
//! backlog {epoch, backlog:true, events}…  ─▶ {epoch, seq, caught_up:true} ─▶ live {epoch, seq, events}…
//! ```
//! Events go from the wire to standard output as the bytes they came in. From `caught_up` on there is a cursor; when the
//! connection is lost after that, the stream is resumed behind it, with a note on standard error. A cut before it means that
//! the backlog is incomplete: the command fails and says so. --no-follow goes on behind `caught_up` as far as the newest entry of that
//! moment: jobs that were purged meanwhile may be missing from the backlog, and are named there. A cursor file carries the cursor from one run to the next.

use crate::connect::{self, ANSWER_WITHIN, CallError, Session};
use crate::cursorfile::{Cursor, CursorFile};
use crate::eventtext::{self, LogEvent};
use crate::failure::usage;
use crate::outage::{self, Outage};
use crate::output::{self, Paint, Palette, When, complain};
use crate::uri::Place;
use crate::{document, ids, text, when};
use job::{EventName, JobId};
use protocol::job_manager::SeqResponse;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;
use wire::errno;

/// Follow the journal: every event of every job, in one order
///
/// Starts now, with the jobs that are active (--from=active), with all there is (--from=all), or after an event you have seen
/// (--after). What is printed comes in the order of seq, whichever it is: --after=SEQ may go on from any line that was printed,
/// of the same epoch ('weir stats' shows it). A line with "live":true (annotations) is told here alone: a job's eventlog lacks it.
///
/// The stream goes on until you end it; a restart of the instance does not: it is resumed where it was, with a note on standard
/// error. Guests see the events of their own jobs. A job whose record is damaged is left out and named on standard error; the
/// stream is complete but for it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir journal                                     watch what happens
  weir journal --allow=start,finish --json | jq -c .
  weir journal --from=all --no-follow --json > all.jsonl
  weir journal --after=4711 --epoch=9f3c… --json   go on behind event 4711
  weir journal --from=all --cursor-file=at --json >> all.jsonl
                                                   go on where the last run of this was
  weir journal --count=1 --allow=clean             wait until some job ends

JSON
  One line an event:
    {\"seq\":…,\"id\":…,\"eventlog_seq\":…,\"entry\":{\"timestamp\",\"name\",\"context\"?},\"jobspec\"?,\"R\"?}
  \"log\":\"resource\"|\"system\" stands in place of id for what is no job's. seq orders all events
  and is never used twice. A failure before the first is one line: {\"errors\":[…]}

EXIT STATUS
  0  --count or --no-follow was reached, or the reader went away; also when jobs were left out
  1  no instance; a cursor that cannot be continued (the line says which can); the backlog was
     cut; a cursor file that is none, or cannot be written
  2  the command line is wrong
  75  the instance was shut down; the cursor goes on at its next start")]
pub struct Args {
    /// Only events with these names, joined by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allow: Vec<String>,

    /// No events with these names, joined by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    deny: Vec<String>,

    /// Where to start: now, active (events of jobs that have not ended), all
    #[arg(
        long,
        value_name = "POINT",
        default_value = "now",
        conflicts_with = "after"
    )]
    from: From,

    /// Start behind this event
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,

    /// The epoch --after belongs to; without it the instance's present one ('weir stats' shows it)
    #[arg(long, value_name = "EPOCH", requires = "after")]
    epoch: Option<String>,

    /// Start behind the cursor in this file, if it is there, and keep it up to date: after what it covers was written out
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    cursor_file: Option<std::path::PathBuf>,

    /// Only events of these jobs, joined by commas
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    ids: Vec<String>,

    /// End after so many events
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,

    /// End when all events up to now have been printed; after a backlog, also those that came while it was read
    #[arg(long, visible_alias = "until-caught-up")]
    no_follow: bool,

    /// One line of JSON an event
    #[arg(long)]
    pub(crate) json: bool,

    /// Colours: auto, always, never
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    color: When,
}

/// A stream says how far it is every 5 s. When nothing comes for so long, the request or an answer went astray.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Where a journal starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// With what happens next
    Now,
    /// With the events of jobs that have not ended
    Active,
    /// With all there is
    All,
}

/// One response of the stream.
#[derive(Deserialize)]
struct Batch<'a> {
    epoch: &'a str,
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default)]
    caught_up: bool,
    /// Jobs that the job-manager cannot read.
    #[serde(default)]
    set_aside: Vec<JobId>,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
}

/// An event, for people.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default)]
    id: Option<JobId>,
    #[serde(default)]
    log: Option<Value>,
    #[serde(borrow)]
    entry: LogEvent<'a>,
}

/// Why reading one connection ended.
enum End {
    /// All that was asked for is printed.
    Done,
    /// The connection is gone.
    Lost(anyhow::Error),
}

/// Follows.
///
/// # Errors
/// A wrong option, no instance, a cursor that cannot be continued, a backlog that was cut.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let ids = args
        .ids
        .iter()
        .map(|id| ids::parse(id))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for name in args.allow.iter().chain(&args.deny) {
        if name.is_empty() {
            return Err(usage("an event name must not be empty"));
        }
        if !is_known(name) {
            complain(&format!(
                "journal: no event of weir is called '{name}'; only one that somebody made up would match"
            ));
        }
    }
    let file = args.cursor_file.as_deref().map(CursorFile::new);
    let cursor = match &file {
        Some(file) => file.read()?,
        None => args.after.map(|seq| Cursor {
            epoch: args.epoch.clone(),
            seq,
        }),
    };
    let mut follow = Follow {
        args,
        ids,
        cursor,
        file,
        upto: None,
        left: args.count,
        left_out: BTreeSet::new(),
        palette: args.color.for_stdout(),
        out: output::stdout(),
    };
    if follow.left == Some(0) {
        return Ok(());
    }
    connect::block_on(async {
        let mut session = Session::open().await?;
        let mut outage = Outage::default();
        loop {
            let before = follow.cursor.clone();
            let error = match follow.read(&session).await? {
                End::Done => return Ok(()),
                End::Lost(error) => error,
            };
            let Some(cursor) = &follow.cursor else {
                anyhow::bail!(
                    "the connection was lost before all earlier events had come; run it again for a whole list"
                );
            };
            if before != follow.cursor {
                outage.over();
            }
            let whose = format!("journal: behind event {}", cursor.seq);
            let place = session.place().clone();
            session = outage.survive(&place, error, &whose).await?;
        }
    })
}

/// Most damaged jobs that are named one by one.
const LEFT_OUT_NAMED_MAX: usize = 20;

/// Names of events that are no job's; those of jobs are known to [`EventName`].
const LOG_EVENTS: [&str; 6] = [
    "purge",
    "wait",
    "queue-enable",
    "queue-disable",
    "queue-start",
    "queue-stop",
];

fn is_known(name: &str) -> bool {
    EventName::from(name).bit().is_some() || LOG_EVENTS.contains(&name)
}

struct Follow<'a> {
    args: &'a Args,
    ids: Vec<JobId>,
    cursor: Option<Cursor>,
    file: Option<CursorFile>,
    /// How far --no-follow goes, once it is known.
    upto: Option<u64>,
    left: Option<u64>,
    /// Jobs that were named as left out.
    left_out: BTreeSet<JobId>,
    palette: Palette,
    out: output::Out,
}

impl Follow<'_> {
    fn request(&self) -> Value {
        let mut request = json!({});
        if !self.args.allow.is_empty() {
            request["allow"] = json!(self.args.allow);
        }
        if !self.args.deny.is_empty() {
            request["deny"] = json!(self.args.deny);
        }
        if !self.ids.is_empty() {
            request["ids"] = json!(self.ids);
        }
        match &self.cursor {
            Some(cursor) => {
                request["after"] = json!(cursor.seq);
                if let Some(epoch) = &cursor.epoch {
                    request["epoch"] = json!(epoch);
                }
            }
            None => {
                request["from"] = json!(match self.args.from {
                    From::Now => "now",
                    From::Active => "active",
                    From::All => "all",
                });
            }
        }
        request
    }

    async fn read(&mut self, session: &Session) -> anyhow::Result<End> {
        // The stream of a cursor says at once that it goes on, and then goes on.
        if self.cursor.is_some()
            && let Some(lost) = self.look_how_far(session).await?
        {
            return Ok(lost);
        }
        let mut stream = match session.stream("job-manager.events", &self.request()).await {
            Ok(stream) => stream,
            Err(error) if error.is_passing() => return Ok(End::Lost(error.into())),
            Err(error) => return Err(error.into()),
        };
        loop {
            let next = if self.args.no_follow {
                stream.next_within(ANSWER_WITHIN).await
            } else if self.cursor.is_some() {
                match stream.next_within(SILENCE_MAX).await {
                    Err(error) if error.is_silent() => return Ok(End::Lost(lost(&silence()))),
                    next => next,
                }
            } else {
                stream.next().await
            };
            let payload = match next {
                Ok(Some(payload)) => payload,
                // The job-manager ends its streams when it stops.
                Ok(None) => return Ok(End::Lost(lost("the instance ended the stream"))),
                Err(error) if error.is_passing() => return Ok(End::Lost(error.into())),
                Err(CallError::Refused {
                    errnum: errno::ESTALE,
                    text,
                    ..
                }) => {
                    let file = self.file.as_ref().map(CursorFile::remedy);
                    anyhow::bail!(
                        "{}{}",
                        text.unwrap_or_else(|| {
                            "this cursor cannot be continued; use --from=all or --from=active"
                                .to_owned()
                        }),
                        file.unwrap_or_default()
                    )
                }
                Err(error) => return Err(error.into()),
            };
            let batch: Batch<'_> = serde_json::from_slice(&payload)?;
            let printed = self.print(&batch.events)?;
            self.out.flush()?;
            self.name_set_aside(&batch.set_aside);
            // A progress response may come before `caught_up`; the cursor counts from there on only.
            if batch.caught_up || self.cursor.is_some() {
                let seq = match batch.events.get(..printed).and_then(<[_]>::last) {
                    Some(last) if printed < batch.events.len() => seq_of(last),
                    _ => batch.seq,
                };
                self.advance(batch.epoch, seq)?;
            }
            if self.left == Some(0) {
                return Ok(End::Done);
            }
            // What was purged while the backlog was read may be missing from it: the entry that says so comes behind it.
            if batch.caught_up
                && self.args.from != From::Now
                && self.hears_of_purges()
                && let Some(lost) = self.look_how_far(session).await?
            {
                return Ok(lost);
            }
            let all = match (self.upto, &self.cursor) {
                (Some(upto), Some(cursor)) => cursor.seq >= upto,
                _ => batch.caught_up,
            };
            if all && self.args.no_follow {
                return Ok(End::Done);
            }
        }
    }

    /// Whether the filter lets the entries of the system log through that name purged jobs.
    fn hears_of_purges(&self) -> bool {
        let purge = || "purge".to_owned();
        let Args { allow, deny, .. } = self.args;
        self.ids.is_empty()
            && (allow.is_empty() || allow.contains(&purge()))
            && !deny.contains(&purge())
    }

    /// With --no-follow, asks how far that is, unless it is known; the end of this connection if the question was lost.
    async fn look_how_far(&mut self, session: &Session) -> anyhow::Result<Option<End>> {
        if !self.args.no_follow || self.upto.is_some() {
            return Ok(None);
        }
        match newest(session.place()).await {
            Ok(seq) => self.upto = Some(seq),
            Err(error) if outage::is_passing(&error) => return Ok(Some(End::Lost(error))),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Says which jobs are no part of the stream, each once.
    fn name_set_aside(&mut self, set_aside: &[JobId]) {
        let mut new = set_aside.to_vec();
        new.retain(|id| self.ids.is_empty() || self.ids.contains(id));
        new.retain(|id| self.left_out.insert(*id));
        for id in new.iter().take(LEFT_OUT_NAMED_MAX) {
            complain(&format!(
                "journal: job {} is left out: its record is damaged ('weir store check' says how, 'weir job purge' removes it)",
                ids::show(*id)
            ));
        }
        if let Some(more @ 1..) = new.len().checked_sub(LEFT_OUT_NAMED_MAX) {
            complain(&format!("journal: {more} more damaged jobs are left out"));
        }
    }

    /// All up to this is written out.
    fn advance(&mut self, epoch: &str, seq: Option<u64>) -> anyhow::Result<()> {
        let Some(seq) = seq else { return Ok(()) };
        let cursor = Cursor {
            epoch: Some(epoch.to_owned()),
            seq,
        };
        if let Some(file) = self
            .file
            .as_mut()
            .filter(|_| self.cursor.as_ref() != Some(&cursor))
        {
            file.write(&cursor)?;
        }
        self.cursor = Some(cursor);
        Ok(())
    }

    /// Prints events, up to the count; how many.
    fn print(&mut self, events: &[&RawValue]) -> anyhow::Result<usize> {
        for (at, event) in events.iter().enumerate() {
            match &mut self.left {
                Some(0) => return Ok(at),
                Some(left) => *left -= 1,
                None => {}
            }
            document::printed();
            if self.args.json {
                self.out.write_all(event.get().as_bytes())?;
            } else {
                match serde_json::from_str(event.get()) {
                    Ok(event) => self.out.write_all(line(&event, self.palette).as_bytes())?,
                    Err(error) => {
                        complain(&format!("journal: an event is no event of weir: {error}"));
                        self.out.write_all(text::escape(event.get()).as_bytes())?;
                    }
                }
            }
            self.out.write_all(b"\n")?;
        }
        Ok(events.len())
    }
}

/// The newest event there is. Asked on a connection of its own: on that of a stream the answer would come behind what is not read yet.
async fn newest(place: &Place) -> anyhow::Result<u64> {
    let session = Session::open_at(place).await?;
    // A look-up, of no job, is answered when all that was decided before it is on disk, and so no older than any page of a backlog.
    let nothing = json!({"id": 0, "keys": ["eventlog"], "flags": 0});
    match session
        .call::<_, Value>("job-manager.lookup", &nothing)
        .await
    {
        Ok(_) | Err(CallError::Refused { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let newest: SeqResponse = session.call("job-manager.stats-get", &json!({})).await?;
    Ok(newest.seq)
}

fn seq_of(event: &RawValue) -> Option<u64> {
    serde_json::from_str::<Event<'_>>(event.get()).ok()?.seq
}

/// The connection is of no use any more, for this reason.
fn lost(why: &str) -> anyhow::Error {
    CallError::Lost {
        topic: wire::Topic::from("job-manager.events"),
        text: why.to_owned(),
    }
    .into()
}

fn silence() -> String {
    format!("nothing was heard for {} s", SILENCE_MAX.as_secs())
}

/// `SEQ TIME JOB NAME key=value…`
fn line(event: &Event<'_>, palette: Palette) -> String {
    let mut line = String::new();
    palette.paint(
        &mut line,
        Paint::Dim,
        &format!(
            "{:>8} {}",
            event.seq.unwrap_or(0),
            when::iso(event.entry.timestamp)
        ),
    );
    line.push(' ');
    let whose = match (&event.log, event.id) {
        (Some(Value::String(log)), _) => text::escape(log).into_owned(),
        (_, Some(id)) => ids::show(id),
        (_, None) => "-".to_owned(),
    };
    let mut cell = String::new();
    text::pad(&mut cell, &whose, 12, text::Align::Right, ' ');
    palette.paint(&mut line, Paint::Cyan, &cell);
    line.push(' ');
    palette.paint(&mut line, Paint::Bold, &text::escape(&event.entry.name));
    if event.log.is_some() {
        // Of no job itself: what it says about one is an id like others.
        let mut context = event.entry.context.clone();
        for key in ["id", "ids", "jobs"] {
            if let Some(value) = context.get_mut(key) {
                show_ids(value);
            }
        }
        eventtext::context(&context, &mut line);
    } else {
        eventtext::context(&event.entry.context, &mut line);
    }
    line
}

/// Ids as numbers become ids as they are shown.
fn show_ids(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(show_ids),
        other => {
            if let Some(id) = other.as_u64() {
                *other = Value::from(ids::show(JobId(id)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_for_people_whoever_it_is_about() {
        let shown = |json: &str| line(&serde_json::from_str(json).unwrap(), Palette::PLAIN);
        let of_job = shown(
            r#"{"seq":7,"id":1234,"eventlog_seq":1,"entry":{"timestamp":1.5,"name":"start"}}"#,
        );
        assert!(
            of_job.starts_with("       7 ") && of_job.ends_with(" start"),
            "{of_job}"
        );
        let of_log = shown(
            r#"{"seq":8,"log":"system","eventlog_seq":1,"entry":{"timestamp":1.5,"name":"purge","context":{"n":3}}}"#,
        );
        assert!(of_log.ends_with("      system purge n=3"), "{of_log}");
        let of_log = shown(
            r#"{"seq":8,"log":"system","eventlog_seq":1,"entry":{"timestamp":1.5,"name":"wait","context":{"id":1234}}}"#,
        );
        assert!(
            of_log.ends_with(&format!(" wait id={}", ids::show(JobId(1234)))),
            "{of_log}"
        );
        let live_only =
            shown(r#"{"seq":9,"id":1,"log":false,"entry":{"timestamp":1.5,"name":"memo"}}"#);
        assert!(live_only.ends_with(" memo"), "{live_only}");
    }

    #[test]
    fn a_name_that_nobody_knows_is_told_from_one_that_is() {
        for name in ["submit", "clean", "memo", "queue-stop"] {
            assert!(is_known(name), "{name}");
        }
        assert!(!is_known("strat"));
    }

    #[test]
    fn jobs_that_are_set_aside_are_read_from_the_end_of_a_backlog() {
        let text = r#"{"epoch":"ab","seq":5,"caught_up":true,"set_aside":[7,9],"events":[]}"#;
        let batch: Batch<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(batch.set_aside, [JobId(7), JobId(9)]);
    }

    #[test]
    fn a_batch_is_read_without_touching_its_events() {
        let batch: Batch<'_> =
            serde_json::from_str(r#"{"epoch":"ab","seq":5,"events":[{"seq":5, "x":1.50}]}"#)
                .unwrap();
        assert_eq!(
            (
                batch.epoch,
                batch.seq,
                batch.caught_up,
                batch.events[0].get()
            ),
            ("ab", Some(5), false, r#"{"seq":5, "x":1.50}"#)
        );
    }
}
