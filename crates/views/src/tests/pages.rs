//! Which jobs, in which order, on which page.

use super::world::{Page, World, ids, json};
use crate::{HttpError, statuses::PAGE_JOBS_MAX};

fn world_of(jobs: u64) -> World {
    let mut world = World::new();
    for id in 1..=jobs {
        let entries = world.submit(id);
        world.play(&entries);
    }
    world
}

fn at(page: &Page, token: &str) -> Page {
    Page {
        token: Some(token.into()),
        ..page.clone()
    }
}

/// Follows the tokens from the first page to the last.
fn walk(world: &mut World, page: &Page) -> Vec<u64> {
    let mut all = Vec::new();
    let mut next: Option<std::sync::Arc<str>> = None;
    loop {
        let here = next.as_ref().map_or(page.clone(), |token| at(page, token));
        let answer = world.get(&here);
        all.extend(ids(&answer));
        next = answer.next_token;
        if next.is_none() {
            return all;
        }
    }
}

#[test]
fn the_newest_change_comes_first_and_reverse_turns_it_round() {
    let mut world = world_of(4);
    let entries = world.run(2, "0");
    world.play(&entries);
    assert_eq!(ids(&world.get(&Page::default())), [2, 4, 3, 1]);
    let reverse = Page {
        reverse: true,
        ..Page::default()
    };
    assert_eq!(ids(&world.get(&reverse)), [1, 3, 4, 2]);
    // What changes an allocation but no status leaves the order.
    let entries = world.alloc_status(2, "0", "unknown");
    world.play(&entries);
    let entries = world.urgency(1, 20);
    world.play(&entries);
    assert_eq!(ids(&world.get(&Page::default())), [2, 4, 3, 1]);
}

#[test]
fn paging_at_any_size_shows_every_job_once() {
    let mut world = world_of(20);
    // Many change in one commit, which Nomad gives one index.
    let entries: Vec<String> = (3..=17).rev().flat_map(|id| world.run(id, "0")).collect();
    world.play(&entries);
    let whole = ids(&world.get(&Page::default()));
    assert_eq!(whole.len(), 20);
    for reverse in [false, true] {
        for size in 1..=21 {
            let page = Page {
                reverse,
                ..Page::per(size)
            };
            let mut expected = whole.clone();
            if reverse {
                expected.reverse();
            }
            assert_eq!(walk(&mut world, &page), expected, "{size} {reverse}");
        }
    }
}

#[test]
fn a_token_is_compared_as_a_number_and_its_job_need_not_be_there() {
    let mut world = world_of(260);
    // Job 250 was listed by entry 998, job 251 by entry 1002.
    let page = Page::per(1);
    let filter = Page {
        filter: Some("Name != nothing".into()),
        ..at(&page, "1002")
    };
    assert_eq!(ids(&world.get(&at(&page, "1002"))), [251]);
    assert_eq!(ids(&world.get(&filter)), [251]);
    let answer = world.get(&at(&page, "1002"));
    assert_eq!(answer.next_token.as_deref(), Some("998"));
    assert_eq!(ids(&world.get(&at(&page, "999"))), [250]);
    assert_eq!(ids(&world.get(&at(&page, "1001"))), [250]);
    let entries = [world.cancel(250), vec![world.entry(250, "clean", "", "")]].concat();
    world.play(&entries);
    let entries = world.purge(&[250]);
    world.play(&entries);
    assert_eq!(ids(&world.get(&at(&page, "999"))), [249]);
    let back = Page {
        reverse: true,
        ..at(&page, "1000")
    };
    assert_eq!(ids(&world.get(&back)), [251]);
}

#[test]
fn a_token_that_is_no_number_counts_as_zero() {
    let mut world = world_of(3);
    assert_eq!(ids(&world.get(&at(&Page::per(2), "x"))), [0u64; 0]);
    let reverse = Page {
        reverse: true,
        ..at(&Page::per(2), "x")
    };
    assert_eq!(ids(&world.get(&reverse)), [1, 2]);
}

#[test]
fn sizes_are_bounded_and_a_negative_one_is_refused() {
    let mut world = world_of(3);
    let query = Page::per(i32::MAX).query().expect("a query");
    assert_eq!(query.per_page, PAGE_JOBS_MAX);
    assert_eq!(
        Page::per(0).query().expect("a query").per_page,
        PAGE_JOBS_MAX
    );
    assert_eq!(
        Page::per(-1).query(),
        Err(HttpError::bad(
            "Expect a number for `per_page` query string parameter"
        ))
    );
    assert_eq!(ids(&world.get(&Page::per(i32::MAX))), [3, 2, 1]);
}

