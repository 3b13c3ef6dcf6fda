//! Following the files under `jobs/<id>/`: which job's files changed.
//!
//! One inotify watch per followed job, on its directory, whatever the number of followers; one on `jobs/` while some
//! followed job has no directory yet. When the system has no watches left, [`Files::must_poll`] is true and the followers
//! look by themselves now and then. Reading the files is left to `guest.rs`.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use inotify::{EventMask, Inotify, WatchDescriptor, WatchMask};
use job::JobId;
use tokio::io::unix::AsyncFd;

/// Room for events in one read.
const EVENTS_BYTES: usize = 16 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Root,
    Job(JobId),
}

/// Something that happened in a watched directory.
#[derive(Debug)]
pub(crate) struct Happened {
    watch: WatchDescriptor,
    mask: EventMask,
    name: Option<JobId>,
}

/// The watches.
#[derive(Debug)]
pub(crate) struct Files {
    root: PathBuf,
    inotify: Option<AsyncFd<Inotify>>,
    watched: HashMap<WatchDescriptor, Watched>,
    by_job: HashMap<JobId, (usize, Option<WatchDescriptor>)>,
    awaited: HashSet<JobId>,
    root_watch: Option<WatchDescriptor>,
    degraded: bool,
}

impl Files {
    /// Watches below `root`, the `jobs` directory. Must be called within a tokio runtime.
    pub(crate) fn new(root: PathBuf) -> Self {
        #[expect(
            deprecated,
            reason = "the other way in is unsafe; an Inotify owns its descriptor and keeps it"
        )]
        let inotify = Inotify::init().and_then(AsyncFd::new);
        if let Err(error) = &inotify {
            tracing::warn!(%error, "no inotify: followed files are looked at every half second instead");
        }
        Self {
            root,
            degraded: inotify.is_err(),
            inotify: inotify.ok(),
            watched: HashMap::new(),
            by_job: HashMap::new(),
            awaited: HashSet::new(),
            root_watch: None,
        }
    }

    /// The directory of a job's files.
    pub(crate) fn dir(&self, id: JobId) -> PathBuf {
        self.root.join(id.0.to_string())
    }

    /// Whether followers must look by themselves.
    pub(crate) fn must_poll(&self) -> bool {
        self.degraded && !self.by_job.is_empty()
    }

    /// One more follower of a job's files. Changes from here on are told; look at the files after this.
    pub(crate) fn follow(&mut self, id: JobId) {
        let (followers, watch) = self.by_job.entry(id).or_default();
        *followers += 1;
        if watch.is_none() {
            self.watch_job(id);
        }
    }

    /// One follower less.
    pub(crate) fn unfollow(&mut self, id: JobId) {
        let Some((followers, watch)) = self.by_job.get_mut(&id) else {
            return;
        };
        *followers = followers.saturating_sub(1);
        if *followers > 0 {
            return;
        }
        let watch = watch.take();
        self.by_job.remove(&id);
        self.awaited.remove(&id);
        self.unwatch(watch);
        if self.awaited.is_empty() {
            let root = self.root_watch.take();
            self.unwatch(root);
        }
    }

    /// Waits until something happened in a watched directory. May be dropped while it waits; nothing is lost.
    ///
    /// # Errors
    /// Those of the descriptor.
    pub(crate) async fn happened(&mut self) -> io::Result<Vec<Happened>> {
        let Some(inotify) = &mut self.inotify else {
            return std::future::pending().await;
        };
        let mut buffer = [0u8; EVENTS_BYTES];
        loop {
            let mut guard = inotify.readable_mut().await?;
            let read = guard.try_io(|inotify| {
                let events = inotify.get_mut().read_events(&mut buffer)?;
                Ok(events
                    .map(|event| Happened {
                        watch: event.wd,
                        mask: event.mask,
                        name: event.name.and_then(named),
                    })
                    .collect())
            });
            match read {
                Ok(events) => return events,
                // Not readable after all.
                Err(_would_block) => {}
            }
        }
    }

    /// The followed jobs whose files are to be looked at after this.
    pub(crate) fn take_in(&mut self, events: Vec<Happened>) -> HashSet<JobId> {
        let mut told = HashSet::new();
        for event in events {
            if event.mask.contains(EventMask::Q_OVERFLOW) {
                told.extend(self.by_job.keys().copied());
                continue;
            }
            match self.watched.get(&event.watch) {
                Some(Watched::Job(id)) => {
                    told.insert(*id);
                }
                Some(Watched::Root) => {
                    told.extend(event.name.filter(|id| self.awaited.contains(id)))
                }
                None => {}
            }
            if event.mask.contains(EventMask::IGNORED) {
                self.forget(&event.watch);
            }
        }
        for id in &told {
            if self.awaited.contains(id) {
                self.watch_job(*id);
            }
        }
        told
    }

    fn forget(&mut self, watch: &WatchDescriptor) {
        match self.watched.remove(watch) {
            Some(Watched::Job(id)) => {
                if let Some((_, of_job)) = self.by_job.get_mut(&id) {
                    *of_job = None;
                }
            }
            Some(Watched::Root) => self.root_watch = None,
            None => {}
        }
    }

    fn watch_job(&mut self, id: JobId) {
        let mask = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::DELETE;
        match self.watch(&self.dir(id), mask) {
            Ok(Some(watch)) => {
                self.awaited.remove(&id);
                self.watched.insert(watch.clone(), Watched::Job(id));
                if let Some((_, of_job)) = self.by_job.get_mut(&id) {
                    *of_job = Some(watch);
                }
                if self.awaited.is_empty() {
                    let root = self.root_watch.take();
                    self.unwatch(root);
                }
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.await_job(id),
            Err(error) => self.degrade(&error),
        }
    }

    /// The job has no directory yet: watch where it will appear, then look once more.
    fn await_job(&mut self, id: JobId) {
        let first = self.awaited.insert(id);
        if self.root_watch.is_some() {
            return;
        }
        if let Err(error) = std::fs::create_dir_all(&self.root) {
            return self.degrade(&error);
        }
        match self.watch(&self.root.clone(), WatchMask::CREATE | WatchMask::MOVED_TO) {
            Ok(Some(watch)) => {
                self.watched.insert(watch.clone(), Watched::Root);
                self.root_watch = Some(watch);
                if first && self.dir(id).is_dir() {
                    self.watch_job(id);
                }
            }
            Ok(None) => {}
            Err(error) => self.degrade(&error),
        }
    }

    fn watch(&mut self, path: &Path, mask: WatchMask) -> io::Result<Option<WatchDescriptor>> {
        match &self.inotify {
            Some(inotify) => inotify.get_ref().watches().add(path, mask).map(Some),
            None => Ok(None),
        }
    }

    fn unwatch(&mut self, watch: Option<WatchDescriptor>) {
        let (Some(watch), Some(inotify)) = (watch, &self.inotify) else {
            return;
        };
        self.watched.remove(&watch);
        // The directory may be gone, and its watch with it.
        if let Err(error) = inotify.get_ref().watches().remove(watch) {
            tracing::trace!(%error, "a watch was gone already");
        }
    }

    fn degrade(&mut self, error: &io::Error) {
        if !self.degraded {
            tracing::warn!(%error, "cannot watch a directory: followed files are looked at every half second instead");
        }
        self.degraded = true;
    }
}

fn named(name: &OsStr) -> Option<JobId> {
    name.to_str()?.parse().ok().map(JobId)
}
