//! The manager: its state, its only door, and how a turn ends.
//!
//! ```text
//!  handle ─▶ decide, or take a report ─▶ post* ─▶ settle (react) ─▶ offer (scheduler) ─▶ Commit, then what rests on it
//! ```
//! Invariants: a job changes only in [`Manager::post`] (through `Job::apply`); seqs are given only there and in `post_system`, without a gap;
//! one input makes at most one [`Commit`]; everything else waits in [`Pending`] for the newest seq of its turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use job::{
    Attach, Change, Entry, Event, EventKind, IdGen, Invalid, Job, JobFlags, JobId, Resources, Seq,
    Source, State, Timestamp,
};

use crate::action::{Action, Commit, Refusal};
use crate::decide::dispatch::WAITS_FOR_DISPATCH;
use crate::decide::memo;
use crate::decide::shutdown::Shutdown;
use crate::decide::wait::Waits;
use crate::dispatches::Dispatches;
use crate::engine::{ExecLink, SchedLink};
use crate::idmap::IdMap;
use crate::input::{Config, Input, Recovered, StoredJob, Token};
use crate::keys::Keys;
use crate::known::Known;
use crate::no_space::WithoutRoom;
use crate::nodes::{self, META_RESOURCES};
use crate::pending::Pending;
use crate::purge::Purges;
use crate::queue::Queue;
use crate::queues::{self, Queues};
use crate::record::{Owed, Record};
use crate::specs::Specs;
use crate::stats::Stats;
use crate::turn::Turn;

/// Meta key: what the millisecond part of ids counts from, seconds since 1970.
pub(crate) const META_EPOCH_BASE: &str = "epoch-base";
/// Meta key: state of the queues, JSON.
pub(crate) const META_QUEUES: &str = "queues";
/// Meta key: how many entries the system log has.
pub(crate) const META_SYSTEM_LOG: &str = "system-log";

/// The job-manager's core.
#[derive(Debug)]
pub struct Manager {
    pub(crate) config: Config,
    /// Never goes back.
    pub(crate) now: Timestamp,
    pub(crate) seq: Seq,
    pub(crate) system_log: u32,
    pub(crate) ids: IdGen,
    /// What ids count from; none before the first start.
    pub(crate) epoch_base: Option<Timestamp>,
    pub(crate) epoch_base_stored: bool,
    /// Active jobs. Boxed: a table that doubles moves pointers, not a million records.
    pub(crate) jobs: IdMap<Box<Record>>,
    /// Waitable jobs that ended and were not waited for.
    pub(crate) zombies: BTreeMap<JobId, Box<Job>>,
    /// R of every job that holds resources, without `scheduling`.
    pub(crate) resources: BTreeMap<JobId, Bytes>,
    /// How many active jobs are in each state, by bit number.
    pub(crate) in_state: [usize; 7],
    pub(crate) queue: Queue,
    pub(crate) queues: Queues,
    pub(crate) known: Known,
    pub(crate) keys: Keys,
    pub(crate) specs: Specs,
    /// Parameterized jobs that are active.
    pub(crate) parents: BTreeSet<JobId>,
    pub(crate) dispatches: Dispatches,
    /// The nodes of the instance.
    pub(crate) nodes: Resources,
    /// What of the store's meta could not be read.
    pub(crate) faults: Vec<String>,
    pub(crate) sched: SchedLink,
    pub(crate) exec: Option<ExecLink>,
    pub(crate) waits: Waits,
    pub(crate) shutdown: Shutdown,
    pub(crate) purges: Purges,
    pub(crate) pending: Pending,
    pub(crate) turn: Turn,
    pub(crate) stats: Stats,
    /// The store has no room; so many reports were taken since.
    pub(crate) no_space: Option<usize>,
}

