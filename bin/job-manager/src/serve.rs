//! Requests that this process serves itself: who gets which, and what is refused because too much waits already.

use crate::asked::detached;
use crate::builtin::{self, Answer};
use crate::committer::UNDURABLE_BYTES_MAX;
use crate::conns::CLIENT_UNREAD_MAX;
use crate::deliver::newest_hop;
use crate::lookup;
use crate::reads::Lane;
use crate::shell::{Found, LOCAL, Shell};
use bytes::Bytes;
use manager::{Call, Input, Sender};
use router::PeerId;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::{Request, errno};

/// Look-ups that may wait for the disk, of all connections and of one.
pub(crate) const LOOKUPS_MAX: usize = 65_536;
pub(crate) const CONNECTION_LOOKUPS_MAX: usize = 16_384;
/// Bytes of requests of one connection that the manager was given and has not answered: what they changed is not on the disk.
pub(crate) const CONNECTION_ASKED_MAX: usize = 64 << 20;
const _: () =
    assert!(CONNECTION_LOOKUPS_MAX < LOOKUPS_MAX && CONNECTION_ASKED_MAX < UNDURABLE_BYTES_MAX);

#[derive(Deserialize)]
struct Cancel {
    matchtag: u32,
}

impl Shell {
    /// Serves a request whose service lives here. Its sender's hop is the newest of its routes.
    pub(crate) fn serve(&mut self, request: Request) {
        let hop = request.routes.as_ref().and_then(|hops| hops.first());
        let Some(from) = hop.and_then(|hop| self.conns.by_uuid(hop)) else {
            // The broker's word that a client is gone: known here already.
            return;
        };
        if request.expects_response() && self.conns.is_behind(from) {
            return self.answer(&request, Err((errno::EAGAIN, Some(unread_text()))));
        }
        if let Some(answer) = builtin::handle(&self.attrs, &request) {
            return self.answer(&request, answer);
        }
        if request.topic.as_str() == "log.append" {
            let line = request.payload.as_deref().unwrap_or_default();
            let now = self.clock.monotonic();
            // As the kernel has him: the owner may write any other name into a request.
            let cred = self.router.cred_of(from).unwrap_or(request.cred);
            let answer = self.client_log.append(from, cred.userid, line, now);
            return self.answer(&request, answer);
        }
        if let Some(answer) = self.serve_broker(from, &request) {
            return self.answer(&request, answer);
        }
        match request.topic.as_str() {
            "job-manager.events" | "job-manager.events-journal" => self.listen(from, &request),
            "job-manager.events-cancel" | "job-manager.events-journal-cancel" => {
                self.cancel(from, &request);
            }
            "job-manager.lookup" | "job-manager.getattr" => self.ask_store(from, request),
            "job-manager.disconnect" => self.disconnect(from, request),
            topic if is_of_resource(topic) && self.router.owner_of("resource") != Some(from) => {
                let text =
                    "only the connection that holds the service name resource tells of nodes";
                self.answer(&request, Err((errno::EPERM, Some(text.into()))));
            }
            topic if topic.starts_with("job-manager.") || topic.starts_with("job-ingest.") => {
                self.ask_manager(from, request);
            }
            _ => {
                let text = wire::unknown_method_text(&request.topic);
                self.answer(&request, Err((errno::ENOSYS, Some(text))));
            }
        }
    }

    fn ask_manager(&mut self, from: PeerId, mut request: Request) {
        let topic = request.topic.as_str();
        if self.committer.is_halted() && is_hello(topic) {
            let text = "the disk with the state directory is full: engines are not heard until there is room";
            return self.answer(&request, Err((errno::ENOSPC, Some(text.into()))));
        }
        if self.committer.is_behind() && !is_taken_always(topic) {
            let text = "too many changes wait for the disk: try again";
            return self.answer(&request, Err((errno::EAGAIN, Some(text.into()))));
        }
        if self.asked.of(from).bytes >= CONNECTION_ASKED_MAX && !is_taken_always(topic) {
            let text = format!(
                "{} MiB of changes of this connection wait for the disk: try again",
                CONNECTION_ASKED_MAX >> 20
            );
            return self.answer(&request, Err((errno::EAGAIN, Some(text))));
        }
        let bytes = request.payload.as_ref().map_or(0, Bytes::len);
        let token = self.token();
        let call = Call {
            token,
            sender: Sender(from.0),
            cred: request.cred,
            topic: request.topic.clone(),
            payload: request.payload.take(),
            streaming: request.is_streaming(),
            noresponse: !request.expects_response(),
        };
        if request.expects_response() {
            let may_wait_long = matches!(
                request.topic.method(),
                "wait" | "idle" | "drain" | "shutdown"
            );
            if may_wait_long {
                request = detached(&request);
            }
            self.asked.insert(token, from, request, bytes);
        }
        self.handle(Input::Request(call));
    }

    /// A look-up rests on all that was applied when it came: it waits until that is durable. With a full disk it tells what is on it.
    fn ask_store(&mut self, from: PeerId, request: Request) {
        if !request.expects_response() {
            return;
        }
        if self.no_space {
            return self.look_up(request);
        }
        if self.lookups.len() >= LOOKUPS_MAX
            || self.lookups.of(from).requests >= CONNECTION_LOOKUPS_MAX
        {
            return self.answer(&request, too_many_lookups());
        }
        let token = self.token();
        self.lookups.insert(token, from, request, 0);
        self.handle(Input::Read { token });
    }

