//! Faults: how much one request could make, and whom it stood in the way of.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod world;

use manager::{Action, Call, HELD_MADE_MAX, Input, Sender, Token};
use serde_json::json;
use wire::{Cred, ROLE_LOCAL, ROLE_USER, Topic, nul_terminated};
use world::{JOBSPEC, OWNER, R, World, submission};

const OWN: Cred = Cred::owner(OWNER);
const GUEST: u32 = 7;
const GUESTS: Cred = Cred {
    userid: GUEST,
    rolemask: ROLE_USER | ROLE_LOCAL,
};

/// So many held jobs of a guest, durable.
fn with_jobs(count: usize) -> (World, Vec<u64>) {
    let mut world = World::new();
    let submit = submission(GUEST, JOBSPEC, 0, 0);
    for _ in 0..count {
        world.call(1, GUESTS, "job-ingest.submit", Some(&submit), false);
    }
    let ids = world.manager_ids().iter().map(|id| id.0).collect();
    world.durable(usize::MAX);
    (world, ids)
}

/// The only thing a request brought about: its refusal.
#[track_caller]
fn refusal(actions: &[Action]) -> (u32, String) {
    match actions {
        [
            Action::Respond {
                result: Err(refusal),
                last: true,
                ..
            },
        ] => (
            refusal.errnum,
            refusal.text.clone().unwrap_or_default().into_owned(),
        ),
        other => panic!("{} actions, and no refusal", other.len()),
    }
}

fn raiseall(kind: &str, note: &str) -> String {
    json!({"dry_run": false, "userid": GUEST, "states": 255, "severity": 5, "type": kind, "note": note})
        .to_string()
}

#[test]
fn fault_a_note_that_is_copied_for_every_job_is_bounded() {
    let (mut world, ids) = with_jobs(2);
    let id = ids[0];
    let long = "n".repeat(4097);
    let mut call = |topic: &str, payload: &str| {
        let cred = if topic.contains("queue") { OWN } else { GUESTS };
        refusal(&world.call(1, cred, topic, Some(payload), false))
    };
    let note = (22, "note has 4097 bytes: expected at most 4096".to_owned());
    assert_eq!(call("job-manager.raiseall", &raiseall("x", &long)), note);
    let raise = json!({"id": id, "severity": 5, "type": "x", "note": long}).to_string();
    assert_eq!(call("job-manager.raise", &raise), note);
    let kind = (
        22,
        "exception type has 65 bytes: expected at most 64".to_owned(),
    );
    assert_eq!(
        call("job-manager.raiseall", &raiseall(&long[..65], "")),
        kind
    );
    let raise = json!({"id": id, "severity": 5, "type": long[..65]}).to_string();
    assert_eq!(call("job-manager.raise", &raise), kind);
    let reason = (
        22,
        "reason has 4097 bytes: expected at most 4096".to_owned(),
    );
    let disable = json!({"enable": false, "all": true, "reason": long}).to_string();
    assert_eq!(call("job-manager.queue-enable", &disable), reason);
    let stop = json!({"start": false, "all": true, "reason": long}).to_string();
    assert_eq!(call("job-manager.queue-start", &stop), reason);
    let taken = world.call(
        1,
        GUESTS,
        "job-manager.raiseall",
        Some(&raiseall("x", &long[1..])),
        false,
    );
    assert!(matches!(&taken[..], [Action::Commit(commit)] if commit.entries.len() == 2));
}

#[test]
fn fault_one_raiseall_makes_no_more_than_a_bound_and_is_refused_before_anything_is_applied() {
    // Each byte of the note is six in JSON.
    let (mut world, _) = with_jobs(2800);
    let note = "\u{1}".repeat(4096);
    let seq = world.manager.newest_seq();
    let all = |note: &str| raiseall("x", note);
    let (errnum, text) =
        refusal(&world.call(1, GUESTS, "job-manager.raiseall", Some(&all(&note)), false));
    assert_eq!(errnum, 22);
    assert!(
        text.contains("2800 jobs") && text.contains("at most 2730 jobs"),
        "{text}"
    );
    assert_eq!(world.manager.newest_seq(), seq);
    let taken = world.call(
        1,
        GUESTS,
        "job-manager.raiseall",
        Some(&all(&note[..3000])),
        false,
    );
    assert!(matches!(&taken[..], [Action::Commit(commit)] if commit.entries.len() == 2800));
}

