//! What a job asks for, in the terms of the pool.
//!
//! Three shapes ([`Spread`]): so many slots wherever they fit; so many nodes with so many slots on each; so many slots on every node
//! that is ready. Reading a jobspec is left to [`Request::from_jobspec`], the only place here that knows `job::Jobspec`.

use std::fmt;

use crate::constraint::{Constraint, ConstraintError};

/// Over which nodes a job's slots are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Wherever they fit: `slots` in all.
    Anywhere,
    /// So many different nodes, `slots` on each.
    Nodes(u32),
    /// Every node that is up and not drained when the job gets its resources, `slots` on each: what a `sysbatch` job asks for.
    /// Nodes that are too small, or not allowed by the constraint, do not count.
    EveryReady,
}

/// Resources and time one job asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Slots in all, or on each node: see [`Spread`]. At least 1.
    pub slots: u32,
    /// Cores of one slot. At least 1.
    pub cores_per_slot: u32,
    /// GPUs of one slot.
    pub gpus_per_slot: u32,
    /// Over which nodes.
    pub spread: Spread,
    /// Whole nodes: nothing else may run there, and the job holds all that is on them.
    pub exclusive: bool,
    /// Time limit in seconds; 0 is none.
    pub duration_s: f64,
    /// Nodes that may be used.
    pub constraint: Option<Constraint>,
}

/// A jobspec this scheduler cannot serve.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// Part of `attributes.system.constraints` is not understood.
    #[error("attributes.system.constraints: {0}")]
    Constraint(#[from] ConstraintError),
}

impl Request {
    /// Reads what a jobspec asks for.
    /// # Errors
    /// [`RequestError`]: a part of it that this scheduler does not understand.
    pub fn from_jobspec(jobspec: &job::Jobspec) -> Result<Request, RequestError> {
        // Counts are at most 2^31 - 1 (`job::jobspec::COUNT_MAX`).
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let nodes = jobspec.nodes.map(|nodes| nodes.max(1));
        Ok(Request {
            slots: narrow(jobspec.nslots / nodes.unwrap_or(1)).max(1),
            cores_per_slot: narrow(jobspec.cores_per_slot).max(1),
            gpus_per_slot: narrow(jobspec.gpus_per_slot),
            spread: match nodes {
                _ if jobspec.job_type() == job::jobspec::JobType::Sysbatch => Spread::EveryReady,
                Some(nodes) => Spread::Nodes(narrow(nodes)),
                None => Spread::Anywhere,
            },
            exclusive: jobspec.exclusive && nodes.is_some(),
            duration_s: jobspec.duration,
            constraint: jobspec
                .constraints
                .as_ref()
                .map(Constraint::parse)
                .transpose()?,
        })
    }

    /// A request for `slots` slots of one core, anywhere, without a time limit.
    #[must_use]
    pub fn slots(slots: u32) -> Request {
        Request {
            slots,
            cores_per_slot: 1,
            gpus_per_slot: 0,
            spread: Spread::Anywhere,
            exclusive: false,
            duration_s: 0.0,
            constraint: None,
        }
    }

    /// The same on every node that is ready.
    #[must_use]
    pub fn on_every_node(self) -> Request {
        Request {
            spread: Spread::EveryReady,
            ..self
        }
    }

    /// When a job that starts at `now_s` must have ended; infinite without a limit.
    #[must_use]
    pub fn end_s(&self, now_s: f64) -> f64 {
        if self.duration_s > 0.0 {
            now_s + self.duration_s
        } else {
            f64::INFINITY
        }
    }
}

fn count(f: &mut fmt::Formatter<'_>, count: u32, noun: &str) -> fmt::Result {
    write!(f, "{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.exclusive { "whole node" } else { "node" };
        match self.spread {
            Spread::Anywhere => {}
            Spread::Nodes(nodes) => {
                count(f, nodes, noun)?;
                f.write_str(" with ")?;
            }
            Spread::EveryReady => write!(f, "every {noun} with ")?,
        }
        count(f, self.slots, "slot")?;
        f.write_str(" of ")?;
        count(f, self.cores_per_slot, "core")?;
        if self.gpus_per_slot > 0 {
            f.write_str(" and ")?;
            count(f, self.gpus_per_slot, "GPU")?;
        }
        Ok(())
    }
}
