//! A disk without room: no end of a job is lost, no job fails of it that could have gone on, and the reasons are true.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which may stop at once"
)]

mod common;

use common::{World, kill9, lives, until};
use serde_json::{Value, json};

const ENVIRONMENT: fn() -> Value = || json!({"PATH": "/usr/local/bin:/usr/bin:/bin"});

/// An engine that was greeted, its state directory on a disk of its own; none where there can be none.
async fn on_small_disk() -> Option<World> {
    let mut world = World::on_disk(2048, &["--cores", "0"])?;
    world.start_engine();
    world.greet(&[]).await;
    Some(world)
}

fn pid_of_shepherd(world: &World, id: u64) -> i32 {
    let claim = world.read(&format!("jobs/{id}/claim"));
    let claimant: Value = serde_json::from_str(claim.lines().next().unwrap()).unwrap();
    i32::try_from(claimant["pid"].as_i64().unwrap()).unwrap()
}

fn node(world: &World, id: u64) -> i32 {
    job_runner::proc::stat(pid_of_shepherd(world, id))
        .unwrap()
        .parent
}

/// A job that runs until `go` is there, beside the disk; it notes down each run there.
async fn running(
    world: &mut World,
    id: u64,
    beside: &tempfile::TempDir,
    last: &str,
) -> (Value, Value) {
    let beside = beside.path().display();
    let script = format!(
        "echo ran >> {beside}/runs; while [ ! -e {beside}/go ]; do sleep 0.01; done; {last}"
    );
    let jobspec = world.script(&script);
    let r = world.alloc(id, &jobspec).await;
    world.start(id, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(world.tell(id).await.0, "start");
    (jobspec, r)
}

/// The room for the status of a job is not there any more.
fn take_reserve_away(world: &World, id: u64) {
    std::fs::OpenOptions::new()
        .write(true)
        .open(world.path(&format!("jobs/{id}/status")))
        .unwrap()
        .set_len(0)
        .unwrap();
}

/// Another engine, which is told that it has this job.
async fn reattach(world: &mut World, id: u64, jobspec: &Value, r: &Value) {
    world.start_engine();
    world.greet(&[(id, r.clone())]).await;
    world.start(id, jobspec, r, true, &ENVIRONMENT());
}

fn runs(beside: &tempfile::TempDir) -> usize {
    let text = std::fs::read_to_string(beside.path().join("runs")).unwrap_or_default();
    text.lines().count()
}

/// The status had 0 bytes, and the jobs were said to be lost.
#[tokio::test]
async fn a_job_that_ends_without_room_and_whose_daemons_are_stopped_politely_keeps_its_status() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let (jobspec, r) = running(&mut world, 1, &beside, "exit 3").await;
    world.disk.as_ref().unwrap().fill(0);
    std::fs::write(beside.path().join("go"), "").unwrap();
    // The job-manager hears of it and can store nothing.
    assert_eq!(world.told(1).await, ["finish 768"]);
    world.stop_engine();
    reattach(&mut world, 1, &jobspec, &r).await;
    assert_eq!(world.told(1).await, ["reattached", "finish 768"]);
    let status = world.read("jobs/1/status");
    assert_eq!(status, "{\"status\":768}\n");
    assert_eq!(runs(&beside), 1);
}

