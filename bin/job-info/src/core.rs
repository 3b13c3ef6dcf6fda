//! The two services, without the waiting: requests, journal batches and events of files go in, answers go out.
//!
//! ```text
//!  request ─ method? ─ role? ─┬─ at once (ping, cancel, disconnect, pause …)
//!                             └─ needs the list: seq applied? ─┬─ yes: served ─┬─ answer
//!                                                              │               └─ stream: a cursor
//!                                                              └─ no: held (EAGAIN when full)
//! ```
//! Messages are handled in the order in which they came. A request that came through the broker is answered from a state
//! that includes the newest mark before it; with `after`, from one that includes that seq.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use bytes::Bytes;
use info::{Attrs, Form, Projection, Waiters, row};
use job::JobId;
use protocol::job_list::{AfterRequest, CancelRequest};
use serde::Deserialize;
use serde_json::json;
use wire::{Cred, Request, errno, json_payload};

use crate::{
    Config,
    elsewhere::HttpTokens,
    fetch_queue::FetchQueue,
    files::Files,
    guest_read::Reads,
    hold::{Due, Hold},
    link::{Call, Link},
    methods::{self, Method},
    peer::{Caller, ClientKey, Outlets, Refusal, Via},
    quota::Quota,
    share::Shares,
    streams::{Body, Step, Stream, StreamId, Streams},
};

/// Longest time that streams send before what came in is looked at.
const PUMP_SLICE: Duration = Duration::from_micros(150);

/// Longest payload of a request. The longest that makes sense is a constraint of as many values as one may have.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// `list-id` waits of each client, while there is room.
const WAITS_LEAST: usize = 4;

/// How often held requests are looked at for one that waits too long.
pub(crate) const HOLD_CHECK: Duration = Duration::from_secs(1);
/// How often followed files are looked at when the system has no watches left.
pub(crate) const FILES_POLL: Duration = Duration::from_millis(500);

/// A `list-id` that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) caller: Caller,
    pub(crate) attrs: Attrs,
    /// The list held the job when the wait began.
    pub(crate) was_listed: bool,
}

/// Everything job-info is.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) config: Config,
    pub(crate) projection: Projection,
    pub(crate) link: Link,
    pub(crate) out: Outlets,
    pub(crate) hold: Hold,
    pub(crate) hold_due: Due,
    pub(crate) files_due: Due,
    pub(crate) waiters: Waiters<Waiting>,
    /// Waits by client.
    pub(crate) waits: Quota,
    pub(crate) streams: Streams,
    /// Streams that wait for a look-up to be free.
    pub(crate) fetch_queue: FetchQueue,
    pub(crate) followers: HashMap<JobId, BTreeSet<StreamId>>,
    pub(crate) files: Files,
    pub(crate) stats_watchers: BTreeSet<StreamId>,
    pub(crate) stats_due: Option<Instant>,
    pub(crate) stats_told: Option<Instant>,
    /// That the journal is silent was told to followers.
    pub(crate) told_silence: bool,
    /// Counts whatever a followed `job-stats` would show.
    pub(crate) stats_revision: u64,
    pub(crate) shares: Shares,
    pub(crate) reads: Reads,
    /// Where HTTP is served.
    pub(crate) http_tokens: Option<Box<dyn HttpTokens>>,
    pub(crate) id_lookups: u64,
    pub(crate) lookups: u64,
    pub(crate) update_lookups: u64,
    pub(crate) requests: u64,
    pub(crate) listings_dropped: u64,
    /// The next stream must begin at the start.
    pub(crate) from_start: bool,
    /// Why the last stream could not be followed; until one has caught up.
    pub(crate) poison: Option<Box<str>>,
    pub(crate) poisonings: u64,
    /// What was told of the resource log.
    pub(crate) nodes_fault: Option<Box<str>>,
    /// Jobs whose setting aside was told.
    pub(crate) aside_logged: BTreeSet<JobId>,
    pub(crate) warned: bool,
}

/// Reads a payload, which must be there.
pub(crate) fn parse<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Refusal> {
    wire::parse_json(payload).map_err(Refusal::payload)
}

/// Closes a JSON object that was written so far, and makes a payload of it.
pub(crate) fn finish_json(mut out: Vec<u8>) -> Bytes {
    out.extend_from_slice(b"}\0");
    Bytes::from(out)
}

