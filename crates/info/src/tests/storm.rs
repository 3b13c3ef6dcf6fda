//! Random events: the orders against a sort, the planner against brute force, the fold against itself.

use std::collections::{BTreeMap, BTreeSet};

use job::{Event, Job, JobId, JobResult, State};
use proptest::prelude::*;

use super::{
    feed::{Feed, Sent, batch, define, everything, fold, live, spec, weir_spec},
    model::{matches, sorted},
    oracle::Oracle,
};
use crate::{
    constraint::{Compare, Constraint, TimeField},
    projection::{Form, Projection},
    query::Query,
};

#[derive(Debug, Clone)]
pub(super) enum Act {
    Submit {
        user: u32,
        urgency: u32,
        name: u8,
        queue: u8,
    },
    Urgency {
        pick: usize,
        urgency: u32,
    },
    Requeue {
        pick: usize,
        queue: u8,
    },
    Alloc {
        pick: usize,
        rank: u32,
    },
    End {
        pick: usize,
        status: i32,
    },
    Cancel {
        pick: usize,
        kind: u8,
    },
    Clean {
        pick: usize,
    },
    Purge {
        pick: usize,
    },
    /// A job that others are dispatched from.
    Parent,
    /// One that is.
    Dispatch {
        pick: usize,
    },
    /// Resources on several nodes.
    Spread {
        pick: usize,
        ranks: u8,
    },
    Start {
        pick: usize,
    },
    /// What became of some of its allocations.
    Report {
        pick: usize,
        ranks: u8,
        status: u8,
    },
    /// Something about nodes.
    Node {
        kind: u8,
        ranks: u8,
    },
    /// An entry that does not fit, as a damaged journal has it.
    Damage {
        pick: usize,
        kind: u8,
    },
}

/// Sets of ranks.
const RANKS: [&str; 6] = ["0", "1-2", "0-3", "3", "0,2-3", "1,3"];

pub(super) fn act() -> impl Strategy<Value = Act> {
    let pick = 0usize..400;
    prop_oneof![
        6 => (0u32..4, 0u32..32, 0u8..5, 0u8..3).prop_map(|(user, urgency, name, queue)| Act::Submit { user, urgency, name, queue }),
        4 => (pick.clone(), 0u32..32).prop_map(|(pick, urgency)| Act::Urgency { pick, urgency }),
        1 => (pick.clone(), 0u8..3).prop_map(|(pick, queue)| Act::Requeue { pick, queue }),
        4 => (pick.clone(), 0u32..4).prop_map(|(pick, rank)| Act::Alloc { pick, rank }),
        3 => (pick.clone(), 0i32..3).prop_map(|(pick, status)| Act::End { pick, status }),
        2 => (pick.clone(), 0u8..3).prop_map(|(pick, kind)| Act::Cancel { pick, kind }),
        2 => pick.clone().prop_map(|pick| Act::Clean { pick }),
        1 => pick.clone().prop_map(|pick| Act::Purge { pick }),
        1 => Just(Act::Parent),
        3 => pick.clone().prop_map(|pick| Act::Dispatch { pick }),
        2 => (pick.clone(), 0u8..6).prop_map(|(pick, ranks)| Act::Spread { pick, ranks }),
        3 => pick.clone().prop_map(|pick| Act::Start { pick }),
        3 => (pick.clone(), 0u8..6, 0u8..6).prop_map(|(pick, ranks, status)| Act::Report { pick, ranks, status }),
        3 => (0u8..5, 0u8..6).prop_map(|(kind, ranks)| Act::Node { kind, ranks }),
        1 => (pick, 0u8..3).prop_map(|(pick, kind)| Act::Damage { pick, kind }),
    ]
}

type Make = Box<dyn FnOnce(&mut Feed) -> Vec<Sent>>;

/// The entries that fit the state their job is in, up to the first that does not; the feed is then as if it had not been made.
fn fitting(
    feed: &mut Feed,
    jobs: &mut BTreeMap<u64, Job>,
    id: u64,
    made: impl FnOnce(&mut Feed) -> Vec<Sent>,
) -> Vec<Sent> {
    let (before, at) = (feed.clone(), jobs.get(&id).cloned());
    let sent = made(feed);
    let fit = sent.iter().all(|sent| {
        let entry: serde_json::Value = serde_json::from_str(&sent.json).expect("JSON");
        let event = Event::parse(entry["entry"].to_string().as_bytes()).expect("an event");
        match jobs.get_mut(&id) {
            Some(job) => job.apply(&event).is_ok(),
            None => Job::new(JobId(id), &event).is_ok_and(|job| jobs.insert(id, job).is_none()),
        }
    });
    if fit {
        return sent;
    }
    *feed = before;
    match at {
        Some(job) => jobs.insert(id, job),
        None => jobs.remove(&id),
    };
    Vec::new()
}

