//! The engines' side: offers, starts and frees in order and after what they rest on; engines that come and go; starts that cannot be made.

use crate::engine::{Engine, r};
use crate::peer::Peer;
use crate::world::{Tap, World, everything, int, names, ok, stats, submit, submit_many};
use serde_json::{Value, json};
use wire::errno;

const LIFE: &str =
    "submit validate depend priority annotations alloc start finish release free clean";

#[tokio::test]
async fn a_job_runs_its_whole_life_and_each_request_follows_what_it_rests_on() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 4).await;
    let (id, _) = submit(&client).await;
    // What a request rests on is on disk before it goes out: a look-up reads the disk.
    let lookup = json!({"id": id, "keys": ["eventlog"]});
    let stored = async || {
        let found = ok(&client, "job-manager.lookup", lookup.clone()).await;
        let log = found["eventlog"].as_str().unwrap().to_owned();
        let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        last["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(engine.next().await, ("sched.alloc".into(), id));
    assert_eq!(stored().await, "priority");
    engine.grant(id);
    assert_eq!(engine.next().await, ("job-exec.start".into(), id));
    assert_eq!(stored().await, "alloc");
    let start = engine.starts[0].clone();
    assert_eq!((&start["R"], &start["reattach"]), (&r(), &json!(false)));
    assert_eq!(
        start["J"],
        crate::world::wrap(crate::world::own_uid(), crate::world::JOBSPEC)
    );
    assert!(
        start["jobspec"]["attributes"]["system"]
            .get("environment")
            .is_none()
    );
    engine.say(id, "start", json!({}));
    engine.say(
        id,
        "finish",
        json!({"status": 0, "release": {"ranks": "all", "final": true}}),
    );
    assert_eq!(engine.next().await, ("sched.free".into(), id));
    assert_eq!(stored().await, "clean");
    assert_eq!(names(&everything(&client).await, id).join(" "), LIFE);
}

/// Reports that came in one read are one commit, and what is asked after them is answered after them.
#[tokio::test]
async fn invariant_6_reports_read_together_are_one_commit_and_keep_their_place() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 64).await;
    let jobs = submit_many(&client, 50).await;
    for (id, _) in &jobs {
        engine.wait_for("sched.alloc", *id).await;
    }
    for (id, _) in &jobs {
        engine.grant(*id);
    }
    for (id, _) in &jobs {
        engine.wait_for("job-exec.start", *id).await;
    }
    let before = stats(&client).await;
    let last = jobs.last().unwrap().0;
    for (id, _) in &jobs {
        engine.say(*id, "start", json!({}));
        engine.say(
            *id,
            "finish",
            json!({"status": 0, "release": {"ranks": "all", "final": true}}),
        );
    }
    // On the same connection, behind the reports: it is decided after them.
    let late = json!({"id": last, "urgency": 1});
    let refused = engine.peer.call("job-manager.urgency", late).await;
    assert_eq!(refused, Err((22, "job is inactive".to_owned())));
    let after = stats(&client).await;
    let commits = int(&after["manager"], "commits") - int(&before["manager"], "commits");
    assert!(commits <= 4, "{commits} commits for a hundred reports");
    for (id, _) in &jobs {
        engine.wait_for("sched.free", *id).await;
    }
}

#[tokio::test]
async fn offers_follow_priority_within_the_limit_and_a_better_job_takes_a_place() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 6).await;
    let mut engine = Engine::new(&world, 2).await;
    assert_eq!(engine.next().await, ("sched.alloc".into(), jobs[0].0));
    assert_eq!(engine.next().await, ("sched.alloc".into(), jobs[1].0));
    let raise = json!({"jobs": [[jobs[5].0, 31]]});
    ok(&client, "job-manager.priority", raise).await;
    assert_eq!(engine.next().await, ("sched.cancel".into(), jobs[1].0));
    engine.alloc(jobs[1].0, &json!({"id": jobs[1].0, "type": 3}));
    assert_eq!(engine.next().await, ("sched.alloc".into(), jobs[5].0));
    engine.alloc(
        jobs[5].0,
        &json!({"id": jobs[5].0, "type": 2, "note": "never"}),
    );
    assert_eq!(engine.next().await, ("sched.alloc".into(), jobs[1].0));
    let all = everything(&client).await;
    let denied: Vec<&Value> = all
        .iter()
        .filter(|one| one["id"] == jobs[5].0 && one["entry"]["name"] == "exception")
        .collect();
    assert_eq!(denied[0]["entry"]["context"]["note"], "never");
}

