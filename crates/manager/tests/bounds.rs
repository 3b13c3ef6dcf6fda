//! Invariant 7 for the manager: what is bounded, and what is said at the bound.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod world;

use manager::{Action, HELD_CHANGES_MAX, HELD_MAX, Input, REPORTS_MAX, Sender, Token};
use wire::Cred;
use world::{JOBSPEC, OWNER, R, World, submission};

const OWN: Cred = Cred::owner(OWNER);

/// The refusals among actions, by errnum.
fn refused(actions: &[Action]) -> Vec<u32> {
    let errnum = |action: &Action| match action {
        Action::Respond {
            result: Err(refusal),
            ..
        } => Some(refusal.errnum),
        _ => None,
    };
    actions.iter().filter_map(errnum).collect()
}

#[test]
fn invariant_7_changes_then_all_requests_are_refused_while_the_disk_is_behind() {
    let mut world = World::new();
    let submit = submission(OWNER, JOBSPEC, 0, 0);
    world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    while world.manager.held() < HELD_CHANGES_MAX {
        assert!(
            world
                .call(1, OWN, "job-manager.getinfo", None, false)
                .is_empty()
        );
    }
    assert!(
        world
            .call(1, OWN, "job-ingest.submit", Some(&submit), false)
            .is_empty()
    );
    assert_eq!(
        world.on_the_way.len(),
        1,
        "refused, though the refusal waits like any answer"
    );
    while world.manager.held() < HELD_MAX {
        assert!(
            world
                .call(1, OWN, "job-manager.getinfo", None, false)
                .is_empty()
        );
    }
    assert_eq!(
        refused(&world.call(1, OWN, "job-manager.getinfo", None, false)),
        [11],
        "said at once"
    );
    let answers = world.durable(1);
    assert_eq!((answers.len(), refused(&answers)), (HELD_MAX, vec![11]));
    assert_eq!(world.manager.held(), 0);
    assert!(
        !world
            .call(1, OWN, "job-manager.getinfo", None, false)
            .is_empty()
    );
}

