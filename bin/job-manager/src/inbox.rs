//! Requests of clients on their way to one service: each client has a queue of its own, and they take turns.
//!
//! ```text
//!  client a ─▶ [ … 4 MiB, then EAGAIN ] ─┐  in turn, one each
//!  client b ─▶ [ · ]                    ─┼─▶ handed over, not known to be read: the window ─▶ output queue ─▶ service
//!  client c ─▶ [ ]                      ─┘   4 to 256 requests, 256 KiB
//! ```
//! Only the window lies before the service, so who comes second waits for the window and not for all that another one has asked.
//!
//! How far the service has read is learnt from its answers: it reads in order, so an answer says that everything handed over before its request
//! is read. Requests that wait for long say nothing; so a full window is followed by a `ping` of our own, which every service answers. The time
//! that takes makes the window larger or smaller: [`WINDOW_TIME`] of work is to lie before the service, many small requests or a few long
//! ones. A service that answers nothing is fed on as far as its socket takes it, ever more slowly.
//!
//! Requests of a client whose own answers are not read wait too (`is_held`), so that it is not given more of them; nobody else notices.
//!
//! Left to others: sending (`deliver.rs`), what is refused and how, pause and resume, which are never queued.

use bytes::Bytes;
use job::Timestamp;
use std::collections::{HashMap, VecDeque};

/// Requests of one client that wait for one service: more that expect an answer are refused with EAGAIN.
pub(crate) const CLIENT_REQUESTS_MAX: usize = 4 << 20;
/// So much is taken of what expects none (a cancel) before it is dropped.
pub(crate) const CLIENT_NOTICES_MAX: usize = 5 << 20;
/// What one queued request takes besides its bytes.
const ITEM_LEN: usize = 128;
/// Requests before the service at a time: at first, at least, at most.
const WINDOW_FIRST: usize = 32;
const WINDOW_MIN: usize = 4;
pub(crate) const WINDOW_MAX: usize = 256;
/// … and their bytes, where it is more than one.
pub(crate) const WINDOW_BYTES_MAX: usize = 256 << 10;
/// Seconds that the service may need for a window.
const WINDOW_TIME: f64 = 0.004;
/// Seconds after which a ping that is not answered is taken for answered: at first, at most.
const UNANSWERED_FIRST: f64 = 0.1;
const UNANSWERED_MAX: f64 = 1.0;

const _: () = assert!(
    CLIENT_REQUESTS_MAX < CLIENT_NOTICES_MAX
        && WINDOW_MIN < WINDOW_FIRST
        && WINDOW_FIRST < WINDOW_MAX
);

/// What becomes of a request that cannot be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It expects an answer: that is EAGAIN.
    Answered,
    /// It expects none: dropped, a little later.
    Notice,
}

/// A request as it goes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The whole frame.
    pub(crate) frame: Bytes,
    /// Its matchtag.
    pub(crate) tag: u32,
    /// See [`Weight`].
    pub(crate) weight: Weight,
}

impl Item {
    fn len(&self) -> usize {
        self.frame.len() + ITEM_LEN
    }
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Offered {
    /// Hand it over now.
    Go(Bytes),
    /// It waits.
    Waits,
    /// There is no room for more of this client.
    Full,
}

/// One client's requests.
#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// The words that the client left; they go last.
    farewells: Vec<Bytes>,
    /// It is out of turn until it is released.
    held: bool,
}

/// A request that was handed over.
#[derive(Debug)]
struct Ahead {
    client: Bytes,
    tag: u32,
    len: usize,
}

/// A ping of ours that is under way.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// It follows all requests before this number.
    before: u64,
    sent: Timestamp,
    /// The end of the output queue with it, in bytes since the connection began.
    end: u64,
}

/// The way to one service. Clients are known by their hop.
#[derive(Debug)]
pub(crate) struct Inbox {
    queues: HashMap<Bytes, Queue>,
    turns: VecDeque<Bytes>,
    bytes: usize,
    ahead: VecDeque<Ahead>,
    ahead_bytes: usize,
    /// The number of the first of `ahead`.
    first: u64,
    window: usize,
    probe: Option<Probe>,
    unanswered: f64,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            queues: HashMap::new(),
            turns: VecDeque::new(),
            bytes: 0,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            first: 0,
            window: WINDOW_FIRST,
            probe: None,
            unanswered: UNANSWERED_FIRST,
        }
    }
}

