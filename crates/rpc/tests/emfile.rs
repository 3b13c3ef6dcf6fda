//! No file descriptors left: accepting backs off, counts, and goes on when there are some again. Alone in its process,
//! since the limit is the process's.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{World, soon};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

#[tokio::test]
async fn accepting_goes_on_when_descriptors_are_free_again() {
    let mut world = World::new();
    let mut stream = UnixStream::connect(&world.path).await.unwrap();
    assert_eq!(soon(stream.read_u8()).await.unwrap(), 0);
    world.opened().await;

    // Connected, not yet accepted: nothing else runs on this thread.
    let waiting = std::os::unix::net::UnixStream::connect(&world.path).unwrap();
    let before = getrlimit(Resource::Nofile);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(open.saturating_sub(1).max(3)),
            maximum: before.maximum,
        },
    )
    .unwrap();
    soon(async {
        while world.server.accept_failures() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // 10 + 20 ms have passed: a loop without pauses would have failed thousands of times.
    assert!(
        world.server.accept_failures() < 10,
        "{}",
        world.server.accept_failures()
    );
    setrlimit(Resource::Nofile, before).unwrap();

    waiting.set_nonblocking(true).unwrap();
    let mut waiting = UnixStream::from_std(waiting).unwrap();
    assert_eq!(soon(waiting.read_u8()).await.unwrap(), 0);
    world.opened().await;
}
