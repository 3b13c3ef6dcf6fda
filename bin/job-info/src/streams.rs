//! All open streams as cursors, and the order in which they get to send.
//!
//! ```text
//!             wake                     no room on its way
//!   parked ─────────► ready (a queue) ──────────────────► blocked
//!     ▲                 │ one step: at most a slice         │ room again
//!     └──── idle ◄──────┴──── more: to the end of the queue ┘
//! ```
//! A stream holds a place (ids and an index, an offset, an event number), never a queue of what it has still to say beyond
//! a small bound. A paused client's streams stay where they are. Every step is short; clients take turns, and so do the streams of one,
//! so neither a listing of everything nor thousands of requests of another delay anybody's first page. What is done for one client
//! touches that client's streams only.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{
    guest::GuestWatch,
    guest_read::GuestRead,
    list::{Listing, Row},
    peer::{Caller, ClientKey, Via},
    quota::Quota,
    stats::StatsWatch,
    update::UpdateWatch,
    watch::LogWatch,
};

/// Most open streams.
pub(crate) const STREAMS_MAX: usize = 65_536;
/// Streams that each client may have open, while there are any.
const STREAMS_LEAST: usize = 4;

/// Most paused clients when one is to be paused that waits for nothing: nobody says when such a one leaves.
const PAUSED_UNKNOWN_MAX: usize = 4096;
/// Most paused clients.
const PAUSED_MAX: usize = 2 * STREAMS_MAX;

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
    /// Not followed: one row, to be written when there is room.
    Row(Row),
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) caller: Caller,
    pub(crate) body: Body,
    client: ClientKey,
    queued: bool,
    blocked: bool,
    paused: bool,
}

impl Stream {
    /// Its client is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }
}

