//! A job's allocations counted, and its status on every node.
//!
//! `{"JobID","Namespace","Summary":{GROUP:{"Queued","Complete","Failed","Running","Starting","Lost","Unknown"}},"Children":{"Pending",
//! "Running","Dead"},"CreateIndex","ModifyIndex","ClientStatus"}`. The counts are of what is true now; Nomad's only go up for complete
//! and failed. `ClientStatus` is a key of its own: clients make a counter of every key inside the others. Where it is missing, the server
//! is older than it.

use info::{Allocs, Kind, Projection, Record, Status, clients};
use job::AllocStatus;

use super::json::{self, Object};
use crate::{facts, names};

/// The key of the status on every node.
pub const CLIENT_STATUS_KEY: &str = "ClientStatus";

/// Writes a summary; with the status on every node, or without.
pub(crate) fn write(out: &mut Vec<u8>, list: &Projection, record: &Record, per_client: bool) {
    let allocs = Allocs::of(record, list.nodes());
    let mut counts = [0_u64; AllocStatus::ALL.len()];
    let mut modified = record.modify_seq();
    for alloc in allocs.iter() {
        if let Some(count) = counts.get_mut(alloc.status as usize) {
            *count += 1;
        }
        modified = modified.max(alloc.modified.seq);
    }
    let count = |status: AllocStatus| counts.get(status as usize).copied().unwrap_or(0);
    let children = list.jobs().children(record.id());
    if let Some(children) = children {
        modified = modified.max(children.changed_seq());
    }
    let waits = record.status() == Some(Status::Pending) && record.kind() != Kind::Parameterized;
    let queued = if waits {
        u64::from(facts::group_count(record)).saturating_sub(allocs.len() as u64)
    } else {
        0
    };
    json::object(out, |object| {
        object.text("JobID", &facts::job_id(record));
        object.text("Namespace", names::NAMESPACE);
        object.object("Summary", |groups| {
            json::object(groups.any_key(record.group()), |group| {
                group.uint("Queued", queued);
                group.uint("Complete", count(AllocStatus::Complete));
                group.uint("Failed", count(AllocStatus::Failed));
                group.uint("Running", count(AllocStatus::Running));
                group.uint("Starting", count(AllocStatus::Pending));
                group.uint("Lost", count(AllocStatus::Lost));
                group.uint("Unknown", count(AllocStatus::Unknown));
            });
        });
        object.object("Children", |counts| {
            for (key, status) in [
                ("Pending", Status::Pending),
                ("Running", Status::Running),
                ("Dead", Status::Dead),
            ] {
                counts.uint(key, children.map_or(0, |children| children.count(status)));
            }
        });
        object.uint("CreateIndex", record.create_seq());
        object.uint("ModifyIndex", modified);
        if per_client {
            object.object(CLIENT_STATUS_KEY, |object| {
                client_status(object, list, record)
            });
        }
    });
}

/// `{"byNode":{ID:STATUS},"byStatus":{STATUS:[ID…] for each of the nine},"totalNodes":N,"reasons":{ID:TEXT}}`.
fn client_status(object: &mut Object<'_>, list: &Projection, record: &Record) {
    let nodes = list.nodes();
    let per_client = clients::per_client(record, nodes);
    let mut rows: Vec<_> = per_client
        .rows
        .iter()
        .filter_map(|row| Some((names::node(&nodes.get(row.node)?.name), row)))
        .collect();
    rows.sort_unstable_by_key(|(id, _)| *id);
    object.object("byNode", |by_node| {
        for (id, row) in &rows {
            by_node.text(names::text(id), row.status.name());
        }
    });
    object.object("byStatus", |by_status| {
        for status in info::ClientStatus::ALL {
            let of_status = rows.iter().filter(|(_, row)| row.status == status);
            json::list(by_status.key(status.name()), of_status, |out, (id, _)| {
                info::row::text(out, names::text(id));
            });
        }
    });
    object.uint("totalNodes", rows.len() as u64);
    object.object("reasons", |reasons| {
        for (id, row) in &rows {
            if let Some(reason) = &row.reason {
                reasons.text(names::text(id), reason);
            }
        }
    });
}
