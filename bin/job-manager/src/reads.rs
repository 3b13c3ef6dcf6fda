//! Reads of the store, off the loop: four threads, so that a look-up never waits behind a listener's backlog, the start of a job
//! behind neither, and nothing behind the removal of files.
//!
//! A read is a closure over a [`Reader`]; what it found comes back to the loop through one bounded channel. Each lane takes a bounded number of
//! reads, and of one connection a part of that; more are refused, and the caller says EAGAIN or asks again later. Within a lane connections take
//! turns, one read each: who asks for much waits for it himself.

use router::PeerId;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use store::{Reader, ReaderFactory};
use tokio::sync::mpsc;

/// Reads that may wait in one lane. A listener has one at a time, so that there is room for all of them.
pub(crate) const LANE_READS_MAX: usize = 65_536;
/// Reads of one connection that may wait in one lane. job-info asks on behalf of many.
pub(crate) const CONNECTION_READS_MAX: usize = 16_384;
const _: () = assert!(
    CONNECTION_READS_MAX < LANE_READS_MAX && LANE_READS_MAX >= journal::limits::LISTENERS_MAX
);
/// Answers that may wait for the loop: pages are large.
const FOUND_MAX: usize = 64;

/// A read to do; returns what the loop is to be told.
type Read<T> = Box<dyn FnOnce(&Reader) -> T + Send>;

/// Which thread does it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lane {
    /// Pages of a listener's backlog.
    Backlog,
    /// One job's data.
    Lookup,
    /// The `J` of a job that is to be started.
    Start,
    /// Whether a job is gone whose files are to be removed.
    Sweep,
}

/// What waits in one lane.
struct Waiting<T> {
    of: HashMap<PeerId, VecDeque<Read<T>>>,
    turns: VecDeque<PeerId>,
    len: usize,
    closed: bool,
}

impl<T> Waiting<T> {
    fn push(&mut self, of: PeerId, read: Read<T>) -> bool {
        let queue = self.of.entry(of).or_default();
        if self.closed || self.len >= LANE_READS_MAX || queue.len() >= CONNECTION_READS_MAX {
            return false;
        }
        if queue.is_empty() {
            self.turns.push_back(of);
        }
        queue.push_back(read);
        self.len += 1;
        true
    }

    fn pop(&mut self) -> Option<Read<T>> {
        let of = self.turns.pop_front()?;
        let queue = self.of.get_mut(&of)?;
        let read = queue.pop_front()?;
        self.len -= 1;
        if queue.is_empty() {
            self.of.remove(&of);
        } else {
            self.turns.push_back(of);
        }
        Some(read)
    }

    fn forget(&mut self, of: PeerId) {
        if let Some(queue) = self.of.remove(&of) {
            self.len -= queue.len();
            self.turns.retain(|other| *other != of);
        }
    }
}

/// A lane, between the loop and its thread.
struct Queue<T> {
    waiting: Mutex<Waiting<T>>,
    work: Condvar,
}

impl<T> Queue<T> {
    fn new() -> Queue<T> {
        Queue {
            waiting: Mutex::new(Waiting {
                of: HashMap::new(),
                turns: VecDeque::new(),
                len: 0,
                closed: false,
            }),
            work: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        // Nothing panics while holding it; if something did, the queues are still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next read; `None` when the lane is closed.
    fn wait(&self) -> Option<Read<T>> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(read) = waiting.pop() {
                return Some(read);
            }
            waiting = self
                .work
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The lanes.
pub(crate) struct Reads<T> {
    backlog: Arc<Queue<T>>,
    lookup: Arc<Queue<T>>,
    start: Arc<Queue<T>>,
    sweep: Arc<Queue<T>>,
}

impl<T: Send + 'static> Reads<T> {
    /// Starts the threads; the receiver gets what they find.
    /// # Errors
    /// A reader or a thread cannot be had.
    pub(crate) fn start(readers: &ReaderFactory) -> anyhow::Result<(Reads<T>, mpsc::Receiver<T>)> {
        let (found, receiver) = mpsc::channel(FOUND_MAX);
        let lane = |name: &str| -> anyhow::Result<Arc<Queue<T>>> {
            let queue = Arc::new(Queue::new());
            let (reads, reader, found) = (queue.clone(), readers.open()?, found.clone());
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    while let Some(read) = reads.wait() {
                        if found.blocking_send(read(&reader)).is_err() {
                            break;
                        }
                    }
                    // Whoever asks from now on hears that nobody reads.
                    reads.lock().closed = true;
                })?;
            Ok(queue)
        };
        Ok((
            Reads {
                backlog: lane("read-backlog")?,
                lookup: lane("read-lookup")?,
                start: lane("read-start")?,
                sweep: lane("read-sweep")?,
            },
            receiver,
        ))
    }

    /// Gives a lane something to read for a connection; false if it has too much to do already.
    #[must_use]
    pub(crate) fn ask(
        &self,
        lane: Lane,
        of: PeerId,
        read: impl FnOnce(&Reader) -> T + Send + 'static,
    ) -> bool {
        let queue = match lane {
            Lane::Backlog => &self.backlog,
            Lane::Lookup => &self.lookup,
            Lane::Start => &self.start,
            Lane::Sweep => &self.sweep,
        };
        let taken = queue.lock().push(of, Box::new(read));
        queue.work.notify_one();
        taken
    }
}

impl<T> Reads<T> {
    fn lanes(&self) -> [&Arc<Queue<T>>; 4] {
        [&self.backlog, &self.lookup, &self.start, &self.sweep]
    }

    /// A connection is gone: nobody waits for what it asked.
    pub(crate) fn forget(&self, of: PeerId) {
        for queue in self.lanes() {
            queue.lock().forget(of);
        }
    }
}

impl<T> Drop for Reads<T> {
    fn drop(&mut self) {
        for queue in self.lanes() {
            queue.lock().closed = true;
            queue.work.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(waiting: &mut Waiting<u64>, of: u64) -> bool {
        // What it would find does not matter here: it is never read.
        waiting.push(PeerId(of), Box::new(move |_| of))
    }

    #[test]
    fn invariant_7_connections_take_turns_and_one_that_asks_for_much_is_refused_alone() {
        let queue = Queue::<u64>::new();
        let mut waiting = queue.lock();
        let taken = (0..20_000).filter(|_| push(&mut waiting, 1)).count();
        assert_eq!(taken, CONNECTION_READS_MAX);
        assert!(push(&mut waiting, 2) && push(&mut waiting, 3) && push(&mut waiting, 3));
        for turns in [
            [1, 2, 3],
            [2, 3, 1],
            [3, 1, 0],
            [1, 3, 0],
            [3, 1, 0],
            [1, 0, 0],
        ] {
            let turns: Vec<PeerId> = turns.into_iter().filter(|of| *of > 0).map(PeerId).collect();
            assert_eq!(waiting.turns, turns);
            assert!(waiting.pop().is_some());
        }
        waiting.forget(PeerId(1));
        assert_eq!(
            (waiting.len, waiting.of.len(), waiting.turns.len()),
            (0, 0, 0)
        );
        waiting.closed = true;
        assert!(!push(&mut waiting, 1));
    }
}