/// All open streams.
#[derive(Debug)]
pub(crate) struct Streams {
    by_id: HashMap<StreamId, Stream>,
    by_client: HashMap<ClientKey, BTreeSet<StreamId>>,
    quota: Quota,
    /// Streams whose turn it is, by client; and the clients that have any, in the order of their turns.
    ready: HashMap<ClientKey, VecDeque<StreamId>>,
    turns: VecDeque<ClientKey>,
    blocked: HashMap<Via, BTreeSet<StreamId>>,
    /// Paused clients, and which pause it was.
    paused: HashMap<ClientKey, u64>,
    pauses: u64,
    last: StreamId,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_client: HashMap::new(),
            quota: Quota::new(STREAMS_MAX, STREAMS_LEAST),
            ready: HashMap::new(),
            turns: VecDeque::new(),
            blocked: HashMap::new(),
            paused: HashMap::new(),
            pauses: 0,
            last: 0,
        }
    }
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Opens a stream, ready to send. `None`: no room for another.
    pub(crate) fn open(&mut self, caller: &Caller, body: Body) -> Option<StreamId> {
        let client = caller.key();
        if !self.quota.take(&client, 1) {
            return None;
        }
        let paused = self.paused.contains_key(&client);
        self.last += 1;
        self.by_client
            .entry(client.clone())
            .or_default()
            .insert(self.last);
        self.by_id.insert(
            self.last,
            Stream {
                caller: caller.kept(),
                body,
                client: client.clone(),
                queued: true,
                blocked: false,
                paused,
            },
        );
        queue(&mut self.ready, &mut self.turns, &client, self.last);
        Some(self.last)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamId, &mut Stream)> {
        self.by_id.iter_mut().map(|(id, stream)| (*id, stream))
    }

    /// The stream gets its turn; while there is no room on its way, when there is. Whether it is there and not paused.
    pub(crate) fn wake(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.by_id.get_mut(&id) else {
            return false;
        };
        if stream.paused {
            return false;
        }
        if !stream.queued && !stream.blocked {
            stream.queued = true;
            queue(&mut self.ready, &mut self.turns, &stream.client, id);
        }
        true
    }

    /// All get their turn.
    pub(crate) fn wake_all(&mut self) {
        let ids: Vec<StreamId> = self.by_id.keys().copied().collect();
        for id in ids {
            self.wake(id);
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether some wait for room on the broker's connection.
    pub(crate) fn has_blocked(&self) -> bool {
        self.blocked.contains_key(&Via::Broker)
    }

    /// Takes the next stream whose turn it is out; give it back with [`Streams::put_back`] or drop it.
    pub(crate) fn take_ready(&mut self) -> Option<(StreamId, Stream)> {
        while let Some(id) = self.next_id() {
            let Some(stream) = self.by_id.get_mut(&id) else {
                continue;
            };
            stream.queued = false;
            if stream.paused {
                continue;
            }
            return self.by_id.remove(&id).map(|stream| (id, stream));
        }
        None
    }

    /// The next stream of the client whose turn it is.
    fn next_id(&mut self) -> Option<StreamId> {
        let client = self.turns.pop_front()?;
        let ready = self.ready.get_mut(&client)?;
        let id = ready.pop_front();
        if ready.is_empty() {
            self.ready.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        id
    }

    pub(crate) fn put_back(&mut self, id: StreamId, stream: Stream, step: Step) {
        if step == Step::Done {
            self.uncount(id, &stream);
            return;
        }
        // What an answer in the making holds is given back when it is done: it is finished before the client's next is begun.
        let first = matches!(&stream.body, Body::Listing(listing) if listing.is_whole());
        let client = stream.client.clone();
        self.by_id.insert(id, stream);
        if step == Step::More && self.wake(id) && first {
            let ready = self.ready.get_mut(&client);
            if let Some(ready) = ready.filter(|ready| ready.back() == Some(&id)) {
                ready.rotate_right(1);
            }
        }
    }

    /// There is no room on its way: it waits for [`Streams::unblock`].
    pub(crate) fn block(&mut self, id: StreamId, mut stream: Stream) {
        stream.blocked = true;
        self.blocked
            .entry(stream.caller.via)
            .or_default()
            .insert(id);
        self.by_id.insert(id, stream);
    }

    /// There is room again on this way.
    pub(crate) fn unblock(&mut self, via: Via) {
        for id in self.blocked.remove(&via).unwrap_or_default() {
            if let Some(stream) = self.by_id.get_mut(&id) {
                stream.blocked = false;
            }
            self.wake(id);
        }
    }

    /// Takes one stream out.
    pub(crate) fn take(&mut self, id: StreamId) -> Option<Stream> {
        let stream = self.by_id.remove(&id)?;
        self.uncount(id, &stream);
        Some(stream)
    }

    /// Whether a client has a stream open.
    pub(crate) fn has_client(&self, client: &ClientKey) -> bool {
        self.by_client.contains_key(client)
    }

    /// Stops sending to a client. `known`: it waits for something.
    pub(crate) fn pause(&mut self, client: ClientKey, known: bool) {
        let most = if known {
            PAUSED_MAX
        } else {
            PAUSED_UNKNOWN_MAX
        };
        if self.paused.len() >= most && !self.paused.contains_key(&client) {
            return;
        }
        for id in self.by_client.get(&client).into_iter().flatten() {
            let Some(stream) = self.by_id.get_mut(id) else {
                continue;
            };
            stream.paused = true;
            if let Body::Log(watch) = &mut stream.body {
                watch.drop_buffered();
            }
        }
        self.pauses += 1;
        self.paused.entry(client).or_insert(self.pauses);
    }

    /// Goes on sending to a client.
    pub(crate) fn resume(&mut self, client: &ClientKey) {
        if self.paused.remove(client).is_some() {
            let ids = self.by_client.get(client).cloned().unwrap_or_default();
            for id in ids {
                if let Some(stream) = self.by_id.get_mut(&id) {
                    stream.paused = false;
                }
                self.wake(id);
            }
        }
    }

    /// Streams of clients that do not read, those paused longest first: what may have to go when others need the room.
    pub(crate) fn unread(&self) -> Vec<StreamId> {
        let mut clients: Vec<_> = self
            .paused
            .iter()
            .map(|(client, at)| (*at, client))
            .collect();
        clients.sort_unstable();
        let paused = clients
            .into_iter()
            .filter_map(|(_, client)| self.by_client.get(client))
            .flatten();
        let blocked = self.blocked.iter();
        let blocked = blocked.filter(|(via, _)| **via != Via::Broker);
        let blocked = blocked.flat_map(|(_, ids)| ids);
        paused.chain(blocked).copied().collect()
    }

    /// Forgets whatever was noted of clients that `gone` picks.
    pub(crate) fn forget_clients(&mut self, gone: impl Fn(&ClientKey) -> bool) {
        self.paused.retain(|client, _| !gone(client));
    }

    /// Forgets whatever was noted of one client.
    pub(crate) fn forget_client(&mut self, client: &ClientKey) {
        self.paused.remove(client);
    }

    /// Takes out the streams of one client that `gone` picks.
    pub(crate) fn close_of(
        &mut self,
        client: &ClientKey,
        mut gone: impl FnMut(&Stream) -> bool,
    ) -> Vec<(StreamId, Stream)> {
        let ids = self.by_client.get(client).cloned().unwrap_or_default();
        self.close_all(ids, &mut gone)
    }

    /// Takes out the streams that `gone` picks.
    pub(crate) fn close(
        &mut self,
        mut gone: impl FnMut(&Stream) -> bool,
    ) -> Vec<(StreamId, Stream)> {
        let ids: Vec<StreamId> = self.by_id.keys().copied().collect();
        self.close_all(ids, &mut gone)
    }

    fn close_all(
        &mut self,
        ids: impl IntoIterator<Item = StreamId>,
        gone: &mut dyn FnMut(&Stream) -> bool,
    ) -> Vec<(StreamId, Stream)> {
        let mut closed = Vec::new();
        for id in ids {
            if self.by_id.get(&id).is_some_and(&mut *gone)
                && let Some(stream) = self.take(id)
            {
                closed.push((id, stream));
            }
        }
        closed
    }

    fn uncount(&mut self, id: StreamId, stream: &Stream) {
        self.quota.give(&stream.client, 1);
        if let Some(ids) = self.by_client.get_mut(&stream.client) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_client.remove(&stream.client);
            }
        }
        let via = stream.caller.via;
        if stream.blocked
            && let Some(ids) = self.blocked.get_mut(&via)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.blocked.remove(&via);
            }
        }
    }
}

