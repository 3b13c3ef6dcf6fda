//! `job-info.eventlog-watch`: its request, and following a job's main eventlog.
//!
//! ```text
//!            step                look-up answered
//!  Behind ─────────► Fetching ────────────────────► Live ──► `clean` sent: 61
//!    ▲                  │ connection lost             │
//!    └──────────────────┴─────────────────────────────┘ paused, or more than a bound waits: what waits is dropped
//! ```
//! Live entries are collected from the moment the look-up is asked for, so there is no gap; those it covers are told by
//! their number, so there is no repeat. The place is how many stored lines were sent: after falling behind, the log is read
//! again and those are skipped. Entries that are live only are no part of the eventlog.

use std::collections::VecDeque;

use bytes::Bytes;
use job::JobId;
use protocol::job_info::{
    EventlogWatchRequest, EventlogWatchResponse, WATCH_SENTINEL, WATCH_WAITCREATE,
};
use serde::Deserialize;
use wire::{errno, json_payload};

use crate::{
    core::Info,
    guest::GuestWatch,
    link::Call,
    lookup::{KEY_LEN_MAX, Stored},
    peer::{Caller, Refusal},
    streams::{Body, Step, StreamId},
};

/// Most bytes of live lines that wait for one client.
const LIVE_BYTES_MAX: usize = 8 << 10;
/// Most live lines that wait for one client.
const LIVE_LINES_MAX: usize = 64;
/// Most live entries collected while a look-up is under way.
const COLLECTED_MAX: usize = 256;
/// Lines sent in one step.
const STEP_LINES: usize = 128;

#[derive(Debug)]
enum Mode {
    /// The log must be read (again).
    Behind,
    /// It is being read; what comes meanwhile, with its number. `None`: too much came.
    Fetching(Option<Vec<(u32, Bytes)>>),
    /// All up to entry `upto` is sent or waits here.
    Live { upto: u32 },
}

/// Following a job's main eventlog.
#[derive(Debug)]
pub(crate) struct LogWatch {
    id: JobId,
    mode: Mode,
    /// The rest of the log as it was read: whole lines.
    text: Bytes,
    live: VecDeque<Bytes>,
    live_bytes: usize,
    /// Stored lines sent.
    sent: usize,
    sentinel: bool,
    begun: bool,
    /// The list has held the job since this began.
    was_listed: bool,
}

fn is_clean(line: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Name<'a> {
        #[serde(borrow)]
        name: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<Name<'_>>(line).is_ok_and(|event| event.name == "clean")
}

impl LogWatch {
    pub(crate) fn new(id: JobId, sentinel: bool) -> Self {
        Self {
            id,
            mode: Mode::Behind,
            text: Bytes::new(),
            live: VecDeque::new(),
            live_bytes: 0,
            sent: 0,
            sentinel,
            begun: false,
            was_listed: false,
        }
    }

    pub(crate) fn job(&self) -> JobId {
        self.id
    }

    /// What waits is dropped; the log will be read again.
    pub(crate) fn drop_buffered(&mut self) {
        match &mut self.mode {
            Mode::Fetching(collected) => *collected = None,
            Mode::Behind | Mode::Live { .. } if !self.text.is_empty() || !self.live.is_empty() => {
                self.fall_behind()
            }
            Mode::Behind | Mode::Live { .. } => {}
        }
    }

    pub(crate) fn fall_behind(&mut self) {
        self.text = Bytes::new();
        self.live.clear();
        self.live_bytes = 0;
        match &mut self.mode {
            Mode::Fetching(collected) => *collected = None,
            mode => *mode = Mode::Behind,
        }
    }

