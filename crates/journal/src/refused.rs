//! Why a stream is not begun or not continued: the errno and the text that go to the client.

use job::Seq;

/// `ESTALE`: the cursor means nothing here any more.
const ESTALE: u32 = 116;
/// `EAGAIN`: there are as many listeners as may be.
const EAGAIN: u32 = 11;
/// `EIO`: the store cannot be read.
const EIO: u32 = 5;
/// `EEXIST`: the shell used an id twice.
const EEXIST: u32 = 17;

/// A refusal; [`Refused::errnum`] and its text are what the client gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The cursor is of another epoch, ahead of the newest entry, or below the floor.
    #[error(
        "cursor {after}{} cannot be continued: this journal (epoch {epoch}) holds {}; read it again with from \"all\" or \"active\"",
        of.as_ref().map_or_else(String::new, |epoch| format!(" of epoch {epoch}")),
        held(*floor, *newest)
    )]
    Stale {
        /// The cursor.
        after: Seq,
        /// Its epoch, if the request named one.
        of: Option<String>,
        /// Our epoch.
        epoch: String,
        /// The newest seq that is gone.
        floor: Seq,
        /// The newest durable seq.
        newest: Seq,
    },
    /// There are [`crate::Limits::listeners`] already.
    #[error("the journal has {max} listeners, as many as it may: try again later")]
    TooMany {
        /// How many that is.
        max: usize,
    },
    /// The listener's id is in use.
    #[error("listener {id} is there already")]
    Twice {
        /// The id.
        id: u64,
    },
    /// The store could not be read.
    #[error("cannot read the journal: {detail}")]
    Unreadable {
        /// What the store says.
        detail: String,
    },
}

fn held(floor: Seq, newest: Seq) -> String {
    if newest <= floor {
        format!("nothing after {floor}")
    } else {
        format!("{} to {newest}", floor.next())
    }
}

impl Refused {
    /// The errno that goes with the text.
    #[must_use]
    pub fn errnum(&self) -> u32 {
        match self {
            Self::Stale { .. } => ESTALE,
            Self::TooMany { .. } => EAGAIN,
            Self::Twice { .. } => EEXIST,
            Self::Unreadable { .. } => EIO,
        }
    }
}