impl Inbox {
    /// Takes a request in. `is_held`: the client's own answers are not read. `is_tight`: there is no more room for all services together, so
    /// that a client gets its part of it and not more.
    pub(crate) fn offer(
        &mut self,
        client: &Bytes,
        item: Item,
        is_held: bool,
        is_tight: bool,
    ) -> Offered {
        if !self.queues.contains_key(client) && self.is_open() && !is_held {
            self.note(client.clone(), &item);
            return Offered::Go(item.frame);
        }
        let clients = self.queues.len();
        let queue = self.queues.entry(client.clone()).or_default();
        let most = match item.weight {
            Weight::Answered => CLIENT_REQUESTS_MAX,
            Weight::Notice => CLIENT_NOTICES_MAX,
        };
        let has_its_part = !queue.items.is_empty() && queue.bytes * clients >= self.bytes;
        if queue.bytes >= most || (is_tight && has_its_part) {
            return Offered::Full;
        }
        if queue.items.is_empty() {
            self.turns.push_back(client.clone());
        }
        queue.bytes += item.len();
        self.bytes += item.len();
        queue.items.push_back(item);
        Offered::Waits
    }

    /// The word that a client left: after what it asked before and wants no answer to, if there is such. What it wants an answer to is dropped.
    pub(crate) fn farewell(&mut self, client: &Bytes, frame: Bytes) -> Option<Bytes> {
        let Some(queue) = self.queues.get_mut(client) else {
            return Some(frame);
        };
        queue.items.retain(|item| item.weight == Weight::Notice);
        let bytes = queue.items.iter().map(Item::len).sum();
        self.bytes -= queue.bytes - bytes;
        queue.bytes = bytes;
        if queue.items.is_empty() {
            self.drop_queue(client);
            return Some(frame);
        }
        queue.farewells.push(frame);
        self.release(client);
        None
    }

    fn drop_queue(&mut self, client: &Bytes) {
        self.queues.remove(client);
        self.turns.retain(|other| other != client);
    }

    /// The next request that may be handed over; the frames of one turn.
    pub(crate) fn next(&mut self, is_held: impl Fn(&Bytes) -> bool) -> Option<Vec<Bytes>> {
        while self.is_open() {
            let client = self.turns.pop_front()?;
            let Some(queue) = self.queues.get_mut(&client) else {
                continue;
            };
            if is_held(&client) {
                queue.held = true;
                continue;
            }
            let Some(item) = queue.items.pop_front() else {
                continue;
            };
            queue.bytes -= item.len();
            self.bytes -= item.len();
            let mut frames = vec![item.frame.clone()];
            if queue.items.is_empty() {
                frames.append(&mut queue.farewells);
                self.queues.remove(&client);
            } else {
                self.turns.push_back(client.clone());
            }
            self.note(client, &item);
            return Some(frames);
        }
        None
    }

    /// A client whose answers were not read reads again.
    pub(crate) fn release(&mut self, client: &Bytes) {
        if let Some(queue) = self.queues.get_mut(client)
            && std::mem::take(&mut queue.held)
        {
            self.turns.push_back(client.clone());
        }
    }

    fn is_open(&self) -> bool {
        self.ahead.is_empty()
            || (self.ahead.len() < self.window && self.ahead_bytes < WINDOW_BYTES_MAX)
    }

    fn note(&mut self, client: Bytes, item: &Item) {
        let len = item.frame.len();
        self.ahead_bytes += len;
        self.ahead.push_back(Ahead {
            client,
            tag: item.tag,
            len,
        });
    }

    /// The service answered this request: it has read that and what was before it.
    pub(crate) fn answered(&mut self, client: &Bytes, tag: u32) {
        let found = self
            .ahead
            .iter()
            .position(|ahead| ahead.tag == tag && ahead.client == client);
        if let Some(at) = found {
            self.read_before(self.first + at as u64 + 1);
            self.unanswered = UNANSWERED_FIRST;
        }
    }

    fn read_before(&mut self, number: u64) {
        while self.first < number
            && let Some(ahead) = self.ahead.pop_front()
        {
            self.first += 1;
            self.ahead_bytes -= ahead.len;
        }
    }

    /// Whether a ping is to be sent after what was handed over.
    pub(crate) fn wants_probe(&self) -> bool {
        self.probe.is_none() && !self.is_open()
    }

    /// A ping was sent; with it the connection's output has `end` bytes in all.
    pub(crate) fn probed(&mut self, end: u64, now: Timestamp) {
        self.probe = Some(Probe {
            before: self.first + self.ahead.len() as u64,
            sent: now,
            end,
        });
    }

    /// The ping was answered: the window is fitted to the time that took.
    pub(crate) fn probe_answered(&mut self, now: Timestamp) {
        if let Some(probe) = self.probe.take() {
            let took = now.0 - probe.sent.0;
            if took > WINDOW_TIME {
                self.window = (self.window / 2).max(WINDOW_MIN);
            } else if took < WINDOW_TIME / 2.0 {
                self.window = (self.window * 2).min(WINDOW_MAX);
            }
            self.unanswered = UNANSWERED_FIRST;
            self.read_before(probe.before);
        }
    }