#[test]
fn invariant_7_reports_are_taken_without_room_up_to_a_bound_and_said_again_later() {
    let mut world = World::new();
    let submit = submission(OWNER, JOBSPEC, 16, 0);
    world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    let id = *world.manager_ids().first().unwrap();
    world.durable(1);
    world.call(101, OWN, "job-manager.sched-hello", None, true);
    world.call(
        101,
        OWN,
        "job-manager.sched-ready",
        Some(r#"{"mode":"unlimited"}"#),
        false,
    );
    world.call(
        102,
        OWN,
        "job-manager.exec-hello",
        Some(r#"{"service":"x"}"#),
        false,
    );
    let grant = format!(r#"{{"id":{},"type":0,"R":{R}}}"#, id.0);
    world.input(Input::ServiceResponse(World::report(
        101,
        "sched.alloc",
        &grant,
        0,
    )));
    world.durable(1);
    world.input(Input::NoSpace(true));
    let note = |n: usize| {
        format!(
            r#"{{"id":{},"type":"exception","data":{{"severity":3,"type":"x","note":"{n}"}}}}"#,
            id.0
        )
    };
    for n in 0..REPORTS_MAX {
        let actions = world.input(Input::ServiceResponse(World::report(
            102,
            "x.start",
            &note(n),
            0,
        )));
        assert!(
            !actions
                .iter()
                .any(|action| matches!(action, Action::Close { .. }))
        );
    }
    let actions = world.input(Input::ServiceResponse(World::report(
        102,
        "x.start",
        &note(0),
        0,
    )));
    assert!(
        matches!(
            actions[..],
            [Action::Close {
                sender: Sender(102),
                ..
            }]
        ),
        "{actions:?}"
    );
    let actions = world.call(
        102,
        OWN,
        "job-manager.exec-hello",
        Some(r#"{"service":"x"}"#),
        false,
    );
    assert_eq!(refused(&actions), [28], "not before there is room");
    world.durable(usize::MAX);
    world.input(Input::NoSpace(false));
    let actions = world.call(
        102,
        OWN,
        "job-manager.exec-hello",
        Some(r#"{"service":"x"}"#),
        false,
    );
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Start { .. }))
    );
}

#[test]
fn nothing_is_answered_to_who_wants_no_answer() {
    let mut world = World::new();
    let submit = submission(OWNER, JOBSPEC, 0, 4);
    world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    let id = world.manager_ids()[0].0;
    world.durable(1);
    let of_job = |json: &str| {
        Some(wire::nul_terminated(
            json.replace('$', &id.to_string()).as_bytes(),
        ))
    };
    for (topic, payload) in [
        ("job-manager.wait", of_job(r#"{"id":$}"#)),
        ("job-manager.getinfo", None),
        ("job-manager.nosuch", None),
        ("job-manager.drain", None),
        ("job-manager.idle", None),
    ] {
        let call = manager::Call {
            token: Token(77),
            sender: Sender(1),
            cred: OWN,
            topic: wire::Topic::from(topic),
            payload,
            streaming: false,
            noresponse: true,
        };
        assert!(world.input(Input::Request(call)).is_empty(), "{topic}");
    }
    let cancel = format!(r#"{{"id":{id},"severity":0,"type":"cancel"}}"#);
    let actions = world.call(1, OWN, "job-manager.raise", Some(&cancel), false);
    assert_eq!(actions.len(), 1, "the commit");
    let answered = |action: &Action| {
        matches!(
            action,
            Action::Respond {
                token: Token(77),
                ..
            }
        )
    };
    assert!(!world.durable(1).iter().any(answered));
}

/// A commit met the full disk: its answer waits for room, but nobody else waits to hear that there is none.
#[test]
fn invariant_7_refusals_do_not_wait_for_room_and_nothing_unstored_is_shown() {
    let mut world = World::new();
    let submit = submission(OWNER, JOBSPEC, 16, 0);
    let waits = world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    assert!(matches!(waits[..], [Action::Commit(_)]) && world.manager.held() == 1);
    // Asked before anybody knew.
    let all = r#"{"max_entries":0}"#;
    for (topic, payload) in [
        ("job-manager.list", all),
        ("job-manager.stats-get", "{}"),
        ("job-ingest.submit", "{}"),
    ] {
        assert!(world.call(1, OWN, topic, Some(payload), false).is_empty());
    }
    let actions = world.input(Input::NoSpace(true));
    assert_eq!((actions.len(), refused(&actions)), (3, vec![11, 71]));
    assert_eq!(world.manager.held(), 1);
    for (topic, payload, errnum) in [
        ("job-ingest.submit", submit.as_str(), 28),
        (
            "job-ingest.submit",
            r#"{"J":"x","urgency":99,"flags":0}"#,
            22,
        ),
        ("job-ingest.submit", "{}", 71),
        ("job-manager.priority", r#"{"jobs":[[1,2]]}"#, 28),
        ("job-manager.urgency", "{}", 71),
        ("job-manager.nosuch", "{}", 38),
        ("job-manager.list", r#"{"max_entries":0}"#, 11),
        ("job-manager.getinfo", "{}", 11),
        ("job-manager.queue-status", "{}", 11),
    ] {
        let actions = world.call(1, OWN, topic, Some(payload), false);
        assert_eq!(refused(&actions), [errnum], "{topic}");
    }
    for topic in [
        "job-manager.stats-get",
        "job-manager.queue-list",
        "job-ingest.getinfo",
    ] {
        let actions = world.call(1, OWN, topic, None, false);
        assert!(
            matches!(
                &actions[..],
                [Action::Respond {
                    result: Ok(Some(_)),
                    ..
                }]
            ),
            "{topic}"
        );
    }
    assert_eq!(world.manager.held(), 1);
    world.input(Input::NoSpace(false));
    assert_eq!(
        world.durable(1).len(),
        1,
        "the submit is answered when there was room for it"
    );
    // Full again, with nothing on its way: what is stored is told.
    world.input(Input::NoSpace(true));
    let actions = world.call(
        1,
        OWN,
        "job-manager.list",
        Some(r#"{"max_entries":0}"#),
        false,
    );
    assert!(refused(&actions).is_empty() && actions.len() == 1);
}
