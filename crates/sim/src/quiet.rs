//! Quiet points: faults stop, everything comes to rest, and then all must agree.
//!
//! Coming to rest is a promise of its own: what is asked is answered, streams catch up, the daemons find each other, in bounded time. Some
//! listeners stay deaf meanwhile: nobody else may wait for them.

use std::collections::BTreeMap;

use info::place::ListKey as _;
use info::{Allocs, Jobs, Nodes};
use job::{Job, JobFields, JobId, Resources, State};

use crate::client::Op;
use crate::engine::node_name;
use crate::link::Actor;
use crate::note;
use crate::truth::Truth;
use crate::violation::{Outcome, Promise, Violation};
use crate::world::World;

/// Steps within which everything must have come to rest.
const SETTLE_STEPS_MAX: usize = 20_000;

fn broken(promise: Promise, what: String) -> Outcome {
    Err(Violation::of(promise, what))
}

impl World {
    /// Lets everything come to rest, and checks. `last`: listeners that were deaf hear again, and must catch up too.
    pub(crate) fn settle(&mut self, last: bool) -> Outcome {
        note!(self, "---- quiet, please");
        self.calm = true;
        self.disk.set_full(false, 0);
        self.broker_at = self.broker_at.min(self.now);
        let hearing = last || self.rng.one_in(2);
        for link in self.links.values_mut() {
            (link.up_at, link.down_at) = (0.0, 0.0);
            if hearing || !matches!(link.actor, Actor::Listener(_)) {
                link.deaf_until = 0.0;
            } else if link.deaf_until > self.now {
                link.deaf_until = f64::INFINITY;
            }
        }
        self.come_to_rest()?;
        // A stopped queue is stopped, whatever died meanwhile.
        let (enable, start) = self.truth.queue();
        for at in 0..self.clients.len() {
            self.ask_one(at, Op::QueueIs(enable, start));
        }
        self.come_to_rest()?;
        note!(self, "---- quiet");
        self.counts.quiet += 1;
        self.ever_purged |= !self.truth.purged.is_empty();
        self.all_agree()?;
        self.calm = false;
        for link in self.links.values_mut() {
            if link.deaf_until == f64::INFINITY {
                link.deaf_until = self.now + 1.0;
            }
        }
        Ok(())
    }

    /// Goes on until nothing is left to come.
    fn come_to_rest(&mut self) -> Outcome {
        let begun = self.steps;
        // What kept it up longest is what is wrong.
        let mut why: BTreeMap<String, usize> = BTreeMap::new();
        while let Some(what) = self.not_at_rest() {
            let taken = self.steps - begun;
            if taken > SETTLE_STEPS_MAX {
                let what = why.into_iter().max_by_key(|(_, count)| *count);
                let what = what.map(|(what, _)| what).unwrap_or_default();
                let text = format!("no rest after {SETTLE_STEPS_MAX} steps: {what}");
                return broken(Promise::Live, text);
            }
            if taken > SETTLE_STEPS_MAX / 2 {
                *why.entry(what).or_default() += 1;
            }
            self.step()?;
        }
        Ok(())
    }

    /// What is still to come, if anything.
    fn not_at_rest(&self) -> Option<String> {
        let Some(broker) = &self.broker else {
            return Some("the job-manager is down".to_owned());
        };
        if self.disk.in_flight() > 0 || self.disk.has_events() || self.disk.has_room_again() {
            return Some("commits are under way".to_owned());
        }
        let newest = self.truth.newest();
        if broker.durable() != newest.0 {
            return Some(format!("the journal is at {}", broker.durable()));
        }
        let stats = broker.stats();
        if stats.undurable + stats.held + stats.lookups + stats.engines > 0 {
            return Some(format!("the job-manager holds {stats:?}"));
        }
        for link in self.links.values() {
            let deaf = link.deaf_until > self.now;
            if link.cut || link.up.queued_bytes() > 0 || (link.down.queued_bytes() > 0 && !deaf) {
                return Some(format!("bytes are on their way for {:?}", link.actor));
            }
        }
        let Some(info) = &self.info else {
            return Some("job-info is down".to_owned());
        };
        if !info.projection().is_live() || info.projection().applied() != newest.0 {
            return Some(format!(
                "job-info is at {}, live: {}",
                info.projection().applied(),
                info.projection().is_live()
            ));
        }
        if !self
            .engine
            .as_ref()
            .is_some_and(crate::engine::Engine::is_ready)
        {
            return Some("the engine is not ready".to_owned());
        }
        for (at, listener) in self.listeners.iter().enumerate() {
            let deaf = listener
                .link
                .and_then(|link| self.links.get(&link))
                .is_some_and(|link| link.deaf_until > self.now);
            if !deaf && !listener.is_at(newest, &self.truth) {
                return Some(format!(
                    "listener {at} is at {:?} of {newest}: {listener:?}",
                    listener.cursor
                ));
            }
        }
        for (at, client) in self.clients.iter().enumerate() {
            if client.link.is_none() {
                return Some(format!("client {at} is away"));
            }
            let open = client.asked.values().find(|asked| match &asked.op {
                Op::Wait(id) | Op::ListId(id, true) => self
                    .truth
                    .jobs
                    .get(id)
                    .is_none_or(|job| job.state == State::Inactive),
                _ => true,
            });
            if let Some(open) = open {
                return Some(format!("client {at} waits for an answer to {open:?}"));
            }
        }
        None
    }

