//! Every bound has its answer; a client that does not read pauses its streams.

use super::*;
use wire::{ROUTE_HOPS_MAX, errno};

#[test]
fn requests_in_flight_are_bounded_per_client() {
    let mut world = World::with(&[1, 2, 3], &[(2, "s")]);
    for tag in 1..=INFLIGHT_PER_CLIENT_MAX as u32 {
        world.request(1, ask("s.m", tag));
    }
    let (to, response) = world.response(1, ask("s.m", u32::MAX));
    assert_eq!((to, response.errnum), (1, errno::EAGAIN));
    world.request(1, ask("s.m", 0));
    let (_, other) = world.request(3, ask("s.m", 1));
    world.response(2, other.respond(None));
    let freed = Response {
        matchtag: 5,
        routes: Some(vec![hop(1)]),
        ..other.respond(None)
    };
    world.response(2, freed);
    world.request(1, ask("s.m", u32::MAX));
    assert_eq!(world.leave(2).1.len(), INFLIGHT_PER_CLIENT_MAX);
}

#[test]
fn remembered_topics_and_hops_are_bounded() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    for at in 0..DISCONNECT_PREFIXES_MAX {
        world.request(
            1,
            Request {
                topic: format!("s.{at}.m").into(),
                ..ask("s.m", 1)
            },
        );
    }
    let (_, refused) = world.response(1, ask("s.more.m", 1));
    assert_eq!(refused.errnum, errno::EAGAIN);
    world.request(1, ask("s.0.other", 1));
    assert_eq!(world.leave(1).1.len(), DISCONNECT_PREFIXES_MAX);

    world.peer(4, OWNER, PeerKind::Connection);
    let deep = Request {
        routes: Some(vec![hop(9); ROUTE_HOPS_MAX]),
        ..ask("s.m", 1)
    };
    assert_eq!(world.response(4, deep).1.errnum, errno::ELOOP);
    let deepest = Request {
        routes: Some(vec![hop(9); ROUTE_HOPS_MAX - 1]),
        ..ask("s.m", 1)
    };
    assert_eq!(
        world.request(4, deepest).1.routes.unwrap().len(),
        ROUTE_HOPS_MAX
    );
}

#[test]
fn a_full_service_inbox_is_answered_and_out_of_the_books() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (to, request) = world.request(1, stream("s.m", 1));
    world.router.refuse(
        PeerId(to),
        &request,
        errno::EAGAIN,
        "service s is busy",
        &mut world.out,
    );
    let [
        Delivery {
            to: PeerId(1),
            message: Message::Response(response),
        },
    ] = &world.out[..]
    else {
        panic!("{:?}", world.out)
    };
    assert_eq!(
        (response.errnum, text(response)),
        (errno::EAGAIN, Some("service s is busy"))
    );
    assert_eq!(world.router.inflight(PeerId(1)), 0);
    world.out.clear();
    let noresponse = Request {
        flags: Flags::NORESPONSE,
        ..ask("s.m", 0)
    };
    world
        .router
        .refuse(PeerId(2), &noresponse, errno::EAGAIN, "", &mut world.out);
    assert_eq!(world.out, []);
}

#[test]
fn invariant_7_a_client_that_does_not_read_pauses_its_streams_only() {
    let mut world = World::with(
        &[1, 2, 3, 4],
        &[(2, "job-list"), (2, "job-info"), (3, "other")],
    );
    world.request(1, stream("job-list.list", 1));
    world.request(1, stream("job-list.list", 2));
    world.request(
        1,
        Request {
            routes: Some(vec![hop(77)]),
            ..stream("job-info.eventlog-watch", 3)
        },
    );
    world.request(1, ask("other.m", 4));
    world.request(4, stream("other.watch", 1));

    let list = |verb: &str| (2, format!("job-list.{verb}"), vec![hop(1)]);
    let info = |verb: &str| (2, format!("job-info.{verb}"), vec![hop(1), hop(77)]);
    assert_eq!(world.pause(1), [list("pause"), info("pause")]);
    assert!(world.router.is_paused(PeerId(1)) && !world.router.is_paused(PeerId(4)));
    assert_eq!(world.pause(1), [], "once");

    // A stream opened meanwhile is paused at once, and each service told once.
    let out = world.send(1, stream("other.watch", 5));
    assert_eq!(out.len(), 2);
    assert_eq!(
        told(out[1].clone()),
        (3, "other.pause".to_owned(), vec![hop(1)])
    );
    assert_eq!(world.send(1, stream("other.watch", 6)).len(), 1);

    let other = (3, "other.resume".to_owned(), vec![hop(1)]);
    assert_eq!(world.resume(1), [list("resume"), info("resume"), other]);
    assert_eq!(world.resume(1), []);
    assert_eq!(world.send(1, stream("other.watch", 7)).len(), 1);
}

#[test]
fn pause_is_forgotten_with_its_service_and_its_client() {
    let mut world = World::with(&[1, 2, 3], &[(2, "s")]);
    world.request(1, stream("s.m", 1));
    assert_eq!(world.pause(1).len(), 1);
    world.leave(2);
    // The new service must not hear about streams it never had.
    world
        .router
        .add_service(PeerId(3), OWNER, "s", false)
        .unwrap();
    assert_eq!(world.resume(1), []);
    world.leave(1);
    assert_eq!(world.pause(1), []);
}
