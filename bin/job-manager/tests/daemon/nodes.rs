//! Nodes and dispatches over the socket and on the disk: what the engine tells of its nodes outlives restarts and a trimmed log, and is told to
//! whoever begins to listen; jobs are made from a parameterized one whatever was restarted.

use crate::engine::Engine;
use crate::peer::{Peer, body};
use crate::world::{
    JOBSPEC, Tap, World, int, names, ok, own_uid, refused, submission, submit_many, wrap,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wire::errno;

fn announcement(names: &str, up: &str) -> Value {
    json!({"R": {"version": 1, "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0-1"}}], "nodelist": [names]}},
           "pools": {"default": "0-3"}, "up": up})
}

/// What `caught_up` tells of the nodes.
async fn told(world: &World, payload: Value) -> Value {
    let client = world.client().await;
    let mut tap = Tap::open(&client, payload).await;
    loop {
        let response = tap.next().await;
        if response["caught_up"] == true {
            return response["resources"].clone();
        }
    }
}

async fn event(peer: &mut Peer, payload: Value) -> u64 {
    let answer = peer.call("job-manager.resource-event", payload).await;
    int(&answer.unwrap(), "seq")
}

#[tokio::test]
async fn nodes_are_told_to_who_listens_and_outlive_restarts() {
    let world = World::new().await;
    assert_eq!(told(&world, json!({})).await, Value::Null, "none yet");
    let mut engine = Peer::service(&world, "resource").await;
    let client = world.client().await;
    let mut tap = Tap::open(&client, json!({})).await;
    tap.backlog().await;
    let answer = engine
        .call(
            "job-manager.resource-announce",
            announcement("n[0-3]", "0-2"),
        )
        .await
        .unwrap();
    assert_eq!(answer["drained"], json!([]));
    let drain = json!({"name": "drain", "idset": "1", "reason": "disk", "userid": own_uid()});
    let seq = event(&mut engine, drain.clone()).await;
    // The log carries it, one commit for an announcement.
    let live = tap.until(seq).await;
    let log: Vec<&str> = live
        .iter()
        .map(|entry| {
            assert_eq!(entry["log"], "resource");
            entry["entry"]["name"].as_str().unwrap()
        })
        .collect();
    assert_eq!(log, ["resource-define", "online", "drain"]);
    let before = told(&world, json!({})).await;
    assert_eq!((&before["up"], int(&before, "seq")), (&json!("0-2"), seq));
    assert_eq!(
        (
            &before["drained"][0]["nodelist"],
            &before["drained"][0]["reason"]
        ),
        (&json!("n1"), &json!("disk"))
    );
    assert_eq!(event(&mut engine, drain).await, seq, "nothing new");
    drop(engine);

    let world = world.restart().await;
    for from in ["now", "active", "all"] {
        assert_eq!(told(&world, json!({"from": from})).await, before, "{from}");
    }
    let mut engine = Peer::service(&world, "resource").await;
    let again = announcement("n[0-3]", "0-2");
    let answer = engine
        .call("job-manager.resource-announce", again)
        .await
        .unwrap();
    assert_eq!(
        (int(&answer, "seq"), &answer["drained"]),
        (seq, &before["drained"]),
        "nothing is posted, and what is drained is told"
    );
    // Another set: the drained node is drained at its new place.
    let moved = announcement("n[1-4]", "0-3");
    let answer = engine
        .call("job-manager.resource-announce", moved)
        .await
        .unwrap();
    assert_eq!(answer["drained"][0]["idset"], "0");
    let undrain = json!({"name": "undrain", "idset": "0"});
    let seq = event(&mut engine, undrain).await;
    let world = world.restart().await;
    let after = told(&world, json!({})).await;
    assert_eq!(
        (int(&after, "seq"), &after["up"], &after["drained"]),
        (seq, &json!("0-3"), &json!([]))
    );
    let (dir, config) = world.stop().await;
    let problems = store::check(&config.statedir.join("store.sqlite"), &mut |_, _, _| {}).unwrap();
    assert!(problems.problems.is_empty(), "{problems:?}");
    drop(dir);
}

#[tokio::test]
async fn nobody_but_the_service_resource_tells_of_nodes() {
    let world = World::new().await;
    let client = world.client().await;
    let payload = announcement("n[0-3]", "0");
    let denied = |(errnum, text): (u32, String)| {
        assert_eq!(errnum, errno::EPERM);
        assert!(text.contains("service name resource"), "{text}");
    };
    for topic in [
        "job-manager.resource-announce",
        "job-manager.resource-event",
    ] {
        denied(refused(&client, topic, payload.clone()).await);
    }
    let mut engine = Peer::service(&world, "resource").await;
    let answer = engine
        .call("job-manager.resource-announce", payload.clone())
        .await;
    assert!(answer.is_ok());
    denied(refused(&client, "job-manager.resource-announce", payload).await);
    let offline = json!({"name": "offline", "idset": "0"});
    denied(refused(&client, "job-manager.resource-event", offline.clone()).await);
    assert!(event(&mut engine, offline).await > 0);
}

