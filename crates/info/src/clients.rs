//! What a job's status is on each node.
//!
//! ```text
//!  #  of the job's allocations on the node                                       status
//!  1  the job is pending                                                         queued
//!  2  there is none                                                              not scheduled
//!  3  fewer than there should be, older versions counted                         degraded
//!     from here on without those that were replaced, stopped or of an older version; if all of this version
//!     were stopped, these
//!  4  all failed · all lost · all complete                                       failed · lost · complete
//!  5  one failed or lost                                                         degraded
//!  6  one running                                                                running
//!  7  one unknown                                                                unknown
//!  8  otherwise                                                                  starting
//! ```
//! Nomad's page counts differently: whether the number of failed ones *equals* the number of groups, replaced ones included; see
//! `rfc/9_http.md`.

use std::borrow::Cow;

use job::{AllocStatus, State, Timestamp};

use crate::{
    allocs::Allocs,
    nodes::{Node, NodeIx, Nodes},
    record::{Kind, Record, Status},
};

/// A job's status on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "described above")]
pub enum ClientStatus {
    Queued,
    NotScheduled,
    Starting,
    Running,
    Complete,
    Degraded,
    Failed,
    Lost,
    Unknown,
}

impl ClientStatus {
    /// All of them, in the order in which they are shown.
    pub const ALL: [ClientStatus; 9] = [
        ClientStatus::Queued,
        ClientStatus::NotScheduled,
        ClientStatus::Starting,
        ClientStatus::Running,
        ClientStatus::Complete,
        ClientStatus::Degraded,
        ClientStatus::Failed,
        ClientStatus::Lost,
        ClientStatus::Unknown,
    ];

    /// The name that travels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClientStatus::Queued => "queued",
            ClientStatus::NotScheduled => "notScheduled",
            ClientStatus::Starting => "starting",
            ClientStatus::Running => "running",
            ClientStatus::Complete => "complete",
            ClientStatus::Degraded => "degraded",
            ClientStatus::Failed => "failed",
            ClientStatus::Lost => "lost",
            ClientStatus::Unknown => "unknown",
        }
    }
}

/// What matters here of one allocation on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// How it is.
    pub status: AllocStatus,
    /// It is to stop, or was to.
    pub stopped: bool,
    /// Another one took its place.
    pub replaced: bool,
    /// It was placed for a version of the job before this one.
    pub old: bool,
}

/// The status of a job on a node where it should have `expected` allocations and has these.
#[must_use]
pub fn status_on(pending: bool, expected: usize, facts: &[Fact]) -> ClientStatus {
    if pending {
        return ClientStatus::Queued;
    }
    if facts.is_empty() {
        return ClientStatus::NotScheduled;
    }
    let placed = facts.iter().filter(|fact| !fact.replaced).count();
    if placed < expected {
        return ClientStatus::Degraded;
    }
    let live = |fact: &&Fact| !fact.replaced && !fact.stopped && !fact.old;
    let stopped = |fact: &&Fact| !fact.replaced && !fact.old;
    let any_live = facts.iter().any(|fact| live(&fact));
    let counted = || {
        facts
            .iter()
            .filter(move |fact| if any_live { live(fact) } else { stopped(fact) })
            .map(|fact| fact.status)
    };
    let all = |status| counted().next().is_some() && counted().all(|met| met == status);
    let any = |status| counted().any(|met| met == status);
    for (of_allocs, status) in [
        (AllocStatus::Failed, ClientStatus::Failed),
        (AllocStatus::Lost, ClientStatus::Lost),
        (AllocStatus::Complete, ClientStatus::Complete),
    ] {
        if all(of_allocs) {
            return status;
        }
    }
    if any(AllocStatus::Failed) || any(AllocStatus::Lost) {
        ClientStatus::Degraded
    } else if any(AllocStatus::Running) {
        ClientStatus::Running
    } else if any(AllocStatus::Unknown) {
        ClientStatus::Unknown
    } else {
        ClientStatus::Starting
    }
}

/// A job on one node.
#[derive(Debug, Clone, PartialEq)]
pub struct Client<'a> {
    /// The node.
    pub node: NodeIx,
    /// The job's status there.
    pub status: ClientStatus,
    /// Why, where it is known.
    pub reason: Option<Cow<'a, str>>,
    /// How many allocations the job has there.
    pub allocs: u32,
    /// When the first of them came.
    pub created: Option<Timestamp>,
    /// When one of them last changed.
    pub modified: Option<Timestamp>,
    /// The newest entry that changed one of them, or what is known of the node.
    pub modify_seq: u64,
}

