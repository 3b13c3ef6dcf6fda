//! One listener of the journal: what it asks for, and what it makes of every response.
//!
//! ```text
//!  Idle ── from ──▶ Backlog ── caught_up ──▶ Live ── cut ──▶ Idle, with a cursor ── after, epoch ──▶ Live
//!                      └─ cut: Idle, from the start                                 └─ ESTALE: from the start
//! ```
//! Its joined output over all its connections is held against the history, response by response: nothing missing, nothing twice, nothing that
//! is not stored, nothing it did not ask for.

use std::collections::{BTreeMap, BTreeSet};

use job::{Entry, JobId, Seq, Source};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

use crate::rng::Rng;
use crate::truth::Truth;
use crate::violation::{Outcome, Promise, Violation};

/// Where a stream starts that has no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// With the next entry.
    Now,
    /// With the jobs that are active.
    Active,
    /// With every job.
    All,
}

/// What a listener wants.
#[derive(Debug, Clone)]
pub struct Want {
    /// Flux's form.
    pub flux: bool,
    /// Only events of these names.
    pub allow: Option<Vec<&'static str>>,
    /// No events of these names.
    pub deny: Option<Vec<&'static str>>,
    /// Only these jobs.
    pub ids: Option<Vec<JobId>>,
    /// Whose rights it has, if not the owner's.
    pub guest: Option<u32>,
    /// Where it starts.
    pub from: From,
}

const NAMES: [&str; 12] = [
    "submit",
    "validate",
    "priority",
    "urgency",
    "annotations",
    "alloc",
    "start",
    "finish",
    "clean",
    "exception",
    "memo",
    "purge",
];

fn names(rng: &mut Rng) -> Option<Vec<&'static str>> {
    if !rng.one_in(3) {
        return None;
    }
    let count = rng.between(1, 6);
    let picked: BTreeSet<&str> = (0..count)
        .filter_map(|_| rng.pick(&NAMES).copied())
        .collect();
    Some(picked.into_iter().collect())
}

impl Want {
    /// One of all kinds.
    #[must_use]
    pub fn any(rng: &mut Rng, guests: &[u32], jobs: &[JobId]) -> Want {
        let guest = if rng.one_in(4) {
            rng.pick(guests).copied()
        } else {
            None
        };
        let flux = guest.is_none() && rng.one_in(5);
        let ids = if !flux && rng.one_in(6) && !jobs.is_empty() {
            let count = rng.between(1, 4);
            let ids: BTreeSet<JobId> = (0..count).filter_map(|_| rng.pick(jobs).copied()).collect();
            Some(ids.into_iter().collect())
        } else {
            None
        };
        let from = match rng.below(5) {
            0 if !flux => From::Now,
            1 | 2 => From::Active,
            _ => From::All,
        };
        Want {
            flux,
            allow: names(rng),
            deny: names(rng),
            ids,
            guest,
            from,
        }
    }

    /// Whether an entry is for this listener.
    #[must_use]
    pub fn wants(&self, entry: &Entry) -> bool {
        let name = entry.name.as_str();
        let named = self
            .allow
            .as_ref()
            .is_none_or(|allow| allow.contains(&name))
            && self.deny.as_ref().is_none_or(|deny| !deny.contains(&name));
        let sourced = match entry.source {
            Source::Job(id) => {
                self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
                    && self.guest.is_none_or(|guest| guest == entry.userid)
            }
            Source::Resource | Source::System => {
                !self.flux && self.ids.is_none() && self.guest.is_none()
            }
        };
        named && sourced
    }
}

/// How far a stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Nothing is asked for.
    Idle,
    /// From the start; these came so far.
    Backlog(Vec<Seq>),
    /// After a cursor, or from now: `caught_up` comes first. The least seq it may say, and the most if it is given.
    Greeting(Seq, Option<Seq>),
    /// All up to the cursor was handed out.
    Live,
}

/// One job in a stream of Flux's form.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    next: usize,
    live: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Listener {
    /// What it wants.
    pub want: Want,
    /// Its connection.
    pub link: Option<u64>,
    /// Its matchtag there.
    pub tag: u32,
    /// It stays away until then.
    pub away_until: f64,
    phase: Phase,
    /// How far its joined output is complete, and of which epoch.
    pub cursor: Option<(Seq, String)>,
    flux: BTreeMap<JobId, Place>,
    caught_up: bool,
    /// Entries it was given in all its life.
    pub entries: u64,
    /// Streams it had.
    pub streams: u64,
    /// Times it went on at its cursor.
    pub resumed: u64,
}

