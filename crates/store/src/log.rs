//! The log from a seq on, whole: what a row of it does not give is taken from the archive.
//!
//! ```text
//!  log rows ─► lines that follow each other without a gap ─► page
//!                 └ a line, a row or a page of the file that cannot be read, rows that are missing
//!                      └► the same seqs from the archive (a window at a time) ─► page, and the damage is told
//!                              └ not there either: purged, or told as lost
//! ```
//! The writer puts each entry into both in one transaction, so a reader that follows misses nothing unless both copies are damaged. More
//! than [`REPAIR_ENTRIES_MAX`] seqs without a row are a log that is gone: that is its floor then, and cursors below it are refused.

use std::collections::{BTreeMap, HashMap};

use job::{Attach, Entry, JobId, Seq, Source};
use rusqlite::{Connection, OptionalExtension as _};

use crate::archive;
use crate::error::{Corrupt, ReadError, is_damage};
use crate::jobrow::object;
use crate::reader::{PAGE_ROWS_MAX, Reader};
use crate::rows::{attach, bytes_at, id_to_sql, parse_lines, seq_from_sql, seq_to_sql};
use crate::stored::{Damage, LogPage};

/// Seqs that are looked for in the archive at a time. It is read once for that.
pub(crate) const REPAIR_WINDOW: u64 = 8192;
/// Seqs without a row that are looked for at all.
pub(crate) const REPAIR_ENTRIES_MAX: u64 = 65_536;

/// What the archive had for a window of seqs; kept by the reader, since a window is several pages.
#[derive(Debug, Clone)]
pub(crate) struct Repaired {
    first: Seq,
    last: Seq,
    entries: Vec<Entry>,
    /// Not found, and not explained: from where to where, and how many.
    lost: Option<(Seq, Seq, usize)>,
}

/// A page as it grows.
struct Growing {
    entries: Vec<Entry>,
    upto: Seq,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
    damaged: Vec<Damage>,
}

impl Growing {
    fn is_full(&self) -> bool {
        self.entries.len() >= self.entries_max || self.bytes >= self.bytes_max
    }

    /// Takes entries that continue the page; false when it is full before their end.
    fn take(&mut self, entries: impl IntoIterator<Item = Entry>) -> bool {
        for entry in entries {
            if self.is_full() && !self.entries.is_empty() {
                return false;
            }
            self.bytes += entry.line().len();
            self.upto = entry.seq;
            self.entries.push(entry);
        }
        true
    }

    fn damage(&mut self, seq: Option<Seq>, what: Corrupt) {
        self.damaged.push(Damage {
            job: None,
            seq,
            what,
        });
    }
}

