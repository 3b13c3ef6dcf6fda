//! The writer: a queue, a transaction under way, what it tells. What becomes of a transaction is said by the simulator.
//!
//! ```text
//!  try_submit ─▶ queue ── begin ─▶ under way ─┬─ commit ──▶ Model, Durable
//!                                             ├─ no space ▶ NoSpace(true), then the reserve: so many transactions more, then OutOfRoom
//!                                             ├─ fail ────▶ Fatal: the daemon must end
//!                                             └─ crash ───▶ a prefix of what was handed over is in the Model, the rest is gone
//! ```

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;

use store::{Batch, Event};

use crate::model::Model;
use crate::reader::Reader;

/// A batch handed back.
#[derive(Debug)]
pub enum Rejected {
    /// The queue is full.
    Full(Batch),
    /// The writer has ended.
    Closed(Batch),
}

/// Batches that could not be stored before the writer was closed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("no space: {batches} batches were not stored")]
pub struct Unwritten {
    /// How many.
    pub batches: usize,
}

#[derive(Debug)]
struct State {
    model: Model,
    /// Which life of the daemon writes.
    life: u64,
    queue_max: usize,
    queue: VecDeque<Batch>,
    under_way: Vec<Batch>,
    full: bool,
    /// Transactions that fit although the disk is full.
    reserve: usize,
    told_full: bool,
    halted: bool,
    failed: bool,
    events: VecDeque<Event>,
}

/// What survives every crash; clones share it.
#[derive(Debug, Clone)]
pub struct Disk(Rc<RefCell<State>>);

impl Disk {
    /// A new store whose writer's queue takes `queue_max` batches.
    #[must_use]
    pub fn new(epoch: String, queue_max: usize) -> Disk {
        Disk(Rc::new(RefCell::new(State {
            model: Model::new(epoch),
            life: 0,
            queue_max,
            queue: VecDeque::new(),
            under_way: Vec::new(),
            full: false,
            reserve: 0,
            told_full: false,
            halted: false,
            failed: false,
            events: VecDeque::new(),
        })))
    }

