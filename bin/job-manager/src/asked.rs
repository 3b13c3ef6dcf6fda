//! Requests that wait for an answer of this process: by the manager's token, and by the connection that waits.
//!
//! Invariant: what a connection waits for goes with it, so nothing is kept for who is gone. How many one connection may have is bounded by
//! the router (`INFLIGHT_PER_CLIENT_MAX`), and by whoever asks how much it has here (`of`).

use bytes::Bytes;
use manager::Token;
use router::PeerId;
use std::collections::{BTreeSet, HashMap};
use wire::Request;

/// What waits of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) requests: usize,
    /// As they came.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
struct One {
    peer: PeerId,
    request: Request,
    bytes: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    by_token: HashMap<Token, One>,
    by_peer: BTreeSet<(PeerId, Token)>,
    parts: HashMap<PeerId, Part>,
}

impl Asked {
    /// `token` was not used before. `bytes` came with the request.
    pub(crate) fn insert(&mut self, token: Token, peer: PeerId, request: Request, bytes: usize) {
        self.by_peer.insert((peer, token));
        let part = self.parts.entry(peer).or_default();
        part.requests += 1;
        part.bytes += bytes;
        let one = One {
            peer,
            request,
            bytes,
        };
        self.by_token.insert(token, one);
    }

    /// What waits of this connection.
    pub(crate) fn of(&self, peer: PeerId) -> Part {
        self.parts.get(&peer).copied().unwrap_or_default()
    }

    /// What waits under this token, and goes on waiting.
    pub(crate) fn get(&self, token: Token) -> Option<&Request> {
        self.by_token.get(&token).map(|one| &one.request)
    }

    /// What waited under this token.
    pub(crate) fn take(&mut self, token: Token) -> Option<Request> {
        let one = self.by_token.remove(&token)?;
        self.by_peer.remove(&(one.peer, token));
        if let Some(part) = self.parts.get_mut(&one.peer) {
            part.requests -= 1;
            part.bytes -= one.bytes;
            if part.requests == 0 {
                self.parts.remove(&one.peer);
            }
        }
        Some(one.request)
    }

    /// All that waits, oldest first.
    pub(crate) fn take_all(&mut self) -> Vec<Request> {
        self.by_peer.clear();
        self.parts.clear();
        let mut all: Vec<_> = self.by_token.drain().collect();
        all.sort_unstable_by_key(|(token, _)| *token);
        all.into_iter().map(|(_, one)| one.request).collect()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        let of_peer = (peer, Token(0))..=(peer, Token(u64::MAX));
        let tokens: Vec<_> = self.by_peer.range(of_peer).copied().collect();
        for key in tokens {
            self.by_peer.remove(&key);
            self.by_token.remove(&key.1);
        }
        self.parts.remove(&peer);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_token.len()
    }
}

/// A request in memory of its own, without its payload: one that may wait for long must not keep the read buffer it came in.
pub(crate) fn detached(request: &Request) -> Request {
    let copy = |hop: &Bytes| Bytes::copy_from_slice(hop);
    Request {
        topic: request.topic.detached(),
        payload: None,
        routes: request
            .routes
            .as_ref()
            .map(|hops| hops.iter().map(copy).collect()),
        ..*request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_waits_for_goes_with_it() {
        let mut asked = Asked::default();
        for token in 1..=6 {
            let request = Request::new("a.b", None, token as u32);
            asked.insert(Token(token), PeerId(token % 2), request, 10);
        }
        let part = |requests, bytes| Part { requests, bytes };
        assert_eq!(asked.of(PeerId(1)), part(3, 30));
        assert_eq!(
            asked.take(Token(3)).map(|request| request.matchtag),
            Some(3)
        );
        assert!(asked.take(Token(3)).is_none());
        assert_eq!(asked.of(PeerId(1)), part(2, 20));
        asked.forget(PeerId(1));
        assert_eq!(asked.of(PeerId(1)), part(0, 0));
        assert!(asked.get(Token(5)).is_none());
        assert_eq!(asked.len(), 3);
        let left: Vec<u32> = asked.take_all().iter().map(|one| one.matchtag).collect();
        assert_eq!(left, [2, 4, 6]);
        assert_eq!(
            (asked.len(), asked.by_peer.len(), asked.parts.len()),
            (0, 0, 0)
        );
    }
}
