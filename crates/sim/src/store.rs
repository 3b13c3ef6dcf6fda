//! What happens to the state directory while no job-manager runs: the log is trimmed, a row is damaged, a copy or another directory takes its
//! place.

use job::{JobId, Seq};
use sim_io::Disk;

use crate::note;
use crate::truth::Truth;
use crate::world::World;

impl World {
    /// The log forgets its oldest entries.
    pub(crate) fn trim(&mut self) {
        let (floor, newest) = {
            let model = self.disk.model();
            (model.floor.0, model.newest().0)
        };
        let room = usize::try_from(newest - floor).unwrap_or(0);
        let upto = Seq(floor + self.rng.below(room + 1) as u64);
        note!(self, "the log forgets what is up to {upto}");
        self.disk.model_mut().trim(upto);
        self.truth.floors.insert(upto);
    }

    /// One job's row cannot be read from now on.
    pub(crate) fn damage(&mut self) {
        let ids: Vec<JobId> = self.disk.model().jobs.keys().copied().collect();
        let Some(id) = self.rng.pick(&ids).copied() else {
            return;
        };
        note!(self, "job {id} is damaged");
        if let Some(row) = self.disk.model_mut().jobs.get_mut(&id) {
            row.damaged = true;
        }
        self.truth.aside.insert(id);
    }

    /// A copy of the store is taken, as `weir store backup` does.
    pub(crate) fn back_up(&mut self) {
        self.backup = Some(self.disk.model().clone());
    }

    /// The copy takes the place of the store: what came after it never was. It opens with an epoch of its own. Shepherds are where they were.
    pub(crate) fn restore(&mut self) {
        let Some(mut copy) = self.backup.clone() else {
            return;
        };
        self.stores += 1;
        copy.epoch = format!("{:012x}{:04x}", self.rng.bits() >> 16, self.stores);
        note!(
            self,
            "a copy up to {}, of epoch {}",
            copy.newest(),
            copy.epoch
        );
        self.truth = Truth::new(copy.epoch.clone());
        self.truth.aside = copy
            .jobs
            .iter()
            .filter(|(_, row)| row.damaged)
            .map(|(id, _)| *id)
            .collect();
        self.ever_purged |= !self.truth.purged.is_empty();
        self.disk = Disk::new(copy.epoch.clone(), self.plan.queue_max);
        *self.disk.model_mut() = copy;
        for client in &mut self.clients {
            client.forget();
        }
    }

    /// Another, empty state directory stands where this one was. Jobs that ran under the old one are nobody's.
    pub(crate) fn replace(&mut self) {
        self.stores += 1;
        let epoch = format!("{:012x}{:04x}", self.rng.bits() >> 16, self.stores);
        note!(self, "another store, of epoch {epoch}");
        self.ever_purged |= !self.truth.purged.is_empty();
        self.disk = Disk::new(epoch.clone(), self.plan.queue_max);
        self.truth = Truth::new(epoch);
        self.shepherds.clear();
        self.backup = None;
        for client in &mut self.clients {
            client.forget();
        }
    }
}
