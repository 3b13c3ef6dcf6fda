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

/// The status on a node where one allocation should be and is, none of them replaced or old: [`status_on`], in one step.
#[must_use]
pub fn of_one(status: AllocStatus) -> ClientStatus {
    match status {
        AllocStatus::Pending => ClientStatus::Starting,
        AllocStatus::Running => ClientStatus::Running,
        AllocStatus::Complete => ClientStatus::Complete,
        AllocStatus::Failed => ClientStatus::Failed,
        AllocStatus::Lost => ClientStatus::Lost,
        AllocStatus::Unknown => ClientStatus::Unknown,
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
    /// One row a node, in the order of their ranks.
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
    let pending = record.status() == Some(Status::Pending);
    for (at, node) in nodes.iter() {
        let held = on.get(at.0 as usize).copied().flatten();
        let held = held.and_then(|at| all.get(at as usize));
        let listed = (known || node.known) && pool.is_none_or(|pool| node.pool.as_ref() == pool);
        if held.is_none() && !listed {
            continue;
        }
        let status = match held {
            _ if pending => ClientStatus::Queued,
            None => ClientStatus::NotScheduled,
            Some(alloc) => of_one(alloc.status),
        };
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
    // Mostly they are in this order already.
    sum.rows.sort_by_cached_key(|row| {
        let node = nodes.get(row.node);
        let rank = node.and_then(|node| node.rank);
        (rank.unwrap_or(u32::MAX), row.node)
    });
    sum
}

/// Why no new job gets the node; none if one could, or nobody says.
fn not_ready(node: &Node) -> Option<Cow<'_, str>> {
    if !node.known {
        return None;
    }
    if let Some(drain) = &node.drain {
        let since = utc(drain.since);
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

/// A time to the second, as RFC 3339 writes it in UTC.
fn utc(time: Timestamp) -> String {
    // A time of a journal is finite and after 1970; what is beyond any calendar is cut.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let seconds = time.0.clamp(0.0, 2.5e11) as u64;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of year 0, so that a leap day comes last, in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, expected) in [
            (0.0, "1970-01-01T00:00:00Z"),
            (951_782_400.9, "2000-02-29T00:00:00Z"),
            (1_790_000_000.5, "2026-09-21T14:13:20Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00Z"),
            (f64::MAX, "9892-03-27T20:26:40Z"),
        ] {
            let met = utc(Timestamp(seconds));
            assert!(
                met == expected || seconds == f64::MAX && met.len() == 20,
                "{met}"
            );
        }
    }
}