fn queue(
    ready: &mut HashMap<ClientKey, VecDeque<StreamId>>,
    turns: &mut VecDeque<ClientKey>,
    client: &ClientKey,
    id: StreamId,
) {
    if let Some(ready) = ready.get_mut(client) {
        return ready.push_back(id);
    }
    ready.insert(client.clone(), VecDeque::from([id]));
    turns.push_back(client.clone());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use wire::{Request, Topic};

    use super::*;

    fn caller(hop: &'static str) -> Caller {
        let mut request = Request::new(Topic::from("job-list.job-stats"), None, 1);
        request.routes = Some(vec![Bytes::from_static(hop.as_bytes())]);
        Caller {
            via: Via::Broker,
            request,
        }
    }

    fn open(streams: &mut Streams, hop: &'static str) -> StreamId {
        let body = Body::Stats(StatsWatch::default());
        streams.open(&caller(hop), body).expect("room")
    }

    #[test]
    fn invariant_7_a_blocked_stream_that_is_woken_again_and_again_is_held_once() {
        let mut streams = Streams::default();
        let id = open(&mut streams, "a");
        let (met, stream) = streams.take_ready().expect("ready");
        assert_eq!(met, id);
        streams.block(id, stream);
        for _ in 0..1000 {
            streams.wake(id);
        }
        assert!(streams.has_blocked() && !streams.has_ready());
        assert_eq!(streams.blocked[&Via::Broker].len(), 1);
        streams.unblock(Via::Broker);
        assert!(streams.has_ready() && streams.blocked.is_empty());
        let (id, stream) = streams.take_ready().expect("ready");
        streams.block(id, stream);
        assert!(streams.take(id).is_some());
        assert!(!streams.has_blocked() && streams.by_client.is_empty());
    }

    #[test]
    fn invariant_7_clients_take_turns_however_many_streams_one_has() {
        let mut streams = Streams::default();
        let many: Vec<StreamId> = (0..1000).map(|_| open(&mut streams, "many")).collect();
        let one = open(&mut streams, "one");
        let mut order = Vec::new();
        for _ in 0..4 {
            let (id, stream) = streams.take_ready().expect("ready");
            order.push(id);
            streams.put_back(id, stream, Step::More);
        }
        assert_eq!(order, [many[0], one, many[1], one]);
        for id in many {
            streams.take(id);
        }
        assert_eq!(streams.take_ready().map(|(id, _)| id), Some(one));
        // Those that are closed are passed over.
        assert!(streams.take_ready().is_none());
        assert!(!streams.has_ready() && streams.ready.is_empty());
    }

    #[test]
    fn pauses_of_clients_that_wait_for_nothing_are_few() {
        let mut streams = Streams::default();
        let client = |number: usize| ClientKey::new(Via::Broker, Some(&number.to_be_bytes()));
        for number in 0..3 * PAUSED_UNKNOWN_MAX {
            streams.pause(client(number), false);
        }
        assert_eq!(streams.paused.len(), PAUSED_UNKNOWN_MAX);
        // The broker's own word about one that reads too little counts all the same.
        open(&mut streams, "a");
        streams.pause(caller("a").key(), true);
        assert!(streams.paused.contains_key(&caller("a").key()));
        assert!(streams.take_ready().is_none());
    }

    #[test]
    fn those_paused_longest_are_the_first_to_go() {
        let mut streams = Streams::default();
        let of: Vec<StreamId> = ["a", "b", "c"].map(|hop| open(&mut streams, hop)).into();
        for hop in ["c", "a", "c"] {
            streams.pause(caller(hop).key(), true);
        }
        assert_eq!(streams.unread(), [of[2], of[0]]);
        streams.resume(&caller("c").key());
        assert_eq!(streams.unread(), [of[0]]);
        assert!(streams.wake(of[2]) && !streams.wake(of[0]));
    }
}
