//! The one thread that writes, and how it is fed.
//!
//! ```text
//! try_submit ─► queue (bounded) ─► take all that is there ─► one transaction ─► fsync ─► Durable ─► (checkpoint) ─► again
//!                                                              │ no space: rolled back, the reserve is let go, again
//!                                                              │ none in its place either: OutOfRoom, the thread ends
//!                                                              └ anything else: Fatal, the thread ends
//! ```
//!
//! Commits run back to back: no timer delays one, and what was handed over while one was under way goes into the next. A batch
//! handed over is never reordered and never dropped while the thread lives. The WAL is checkpointed after the Durable event of
//! a commit, so that the answers resting on it do not wait for the copy into the main file.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use job::Seq;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::apply::Gather;
use crate::batch::Batch;
use crate::blobs::Blobs;
use crate::checkpoint::{self, Checkpointer};
use crate::error::{OpenError, is_full};
use crate::examine::beside;
use crate::gone::Gone;
use crate::lock::DirLock;
use crate::opening::{INCREMENTAL, Opened, StoreOptions, WAL_PAGES_MAX, open_file, sync};
use crate::reader::ReaderFactory;
use crate::recover::{Doubts, Recovered, open_error};
use crate::removal;
use crate::reserve::{self, Reserve};
use crate::rows::id_to_sql;
use crate::traces::{Mark, Marker};
use crate::wal;

/// Batches that may wait for the writer; more are handed back.
pub const QUEUE_BATCHES_MAX: usize = 1024;
/// One transaction takes batches until it holds this many entries (a larger batch goes alone).
pub const TRANSACTION_ENTRIES_MAX: usize = 8192;
/// So long room is waited for once the reserve is used up: somebody may be removing files.
const ROOM_WAIT: Duration = Duration::from_millis(1500);
/// How often is looked whether there is room again.
const ROOM_PROBE: Duration = Duration::from_millis(250);
/// Pages of the WAL after which it is copied at the earliest, see [`Run::wal_pages_max`].
const WAL_PAGES_MIN: i32 = 16;
/// … after which the writer copies it itself, should the thread that does it beside the commits not keep up.
const WAL_PAGES_LIMIT: i32 = 16 * WAL_PAGES_MAX;
/// Free pages that stay in the file for what comes next; more are given back to the file system.
const FREE_PAGES_KEPT: i64 = 256;
/// Pages given back in one transaction: a few milliseconds, so that a commit that comes meanwhile does not wait for long.
const GIVE_BACK_PAGES: i64 = 64;
/// How often that is done though commits wait.
const GIVE_BACK_EVERY: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(200);

/// What the writer tells. The callback runs on the writer's thread: it must not wait for
/// anything that waits for the writer, and what it calls should not block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Every entry up to `seq` is on disk.
    Durable {
        /// The newest durable seq.
        seq: Seq,
        /// How long the commit took, nearly all of it the fsync.
        commit_micros: u64,
        /// How many batches it held.
        batches: usize,
    },
    /// `true`: the disk is full; what was handed over is stored in the room that the reserve gives, and no more should be. Told before the
    /// Durable of what met it; told at once if there is no reserve. `false`: there is space again.
    NoSpace(bool),
    /// The disk is full, and the reserve was not enough: of what was not told Durable nothing is stored or ever will be. The writer has
    /// ended; the process must exit and open the store anew.
    OutOfRoom,
    /// The store can write no more; the process must exit and open it anew. What was not told Durable may or may not be there.
    Fatal(String),
}

/// A batch handed back.
#[derive(Debug)]
pub enum Rejected {
    /// The queue is full; try again after the next event.
    Full(Batch),
    /// The writer has ended.
    Closed(Batch),
}

/// Batches that could not be stored before the writer was closed, because there was no space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no space: {batches} batches were not stored")]
pub struct Unwritten {
    /// How many.
    pub batches: usize,
}

/// The door to a state directory's store.
#[derive(Debug)]
pub struct Store;

