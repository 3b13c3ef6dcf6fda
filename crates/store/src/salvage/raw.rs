//! A database file read without SQLite: pages, with what a WAL has over them, and the rows on every page that holds rows of a table.
//!
//! No page is believed to be where a tree says, since trees may be what is broken: all pages are looked at, but for those on the free list.
//! What cannot be decoded is passed over; the caller sees from what it gets what is missing.
//! Format: <https://www.sqlite.org/fileformat2.html>.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::examine::beside;
use crate::wal::{Frames, word};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// The page size of a store, whatever a damaged header says.
const PAGE_LEN: usize = 4096;
/// First byte of a page with rows of a table, and of one with entries of an index.
const TABLE_LEAF: u8 = 0x0d;
const INDEX_LEAF: u8 = 0x0a;
/// Where the first page's rows begin, behind the file's header.
const FIRST_AT: usize = 100;
/// Columns of a row, at most; ours have fewer.
const COLUMNS_MAX: usize = 64;
/// The largest row: SQLite's own limit.
const ROW_LEN_MAX: usize = 1 << 30;

/// A file's pages.
#[derive(Debug)]
pub(crate) struct Pages {
    file: File,
    wal: Option<File>,
    /// Where in the WAL the newest committed content of a page is.
    over: HashMap<u32, u64>,
    count: u32,
}

