//! Each row of the table of what unblocks a query, with our differences named; and indexes of all kinds.

use super::world::{EPOCH, Page, World, ids, spec};
use crate::{Ask, Limits, Viewer, What, bodies::Query};

/// Jobs 1 to `jobs`, the highest newest.
fn world_of(jobs: u64) -> World {
    let mut world = World::new();
    for id in 1..=jobs {
        let entries = world.submit(id);
        world.play(&entries);
    }
    world
}

fn gone(world: &mut World, id: u64) {
    let entries = [world.cancel(id), vec![world.entry(id, "clean", "", "")]].concat();
    world.play(&entries);
}

// ---- what unblocks -----------------------------------------------------------------------------------------------

#[test]
fn a_job_of_the_page_that_changes_unblocks() {
    let mut world = world_of(5);
    for change in 0..4 {
        let token = world.watch(&Page::per(3));
        let entries = match change {
            0 => world.urgency(5, 20),
            1 => world.run(4, "0"),
            2 => world.cancel(4),
            _ => world.end(4, 0),
        };
        world.play(&entries);
        assert_eq!(world.woken(), [token], "{change}");
    }
}

#[test]
fn an_allocation_of_a_job_of_the_page_unblocks() {
    let mut world = world_of(2);
    let entries = world.run(2, "0-3");
    world.play(&entries);
    let token = world.watch(&Page::per(1));
    let entries = world.alloc_status(2, "2", "failed");
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn a_purged_job_of_the_page_unblocks_also_between_two_polls() {
    // Difference: Nomad lets a client that polls again after the purge wait for the next change or the timeout.
    let mut world = world_of(4);
    gone(&mut world, 3);
    let page = Page::per(3);
    let token = world.watch(&page);
    let entries = world.purge(&[3]);
    world.play(&entries);
    let replies = world.ready();
    assert_eq!((replies.len(), replies[0].0), (1, token));
    let first = replies[0].1.as_ref().expect("an answer");
    assert_eq!(ids(first), [4, 2, 1]);

    gone(&mut world, 4);
    let held = world.get(&page);
    let entries = world.purge(&[4]);
    world.play(&entries);
    let again = world.ask(&page.ask(held.index)).expect("at once");
    assert_eq!(ids(&again.expect("an answer")), [2, 1]);
}

#[test]
fn a_new_job_unblocks_the_first_page_but_none_further_on() {
    let mut world = world_of(6);
    let first = world.watch(&Page::per(2));
    let answer = world.get(&Page::per(2));
    let second = Page {
        token: answer.next_token.map(|token| token.to_string()),
        ..Page::per(2)
    };
    let _second = world.watch(&second);
    let entries = world.submit(7);
    world.play(&entries);
    assert_eq!(world.woken(), [first]);
}

#[test]
fn a_job_that_pushes_another_off_a_reversed_page_does_not_exist() {
    // Oldest first: what is new goes behind, and a full page stays what it is.
    let mut world = world_of(4);
    let full = Page {
        reverse: true,
        ..Page::per(4)
    };
    let open = Page {
        reverse: true,
        ..Page::per(5)
    };
    let _full = world.watch(&full);
    let open = world.watch(&open);
    let entries = world.submit(5);
    world.play(&entries);
    assert_eq!(world.woken(), [open]);
    let entries = world.run(2, "0");
    world.play(&entries);
    assert_eq!(world.ready().len(), 1, "one of the full page moved behind");
}

#[test]
fn a_job_that_enters_or_leaves_because_a_filtered_field_changed_unblocks() {
    let mut world = world_of(5);
    let page = Page::filter("Priority == 20");
    let token = world.watch(&page);
    // Its place in the order stays what it is: it comes in between.
    let entries = world.urgency(3, 20);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
    let token = world.watch(&page);
    let entries = world.urgency(3, 4);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
    assert_eq!(ids(&world.get(&page)), [0u64; 0]);
}

#[test]
fn a_child_unblocks_who_sees_its_parent() {
    let mut world = World::new();
    let entries = [world.parent(10), world.submit(1)].concat();
    world.play(&entries);
    let page = Page::default();
    for change in 0..3 {
        let token = world.watch(&page);
        let entries = match change {
            0 => world.child(11, 10),
            1 => world.run(11, "0"),
            _ => world.end(11, 0),
        };
        world.play(&entries);
        assert_eq!(world.woken(), [token], "{change}");
    }
    // Difference: Nomad does not tell that a child was removed.
    let token = world.watch(&page);
    let entries = world.purge(&[11]);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn the_first_job_of_the_next_page_does_not_unblock() {
    // Difference: in Nomad it does.
    let mut world = world_of(5);
    let _waits = world.watch(&Page::per(3));
    let entries = world.urgency(2, 20);
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    // Nor does its going; the next token is the one that is then right.
    gone(&mut world, 1);
    let token = world.watch(&Page::per(3));
    let entries = world.urgency(3, 20);
    world.play(&entries);
    assert!(
        !world.woken().contains(&token),
        "job 3 is the first of the next page"
    );
}

#[test]
fn the_next_token_is_right_though_nobody_was_woken_for_it() {
    let mut world = world_of(5);
    let page = Page::per(2);
    assert_eq!(world.get(&page).next_token.as_deref(), Some("10"));
    // Job 3, the first of the next page, comes to the top of a page of its own: now it is job 2's turn.
    let reverse = Page {
        reverse: true,
        ..Page::per(2)
    };
    assert_eq!(world.get(&reverse).next_token.as_deref(), Some("10"));
    let token = world.watch(&reverse);
    let entries = world.run(3, "0");
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    let answer = world
        .views
        .expire(&world.projection, token)
        .expect("it waits");
    let answer = answer.expect("an answer");
    assert_eq!(
        (ids(&answer), answer.next_token.as_deref()),
        (vec![1, 2], Some("14"))
    );
}

#[test]
fn changes_off_the_page_do_not_unblock() {
    let mut world = world_of(6);
    let entries = world.run(2, "0-1");
    world.play(&entries);
    let entries = [world.submit(7), world.submit(8)].concat();
    world.play(&entries);
    let _waits = world.watch(&Page::per(2));
    let entries = [
        world.alloc_status(2, "0", "failed"),
        world.urgency(1, 20),
        world.urgency(3, 20),
    ]
    .concat();
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    assert_eq!(world.views.stats().touched, 0);
}

#[test]
fn what_no_row_shows_does_not_unblock() {
    let mut world = world_of(2);
    let _waits = world.watch(&Page::default());
    let entries = world.annotate(2);
    world.play(&entries);
    let entries = world.define("0-3");
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
}

#[test]
fn a_list_waits_for_its_own_jobs_and_for_those_to_come() {
    let mut world = world_of(4);
    let token = world.watch(&Page::list(&[2, 9]));
    let entries = [world.urgency(1, 20), world.run(3, "0"), world.submit(5)].concat();
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    let entries = world.submit(9);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
    let token = world.watch(&Page::list(&[2, 9]));
    gone(&mut world, 2);
    assert_eq!(world.woken(), [token]);
    let token = world.watch(&Page::list(&[2, 9]));
    let entries = world.purge(&[2]);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
    let none = Page::list(&[77]);
    let index = world.get(&none).index;
    let token = world.wait(&none, index);
    let entries = world.run(9, "0");
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    let entries = world.submit(77);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn the_only_job_of_an_empty_page_unblocks() {
    let mut world = World::new();
    let page = Page::default();
    assert_eq!(world.get(&page).index, 1);
    let token = world.wait(&page, 1);
    let entries = world.submit(1);
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn a_guest_is_not_woken_by_what_is_hidden() {
    let mut world = World::new();
    let entries = world.submit_as(1, 7, &spec("x", 1, ""));
    world.play(&entries);
    let page = Page {
        guest: Some(7),
        ..Page::default()
    };
    let token = world.watch(&page);
    let entries = [world.submit(2), world.submit(3)].concat();
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
    let entries = world.submit_as(4, 7, &spec("x", 1, ""));
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn one_change_wakes_each_waiter_once() {
    let mut world = world_of(3);
    let mut tokens: Vec<u64> = (0..50).map(|_| world.watch(&Page::per(2))).collect();
    let entries = [world.run(3, "0"), world.end(3, 0), world.submit(4)].concat();
    world.play(&entries);
    let woken = world.woken();
    tokens.sort_unstable();
    assert_eq!(woken, tokens);
    assert_eq!(world.views.stats().waiters, 0);
}

// ---- indexes -----------------------------------------------------------------------------------------------------

#[test]
fn an_index_ahead_of_the_newest_is_answered_at_once() {
    // Difference: Nomad lets it wait until something exceeds it, for five minutes (the hang of #23296).
    let mut world = world_of(2);
    let answer = world.get(&Page::default());
    assert_eq!(answer.index, world.seq);
    let reply = world
        .ask(&Page::default().ask(answer.index + 1))
        .expect("at once");
    assert_eq!(reply.expect("an answer").index, world.seq);
}

#[test]
fn an_index_of_another_epoch_is_answered_at_once() {
    let mut world = world_of(2);
    let index = world.get(&Page::default()).index;
    let ask = |epoch: &str| Ask {
        epoch: Some(epoch.into()),
        ..Page::default().ask(index)
    };
    assert!(world.ask(&ask("00000000000000ff")).is_ok());
    let token = world.ask(&ask(EPOCH)).expect_err("it waits");
    // The journal goes on as another one: everyone is answered, whatever the index.
    world.rebuild("00000000000000ff");
    assert_eq!(world.woken(), [token]);
    assert!(world.ask(&ask(EPOCH)).is_ok());
}

#[test]
fn an_index_from_before_the_log_is_answered_at_once() {
    let mut world = World::with(Limits {
        log: 8,
        ..Limits::default()
    });
    let entries = world.submit(1);
    world.play(&entries);
    let early = world.get(&Page::list(&[1])).index;
    for id in 2..=20 {
        let entries = world.submit(id);
        world.play(&entries);
    }
    // Nobody held this page: the log would have to tell.
    assert!(world.ask(&Page::per(1).ask(early)).is_ok());
    assert!(world.ask(&Page::list(&[1, 99]).ask(early)).is_ok());
    // This one was held all the time.
    let _waits = world.wait(&Page::list(&[1]), early);
}

#[test]
fn a_page_that_nobody_held_is_answered_from_the_log() {
    let mut world = world_of(6);
    let index = world.seq;
    let mut far = world_of(6);
    assert_eq!(far.seq, index);
    for (name, off) in [("off the page", true), ("on the page", false)] {
        let entries = if off {
            far.urgency(2, 20)
        } else {
            far.urgency(6, 20)
        };
        far.play(&entries);
        let page = Page {
            // Another page each time, so that none was held.
            filter: Some(format!("Name != \"{name}\"")),
            ..Page::per(3)
        };
        assert_eq!(far.ask(&page.ask(index)).is_err(), off, "{name}");
    }
    // A job that was on the page and is gone.
    gone(&mut world, 5);
    let index = world.seq;
    let entries = world.purge(&[5]);
    world.play(&entries);
    assert!(world.ask(&Page::per(3).ask(index)).is_ok());
    assert!(world.ask(&Page::list(&[1, 5]).ask(index)).is_ok());
    world.wait(&Page::list(&[1, 2]), index);
}

#[test]
fn an_index_within_one_fold_is_answered_at_once() {
    let mut world = world_of(2);
    let first = world.seq;
    let entries = [world.run(1, "0"), world.urgency(1, 20)].concat();
    world.play(&entries);
    assert!(world.ask(&Page::filter("Name != x").ask(first + 1)).is_ok());
    world.wait(&Page::filter("Name != x"), world.seq);
}

#[test]
fn the_index_never_goes_back() {
    let mut world = world_of(8);
    let mut last = 0;
    for id in [3, 8, 1, 5] {
        for page in [
            Page::per(1),
            Page::per(3),
            Page::filter("Status == dead"),
            Page::list(&[id]),
        ] {
            let index = world.get(&page).index;
            assert!(index >= last);
            last = index;
        }
        gone(&mut world, id);
        let entries = world.purge(&[id]);
        world.play(&entries);
    }
}

#[test]
fn index_0_never_waits_and_a_timeout_gives_the_whole_body() {
    let mut world = world_of(2);
    assert!(world.ask(&Page::default().ask(0)).is_ok());
    let token = world.watch(&Page::default());
    let entries = world.annotate(1);
    world.play(&entries);
    let reply = world
        .views
        .expire(&world.projection, token)
        .expect("it waits");
    let answer = reply.expect("an answer");
    assert_eq!((ids(&answer), answer.index), (vec![2, 1], world.seq));
    assert!(world.views.expire(&world.projection, token).is_none());
}

// ---- lists that are swapped, ends, bounds ------------------------------------------------------------------------

#[test]
fn a_list_swapped_in_whole_wakes_those_whose_page_is_another() {
    let mut world = world_of(6);
    let (top, low) = (Page::per(2), Page::list(&[1, 2]));
    let top = world.watch(&top);
    let _low = world.watch(&low);
    world.rebuild(EPOCH);
    assert_eq!(world.woken(), [0u64; 0], "nothing is another");
    world.projection.cut();
    let _unseen = world.submit(7);
    world.rebuild(EPOCH);
    assert_eq!(world.woken(), [top]);
}

#[test]
fn changes_beyond_their_bound_are_like_a_swap() {
    let mut world = world_of(6);
    let _low = world.watch(&Page::list(&[1, 2]));
    let top = world.watch(&Page::per(2));
    let entries = world.submit(7);
    world.fold(&entries);
    let mut changes = world.projection.take_changes();
    changes.jobs.clear();
    changes.reset = true;
    world.views.changed(&world.projection, &changes);
    assert_eq!(world.woken(), [top]);
}

#[test]
fn while_the_stream_is_down_the_last_list_is_served_and_goes_on_later() {
    // A13: an empty or failed answer of the system behind must not end jobs that live.
    let mut world = world_of(3);
    let token = world.watch(&Page::default());
    world.projection.cut();
    world.tell();
    assert_eq!(world.woken(), [0u64; 0]);
    assert_eq!(ids(&world.get(&Page::default())), [3, 2, 1]);
    // A09: a poll cut by a proxy, and another with the same index.
    world.views.cancel(token);
    let index = world.seq;
    let token = world.wait(&Page::default(), index);
    world.rebuild(EPOCH);
    assert_eq!(world.woken(), [0u64; 0]);
    let entries = world.run(2, "0");
    world.play(&entries);
    assert_eq!(world.woken(), [token]);
}

#[test]
fn a_list_that_is_not_there_yet_is_no_empty_list() {
    let mut views = crate::Views::new(Limits::default());
    let projection = info::Projection::new();
    let reply = views
        .ask(&projection, &Page::default().ask(0), 1)
        .expect("at once");
    assert_eq!(reply.expect_err("no list").status, 500);
}

#[test]
fn at_the_end_everyone_is_answered() {
    let mut world = world_of(3);
    let mut tokens = vec![
        world.watch(&Page::default()),
        world.watch(&Page::per(1)),
        world.watch(&Page::list(&[1])),
    ];
    let replies = world.views.close(&world.projection);
    let mut told: Vec<u64> = replies.iter().map(|(token, _)| *token).collect();
    told.sort_unstable();
    tokens.sort_unstable();
    assert_eq!(told, tokens);
    assert!(replies.iter().all(|(_, reply)| reply.is_ok()));
    assert_eq!(world.views.stats().waiters, 0);
}

#[test]
fn who_left_is_not_answered_and_leaves_nothing() {
    let mut world = world_of(3);
    let token = world.watch(&Page::default());
    world.views.cancel(token);
    world.views.cancel(token);
    let entries = world.submit(4);
    world.play(&entries);
    assert_eq!((world.woken(), world.views.stats().waiters), (vec![], 0));
}

#[test]
fn waiters_and_idle_views_are_bounded() {
    let mut world = World::with(Limits {
        waiters: 3,
        idle_views: 5,
        ..Limits::default()
    });
    let entries = world.submit(1);
    world.play(&entries);
    for size in 1..=40 {
        world.get(&Page::per(size));
    }
    assert_eq!(
        (world.views.stats().views, world.views.stats().idle),
        (5, 5)
    );
    for size in 1..=3 {
        world.watch(&Page::per(size));
    }
    let index = world.seq;
    let refused = world.ask(&Page::per(4).ask(index)).expect("at once");
    assert_eq!(refused.expect_err("too many").status, 429);
    assert!(
        world.ask(&Page::per(4).ask(0)).is_ok(),
        "who does not wait is served"
    );
    let stats = world.views.stats();
    assert_eq!((stats.waiters, stats.views - stats.idle), (3, 3));
}

#[test]
fn rows_and_bodies_are_bounded_in_bytes() {
    let mut world = World::with(Limits {
        cache_bytes: 64 << 10,
        ..Limits::default()
    });
    for id in 1..=300 {
        let entries = world.submit(id);
        world.play(&entries);
    }
    for size in 1..=60 {
        world.get(&Page::per(size * 5));
    }
    let stats = world.views.stats();
    assert!(stats.cache_bytes <= 64 << 10, "{}", stats.cache_bytes);
    assert_eq!(ids(&world.get(&Page::default())).len(), 300);
}

#[test]
fn views_of_changed_jobs_find_them_wherever_folds_and_asking_fall() {
    // The shell asks between a fold and its telling: what comes later must not go wrong by that.
    let mut world = world_of(4);
    let token = world.watch(&Page::per(3));
    let entries = world.run(2, "0");
    world.fold(&entries);
    let between = world.get(&Page {
        filter: Some("Name != x".into()),
        ..Page::per(3)
    });
    assert_eq!(ids(&between), [2, 4, 3]);
    let early = world.wait(&Page::per(3), world.views_told());
    world.tell();
    let mut tokens = vec![token, early];
    tokens.sort_unstable();
    assert_eq!(world.woken(), tokens);
    assert_eq!(ids(&world.get(&Page::per(3))), [2, 4, 3]);
}

// ---- other bodies ------------------------------------------------------------------------------------------------

fn body(query: Query, index: u64) -> Ask {
    Ask {
        viewer: Viewer::OWNER,
        index,
        epoch: None,
        what: What::Body(query),
    }
}

#[test]
fn a_body_that_depends_on_nothing_waits_for_ever() {
    let mut world = world_of(1);
    let ask = |index| body(Query::Regions, index);
    let index = world
        .ask(&ask(0))
        .expect("at once")
        .expect("an answer")
        .index;
    let _waits = world.ask(&ask(index)).expect_err("it waits");
    let entries = world.submit(2);
    world.play(&entries);
    assert_eq!(world.woken(), [0u64; 0]);
}