#[tokio::test]
async fn an_engine_that_goes_is_asked_again_when_it_comes_back() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 3).await;
    let jobs = submit_many(&client, 3).await;
    let [running, granted, offered] = [jobs[0].0, jobs[1].0, jobs[2].0];
    for (id, _) in &jobs {
        engine.wait_for("sched.alloc", *id).await;
    }
    engine.grant(running);
    engine.wait_for("job-exec.start", running).await;
    engine.say(running, "start", json!({}));
    engine.grant(granted);
    engine.wait_for("job-exec.start", granted).await;
    drop(engine);
    crate::world::stats_until(&client, |stats| stats["router"]["clients"] == 1).await;
    // Meanwhile one more is cancelled, and a signal has nobody to deliver it.
    ok(
        &client,
        "job-manager.raise",
        json!({"id": offered, "type": "cancel", "severity": 0}),
    )
    .await;
    let kill = json!({"id": running, "signum": 15});
    assert_eq!(
        crate::world::refused(&client, "job-manager.kill", kill)
            .await
            .0,
        errno::EAGAIN
    );

    let mut engine = Engine::new(&world, 3).await;
    let mut held: Vec<u64> = engine.held.iter().map(|row| int(row, "id")).collect();
    held.sort_unstable();
    assert_eq!(held, [running, granted]);
    engine.wait_for("job-exec.start", running).await;
    engine.wait_for("job-exec.start", granted).await;
    for start in &engine.starts {
        assert_eq!(start["reattach"], json!(start["id"] == running), "{start}");
    }
    engine.say(running, "reattached", json!({}));
    for id in [running, granted] {
        if id == granted {
            engine.say(id, "start", json!({}));
        }
        engine.say(
            id,
            "finish",
            json!({"status": 0, "release": {"ranks": "all", "final": true}}),
        );
        engine.wait_for("sched.free", id).await;
    }
    let all = everything(&client).await;
    assert_eq!(names(&all, running).join(" "), LIFE);
    assert_eq!(names(&all, granted).join(" "), LIFE);
    assert_eq!(
        names(&all, offered).join(" "),
        "submit validate depend priority exception clean"
    );
}

/// More starts than are read at a time, all at one hello.
#[tokio::test]
async fn three_hundred_jobs_are_found_again_at_one_hello() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 300).await;
    {
        let mut engine = Engine::new(&world, 1000).await;
        for (id, _) in &jobs {
            engine.wait_for("sched.alloc", *id).await;
            engine.grant(*id);
        }
        for (id, _) in &jobs {
            engine.wait_for("job-exec.start", *id).await;
            engine.say(*id, "start", json!({}));
        }
        let started = |log: &[Value]| {
            log.iter()
                .filter(|one| one["entry"]["name"] == "start")
                .count()
        };
        let mut tap = Tap::open(&client, json!({"from": "active"})).await;
        let mut all = tap.backlog().await;
        while started(&all) < 300 {
            all.extend(
                tap.next().await["events"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .cloned(),
            );
        }
    }
    let world = world.restart().await;
    let mut engine = Engine::new(&world, 1000).await;
    assert_eq!(engine.held.len(), 300);
    for (id, _) in &jobs {
        engine.wait_for("job-exec.start", *id).await;
    }
    assert_eq!(engine.starts.len(), 300);
    assert!(
        engine
            .starts
            .iter()
            .all(|start| start["reattach"] == true && start["J"].is_string())
    );
}

