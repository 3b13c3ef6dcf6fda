//! The loop's state and what one turn does: messages in, `manager` and `fanout` asked, what they ask for performed.
//!
//! ```text
//!  sockets ─▶ Router ─▶ builtin | Manager | streams ─▶ actions ─▶ committer (disk) │ router, engines ─▶ sockets
//!                         ▲                                          │ durable
//!                         └───────────── fan-out ◀───────────────────┘
//! ```
//! One thread owns all of it. It never waits for a reader, the disk or a service: what cannot go on is held by whoever has the cursor.
//!
//! Order: what the manager decides goes out in the order it was decided (`deliveries`, with `starts` between them), after the commit it
//! rests on; reports of engines are gathered, but a request after them is handled after them.

use crate::asked::Asked;
use crate::builtin::{Answer, Attrs};
use crate::client_log::ClientLog;
use crate::committer::Committer;
use crate::conns::Conns;
use crate::deliver::{newest_hop, too_long};
use crate::engines::{Engines, Start};
use crate::events::Events;
use crate::forward::Inboxes;
use crate::keys::Keys;
use crate::reads::Reads;
use crate::serve::{is_read, unread_text};
use crate::set_aside::SetAside;
use crate::streams::Streams;
use crate::turns::Share;
use crate::{Config, clock::Clock};
use bytes::Bytes;
use job::Seq;
use manager::{Action, Input, Manager, Report, Sender, Token};
use router::{Delivery, PeerId, PeerInfo, PeerKind, Router};
use std::collections::VecDeque;
use wire::{Flags, Message, Request, Response, errno, nul_terminated};

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
    /// The jobs of keys, for the manager.
    Keys(Vec<(manager::Key, manager::KeyFound)>),
    /// A job's `J`, for the manager.
    J(job::JobId, Result<Bytes, String>),
    /// Jobs that ended, for the manager.
    Ended(Result<manager::Found, String>),
    /// The files of purged jobs were removed, but for those of `left`.
    Swept { batch: Seq, left: Vec<job::JobId> },
    /// A start request with its `J`, or what became of it, for the place it has in the engine's queue.
    Start {
        to: PeerId,
        number: u64,
        request: Result<Request, NotStarted>,
    },
}

/// A job whose start request cannot be made.
pub(crate) struct NotStarted {
    pub(crate) id: job::JobId,
    pub(crate) topic: wire::Topic,
    pub(crate) why: String,
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
    pub(crate) engines: Engines,
    /// Requests of clients on their way to services.
    pub(crate) inboxes: Inboxes,
    pub(crate) reads: Reads<Found>,
    /// Jobs that cannot be used.
    pub(crate) set_aside: SetAside,
    /// What of them the manager knows.
    set_aside_version: usize,
    pub(crate) local_uuid: Bytes,
    /// Requests that the manager answers.
    pub(crate) asked: Asked,
    /// Look-ups that wait until what was applied before them is durable.
    pub(crate) lookups: Asked,
    /// What clients may still say in the log.
    pub(crate) client_log: ClientLog,
    /// What they publish, and who does not read it.
    pub(crate) events: Events,
    /// The disk is full.
    pub(crate) no_space: bool,
    /// Whoever asked for it was told that the instance ends.
    pub(crate) shut_down: bool,
    /// Requests without an answer that were dropped because their service does not read.
    pub(crate) dropped: u64,
    next_token: u64,
    /// Whose messages are being taken.
    current: PeerId,
    actions: Vec<Action>,
    /// Keys of submissions that are looked for.
    pub(crate) keys: Keys,
    /// What the manager is to be told once its actions are performed.
    pub(crate) late: VecDeque<Input>,
    pub(crate) deliveries: Vec<Delivery>,
    /// Starts, each with how many deliveries stand before it.
    pub(crate) starts: Vec<(usize, PeerId, Start)>,
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
    pub(crate) set_aside: SetAside,
    pub(crate) local_uuid: Bytes,
}