/// A job of the store that cannot be taken up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// It has no entries.
    #[error("job {id} has no events")]
    NoEvents {
        /// The job.
        id: JobId,
    },
    /// An entry does not fit the ones before.
    #[error("job {id}: event {at} does not fit: {why}")]
    Event {
        /// The job.
        id: JobId,
        /// Which entry, from 1.
        at: usize,
        /// What does not fit.
        why: Invalid,
    },
    /// It holds resources, but which is not stored.
    #[error("job {id} holds resources but has no R")]
    NoR {
        /// The job.
        id: JobId,
    },
}

impl Manager {
    /// A manager that goes on where the store ends. Give it the stored jobs, then [`Input::Start`].
    #[must_use]
    pub fn new(config: Config, recovered: Recovered) -> Manager {
        let meta: HashMap<String, String> = recovered.meta.into_iter().collect();
        let epoch_base = meta
            .get(META_EPOCH_BASE)
            .and_then(|text| text.parse().ok())
            .map(Timestamp)
            .filter(|base| base.is_valid());
        let (queues, closed) = queues::restored(meta.get(META_QUEUES));
        let (nodes, unknown) = nodes::from_meta(meta.get(META_RESOURCES), recovered.newest_seq);
        Manager {
            config,
            now: recovered.last_timestamp,
            seq: recovered.newest_seq,
            system_log: meta
                .get(META_SYSTEM_LOG)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            ids: IdGen::after(recovered.max_jobid),
            epoch_base,
            epoch_base_stored: epoch_base.is_some(),
            jobs: IdMap::default(),
            zombies: BTreeMap::new(),
            resources: BTreeMap::new(),
            in_state: [0; 7],
            queue: Queue::default(),
            queues,
            known: Known::default(),
            keys: Keys::default(),
            specs: Specs::default(),
            parents: BTreeSet::new(),
            dispatches: Dispatches::default(),
            nodes,
            faults: closed.into_iter().chain(unknown).collect(),
            sched: SchedLink::default(),
            exec: None,
            waits: Waits::default(),
            shutdown: Shutdown::default(),
            purges: Purges::restored(meta.iter()),
            pending: Pending::new(recovered.newest_seq),
            turn: Turn::default(),
            stats: Stats::default(),
            no_space: None,
        }
    }

    /// Takes up a stored job: every active one, and every inactive one whose result may still be waited for. Before [`Input::Start`].
    /// # Errors
    /// [`Damaged`]: the job is left out, the manager is as before; the others can still be taken up.
    pub fn restore_job(&mut self, stored: StoredJob<'_>) -> Result<(), Damaged> {
        let id = stored.id;
        let (first, rest) = stored
            .events
            .split_first()
            .ok_or(Damaged::NoEvents { id })?;
        let mut job = Job::new(id, first).map_err(|why| Damaged::Event { id, at: 1, why })?;
        for (at, event) in rest.iter().enumerate() {
            let _ = job.apply(event).map_err(|why| Damaged::Event {
                id,
                at: at + 2,
                why,
            })?;
        }
        if job.state == State::Inactive {
            self.known.restore(id, job.userid);
            if job.flags.contains(JobFlags::WAITABLE) {
                self.zombies.insert(id, Box::new(job));
            }
            return Ok(());
        }
        if job.has_resources {
            let r = stored.r.ok_or(Damaged::NoR { id })?;
            self.resources
                .insert(id, crate::engine::without_scheduling(r));
        }
        self.known.restore(id, job.userid);
        self.count(job.state, 1);
        let waits_for = |all: &[String]| all.iter().any(|one| one == WAITS_FOR_DISPATCH);
        if job
            .dependencies
            .as_deref()
            .is_some_and(|all| waits_for(all))
        {
            self.parents.insert(id);
        }
        let jobspec = self.specs.take(stored.jobspec);
        self.waits.add_job(&job);
        let memos = stored.events.iter().filter_map(|event| match &event.kind {
            EventKind::Memo { memo } => Some(memo::bytes_of(memo)),
            _ => None,
        });
        let memo_bytes = u32::try_from(memos.sum::<usize>()).unwrap_or(u32::MAX);
        let record = Record {
            memo_bytes,
            ..Record::restored(job, jobspec)
        };
        self.jobs.insert(id, Box::new(record));
        Ok(())
    }

