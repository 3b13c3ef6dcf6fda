//! What waits for the disk: answers, messages to engines and events to subscribers, in the order they were decided.
//!
//! Invariant 2 lives here: an action leaves only when every entry applied before it was decided is durable. Refusals and reads go through
//! as well, so nothing overtakes anything. Bounds are checked by the caller before it decides: answers, of which a request has one, are
//! counted apart from the messages that a request makes, of which it may make one for every job.

use std::collections::VecDeque;

use job::Seq;

use crate::action::Action;
use crate::no_space::WithoutRoom;

/// So many held answers, and changing requests are refused with EAGAIN until the disk has caught up.
pub const HELD_CHANGES_MAX: usize = 1 << 16;
/// So many, and all requests are. Reports of engines are taken on: their number is bounded by what the engines were asked.
pub const HELD_MAX: usize = 1 << 17;
/// So many held messages, and requests that may make one for every job are refused.
pub const HELD_MADE_MAX: usize = 1 << 18;

/// A first-in first-out queue of actions and the seqs they rest on.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    held: VecDeque<(Seq, Action, WithoutRoom)>,
    /// How many of them are messages, see [`is_made`].
    made: usize,
    durable: Seq,
}

/// Whether it is a message that came of a request, and not its answer.
fn is_made(action: &Action) -> bool {
    matches!(
        action,
        Action::Publish { .. }
            | Action::Request { .. }
            | Action::Start { .. }
            | Action::Respond { last: false, .. }
    )
}

impl Pending {
    /// Starts with everything up to `durable` on disk.
    pub(crate) fn new(durable: Seq) -> Pending {
        Pending {
            held: VecDeque::new(),
            made: 0,
            durable,
        }
    }

    /// Passes on at once what rests on durable entries, keeps the rest.
    pub(crate) fn give(
        &mut self,
        rests_on: Seq,
        action: Action,
        without_room: WithoutRoom,
        out: &mut Vec<Action>,
    ) {
        #[cfg(feature = "sabotage")]
        if crate::sabotage::is(crate::sabotage::Sabotage::FsyncWait) {
            return out.push(action);
        }
        if rests_on <= self.durable && self.held.is_empty() {
            out.push(action);
        } else {
            self.made += usize::from(is_made(&action));
            self.held.push_back((rests_on, action, without_room));
        }
    }

    /// The disk is full: what need not wait for room is said now, in its order.
    pub(crate) fn no_room(&mut self, out: &mut Vec<Action>) {
        self.held.retain(|(_, action, without_room)| {
            let said = without_room.said(action);
            let waits = said.is_none();
            out.extend(said);
            waits
        });
        let made = self.held.iter().filter(|(_, action, _)| is_made(action));
        self.made = made.count();
    }

    /// Everything up to `seq` is durable: passes on what rested on it.
    pub(crate) fn durable(&mut self, seq: Seq, out: &mut Vec<Action>) {
        self.durable = self.durable.max(seq);
        while self
            .held
            .front()
            .is_some_and(|(rests_on, ..)| *rests_on <= self.durable)
        {
            if let Some((_, action, _)) = self.held.pop_front() {
                self.made -= usize::from(is_made(&action));
                out.push(action);
            }
        }
        if self.held.is_empty() && self.held.capacity() > HELD_MAX {
            self.held = VecDeque::new();
        }
    }

    /// The newest seq told durable.
    pub(crate) fn newest_durable(&self) -> Seq {
        self.durable
    }

    /// How many messages are held that requests and reports made.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// How many answers are held, and whatever else there is one of a request.
    pub(crate) fn answers(&self) -> usize {
        self.held.len() - self.made
    }

    /// How many actions are held.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

const _: () = assert!(HELD_CHANGES_MAX < HELD_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Token;

    fn ready(n: u64) -> Action {
        Action::Ready(Token(n))
    }

    fn tokens(out: &[Action]) -> Vec<u64> {
        out.iter()
            .filter_map(|action| {
                if let Action::Ready(Token(n)) = action {
                    Some(*n)
                } else {
                    None
                }
            })
            .collect()
    }

    #[test]
    fn invariant_2_nothing_leaves_before_its_seq_is_durable_and_nothing_overtakes() {
        let mut pending = Pending::new(Seq(4));
        let mut out = Vec::new();
        let give = |pending: &mut Pending, seq, n, out: &mut Vec<Action>| {
            pending.give(Seq(seq), ready(n), WithoutRoom::Waits, out);
        };
        give(&mut pending, 4, 1, &mut out);
        assert_eq!(tokens(&out), [1]);
        give(&mut pending, 6, 2, &mut out);
        give(&mut pending, 4, 3, &mut out); // decided later: must not overtake
        give(&mut pending, 9, 4, &mut out);
        assert_eq!(tokens(&out), [1]);
        pending.durable(Seq(5), &mut out);
        assert_eq!(tokens(&out), [1]);
        pending.durable(Seq(8), &mut out);
        assert_eq!(tokens(&out), [1, 2, 3]);
        pending.durable(Seq(7), &mut out); // an old word changes nothing
        assert_eq!(pending.len(), 1);
        pending.durable(Seq(9), &mut out);
        assert_eq!(tokens(&out), [1, 2, 3, 4]);
    }
}
