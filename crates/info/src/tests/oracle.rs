//! What the order of modification, the children, the allocations, the nodes and the notices of changes must agree with: the journal
//! folded one entry at a time into plain maps, everything looked at after every entry.

use std::collections::{BTreeMap, BTreeSet};

use job::{Event, EventKind, Idset, Job, JobId, R, Resources, Seq, State};
use proptest::prelude::*;
use serde_json::Value;

use super::{
    feed::{Sent, batch, fold, live},
    storm::{Act, act, config, entries},
};
use crate::{
    allocs::Allocs,
    changes::{Changes, JobChange, What},
    place::ModifyKey,
    projection::{Form, Projection},
    record::Status,
};

/// What one allocation is: how, whether it is to stop.
type Fate = (job::AllocStatus, bool);

#[derive(Debug, Clone)]
struct Known {
    job: Job,
    parent: Option<u64>,
    is_parent: bool,
    ranks: BTreeMap<u32, String>,
    create_seq: u64,
    modify_seq: u64,
    touched_seq: u64,
    stand: (Option<Status>, bool),
    fates: BTreeMap<u32, (Fate, u64)>,
}

impl Known {
    /// As issue 4 words it.
    fn status(&self) -> Option<Status> {
        match self.job.state {
            State::New => None,
            State::Inactive => Some(Status::Dead),
            _ if self.is_parent => Some(Status::Running),
            _ if self.job.has_resources || self.job.freed => Some(Status::Running),
            _ => Some(Status::Pending),
        }
    }

    fn stopped(&self) -> bool {
        let exception = self.job.exception.as_deref();
        exception.is_some_and(|shown| shown.severity == 0 && shown.kind == "cancel")
    }

    /// Brings up to date what is kept beside the job; which bits of a change that is.
    fn note(&mut self, seq: u64) -> What {
        let mut what = What::default();
        self.touched_seq = seq;
        let stand = (self.status(), self.stopped());
        if stand != self.stand {
            self.stand = stand;
            self.modify_seq = seq;
            what = what.and(What::STATUS);
        }
        if self.job.has_resources || self.job.freed {
            for &rank in self.ranks.keys() {
                let view = job::allocs::at(&self.job, rank).expect("it has resources");
                let fate = (view.status, view.stop);
                if self.fates.get(&rank).map(|known| known.0) != Some(fate) {
                    self.fates.insert(rank, (fate, seq));
                    what = what.and(What::ALLOCS);
                }
            }
        }
        what
    }
}

#[derive(Debug, Clone, PartialEq)]
struct NodeRow {
    rank: Option<u32>,
    up: bool,
    drained: Option<String>,
    pool: String,
    down_reason: Option<String>,
}

/// The journal, folded plainly.
#[derive(Debug, Clone, Default)]
pub(super) struct Oracle {
    jobs: BTreeMap<u64, Known>,
    aside: BTreeSet<u64>,
    resources: Resources,
    nodes: BTreeMap<String, (NodeRow, u64)>,
    /// Entries that changed the children of a job.
    family_seq: BTreeMap<u64, u64>,
    /// Since this was last emptied.
    what: BTreeMap<u64, What>,
    changed_nodes: BTreeSet<String>,
}

impl Oracle {
    pub(super) fn of(entries: &[Sent]) -> Self {
        let mut oracle = Self::default();
        for sent in entries {
            oracle.take(sent);
        }
        oracle
    }

    fn take(&mut self, sent: &Sent) {
        let value: Value = serde_json::from_str(&sent.json).expect("JSON");
        let seq = value["seq"].as_u64().expect("a seq");
        let event = Event::parse(value["entry"].to_string().as_bytes()).expect("an event");
        match (value["id"].as_u64(), value["log"].as_str()) {
            (Some(id), _) if !self.aside.contains(&id) => {
                let fits = self.take_of_job(id, seq, &event, &value);
                if !fits {
                    self.aside.insert(id);
                    self.remove(id, seq);
                }
            }
            (_, Some("resource")) => {
                let _change = self.resources.apply(Seq(seq), &event).expect("it fits");
                self.note_nodes(seq, &value["entry"]);
            }
            (_, Some("system")) => {
                for id in value["entry"]["context"]["jobs"].as_array().expect("jobs") {
                    self.remove(id.as_u64().expect("an id"), seq);
                }
            }
            _ => {}
        }
    }

