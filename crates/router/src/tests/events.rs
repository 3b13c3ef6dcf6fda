//! Events: subscriptions, private ones, bounds.

use super::*;
use wire::Event;

#[test]
fn events_go_to_who_subscribed_and_may_hear_them() {
    let mut world = World::with(&[1, 2], &[]);
    world.peer(3, GUEST, PeerKind::Connection);
    world.peer(4, Cred::guest(1002), PeerKind::Connection);
    for (peer, prefix) in [(1, "job-"), (1, ""), (3, "job-"), (4, "job-"), (2, "other")] {
        world.router.subscribe(PeerId(peer), prefix).unwrap();
    }
    let event = |cred, flags| Event {
        topic: "job-exception".into(),
        payload: None,
        routes: None,
        cred,
        flags,
        sequence: 0,
    };
    let private = world.router.publish(event(GUEST, Flags::PRIVATE));
    assert_eq!(private.to, [PeerId(1), PeerId(3)]);
    assert_eq!(
        private.event.routes,
        Some(vec![Bytes::from_static(b"broker")])
    );

    let out = world.send(2, event(OWNER, Flags::NONE));
    assert_eq!(
        out.iter().map(|delivery| delivery.to.0).collect::<Vec<_>>(),
        [1, 3, 4]
    );
    let Message::Event(public) = &out[0].message else {
        panic!("{out:?}")
    };
    assert_eq!(public.sequence, private.event.sequence + 1);
    assert_eq!(
        public.routes,
        Some(vec![Bytes::from_static(b"broker")]),
        "the publisher's hop is told to nobody"
    );

    assert_eq!(
        world.send(
            2,
            event(
                Cred {
                    userid: 1,
                    rolemask: 0
                },
                Flags::NONE
            )
        ),
        [],
        "no role, no event"
    );
    world.router.unsubscribe(PeerId(1), "job-").unwrap();
    assert_eq!(
        world.router.unsubscribe(PeerId(1), "job-"),
        Err(SubscribeError::NotHeld)
    );
    world.leave(3);
    let left = world.router.publish(event(OWNER, Flags::NONE));
    assert_eq!(left.to, [PeerId(1), PeerId(4)]);
}

#[test]
fn subscriptions_are_bounded() {
    let mut world = World::with(&[1], &[]);
    for at in 0..SUBSCRIPTIONS_PER_PEER_MAX {
        world.router.subscribe(PeerId(1), &at.to_string()).unwrap();
    }
    assert_eq!(
        world.router.subscribe(PeerId(1), "x"),
        Err(SubscribeError::TooMany)
    );
}

#[test]
fn hops_that_a_client_wrote_into_an_event_go_to_nobody() {
    let mut world = World::with(&[1, 2], &[]);
    world.router.subscribe(PeerId(1), "").unwrap();
    let event = Event {
        topic: "x".into(),
        payload: None,
        routes: Some(vec![hop(1), hop(2)]),
        cred: OWNER,
        flags: Flags::NONE,
        sequence: 0,
    };
    let out = world.send(2, event);
    let Message::Event(event) = &out[0].message else {
        panic!("{out:?}")
    };
    assert_eq!(event.routes, Some(vec![Bytes::from_static(b"broker")]));
}