    /// Has the store read for a look-up.
    pub(crate) fn look_up(&mut self, request: Request) {
        let durable = self.streams.durable();
        let hop = newest_hop(&request);
        let from = hop.and_then(|hop| self.conns.by_uuid(hop)).unwrap_or(LOCAL);
        let copy = request.clone();
        let set_aside = self.set_aside.clone();
        let asked = self.reads.ask(Lane::Lookup, from, move |reader| {
            let answer = lookup::answer(reader, &request, durable, &set_aside);
            Found::Answer(request, answer)
        });
        if !asked {
            self.answer(&copy, too_many_lookups());
        }
    }

    /// A stream begins with what is durable now: the journal knows nothing else, so there is nothing to wait for.
    fn listen(&mut self, from: PeerId, request: &Request) {
        if !request.expects_response() {
            return;
        }
        let writable = !self.router.is_paused(from);
        let now = self.clock.monotonic();
        if let Err(refused) = self.streams.add(from, request, now, writable) {
            self.answer(request, Err(refused));
        }
    }

    /// Ends a stream. A cancel that matches none is forgotten, and never answered: the matchtag may be the next stream's.
    fn cancel(&mut self, from: PeerId, request: &Request) {
        let Ok(Cancel { matchtag }) = builtin::payload(request) else {
            return;
        };
        let hops = request.routes.clone().unwrap_or_default();
        if let Some(stream) = self.streams.cancel(from, &hops, matchtag) {
            self.answer(&stream, Err((errno::ENODATA, None)));
        }
    }

    /// A client says that it leaves, or that someone it forwards for does: what that one has here goes.
    fn disconnect(&mut self, from: PeerId, request: Request) {
        let hops = request.routes.as_ref().and_then(|hops| hops.get(1..));
        let hops = hops.unwrap_or_default().to_vec();
        self.streams.remove_hops(from, &hops);
        if hops.is_empty() {
            self.ask_manager(from, request);
        } else {
            self.answer(&request, Ok(None));
        }
    }

    /// Adds what the shell counts to the manager's `stats-get`.
    pub(crate) fn with_shell_stats(&self, manager: &[u8]) -> Answer {
        let mut stats: Value = serde_json::from_slice(manager)
            .map_err(|error| (errno::EPROTO, Some(error.to_string())))?;
        let router = self.router.stats();
        let commit = self.committer.stats;
        if let Some(stats) = stats.as_object_mut() {
            let journal = stats.entry("journal").or_insert_with(|| json!({}));
            if let Some(journal) = journal.as_object_mut() {
                journal.extend(self.streams.stats());
            }
            stats.insert("pid".into(), std::process::id().into());
            stats.insert("no_space".into(), self.no_space.into());
            stats.insert("set_aside".into(), self.set_aside.len().into());
            stats.insert(
                "store".into(),
                json!({"commits": commit.commits, "syncs": commit.syncs, "entries": commit.entries,
                       "last_sync_micros": commit.last_sync_micros, "undurable": self.committer.undurable()}),
            );
            stats.insert(
                "router".into(),
                json!({"requests": router.requests, "responses": router.responses, "refused": router.refused,
                       "events_refused": self.events.refused, "events_dropped": self.events.dropped,
                       "orphaned": router.orphaned, "dropped": router.dropped + self.dropped, "clients": self.conns.len()}),
            );
            stats.insert(
                "waiting".into(),
                json!({"requests": self.asked.len(), "lookups": self.lookups.len(), "engines": self.engines.len(), "services": self.inboxes.len()}),
            );
        }
        builtin::answer(&stats)
    }
}

/// What an engine begins with.
fn is_hello(topic: &str) -> bool {
    matches!(
        topic,
        "job-manager.sched-hello" | "job-manager.sched-ready" | "job-manager.exec-hello"
    )
}

/// What only the service `resource` says.
fn is_of_resource(topic: &str) -> bool {
    matches!(
        topic,
        "job-manager.resource-announce" | "job-manager.resource-event"
    )
}

/// Engines come and go whatever the load, and what it is can always be asked.
fn is_taken_always(topic: &str) -> bool {
    matches!(
        topic,
        "job-manager.sched-hello"
            | "job-manager.sched-ready"
            | "job-manager.exec-hello"
            | "job-manager.resource-announce"
            | "job-manager.resource-event"
            | "job-manager.disconnect"
            | "job-manager.shutdown"
            | "job-manager.shutdown-cancel"
            | "job-manager.stats-get"
    )
}

/// Requests that change nothing and may have long answers.
pub(crate) fn is_read(topic: &str) -> bool {
    matches!(
        topic,
        "job-manager.list"
            | "job-manager.history.get"
            | "job-manager.queue-list"
            | "job-manager.queue-status"
            | "job-manager.resource-status"
            | "job-manager.alloc-query"
    )
}

/// Why a client that leaves too much unread is told nothing more.
pub(crate) fn unread_text() -> String {
    format!(
        "more than {} MiB of answers wait for this connection: read some first",
        CLIENT_UNREAD_MAX >> 20
    )
}

fn too_many_lookups() -> Answer {
    let text = "too many look-ups wait; try again later";
    Err((errno::EAGAIN, Some(text.into())))
}
