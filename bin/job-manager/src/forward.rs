//! Requests of clients on their way to services (`inbox.rs` says who comes when): taken in, handed over, refused; and what is learnt from the
//! services' answers.

use crate::conns::Conns;
use crate::deliver::newest_hop;
use crate::inbox::{CLIENT_REQUESTS_MAX, Inbox, Item, Offered, Weight};
use crate::shell::Shell;
use bytes::{Bytes, BytesMut};
use job::Timestamp;
use router::{PeerId, Router};
use std::collections::HashMap;
use wire::{FRAME_LEN_MAX_DEFAULT, Flags, Message, Request, Response, errno};

/// Requests that wait for all services together; beyond, who has most waiting gives up his newest.
pub(crate) const WAITING_MAX: usize = 64 << 20;
/// The matchtag of our own pings: the only requests with one that go out under our own hop.
const PROBE_TAG: u32 = u32::MAX;

/// The ways to all services.
#[derive(Debug, Default)]
pub(crate) struct Inboxes {
    of: HashMap<PeerId, Inbox>,
}

impl Inboxes {
    fn bytes(&self) -> usize {
        self.of.values().map(Inbox::bytes).sum()
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.of.values().map(Inbox::len).sum()
    }

    /// A service is gone; the router answers for it.
    pub(crate) fn forget(&mut self, service: PeerId) {
        self.of.remove(&service);
    }

    /// When there may be room again though nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.of.values().filter_map(Inbox::deadline).min()
    }
}

/// What a message to a service is.
enum Kind {
    /// A client's request.
    Asked(Weight),
    /// A client left.
    Farewell,
    /// Pause or resume, from the broker itself.
    Flow,
}

/// Whether the answers of this client are not read.
fn is_held(conns: &Conns, router: &Router, client: &Bytes) -> bool {
    conns
        .by_uuid(client)
        .is_some_and(|peer| router.is_paused(peer))
}

impl Shell {
    /// Passes a request on to the service on connection `to`.
    pub(crate) fn forward(&mut self, to: PeerId, message: &Message) {
        let Message::Request(request) = message else {
            return;
        };
        let Some(client) = newest_hop(request).cloned() else {
            return;
        };
        let frame = wire::to_frame(message);
        match self.kind(request, &client) {
            Kind::Flow => self.transmit(to, frame),
            Kind::Farewell => {
                let inbox = self.inboxes.of.entry(to).or_default();
                if let Some(frame) = inbox.farewell(&client, frame) {
                    self.transmit(to, frame);
                }
                self.feed(to);
            }
            Kind::Asked(weight) => self.take_in(to, request, &client, weight, frame),
        }
    }

    fn kind(&self, request: &Request, client: &Bytes) -> Kind {
        let is_own = request.cred == self.conns.own_cred();
        if self.conns.by_uuid(client).is_none() {
            // A disconnect comes with the hop of a client that is no more.
            Kind::Farewell
        } else if request.expects_response() {
            Kind::Asked(Weight::Answered)
        } else if is_own && matches!(request.topic.method(), "pause" | "resume") {
            Kind::Flow
        } else {
            Kind::Asked(Weight::Notice)
        }
    }

    fn take_in(
        &mut self,
        to: PeerId,
        request: &Request,
        client: &Bytes,
        weight: Weight,
        frame: Bytes,
    ) {
        let is_held = is_held(&self.conns, &self.router, client);
        let is_tight = self.inboxes.bytes() >= WAITING_MAX;
        let item = Item {
            frame,
            tag: request.matchtag,
            weight,
        };
        let inbox = self.inboxes.of.entry(to).or_default();
        match inbox.offer(client, item, is_held, is_tight) {
            Offered::Go(frame) => {
                self.hand_over(to, frame);
                self.probe(to, request.topic.service());
            }
            Offered::Waits => {
                while self.inboxes.bytes() > WAITING_MAX {
                    self.give_up_one();
                }
            }
            Offered::Full => self.refuse_full(to, request),
        }
    }

    /// A client's request, to a service that has room for it.
    fn hand_over(&mut self, to: PeerId, frame: Bytes) {
        // Read your writes: the service hears of all that is durable before it hears the question.
        let now = self.clock.monotonic();
        self.streams
            .bring_up_to_date(to, now, &self.conns, &mut self.router, &mut self.deliveries);
        self.transmit(to, frame);
    }