    /// A live entry of the job. `eventlog_seq` is 0 when the journal does not number them: then the log is read again.
    pub(crate) fn take_live(&mut self, eventlog_seq: u32, live_only: bool, line: &Bytes) {
        match &mut self.mode {
            Mode::Behind => {}
            Mode::Fetching(collected) => match collected {
                Some(lines) if eventlog_seq != 0 && lines.len() < COLLECTED_MAX => {
                    // An empty line stands for one that is not shown, but counts.
                    lines.push((
                        eventlog_seq,
                        if live_only {
                            Bytes::new()
                        } else {
                            line.clone()
                        },
                    ));
                }
                collected => *collected = None,
            },
            Mode::Live { .. }
                if eventlog_seq == 0
                    || self.live_bytes > LIVE_BYTES_MAX
                    || self.live.len() >= LIVE_LINES_MAX =>
            {
                self.fall_behind()
            }
            Mode::Live { upto } => {
                if eventlog_seq > *upto {
                    *upto = eventlog_seq;
                    if !live_only {
                        self.live_bytes += line.len();
                        self.live.push_back(line.clone());
                    }
                }
            }
        }
    }

    /// The log as it was read, and how many entries it covers.
    fn take_log(&mut self, log: &str, covers: Option<u32>) {
        let collected = match std::mem::replace(&mut self.mode, Mode::Behind) {
            Mode::Fetching(collected) => collected,
            Mode::Behind | Mode::Live { .. } => None,
        };
        let mut skipped = 0;
        for _ in 0..self.sent {
            skipped += log
                .get(skipped..)
                .and_then(|rest| rest.find('\n'))
                .map_or(0, |at| at + 1);
        }
        self.text = Bytes::copy_from_slice(log.get(skipped..).unwrap_or_default().as_bytes());
        self.begun = true;
        // `None`: something came that was not collected; the log is read once more when this is sent. Without numbers
        // every entry since has made it `None`, so none is missing otherwise.
        if let Some(collected) = collected {
            self.mode = Mode::Live {
                upto: covers.unwrap_or(u32::MAX - 1),
            };
            for (eventlog_seq, line) in collected {
                self.take_live(eventlog_seq, line.is_empty(), &line);
            }
        }
    }

    fn next_line(&mut self) -> Option<Bytes> {
        if self.text.is_empty() {
            let line = self.live.pop_front()?;
            self.live_bytes -= line.len().min(self.live_bytes);
            return Some(line);
        }
        let end = self
            .text
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(self.text.len(), |at| at + 1);
        Some(self.text.split_to(end))
    }
}

impl Info {
    pub(crate) fn eventlog_watch(
        &mut self,
        caller: &Caller,
        payload: &[u8],
    ) -> Result<(), Refusal> {
        let ask: EventlogWatchRequest<'_> = crate::core::parse(payload)?;
        if ask.flags & !(WATCH_WAITCREATE | WATCH_SENTINEL) != 0 {
            return Err(Refusal::new(
                errno::EPROTO,
                "eventlog-watch request rejected with invalid flag",
            ));
        }
        if !caller.request.is_streaming() {
            let text = "eventlog-watch request rejected without streaming RPC flag";
            return Err(Refusal::new(errno::EPROTO, text));
        }
        if ask.path.len() > KEY_LEN_MAX {
            let text = format!("path: expected at most {KEY_LEN_MAX} bytes");
            return Err(Refusal::payload(text));
        }
        let sentinel = ask.flags & WATCH_SENTINEL != 0;
        let wait = ask.flags & WATCH_WAITCREATE != 0;
        match self.may_read(caller, ask.id) {
            Some(true) => {}
            Some(false) => return Err(Refusal::bare(errno::EPERM)),
            None if wait && !self.will_never_be(ask.id) => {}
            None => return Err(self.absent(caller, ask.id)),
        }
        let known = ask.path == "eventlog" || ask.path.starts_with("guest.");
        if !known && !wait {
            return Err(Refusal::bare(errno::ENOENT));
        }
        let body = if ask.path == "eventlog" {
            let mut watch = LogWatch::new(ask.id, sentinel);
            watch.was_listed = self.projection.jobs().get(ask.id).is_some();
            Body::Log(watch)
        } else {
            let over = self.is_over(ask.id);
            let place = self.guest_file(ask.id, &ask.path);
            let mut watch = GuestWatch::new(ask.id, &ask.path, place, sentinel, wait, over);
            if self.projection.jobs().get(ask.id).is_some() {
                watch.is_listed();
            }
            Body::Guest(watch)
        };
        let is_guest = matches!(body, Body::Guest(_));
        let stream = self.open(caller, body)?;
        self.follow(ask.id, stream);
        if is_guest {
            self.files.follow(ask.id);
        }
        Ok(())
    }