impl Store {
    /// Locks `statedir`, opens or makes its store, and starts the writer, which tells `on_event` what happens.
    ///
    /// # Errors
    /// [`OpenError`]: the directory is in use, the file is of a newer schema or no store at all, damaged, or the system said no.
    pub fn open(
        statedir: &Path,
        options: StoreOptions,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<(Writer, ReaderFactory, Recovered), OpenError> {
        let lock = DirLock::take(statedir)?;
        let file = statedir.join(crate::FILE_NAME);
        let mut reserve = Reserve::new(statedir);
        // Before SQLite looks at it. What cannot be read it says itself.
        let doubts = Doubts {
            wal: wal::doubt(&beside(&file, "-wal")).unwrap_or_default(),
            told: options.told_jobid,
            mark: Mark::read(statedir),
        };
        let Opened {
            db,
            recovered,
            gone,
            later,
        } = match open_file(&file, &options, &doubts) {
            // What opening needs may be what the reserve is for.
            Err(OpenError::Full { .. }) if reserve.let_go() => open_file(&file, &options, &doubts)?,
            opened => opened?,
        };
        reserve.take(false);
        sync(&file).map_err(|source| OpenError::Directory {
            dir: statedir.to_owned(),
            source,
        })?;
        let mark = Mark {
            epoch: recovered.epoch.clone(),
            seq: recovered.newest_seq,
            max_jobid: recovered.max_jobid,
        };
        let (tx, rx) = sync_channel(QUEUE_BATCHES_MAX);
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            pages_max: AtomicU32::new(options.pages_max),
            unwritten: Mutex::new(0),
            halted: AtomicBool::new(!reserve.is_held()),
        });
        let wal_pages = Arc::new(AtomicI32::new(0));
        let mut run = Run {
            db,
            rx,
            blobs: Blobs::default(),
            newest: recovered.newest_seq,
            on_event: Box::new(on_event),
            shared: shared.clone(),
            pages_max: 0,
            wal_pages: wal_pages.clone(),
            checkpointer: Checkpointer::start(&file).map_err(|source| open_error(&file, source))?,
            full: !reserve.is_held(),
            reserve,
            looked: Instant::now(),
            ahead: None,
            marker: Marker::begin(statedir, mark),
            gone: gone.clone(),
            later,
            freed: true,
            gave_back: Instant::now(),
        };
        let told = |source: rusqlite::Error| open_error(&file, source);
        run.db
            .wal_hook(Some(
                move |_: &mut rusqlite::hooks::Wal, pages: std::ffi::c_int| {
                    wal_pages.store(pages, Ordering::Relaxed);
                    Ok(())
                },
            ))
            .map_err(told)?;
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run.run())
            .map_err(|source| OpenError::Directory {
                dir: statedir.to_owned(),
                source,
            })?;
        let readers = ReaderFactory::new(file, gone);
        Ok((
            Writer {
                tx: Some(tx),
                thread: Some(thread),
                shared,
                _lock: lock,
            },
            readers,
            recovered,
        ))
    }
}

/// The writer's handle. Dropping it closes it, see [`Writer::close`].
pub struct Writer {
    tx: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    _lock: DirLock,
}

struct Shared {
    stopping: AtomicBool,
    pages_max: AtomicU32,
    unwritten: Mutex<usize>,
    halted: AtomicBool,
}

impl Writer {
    /// Hands a batch over, or gets it back at once; never waits.
    ///
    /// # Errors
    /// [`Rejected::Full`]: keep it, and offer it again before any later one. [`Rejected::Closed`]: an [`Event::Fatal`] came before.
    pub fn try_submit(&self, batch: Batch) -> Result<(), Rejected> {
        let Some(tx) = &self.tx else {
            return Err(Rejected::Closed(batch));
        };
        tx.try_send(batch).map_err(|error| match error {
            TrySendError::Full(batch) => Rejected::Full(batch),
            TrySendError::Disconnected(batch) => Rejected::Closed(batch),
        })
    }

    /// Changes [`StoreOptions::pages_max`] from the next transaction or retry on.
    pub fn set_pages_max(&self, pages: u32) {
        self.shared.pages_max.store(pages, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Whether the disk was full when the store was opened, and still is, with no reserve: nothing at all can be stored.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.shared.halted.load(Ordering::Acquire)
    }

    /// Stores what was handed over, ends the thread and lets the directory go.
    ///
    /// # Errors
    /// [`Unwritten`]: there was no space for the last batches. Nobody was told that they were durable.
    pub fn close(mut self) -> Result<(), Unwritten> {
        self.stop();
        let batches = *self
            .shared
            .unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if batches == 0 {
            Ok(())
        } else {
            Err(Unwritten { batches })
        }
    }

    fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        drop(self.tx.take());
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the store's writer ended by a panic");
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("open", &self.tx.is_some())
            .finish_non_exhaustive()
    }
}

