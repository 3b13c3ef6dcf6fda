//! Queries that take long or hold much: they hold nobody up, and what they hold is bounded.

use super::world::{Page, World, ids};
use crate::{Limits, Viewer, What, bodies::List, bodies::ListParams, bodies::Query};

/// Terms as a client could send them: as many as fit.
fn terms(term: &str, sep: &str) -> String {
    vec![term; 60_000 / (term.len() + sep.len())].join(sep)
}

fn world_of(jobs: u64) -> World {
    let mut world = World::new();
    for id in 1..=jobs {
        let entries = world.submit(id);
        world.fold(&entries);
    }
    world.tell();
    world
}

#[test]
fn a_filter_of_thousands_of_terms_looks_at_few_jobs_in_a_turn() {
    let mut world = world_of(300);
    let all: Vec<u64> = (1..=300).collect();
    // Through all jobs, through a list of them, and through those that an index finds.
    let listed = Page {
        filter: Some(terms("Name!=a", " and ")),
        ..Page::list(&all)
    };
    let named = all
        .iter()
        .map(|id| format!("ID=={}", job::JobId(*id).f58(true)));
    let named = named.collect::<Vec<_>>().join(" or ");
    let rest = terms("Name!=a", " and ");
    let found = Page::filter(&format!(
        "({named}) and {}",
        &rest[..rest.len() - 12 * 4_000]
    ));
    for page in [Page::filter(&terms("Name!=a", " and ")), listed, found] {
        let before = world.views.stats().filtered;
        let token = world
            .ask(&page.ask(0))
            .expect_err("it takes longer than a turn");
        let looked = world.views.stats().filtered - before;
        assert!(looked < 180, "{looked} jobs in one turn");
        let mut reply = None;
        while reply.is_none() {
            let before = world.views.stats().filtered;
            let replies = world.views.take_ready(&world.projection, 7);
            let looked = world.views.stats().filtered - before;
            assert!(
                looked < 120,
                "{looked} jobs in one turn of {:?}",
                page.filter.as_deref().map(str::len)
            );
            reply = replies.into_iter().find(|(other, _)| *other == token);
        }
        let answer = reply.expect("a reply").1.expect("an answer");
        assert_eq!(ids(&answer).len(), 300);
    }
}

#[test]
fn a_filter_that_is_looked_on_meets_changes_between_its_turns() {
    let mut world = world_of(300);
    let all: Vec<u64> = (1..=300).collect();
    let page = Page {
        filter: Some(terms("Priority!=7", " and ")),
        ..Page::list(&all)
    };
    let token = world
        .ask(&page.ask(0))
        .expect_err("it takes longer than a turn");
    // One that was looked at and one that was not: both leave, and another moves to the front.
    for id in [299, 3] {
        let entries = world.urgency(id, 7);
        world.play(&entries);
    }
    let entries = world.run(5, "0");
    world.play(&entries);
    let replies = world.ready();
    let found = replies.into_iter().find(|(other, _)| *other == token);
    let answer = found.expect("a reply").1.expect("an answer");
    let mut expected: Vec<u64> = all
        .into_iter()
        .rev()
        .filter(|id| ![299, 3, 5].contains(id))
        .collect();
    expected.insert(0, 5);
    assert_eq!(ids(&answer), expected);
}

#[test]
fn regexes_count_by_the_bytes_they_look_at() {
    let mut world = world_of(2_000);
    let before = world.views.stats().filtered;
    let page = Page::filter(r"Name matches `(a|b)*a(a|b){100}c` or Stop==false");
    let _token = world
        .ask(&page.ask(0))
        .expect_err("it takes longer than a turn");
    let looked = world.views.stats().filtered - before;
    assert!((1..2_000).contains(&looked), "{looked} jobs in one turn");
    let simple = Page::filter(r#"Name matches "(?i)JOB""#);
    assert_eq!(
        ids(&world.get(&simple)).len(),
        2_000,
        "a usual one is answered at once"
    );
}

fn jobs(filter: &str, token: &str) -> Query {
    let params = ListParams {
        filter,
        next_token: token,
        ..ListParams::default()
    };
    Query::Jobs {
        list: List::new(&params).expect("a list"),
        meta: false,
    }
}

#[test]
fn a_list_whose_filter_takes_long_is_short_and_goes_on_with_its_token() {
    let world = world_of(1_000);
    let filter = terms("Name!=a", " and ");
    let (mut pages, mut met, mut token) = (0, Vec::new(), String::new());
    loop {
        let made = jobs(&filter, &token)
            .make(&world.projection, Viewer::OWNER)
            .expect("a body");
        let body: serde_json::Value = serde_json::from_slice(&made.body.to_vec()).expect("JSON");
        let rows = body.as_array().expect("an array");
        assert!(rows.len() < 500, "{} jobs in one go", rows.len());
        met.extend(rows.iter().map(|row| row["ID"].to_string()));
        pages += 1;
        match made.next_token {
            Some(next) => token = next.to_string(),
            None => break,
        }
    }
    assert!(pages > 2);
    let len = met.len();
    met.sort_unstable();
    met.dedup();
    assert_eq!((len, met.len()), (1_000, 1_000), "each job once");
}

#[test]
fn bodies_about_all_jobs_are_made_one_in_a_turn() {
    let mut world = world_of(3);
    let ask = |n: u32, index| crate::Ask {
        viewer: Viewer::OWNER,
        index,
        epoch: None,
        what: What::Body(jobs(&format!("Name != x{n}"), "")),
    };
    for n in 0..5 {
        let index = world
            .ask(&ask(n, 0))
            .expect("at once")
            .expect("an answer")
            .index;
        let _waits = world.ask(&ask(n, index)).expect_err("it waits");
    }
    let entries = world.submit(4);
    world.play(&entries);
    for _ in 0..5 {
        assert_eq!(world.views.take_ready(&world.projection, 100).len(), 1);
    }
    assert!(!world.views.has_ready());
}

#[test]
fn what_queries_hold_is_bounded_whoever_asks_for_what() {
    let mut world = World::with(Limits {
        asks_bytes: 8 << 20,
        ..Limits::default()
    });
    // Regexes that nobody waits for any more, lists of jobs that there are not, lists of other bodies.
    for n in 0..20_u64 {
        let regexes: Vec<_> = (0..8)
            .map(|k| format!(r"Name matches `x{n}y{k}\pL`"))
            .collect();
        world.get(&Page::filter(&regexes.join(" or ")));
        let unknown: Vec<u64> = (0..5_000).map(|k| (n + 1) * 1_000_000 + k).collect();
        world.get(&Page::list(&unknown));
        let _body = world.ask(&crate::Ask {
            viewer: Viewer::OWNER,
            index: 0,
            epoch: None,
            what: What::Body(jobs(&format!(r"Name matches `x{n}\pL`"), "")),
        });
        let held = world.views.stats().asks_bytes;
        assert!(held <= 8 << 20, "{held} bytes are held");
    }
    // Those that somebody waits for stay; what is more is refused, what is small is not.
    let mut refused = None;
    for n in 0..200_u64 {
        let page = Page::filter(&format!(r"Name matches `w{n}\pL`"));
        let ask = page.ask(world.seq.max(1));
        if let Ok(reply) = world.ask(&ask) {
            refused = reply.err();
            break;
        }
    }
    assert_eq!(refused.map(|error| error.status), Some(429));
    assert_eq!(ids(&world.get(&Page::per(1))).len(), 0);
}
