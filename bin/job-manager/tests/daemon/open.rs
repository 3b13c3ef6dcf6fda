//! Starting and ending: the key, the socket, a directory that cannot be had, jobs whose store is damaged.

use crate::engine::Engine;
use crate::world::{World, everything, int, names, ok, own_uid, soon, submit, submit_many};
use job_manager::{Config, Stop};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// Runs a daemon that is not to start.
async fn cannot_start(config: Config) -> String {
    match soon(job_manager::run(config, std::future::pending())).await {
        Err(Stop::CannotStart(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_key_is_the_owners_alone_and_stays() {
    let world = World::new().await;
    let path = world.path("key");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&world.config.statedir), 0o700);
    assert_eq!(
        mode(&world.config.socket),
        0o777,
        "credentials decide, not the file's mode"
    );
    let key = world.key();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let world = world.restart().await;
    assert_eq!(world.key(), key);
    // One that others could read is a secret no more.
    let (dir, config) = world.stop().await;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let world = World::open(dir, config).await;
    assert_ne!(world.key(), key);
    assert_eq!(mode(&world.path("key")), 0o600);
    // One that was cut short.
    let (dir, config) = world.stop().await;
    std::fs::write(&path, "abc").unwrap();
    let world = World::open(dir, config).await;
    assert_eq!(world.key().len(), 64);
}

#[tokio::test]
async fn the_socket_goes_with_the_daemon_and_comes_with_the_next() {
    let world = World::new().await;
    let socket = world.config.socket.clone();
    let client = world.client().await;
    submit(&client).await;
    let (dir, config) = world.stop().await;
    assert!(!socket.exists());
    let error = soon(client.call("attr.list", &())).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    // Left behind by one that was killed.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let world = World::open(dir, config).await;
    assert!(socket.exists());
    ok(&world.client().await, "attr.list", Value::Null).await;
}

#[tokio::test]
async fn a_directory_in_use_and_one_that_cannot_be_had_are_named_with_the_remedy() {
    let world = World::new().await;
    let text = cannot_start(world.config.clone()).await;
    assert!(
        text.contains("in use") && text.contains("--statedir"),
        "{text}"
    );
    ok(&world.client().await, "attr.list", Value::Null).await;

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let text = cannot_start(Config::new(&file)).await;
    assert!(
        text.contains("file") && text.contains("--statedir"),
        "{text}"
    );
    let mut config = Config::new(dir.path().join("state"));
    config.socket = dir.path().join("s".repeat(120));
    let text = cannot_start(config).await;
    assert!(text.contains("a socket path may have"), "{text}");
    let mut config = Config::new(dir.path().join("state"));
    config.socket = file.clone();
    let text = cannot_start(config).await;
    assert!(text.contains("is not a socket"), "{text}");
    assert!(file.exists());
    let mut config = Config::new(dir.path().join("state"));
    config.allow_guests = true;
    let text = cannot_start(config.clone()).await;
    assert!(
        text.contains("guests cannot reach it") && text.contains("--socket"),
        "{text}"
    );
    let open_to_all = dir.path().join("open");
    std::fs::create_dir(&open_to_all).unwrap();
    std::fs::set_permissions(&open_to_all, std::fs::Permissions::from_mode(0o711)).unwrap();
    config.socket = open_to_all.join("socket");
    let world = World::open(tempfile::tempdir().unwrap(), config).await;
    ok(&world.client().await, "attr.list", Value::Null).await;
    world.stop().await;
    if own_uid() == 0 {
        let others = dir.path().join("others");
        std::fs::create_dir(&others).unwrap();
        std::os::unix::fs::chown(&others, Some(12345), None).unwrap();
        let text = cannot_start(Config::new(&others)).await;
        assert!(
            text.contains("belongs to user 12345, not to user 0"),
            "{text}"
        );
        assert_eq!(
            std::fs::read_dir(&others).unwrap().count(),
            0,
            "nothing was changed"
        );
    }
}

/// A job whose `J` is not in the store any more ends with an exception when it is to be started; others go on.
#[tokio::test]
async fn a_job_without_its_j_ends_with_an_exception_and_gives_its_resources_back() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 3).await;
    let (dir, config) = world.stop().await;
    let db = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    let changed = db.execute("UPDATE job SET j = NULL WHERE id = ?1", [jobs[1].0 as i64]);
    assert_eq!(changed, Ok(1));
    drop(db);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let mut engine = Engine::new(&world, 3).await;
    for (id, _) in &jobs {
        engine.wait_for("sched.alloc", *id).await;
        engine.grant(*id);
    }
    engine.wait_for("job-exec.start", jobs[0].0).await;
    engine.wait_for("job-exec.start", jobs[2].0).await;
    engine.wait_for("sched.free", jobs[1].0).await;
    assert!(
        !engine
            .log
            .contains(&("job-exec.start".to_owned(), jobs[1].0))
    );
    let all = everything(&client).await;
    assert_eq!(
        names(&all, jobs[1].0).join(" "),
        "submit validate depend priority annotations alloc exception release free clean"
    );
    let exception = all
        .iter()
        .find(|one| one["entry"]["name"] == "exception")
        .unwrap();
    let context = &exception["entry"]["context"];
    assert_eq!(
        (&context["type"], &context["severity"]),
        (&json!("exec"), &json!(0))
    );
    assert_eq!(context["note"], "the job cannot be started: there is no J");
    // One that runs is found again without it.
    engine.say(jobs[0].0, "start", json!({}));
    engine
        .peer
        .call("job-manager.queue-list", json!({}))
        .await
        .unwrap();
    drop(engine);
    let (dir, config) = world.stop().await;
    let db = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    db.execute("UPDATE job SET j = NULL", []).unwrap();
    drop(db);
    let world = World::open(dir, config).await;
    let mut engine = Engine::new(&world, 3).await;
    engine.wait_for("job-exec.start", jobs[0].0).await;
    let start = engine
        .starts
        .iter()
        .find(|start| start["id"] == jobs[0].0)
        .unwrap();
    assert_eq!((&start["reattach"], start.get("J")), (&json!(true), None));
}

