//! One allocation: the stub of a list, and whole. Whole, its `Job` is null: ask for the job.

use info::{Alloc, Nodes, Record};
use job::{
    AllocStatus, Timestamp,
    waitstatus::{Ended, WaitStatus},
};

use super::json::{self, Object};
use crate::{facts, names};

/// `Name`: `JOB.GROUP[N]`.
pub(crate) fn alloc_name(record: &Record, number: usize) -> String {
    format!("{}.{}[{number}]", facts::job_id(record), record.group())
}

/// How much of it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As a list shows it.
    Stub {
        /// With what it holds.
        resources: bool,
    },
    /// Whole.
    Full,
}

/// Writes one allocation.
pub(crate) fn write(
    out: &mut Vec<u8>,
    nodes: &Nodes,
    record: &Record,
    alloc: &Alloc<'_>,
    number: usize,
    form: Form,
) {
    let node = nodes.get(alloc.node).map_or("", |node| &node.name);
    json::object(out, |object| {
        object.text(
            "ID",
            names::text(&names::allocation(record.id(), 0, alloc.rank)),
        );
        object.text("Name", &alloc_name(record, number));
        object.text("Namespace", names::NAMESPACE);
        object.text("NodeID", names::text(&names::node(node)));
        object.text("NodeName", node);
        object.text("JobID", &facts::job_id(record));
        object.text("TaskGroup", record.group());
        object.text(
            "DesiredStatus",
            if alloc.desired_stop { "stop" } else { "run" },
        );
        object.text("ClientStatus", alloc.status.as_str());
        object.text("ClientDescription", alloc.reason.unwrap_or_default());
        object.blanks(&[
            "EvalID",
            "DesiredDescription",
            "FollowupEvalID",
            "NextAllocation",
            "PreemptedByAllocation",
        ]);
        object.nulls(&[
            "DeploymentStatus",
            "RescheduleTracker",
            "PreemptedAllocations",
        ]);
        object.raw(
            "DesiredTransition",
            br#"{"Migrate":null,"Reschedule":null,"ForceReschedule":null,"NoShutdownDelay":null}"#,
        );
        object.object("TaskStates", |states| {
            json::object(states.any_key(record.group()), |state| {
                task_state(state, record, alloc)
            });
        });
        object.uint("CreateIndex", alloc.created.seq);
        object.uint("ModifyIndex", alloc.modified.seq);
        object.nanos("CreateTime", alloc.created.time);
        object.nanos("ModifyTime", alloc.modified.time);
        match form {
            Form::Stub { resources } => {
                object.text("JobType", facts::job_type(record));
                object.uint("JobVersion", 0_u64);
                if resources {
                    object.nulls(&["AllocatedResources"]);
                }
            }
            Form::Full => {
                object.nulls(&[
                    "Job",
                    "Resources",
                    "SharedResources",
                    "TaskResources",
                    "AllocatedResources",
                    "Services",
                    "Metrics",
                    "NetworkStatus",
                ]);
                object.blanks(&["DeploymentID", "PreviousAllocation"]);
                object.uint("AllocModifyIndex", alloc.modified.seq);
            }
        }
        object.object("Weir", |weir| {
            weir.uint("Rank", alloc.rank);
            match alloc.wait_status {
                Some(status) => weir.int("WaitStatus", i64::from(status)),
                None => weir.nulls(&["WaitStatus"]),
            }
        });
    });
}

fn task_state(state: &mut Object<'_>, record: &Record, alloc: &Alloc<'_>) {
    let (name, over) = match alloc.status {
        AllocStatus::Pending => ("pending", false),
        AllocStatus::Running | AllocStatus::Unknown => ("running", false),
        AllocStatus::Complete | AllocStatus::Failed | AllocStatus::Lost => ("dead", true),
    };
    state.text("State", name);
    state.bool("Failed", alloc.status == AllocStatus::Failed);
    state.uint("Restarts", 0_u64);
    state.text("LastRestart", facts::NEVER);
    let job = record.job();
    let started = job.t_run.get().filter(|_| job.started);
    let finished = over.then_some(alloc.modified.time);
    let text = |time: Option<Timestamp>| time.map_or(facts::NEVER.to_owned(), facts::rfc3339);
    state.text("StartedAt", &text(started));
    state.text("FinishedAt", &text(finished));
    let out = state.key("Events");
    out.push(b'[');
    if let Some(started) = started {
        event(out, "Started", started, "its processes were started", None);
        if let Some(finished) = finished {
            out.push(b',');
            let (kind, about) = match (alloc.status, alloc.desired_stop) {
                (AllocStatus::Lost, _) => ("Not Restarting", alloc.reason.unwrap_or("lost")),
                (_, true) => ("Killed", alloc.reason.unwrap_or("canceled")),
                _ => ("Terminated", alloc.reason.unwrap_or("exit code 0")),
            };
            event(out, kind, finished, about, alloc.wait_status);
        }
    }
    out.push(b']');
}

/// Writes what happened to a task.
fn event(out: &mut Vec<u8>, kind: &str, time: Timestamp, about: &str, wait_status: Option<i32>) {
    let (code, signal) = match wait_status.map(|status| WaitStatus(status).ended()) {
        Some(Ended::Exited(code)) => (code, 0),
        // As a shell says it.
        Some(Ended::Signaled(signal)) => (signal.saturating_add(128), signal),
        None => (0, 0),
    };
    json::object(out, |event| {
        event.text("Type", kind);
        event.nanos("Time", time);
        event.text("DisplayMessage", about);
        event.blanks(&["Message"]);
        event.uint("ExitCode", code);
        event.uint("Signal", signal);
        event.raw("Details", b"{}");
        event.bool("FailsTask", false);
    });
}