#[derive(Debug, Deserialize)]
struct Batch<'a> {
    #[serde(borrow, default)]
    epoch: Cow<'a, str>,
    seq: Option<u64>,
    #[serde(default)]
    caught_up: bool,
    mark: Option<u64>,
    #[serde(borrow, default)]
    events: Vec<Native<'a>>,
}

#[derive(Debug, Deserialize)]
struct Native<'a> {
    seq: u64,
    id: Option<u64>,
    #[serde(borrow, default)]
    log: Option<Cow<'a, str>>,
    eventlog_seq: u32,
    #[serde(default)]
    live: bool,
    #[serde(borrow)]
    entry: &'a RawValue,
    #[serde(borrow, default)]
    jobspec: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "R")]
    r: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Flux<'a> {
    id: i64,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
}

fn broken(promise: Promise, what: String) -> Outcome {
    Err(Violation::of(promise, what))
}

impl Listener {
    /// One that has asked for nothing yet.
    #[must_use]
    pub fn new(want: Want) -> Listener {
        Listener {
            want,
            link: None,
            tag: 0,
            away_until: 0.0,
            phase: Phase::Idle,
            cursor: None,
            flux: BTreeMap::new(),
            caught_up: false,
            entries: 0,
            streams: 0,
            resumed: 0,
        }
    }

    /// The topic and payload of its next stream. `durable`: what the broker says is durable, so a stream from now starts no earlier.
    pub fn ask(&mut self, durable: Seq) -> (&'static str, Value) {
        self.streams += 1;
        if self.want.flux {
            self.phase = Phase::Backlog(Vec::new());
            self.flux.clear();
            self.caught_up = false;
            let names = |names: &Vec<&str>| {
                let keys = names.iter().map(|name| ((*name).to_owned(), json!(1)));
                Value::Object(keys.collect())
            };
            let mut ask = json!({"full": self.want.from == From::All});
            if let Some(allow) = &self.want.allow {
                ask["allow"] = names(allow);
            }
            if let Some(deny) = &self.want.deny {
                ask["deny"] = names(deny);
            }
            return ("job-manager.events-journal", ask);
        }
        let mut ask = json!({});
        if let Some(allow) = &self.want.allow {
            ask["allow"] = json!(allow);
        }
        if let Some(deny) = &self.want.deny {
            ask["deny"] = json!(deny);
        }
        if let Some(ids) = &self.want.ids {
            ask["ids"] = json!(ids);
        }
        match &self.cursor {
            Some((seq, epoch)) => {
                self.resumed += 1;
                ask["after"] = json!(seq.0);
                ask["epoch"] = json!(epoch);
                self.phase = Phase::Greeting(*seq, Some(*seq));
            }
            None => match self.want.from {
                From::Now => {
                    ask["from"] = json!("now");
                    self.phase = Phase::Greeting(durable, None);
                }
                From::Active => {
                    ask["from"] = json!("active");
                    self.phase = Phase::Backlog(Vec::new());
                }
                From::All => {
                    ask["from"] = json!("all");
                    self.phase = Phase::Backlog(Vec::new());
                }
            },
        }
        ("job-manager.events", ask)
    }

    /// Its connection is gone.
    pub fn lost(&mut self) {
        self.link = None;
        self.phase = Phase::Idle;
        self.caught_up = false;
    }

    /// Whether a stream is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whether it has everything up to `newest`.
    #[must_use]
    pub fn is_at(&self, newest: Seq, truth: &Truth) -> bool {
        if self.want.flux {
            return self.caught_up && self.flux_missing(truth).is_none();
        }
        self.phase == Phase::Live && self.cursor.as_ref().is_some_and(|(seq, _)| *seq == newest)
    }