/// An engine that does not read loses no request: they wait for it, in order.
#[tokio::test]
async fn an_engine_that_does_not_read_gets_every_request_in_order_when_it_does() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2000).await;
    // 600 offers of 20 kB: more than its output queue takes before high water.
    let pad = "x".repeat(20_000);
    let mut jobspec: Value = serde_json::from_str(crate::world::JOBSPEC).unwrap();
    jobspec["attributes"]["system"]["pad"] = json!(pad);
    let j = crate::world::wrap(crate::world::own_uid(), &jobspec.to_string());
    let mut jobs = Vec::new();
    for at in 0..600 {
        let payload = json!({"J": j, "urgency": 16, "flags": 0});
        let id = int(&ok(&client, "job-ingest.submit", payload).await, "id");
        jobs.push(id);
        if at == 300 {
            // Taken back while its offer waits.
            ok(
                &client,
                "job-manager.raise",
                json!({"id": jobs[250], "type": "cancel", "severity": 0}),
            )
            .await;
        }
    }
    let waiting = int(&stats(&client).await["waiting"], "engines");
    assert!(waiting > 100, "{waiting} requests wait for the engine");
    let mut order = Vec::new();
    while order.len() < 601 {
        order.push(engine.next().await);
    }
    let offers: Vec<u64> = order
        .iter()
        .filter(|(topic, _)| topic == "sched.alloc")
        .map(|(_, id)| *id)
        .collect();
    assert_eq!(offers, jobs);
    let cancel = order
        .iter()
        .position(|(topic, _)| topic == "sched.cancel")
        .unwrap();
    assert_eq!((cancel, order[cancel].1), (301, jobs[250]));
    // Starts wait with the others and carry their J.
    for id in &jobs[..200] {
        engine.grant(*id);
    }
    for id in &jobs[..200] {
        engine.wait_for("job-exec.start", *id).await;
    }
    let starts: Vec<u64> = engine.starts.iter().map(|start| int(start, "id")).collect();
    assert_eq!(starts, jobs[..200]);
    assert_eq!(int(&stats(&client).await["waiting"], "engines"), 0);
}

/// A cancel never reaches the exec service before the start it is about.
#[tokio::test]
async fn a_cancel_does_not_overtake_the_start_whose_j_is_being_read() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 200).await;
    let jobs = submit_many(&client, 100).await;
    for (id, _) in &jobs {
        engine.wait_for("sched.alloc", *id).await;
    }
    for (id, _) in &jobs {
        engine.grant(*id);
    }
    // On the same connection, right behind the grants: what both ask for becomes durable together.
    for (id, _) in &jobs {
        let cancel = wire::json_payload(&json!({"id": id, "type": "cancel", "severity": 0}));
        engine
            .peer
            .request("job-manager.raise", Some(cancel), wire::Flags::NONE);
    }
    for (id, _) in &jobs {
        while !engine.log.contains(&("sched.free".to_owned(), *id)) {
            let (topic, of) = engine.next().await;
            if topic == "job-exec.cancel" {
                assert!(
                    engine.log.contains(&("job-exec.start".to_owned(), of)),
                    "cancel of {of} came before its start"
                );
                engine.say(of, "release", json!({"ranks": "all", "final": true}));
            }
        }
    }
    let started = engine
        .log
        .iter()
        .filter(|(topic, _)| topic == "job-exec.start");
    assert_eq!(started.count(), 100);
}

/// What the manager is told by anyone but the engine that said hello counts for nothing.
#[tokio::test]
async fn reports_of_a_stranger_change_nothing() {
    let world = World::new().await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 2).await;
    let (id, seq) = submit(&client).await;
    engine.wait_for("sched.alloc", id).await;
    let mut stranger = Peer::new(&world).await;
    // It even knows the hop that the request carries.
    let seen = engine.request("sched.alloc", id);
    let payload = wire::json_payload(&json!({"id": id, "type": 0, "R": r()}));
    stranger.send(seen.respond(Some(payload)));
    stranger.send(seen.error(22, Some("dead")));
    stranger
        .call("job-manager.queue-list", json!({}))
        .await
        .unwrap();
    let stats = stats(&client).await;
    assert_eq!(
        (int(&stats, "seq"), int(&stats["manager"], "late_reports")),
        (seq, 2)
    );
    engine.grant(id);
    engine.wait_for("job-exec.start", id).await;
}

/// An engine that breaks the protocol loses its connection, and its jobs wait for the next one.
#[tokio::test]
async fn a_broken_engine_loses_its_connection_and_nothing_else() {
    let world = World::new().await;
    let client = world.client().await;
    for bad in [
        json!({}),
        json!({"id": 1}),
        json!({"id": -5, "type": 0}),
        json!({"id": 0, "type": 99}),
        json!({"id": 0, "type": 0}),
    ] {
        let mut engine = Engine::new(&world, 2).await;
        let (id, _) = submit(&client).await;
        let offered = engine.next().await.1;
        let mut bad = bad;
        if bad["id"] == 0 {
            bad["id"] = json!(offered);
        }
        engine.alloc(offered, &bad);
        engine.peer.closed().await;
        ok(
            &client,
            "job-manager.raise",
            json!({"id": id, "type": "cancel", "severity": 0}),
        )
        .await;
    }
}