    /// Hands over what waits and has its turn.
    pub(crate) fn feed(&mut self, to: PeerId) {
        loop {
            let (conns, router) = (&self.conns, &self.router);
            let Some(inbox) = self.inboxes.of.get_mut(&to) else {
                return;
            };
            let Some(frames) = inbox.next(|client| is_held(conns, router, client)) else {
                break;
            };
            for frame in frames {
                self.hand_over(to, frame);
            }
        }
        let name = self.router.service_of(to).map(str::to_owned);
        if let Some(name) = name {
            self.probe(to, &name);
        }
    }

    /// Asks a service, by one of its names, whether it has read what was handed over, if it is time.
    fn probe(&mut self, to: PeerId, name: &str) {
        if !self.inboxes.of.get(&to).is_some_and(Inbox::wants_probe) {
            return;
        }
        let payload = Some(Bytes::from_static(b"{}\0"));
        let mut request = Request::new(format!("{name}.ping"), payload, PROBE_TAG);
        request.flags = Flags::NONE;
        request.cred = self.conns.own_cred();
        request.routes = Some(vec![self.local_uuid.clone()]);
        self.transmit(to, wire::to_frame(&Message::Request(request)));
        let (end, _) = self.conns.progress(to);
        let now = self.clock.monotonic();
        if let Some(inbox) = self.inboxes.of.get_mut(&to) {
            inbox.probed(end, now);
        }
    }

    /// A service answered something: what it has read makes room. False if the answer is to us and goes no further.
    pub(crate) fn learn(&mut self, from: PeerId, response: &Response) -> bool {
        let Some(inbox) = self.inboxes.of.get_mut(&from) else {
            return true;
        };
        let hops = response.routes.as_deref().unwrap_or_default();
        let is_probe = response.matchtag == PROBE_TAG && hops == [self.local_uuid.clone()];
        if is_probe {
            inbox.probe_answered(self.clock.monotonic());
        } else if let Some(client) = hops.first() {
            inbox.answered(client, response.matchtag);
        }
        if inbox.bytes() > 0 {
            self.feed(from);
        }
        !is_probe
    }

    /// A client reads again: what it asked has its turn again.
    pub(crate) fn release(&mut self, client: PeerId) {
        let Some(client) = self.conns.uuid(client).cloned() else {
            return;
        };
        let services: Vec<PeerId> = self.inboxes.of.keys().copied().collect();
        for service in services {
            if let Some(inbox) = self.inboxes.of.get_mut(&service) {
                inbox.release(&client);
            }
            self.feed(service);
        }
    }

    /// Time passed: services that answer nothing are fed on.
    pub(crate) fn feed_silent(&mut self, now: Timestamp) {
        if self
            .inboxes
            .next_deadline()
            .is_none_or(|deadline| now < deadline)
        {
            return;
        }
        let services: Vec<PeerId> = self.inboxes.of.keys().copied().collect();
        for service in services {
            let (_, written) = self.conns.progress(service);
            if let Some(inbox) = self.inboxes.of.get_mut(&service)
                && inbox.pass_time(written, now)
            {
                self.feed(service);
            }
        }
    }

    /// There is no room for all that waits: who has most waiting for the service that most waits for is refused his newest.
    fn give_up_one(&mut self) {
        let fullest = self
            .inboxes
            .of
            .iter_mut()
            .max_by_key(|(_, inbox)| inbox.bytes());
        let Some((to, inbox)) = fullest else { return };
        let to = *to;
        let Some(item) = inbox.give_up_newest() else {
            return;
        };
        let mut bytes = BytesMut::from(&item.frame[..]);
        if let Ok(Some(Message::Request(request))) = wire::decode(&mut bytes, FRAME_LEN_MAX_DEFAULT)
        {
            self.refuse_full(to, &request);
        }
    }

    fn refuse_full(&mut self, to: PeerId, request: &Request) {
        self.dropped += u64::from(!request.expects_response());
        let text = format!(
            "{} MiB of requests of this connection wait for service {}: try again later",
            CLIENT_REQUESTS_MAX >> 20,
            request.topic.service()
        );
        self.router
            .refuse(to, request, errno::EAGAIN, &text, &mut self.deliveries);
    }
}