/// The entries of a storm: a journal as the job-manager makes it, and a little damage, which costs the job it is in.
pub(super) fn entries(acts: &[Act]) -> Vec<Sent> {
    let mut feed = Feed::default();
    let mut resources = job::Resources::new();
    let mut parents: Vec<u64> = Vec::new();
    let mut jobs: BTreeMap<u64, Job> = BTreeMap::new();
    let mut ids: Vec<u64> = Vec::new();
    let mut gone: BTreeSet<u64> = BTreeSet::new();
    let mut all = Vec::new();
    for act in acts {
        let job = |pick: usize| {
            let id = ids.get(pick % ids.len().max(1)).copied();
            id.filter(|id| !gone.contains(id))
        };
        let (id, made): (u64, Make) = match *act {
            Act::Submit {
                user,
                urgency,
                name,
                queue,
            } => {
                let id = (ids.len() as u64 + 1) * 1000;
                let queue = ["", "a", "b"]
                    .get(queue as usize)
                    .filter(|queue| !queue.is_empty())
                    .copied();
                ids.push(id);
                let spec = spec(&format!("name{name}"), queue);
                (
                    id,
                    Box::new(move |feed| feed.submit(id, user, urgency, &spec)),
                )
            }
            Act::Parent => {
                let id = (ids.len() as u64 + 1) * 1000;
                ids.push(id);
                parents.push(id);
                let spec = weir_spec("parent", r#"{"parameterized":{}}"#);
                let wait = r#"{"description":"dispatch"}"#;
                let context = r#"{"userid":1,"urgency":16,"flags":0,"version":1}"#;
                let made = move |feed: &mut Feed| {
                    vec![
                        feed.entry(id, "submit", context, &format!("\"jobspec\":{spec}")),
                        feed.entry(id, "validate", "", ""),
                        feed.entry(id, "dependency-add", wait, ""),
                    ]
                };
                (id, Box::new(made))
            }
            Act::Dispatch { pick } => {
                let Some(parent) = parents.get(pick % parents.len().max(1)) else {
                    continue;
                };
                let id = (ids.len() as u64 + 1) * 1000;
                ids.push(id);
                let spec = weir_spec(
                    "child",
                    &format!(r#"{{"parent":{parent},"dispatch":{{"meta":{{}}}}}}"#),
                );
                (id, Box::new(move |feed| feed.submit(id, 1, 16, &spec)))
            }
            Act::Spread { pick, ranks } => {
                let Some(id) = job(pick) else { continue };
                let ranks = RANKS[ranks as usize];
                (id, Box::new(move |feed| vec![feed.alloc_on(id, ranks)]))
            }
            Act::Start { pick } => {
                let Some(id) = job(pick) else { continue };
                (
                    id,
                    Box::new(move |feed| vec![feed.entry(id, "start", "", "")]),
                )
            }
            Act::Report {
                pick,
                ranks,
                status,
            } => {
                let Some(id) = job(pick) else { continue };
                let (ranks, status) = (
                    RANKS[ranks as usize],
                    job::AllocStatus::ALL[status as usize],
                );
                let context =
                    format!(r#"{{"allocs":[{{"ranks":"{ranks}","status":"{status}"}}]}}"#);
                (
                    id,
                    Box::new(move |feed| vec![feed.entry(id, "alloc-status", &context, "")]),
                )
            }
            Act::Node { kind, ranks } => {
                let ranks = RANKS[ranks as usize];
                let (name, context) = match kind {
                    0 if ranks.contains('-') => ("resource-define", define(ranks, r#"{}"#)),
                    0 => ("resource-define", define("0-3", r#"{"a":"0","b":"1-2"}"#)),
                    1 => ("online", format!(r#"{{"idset":"{ranks}"}}"#)),
                    2 => (
                        "offline",
                        format!(r#"{{"idset":"{ranks}","reason":"gone"}}"#),
                    ),
                    3 => (
                        "drain",
                        format!(
                            r#"{{"idset":"{ranks}","reason":"fans","overwrite":0,"userid":7}}"#
                        ),
                    ),
                    _ => ("undrain", format!(r#"{{"idset":"{ranks}","userid":7}}"#)),
                };
                let before = (feed.clone(), resources.clone());
                let sent = feed.resource(name, &context);
                let entry: serde_json::Value = serde_json::from_str(&sent.json).expect("JSON");
                let event = Event::parse(entry["entry"].to_string().as_bytes()).expect("an event");
                if resources.apply(job::Seq(feed.seq), &event).is_ok() {
                    all.push(sent);
                } else {
                    (feed, resources) = before;
                }
                continue;
            }
            Act::Purge { pick } | Act::Damage { pick, .. } => {
                let Some(id) = job(pick) else { continue };
                if let Act::Damage { kind, .. } = *act {
                    // Before a job is over there is no `clean`, and after nothing else; a `submit` there is once.
                    let name = ["submit", "validate", "clean"][kind as usize];
                    let context = [r#"{"userid":1,"urgency":1,"flags":0}"#, "", ""][kind as usize];
                    let before = (feed.clone(), jobs.get(&id).cloned());
                    if !fitting(&mut feed, &mut jobs, id, |feed| {
                        vec![feed.entry(id, name, context, "")]
                    })
                    .is_empty()
                    {
                        feed = before.0;
                        jobs.extend(before.1.map(|job| (id, job)));
                        continue;
                    }
                    all.push(feed.entry(id, name, context, ""));
                } else {
                    all.push(feed.system("purge", &format!(r#"{{"jobs":[{id}]}}"#)));
                    gone.insert(id);
                }
                continue;
            }
            Act::Urgency { pick, urgency } => {
                let Some(id) = job(pick) else { continue };
                (id, Box::new(move |feed| feed.urgency(id, urgency)))
            }
            Act::Requeue { pick, queue } => {
                let Some(id) = job(pick) else { continue };
                let queue = ["a", "b", "c"][queue as usize];
                let updates = format!(r#"{{"attributes.system.queue":"{queue}"}}"#);
                let name = "jobspec-update";
                (
                    id,
                    Box::new(move |feed| vec![feed.entry(id, name, &updates, "")]),
                )
            }
            Act::Alloc { pick, rank } => {
                let Some(id) = job(pick) else { continue };
                (id, Box::new(move |feed| vec![feed.alloc(id, rank)]))
            }
            Act::End { pick, status } => {
                let Some(id) = job(pick) else { continue };
                (id, Box::new(move |feed| feed.end(id, status)))
            }
            Act::Cancel { pick, kind } => {
                let Some(id) = job(pick) else { continue };
                let kind = ["cancel", "timeout", "exec"][kind as usize];
                (id, Box::new(move |feed| vec![feed.exception(id, kind)]))
            }
            Act::Clean { pick } => {
                let Some(id) = job(pick) else { continue };
                (
                    id,
                    Box::new(move |feed| vec![feed.entry(id, "clean", "", "")]),
                )
            }
        };
        all.extend(fitting(&mut feed, &mut jobs, id, made));
    }
    all
}

pub(super) fn play_in_batches(entries: &[Sent], sizes: &[usize], twice: bool) -> Projection {
    let mut projection = live();
    let mut rest = entries;
    let mut sizes = sizes.iter().cycle();
    let mut seq = 0;
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).clamp(1, rest.len());
        let (now, later) = rest.split_at(size);
        seq += size as u64;
        for _ in 0..=u8::from(twice) {
            let _ = fold(&mut projection, &batch(now, &format!("\"seq\":{seq}")));
        }
        rest = later;
    }
    projection
}

fn check(projection: &Projection) {
    let jobs = projection.jobs();
    let model = sorted(jobs);
    let listed = Query::default().run(jobs).expect("within budget");
    assert_eq!(
        listed,
        model.iter().map(|record| record.id()).collect::<Vec<_>>()
    );
    let mut group_start = 0;
    for (at, record) in model.iter().enumerate() {
        let (group, rank) = jobs.rank(record.id()).expect("in a group");
        if at > 0 && crate::Group::of(model[at - 1].job().state) != Some(group) {
            group_start = at;
        }
        assert_eq!(rank, at - group_start);
    }
    for state in State::ALL.into_iter().skip(1) {
        let expected = model
            .iter()
            .filter(|record| record.job().state == state)
            .count() as u64;
        assert_eq!(jobs.counts().all().state(state), expected);
        assert_eq!(
            jobs.index().state(state).map_or(0, |set| set.len()),
            expected
        );
    }
    for result in JobResult::ALL {
        let expected = model
            .iter()
            .filter(|record| record.job().result() == Some(result))
            .count() as u64;
        assert_eq!(jobs.counts().all().result(result), expected);
    }
    for queue in ["a", "b", "c"] {
        let expected = model
            .iter()
            .filter(|record| record.spec().queue.as_deref() == Some(queue))
            .count() as u64;
        assert_eq!(
            jobs.counts().queue(queue).map_or(0, |tally| tally.total()),
            expected
        );
    }
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let texts = |texts: Vec<&'static str>| {
        proptest::sample::subsequence(texts.clone(), 0..texts.len())
            .prop_map(|some| some.into_iter().map(Into::into).collect::<Vec<Box<str>>>())
    };
    let field = proptest::sample::select(vec![
        TimeField::Submit,
        TimeField::Sched,
        TimeField::Run,
        TimeField::Cleanup,
        TimeField::Inactive,
    ]);
    let compare = proptest::sample::select(vec![
        Compare::AtLeast,
        Compare::AtMost,
        Compare::After,
        Compare::Before,
    ]);
    let leaf = prop_oneof![
        proptest::collection::vec(prop_oneof![0u32..6, Just(u32::MAX)], 0..3)
            .prop_map(Constraint::User),
        texts(vec!["name0", "name1", "name4", "nobody"]).prop_map(Constraint::Name),
        texts(vec!["a", "b", "c", "nowhere"]).prop_map(Constraint::Queue),
        (0u32..128).prop_map(|mask| Constraint::States(job::StateSet(mask))),
        (0u32..16).prop_map(|mask| Constraint::Results(job::ResultSet(mask))),
        texts(vec!["n0", "n1", "n9"]).prop_map(Constraint::Hosts),
        proptest::collection::vec(0u32..6, 0..3).prop_map(Constraint::Ranks),
        (field, compare, 0u32..400).prop_map(|(field, compare, t)| Constraint::Time(
            field,
            compare,
            f64::from(t)
        )),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Constraint::And),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Constraint::Or),
            proptest::collection::vec(inner, 0..3).prop_map(Constraint::Not),
        ]
    })
}

pub(super) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn orders_indexes_and_counts_agree_with_a_sort_after_any_events(
        acts in proptest::collection::vec(act(), 1..300),
        sizes in proptest::collection::vec(1usize..40, 1..8),
    ) {
        let entries = entries(&acts);
        let projection = play_in_batches(&entries, &sizes, false);
        check(&projection);
        Oracle::of(&entries).check(&projection);
    }

    #[test]
    fn folding_a_batch_twice_is_folding_it_once(
        acts in proptest::collection::vec(act(), 1..120),
        sizes in proptest::collection::vec(1usize..40, 1..8),
    ) {
        let entries = entries(&acts);
        let once = play_in_batches(&entries, &sizes, false);
        let twice = play_in_batches(&entries, &sizes, true);
        check(&twice);
        Oracle::of(&entries).check(&twice);
        prop_assert_eq!(everything(&once), everything(&twice));
        prop_assert_eq!(once.jobs().counts(), twice.jobs().counts());
        prop_assert_eq!(twice.counters().events, once.counters().events);
    }

    #[test]
    fn a_replay_swaps_in_the_list_that_following_made(
        acts in proptest::collection::vec(act(), 1..200),
        sizes in proptest::collection::vec(1usize..40, 1..8),
    ) {
        let entries = entries(&acts);
        let followed = play_in_batches(&entries, &sizes, false);
        let mut replayed = live();
        replayed.begin_fresh(Form::Native);
        for part in entries.chunks(sizes[0]) {
            let _ = fold(&mut replayed, &batch(part, "\"backlog\":true"));
            prop_assert!(everything(&replayed).is_empty());
        }
        let folded = fold(&mut replayed, &batch(&[], &format!("\"seq\":{},\"caught_up\":true", entries.len())));
        prop_assert!(folded.swapped);
        check(&replayed);
        Oracle::of(&entries).check(&replayed);
        prop_assert_eq!(everything(&followed), everything(&replayed));
        prop_assert_eq!(followed.applied(), replayed.applied());
        prop_assert_eq!(followed.jobs().set_aside(), replayed.jobs().set_aside());
    }

    #[test]
    fn the_planner_finds_what_looking_at_every_job_finds(
        acts in proptest::collection::vec(act(), 1..300),
        constraints in proptest::collection::vec((constraint(), 0usize..30, 0u32..200), 1..12),
    ) {
        let projection = play_in_batches(&entries(&acts), &[37], false);
        let jobs = projection.jobs();
        for (constraint, limit, since) in constraints {
            let since = f64::from(since);
            let expected: Vec<JobId> = sorted(jobs)
                .into_iter()
                .filter(|record| matches(&constraint, record))
                .filter(|record| since <= 0.0 || record.time(TimeField::Inactive).is_none_or(|time| time > since))
                .map(|record| record.id())
                .take(if limit == 0 { usize::MAX } else { limit })
                .collect();
            let query = Query { constraint, since, limit };
            prop_assert_eq!(query.run(jobs).expect("within budget"), expected, "{:?}", query);
        }
    }
}
