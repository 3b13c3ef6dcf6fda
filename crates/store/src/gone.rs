//! Jobs that are purged and whose rows are there all the same: they stand on pages that are broken, and so cannot be removed.
//!
//! The purge was told to everybody, so it has to hold: each is noted in the store's own keys, with the commit that purged it, and readers pass it
//! over from then on, after a restart too. A start tries again to remove it; `weir store recover` makes a store without it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use job::JobId;
use rusqlite::Connection;

use crate::recover::set_meta;
use crate::rows::id_to_sql;

/// What their keys begin with; the id follows, and the value is the seq that the store had then.
pub(crate) const KEY_GONE: &str = "store.gone.";

/// See the module. Clones share the list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gone(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicUsize,
    /// As SQL has them.
    ids: RwLock<BTreeSet<i64>>,
}

impl Gone {
    /// Those that are noted in this file.
    pub(crate) fn load(&self, db: &Connection) -> Result<(), rusqlite::Error> {
        let mut keys = db.prepare("SELECT key FROM meta WHERE key >= ?1 AND key < ?2")?;
        // The first that begins otherwise: `/` follows `.`.
        let keys = keys.query_map([KEY_GONE, "store.gone/"], |row| row.get::<_, String>(0))?;
        for key in keys {
            self.add(of_key(&key?));
        }
        Ok(())
    }

    pub(crate) fn add(&self, jobs: impl IntoIterator<Item = JobId>) {
        let mut ids = self.0.ids.write().unwrap_or_else(PoisonError::into_inner);
        ids.extend(jobs.into_iter().map(id_to_sql));
        self.0.count.store(ids.len(), Ordering::Release);
    }

    /// Its row is removed, and nobody reads yet.
    pub(crate) fn remove(&self, id: i64) {
        let mut ids = self.0.ids.write().unwrap_or_else(PoisonError::into_inner);
        ids.remove(&id);
        self.0.count.store(ids.len(), Ordering::Release);
    }

    /// How many there are; costs nothing.
    pub(crate) fn len(&self) -> usize {
        self.0.count.load(Ordering::Acquire)
    }

    /// Whether there is none, as there should be.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this job, as SQL has its id, is one.
    pub(crate) fn contains(&self, id: i64) -> bool {
        !self.is_empty() && self.read(|ids| ids.contains(&id))
    }

    /// All of them, as SQL has them.
    pub(crate) fn all(&self) -> BTreeSet<i64> {
        self.read(BTreeSet::clone)
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeSet<i64>) -> T) -> T {
        look(&self.0.ids.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The job that a key names.
pub(crate) fn of_key(key: &str) -> Option<JobId> {
    key.strip_prefix(KEY_GONE)?.parse().ok().map(JobId)
}

/// Notes a job.
pub(crate) fn note(db: &Connection, id: JobId, seq: job::Seq) -> Result<(), rusqlite::Error> {
    set_meta(db, &format!("{KEY_GONE}{}", id.0), &seq.0.to_string())
}

/// Its row is removed.
pub(crate) fn forget(db: &Connection, id: JobId) -> Result<(), rusqlite::Error> {
    set_meta(db, &format!("{KEY_GONE}{}", id.0), "")
}