    /// When a ping that is not answered is taken for answered.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.probe
            .filter(|_| !self.turns.is_empty())
            .map(|probe| Timestamp(probe.sent.0 + self.unanswered))
    }

    /// Time passed; `written`: bytes of the connection's output that its socket took. True if there is room again.
    pub(crate) fn pass_time(&mut self, written: u64, now: Timestamp) -> bool {
        let Some(probe) = self.probe else {
            return false;
        };
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return false;
        }
        self.unanswered = (self.unanswered * 2.0).min(UNANSWERED_MAX);
        if written < probe.end {
            // It does not even read: look again later.
            self.probe = Some(Probe { sent: now, ..probe });
            return false;
        }
        self.probe = None;
        self.read_before(probe.before);
        true
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.queues.values().map(|queue| queue.items.len()).sum()
    }

    /// The newest request of the client that has most waiting is taken out; with its bytes.
    pub(crate) fn give_up_newest(&mut self) -> Option<Item> {
        let longest = self.queues.iter().max_by_key(|(_, queue)| queue.bytes);
        let client = longest.map(|(client, _)| client.clone())?;
        let queue = self.queues.get_mut(&client)?;
        let item = queue.items.pop_back()?;
        queue.bytes -= item.len();
        self.bytes -= item.len();
        if queue.items.is_empty() && queue.farewells.is_empty() {
            self.drop_queue(&client);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: fn(&Bytes) -> bool = |_| false;

    fn hop(name: &'static str) -> Bytes {
        Bytes::from_static(name.as_bytes())
    }

    fn item(tag: u32, len: usize) -> Item {
        Item {
            frame: Bytes::from(vec![tag as u8; len]),
            tag,
            weight: Weight::Answered,
        }
    }

    fn offer(inbox: &mut Inbox, client: &'static str, tag: u32, len: usize) -> &'static str {
        match inbox.offer(&hop(client), item(tag, len), false, false) {
            Offered::Go(_) => "go",
            Offered::Waits => "waits",
            Offered::Full => "full",
        }
    }

    /// What is handed over until the window is full, as tags.
    fn handed(inbox: &mut Inbox) -> Vec<u8> {
        std::iter::from_fn(|| inbox.next(NOBODY))
            .flatten()
            .map(|frame| frame[0])
            .collect()
    }

    #[test]
    fn invariant_7_clients_take_turns_and_one_that_floods_is_refused_alone() {
        let mut inbox = Inbox::default();
        let mut said = HashMap::new();
        for _ in 0..100 {
            *said
                .entry(offer(&mut inbox, "rude", 1, 100_000))
                .or_insert(0) += 1;
        }
        assert!((3..=4).contains(&said["go"]), "{said:?}");
        assert!((41..=43).contains(&said["waits"]), "{said:?}");
        assert!(inbox.wants_probe());
        // Others are taken, and stand behind one request each.
        for (client, tag) in [("a", 2), ("b", 3)] {
            assert_eq!(offer(&mut inbox, client, tag, 100), "waits");
        }
        inbox.probed(0, Timestamp(0.0));
        assert!(!inbox.wants_probe());
        assert_eq!(handed(&mut inbox), [0u8; 0]);
        inbox.probe_answered(Timestamp(0.001));
        assert_eq!(handed(&mut inbox), [1, 2, 3, 1, 1]);
    }

    #[test]
    fn an_answer_says_that_all_before_it_was_read() {
        let mut inbox = Inbox::default();
        for tag in 0..100 {
            let _ = offer(&mut inbox, "a", tag, 100);
        }
        assert_eq!((inbox.ahead.len(), inbox.len()), (WINDOW_FIRST, 68));
        inbox.answered(&hop("b"), 3);
        inbox.answered(&hop("a"), 300);
        assert_eq!(inbox.ahead.len(), WINDOW_FIRST, "of nobody and of nothing");
        inbox.answered(&hop("a"), 9);
        assert_eq!(handed(&mut inbox), (32..42).collect::<Vec<u8>>());
        inbox.answered(&hop("a"), 9);
        assert_eq!(handed(&mut inbox), [0u8; 0], "a stream's second answer");
        inbox.answered(&hop("a"), 41);
        assert_eq!(handed(&mut inbox).len(), 32);
    }

    #[test]
    fn the_window_is_as_large_as_the_service_is_quick() {
        let mut inbox = Inbox::default();
        let mut now = 0.0;
        let mut tag = 0;
        let mut sizes = Vec::new();
        for took in [0.001; 5].into_iter().chain([0.1; 9]) {
            while !inbox.wants_probe() {
                tag += 1;
                let _ = offer(&mut inbox, "a", tag, 10);
            }
            sizes.push(inbox.ahead.len());
            inbox.probed(0, Timestamp(now));
            now += took;
            inbox.probe_answered(Timestamp(now));
            let _ = handed(&mut inbox);
        }
        assert_eq!(
            sizes,
            [32, 64, 128, 256, 256, 256, 128, 64, 32, 16, 8, 4, 4, 4]
        );
    }

    #[test]
    fn a_service_that_answers_nothing_is_fed_as_far_as_its_socket_takes_it() {
        let mut inbox = Inbox::default();
        for tag in 0..100 {
            let _ = offer(&mut inbox, "a", tag, 10);
        }
        inbox.probed(1000, Timestamp(0.0));
        assert!(!inbox.pass_time(1000, Timestamp(0.05)), "it may answer yet");
        assert!(!inbox.pass_time(999, Timestamp(0.11)), "its socket is full");
        assert!(!inbox.pass_time(1000, Timestamp(0.2)));
        assert!(inbox.pass_time(1000, Timestamp(0.32)));
        assert_eq!(handed(&mut inbox).len(), WINDOW_FIRST);
        assert!(inbox.wants_probe());
        inbox.probed(2000, Timestamp(1.0));
        assert_eq!(inbox.deadline(), Some(Timestamp(1.4)), "ever more slowly");
        inbox.answered(&hop("a"), 33);
        assert_eq!(inbox.deadline(), Some(Timestamp(1.1)));
    }

    #[test]
    fn who_does_not_read_his_answers_is_passed_over_until_he_does() {
        let mut inbox = Inbox::default();
        let (slow, quick) = (hop("slow"), hop("quick"));
        assert_eq!(inbox.offer(&slow, item(1, 10), true, false), Offered::Waits);
        assert_eq!(inbox.offer(&slow, item(2, 10), true, false), Offered::Waits);
        assert_eq!(offer(&mut inbox, "quick", 3, 10), "go");
        assert!(inbox.next(|client| *client == slow).is_none());
        assert!(inbox.next(NOBODY).is_none(), "out of turn");
        inbox.release(&quick);
        inbox.release(&slow);
        assert_eq!(handed(&mut inbox), [1, 2]);
        assert_eq!((inbox.bytes(), inbox.queues.len()), (0, 0));
    }

    #[test]
    fn who_left_is_asked_for_nothing_any_more_but_what_he_said_is_passed_on() {
        let mut inbox = Inbox::default();
        let (a, bye) = (hop("a"), Bytes::from_static(&[9]));
        assert_eq!(inbox.farewell(&a, bye.clone()), Some(bye.clone()));
        let held = |inbox: &mut Inbox, tag, weight| {
            let item = Item {
                weight,
                ..item(tag, 10)
            };
            assert_eq!(inbox.offer(&a, item, true, false), Offered::Waits);
        };
        held(&mut inbox, 1, Weight::Answered);
        assert_eq!(inbox.farewell(&a, bye.clone()), Some(bye.clone()));
        assert_eq!((inbox.bytes(), inbox.turns.len()), (0, 0));
        held(&mut inbox, 1, Weight::Answered);
        held(&mut inbox, 2, Weight::Notice);
        held(&mut inbox, 3, Weight::Answered);
        assert!(inbox.next(|_| true).is_none());
        assert_eq!(inbox.farewell(&a, bye.clone()), None);
        assert_eq!(inbox.farewell(&a, bye), None, "one for each prefix");
        assert_eq!(handed(&mut inbox), [2, 9, 9]);
        assert_eq!((inbox.bytes(), inbox.queues.len()), (0, 0));
    }

    #[test]
    fn where_all_is_full_who_has_most_gives_up_his_newest() {
        let mut inbox = Inbox::default();
        for tag in 0..40 {
            let _ = inbox.offer(&hop("much"), item(tag, 1000), true, false);
        }
        assert_eq!(
            inbox.offer(&hop("much"), item(40, 1000), true, true),
            Offered::Full
        );
        assert_eq!(
            inbox.offer(&hop("little"), item(99, 1000), true, true),
            Offered::Waits
        );
        for tag in (1..40).rev() {
            assert_eq!(inbox.give_up_newest().map(|item| item.tag), Some(tag));
        }
        assert!(inbox.give_up_newest().is_some() && inbox.give_up_newest().is_some());
        assert_eq!(inbox.give_up_newest(), None);
        assert_eq!((inbox.bytes(), inbox.turns.len()), (0, 0));
    }
}
