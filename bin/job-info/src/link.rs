//! The link to the broker: when to connect, what to ask for, what the answers mean.
//!
//! ```text
//!  Down ──timer──► connecting ──► Up: service.add × 2, journal stream ──► caught_up: live
//!    ▲                                 │ ESTALE: from the start, aside      │
//!    └──── back-off, jitter ◄──────────┴──── EOF, broken stream, 61 ◄───────┘
//! ```
//! The timer begins at the configured interval, doubles up to [`BACKOFF_MAX`] while connections are accepted and nothing
//! comes of it, and varies by a fifth either way so that followers of one instance do not knock in step. It begins anew once
//! a stream has caught up. While nobody serves the socket an attempt costs next to nothing and nobody is burdened, so the
//! pause stays at [`ABSENT_BACKOFF_MAX`]: an instance that comes back is followed within about that time.
//! Names that others hold (EEXIST) are asked for again on the same timer: until then this is a standby.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use info::Form;
use job::JobId;
use protocol::{job_manager::EventsRequest, service::AddRequest};
use wire::{Flags, Request, Topic, json_payload};

use crate::{
    methods::SERVICES,
    peer::{Caller, ClientKey},
    quota::Quota,
    streams::StreamId,
};

/// Longest time between two attempts.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Longest time between two attempts while the socket is not there, or nobody serves it.
pub(crate) const ABSENT_BACKOFF_MAX: Duration = Duration::from_secs(1);
/// The journal says something every five seconds at least. A list that heard nothing for longer than this may be behind.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(8);
/// A stream that was followed for so long is in no trouble any more.
const TROUBLE_OVER: Duration = Duration::from_secs(60);
/// Most look-ups for clients that may be unanswered at a time.
pub(crate) const CALLS_MAX: usize = 65_536;
/// Look-ups of each client, while there is room.
const CALLS_LEAST: usize = 4;
/// Most look-ups for streams that may be unanswered at a time: what they bring waits here until it is sent.
pub(crate) const FETCHES_MAX: usize = 64;

/// A request of our own that is not answered yet.
#[derive(Debug)]
pub(crate) enum Call {
    /// A service name.
    Name(usize),
    /// The journal stream. Answered again and again.
    Journal(Form),
    /// A look-up for `job-info.lookup`.
    Lookup(Box<crate::lookup::Wanted>),
    /// A look-up for a stream that follows something.
    ForStream(StreamId),
    /// Whether a job exists that the list does not hold.
    Exists(Box<(JobId, job::StateSet, info::Attrs, Caller)>),
}

/// How a connection was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There was none: nobody serves the socket.
    Absent,
    /// It was accepted, and ended or led to nothing.
    Broken,
}

/// Where the link is.
#[derive(Debug)]
pub(crate) struct Link {
    interval: Duration,
    backoff: Duration,
    jitter: u64,
    trouble: bool,
    /// When to connect, or to ask for names, next.
    pub(crate) due: Option<Instant>,
    pub(crate) up: bool,
    /// Attempts to connect so far.
    pub(crate) attempts: u64,
    /// Since when the list does not follow its journal.
    down_since: Option<Instant>,
    /// When the journal last said something.
    heard: Instant,
    /// When a stream last caught up.
    caught_up: Option<Instant>,
    pub(crate) form: Form,
    names: [bool; SERVICES.len()],
    calls: HashMap<u32, Call>,
    by_client: Quota,
    fetches: usize,
    last_tag: u32,
}

impl Call {
    /// Whose it is, if it counts for somebody.
    fn client(&self) -> Option<ClientKey> {
        match self {
            Call::Name(_) | Call::Journal(_) | Call::ForStream(_) => None,
            Call::Lookup(wanted) => Some(wanted.caller.key()),
            Call::Exists(asked) => Some(asked.3.key()),
        }
    }
}

impl Link {
    pub(crate) fn new(interval: Duration, jitter: u64, now: Instant) -> Self {
        Self {
            interval,
            backoff: interval,
            jitter: jitter | 1,
            trouble: false,
            due: Some(now),
            up: false,
            attempts: 0,
            down_since: Some(now),
            heard: now,
            caught_up: None,
            form: Form::Native,
            names: [false; SERVICES.len()],
            calls: HashMap::new(),
            by_client: Quota::new(CALLS_MAX, CALLS_LEAST),
            fetches: 0,
            last_tag: 0,
        }
    }

    /// The next pause: the back-off, a fifth more or less.
    fn pause(&mut self, how: Lost) -> Duration {
        // xorshift: spread is all that matters here.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        let fifths = 0.8 + 0.4 * (self.jitter % 1024) as f64 / 1023.0;
        let longest = match how {
            Lost::Absent => ABSENT_BACKOFF_MAX,
            Lost::Broken => BACKOFF_MAX,
        };
        let longest = longest.max(self.interval);
        let pause = self.backoff.min(longest);
        // A broker that is not there takes nothing back from what one that was there has earned.
        self.backoff = self.backoff.max((pause * 2).min(longest));
        pause.mul_f64(fifths)
    }