impl Shell {
    pub(crate) fn new(mut parts: Parts) -> Shell {
        parts.streams.set_resources(parts.manager.nodes().clone());
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
            engines: Engines::default(),
            inboxes: Inboxes::default(),
            reads: parts.reads,
            set_aside: parts.set_aside,
            set_aside_version: 0,
            local_uuid: parts.local_uuid,
            asked: Asked::default(),
            lookups: Asked::default(),
            client_log: ClientLog::default(),
            events: Events::default(),
            no_space: false,
            shut_down: false,
            dropped: 0,
            next_token: 0,
            current: LOCAL,
            actions: Vec::new(),
            keys: Keys::default(),
            late: VecDeque::new(),
            deliveries: Vec::new(),
            starts: Vec::new(),
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
        self.conns.add(peer, handle, uuid);
    }

    /// When something is due without news, if ever.
    pub(crate) fn next_deadline(&self) -> Option<std::time::Instant> {
        let services = self.inboxes.next_deadline();
        let next = self.streams.next_deadline().into_iter().chain(services);
        next.min().map(|at| self.clock.instant(at))
    }

    /// Time passed.
    pub(crate) fn heartbeat(&mut self) {
        self.pulse();
        self.client_log.tell(self.clock.monotonic());
        self.handle(Input::Tick);
        self.deliver();
    }