impl Info {
    pub(crate) fn new(config: Config, own: Cred, jitter: u64, now: Instant) -> Self {
        let files = Files::new(config.statedir.join("jobs"));
        Self {
            link: Link::new(config.reconnect, jitter, now),
            config,
            projection: Projection::new(),
            out: Outlets::new(own),
            hold: Hold::default(),
            hold_due: Due::default(),
            files_due: Due::default(),
            waiters: Waiters::default(),
            waits: Quota::new(info::waiters::WAITS_MAX, WAITS_LEAST),
            streams: Streams::default(),
            fetch_queue: FetchQueue::default(),
            followers: HashMap::new(),
            files,
            stats_watchers: BTreeSet::new(),
            stats_due: None,
            stats_told: None,
            told_silence: false,
            stats_revision: 0,
            shares: Shares::default(),
            reads: Reads::default(),
            http_tokens: None,
            id_lookups: 0,
            lookups: 0,
            update_lookups: 0,
            requests: 0,
            listings_dropped: 0,
            from_start: false,
            poison: None,
            poisonings: 0,
            nodes_fault: None,
            aside_logged: BTreeSet::new(),
            warned: false,
        }
    }

    /// Seconds since the list last followed its journal; `None` while it does.
    pub(crate) fn stale_seconds(&self) -> Option<f64> {
        self.link
            .stale_since(Instant::now())
            .map(|since| since.elapsed().as_secs_f64())
    }

    /// Whether the list follows its journal and lacks no job.
    pub(crate) fn is_whole_and_fresh(&self) -> bool {
        self.stale_seconds().is_none() && self.projection.jobs().set_aside().is_empty()
    }

    /// The refusal for a job that the list does not hold. While the list is stale that is no proof that there is none.
    pub(crate) fn absent(&self, caller: &Caller, id: JobId) -> Refusal {
        if let Some(age) = self.stale_seconds() {
            let text = format!(
                "the list is {age:.0} s old and does not hold job {id}; the job-manager cannot be asked now"
            );
            return Refusal::new(errno::EAGAIN, text);
        }
        match self.projection.jobs().set_aside().why(id) {
            // Whose it is may not be known.
            Some(why) if !self.config.private || caller.cred().is_owner() => Refusal::new(
                errno::EIO,
                format!("set aside: {why}; see 'weir store check'"),
            ),
            _ => Refusal::bare(errno::ENOENT),
        }
    }

    /// Whether this job is set aside and the caller may read what is stored of it.
    pub(crate) fn is_aside_for_owner(&self, caller: &Caller, id: JobId) -> bool {
        caller.cred().is_owner() && self.projection.jobs().set_aside().contains(id)
    }

