//! What a file can be at open, and the verdict on each. Nothing is changed but a transaction of ours rolled back that was cut short.
//!
//! | met | verdict |
//! | --- | --- |
//! | no file, or one of length 0, and nothing beside it | a new store is made, with a new epoch |
//! | SQLite file, `application_id` and version 0, no tables | the same: a start that was cut short |
//! | anything, beside a `-journal` of a database that was empty | the same: cut short even earlier; SQLite rolls it back |
//! | a file that was never switched to a WAL, beside one | refused ([`OpenError::OthersWal`]), nothing changed |
//! | our `application_id`, version 1..=[`VERSION`] | migrated if need be, opened |
//! | our `application_id`, a newer version | refused ([`OpenError::NewerSchema`]), nothing changed |
//! | the beginning of an SQLite file's header, and no more; fewer pages than its header counts | refused ([`OpenError::Truncated`]), nothing changed |
//! | another `application_id`, or tables at version 0, or no SQLite file | refused ([`OpenError::NotAStore`]), nothing changed |
//! | no file or an empty one, and a `-wal` or `-journal` that holds data, or a file of a recovery | refused ([`OpenError::Lost`]), nothing changed |
//! | anything, beside a store that was about to take its place | refused ([`OpenError::CutShort`]), nothing changed |
//! | a header of zeros, or its structure is broken where we look | refused ([`OpenError::Damaged`]) |
//!
//! A WAL left by a crash is SQLite's to roll forward; what was not whole in it was never told to anybody. A `-journal` is left by a kill
//! while the file is made (the switch to a WAL is written with one), or by a tool that took the file out of WAL mode: it can only
//! be rolled back by a connection that may write. An `-shm` is made anew whatever it holds.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use crate::error::OpenError;
use crate::recover::open_error;
use crate::schema::{APPLICATION_ID, VERSION};

/// What is there, before anything is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Make a new store.
    Fresh,
    /// Open; migrate from this version.
    Ours(i64),
}

/// How a file begins.
enum Header {
    /// There is none, or it has no bytes.
    Absent,
    /// So many bytes of zero where a header should be.
    Zeros,
    /// The first bytes of a header, so many.
    Cut(u64),
    /// No SQLite file.
    Other,
    /// `application_id` and `user_version`.
    Sqlite(i64, i64),
}

const HEADER_LEN: usize = 100;
/// The versions of the format for who writes and who reads: 1 = with a journal, 2 = with a WAL.
const HEADER_WAL_AT: usize = 18;
const HEADER_MAGIC: &[u8] = b"SQLite format 3\0";
/// Where the header has the size of a page, the number of changes, the pages of the file, and the number of changes when those were counted.
const HEADER_PAGE_LEN_AT: usize = 16;
const HEADER_CHANGES_AT: usize = 24;
const HEADER_PAGES_AT: usize = 28;
const HEADER_COUNTED_AT: usize = 92;
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Where a journal's header says how many pages the database had before.
const JOURNAL_PAGES_AT: usize = 16;

/// What the name of an old store that was recovered ends with, and a number.
pub(crate) const DAMAGED: &str = ".damaged-";
/// Of a recovered store that is about to take the place of the one that is kept under the same number.
pub(crate) const RECOVERED: &str = ".recovered-";

