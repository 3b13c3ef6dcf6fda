//! Random peers against the one rule: exactly one final response.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        client: u64,
        service: u64,
        matchtag: u32,
        streaming: bool,
    },
    Answer {
        at: prop::sample::Index,
        errnum: u32,
    },
    Leave {
        peer: u64,
    },
    Join {
        peer: u64,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u64, 0..6u64, 0..4u32, any::<bool>())
            .prop_map(|(client, service, matchtag, streaming)| Step::Ask { client, service, matchtag, streaming }),
        6 => (any::<prop::sample::Index>(), prop_oneof![Just(0), Just(61)]).prop_map(|(at, errnum)| Step::Answer { at, errnum }),
        1 => (0..6u64).prop_map(|peer| Step::Leave { peer }),
        2 => (0..6u64).prop_map(|peer| Step::Join { peer }),
    ]
}

proptest! {
    /// Six peers, each a client and a service; whoever expects an answer gets exactly one final one, unless he leaves.
    #[test]
    fn exactly_one_final_response(steps in proptest::collection::vec(any_step(), 1..200)) {
        let mut world = World::new();
        // Peers by place, with their present number, which is never used again.
        let mut present: HashMap<u64, u64> = HashMap::new();
        let mut next = 0;
        // Requests at a service, with the service's number; and what each client waits for.
        let mut held: Vec<(u64, Request)> = Vec::new();
        let mut waits: HashMap<(u64, u32), i64> = HashMap::new();
        for step in steps {
            let out = match step {
                Step::Join { peer } if !present.contains_key(&peer) => {
                    next += 1;
                    world.peer(next, OWNER, PeerKind::Connection);
                    world.router.add_service(PeerId(next), OWNER, &format!("s{peer}"), false).unwrap();
                    present.insert(peer, next);
                    vec![]
                }
                Step::Leave { peer } => match present.remove(&peer) {
                    Some(id) => {
                        waits.retain(|(client, _), _| *client != id);
                        world.leave(id).1
                    }
                    None => vec![],
                },
                Step::Ask { client, service, matchtag, streaming } => match present.get(&client) {
                    Some(&id) => {
                        if matchtag != 0 {
                            *waits.entry((id, matchtag)).or_default() += 1;
                        }
                        let flags = if streaming { Flags::STREAMING } else { Flags::NONE };
                        let topic = format!("s{service}.m{streaming}").into();
                        world.send(id, Request { topic, flags, ..ask("", matchtag) })
                    }
                    None => vec![],
                },
                Step::Answer { at, errnum } if !held.is_empty() => {
                    let at = at.index(held.len());
                    let (service, request) = held[at].clone();
                    if errnum != 0 || !request.is_streaming() {
                        held.remove(at);
                    }
                    let response = Response { errnum, ..request.respond(None) };
                    world.send(service, response)
                }
                _ => vec![],
            };
            for delivery in out {
                match delivery.message {
                    Message::Request(request) if request.flags.contains(Flags::NORESPONSE) => {}
                    Message::Request(request) => held.push((delivery.to.0, request)),
                    Message::Response(response) => {
                        let last = response.errnum != 0 || !response.flags.contains(Flags::STREAMING);
                        let left = waits.get_mut(&(delivery.to.0, response.matchtag));
                        prop_assert!(left.is_some(), "nobody waits for {response:?}");
                        let left = left.unwrap();
                        *left -= i64::from(last);
                        prop_assert!(*left >= 0, "one final response too many: {response:?}");
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            for id in present.values() {
                let waiting: i64 = waits.iter().filter(|((client, _), _)| client == id).map(|(_, left)| left).sum();
                prop_assert_eq!(world.router.inflight(PeerId(*id)) as i64, waiting);
            }
        }
        // All leave but the clients' ends: nothing is left waiting.
        let places: Vec<u64> = present.keys().copied().collect();
        for place in places {
            world.leave(present[&place]);
        }
        prop_assert_eq!(world.router.services().count(), 0);
    }
}
