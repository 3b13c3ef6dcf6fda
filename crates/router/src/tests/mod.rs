//! The router as its broker sees it: what goes in, what comes out. Here the world the tests share.

mod bounds;
mod events;
mod leaving;
mod model;
mod routes;
mod services;

use super::*;
use bytes::Bytes;
use wire::{Cred, Flags, Message, Request, Response, text_of};

const OWNER: Cred = Cred::owner(1000);
const GUEST: Cred = Cred::guest(1001);

/// A router with peers named by number; peer N has the hop `hopN`.
struct World {
    router: Router,
    out: Vec<Delivery>,
}

fn hop(id: u64) -> Bytes {
    Bytes::from(format!("hop{id}"))
}

impl World {
    fn new() -> World {
        World {
            router: Router::new(OWNER, Bytes::from_static(b"broker")),
            out: Vec::new(),
        }
    }

    fn with(peers: &[u64], services: &[(u64, &str)]) -> World {
        let mut world = World::new();
        for &id in peers {
            world.peer(id, OWNER, PeerKind::Connection);
        }
        for &(id, name) in services {
            world
                .router
                .add_service(PeerId(id), OWNER, name, true)
                .unwrap();
        }
        world
    }

    fn peer(&mut self, id: u64, cred: Cred, kind: PeerKind) {
        assert!(self.router.add_peer(PeerInfo {
            id: PeerId(id),
            uuid: hop(id),
            cred,
            kind
        }));
    }

    fn send(&mut self, from: u64, message: impl Into<Message>) -> Vec<Delivery> {
        self.router
            .handle(PeerId(from), message.into(), &mut self.out);
        std::mem::take(&mut self.out)
    }

    fn request(&mut self, from: u64, request: Request) -> (u64, Request) {
        match <[Delivery; 1]>::try_from(self.send(from, request)) {
            Ok(
                [
                    Delivery {
                        to,
                        message: Message::Request(request),
                    },
                ],
            ) => (to.0, request),
            other => panic!("not one request: {other:?}"),
        }
    }

    fn response(&mut self, from: u64, message: impl Into<Message>) -> (u64, Response) {
        match <[Delivery; 1]>::try_from(self.send(from, message)) {
            Ok(
                [
                    Delivery {
                        to,
                        message: Message::Response(response),
                    },
                ],
            ) => (to.0, response),
            other => panic!("not one response: {other:?}"),
        }
    }

    fn leave(&mut self, id: u64) -> (Vec<String>, Vec<Delivery>) {
        let departure = self.router.remove_peer(PeerId(id), &mut self.out);
        (departure.services, std::mem::take(&mut self.out))
    }

    fn pause(&mut self, id: u64) -> Vec<(u64, String, Vec<Bytes>)> {
        self.router.pause(PeerId(id), &mut self.out);
        self.requests()
    }

    fn resume(&mut self, id: u64) -> Vec<(u64, String, Vec<Bytes>)> {
        self.router.resume(PeerId(id), &mut self.out);
        self.requests()
    }

    fn requests(&mut self) -> Vec<(u64, String, Vec<Bytes>)> {
        std::mem::take(&mut self.out)
            .into_iter()
            .map(told)
            .collect()
    }
}

/// A request that is never answered, as (to, topic, routes).
fn told(delivery: Delivery) -> (u64, String, Vec<Bytes>) {
    match delivery {
        Delivery {
            to,
            message: Message::Request(request),
        } if request.flags.contains(Flags::NORESPONSE) => {
            (to.0, request.topic.to_string(), request.routes.unwrap())
        }
        other => panic!("not a noresponse request: {other:?}"),
    }
}

fn ask(topic: &'static str, matchtag: u32) -> Request {
    Request {
        cred: OWNER,
        ..Request::new(topic, None, matchtag)
    }
}

fn stream(topic: &'static str, matchtag: u32) -> Request {
    Request {
        flags: Flags::STREAMING,
        ..ask(topic, matchtag)
    }
}

fn text(response: &Response) -> Option<&str> {
    response.payload.as_deref().and_then(text_of)
}
