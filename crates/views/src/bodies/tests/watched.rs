//! What a body depends on is all that changes it: otherwise somebody would wait for a change that has come.

use std::collections::BTreeMap;

use info::Changes;
use job::JobId;
use proptest::prelude::*;

use super::{jobs, list};
use crate::{
    ask::Viewer,
    bodies::{ListParams, Query},
    names,
    testing::Feed,
    watch::{Jobs, Nodes, Watch},
};

/// A few jobs, whatever may happen to them, and to two nodes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Submit(u64),
    Parent(u64),
    Child(u64, u64),
    Run(u64, u32),
    End(u64, i32),
    Cancel(u64),
    Purge(u64),
    Announce(u32),
    Node(u32, &'static str),
    Fold,
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 1_u64..6;
    prop_oneof![
        1 => id().prop_map(Step::Submit),
        1 => id().prop_map(Step::Parent),
        1 => (id(), id()).prop_map(|(id, parent)| Step::Child(id, parent)),
        1 => (id(), 0_u32..2).prop_map(|(id, rank)| Step::Run(id, rank)),
        1 => (id(), 0..2_i32).prop_map(|(id, status)| Step::End(id, status * 256)),
        1 => id().prop_map(Step::Cancel),
        1 => id().prop_map(Step::Purge),
        1 => (0_u32..2).prop_map(Step::Announce),
        1 => (
            0_u32..2,
            prop::sample::select(vec!["online", "offline", "drain", "undrain"])
        )
            .prop_map(|(rank, name)| Step::Node(rank, name)),
        4 => Just(Step::Fold),
    ]
}

/// How far a job is, so that only what may come is said.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Parent,
    Waits,
    Runs,
    Over,
    Gone,
}

fn say(feed: &mut Feed, jobs: &mut BTreeMap<u64, Place>, step: Step) {
    let place = |id: &u64| jobs.get(id).copied();
    let (id, now) = match step {
        Step::Submit(id) if place(&id).is_none() => {
            feed.submit(id, 1000, "a", "");
            (id, Place::Waits)
        }
        Step::Parent(id) if place(&id).is_none() => {
            feed.submit(id, 1000, "a", r#""weir":{"parameterized":{}},"#);
            (id, Place::Parent)
        }
        Step::Child(id, parent)
            if place(&id).is_none() && place(&parent) == Some(Place::Parent) =>
        {
            feed.submit(
                id,
                1000,
                "a",
                &format!(r#""weir":{{"parent":{parent},"dispatch":{{}}}},"#),
            );
            (id, Place::Waits)
        }
        Step::Run(id, rank) if place(&id) == Some(Place::Waits) => {
            feed.run(id, &rank.to_string());
            (id, Place::Runs)
        }
        Step::End(id, status) if place(&id) == Some(Place::Runs) => {
            feed.end(id, status);
            (id, Place::Over)
        }
        Step::Cancel(id) if matches!(place(&id), Some(Place::Waits | Place::Parent)) => {
            feed.cancel(id);
            (id, Place::Over)
        }
        Step::Purge(id) if place(&id) == Some(Place::Over) => {
            feed.purge(id);
            // An id never comes again.
            (id, Place::Gone)
        }
        Step::Announce(rank) => return feed.nodes(&format!("0-{}", rank + 1), "{}"),
        Step::Node(rank, name) => {
            let context = format!(
                r#"{{"idset":"{rank}","nodelist":"n{rank}","reason":"r","overwrite":0,"userid":1000}}"#
            );
            return feed.resource(name, &context);
        }
        _ => return,
    };
    jobs.insert(id, now);
}

fn queries() -> Vec<Query> {
    let all = ListParams::default();
    let named = |rank: u32| names::text(&names::node(&format!("n{rank}"))).to_owned();
    let mut queries = vec![
        jobs(all),
        jobs(ListParams {
            filter: "Status == running",
            ..all
        }),
        jobs(ListParams {
            per_page: 2,
            reverse: true,
            ..all
        }),
        Query::Allocations {
            list: list(all),
            resources: false,
        },
        Query::Nodes {
            list: list(all),
            resources: true,
            os: true,
        },
        Query::NodePools(list(all)),
    ];
    for id in 1..6 {
        let job = Some(JobId(id));
        queries.extend([
            Query::Job(job),
            Query::Summary(job),
            Query::JobVersions(job),
            Query::JobAllocations(job, list(all)),
            Query::Allocation(names::text(&names::allocation(JobId(id), 0, 0)).into()),
        ]);
    }
    for rank in 0..2 {
        for text in [named(rank), format!("n{rank}")] {
            queries.push(Query::Node(text.as_str().into()));
            queries.push(Query::NodeAllocations(text.as_str().into()));
        }
    }
    queries
}

/// The body, or the refusal, and the next token.
fn text(feed: &Feed, query: &Query) -> String {
    match query.make(&feed.projection, Viewer::OWNER) {
        Ok(made) => format!(
            "{:?} {}",
            made.next_token,
            String::from_utf8_lossy(&made.body.to_vec())
        ),
        Err(error) => error.to_string(),
    }
}

/// Whether what changed is among what a body depends on.
fn covers(watch: &Watch, changes: &Changes, feed: &Feed) -> bool {
    let of_jobs = match watch.jobs {
        Jobs::None => false,
        Jobs::All => !changes.jobs.is_empty(),
        Jobs::One(id) => changes.jobs.iter().any(|change| {
            let record = feed.projection.jobs().get(change.id);
            change.id == id || record.is_some_and(|record| record.parent() == Some(id))
        }),
    };
    let of_nodes = match &watch.nodes {
        Nodes::None => false,
        Nodes::All => !changes.nodes.is_empty(),
        Nodes::One(name) => changes.nodes.iter().any(|(changed, _)| changed == name),
    };
    of_jobs || of_nodes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_changes_a_body_is_among_what_it_depends_on(steps in prop::collection::vec(step(), 1..60)) {
        let mut feed = Feed::new();
        let mut known = BTreeMap::new();
        let queries = queries();
        let mut before: Vec<String> = queries.iter().map(|query| text(&feed, query)).collect();
        for step in steps {
            if !matches!(step, Step::Fold) {
                say(&mut feed, &mut known, step);
                continue;
            }
            let watched: Vec<Watch> = queries.iter().map(|query| query.watch(&feed.projection)).collect();
            let changes = feed.fold();
            for ((query, watch), text_before) in queries.iter().zip(&watched).zip(&mut before) {
                let now = text(&feed, query);
                prop_assert!(
                    now == *text_before || covers(watch, &changes, &feed),
                    "{query:?} is another after {changes:?}:\n{text_before}\n{now}"
                );
                *text_before = now;
            }
        }
    }
}