    /// What is committed.
    #[must_use]
    pub fn model(&self) -> Ref<'_, Model> {
        Ref::map(self.0.borrow(), |state| &state.model)
    }

    /// What is committed, to be changed while no daemon runs.
    #[must_use]
    pub fn model_mut(&self) -> RefMut<'_, Model> {
        RefMut::map(self.0.borrow_mut(), |state| &mut state.model)
    }

    /// Opens it.
    #[must_use]
    pub fn open(&self) -> Writer {
        let mut state = self.0.borrow_mut();
        state.life += 1;
        let life = state.life;
        state.halted = state.full;
        if state.full {
            state.told_full = true;
            state.reserve = 0;
            state.events.push_back(Event::NoSpace(true));
        }
        drop(state);
        Writer {
            disk: self.clone(),
            life,
        }
    }

    /// A reader.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }

    /// The daemon is gone; of the batches it had handed over, the first `kept` are in the store.
    pub fn crash(&self, kept: usize) {
        let mut state = self.0.borrow_mut();
        let mut left: Vec<Batch> = std::mem::take(&mut state.under_way);
        left.extend(std::mem::take(&mut state.queue));
        for batch in left.iter().take(kept) {
            if state.model.apply(batch).is_err() {
                break;
            }
        }
        state.life += 1;
        (state.told_full, state.halted, state.failed) = (false, false, false);
        state.events.clear();
    }

    /// Batches handed over and not committed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        let state = self.0.borrow();
        state.under_way.len() + state.queue.len()
    }

    /// Whether a transaction is under way.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        !self.0.borrow().under_way.is_empty()
    }

    /// Whether one could begin.
    #[must_use]
    pub fn can_begin(&self) -> bool {
        let state = self.0.borrow();
        state.under_way.is_empty() && !state.queue.is_empty() && !state.failed
    }

    /// Begins a transaction with up to `batches` of what is queued.
    pub fn begin(&self, batches: usize) {
        let mut state = self.0.borrow_mut();
        if state.under_way.is_empty() && !state.failed {
            let count = batches.min(state.queue.len());
            let taken: Vec<Batch> = state.queue.drain(..count).collect();
            state.under_way = taken;
        }
    }

    /// Whether there is no space; `reserve` transactions fit all the same.
    pub fn set_full(&self, full: bool, reserve: usize) {
        let mut state = self.0.borrow_mut();
        state.full = full;
        state.reserve = reserve;
    }

    /// Whether there is space again, and the daemon was not told.
    #[must_use]
    pub fn has_room_again(&self) -> bool {
        let state = self.0.borrow();
        state.told_full && !state.full && !state.failed
    }

    /// The writer looks whether there is space again.
    pub fn look_for_room(&self) {
        let mut state = self.0.borrow_mut();
        if state.told_full && !state.full && !state.failed {
            (state.told_full, state.halted) = (false, false);
            state.events.push_back(Event::NoSpace(false));
        }
    }

    /// How many of the batches in flight a crash may leave in the store.
    #[must_use]
    pub fn may_keep(&self) -> usize {
        let state = self.0.borrow();
        let in_flight = state.under_way.len() + state.queue.len();
        if state.full {
            in_flight.min(state.reserve)
        } else {
            in_flight
        }
    }

    /// Whether there is no space.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// The transaction comes to its end: committed, or met by a full disk.
    pub fn end(&self) {
        let mut state = self.0.borrow_mut();
        if state.under_way.is_empty() || state.failed {
            return;
        }
        if state.full {
            if !state.told_full {
                state.told_full = true;
                state.events.push_back(Event::NoSpace(true));
            }
            if state.reserve == 0 {
                state.failed = true;
                state.events.push_back(Event::OutOfRoom);
                return;
            }
            state.reserve -= 1;
        }
        let batches = std::mem::take(&mut state.under_way);
        for batch in &batches {
            if let Err(gap) = state.model.apply(batch) {
                state.failed = true;
                state.events.push_back(Event::Fatal(gap.to_string()));
                return;
            }
        }
        let seq = state.model.newest();
        state.events.push_back(Event::Durable {
            seq,
            commit_micros: 100,
            batches: batches.len(),
        });
    }

    /// The disk breaks under the transaction: nothing of it is kept for now, and the writer has ended.
    pub fn fail(&self) {
        let mut state = self.0.borrow_mut();
        state.failed = true;
        let text = "input/output error".to_owned();
        state.events.push_back(Event::Fatal(text));
    }

    /// What the writer told next.
    #[must_use]
    pub fn next_event(&self) -> Option<Event> {
        self.0.borrow_mut().events.pop_front()
    }

    /// Whether it told something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.0.borrow().events.is_empty()
    }
}

/// As `store::Writer`.
#[derive(Debug)]
pub struct Writer {
    disk: Disk,
    life: u64,
}

impl Writer {
    /// Hands a batch over, or gets it back.
    /// # Errors
    /// [`Rejected`].
    pub fn try_submit(&self, batch: Batch) -> Result<(), Rejected> {
        let mut state = self.disk.0.borrow_mut();
        if state.life != self.life || state.failed {
            return Err(Rejected::Closed(batch));
        }
        if state.queue.len() >= state.queue_max {
            return Err(Rejected::Full(batch));
        }
        state.queue.push_back(batch);
        Ok(())
    }

    /// Whether the disk was full when this was opened, and is.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.disk.0.borrow().halted
    }

    /// Stores what was handed over, if there is space.
    /// # Errors
    /// [`Unwritten`].
    pub fn close(self) -> Result<(), Unwritten> {
        let batches = self.disk.in_flight();
        if self.disk.is_full() && batches > 0 {
            return Err(Unwritten { batches });
        }
        Ok(())
    }
}
