//! What a reader finds: pages with the meaning that `store::Reader` gives them, made from the [`Model`](crate::model::Model).

use job::{Entry, JobId, Seq, Source};
use store::{Corrupt, Damage, Ended, JobsPage, LogPage, ReadError, Scope, StoredJob};

use crate::disk::Disk;
use crate::model::Row;

/// As `store::Reader`.
#[derive(Debug, Clone)]
pub struct Reader {
    disk: Disk,
}

fn to_sql(id: JobId) -> i64 {
    i64::from_ne_bytes(id.0.to_ne_bytes())
}

fn to_cursor(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

fn damage(id: JobId) -> Damage {
    Damage {
        job: Some(id),
        seq: None,
        what: Corrupt::NoJobspec,
    }
}

impl Reader {
    pub(crate) fn new(disk: Disk) -> Reader {
        Reader { disk }
    }

    /// Entries after `after`, those of purged jobs left out.
    /// # Errors
    /// [`ReadError::BelowFloor`].
    pub fn log_after(
        &self,
        after: Seq,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<LogPage, ReadError> {
        let model = self.disk.model();
        if after < model.floor {
            let floor = model.floor;
            return Err(ReadError::BelowFloor { after, floor });
        }
        let mut page = LogPage {
            upto: after,
            ..LogPage::default()
        };
        let mut bytes = 0;
        let skip = usize::try_from(after.0).unwrap_or(usize::MAX);
        for (count, entry) in model.history.iter().skip(skip).enumerate() {
            if count >= entries_max || bytes >= bytes_max {
                break;
            }
            page.upto = entry.seq;
            let mut entry = entry.clone();
            if let Source::Job(id) = entry.source {
                let Some(row) = model.jobs.get(&id) else {
                    continue;
                };
                entry.attach = row.attach(&entry);
            }
            bytes += size(&entry);
            page.entries.push(entry);
        }
        Ok(page)
    }

    /// Entries that are no job's, `after < seq <= upto`.
    /// # Errors
    /// None here.
    pub fn instance_entries(
        &self,
        after: Seq,
        upto: Seq,
        limit: usize,
    ) -> Result<LogPage, ReadError> {
        let model = self.disk.model();
        let wanted = |entry: &&Entry| entry.seq > after && entry.seq <= upto;
        let entries: Vec<Entry> = model
            .instance
            .iter()
            .filter(wanted)
            .take(limit)
            .cloned()
            .collect();
        let last = entries.last().map(|entry| entry.seq);
        let upto = last.filter(|_| entries.len() >= limit).unwrap_or(upto);
        Ok(LogPage {
            entries,
            upto,
            damaged: Vec::new(),
        })
    }

    /// One page of a scan of jobs.
    /// # Errors
    /// None here.
    pub fn jobs_page(
        &self,
        scope: Scope,
        cursor: i64,
        limit: usize,
        bytes_max: usize,
    ) -> Result<JobsPage, ReadError> {
        let model = self.disk.model();
        let mut wanted: Vec<(i64, JobId, &Row)> = Vec::new();
        for (id, row) in &model.jobs {
            let (in_scope, place) = match scope {
                Scope::Active { at } => (row.done_seq.is_none_or(|seq| seq > at), to_sql(*id)),
                Scope::Inactive { upto } => (
                    row.done_seq.is_some_and(|seq| seq <= upto),
                    row.done_seq.map_or(0, to_cursor),
                ),
                Scope::Waitable => (row.waitable && !row.active, to_sql(*id)),
                Scope::All => (true, to_sql(*id)),
            };
            if in_scope && place > cursor {
                wanted.push((place, *id, row));
            }
        }
        wanted.sort_by_key(|(place, id, _)| (*place, *id));
        let mut page = JobsPage::default();
        let (mut bytes, mut count, mut next) = (0, 0, None);
        for (place, id, row) in wanted {
            if count >= limit || bytes >= bytes_max {
                page.next = next;
                return Ok(page);
            }
            count += 1;
            next = Some(place);
            if row.damaged {
                page.damaged.push(damage(id));
            } else {
                let stored = row.stored(id, false);
                bytes += stored.eventlog.iter().map(size).sum::<usize>();
                page.jobs.push(stored);
            }
        }
        page.next = next.filter(|_| count >= limit);
        Ok(page)
    }

    /// One job.
    /// # Errors
    /// The inner error: the job is there, and damaged.
    pub fn job(
        &self,
        id: JobId,
        with_j: bool,
    ) -> Result<Option<Result<StoredJob, Damage>>, ReadError> {
        let model = self.disk.model();
        Ok(model.jobs.get(&id).map(|row| {
            if row.damaged {
                Err(damage(id))
            } else {
                Ok(row.stored(id, with_j))
            }
        }))
    }

    /// The job that a user submitted under a key.
    /// # Errors
    /// As [`Reader::job`].
    #[expect(clippy::type_complexity, reason = "as the store has it")]
    pub fn by_key(
        &self,
        userid: u32,
        key: &str,
    ) -> Result<Option<(JobId, Result<StoredJob, Damage>)>, ReadError> {
        let found = self
            .disk
            .model()
            .jobs
            .iter()
            .find(|(_, row)| row.userid == userid && row.key.as_deref() == Some(key))
            .map(|(id, _)| *id);
        match found {
            Some(id) => Ok(self.job(id, false)?.map(|job| (id, job))),
            None => Ok(None),
        }
    }

    /// The key that a job was submitted under.
    /// # Errors
    /// None here.
    pub fn key_of(&self, id: JobId) -> Result<Option<String>, ReadError> {
        let model = self.disk.model();
        let row = model.jobs.get(&id);
        Ok(row.and_then(|row| row.key.as_deref().map(str::to_owned)))
    }

    /// The ids of all jobs with their owners, by owner and id.
    /// # Errors
    /// None here.
    pub fn owners(
        &self,
        after: Option<(u32, JobId)>,
        limit: usize,
    ) -> Result<Vec<(u32, JobId)>, ReadError> {
        let model = self.disk.model();
        let owners = model.jobs.iter().map(|(id, row)| (row.userid, *id));
        let mut owners: Vec<(u32, JobId)> = owners
            .filter(|owner| after.is_none_or(|after| *owner > after))
            .collect();
        owners.sort_unstable();
        owners.truncate(limit);
        Ok(owners)
    }

    /// The first jobs that ended, and how many there are if `count`.
    #[must_use]
    pub fn ended(&self, which: Ended, limit: usize, count: bool) -> (Vec<JobId>, u64) {
        let model = self.disk.model();
        let mut over: Vec<(f64, JobId, bool)> = model
            .jobs
            .iter()
            .filter(|(_, row)| !row.active)
            .map(|(id, row)| (row.t_inactive.map_or(0.0, |at| at.0), *id, row.waitable))
            .collect();
        over.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if let Ended::Beyond { before, keep } = which {
            let beyond = keep.map_or(0, |keep| {
                over.len()
                    .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX))
            });
            let old = |at: f64| before.is_some_and(|before| at < before.0);
            over = over
                .into_iter()
                .enumerate()
                .filter(|(place, (at, _, waitable))| (*place < beyond || old(*at)) && !waitable)
                .map(|(_, one)| one)
                .collect();
        }
        let total = if count { over.len() as u64 } else { 0 };
        let ids = over.into_iter().map(|(_, id, _)| id).take(limit).collect();
        (ids, total)
    }

    /// The newest seq the log has forgotten.
    /// # Errors
    /// None here.
    pub fn floor(&self) -> Result<Seq, ReadError> {
        Ok(self.disk.model().floor)
    }
}

fn size(entry: &Entry) -> usize {
    let attached = match &entry.attach {
        job::Attach::None => 0,
        job::Attach::Jobspec(bytes) | job::Attach::R(bytes) => bytes.len(),
    };
    entry.line().len() + attached
}
