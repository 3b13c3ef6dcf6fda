//! As `bin/job-manager/src/reads.rs`, without threads: a read waits in its lane until the simulator runs it.

use router::PeerId;
use std::cell::RefCell;
use std::collections::VecDeque;
use store::Reader;

type Read<T> = Box<dyn FnOnce(&Reader) -> T>;
type Waiting<T> = VecDeque<(PeerId, Read<T>)>;

/// Which thread would do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Pages of a listener's backlog.
    Backlog,
    /// One job's data.
    Lookup,
    /// The `J` of a job that is to be started.
    Start,
    /// Whether a job is gone whose files are to be removed.
    Sweep,
}

/// The lanes.
pub(crate) struct Reads<T> {
    lanes: RefCell<[Waiting<T>; 4]>,
    reads_max: usize,
}

impl<T> Reads<T> {
    pub(crate) fn new(reads_max: usize) -> Reads<T> {
        Reads {
            lanes: RefCell::default(),
            reads_max,
        }
    }

    /// Gives a lane something to read; false if it has too much to do already.
    #[must_use]
    pub(crate) fn ask(
        &self,
        lane: Lane,
        of: PeerId,
        read: impl FnOnce(&Reader) -> T + 'static,
    ) -> bool {
        let mut lanes = self.lanes.borrow_mut();
        let waiting = &mut lanes[lane as usize];
        let room = waiting.len() < self.reads_max;
        if room {
            waiting.push_back((of, Box::new(read)));
        }
        room
    }

    /// How many wait in a lane.
    pub(crate) fn len(&self, lane: Lane) -> usize {
        self.lanes.borrow()[lane as usize].len()
    }

    /// Does the next read of a lane.
    pub(crate) fn run(&self, lane: Lane, reader: &Reader) -> Option<T> {
        let read = self.lanes.borrow_mut()[lane as usize].pop_front();
        read.map(|(_, read)| read(reader))
    }

    /// A connection is gone: nobody waits for what it asked.
    pub(crate) fn forget(&self, of: PeerId) {
        for lane in self.lanes.borrow_mut().iter_mut() {
            lane.retain(|(other, _)| *other != of);
        }
    }
}