/// Why a transaction did not become durable.
enum Failure {
    NoSpace,
    /// Another process reads or copies the file and holds a lock for long.
    Busy,
    Fatal(String),
}

/// The thread's own state.
struct Run {
    db: Connection,
    rx: Receiver<Batch>,
    blobs: Blobs,
    newest: Seq,
    on_event: Box<dyn FnMut(Event) + Send>,
    shared: Arc<Shared>,
    pages_max: u32,
    wal_pages: Arc<AtomicI32>,
    checkpointer: Checkpointer,
    reserve: Reserve,
    /// The reserve is let go, or there was no room for it.
    full: bool,
    /// When was last looked whether there is room again.
    looked: Instant,
    /// Taken from the queue already.
    ahead: Option<Batch>,
    /// Says how far the store is.
    marker: Marker,
    /// Purged jobs that cannot be removed.
    gone: Gone,
    /// Those of them that were only too many for the room there was.
    later: Vec<i64>,
    /// Something was removed since free pages were last counted.
    freed: bool,
    /// When pages were last given back.
    gave_back: Instant,
}

impl Run {
    fn run(&mut self) {
        if self.full {
            (self.on_event)(Event::NoSpace(true));
        }
        let mut held: Vec<Batch> = Vec::new();
        while let Some(first) = self.next() {
            let mut entries = first.as_ref().map_or(0, |batch| batch.entries.len());
            held.extend(first);
            while entries < TRANSACTION_ENTRIES_MAX {
                let Ok(batch) = self.rx.try_recv() else { break };
                entries += batch.entries.len();
                held.push(batch);
            }
            if !held.is_empty() {
                self.freed |= held.iter().any(Batch::frees);
                if !self.store(&held) {
                    return;
                }
                held.clear();
                if let Err(text) = self.checkpoint(self.wal_pages_max()) {
                    (self.on_event)(Event::Fatal(text));
                    return;
                }
            }
            if let Err(text) = self.remove_later() {
                (self.on_event)(Event::Fatal(text));
                return;
            }
            if self.full && self.looked.elapsed() >= ROOM_PROBE {
                self.look_for_room();
            }
            if let Err(text) = self.shorten() {
                (self.on_event)(Event::Fatal(text));
                return;
            }
        }
    }

    /// Removes rows of purged jobs for which there was no room, one at a time, while nobody waits.
    fn remove_later(&mut self) -> Result<(), String> {
        while let Some(id) = self.later.pop() {
            match removal::remove_one(&mut self.db, id).map_err(failure) {
                Ok(removed) => {
                    if removed {
                        // It is passed over as long as this process lives: somebody may be reading from before.
                        self.freed = true;
                        // The blobs that went may be among those it knows.
                        self.blobs.rolled_back();
                    }
                    self.checkpoint(self.wal_pages_max())?;
                }
                Err(Failure::NoSpace | Failure::Busy) => {
                    self.later.push(id);
                    self.checkpoint(1)?;
                    return Ok(());
                }
                Err(Failure::Fatal(text)) => return Err(text),
            }
            if !self.is_idle() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gives free pages back to the file system, a few at a time: while nobody waits, and now and then when there is always somebody.
    fn shorten(&mut self) -> Result<(), String> {
        let told = |done: Result<(), rusqlite::Error>| match done.map_err(failure) {
            Ok(()) => Ok(true),
            Err(Failure::NoSpace | Failure::Busy) => Ok(false),
            Err(Failure::Fatal(text)) => Err(format!("giving space back: {text}")),
        };
        while self.freed && (self.gave_back.elapsed() >= GIVE_BACK_EVERY || self.is_idle()) {
            let free: i64 = match self
                .db
                .pragma_query_value(None, "freelist_count", |row| row.get(0))
            {
                Ok(free) => free,
                Err(error) => return told(Err(error)).map(drop),
            };
            let more = free - FREE_PAGES_KEPT;
            if more <= 0 {
                // The file becomes shorter when the WAL is copied into it; somebody else may be at it, or read it, just now.
                self.freed = !self.checkpoint(1)?;
                return Ok(());
            }
            self.gave_back = Instant::now();
            let sql = format!("PRAGMA incremental_vacuum({})", more.min(GIVE_BACK_PAGES));
            // It does its work a row at a time.
            let done = self.db.prepare(&sql).and_then(|mut vacuum| {
                let mut rows = vacuum.query([])?;
                while rows.next()?.is_some() {}
                Ok(())
            });
            if !told(done)? {
                // Later.
                self.checkpoint(1)?;
                return Ok(());
            }
            if !self.is_incremental()? {
                self.freed = false;
                break;
            }
            self.checkpoint(self.wal_pages_max())?;
        }
        Ok(())
    }

    /// Whether nothing waits to be stored.
    fn is_idle(&mut self) -> bool {
        if self.ahead.is_none() {
            self.ahead = self.rx.try_recv().ok();
        }
        self.ahead.is_none() && !self.is_stopping()
    }

    /// Files of the first releases cannot be made shorter: their free pages are used again, no more.
    fn is_incremental(&self) -> Result<bool, String> {
        self.db
            .pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0))
            .map(|kind| kind == INCREMENTAL)
            .map_err(|error| format!("giving space back: {error}"))
    }

