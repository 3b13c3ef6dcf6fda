//! Between SQLite's values and ours: text bound without a UTF-8 pass, text read back as bytes, ids and seqs as integers.

use bytes::Bytes;
use job::{Attach, Entry, JobId, Seq};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Result, Row};

use crate::error::Corrupt;

/// Bytes that are text by construction (JSON, entry lines), bound as TEXT so that every SQLite tool shows them.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// A job id as SQLite stores it: the same 64 bits.
pub(crate) fn id_to_sql(id: JobId) -> i64 {
    i64::from_ne_bytes(id.0.to_ne_bytes())
}

/// Back from [`id_to_sql`].
pub(crate) fn id_from_sql(id: i64) -> JobId {
    JobId(u64::from_ne_bytes(id.to_ne_bytes()))
}

/// A seq as SQLite stores it. Seqs count up from 1 and stay far below 2^63.
pub(crate) fn seq_to_sql(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// Back from [`seq_to_sql`].
pub(crate) fn seq_from_sql(seq: i64) -> Seq {
    Seq(u64::try_from(seq).unwrap_or(0))
}

/// The bytes of a TEXT or BLOB column; `None` for NULL.
pub(crate) fn bytes_at(
    row: &Row<'_>,
    index: usize,
    column: &'static str,
) -> std::result::Result<Option<Bytes>, Corrupt> {
    match row.get_ref(index) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
            Ok(Some(Bytes::copy_from_slice(bytes)))
        }
        Ok(ValueRef::Null) => Ok(None),
        Ok(ValueRef::Integer(_) | ValueRef::Real(_)) | Err(_) => Err(Corrupt::Column {
            column,
            met: "a number".to_owned(),
        }),
    }
}

/// Cuts text into entry lines that share its memory, each kept if it can be read; what is wrong with the others.
pub(crate) fn parse_lines(text: &Bytes) -> (Vec<Entry>, Vec<Corrupt>) {
    let mut entries = Vec::with_capacity(text.len() / 128 + 1);
    let mut wrong = Vec::new();
    let mut start = 0;
    let mut number = 0;
    while start < text.len() {
        number += 1;
        let Some(end) = text[start..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| start + at + 1)
        else {
            wrong.push(Corrupt::Cut);
            break;
        };
        match Entry::parse_line(&text.slice(start..end)) {
            Ok(entry) => entries.push(entry),
            Err(error) => wrong.push(Corrupt::Line {
                line: number,
                detail: error.to_string(),
            }),
        }
        start = end;
    }
    (entries, wrong)
}

/// Gives a submit entry its jobspec and an alloc entry its R, as they were when the entry was new.
pub(crate) fn attach(entry: &mut Entry, jobspec: Option<&Bytes>, r: Option<&Bytes>) {
    match entry.name.as_str() {
        "submit" => {
            if let Some(jobspec) = jobspec {
                entry.attach = Attach::Jobspec(jobspec.clone());
            }
        }
        "alloc" => {
            if let Some(r) = r {
                entry.attach = Attach::R(r.clone());
            }
        }
        _ => {}
    }
}
