//! The walk over all combinations: every state, every set of the flags that matter, every event.
//!
//! What is expected is read from the table of `rfc/2_job.md`, which knows nothing of the code. The table in
//! the doc of the module must be the same, cell by cell.

use super::*;
use crate::event::{AllocReport, AllocStatus};
use crate::id::JobId;
use crate::idset::Idset;
use crate::priority::{Priority, Urgency};
use crate::state::JobResult;
use crate::time::Timestamp;
use serde_json::json;
use std::collections::HashMap;

mod folds;

const PAGE: &str = include_str!("../../../../rfc/2_job.md");
const CODE: &str = include_str!("../transition.rs");
const KNOWN: &str = "after-finish=ƒNH";

/// One row: the cells of the seven states, and what else must hold.
type Row = ([char; 7], Vec<&'static str>);

fn table() -> HashMap<&'static str, Row> {
    let lines = PAGE
        .lines()
        .skip_while(|line| *line != "```text transitions")
        .skip(2);
    let mut rows = HashMap::new();
    for line in lines.take_while(|line| *line != "```") {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap();
        let cells: Vec<char> = words
            .by_ref()
            .take(7)
            .map(|word| word.chars().next().unwrap())
            .collect();
        assert!(
            rows.insert(name, (cells.try_into().unwrap(), words.collect()))
                .is_none(),
            "{name} twice"
        );
    }
    rows
}

fn exception(severity: u8, kind: &str) -> EventKind {
    EventKind::Exception(ExceptionEvent {
        kind: kind.to_owned(),
        severity,
        note: format!("note {severity}"),
        userid: None,
        wait_status: None,
    })
}

/// Every event of every row; more than one where its content might matter.
fn events() -> Vec<(&'static str, EventKind)> {
    let text = |text: &str| text.to_owned();
    let map = |value: serde_json::Value| value.as_object().unwrap().clone();
    let submit = EventKind::Submit {
        userid: 1,
        urgency: Urgency::DEFAULT,
        flags: JobFlags::default(),
        version: 1,
    };
    vec![
        ("submit", submit),
        ("validate", EventKind::Validate),
        ("invalidate", EventKind::Invalidate),
        (
            "dependency-add",
            EventKind::DependencyAdd {
                description: text("new"),
            },
        ),
        (
            "dependency-add",
            EventKind::DependencyAdd {
                description: text(KNOWN),
            },
        ),
        (
            "dependency-remove",
            EventKind::DependencyRemove {
                description: text(KNOWN),
            },
        ),
        ("depend", EventKind::Depend),
        (
            "priority",
            EventKind::Priority {
                priority: Priority(7),
            },
        ),
        (
            "priority",
            EventKind::Priority {
                priority: Priority::HELD,
            },
        ),
        (
            "urgency",
            EventKind::Urgency {
                userid: 1,
                urgency: Urgency::HOLD,
            },
        ),
        (
            "jobspec-update",
            EventKind::JobspecUpdate {
                updates: map(json!({"attributes.system.duration":1})),
            },
        ),
        ("flux-restart", EventKind::FluxRestart),
        (
            "resource-update",
            EventKind::ResourceUpdate {
                expiration: Timestamp(9.0),
            },
        ),
        ("alloc", EventKind::Alloc { annotations: None }),
        (
            "alloc",
            EventKind::Alloc {
                annotations: Some(map(json!({"sched":{"a":1}}))),
            },
        ),
        (
            "prolog-start",
            EventKind::PrologStart {
                description: text("p"),
            },
        ),
        (
            "prolog-finish",
            EventKind::PrologFinish {
                description: text("p"),
                status: 1,
            },
        ),
        (
            "epilog-start",
            EventKind::EpilogStart {
                description: text("e"),
            },
        ),
        (
            "epilog-finish",
            EventKind::EpilogFinish {
                description: text("e"),
                status: 0,
            },
        ),
        ("start", EventKind::Start),
        ("exception-fatal", exception(0, "cancel")),
        ("exception-mild", exception(1, "cancel")),
        ("exception-mild", exception(7, "x")),
        ("finish", EventKind::Finish { status: 0 }),
        ("finish", EventKind::Finish { status: 256 }),
        (
            "release",
            EventKind::Release {
                ranks: text("0"),
                last: false,
            },
        ),
        (
            "release-final",
            EventKind::Release {
                ranks: text("all"),
                last: true,
            },
        ),
        ("free", EventKind::Free),
        ("clean", EventKind::Clean),
        (
            "memo",
            EventKind::Memo {
                memo: map(json!({"a":1})),
            },
        ),
        ("annotations", EventKind::Annotations { annotations: None }),
        (
            "set-flags",
            EventKind::SetFlags {
                flags: vec![text("debug"), text("unheard-of")],
            },
        ),
        (
            "alloc-status",
            EventKind::AllocStatus {
                allocs: vec![AllocReport::new(
                    Idset::from_range(0, 3),
                    AllocStatus::Failed,
                )],
            },
        ),
        (
            "other",
            EventKind::Other {
                name: "debug.x".into(),
                context: None,
            },
        ),
    ]
}

