//! All open streams as cursors, and the order in which they get to send.
//!
//! ```text
//!             wake                     no room on its way
//!   parked ─────────► ready (a queue) ──────────────────► blocked
//!     ▲                 │ one step: at most a slice         │ room again
//!     └──── idle ◄──────┴──── more: to the end of the queue ┘
//! ```
//! A stream holds a place (ids and an index, an offset, an event number), never a queue of what it has still to say beyond
//! a small bound. A paused client's streams stay where they are. Every step is short, and steps take turns, so a listing
//! of everything does not delay anybody's first page.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{
    guest::GuestWatch,
    guest_read::GuestRead,
    list::Listing,
    peer::{Caller, ClientKey, Via},
    stats::StatsWatch,
    update::UpdateWatch,
    watch::LogWatch,
};

/// Most open streams.
pub(crate) const STREAMS_MAX: usize = 65_536;
/// Most open streams of one client.
pub(crate) const STREAMS_PER_CLIENT_MAX: usize = 8192;

/// One stream, for as long as it is open.
pub(crate) type StreamId = u64;

/// What a step left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Step {
    /// There is more to send right now.
    More,
    /// Nothing to send until something happens.
    Idle,
    /// The last response is sent.
    Done,
}

/// What a stream follows.
#[derive(Debug)]
pub(crate) enum Body {
    Listing(Listing),
    Stats(StatsWatch),
    Log(LogWatch),
    Guest(GuestWatch),
    Update(UpdateWatch),
    /// Not followed: an answer that takes a while to read.
    Lookup(Box<GuestRead>),
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) caller: Caller,
    pub(crate) body: Body,
    queued: bool,
}

/// All open streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    by_id: HashMap<StreamId, Stream>,
    per_client: HashMap<ClientKey, usize>,
    ready: VecDeque<StreamId>,
    fresh: VecDeque<StreamId>,
    fresh_last: bool,
    blocked: Vec<StreamId>,
    blocked_direct: Vec<StreamId>,
    paused: HashSet<ClientKey>,
    last: StreamId,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Opens a stream, ready to send. `None`: no room for another.
    pub(crate) fn open(&mut self, caller: Caller, body: Body) -> Option<StreamId> {
        let key = caller.key();
        let of_client = self.per_client.get(&key).copied().unwrap_or(0);
        if self.by_id.len() >= STREAMS_MAX || of_client >= STREAMS_PER_CLIENT_MAX {
            return None;
        }
        self.per_client.insert(key, of_client + 1);
        self.last += 1;
        self.by_id.insert(
            self.last,
            Stream {
                caller,
                body,
                queued: true,
            },
        );
        self.fresh.push_back(self.last);
        Some(self.last)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        self.by_id.iter_mut().map(|(id, stream)| (*id, stream))
    }

    /// The stream gets its turn.
    pub(crate) fn wake(&mut self, id: StreamId) {
        if let Some(stream) = self.by_id.get_mut(&id).filter(|stream| !stream.queued) {
            stream.queued = true;
            self.ready.push_back(id);
        }
    }

    /// All get their turn.
    pub(crate) fn wake_all(&mut self) {
        let ids: Vec<StreamId> = self.by_id.keys().copied().collect();
        for id in ids {
            self.wake(id);
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.fresh.is_empty()
    }

    /// Whether some wait for room on the broker's connection.
    pub(crate) fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Takes the next stream whose turn it is out; give it back with [`Streams::put_back`] or drop it.
    pub(crate) fn take_ready(&mut self) -> Option<(StreamId, Stream)> {
        while let Some(id) = self.next_id() {
            let Some(stream) = self.by_id.get_mut(&id) else {
                continue;
            };
            stream.queued = false;
            if self.paused.contains(&stream.caller.key()) {
                continue;
            }
            return self.by_id.remove(&id).map(|stream| (id, stream));
        }
        None
    }

    /// New streams and old ones take turns: most new ones are done after one step.
    fn next_id(&mut self) -> Option<StreamId> {
        self.fresh_last = !self.fresh_last;
        let (first, second) = if self.fresh_last {
            (&mut self.fresh, &mut self.ready)
        } else {
            (&mut self.ready, &mut self.fresh)
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    pub(crate) fn put_back(&mut self, id: StreamId, stream: Stream, step: Step) {
        if step == Step::Done {
            self.uncount(&stream.caller.key());
            return;
        }
        self.by_id.insert(id, stream);
        if step == Step::More {
            self.wake(id);
        }
    }

    /// There is no room on its way: it waits for [`Streams::unblock`].
    pub(crate) fn block(&mut self, id: StreamId, stream: Stream) {
        match stream.caller.via {
            Via::Broker => self.blocked.push(id),
            Via::Direct(_) => self.blocked_direct.push(id),
        }
        self.by_id.insert(id, stream);
    }

    /// There is room again on the broker's connection, or on some of our own socket's.
    pub(crate) fn unblock(&mut self, via: Via) {
        let blocked = match via {
            Via::Broker => &mut self.blocked,
            Via::Direct(_) => &mut self.blocked_direct,
        };
        for id in std::mem::take(blocked) {
            self.wake(id);
        }
    }

    /// Whether a client has a stream open.
    pub(crate) fn has_client(&self, client: &ClientKey) -> bool {
        self.per_client.contains_key(client)
    }

    /// Takes one stream out.
    pub(crate) fn take(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.by_id.remove(&id)?;
        self.uncount(&stream.caller.key());
        Some(stream)
    }

    /// Stops sending to a client.
    pub(crate) fn pause(&mut self, client: ClientKey) {
        for stream in self
            .by_id
            .values_mut()
            .filter(|stream| stream.caller.key() == client)
        {
            if let Body::Log(watch) = &mut stream.body {
                watch.drop_buffered();
            }
        }
        self.paused.insert(client);
    }

    /// Goes on sending to a client.
    pub(crate) fn resume(&mut self, client: &ClientKey) {
        if self.paused.remove(client) {
            let ids: Vec<StreamId> = self
                .by_id
                .iter()
                .filter(|(_, stream)| stream.caller.key() == *client)
                .map(|(id, _)| *id)
                .collect();
            for id in ids {
                self.wake(id);
            }
        }
    }

    pub(crate) fn is_paused(&self, client: &ClientKey) -> bool {
        self.paused.contains(client)
    }

    /// Forgets whatever was noted of clients that `gone` picks.
    pub(crate) fn forget_clients(&mut self, gone: impl Fn(&ClientKey) -> bool) {
        self.paused.retain(|client| !gone(client));
    }

    /// Takes out the streams that `gone` picks.
    pub(crate) fn close(
        &mut self,
        mut gone: impl FnMut(&Stream) -> bool,
    ) -> Vec<(StreamId, Stream)> {
        let ids: Vec<StreamId> = self
            .by_id
            .iter()
            .filter(|(_, stream)| gone(stream))
            .map(|(id, _)| *id)
            .collect();
        ids.into_iter()
            .filter_map(|id| {
                let stream = self.by_id.remove(&id)?;
                self.uncount(&stream.caller.key());
                Some((id, stream))
            })
            .collect()
    }

    fn uncount(&mut self, client: &ClientKey) {
        if let Some(count) = self.per_client.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(client);
            }
        }
    }
}
