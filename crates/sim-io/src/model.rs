//! What the store holds once a transaction is committed, in memory: the log, the archive, the rows of the jobs, the meta keys.
//!
//! It does with a batch what `store::apply` does with it, written a second time and without SQL, so that the simulator's checks do not rest
//! on the code they check. A batch is taken whole.

use std::collections::BTreeMap;

use bytes::Bytes;
use job::{Attach, Entry, JobId, Seq, Source, Timestamp};
use store::{Batch, FLAG_WAITABLE, JobWrite, Recovered, StoredJob};

/// One job's row and its eventlog.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its owner.
    pub userid: u32,
    /// Submit flags.
    pub flags: u32,
    /// When it was submitted.
    pub t_submit: Timestamp,
    /// Not yet inactive.
    pub active: bool,
    /// Its result is still to be taken.
    pub waitable: bool,
    /// The entry that made it inactive.
    pub done_seq: Option<Seq>,
    /// When.
    pub t_inactive: Option<Timestamp>,
    /// How.
    pub result: Option<u32>,
    /// The jobspec without its environment.
    pub jobspec: Bytes,
    /// What was submitted.
    pub j: Bytes,
    /// What it was allocated.
    pub r: Option<Bytes>,
    /// What it was submitted under.
    pub key: Option<Box<str>>,
    /// All its entries.
    pub eventlog: Vec<Entry>,
    /// It cannot be read any more (a fault that the simulator injected).
    pub damaged: bool,
}

impl Row {
    /// As readers hand it out.
    #[must_use]
    pub fn stored(&self, id: JobId, with_j: bool) -> StoredJob {
        let mut eventlog = self.eventlog.clone();
        for entry in &mut eventlog {
            entry.attach = self.attach(entry);
        }
        StoredJob {
            id,
            userid: self.userid,
            flags: self.flags,
            t_submit: self.t_submit,
            active: self.active,
            waitable: self.waitable,
            done_seq: self.done_seq,
            t_inactive: self.t_inactive,
            result: self.result,
            jobspec: self.jobspec.clone(),
            r: self.r.clone(),
            j: Some(self.j.clone()).filter(|j| with_j && !j.is_empty()),
            eventlog,
        }
    }

    /// What goes with an entry of this job.
    #[must_use]
    pub fn attach(&self, entry: &Entry) -> Attach {
        match (entry.name.as_str(), &self.r) {
            ("submit", _) => Attach::Jobspec(self.jobspec.clone()),
            ("alloc", Some(r)) => Attach::R(r.clone()),
            _ => Attach::None,
        }
    }
}

/// A batch that must never have been made.
#[derive(Debug, thiserror::Error)]
#[error("entry {met} handed to the store after {newest}")]
pub struct Gap {
    newest: Seq,
    met: Seq,
}

/// All that is committed.
#[derive(Debug, Clone)]
pub struct Model {
    /// Names this store among all.
    pub epoch: String,
    /// The newest seq the log has forgotten.
    pub floor: Seq,
    /// All entries there ever were, gapless; those up to `floor` are only kept for checks.
    pub history: Vec<Entry>,
    /// Entries that are no job's; they stay when the log is trimmed.
    pub instance: Vec<Entry>,
    /// The jobs.
    pub jobs: BTreeMap<JobId, Row>,
    /// Jobs that are no more.
    pub purged: BTreeMap<JobId, Row>,
    /// The manager's own keys.
    pub meta: BTreeMap<String, String>,
    purged_max: JobId,
}

impl Model {
    /// A new store.
    #[must_use]
    pub fn new(epoch: String) -> Model {
        Model {
            epoch,
            floor: Seq(0),
            history: Vec::new(),
            instance: Vec::new(),
            jobs: BTreeMap::new(),
            purged: BTreeMap::new(),
            meta: BTreeMap::new(),
            purged_max: JobId(0),
        }
    }

    /// The newest seq.
    #[must_use]
    pub fn newest(&self) -> Seq {
        Seq(self.history.len() as u64)
    }

    /// The entry of that seq, whether the log still holds it or not.
    #[must_use]
    pub fn entry(&self, seq: Seq) -> Option<&Entry> {
        let at = seq.0.checked_sub(1)?;
        self.history.get(usize::try_from(at).ok()?)
    }

