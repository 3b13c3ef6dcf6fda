//! One row of the job table into a job, or what is wrong with it. Nothing in a row is believed: a row that is not as this release
//! writes it is named and left out, and its neighbours are read.

use bytes::Bytes;
use job::{Entry, JobId, Seq, Source, Timestamp};
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::IgnoredAny;

use crate::error::Corrupt;
use crate::rows::{attach, bytes_at, id_from_sql, parse_lines, seq_from_sql};
use crate::stored::{Damage, JobsPage, StoredJob};

/// What [`stored`] reads, in its order.
pub(crate) const COLUMNS: &str = "job.id, job.userid, job.flags, job.t_submit, job.active, job.waitable, job.done_seq, job.t_inactive, job.result, \
     (SELECT data FROM blob WHERE blob.id = job.spec), job.r, job.eventlog, \
     (SELECT group_concat(lines, '') FROM (SELECT lines FROM tail WHERE tail.job = job.id ORDER BY seq))";

/// Adds the job of this row to the page, or its damage.
pub(crate) fn stored(row: &Row<'_>, j: Option<Bytes>, page: &mut JobsPage) {
    let Ok(id) = row.get(0).map(id_from_sql) else {
        return;
    };
    match read(id, row, j) {
        Ok(job) => page.jobs.push(job),
        Err(what) => page.damaged.push(Damage {
            job: Some(id),
            seq: None,
            what,
        }),
    }
}

fn read(id: JobId, row: &Row<'_>, j: Option<Bytes>) -> Result<StoredJob, Corrupt> {
    let mut job = StoredJob {
        id,
        userid: number(row, 1, "userid")?.ok_or(null("userid"))?,
        flags: number(row, 2, "flags")?.ok_or(null("flags"))?,
        t_submit: time(row, 3, "t_submit")?.ok_or(null("t_submit"))?,
        active: truth(row, 4, "active")?,
        waitable: truth(row, 5, "waitable")?,
        done_seq: number::<i64>(row, 6, "done_seq")?.map(seq_from_sql),
        t_inactive: time(row, 7, "t_inactive")?,
        result: number(row, 8, "result")?,
        jobspec: Bytes::new(),
        r: None,
        j,
        eventlog: Vec::new(),
    };
    let jobspec = bytes_at(row, 9, "spec")?.ok_or(Corrupt::NoJobspec)?;
    object("jobspec", &jobspec)?;
    let r = bytes_at(row, 10, "r")?;
    if let Some(r) = &r {
        object("r", r)?;
    }
    let lines = eventlog(row)?.ok_or(Corrupt::NoEventlog)?;
    let mut entries = whole(&lines)?;
    belong(&entries, id, job.userid)?;
    ended(&job, &entries)?;
    for entry in &mut entries {
        attach(entry, Some(&jobspec), r.as_ref());
    }
    (job.jobspec, job.r, job.eventlog) = (jobspec, r, entries);
    Ok(job)
}

fn null(column: &'static str) -> Corrupt {
    Corrupt::Column {
        column,
        met: "NULL".to_owned(),
    }
}

fn wrong(column: &'static str, value: ValueRef<'_>) -> Corrupt {
    let met = match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("a text of {} bytes", text.len()),
        ValueRef::Blob(blob) => format!("a blob of {} bytes", blob.len()),
    };
    Corrupt::Column { column, met }
}

fn number<T: TryFrom<i64>>(
    row: &Row<'_>,
    at: usize,
    column: &'static str,
) -> Result<Option<T>, Corrupt> {
    match row.get_ref(at) {
        Ok(ValueRef::Null) => Ok(None),
        Ok(value @ ValueRef::Integer(number)) => match T::try_from(number) {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(wrong(column, value)),
        },
        Ok(value) => Err(wrong(column, value)),
        Err(_) => Err(null(column)),
    }
}

fn truth(row: &Row<'_>, at: usize, column: &'static str) -> Result<bool, Corrupt> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(0)) => Ok(false),
        Ok(ValueRef::Integer(1)) => Ok(true),
        Ok(value) => Err(wrong(column, value)),
        Err(_) => Err(null(column)),
    }
}