impl Reader {
    /// Entries after `after`, oldest first, with jobspec and R attached: at most `entries_max`, and about `bytes_max` of all that
    /// (at least one row of the log is looked at, so a page is never empty while there is more). What the log should hold and
    /// does not is taken from the archive, and told in `damaged`.
    /// # Errors
    /// [`ReadError::BelowFloor`]: the log has forgotten what follows `after`, or lost too much of it. [`ReadError::Sqlite`].
    pub fn log_after(
        &self,
        after: Seq,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<LogPage, ReadError> {
        let tx = self.db.unchecked_transaction()?;
        let floor = crate::reader::floor(&tx)?;
        if after < floor {
            return Err(ReadError::BelowFloor { after, floor });
        }
        let mut page = Growing {
            entries: Vec::new(),
            upto: after,
            bytes: 0,
            entries_max: entries_max.clamp(1, PAGE_ROWS_MAX),
            bytes_max,
            damaged: Vec::new(),
        };
        self.grow(&tx, &mut page)?;
        let mut whole = LogPage {
            entries: Vec::with_capacity(page.entries.len()),
            upto: page.upto,
            damaged: page.damaged,
        };
        let mut known = HashMap::new();
        let mut bytes = 0;
        for mut entry in page.entries {
            if bytes >= bytes_max {
                // What goes with the entries counts too: the rest is for the next page.
                whole.upto = Seq(entry.seq.0 - 1);
                break;
            }
            if self.attach_or_omit(&mut entry, &mut known, &mut whole.damaged)? {
                bytes += entry.line().len() + attached(&entry);
                whole.entries.push(entry);
            }
        }
        Ok(whole)
    }

    /// Reads rows until the page is full or the log ends.
    fn grow(&self, tx: &Connection, page: &mut Growing) -> Result<(), ReadError> {
        let after = page.upto;
        let mut rows = tx.prepare_cached(
            "SELECT last_seq, first_seq, lines FROM log WHERE last_seq > ?1 ORDER BY last_seq",
        )?;
        let mut rows = rows.query([seq_to_sql(after)])?;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => {
                    let newest = archive::newest_seq(tx, page.upto)?;
                    if newest > page.upto {
                        let first = page.upto.next();
                        page.damage(
                            None,
                            Corrupt::Gap {
                                first,
                                last: newest,
                            },
                        );
                        self.fill(tx, page, newest, None)?;
                    }
                    return Ok(());
                }
                Err(error) if is_damage(&error) => {
                    let upto = readable_after(tx, page.upto)?;
                    let detail = error.to_string();
                    page.damage(Some(page.upto.next()), Corrupt::Page { detail });
                    return self.fill(tx, page, upto, None);
                }
                Err(error) => return Err(error.into()),
            };
            let last = seq_from_sql(row.get(0)?);
            let (found, wrong) = match bytes_at(row, 2, "lines") {
                Ok(Some(lines)) => parse_lines(&lines),
                Ok(None) => (Vec::new(), vec![Corrupt::NoEventlog]),
                Err(what) => (Vec::new(), vec![what]),
            };
            let start = page.upto;
            let found: Vec<Entry> = found
                .into_iter()
                .filter(|entry| entry.seq > start && entry.seq <= last)
                .collect();
            let whole = found.len() as u64 == last.0 - start.0
                && found
                    .iter()
                    .zip(start.0 + 1..)
                    .all(|(entry, seq)| entry.seq.0 == seq);
            if whole {
                if !page.take(found) || page.is_full() {
                    return Ok(());
                }
                continue;
            }
            let first = row.get(1).map_or(start, seq_from_sql);
            if first.0 > start.0 + 1 && first <= last {
                let missing = Corrupt::Gap {
                    first: start.next(),
                    last: Seq(first.0 - 1),
                };
                page.damage(None, missing);
                if self.is_hopeless(page, Seq(first.0 - 1)) {
                    return self.fill(tx, page, Seq(first.0 - 1), None);
                }
            }
            if wrong.is_empty() && first.0 <= start.0 + 1 {
                page.damage(Some(last), Corrupt::Cut);
            }
            for what in wrong {
                page.damage(Some(last), what);
            }
            self.fill(tx, page, last, Some(found))?;
            if page.is_full() || page.upto < last {
                return Ok(());
            }
        }
    }

    fn is_hopeless(&self, page: &Growing, last: Seq) -> bool {
        last.0.saturating_sub(page.upto.0) > REPAIR_ENTRIES_MAX
    }

    /// Goes on up to `last`, a window at most, with what the archive has; `found` is what the log itself still gave of it.
    fn fill(
        &self,
        tx: &Connection,
        page: &mut Growing,
        last: Seq,
        found: Option<Vec<Entry>>,
    ) -> Result<(), ReadError> {
        if self.is_hopeless(page, last) {
            return Err(ReadError::BelowFloor {
                after: page.upto,
                floor: last,
            });
        }
        let first = page.upto.next();
        let repaired = match self.repaired(first) {
            Some(repaired) => repaired,
            None => {
                let last = Seq(last.0.min(first.0 + REPAIR_WINDOW - 1));
                self.repair(tx, first, last, found.unwrap_or_default())?
            }
        };
        if let Some((first, last, entries)) = repaired.lost {
            let lost = Corrupt::Lost {
                first,
                last,
                entries,
            };
            page.damage(None, lost);
        }
        let rest = repaired
            .entries
            .into_iter()
            .filter(|entry| entry.seq >= first);
        if page.take(rest) {
            page.upto = repaired.last;
        }
        Ok(())
    }

    fn repaired(&self, first: Seq) -> Option<Repaired> {
        let kept = self.repaired.borrow();
        kept.as_ref()
            .filter(|kept| (kept.first..=kept.last).contains(&first))
            .cloned()
    }

    fn repair(
        &self,
        tx: &Connection,
        first: Seq,
        last: Seq,
        found: Vec<Entry>,
    ) -> Result<Repaired, ReadError> {
        let mut entries: BTreeMap<Seq, Entry> = found
            .into_iter()
            .filter(|entry| entry.seq <= last)
            .map(|entry| (entry.seq, entry))
            .collect();
        let explained = archive::entries_between(tx, first, last, &mut entries)?;
        let mut missing = (first.0..=last.0)
            .map(Seq)
            .filter(|seq| !entries.contains_key(seq));
        let lost = missing.next().filter(|_| !explained).map(|first| {
            missing.fold((first, first, 1), |(first, _, count), seq| {
                (first, seq, count + 1)
            })
        });
        let repaired = Repaired {
            first,
            last,
            lost,
            entries: entries.into_values().collect(),
        };
        *self.repaired.borrow_mut() = Some(repaired.clone());
        Ok(repaired)
    }

    /// Fills what goes with an entry of the log; `false` = its job is purged, or what goes with it cannot be read.
    fn attach_or_omit(
        &self,
        entry: &mut Entry,
        known: &mut HashMap<u64, bool>,
        damaged: &mut Vec<Damage>,
    ) -> Result<bool, ReadError> {
        let Source::Job(id) = entry.source else {
            return Ok(true);
        };
        if self.gone.contains(id_to_sql(id)) {
            return Ok(false);
        }
        let (what, sql) = match entry.name.as_str() {
            "submit" => (
                "jobspec",
                "SELECT (SELECT data FROM blob WHERE blob.id = job.spec) FROM job WHERE id = ?1",
            ),
            "alloc" => ("r", "SELECT r FROM job WHERE id = ?1"),
            _ => {
                if let Some(there) = known.get(&id.0) {
                    return Ok(*there);
                }
                ("", "SELECT NULL FROM job WHERE id = ?1")
            }
        };
        let found = self
            .db
            .prepare_cached(sql)?
            .query_row([id_to_sql(id)], |row| Ok(bytes_at(row, 0, what)))
            .optional();
        let wrong = match found {
            Ok(None) => {
                known.insert(id.0, false);
                return Ok(false);
            }
            Ok(Some(Ok(Some(data)))) => match object(what, &data) {
                Ok(()) => {
                    attach(entry, Some(&data), Some(&data));
                    None
                }
                Err(wrong) => Some(wrong),
            },
            Ok(Some(Ok(None))) if what == "jobspec" => Some(Corrupt::NoJobspec),
            Ok(Some(Ok(None))) => None,
            Ok(Some(Err(wrong))) => Some(wrong),
            Err(error) if is_damage(&error) => Some(Corrupt::Page {
                detail: error.to_string(),
            }),
            Err(error) => return Err(error.into()),
        };
        known.insert(id.0, wrong.is_none());
        Ok(match wrong {
            None => true,
            Some(what) => {
                damaged.push(damage_of(id, what));
                false
            }
        })
    }
}

