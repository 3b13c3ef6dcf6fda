//! `job-list.job-stats`, once or followed, and `stats-get` of both services.
//!
//! A followed `job-stats` is answered at once, then again whenever a job changed, at most every [`STATS_INTERVAL`]. Followers are
//! told in rounds, so that a batch costs the same however many there are.

use std::time::{Duration, Instant};

use info::Group;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::json;
use wire::{errno, json_payload};

use crate::{
    core::Info,
    peer::{Caller, Refusal},
    streams::{Body, Step},
};

/// Shortest time between two answers of one followed `job-stats`.
pub(crate) const STATS_INTERVAL: Duration = Duration::from_millis(200);

/// Most jobs set aside that `stats-get` names.
const ASIDE_NAMED_MAX: usize = 32;

/// A followed `job-stats`.
#[derive(Debug, Default)]
pub(crate) struct StatsWatch {
    /// When it was answered last, and the revision it was shown.
    sent: Option<(Instant, u64)>,
}

struct Answer<'a>(&'a Info);

impl Serialize for Answer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.projection.jobs().counts().entries(&mut map)?;
        map.serialize_entry("seq", &self.0.projection.applied())?;
        if let Some(age) = self.0.stale_seconds() {
            map.serialize_entry("stale", &age)?;
        }
        map.end()
    }
}

impl Info {
    pub(crate) fn job_stats(&mut self, caller: &Caller) -> Result<(), Refusal> {
        self.refuse_private(caller)?;
        if caller.request.is_streaming() {
            return self
                .open(caller, Body::Stats(StatsWatch::default()))
                .map(|id| {
                    self.stats_watchers.insert(id);
                });
        }
        self.out.respond(caller, Some(json_payload(&Answer(self))));
        Ok(())
    }

    fn refuse_private(&self, caller: &Caller) -> Result<(), Refusal> {
        if self.config.private && !caller.cred().is_owner() {
            return Err(Refusal::bare(errno::EPERM));
        }
        Ok(())
    }

    pub(crate) fn step_stats(
        &mut self,
        caller: &Caller,
        watch: &mut StatsWatch,
        now: Instant,
    ) -> Step {
        match watch.sent {
            Some((_, revision)) if revision == self.stats_revision => {}
            Some((sent, _)) if now.duration_since(sent) < STATS_INTERVAL => {
                self.stats_due_at(sent + STATS_INTERVAL);
            }
            _ => {
                self.out.respond(caller, Some(json_payload(&Answer(self))));
                watch.sent = Some((now, self.stats_revision));
            }
        }
        Step::Idle
    }

    fn stats_due_at(&mut self, at: Instant) {
        self.stats_due = Some(self.stats_due.map_or(at, |due| due.min(at)));
    }

    /// Something changed: followers get another answer, each in its time.
    pub(crate) fn stats_changed(&mut self, now: Instant) {
        self.stats_revision += 1;
        if !self.stats_watchers.is_empty() {
            let round = self.stats_told.map(|told| told + STATS_INTERVAL);
            self.stats_due_at(round.map_or(now, |round| round.max(now)));
        }
    }

    /// The time of some follower has come.
    pub(crate) fn stats_tick(&mut self, now: Instant) {
        if self.stats_due.is_none_or(|due| due > now) {
            return;
        }
        self.stats_due = None;
        self.stats_told = Some(now);
        for id in self.stats_watchers.clone() {
            self.streams.wake(id);
        }
    }

    pub(crate) fn list_stats_get(&self, caller: &Caller) -> Result<(), Refusal> {
        self.refuse_private(caller)?;
        let jobs = self.projection.jobs();
        let counters = self.projection.counters();
        let aside = jobs.set_aside();
        let named: Vec<_> = aside
            .iter()
            .take(ASIDE_NAMED_MAX)
            .map(|(id, why)| json!({"id": id, "why": why.to_string()}))
            .collect();
        let mut answer = json!({
            "jobs": {
                "pending": jobs.group_len(Group::Pending),
                "running": jobs.group_len(Group::Running),
                "inactive": jobs.group_len(Group::Inactive),
            },
            "idsync": {"lookups": self.id_lookups, "waits": self.waiters.taken()},
            "stats_watchers": self.stats_watchers.len(),
            "seq": self.projection.applied(),
            "live": self.projection.is_live(),
            "journal": {
                "batches": counters.batches,
                "events": counters.events,
                "duplicates": counters.duplicates,
                "unknown": counters.unknown,
                "invalid": counters.invalid,
                "aside": counters.aside,
                "poisonings": self.poisonings,
                "gaps": counters.gaps,
                "rebuilds": counters.rebuilds,
                "reorder_passes": counters.reorder_passes,
                "moves": counters.moves,
            },
            "requests": self.requests,
            "held": self.hold.len(),
            "waiting": self.waiters.len(),
            "streams": self.streams.len(),
            "listings": {"ids": self.shares.ids(), "dropped": self.listings_dropped},
            "connects": self.link.attempts,
            "heap_bytes": jobs.heap_bytes(),
            "set_aside": {"count": aside.len(), "jobs": named},
        });
        let nodes = self.projection.nodes();
        let known = nodes.known_len();
        answer["nodes"] = json!({"known": known, "others": nodes.len() - known});
        if let Some(fault) = nodes.fault() {
            answer["nodes"]["fault"] = json!(fault);
        }
        if let Some(age) = self.stale_seconds() {
            answer["stale"] = json!(age);
        }
        if let Some(reason) = &self.poison {
            answer["journal"]["poisoned"] = json!(reason);
        }
        self.out.respond(caller, Some(json_payload(&answer)));
        Ok(())
    }

    pub(crate) fn info_stats_get(&mut self, caller: &Caller) {
        let (mut watchers, mut guests, mut updates) = (0, 0, 0);
        for (_, stream) in self.streams.iter_mut() {
            match stream.body {
                Body::Log(_) => watchers += 1,
                Body::Guest(_) => guests += 1,
                Body::Update(_) => updates += 1,
                Body::Listing(_) | Body::Stats(_) | Body::Lookup(_) | Body::Row(_) => {}
            }
        }
        let answer = json!({
            "lookups": self.lookups,
            "watchers": watchers,
            "guest_watchers": guests,
            "update_lookups": self.update_lookups,
            "update_watchers": updates,
            "calls": self.link.calls_len(),
            "waiting_watchers": self.fetch_queue.len(),
            "guest_reads": self.reads.len(),
        });
        self.out.respond(caller, Some(json_payload(&answer)));
    }
}
