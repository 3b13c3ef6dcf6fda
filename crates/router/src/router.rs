//! The one door: `handle(from, message, out)`. Forward, return, or answer in a service's place.

use crate::disconnect::DISCONNECT_PREFIXES_MAX;
use crate::events::Subscriptions;
use crate::inflight::{Asked, INFLIGHT_PER_CLIENT_MAX, Key, Link};
use crate::peer::Peer;
use crate::services::{Found, Services, SlotId};
use crate::{PeerId, PeerInfo, PeerKind, RegisterError};
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap};
use wire::{
    Cred, Event, Flags, MATCHTAG_NONE, Message, NODEID_ANY, ROLE_OWNER, ROLE_USER, ROUTE_HOPS_MAX,
    Request, Response, Routes, errno, text_payload,
};

/// The only rank of a one-node instance.
const OWN_RANK: u32 = 0;

/// A message and the peer it goes to. Deliveries are to be made in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Delivery {
    /// To whom.
    pub to: PeerId,
    /// What.
    pub message: Message,
}

/// What went with a peer.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The service names it held; they are free now.
    pub services: Vec<String>,
}

/// What was counted since the start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RouterStats {
    /// Requests passed on to a service.
    pub requests: u64,
    /// Responses passed on to a client.
    pub responses: u64,
    /// Requests answered here: no such service, unreachable, a bound met.
    pub refused: u64,
    /// Requests answered here because their service went away.
    pub orphaned: u64,
    /// Responses nobody asked for, messages of peers already gone, control messages.
    pub dropped: u64,
}

/// See the crate's documentation.
///
/// The broker's side of it:
/// - [`Router::add_peer`] for each connection and each service in this process; [`Router::remove_peer`] when it goes.
/// - [`Router::handle`] for each message a peer sends, credentials stamped already. What comes out for an in-process peer
///   is a request to serve or a response to take; it answers with `handle(itself, response, …)`.
/// - `service.add` and `service.remove`, `event.subscribe` and `event.unsubscribe` reach the in-process peer that holds
///   the names `service` and `event`; it calls [`Router::add_service`] and so on and answers.
/// - A request that cannot be delivered because the service does not read: [`Router::refuse`].
/// - A client's output queue passes its high-water mark: [`Router::pause`]; falls below low water: [`Router::resume`].
#[derive(Debug)]
pub struct Router {
    cred: Cred,
    uuid: Bytes,
    peers: HashMap<PeerId, Peer>,
    by_uuid: HashMap<Bytes, PeerId>,
    services: Services,
    pub(crate) subscriptions: Subscriptions,
    stats: RouterStats,
}

impl Router {
    /// `cred`: of the instance, on what the router answers itself; must have a role bit, or clients drop it. `uuid`: the
    /// broker's own hop, on events.
    #[must_use]
    pub fn new(cred: Cred, uuid: Bytes) -> Router {
        Router {
            cred,
            uuid,
            peers: HashMap::new(),
            by_uuid: HashMap::new(),
            services: Services::default(),
            subscriptions: Subscriptions::default(),
            stats: RouterStats::default(),
        }
    }

    /// Takes a new peer in. False, and nothing changed, if its number or hop is taken.
    pub fn add_peer(&mut self, info: PeerInfo) -> bool {
        if self.peers.contains_key(&info.id) || self.by_uuid.contains_key(&info.uuid) {
            return false;
        }
        self.by_uuid.insert(info.uuid.clone(), info.id);
        self.peers.insert(info.id, Peer::new(info));
        true
    }