impl Pages {
    /// The pages of `file`, as of the last whole commit in its WAL.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let mut count =
            u32::try_from(file.metadata()?.len().div_ceil(PAGE_LEN as u64)).unwrap_or(u32::MAX);
        let mut over = HashMap::new();
        let wal = match File::open(beside(path, "-wal")) {
            Ok(wal) => Some(wal),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(wal) = &wal
            && let Some(size) = read_wal(wal, &mut over)
        {
            count = count.max(size);
        }
        Ok(Self {
            file,
            wal,
            over,
            count,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A page, from 1; what the file does not have is zeros.
    pub(crate) fn page(&self, number: u32) -> std::io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE_LEN];
        let (file, at) = match (self.over.get(&number), &self.wal) {
            (Some(at), Some(wal)) => (wal, *at),
            _ => (
                &self.file,
                u64::from(number.saturating_sub(1)) * PAGE_LEN as u64,
            ),
        };
        let mut filled = 0;
        while filled < page.len() {
            match file.read_at(&mut page[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // A sector that the disk does not give back.
                Err(_) => break,
            }
        }
        Ok(page)
    }

    /// Pages on the free list: what they hold was removed.
    pub(crate) fn free(&self) -> std::io::Result<Vec<bool>> {
        let mut free = vec![false; self.count as usize + 1];
        let first = self.page(1)?;
        if !first.starts_with(b"SQLite format 3\0") {
            return Ok(free);
        }
        let mut trunk = word(&first, 32);
        while trunk != 0
            && let Some(seen) = free.get_mut(trunk as usize)
            && !std::mem::replace(seen, true)
        {
            let page = self.page(trunk)?;
            let leaves = (word(&page, 4) as usize).min(PAGE_LEN / 4 - 2);
            for leaf in 0..leaves {
                if let Some(seen) = free.get_mut(word(&page, 8 + 4 * leaf) as usize) {
                    *seen = true;
                }
            }
            trunk = word(&page, 0);
        }
        Ok(free)
    }

    /// The rows on a page: rowid (`None` in an index) and values. Rows that run over to other pages are followed there.
    pub(crate) fn rows(&self, number: u32) -> std::io::Result<Vec<(Option<i64>, Vec<Value>)>> {
        let page = self.page(number)?;
        let start = if number == 1 { FIRST_AT } else { 0 };
        let kind = page[start];
        if kind != TABLE_LEAF && kind != INDEX_LEAF {
            return Ok(Vec::new());
        }
        let cells = usize::from(half(&page, start + 3)).min(PAGE_LEN / 4);
        let mut rows = Vec::with_capacity(cells);
        for cell in 0..cells {
            let at = usize::from(half(&page, start + 8 + 2 * cell));
            if at < start + 8 || at >= PAGE_LEN {
                continue;
            }
            if let Some(row) = self.cell(&page, at, kind == TABLE_LEAF)? {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn cell(
        &self,
        page: &[u8],
        at: usize,
        table: bool,
    ) -> std::io::Result<Option<(Option<i64>, Vec<Value>)>> {
        let mut at = at;
        let Some(len) = varint(page, &mut at)
            .and_then(|len| usize::try_from(len).ok())
            .filter(|len| *len <= ROW_LEN_MAX)
        else {
            return Ok(None);
        };
        let rowid = if table {
            match varint(page, &mut at) {
                Some(rowid) => Some(rowid),
                None => return Ok(None),
            }
        } else {
            None
        };
        let usable = PAGE_LEN;
        let most = if table {
            usable - 35
        } else {
            (usable - 12) * 64 / 255 - 23
        };
        let least = (usable - 12) * 32 / 255 - 23;
        let here = if len <= most {
            len
        } else {
            let fitting = least + (len - least) % (usable - 4);
            if fitting <= most { fitting } else { least }
        };
        let Some(first) = page.get(at..at + here) else {
            return Ok(None);
        };
        let mut payload = first.to_vec();
        if here < len {
            let mut next = word(page, at + here);
            let mut hops = len / (usable - 4) + 2;
            while payload.len() < len && next != 0 && next <= self.count && hops > 0 {
                let over = self.page(next)?;
                let part = (len - payload.len()).min(usable - 4);
                payload.extend_from_slice(&over[4..4 + part]);
                next = word(&over, 0);
                hops -= 1;
            }
            if payload.len() < len {
                return Ok(None);
            }
        }
        Ok(record(&payload).map(|values| (rowid, values)))
    }
}

/// Where each page's newest committed content is; the size of the database after the last commit.
fn read_wal(wal: &File, over: &mut HashMap<u32, u64>) -> Option<u32> {
    // A sector that the disk does not give back ends it, as one that does not check.
    let mut frames = Frames::begin(BufReader::with_capacity(1 << 20, wal))
        .ok()
        .flatten()
        .filter(|frames| frames.page_len() == PAGE_LEN)?;
    let mut size = None;
    let mut pending: HashMap<u32, u64> = HashMap::new();
    while let Ok(Some(frame)) = frames.next()
        && frame.sound
    {
        pending.insert(frame.page, frame.at);
        if frame.commit != 0 {
            over.extend(pending.drain());
            size = Some(frame.commit);
        }
    }
    size
}

fn half(data: &[u8], at: usize) -> u16 {
    let bytes = data.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
    u16::from_be_bytes(bytes.unwrap_or_default())
}

/// SQLite's integer of 1 to 9 bytes.
fn varint(data: &[u8], at: &mut usize) -> Option<i64> {
    let mut value: u64 = 0;
    for count in 1..=9 {
        let byte = *data.get(*at)?;
        *at += 1;
        if count == 9 {
            value = value << 8 | u64::from(byte);
            break;
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Some(i64::from_ne_bytes(value.to_ne_bytes()))
}

/// The values of a record; `None` = it is none.
fn record(data: &[u8]) -> Option<Vec<Value>> {
    let mut at = 0;
    let header = usize::try_from(varint(data, &mut at)?).ok()?;
    let mut body = header;
    let mut values = Vec::new();
    while at < header {
        let kind = varint(data, &mut at)?;
        let len = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let bytes = data.get(body..body.checked_add(len)?)?;
        body += len;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Int(0),
            9 => Value::Int(1),
            7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
            1..=6 => Value::Int(signed(bytes)),
            _ if kind % 2 == 0 => Value::Blob(bytes.to_vec()),
            _ => Value::Text(bytes.to_vec()),
        });
        if values.len() > COLUMNS_MAX {
            return None;
        }
    }
    (at == header && body == data.len()).then_some(values)
}

fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let start = if negative { -1 } else { 0 };
    bytes
        .iter()
        .fold(start, |value, byte| value << 8 | i64::from(*byte))
}
