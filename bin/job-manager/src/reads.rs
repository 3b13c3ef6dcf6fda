//! Reads of the store, off the loop: four threads, so that a look-up never waits behind a listener's backlog, the start of a job
//! behind neither, and nothing behind the removal of files.
//!
//! A read is a closure over a [`Reader`]; what it found comes back to the loop through one bounded channel. Each lane takes a bounded number of
//! reads; more are refused, and the caller says EAGAIN or asks again later.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use store::{Reader, ReaderFactory};
use tokio::sync::mpsc;

/// Reads that may wait in one lane. A listener has one at a time, so that there is room for all of them.
pub(crate) const LANE_READS_MAX: usize = 16_384;
const _: () = assert!(LANE_READS_MAX >= journal::limits::LISTENERS_MAX);
/// Answers that may wait for the loop: pages are large.
const FOUND_MAX: usize = 64;

/// A read to do; returns what the loop is to be told.
type Read<T> = Box<dyn FnOnce(&Reader) -> T + Send>;

/// Which thread does it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lane {
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
    backlog: SyncSender<Read<T>>,
    lookup: SyncSender<Read<T>>,
    start: SyncSender<Read<T>>,
    sweep: SyncSender<Read<T>>,
}

impl<T: Send + 'static> Reads<T> {
    /// Starts the threads; the receiver gets what they find.
    /// # Errors
    /// A reader or a thread cannot be had.
    pub(crate) fn start(readers: &ReaderFactory) -> anyhow::Result<(Reads<T>, mpsc::Receiver<T>)> {
        let (found, receiver) = mpsc::channel(FOUND_MAX);
        let lane = |name: &str| -> anyhow::Result<SyncSender<Read<T>>> {
            let (sender, reads) = sync_channel::<Read<T>>(LANE_READS_MAX);
            let (reader, found) = (readers.open()?, found.clone());
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    for read in reads {
                        if found.blocking_send(read(&reader)).is_err() {
                            return;
                        }
                    }
                })?;
            Ok(sender)
        };
        Ok((
            Reads {
                backlog: lane("read-backlog")?,
                lookup: lane("read-lookup")?,
                start: lane("read-start")?,
                sweep: lane("read-sweep")?,
            },
            receiver,
        ))
    }

    /// Gives a lane something to read; false if it has too much to do already.
    #[must_use]
    pub(crate) fn ask(&self, lane: Lane, read: impl FnOnce(&Reader) -> T + Send + 'static) -> bool {
        let sender = match lane {
            Lane::Backlog => &self.backlog,
            Lane::Lookup => &self.lookup,
            Lane::Start => &self.start,
            Lane::Sweep => &self.sweep,
        };
        !matches!(
            sender.try_send(Box::new(read)),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }
}
