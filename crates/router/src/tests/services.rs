//! Names: who may take them, what giving one up leaves, the fallback for job shells.

use super::*;
use wire::errno;

#[test]
fn the_rules_of_service_names() {
    let mut world = World::with(&[1, 2], &[]);
    world.peer(3, GUEST, PeerKind::Connection);
    let add = |world: &mut World, peer: u64, cred: Cred, name: &str, key: bool| {
        world
            .router
            .add_service(PeerId(peer), cred, name, key)
            .map_err(|error| error.errnum())
    };
    for bad in ["", "a.b", "a\0", &"x".repeat(SERVICE_NAME_LEN_MAX + 1)] {
        assert_eq!(
            add(&mut world, 1, OWNER, bad, true),
            Err(errno::EINVAL),
            "{bad:?}"
        );
    }
    for name in RESERVED_SERVICES {
        assert_eq!(
            add(&mut world, 1, OWNER, name, false),
            Err(errno::EPERM),
            "{name}"
        );
        assert_eq!(add(&mut world, 1, OWNER, name, true), Ok(()), "{name}");
        assert_eq!(
            add(&mut world, 2, OWNER, name, true),
            Err(errno::EEXIST),
            "{name}"
        );
    }
    for name in ["svc", "1000-svc", "10011-svc", "1001-", "1001"] {
        assert_eq!(
            add(&mut world, 3, GUEST, name, false),
            Err(errno::EPERM),
            "{name}"
        );
    }
    assert_eq!(add(&mut world, 3, GUEST, "1001-svc", false), Ok(()));
    assert_eq!(add(&mut world, 1, OWNER, "svc", false), Ok(()));
    assert_eq!(
        add(&mut world, 1, OWNER, "svc", false),
        Err(errno::EEXIST),
        "its own holder too"
    );

    let remove = |world: &mut World, peer: u64, name: &str| {
        world
            .router
            .remove_service(PeerId(peer), name)
            .map_err(|error| error.errnum())
    };
    assert_eq!(
        remove(&mut world, 2, "svc"),
        Err(errno::ENOENT),
        "someone else's"
    );
    assert_eq!(remove(&mut world, 1, "nosuch"), Err(errno::ENOENT));
    assert_eq!(remove(&mut world, 1, "svc"), Ok(()));
    assert_eq!(add(&mut world, 2, OWNER, "svc", false), Ok(()));
    assert_eq!(world.router.owner_of("svc"), Some(PeerId(2)));
}

#[test]
fn names_per_peer_are_bounded_and_come_free() {
    let mut world = World::with(&[1], &[]);
    let name = |at: usize| format!("s{at}");
    for at in 0..SERVICES_PER_PEER_MAX {
        world
            .router
            .add_service(PeerId(1), OWNER, &name(at), false)
            .unwrap();
    }
    assert_eq!(
        world.router.add_service(PeerId(1), OWNER, "more", false),
        Err(RegisterError::TooMany)
    );
    for _ in 0..3 * SERVICES_PER_PEER_MAX {
        world.router.remove_service(PeerId(1), &name(0)).unwrap();
        world
            .router
            .add_service(PeerId(1), OWNER, &name(0), false)
            .unwrap();
    }
    assert_eq!(world.router.services().count(), SERVICES_PER_PEER_MAX);
    assert_eq!(world.leave(1).0.len(), SERVICES_PER_PEER_MAX);
    assert_eq!(world.router.services().count(), 0);
}

#[test]
fn a_name_given_up_still_answers_what_it_was_asked() {
    let mut world = World::with(&[1, 2, 3], &[(2, "s")]);
    let (_, early) = world.request(1, ask("s.m", 1));
    let (_, lost) = world.request(1, ask("s.m", 2));
    world.router.remove_service(PeerId(2), "s").unwrap();
    assert_eq!(world.response(1, ask("s.m", 3)).1.errnum, errno::ENOSYS);
    world
        .router
        .add_service(PeerId(3), OWNER, "s", false)
        .unwrap();
    let (to, late) = world.request(1, ask("s.m", 4));
    assert_eq!(to, 3);
    assert_eq!(world.response(2, early.respond(None)).1.matchtag, 1);
    assert_eq!(
        world.send(3, lost.respond(None)),
        [],
        "the new holder cannot answer for the old one"
    );
    assert_eq!(world.response(3, late.respond(None)).1.matchtag, 4);
    let (names, out) = world.leave(2);
    assert_eq!((names, out.len()), (vec![], 1));
    assert_eq!(world.router.owner_of("s"), Some(PeerId(3)));
}

#[test]
fn shell_topics_fall_back_to_the_executor() {
    let mut world = World::with(&[1, 2, 3], &[]);
    assert_eq!(
        world.response(1, ask("1000-shell-f2ab.stdin", 1)).1.errnum,
        errno::ENOSYS
    );
    world
        .router
        .add_service(PeerId(2), OWNER, "job-exec", true)
        .unwrap();
    let (to, request) = world.request(1, ask("1000-shell-f2ab.stdin", 1));
    assert_eq!(to, 2);
    world.response(2, request.respond(None));
    for not_a_shell in [
        "x-shell-f2ab.stdin",
        "1000-shell-.stdin",
        "1000-shel-f2ab.stdin",
        "-shell-f.stdin",
    ] {
        assert_eq!(
            world.response(1, ask(not_a_shell, 1)).1.errnum,
            errno::ENOSYS,
            "{not_a_shell}"
        );
    }
    world
        .router
        .add_service(PeerId(3), OWNER, "1000-shell-f2ab", false)
        .unwrap();
    assert_eq!(
        world.request(1, ask("1000-shell-f2ab.stdin", 2)).0,
        3,
        "registered itself"
    );
    world.request(1, ask("1000-shell-f2cd.stdin", 3));
    let (_, out) = world.leave(1);
    assert_eq!(
        out.into_iter().map(told).collect::<Vec<_>>(),
        [
            (2, "job-exec.disconnect".to_owned(), vec![hop(1)]),
            (3, "1000-shell-f2ab.disconnect".to_owned(), vec![hop(1)])
        ]
    );
}
