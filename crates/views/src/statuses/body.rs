//! Pages of statuses as text: the array that Nomad's clients know, and the two events of the stream.
//!
//! ```text
//!  whole    [row,row…]
//!  event    {"rows":[row,row…],"next":"TOKEN"|null}
//!  delta    {"rows":[those that are new or changed…],"removed":["f2abc"…],"order":["f2abd"…]?,"next":…}
//! ```
//! `removed` and `order` name jobs by their own id, which each row has as `Weir.ID`; `order` is there only when the rows that stay have
//! others between or before them.

use std::{collections::HashMap, sync::Arc};

use info::Projection;
use job::JobId;

use super::{
    Shape,
    assemble::Assembler,
    rows::{Row, Rows},
};
use crate::{answer::Body, watch::page::Member};

/// Most bytes of one body; the page ends before the row that would not fit, but has one.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 20;

/// How many rows fit into a body, and the rows.
pub(crate) fn rows_of(
    rows: &mut Rows,
    projection: &Projection,
    members: &mut [Member],
    shape: Shape,
) -> Vec<Arc<Row>> {
    let mut bytes = 0;
    let mut taken = Vec::with_capacity(members.len());
    for member in members {
        let Some(row) = rows.get(projection, member.id) else {
            continue;
        };
        bytes += row.len(shape) + 1;
        if bytes > BODY_BYTES_MAX && !taken.is_empty() {
            break;
        }
        member.sign = row.sign(shape);
        taken.push(row);
    }
    taken
}

fn list(out: &mut Assembler, rows: impl Iterator<Item = Arc<Row>>, shape: Shape) {
    out.text(b"[");
    for (at, row) in rows.enumerate() {
        if at > 0 {
            out.text(b",");
        }
        row.write(shape, out);
    }
    out.text(b"]");
}

/// The array.
pub(crate) fn whole(rows: &[Arc<Row>], shape: Shape) -> Body {
    let mut out = Assembler::default();
    list(&mut out, rows.iter().cloned(), shape);
    out.finish()
}

/// The whole page as an event.
pub(crate) fn event(rows: &[Arc<Row>], shape: Shape, next: Option<&str>) -> Body {
    let mut out = Assembler::default();
    out.text(b"{\"rows\":");
    list(&mut out, rows.iter().cloned(), shape);
    finish(out, next)
}

/// What changed between two states of a page, as an event.
pub(crate) fn delta(
    rows: &[Arc<Row>],
    old: &[Member],
    now: &[Member],
    shape: Shape,
    next: Option<&str>,
) -> Body {
    let known: HashMap<JobId, u64> = old.iter().map(|member| (member.id, member.sign)).collect();
    let here: HashMap<JobId, ()> = now.iter().map(|member| (member.id, ())).collect();
    let mut out = Assembler::default();
    out.text(b"{\"rows\":");
    let changed = now
        .iter()
        .zip(rows)
        .filter(|(member, row)| known.get(&member.id) != Some(&row.sign(shape)))
        .map(|(_, row)| row.clone());
    list(&mut out, changed, shape);
    out.text(b",\"removed\":");
    let gone = old.iter().filter(|member| !here.contains_key(&member.id));
    ids(&mut out, gone.map(|member| member.id));
    let stayed = old
        .iter()
        .filter(|member| here.contains_key(&member.id))
        .map(|member| member.id);
    if !stayed.eq(now.iter().map(|member| member.id)) {
        out.text(b",\"order\":");
        ids(&mut out, now.iter().map(|member| member.id));
    }
    finish(out, next)
}

fn ids(out: &mut Assembler, ids: impl Iterator<Item = JobId>) {
    out.text(b"[");
    for (at, id) in ids.enumerate() {
        if at > 0 {
            out.text(b",");
        }
        out.text(b"\"");
        out.text(id.f58(true).as_bytes());
        out.text(b"\"");
    }
    out.text(b"]");
}

fn finish(mut out: Assembler, next: Option<&str>) -> Body {
    match next {
        // A token is digits.
        Some(token) => {
            out.text(b",\"next\":\"");
            out.text(token.as_bytes());
            out.text(b"\"}");
        }
        None => out.text(b",\"next\":null}"),
    }
    out.finish()
}
