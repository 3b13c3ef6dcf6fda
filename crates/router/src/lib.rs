//! Who gets a message: services, routes, requests in flight, streams to pause, disconnects, event subscriptions.
//!
//! Pure: one [`Router`] takes a message from a peer and says which messages go to which peers. Sockets, queues and the
//! parsing of `service.add` payloads are left to the broker that owns it (`bin/job-manager`).
//!
//! ```text
//!   client C ──request──▶ Router ──request, C's hop pushed──▶ the peer that registered the topic's first word
//!   client C ◀─response── Router ◀──response, same routes──── (hop popped; must match a request in flight)
//! ```
//!
//! Invariants:
//! - A request that expects a response gets its final response exactly once: from its service, or from here when there is
//!   no such service, the service goes away, or a bound is met.
//! - A request with matchtag 0 or the noresponse flag is never answered by the router.
//! - A response reaches a client only if that client asked, under that matchtag, the very peer that answers; anything
//!   else is dropped and counted. (In-process peers also take responses under matchtag 0: RFC 27 answers that way.)
//! - Nothing here is unbounded: requests in flight, remembered topics, names and subscriptions have a `…_MAX` each.
//! - A message costs a few look-ups, whatever the number of peers, services and requests in flight.

mod disconnect;
mod events;
mod inflight;
mod peer;
mod router;
mod services;
#[cfg(test)]
mod tests;

pub use disconnect::DISCONNECT_PREFIXES_MAX;
pub use events::{Publication, SUBSCRIPTIONS_PER_PEER_MAX, SubscribeError};
pub use inflight::INFLIGHT_PER_CLIENT_MAX;
pub use peer::{PeerId, PeerInfo, PeerKind};
pub use router::{Delivery, Departure, Router, RouterStats};
pub use services::{RESERVED_SERVICES, RegisterError, SERVICE_NAME_LEN_MAX, SERVICES_PER_PEER_MAX};