#[test]
fn fault_a_job_is_in_few_pairs_of_one_priority_request() {
    let (mut world, ids) = with_jobs(2);
    let pairs = |count: usize| {
        let mut jobs: Vec<(u64, usize)> = (0..count).map(|n| (ids[1], n % 16)).collect();
        jobs.push((ids[0], 1));
        json!({ "jobs": jobs }).to_string()
    };
    let seq = world.manager.newest_seq();
    let mut call =
        |payload: &str| world.call(1, GUESTS, "job-manager.priority", Some(payload), false);
    let (errnum, text) = refusal(&call(&pairs(17)));
    assert_eq!(errnum, 22);
    assert!(text.ends_with("is in more than 16 pairs"), "{text}");
    let many: Vec<(u64, u8)> = (0..=1 << 20).map(|id| (id, 1)).collect();
    let (errnum, text) = refusal(&call(&json!({ "jobs": many }).to_string()));
    assert_eq!(
        (errnum, &*text),
        (22, "1048577 pairs: expected at most 1048576")
    );
    let taken = call(&pairs(16));
    assert!(matches!(&taken[..], [Action::Commit(commit)] if commit.entries.len() == 34));
    assert_eq!(world.manager.newest_seq().0, seq.0 + 34);
}

#[test]
fn fault_what_one_request_makes_for_many_jobs_does_not_stand_in_the_way_of_others() {
    const JOBS: usize = 20_000;
    let (mut world, ids) = with_jobs(JOBS);
    let all = raiseall("x", "");
    let raise = json!({"id": ids[0], "severity": 5, "type": "x"}).to_string();
    let submit = submission(OWNER, JOBSPEC, 0, 0);
    let mut made = 0;
    while made < HELD_MADE_MAX {
        let taken = world.call(1, GUESTS, "job-manager.raiseall", Some(&all), false);
        assert!(matches!(taken[..], [Action::Commit(_)]));
        made += JOBS;
        for (cred, topic, payload) in [
            (OWN, "job-ingest.submit", &submit),
            (GUESTS, "job-manager.raise", &raise),
        ] {
            let taken = world.call(2, cred, topic, Some(payload), false);
            assert!(matches!(taken[..], [Action::Commit(_)]), "{topic}");
            made += usize::from(topic == "job-manager.raise");
        }
    }
    let busy = (
        11,
        "too many messages wait for the disk: try again".to_owned(),
    );
    let again = world.call(1, GUESTS, "job-manager.raiseall", Some(&all), false);
    assert_eq!(refusal(&again), busy);
    // Nothing else counts those that expect no answer.
    let unanswered = Call {
        token: Token(0),
        sender: Sender(1),
        cred: GUESTS,
        topic: Topic::from("job-manager.raise"),
        payload: Some(nul_terminated(raise.as_bytes())),
        streaming: false,
        noresponse: true,
    };
    assert!(world.input(Input::Request(unanswered.clone())).is_empty());
    for (topic, payload) in [
        ("job-ingest.submit", &submit),
        ("job-manager.raise", &raise),
    ] {
        let cred = if topic == "job-manager.raise" {
            GUESTS
        } else {
            OWN
        };
        let taken = world.call(2, cred, topic, Some(payload), false);
        assert!(matches!(taken[..], [Action::Commit(_)]), "{topic}");
    }
    let cancel = json!({"id": ids[1], "severity": 0, "type": "cancel"}).to_string();
    let purge = json!({"id": ids[1], "force": 1}).to_string();
    for (topic, payload) in [
        ("job-manager.raise", &cancel),
        ("job-manager.purge-id", &purge),
    ] {
        let taken = world.call(2, OWN, topic, Some(payload), false);
        assert!(
            matches!(taken[..], [Action::Commit(_)]),
            "{topic}: {taken:?}"
        );
    }
    world.durable(usize::MAX);
    assert_eq!(world.manager.held(), 0);
    let taken = world.input(Input::Request(unanswered));
    assert!(matches!(taken[..], [Action::Commit(_)]));
    world.durable(usize::MAX);
    let taken = world.call(1, GUESTS, "job-manager.raiseall", Some(&all), false);
    assert!(matches!(taken[..], [Action::Commit(_)]));
}

