//! What still goes on when the disk is full, or too far behind.
//!
//! Requests that change something are refused before they are decided; reads go on. Engines report what has already happened, so their
//! reports are taken, up to a bound; beyond it the engine's connection is closed, and its next hello has it report again.
//!
//! A full disk is met by a commit that it does not take. What that commit holds was applied and may never be stored, so nothing that
//! shows it may be told; but nobody is to wait for room to hear that there is none. See [`Manager::said_without_room`].

use protocol::method::Method;
use wire::errno;

use crate::action::Refusal;
use crate::decide::Answer;
use crate::manager::Manager;
use crate::pending::HELD_CHANGES_MAX;

/// So many reports are taken while the store has no room.
pub const REPORTS_MAX: usize = 4096;

impl Manager {
    /// Whether a request that changes something may be decided now.
    /// # Errors
    /// ENOSPC without room, EAGAIN with too much undurable. Both may be retried.
    pub(crate) fn may_change(&self) -> Result<(), Refusal> {
        if self.no_space.is_some() {
            return Err(Refusal::new(
                errno::ENOSPC,
                "the disk with the state directory is full: changes are refused until there is room",
            ));
        }
        if self.pending.len() >= HELD_CHANGES_MAX {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many changes wait for the disk: try again",
            ));
        }
        Ok(())
    }

    /// Whether something was applied that the full disk has not taken.
    fn is_stuck(&self) -> bool {
        self.no_space.is_some() && self.pending.newest_durable() < self.seq
    }

    /// What is said at once in place of an answer that would wait for room; `None` = it waits, as it does for a disk that has room.
    ///
    /// Refusals of what is malformed, not allowed or not to be stored rest on nothing, nor do counters and clocks. What shows the state of
    /// jobs or queues cannot be told. An engine's hello, a signal and a wait have to keep their place.
    pub(crate) fn said_without_room(
        &self,
        method: Option<Method>,
        decided: &Result<Answer, Refusal>,
    ) -> Option<Result<Option<bytes::Bytes>, Refusal>> {
        if !self.is_stuck() {
            return None;
        }
        match (method, decided) {
            (None | Some(Method::Submit), Err(refusal)) => Some(Err(refusal.clone())),
            (_, Err(refusal)) if rests_on_nothing(refusal.errnum) => Some(Err(refusal.clone())),
            (
                Some(Method::StatsGet | Method::QueueList | Method::IngestGetinfo),
                Ok(Answer::Json(json)),
            ) => Some(Ok(Some(json.clone()))),
            (
                Some(
                    Method::List
                    | Method::Getinfo
                    | Method::HistoryGet
                    | Method::QueueStatus
                    | Method::AllocQuery
                    | Method::ResourceStatus,
                ),
                _,
            ) => Some(Err(Refusal::new(
                errno::EAGAIN,
                "the disk with the state directory is full, and what happened last is not on it: try again",
            ))),
            _ => None,
        }
    }
}

fn rests_on_nothing(errnum: u32) -> bool {
    matches!(
        errnum,
        errno::ENOSPC | errno::EPROTO | errno::EPERM | errno::ENOSYS
    )
}
