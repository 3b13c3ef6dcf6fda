//! `service.*` and `event.*`: a connection becomes a service, or hears and tells events. `rfc/1_wire.md` has the shapes.

use crate::builtin::{self, Answer};
use crate::lookup;
use crate::shell::Shell;
use bytes::Bytes;
use protocol::service::{AddRequest, RemoveRequest};
use router::PeerId;
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use wire::{Event, Flags, Message, ROLE_OWNER, ROLE_USER, Request, errno, nul_terminated};

/// The longest beginning of a topic that can be subscribed to, in bytes.
pub(crate) const PREFIX_LEN_MAX: usize = 256;

#[derive(Deserialize)]
struct Subscribe<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
}

/// `payload` is base64 of the raw payload, its NUL included.
#[derive(Deserialize)]
struct Publish<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    #[serde(default)]
    flags: u32,
    #[serde(borrow, default)]
    payload: Option<Cow<'a, str>>,
}

impl Shell {
    /// Serves one of `service.*`, `event.*`; `None` = there is no such method.
    pub(crate) fn serve_broker(&mut self, from: PeerId, request: &Request) -> Option<Answer> {
        Some(match request.topic.as_str() {
            "service.add" => self.service_add(from, request),
            "service.remove" => self.service_remove(from, request),
            "event.subscribe" => self.subscribe(from, request),
            "event.unsubscribe" => self.unsubscribe(from, request),
            "event.publish" => self.event_publish(from, request),
            _ => return None,
        })
    }

    fn service_add(&mut self, from: PeerId, request: &Request) -> Answer {
        let ask: AddRequest<'_> = builtin::payload(request)?;
        let key_ok = ask.key.is_some_and(|key| same(&key, &self.key));
        self.router
            .add_service(from, request.cred, &ask.service, key_ok)
            .map_err(|error| (error.errnum(), Some(error.to_string())))?;
        tracing::info!(service = &*ask.service, peer = from.0, "service added");
        Ok(None)
    }

    fn service_remove(&mut self, from: PeerId, request: &Request) -> Answer {
        let ask: RemoveRequest<'_> = builtin::payload(request)?;
        self.router
            .remove_service(from, &ask.service)
            .map_err(|error| (error.errnum(), Some(error.to_string())))?;
        tracing::info!(service = &*ask.service, peer = from.0, "service removed");
        Ok(None)
    }

    fn subscribe(&mut self, from: PeerId, request: &Request) -> Answer {
        let ask: Subscribe<'_> = builtin::payload(request)?;
        if ask.topic.len() > PREFIX_LEN_MAX {
            let text = format!(
                "topic: expected {PREFIX_LEN_MAX} bytes at most, got {}",
                ask.topic.len()
            );
            return Err((errno::EINVAL, Some(text)));
        }
        self.router
            .subscribe(from, &ask.topic)
            .map_err(|error| (error.errnum(), Some(error.to_string())))?;
        Ok(None)
    }

    fn unsubscribe(&mut self, from: PeerId, request: &Request) -> Answer {
        let ask: Subscribe<'_> = builtin::payload(request)?;
        self.router
            .unsubscribe(from, &ask.topic)
            .map_err(|error| (error.errnum(), Some(error.to_string())))?;
        Ok(None)
    }

    fn event_publish(&mut self, from: PeerId, request: &Request) -> Answer {
        if request.cred.rolemask & (ROLE_OWNER | ROLE_USER) == 0 {
            let text = "Request rejected due to insufficient privilege";
            return Err((errno::EPERM, Some(text.into())));
        }
        let ask: Publish<'_> = builtin::payload(request)?;
        let flags = match ask.flags {
            0 => Flags::NONE,
            0x20 => Flags::PRIVATE,
            _ => return Err((errno::EPROTO, Some("flags: expected 0 or 32".into()))),
        };
        let payload = ask.payload.as_deref().map(lookup::from_base64);
        let payload = payload
            .transpose()
            .map_err(|error| (errno::EPROTO, Some(error)))?;
        let len = ask.topic.len() + payload.as_ref().map_or(0, Bytes::len);
        self.may_publish(from, len)?;
        let event = Event {
            topic: ask.topic.into_owned().into(),
            payload,
            routes: None,
            cred: request.cred,
            flags,
            sequence: 0,
        };
        let seq = self.send_event(event);
        builtin::answer(&json!({"seq": seq}))
    }

    /// Publishes an event of this process.
    pub(crate) fn publish(&mut self, topic: wire::Topic, json: &[u8], private_to: Option<u32>) {
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
        self.send_event(event);
    }

    /// `heartbeat.pulse`, for those who subscribed.
    pub(crate) fn pulse(&mut self) {
        let event = Event {
            topic: "heartbeat.pulse".into(),
            payload: None,
            routes: None,
            cred: self.conns.own_cred(),
            flags: Flags::NONE,
            sequence: 0,
        };
        self.send_event(event);
    }

    /// Numbers an event and sends it to whoever subscribed and is not too far behind; encoded once.
    pub(crate) fn send_event(&mut self, event: Event) -> u32 {
        let publication = self.router.publish(event);
        let sequence = publication.event.sequence;
        if !publication.to.is_empty() {
            let frame: Bytes = wire::to_frame(&Message::Event(publication.event));
            for peer in publication.to {
                if !self.is_overrun(peer, sequence) {
                    self.transmit(peer, frame.clone());
                }
            }
        }
        sequence
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
