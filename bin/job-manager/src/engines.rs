//! Requests to the engines (`sched.alloc`, `job-exec.start` …) on their way: in the order they were decided, none dropped.
//!
//! ```text
//!  decided ─▶ [ ready │ start, J to be read │ being read │ ready … ] ─ front ready, engine reads ─▶ its output queue
//! ```
//! A start waits for its `J`, and what was decided after it waits behind it: else the cancel of a job could reach the exec service before its
//! start. An engine that does not read has its requests held here until its queue has drained; beyond [`QUEUE_BYTES_MAX`] its connection is
//! closed, and its next hello makes it all good.

use bytes::Bytes;
use job::JobId;
use router::PeerId;
use std::collections::{HashMap, VecDeque};
use wire::{Request, Topic};

/// Bytes of requests that may wait for one engine.
pub(crate) const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Starts of one engine whose `J` is being read, or was read and waits, at a time.
pub(crate) const STARTS_AHEAD_MAX: usize = 64;

/// A start request without its `J`.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) id: JobId,
    pub(crate) topic: Topic,
    /// JSON without NUL.
    pub(crate) payload: Bytes,
}

#[derive(Debug)]
enum Slot {
    Ready(Request),
    ReadyStart(Request),
    Unread(Start),
    Reading,
    /// It will not be sent after all.
    Void,
}

#[derive(Debug, Default)]
struct Queue {
    slots: VecDeque<Slot>,
    /// Number of the slot in front.
    front: u64,
    /// Numbers of the unread starts.
    unread: VecDeque<u64>,
    /// Starts being read, or read and not sent.
    ahead: usize,
    bytes: usize,
}

impl Queue {
    fn push(&mut self, slot: Slot, bytes: usize) {
        self.slots.push_back(slot);
        self.bytes += bytes;
    }

    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let at = usize::try_from(number.checked_sub(self.front)?).ok()?;
        self.slots.get_mut(at)
    }
}

/// The queues of all engines that have one.
#[derive(Debug, Default)]
pub(crate) struct Engines {
    queues: HashMap<PeerId, Queue>,
}

impl Engines {
    /// Whether something waits for this engine, so that what comes next must wait too.
    pub(crate) fn waits(&self, to: PeerId) -> bool {
        self.queues.contains_key(&to)
    }

    /// Adds a request; false if the engine has too much waiting.
    #[must_use]
    pub(crate) fn push(&mut self, to: PeerId, request: Request) -> bool {
        let bytes = len(&request);
        let queue = self.queues.entry(to).or_default();
        queue.push(Slot::Ready(request), bytes);
        queue.bytes <= QUEUE_BYTES_MAX
    }

    /// Adds a start; likewise.
    #[must_use]
    pub(crate) fn push_start(&mut self, to: PeerId, start: Start) -> bool {
        let bytes = start.payload.len();
        let queue = self.queues.entry(to).or_default();
        queue
            .unread
            .push_back(queue.front + queue.slots.len() as u64);
        queue.push(Slot::Unread(start), bytes);
        queue.bytes <= QUEUE_BYTES_MAX
    }

    /// The next start whose `J` is to be read, and the number under which it is to be given back.
    pub(crate) fn next_unread(&mut self, to: PeerId) -> Option<(u64, Start)> {
        let queue = self.queues.get_mut(&to)?;
        if queue.ahead >= STARTS_AHEAD_MAX {
            return None;
        }
        let number = queue.unread.pop_front()?;
        match std::mem::replace(queue.slot(number)?, Slot::Reading) {
            Slot::Unread(start) => {
                queue.ahead += 1;
                queue.bytes -= start.payload.len();
                Some((number, start))
            }
            _ => None,
        }
    }

    /// What became of a start: the request, or nothing if it cannot be made.
    pub(crate) fn give_back(&mut self, to: PeerId, number: u64, request: Option<Request>) {
        let Some(queue) = self.queues.get_mut(&to) else {
            return;
        };
        let bytes = request.as_ref().map_or(0, len);
        let Some(slot @ Slot::Reading) = queue.slot(number) else {
            return;
        };
        match request {
            Some(request) => *slot = Slot::ReadyStart(request),
            None => {
                *slot = Slot::Void;
                queue.ahead -= 1;
            }
        }
        queue.bytes += bytes;
    }