    fn take_of_job(&mut self, id: u64, seq: u64, event: &Event, value: &Value) -> bool {
        if let (EventKind::Submit { .. }, false) = (&event.kind, self.jobs.contains_key(&id)) {
            let job = Job::new(JobId(id), event).expect("a submit");
            let weir = &value["jobspec"]["attributes"]["system"]["weir"];
            let known = Known {
                job,
                parent: weir["parent"].as_u64(),
                is_parent: weir["parameterized"].is_object(),
                ranks: BTreeMap::new(),
                create_seq: seq,
                modify_seq: seq,
                touched_seq: seq,
                stand: (None, false),
                fates: BTreeMap::new(),
            };
            self.jobs.insert(id, known);
            self.what.insert(id, What::default());
            return true;
        }
        let Some(known) = self.jobs.get_mut(&id) else {
            return false;
        };
        if known.job.apply_at(event, Seq(seq)).is_err() {
            return false;
        }
        if value["R"].is_object() {
            let r = R::parse(value["R"].to_string().as_bytes()).expect("an R");
            let nodes = r.nodes();
            known.ranks = nodes
                .iter()
                .map(|node| (node.rank, node.host.clone()))
                .collect();
            for node in nodes {
                self.nodes.entry(node.host).or_insert_with_key(|name| {
                    self.changed_nodes.insert(name.clone());
                    let row = NodeRow {
                        rank: None,
                        up: false,
                        drained: None,
                        pool: "default".into(),
                        down_reason: None,
                    };
                    (row, seq)
                });
            }
        }
        let before = known.stand;
        let what = known.note(seq);
        let (parent, after) = (known.parent, known.stand);
        let noted = self.what.entry(id).or_default();
        *noted = noted.and(what);
        if let Some(parent) = parent.filter(|_| before != after) {
            self.family(parent, seq);
        }
        true
    }

    fn family(&mut self, parent: u64, seq: u64) {
        self.family_seq.insert(parent, seq);
        if self.jobs.contains_key(&parent) {
            let noted = self.what.entry(parent).or_default();
            *noted = noted.and(What::CHILDREN);
        }
    }

    fn remove(&mut self, id: u64, seq: u64) {
        let Some(known) = self.jobs.remove(&id) else {
            return;
        };
        self.what.insert(id, What::REMOVED);
        if let (Some(parent), Some(_)) = (known.parent, known.stand.0) {
            self.family(parent, seq);
        }
    }

    fn note_nodes(&mut self, seq: u64, entry: &Value) {
        let said = &entry["context"]["idset"];
        let said: Idset = said.as_str().unwrap_or_default().parse().expect("ranks");
        let mut now: BTreeMap<String, NodeRow> = BTreeMap::new();
        for view in self.resources.nodes() {
            let row = NodeRow {
                rank: Some(view.rank),
                up: view.up,
                drained: view.drain.map(|drain| drain.reason.to_string()),
                pool: view.pool.unwrap_or("default").to_owned(),
                down_reason: match entry["name"].as_str() {
                    _ if view.up => None,
                    Some("offline") if said.contains(view.rank) => Some("gone".into()),
                    _ => self
                        .nodes
                        .get(&view.name)
                        .and_then(|(known, _)| known.down_reason.clone()),
                },
            };
            now.insert(view.name, row);
        }
        for (name, (known, at)) in &mut self.nodes {
            let row = now.remove(name).unwrap_or_else(|| NodeRow {
                rank: None,
                up: false,
                drained: None,
                pool: known.pool.clone(),
                down_reason: None,
            });
            if row != *known {
                (*known, *at) = (row, seq);
                self.changed_nodes.insert(name.clone());
            }
        }
        for (name, row) in now {
            self.changed_nodes.insert(name.clone());
            self.nodes.insert(name, (row, seq));
        }
    }