fn damage_of(id: JobId, what: Corrupt) -> Damage {
    Damage {
        job: Some(id),
        seq: None,
        what,
    }
}

/// Bytes of what goes with an entry.
fn attached(entry: &Entry) -> usize {
    match &entry.attach {
        Attach::None => 0,
        Attach::Jobspec(bytes) | Attach::R(bytes) => bytes.len(),
    }
}

/// The last seq before the first row after `upto` that can be read; without one, the newest seq of the archive.
fn readable_after(tx: &Connection, upto: Seq) -> Result<Seq, ReadError> {
    let mut rows =
        tx.prepare_cached("SELECT last_seq, first_seq, length(lines) FROM log WHERE last_seq > ?1 ORDER BY last_seq LIMIT 1")?;
    let mut look = |after: u64| -> Result<Option<Seq>, ReadError> {
        let row = rows.query_row([seq_to_sql(Seq(after))], |row| {
            Ok((seq_from_sql(row.get(0)?), row.get(1).map(seq_from_sql)))
        });
        match row {
            Ok((last, first)) => Ok(Some(Seq(first.unwrap_or(last).0.saturating_sub(1)))),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Some(Seq(u64::MAX))),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    // Damage is a page, maybe some: the bad stretch is measured by doubling, then its end is closed in on.
    let (mut bad, mut step) = (upto.0, 1);
    let mut good = loop {
        let at = upto.0.saturating_add(step);
        match look(at)? {
            Some(found) => break (at, found),
            None => bad = at,
        }
        if step > 1 << 40 {
            break (at, Seq(u64::MAX));
        }
        step *= 2;
    };
    while good.0 - bad > 1 {
        let middle = bad + (good.0 - bad) / 2;
        match look(middle)? {
            Some(found) => good = (middle, found),
            None => bad = middle,
        }
    }
    let newest = archive::newest_seq(tx, upto)?;
    Ok(Seq(good.1.0.min(newest.0)).max(upto.next()))
}
