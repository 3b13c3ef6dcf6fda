//! A file that does nothing but take up room: `STATEDIR/reserve`. When the disk is full it is let go, and what is under way has room to
//! end; when it can be made again, there is room again.
//!
//! ```text
//! made at open ─► a commit finds no room ─► let go ─► commits go on in its room ─► made again: there is room
//!      └ cannot be made: there is none           └ used up too: what is under way does not fit
//! ```
//! Its size is [`RESERVE_MAX`], or a sixteenth of the file system if that is less. The WAL is kept shorter than that: so the room that is
//! let go is enough to copy it into the main file, and from then on commits go where it was. Without that a full disk could be so for
//! ever: what a purge frees is freed in the main file only. A store with a limit of pages of its own keeps as large a
//! part of them back instead.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};

/// Bytes kept back.
pub(crate) const RESERVE_MAX: u64 = 24 << 20;
/// The part of a file system that is kept back, if that is less.
const RESERVE_PART: u64 = 16;
/// Pages kept back of a store with a limit of its own: this part of them.
const PAGES_PART: u32 = 8;
/// And at most so many.
const PAGES_MAX: u32 = 2048;
/// Free bytes beyond the reserve before it is made again, as a part of it; so that one commit does not use up what was just gained.
const MARGIN_PART: u64 = 4;

/// The reserve of one state directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    held: bool,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(statedir: &Path) -> Self {
        let path = statedir.join(crate::RESERVE_NAME);
        let held = path.exists();
        Self {
            path,
            held,
            bytes: RESERVE_MAX,
        }
    }

    /// How much is kept back, now or when there is room again.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the room is kept back now.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Lets the room go; false if there was none.
    pub(crate) fn let_go(&mut self) -> bool {
        let was = std::mem::take(&mut self.held);
        match std::fs::remove_file(&self.path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::error!(path = %self.path.display(), %error, "the reserve cannot be let go");
                }
                was
            }
        }
    }

    /// Takes the room, if it is there; `again`: only with some more beside it. What is wrong otherwise is no reason to stop: it is told in
    /// the log, and the store goes on without.
    pub(crate) fn take(&mut self, again: bool) -> bool {
        match self.make(again) {
            Ok(made) => self.held = made,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "no reserve for a full disk can be made");
                self.held = true;
            }
        }
        if !self.held {
            let _ = std::fs::remove_file(&self.path);
        }
        self.held
    }

    fn make(&mut self, again: bool) -> std::io::Result<bool> {
        let full = |error: &std::io::Error| {
            matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            )
        };
        let file = match File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)
        {
            Err(error) if full(&error) => return Ok(false),
            file => file?,
        };
        let disk = fstatvfs(&file)?;
        let bytes = (disk.f_blocks.saturating_mul(disk.f_frsize) / RESERVE_PART).min(RESERVE_MAX);
        self.bytes = bytes;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if again && free < bytes + bytes / MARGIN_PART {
            return Ok(false);
        }
        if file.metadata()?.len() == bytes {
            return Ok(true);
        }
        file.set_len(0)?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(std::io::Error::from) {
            Ok(()) => Ok(true),
            Err(error) if full(&error) => Ok(false),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Unsupported | ErrorKind::InvalidInput
                ) =>
            {
                match written(file, bytes) {
                    Err(error) if full(&error) => Ok(false),
                    written => written.map(|()| true),
                }
            }
            Err(error) => Err(error),
        }
    }
}

/// For a file system that knows no other way to give room.
fn written(mut file: File, bytes: u64) -> std::io::Result<()> {
    let zeros = [0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
        file.write_all(&zeros[..part])?;
        left -= part as u64;
    }
    file.sync_all()
}

/// Pages that a store with a limit of its own keeps back.
pub(crate) fn pages(limit: u32) -> u32 {
    (limit / PAGES_PART).min(PAGES_MAX)
}