    /// Whether the projection says the same.
    pub(super) fn check(&self, projection: &Projection) {
        let jobs = projection.jobs();
        assert_eq!(jobs.len(), self.jobs.len());
        let mut by_modify: Vec<(u64, u64)> = Vec::new();
        let mut families: BTreeMap<u64, Vec<(u64, Status)>> = BTreeMap::new();
        for (&id, known) in &self.jobs {
            let record = jobs.get(JobId(id)).expect("the job");
            assert_eq!(record.create_seq(), known.create_seq, "{id}");
            assert_eq!(record.touched_seq(), known.touched_seq, "{id}");
            assert_eq!(
                (record.status(), record.is_stopped()),
                known.stand,
                "{id}: {:?}",
                known.job
            );
            assert_eq!(record.parent().map(|id| id.0), known.parent);
            if let (Some(status), _) = known.stand {
                assert_eq!(record.modify_seq(), known.modify_seq, "{id}");
                by_modify.push((known.modify_seq, id));
                if let Some(parent) = known.parent {
                    families.entry(parent).or_default().push((id, status));
                }
            }
            self.check_allocs(known, projection);
        }
        let ids: Vec<u64> = by_modify.iter().map(|(_, id)| *id).collect();
        let in_order = || jobs.in_id_order().iter();
        assert!(in_order().map(|key| key.id().0).eq(ids));
        assert!(
            in_order()
                .map(|key| jobs.record(key.slot()).map(|record| record.id()))
                .eq(in_order().map(|key| Some(key.id())))
        );
        by_modify.sort_unstable();
        let order = jobs.by_modify();
        let id_of = |key: &ModifyKey| jobs.record(key.slot()).expect("a record").id().0;
        let met: Vec<(u64, u64)> = order.iter().map(|key| (key.seq(), id_of(key))).collect();
        assert_eq!(met, by_modify);
        let twice: BTreeSet<u64> = by_modify.iter().map(|(seq, _)| *seq).collect();
        assert_eq!(
            twice.len(),
            by_modify.len(),
            "no two jobs have the same seq"
        );
        for (at, (seq, _)) in by_modify.iter().enumerate() {
            assert_eq!(order.before(&ModifyKey::seek(*seq)), at);
            let down: Vec<u64> = order.iter_down(at + 1).map(|key| key.seq()).collect();
            let expected = by_modify[..=at].iter().rev().map(|(seq, _)| *seq);
            assert!(down.into_iter().eq(expected));
        }
        for (&parent, &seq) in &self.family_seq {
            let expected = families.remove(&parent).unwrap_or_default();
            let Some(children) = jobs.children(JobId(parent)) else {
                // None is left, or the list was built when there was none any more.
                assert!(expected.is_empty());
                continue;
            };
            let met: Vec<(u64, Status)> = children
                .iter()
                .map(|(id, child)| {
                    assert_eq!(jobs.record(child.slot).expect("a record").id(), id);
                    (id.0, child.status)
                })
                .collect();
            assert_eq!(met, expected);
            assert!(children.changed_seq() <= seq);
            let newest = expected
                .iter()
                .map(|(id, _)| self.jobs[id].modify_seq)
                .max();
            assert!(children.changed_seq() >= newest.unwrap_or(0));
            for status in Status::ALL {
                let count = expected.iter().filter(|(_, met)| *met == status).count();
                assert_eq!(children.count(status) as usize, count);
            }
        }
        assert!(families.is_empty());
        self.check_nodes(projection);
    }

    fn check_allocs(&self, known: &Known, projection: &Projection) {
        let record = projection.jobs().get(known.job.id).expect("the job");
        let nodes = projection.nodes();
        let allocs = Allocs::of(record, nodes);
        let has = known.job.has_resources || known.job.freed;
        let expected: Vec<(&u32, &String)> = known.ranks.iter().filter(|_| has).collect();
        assert_eq!(
            (allocs.len(), allocs.iter().count()),
            (expected.len(), expected.len())
        );
        for (alloc, (&rank, host)) in allocs.iter().zip(expected) {
            assert_eq!(alloc.rank, rank);
            assert_eq!(
                nodes.get(alloc.node).map(|node| &*node.name),
                Some(host.as_str())
            );
            let view = job::allocs::at(&known.job, rank).expect("it has resources");
            let (fate, seq) = known.fates[&rank];
            assert_eq!((alloc.status, alloc.desired_stop), fate);
            assert_eq!(alloc.wait_status, view.wait_status);
            assert_eq!(
                alloc.reason.map(str::to_owned),
                view.reason.map(|why| why.to_string())
            );
            assert!(alloc.modified.seq >= seq, "{alloc:?}: it changed at {seq}");
            assert!(alloc.created.seq <= alloc.modified.seq);
            assert_eq!(allocs.get(rank), Some(alloc));
        }
        assert!(allocs.get(7777).is_none());
    }

