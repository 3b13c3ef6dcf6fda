//! Requests and responses: where they go, with which routes, and which are dropped.

use super::*;
use wire::errno;

#[test]
fn a_request_finds_its_service_and_the_response_its_client() {
    let mut world = World::with(&[1, 2], &[(2, "job-list")]);
    let (to, request) = world.request(1, ask("job-list.list", 7));
    assert_eq!((to, request.routes.clone()), (2, Some(vec![hop(1)])));
    assert_eq!(request.cred, OWNER);
    assert_eq!(world.router.inflight(PeerId(1)), 1);

    let (to, response) = world.response(2, request.respond(None));
    assert_eq!(
        (to, response.routes.clone(), response.matchtag),
        (1, Some(vec![]), 7)
    );
    assert_ne!(
        response.cred.rolemask, 0,
        "clients drop a response without a role"
    );
    assert_eq!(world.router.inflight(PeerId(1)), 0);
}

#[test]
fn a_request_without_routes_gets_them_and_extra_routes_come_back() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (_, request) = world.request(
        1,
        Request {
            routes: None,
            ..ask("s.m", 1)
        },
    );
    assert_eq!(request.routes, Some(vec![hop(1)]));
    assert_eq!(
        world.response(2, request.respond(None)).1.routes,
        Some(vec![])
    );

    let extra = Bytes::from_static(b"behind");
    let (_, request) = world.request(
        1,
        Request {
            routes: Some(vec![extra.clone()]),
            ..ask("s.m", 1)
        },
    );
    assert_eq!(request.routes, Some(vec![hop(1), extra.clone()]));
    assert_eq!(
        world.response(2, request.respond(None)).1.routes,
        Some(vec![extra])
    );
}

#[test]
fn both_enosys_texts() {
    let mut world = World::with(&[1, 2], &[(2, "job-manager")]);
    let (to, response) = world.response(1, ask("nosuch.method", 2));
    assert_eq!(
        (to, response.errnum, response.matchtag),
        (1, errno::ENOSYS, 2)
    );
    assert_eq!(
        text(&response),
        Some("No service matching nosuch.method is registered")
    );
    assert_eq!(
        (response.routes.as_deref(), response.cred),
        (Some(&[][..]), OWNER)
    );

    let (_, request) = world.request(1, ask("job-manager.nosuch", 1));
    let (_, response) = world.response(2, request.unknown_method());
    assert_eq!(
        (response.errnum, text(&response)),
        (
            errno::ENOSYS,
            Some("Unknown service method 'job-manager.nosuch'")
        )
    );
}

#[test]
fn requests_that_expect_no_response_never_get_one() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let noresponse = Request {
        flags: Flags::NORESPONSE,
        ..ask("gone.m", 3)
    };
    assert_eq!(world.send(1, noresponse), []);
    assert_eq!(world.send(1, ask("gone.m", 0)), []);
    assert_eq!(
        world.send(
            1,
            Request {
                nodeid: 5,
                ..ask("s.m", 0)
            }
        ),
        []
    );

    let (_, request) = world.request(1, ask("s.m", 0));
    assert_eq!(
        world.send(2, request.respond(None)),
        [],
        "not even from the service"
    );
    assert_eq!(
        world.leave(2),
        (vec!["s".to_owned()], vec![]),
        "nor when it dies"
    );
}

#[test]
fn other_nodes_and_upstream_are_unreachable() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    for request in [
        Request {
            nodeid: 1,
            ..ask("s.m", 1)
        },
        Request {
            nodeid: wire::NODEID_UPSTREAM,
            ..ask("s.m", 1)
        },
        Request {
            flags: Flags::UPSTREAM,
            nodeid: 0,
            ..ask("s.m", 1)
        },
    ] {
        let flags = request.flags;
        let (to, response) = world.response(1, request);
        assert_eq!(
            (to, response.errnum, response.payload, response.flags),
            (1, errno::EHOSTUNREACH, None, flags)
        );
    }
    assert_eq!(
        world
            .request(
                1,
                Request {
                    nodeid: 0,
                    ..ask("s.m", 1)
                }
            )
            .0,
        2
    );
}