    pub(crate) fn step_log(
        &mut self,
        stream: StreamId,
        caller: &Caller,
        watch: &mut LogWatch,
    ) -> Step {
        match self.may_read(caller, watch.id) {
            Some(true) => watch.was_listed = true,
            Some(false) => {
                self.out.refuse(caller, &Refusal::bare(errno::EPERM));
                return Step::Done;
            }
            // With the flag to wait, for a job that is not there yet.
            None if !watch.was_listed && !self.will_never_be(watch.id) => return Step::Idle,
            // Purged, or set aside. What was not sent yet is lost with it, so this is not the usual end.
            None => {
                self.out.refuse(caller, &self.absent(caller, watch.id));
                return Step::Done;
            }
        }
        for _ in 0..STEP_LINES {
            let Some(line) = watch.next_line() else { break };
            watch.sent += 1;
            let event = String::from_utf8_lossy(&line);
            self.out
                .respond(caller, Some(json_payload(&EventlogWatchResponse { event })));
            if is_clean(&line) {
                if watch.sentinel {
                    self.out.respond(caller, None);
                }
                self.out.end(caller);
                return Step::Done;
            }
        }
        if !watch.text.is_empty() || !watch.live.is_empty() {
            return Step::More;
        }
        if watch.begun && watch.sentinel {
            watch.sentinel = false;
            self.out.respond(caller, None);
        }
        if matches!(watch.mode, Mode::Behind) && self.may_fetch(stream, caller) {
            watch.mode = Mode::Fetching(Some(Vec::new()));
            self.fetch(stream, watch.id, &["eventlog"]);
        }
        Step::Idle
    }

    /// Whether a stream may ask the job-manager now. If others must be answered first, it waits its turn.
    pub(crate) fn may_fetch(&mut self, stream: StreamId, caller: &Caller) -> bool {
        if !self.link.up || !self.projection.is_live() {
            return false;
        }
        if self.link.may_fetch() && self.fetch_queue.is_empty() {
            return true;
        }
        self.fetch_queue.add(stream, caller.key());
        false
    }

    /// Asks the job-manager for a stream. If the connection is gone, the stream hears of it when that is noticed.
    pub(crate) fn fetch(&mut self, stream: StreamId, id: JobId, keys: &[&str]) {
        if self.look_up(Call::ForStream(stream), id, keys).is_err() {
            self.fetch_lost(stream);
        }
    }

    /// A look-up for a stream is answered: the next ones get their turn.
    fn next_fetch(&mut self) {
        while self.link.may_fetch()
            && let Some(stream) = self.fetch_queue.pop()
        {
            // A paused one asks again when it goes on.
            let Some(open) = self
                .streams
                .get_mut(stream)
                .filter(|open| !open.is_paused())
            else {
                continue;
            };
            match &mut open.body {
                Body::Log(watch) if matches!(watch.mode, Mode::Behind) => {
                    watch.mode = Mode::Fetching(Some(Vec::new()));
                    let id = watch.id;
                    self.fetch(stream, id, &["eventlog"]);
                }
                Body::Update(watch) => {
                    if let Some((id, key)) = watch.begin_look() {
                        self.fetch(stream, id, &[key, "eventlog"]);
                    }
                }
                _ => {}
            }
        }
    }

    /// The connection went away while a stream's look-up was under way: it asks again when there is one.
    pub(crate) fn fetch_lost(&mut self, id: StreamId) {
        match self.streams.get_mut(id).map(|stream| &mut stream.body) {
            Some(Body::Log(watch)) => watch.mode = Mode::Behind,
            Some(Body::Update(watch)) => watch.fetch_lost(),
            _ => {}
        }
    }

