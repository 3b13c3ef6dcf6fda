//! What whole sequences of events add up to: results, exceptions, priorities, annotations.

use super::*;

/// Applies events one second apart, starting at second 2; each must fit.
fn run(kinds: &[EventKind]) -> Job {
    let mut job = submitted();
    for (at, kind) in kinds.iter().enumerate() {
        let event = Event::new(Timestamp(2.0 + at as f64), kind.clone());
        let _ = job.apply(&event).unwrap();
    }
    job
}

fn to_sched() -> Vec<EventKind> {
    vec![
        EventKind::Validate,
        EventKind::Depend,
        EventKind::Priority {
            priority: Priority(16),
        },
    ]
}

fn to_run() -> Vec<EventKind> {
    [
        to_sched(),
        vec![EventKind::Alloc { annotations: None }, EventKind::Start],
    ]
    .concat()
}

fn end() -> Vec<EventKind> {
    let release = EventKind::Release {
        ranks: "all".to_owned(),
        last: true,
    };
    vec![release, EventKind::Free, EventKind::Clean]
}

fn finish(status: i32) -> EventKind {
    EventKind::Finish { status }
}

#[test]
fn results_as_the_listing_shows_them() {
    let cases: [(&str, Vec<EventKind>, JobResult); 9] = [
        ("normal", vec![finish(0)], JobResult::Completed),
        ("exit 1", vec![finish(256)], JobResult::Failed),
        (
            "not found",
            vec![exception(0, "exec"), finish(32512)],
            JobResult::Failed,
        ),
        (
            "time limit",
            vec![exception(0, "timeout"), finish(36352)],
            JobResult::Timeout,
        ),
        (
            "mild",
            vec![exception(3, "foo"), finish(0)],
            JobResult::Completed,
        ),
        (
            "cancel in RUN",
            vec![exception(0, "cancel"), finish(36608)],
            JobResult::Canceled,
        ),
        (
            "fatal, yet status 0",
            vec![exception(0, "cancel"), finish(0)],
            JobResult::Canceled,
        ),
        (
            "fatal after finish",
            vec![finish(0), exception(0, "cancel")],
            JobResult::Completed,
        ),
        (
            "executor lost it",
            vec![exception(0, "exec")],
            JobResult::Failed,
        ),
    ];
    for (name, middle, result) in cases {
        let job = run(&[to_run(), middle, end()].concat());
        assert_eq!(job.result(), Some(result), "{name}");
        assert_eq!(job.success(), result == JobResult::Completed, "{name}");
        assert!(!job.has_resources && job.freed && job.start_done, "{name}");
    }
    let canceled = run(&[to_sched(), vec![exception(0, "cancel"), EventKind::Clean]].concat());
    assert_eq!(canceled.result(), Some(JobResult::Canceled));
    assert_eq!(canceled.t_run.get(), None);
    assert_eq!(run(&to_run()).result(), None);
}

#[test]
fn the_exception_shown_is_the_worst_and_first() {
    let kinds = vec![
        exception(5, "a"),
        exception(3, "b"),
        exception(3, "c"),
        exception(4, "d"),
    ];
    let job = run(&[to_run(), kinds].concat());
    let shown = job.exception.as_ref().unwrap();
    assert_eq!(
        (shown.kind.as_str(), shown.severity, shown.note.as_str()),
        ("b", 3, "note 3")
    );
    assert!(!job.fatal && !job.fatal_first);
    let job = run(&[
        to_run(),
        vec![exception(3, "b"), finish(0), exception(0, "x")],
    ]
    .concat());
    assert_eq!(job.exception.as_ref().unwrap().kind, "x");
    assert!(job.fatal && !job.fatal_first);
}

#[test]
fn going_back_takes_the_priority_away_and_keeps_first_times() {
    let job = run(&to_sched());
    assert_eq!(job.priority, Some(Priority(16)));
    assert_eq!(
        (job.t_priority.get(), job.t_sched.get()),
        (Some(Timestamp(3.0)), Some(Timestamp(4.0)))
    );
    for back in [
        EventKind::Urgency {
            userid: 0,
            urgency: Urgency::EXPEDITE,
        },
        EventKind::FluxRestart,
        EventKind::JobspecUpdate {
            updates: crate::Map::new(),
        },
    ] {
        let mut job = run(&[to_sched(), vec![back.clone()]].concat());
        assert_eq!(
            (job.state, job.priority),
            (State::Priority, None),
            "{back:?}"
        );
        let again = Event::new(
            Timestamp(9.0),
            EventKind::Priority {
                priority: Priority(20),
            },
        );
        let change = job.apply(&again).unwrap();
        assert!(change.moved() && change.changed.contains(Changed::PRIORITY));
        assert_eq!(
            (job.state, job.priority),
            (State::Sched, Some(Priority(20)))
        );
        assert_eq!(
            (job.t_priority.get(), job.t_sched.get()),
            (Some(Timestamp(3.0)), Some(Timestamp(4.0)))
        );
    }
}