    /// Appends `,"seq":N`, `,"stale":F` while the list does not follow its journal, and `,"set_aside":N` if it lacks jobs.
    pub(crate) fn write_freshness(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"seq\":");
        row::integer(out, self.projection.applied());
        if let Some(age) = self.stale_seconds() {
            out.extend_from_slice(b",\"stale\":");
            row::real(out, age);
        }
        let aside = self.projection.jobs().set_aside().len();
        if aside > 0 {
            out.extend_from_slice(b",\"set_aside\":");
            row::integer(out, aside as u64);
        }
    }

    // ---- requests ------------------------------------------------------------------------------------------------

    pub(crate) fn take_request(&mut self, via: Via, mut request: Request, now: Instant) {
        self.requests += 1;
        let payload = request.payload.take();
        let caller = Caller { via, request };
        let Some((method, role)) = methods::find(caller.topic()) else {
            let text = format!("Unknown service method '{}'", caller.topic());
            return self.out.refuse(&caller, &Refusal::new(errno::ENOSYS, text));
        };
        if let Err(refusal) = role.check(caller.cred()) {
            return self.out.refuse(&caller, &refusal);
        }
        if method == Method::Disconnect {
            // Whatever its payload: the broker owes no other one after it.
            return self.disconnected(&caller);
        }
        if !method.is_notice() && !caller.request.expects_response() {
            // Nobody hears the answer, and nobody would be told to end a stream for it.
            return;
        }
        let length = payload.as_ref().map_or(0, Bytes::len);
        if length > REQUEST_BYTES_MAX {
            let refusal = Refusal::payload(format_args!(
                "expected at most {REQUEST_BYTES_MAX} bytes, got {length}"
            ));
            return self.out.refuse(&caller, &refusal);
        }
        let after = match payload.as_deref().map(parse::<AfterRequest>) {
            None => None,
            Some(Ok(after)) => after.after,
            // A notice that cannot be read is passed over, not answered.
            Some(Err(_)) if method.is_notice() => return,
            Some(Err(refusal)) => return self.out.refuse(&caller, &refusal),
        };
        if method.is_immediate() {
            return self.answer_now(method, &caller, payload.as_deref().unwrap_or_default());
        }
        let after = after
            .filter(|_| self.link.form == Form::Native)
            .unwrap_or(0);
        let (need, open) = match via {
            Via::Broker => (after.max(self.projection.mark()), self.projection.is_live()),
            Via::Direct(_) => (after, self.projection.is_served()),
        };
        if open && need <= self.projection.applied() {
            return self.serve(method, &caller, payload.as_deref().unwrap_or_default());
        }
        if let (false, Some(reason)) = (self.projection.is_served(), &self.poison) {
            let text = format!("there is no list: {reason}; it is tried again");
            return self.out.refuse(&caller, &Refusal::new(errno::EAGAIN, text));
        }
        if !self.hold.add(&caller, payload, need, now) {
            self.out.refuse(
                &caller,
                &Refusal::new(
                    errno::EAGAIN,
                    "too many requests wait for the list, try again later",
                ),
            );
        }
    }

    /// Serves what was held and can be served now.
    pub(crate) fn serve_held(&mut self) {
        while let Some(held) = self.hold.take_ripe(
            self.projection.applied(),
            self.projection.is_live(),
            self.projection.is_served(),
        ) {
            if let Some((method, _)) = methods::find(held.caller.topic()) {
                self.serve(
                    method,
                    &held.caller,
                    held.payload.as_deref().unwrap_or_default(),
                );
            }
        }
    }

    fn serve(&mut self, method: Method, caller: &Caller, payload: &[u8]) {
        let served = match method {
            Method::List => self.list(caller, payload),
            Method::ListId => self.list_id(caller, payload),
            Method::Rank => self.rank(caller, payload),
            Method::JobStats => self.job_stats(caller),
            Method::Clients => self.clients(caller, payload),
            Method::Lookup => self.lookup(caller, payload),
            Method::UpdateLookup => self.update_lookup(caller, payload),
            Method::EventlogWatch => self.eventlog_watch(caller, payload),
            Method::UpdateWatch => self.update_watch(caller, payload),
            _ => {
                self.answer_now(method, caller, payload);
                Ok(())
            }
        };
        if let Err(refusal) = served {
            self.out.refuse(caller, &refusal);
        }
    }

    fn answer_now(&mut self, method: Method, caller: &Caller, payload: &[u8]) {
        let answered = match method {
            Method::Ping => self.ping(caller, payload),
            Method::Pause => {
                let client = caller.key();
                let known = self.knows(&client);
                self.streams.pause(client, known);
                Ok(())
            }
            Method::Resume => {
                self.streams.resume(&caller.key());
                Ok(())
            }
            Method::Cancel => {
                self.cancel(caller, payload);
                Ok(())
            }
            Method::ListAttrs => {
                self.list_attrs(caller);
                Ok(())
            }
            Method::ListStatsGet => self.list_stats_get(caller),
            Method::InfoStatsGet => {
                self.info_stats_get(caller);
                Ok(())
            }
            Method::HttpToken => self.http_token(caller, payload),
            _ => Ok(()),
        };
        if let Err(refusal) = answered {
            self.out.refuse(caller, &refusal);
        }
    }

    fn ping(&self, caller: &Caller, payload: &[u8]) -> Result<(), Refusal> {
        let mut answer: job::Map = parse(payload)?;
        let hops = caller.request.routes.as_deref().unwrap_or_default().iter();
        let heads: Vec<String> = hops
            .map(|hop| String::from_utf8_lossy(hop).chars().take(8).collect())
            .collect();
        answer.insert("route".into(), json!(heads.join("!")));
        answer.insert("userid".into(), json!(caller.cred().userid));
        answer.insert("rolemask".into(), json!(caller.cred().rolemask));
        answer.insert("rank".into(), json!(0));
        self.out.respond(caller, Some(json_payload(&answer)));
        Ok(())
    }

    /// Ends the stream a cancel names, if it is open. A cancel that names none is not remembered.
    fn cancel(&mut self, caller: &Caller, payload: &[u8]) {
        let Ok(CancelRequest { matchtag }) = parse(payload) else {
            return;
        };
        let meant = |other: &Caller| {
            other.request.is_streaming()
                && other.request.matchtag == matchtag
                && other.is_of(caller)
        };
        let key = caller.key();
        if self.hold.has_client(&key) {
            for held in self.hold.forget(meant) {
                self.out.end(&held.caller);
            }
        }
        for (id, stream) in self.streams.close_of(&key, |stream| meant(&stream.caller)) {
            self.out.end(&stream.caller);
            self.closed(id, &stream);
        }
    }

    /// A client left. Most leave nothing behind, and then nothing is searched.
    fn disconnected(&mut self, caller: &Caller) {
        self.forget_client(&caller.key(), |other| other.is_from(caller));
    }

    /// Whether a client waits for anything. The broker says when such a one leaves, and only then.
    fn knows(&self, client: &ClientKey) -> bool {
        self.streams.has_client(client)
            || self.hold.has_client(client)
            || self.waits.has(client)
            || self.link.has_client(client)
    }

    /// Drops all that one client had asked for and `gone` picks, without an answer.
    pub(crate) fn forget_client(&mut self, client: &ClientKey, gone: impl Fn(&Caller) -> bool) {
        if self.hold.has_client(client) {
            self.hold.forget(&gone);
        }
        if self.waits.has(client) {
            self.forget_waits(&gone);
        }
        if self.link.has_client(client) {
            self.forget_calls(&gone);
        }
        for (id, stream) in self.streams.close_of(client, |stream| gone(&stream.caller)) {
            self.closed(id, &stream);
        }
        if !self.knows(client) {
            self.streams.forget_client(client);
        }
    }

    fn forget_waits(&mut self, gone: impl Fn(&Caller) -> bool) {
        let waits = &mut self.waits;
        self.waiters.forget(|waiting| {
            let gone = gone(&waiting.caller);
            if gone {
                waits.give(&waiting.caller.key(), 1);
            }
            gone
        });
    }

    fn forget_calls(&mut self, gone: impl Fn(&Caller) -> bool) {
        self.link.forget_calls(|call| match call {
            Call::Lookup(wanted) => gone(&wanted.caller),
            Call::Exists(asked) => gone(&asked.3),
            _ => false,
        });
    }

    /// Drops all that the clients `gone` picks had asked for, without an answer.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Caller) -> bool) {
        self.hold.forget(&gone);
        self.forget_waits(&gone);
        self.forget_calls(&gone);
        for (id, stream) in self.streams.close(|stream| gone(&stream.caller)) {
            self.closed(id, &stream);
        }
    }

    // ---- streams -------------------------------------------------------------------------------------------------

    /// Opens a stream for the caller.
    pub(crate) fn open(&mut self, caller: &Caller, body: Body) -> Result<StreamId, Refusal> {
        self.streams.open(caller, body).ok_or_else(too_many_streams)
    }

    /// Notes that a stream follows a job.
    pub(crate) fn follow(&mut self, id: JobId, stream: StreamId) {
        self.followers.entry(id).or_default().insert(stream);
    }

    /// A stream is closed: whatever it held elsewhere is given back.
    pub(crate) fn closed(&mut self, id: StreamId, stream: &Stream) {
        let job = match &stream.body {
            Body::Listing(listing) => return self.release_listing(&stream.caller, listing),
            Body::Lookup(read) => return self.release_lookup(&stream.caller, read),
            Body::Row(_) => return,
            Body::Stats(_) => {
                self.stats_watchers.remove(&id);
                return;
            }
            Body::Log(watch) => watch.job(),
            Body::Update(watch) => watch.job(),
            Body::Guest(watch) => {
                self.files.unfollow(watch.job());
                watch.job()
            }
        };
        self.fetch_queue.remove(id);
        if let Some(followers) = self.followers.get_mut(&job) {
            followers.remove(&id);
            if followers.is_empty() {
                self.followers.remove(&job);
            }
        }
    }

    /// Lets streams send for a short while. More may be left: see [`Streams::has_ready`].
    pub(crate) fn pump(&mut self) {
        let start = Instant::now();
        while let Some((id, mut stream)) = self.streams.take_ready() {
            if !self.out.has_room(stream.caller.via) {
                self.streams.block(id, stream);
                continue;
            }
            let Stream { caller, body, .. } = &mut stream;
            let step = match body {
                Body::Listing(listing) => self.step_listing(caller, listing),
                Body::Stats(watch) => self.step_stats(caller, watch, Instant::now()),
                Body::Log(watch) => self.step_log(id, caller, watch),
                Body::Guest(watch) => self.step_guest(caller, watch),
                Body::Update(watch) => self.step_update(id, caller, watch),
                Body::Lookup(read) => self.step_lookup(id, caller, read),
                Body::Row(row) => self.step_row(caller, row),
            };
            if step == Step::Done {
                self.closed(id, &stream);
            }
            self.streams.put_back(id, stream, step);
            if start.elapsed() >= PUMP_SLICE {
                break;
            }
        }
    }
}

fn too_many_streams() -> Refusal {
    Refusal::new(errno::EAGAIN, "too many streams are open, try again later")
}