    /// A peer is gone. Whoever waits for an answer from it gets ECONNRESET, once; the services it used get their
    /// disconnect requests; its names are free and its subscriptions gone.
    pub fn remove_peer(&mut self, id: PeerId, out: &mut Vec<Delivery>) -> Departure {
        let mut departure = Departure::default();
        let Some(peer) = self.peers.remove(&id) else {
            return departure;
        };
        self.by_uuid.remove(&peer.uuid);
        self.subscriptions.remove_peer(id);
        for slot_id in peer.slots {
            let Some(slot) = self.services.take(slot_id) else {
                continue;
            };
            for client in slot.clients {
                self.orphan(client, slot_id, &slot.name, out);
            }
            if slot.registered {
                departure.services.push(slot.name);
            }
        }
        for (slot_id, link) in peer.links {
            // Its own services are gone already.
            let Some(slot) = self.services.get_mut(slot_id) else {
                continue;
            };
            slot.clients.remove(&id);
            let owner = slot.owner;
            for mut request in link.seen.into_requests() {
                request.cred = peer.cred;
                wire::push_hop(&mut request.routes, peer.uuid.clone());
                out.push(Delivery {
                    to: owner,
                    message: request.into(),
                });
            }
            self.drop_if_idle(slot_id, owner);
        }
        departure
    }

    /// Answers what `client` still expects from a service that is gone.
    fn orphan(&mut self, client: PeerId, slot: SlotId, service: &str, out: &mut Vec<Delivery>) {
        let Some(peer) = self.peers.get_mut(&client) else {
            return;
        };
        let Some(link) = peer.links.remove(&slot) else {
            return;
        };
        peer.inflight -= link.len();
        peer.prefixes -= link.seen.len();
        if let Some(paused) = &mut peer.paused {
            paused.retain(|(at, _)| *at != slot);
        }
        let text = text_payload(&format!("service {service} went away before it answered"));
        for (key, asked) in link.into_unanswered() {
            self.stats.orphaned += 1;
            let response = Response {
                topic: asked.topic,
                payload: Some(text.clone()),
                routes: Some(key.hops),
                cred: self.cred,
                flags: asked.flags,
                errnum: errno::ECONNRESET,
                matchtag: key.matchtag,
            };
            out.push(Delivery {
                to: client,
                message: response.into(),
            });
        }
    }

    fn drop_if_idle(&mut self, slot: SlotId, owner: PeerId) {
        if self.services.drop_if_idle(slot)
            && let Some(owner) = self.peers.get_mut(&owner)
        {
            owner.slots.retain(|&held| held != slot);
        }
    }

    /// Takes in one message of a peer and appends what follows from it to `out`. Control messages are ignored; an event is
    /// published if its sender has the owner or user role (see [`Router::publish`] for a form that is encoded once).
    pub fn handle(&mut self, from: PeerId, message: Message, out: &mut Vec<Delivery>) {
        match message {
            Message::Request(request) => self.handle_request(from, request, out),
            Message::Response(response) => self.handle_response(from, response, out),
            Message::Event(event) if event.cred.rolemask & (ROLE_OWNER | ROLE_USER) != 0 => {
                self.handle_event(event, out);
            }
            Message::Event(_) | Message::Control(_) => self.stats.dropped += 1,
        }
    }

    fn handle_event(&mut self, event: Event, out: &mut Vec<Delivery>) {
        let publication = self.publish(event);
        let message = Message::Event(publication.event);
        out.extend(publication.to.into_iter().map(|to| Delivery {
            to,
            message: message.clone(),
        }));
    }

    fn handle_request(&mut self, from: PeerId, mut request: Request, out: &mut Vec<Delivery>) {
        let Some(peer) = self.peers.get_mut(&from) else {
            self.stats.dropped += 1;
            return;
        };
        let hops = request.routes.take().unwrap_or_default();
        let way = find_way(&self.services, &request, &hops).and_then(|found| {
            track(&mut self.services, peer, from, found, &request, &hops).map(|()| found)
        });
        let found = match way {
            Ok(found) => found,
            Err(refusal) => {
                if request.expects_response() {
                    self.stats.refused += 1;
                    let text = refusal.text(&request);
                    let mut response = request.error(refusal.errnum(), text.as_deref());
                    response.cred = self.cred;
                    response.routes = Some(hops);
                    out.push(Delivery {
                        to: from,
                        message: response.into(),
                    });
                }
                return;
            }
        };
        let opens_while_paused = request.is_streaming() && peer.paused.is_some();
        let paused_hops = opens_while_paused.then(|| hops.clone());
        request.routes = Some(hops);
        wire::push_hop(&mut request.routes, peer.uuid.clone());
        self.stats.requests += 1;
        out.push(Delivery {
            to: found.owner,
            message: request.into(),
        });
        if let Some(hops) = paused_hops {
            self.tell_paused(from, found.slot, hops, out);
        }
    }