    /// What of the store could not be read and is not as it was, one line each, with the remedy.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    /// Makes an ended job known, so that it is told from one that never was. In any order; before [`Input::Start`].
    pub fn restore_inactive(&mut self, id: JobId, userid: u32) {
        self.known.restore(id, userid);
    }

    /// The only door: takes what happened, appends what is to be done. `now` may stand still or go back; the manager's time does not.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Action>) {
        if now.is_valid() {
            self.now = self.now.later_of(now);
        }
        match input {
            Input::Durable(seq) => return self.pending.durable(seq, out),
            // What was owed when the last life ended is taken up by the next input: a start posts nothing.
            Input::Start => {
                self.start();
                return self.flush(out);
            }
            Input::Request(call) => self.request(call),
            Input::ServiceResponse(report) => self.report(report),
            Input::ServiceResponses(reports) => {
                reports.into_iter().for_each(|report| self.report(report))
            }
            Input::Disconnect { sender } => self.disconnect(sender),
            Input::NoSpace(full) => {
                self.no_space = full.then_some(0);
                if full {
                    self.pending.no_room(out);
                    self.refuse_keys();
                    self.refuse_dispatches();
                }
            }
            Input::Read { token } => self.effect(Action::Ready(token)),
            Input::KeysFound(found) => self.keys_found(found),
            Input::JRead { id, j } => self.j_read(id, j),
            Input::Found(found) => self.found(found),
            Input::Swept { batch, left } => {
                self.swept(batch, left);
                self.search();
            }
            Input::Tick => {
                self.look_after_purges();
                self.search();
            }
        }
        self.settle_all();
        self.flush(out);
    }

    /// The newest seq given out. It may not be durable yet.
    #[must_use]
    pub fn newest_seq(&self) -> Seq {
        self.seq
    }

    /// How many actions wait for the disk: answers, and the messages that requests made.
    #[must_use]
    pub fn held(&self) -> usize {
        self.pending.len()
    }

    /// An active job, as its events make it.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|record| &record.job)
    }

    /// Whether a job of this id was ever submitted.
    #[must_use]
    pub fn is_known(&self, id: JobId) -> bool {
        self.known.contains(id)
    }

    fn start(&mut self) {
        self.known.sort();
        self.epoch_base.get_or_insert(self.now);
        let Manager {
            jobs, queue, turn, ..
        } = self;
        for (id, record) in jobs.iter_mut() {
            let place = record.wanted_place();
            queue.shift(*id, record.place, place);
            record.place = place;
            if record.owed(false) != Owed::Nothing {
                turn.touched.push(*id);
            }
        }
        self.turn.touched.sort_unstable();
    }

    /// Ends a turn: the commit at once, the rest when it is durable.
    fn flush(&mut self, out: &mut Vec<Action>) {
        let nodes_meta = self.nodes_meta();
        let turn = &mut self.turn;
        self.stats.reorder_passes += u64::from(std::mem::take(&mut turn.reordered));
        out.append(&mut turn.at_once);
        if !turn.entries.is_empty() {
            let mut meta = std::mem::take(&mut self.purges.meta);
            meta.append(&mut turn.meta);
            meta.extend(nodes_meta);
            if !self.epoch_base_stored {
                self.epoch_base_stored = true;
                meta.extend(
                    self.epoch_base
                        .map(|base| (META_EPOCH_BASE.to_owned(), base.to_string())),
                );
            }
            self.stats.commits += 1;
            self.stats.entries += turn.entries.len() as u64;
            let (entries, jobs) = (
                std::mem::take(&mut turn.entries),
                std::mem::take(&mut turn.writes),
            );
            out.push(Action::Commit(Commit {
                entries,
                jobs,
                meta,
            }));
        }
        let stuck = self.no_space.is_some() && self.pending.newest_durable() < self.seq;
        for (effect, without_room) in turn.effects.drain(..) {
            match without_room.said(&effect).filter(|_| stuck) {
                Some(said) => out.push(said),
                None => self.pending.give(self.seq, effect, without_room, out),
            }
        }
    }

    /// Asks for something that rests on what this turn posts.
    pub(crate) fn effect(&mut self, action: Action) {
        self.turn.effects.push((action, WithoutRoom::Waits));
    }

    /// Answers a request for good; `without_room`: what becomes of the answer when the disk is full.
    pub(crate) fn respond_or(
        &mut self,
        token: Token,
        result: Result<Option<Bytes>, Refusal>,
        without_room: WithoutRoom,
    ) {
        let answer = Action::Respond {
            token,
            result,
            last: true,
        };
        self.turn.effects.push((answer, without_room));
    }

    /// Answers a request for good.
    pub(crate) fn respond(&mut self, token: Token, result: Result<Option<Bytes>, Refusal>) {
        self.effect(Action::Respond {
            token,
            result,
            last: true,
        });
    }

    /// Posts an event of an active job: applies it, gives it the next seq, notes that the job may owe something.
    /// # Errors
    /// [`Invalid`]: it does not fit; nothing happened. Reports that come late or twice end here.
    pub(crate) fn post(
        &mut self,
        id: JobId,
        kind: EventKind,
        stored_log: bool,
        attach: Attach,
    ) -> Result<Change, PostError> {
        let record = self.jobs.get_mut(&id).ok_or(PostError::NoJob)?;
        let event = Event::new(self.now, kind);
        let change = record.job.apply(&event)?;
        self.seq = self.seq.next();
        let (number, userid) = (record.job.eventlog_seq, record.job.userid);
        let entry = Entry::new(
            self.seq,
            Source::Job(id),
            number,
            userid,
            stored_log,
            &event,
            attach,
        );
        self.turn.entries.push(Arc::new(entry));
        if change.moved() {
            self.count(change.from, -1);
            self.count(change.to, 1);
        }
        Ok(change)
    }

    /// Posts an event of the job's stored eventlog, and has its state looked at.
    pub(crate) fn post_stored(&mut self, id: JobId, kind: EventKind) -> Result<Change, PostError> {
        let change = self.post(id, kind, true, Attach::None)?;
        self.turn.touched.push(id);
        Ok(change)
    }

    /// Posts an entry of the system log: what changes the instance and no job.
    pub(crate) fn post_system(&mut self, name: &'static str, context: Option<job::Map>) {
        self.system_log = self.system_log.saturating_add(1);
        self.seq = self.seq.next();
        let event = Event::new(
            self.now,
            EventKind::Other {
                name: name.into(),
                context,
            },
        );
        let entry = Entry::new(
            self.seq,
            Source::System,
            self.system_log,
            0,
            true,
            &event,
            Attach::None,
        );
        self.turn.entries.push(Arc::new(entry));
        self.turn
            .meta
            .push((META_SYSTEM_LOG.to_owned(), self.system_log.to_string()));
    }

    /// Keeps the number of jobs in each state.
    pub(crate) fn count(&mut self, state: State, by: isize) {
        let slot = state.bit().trailing_zeros() as usize;
        if let Some(count) = self.in_state.get_mut(slot) {
            *count = count.saturating_add_signed(by);
        }
    }

    /// How many jobs are in a state; only active ones are counted.
    pub(crate) fn in_state(&self, state: State) -> usize {
        self.in_state
            .get(state.bit().trailing_zeros() as usize)
            .copied()
            .unwrap_or(0)
    }
}

/// Why an event was not posted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PostError {
    /// No such active job.
    #[error("no such active job")]
    NoJob,
    /// It does not fit.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}
