//! The examples of statuses in `rfc/9_http.md` are what is answered.

use serde_json::Value;

use super::world::{Page, World, json, spec};

const TEXT: &str = include_str!("../../../../rfc/9_http.md");

/// The four jobs of the page.
fn world() -> World {
    let mut world = World::new();
    let entries = [
        world.define("0-1"),
        world.submit_as(9, 1000, &spec("gone", 1, "")),
        world.submit_as(10, 1000, &spec("sleep", 2, "")),
    ]
    .concat();
    world.play(&entries);
    let entries = [
        world.urgency(10, 20),
        world.run(10, "0-1"),
        world.submit_as(11, 1000, &spec("true", 1, "")),
        world.cancel(11),
        vec![world.entry(11, "clean", "", "")],
        world.parent(12),
        world.child(13, 12),
        world.cancel(9),
        vec![world.entry(9, "clean", "", "")],
        world.purge(&[9]),
    ]
    .concat();
    world.play(&entries);
    world
}

#[test]
fn the_statuses_of_the_page_are_those_that_are_answered() {
    let mut world = world();
    let mut lines = TEXT.lines();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let Some(query) = line.strip_prefix("```statuses ?") else {
            continue;
        };
        let (params, body) = match query.split_once(' ') {
            Some((params, body)) => (params, Some(body.to_owned())),
            None => (query, None),
        };
        let mut page = Page {
            body,
            ..Page::default()
        };
        for param in params.split('&') {
            match param {
                "include_children=true" => page.children = true,
                "allocs=counts" => page.counts = true,
                "per_page=1" => page.per_page = 1,
                other => panic!("{other}"),
            }
        }
        let text: String = lines.by_ref().take_while(|line| *line != "```").collect();
        let expected: Value = serde_json::from_str(&text).expect(query);
        let met = json(&world.get(&page));
        assert_eq!(met, expected, "{query}: {met}");
        count += 1;
    }
    assert_eq!(count, 3);
}
