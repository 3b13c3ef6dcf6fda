//! Which services must hear that a client left (RFC 6), and as what.
//!
//! For each distinct (topic up to its last dot, nodeid, upstream bit, hops) that a client used in a request which expects a
//! response, one `PREFIX.disconnect` is owed, with the matchtag of the first such request. Sending them is `router`'s.

use bytes::Bytes;
use std::collections::BTreeMap;
use wire::{Flags, Request, Routes};

/// Distinct prefixes remembered per client; a request that would need one more is answered EAGAIN.
pub const DISCONNECT_PREFIXES_MAX: usize = 1024;

const METHOD: &[u8] = b"disconnect";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Prefix {
    /// The topic with its last dot, or nothing for a topic without one.
    text: Bytes,
    nodeid: u32,
    upstream: bool,
    hops: Routes,
}

/// What a client used of one service; the newest is looked at first, since it is mostly used again.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    first: BTreeMap<Prefix, u32>,
    latest: Option<Prefix>,
}

/// `topic` up to and with its last dot.
fn prefix_of(topic: &Bytes) -> Bytes {
    let len = topic
        .iter()
        .rposition(|&byte| byte == b'.')
        .map_or(0, |dot| dot + 1);
    topic.slice(..len)
}

impl Seen {
    /// Remembers a request; true if it was new. `service` stands in for the prefix when the topic names no real service.
    /// `room`: whether one more may be remembered.
    /// # Errors
    /// [`NoRoom`]: it is new and there is none.
    pub(crate) fn remember(
        &mut self,
        request: &Request,
        hops: &Routes,
        service: Option<&str>,
        room: bool,
    ) -> Result<bool, NoRoom> {
        let text = match service {
            Some(name) => Bytes::from(format!("{name}.")),
            None => prefix_of(request.topic.as_bytes()),
        };
        let (nodeid, upstream) = (request.nodeid, request.flags.contains(Flags::UPSTREAM));
        if let Some(latest) = &self.latest
            && (&latest.text, latest.nodeid, latest.upstream, &latest.hops)
                == (&text, nodeid, upstream, hops)
        {
            return Ok(false);
        }
        // Copied: this lives as long as the client does, and must not keep its read buffer.
        let hops: Routes = hops.iter().map(|hop| Bytes::copy_from_slice(hop)).collect();
        let prefix = Prefix {
            text: Bytes::copy_from_slice(&text),
            nodeid,
            upstream,
            hops,
        };
        let new = !self.first.contains_key(&prefix);
        if new && !room {
            return Err(NoRoom);
        }
        if new {
            self.first.insert(prefix.clone(), request.matchtag);
        }
        self.latest = Some(prefix);
        Ok(new)
    }

    /// A client that forwards for others has told the service itself that one of them left; how many entries went.
    pub(crate) fn forget(&mut self, request: &Request, hops: &Routes) -> usize {
        let topic = request.topic.as_bytes();
        if !topic.ends_with(METHOD) {
            return 0;
        }
        let text = &topic[..topic.len() - METHOD.len()];
        let before = self.first.len();
        self.first
            .retain(|prefix, _| prefix.text != text || prefix.hops != *hops);
        self.latest = None;
        before - self.first.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// The disconnect requests owed, without the client's own hop and credentials.
    pub(crate) fn into_requests(self) -> impl Iterator<Item = Request> {
        self.first.into_iter().map(|(prefix, matchtag)| {
            let mut topic = String::from_utf8_lossy(&prefix.text).into_owned();
            topic.push_str("disconnect");
            let mut request = Request::new(topic, None, matchtag);
            request.nodeid = prefix.nodeid;
            request.flags = if prefix.upstream {
                Flags::NORESPONSE | Flags::UPSTREAM
            } else {
                Flags::NORESPONSE
            };
            request.routes = Some(prefix.hops);
            request
        })
    }
}

/// [`DISCONNECT_PREFIXES_MAX`] is reached.
#[derive(Debug)]
pub(crate) struct NoRoom;
