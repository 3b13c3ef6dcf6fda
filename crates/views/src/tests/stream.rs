//! The events of the stream.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    model::{self, Dice},
    world::{EPOCH, Page, World, ids, json},
};
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

/// What a reader makes of the events.
#[derive(Default)]
struct Shown {
    rows: BTreeMap<String, Value>,
    order: Vec<String>,
    index: u64,
}

impl Shown {
    fn take(&mut self, answer: &Answer) {
        let own = |row: &Value| row["Weir"]["ID"].as_str().expect("an ID").to_owned();
        let names = |list: &Value| -> Vec<String> {
            let list = list.as_array().expect("a list").iter();
            list.map(|id| id.as_str().expect("an ID").to_owned())
                .collect()
        };
        let body = json(answer);
        let rows = body["rows"].as_array().expect("rows");
        assert!(answer.index >= self.index);
        self.index = answer.index;
        if answer.kind == Kind::Whole {
            self.rows.clear();
            self.order = rows.iter().map(own).collect();
        } else {
            let removed = names(&body["removed"]);
            self.order.retain(|id| !removed.contains(id));
            self.rows.retain(|id, _| !removed.contains(id));
            if let Some(order) = body.get("order") {
                self.order = names(order);
            }
        }
        for row in rows {
            self.rows.insert(own(row), row.clone());
        }
    }

    fn page(&self) -> Value {
        self.order.iter().map(|id| self.rows[id].clone()).collect()
    }
}

#[test]
fn what_a_reader_makes_of_the_events_is_the_page() {
    let (mut deltas, mut wholes) = (0, 0);
    for seed in 200..200 + 8 * model::more() {
        let mut world = World::new();
        let mut dice = Dice::new(seed);
        let mut next_id = 0;
        let pages: Vec<Page> = (0..5).map(|_| model::page(&mut dice, 40)).collect();
        // Quick readers, slow ones, and two of one page.
        let mut readers: Vec<(usize, Shown, Option<u64>)> = (0..10)
            .map(|reader| (reader % 5, Shown::default(), None))
            .collect();
        for step in 0..80 {
            if dice.roll(20) == 0 {
                world.rebuild(EPOCH);
            } else {
                let entries = model::happen(&mut world, &mut dice, &mut next_id);
                world.play(&entries);
            }
            let replies: BTreeMap<u64, _> = world.ready().into_iter().collect();
            for (at, shown, waits) in &mut readers {
                let page = &pages[*at];
                if let Some(token) = *waits {
                    let Some(reply) = replies.get(&token) else {
                        assert_eq!(
                            shown.page(),
                            page_now(&world, page),
                            "{seed} {step} {page:?}"
                        );
                        continue;
                    };
                    shown.take(reply.as_ref().expect("an answer"));
                    assert_eq!(
                        shown.page(),
                        page_now(&world, page),
                        "{seed} {step} {page:?}"
                    );
                    *waits = None;
                }
                // Some do not ask again at once.
                if dice.roll(3) == 0 {
                    continue;
                }
                match world.ask(&page.event(shown.index)) {
                    Err(token) => {
                        assert_eq!(
                            shown.page(),
                            page_now(&world, page),
                            "{seed} {step} {page:?}"
                        );
                        *waits = Some(token);
                    }
                    Ok(reply) => {
                        let answer = reply.expect("an answer");
                        match answer.kind {
                            Kind::Delta => deltas += 1,
                            Kind::Whole => wholes += 1,
                        }
                        shown.take(&answer);
                        assert_eq!(
                            shown.page(),
                            page_now(&world, page),
                            "{seed} {step} {page:?}"
                        );
                    }
                }
            }
        }
    }
    assert!(deltas > 100 && wholes > 50, "{deltas} {wholes}");
}

fn page_now(world: &World, page: &Page) -> Value {
    serde_json::from_slice(&model::fresh(world, page)).expect("JSON")
}
