//! What still goes on when the disk is full, or too far behind.
//!
//! Requests that change something are refused before they are decided; reads go on. Engines report what has already happened, so their
//! reports are taken, up to a bound; beyond it the engine's connection is closed, and its next hello has it report again.

use wire::errno;

use crate::action::Refusal;
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
}
