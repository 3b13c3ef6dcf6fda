//! The cases A10, A11 and A12 of real bug reports, and invariant 4.

use job::{Seq, Timestamp};
use journal::{Filter, Format, ListenerId, Rights, Start};

use crate::world::{EPOCH, World, after, small};

#[test]
fn case_a10_resume_gives_no_repeat_and_from_now_gives_nothing_old() {
    let mut world = World::new(small(100));
    world.tap(1, Start::Now);
    world.commits(5);
    world.settle();
    assert_eq!(world.got[&1].told, 5);
    world.fan.remove(ListenerId(1));

    world.tap(2, after(5));
    world.wait(2.0);
    assert_eq!(
        world.got[&2].responses.len(),
        1,
        "silence but for caught_up"
    );
    assert_eq!(world.got[&2].caught_up, Some(5));
    world.commit(&[(1, "submit"), (1, "validate")]);
    world.wait(0.1);
    assert_eq!(world.got[&2].live, [6, 7]);

    let newest = Filter::all(Rights::Owner).allow(["validate"]);
    world.add(3, Start::Now, newest, Format::Native).unwrap();
    world.wait(2.0);
    assert!(world.got[&3].live.is_empty() && world.got[&3].backlog.is_empty());
    world.commit(&[(2, "submit"), (2, "validate")]);
    world.wait(0.1);
    assert_eq!(world.got[&3].live, [9]);
}

#[test]
fn case_a11_a_cursor_that_aged_out_is_served_from_the_store_or_refused_never_an_empty_success() {
    let mut world = World::new(small(100));
    world.commits(305);
    for (id, cursor) in [(1, 5), (2, 204), (3, 205), (4, 305)] {
        let reads = world.reads;
        world.tap(id, after(cursor));
        world.settle();
        let expected: Vec<u64> = (cursor + 1..=305).collect();
        assert_eq!(world.got[&id].live, expected, "after {cursor}");
        assert_eq!(world.got[&id].caught_up, Some(cursor));
        if cursor >= 205 {
            assert_eq!(world.reads, reads, "after {cursor}: the ring has it all");
        }
    }
    assert_eq!(world.got[&4].responses.len(), 1, "nothing yet, stream open");
    world.commits(1);
    world.wait(0.1);
    assert_eq!(world.got[&4].live, [306]);

    let refused = world
        .add(5, after(400), Filter::all(Rights::Owner), Format::Native)
        .unwrap_err();
    assert_eq!(refused.errnum(), 116);
    assert_eq!(
        refused.to_string(),
        format!(
            "cursor 400 of epoch {EPOCH} cannot be continued: this journal (epoch {EPOCH}) holds 1 to 306; \
             read it again with from \"all\" or \"active\""
        )
    );
    let foreign = Start::After {
        seq: Seq(300),
        epoch: Some("ffffffffffffffff".into()),
    };
    let refused = world
        .add(5, foreign, Filter::all(Rights::Owner), Format::Native)
        .unwrap_err();
    assert_eq!(refused.errnum(), 116);
    assert!(
        refused
            .to_string()
            .contains("of epoch ffffffffffffffff cannot"),
        "{refused}"
    );
    assert!(refused.to_string().contains("holds 1 to 306"), "{refused}");
    // One full reload, and live.
    world.tap(6, Start::All);
    world.settle();
    assert_eq!(world.got[&6].backlog.len(), 306);
    world.commits(1);
    world.wait(0.1);
    assert_eq!(world.got[&6].live, [307]);
}

#[test]
fn a_cursor_below_the_floor_is_refused_and_one_that_falls_below_it_is_ended() {
    let mut world = World::new(small(10));
    world.commits(100);
    world.floor = Seq(50);
    world.tap(1, after(20));
    world.settle();
    let why = world.got[&1].ended.clone().unwrap();
    assert_eq!(why.errnum(), 116);
    assert!(
        why.to_string().starts_with("cursor 20 cannot be continued"),
        "{why}"
    );
    assert!(why.to_string().contains("holds 51 to 100"), "{why}");
    // Now the fan-out knows the floor.
    assert!(
        world
            .add(2, after(49), Filter::all(Rights::Owner), Format::Native)
            .is_err()
    );
    world.tap(2, after(50));
    world.settle();
    assert_eq!(world.got[&2].live, (51..=100).collect::<Vec<_>>());
}

#[test]
fn a_backlog_of_a_log_that_is_cut_begins_again_with_the_archive_or_is_ended() {
    let mut world = World::new(small(10));
    world.commits(100);
    // Cut before its first page: nothing was sent yet.
    world.tap(1, Start::All);
    world.poll();
    world.floor = Seq(50);
    world.settle();
    assert!(world.got[&1].ended.is_none(), "{:?}", world.got[&1].ended);
    let mut all = world.got[&1].backlog.clone();
    all.sort_unstable();
    assert_eq!(all, (1..=100).collect::<Vec<_>>());
    assert_eq!(world.got[&1].caught_up, Some(100));

    // Cut between two pages: what was sent cannot be sent again.
    let mut world = World::new(small(10));
    world.commits(2000);
    world.tap(1, Start::All);
    world.poll();
    world.read();
    world.poll();
    let sent = world.got[&1].backlog.len() as u64;
    assert!(sent > 0 && sent < 1900, "{sent}");
    world.floor = Seq(1900);
    world.settle();
    let why = world.got[&1].ended.clone().unwrap();
    assert_eq!(why.errnum(), 116);
    assert!(why.to_string().contains("read it again with from"), "{why}");
}

#[test]
fn case_a12_a_stopped_reader_gets_every_event_in_order_and_holds_up_nobody() {
    let mut world = World::new(small(1000));
    world.tap(1, Start::Now);
    world.tap(2, Start::Now);
    world.settle();
    world.fan.set_writable(ListenerId(1), false);
    for round in 1..=50 {
        world.commits(100);
        world.wait(0.02);
        assert_eq!(
            world.got[&2].live.len(),
            round * 100,
            "the second was never behind"
        );
    }
    assert!(world.got[&1].live.is_empty());
    assert!(
        world.needs.is_empty(),
        "nothing is read for someone who takes nothing"
    );
    world.fan.set_writable(ListenerId(1), true);
    world.settle();
    assert_eq!(world.got[&1].live, (1..=5000).collect::<Vec<_>>());
    assert_eq!(world.got[&2].live, (1..=5000).collect::<Vec<_>>());
}

#[test]
fn invariant_4_a_reader_has_a_cursor_not_a_queue() {
    let mut world = World::new(small(64));
    for id in 1..=50 {
        world.tap(id, Start::Now);
    }
    world.settle();
    for id in 1..=50 {
        world.fan.set_writable(ListenerId(id), false);
    }
    world.commits(10_000);
    let mut out = Vec::new();
    assert!(!world.fan.poll(Timestamp(world.now + 100.0), &mut out));
    assert!(
        out.is_empty(),
        "a reader that takes nothing is not looked at"
    );
    assert_eq!(world.fan.next_deadline(), None);
    let counters = world.fan.counters();
    assert_eq!((counters.listeners, counters.ring_entries), (50, 64));
    assert_eq!(counters.batches_encoded, 0);
    // One of them wakes, in the middle of which more happens.
    world.fan.set_writable(ListenerId(7), true);
    for _ in 0..20 {
        world.poll();
        world.read();
        world.commits(3);
    }
    world.wait(0.1);
    assert_eq!(world.got[&7].live, (1..=10_060).collect::<Vec<_>>());
    assert!(world.got[&8].live.is_empty());
}