    /// The stream was refused or has ended with this errno.
    pub fn refused(&mut self, errnum: u32, text: &str, truth: &Truth, floor: Seq) -> Outcome {
        self.phase = Phase::Idle;
        if errnum != wire::errno::ESTALE {
            return Ok(());
        }
        if self.want.flux {
            // It fell behind what the log holds, and has to be read again: this form has no cursors.
            return honest_refusal(text, truth);
        }
        let Some((seq, epoch)) = self.cursor.take() else {
            return broken(
                Promise::Honest,
                format!("ESTALE without a cursor: {text:?}"),
            );
        };
        let stale = epoch != truth.epoch || seq > truth.newest() || seq < floor;
        if !stale {
            return broken(
                Promise::Resumable,
                format!(
                    "cursor {seq} was refused: {text:?}; the journal holds {} to {}",
                    floor.0 + 1,
                    truth.newest()
                ),
            );
        }
        honest_refusal(text, truth)
    }

    /// A response of the stream.
    pub fn response(&mut self, payload: &[u8], truth: &Truth) -> Outcome {
        let json = payload.strip_suffix(&[0]).unwrap_or(payload);
        let unread = |error: serde_json::Error| {
            Violation::of(
                Promise::Ordered,
                format!("a response cannot be read: {error}"),
            )
        };
        if self.want.flux {
            let message: Flux<'_> = serde_json::from_slice(json).map_err(unread)?;
            return self.flux_message(&message, truth);
        }
        let batch: Batch<'_> = serde_json::from_slice(json).map_err(unread)?;
        self.batch(&batch, truth)
    }

    fn batch(&mut self, batch: &Batch<'_>, truth: &Truth) -> Outcome {
        if batch.epoch != truth.epoch {
            let what = format!("a response of epoch {}, not {}", batch.epoch, truth.epoch);
            return broken(Promise::Honest, what);
        }
        let newest = truth.newest();
        if let Some(seq) = batch
            .seq
            .into_iter()
            .chain(batch.mark)
            .find(|seq| *seq > newest.0)
        {
            let what = format!("told of seq {seq}, and the store ends at {newest}");
            return broken(Promise::Durable, what);
        }
        let mut before = Seq(0);
        for event in &batch.events {
            self.entries += 1;
            self.is_stored(event, truth)?;
            if Seq(event.seq) <= before && self.phase == Phase::Live {
                let what = format!("seq {} after {before} in one response", event.seq);
                return broken(Promise::Ordered, what);
            }
            before = Seq(event.seq);
        }
        match (&mut self.phase, batch.seq) {
            (Phase::Backlog(got), None) => {
                got.extend(batch.events.iter().map(|event| Seq(event.seq)));
                Ok(())
            }
            (Phase::Backlog(got), Some(upto)) if batch.caught_up => {
                let got = std::mem::take(got);
                self.backlog_is_whole(&got, Seq(upto), truth)?;
                self.go_live(Seq(upto), truth);
                Ok(())
            }
            (Phase::Greeting(least, most), Some(upto)) if batch.caught_up => {
                let (least, most) = (*least, *most);
                let own = self.cursor.clone();
                if let Some((_, epoch)) = own.filter(|(_, epoch)| *epoch != truth.epoch) {
                    let what = format!(
                        "a cursor of epoch {epoch} was accepted by a journal of epoch {}",
                        truth.epoch
                    );
                    return broken(Promise::Honest, what);
                }
                if Seq(upto) < least || most.is_some_and(|most| Seq(upto) != most) {
                    let what = format!("caught up at {upto}, expected {least}");
                    return broken(Promise::Resumable, what);
                }
                self.go_live(Seq(upto), truth);
                Ok(())
            }
            (Phase::Live, Some(upto)) => self.live(batch, Seq(upto), truth),
            (Phase::Live | Phase::Greeting(..), None)
                if batch.mark.is_some() && batch.events.is_empty() =>
            {
                Ok(())
            }
            (phase, seq) => broken(
                Promise::Ordered,
                format!(
                    "a response with seq {seq:?}, caught_up {} in phase {phase:?}",
                    batch.caught_up
                ),
            ),
        }
    }

    fn go_live(&mut self, at: Seq, truth: &Truth) {
        self.phase = Phase::Live;
        self.cursor = Some((at, truth.epoch.clone()));
    }

