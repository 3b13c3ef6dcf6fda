//! One job's row, but for its allocations.

use info::{Children, Projection, Record, Status};
use job::JobResult;

use crate::{facts, names};

/// Writes `{"ID":…` without what is said of children and allocations, and without the closing brace.
pub(crate) fn head(out: &mut Vec<u8>, record: &Record) {
    let job = record.job();
    let put = |out: &mut Vec<u8>, key: &str, text: &str| {
        out.extend_from_slice(key.as_bytes());
        info::row::text(out, text);
    };
    let number = |out: &mut Vec<u8>, key: &str, value: u64| {
        out.extend_from_slice(key.as_bytes());
        info::row::integer(out, value);
    };
    put(out, "{\"ID\":", &facts::job_id(record));
    put(out, ",\"Namespace\":", names::NAMESPACE);
    put(out, ",\"Name\":", facts::name(record));
    put(out, ",\"Type\":", facts::job_type(record));
    put(out, ",\"NodePool\":", facts::pool(record));
    put(out, ",\"Status\":", facts::status(record));
    put(out, ",\"ParentID\":", &facts::parent_id(record));
    out.extend_from_slice(b",\"Datacenters\":[\"*\"]");
    number(out, ",\"Priority\":", job.urgency.get().into());
    out.extend_from_slice(b",\"Version\":0,\"SubmitTime\":");
    let submitted = facts::nanoseconds(job.t_submit);
    if submitted < 0 {
        out.push(b'-');
    }
    info::row::integer(out, submitted.unsigned_abs());
    number(out, ",\"ModifyIndex\":", record.modify_seq());
    number(
        out,
        ",\"GroupCountSum\":",
        facts::group_count(record).into(),
    );
    out.extend_from_slice(if record.is_stopped() {
        b",\"Stop\":true"
    } else {
        b",\"Stop\":false"
    });
    out.extend_from_slice(b",\"IsPack\":false,\"LatestDeployment\":null");
    put(out, ",\"Weir\":{\"ID\":", &job.id.f58(true));
    put(out, ",\"State\":", job.state.long());
    out.extend_from_slice(b",\"Result\":");
    match job.result() {
        Some(result) => info::row::text(out, result.long()),
        None => out.extend_from_slice(b"null"),
    }
    number(out, ",\"Urgency\":", job.urgency.get().into());
    out.extend_from_slice(b",\"Priority\":");
    match job.priority {
        Some(priority) => info::row::integer(out, priority.0.into()),
        None => out.extend_from_slice(b"null"),
    }
    number(out, ",\"UserID\":", job.userid.into());
    out.push(b'}');
}

/// Writes `,"ChildStatuses":` and the status of each child, by id; null of what is no parent.
pub(crate) fn child_statuses(out: &mut Vec<u8>, projection: &Projection, record: &Record) {
    out.extend_from_slice(b",\"ChildStatuses\":");
    if !facts::is_parent(record) {
        return out.extend_from_slice(b"null");
    }
    out.push(b'[');
    let children = projection.jobs().children(record.id());
    for (at, (_, child)) in children.into_iter().flat_map(Children::iter).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        info::row::text(out, child.status.name());
    }
    out.push(b']');
}

/// Writes `,"ChildCounts":` and how many children have which status, `,"ChildResults":` and how many ended how; null of what is no parent.
pub(crate) fn child_counts(out: &mut Vec<u8>, projection: &Projection, record: &Record) {
    out.extend_from_slice(b",\"ChildCounts\":");
    if !facts::is_parent(record) {
        return out.extend_from_slice(b"null,\"ChildResults\":null");
    }
    let children = projection.jobs().children(record.id());
    let counts = Status::ALL.map(|status| {
        let count = children.map_or(0, |children| children.count(status));
        (status.name(), count)
    });
    counted(out, counts);
    out.extend_from_slice(b",\"ChildResults\":");
    let results = RESULTS.map(|(name, result)| {
        let count = children.map_or(0, |children| children.ended(result));
        (name, count)
    });
    counted(out, results);
}

/// How jobs end, as it is written.
const RESULTS: [(&str, JobResult); 4] = [
    ("completed", JobResult::Completed),
    ("failed", JobResult::Failed),
    ("canceled", JobResult::Canceled),
    ("timeout", JobResult::Timeout),
];

/// Writes `{"running":3,…}`.
pub(crate) fn counted(out: &mut Vec<u8>, counts: impl IntoIterator<Item = (&'static str, u32)>) {
    let mut before = b'{';
    for (name, count) in counts {
        out.push(before);
        info::row::text(out, name);
        out.push(b':');
        info::row::integer(out, count.into());
        before = b',';
    }
    out.push(b'}');
}
