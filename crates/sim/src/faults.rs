//! What breaks: connections, processes, the disk, the clock.

use crate::link::Actor;
use crate::note;
use crate::violation::Outcome;
use crate::world::{Step, World};

/// One kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    Cut,
    Stall,
    Deaf,
    CrashManager,
    CrashInfo,
    CrashEngine,
    Full,
    Broken,
    Clock,
}

/// Adds what may break now.
pub(crate) fn choices(world: &World, out: &mut Vec<(usize, Step)>) {
    let faults = world.plan.faults;
    let kinds = [
        (faults.cut, Fault::Cut),
        (faults.stall, Fault::Stall),
        (faults.deaf, Fault::Deaf),
        (faults.crash_manager, Fault::CrashManager),
        (faults.crash_info, Fault::CrashInfo),
        (faults.crash_engine, Fault::CrashEngine),
        (faults.full, Fault::Full),
        (faults.broken, Fault::Broken),
        (faults.clock, Fault::Clock),
    ];
    for (weight, fault) in kinds {
        if weight > 0 {
            out.push((weight, Step::Fault(fault)));
        }
    }
}

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) -> Outcome {
        match fault {
            Fault::Cut => {
                let ids: Vec<u64> = self.links.keys().copied().collect();
                if let Some(id) = self.rng.pick(&ids).copied() {
                    self.cut(id)?;
                }
            }
            Fault::Stall => {
                let until = self.now + self.rng.real(0.0, 3.0);
                let ids: Vec<u64> = self.links.keys().copied().collect();
                let (up, down) = (self.rng.one_in(2), self.rng.one_in(2));
                if let Some(link) = self
                    .rng
                    .pick(&ids)
                    .copied()
                    .and_then(|id| self.links.get_mut(&id))
                {
                    if up {
                        link.up_at = until;
                    }
                    if down || !up {
                        link.down_at = until;
                    }
                }
            }
            Fault::Deaf => {
                let until = self.now + self.rng.real(0.5, 60.0);
                let ids: Vec<u64> = self
                    .links
                    .values()
                    .filter(|link| !matches!(link.actor, Actor::Engine))
                    .map(|link| link.id)
                    .collect();
                let chosen = self.rng.pick(&ids).copied();
                if let Some(link) = chosen.and_then(|id| self.links.get_mut(&id)) {
                    link.deaf_until = until;
                }
            }
            Fault::CrashManager => self.crash_manager(false)?,
            Fault::CrashInfo => self.crash_info()?,
            Fault::CrashEngine => {
                if let Some(link) = self.engine_link {
                    self.engine_at = self.now + self.rng.real(0.0, 2.0);
                    self.cut(link)?;
                }
            }
            Fault::Full => {
                let full = !self.disk.is_full();
                note!(self, "the disk is {}", if full { "full" } else { "free" });
                let reserve = self.rng.below(12);
                self.disk.set_full(full, reserve);
            }
            Fault::Broken => {
                if self.disk.is_writing() {
                    self.disk.fail();
                }
            }
            Fault::Clock => {
                self.wall += self.rng.real(-3.0, 3.0);
                self.pass(0.0);
            }
        }
        Ok(())
    }

    /// A connection is cut: the actor knows at once, the server later.
    pub(crate) fn cut(&mut self, id: u64) -> Outcome {
        let Some(link) = self.links.get_mut(&id) else {
            return Ok(());
        };
        if link.cut {
            return Ok(());
        }
        link.cut = true;
        let actor = link.actor;
        let away = self.now + self.rng.real(0.0, 1.5);
        match actor {
            Actor::Client(at) => {
                if let Some(client) = self.clients.get_mut(at) {
                    client.away_until = away;
                }
            }
            Actor::Listener(at) => {
                if let Some(listener) = self.listeners.get_mut(at) {
                    listener.away_until = away;
                }
            }
            Actor::Direct(_) | Actor::Info | Actor::Engine => {}
        }
        self.actor_lost(actor, id);
        Ok(())
    }

    /// The job-manager is killed: memory and connections are gone, and of what was on its way to the disk a part is there. `said`: it ends
    /// because there is no room; its clients read what it had to say, and nothing more is stored.
    pub(crate) fn crash_manager(&mut self, said: bool) -> Outcome {
        if self.broker.take().is_none() {
            return Ok(());
        }
        let in_flight = self.disk.in_flight();
        let may_keep = if said { 0 } else { self.disk.may_keep() };
        let kept = self.rng.below(may_keep + 1);
        note!(self, "of {in_flight} batches in flight, {kept} are stored");
        self.disk.crash(kept);
        self.truth.catch_up(&self.disk.model())?;
        self.trace.count(self.truth.newest().0 ^ 0xdead);
        let ids: Vec<u64> = self
            .links
            .values()
            .filter(|link| !link.actor.is_direct())
            .map(|link| link.id)
            .collect();
        for id in ids {
            if said && self.links.get(&id).is_some_and(|link| !link.cut) {
                self.arrive_down(id, usize::MAX)?;
            }
            self.close(id)?;
        }
        self.broker_at = self.now + self.rng.real(0.0, 2.0);
        if self.plan.faults.trim && self.rng.one_in(3) {
            self.trim();
        }
        if self.plan.faults.damage && self.rng.one_in(4) {
            self.damage();
        }
        if self.plan.faults.replace && self.rng.one_in(4) {
            if self.rng.one_in(2) {
                self.replace();
            } else {
                self.restore();
                self.truth.catch_up(&self.disk.model())?;
            }
        }
        Ok(())
    }

    /// job-info is killed.
    pub(crate) fn crash_info(&mut self) -> Outcome {
        if self.info.is_none() {
            return Ok(());
        }
        if let Some(link) = self.info_link.take()
            && let Some(link) = self.links.get_mut(&link)
        {
            link.cut = true;
        }
        self.info = None;
        let direct: Vec<u64> = self
            .links
            .values()
            .filter(|link| link.actor.is_direct())
            .map(|link| link.id)
            .collect();
        for id in direct {
            self.close(id)?;
        }
        self.info_at = self.now + self.rng.real(0.0, 2.0);
        Ok(())
    }
}