    /// What was handed out is in the store, as it is there, and this listener asked for it.
    fn is_stored(&self, event: &Native<'_>, truth: &Truth) -> Outcome {
        let Some(entry) = truth.entry(Seq(event.seq)) else {
            let what = format!(
                "entry {} was handed out, and the store ends at {}",
                event.seq,
                truth.newest()
            );
            return broken(Promise::Durable, what);
        };
        let (id, log) = match entry.source {
            Source::Job(id) => (Some(id.0), None),
            Source::Resource => (None, Some("resource")),
            Source::System => (None, Some("system")),
        };
        let same = event.id == id
            && event.log.as_deref() == log
            && event.eventlog_seq == entry.eventlog_seq
            && event.live != entry.stored_log
            && event.entry.get().as_bytes() == entry.json();
        if !same {
            let what = format!(
                "entry {} was handed out as {event:?}, and is stored as {entry:?}",
                event.seq
            );
            return broken(Promise::Durable, what);
        }
        let name = entry.name.as_str();
        if truth.is_aside(entry) {
            // What is in memory is still handed out; what goes with it may be gone.
        } else if event.jobspec.is_some() != (name == "submit")
            || (event.r.is_some() != (name == "alloc") && id.is_some())
        {
            let what = format!(
                "entry {} ({name}) lacks what goes with it: {event:?}",
                event.seq
            );
            return broken(Promise::Complete, what);
        }
        if !self.want.wants(entry) {
            let what = format!(
                "entry {} ({name}) was not asked for by {:?}",
                event.seq, self.want
            );
            return broken(Promise::Complete, what);
        }
        Ok(())
    }

    fn backlog_is_whole(&self, got: &[Seq], upto: Seq, truth: &Truth) -> Outcome {
        let mut seen: BTreeSet<Seq> = BTreeSet::new();
        let mut of_job: BTreeMap<Source2, u32> = BTreeMap::new();
        for seq in got {
            if !seen.insert(*seq) {
                return broken(
                    Promise::Unique,
                    format!("entry {seq} came twice in a backlog"),
                );
            }
            let Some(entry) = truth.entry(*seq) else {
                continue;
            };
            if *seq > upto {
                let what = format!("a backlog up to {upto} holds entry {seq}");
                return broken(Promise::Complete, what);
            }
            let last = of_job.entry(Source2::of(entry.source)).or_default();
            if entry.eventlog_seq <= *last {
                let what = format!(
                    "entry {seq} is number {} of its log, after number {last}",
                    entry.eventlog_seq
                );
                return broken(Promise::Ordered, what);
            }
            *last = entry.eventlog_seq;
        }
        let mut active: BTreeMap<JobId, bool> = BTreeMap::new();
        for entry in truth.history.iter().take_while(|entry| entry.seq <= upto) {
            let in_scope = match (self.want.from, entry.source) {
                (From::Active, Source::Job(id)) => *active
                    .entry(id)
                    .or_insert_with(|| truth.was_active(id, upto)),
                _ => true,
            };
            let there = seen.contains(&entry.seq);
            if there && !in_scope {
                let what = format!("a backlog of active jobs holds entry {}", entry.seq);
                return broken(Promise::Complete, what);
            }
            if !there && in_scope && self.want.wants(entry) && !truth.is_excused(entry) {
                let what = format!(
                    "a backlog up to {upto} lacks entry {} ({} of {:?})",
                    entry.seq,
                    entry.name.as_str(),
                    entry.source
                );
                return broken(Promise::Complete, what);
            }
        }
        Ok(())
    }

    fn live(&mut self, batch: &Batch<'_>, upto: Seq, truth: &Truth) -> Outcome {
        let Some((cursor, _)) = &mut self.cursor else {
            return Ok(());
        };
        if upto < *cursor {
            let what = format!("a response up to {upto} after one up to {cursor}");
            return broken(Promise::Ordered, what);
        }
        if let Some(event) = batch
            .events
            .iter()
            .find(|event| event.seq <= cursor.0 || event.seq > upto.0)
        {
            let (promise, what) = if event.seq <= cursor.0 {
                (
                    Promise::Unique,
                    format!("entry {} came again, the stream was at {cursor}", event.seq),
                )
            } else {
                (
                    Promise::Ordered,
                    format!("entry {} in a response up to {upto}", event.seq),
                )
            };
            return broken(promise, what);
        }
        let mut events = batch.events.iter().peekable();
        for seq in cursor.0 + 1..=upto.0 {
            let Some(entry) = truth.entry(Seq(seq)) else {
                continue;
            };
            if events.next_if(|event| event.seq == seq).is_some() {
                continue;
            }
            if self.want.wants(entry) && !truth.is_excused(entry) {
                let what = format!(
                    "entry {seq} ({} of {:?}) is missing between {cursor} and {upto}",
                    entry.name.as_str(),
                    entry.source
                );
                return broken(Promise::Complete, what);
            }
        }
        *cursor = upto;
        Ok(())
    }