fn time(row: &Row<'_>, at: usize, column: &'static str) -> Result<Option<Timestamp>, Corrupt> {
    match row.get_ref(at) {
        Ok(ValueRef::Null) => Ok(None),
        Ok(value @ ValueRef::Real(seconds)) => {
            let time = Timestamp(seconds);
            if time.is_valid() {
                Ok(Some(time))
            } else {
                Err(wrong(column, value))
            }
        }
        Ok(value) => Err(wrong(column, value)),
        Err(_) => Err(null(column)),
    }
}

/// The whole eventlog: what the job's row has, and its tail.
fn eventlog(row: &Row<'_>) -> Result<Option<Bytes>, Corrupt> {
    let written = bytes_at(row, 11, "eventlog")?;
    match (written, bytes_at(row, 12, "tail")?) {
        (Some(written), Some(tail)) => Ok(Some([written, tail].concat().into())),
        (written, _) => Ok(written),
    }
}

/// Every line of an eventlog, or what is wrong with the first that cannot be read.
fn whole(lines: &Bytes) -> Result<Vec<Entry>, Corrupt> {
    let (entries, wrong) = parse_lines(lines);
    match wrong.into_iter().next() {
        Some(what) => Err(what),
        None if entries.is_empty() => Err(Corrupt::NoEventlog),
        None => Ok(entries),
    }
}

/// They are this job's, of this owner, all of them, in order, and begin with its submit.
fn belong(entries: &[Entry], id: JobId, userid: u32) -> Result<(), Corrupt> {
    let mut last = Seq(0);
    for (at, entry) in entries.iter().enumerate() {
        let detail = if entry.source != Source::Job(id) {
            "it is another job's".to_owned()
        } else if entry.userid != userid {
            format!("its user is {}, the job's is {userid}", entry.userid)
        } else if entry.eventlog_seq as usize != at + 1 {
            format!("it is entry {} of the job", entry.eventlog_seq)
        } else if entry.seq <= last {
            format!("seq {} follows {last}", entry.seq)
        } else if at == 0 && entry.name.as_str() != "submit" {
            format!("the first entry is {}", entry.name.as_str())
        } else {
            last = entry.seq;
            continue;
        };
        return Err(Corrupt::Line {
            line: at + 1,
            detail,
        });
    }
    Ok(())
}

/// What the row says about the job's end is what its entries say.
fn ended(job: &StoredJob, entries: &[Entry]) -> Result<(), Corrupt> {
    let clean = |entry: &&Entry| entry.name.as_str() == "clean";
    let cleaned = entries.iter().rev().find(clean).map(|entry| entry.seq);
    match (job.active, job.done_seq, cleaned) {
        (true, None, None) => Ok(()),
        (false, Some(done), Some(clean)) if done >= clean => {
            let last = entries.last().map_or(clean, |entry| entry.seq);
            if done > last {
                return Err(Corrupt::Column {
                    column: "done_seq",
                    met: done.to_string(),
                });
            }
            match (job.t_inactive, job.result) {
                (None, _) => Err(null("t_inactive")),
                (_, None) => Err(null("result")),
                _ => Ok(()),
            }
        }
        (false, None, _) => Err(null("done_seq")),
        (active, _, cleaned) => Err(Corrupt::State { active, cleaned }),
    }
}

/// A JSON object, to the last byte; what stands inside is for others.
pub(crate) fn object(what: &'static str, json: &[u8]) -> Result<(), Corrupt> {
    let detail = match serde_json::from_slice::<IgnoredAny>(json) {
        Err(error) => error.to_string(),
        Ok(IgnoredAny) if json.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') => {
            "it is no object".to_owned()
        }
        Ok(IgnoredAny) if std::str::from_utf8(json).is_err() => "it is not UTF-8".to_owned(),
        Ok(IgnoredAny) => return Ok(()),
    };
    Err(Corrupt::NotJson { what, detail })
}