    /// The request in front, if it may go.
    pub(crate) fn pop(&mut self, to: PeerId) -> Option<Request> {
        let queue = self.queues.get_mut(&to)?;
        loop {
            if matches!(queue.slots.front(), Some(Slot::Unread(_) | Slot::Reading)) {
                return None;
            }
            let Some(slot) = queue.slots.pop_front() else {
                self.queues.remove(&to);
                return None;
            };
            queue.front += 1;
            match slot {
                Slot::Ready(request) => {
                    queue.bytes -= len(&request);
                    return Some(request);
                }
                Slot::ReadyStart(request) => {
                    queue.bytes -= len(&request);
                    queue.ahead -= 1;
                    return Some(request);
                }
                Slot::Void | Slot::Unread(_) | Slot::Reading => {}
            }
        }
    }

    /// The engine is gone.
    pub(crate) fn forget(&mut self, to: PeerId) {
        self.queues.remove(&to);
    }

    /// Requests that wait, of all engines.
    pub(crate) fn len(&self) -> usize {
        self.queues.values().map(|queue| queue.slots.len()).sum()
    }
}

fn len(request: &Request) -> usize {
    request.payload.as_ref().map_or(0, Bytes::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: PeerId = PeerId(7);

    fn request(topic: &'static str) -> Request {
        Request::new(topic, Some(Bytes::from_static(b"{}\0")), 0)
    }

    fn start(id: u64) -> Start {
        Start {
            id: JobId(id),
            topic: "job-exec.start".into(),
            payload: Bytes::from_static(b"{}"),
        }
    }

    fn topics(engines: &mut Engines) -> Vec<String> {
        std::iter::from_fn(|| engines.pop(TO))
            .map(|request| request.topic.as_str().to_owned())
            .collect()
    }

    #[test]
    fn nothing_overtakes_a_start_that_is_being_read() {
        let mut engines = Engines::default();
        assert!(engines.push(TO, request("sched.free")));
        assert!(engines.push_start(TO, start(1)));
        assert!(engines.push_start(TO, start(2)));
        assert!(engines.push(TO, request("job-exec.cancel")));
        assert_eq!(topics(&mut engines), ["sched.free"]);
        let (first, _) = engines.next_unread(TO).unwrap();
        let (second, of_second) = engines.next_unread(TO).unwrap();
        assert_eq!(of_second.id, JobId(2));
        assert!(engines.next_unread(TO).is_none());
        engines.give_back(TO, second, Some(request("job-exec.start")));
        assert_eq!(topics(&mut engines), [""; 0], "the first is still read");
        engines.give_back(TO, first, None);
        assert_eq!(topics(&mut engines), ["job-exec.start", "job-exec.cancel"]);
        assert!(!engines.waits(TO));
        engines.give_back(TO, first, Some(request("late.x")));
        assert_eq!(engines.len(), 0);
    }

    #[test]
    fn reads_ahead_and_bytes_are_bounded() {
        let mut engines = Engines::default();
        for id in 0..200 {
            assert!(engines.push_start(TO, start(id)));
        }
        let mut sent = 0;
        while sent < 200 {
            let reading: Vec<u64> = std::iter::from_fn(|| engines.next_unread(TO))
                .map(|(number, _)| number)
                .collect();
            assert!(!reading.is_empty() && reading.len() <= STARTS_AHEAD_MAX);
            for number in reading {
                engines.give_back(TO, number, Some(request("job-exec.start")));
            }
            sent += topics(&mut engines).len();
        }
        assert!(!engines.waits(TO));
        let large = Bytes::from(vec![b' '; QUEUE_BYTES_MAX / 2]);
        let large = Request::new("sched.alloc", Some(large), 0);
        assert!(engines.push(TO, large.clone()));
        assert!(engines.push(TO, large.clone()));
        assert!(!engines.push(TO, large));
        engines.forget(TO);
        assert_eq!(engines.len(), 0);
    }
}
