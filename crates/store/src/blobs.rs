//! Jobspecs and Js, each kept once while it is in use.
//!
//! Many jobs share their bytes. A blob row counts its users (`refs`) and goes with the last of them. Which bytes are already
//! there is known from a cache of hashes in memory, two generations of [`GENERATION_MAX`], and not from an index on disk:
//! random hashes would touch one page per job. So after a restart, or past the cache, the same bytes may be stored once more;
//! that costs space, never truth.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::rows::Text;

/// How many hashes one generation of the cache holds.
const GENERATION_MAX: usize = 4096;

type Hash = [u8; 32];

/// The cache, and what the transaction in progress adds to the counts.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    young: HashMap<Hash, i64>,
    old: HashMap<Hash, i64>,
    /// Uses added in this transaction to rows that were there already.
    added: HashMap<i64, i64>,
    /// The bytes seen last: jobs of one request often share the very same buffer, so it is not hashed again.
    last: Option<(Bytes, i64)>,
    /// Rows that went, and may still be in the cache.
    gone: HashSet<i64>,
}

impl Blobs {
    /// The row that holds `data`, made if need be, with one use more. Empty data is no row.
    pub(crate) fn add(
        &mut self,
        db: &Connection,
        data: &Bytes,
    ) -> Result<Option<i64>, rusqlite::Error> {
        if data.is_empty() {
            return Ok(None);
        }
        let same = |bytes: &Bytes| bytes.as_ptr() == data.as_ptr() && bytes.len() == data.len();
        if let Some((_, id)) = self.last.as_ref().filter(|(bytes, _)| same(bytes)) {
            *self.added.entry(*id).or_default() += 1;
            return Ok(Some(*id));
        }
        let hash = *blake3::hash(data).as_bytes();
        let id = match self
            .young
            .get(&hash)
            .or_else(|| self.old.get(&hash))
            .copied()
        {
            Some(id) => {
                *self.added.entry(id).or_default() += 1;
                id
            }
            None => {
                db.prepare_cached("INSERT INTO blob (refs, data) VALUES (1, ?1)")?
                    .execute(params![Text(data)])?;
                db.last_insert_rowid()
            }
        };
        if !self.young.contains_key(&hash) {
            if self.young.len() >= GENERATION_MAX {
                self.old = std::mem::take(&mut self.young);
            }
            self.young.insert(hash, id);
        }
        self.last = Some((data.clone(), id));
        Ok(Some(id))
    }

    /// One use less of a row; the last one takes the row away. Then [`Blobs::forget_gone`].
    pub(crate) fn drop_use(
        &mut self,
        db: &Connection,
        id: Option<i64>,
    ) -> Result<(), rusqlite::Error> {
        let Some(id) = id else { return Ok(()) };
        self.flush(db)?;
        let left: Option<i64> = db
            .prepare_cached("UPDATE blob SET refs = refs - 1 WHERE id = ?1 RETURNING refs")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        if left.is_some_and(|refs| refs <= 0) {
            db.prepare_cached("DELETE FROM blob WHERE id = ?1")?
                .execute([id])?;
            self.gone.insert(id);
        }
        Ok(())
    }

    /// After the last [`Blobs::drop_use`]: forgets the rows that went, before another may use them.
    pub(crate) fn forget_gone(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            self.young.retain(|_, known| !gone.contains(known));
            self.old.retain(|_, known| !gone.contains(known));
            self.last = None;
        }
    }

    /// Writes the counts gathered in this transaction; to be called before its commit.
    pub(crate) fn flush(&mut self, db: &Connection) -> Result<(), rusqlite::Error> {
        for (id, more) in self.added.drain() {
            db.prepare_cached("UPDATE blob SET refs = refs + ?2 WHERE id = ?1")?
                .execute([id, more])?;
        }
        Ok(())
    }

    /// The transaction was rolled back: rows the cache knows may be gone, so it forgets all.
    pub(crate) fn rolled_back(&mut self) {
        *self = Self::default();
    }

    /// The transaction is committed: lets the buffer seen last go, so that it is not kept alive.
    pub(crate) fn committed(&mut self) {
        self.last = None;
    }
}
