//! A peer goes: its callers hear it, the services it used hear it, its own late messages are dropped.

use super::*;
use wire::errno;

#[test]
fn a_dead_services_callers_hear_it_at_once_and_once() {
    let mut world = World::with(&[1, 2, 3], &[(2, "s"), (2, "t")]);
    let (_, answered) = world.request(1, ask("s.a", 1));
    world.request(1, ask("s.b", 2));
    let (_, streaming) = world.request(1, stream("t.c", 3));
    world.request(3, ask("s.d", 1));
    world.response(2, answered.respond(None));
    world.response(2, streaming.respond(None));

    let (names, out) = world.leave(2);
    assert_eq!(names, ["s", "t"]);
    let heard: Vec<(u64, u32, String)> = out
        .into_iter()
        .map(|delivery| match delivery.message {
            Message::Response(response) => {
                assert_eq!(
                    (response.errnum, response.routes.clone()),
                    (errno::ECONNRESET, Some(vec![]))
                );
                assert_eq!(
                    response.flags.contains(Flags::STREAMING),
                    response.matchtag == 3
                );
                (
                    delivery.to.0,
                    response.matchtag,
                    text(&response).unwrap().to_owned(),
                )
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let gone = |name: &str| format!("service {name} went away before it answered");
    assert_eq!(
        heard,
        [(1, 2, gone("s")), (3, 1, gone("s")), (1, 3, gone("t"))]
    );
    assert_eq!(
        world.send(2, streaming.error(errno::ENODATA, None)),
        [],
        "what it still says is dropped"
    );
    assert_eq!(
        (
            world.router.inflight(PeerId(1)),
            world.router.inflight(PeerId(3))
        ),
        (0, 0)
    );
    assert_eq!(world.response(1, ask("s.a", 1)).1.errnum, errno::ENOSYS);
    assert_eq!(
        world.leave(1),
        (vec![], vec![]),
        "nobody is left to hear of it"
    );
}

#[test]
fn disconnects_are_one_per_topic_prefix_nodeid_and_hops() {
    let mut world = World::with(&[1, 2, 3], &[(2, "mysvc"), (3, "other")]);
    world.request(1, ask("mysvc.foo", 7));
    world.request(1, ask("mysvc.bar", 8));
    world.request(1, ask("mysvc.foo.bar", 9));
    world.request(1, ask("mysvc", 10));
    world.request(
        1,
        Request {
            nodeid: 0,
            ..ask("mysvc.foo", 11)
        },
    );
    world.request(
        1,
        Request {
            routes: Some(vec![hop(77)]),
            ..ask("mysvc.foo", 12)
        },
    );
    world.request(
        1,
        Request {
            flags: Flags::NORESPONSE,
            ..ask("other.m", 0)
        },
    );
    world.request(1, ask("other.m", 0));

    let (_, out) = world.leave(1);
    let mut met = Vec::new();
    for delivery in out {
        let Message::Request(request) = delivery.message.clone() else {
            panic!("{delivery:?}")
        };
        assert_eq!((request.payload, request.cred), (None, OWNER));
        let (to, topic, routes) = told(delivery);
        met.push((to, topic, routes, request.nodeid, request.matchtag));
    }
    let any = wire::NODEID_ANY;
    assert_eq!(
        met,
        [
            (2, "disconnect".to_owned(), vec![hop(1)], any, 10),
            (2, "mysvc.disconnect".to_owned(), vec![hop(1)], 0, 11),
            (2, "mysvc.disconnect".to_owned(), vec![hop(1)], any, 7),
            (
                2,
                "mysvc.disconnect".to_owned(),
                vec![hop(1), hop(77)],
                any,
                12
            ),
            (2, "mysvc.foo.disconnect".to_owned(), vec![hop(1)], any, 9),
        ]
    );
}

#[test]
fn a_disconnect_passed_on_for_another_is_not_owed_again() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let behind = |request: Request| Request {
        routes: Some(vec![hop(77)]),
        ..request
    };
    world.request(1, behind(ask("s.m", 1)));
    world.request(1, ask("s.m", 2));
    world.request(
        1,
        behind(Request {
            flags: Flags::NORESPONSE,
            ..ask("s.disconnect", 0)
        }),
    );
    let (_, out) = world.leave(1);
    assert_eq!(
        out.into_iter().map(told).collect::<Vec<_>>(),
        [(2, "s.disconnect".to_owned(), vec![hop(1)])]
    );
}

#[test]
fn messages_of_peers_already_gone_are_dropped() {
    let mut world = World::with(&[1, 2], &[(2, "s")]);
    let (_, request) = world.request(1, ask("s.m", 1));
    world.leave(1);
    assert_eq!(world.send(1, ask("s.m", 2)), []);
    assert_eq!(world.send(2, request.respond(None)), []);
    assert!(
        world
            .router
            .add_service(PeerId(1), OWNER, "t", true)
            .is_err()
    );
}