/// On a file system that never writes in place, what was reserved does not help: here it is taken away.
#[tokio::test]
async fn an_end_that_cannot_be_written_keeps_its_node_process_until_it_can() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let (jobspec, r) = running(&mut world, 1, &beside, "exit 3").await;
    let node = node(&world, 1);
    take_reserve_away(&world, 1);
    world.disk.as_ref().unwrap().fill(0);
    std::fs::write(beside.path().join("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    world.stop_engine();
    reattach(&mut world, 1, &jobspec, &r).await;
    assert_eq!(world.told(1).await, ["reattached", "finish 768"]);
    assert!(lives(node), "it ended though it alone knew");
    assert_eq!(world.read("jobs/1/status"), "");
    world.disk.as_ref().unwrap().empty();
    until(|| world.read("jobs/1/status") == "{\"status\":768}\n").await;
    assert_eq!(runs(&beside), 1);
}

#[tokio::test]
async fn an_end_that_cannot_be_written_outlives_its_node_process_too() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let (jobspec, r) = running(&mut world, 1, &beside, "exit 3").await;
    let (node, shepherd) = (node(&world, 1), pid_of_shepherd(&world, 1));
    take_reserve_away(&world, 1);
    world.disk.as_ref().unwrap().fill(0);
    std::fs::write(beside.path().join("go"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    world.kill_engine();
    kill9(node);
    until(|| !lives(node)).await;
    assert!(lives(shepherd));
    reattach(&mut world, 1, &jobspec, &r).await;
    assert_eq!(world.tell(1).await.0, "reattached");
    world.disk.as_ref().unwrap().empty();
    assert_eq!(world.told(1).await, ["finish 768"]);
    assert_eq!(runs(&beside), 1);
}

/// The next thing said of a job: type, severity or 0, note or data.
async fn word(world: &mut World, id: u64) -> (String, u64, String) {
    let (_, answer) = world.answer().await;
    assert_eq!(answer["id"], id, "{answer}");
    let data = &answer["data"];
    (
        answer["type"].as_str().unwrap().to_owned(),
        data["severity"].as_u64().unwrap_or(0),
        data["note"]
            .as_str()
            .map_or_else(|| data.to_string(), str::to_owned),
    )
}

#[tokio::test]
async fn a_job_that_cannot_be_claimed_for_want_of_room_begins_when_there_is_some() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let jobspec = world.script(&format!(
        "echo ran >> {}/runs; exit 3",
        beside.path().display()
    ));
    // However much of the claim there is room for: its directory, the file, the status.
    for (id, but) in (1u64..).zip([0, 1, 2, 3]) {
        let r = world.alloc(id, &jobspec).await;
        world.disk.as_ref().unwrap().fill(but);
        world.start(id, &jobspec, &r, false, &ENVIRONMENT());
        let mut next = word(&mut world, id).await;
        if but == 0 {
            assert_eq!((next.0.as_str(), next.1), ("exception", 2), "{next:?}");
            assert!(next.2.contains("No space left on device"), "{next:?}");
        }
        world.disk.as_ref().unwrap().empty();
        let mut told = Vec::new();
        loop {
            match next.0.as_str() {
                "exception" => assert_eq!(next.1, 2, "nothing failed of it: {next:?}"),
                _ => told.push(next.0.clone()),
            }
            if next.0 == "finish" {
                break;
            }
            next = word(&mut world, id).await;
        }
        assert!(next.2.contains("768"), "{next:?}");
        assert_eq!(told, ["start", "finish"]);
        assert_eq!(runs(&beside), usize::try_from(id).unwrap());
        world.free(id, &r);
    }
}

#[tokio::test]
async fn a_job_that_waits_for_room_obeys_a_cancel_and_its_time_limit() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let mut jobspec = world.script(&format!("echo ran >> {}/runs", beside.path().display()));
    let r = world.alloc(1, &jobspec).await;
    world.disk.as_ref().unwrap().fill(0);
    world.start(1, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(word(&mut world, 1).await.1, 2);
    world.ask("job-exec.cancel", &json!({"id": 1, "type": "cancel"}));
    assert_eq!(word(&mut world, 1).await.0, "release");
    world.free(1, &r);
    jobspec["attributes"]["system"]["duration"] = json!(0.5);
    let r = world.alloc(2, &jobspec).await;
    world.start(2, &jobspec, &r, false, &ENVIRONMENT());
    assert_eq!(word(&mut world, 2).await.1, 2);
    let timeout = word(&mut world, 2).await;
    assert_eq!(
        timeout,
        ("exception".into(), 0, "resource allocation expired".into())
    );
    assert_eq!(word(&mut world, 2).await.0, "release");
    world.free(2, &r);
    world.disk.as_ref().unwrap().empty();
    assert_eq!(world.sh(3, "exit 0").await, ["start", "finish 0"]);
    assert_eq!(runs(&beside), 0);
}

#[tokio::test]
async fn output_that_does_not_fit_is_missed_and_said_to_be_and_the_job_goes_on() {
    let Some(mut world) = on_small_disk().await else {
        return;
    };
    let beside = tempfile::tempdir().unwrap();
    let flood = format!(
        "head -c 4000000 /dev/zero | tr '\\0' x; echo > {0}/flooded; while [ ! -e {0}/more ]; do sleep 0.01; done; echo after; exit 3",
        beside.path().display()
    );
    let (_, r) = running(&mut world, 1, &beside, &flood).await;
    world.disk.as_ref().unwrap().fill(10);
    std::fs::write(beside.path().join("go"), "").unwrap();
    let (kind, severity, note) = word(&mut world, 1).await;
    assert_eq!((kind.as_str(), severity), ("exception", 2));
    let dir = world.path("jobs/1");
    assert_eq!(
        note,
        format!(
            "failed to write the job's logs in {}, some output is lost: No space left on device",
            dir.display()
        )
    );
    until(|| beside.path().join("flooded").exists()).await;
    world.disk.as_ref().unwrap().empty();
    until(|| {
        world
            .read("jobs/1/output.eventlog")
            .contains("\"truncated\"")
    })
    .await;
    std::fs::write(beside.path().join("more"), "").unwrap();
    assert_eq!(world.told(1).await, ["finish 768"]);
    let log = world.log(1, "output.eventlog");
    let named = |name: &str| log.iter().filter(|(one, _)| one == name).count();
    assert_eq!((named("truncated"), named("log")), (1, 1));
    let kept: usize = log
        .iter()
        .filter_map(|(_, context)| context["data"].as_str())
        .map(str::len)
        .sum();
    let lost = log
        .iter()
        .find_map(|(_, context)| context["bytes_lost"].as_u64())
        .unwrap();
    assert_eq!(kept as u64 + lost, 4_000_000 + "after\n".len() as u64);
    assert!(world.output(1, "stdout").ends_with("after\n"));
    world.free(1, &r);
}
