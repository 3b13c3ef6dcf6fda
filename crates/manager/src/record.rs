//! What the manager holds of an active job: the folded job and where it stands with the engines.
//!
//! What is here and not in [`Job`] is never stored: a restart starts from [`Record::restored`] and asks the engines again.

use bytes::Bytes;
use job::{Job, State};

/// An active job.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) job: Job,
    /// Without environment; shared among jobs of one jobspec.
    pub(crate) jobspec: Bytes,
    pub(crate) place: Place,
    pub(crate) alloc: Alloc,
    pub(crate) exec: Exec,
    /// What its memos count for, see `decide/memo.rs`.
    pub(crate) memo_bytes: u32,
}

/// In which ordered set of the queue the job is, under which priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Nowhere,
    Waiting(u32),
    Live(u32),
    Returning(u32),
}

/// The `sched.alloc` exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alloc {
    /// None is open.
    None,
    /// Asked, not answered.
    Live,
    /// Asked, then `sched.cancel` sent, not answered.
    Cancelling,
}

/// The `start` exchange, as far as this life of the manager knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exec {
    /// No exec service was ever asked to start it.
    Never,
    /// One was, or may have been in an earlier life; it must be asked again.
    Maybe,
    /// Asked on the connection that is there now.
    Sent,
    /// Likewise, and it knows of the fatal exception.
    Told,
}

/// What a job's state asks to be done next, see [`Record::owed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owed {
    Nothing,
    Validate,
    Depend,
    Priority,
    Start { reattach: bool },
    CancelAlloc,
    CancelExec,
    Free,
    Clean,
    Retire,
}

impl Record {
    /// A job that was just submitted.
    pub(crate) fn new(job: Job, jobspec: Bytes) -> Record {
        Record {
            job,
            jobspec,
            place: Place::Nowhere,
            alloc: Alloc::None,
            exec: Exec::Never,
            memo_bytes: 0,
        }
    }

    /// A job read back: whether its start was asked for is not known.
    pub(crate) fn restored(job: Job, jobspec: Bytes) -> Record {
        let exec = if job.has_resources {
            Exec::Maybe
        } else {
            Exec::Never
        };
        Record {
            exec,
            ..Record::new(job, jobspec)
        }
    }

    /// Priority as the queue orders by it.
    pub(crate) fn priority(&self) -> u32 {
        self.job.priority.map_or(0, |priority| priority.0)
    }

    /// Where in the queue it should be.
    pub(crate) fn wanted_place(&self) -> Place {
        match (self.job.state, self.alloc) {
            (State::Sched, Alloc::None) => Place::Waiting(self.priority()),
            (State::Sched, Alloc::Live) => Place::Live(self.priority()),
            (State::Sched, Alloc::Cancelling) => Place::Returning(self.priority()),
            _ => Place::Nowhere,
        }
    }

    /// The next thing its state asks for. Pure: doing it must change what this says, so that repeating it ends.
    ///
    /// ```text
    ///  NEW ▸ validate   DEPEND ▸ depend, nothing left to wait for   PRIORITY ▸ priority   SCHED ▸ (the queue)
    ///  RUN ▸ start, if an exec service is there and this job's exchange with it is not open
    ///  CLEANUP ▸ alloc taken back ▸ exec told ▸ exchange over or never begun: free ▸ clean
    /// ```
    pub(crate) fn owed(&self, exec_there: bool) -> Owed {
        let job = &self.job;
        match job.state {
            State::New => Owed::Validate,
            State::Depend if job.dependencies.as_ref().is_none_or(|left| left.is_empty()) => {
                Owed::Depend
            }
            State::Depend | State::Sched => Owed::Nothing,
            State::Priority => Owed::Priority,
            State::Run => match self.exec {
                _ if job.prologs > 0 => Owed::Nothing,
                Exec::Never | Exec::Maybe if exec_there => Owed::Start {
                    reattach: job.started,
                },
                _ => Owed::Nothing,
            },
            State::Cleanup => self.owed_in_cleanup(exec_there),
            State::Inactive => Owed::Retire,
        }
    }

    fn owed_in_cleanup(&self, exec_there: bool) -> Owed {
        let job = &self.job;
        match self.alloc {
            Alloc::Live => return Owed::CancelAlloc,
            Alloc::Cancelling => return Owed::Nothing,
            Alloc::None => {}
        }
        if job.prologs > 0 || job.epilogs > 0 {
            return Owed::Nothing;
        }
        if !job.has_resources {
            return Owed::Clean;
        }
        if job.start_done {
            return Owed::Free;
        }
        match self.exec {
            // An exec service that heard of it holds resources until it says otherwise.
            Exec::Never if !job.started => Owed::Free,
            Exec::Never | Exec::Maybe if exec_there => Owed::Start { reattach: true },
            Exec::Sent if job.fatal && job.finish_status.is_none() => Owed::CancelExec,
            _ => Owed::Nothing,
        }
    }
}
