//! What happens to the state directory while no job-manager runs: the log is trimmed, another directory takes its place.

use job::Seq;
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
    }

    /// Another, empty state directory stands where this one was. Jobs that ran under the old one are nobody's.
    pub(crate) fn replace(&mut self) {
        self.stores += 1;
        let epoch = format!("{:012x}{:04x}", self.rng.bits() >> 16, self.stores);
        note!(self, "another store, of epoch {epoch}");
        self.disk = Disk::new(epoch.clone(), self.plan.queue_max);
        self.truth = Truth::new(epoch);
        self.shepherds.clear();
        for client in &mut self.clients {
            client.forget();
        }
    }
}
