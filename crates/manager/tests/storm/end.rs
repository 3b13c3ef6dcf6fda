//! How a random world ends: everything is let go on, and every job comes to its end.

use std::collections::BTreeSet;

use job::{JobId, State};

use super::{Asked, Run, Step};

impl Run {
    /// Everything is let go on: engines there, queue started, nothing held. Every job must end, every slot come back.
    pub fn drive_to_the_end(&mut self) {
        self.take(Step::Queue { start: true });
        for round in 0..40 {
            self.durable(usize::MAX);
            self.take(Step::SchedHello { limit: Some(3) });
            self.take(Step::ExecHello);
            self.durable(usize::MAX);
            let held: Vec<JobId> = self
                .world
                .disk
                .rows
                .keys()
                .copied()
                .filter(|id| {
                    self.world.manager.job(*id).is_some_and(|job| {
                        job.state == State::Sched && job.urgency == job::Urgency::HOLD
                    })
                })
                .collect();
            // Parents end when they are canceled.
            let parents: Vec<JobId> = self
                .world
                .disk
                .rows
                .keys()
                .copied()
                .filter(|id| {
                    let job = self.world.manager.job(*id);
                    job.is_some_and(|job| job.state == State::Depend)
                })
                .collect();
            for id in parents {
                let payload = format!(r#"{{"id":{},"severity":0,"type":"cancel"}}"#, id.0);
                self.call(Asked::Other, "job-manager.raise", &payload, false);
            }
            for id in held {
                self.call(
                    Asked::Other,
                    "job-manager.urgency",
                    &format!(r#"{{"id":{},"urgency":16}}"#, id.0),
                    false,
                );
            }
            self.durable(usize::MAX);
            for _ in 0..self.peers.open.len() {
                let cancelled = self.peers.open.values().next().copied().unwrap_or(false);
                self.take(Step::Sched {
                    pick: 0,
                    kind: if cancelled && round % 2 == 0 { 3 } else { 0 },
                });
                self.durable(usize::MAX);
            }
            for _ in 0..self.peers.exchanges.len() {
                self.take(Step::Exec { pick: 0, kind: 3 });
                self.durable(usize::MAX);
            }
        }
        for id in self.world.disk.rows.keys() {
            let left = self.world.manager.job(*id).map(|job| job.state);
            assert_eq!(
                left,
                None,
                "job {id} did not end: {}",
                self.world.disk.names(*id)
            );
        }
        assert!(
            self.peers.holding.is_empty(),
            "slots were lost: {:?}",
            self.peers.holding
        );
        assert!(self.peers.open.is_empty() && self.peers.exchanges.is_empty());
        self.purge_to_the_end();
    }

    /// What is asked to go goes, with its files; no other does.
    fn purge_to_the_end(&mut self) {
        // What was asked before, first.
        for _ in 0..200 {
            self.take(Step::Found);
            self.durable(usize::MAX);
        }
        self.take(Step::Limit(Some(2)));
        let waited_for: Vec<JobId> = self.world.disk.waited_for();
        for _ in 0..200 {
            self.world.now += 31.0;
            self.take(Step::Tick);
            self.durable(usize::MAX);
            self.take(Step::Found);
            self.durable(usize::MAX);
            self.take(Step::Swept { left: false });
        }
        let rows: BTreeSet<JobId> = self.world.disk.rows.keys().copied().collect();
        assert!(waited_for.iter().all(|id| rows.contains(id)));
        assert!(
            rows.len() <= 2 + waited_for.len(),
            "{rows:?} {waited_for:?}"
        );
        assert_eq!(
            self.peers.files, rows,
            "files and rows are of the same jobs"
        );
        self.take(Step::Queue { start: true });
        self.durable(usize::MAX);
        let noted: Vec<&String> = self
            .world
            .disk
            .meta
            .keys()
            .filter(|key| key.starts_with("sweep."))
            .collect();
        assert!(noted.is_empty(), "{noted:?}");
    }
}