    /// A stream's look-up was answered.
    pub(crate) fn fetched(&mut self, id: StreamId, payload: &[u8], refusal: Option<Refusal>) {
        let stored = match (refusal, wire::parse_json::<Stored<'_>>(payload)) {
            (Some(refusal), _) => Err(refusal),
            (None, Ok(stored)) => Ok(stored),
            (None, Err(error)) => Err(Refusal::new(
                errno::EPROTO,
                format!("answer of the job-manager: {error}"),
            )),
        };
        self.next_fetch();
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        match (stored, &mut stream.body) {
            (Ok(stored), Body::Log(watch)) => {
                watch.take_log(
                    stored.eventlog.as_deref().unwrap_or_default(),
                    stored.eventlog_seq,
                );
            }
            (Ok(stored), Body::Update(watch)) => watch.take_current(&stored),
            (Ok(_), _) => {}
            (Err(refusal), Body::Update(watch)) => watch.refused(refusal),
            (Err(refusal), Body::Log(_)) => {
                if let Some(stream) = self.streams.take(id) {
                    self.out.refuse(&stream.caller, &refusal);
                    self.closed(id, &stream);
                }
                return;
            }
            (Err(_), _) => {}
        }
        if stream.is_paused()
            && let Body::Log(watch) = &mut stream.body
        {
            watch.drop_buffered();
        }
        self.streams.wake(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> Bytes {
        Bytes::from(format!("{{\"n\":{number}}}\n"))
    }

    fn drain(watch: &mut LogWatch) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(line) = watch.next_line() {
            watch.sent += 1;
            let text = std::str::from_utf8(&line).expect("UTF-8");
            assert!(text.ends_with("}\n"), "{text:?}");
            numbers.push(
                text.trim_matches(|c: char| !c.is_ascii_digit())
                    .parse()
                    .expect("a number"),
            );
        }
        numbers
    }

    fn log(numbers: impl IntoIterator<Item = u32>) -> String {
        numbers
            .into_iter()
            .map(|number| format!("{{\"n\":{number}}}\n"))
            .collect()
    }

    #[test]
    fn live_entries_join_the_log_without_gap_or_repeat() {
        let mut watch = LogWatch::new(JobId(1), false);
        watch.mode = Mode::Fetching(Some(Vec::new()));
        // Entry 3 is live only; 4 and 5 come while the look-up, which covers 4, is under way.
        for number in [4, 5] {
            watch.take_live(number, false, &line(number));
        }
        watch.take_log(&log([1, 2, 4]), Some(4));
        watch.take_live(6, true, &line(6));
        watch.take_live(7, false, &line(7));
        watch.take_live(7, false, &line(7));
        assert_eq!(drain(&mut watch), [1, 2, 4, 5, 7]);
    }

    #[test]
    fn a_client_that_does_not_take_its_lines_costs_a_bounded_number_of_bytes_and_loses_none() {
        let mut watch = LogWatch::new(JobId(1), false);
        watch.mode = Mode::Fetching(Some(Vec::new()));
        watch.take_log(&log([1]), Some(1));
        assert_eq!(drain(&mut watch), [1]);
        for number in 2..20_000 {
            watch.take_live(number, false, &line(number));
            assert!(watch.live_bytes <= LIVE_BYTES_MAX + 64);
        }
        assert!(matches!(watch.mode, Mode::Behind) && watch.live.is_empty());
        watch.mode = Mode::Fetching(Some(Vec::new()));
        watch.take_log(&log(1..20_000), Some(19_999));
        assert_eq!(drain(&mut watch), (2..20_000).collect::<Vec<_>>());
    }

    #[test]
    fn only_an_event_named_clean_is_the_last() {
        assert!(is_clean(b"{\"timestamp\":1.0,\"name\":\"clean\"}\n"));
        assert!(!is_clean(
            br#"{"timestamp":1.0,"name":"memo","context":{"name":"clean"}}"#
        ));
        assert!(!is_clean(b"clean"));
    }
}
