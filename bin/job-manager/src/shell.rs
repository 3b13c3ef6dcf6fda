//! The loop's state and what one turn does: messages in, `manager` and `fanout` asked, what they ask for performed.
//!
//! ```text
//!  sockets ─▶ Router ─▶ builtin | Manager | streams ─▶ actions ─▶ committer (disk) │ router ─▶ sockets
//!                         ▲                                          │ durable
//!                         └───────────── fan-out ◀───────────────────┘
//! ```
//! One thread owns all of it. It never waits for a reader, the disk or a service: what cannot go on is held by whoever has the cursor.

use crate::builtin::{self, Answer, Attrs};
use crate::committer::Committer;
use crate::conns::Conns;
use crate::lookup;
use crate::reads::{Lane, Reads};
use crate::streams::Streams;
use crate::{Config, clock::Clock};
use bytes::Bytes;
use job::Seq;
use manager::{Action, Call, Input, Manager, Report, Sender, Token};
use router::{Delivery, PeerId, PeerInfo, PeerKind, Router};
use serde_json::{Value, json};
use std::collections::HashMap;
use wire::{Event, Flags, Message, Request, Response, errno, nul_terminated};

/// The in-process peer: everything that this process serves itself.
pub(crate) const LOCAL: PeerId = PeerId(0);

/// Service names that this process holds.
pub(crate) const OWN_SERVICES: [&str; 9] = [
    "job-manager",
    "job-ingest",
    "broker",
    "service",
    "event",
    "attr",
    "config",
    "log",
    "heartbeat",
];

/// Reports of the engines taken as one input: one commit.
const REPORTS_MAX: usize = 256;

/// What a read found, for the loop.
pub(crate) enum Found {
    /// A page of a listener's backlog.
    Page(journal::Page),
    /// The answer to a look-up.
    Answer(Request, Answer),
    /// A start request with its `J`; or the job that has none.
    Start(Sender, Request),
    /// A job whose `J` cannot be had: it cannot be started.
    NoJ(job::JobId, String),
}

/// What waits for [`Action::Ready`].
enum Reading {
    Lookup(Request),
    Listen(PeerId, Request),
}

/// See the module.
pub(crate) struct Shell {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) attrs: Attrs,
    pub(crate) key: String,
    pub(crate) manager: Manager,
    pub(crate) router: Router,
    pub(crate) conns: Conns,
    pub(crate) streams: Streams,
    pub(crate) committer: Committer,
    pub(crate) reads: Reads<Found>,
    pub(crate) local_uuid: Bytes,
    asked: HashMap<Token, Request>,
    reading: HashMap<Token, Reading>,
    next_token: u64,
    /// Whose messages are being taken.
    current: PeerId,
    actions: Vec<Action>,
    deliveries: Vec<Delivery>,
    reports: Vec<Report>,
}

/// The parts a shell is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) attrs: Attrs,
    pub(crate) key: String,
    pub(crate) manager: Manager,
    pub(crate) router: Router,
    pub(crate) conns: Conns,
    pub(crate) streams: Streams,
    pub(crate) committer: Committer,
    pub(crate) reads: Reads<Found>,
    pub(crate) local_uuid: Bytes,
}