#[test]
fn children_are_shown_when_asked_for() {
    let mut world = World::new();
    let entries = [
        world.submit(1),
        world.parent(10),
        world.child(11, 10),
        world.child(12, 10),
    ]
    .concat();
    world.play(&entries);
    assert_eq!(ids(&world.get(&Page::default())), [10, 1]);
    let with = Page {
        children: true,
        ..Page::default()
    };
    assert_eq!(ids(&world.get(&with)), [12, 11, 10, 1]);
    let parent = job::JobId(10).f58(true);
    for text in [
        format!("ParentID == {parent}"),
        format!("ParentID == \"{parent}\" and Status == pending"),
    ] {
        let of_parent = Page {
            children: true,
            ..Page::filter(&text)
        };
        assert_eq!(ids(&world.get(&of_parent)), [12, 11], "{text}");
        assert_eq!(ids(&world.get(&Page::filter(&text))), [0u64; 0]);
    }
    assert_eq!(
        ids(&world.get(&Page::list(&[11, 1]))),
        [1],
        "even when it is named"
    );
    let named = Page {
        body: Some(r#"{"jobs":[{"id":"11"},{"id":"1"}],"includeChildren":true}"#.into()),
        ..Page::default()
    };
    assert_eq!(ids(&world.get(&named)), [11, 1]);
}

#[test]
fn namespaces_follow_nomads_rules() {
    let mut world = world_of(2);
    let named = |namespace: &str, body: Option<&str>| Page {
        namespace: Some(namespace.into()),
        body: body.map(Into::into),
        ..Page::default()
    };
    let mut at = |namespace: &str, body: Option<&str>| ids(&world.get(&named(namespace, body)));
    assert_eq!(at("", None), [2, 1]);
    assert_eq!(at("default", None), [2, 1]);
    assert_eq!(at("*", None), [2, 1]);
    assert_eq!(at("nope", None), [0u64; 0]);
    let one = Some(r#"{"jobs":[{"id":"1"},{"id":"2","namespace":"default"}]}"#);
    let mixed = Some(r#"{"jobs":[{"id":"1"},{"id":"2","namespace":"prod"}]}"#);
    assert_eq!(at("nope", one), [2, 1]);
    assert_eq!(at("", mixed), [1]);
    assert_eq!(at("nope", mixed), [0u64; 0]);
    assert_eq!(at("*", Some(r#"{"jobs":[{"id":"77"}]}"#)), [0u64; 0]);
}

#[test]
fn a_list_is_ordered_like_a_page_and_never_has_a_next_one() {
    let mut world = world_of(9);
    let list = Page {
        per_page: 1,
        ..Page::list(&[2, 7, 2, 99])
    };
    let answer = world.get(&list);
    assert_eq!((ids(&answer), answer.next_token), (vec![7, 2], None));
    let reverse = Page {
        reverse: true,
        ..list
    };
    assert_eq!(ids(&world.get(&reverse)), [2, 7]);
}

#[test]
fn private_mode_shows_guests_their_own() {
    let mut world = World::new();
    let spec = super::world::spec("x", 1, "");
    let entries = [
        world.submit(1),
        world.submit_as(2, 7, &spec),
        world.submit(3),
    ]
    .concat();
    world.play(&entries);
    let guest = |page: Page| Page {
        guest: Some(7),
        ..page
    };
    assert_eq!(ids(&world.get(&guest(Page::per(1)))), [2]);
    assert_eq!(world.get(&guest(Page::per(1))).next_token, None);
    assert_eq!(ids(&world.get(&guest(Page::list(&[1, 2])))), [2]);
    assert_eq!(ids(&world.get(&Page::default())), [3, 2, 1]);
}

#[test]
fn filters_pick_jobs_and_their_errors_have_the_texts_clients_look_for() {
    let mut world = world_of(6);
    let entries = world.run(4, "0");
    world.play(&entries);
    assert_eq!(ids(&world.get(&Page::filter("Status == running"))), [4]);
    assert_eq!(
        ids(&world.get(&Page::filter("Name == job0 and Stop == false"))),
        [6, 3]
    );
    let own = job::JobId(5).f58(true);
    assert_eq!(
        ids(&world.get(&Page::filter(&format!("ID == \"{own}\"")))),
        [5]
    );
    let syntax = Page::filter("ID == my-job").query().expect_err("a hyphen");
    assert_eq!(syntax.status, 400);
    assert!(
        syntax.text.contains("failed to read filter expression"),
        "{syntax}"
    );
    let unknown = world
        .ask(&Page::filter("Foo == 1").ask(0))
        .expect("at once")
        .expect_err("no such field");
    assert_eq!(unknown.status, 400);
    assert!(
        unknown
            .text
            .contains("couldn't find key: struct field with name \"Foo\"")
            && unknown.text.starts_with("failed to read result page: "),
        "{unknown}"
    );
    assert_eq!(world.views.stats().views - world.views.stats().idle, 0);
}

#[test]
fn an_empty_page_is_an_empty_array() {
    let mut world = World::new();
    let answer = world.get(&Page::default());
    assert_eq!(
        (json(&answer), answer.index, answer.next_token),
        (serde_json::json!([]), 1, None)
    );
}

#[test]
fn a_filter_over_very_many_jobs_does_not_hold_up_others() {
    let mut world = World::new();
    let mut entries = Vec::new();
    for id in 1..=20_000 {
        entries.extend(world.submit(id));
    }
    world.play(&entries);
    // A name is found by its index.
    assert_eq!(ids(&world.get(&Page::filter("Name == nothing"))), [0u64; 0]);
    assert_eq!(world.views.stats().filtered, 0);
    let page = Page::filter("Name matches \"^nothing$\"");
    let token = world.ask(&page.ask(0)).expect_err("it looks on");
    assert_eq!(world.views.stats().filtered, 8192);
    let other = world.ask(&Page::per(5).ask(0)).expect("at once");
    assert_eq!(
        ids(&other.expect("an answer")),
        [20_000, 19_999, 19_998, 19_997, 19_996]
    );
    let replies = world.ready();
    assert_eq!((replies.len(), replies[0].0), (1, token));
    assert_eq!(ids(replies[0].1.as_ref().expect("an answer")), [0u64; 0]);
}
