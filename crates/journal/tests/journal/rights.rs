//! Who sees what: the owner everything, a guest the entries of their own jobs.

use job::JobId;
use journal::{Aside, Filter, Format, Rights, Start};

use crate::world::{World, small};

#[test]
fn a_guest_sees_their_own_jobs_and_no_logs_and_is_still_told_how_far() {
    let mut world = World::new(small(100));
    world.commit(&[(0, "online"), (1, "submit"), (2, "submit"), (2, "validate")]);
    let guest = Filter::all(Rights::User(2));
    world
        .add(1, Start::All, guest.clone(), Format::Native)
        .unwrap();
    world.add(2, Start::Now, guest, Format::Native).unwrap();
    world.settle();
    assert_eq!(world.got[&1].backlog, [3, 4]);
    world.commit(&[(1, "memo"), (4, "submit"), (0, "offline")]);
    world.wait(6.0);
    assert_eq!(world.got[&1].live, [6]);
    assert_eq!(world.got[&2].live, [6]);
    assert_eq!(world.got[&2].told, 7);
}

#[test]
fn all_comes_in_seq_order_while_the_log_is_whole() {
    let mut world = World::new(small(3));
    for round in 0..10 {
        world.commit(&[(1, "memo"), (2, "memo"), (0, "online")]);
        world.commit(&[(3 + round, "submit")]);
    }
    world.commit(&[(2, "clean")]);
    let all = Filter::all(Rights::Owner);
    world.add(1, Start::All, all, Format::Native).unwrap();
    world.commit(&[(1, "memo")]);
    world.settle();
    let everything: Vec<u64> = (1..=41).collect();
    assert_eq!(world.got[&1].backlog, everything, "the ring holds 3");
    assert_eq!(world.got[&1].live, [42]);
}

#[test]
fn ids_name_the_jobs_a_stream_is_about() {
    let mut world = World::new(small(100));
    let all: Vec<(u64, &str)> = (1..=20).map(|job| (job, "submit")).collect();
    world.commit(&all);
    world.commit(&[(5, "clean"), (0, "online")]);
    let ids = [11, 5, 7, 4711, 3, 2].map(JobId);
    world
        .add(
            1,
            Start::All,
            Filter::all(Rights::Owner).of_jobs(ids),
            Format::Native,
        )
        .unwrap();
    world
        .add(
            2,
            Start::Active,
            Filter::all(Rights::User(1)).of_jobs(ids),
            Format::Native,
        )
        .unwrap();
    world.settle();
    let mut backlog = world.got[&1].backlog.clone();
    backlog.sort_unstable();
    assert_eq!(backlog, [2, 3, 5, 7, 11, 21]);
    assert_eq!(
        world.got[&2].backlog,
        [3, 7, 11],
        "5 is inactive, 2 is another's"
    );
    assert_eq!(
        world.reads, 6,
        "three pages each: only what is named is read"
    );
    world.commit(&[(7, "memo"), (8, "memo"), (0, "offline"), (4711, "submit")]);
    world.wait(0.1);
    assert_eq!(world.got[&1].live, [23, 26]);
    assert_eq!(world.got[&2].live, [23, 26]);
}

#[test]
fn there_are_as_many_listeners_as_may_be_and_no_more() {
    let mut world = World::new(journal::Limits {
        listeners: 2,
        ..small(10)
    });
    world.tap(1, Start::Now);
    world.tap(2, Start::Now);
    let refused = world
        .add(3, Start::Now, Filter::all(Rights::Owner), Format::Native)
        .unwrap_err();
    assert_eq!(refused.errnum(), 11);
    world.fan.remove(journal::ListenerId(1));
    world.tap(3, Start::Now);
}

#[test]
fn jobs_that_are_set_aside_are_named_to_whoever_may_see_them_however_the_stream_began() {
    let mut world = World::new(small(3));
    world.commits(10);
    let aside = |id, userid| Aside {
        id: JobId(id),
        userid,
    };
    world
        .fan
        .set_aside([aside(3, Some(1)), aside(4, Some(2)), aside(5, None)].into());
    let owner = || Filter::all(Rights::Owner);
    let guest = || Filter::all(Rights::User(2));
    for (id, start, filter, format) in [
        (1, Start::All, owner(), Format::Native),
        (2, Start::Active, owner(), Format::Native),
        (3, Start::Now, owner(), Format::Native),
        (4, crate::world::after(2), owner(), Format::Native),
        (5, crate::world::after(9), owner(), Format::Native),
        (6, Start::All, guest(), Format::Native),
        (
            7,
            Start::Now,
            owner().of_jobs([JobId(5), JobId(6)]),
            Format::Native,
        ),
        (8, Start::Now, Filter::all(Rights::User(3)), Format::Native),
        (9, Start::All, owner(), Format::Flux),
    ] {
        world.add(id, start, filter, format).unwrap();
    }
    world.settle();
    for (id, named) in [
        (1, vec![3, 4, 5]),
        (2, vec![3, 4, 5]),
        (3, vec![3, 4, 5]),
        (4, vec![3, 4, 5]),
        (5, vec![3, 4, 5]),
        (6, vec![4]),
        (7, vec![5]),
        (8, vec![]),
        (9, vec![]),
    ] {
        let told: Vec<u64> = world.got[&id]
            .responses
            .iter()
            .flat_map(|response| response["set_aside"].as_array().into_iter().flatten())
            .map(|id| id.as_u64().unwrap())
            .collect();
        assert_eq!(told, named, "listener {id}");
    }
    // None any more: nothing is said.
    world.fan.set_aside([].into());
    world.tap(10, Start::Now);
    world.settle();
    assert!(world.got[&10].responses[0].get("set_aside").is_none());
}