    /// What is handed over next; nothing for a while if there is reason to look around. `None` = the writer is closed.
    fn next(&mut self) -> Option<Option<Batch>> {
        if let Some(ahead) = self.ahead.take() {
            return Some(Some(ahead));
        }
        if !self.full && !self.freed && self.later.is_empty() {
            return self.rx.recv().ok().map(Some);
        }
        match self.rx.recv_timeout(ROOM_PROBE) {
            Ok(batch) => Some(Some(batch)),
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Stores the held batches, with the help of the reserve if need be; `false` = the thread must end.
    fn store(&mut self, held: &[Batch]) -> bool {
        let mut gather = match Gather::new(self.newest, held) {
            Ok(gather) => gather,
            Err(misuse) => {
                (self.on_event)(Event::Fatal(misuse.to_string()));
                return false;
            }
        };
        let mut pause = RETRY_FIRST;
        let mut waited = None;
        loop {
            match self.commit(&mut gather) {
                Ok(commit_micros) => {
                    self.newest = gather.newest;
                    self.gone.add(gather.removal.stay());
                    if gather.removal.is_deferred() {
                        self.later.extend(gather.removal.stay().map(id_to_sql));
                    }
                    self.marker.set(self.newest, gather.newest_job());
                    (self.on_event)(Event::Durable {
                        seq: self.newest,
                        commit_micros,
                        batches: held.len(),
                    });
                    return true;
                }
                Err(Failure::Fatal(text)) => {
                    (self.on_event)(Event::Fatal(text));
                    return false;
                }
                Err(Failure::NoSpace) => {
                    self.blobs.rolled_back();
                    let helped = self.help();
                    if let Err(text) = self.checkpoint(1) {
                        (self.on_event)(Event::Fatal(text));
                        return false;
                    }
                    if helped || gather.defer_removal() {
                        continue;
                    }
                    let since = *waited.get_or_insert_with(Instant::now);
                    if since.elapsed() >= ROOM_WAIT && !self.is_stopping() {
                        (self.on_event)(Event::OutOfRoom);
                        return false;
                    }
                }
                Err(Failure::Busy) => self.blobs.rolled_back(),
            }
            if self.is_stopping() {
                let waiting = held.len() + self.rx.iter().count() + self.ahead.iter().len();
                *self
                    .shared
                    .unwritten
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = waiting;
                return false;
            }
            std::thread::park_timeout(pause);
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// How long the WAL becomes before it is copied: so that the reserve has room for the copy. On a full disk it always is.
    fn wal_pages_max(&self) -> i32 {
        if self.full {
            return 1;
        }
        let room = self.reserve.bytes() * 2 / 3 / 4096;
        i32::try_from(room).map_or(WAL_PAGES_MAX, |room| {
            room.clamp(WAL_PAGES_MIN, WAL_PAGES_MAX)
        })
    }

    fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// The disk is full: gives what was kept back, once.
    fn help(&mut self) -> bool {
        if self.full {
            return false;
        }
        self.full = true;
        self.looked = Instant::now();
        tracing::warn!("the disk with the state directory is full: the reserve is let go");
        (self.on_event)(Event::NoSpace(true));
        self.reserve.let_go();
        true
    }

    /// Takes the reserve back if there is room for it.
    fn look_for_room(&mut self) {
        self.looked = Instant::now();
        if self.has_pages().unwrap_or(false) && self.reserve.take(true) {
            tracing::warn!("there is room again in the state directory");
            self.full = false;
            self.shared.halted.store(false, Ordering::Release);
            (self.on_event)(Event::NoSpace(false));
        }
    }

    /// Whether the limit of pages leaves what is to be kept back.
    fn has_pages(&self) -> Result<bool, rusqlite::Error> {
        let limit = self.shared.pages_max.load(Ordering::Relaxed);
        if limit == 0 {
            return Ok(true);
        }
        let ask = |what: &str| -> Result<i64, rusqlite::Error> {
            self.db.pragma_query_value(None, what, |row| row.get(0))
        };
        let used = ask("page_count")? - ask("freelist_count")?;
        Ok(used + 1 < i64::from(limit.saturating_sub(reserve::pages(limit))))
    }

    /// One transaction; the microseconds its COMMIT took. On an error it is rolled back.
    fn commit(&mut self, gather: &mut Gather) -> Result<u64, Failure> {
        let mut wanted = self.shared.pages_max.load(Ordering::Relaxed);
        if !self.full {
            wanted -= reserve::pages(wanted);
        }
        if wanted != self.pages_max {
            self.pages_max = wanted;
            let pages = if wanted == 0 {
                i64::from(u32::MAX - 1)
            } else {
                i64::from(wanted)
            };
            self.db
                .pragma_update(None, "max_page_count", pages)
                .map_err(failure)?;
        }
        loop {
            let tx = self
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failure)?;
            let retries = gather.removal.retries();
            match gather.write(&tx, &mut self.blobs, &self.gone, &self.later) {
                Ok(()) => {
                    let start = Instant::now();
                    tx.commit().map_err(failure)?;
                    let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
                    self.blobs.committed();
                    return Ok(micros);
                }
                Err(_) if gather.removal.retries() > retries => {}
                Err(error) => return Err(failure(error)),
            }
            drop(tx);
            self.blobs.rolled_back();
            gather.probe(&mut self.db).map_err(failure)?;
        }
    }

    /// Copies the WAL into the main file once it has so many pages; a long one beside the commits, see `checkpoint`. No space there is no
    /// harm: the WAL holds everything. Whether nothing is left to be copied.
    fn checkpoint(&mut self, from_pages: i32) -> Result<bool, String> {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        if pages < from_pages {
            return Ok(pages == 0);
        }
        let rest = if from_pages > 1 && pages < WAL_PAGES_LIMIT {
            self.checkpointer.wants_rest(pages)
        } else {
            Ok(true)
        };
        let done = match rest {
            Ok(false) => return Ok(false),
            Ok(true) => checkpoint::passive(&self.db).map(|copied| {
                if copied >= pages {
                    // The next commit tells the count anew.
                    self.wal_pages.store(0, Ordering::Relaxed);
                    self.checkpointer.begun_anew();
                }
                copied >= pages
            }),
            Err(error) => Err(error),
        };
        match done.map_err(failure) {
            Ok(all) => Ok(all),
            Err(Failure::NoSpace | Failure::Busy) => Ok(false),
            Err(Failure::Fatal(text)) => Err(format!("checkpoint: {text}")),
        }
    }
}

/// Sorts SQLite's errors.
fn failure(error: rusqlite::Error) -> Failure {
    match error.sqlite_error_code() {
        _ if is_full(&error) => Failure::NoSpace,
        Some(ErrorCode::DatabaseBusy) => Failure::Busy,
        _ => Failure::Fatal(format!("cannot write the store: {error}")),
    }
}