#[test]
fn fault_null_is_no_optional_key_that_was_left_out() {
    let (mut world, ids) = with_jobs(1);
    let id = ids[0];
    let mut submit: serde_json::Value =
        serde_json::from_str(&submission(OWNER, JOBSPEC, 0, 0)).unwrap();
    submit["key"] = serde_json::Value::Null;
    let (errnum, text) = refusal(&world.call(
        1,
        OWN,
        "job-ingest.submit",
        Some(&submit.to_string()),
        false,
    ));
    assert_eq!(errnum, 71);
    assert!(
        text.starts_with("error decoding job request: ") && text.contains("key"),
        "{text}"
    );
    for (topic, payload) in [
        (
            "job-manager.raise",
            json!({"id": id, "severity": 5, "type": "x", "note": null}),
        ),
        (
            "job-manager.raise",
            json!({"id": id, "severity": 5, "type": "x", "wait_status": null}),
        ),
        (
            "job-manager.raiseall",
            json!({"dry_run": false, "userid": OWNER, "states": 255, "severity": 5, "type": "x", "note": null}),
        ),
        (
            "job-manager.purge",
            json!({"age_limit": -1.0, "num_limit": 0, "batch": 100, "force": true, "jobs": null}),
        ),
    ] {
        let actions = world.call(1, OWN, topic, Some(&payload.to_string()), false);
        assert_eq!(refusal(&actions).0, 71, "{topic} {payload}");
    }
}

#[test]
fn fault_the_texts_of_an_engine_are_cut_at_a_letter() {
    let mut world = World::new();
    let submit = submission(OWNER, JOBSPEC, 16, 0);
    world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    let id = world.manager_ids()[0];
    world.durable(1);
    world.call(101, OWN, "job-manager.sched-hello", None, true);
    let mode = Some(r#"{"mode":"unlimited"}"#);
    world.call(101, OWN, "job-manager.sched-ready", mode, false);
    let service = Some(r#"{"service":"x"}"#);
    world.call(102, OWN, "job-manager.exec-hello", service, false);
    let grant = format!(r#"{{"id":{},"type":0,"R":{R}}}"#, id.0);
    let grant = World::report(101, "sched.alloc", &grant, 0);
    world.input(Input::ServiceResponse(grant));
    world.durable(1);
    let data = json!({"severity": 3, "type": "t".repeat(100), "note": "é".repeat(4096)});
    let report = json!({"id": id.0, "type": "exception", "data": data}).to_string();
    let report = World::report(102, "x.start", &report, 0);
    assert_eq!(world.input(Input::ServiceResponse(report.clone())).len(), 1);
    world.durable(1);
    let shown = world.disk.fold(id).exception.clone().unwrap();
    assert_eq!((shown.kind.len(), shown.note.len()), (64, 4096));
    assert!(
        world.input(Input::ServiceResponse(report)).is_empty(),
        "told twice, posted once"
    );
}

/// What a job shows of its memos, and all of them together, are bounded.
#[test]
fn memos_of_a_job_do_not_add_up_without_bound() {
    let mut world = World::new();
    let owner = Cred::owner(OWNER);
    let submit = submission(OWNER, JOBSPEC, 16, 0);
    world.call(1, owner, "job-ingest.submit", Some(&submit), false);
    let id = world.manager_ids()[0];
    world.durable(usize::MAX);
    let memo = |world: &mut World, key: &str, value: serde_json::Value| {
        let payload = serde_json::json!({"id": id, "memo": {key: value}}).to_string();
        let mut actions = world.call(1, owner, "job-manager.memo", Some(&payload), false);
        actions.extend(world.durable(usize::MAX));
        let refused = actions.into_iter().find_map(|action| match action {
            Action::Respond { result, .. } => result.err(),
            _ => None,
        });
        refused.map(|refusal| refusal.text.unwrap().into_owned())
    };
    let text = || serde_json::Value::from("x".repeat(60_000));
    for key in ["a", "b", "c", "d"] {
        assert_eq!(memo(&mut world, key, text()), None);
    }
    let refusal = memo(&mut world, "e", text()).unwrap();
    assert!(
        refusal.contains("expected at most 262144; take keys out"),
        "{refusal}"
    );
    for key in ["a", "b", "c", "d"] {
        assert_eq!(memo(&mut world, key, serde_json::Value::Null), None);
        assert_eq!(memo(&mut world, "e", text()), None);
    }
    // Said again and again the job shows no more, but its eventlog grows.
    let mut taken = 0;
    let refusal = loop {
        match memo(&mut world, "e", "x".repeat(50_000 + taken % 2).into()) {
            None => taken += 1,
            Some(refusal) => break refusal,
        }
    };
    assert!(refusal.contains("expected at most 58720256"), "{refusal}");
    assert!((1_100..1_200).contains(&taken), "{taken}");
    assert_eq!(
        memo(&mut world, "z", 1.into()),
        None,
        "what fits is still taken"
    );
}