    fn check_nodes(&self, projection: &Projection) {
        let nodes = projection.nodes();
        assert_eq!(nodes.fault(), None);
        for (name, (row, _)) in &self.nodes {
            let Some(node) = nodes.by_name(name) else {
                // A list that was built anew knows nothing of one that is announced no more and that no job is on.
                assert!(row.rank.is_none());
                continue;
            };
            assert_eq!(
                (node.rank, node.known),
                (row.rank, row.rank.is_some()),
                "{name}"
            );
            if node.known {
                let drained = node.drain.as_ref().map(|drain| drain.reason.to_string());
                assert_eq!((node.up, &drained), (row.up, &row.drained), "{name}");
                assert_eq!(*node.pool, *row.pool);
            }
        }
        let known = self.nodes.values().filter(|(row, _)| row.rank.is_some());
        assert_eq!(nodes.known_len(), known.count());
        for (rank, name) in self.resources.nodes().map(|view| (view.rank, view.name)) {
            let (at, node) = nodes.by_rank(rank).expect("a node of this rank");
            assert_eq!((&*node.name, nodes.find(&name)), (name.as_str(), Some(at)));
        }
        for name in self.nodes.keys() {
            let on: Vec<u64> = projection
                .jobs()
                .on_node(name)
                .map(|job| job.id().0)
                .collect();
            let expected = self.jobs.iter().filter(|(_, known)| {
                let ran = known.job.t_run.is_some();
                ran && known.ranks.values().any(|host| host == name)
            });
            assert_eq!(
                on.into_iter().collect::<BTreeSet<_>>(),
                expected.map(|(id, _)| *id).collect()
            );
        }
    }

    /// The children of a job, and when each last changed.
    fn children(&self, parent: u64) -> Vec<(u64, u64)> {
        let all = self
            .jobs
            .iter()
            .filter(|(_, known)| known.parent == Some(parent));
        all.filter_map(|(&id, _)| Some((id, self.key(id)?)))
            .collect()
    }

    fn key(&self, id: u64) -> Option<u64> {
        let known = self.jobs.get(&id)?;
        known.stand.0.map(|_| known.modify_seq)
    }
}

/// What is told of one fold, against what happened in it.
fn check_changes(before: &Oracle, after: &Oracle, told: &Changes) {
    assert!(!told.reset);
    let met: BTreeMap<u64, JobChange> = told.jobs.iter().map(|one| (one.id.0, *one)).collect();
    assert_eq!(met.len(), told.jobs.len(), "one change a job a fold");
    for (&id, &what) in &after.what {
        let (was, is) = (before.key(id), after.key(id));
        // One that came and went again in this fold is no news.
        let family = before.children(id) != after.children(id);
        let Some(change) = met.get(&id) else {
            let unlisted = was.is_none() && is.is_none();
            assert!(
                unlisted || what == What::CHILDREN && !family,
                "{id}: {what:?} is not told"
            );
            continue;
        };
        assert_eq!(change.before.map(ModifyKey::seq), was, "{id}");
        assert_eq!(change.after.map(ModifyKey::seq), is, "{id}");
        let told = change.what;
        assert_eq!(told.contains(What::CREATED), was.is_none(), "{id}");
        assert_eq!(told.contains(What::REMOVED), is.is_none(), "{id}");
        if is.is_some() {
            assert_eq!(told.contains(What::STATUS), was != is, "{id}: {told:?}");
            assert_eq!(told.contains(What::CHILDREN), family, "{id}");
            if what.contains(What::ALLOCS) {
                assert!(told.contains(What::ALLOCS), "{id}");
            }
        }
        assert!(change.seq > told_from(before) && told.0 != 0);
    }
    assert!(met.keys().all(|id| after.what.contains_key(id)));
    let nodes: BTreeSet<String> = told
        .nodes
        .iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(nodes, after.changed_nodes);
}

