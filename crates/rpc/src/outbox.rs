//! The output queue of one connection, and the loop that writes it.
//!
//! ```text
//!  bytes queued   0 ───── LOW_WATER ───── HIGH_WATER ───────────────── HARD_CAP
//!                           ▲                 ▲                           ▲
//!                 "drained", once    "high water", once          nothing more is taken
//! ```
//!
//! High water is said once, on the way up; drained once, on the way down, and only after high water. Both are decided
//! under one lock, so neither can be missed. What to do about them is left to the owner of the connection.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// From here on a peer counts as not reading.
pub const HIGH_WATER: usize = 1 << 20;
/// Down to here it counts as reading again.
pub const LOW_WATER: usize = 256 << 10;
/// At this much in the queue nothing more is taken. (One frame may still reach past it, whatever its size; and the longest frame since the
/// queue was last at low water does not count, so that one long answer is nobody's end.)
pub const HARD_CAP: usize = 16 << 20;
const _: () = assert!(LOW_WATER < HIGH_WATER && HIGH_WATER < HARD_CAP);

/// Frames given to one system call. Past a few dozen there is nothing to gain.
const WRITE_FRAMES_MAX: usize = 64;

/// The bounds of one output queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxLimits {
    /// See [`LOW_WATER`].
    pub low_water: usize,
    /// See [`HIGH_WATER`].
    pub high_water: usize,
    /// See [`HARD_CAP`].
    pub hard_cap: usize,
}

impl Default for OutboxLimits {
    fn default() -> OutboxLimits {
        OutboxLimits {
            low_water: LOW_WATER,
            high_water: HIGH_WATER,
            hard_cap: HARD_CAP,
        }
    }
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    /// It is queued.
    Queued,
    /// It is queued, and the queue has just passed high water. Said once, until the queue has drained.
    HighWater,
    /// The connection is closed; the frame is dropped.
    Gone,
    /// The queue is full; the frame is dropped.
    Overflow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is queued is still written, then the connection ends.
    Finishing,
    Closed,
}

#[derive(Debug)]
struct State {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// Bytes that were ever queued.
    total: u64,
    /// The longest of what was queued at once since the queue was last at low water, if it is half the hard cap or more.
    long: usize,
    high: bool,
    phase: Phase,
}

/// One connection's frames on their way out.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Copy of `state.bytes`, to be read without the lock.
    bytes: AtomicUsize,
    limits: OutboxLimits,
    /// Wakes the writer: there is something to write, or the phase changed.
    work: Notify,
    /// Wakes whoever waits for room: the queue drained, or the phase changed.
    room: Notify,
}

impl Outbox {
    pub(crate) fn new(limits: OutboxLimits) -> Outbox {
        let state = State {
            frames: VecDeque::new(),
            bytes: 0,
            total: 0,
            long: 0,
            high: false,
            phase: Phase::Open,
        };
        Outbox {
            state: Mutex::new(state),
            bytes: AtomicUsize::new(0),
            limits,
            work: Notify::new(),
            room: Notify::new(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics while holding it; if something did, the counts are still whole.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn limits(&self) -> OutboxLimits {
        self.limits
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were ever queued, and how many of them the socket took.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let state = self.lock();
        (state.total, state.total - state.bytes as u64)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().phase != Phase::Open
    }

    /// Queues all of `frames`, or, with `cap` bytes or more in the queue besides its longest frame, none.
    pub(crate) fn push(&self, frames: impl IntoIterator<Item = Bytes>, cap: usize) -> Sent {
        let mut state = self.lock();
        if state.phase != Phase::Open {
            return Sent::Gone;
        }
        if state.bytes >= cap.saturating_add(state.long) {
            return Sent::Overflow;
        }
        let before = state.bytes;
        let idle = before == 0;
        for frame in frames {
            state.bytes += frame.len();
            state.total += frame.len() as u64;
            state.frames.push_back(frame);
        }
        let len = state.bytes - before;
        if len >= self.limits.hard_cap / 2 {
            state.long = state.long.max(len);
        }
        self.bytes.store(state.bytes, Ordering::Relaxed);
        let crossed = state.bytes >= self.limits.high_water && !state.high;
        state.high |= crossed;
        drop(state);
        if idle {
            self.work.notify_one();
        }
        if crossed {
            Sent::HighWater
        } else {
            Sent::Queued
        }
    }

    /// Drops what is queued; nothing more is taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        state.frames.clear();
        state.bytes = 0;
        self.bytes.store(0, Ordering::Relaxed);
        drop(state);
        self.work.notify_one();
        self.room.notify_waiters();
    }

    /// Nothing more is taken; the writer ends when it has written what is queued.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Finishing;
        }
        drop(state);
        self.work.notify_one();
        self.room.notify_waiters();
    }

