//! Faults: what a flood of dispatches costs, and what a key says of a child whose parent has ended.
#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)]

mod world;

use std::collections::BTreeSet;

use job::JobId;
use manager::{Action, Input, JobWrite, Token};
use serde_json::{Value, json};
use wire::{Cred, ROLE_LOCAL, ROLE_USER};
use world::{JOBSPEC, OWNER, World, submission};

const OWN: Cred = Cred::owner(OWNER);
const GUEST: u32 = 7;

const fn guest(userid: u32) -> Cred {
    Cred {
        userid,
        rolemask: ROLE_USER | ROLE_LOCAL,
    }
}

/// A parameterized job whose environment has so many bytes, durable.
fn with_parent(userid: u32, bytes: usize) -> (World, JobId) {
    let mut jobspec: Value = serde_json::from_str(JOBSPEC).unwrap();
    let system = &mut jobspec["attributes"]["system"];
    system["environment"]["BIG"] = "x".repeat(bytes).into();
    system["weir"] = json!({"parameterized": {"meta_optional": ["who"]}});
    let mut world = World::new();
    let submit = submission(userid, &jobspec.to_string(), 16, 0);
    let cred = if userid == OWNER { OWN } else { guest(userid) };
    world.call(1, cred, "job-ingest.submit", Some(&submit), false);
    let parent = world.manager_ids()[0];
    world.durable(usize::MAX);
    (world, parent)
}

/// What the store is asked for, until it is asked for nothing; what all of that led to.
fn served(world: &mut World, actions: Vec<Action>) -> Vec<Action> {
    let mut all = Vec::new();
    let mut next = actions;
    loop {
        let asked: Vec<Input> = next
            .iter()
            .filter_map(|action| match action {
                Action::ReadJ(id) => Some(Input::JRead {
                    id: *id,
                    j: Ok(world.disk.rows[id].j.clone()),
                }),
                Action::FindKey(key) => Some(Input::KeysFound(vec![(
                    key.clone(),
                    world.disk.find_key(key),
                )])),
                _ => None,
            })
            .collect();
        all.append(&mut next);
        for input in asked {
            next.extend(world.input(input));
        }
        next.extend(world.durable(usize::MAX));
        if next.is_empty() {
            return all;
        }
    }
}

fn answers(actions: &[Action]) -> Vec<(Token, Result<Value, String>)> {
    let answer = |action: &Action| match action {
        Action::Respond { token, result, .. } => Some((
            *token,
            match result {
                Ok(json) => Ok(serde_json::from_slice(json.as_deref().unwrap()).unwrap()),
                Err(refusal) => Err(refusal.text.clone().unwrap_or_default().into_owned()),
            },
        )),
        _ => None,
    };
    actions.iter().filter_map(answer).collect()
}

#[test]
fn fault_dispatches_of_a_large_parent_are_made_a_few_at_a_time() {
    const COUNT: usize = 40;
    let (mut world, parent) = with_parent(OWNER, 700 << 10);
    let mut actions = Vec::new();
    for who in 0..COUNT {
        let ask = json!({"id": parent, "meta": {"who": who.to_string()}}).to_string();
        actions.extend(world.call(1, OWN, "job-manager.dispatch", Some(&ask), false));
    }
    let all = served(&mut world, actions);
    for action in &all {
        if let Action::Commit(commit) = action {
            let inserted = |write: &JobWrite| match write {
                JobWrite::Insert { j, jobspec, .. } => j.len() + jobspec.len(),
                _ => 0,
            };
            let bytes: usize = commit.jobs.iter().map(inserted).sum();
            assert!(bytes <= 32 << 20, "{bytes} bytes in one commit");
        }
    }
    let answered: BTreeSet<Token> = answers(&all).iter().map(|(token, _)| *token).collect();
    assert_eq!((answers(&all).len(), answered.len()), (COUNT, COUNT));
    assert_eq!(world.disk.rows.len(), COUNT + 1);
}