    fn flux_message(&mut self, message: &Flux<'_>, truth: &Truth) -> Outcome {
        if message.id == -1 {
            self.caught_up = true;
            self.phase = Phase::Live;
            return Ok(());
        }
        let id = JobId(u64::from_ne_bytes(message.id.to_ne_bytes()));
        let Some(log) = truth.of_job.get(&id) else {
            let what = format!("events of job {id}, of which nothing is stored");
            return broken(Promise::Durable, what);
        };
        if truth.may_lack(id) {
            // A part of it may have been left out.
            return Ok(());
        }
        let mut place = self.flux.get(&id).copied().unwrap_or_default();
        if !self.caught_up && self.flux.contains_key(&id) {
            return broken(Promise::Unique, format!("job {id} came twice in a backlog"));
        }
        for event in &message.events {
            self.entries += 1;
            let json = event.get().as_bytes();
            loop {
                let entry = log.get(place.next).and_then(|at| truth.history.get(*at));
                let Some(entry) = entry else {
                    let what = format!("job {id}: {} is not what comes next", event.get());
                    return broken(Promise::Ordered, what);
                };
                place.next += 1;
                // What is live only is in no backlog, though something stored may read the same.
                if entry.json() == json && (entry.stored_log || self.caught_up) {
                    if !self.want.wants(entry) {
                        let what = format!("job {id}: {} was not asked for", event.get());
                        return broken(Promise::Complete, what);
                    }
                    break;
                }
                let wanted = self.want.wants(entry) && (entry.stored_log || place.live);
                if wanted {
                    let what = format!(
                        "job {id}: entry {} ({}) is missing before {}",
                        entry.seq,
                        entry.name.as_str(),
                        event.get()
                    );
                    return broken(Promise::Complete, what);
                }
            }
        }
        place.live |= self.caught_up;
        self.flux.insert(id, place);
        Ok(())
    }

    /// What a stream of Flux's form has not brought yet.
    fn flux_missing(&self, truth: &Truth) -> Option<Seq> {
        truth.of_job.iter().find_map(|(id, log)| {
            let job = truth.jobs.get(id).filter(|_| !truth.aside.contains(id))?;
            let place = match self.flux.get(id) {
                Some(place) => *place,
                None if self.want.from == From::All || job.state != job::State::Inactive => {
                    Place::default()
                }
                None => return None,
            };
            log.iter()
                .skip(place.next)
                .filter_map(|at| truth.history.get(*at))
                .find(|entry| entry.stored_log && self.want.wants(entry))
                .map(|entry| entry.seq)
        })
    }
}

/// A source with an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source2 {
    Job(JobId),
    Resource,
    System,
}

impl Source2 {
    fn of(source: Source) -> Source2 {
        match source {
            Source::Job(id) => Source2::Job(id),
            Source::Resource => Source2::Resource,
            Source::System => Source2::System,
        }
    }
}

/// A refusal names both ends, as the daemon knew them: a floor that the log has or had, and an entry that is stored.
pub fn honest_refusal(text: &str, truth: &Truth) -> Outcome {
    let number = |text: &str| {
        text.split(|letter: char| !letter.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
    };
    let after = |word: &str| text.split_once(word).map(|(_, rest)| rest);
    let named = match (after("holds nothing after "), after(" holds ")) {
        (Some(rest), _) => number(rest).map(|floor: u64| (floor, floor)),
        (None, Some(rest)) => {
            let newest = rest.split_once(" to ").and_then(|(_, rest)| number(rest));
            number(rest)
                .and_then(|oldest: u64| oldest.checked_sub(1))
                .zip(newest)
        }
        (None, None) => None,
    };
    let honest = named.is_some_and(|(floor, newest)| {
        truth.floors.contains(&Seq(floor)) && newest >= floor && newest <= truth.newest().0
    });
    if honest && text.contains(&truth.epoch) {
        return Ok(());
    }
    let what = format!(
        "a refusal that does not name both ends (floors {:?}, newest {}, epoch {}): {text:?}",
        truth.floors.last(),
        truth.newest(),
        truth.epoch
    );
    broken(Promise::Honest, what)
}
