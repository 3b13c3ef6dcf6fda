//! What still goes on when the disk is full, or too far behind.
//!
//! Requests that change something are refused before they are decided; reads go on. Engines report what has already happened, so their
//! reports are taken, up to a bound; beyond it the engine's connection is closed, and its next hello has it report again.
//!
//! A full disk is met by a commit that it does not take. What that commit holds was applied and may never be stored, so nothing that
//! shows it may be told; but nobody is to wait for room to hear that there is none. See [`WithoutRoom`].

use protocol::method::Method;
use wire::errno;

use crate::action::{Action, Refusal};
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
        if self.pending.answers() >= HELD_CHANGES_MAX {
            return Err(Refusal::new(
                errno::EAGAIN,
                "too many changes wait for the disk: try again",
            ));
        }
        Ok(())
    }
}

/// What becomes of an action that waits for a disk that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutRoom {
    /// It goes on waiting: it rests on what may never be stored, or has to keep its place.
    Waits,
    /// It is said as it is: it rests on nothing that is stored.
    Said,
    /// An answer that would show what is not stored: refused.
    Refused,
}

impl WithoutRoom {
    /// For the answer to a request. Refusals of what is malformed, not allowed or not to be stored rest on nothing, nor do counters and
    /// clocks. What shows the state of jobs or queues cannot be told. An engine's hello, a signal and a wait have to keep their place.
    pub(crate) fn of(method: Option<Method>, decided: &Result<Answer, Refusal>) -> WithoutRoom {
        match (method, decided) {
            (None | Some(Method::Submit), Err(_)) => WithoutRoom::Said,
            (_, Err(refusal)) if rests_on_nothing(refusal.errnum) => WithoutRoom::Said,
            (Some(Method::StatsGet | Method::QueueList | Method::IngestGetinfo), Ok(_)) => {
                WithoutRoom::Said
            }
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
            ) => WithoutRoom::Refused,
            _ => WithoutRoom::Waits,
        }
    }

    /// What is said in place of an action; `None` = it waits.
    pub(crate) fn said(self, action: &Action) -> Option<Action> {
        match (self, action) {
            (WithoutRoom::Said, action) => Some(action.clone()),
            (WithoutRoom::Refused, Action::Respond { token, .. }) => Some(Action::Respond {
                token: *token,
                result: Err(Refusal::new(errno::EAGAIN, NOT_STORED)),
                last: true,
            }),
            (WithoutRoom::Waits | WithoutRoom::Refused, _) => None,
        }
    }
}

const NOT_STORED: &str =
    "the disk with the state directory is full, and what happened last is not on it: try again";

fn rests_on_nothing(errnum: u32) -> bool {
    matches!(
        errnum,
        errno::ENOSPC | errno::EPROTO | errno::EPERM | errno::ENOSYS
    )
}