fn told_from(before: &Oracle) -> u64 {
    before
        .jobs
        .values()
        .map(|known| known.touched_seq)
        .max()
        .unwrap_or(0)
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn what_is_told_of_a_fold_is_what_happened_in_it(
        acts in proptest::collection::vec(act(), 1..250),
        sizes in proptest::collection::vec(1usize..40, 1..8),
    ) {
        let entries = entries(&acts);
        let mut projection = live();
        projection.watch_changes(true);
        let mut oracle = Oracle::default();
        let (mut rest, mut seq) = (&entries[..], 0);
        let mut sizes = sizes.iter().cycle();
        while !rest.is_empty() {
            let size = sizes.next().copied().unwrap_or(1).clamp(1, rest.len());
            let (now, later) = rest.split_at(size);
            rest = later;
            let before = oracle.clone();
            (oracle.what, oracle.changed_nodes) = Default::default();
            for sent in now {
                oracle.take(sent);
            }
            let from = seq;
            seq += size as u64;
            let _ = fold(&mut projection, &batch(now, &format!("\"seq\":{seq}")));
            let told = projection.take_changes();
            prop_assert_eq!((told.from_seq, told.to_seq), (from, seq));
            check_changes(&before, &oracle, &told);
            prop_assert!(projection.take_changes().is_empty());
            // Sent once more it changes nothing, and nothing is told.
            let _ = fold(&mut projection, &batch(now, &format!("\"seq\":{seq}")));
            let again = projection.take_changes();
            prop_assert!(again.is_empty(), "{:?}", again);
        }
        oracle.check(&projection);
    }

    #[test]
    fn in_flux_form_the_seqs_are_those_of_the_entries_as_they_came(
        acts in proptest::collection::vec(act(), 1..200),
        backlog in 0usize..200,
    ) {
        // What Flux's journal has no words for, or passes over by rules of its own.
        let foreign = |act: &Act| matches!(act, Act::Purge { .. } | Act::Damage { .. } | Act::Node { .. });
        let acts: Vec<Act> = acts.into_iter().filter(|act| !foreign(act)).collect();
        let entries = entries(&acts);
        let mut projection = Projection::new();
        projection.begin_fresh(Form::Flux);
        let caught_up = |projection: &mut Projection| {
            let folded = projection.fold_flux(br#"{"id":-1,"events":[]}"#, &mut |_| {});
            assert!(folded.expect("a message").swapped);
        };
        for (at, sent) in entries.iter().enumerate() {
            if at == backlog {
                caught_up(&mut projection);
            }
            let value: Value = serde_json::from_str(&sent.json).expect("JSON");
            let mut message = serde_json::json!({"id": value["id"], "events": [value["entry"]]});
            for key in ["jobspec", "R"] {
                if value[key].is_object() {
                    message[key] = value[key].clone();
                }
            }
            let folded = projection.fold_flux(message.to_string().as_bytes(), &mut |_| {});
            prop_assert!(folded.is_ok());
        }
        if backlog >= entries.len() {
            caught_up(&mut projection);
        }
        prop_assert_eq!(projection.applied(), entries.len() as u64);
        Oracle::of(&entries).check(&projection);
    }

    #[test]
    fn a_set_of_ranks_is_one_segment_for_each_thing_that_is_said_of_it(
        reports in proptest::collection::vec((0u32..64, 1u32..16, 0usize..6), 0..12),
    ) {
        let mut feed = super::feed::Feed::default();
        let mut projection = live();
        let mut sent = feed.submit(1, 1, 16, &super::feed::spec("x", None));
        sent.push(feed.alloc_on(1, "0-79"));
        sent.push(feed.entry(1, "start", "", ""));
        for (first, len, status) in &reports {
            let ranks = Idset::from_range(*first, first + len - 1);
            let status = job::AllocStatus::ALL[*status];
            let context = format!(r#"{{"allocs":[{{"ranks":"{ranks}","status":"{status}"}}]}}"#);
            sent.push(feed.entry(1, "alloc-status", &context, ""));
        }
        super::feed::play(&mut projection, &sent);
        let oracle = Oracle::of(&sent);
        oracle.check(&projection);
        prop_assert_eq!(oracle.jobs[&1].ranks.len(), 80);
    }
}