impl Shell {
    pub(crate) fn new(parts: Parts) -> Shell {
        Shell {
            config: parts.config,
            clock: parts.clock,
            attrs: parts.attrs,
            key: parts.key,
            manager: parts.manager,
            router: parts.router,
            conns: parts.conns,
            streams: parts.streams,
            committer: parts.committer,
            reads: parts.reads,
            local_uuid: parts.local_uuid,
            asked: HashMap::new(),
            reading: HashMap::new(),
            next_token: 0,
            current: LOCAL,
            actions: Vec::new(),
            deliveries: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// A client was let in.
    pub(crate) fn take_opened(
        &mut self,
        peer: PeerId,
        handle: rpc::ConnHandle,
        cred: wire::Cred,
        uuid: Bytes,
    ) {
        self.router.add_peer(PeerInfo {
            id: peer,
            uuid: uuid.clone(),
            cred,
            kind: PeerKind::Connection,
        });
        self.conns.add(peer, handle, cred, uuid);
    }

    /// When something is due without news, if ever.
    pub(crate) fn next_deadline(&self) -> Option<std::time::Instant> {
        self.streams
            .next_deadline()
            .map(|at| self.clock.instant(at))
    }

    /// `heartbeat.pulse`, for those who subscribed.
    pub(crate) fn heartbeat(&mut self) {
        let event = Event {
            topic: "heartbeat.pulse".into(),
            payload: None,
            routes: None,
            cred: self.conns.own_cred(),
            flags: Flags::NONE,
            sequence: 0,
        };
        self.send_event(Some(LOCAL), event);
        self.handle(Input::Tick);
        self.deliver();
    }

    /// Messages of one connection, in order.
    pub(crate) fn take_messages(&mut self, from: PeerId, messages: Vec<Message>) {
        self.current = from;
        for message in messages {
            self.router.handle(from, message, &mut self.deliveries);
            self.deliver();
        }
        self.take_reports();
    }

    /// A connection is gone.
    pub(crate) fn take_closed(&mut self, peer: PeerId) {
        if !self.conns.remove(peer) {
            return;
        }
        self.streams.remove_peer(peer);
        let departure = self.router.remove_peer(peer, &mut self.deliveries);
        for service in departure.services {
            tracing::info!(service = %service, "service gone");
        }
        self.handle(Input::Disconnect {
            sender: Sender(peer.0),
        });
        self.deliver();
    }

    /// A client's queue fell below the low-water mark.
    pub(crate) fn take_drained(&mut self, peer: PeerId) {
        self.streams.set_writable(peer, true);
        self.router.resume(peer, &mut self.deliveries);
        self.deliver();
    }

    /// The store says that all up to `seq` is on disk.
    pub(crate) fn take_durable(&mut self, seq: Seq, micros: u64) {
        let entries = self.committer.durable(seq, micros);
        if !entries.is_empty() {
            self.streams.push(&entries);
        }
        self.handle(Input::Durable(seq));
    }

    /// Room in the store, or none.
    pub(crate) fn take_no_space(&mut self, full: bool) {
        self.handle(Input::NoSpace(full));
    }

    /// What a read found.
    pub(crate) fn take_found(&mut self, found: Found) {
        match found {
            Found::Page(page) => {
                let now = self.clock.monotonic();
                self.streams.page(
                    page,
                    now,
                    &self.conns,
                    &mut self.router,
                    &self.reads,
                    &mut self.deliveries,
                );
            }
            Found::Answer(request, answer) => self.answer(&request, answer),
            Found::Start(to, request) => {
                let message = Message::Request(request);
                self.deliveries.push(Delivery {
                    to: PeerId(to.0),
                    message,
                });
            }
            Found::NoJ(id, text) => tracing::error!(job = %id, "cannot be started: {text}"),
        }
        self.deliver();
    }

    /// The end of a turn: what is due goes out, what was decided goes to the writer.
    /// # Errors
    /// The writer has ended.
    pub(crate) fn end_turn(&mut self) -> anyhow::Result<bool> {
        self.committer.hand_over()?;
        let now = self.clock.monotonic();
        let more = self.streams.poll(
            now,
            &self.conns,
            &mut self.router,
            &self.reads,
            &mut self.deliveries,
        );
        for response in self.streams.take_ended() {
            self.router
                .handle(LOCAL, Message::Response(response), &mut self.deliveries);
        }
        self.deliver();
        Ok(more)
    }

    /// Asks the manager, then performs what it wants.
    pub(crate) fn handle(&mut self, input: Input) {
        let mut actions = std::mem::take(&mut self.actions);
        self.manager.handle(self.clock.wall(), input, &mut actions);
        for action in actions.drain(..) {
            self.perform(action);
        }
        self.actions = actions;
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Commit(commit) => self.committer.gather(commit),
            Action::Respond {
                token,
                result,
                last,
            } => self.respond(token, result, last),
            Action::Request {
                to,
                topic,
                payload,
                noresponse,
            } => {
                let request = self.engine_request(topic, &payload, noresponse);
                self.deliveries.push(Delivery {
                    to: PeerId(to.0),
                    message: Message::Request(request),
                });
            }
            Action::Start {
                to,
                topic,
                id,
                payload,
            } => self.start(to, topic, id, payload),
            Action::Publish {
                topic,
                payload,
                private_to,
            } => self.publish(topic, &payload, private_to),
            Action::Ready(token) => self.ready(token),
            Action::Close { sender, why } => {
                tracing::warn!(peer = sender.0, why, "closing a connection");
                self.conns.close(PeerId(sender.0));
            }
        }
    }

    fn respond(
        &mut self,
        token: Token,
        result: Result<Option<Bytes>, manager::Refusal>,
        last: bool,
    ) {
        let found = if last {
            self.asked.remove(&token)
        } else {
            self.asked.get(&token).cloned()
        };
        let Some(request) = found else { return };
        let answer = match result {
            Ok(Some(json)) if request.topic.as_str() == "job-manager.stats-get" => {
                self.with_shell_stats(&json)
            }
            Ok(json) => Ok(json),
            Err(refusal) => Err((refusal.errnum, refusal.text.map(|text| text.into_owned()))),
        };
        self.answer(&request, answer);
    }

    /// Sends an answer of this process to whoever asked.
    fn answer(&mut self, request: &Request, answer: Answer) {
        if !request.expects_response() {
            return;
        }
        let response = match answer {
            Ok(json) => request.respond(json.map(|json| nul_terminated(&json))),
            Err((errnum, text)) => request.error(errnum, text.as_deref()),
        };
        self.router
            .handle(LOCAL, Message::Response(response), &mut self.deliveries);
    }

    /// A request of the manager to an engine: matchtag 0, answered to this process.
    fn engine_request(
        &self,
        topic: impl Into<wire::Topic>,
        json: &[u8],
        noresponse: bool,
    ) -> Request {
        let mut request = Request::new(topic, Some(nul_terminated(json)), wire::MATCHTAG_NONE);
        if noresponse {
            request.flags = Flags::NORESPONSE;
        }
        request.cred = self.conns.own_cred();
        request.routes = Some(vec![self.local_uuid.clone()]);
        request
    }

    /// Reads the job's `J` off the loop, then sends the start request.
    fn start(&mut self, to: Sender, topic: wire::Topic, id: job::JobId, payload: Bytes) {
        let hollow = self.engine_request(topic, b"", false);
        let asked = self
            .reads
            .ask(Lane::Lookup, move |reader| match lookup::j(reader, id) {
                Ok(j) => {
                    let json = manager::with_j(&payload, &j);
                    Found::Start(
                        to,
                        Request {
                            payload: Some(nul_terminated(&json)),
                            ..hollow
                        },
                    )
                }
                Err(text) => Found::NoJ(id, text),
            });
        if !asked {
            tracing::error!(job = %id, "too many reads wait; closing the exec service, it will ask again");
            self.conns.close(PeerId(to.0));
        }
    }

    fn publish(&mut self, topic: wire::Topic, json: &[u8], private_to: Option<u32>) {
        let mut cred = self.conns.own_cred();
        let mut flags = Flags::NONE;
        if let Some(userid) = private_to {
            cred.userid = userid;
            flags = Flags::PRIVATE;
        }
        let event = Event {
            topic,
            payload: Some(nul_terminated(json)),
            routes: None,
            cred,
            flags,
            sequence: 0,
        };
        self.send_event(Some(LOCAL), event);
    }

    /// Numbers an event and sends it to whoever subscribed; encoded once.
    pub(crate) fn send_event(&mut self, from: Option<PeerId>, event: Event) -> u32 {
        let publication = self.router.publish(from, event);
        let sequence = publication.event.sequence;
        if !publication.to.is_empty() {
            let frame = wire::to_frame(&Message::Event(publication.event));
            for peer in publication.to {
                self.conns.send(peer, frame.clone());
            }
        }
        sequence
    }

    /// Carries out deliveries until none is left.
    pub(crate) fn deliver(&mut self) {
        while !self.deliveries.is_empty() {
            let batch = std::mem::take(&mut self.deliveries);
            for delivery in batch {
                if delivery.to == LOCAL {
                    self.local(delivery.message);
                } else {
                    self.send(delivery.to, delivery.message);
                }
            }
        }
    }

    fn send(&mut self, to: PeerId, message: Message) {
        if let Message::Request(request) = &message {
            if self.conns.is_full(to) {
                let text = "the service does not read its requests; try again later";
                self.router
                    .refuse(to, request, errno::EAGAIN, text, &mut self.deliveries);
                return;
            }
            // Read your writes: the service hears of all that is durable before it hears the question.
            let now = self.clock.monotonic();
            self.streams.bring_up_to_date(
                to,
                now,
                &self.conns,
                &mut self.router,
                &mut self.deliveries,
            );
        }
        if self.conns.send(to, wire::to_frame(&message)) {
            self.streams.set_writable(to, false);
            self.router.pause(to, &mut self.deliveries);
        }
    }

    /// A message for this process itself.
    fn local(&mut self, message: Message) {
        match message {
            Message::Request(request) => self.serve(request),
            Message::Response(response) => self.report(response),
            Message::Event(_) | Message::Control(_) => {}
        }
    }

    /// An engine's answer: gathered, so that what came in one read is one commit.
    fn report(&mut self, response: Response) {
        self.reports.push(Report {
            from: Sender(self.current.0),
            topic: response.topic,
            payload: response.payload,
            errnum: response.errnum,
        });
        if self.reports.len() >= REPORTS_MAX {
            self.take_reports();
        }
    }

    fn take_reports(&mut self) {
        if !self.reports.is_empty() {
            let reports = std::mem::take(&mut self.reports);
            self.handle(Input::ServiceResponses(reports));
            self.deliver();
        }
    }

    /// Serves a request whose service lives here. Its sender's hop is the newest of its routes.
    fn serve(&mut self, request: Request) {
        // Requests are handled in the order they came, so reports before this one first.
        self.take_reports();
        let Some(from) = request
            .routes
            .as_ref()
            .and_then(|hops| hops.first())
            .and_then(|hop| self.conns.by_uuid(hop))
        else {
            return;
        };
        if let Some(answer) = builtin::handle(&self.attrs, &request) {
            return self.answer(&request, answer);
        }
        match request.topic.as_str() {
            "service.add" | "service.remove" | "event.subscribe" | "event.unsubscribe"
            | "event.publish" => {
                let answer = self.serve_broker(from, &request);
                self.answer(&request, answer);
            }
            "job-manager.events-cancel" | "job-manager.events-journal-cancel" => {
                self.cancel(from, &request)
            }
            "job-manager.events" | "job-manager.events-journal" => {
                let token = self.token();
                self.reading.insert(token, Reading::Listen(from, request));
                self.handle(Input::Read { token });
            }
            "job-manager.lookup" | "job-manager.getattr" => {
                let token = self.token();
                self.reading.insert(token, Reading::Lookup(request));
                self.handle(Input::Read { token });
            }
            // What they would tell is known here already: a closed connection, a full output queue.
            topic
                if [".disconnect", ".pause", ".resume"]
                    .iter()
                    .any(|end| topic.ends_with(end))
                    || topic == "disconnect" => {}
            topic if topic.starts_with("job-manager.") || topic.starts_with("job-ingest.") => {
                self.ask_manager(from, request)
            }
            topic => {
                let text = format!("Unknown service method '{topic}'");
                self.answer(&request, Err((errno::ENOSYS, Some(text))));
            }
        }
    }

    fn ask_manager(&mut self, from: PeerId, mut request: Request) {
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
            self.asked.insert(token, request);
        }
        self.handle(Input::Request(call));
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// What was applied when the read was asked for is durable: do it.
    fn ready(&mut self, token: Token) {
        match self.reading.remove(&token) {
            None => {}
            Some(Reading::Lookup(request)) => {
                let copy = request.clone();
                let asked = self.reads.ask(Lane::Lookup, move |reader| {
                    let answer = lookup::answer(reader, &request);
                    Found::Answer(request, answer)
                });
                if !asked {
                    self.answer(
                        &copy,
                        Err((
                            errno::EAGAIN,
                            Some("too many look-ups wait; try again later".into()),
                        )),
                    );
                }
            }
            Some(Reading::Listen(from, request)) => {
                // Gone meanwhile: nobody to serve.
                if self.conns.cred(from).is_some()
                    && let Err(refusal) = self.streams.add(from, &request, self.clock.monotonic())
                {
                    self.answer(&request, Err(refusal));
                }
            }
        }
    }

    fn cancel(&mut self, from: PeerId, request: &Request) {
        let Ok(cancel) = builtin::payload::<Value>(request) else {
            return;
        };
        let Some(matchtag) = cancel.get("matchtag").and_then(Value::as_u64) else {
            return;
        };
        let hops = request.routes.clone().unwrap_or_default();
        if let Some(stream) = self.streams.cancel(from, &hops, matchtag) {
            self.answer(&stream, Err((errno::ENODATA, None)));
        }
    }

    fn serve_broker(&mut self, from: PeerId, request: &Request) -> Answer {
        let body: Value = builtin::payload(request)?;
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        match request.topic.as_str() {
            "service.add" => {
                let name = text("service")
                    .ok_or((errno::EPROTO, Some("service: expected a string".into())))?;
                let key_ok = text("key").is_some_and(|key| same(key, &self.key));
                self.router
                    .add_service(from, request.cred, name, key_ok)
                    .map_err(|error| (error.errnum(), Some(error.to_string())))?;
                tracing::info!(service = name, peer = from.0, "service added");
                Ok(None)
            }
            "service.remove" => {
                let name = text("service")
                    .ok_or((errno::EPROTO, Some("service: expected a string".into())))?;
                self.router
                    .remove_service(from, name)
                    .map_err(|error| (error.errnum(), Some(error.to_string())))?;
                Ok(None)
            }
            "event.subscribe" => {
                let topic = text("topic").ok_or((errno::EPROTO, None))?;
                self.router
                    .subscribe(from, topic)
                    .map_err(|error| (error.errnum(), Some(error.to_string())))?;
                Ok(None)
            }
            "event.unsubscribe" => {
                let topic = text("topic").ok_or((errno::EPROTO, None))?;
                self.router
                    .unsubscribe(from, topic)
                    .map_err(|error| (error.errnum(), Some(error.to_string())))?;
                Ok(None)
            }
            _ => {
                let topic = text("topic").ok_or((errno::EPROTO, None))?;
                let flags = body.get("flags").and_then(Value::as_u64).unwrap_or(0);
                let payload = text("payload")
                    .map(lookup::from_base64)
                    .transpose()
                    .map_err(|error| (errno::EPROTO, Some(error)))?;
                let private = match flags {
                    0 => Flags::NONE,
                    0x20 => Flags::PRIVATE,
                    _ => return Err((errno::EPROTO, Some("flags: expected 0 or 32".into()))),
                };
                let topic = wire::Topic::parse(Bytes::copy_from_slice(topic.as_bytes()))
                    .map_err(|_| (errno::EPROTO, None))?;
                let event = Event {
                    topic,
                    payload,
                    routes: None,
                    cred: request.cred,
                    flags: private,
                    sequence: 0,
                };
                let seq = self.send_event(Some(from), event);
                builtin::answer(&json!({"seq": seq}))
            }
        }
    }

    /// Adds what the shell counts to the manager's `stats-get`.
    fn with_shell_stats(&self, manager: &[u8]) -> Answer {
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
            stats.insert(
                "store".into(),
                json!({"commits": commit.commits, "syncs": commit.syncs, "entries": commit.entries,
                       "last_sync_micros": commit.last_sync_micros}),
            );
            stats.insert(
                "router".into(),
                json!({"requests": router.requests, "responses": router.responses, "refused": router.refused,
                       "orphaned": router.orphaned, "dropped": router.dropped, "clients": self.conns.len()}),
            );
        }
        builtin::answer(&stats)
    }
}

/// Compares without telling by its time how much of it is right.
fn same(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left
            .bytes()
            .zip(right.bytes())
            .fold(0, |different, (a, b)| different | (a ^ b))
            == 0
}