    fn handle_response(&mut self, from: PeerId, mut response: Response, out: &mut Vec<Delivery>) {
        let to = match self.accept_response(from, &mut response) {
            Some(client) => client,
            None => {
                self.stats.dropped += 1;
                return;
            }
        };
        if response.cred.rolemask == 0 {
            // Clients drop such a response and wait for ever.
            response.cred = self.cred;
        }
        self.stats.responses += 1;
        out.push(Delivery {
            to,
            message: response.into(),
        });
    }

    /// Takes the client's hop off and the request out of the books; `None` if nobody asked `from` for this.
    fn accept_response(&mut self, from: PeerId, response: &mut Response) -> Option<PeerId> {
        let hop = wire::pop_hop(&mut response.routes)?;
        let client = *self.by_uuid.get(&hop)?;
        let peer = self.peers.get_mut(&client)?;
        if response.matchtag == MATCHTAG_NONE {
            return (peer.kind == PeerKind::InProcess).then_some(client);
        }
        let key = Key {
            matchtag: response.matchtag,
            hops: response.routes.take().unwrap_or_default(),
        };
        let services = &self.services;
        let is_from = |slot: SlotId| services.get(slot).is_some_and(|slot| slot.owner == from);
        // By the topic's own service in nearly all cases; a name given up, or the shell fallback, needs the search.
        let by_topic = services
            .find(response.topic.service())
            .filter(|found| {
                found.owner == from
                    && peer
                        .links
                        .get(&found.slot)
                        .is_some_and(|link| link.knows(&key))
            })
            .map(|found| found.slot);
        let slot = by_topic.or_else(|| {
            peer.links
                .iter()
                .find(|(slot, link)| is_from(**slot) && link.knows(&key))
                .map(|(slot, _)| *slot)
        })?;
        let (flags, last) =
            peer.links
                .get_mut(&slot)?
                .settle(&key, &response.topic, response.errnum)?;
        peer.inflight -= usize::from(last);
        response.routes = Some(key.hops);
        response.flags = flags;
        Some(client)
    }

    /// `request` was to be delivered to `to` and cannot be (its queue is full): its sender gets `errnum` and `text` instead,
    /// if it expects an answer, and it is no longer in flight.
    pub fn refuse(
        &mut self,
        to: PeerId,
        request: &Request,
        errnum: u32,
        text: &str,
        out: &mut Vec<Delivery>,
    ) {
        if request.expects_response() {
            let mut response = request.error(errnum, Some(text));
            response.cred = self.cred;
            self.handle_response(to, response, out);
        }
    }

    /// `service.add`: registers `name` for `peer`. `cred` is the request's; `key_ok`: it showed the instance key (or the
    /// service is in this process).
    /// # Errors
    /// [`RegisterError`], with the number and text to answer.
    pub fn add_service(
        &mut self,
        peer: PeerId,
        cred: Cred,
        name: &str,
        key_ok: bool,
    ) -> Result<(), RegisterError> {
        match self.peers.get_mut(&peer) {
            Some(held) => self.services.add(peer, &mut held.slots, cred, name, key_ok),
            None => Err(RegisterError::NotHeld {
                name: name.to_owned(),
            }),
        }
    }

    /// `service.remove`: `peer` gives `name` up. What it was asked under it, it may still answer.
    /// # Errors
    /// [`RegisterError::NotHeld`].
    pub fn remove_service(&mut self, peer: PeerId, name: &str) -> Result<(), RegisterError> {
        if let Some(gone) = self.services.remove(peer, name)?
            && let Some(held) = self.peers.get_mut(&peer)
        {
            held.slots.retain(|&slot| slot != gone);
        }
        Ok(())
    }