#[test]
fn fault_a_job_that_others_are_made_from_is_not_of_any_size() {
    let mut jobspec: Value = serde_json::from_str(JOBSPEC).unwrap();
    let system = &mut jobspec["attributes"]["system"];
    system["environment"]["BIG"] = "x".repeat(1 << 20).into();
    let mut world = World::new();
    let mut submit = |jobspec: &Value, flags| {
        let submit = submission(OWNER, &jobspec.to_string(), 0, flags);
        answers(&world.call(1, OWN, "job-ingest.submit", Some(&submit), false))
    };
    assert!(submit(&jobspec, 0).is_empty(), "taken, not durable yet");
    jobspec["attributes"]["system"]["weir"] = json!({"parameterized": {}});
    const NOVALIDATE: i64 = 8;
    for flags in [0, NOVALIDATE] {
        let submit = submission(OWNER, &jobspec.to_string(), 0, flags);
        world.call(1, OWN, "job-ingest.submit", Some(&submit), false);
    }
    assert_eq!(world.manager_ids().len(), 1);
    let refused: Vec<_> = answers(&world.durable(usize::MAX))
        .into_iter()
        .filter_map(|(_, answer)| answer.err())
        .collect();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[0].contains("expected at most 1048576"),
        "{refused:?}"
    );
}

#[test]
fn fault_many_dispatches_that_waited_for_their_parent_are_not_all_made_in_one_turn() {
    const COUNT: usize = 1000;
    let (mut world, parent) = with_parent(OWNER, 1);
    let mut actions = Vec::new();
    for _ in 0..COUNT {
        let ask = json!({ "id": parent }).to_string();
        actions.extend(world.call(1, OWN, "job-manager.dispatch", Some(&ask), false));
    }
    let all = served(&mut world, actions);
    let most = all.iter().map(|action| match action {
        Action::Commit(commit) => commit.jobs.len(),
        _ => 0,
    });
    assert_eq!(most.max(), Some(256));
    assert_eq!(answers(&all).len(), COUNT);
    assert_eq!(world.disk.rows.len(), COUNT + 1);
}

#[test]
fn fault_a_key_names_its_child_though_the_parent_has_ended() {
    let (mut world, parent) = with_parent(GUEST, 1);
    let ask = |who: &str, key: &str| {
        json!({"id": parent, "meta": {"who": who}, "payload": "aGk=", "key": key}).to_string()
    };
    let say = |world: &mut World, cred: Cred, ask: &str| {
        let actions = world.call(1, cred, "job-manager.dispatch", Some(ask), false);
        let all = served(world, actions);
        answers(&all).pop().unwrap().1
    };
    let child = say(&mut world, guest(GUEST), &ask("me", "once")).unwrap()["id"].clone();
    // It is canceled while a second dispatch waits for its answer.
    let waits = world.call(
        1,
        guest(GUEST),
        "job-manager.dispatch",
        Some(&ask("me", "once")),
        false,
    );
    let cancel = json!({"id": parent, "severity": 0, "type": "cancel"}).to_string();
    world.call(1, OWN, "job-manager.raise", Some(&cancel), false);
    let known = answers(&served(&mut world, waits))[1].1.clone().unwrap();
    assert_eq!((&known["id"], &known["known"]), (&child, &true.into()));
    for restarts in 0..2 {
        for cred in [guest(GUEST), OWN] {
            let known = say(&mut world, cred, &ask("me", "once")).unwrap();
            assert_eq!((&known["id"], &known["known"]), (&child, &true.into()));
        }
        let rows = world.disk.rows.len();
        let other = say(&mut world, OWN, &ask("you", "once")).unwrap_err();
        assert!(other.contains("another jobspec"), "{other}");
        // As without a key.
        let inactive = say(&mut world, OWN, &json!({ "id": parent }).to_string());
        assert!(inactive.is_err());
        assert_eq!(say(&mut world, OWN, &ask("me", "new")), inactive);
        assert_eq!(say(&mut world, guest(8), &ask("me", "once")), inactive);
        assert_eq!(world.disk.rows.len(), rows);
        if restarts == 0 {
            world.crash();
        }
    }
}
