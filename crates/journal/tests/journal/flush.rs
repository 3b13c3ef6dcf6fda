//! Read your writes: a listener is brought up to date at once, or gets a mark.

use job::Timestamp;
use journal::{Filter, Format, ListenerId, Rights, Start};

use crate::world::{EPOCH, World, after, small};

fn flush(world: &mut World, id: u64) -> bool {
    let mut out = Vec::new();
    let done = world
        .fan
        .flush(ListenerId(id), Timestamp(world.now), &mut out);
    world.take(out);
    done
}

#[test]
fn a_flush_brings_one_listener_up_to_date_and_leaves_the_others_their_batches() {
    let mut world = World::new(small(1000));
    for id in 1..=3 {
        world.tap(id, Start::Now);
    }
    world.settle();
    world.commits(1);
    world.settle();
    world.commits(5);
    assert!(flush(&mut world, 2));
    assert_eq!(world.got[&2].live, (1..=6).collect::<Vec<_>>());
    assert_eq!(world.got[&2].told, 6);
    assert_eq!(world.got[&1].live, [1]);
    assert!(flush(&mut world, 2), "again: nothing to say");
    assert_eq!(world.got[&2].responses.len(), 3);
    world.commits(2);
    world.wait(0.1);
    for id in 1..=3 {
        assert_eq!(
            world.got[&id].live,
            (1..=8).collect::<Vec<_>>(),
            "listener {id}"
        );
    }
    // It stands with its group again.
    let before = world.fan.counters().batches_encoded;
    world.commits(1);
    world.wait(0.1);
    assert_eq!(world.fan.counters().batches_encoded, before + 1);
}

#[test]
fn a_flush_tells_how_far_the_stream_is_though_nothing_passed_the_filter() {
    let mut world = World::new(small(1000));
    world
        .add(
            1,
            Start::Now,
            Filter::all(Rights::Owner).allow(["clean"]),
            Format::Native,
        )
        .unwrap();
    assert!(flush(&mut world, 1), "also before its first poll");
    assert_eq!(world.got[&1].caught_up, Some(0));
    world.commits(4);
    world.settle();
    assert!(flush(&mut world, 1));
    assert_eq!(world.got[&1].told, 4);
    world.commits(1);
    assert!(flush(&mut world, 1));
    assert_eq!(world.got[&1].told, 5);
}

#[test]
fn who_cannot_be_flushed_gets_a_mark() {
    let mut world = World::new(small(10));
    world.commits(50);
    world.tap(1, Start::All);
    assert!(!flush(&mut world, 1), "in its backlog");
    world.tap(2, after(3));
    world.poll();
    assert!(!flush(&mut world, 2), "reading the store");
    let mark = world.fan.mark_payload(ListenerId(2)).unwrap();
    assert_eq!(
        &mark[..],
        format!("{{\"epoch\":\"{EPOCH}\",\"mark\":50}}\0").as_bytes()
    );
    world.tap(3, Start::Now);
    world.settle();
    world.fan.set_writable(ListenerId(3), false);
    assert!(flush(&mut world, 3), "it knows all there is");
    world.commits(1);
    assert!(!flush(&mut world, 3), "its output is full");
    world.settle();
    assert!(flush(&mut world, 1) && flush(&mut world, 2));
    assert_eq!(world.got[&1].told, 51);
    world
        .add(4, Start::Active, Filter::all(Rights::Owner), Format::Flux)
        .unwrap();
    assert_eq!(
        world.fan.mark_payload(ListenerId(4)),
        None,
        "Flux's form has no marks"
    );
    assert!(
        flush(&mut world, 99),
        "nobody waits for a listener that is gone"
    );
}