    /// The connection is gone, or there was none. Gives out what was not answered.
    pub(crate) fn lost(&mut self, how: Lost, now: Instant) -> Vec<Call> {
        self.up = false;
        self.not_following(now);
        let since = self.caught_up.take();
        if since.is_some_and(|since| now.duration_since(since) >= TROUBLE_OVER) {
            self.trouble = false;
        }
        self.names = [false; SERVICES.len()];
        self.due = Some(now + self.pause(how));
        self.fetches = 0;
        let calls: Vec<Call> = self.calls.drain().map(|(_, call)| call).collect();
        for client in calls.iter().filter_map(Call::client) {
            self.by_client.give(&client, 1);
        }
        calls
    }

    /// The stream caught up: the list follows its journal. Attempts begin close together again, unless the stream has shown
    /// that it cannot be followed: a list built anew once a second would be a burden on everybody.
    pub(crate) fn caught_up(&mut self) {
        self.down_since = None;
        self.caught_up = Some(self.heard);
        if !self.trouble {
            self.backoff = self.interval;
        }
    }

    /// The list does not follow its journal from here on.
    pub(crate) fn not_following(&mut self, now: Instant) {
        self.down_since.get_or_insert(now);
    }

    /// The journal said something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Since when the list may not be what the journal says; `None` while it is.
    pub(crate) fn stale_since(&self, now: Instant) -> Option<Instant> {
        let silent = self.silent_at().is_some_and(|at| at <= now);
        self.down_since.or(silent.then_some(self.heard))
    }

    /// When the list may be behind if the journal says nothing until then. Flux's form has no progress: there silence says nothing.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        (self.form == Form::Native && self.down_since.is_none()).then(|| self.heard + SILENCE_MAX)
    }

    /// The stream could not be followed.
    pub(crate) fn note_trouble(&mut self) {
        self.trouble = true;
    }

    /// Whether a service name is ours.
    pub(crate) fn has_name(&self, at: usize) -> bool {
        self.names.get(at).copied().unwrap_or(false)
    }

    pub(crate) fn named(&mut self, at: usize, ours: bool) {
        if let Some(name) = self.names.get_mut(at) {
            *name = ours;
        }
    }

    /// Some names are another's: ask again later.
    pub(crate) fn ask_names_later(&mut self, now: Instant) {
        if self.due.is_none() {
            let pause = self.pause(Lost::Broken);
            self.due = Some(now + pause);
        }
    }

    /// How many of our own requests are unanswered.
    pub(crate) fn calls_len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn call(&self, tag: u32) -> Option<&Call> {
        self.calls.get(&tag)
    }

    pub(crate) fn take_call(&mut self, tag: u32) -> Option<Call> {
        let call = self.calls.remove(&tag)?;
        self.uncount(&call);
        Some(call)
    }

    fn uncount(&mut self, call: &Call) {
        self.fetches -= usize::from(matches!(call, Call::ForStream(_))).min(self.fetches);
        if let Some(client) = call.client() {
            self.by_client.give(&client, 1);
        }
    }

    /// Whether another look-up for a stream may be asked for now.
    pub(crate) fn may_fetch(&self) -> bool {
        self.fetches < FETCHES_MAX
    }

    /// Whether a client has look-ups that are not answered.
    pub(crate) fn has_client(&self, client: &ClientKey) -> bool {
        self.by_client.has(client)
    }

    /// Forgets unanswered requests that nobody wants answered any more; their answers will be passed over.
    pub(crate) fn forget_calls(&mut self, mut gone: impl FnMut(&Call) -> bool) {
        let tags = self.calls.iter().filter(|(_, call)| gone(call));
        let tags: Vec<u32> = tags.map(|(tag, _)| *tag).collect();
        for tag in tags {
            self.take_call(tag);
        }
    }

    /// A tag for a request of our own; the call comes back when too many of its client are unanswered.
    pub(crate) fn tag(&mut self, call: Call) -> Result<u32, Call> {
        if let Some(client) = call.client()
            && !self.by_client.take(&client, 1)
        {
            return Err(call);
        }
        self.fetches += usize::from(matches!(call, Call::ForStream(_)));
        loop {
            self.last_tag = self.last_tag.checked_add(1).unwrap_or(1);
            if !self.calls.contains_key(&self.last_tag) {
                self.calls.insert(self.last_tag, call);
                return Ok(self.last_tag);
            }
        }
    }
}

/// `service.add` for one of our names.
pub(crate) fn add_name(at: usize, key: Option<&str>, tag: u32) -> Request {
    let service = SERVICES.get(at).copied().unwrap_or_default();
    let payload = json_payload(&AddRequest {
        service: service.into(),
        key: key.map(Into::into),
    });
    Request::new(Topic::from("service.add"), Some(payload), tag)
}