#[tokio::test]
async fn a_log_that_was_trimmed_loses_nothing_of_the_nodes() {
    let world = World::with(|config| config.retention.log_entries = 50).await;
    let mut engine = Peer::service(&world, "resource").await;
    let announced = engine
        .call(
            "job-manager.resource-announce",
            announcement("n[0-3]", "0-3"),
        )
        .await
        .unwrap();
    let drain = json!({"name": "drain", "idset": "2", "reason": "fan"});
    let seq = event(&mut engine, drain).await;
    let client = world.client().await;
    // Until the log begins after those entries.
    let mut floor = 0;
    while floor <= seq {
        submit_many(&client, 100).await;
        let after = json!({"after": int(&announced, "seq") - 1});
        let stream = client.stream("job-manager.events", &after).await.unwrap();
        let mut tap = Tap { stream };
        match crate::world::soon(tap.stream.next()).await {
            Some(Err(error)) => {
                assert_eq!(error.errnum, errno::ESTALE);
                floor = seq + 1;
            }
            other => assert!(matches!(other, Some(Ok(_))), "{other:?}"),
        }
    }
    let before = told(&world, json!({"from": "all"})).await;
    assert_eq!(
        (&before["up"], &before["drained"][0]["idset"]),
        (&json!("0-3"), &json!("2"))
    );
    let world = world.restart().await;
    assert_eq!(told(&world, json!({"from": "all"})).await, before);
}

#[tokio::test]
async fn single_ranks_have_statuses_of_their_own_over_a_restart() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2).await;
    let id = int(
        &ok(&client, "job-ingest.submit", submission(16)).await,
        "id",
    );
    engine.wait_for("sched.alloc", id).await;
    let r = json!({"version": 1, "execution": {"R_lite": [{"rank": "0-3", "children": {"core": "0"}}],
                   "nodelist": ["n[0-3]"], "starttime": 1.0, "expiration": 0.0}});
    engine.alloc(id, &json!({"id": id, "type": 0, "R": r}));
    engine.wait_for("job-exec.start", id).await;
    engine.say(id, "start", json!({}));
    let failed = json!({"allocs": [{"ranks": "2", "status": "failed", "reason": "exit code 1", "wait_status": 256}]});
    engine.say(id, "alloc-status", failed.clone());
    let lookup = json!({"id": id, "keys": ["eventlog"]});
    let eventlog = async |client: &rpc::Client| loop {
        let found = ok(client, "job-manager.lookup", lookup.clone()).await;
        let text = found["eventlog"].as_str().unwrap().to_owned();
        if text.contains("alloc-status") {
            break text;
        }
    };
    let before = eventlog(&client).await;
    drop(engine);
    let world = world.restart().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2).await;
    engine.wait_for("job-exec.start", id).await;
    // Said again, with something that cannot be any more: nothing. Then the end.
    engine.say(id, "alloc-status", failed);
    let lost = json!({"allocs": [{"ranks": "2", "status": "lost"}]});
    engine.say(id, "alloc-status", lost);
    engine.say(
        id,
        "finish",
        json!({"status": 256, "release": {"ranks": "all", "final": true}}),
    );
    engine.wait_for("sched.free", id).await;
    let after = eventlog(&client).await;
    assert_eq!(after.matches("alloc-status").count(), 1, "{after}");
    assert!(after.starts_with(&before));
}

