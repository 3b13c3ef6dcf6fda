//! Journal listeners: requests become cursors in the fan-out, its batches become frames, its wishes become reads of the store.
//!
//! A batch's bytes are shared by all who get it; only the ends of the frame around it are a listener's own (`frames.rs`). A listener whose
//! output queue is above high water is told to the fan-out, and costs nothing until it has drained.

use crate::Config;
use crate::builtin;
use crate::conns::Conns;
use crate::frames;
use crate::pages;
use crate::reads::{Lane, Reads};
use crate::shell::Found;
use bytes::Bytes;
use job::{Entry, JobId, Seq, Timestamp};
use journal::{Fanout, Filter, Format, Limits, ListenerId, Out, Rights, Spec, Start};
use router::{Delivery, PeerId, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use wire::{Cred, Request, Response, Routes, errno};

/// Names in `allow` or `deny`, and ids in `ids`, at most.
const NAMES_MAX: usize = 1024;
const IDS_MAX: usize = 65_536;

/// Who listens, and how he is answered.
struct Listening {
    peer: PeerId,
    request: Request,
    native: bool,
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
    /// Streams that ended with an error: to be answered.
    ended: Vec<Response>,
}

/// `job-manager.events`
#[derive(Deserialize)]
struct Native {
    allow: Option<Vec<String>>,
    deny: Option<Vec<String>>,
    from: Option<String>,
    after: Option<u64>,
    epoch: Option<String>,
    ids: Option<Vec<JobId>>,
}

impl Streams {
    pub(crate) fn new(config: &Config, epoch: &str, newest: Seq, floor: Seq) -> Streams {
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
            ended: Vec::new(),
        }
    }

    /// Begins a stream for `request`.
    /// # Errors
    /// Errno and text: not streaming, no rights, a payload that is not understood, a cursor that cannot be continued.
    pub(crate) fn add(
        &mut self,
        peer: PeerId,
        request: &Request,
        now: Timestamp,
    ) -> Result<(), (u32, Option<String>)> {
        let native = request.topic.method() == "events";
        if !request.is_streaming() {
            return Err((
                errno::EPROTO,
                Some("job-manager.events requires streaming RPC flag".into()),
            ));
        }
        let spec = if native {
            native_spec(request)?
        } else {
            flux_spec(request)?
        };
        let hops: Routes = behind(request);
        let key = (peer, hops, request.matchtag);
        if self.by_key.contains_key(&key) {
            return Err((
                errno::EINVAL,
                Some(format!(
                    "matchtag {} is in use by another stream",
                    request.matchtag
                )),
            ));
        }
        self.next_id += 1;
        let id = ListenerId(self.next_id);
        self.fanout
            .add(id, spec, now)
            .map_err(|refused| (refused.errnum(), Some(refused.to_string())))?;
        let request = Request {
            payload: None,
            ..request.clone()
        };
        self.listening.insert(
            id,
            Listening {
                peer,
                request,
                native,
            },
        );
        self.by_key.insert(key, id);
        self.by_peer.entry(peer).or_default().insert(id);
        Ok(())
    }

    /// Ends the stream of that matchtag, if there is one; its request is to be answered.
    pub(crate) fn cancel(&mut self, peer: PeerId, hops: &Routes, matchtag: u64) -> Option<Request> {
        let key = (
            peer,
            hops.get(1..).unwrap_or_default().to_vec(),
            u32::try_from(matchtag).ok()?,
        );
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
        for id in self.by_peer.remove(&peer).unwrap_or_default() {
            self.fanout.remove(id);
            if let Some(gone) = self.listening.remove(&id) {
                self.by_key
                    .remove(&(gone.peer, behind(&gone.request), gone.request.matchtag));
            }
        }
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
        let native: Vec<ListenerId> = held
            .iter()
            .copied()
            .filter(|id| self.listening.get(id).is_some_and(|one| one.native))
            .collect();
        for id in native {
            let mut out = std::mem::take(&mut self.out);
            self.flushes += 1;
            let whole = self.fanout.flush(id, now, &mut out);
            for one in out.drain(..) {
                self.carry_out(one, conns, router, None, deliveries);
            }
            self.out = out;
            if !whole && let Some(mark) = self.fanout.mark_payload(id) {
                self.marks += 1;
                self.send(id, &[mark], conns, router, deliveries);
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
                let asked = reads.is_some_and(|reads| {
                    reads.ask(Lane::Backlog, move |reader| {
                        Found::Page(pages::read(reader, need))
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
            "listeners": counted.listeners, "groups": counted.groups,
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

fn rights(cred: Cred) -> Rights {
    if cred.is_owner() {
        Rights::Owner
    } else {
        Rights::User(cred.userid)
    }
}

fn native_spec(request: &Request) -> Result<Spec, (u32, Option<String>)> {
    let ask: Native = builtin::payload(request)?;
    for (what, many, most) in [
        ("allow", ask.allow.as_ref().map_or(0, Vec::len), NAMES_MAX),
        ("deny", ask.deny.as_ref().map_or(0, Vec::len), NAMES_MAX),
        ("ids", ask.ids.as_ref().map_or(0, Vec::len), IDS_MAX),
    ] {
        if many > most {
            return Err((
                errno::EINVAL,
                Some(format!("{what}: expected {most} at most, got {many}")),
            ));
        }
    }
    let start = match (ask.from.as_deref(), ask.after) {
        (None, Some(after)) => Start::After {
            seq: Seq(after),
            epoch: ask.epoch,
        },
        (Some(_), Some(_)) => {
            return Err((
                errno::EINVAL,
                Some("from and after exclude each other".into()),
            ));
        }
        (None | Some("now"), None) => Start::Now,
        (Some("active"), None) => Start::Active,
        (Some("all"), None) => Start::All,
        (Some(other), None) => {
            return Err((
                errno::EINVAL,
                Some(format!(
                    "from: expected \"now\", \"active\" or \"all\", got {other:?}"
                )),
            ));
        }
    };
    let mut filter = Filter::all(rights(request.cred));
    if let Some(names) = ask.allow {
        filter = filter.allow(names);
    }
    if let Some(names) = ask.deny {
        filter = filter.deny(names);
    }
    if let Some(ids) = ask.ids {
        filter = filter.of_jobs(ids);
    }
    Ok(Spec {
        format: Format::Native,
        filter,
        start,
    })
}

/// `{full?b, allow?o, deny?o}`; the keys of allow and deny are the names.
fn flux_spec(request: &Request) -> Result<Spec, (u32, Option<String>)> {
    if !request.cred.is_owner() {
        return Err((
            errno::EPERM,
            Some("Request requires owner credentials".into()),
        ));
    }
    let ask: Map<String, Value> = builtin::payload(request)?;
    let names = |key: &str| -> Result<Option<Vec<&str>>, (u32, Option<String>)> {
        match ask.get(key) {
            None => Ok(None),
            Some(Value::Object(names)) if names.len() <= NAMES_MAX => {
                Ok(Some(names.keys().map(String::as_str).collect()))
            }
            Some(_) => Err((
                errno::EPROTO,
                Some(format!("job-manager.events {key} should be an object")),
            )),
        }
    };
    let full = match ask.get("full") {
        None => false,
        Some(Value::Bool(full)) => *full,
        Some(_) => return Err((errno::EPROTO, None)),
    };
    let mut filter = Filter::all(Rights::Owner);
    if let Some(names) = names("allow")? {
        filter = filter.allow(names);
    }
    if let Some(names) = names("deny")? {
        filter = filter.deny(names);
    }
    Ok(Spec {
        format: Format::Flux,
        filter,
        start: if full { Start::All } else { Start::Active },
    })
}