    /// `client` does not read: every service with an open stream for it is told `SERVICE.pause`, with that client's routes.
    /// Streams it opens meanwhile are paused at once.
    pub fn pause(&mut self, client: PeerId, out: &mut Vec<Delivery>) {
        let Some(peer) = self.peers.get_mut(&client) else {
            return;
        };
        if peer.paused.is_some() {
            return;
        }
        peer.paused = Some(BTreeSet::new());
        let open: Vec<(SlotId, Routes)> = peer
            .links
            .iter()
            .filter(|(_, link)| link.has_streams())
            .flat_map(|(&slot, link)| link.stream_hops().into_iter().map(move |hops| (slot, hops)))
            .collect();
        for (slot, hops) in open {
            self.tell_paused(client, slot, hops, out);
        }
    }

    /// `client` reads again: every service that was told to pause is told `SERVICE.resume`, with the same routes.
    pub fn resume(&mut self, client: PeerId, out: &mut Vec<Delivery>) {
        let Some(paused) = self
            .peers
            .get_mut(&client)
            .and_then(|peer| peer.paused.take())
        else {
            return;
        };
        for (slot, hops) in paused {
            self.tell_stream(client, slot, hops, "resume", out);
        }
    }

    fn tell_paused(&mut self, client: PeerId, slot: SlotId, hops: Routes, out: &mut Vec<Delivery>) {
        let paused = self
            .peers
            .get_mut(&client)
            .and_then(|peer| peer.paused.as_mut());
        if paused.is_some_and(|paused| paused.insert((slot, hops.clone()))) {
            self.tell_stream(client, slot, hops, "pause", out);
        }
    }

    fn tell_stream(
        &self,
        client: PeerId,
        slot: SlotId,
        hops: Routes,
        verb: &str,
        out: &mut Vec<Delivery>,
    ) {
        let (Some(peer), Some(slot)) = (self.peers.get(&client), self.services.get(slot)) else {
            return;
        };
        let payload = Some(Bytes::from_static(b"{}\0"));
        let mut request = Request::new(format!("{}.{verb}", slot.name), payload, MATCHTAG_NONE);
        request.flags = Flags::NORESPONSE;
        request.cred = self.cred;
        request.routes = Some(hops);
        wire::push_hop(&mut request.routes, peer.uuid.clone());
        out.push(Delivery {
            to: slot.owner,
            message: request.into(),
        });
    }

    /// Between [`Router::pause`] and [`Router::resume`].
    #[must_use]
    pub fn is_paused(&self, client: PeerId) -> bool {
        self.peers
            .get(&client)
            .is_some_and(|peer| peer.paused.is_some())
    }

    /// Names of the services that have open streams for `client`.
    pub fn open_streams(&self, client: PeerId) -> impl Iterator<Item = &str> {
        let links = self
            .peers
            .get(&client)
            .into_iter()
            .flat_map(|peer| &peer.links);
        links
            .filter(|(_, link)| link.has_streams())
            .filter_map(|(&slot, _)| self.services.get(slot))
            .map(|slot| slot.name.as_str())
    }

    /// Requests of `client` that wait for their (final) response.
    #[must_use]
    pub fn inflight(&self, client: PeerId) -> usize {
        self.peers.get(&client).map_or(0, |peer| peer.inflight)
    }

    /// Who holds a service name.
    #[must_use]
    pub fn owner_of(&self, service: &str) -> Option<PeerId> {
        self.services.owner_of(service)
    }

    /// One of the service names that a peer holds.
    #[must_use]
    pub fn service_of(&self, peer: PeerId) -> Option<&str> {
        let slots = self.peers.get(&peer)?.slots.iter();
        slots
            .filter_map(|&slot| self.services.get(slot))
            .find(|slot| slot.registered)
            .map(|slot| slot.name.as_str())
    }