#[test]
fn only_who_was_asked_may_answer() {
    let mut world = World::with(&[1, 2, 3], &[(2, "s"), (3, "t")]);
    let (_, request) = world.request(1, ask("s.m", 1));
    assert_eq!(world.send(3, request.respond(None)), [], "another service");
    assert_eq!(
        world.send(1, request.respond(None)),
        [],
        "the client itself"
    );
    let stray = Response {
        matchtag: 2,
        ..request.respond(None)
    };
    assert_eq!(world.send(2, stray), [], "a matchtag not asked under");
    assert_eq!(
        world.send(
            2,
            Response {
                routes: Some(vec![]),
                ..request.respond(None)
            }
        ),
        [],
        "no route"
    );
    assert_eq!(
        world.send(
            2,
            Response {
                routes: Some(vec![hop(9)]),
                ..request.respond(None)
            }
        ),
        [],
        "an unknown route"
    );
    assert_eq!(world.router.stats().dropped, 5);

    world.response(2, request.respond(None));
    assert_eq!(world.send(2, request.respond(None)), [], "twice");
}

#[test]
fn a_stream_goes_on_until_its_error() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (_, request) = world.request(1, stream("s.m", 1));
    for _ in 0..3 {
        world.response(2, request.respond(None));
        assert_eq!(
            world.router.open_streams(PeerId(1)).collect::<Vec<_>>(),
            ["s"]
        );
    }
    // The request's streaming bit comes back even if the service forgot it.
    let end = Response {
        flags: Flags::NONE,
        ..request.error(errno::ENODATA, None)
    };
    assert_eq!(world.response(2, end).1.flags, Flags::STREAMING);
    assert_eq!(world.router.open_streams(PeerId(1)).count(), 0);
    assert_eq!(world.send(2, request.respond(None)), []);
}

#[test]
fn a_matchtag_may_be_used_again_at_once_and_even_too_early() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (_, first) = world.request(1, ask("s.a", 1));
    let (_, second) = world.request(1, stream("s.b", 1));
    assert_eq!(world.router.inflight(PeerId(1)), 2);
    world.response(2, second.respond(None));
    world.response(2, first.respond(None));
    assert_eq!(world.router.inflight(PeerId(1)), 1);
    world.response(2, second.error(errno::ENODATA, None));
    assert_eq!(world.router.inflight(PeerId(1)), 0);
    let (_, third) = world.request(1, ask("s.a", 1));
    world.response(2, third.respond(None));
}

#[test]
fn a_service_may_be_its_own_client() {
    let mut world = World::with(&[1], &[(1, "s")]);
    let (to, request) = world.request(1, ask("s.m", 4));
    assert_eq!((to, request.routes.clone()), (1, Some(vec![hop(1)])));
    assert_eq!(world.response(1, request.respond(None)).0, 1);
    world.request(1, ask("s.m", 5));
    assert_eq!(world.leave(1), (vec!["s".to_owned()], vec![]));
}

#[test]
fn in_process_peers_also_take_answers_under_matchtag_0() {
    let mut world = World::with(&[2], &[(2, "sched")]);
    world.peer(1, OWNER, PeerKind::InProcess);
    let (_, alloc) = world.request(1, ask("sched.alloc", 0));
    for _ in 0..2 {
        assert_eq!(world.response(2, alloc.respond(None)).0, 1);
    }
}

#[test]
fn a_cancel_is_just_a_request() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (_, watch) = world.request(1, stream("s.watch", 1));
    let cancel = Request {
        flags: Flags::NORESPONSE,
        ..ask("s.watch-cancel", 0)
    };
    assert_eq!(world.request(1, cancel).1.routes, Some(vec![hop(1)]));
    assert_eq!(
        world
            .response(2, watch.error(errno::ENODATA, None))
            .1
            .errnum,
        errno::ENODATA
    );
}