    /// Messages of one connection, in order, until its share is used up.
    pub(crate) fn take_messages(
        &mut self,
        from: PeerId,
        messages: &mut impl Iterator<Item = Message>,
        share: &mut Share,
    ) {
        self.current = from;
        while share.one_more()
            && let Some(message) = messages.next()
        {
            match message {
                Message::Request(request) if too_long(&request) => self.refuse_long(from, &request),
                Message::Response(response) if !self.learn(from, &response) => {}
                Message::Event(event) => self.take_event(from, event),
                message => self.router.handle(from, message, &mut self.deliveries),
            }
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
        self.engines.forget(peer);
        self.inboxes.forget(peer);
        self.client_log.forget(peer);
        self.events.forget(peer);
        self.asked.forget(peer);
        self.lookups.forget(peer);
        self.reads.forget(peer);
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
        self.tell_overrun(peer);
        self.streams.set_writable(peer, true);
        self.router.resume(peer, &mut self.deliveries);
        self.deliver();
        self.pump(peer);
        self.release(peer);
        self.deliver();
    }

    /// The store says that all up to `seq` is on disk. The journal has it before any answer rests on it.
    pub(crate) fn take_durable(&mut self, seq: Seq, micros: u64) {
        let entries = self.committer.durable(seq, micros);
        if !entries.is_empty() {
            self.streams.push(&entries);
        }
        if let Some(floor) = self.committer.floor(seq) {
            self.streams.set_floor(floor);
        }
        self.handle(Input::Durable(seq));
    }

    /// Room in the store, or none. Without room, what was applied may never be durable; look-ups tell what is on disk, and go on.
    pub(crate) fn take_no_space(&mut self, full: bool) {
        self.no_space = full;
        self.handle(Input::NoSpace(full));
        if full {
            for request in self.lookups.take_all() {
                self.look_up(request);
            }
        }
    }

    /// What is not durable will never be: whoever waits for it is refused. This process ends with it, and so does what it had applied.
    pub(crate) fn take_out_of_room(&mut self) {
        self.no_space = true;
        for request in self.asked.take_all() {
            if matches!(
                request.topic.method(),
                "wait" | "idle" | "drain" | "shutdown"
            ) {
                // Its connection ends, and it may ask again.
                continue;
            }
            let text = "the disk with the state directory is full, and this did not fit: nothing of it is stored; free some space, then try again";
            self.answer(&request, Err((errno::ENOSPC, Some(text.into()))));
        }
        for request in self.lookups.take_all() {
            self.look_up(request);
        }
        self.deliver();
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
                self.say_ended();
            }
            Found::Answer(request, answer) => self.answer_read(&request, answer),
            Found::Keys(found) => self.take_keys(found),
            Found::J(id, j) => self.handle(Input::JRead { id, j }),
            Found::Ended(found) => self.handle(Input::Found(found)),
            Found::Swept { batch, left } => self.handle(Input::Swept { batch, left }),
            Found::Start {
                to,
                number,
                request,
            } => self.take_start(to, number, request),
        }
        self.deliver();
    }

    /// The end of a turn: what is due goes out, what was decided goes to the writer. True if there is more to do at once.
    pub(crate) fn end_turn(&mut self) -> bool {
        self.find_keys();
        self.committer.hand_over();
        let now = self.clock.monotonic();
        self.feed_silent(now);
        let more = self.streams.poll(
            now,
            &self.conns,
            &mut self.router,
            &self.reads,
            &mut self.deliveries,
        );
        self.say_ended();
        self.deliver();
        more
    }

    /// Tells the ends of streams. Before anything else is forwarded: who answers by what its stream tells must know first that it ended.
    fn say_ended(&mut self) {
        for response in self.streams.take_ended() {
            self.router
                .handle(LOCAL, Message::Response(response), &mut self.deliveries);
        }
    }

    /// Ends every stream of the journal, as a cancel does.
    pub(crate) fn end_streams(&mut self) {
        for request in self.streams.remove_all() {
            self.answer(&request, Err((errno::ENODATA, None)));
        }
        self.deliver();
    }

    /// Asks the manager, then performs what it wants.
    pub(crate) fn handle(&mut self, input: Input) {
        let mut actions = std::mem::take(&mut self.actions);
        let version = self.set_aside.version();
        if self.set_aside_version != version {
            self.set_aside_version = version;
            self.manager.unreadable(self.set_aside.unreadable());
        }
        self.manager.handle(self.clock.wall(), input, &mut actions);
        for action in actions.drain(..) {
            self.perform(action);
        }
        self.actions = actions;
        if let Some(input) = self.late.pop_front() {
            self.handle(input);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Commit(commit) => {
                #[cfg(feature = "sabotage")]
                if journal::sabotage::is(journal::sabotage::Sabotage::FanOutBeforeCommit) {
                    self.streams.push(&commit.entries);
                }
                self.committer.gather(commit);
            }
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
                let request = self.engine_request(topic, nul_terminated(&payload), noresponse);
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
            } => {
                let start = Start { id, topic, payload };
                self.starts
                    .push((self.deliveries.len(), PeerId(to.0), start));
            }
            Action::Publish {
                topic,
                payload,
                private_to,
            } => self.publish(topic, &payload, private_to),
            Action::Ready(token) => {
                if let Some(request) = self.lookups.take(token) {
                    self.look_up(request);
                }
            }
            Action::ShutDown => self.shut_down = true,
            Action::FindKey(key) => self.keys.want(key),
            Action::ReadJ(id) => self.read_j(id),
            Action::Find(find) => self.find_ended(find),
            Action::Sweep { batch, jobs } => self.sweep(batch, jobs),
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
            self.asked.take(token)
        } else {
            self.asked.get(token).cloned()
        };
        let Some(request) = found else { return };
        let answer = match result {
            Ok(Some(json)) if request.topic.as_str() == "job-manager.stats-get" => {
                self.with_shell_stats(&json)
            }
            Ok(json) => Ok(json),
            Err(refusal) => Err((refusal.errnum, refusal.text.map(|text| text.into_owned()))),
        };
        if is_read(request.topic.as_str()) {
            self.answer_read(&request, answer);
        } else {
            self.answer(&request, answer);
        }
    }

    /// Sends what somebody wanted to know, unless his connection has fallen behind since he asked: he can ask again.
    fn answer_read(&mut self, request: &Request, answer: Answer) {
        let hop = newest_hop(request);
        let from = hop.and_then(|hop| self.conns.by_uuid(hop));
        if from.is_some_and(|from| self.conns.is_behind(from)) {
            let text = unread_text();
            self.answer(request, Err((errno::EAGAIN, Some(text))));
        } else {
            self.answer(request, answer);
        }
    }

    /// Sends an answer of this process to whoever asked.
    pub(crate) fn answer(&mut self, request: &Request, answer: Answer) {
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
    pub(crate) fn engine_request(
        &self,
        topic: wire::Topic,
        payload: Bytes,
        noresponse: bool,
    ) -> Request {
        let mut request = Request::new(topic, Some(payload), wire::MATCHTAG_NONE);
        if noresponse {
            request.flags = Flags::NORESPONSE;
        }
        request.cred = self.conns.own_cred();
        request.routes = Some(vec![self.local_uuid.clone()]);
        request
    }

    pub(crate) fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// A message for this process itself.
    pub(crate) fn local(&mut self, message: Message) {
        match message {
            Message::Request(request) => {
                // Requests are handled in the order they came, so reports before this one first.
                self.take_reports();
                self.serve(request);
            }
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
}
