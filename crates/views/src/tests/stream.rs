//! The events of the stream.

use serde_json::json;

use super::world::{Page, World, ids, json};
use crate::{Answer, Kind};

fn event(world: &mut World, page: &Page, index: u64) -> Result<Answer, u64> {
    world
        .ask(&page.event(index))
        .map(|reply| reply.expect("an answer"))
}

/// The next event for who has `index`.
fn next(world: &mut World, token: u64) -> Answer {
    let found = world.ready().into_iter().find(|(other, _)| *other == token);
    found.expect("a reply").1.expect("an answer")
}

#[test]
fn a_stream_begins_with_the_page_and_goes_on_with_what_changed() {
    let mut world = World::new();
    for id in 1..=5 {
        let entries = world.submit(id);
        world.play(&entries);
    }
    let page = Page::per(3);
    let first = event(&mut world, &page, 0).expect("at once");
    assert_eq!((first.kind, ids(&first)), (Kind::Whole, vec![5, 4, 3]));
    assert_eq!(json(&first)["next"], json!("6"));

    let token = event(&mut world, &page, first.index).expect_err("it waits");
    let entries = world.urgency(4, 20);
    world.play(&entries);
    let second = next(&mut world, token);
    let body = json(&second);
    assert_eq!((second.kind, ids(&second)), (Kind::Delta, vec![4]));
    assert_eq!((&body["removed"], body.get("order")), (&json!([]), None));
    assert_eq!(body["rows"][0]["Priority"], json!(20));

    let token = event(&mut world, &page, second.index).expect_err("it waits");
    let entries = world.run(1, "0");
    world.play(&entries);
    let third = next(&mut world, token);
    let body = json(&third);
    let own = |id: u64| job::JobId(id).f58(true);
    assert_eq!((third.kind, ids(&third)), (Kind::Delta, vec![1]));
    assert_eq!(body["removed"], json!([own(3)]));
    assert_eq!(body["order"], json!([own(1), own(5), own(4)]));

    let token = event(&mut world, &page, third.index).expect_err("it waits");
    let entries = [world.cancel(5), vec![world.entry(5, "clean", "", "")]].concat();
    world.play(&entries);
    let entries = world.purge(&[5]);
    world.play(&entries);
    let fourth = next(&mut world, token);
    let body = json(&fourth);
    assert_eq!(
        (body["removed"].clone(), ids(&fourth)),
        (json!([own(5)]), vec![3])
    );
    assert_eq!(body["order"], json!([own(1), own(4), own(3)]));
}

#[test]
fn a_slow_consumer_gets_the_newest_state_and_one_that_was_away_the_whole_page() {
    let mut world = World::new();
    let entries = [world.submit(1), world.submit(2)].concat();
    world.play(&entries);
    let page = Page::default();
    let slow = event(&mut world, &page, 0).expect("at once");
    let quick = slow.index;
    let mut index = quick;
    for urgency in 1..=9 {
        let token = event(&mut world, &page, index).expect_err("it waits");
        let entries = world.urgency(1, urgency);
        world.play(&entries);
        let answer = next(&mut world, token);
        assert_eq!(answer.kind, Kind::Delta);
        index = answer.index;
    }
    // Its state is one of the first: too long ago for a delta.
    let late = event(&mut world, &page, slow.index).expect("at once");
    assert_eq!((late.kind, ids(&late)), (Kind::Whole, vec![2, 1]));
    assert_eq!(json(&late)["rows"][1]["Priority"], json!(9));
    // One that lacks the last two gets them at once, in one.
    let entries = world.urgency(2, 3);
    world.play(&entries);
    let entries = world.urgency(1, 10);
    world.play(&entries);
    let both = event(&mut world, &page, index).expect("at once");
    assert_eq!((both.kind, ids(&both)), (Kind::Delta, vec![2, 1]));
}

#[test]
fn watchers_of_one_page_share_one_event() {
    let mut world = World::new();
    let entries = world.submit(1);
    world.play(&entries);
    let page = Page::default();
    let first = event(&mut world, &page, 0).expect("at once");
    for _ in 0..20 {
        event(&mut world, &page, first.index).expect_err("it waits");
    }
    let made = world.views.stats().rows_made;
    let entries = world.urgency(1, 20);
    world.play(&entries);
    let replies = world.ready();
    let keys: std::collections::BTreeSet<usize> = replies
        .iter()
        .map(|(_, reply)| reply.as_ref().expect("an answer").body.key())
        .collect();
    assert_eq!((replies.len(), keys.len()), (20, 1));
    assert_eq!(world.views.stats().rows_made, made + 1);
}