/// A job that cannot be read back is set aside; it keeps nobody from starting.
#[tokio::test]
async fn a_damaged_job_is_set_aside_and_the_others_are_there() {
    let world = World::new().await;
    let client = world.client().await;
    let jobs = submit_many(&client, 3).await;
    let (dir, config) = world.stop().await;
    let db = rusqlite::Connection::open(config.statedir.join("store.sqlite")).unwrap();
    db.execute(
        "UPDATE job SET eventlog = 'nonsense' WHERE id = ?1",
        [jobs[1].0 as i64],
    )
    .unwrap();
    drop(db);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    let list = ok(&client, "job-manager.list", json!({"max_entries": 0})).await;
    let ids: Vec<u64> = list["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| int(job, "id"))
        .collect();
    assert_eq!(ids, [jobs[0].0, jobs[2].0]);
    let lookup = json!({"id": jobs[1].0, "keys": ["eventlog"]});
    assert_eq!(
        crate::world::refused(&client, "job-manager.lookup", lookup)
            .await
            .0,
        wire::errno::EIO
    );
    submit(&client).await;
}

/// A store that cannot be written any more ends the daemon, with what was acknowledged on the disk and nobody told of anything else.
#[tokio::test]
async fn a_store_that_cannot_be_written_any_more_ends_the_daemon() {
    let world = World::new().await;
    let client = world.client().await;
    let (id, seq) = submit(&client).await;
    let path = world.path("store.sqlite");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("ALTER TABLE log RENAME TO gone", []).unwrap();
    let answer = crate::world::call(
        &client,
        "job-manager.urgency",
        json!({"id": id, "urgency": 3}),
    );
    assert!(answer.await.unwrap_err().is_lost());
    let (dir, config, text) = world.failed().await;
    assert!(
        text.contains("the store cannot be written any more"),
        "{text}"
    );
    db.execute("ALTER TABLE gone RENAME TO log", []).unwrap();
    drop(db);
    let world = World::open(dir, config).await;
    let client = world.client().await;
    assert_eq!(int(&crate::world::stats(&client).await, "seq"), seq);
    assert_eq!(
        names(&everything(&client).await, id),
        ["submit", "validate", "depend", "priority"]
    );
}
