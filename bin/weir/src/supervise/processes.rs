//! The processes of an instance, as who did not start them sees them: which they are, and when they have ended.
//!
//! Their end is seen through a pidfd: an id that is used again is not mistaken for them, and nobody needs to have waited for them.

use super::claim::{self, Ending};
use crate::connect::Session;
use crate::uri::Place;
use crate::when;
use anyhow::bail;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal as Number, kill_process, pidfd_open};
use serde::Deserialize;
use serde_json::json;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long the processes may take to end: longer than the supervisor gives them.
const END_WITHIN: Duration = Duration::from_secs(60);
/// The wait between two looks at a process.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process whose end can be seen.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    name: &'static str,
    handle: OwnedFd,
}

impl Process {
    /// None if it is gone, or not to be seen from here.
    fn open(pid: u32, name: &'static str) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        Some(Self { pid, name, handle })
    }

    /// Tells it to end.
    pub fn terminate(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            for number in [Number::TERM, Number::CONT] {
                // Gone already: what was wanted.
                let _ = kill_process(pid, number);
            }
        }
    }

    /// Until it has ended, or need not.
    async fn end(self, within: Duration, spared: impl Fn() -> bool) -> anyhow::Result<()> {
        let started = Instant::now();
        while !self.has_ended()? && !spared() {
            if started.elapsed() >= within {
                bail!(
                    "{}, process {}, has not ended after {}: see its log in the state directory, or kill -KILL {}",
                    self.name,
                    self.pid,
                    when::human(within.as_secs_f64()),
                    self.pid
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Also if nobody has waited for it.
    fn has_ended(&self) -> rustix::io::Result<bool> {
        let mut ended = [PollFd::new(&self.handle, PollFlags::IN)];
        Ok(poll(&mut ended, Some(&Timespec::default()))? > 0)
    }
}

/// The processes that are to end.
#[derive(Debug)]
pub struct Processes {
    statedir: PathBuf,
    /// The `weir start`, if there is one that can be seen.
    pub supervisor: Option<Process>,
    manager: Option<Process>,
}

impl Processes {
    /// As far as they are found without anybody's answer.
    #[must_use]
    pub fn of(place: &Place) -> Self {
        let mut processes = Self {
            statedir: place.statedir().to_owned(),
            supervisor: None,
            manager: None,
        };
        processes.find_supervisor();
        processes
    }

    fn find_supervisor(&mut self) {
        let pid = claim::keeper(&self.statedir);
        self.supervisor = pid.and_then(|pid| Process::open(pid, "weir start"));
    }

    /// With what the job-manager says of itself: its socket may be anywhere.
    pub async fn with_manager(mut self, session: &Session) -> Self {
        #[derive(Deserialize)]
        struct Stats {
            pid: u32,
        }
        #[derive(Deserialize)]
        struct Attr {
            value: String,
        }
        let stats = session
            .call::<_, Stats>("job-manager.stats-get", &json!({}))
            .await;
        self.manager = stats
            .ok()
            .and_then(|stats| Process::open(stats.pid, "weir-job-manager"));
        let statedir = session
            .call::<_, Attr>("attr.get", &json!({"name": "statedir"}))
            .await;
        if let Ok(Attr { value }) = statedir {
            self.statedir = PathBuf::from(value);
            self.find_supervisor();
        }
        self
    }

    /// Until they have ended.
    ///
    /// # Errors
    /// One does not; the text names it.
    pub async fn end(self) -> anyhow::Result<()> {
        if let Some(manager) = self.manager {
            manager.end(END_WITHIN, || false).await?;
        }
        if let Some(supervisor) = self.supervisor {
            // One that runs a command ends with that; it may be what waits here.
            let left = || claim::ending(&self.statedir) == Some(Ending::Left);
            supervisor.end(END_WITHIN, left).await?;
        }
        Ok(())
    }
}