    /// Registered names and who holds them, in no order.
    pub fn services(&self) -> impl Iterator<Item = (&str, PeerId)> {
        self.services.names()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn stats(&self) -> RouterStats {
        self.stats
    }

    /// Who a peer is, from the kernel; what it sends may be under the name of another, if it may act for him.
    #[must_use]
    pub fn cred_of(&self, peer: PeerId) -> Option<Cred> {
        self.peers.get(&peer).map(|peer| peer.cred)
    }

    pub(crate) fn own_uuid(&self) -> Bytes {
        self.uuid.clone()
    }

    pub(crate) fn own_cred(&self) -> Cred {
        self.cred
    }
}

/// Puts a request that expects a response into the books of its client.
fn track(
    services: &mut Services,
    peer: &mut Peer,
    from: PeerId,
    found: Found,
    request: &Request,
    hops: &Routes,
) -> Result<(), Refusal> {
    if !request.expects_response() {
        if request.topic.method().ends_with("disconnect")
            && let Some(link) = peer.links.get_mut(&found.slot)
        {
            peer.prefixes -= link.seen.forget(request, hops);
        }
        return Ok(());
    }
    if peer.inflight >= INFLIGHT_PER_CLIENT_MAX {
        return Err(Refusal::TooManyInFlight);
    }
    let Some(slot) = services.get_mut(found.slot) else {
        return Err(Refusal::NoService);
    };
    let link = match peer.links.entry(found.slot) {
        std::collections::btree_map::Entry::Occupied(link) => link.into_mut(),
        std::collections::btree_map::Entry::Vacant(free) => {
            slot.clients.insert(from);
            free.insert(Link::default())
        }
    };
    let room = peer.prefixes < DISCONNECT_PREFIXES_MAX;
    let service = found.fallback.then_some(slot.name.as_str());
    let new = link
        .seen
        .remember(request, hops, service, room)
        .map_err(|_| Refusal::TooManyPrefixes)?;
    peer.prefixes += usize::from(new);
    peer.inflight += 1;
    let hops = hops.iter().map(|hop| Bytes::copy_from_slice(hop)).collect();
    link.add(
        Key {
            matchtag: request.matchtag,
            hops,
        },
        Asked::new(request),
    );
    Ok(())
}

/// Where a request goes.
fn find_way(services: &Services, request: &Request, hops: &Routes) -> Result<Found, Refusal> {
    if request.flags.contains(Flags::UPSTREAM) || !matches!(request.nodeid, NODEID_ANY | OWN_RANK) {
        return Err(Refusal::Unreachable);
    }
    if hops.len() >= ROUTE_HOPS_MAX {
        return Err(Refusal::TooManyHops);
    }
    services
        .find(request.topic.service())
        .ok_or(Refusal::NoService)
}

/// Why a request is answered here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    NoService,
    Unreachable,
    TooManyHops,
    TooManyInFlight,
    TooManyPrefixes,
}

impl Refusal {
    fn errnum(self) -> u32 {
        match self {
            Refusal::NoService => errno::ENOSYS,
            Refusal::Unreachable => errno::EHOSTUNREACH,
            Refusal::TooManyHops => errno::ELOOP,
            Refusal::TooManyInFlight | Refusal::TooManyPrefixes => errno::EAGAIN,
        }
    }

    fn text(self, request: &Request) -> Option<String> {
        match self {
            Refusal::NoService => Some(wire::no_service_text(&request.topic)),
            Refusal::Unreachable => None,
            Refusal::TooManyHops => Some(format!(
                "a request may carry {} route hops at most",
                ROUTE_HOPS_MAX - 1
            )),
            Refusal::TooManyInFlight => Some(format!(
                "{INFLIGHT_PER_CLIENT_MAX} requests of this connection wait for their answers; read some first"
            )),
            Refusal::TooManyPrefixes => Some(format!(
                "this connection used {DISCONNECT_PREFIXES_MAX} different topics and routes; open another one"
            )),
        }
    }
}