    /// Waits until fewer than `bytes` are queued; false if the connection closed first.
    pub(crate) async fn wait_below(&self, bytes: usize) -> bool {
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Registered before the check, so that a change between the two is not missed.
            room.as_mut().enable();
            {
                let state = self.lock();
                match state.phase {
                    Phase::Closed => return false,
                    _ if state.bytes < bytes => return true,
                    Phase::Open | Phase::Finishing => {}
                }
            }
            room.await;
        }
    }

    /// Moves all that is queued to the end of `batch`; false if there is nothing and never will be.
    fn take(&self, batch: &mut VecDeque<Bytes>) -> bool {
        let mut state = self.lock();
        if batch.is_empty() {
            std::mem::swap(batch, &mut state.frames);
        } else {
            batch.append(&mut state.frames);
        }
        match state.phase {
            Phase::Open => true,
            Phase::Finishing => !batch.is_empty(),
            Phase::Closed => false,
        }
    }

    /// Books what was written; true if the queue has just drained to low water.
    fn written(&self, bytes: usize) -> bool {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.bytes.store(state.bytes, Ordering::Relaxed);
        let low = state.bytes <= self.limits.low_water;
        let drained = low && state.high;
        state.high &= !drained;
        if low {
            state.long = 0;
        }
        drop(state);
        if low {
            self.room.notify_waiters();
        }
        drained
    }

    /// Writes the queue to `stream` until it is closed, or finished and empty. Calls `drained` each time the queue has
    /// fallen to low water.
    /// # Errors
    /// The peer is gone, or the socket broke. What is queued is dropped then, and nothing more is taken.
    pub(crate) async fn write_to<D, F>(&self, stream: &UnixStream, mut drained: D) -> io::Result<()>
    where
        D: FnMut() -> F,
        F: Future<Output = ()>,
    {
        let mut batch = VecDeque::new();
        loop {
            if !self.take(&mut batch) {
                return Ok(());
            }
            if batch.is_empty() {
                self.work.notified().await;
                continue;
            }
            match write_some(stream, &batch) {
                Ok(bytes) => {
                    advance(&mut batch, bytes);
                    if self.written(bytes) {
                        drained().await;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.writable().await?
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.close();
                    return Err(error);
                }
            }
        }
    }
}

fn write_some(stream: &UnixStream, batch: &VecDeque<Bytes>) -> io::Result<usize> {
    let mut slices = [IoSlice::new(&[]); WRITE_FRAMES_MAX];
    let mut count = 0;
    for (slice, frame) in slices.iter_mut().zip(batch) {
        *slice = IoSlice::new(frame);
        count += 1;
    }
    stream.try_write_vectored(&slices[..count])
}

/// Drops the first `bytes` of the batch.
fn advance(batch: &mut VecDeque<Bytes>, mut bytes: usize) {
    while let Some(first) = batch.front_mut() {
        if bytes < first.len() {
            first.advance(bytes);
            return;
        }
        bytes -= first.len();
        batch.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: OutboxLimits = OutboxLimits {
        low_water: 10,
        high_water: 20,
        hard_cap: 40,
    };

    fn bytes(len: usize) -> [Bytes; 1] {
        [Bytes::from(vec![7; len])]
    }

    #[test]
    fn high_water_and_drained_are_said_once_each_and_in_turn() {
        let outbox = Outbox::new(LIMITS);
        for _ in 0..3 {
            assert_eq!(outbox.push(bytes(19), 40), Sent::Queued);
            assert_eq!(outbox.push(bytes(1), 40), Sent::HighWater);
            assert_eq!(outbox.push(bytes(1), 40), Sent::Queued);
            assert!(!outbox.written(10));
            assert!(outbox.written(1));
            assert!(!outbox.written(10));
            assert_eq!(outbox.queued_bytes(), 0);
        }
    }

    #[test]
    fn the_hard_cap_refuses_and_keeps_what_is_there() {
        let outbox = Outbox::new(LIMITS);
        assert_eq!(outbox.push(bytes(39), 40), Sent::HighWater);
        assert_eq!(
            outbox.push(bytes(100), 40),
            Sent::Queued,
            "one frame may reach past the cap"
        );
        assert_eq!(
            outbox.push(bytes(1), 40),
            Sent::Queued,
            "and is nobody's end: the long one does not count"
        );
        assert_eq!(outbox.push(bytes(1), 40), Sent::Overflow);
        assert_eq!(outbox.queued_bytes(), 140);
        assert!(outbox.written(131));
        assert_eq!(outbox.push(bytes(18), 20), Sent::HighWater);
        assert_eq!(outbox.push(bytes(1), 20), Sent::Overflow);
        outbox.close();
        assert_eq!(
            (outbox.push(bytes(1), 40), outbox.queued_bytes()),
            (Sent::Gone, 0)
        );
    }

    #[test]
    fn a_partial_write_goes_on_where_it_stopped() {
        let mut batch: VecDeque<Bytes> = [
            Bytes::from_static(b"abc"),
            Bytes::from_static(b""),
            Bytes::from_static(b"def"),
        ]
        .into();
        advance(&mut batch, 2);
        assert_eq!(batch, [&b"c"[..], b"", b"def"]);
        advance(&mut batch, 1);
        advance(&mut batch, 1);
        assert_eq!(batch, [&b"ef"[..]]);
        advance(&mut batch, 2);
        assert!(batch.is_empty());
    }
}