    /// Takes a batch in.
    /// # Errors
    /// [`Gap`]: nothing of it was taken.
    pub fn apply(&mut self, batch: &Batch) -> Result<(), Gap> {
        for (newest, entry) in (self.newest().0..).zip(&batch.entries) {
            if entry.seq.0 != newest + 1 {
                let (newest, met) = (Seq(newest), entry.seq);
                return Err(Gap { newest, met });
            }
        }
        for write in &batch.jobs {
            if let JobWrite::Insert { .. } = write {
                self.write(write, batch);
            }
        }
        for entry in &batch.entries {
            self.history.push(Entry::clone(entry));
            match entry.source {
                Source::Job(id) => {
                    if let Some(row) = self.jobs.get_mut(&id) {
                        row.eventlog.push(Entry::clone(entry));
                    }
                }
                Source::Resource | Source::System => self.instance.push(Entry::clone(entry)),
            }
        }
        for write in &batch.jobs {
            if !matches!(write, JobWrite::Insert { .. }) {
                self.write(write, batch);
            }
        }
        for (key, value) in &batch.meta {
            // An empty value: the key goes.
            if value.is_empty() {
                self.meta.remove(key);
            } else {
                self.meta.insert(key.clone(), value.clone());
            }
        }
        if let Some(upto) = batch.trim {
            self.trim(upto);
        }
        Ok(())
    }

    fn write(&mut self, write: &JobWrite, batch: &Batch) {
        let newest = self.newest();
        match write {
            JobWrite::Insert {
                id,
                userid,
                t_submit,
                flags,
                jobspec,
                j,
                key,
            } => {
                let row = Row {
                    userid: *userid,
                    flags: *flags,
                    t_submit: *t_submit,
                    active: true,
                    waitable: flags & FLAG_WAITABLE != 0,
                    done_seq: None,
                    t_inactive: None,
                    result: None,
                    jobspec: jobspec.clone(),
                    j: j.clone(),
                    r: None,
                    key: key.clone(),
                    eventlog: Vec::new(),
                    damaged: false,
                };
                self.jobs.insert(*id, row);
            }
            JobWrite::Delete { id } => {
                if let Some(row) = self.jobs.remove(id) {
                    self.purged.insert(*id, row);
                    self.purged_max = self.purged_max.max(*id);
                }
            }
            JobWrite::SetR { id, r } => {
                if let Some(row) = self.jobs.get_mut(id) {
                    row.r = Some(r.clone());
                }
            }
            JobWrite::Inactive {
                id,
                t_inactive,
                result,
            } => {
                let of_job = |entry: &&std::sync::Arc<Entry>| entry.source == Source::Job(*id);
                let last = batch.entries.iter().rev().find(of_job);
                let done_seq = last.map_or(newest, |entry| entry.seq);
                if let Some(row) = self.jobs.get_mut(id) {
                    row.active = false;
                    row.done_seq = Some(done_seq);
                    row.t_inactive = Some(*t_inactive);
                    row.result = Some(*result);
                }
            }
            JobWrite::Consumed { id } => {
                if let Some(row) = self.jobs.get_mut(id) {
                    row.waitable = false;
                }
            }
        }
    }

    /// Forgets the log up to `upto`.
    pub fn trim(&mut self, upto: Seq) {
        self.floor = self.floor.max(upto.min(self.newest()));
    }

    /// As `store::Recovered` tells it.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        let time = |entry: &Entry| {
            job::Event::parse(entry.json())
                .map(|event| event.timestamp)
                .ok()
        };
        let rows = self.jobs.values();
        let of_rows = rows
            .map(|row| {
                row.t_submit
                    .later_of(row.t_inactive.unwrap_or(row.t_submit))
            })
            .fold(Timestamp(0.0), Timestamp::later_of);
        let newest_id = self.jobs.keys().next_back().copied().unwrap_or(JobId(0));
        Recovered {
            epoch: self.epoch.clone(),
            newest_seq: self.newest(),
            floor: self.floor,
            max_jobid: newest_id.max(self.purged_max),
            last_timestamp: self
                .history
                .last()
                .filter(|entry| entry.seq > self.floor)
                .and_then(time)
                .unwrap_or(of_rows),
            tally: None,
            meta: self.meta.clone(),
        }
    }
}
