//! The processes: how they start, what they say, what ends them by itself.

use job::JobId;
use sim_info::Lost;
use sim_manager::{Broker, End, Settings};

use crate::engine::Engine;
use crate::link::Actor;
use crate::note;
use crate::plan::OWNER;
use crate::violation::{Outcome, Promise, Violation};
use crate::world::{KEY, World, cred};

/// Commits that a job-manager that is asked to end waits for.
const STOP_STEPS_MAX: usize = 10_000;

impl World {
    pub(crate) fn start_manager(&mut self) -> Outcome {
        self.life += 1;
        let settings = Settings {
            owner: OWNER,
            key: KEY.to_owned(),
            life: self.life,
            ring_entries: self.plan.ring_entries,
            batch_interval: self.plan.batch_interval,
            reads_max: 64,
            log_entries: self.plan.log_entries,
            inactive_num: self.plan.inactive_num,
        };
        let broker = Broker::start(&self.disk, &settings)
            .map_err(|error| Violation::of(Promise::Live, format!("no start: {error}")))?;
        note!(
            self,
            "job-manager starts: epoch {}, {} to {}",
            self.truth.epoch,
            self.disk.model().floor.0 + 1,
            self.truth.newest()
        );
        self.broker = Some(broker);
        self.more = true;
        self.commit_at = self.now;
        Ok(())
    }

    /// Does something with the broker, and ends its turn, or gathers more into the same turn.
    pub(crate) fn with_broker<T>(&mut self, with: impl FnOnce(&mut Broker) -> T) -> Option<T> {
        let gather = self.rng.one_in(4) && !self.calm;
        let broker = self.broker.as_mut()?;
        let result = with(broker);
        self.more = gather || broker.end_turn();
        Some(result)
    }

    pub(crate) fn store_event(&mut self) -> Outcome {
        let Some(told) = self.with_broker(Broker::store_event) else {
            return Ok(());
        };
        match told {
            Ok(Some(event)) => {
                note!(self, "store: {event:?}");
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(end) => {
                note!(self, "store: {end:?}: the job-manager ends");
                self.crash_manager(end == End::OutOfRoom)
            }
        }
    }

    /// The job-manager was asked to end, and said that it is drained: what was decided is stored and told, streams end, then it is gone.
    pub(crate) fn shut_down(&mut self) -> Outcome {
        note!(self, "the job-manager shuts down");
        self.counts.shutdowns += 1;
        self.with_broker(|_| ());
        for _ in 0..STOP_STEPS_MAX {
            let undurable = self
                .broker
                .as_ref()
                .map_or(0, |broker| broker.stats().undurable);
            if undurable == 0 {
                break;
            }
            if self.disk.can_begin() {
                self.disk.begin(8);
            }
            if self.disk.is_writing() {
                self.disk.end();
                self.truth.catch_up(&self.disk.model())?;
            }
            // With a full disk it may end before that.
            while self.broker.is_some() && self.disk.has_events() {
                self.store_event()?;
            }
        }
        if let Some(broker) = &mut self.broker {
            let _ = broker.end_turn();
            broker.end_streams();
        }
        self.crash_manager(true)
    }

    pub(crate) fn info_connect(&mut self) {
        let link = self.connect(Actor::Info, cred(OWNER));
        let Some(info) = &mut self.info else { return };
        match link.and_then(|link| self.links.get(&link)) {
            Some(link) => {
                self.info_link = Some(link.id);
                info.connected(link.up.clone());
            }
            None => info.lost(Lost::Absent),
        }
        info.pump();
    }

    pub(crate) fn engine_connect(&mut self) {
        let Some(link) = self.connect(Actor::Engine, cred(OWNER)) else {
            return;
        };
        let job_max = self.plan.job_max;
        // Not always with all of its nodes.
        let nodes = self.rng.between(1, self.plan.nodes as usize);
        let nodes = u32::try_from(nodes).unwrap_or(1);
        self.engine = Some(Engine::new(nodes, self.plan.cores, KEY.to_owned(), job_max));
        self.engine_link = Some(link);
        self.engine_says();
    }

    pub(crate) fn engine_says(&mut self) {
        let (Some(engine), Some(link)) = (&mut self.engine, self.engine_link) else {
            return;
        };
        if let Some(link) = self.links.get(&link) {
            for message in engine.out.drain(..) {
                let _ = sim_io::client::Sender::new(link.up.clone()).send_now(message);
            }
            if engine.gave_up {
                self.engine_at = self.now + 0.5;
                link.up.close();
            }
        }
    }

    pub(crate) fn job_ends(&mut self, id: JobId) {
        let Some(shepherd) = self.shepherds.get_mut(&id) else {
            return;
        };
        shepherd.ended = true;
        let status = shepherd.status;
        if let Some(engine) = &mut self.engine {
            engine.finish(id, status, self.now + self.wall);
            self.engine_says();
        }
    }
}
