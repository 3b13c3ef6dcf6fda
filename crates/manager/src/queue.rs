//! Jobs awaiting resources, best first: priority descending, then id ascending.
//!
//! ```text
//!  waiting ──offered──▶ live ──granted──▶ (runs)
//!     ▲                  │ sched.cancel
//!     └──type 3──── returning
//! ```
//! A job in SCHED is in exactly one of the three; where it is, its record says ([`crate::record::Place`]). Every move is O(log n). The held
//! ones (priority 0) are last in `waiting` and never offered.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use job::JobId;

use crate::record::Place;

/// Place of a job in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// Higher goes first; 0 is held.
    pub(crate) priority: u32,
    /// Lower goes first.
    pub(crate) id: JobId,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        other
            .priority
            .cmp(&self.priority)
            .then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The three ordered sets.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Not with the scheduler.
    pub(crate) waiting: BTreeSet<Key>,
    /// Offered, unanswered.
    pub(crate) live: BTreeSet<Key>,
    /// Taken back, not yet confirmed.
    pub(crate) returning: BTreeSet<Key>,
}

impl Queue {
    /// Moves a job from one place to another.
    pub(crate) fn shift(&mut self, id: JobId, from: Place, to: Place) {
        if from == to {
            return;
        }
        if let Some((set, priority)) = self.set(from) {
            set.remove(&Key { priority, id });
        }
        if let Some((set, priority)) = self.set(to) {
            set.insert(Key { priority, id });
        }
    }

    fn set(&mut self, place: Place) -> Option<(&mut BTreeSet<Key>, u32)> {
        match place {
            Place::Nowhere => None,
            Place::Waiting(priority) => Some((&mut self.waiting, priority)),
            Place::Live(priority) => Some((&mut self.live, priority)),
            Place::Returning(priority) => Some((&mut self.returning, priority)),
        }
    }

    /// How many jobs are in SCHED.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.live.len() + self.returning.len()
    }

    /// The best job that may be offered.
    pub(crate) fn best(&self) -> Option<Key> {
        self.waiting.first().copied().filter(|key| key.priority > 0)
    }

    /// Live jobs that have to make room, worst first, so that with `coming` more places (those being taken back) the best jobs have them all.
    pub(crate) fn displaced(&self, coming: usize) -> Vec<Key> {
        let (Some(best), Some(worst)) = (self.best(), self.live.last()) else {
            return Vec::new();
        };
        if best > *worst {
            return Vec::new();
        }
        let offerable = self.waiting.iter().take_while(|key| key.priority > 0);
        let heirs = merged(
            offerable,
            self.returning.iter().take_while(|key| key.priority > 0),
        );
        let pairs = heirs.skip(coming).zip(self.live.iter().rev());
        pairs
            .take_while(|(heir, victim)| heir < victim)
            .map(|(_, victim)| *victim)
            .collect()
    }

    /// All jobs in SCHED in order.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = &Key> {
        merged(
            self.waiting.iter(),
            merged(self.live.iter(), self.returning.iter()),
        )
    }
}

/// Two ascending sequences as one.
fn merged<'a>(
    left: impl Iterator<Item = &'a Key>,
    right: impl Iterator<Item = &'a Key>,
) -> impl Iterator<Item = &'a Key> {
    let (mut left, mut right) = (left.peekable(), right.peekable());
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(a), Some(b)) if a > b => right.next(),
        (Some(_), _) => left.next(),
        (None, _) => right.next(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(waiting: &[(u32, u64)], live: &[(u32, u64)], returning: &[(u32, u64)]) -> Queue {
        let mut queue = Queue::default();
        for (jobs, place) in [
            (waiting, Place::Waiting as fn(u32) -> Place),
            (live, Place::Live),
            (returning, Place::Returning),
        ] {
            for (priority, id) in jobs {
                queue.shift(JobId(*id), Place::Nowhere, place(*priority));
            }
        }
        queue
    }

    fn ids<'a>(keys: impl IntoIterator<Item = &'a Key>) -> Vec<u64> {
        keys.into_iter().map(|key| key.id.0).collect()
    }

    #[test]
    fn the_order_is_priority_descending_then_id_ascending() {
        let queue = queue(&[(16, 5), (16, 3), (0, 1)], &[(u32::MAX, 9)], &[(20, 7)]);
        assert_eq!(ids(queue.ordered()), [9, 7, 3, 5, 1]);
        assert_eq!(queue.best().unwrap().id, JobId(3));
        assert_eq!(queue.len(), 5);
    }

    #[test]
    fn held_jobs_are_never_offered() {
        assert_eq!(queue(&[(0, 1)], &[], &[]).best(), None);
        assert!(queue(&[(0, 1)], &[(0, 2)], &[]).displaced(0).is_empty());
    }

    #[test]
    fn the_worst_offers_make_room_for_better_jobs_and_for_no_more_than_are_better() {
        let live = [(16, 1), (16, 2), (16, 3)];
        assert!(queue(&[(16, 4)], &live, &[]).displaced(0).is_empty());
        assert_eq!(ids(&queue(&[(31, 9)], &live, &[]).displaced(0)), [3]);
        assert_eq!(
            ids(&queue(&[(31, 8), (31, 9), (16, 4)], &live, &[]).displaced(0)),
            [3, 2]
        );
        assert_eq!(
            ids(&queue(&[(31, 6), (31, 7), (31, 8), (31, 9)], &live, &[]).displaced(0)),
            [3, 2, 1]
        );
        // A place that is coming free serves the first of them; a returning job that is better has it instead.
        assert!(queue(&[(31, 9)], &live, &[(16, 4)]).displaced(1).is_empty());
        assert_eq!(ids(&queue(&[(31, 9)], &live, &[(31, 4)]).displaced(1)), [3]);
        assert_eq!(
            ids(&queue(&[(31, 8), (31, 9)], &live, &[(16, 4)]).displaced(1)),
            [3]
        );
    }
}
