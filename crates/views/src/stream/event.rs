//! One event as JSON: `{"FilterKeys":[…]|null,"Index":N,"Key":"…","Namespace":"…","Payload":{…},"Topic":"…","Type":"…"}`.
//!
//! `Type` names what led to it in Nomad's words, and is not more exact than those are:
//!
//! ```text
//!  Job         JobRegistered, JobDeregistered (gone), AllocationUpdated (an allocation changed, too), EvaluationUpdated
//!  Allocation  PlanResult (new), AllocationUpdated
//!  Node        NodeRegistration (new), NodeDrain, NodeStreamEvent (up, down, anything else)
//! ```

use info::{Alloc, JobChange, Node, Nodes, Record, What};
use job::JobId;

use super::topics::Topic;
use crate::{
    bodies::{self, json::Object},
    facts, names,
};

/// Most events of one line; what changed more in one fold comes as several lines of one index.
pub const EVENTS_LINE_MAX: usize = 512;

/// What changes a job's own event is sent for.
pub(super) const JOB_EVENT: What =
    What(What::STATUS.0 | What::CREATED.0 | What::REMOVED.0 | What::ROW.0);

struct Head<'a> {
    topic: Topic,
    kind: &'a str,
    index: u64,
    key: &'a str,
    filter_keys: &'a [&'a str],
    namespace: &'a str,
}

fn write(out: &mut Vec<u8>, head: &Head<'_>, payload: impl FnOnce(&mut Object<'_>)) {
    bodies::json::object(out, |object| {
        object.text("Topic", head.topic.name());
        object.text("Type", head.kind);
        object.text("Key", head.key);
        object.text("Namespace", head.namespace);
        if head.filter_keys.is_empty() {
            object.nulls(&["FilterKeys"]);
        } else {
            bodies::json::list(object.key("FilterKeys"), head.filter_keys, |out, key| {
                info::row::text(out, key);
            });
        }
        object.uint("Index", head.index);
        object.object("Payload", payload);
    });
}

/// Writes a job's event.
pub(super) fn job(out: &mut Vec<u8>, change: &JobChange, record: &Record) {
    let what = change.what;
    let kind = if what.contains(What::CREATED) {
        "JobRegistered"
    } else if what.contains(What::ALLOCS) {
        "AllocationUpdated"
    } else if what.contains(What::STATUS) {
        "EvaluationUpdated"
    } else {
        "JobRegistered"
    };
    let key = facts::job_id(record);
    let head = Head {
        topic: Topic::Job,
        kind,
        index: change.seq,
        key: &key,
        filter_keys: &[],
        namespace: names::NAMESPACE,
    };
    write(out, &head, |payload| {
        bodies::write_job(payload.key("Job"), record)
    });
}

/// Writes the event of a job that is gone.
pub(super) fn job_gone(out: &mut Vec<u8>, index: u64, id: JobId) {
    let key = id.f58(true);
    let head = Head {
        topic: Topic::Job,
        kind: "JobDeregistered",
        index,
        key: &key,
        filter_keys: &[],
        namespace: names::NAMESPACE,
    };
    write(out, &head, |payload| {
        bodies::write_gone(payload.key("Job"), id);
        payload.bool("Deleted", true);
    });
}

/// Writes an allocation's event.
pub(super) fn alloc(
    out: &mut Vec<u8>,
    nodes: &Nodes,
    record: &Record,
    alloc: &Alloc<'_>,
    number: usize,
    is_new: bool,
) {
    let id = names::allocation(record.id(), 0, alloc.rank);
    let job = facts::job_id(record);
    let head = Head {
        topic: Topic::Allocation,
        kind: if is_new {
            "PlanResult"
        } else {
            "AllocationUpdated"
        },
        index: alloc.modified.seq,
        key: names::text(&id),
        filter_keys: &[&job],
        namespace: names::NAMESPACE,
    };
    write(out, &head, |payload| {
        let out = payload.key("Allocation");
        bodies::write_alloc(out, nodes, record, alloc, number, bodies::Form::Full);
    });
}

/// Writes a node's event.
pub(super) fn node(out: &mut Vec<u8>, index: u64, node: &Node, is_new: bool) {
    let kind = match (is_new, &node.drain) {
        (true, _) => "NodeRegistration",
        (false, Some(drain)) if node.since.is_none_or(|since| drain.since.0 >= since.0) => {
            "NodeDrain"
        }
        (false, _) => "NodeStreamEvent",
    };
    let id = names::node(&node.name);
    let head = Head {
        topic: Topic::Node,
        kind,
        index,
        key: names::text(&id),
        filter_keys: &[],
        namespace: "",
    };
    write(out, &head, |payload| {
        bodies::write_node(payload.key("Node"), node)
    });
}