#[test]
fn a_change_of_priority_in_sched_stays_there() {
    let mut job = run(&to_sched());
    let event = Event::new(
        Timestamp(9.0),
        EventKind::Priority {
            priority: Priority(99),
        },
    );
    let change = job.apply(&event).unwrap();
    assert!(!change.moved());
    assert_eq!(change.changed, Changed::PRIORITY);
    assert_eq!(job.priority, Some(Priority(99)));
}

#[test]
fn dependencies_are_counted() {
    let add = || EventKind::DependencyAdd {
        description: "a".to_owned(),
    };
    let remove = || EventKind::DependencyRemove {
        description: "a".to_owned(),
    };
    let mut job = run(&[add(), add(), EventKind::Validate, remove()]);
    assert_eq!(job.dependencies.as_ref().unwrap().len(), 1);
    let depend = Event::new(Timestamp(9.0), EventKind::Depend);
    assert_eq!(
        job.apply(&depend).unwrap_err().reason,
        Refused::DependencyLeft
    );
    let _ = job.apply(&Event::new(Timestamp(9.0), remove())).unwrap();
    assert!(
        job.dependencies.as_ref().unwrap().is_empty(),
        "empty, but remembered"
    );
    let again = job
        .apply(&Event::new(Timestamp(9.0), remove()))
        .unwrap_err();
    assert_eq!(again.reason, Refused::NoSuchDependency);
    let _ = job.apply(&depend).unwrap();
    assert_eq!(job.state, State::Priority);
}

#[test]
fn annotations_and_memos_share_one_object() {
    let object = |value: serde_json::Value| value.as_object().unwrap().clone();
    let memo = |value| EventKind::Memo {
        memo: object(value),
    };
    let alloc = EventKind::Alloc {
        annotations: Some(object(json!({"sched":{"s":1}}))),
    };
    let job = run(&[vec![memo(json!({"n":1}))], to_sched(), vec![alloc]].concat());
    let all = serde_json::to_value(job.annotations.as_deref()).unwrap();
    assert_eq!(all, json!({"user":{"n":1},"sched":{"s":1}}));
    let job = run(&[memo(json!({"n":1})), memo(json!({"n":null}))]);
    assert_eq!(job.annotations, None, "none left, none kept");
    let replaced = EventKind::Annotations {
        annotations: Some(object(json!({"x":1}))),
    };
    let job = run(&[memo(json!({"n":1})), replaced]);
    assert_eq!(
        serde_json::to_value(job.annotations.as_deref()).unwrap(),
        json!({"x":1})
    );
}

#[test]
fn flags_and_expiration() {
    let set = EventKind::SetFlags {
        flags: vec!["debug".to_owned(), "unheard-of".to_owned()],
    };
    let job = run(&[set]);
    assert_eq!(job.flags, JobFlags::WAITABLE | JobFlags::DEBUG);
    let update = EventKind::ResourceUpdate {
        expiration: Timestamp(77.0),
    };
    assert_eq!(
        run(&[to_run(), vec![update]].concat()).expiration.get(),
        Some(Timestamp(77.0))
    );
}

#[test]
fn too_many_prologs_are_refused() {
    let mut job = submitted();
    job.fields.prologs = u16::MAX;
    let event = Event::new(
        Timestamp(2.0),
        EventKind::PrologStart {
            description: "p".to_owned(),
        },
    );
    assert_eq!(job.apply(&event).unwrap_err().reason, Refused::TooMany);
}

#[test]
fn the_error_names_event_and_state() {
    let mut job = submitted();
    let error = job
        .apply(&Event::new(Timestamp(2.0), EventKind::Start))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "event start does not fit a job in state NEW: it does not happen in this state"
    );
    let first = Job::new(JobId(1), &Event::new(Timestamp(2.0), EventKind::Start)).unwrap_err();
    assert_eq!(first.reason, Refused::NotSubmit);
}
