//! Copies the WAL into the main file, beside the writer: a thread with a connection of its own, so that no commit waits for 16 MiB to be
//! written and synced.
//!
//! ```text
//! writer: WAL long ─► thread: copies what is there ─► writer: what came meanwhile is little ─► copies that itself: the WAL begins anew
//!                                                        └ still much ─► thread again
//! ```
//! SQLite lets one connection append to a WAL while another copies from it; it begins anew only when all of it is copied.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// Pages that the writer copies itself.
const REST_PAGES_MAX: i32 = 256;

/// What the two threads share.
#[derive(Debug, Default)]
struct Shared {
    busy: AtomicBool,
    /// Pages of the WAL that are in the main file.
    copied: AtomicI32,
    failed: Mutex<Option<rusqlite::Error>>,
}

/// The thread's handle; dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    order: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

impl Checkpointer {
    /// # Errors
    /// The file cannot be opened once more, or there are no threads to be had.
    pub(crate) fn start(file: &Path) -> Result<Self, rusqlite::Error> {
        let db = Connection::open(file)?;
        db.busy_timeout(std::time::Duration::ZERO)?;
        let (order, orders) = sync_channel::<()>(1);
        let shared = Arc::new(Shared::default());
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("store-checkpoint".into())
                .spawn(move || {
                    while orders.recv().is_ok() {
                        match passive(&db) {
                            Ok(copied) => shared.copied.store(copied, Ordering::Release),
                            Err(error) => {
                                let mut failed =
                                    shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
                                *failed = Some(error);
                            }
                        }
                        shared.busy.store(false, Ordering::Release);
                    }
                })
                // The writer copies everything itself then.
                .ok()
        };
        Ok(Self {
            order: thread.as_ref().map(|_| order),
            thread,
            shared,
        })
    }

    /// The WAL has so many pages: has them copied; true if what is left is for the writer.
    /// # Errors
    /// The copy before this one failed.
    pub(crate) fn wants_rest(&self, pages: i32) -> Result<bool, rusqlite::Error> {
        let Some(order) = &self.order else {
            return Ok(true);
        };
        if self.shared.busy.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut failed = self
            .shared
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed.take() {
            return Err(error);
        }
        if pages - self.shared.copied.load(Ordering::Acquire) <= REST_PAGES_MAX {
            return Ok(true);
        }
        self.shared.busy.store(true, Ordering::Release);
        Ok(order.try_send(()).is_err())
    }

    /// The WAL begins anew.
    pub(crate) fn begun_anew(&self) {
        self.shared.copied.store(0, Ordering::Release);
    }
}

/// Copies what can be copied without waiting for anybody; how many pages of the WAL are in the main file then.
pub(crate) fn passive(db: &Connection) -> Result<i32, rusqlite::Error> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.order.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's checkpoints ended by a panic");
        }
    }
}