/// A job's command does not matter here, its environment does.
fn parameterized(rules: &str) -> Value {
    let system = format!(r#""system":{{"weir":{{"parameterized":{rules}}},"#);
    let jobspec = JOBSPEC.replace(r#""system":{"#, &system);
    json!({"J": wrap(own_uid(), &jobspec), "urgency": 16, "flags": 0})
}

/// The jobspec in a `J`, with its environment.
fn unwrapped(j: &Value) -> Value {
    let jobspec = j.as_str().unwrap().split('.').nth(1).unwrap();
    serde_json::from_slice(&STANDARD.decode(jobspec).unwrap()).unwrap()
}

#[tokio::test]
async fn a_parameterized_job_is_dispatched_from_over_restarts_and_a_key_makes_one_child() {
    let world = World::new().await;
    let client = world.client().await;
    let parent = parameterized(r#"{"meta_required":["who"],"meta_optional":["a-note"]}"#);
    let parent = int(&ok(&client, "job-ingest.submit", parent).await, "id");
    let dispatch = |key: &str| json!({"id": parent, "meta": {"who": "me", "a-note": "ƒ"}, "payload": STANDARD.encode("in"), "key": key});
    let first = ok(&client, "job-manager.dispatch", dispatch("k")).await;
    let child = int(&first, "id");
    let again = ok(&client, "job-manager.dispatch", dispatch("k")).await;
    assert_eq!((int(&again, "id"), &again["known"]), (child, &json!(true)));

    let world = world.restart().await;
    let client = world.client().await;
    let again = ok(&client, "job-manager.dispatch", dispatch("k")).await;
    assert_eq!((int(&again, "id"), &again["known"]), (child, &json!(true)));
    let other = ok(&client, "job-manager.dispatch", dispatch("l")).await;
    assert!(int(&other, "id") > child && other.get("known").is_none());

    // The engine gets what it needs; no scheduler hears of the parent.
    let mut engine = Engine::new(&world, 8).await;
    engine.wait_for("sched.alloc", child).await;
    let offered = body(&engine.request("sched.alloc", child).payload);
    let weir = &offered["jobspec"]["attributes"]["system"]["weir"];
    assert_eq!(
        *weir,
        json!({"parent": parent, "dispatch": {"meta": {"who": "me", "a-note": "ƒ"}, "payload": "aW4="}})
    );
    engine.grant(child);
    engine.wait_for("job-exec.start", child).await;
    let start = body(&engine.request("job-exec.start", child).payload);
    let environment = unwrapped(&start["J"])["attributes"]["system"]["environment"].clone();
    assert_eq!(
        environment,
        json!({"HOME": "/root", "WEIR_META_WHO": "me", "NOMAD_META_WHO": "me",
               "WEIR_META_A_NOTE": "ƒ", "NOMAD_META_A_NOTE": "ƒ"})
    );
    engine.run(child).await;
    assert!(engine.log.iter().all(|(_, id)| *id != parent));
    let cancel = json!({"id": parent, "type": "cancel", "severity": 0});
    ok(&client, "job-manager.raise", cancel).await;
    let all = crate::world::everything(&client).await;
    assert_eq!(
        names(&all, parent),
        ["submit", "validate", "dependency-add", "exception", "clean"]
    );
    let (errnum, text) = refused(&client, "job-manager.dispatch", dispatch("m")).await;
    let expected = format!(
        "job {} has ended: nothing can be dispatched from it",
        job::JobId(parent)
    );
    assert_eq!((errnum, text), (errno::EINVAL, expected));
}

#[tokio::test]
async fn fault_a_state_of_the_queue_that_cannot_be_read_keeps_it_closed_until_it_is_opened() {
    let (dir, config) = World::new().await.stop().await;
    let db = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    db.execute(
        "INSERT OR REPLACE INTO meta(key, value) VALUES('queues', '{\"version\":1')",
        [],
    )
    .unwrap();
    drop(db);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let status = ok(&client, "job-manager.queue-status", json!({})).await;
    let why = status["disable_reason"].as_str().unwrap();
    assert!(why.contains("cannot be read (meta key queues)"), "{why}");
    let (errnum, text) = refused(&client, "job-ingest.submit", submission(16)).await;
    assert_eq!(errnum, errno::EINVAL);
    assert!(text.contains(why), "{text}");
    for (topic, payload) in [
        (
            "job-manager.queue-enable",
            json!({"enable": true, "all": true}),
        ),
        (
            "job-manager.queue-start",
            json!({"start": true, "all": true}),
        ),
    ] {
        ok(&client, topic, payload).await;
    }
    let world = world.restart().await;
    let client = world.client().await;
    ok(&client, "job-ingest.submit", submission(16)).await;
}

#[tokio::test]
async fn fault_a_state_of_the_nodes_that_cannot_be_read_is_made_of_their_log() {
    let world = World::new().await;
    let mut engine = Peer::service(&world, "resource").await;
    let announced = announcement("n[0-3]", "0-2");
    engine
        .call("job-manager.resource-announce", announced)
        .await
        .unwrap();
    let drain = json!({"name": "drain", "idset": "1", "reason": "disk"});
    event(&mut engine, drain).await;
    let before = told(&world, json!({})).await;
    let (dir, config) = world.stop().await;
    let change = |sql: &str| {
        let db = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
        assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
    };
    change("UPDATE meta SET value = '{' WHERE key = 'resources'");
    let world = World::open(dir, config.clone()).await;
    assert_eq!(told(&world, json!({})).await, before);
    let (dir, config) = world.stop().await;
    change("DELETE FROM meta WHERE key = 'resources'");
    let world = World::open(dir, config).await;
    assert_eq!(told(&world, json!({})).await, before);
    // What comes next goes on from there.
    let mut engine = Peer::service(&world, "resource").await;
    let undrain = json!({"name": "undrain", "idset": "1"});
    let seq = event(&mut engine, undrain).await;
    let after = told(&world, json!({})).await;
    assert_eq!((int(&after, "seq"), &after["drained"]), (seq, &json!([])));
    assert_eq!(
        int(&after, "eventlog_seq"),
        int(&before, "eventlog_seq") + 1
    );
}