    /// At any moment: job-info's lists are what the history makes up to where job-info is.
    pub(crate) fn list_agrees(&mut self) -> Outcome {
        let Some(info) = self
            .info
            .as_ref()
            .filter(|info| info.projection().is_live())
        else {
            return Ok(());
        };
        let applied = job::Seq(info.projection().applied());
        if applied > self.truth.newest() {
            let what = format!(
                "job-info is at {applied}, the store ends at {}",
                self.truth.newest()
            );
            return broken(Promise::Durable, what);
        }
        self.fold.go_to(applied, &self.truth);
        lists_agree(info.projection().jobs(), &self.fold.jobs, &self.truth)
    }

    /// The job-manager's jobs, job-info's lists and the history say the same.
    fn all_agree(&self) -> Outcome {
        let mut keys: BTreeMap<(u32, &str), JobId> = BTreeMap::new();
        let model = self.disk.model();
        for (id, row) in &model.jobs {
            let Some(key) = row.key.as_deref() else {
                continue;
            };
            if let Some(other) = keys.insert((row.userid, key), *id) {
                let what = format!("jobs {other} and {id} were submitted under one key, {key:?}");
                return broken(Promise::Unique, what);
            }
        }
        if let Some(broker) = &self.broker {
            for (id, job) in &self.truth.jobs {
                let held = broker.manager().job(*id);
                let expected = Some(job)
                    .filter(|job| job.state != State::Inactive && !self.truth.aside.contains(id));
                if held.map(without_seqs) != expected.map(without_seqs) {
                    let what = format!(
                        "job {id}: the job-manager has {held:?}, its events make {expected:?}"
                    );
                    return broken(Promise::Listed, what);
                }
            }
            let stats = broker.stats();
            let waits = self.clients.iter().flat_map(|client| client.asked.values());
            let waits = waits
                .filter(|asked| matches!(asked.op, Op::Wait(_)))
                .count();
            if stats.asked > waits
                || stats.conns
                    != self
                        .links
                        .values()
                        .filter(|link| !link.actor.is_direct())
                        .count()
            {
                let what = format!("{waits} requests wait, and the job-manager holds {stats:?}");
                return broken(Promise::Isolated, what);
            }
            if let Some(id) = self
                .truth
                .purged
                .keys()
                .find(|id| broker.manager().job(**id).is_some())
            {
                return broken(Promise::Listed, format!("job {id} was purged and is there"));
            }
        }
        if let Some(info) = &self.info {
            lists_agree(info.projection().jobs(), &self.truth.jobs, &self.truth)?;
            nodes_agree(info.projection().nodes(), &self.truth.resources)?;
            allocs_agree(info.projection().jobs(), &self.truth)?;
            let counted = info.projection().counters();
            // A purged job's entries are left out where the store is read, and come from memory: a stream that goes from one to the other may
            // have the later ones only. job-info begins anew then.
            let gaps = if self.ever_purged { 0 } else { counted.gaps };
            if counted.invalid + gaps > 0 {
                let what = format!("job-info met entries that make no sense: {counted:?}");
                return broken(Promise::Complete, what);
            }
        }
        Ok(())
    }
}

/// What was said of a run of allocations: from rank to rank.
type Said = (u32, u32, job::AllocStatus, Option<i32>);

/// A job but for the seqs of the entries that spoke of its allocations: only job-info keeps those.
fn without_seqs(job: &Job) -> (JobFields, Vec<Said>) {
    let mut fields: JobFields = (**job).clone();
    let said = fields.allocs.take();
    let runs = said.iter().flat_map(|said| said.runs());
    let runs = runs.map(|(first, last, said)| (first, last, said.status, said.wait_status));
    (fields, runs.collect())
}

/// The nodes are what the resource log says.
fn nodes_agree(nodes: &Nodes, truth: &Resources) -> Outcome {
    let differs = |what: String| broken(Promise::Listed, format!("job-info, nodes: {what}"));
    if let Some(fault) = nodes.fault() {
        return differs(fault.to_owned());
    }
    if nodes.resources().up() != truth.up() || nodes.known_len() != truth.nodes().count() {
        return differs(format!("{:?}, expected {truth:?}", nodes.resources()));
    }
    for view in truth.nodes() {
        let Some((_, node)) = nodes.by_rank(view.rank) else {
            return differs(format!("there is no row of {view:?}"));
        };
        let same = (&*node.name, node.up, node.drain.as_deref(), node.known)
            == (view.name.as_str(), view.up, view.drain, true);
        if !same {
            return differs(format!("{node:?}, expected {view:?}"));
        }
    }
    Ok(())
}

