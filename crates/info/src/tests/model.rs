//! What the planner must agree with: every job looked at, every constraint evaluated as RFC 31 words it.

use std::cmp::Reverse;

use job::{State, Timestamp, hostlist::Hostlist, idset::Idset};

use crate::{
    constraint::{ANY_USER, Constraint},
    jobs::Jobs,
    place::Group,
    record::Record,
};

/// Whether one job meets a constraint.
pub(super) fn matches(constraint: &Constraint, record: &Record) -> bool {
    match constraint {
        Constraint::And(parts) => parts.iter().all(|part| matches(part, record)),
        Constraint::Or(parts) => parts.is_empty() || parts.iter().any(|part| matches(part, record)),
        Constraint::Not(parts) => !parts.iter().all(|part| matches(part, record)),
        Constraint::User(users) => {
            users.contains(&ANY_USER) || users.contains(&record.job().userid)
        }
        Constraint::Name(names) => record
            .spec()
            .name
            .as_ref()
            .is_some_and(|name| names.iter().any(|n| **n == **name)),
        Constraint::Queue(queues) => record
            .spec()
            .queue
            .as_ref()
            .is_some_and(|queue| queues.iter().any(|q| **q == **queue)),
        Constraint::States(states) => states.contains(record.job().state),
        Constraint::Results(results) => record
            .job()
            .result()
            .is_some_and(|result| results.contains(result)),
        Constraint::Hosts(hosts) => record.allocation().is_some_and(|allocation| {
            let list: Hostlist = allocation.nodelist.parse().expect("a hostlist");
            hosts.iter().any(|host| list.contains(host))
        }),
        Constraint::Ranks(ranks) => record.allocation().is_some_and(|allocation| {
            let set: Idset = allocation.ranks.parse().expect("an idset");
            ranks.iter().any(|&rank| set.contains(rank))
        }),
        Constraint::Parent(ids) => record.parent().is_some_and(|id| ids.contains(&id)),
        Constraint::Time(field, compare, limit) => record
            .time(*field)
            .is_some_and(|time| compare.holds(time, *limit)),
    }
}

/// All jobs in listing order, sorted anew.
pub(super) fn sorted(jobs: &Jobs) -> Vec<&Record> {
    let mut records: Vec<&Record> = (0..1 << 12).filter_map(|slot| jobs.record(slot)).collect();
    records.retain(|record| record.job().state != State::New);
    let time = |time: Option<Timestamp>| Reverse(time.unwrap_or(Timestamp::ZERO));
    records.sort_by_key(|record| {
        let job = record.job();
        match Group::of(job.state) {
            None | Some(Group::Pending) => (
                0,
                Reverse(job.priority.map_or(0, |priority| priority.0)),
                time(None),
                job.id.0,
            ),
            Some(Group::Running) => (1, Reverse(0), time(job.t_run.get()), !job.id.0),
            Some(Group::Inactive) => (2, Reverse(0), time(job.t_inactive.get()), !job.id.0),
        }
    });
    records
}
