//! Cuts batches out of the ring and encodes them, each once.
//!
//! A batch is named by (group, from, limit) and kept until the next commit, so that listeners of a group who stand at the same place
//! share its bytes. When there are several groups, each entry's native text is kept too (the memo): a batch for another filter is
//! then a row of copies.
//!
//! Where a batch ends: at the end of a commit, the first that makes it `batch_entries` or `batch_bytes` long; before a commit that
//! would make it longer; inside a commit only if that commit alone is longer than `commit_entries` or `commit_bytes`.

use std::collections::HashMap;
use std::sync::Arc;

use job::{Entry, Seq, Source};

use crate::filter::Filter;
use crate::limits::Limits;
use crate::listener::{Format, Kind};
use crate::payload::{self, Payload};
use crate::ring::{Evicted, Ring};

/// Bytes of native texts kept for other groups.
const MEMO_BYTES_MAX: usize = 8 << 20;
/// Batches kept for others at the same place.
const CACHE_BATCHES_MAX: usize = 1024;
/// … and their bytes.
const CACHE_BYTES_MAX: usize = 16 << 20;
/// How far the memo reaches.
const MEMO_PLACES_MAX: usize = 1 << 20;

/// One batch: what it holds and up to where it makes its reader complete.
#[derive(Debug, Clone)]
pub(crate) struct Cut {
    pub(crate) to: Seq,
    pub(crate) entries: usize,
    /// `None` = nothing on the way passed the filter.
    pub(crate) payload: Option<Payload>,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Encoder {
    pub(crate) epoch: Arc<str>,
    cache: HashMap<(usize, u64, u64), Cut>,
    cache_bytes: usize,
    memo: Memo,
    scratch: Vec<u8>,
    ends: Vec<usize>,
    pub(crate) batches_encoded: u64,
}

impl Encoder {
    pub(crate) fn new(epoch: Arc<str>) -> Self {
        Self {
            epoch,
            cache: HashMap::new(),
            cache_bytes: 0,
            memo: Memo::default(),
            scratch: Vec::new(),
            ends: Vec::new(),
            batches_encoded: 0,
        }
    }

    /// There is a new commit: batches that ended at the newest seq may be longer now.
    pub(crate) fn pushed(&mut self) {
        self.cache.clear();
        self.cache_bytes = 0;
    }

    /// A group's place was given to another one.
    pub(crate) fn forget_group(&mut self) {
        self.pushed();
    }

    /// The batch of `group` that follows `from` and does not pass `limit`.
    pub(crate) fn cut(
        &mut self,
        ring: &Ring,
        limits: &Limits,
        (group, kind): (usize, &Kind),
        (from, limit): (Seq, Seq),
        many_groups: bool,
    ) -> Result<Cut, Evicted> {
        if let Some(cut) = self.cache.get(&(group, from.0, limit.0)) {
            return Ok(cut.clone());
        }
        let cut = self.encode(ring, limits, kind, (from, limit), many_groups)?;
        if self.cache.len() >= CACHE_BATCHES_MAX || self.cache_bytes >= CACHE_BYTES_MAX {
            self.pushed();
        }
        self.cache_bytes += cut.bytes;
        self.cache.insert((group, from.0, limit.0), cut.clone());
        Ok(cut)
    }

    fn encode(
        &mut self,
        ring: &Ring,
        limits: &Limits,
        kind: &Kind,
        (from, limit): (Seq, Seq),
        many_groups: bool,
    ) -> Result<Cut, Evicted> {
        let slots = ring.read_after(from, limit)?;
        let filter: &Filter = &kind.filter;
        self.scratch.clear();
        self.ends.clear();
        // The longest batch so far that ends with a commit: its end, its bytes, its entries.
        let mut whole = (from, 0, 0);
        let (mut to, mut count) = (limit, 0);
        let mut previous = from;
        for slot in slots {
            let passes = filter.passes(slot.facts, &slot.entry)
                && (kind.format == Format::Native || slot.facts.job.is_some());
            if passes {
                if count >= limits.commit_entries || self.scratch.len() >= limits.commit_bytes {
                    // A commit larger than may be in one batch: whole ones before it first, or else as much of it as may be.
                    if whole.2 > 0 {
                        (to, count) = self.revert(whole);
                    } else {
                        to = previous;
                    }
                    break;
                }
                self.append(kind.format, &slot.entry, many_groups);
                count += 1;
            }
            previous = slot.entry.seq;
            if slot.ends_commit {
                let over = count > limits.batch_entries || self.scratch.len() > limits.batch_bytes;
                if over && whole.2 > 0 {
                    (to, count) = self.revert(whole);
                    break;
                }
                whole = (slot.entry.seq, self.scratch.len(), count);
                if count >= limits.batch_entries || self.scratch.len() >= limits.batch_bytes {
                    to = slot.entry.seq;
                    break;
                }
            }
        }
        Ok(self.finish(kind.format, to, count))
    }

    fn revert(&mut self, (to, bytes, count): (Seq, usize, usize)) -> (Seq, usize) {
        self.scratch.truncate(bytes);
        self.ends.truncate(count);
        (to, count)
    }

    fn append(&mut self, format: Format, entry: &Entry, many_groups: bool) {
        match format {
            Format::Native => {
                if many_groups {
                    self.memo.append(entry, &mut self.scratch);
                } else {
                    entry.encode_native(&mut self.scratch);
                }
                self.scratch.push(b',');
            }
            Format::Flux => {
                if let Source::Job(id) = entry.source {
                    payload::flux_event(&mut self.scratch, id, entry);
                }
                self.ends.push(self.scratch.len());
            }
        }
    }

    fn finish(&mut self, format: Format, to: Seq, entries: usize) -> Cut {
        if entries == 0 {
            return Cut {
                to,
                entries,
                payload: None,
                bytes: 0,
            };
        }
        self.batches_encoded += 1;
        let payload = match format {
            Format::Native => {
                let body = &self.scratch[..self.scratch.len() - 1];
                Payload::One(payload::native(&self.epoch, Some(to), "", body))
            }
            Format::Flux => payload::many(self.scratch.clone(), &self.ends),
        };
        Cut {
            to,
            entries,
            bytes: self.scratch.len(),
            payload: Some(payload),
        }
    }
}

/// Native texts of the newest entries, made when first needed.
#[derive(Debug, Default)]
struct Memo {
    /// The seq of `places[0]`.
    base: u64,
    places: Vec<(u32, u32)>,
    texts: Vec<u8>,
}

impl Memo {
    fn append(&mut self, entry: &Entry, buf: &mut Vec<u8>) {
        let seq = entry.seq.0;
        // What is older than the memo is encoded anew; those who ask for it are few.
        let Some(mut index) = seq
            .checked_sub(self.base)
            .map(|index| usize::try_from(index).unwrap_or(usize::MAX))
        else {
            return entry.encode_native(buf);
        };
        if self.texts.len() >= MEMO_BYTES_MAX || index >= MEMO_PLACES_MAX {
            self.texts.clear();
            self.places.clear();
            (self.base, index) = (seq, 0);
        }
        if index >= self.places.len() {
            self.places.resize(index + 1, (0, 0));
        }
        if self.places[index].1 == 0 {
            let start = self.texts.len();
            entry.encode_native(&mut self.texts);
            match (u32::try_from(start), u32::try_from(self.texts.len())) {
                (Ok(start), Ok(end)) => self.places[index] = (start, end),
                _ => return buf.extend_from_slice(&self.texts[start..]),
            }
        }
        let (start, end) = self.places[index];
        buf.extend_from_slice(&self.texts[start as usize..end as usize]);
    }
}
