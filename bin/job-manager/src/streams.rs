//! Journal listeners: requests become cursors in the fan-out, its batches become frames, its wishes become reads of the store.
//!
//! A batch's bytes are shared by all who get it; only the ends of the frame around it are a listener's own (`frames.rs`). A listener whose
//! output queue is above high water is told to the fan-out, and costs nothing until it has drained.

use crate::Config;
use crate::asked;
use crate::builtin::Refused;
use crate::conns::Conns;
use crate::frames;
use crate::pages;
use crate::reads::{Lane, Reads};
use crate::set_aside::SetAside;
use crate::shell::Found;
use crate::specs;
use bytes::Bytes;
use job::{Entry, Seq, Timestamp};
use journal::{Fanout, Limits, ListenerId, Out};
use router::{Delivery, PeerId, Router};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use wire::{Request, Response, Routes, errno};

/// Streams of one connection.
pub(crate) const LISTENERS_PER_CONNECTION_MAX: usize = 256;

/// Who listens, and how he is answered.
struct Listening {
    peer: PeerId,
    request: Request,
    native: bool,
    /// The newest mark it was sent.
    marked: Seq,
}

/// What a stream is known by to its client: the connection, the hops behind it, and the matchtag.
type Key = (PeerId, Routes, u32);

/// All listeners.
pub(crate) struct Streams {
    fanout: Fanout,
    listening: HashMap<ListenerId, Listening>,
    by_key: HashMap<Key, ListenerId>,
    by_peer: HashMap<PeerId, BTreeSet<ListenerId>>,
    next_id: u64,
    marks: u64,
    flushes: u64,
    out: Vec<Out>,
    /// Jobs that are left out of what is read, and which of them the fan-out knows.
    set_aside: SetAside,
    set_aside_version: usize,
    /// Streams that ended with an error: to be answered.
    ended: Vec<Response>,
}

impl Streams {
    pub(crate) fn new(
        config: &Config,
        epoch: &str,
        newest: Seq,
        floor: Seq,
        set_aside: SetAside,
    ) -> Streams {
        let limits = Limits {
            ring_entries: config.journal_size_limit,
            batch_interval: config.batch_interval.as_secs_f64(),
            ..Limits::default()
        };
        Streams {
            fanout: Fanout::new(limits, epoch, newest, floor),
            listening: HashMap::new(),
            by_key: HashMap::new(),
            by_peer: HashMap::new(),
            next_id: 0,
            marks: 0,
            flushes: 0,
            out: Vec::new(),
            set_aside,
            set_aside_version: 0,
            ended: Vec::new(),
        }
    }

    /// The state of the nodes as of what is durable: told to who begins to listen.
    pub(crate) fn set_resources(&mut self, resources: job::Resources) {
        self.fanout.set_resources(resources);
    }

    /// Begins a stream for `request`, as of what is durable now. `writable`: its connection takes more at present.
    /// # Errors
    /// Errno and text: not streaming, no rights, a payload that is not understood, a cursor that cannot be continued, too many.
    pub(crate) fn add(
        &mut self,
        peer: PeerId,
        request: &Request,
        now: Timestamp,
        writable: bool,
    ) -> Result<(), Refused> {
        let native = request.topic.method() == "events";
        if !request.is_streaming() {
            return Err((
                errno::EPROTO,
                Some("job-manager.events requires streaming RPC flag".into()),
            ));
        }
        let spec = if native {
            specs::native(request)?
        } else {
            specs::flux(request)?
        };
        let request = asked::detached(request);
        let key = (peer, behind(&request), request.matchtag);
        if self.by_key.contains_key(&key) {
            return Err((
                errno::EINVAL,
                Some(format!(
                    "matchtag {} is in use by another stream",
                    request.matchtag
                )),
            ));
        }
        if self.by_peer.get(&peer).map_or(0, BTreeSet::len) >= LISTENERS_PER_CONNECTION_MAX {
            return Err((
                errno::EMFILE,
                Some(format!(
                    "a connection may hold {LISTENERS_PER_CONNECTION_MAX} journal streams at most"
                )),
            ));
        }
        self.next_id += 1;
        let id = ListenerId(self.next_id);
        self.fanout
            .add(id, spec, now)
            .map_err(|refused| (refused.errnum(), Some(refused.to_string())))?;
        self.fanout.set_writable(id, writable);
        let listening = Listening {
            peer,
            request,
            native,
            marked: Seq(0),
        };
        self.listening.insert(id, listening);
        self.by_key.insert(key, id);
        self.by_peer.entry(peer).or_default().insert(id);
        Ok(())
    }

