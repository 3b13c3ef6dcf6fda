//! Connections: made, carried in pieces, ended; and what whoever is at their end makes of a message.

use bytes::Bytes;
use sim_info::{Follower, Lost};
use sim_io::{Outbox, OutboxLimits};
use sim_manager::Broker;
use wire::{Cred, Message};

use crate::link::{Actor, Link};
use crate::note;
use crate::violation::{Outcome, Promise, Violation};
use crate::world::{UNREAD_MAX, World, cred};

impl World {
    pub(crate) fn outbox() -> Outbox {
        Outbox::new(OutboxLimits {
            low_water: sim_io::LOW_WATER,
            high_water: sim_io::HIGH_WATER,
            hard_cap: sim_io::HARD_CAP,
        })
    }

    pub(crate) fn connect(&mut self, actor: Actor, cred: Cred) -> Option<u64> {
        self.broker.as_ref()?;
        self.next_link += 1;
        let id = self.next_link;
        let up = match actor {
            Actor::Info => Follower::outbox(),
            _ => World::outbox(),
        };
        let link = Link::new(id, actor, cred, Broker::outbox(), up);
        let (down, uuid) = (link.down.clone(), Bytes::from(format!("client-{id}")));
        self.links.insert(id, link);
        self.with_broker(|broker| broker.opened(id, down, cred, uuid));
        Some(id)
    }

    pub(crate) fn connect_direct(&mut self, at: usize) {
        self.next_link += 1;
        let id = self.next_link;
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        let Some(info) = &mut self.info else { return };
        let link = Link::new(
            id,
            Actor::Direct(at),
            cred(client.userid),
            Follower::outbox(),
            World::outbox(),
        );
        info.opened(id, link.down.clone());
        self.links.insert(id, link);
        client.direct = Some(id);
    }

    pub(crate) fn some_bytes(&mut self) -> usize {
        if self.rng.one_in(8) {
            self.rng.between(1, 400)
        } else {
            64 << 10
        }
    }

    pub(crate) fn arrive_up(&mut self, id: u64) -> Outcome {
        let bytes = self.some_bytes();
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        let actor = link.actor;
        let (messages, drained) = link.arrive_up(bytes)?;
        self.trace.count(id ^ messages.len() as u64);
        if drained && actor == Actor::Info {
            self.with_info(Follower::room);
        }
        if messages.is_empty() {
            return Ok(());
        }
        if actor.is_direct() {
            self.with_info(|info| {
                messages
                    .into_iter()
                    .for_each(|message| info.direct(id, message));
            });
        } else {
            let at_a_time = if self.rng.one_in(8) { 1 } else { 256 };
            self.with_broker(|broker| broker.messages(id, messages, at_a_time));
        }
        Ok(())
    }

    pub(crate) fn with_info(&mut self, with: impl FnOnce(&mut Follower)) {
        if let Some(info) = &mut self.info {
            with(info);
            info.pump();
        }
    }

    pub(crate) fn arrive_down(&mut self, id: u64, bytes: usize) -> Outcome {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        if matches!(link.actor, Actor::Listener(_)) && link.down.queued_bytes() > UNREAD_MAX {
            let what = format!("{} bytes wait for one listener", link.down.queued_bytes());
            return Err(Violation::of(Promise::Isolated, what));
        }
        let (actor, was_direct) = (link.actor, link.actor.is_direct());
        let (messages, drained) = link.arrive_down(bytes)?;
        self.trace.count(id.rotate_left(9) ^ messages.len() as u64);
        if drained && was_direct {
            self.with_info(|info| info.drained(id));
        } else if drained {
            self.with_broker(|broker| broker.drained(id));
        }
        for message in messages {
            self.take(id, actor, message)?;
        }
        Ok(())
    }

    /// A message for one of the actors.
    pub(crate) fn take(&mut self, id: u64, actor: Actor, message: Message) -> Outcome {
        self.truth.catch_up(&self.disk.model())?;
        let floor = self.disk.model().floor;
        match actor {
            Actor::Client(at) | Actor::Direct(at) => {
                let (Message::Response(response), Some(client)) =
                    (&message, self.clients.get_mut(at))
                else {
                    return Ok(());
                };
                note!(
                    self,
                    "  client {at} is answered {} {} {:?}",
                    response.topic.as_str(),
                    response.errnum,
                    response.payload.as_deref().map(String::from_utf8_lossy)
                );
                client.answer(id, response, &self.truth)
            }
            Actor::Listener(at) => {
                let (Message::Response(response), Some(listener)) =
                    (&message, self.listeners.get_mut(at))
                else {
                    return Ok(());
                };
                note!(
                    self,
                    "  listener {at} gets {} {:?}",
                    response.errnum,
                    response.payload.as_deref().map(String::from_utf8_lossy)
                );
                if response.matchtag != listener.tag {
                    return Ok(());
                }
                let payload = response.payload.as_deref().unwrap_or_default();
                let met = if response.errnum == 0 {
                    listener.response(payload, &self.truth)
                } else {
                    let text = wire::text_of(payload).unwrap_or_default();
                    let text = text.to_owned();
                    listener.away_until = self.now + 0.1;
                    listener.refused(response.errnum, &text, &self.truth, floor)
                };
                met.map_err(|violation| Violation {
                    what: format!("listener {at}: {}", violation.what),
                    ..violation
                })
            }
            Actor::Info => {
                note!(
                    self,
                    "  job-info gets {} {:?}",
                    message.topic().map_or("", wire::Topic::as_str),
                    message
                        .payload()
                        .map(|payload| String::from_utf8_lossy(payload))
                );
                self.with_info(|info| info.message(message));
                Ok(())
            }
            Actor::Engine => {
                let (wall, dice) = (self.now + self.wall, self.rng.part());
                if let Some(engine) = &mut self.engine {
                    engine.message(message, wall, &mut self.shepherds, &self.truth, dice)?;
                }
                self.engine_says();
                Ok(())
            }
        }
    }

    /// A connection comes to its end on both sides.
    pub(crate) fn close(&mut self, id: u64) -> Outcome {
        let Some(mut link) = self.links.remove(&id) else {
            return Ok(());
        };
        // What was on its way still arrives, or a part of it, or nothing.
        if link.cut && !link.up.is_closed() && self.rng.one_in(2) {
            let bytes = self.rng.below(link.up.queued_bytes() + 1);
            let (messages, _) = link.arrive_up(bytes)?;
            if !messages.is_empty() && !link.actor.is_direct() {
                self.with_broker(|broker| broker.messages(id, messages, 256));
            }
        }
        if link.actor.is_direct() {
            self.with_info(|info| info.closed(id));
        } else {
            self.with_broker(|broker| broker.closed(id));
        }
        link.down.close();
        link.up.close();
        self.actor_lost(link.actor, id);
        Ok(())
    }

    /// The actor's side of a connection is gone.
    pub(crate) fn actor_lost(&mut self, actor: Actor, id: u64) {
        match actor {
            Actor::Client(at) | Actor::Direct(at) => {
                if let Some(client) = self.clients.get_mut(at) {
                    client.lost(id);
                }
            }
            Actor::Listener(at) => {
                if let Some(listener) = self.listeners.get_mut(at)
                    && listener.link == Some(id)
                {
                    listener.lost();
                }
            }
            Actor::Info => {
                if self.info_link == Some(id) {
                    self.info_link = None;
                    self.with_info(|info| info.lost(Lost::Broken));
                }
            }
            Actor::Engine => {
                if self.engine_link == Some(id) {
                    self.engine_link = None;
                    self.engine = None;
                }
            }
        }
    }
}