/// The journal in the native form, from the start or after a cursor.
pub(crate) fn native_journal(cursor: Option<(u64, &str)>, tag: u32) -> Request {
    let ask = match cursor {
        Some((after, epoch)) => EventsRequest {
            after: Some(after),
            epoch: Some(epoch.into()),
            ..EventsRequest::default()
        },
        None => EventsRequest {
            from: Some("all".into()),
            ..EventsRequest::default()
        },
    };
    streaming(Request::new(
        Topic::from("job-manager.events"),
        Some(json_payload(&ask)),
        tag,
    ))
}

/// The journal in Flux's form.
pub(crate) fn flux_journal(tag: u32) -> Request {
    let payload = wire::nul_terminated(br#"{"full":true}"#);
    streaming(Request::new(
        Topic::from("job-manager.events-journal"),
        Some(payload),
        tag,
    ))
}

fn streaming(request: Request) -> Request {
    Request {
        flags: request.flags.with(Flags::STREAMING),
        ..request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_back_off_to_ten_seconds_and_never_closer_than_the_interval_less_a_fifth() {
        let now = Instant::now();
        let mut link = Link::new(Duration::from_secs(1), 12345, now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            link.lost(Lost::Broken, now);
            pauses.push(
                link.due
                    .map_or(0.0, |due| due.duration_since(now).as_secs_f64()),
            );
        }
        for (pause, expected) in pauses
            .iter()
            .zip([1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0])
        {
            assert!(
                (expected * 0.8..=expected * 1.2001).contains(pause),
                "{pauses:?}"
            );
        }
        assert!(
            pauses[4..].windows(2).any(|pair| pair[0] != pair[1]),
            "no jitter: {pauses:?}"
        );
        link.caught_up();
        link.lost(Lost::Broken, now);
        assert!(
            link.due
                .is_some_and(|due| due.duration_since(now) <= Duration::from_millis(1201))
        );
    }

    #[test]
    fn a04_a_broker_that_is_not_there_is_looked_for_every_second_and_not_more_often() {
        let now = Instant::now();
        let mut link = Link::new(Duration::from_secs(1), 12345, now);
        let lose = |link: &mut Link, how| {
            link.lost(how, now);
            link.due
                .map_or(0.0, |due| due.duration_since(now).as_secs_f64())
        };
        lose(&mut link, Lost::Broken);
        for _ in 0..100 {
            let pause = lose(&mut link, Lost::Absent);
            assert!((0.8..=1.2001).contains(&pause), "{pause}");
        }
        // What streams that broke had come to is not forgotten meanwhile.
        for _ in 0..5 {
            lose(&mut link, Lost::Broken);
        }
        lose(&mut link, Lost::Absent);
        assert!(lose(&mut link, Lost::Broken) >= 8.0);
        // A shorter interval grows to the second, a longer one stays.
        let mut quick = Link::new(Duration::from_millis(50), 1, now);
        let pauses: Vec<f64> = (0..8).map(|_| lose(&mut quick, Lost::Absent)).collect();
        assert!(
            pauses[0] < 0.07 && pauses[7] >= 0.8 && pauses[7] <= 1.2001,
            "{pauses:?}"
        );
        let mut slow = Link::new(Duration::from_secs(60), 1, now);
        assert!(lose(&mut slow, Lost::Absent) >= 48.0);
    }

    #[test]
    fn a_list_that_hears_nothing_for_longer_than_the_journal_is_ever_silent_is_stale() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut link = Link::new(Duration::from_secs(1), 1, start);
        assert_eq!(
            link.stale_since(at(1)),
            Some(start),
            "there was no list yet"
        );
        link.heard(at(2));
        link.caught_up();
        // Progress comes every five seconds at least.
        assert_eq!(
            (link.stale_since(at(9)), link.silent_at()),
            (None, Some(at(10)))
        );
        assert_eq!(
            link.stale_since(at(10)),
            Some(at(2)),
            "its age counts from the last word"
        );
        link.heard(at(11));
        assert_eq!(link.stale_since(at(12)), None);
        link.not_following(at(13));
        link.not_following(at(14));
        assert_eq!(
            (link.stale_since(at(15)), link.silent_at()),
            (Some(at(13)), None)
        );
        link.caught_up();
        link.form = Form::Flux;
        assert_eq!(link.stale_since(at(99)), None);
    }

    #[test]
    fn tags_are_unique() {
        let mut link = Link::new(Duration::from_secs(1), 1, Instant::now());
        let first = link.tag(Call::Name(0)).expect("a tag");
        let second = link.tag(Call::Name(1)).expect("a tag");
        assert_ne!(first, second);
        assert!(matches!(link.take_call(second), Some(Call::Name(1))));
        assert!(link.take_call(second).is_none());
    }

    #[test]
    fn look_ups_for_streams_are_few_at_a_time() {
        let mut link = Link::new(Duration::from_secs(1), 1, Instant::now());
        let mut tags = Vec::new();
        while link.may_fetch() {
            tags.push(link.tag(Call::ForStream(1)).expect("a tag"));
        }
        assert_eq!(tags.len(), FETCHES_MAX);
        link.take_call(tags[0]);
        assert!(link.may_fetch());
        link.lost(Lost::Broken, Instant::now());
        assert_eq!((link.fetches, link.calls_len()), (0, 0));
    }
}