    /// The newest durable seq.
    pub(crate) fn durable(&self) -> Seq {
        self.fanout.durable()
    }

    /// Ends the stream of that matchtag, if there is one; its request is to be answered.
    pub(crate) fn cancel(&mut self, peer: PeerId, hops: &Routes, matchtag: u32) -> Option<Request> {
        let key = (peer, hops.get(1..).unwrap_or_default().to_vec(), matchtag);
        let id = *self.by_key.get(&key)?;
        self.remove(id)
    }

    fn remove(&mut self, id: ListenerId) -> Option<Request> {
        self.fanout.remove(id);
        let gone = self.listening.remove(&id)?;
        self.by_key
            .remove(&(gone.peer, behind(&gone.request), gone.request.matchtag));
        if let Some(held) = self.by_peer.get_mut(&gone.peer) {
            held.remove(&id);
            if held.is_empty() {
                self.by_peer.remove(&gone.peer);
            }
        }
        Some(gone.request)
    }

    /// A connection is gone, and its streams with it.
    pub(crate) fn remove_peer(&mut self, peer: PeerId) {
        for id in self.by_peer.get(&peer).cloned().unwrap_or_default() {
            self.remove(id);
        }
    }

    /// Someone for whom a connection forwards is gone: silently, the streams that came with these hops.
    pub(crate) fn remove_hops(&mut self, peer: PeerId, hops: &[Bytes]) {
        for id in self.by_peer.get(&peer).cloned().unwrap_or_default() {
            if self
                .listening
                .get(&id)
                .is_some_and(|one| behind(&one.request) == hops)
            {
                self.remove(id);
            }
        }
    }

    /// Ends all streams; their requests are to be answered.
    pub(crate) fn remove_all(&mut self) -> Vec<Request> {
        let ids = self.fanout.remove_all();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Whether this connection takes more.
    pub(crate) fn set_writable(&mut self, peer: PeerId, writable: bool) {
        for id in self.by_peer.get(&peer).into_iter().flatten() {
            self.fanout.set_writable(*id, writable);
        }
    }

    /// Entries that are durable now; together they are one commit.
    pub(crate) fn push(&mut self, entries: &[Arc<Entry>]) {
        self.fanout.push(entries);
    }

    /// Whoever is caught up from now on is told of the jobs that are set aside by now.
    fn know_set_aside(&mut self) {
        let version = self.set_aside.version();
        if self.set_aside_version != version {
            self.set_aside_version = version;
            self.fanout.set_aside(self.set_aside.all());
        }
    }

    /// The log is being trimmed up to `floor`: cursors below it are refused from now on.
    pub(crate) fn set_floor(&mut self, floor: Seq) {
        self.fanout.set_floor(floor);
    }

    /// What was read for a listener.
    pub(crate) fn page(
        &mut self,
        page: journal::Page,
        now: Timestamp,
        conns: &Conns,
        router: &mut Router,
        reads: &Reads<Found>,
        deliveries: &mut Vec<Delivery>,
    ) {
        self.know_set_aside();
        let mut out = std::mem::take(&mut self.out);
        self.fanout.page(page, now, &mut out);
        for one in out.drain(..) {
            self.carry_out(one, conns, router, Some(reads), deliveries);
        }
        self.out = out;
    }

    /// When a listener is due without news.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.fanout.next_deadline()
    }

    /// Sends what is due; true if there is more to do at once.
    pub(crate) fn poll(
        &mut self,
        now: Timestamp,
        conns: &Conns,
        router: &mut Router,
        reads: &Reads<Found>,
        deliveries: &mut Vec<Delivery>,
    ) -> bool {
        self.know_set_aside();
        let mut out = std::mem::take(&mut self.out);
        let more = self.fanout.poll(now, &mut out);
        for one in out.drain(..) {
            self.carry_out(one, conns, router, Some(reads), deliveries);
        }
        self.out = out;
        more
    }