/// A job on every node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PerClient<'a> {
    /// One row a node, in the order of the table of nodes.
    pub rows: Vec<Client<'a>>,
    counts: [u32; 9],
}

impl PerClient<'_> {
    /// How many nodes have this status.
    #[must_use]
    pub fn count(&self, status: ClientStatus) -> u32 {
        self.counts.get(status as usize).copied().unwrap_or(0)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.rows.len()
    }
}

/// A job on every node that it could be on, or is.
///
/// Those are the listed nodes of the job's pool (its queue, if some node is in a pool of that name; else all), and those where it has
/// an allocation.
#[must_use]
pub fn per_client<'a>(record: &'a Record, nodes: &'a Nodes) -> PerClient<'a> {
    let allocs = Allocs::of(record, nodes);
    let mut on: Vec<Option<u32>> = vec![None; nodes.len()];
    let all: Vec<_> = allocs.iter().collect();
    for (at, alloc) in (0u32..).zip(&all) {
        if let Some(place) = on.get_mut(alloc.node.0 as usize) {
            *place = Some(at);
        }
    }
    let pool = record.spec().queue.as_deref();
    let pool = pool.filter(|pool| nodes.listed().any(|(_, node)| node.pool.as_ref() == *pool));
    let known = nodes.known_len() == 0;
    let mut sum = PerClient::default();
    let waits = waits_for(record);
    for (at, node) in nodes.iter() {
        let held = on.get(at.0 as usize).copied().flatten();
        let held = held.and_then(|at| all.get(at as usize));
        let listed = (known || node.known) && pool.is_none_or(|pool| node.pool.as_ref() == pool);
        if held.is_none() && !listed {
            continue;
        }
        let fact = held.map(|alloc| Fact {
            status: alloc.status,
            stopped: alloc.desired_stop,
            replaced: false,
            old: false,
        });
        let status = status_on(record.status() == Some(Status::Pending), 1, fact.as_slice());
        let reason = match (status, held) {
            (ClientStatus::Queued, _) => not_ready(node).or_else(|| waits.clone()),
            (ClientStatus::NotScheduled, _) => not_ready(node).or_else(|| {
                (record.kind() == Kind::Sysbatch)
                    .then_some(Cow::Borrowed("was not ready when the job began"))
            }),
            (_, Some(alloc)) => alloc
                .reason
                .map(|reason| Cow::Owned(reason.to_owned()))
                .or_else(|| match status {
                    ClientStatus::Unknown => not_ready(node),
                    _ => None,
                }),
            (_, None) => None,
        };
        if let Some(count) = sum.counts.get_mut(status as usize) {
            *count += 1;
        }
        sum.rows.push(Client {
            node: at,
            status,
            reason,
            allocs: u32::from(held.is_some()),
            created: held.map(|alloc| alloc.created.time),
            modified: held.map(|alloc| alloc.modified.time),
            modify_seq: held
                .map_or(0, |alloc| alloc.modified.seq)
                .max(node.modify_seq),
        });
    }
    sum
}

/// Why no new job gets the node; none if one could, or nobody says.
fn not_ready(node: &Node) -> Option<Cow<'_, str>> {
    if !node.known {
        return None;
    }
    if let Some(drain) = &node.drain {
        let since = drain.since;
        return Some(Cow::Owned(if drain.reason.is_empty() {
            format!("drained since {since}")
        } else {
            format!("drained since {since}: {}", drain.reason)
        }));
    }
    if node.up {
        return None;
    }
    Some(match &node.down_reason {
        Some(reason) => Cow::Owned(format!("node is down: {reason}")),
        None => Cow::Borrowed("node is down"),
    })
}

/// What a pending job waits for.
fn waits_for(record: &Record) -> Option<Cow<'_, str>> {
    let job = record.job();
    match job.state {
        State::Depend => {
            let first = job.dependencies.as_ref().and_then(|all| all.first());
            first.map(|first| Cow::Owned(format!("waits for {first}")))
        }
        State::Priority | State::Sched if job.urgency == job::Urgency::HOLD => {
            Some(Cow::Borrowed("held"))
        }
        State::Sched => Some(Cow::Borrowed("waits for resources")),
        _ => None,
    }
}