/// Each job has the allocations of its R, with the statuses that its events make.
fn allocs_agree(list: &Jobs, truth: &Truth) -> Outcome {
    for (id, job) in &truth.jobs {
        let Some(record) = list.get(*id) else {
            continue;
        };
        let allocs = Allocs::of(record, list.nodes());
        let has = job::allocs::implied(job).is_some();
        if allocs.is_empty() == has {
            let what = format!("job {id} has {} allocations", allocs.len());
            return broken(Promise::Listed, what);
        }
        for alloc in allocs.iter() {
            let expected = job::allocs::at(job, alloc.rank).map(|view| (view.status, view.stop));
            let name = list.nodes().get(alloc.node).map(|node| &*node.name);
            if Some((alloc.status, alloc.desired_stop)) != expected
                || name != Some(&*node_name(alloc.rank))
            {
                let what = format!("job {id}: {alloc:?} on {name:?}, expected {expected:?}");
                return broken(Promise::Listed, what);
            }
        }
    }
    Ok(())
}

/// Every row, the three orders and the counts are those of `jobs`. Jobs that cannot be read, or are purged by now,
/// may be there or not, and not be as they were.
pub(crate) fn lists_agree(list: &Jobs, jobs: &BTreeMap<JobId, Job>, truth: &Truth) -> Outcome {
    let counted = |id: &JobId| !truth.may_lack(*id);
    let there: BTreeMap<JobId, &Job> = jobs
        .iter()
        .filter(|(id, _)| counted(id))
        .map(|(id, job)| (*id, job))
        .collect();
    for (id, job) in &there {
        let row = list.get(*id).map(info::Record::job);
        if row != Some(*job) {
            let what = format!("job {id}: job-info shows {row:?}, its events make {job:?}");
            return broken(Promise::Listed, what);
        }
    }
    let order = |states: &[State], key: fn(&Job) -> (f64, u64)| -> Vec<JobId> {
        let mut jobs: Vec<&Job> = there
            .values()
            .copied()
            .filter(|job| states.contains(&job.state))
            .collect();
        jobs.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
        });
        jobs.iter().map(|job| job.id).collect()
    };
    let pending = order(&[State::Depend, State::Priority, State::Sched], |job| {
        (
            job.priority.map_or(0.0, |priority| f64::from(priority.0)),
            job.id.0,
        )
    });
    let running = order(&[State::Run, State::Cleanup], |job| {
        (when(job.t_run), u64::MAX - job.id.0)
    });
    let inactive = order(&[State::Inactive], |job| {
        (when(job.t_inactive), u64::MAX - job.id.0)
    });
    let shown: [Vec<JobId>; 3] = [
        list.pending().iter().map(|key| key.id()).collect(),
        list.running().iter().map(|key| key.id()).collect(),
        list.inactive().iter().map(|key| key.id()).collect(),
    ];
    let others: Vec<JobId> = shown
        .iter()
        .flatten()
        .copied()
        .filter(|id| !counted(id))
        .collect();
    if list.len() != there.len() + others.len() {
        let what = format!(
            "job-info has {} jobs, the history {}, and {} may be there",
            list.len(),
            there.len(),
            others.len()
        );
        return broken(Promise::Listed, what);
    }
    let shown = shown.map(|ids| ids.into_iter().filter(counted).collect::<Vec<JobId>>());
    let expected = [
        ("pending", pending),
        ("running", running),
        ("inactive", inactive),
    ];
    for ((name, expected), shown) in expected.into_iter().zip(shown) {
        if shown != expected {
            let what = format!("{name}: job-info lists {shown:?}, expected {expected:?}");
            return broken(Promise::Listed, what);
        }
    }
    for state in [
        State::Depend,
        State::Priority,
        State::Sched,
        State::Run,
        State::Cleanup,
        State::Inactive,
    ] {
        let other = others.iter().filter_map(|id| list.get(*id));
        let other = other.filter(|row| row.job().state == state).count();
        let expected = (there.values().filter(|job| job.state == state).count() + other) as u64;
        let shown = list.counts().all().state(state);
        if shown != expected {
            let what = format!("{state}: job-info counts {shown}, there are {expected}");
            return broken(Promise::Listed, what);
        }
    }
    Ok(())
}

fn when(at: job::MaybeTimestamp) -> f64 {
    at.get().map_or(0.0, |at| at.0)
}