    /// Read your writes: brings the native streams of `peer` up to all that is durable, or marks how far that is.
    pub(crate) fn bring_up_to_date(
        &mut self,
        peer: PeerId,
        now: Timestamp,
        conns: &Conns,
        router: &mut Router,
        deliveries: &mut Vec<Delivery>,
    ) {
        let Some(held) = self.by_peer.get(&peer) else {
            return;
        };
        for id in held.clone() {
            if !self.listening.get(&id).is_some_and(|one| one.native) {
                continue;
            }
            self.know_set_aside();
            let mut out = std::mem::take(&mut self.out);
            self.flushes += 1;
            let whole = self.fanout.flush(id, now, &mut out);
            for one in out.drain(..) {
                self.carry_out(one, conns, router, None, deliveries);
            }
            self.out = out;
            if !whole {
                self.mark(id, conns, router, deliveries);
            }
        }
    }

    /// Tells a listener how far the state must be that answers what follows; once for each seq.
    fn mark(
        &mut self,
        id: ListenerId,
        conns: &Conns,
        router: &mut Router,
        deliveries: &mut Vec<Delivery>,
    ) {
        let durable = self.fanout.durable();
        let marked = self
            .listening
            .get(&id)
            .is_some_and(|one| one.marked == durable);
        if !marked && let Some(mark) = self.fanout.mark_payload(id) {
            self.marks += 1;
            self.send(id, &[mark], conns, router, deliveries);
            if let Some(one) = self.listening.get_mut(&id) {
                one.marked = durable;
            }
        }
    }

    fn carry_out(
        &mut self,
        one: Out,
        conns: &Conns,
        router: &mut Router,
        reads: Option<&Reads<Found>>,
        deliveries: &mut Vec<Delivery>,
    ) {
        match one {
            Out::Batch {
                listener, payload, ..
            } => {
                let payloads: Vec<Bytes> = payload.iter().cloned().collect();
                self.send(listener, &payloads, conns, router, deliveries);
            }
            Out::Need(need) => {
                let listener = need.listener;
                let Some(peer) = self.listening.get(&listener).map(|one| one.peer) else {
                    return;
                };
                let set_aside = self.set_aside.clone();
                let asked = reads.is_some_and(|reads| {
                    reads.ask(Lane::Backlog, peer, move |reader| {
                        Found::Page(pages::read(reader, need, &set_aside))
                    })
                });
                if !asked {
                    tracing::warn!(
                        listener = listener.0,
                        "too many backlogs at once; this one is ended"
                    );
                    self.end(
                        listener,
                        errno::EAGAIN,
                        "too many listeners read the store; try again later",
                    );
                }
            }
            Out::End { listener, why } => self.end(listener, why.errnum(), &why.to_string()),
        }
    }

    /// Ends a stream with an error, as a response of this process.
    fn end(&mut self, id: ListenerId, errnum: u32, text: &str) {
        if let Some(request) = self.remove(id) {
            let response = request.error(errnum, Some(text));
            self.ended.push(response);
        }
    }

    /// One frame a payload, to whoever listens under `id`.
    fn send(
        &mut self,
        id: ListenerId,
        payloads: &[Bytes],
        conns: &Conns,
        router: &mut Router,
        deliveries: &mut Vec<Delivery>,
    ) {
        let Some(listening) = self.listening.get(&id) else {
            return;
        };
        let peer = listening.peer;
        let mut high = false;
        for payload in payloads {
            let mut response = listening.request.respond(None);
            response.cred = conns.own_cred();
            response.routes = Some(behind(&listening.request));
            let (prefix, suffix) = frames::around(response, payload.len());
            high |= conns.send_pieces(peer, [prefix, payload.clone(), suffix]);
        }
        if high {
            self.set_writable(peer, false);
            router.pause(peer, deliveries);
        }
    }

    /// Final answers of streams that ended by themselves.
    pub(crate) fn take_ended(&mut self) -> Vec<Response> {
        std::mem::take(&mut self.ended)
    }

    /// Counters for `stats-get`.
    pub(crate) fn stats(&self) -> Map<String, Value> {
        let counted = self.fanout.counters();
        let stats = json!({
            "listeners": counted.listeners, "events": counted.ring_entries, "groups": counted.groups,
            "ring_entries": counted.ring_entries, "ring_bytes": counted.ring_bytes, "commits": counted.commits,
            "batches_encoded": counted.batches_encoded, "batches": counted.batches_delivered,
            "entries_delivered": counted.entries_delivered, "progress": counted.progress_delivered,
            "store_pages": counted.store_pages, "flushes": self.flushes, "marks": self.marks,
        });
        match stats {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// The hops behind the connection's own.
fn behind(request: &Request) -> Routes {
    request
        .routes
        .as_ref()
        .and_then(|hops| hops.get(1..))
        .unwrap_or_default()
        .to_vec()
}