fn submitted() -> Job {
    let kind = EventKind::Submit {
        userid: 1000,
        urgency: Urgency::DEFAULT,
        flags: JobFlags::WAITABLE,
        version: 1,
    };
    Job::new(JobId(1234), &Event::new(Timestamp(1.0), kind)).unwrap()
}

const FLAGS: u32 = 8;

/// A job in `state` with the flags of `bits`, reachable or not.
fn job_in(state: State, bits: u32) -> Job {
    let mut job = submitted();
    let fields = &mut job.fields;
    let bit = |at: u32| bits & (1 << at) != 0;
    fields.state = state;
    fields.has_resources = bit(0);
    fields.freed = bit(1);
    fields.started = bit(2);
    fields.start_done = bit(3);
    fields.finish_status = bit(4).then_some(0);
    fields.prologs = u16::from(bit(5));
    fields.epilogs = u16::from(bit(6));
    if bit(7) {
        fields.dependencies = Some(Box::new(Dependencies(vec![KNOWN.to_owned()])));
    }
    if state == State::Sched {
        fields.priority = Some(Priority(16));
    }
    job
}

fn holds(need: &str, job: &Job) -> bool {
    let left = job.dependencies.as_ref().is_some_and(|all| !all.is_empty());
    match need {
        "dependency" => left,
        "no-dependency" => !left,
        "held" => job.has_resources,
        "not-held" => !job.has_resources,
        "not-freed" => !job.freed,
        "not-started" => !job.started,
        "not-over" => !job.start_done,
        "over-or-not-started" => job.start_done || !job.started,
        "not-finished" => job.finish_status.is_none(),
        "prolog" => job.prologs > 0,
        "epilog" => job.epilogs > 0,
        "no-prolog" => job.prologs == 0,
        "no-epilog" => job.epilogs == 0,
        other => panic!("unknown need {other}"),
    }
}

#[test]
fn every_combination_has_exactly_the_verdict_of_the_table() {
    let table = table();
    let events = events();
    let named: std::collections::HashSet<&str> = events.iter().map(|(row, _)| *row).collect();
    assert_eq!(
        named.len(),
        table.len(),
        "a row without an event, or an event without a row"
    );
    let mut walked = 0u32;
    for (row, kind) in &events {
        let (cells, needs) = &table[row];
        let event = Event::new(Timestamp(5.0), kind.clone());
        for (column, state) in State::ALL.into_iter().enumerate() {
            for bits in 0..1 << FLAGS {
                let before = job_in(state, bits);
                let mut job = before.clone();
                let fits = cells[column] != '-' && needs.iter().all(|need| holds(need, &before));
                let verdict = job.apply(&event);
                walked += 1;
                if !fits {
                    let invalid = verdict.expect_err(&format!("{row} in {state}, {bits:#b}"));
                    assert_eq!((&invalid.event, invalid.state), (&event.name(), state));
                    assert_eq!(
                        job, before,
                        "{row} in {state}, {bits:#b}: refused, yet changed"
                    );
                    continue;
                }
                let change = verdict.unwrap_or_else(|error| panic!("{row}, {bits:#b}: {error}"));
                let to = match cells[column] {
                    '=' => state,
                    letter => letter.to_string().parse().unwrap(),
                };
                assert_eq!(
                    (change.from, change.to, job.state),
                    (state, to, to),
                    "{row}, {bits:#b}"
                );
                assert_eq!(change.changed.contains(Changed::STATE), change.moved());
                assert_eq!(job.eventlog_seq, before.eventlog_seq + 1);
                assert_entry_times(&job, &before, to);
            }
        }
    }
    assert_eq!(walked, events.len() as u32 * 7 * (1 << FLAGS));
}

/// The time of entering a state is set when it is entered, and no other time changes.
fn assert_entry_times(job: &Job, before: &Job, to: State) {
    let times = |job: &Job| {
        [
            job.t_depend,
            job.t_priority,
            job.t_sched,
            job.t_run,
            job.t_cleanup,
            job.t_inactive,
        ]
    };
    let entered = if to == before.state {
        0
    } else {
        to.bit().trailing_zeros() as usize
    };
    for (at, (now, then)) in times(job).into_iter().zip(times(before)).enumerate() {
        let expected = if at + 1 == entered {
            Some(Timestamp(5.0))
        } else {
            then.get()
        };
        assert_eq!(now.get(), expected);
    }
}

#[test]
fn the_table_in_the_doc_is_the_table_of_the_page() {
    let table = table();
    let rename = |name: &str| match name {
        "exception 0" => "exception-fatal".to_owned(),
        "exception 1-7" => "exception-mild".to_owned(),
        "release final" => "release-final".to_owned(),
        "any other" => "other".to_owned(),
        name => name.to_owned(),
    };
    let mut rows = 0;
    let head = "//! event              N D P S R C I";
    for line in CODE
        .lines()
        .skip_while(|line| !line.starts_with(head))
        .skip(1)
    {
        let Some(line) = line
            .strip_prefix("//! ")
            .filter(|line| !line.starts_with("```"))
        else {
            break;
        };
        let name = rename(line[..19].trim_end());
        let cells: Vec<char> = line[19..32].chars().step_by(2).collect();
        assert_eq!(cells, table[name.as_str()].0, "{name}");
        rows += 1;
    }
    assert_eq!(rows, table.len());
}