/// Looks at the file, and at what lies beside it.
pub(crate) fn examine(file: &Path) -> Result<Verdict, OpenError> {
    let told = |source| OpenError::Directory {
        dir: file.to_owned(),
        source,
    };
    let sql = |error| open_error(file, error);
    let not_a_store = || OpenError::NotAStore {
        file: file.to_owned(),
    };
    if let Some(number) = numbered(file, RECOVERED).map_err(told)?.first() {
        return Err(OpenError::CutShort {
            file: file.to_owned(),
            left: beside(file, &format!("{RECOVERED}{number}")),
        });
    }
    let wal = len(&beside(file, "-wal")).map_err(told)? > 0;
    let journal = Journal::look(&beside(file, "-journal")).map_err(told)?;
    let (kind, version, tables) = match read_header(file).map_err(told)? {
        Header::Absent if wal || journal == Journal::OfData => {
            return Err(OpenError::Lost {
                file: file.to_owned(),
                left: beside(file, if wal { "-wal" } else { "-journal" }),
            });
        }
        Header::Absent => {
            return match of_recovery(file).map_err(told)? {
                Some(left) => Err(OpenError::Lost {
                    file: file.to_owned(),
                    left,
                }),
                None => Ok(Verdict::Fresh),
            };
        }
        // The journal is one that came back after a power cut, or else there would be no WAL.
        Header::Sqlite(0, 0) if journal == Journal::OfNothing && wal => {
            ask_sqlite(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?
        }
        // Written or half written when the file was made, and not committed.
        Header::Zeros | Header::Cut(_) | Header::Other | Header::Sqlite(0, 0)
            if journal == Journal::OfNothing =>
        {
            return Ok(Verdict::Fresh);
        }
        Header::Cut(len) => {
            return Err(OpenError::Truncated {
                file: file.to_owned(),
                len,
                whole: None,
            });
        }
        Header::Zeros => {
            return Err(OpenError::Damaged {
                file: file.to_owned(),
                detail: "its first page is overwritten with zeros".to_owned(),
            });
        }
        Header::Other => return Err(not_a_store()),
        // A file is said to have a WAL before it has one; a copy and a recovered store are made without. SQLite would not ask.
        Header::Sqlite(..)
            if wal && journal == Journal::None && says_no_wal(file).map_err(told)? =>
        {
            return Err(OpenError::OthersWal {
                file: file.to_owned(),
                wal: beside(file, "-wal"),
            });
        }
        // A version never goes back, whatever a WAL says.
        Header::Sqlite(APPLICATION_ID, version) if version > VERSION => {
            (APPLICATION_ID, version, 1)
        }
        // A checkpoint that was cut short may have written the first page before the last.
        Header::Sqlite(APPLICATION_ID, _)
            if !wal
                && journal == Journal::None
                && let Some((len, whole)) = cut(file).map_err(told)? =>
        {
            return Err(OpenError::Truncated {
                file: file.to_owned(),
                len,
                whole: Some(whole),
            });
        }
        Header::Sqlite(APPLICATION_ID, _) if journal != Journal::None => {
            ask_sqlite(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?
        }
        Header::Sqlite(kind, version) if !wal && (kind, version) != (0, 0) => (kind, version, 1),
        // Of another program, maybe: it is not ours to roll back.
        Header::Sqlite(..) if journal == Journal::OfData => return Err(not_a_store()),
        Header::Sqlite(..) if journal == Journal::NotOne => {
            ask_sqlite(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?
        }
        Header::Sqlite(..) => ask_sqlite(file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?,
    };
    match (kind, version) {
        (0, 0) if tables == 0 => Ok(Verdict::Fresh),
        (APPLICATION_ID, found) if found > VERSION => Err(OpenError::NewerSchema {
            file: file.to_owned(),
            found,
            known: VERSION,
        }),
        (APPLICATION_ID, found) if found > 0 => Ok(Verdict::Ours(found)),
        _ => Err(not_a_store()),
    }
}

/// A rollback journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Journal {
    /// There is none, or one that is finished with: empty, or its header zeroed.
    None,
    /// Of a database that had no page, or none but the first: rolled back, it has no tables.
    OfNothing,
    /// Of a database that had pages.
    OfData,
    /// A file of that name with something else in it. SQLite removes it, changing nothing else.
    NotOne,
}

impl Journal {
    fn look(path: &Path) -> std::io::Result<Self> {
        let head = head(path, JOURNAL_PAGES_AT + 4)?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(Self::None);
        }
        Ok(match head.get(JOURNAL_PAGES_AT..) {
            // One page holds no table.
            Some([0, 0, 0, 0 | 1]) if head.starts_with(&JOURNAL_MAGIC) => Self::OfNothing,
            Some(_) if head.starts_with(&JOURNAL_MAGIC) => Self::OfData,
            _ => Self::NotOne,
        })
    }
}

/// Read without SQLite, which would make files beside it.
fn read_header(file: &Path) -> std::io::Result<Header> {
    let head = head(file, HEADER_LEN)?;
    let word = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        i64::from(i32::from_be_bytes(bytes.unwrap_or_default()))
    };
    Ok(if head.is_empty() {
        Header::Absent
    } else if head.len() == HEADER_LEN && head.starts_with(HEADER_MAGIC) {
        Header::Sqlite(word(68), word(60))
    } else if head.iter().all(|byte| *byte == 0) {
        Header::Zeros
    } else if head.len() < HEADER_LEN
        && head[..head.len().min(HEADER_MAGIC.len())]
            == HEADER_MAGIC[..head.len().min(HEADER_MAGIC.len())]
    {
        Header::Cut(head.len() as u64)
    } else {
        Header::Other
    })
}

/// The bytes of a file that has fewer pages than its header counts, and how many it should have.
fn cut(file: &Path) -> std::io::Result<Option<(u64, u64)>> {
    let head = head(file, HEADER_LEN)?;
    let word = |at: usize| {
        let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
    };
    let page = match word(HEADER_PAGE_LEN_AT) >> 16 {
        // 65,536 does not fit.
        1 => 1 << 16,
        len => len,
    };
    // Programs of old do not count.
    let counted = word(HEADER_CHANGES_AT) == word(HEADER_COUNTED_AT);
    let (len, whole) = (len(file)?, word(HEADER_PAGES_AT) * page);
    Ok((counted && len < whole).then_some((len, whole)))
}

/// Whether a file was never switched to a WAL.
fn says_no_wal(file: &Path) -> std::io::Result<bool> {
    Ok(head(file, HEADER_LEN)?.get(HEADER_WAL_AT..HEADER_WAL_AT + 2) == Some(&[1, 1]))
}

/// The first `len` bytes of a file, as far as it has them.
fn head(path: &Path, len: usize) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(len);
    match File::open(path) {
        Ok(file) => {
            file.take(len as u64).read_to_end(&mut head)?;
            Ok(head)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(head),
        Err(error) => Err(error),
    }
}

fn len(path: &Path) -> std::io::Result<u64> {
    match std::fs::metadata(path) {
        Ok(meta) => Ok(meta.len()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// The newest that recoveries have left beside a file.
fn of_recovery(file: &Path) -> std::io::Result<Option<PathBuf>> {
    if let Some(number) = numbered(file, DAMAGED)?.into_iter().max() {
        return Ok(Some(beside(file, &format!("{DAMAGED}{number}"))));
    }
    let new = beside(file, ".new");
    Ok((len(&new)? > 0).then_some(new))
}

/// The numbers N for which `file`, this ending and N are the name of a file, or the beginning of one and `-`.
pub(crate) fn numbered(file: &Path, ending: &str) -> std::io::Result<Vec<u64>> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let begin = beside(Path::new(file.file_name().unwrap_or_default()), ending);
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number: Option<u64> = name
            .to_str()
            .and_then(|name| name.strip_prefix(begin.to_str()?))
            .and_then(|rest| rest.split('-').next()?.parse().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}

/// The file that SQLite keeps beside `file` under this ending.
pub(crate) fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The same two numbers and the count of tables, with what a WAL says.
fn ask_sqlite(file: &Path, mode: OpenFlags) -> Result<(i64, i64, i64), rusqlite::Error> {
    let db = Connection::open_with_flags(file, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let kind = db.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables = db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    Ok((kind, version, tables))
}
