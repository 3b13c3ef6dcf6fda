//! Guests: rights to their own jobs, and to nothing else. Played by an owner's connection that claims a guest's credentials, as Flux's own
//! tests do; the broker takes the claim of an owner and of nobody else.

use crate::peer::{Peer, body};
use crate::world::{JOBSPEC, World, everything, int, names, ok, submit, wrap};
use serde_json::{Value, json};
use wire::{Cred, ROLE_LOCAL, ROLE_USER, errno};

const ALICE: Cred = Cred::guest(1001);
const BOB: Cred = Cred::guest(1002);

async fn submit_as(peer: &mut Peer) -> u64 {
    let payload = json!({"J": wrap(peer.cred.userid, JOBSPEC), "urgency": 16, "flags": 0});
    int(
        &peer.call("job-ingest.submit", payload).await.unwrap(),
        "id",
    )
}

#[tokio::test]
async fn a_guest_submits_for_himself_and_only_within_a_guests_bounds() {
    let world = World::new().await;
    let client = world.client().await;
    let mut alice = Peer::acting_as(&world, ALICE).await;
    let mine = submit_as(&mut alice).await;
    let j = |userid| wrap(userid, JOBSPEC);
    for (payload, errnum, text) in [
        (
            json!({"J": j(1002), "urgency": 16, "flags": 0}),
            1,
            "signer=1002 != requestor=1001",
        ),
        (
            json!({"J": j(1001), "urgency": 17, "flags": 0}),
            22,
            "only the instance owner can submit with urgency >16",
        ),
        (
            json!({"J": j(1001), "urgency": 16, "flags": 8}),
            1,
            "only the instance owner can submit with FLUX_JOB_NOVALIDATE",
        ),
        (
            json!({"J": j(1001), "urgency": 16, "flags": 4}),
            22,
            "only the instance owner can submit with FLUX_JOB_WAITABLE",
        ),
    ] {
        assert_eq!(
            alice.call("job-ingest.submit", payload).await,
            Err((errnum, text.into()))
        );
    }
    // One whose user id the kernel did not see.
    let far = Cred {
        userid: 1001,
        rolemask: ROLE_USER,
    };
    let mut far = Peer::acting_as(&world, far).await;
    let payload = json!({"J": j(1001), "urgency": 16, "flags": 0});
    assert_eq!(
        far.call("job-ingest.submit", payload).await,
        Err((1, "only instance owner can use sign-type=none".into()))
    );
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    assert_eq!(list["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&list["jobs"][0]["id"], &list["jobs"][0]["userid"]),
        (&json!(mine), &json!(1001))
    );
}

#[tokio::test]
async fn a_guest_has_rights_to_his_own_jobs_and_no_others() {
    let world = World::new().await;
    let client = world.client().await;
    let (owners, _) = submit(&client).await;
    let mut alice = Peer::acting_as(&world, ALICE).await;
    let mut bob = Peer::acting_as(&world, BOB).await;
    let hers = submit_as(&mut alice).await;
    for (topic, payload, text) in [
        (
            "job-manager.urgency",
            json!({"urgency": 3}),
            "guests can only reprioritize their own jobs",
        ),
        (
            "job-manager.raise",
            json!({"severity": 0, "type": "cancel"}),
            "guests can only raise exceptions on their own jobs",
        ),
        (
            "job-manager.kill",
            json!({"signum": 15}),
            "guests may only send signals to their own jobs",
        ),
        (
            "job-manager.memo",
            json!({"memo": {"x": 1}}),
            "guests can only add a memo to their own jobs",
        ),
        (
            "job-manager.lookup",
            json!({"keys": []}),
            "access is restricted to job/instance owner",
        ),
        (
            "job-manager.getattr",
            json!({"attrs": []}),
            "guests can only access their own jobs",
        ),
    ] {
        for id in [hers, owners] {
            let mut payload = payload.clone();
            payload["id"] = json!(id);
            assert_eq!(
                bob.call(topic, payload).await,
                Err((errno::EPERM, text.into())),
                "{topic}"
            );
        }
    }
    // In bulk, each pair for itself.
    let his = submit_as(&mut bob).await;
    let pairs = json!({"jobs": [[hers, 1], [his, 5], [his, 17], [owners, 1]]});
    let answer = bob.call("job-manager.priority", pairs).await.unwrap();
    let others = "guests can only reprioritize their own jobs";
    let expected = json!([
        [hers, 1, others],
        [his, 16],
        [his, 1, "guests can only adjust urgency <= default"],
        [owners, 1, others]
    ]);
    assert_eq!(answer["results"], expected);
    // Her own she may.
    for (topic, payload) in [
        ("job-manager.urgency", json!({"id": hers, "urgency": 0})),
        ("job-manager.memo", json!({"id": hers, "memo": {"x": 1}})),
        (
            "job-manager.lookup",
            json!({"id": hers, "keys": ["J", "jobspec", "eventlog"]}),
        ),
        (
            "job-manager.getattr",
            json!({"id": hers, "attrs": ["jobspec", "eventlog"]}),
        ),
        (
            "job-manager.raise",
            json!({"id": hers, "severity": 0, "type": "cancel"}),
        ),
    ] {
        alice.call(topic, payload).await.unwrap();
    }
    let history = alice
        .call("job-manager.history.get", json!({"slice": "[:]"}))
        .await;
    assert_eq!(history, Ok(json!({"jobs": [hers]})));
    let all = everything(&client).await;
    assert_eq!(
        names(&all, his).join(" "),
        "submit validate depend priority urgency priority"
    );
}

#[tokio::test]
async fn what_is_the_owners_alone() {
    let world = World::new().await;
    let mut alice = Peer::acting_as(&world, ALICE).await;
    for topic in [
        "job-manager.list",
        "job-manager.wait",
        "job-manager.queue-enable",
        "job-manager.queue-start",
        "job-manager.idle",
        "job-manager.drain",
        "job-manager.resource-status",
        "job-manager.sched-hello",
        "job-manager.sched-ready",
        "job-manager.exec-hello",
        "job-ingest.getinfo",
        "attr.set",
        "attr.rm",
    ] {
        let text = "Request requires owner credentials".to_owned();
        assert_eq!(
            alice.call(topic, json!({})).await,
            Err((errno::EPERM, text)),
            "{topic}"
        );
    }
    let stream = alice.open("job-manager.events-journal", &json!({}));
    let response = alice.response(stream).await;
    assert_eq!(
        (response.errnum, response.payload.as_deref()),
        (
            errno::EPERM,
            Some(&b"Request requires owner credentials\0"[..])
        )
    );
    // No role at all.
    let mut nobody = Peer::acting_as(
        &world,
        Cred {
            userid: 1001,
            rolemask: ROLE_LOCAL,
        },
    )
    .await;
    for topic in [
        "job-manager.queue-list",
        "job-manager.stats-get",
        "job-manager.events",
        "event.publish",
    ] {
        let payload = wire::json_payload(&json!({"topic": "x"}));
        let flags = if topic == "job-manager.events" {
            wire::Flags::STREAMING
        } else {
            wire::Flags::NONE
        };
        let tag = nobody.request(topic, Some(payload), flags);
        assert_eq!(nobody.response(tag).await.errnum, errno::EPERM, "{topic}");
    }
    // An unknown method is unknown, whoever asks.
    assert_eq!(
        alice
            .call("job-manager.nosuch", json!({}))
            .await
            .unwrap_err()
            .0,
        errno::ENOSYS
    );
}

#[tokio::test]
async fn a_guests_journal_has_his_own_jobs_and_no_logs_in_backlog_and_live() {
    let world = World::new().await;
    let client = world.client().await;
    let mut alice = Peer::acting_as(&world, ALICE).await;
    let mut bob = Peer::acting_as(&world, BOB).await;
    let before = submit_as(&mut alice).await;
    submit_as(&mut bob).await;
    submit(&client).await;
    let off = json!({"enable": false, "all": true, "reason": "r"});
    ok(&client, "job-manager.queue-enable", off).await;
    ok(
        &client,
        "job-manager.queue-enable",
        json!({"enable": true, "all": true}),
    )
    .await;
    let tag = alice.open("job-manager.events", &json!({"from": "all"}));
    let mut seen: Vec<Value> = Vec::new();
    loop {
        let said = body(&alice.response(tag).await.payload);
        seen.extend(said["events"].as_array().unwrap().iter().cloned());
        if said["caught_up"] == true {
            break;
        }
    }
    assert_eq!(
        names(&seen, before),
        ["submit", "validate", "depend", "priority"]
    );
    assert_eq!(seen.len(), 4, "nobody else's, and no log");
    submit_as(&mut bob).await;
    submit(&client).await;
    let after = submit_as(&mut alice).await;
    seen.clear();
    while names(&seen, after).len() < 4 {
        let said = body(&alice.response(tag).await.payload);
        seen.extend(said["events"].as_array().unwrap().iter().cloned());
    }
    assert_eq!(seen.len(), 4);
    // Someone else's id in the request opens nothing.
    let other = bob.open(
        "job-manager.events",
        &json!({"from": "all", "ids": [before]}),
    );
    let said = body(&bob.response(other).await.payload);
    assert_eq!(
        (&said["caught_up"], &said["events"]),
        (&json!(true), &json!([]))
    );
}

/// The credentials that a service sees are those of the connection, or what an owner claims.
#[tokio::test]
async fn a_service_sees_whom_it_serves() {
    let world = World::new().await;
    let mut service = Peer::service(&world, "svc").await;
    let mut peers = Vec::new();
    for (claimed, seen) in [
        (Cred::UNSET, Cred::owner(crate::world::own_uid())),
        (ALICE, ALICE),
        (
            Cred {
                rolemask: 0,
                ..ALICE
            },
            Cred::owner(1001),
        ),
    ] {
        let mut peer = Peer::acting_as(&world, claimed).await;
        peer.request("svc.x", None, wire::Flags::NONE);
        assert_eq!(service.next_request().await.cred, seen);
        peers.push(peer);
    }
}
