//! A constraint (RFC 31, JSON): its bounds, and that the jobs a query finds by indexes are those that meet it one by one.

use crate::instance::{LISTED, listing};
use info::constraint::{ANY_USER, DEPTH_MAX, HOSTS_MAX, VALUES_MAX};
use info::{Constraint, Jobs, Query, Record};
use job::JobId;
use serde_json::Value;

/// Nodes of the instance.
const NODES: usize = 4;
/// The longest text a refusal may have, whatever was sent.
const ERROR_BYTES_MAX: usize = 1024;

/// Reads a constraint, and asks a small listing for the jobs that meet it.
pub fn check(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    match Constraint::parse(&value, NODES) {
        Ok(constraint) => found(&constraint),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.len() <= ERROR_BYTES_MAX,
                "{} bytes of error",
                text.len()
            );
        }
    }
}

/// Asks for the jobs that meet the constraint in every way there is.
pub(crate) fn found(constraint: &Constraint) {
    assert!(depth(constraint) <= DEPTH_MAX);
    assert!(values(constraint) <= VALUES_MAX * HOSTS_MAX);
    let projection = listing();
    let jobs = projection.jobs();
    let all = ask(jobs, Constraint::everything(), 0);
    assert_eq!(all.len(), LISTED);
    let met = ask(jobs, constraint.clone(), 0);
    let expected: Vec<JobId> = all
        .iter()
        .copied()
        .filter(|&id| jobs.get(id).is_some_and(|job| meets(constraint, job)))
        .collect();
    assert_eq!(met, expected, "by indexes, and one by one");
    let others = ask(jobs, Constraint::Not(vec![constraint.clone()]), 0);
    assert_eq!(
        met.len() + others.len(),
        LISTED,
        "a job meets it or does not"
    );
    assert!(others.iter().all(|id| !met.contains(id)));
    let first = ask(jobs, constraint.clone(), 2);
    assert_eq!(
        first,
        met[..met.len().min(2)],
        "a page is the beginning of the whole"
    );
    for id in &met {
        let user = jobs.get(*id).map_or(0, |job| job.job().userid);
        let tag = info::place::user_tag(user);
        assert!(
            constraint.user_tags() & tag != 0,
            "user {user} is not among the tags"
        );
    }
}

fn ask(jobs: &Jobs, constraint: Constraint, limit: usize) -> Vec<JobId> {
    let query = Query {
        constraint,
        since: 0.0,
        limit,
    };
    let met = query.run(jobs);
    assert!(met.is_ok(), "a listing of {LISTED} is too large");
    met.unwrap_or_default()
}

fn depth(constraint: &Constraint) -> usize {
    1 + parts(constraint).iter().map(depth).max().unwrap_or(0)
}

fn values(constraint: &Constraint) -> usize {
    let own = match constraint {
        Constraint::Name(all) | Constraint::Queue(all) | Constraint::Hosts(all) => all.len(),
        Constraint::User(all) | Constraint::Ranks(all) => all.len(),
        Constraint::Parent(all) => all.len(),
        _ => 0,
    };
    1 + own + parts(constraint).iter().map(values).sum::<usize>()
}

fn parts(constraint: &Constraint) -> &[Constraint] {
    match constraint {
        Constraint::And(parts) | Constraint::Or(parts) | Constraint::Not(parts) => parts,
        _ => &[],
    }
}

/// Whether one job meets it, as RFC 31 says it and with nothing looked up.
fn meets(constraint: &Constraint, record: &Record) -> bool {
    let (job, spec) = (record.job(), record.spec());
    let among = |names: &[Box<str>], name: Option<&str>| {
        name.is_some_and(|name| names.iter().any(|one| &**one == name))
    };
    match constraint {
        Constraint::And(parts) => parts.iter().all(|part| meets(part, record)),
        Constraint::Or(parts) => parts.is_empty() || parts.iter().any(|part| meets(part, record)),
        Constraint::Not(parts) => !parts.iter().all(|part| meets(part, record)),
        Constraint::User(users) => users.contains(&ANY_USER) || users.contains(&job.userid),
        Constraint::Name(names) => among(names, spec.name.as_deref()),
        Constraint::Queue(queues) => among(queues, spec.queue.as_deref()),
        Constraint::States(states) => states.contains(job.state),
        Constraint::Results(results) => job.result().is_some_and(|one| results.contains(one)),
        Constraint::Hosts(hosts) => record.allocation().is_some_and(|held| {
            held.nodelist
                .parse::<job::Hostlist>()
                .is_ok_and(|list| hosts.iter().any(|host| list.contains(host)))
        }),
        Constraint::Ranks(ranks) => record.allocation().is_some_and(|held| {
            held.ranks
                .parse::<job::Idset>()
                .is_ok_and(|set| ranks.iter().any(|&rank| set.contains(rank)))
        }),
        Constraint::Parent(ids) => record.parent().is_some_and(|id| ids.contains(&id)),
        Constraint::Time(field, compare, limit) => record
            .time(*field)
            .is_some_and(|time| compare.holds(time, *limit)),
    }
}
