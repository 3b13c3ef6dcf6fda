//! One job: the stub of a list, and whole.
//!
//! The command, its arguments and its environment are in neither: the list does not hold them, and guests may read the jobs of others. Who
//! has the jobspec, and a reader who may see it, adds the command afterwards ([`with_command`]). What else there is of the jobspec is a
//! group, a task of the same name, counts.

use info::{Kind, Record};
use job::JobId;

use super::{
    DRIVER,
    json::{self, Object},
    summary,
};
use crate::{facts, names};

/// What only weir knows of a job: `{"State":"RUN","Result":null,"Urgency":16,"Priority":16,"UserID":1000}`.
fn own(object: &mut Object<'_>, record: &Record) {
    let job = record.job();
    object.object("Weir", |weir| {
        weir.text("State", job.state.long());
        match job.result() {
            Some(result) => weir.text("Result", result.long()),
            None => weir.nulls(&["Result"]),
        }
        weir.uint("Urgency", job.urgency.get());
        match job.priority {
            Some(priority) => weir.uint("Priority", priority.0),
            None => weir.nulls(&["Priority"]),
        }
        weir.uint("UserID", job.userid);
    });
}

/// Writes a job as a list shows it.
pub(crate) fn stub(out: &mut Vec<u8>, list: &info::Projection, record: &Record, meta: bool) {
    json::object(out, |object| {
        object.text("ID", &facts::job_id(record));
        object.text("ParentID", &facts::parent_id(record));
        object.text("Name", facts::name(record));
        object.text("Namespace", names::NAMESPACE);
        object.raw("Datacenters", b"[\"*\"]");
        object.text("NodePool", facts::pool(record));
        object.nulls(&["Multiregion"]);
        object.text("Type", facts::job_type(record));
        object.uint("Priority", record.job().urgency.get());
        object.bool("Periodic", false);
        object.bool("ParameterizedJob", record.kind() == Kind::Parameterized);
        object.bool("Stop", record.is_stopped());
        object.text("Status", facts::status(record));
        object.text("StatusDescription", &facts::status_description(record));
        summary::write(object.key("JobSummary"), list, record, false);
        object.uint("CreateIndex", record.create_seq());
        object.uint("ModifyIndex", record.modify_seq());
        object.uint("JobModifyIndex", record.create_seq());
        object.uint("Version", 0_u64);
        object.nanos("SubmitTime", record.job().t_submit);
        if meta {
            write_meta(object, record);
        }
        own(object, record);
    });
}

/// Writes a job whole.
pub(crate) fn full(out: &mut Vec<u8>, record: &Record) {
    json::object(out, |object| {
        object.text("Region", names::REGION);
        object.text("Namespace", names::NAMESPACE);
        object.text("ID", &facts::job_id(record));
        object.text("ParentID", &facts::parent_id(record));
        object.text("Name", facts::name(record));
        object.text("Type", facts::job_type(record));
        object.uint("Priority", record.job().urgency.get());
        object.bool("AllAtOnce", false);
        object.raw("Datacenters", b"[\"*\"]");
        object.text("NodePool", facts::pool(record));
        object.nulls(&["Constraints", "Affinities", "Spreads"]);
        object.key("TaskGroups").push(b'[');
        group(object.open(), record);
        object.open().push(b']');
        object.nulls(&["Update", "Multiregion", "Periodic", "Reschedule", "Migrate"]);
        match &record.spec().dispatch {
            Some(asked) if record.kind() == Kind::Parameterized => {
                object.object("ParameterizedJob", |object| {
                    object.text("Payload", asked.payload);
                    keys(object, "MetaRequired", &asked.meta_required);
                    keys(object, "MetaOptional", &asked.meta_optional);
                });
            }
            _ => object.nulls(&["ParameterizedJob"]),
        }
        object.bool("Dispatched", record.parent().is_some());
        write_meta(object, record);
        object.nulls(&["Payload", "UI", "VersionTag"]);
        object.blanks(&[
            "ConsulToken",
            "ConsulNamespace",
            "VaultToken",
            "VaultNamespace",
            "NomadTokenID",
            "DispatchIdempotencyToken",
        ]);
        object.text("Status", facts::status(record));
        object.text("StatusDescription", &facts::status_description(record));
        object.bool("Stable", false);
        object.bool("Stop", record.is_stopped());
        object.uint("Version", 0_u64);
        object.nanos("SubmitTime", record.job().t_submit);
        object.uint("CreateIndex", record.create_seq());
        object.uint("ModifyIndex", record.modify_seq());
        object.uint("JobModifyIndex", record.create_seq());
        own(object, record);
    });
}

fn write_meta(object: &mut Object<'_>, record: &Record) {
    match facts::meta(record) {
        [] => object.nulls(&["Meta"]),
        meta => object.object("Meta", |object| {
            for (key, value) in meta {
                info::row::text(object.any_key(key), value);
            }
        }),
    }
}

/// Names in a list; null if there is none.
fn keys(object: &mut Object<'_>, key: &str, names: &[String]) {
    if names.is_empty() {
        object.nulls(&[key]);
    } else {
        json::list(object.key(key), names, |out, name| {
            info::row::text(out, name)
        });
    }
}

/// Where the command of a task is put. No text of a body holds these bytes: in a text the quotes are escaped.
const NO_CONFIG: &[u8] = b"\"Config\":null";

/// A job's body, or that of its versions, with the command of its jobspec; `None` if there is none to put in.
#[must_use]
pub fn with_command(body: &[u8], jobspec: &str) -> Option<Vec<u8>> {
    let spec: serde_json::Value = serde_json::from_str(jobspec).ok()?;
    let words = spec.pointer("/tasks/0/command")?.as_array()?;
    let mut words = words.iter().filter_map(serde_json::Value::as_str);
    let program = words.next()?;
    let at = body
        .windows(NO_CONFIG.len())
        .position(|part| part == NO_CONFIG)?;
    let mut whole = Vec::with_capacity(body.len() + jobspec.len());
    whole.extend_from_slice(&body[..at]);
    whole.extend_from_slice(b"\"Config\":");
    json::object(&mut whole, |config| {
        config.text("command", program);
        json::list(config.key("args"), words, info::row::text);
    });
    whole.extend_from_slice(&body[at + NO_CONFIG.len()..]);
    Some(whole)
}

/// What is left of a job that is gone.
pub(crate) fn gone(out: &mut Vec<u8>, id: JobId) {
    json::object(out, |object| {
        object.text("ID", &id.f58(true));
        object.text("Namespace", names::NAMESPACE);
    });
}

fn group(out: &mut Vec<u8>, record: &Record) {
    json::object(out, |group| {
        group.text("Name", record.group());
        group.uint("Count", facts::group_count(record));
        group.key("Tasks").push(b'[');
        task(group.open(), record);
        group.open().push(b']');
        group.nulls(&[
            "Update",
            "Migrate",
            "Constraints",
            "Affinities",
            "Spreads",
            "Networks",
            "Services",
            "Volumes",
            "Meta",
            "RestartPolicy",
            "ReschedulePolicy",
            "EphemeralDisk",
            "Scaling",
            "Consul",
            "Disconnect",
            "ShutdownDelay",
            "StopAfterClientDisconnect",
            "MaxClientDisconnect",
            "MaxRunDuration",
            "PreventRescheduleOnLost",
        ]);
    });
}

fn task(out: &mut Vec<u8>, record: &Record) {
    let spec = record.spec();
    json::object(out, |task| {
        task.text("Name", record.group());
        task.text("Driver", DRIVER);
        task.blanks(&["User", "KillSignal", "Kind"]);
        task.bool("Leader", false);
        task.uint("KillTimeout", 0_u64);
        task.uint("ShutdownDelay", 0_u64);
        task.object("Resources", |resources| {
            resources.uint("CPU", 0_u64);
            resources.uint("Cores", spec.ncores.unwrap_or(0));
            for key in ["MemoryMB", "MemoryMaxMB", "DiskMB", "IOPS", "SecretsMB"] {
                resources.uint(key, 0_u64);
            }
            resources.nulls(&["Networks", "Devices", "NUMA"]);
        });
        task.nulls(&[
            "Config",
            "Env",
            "Meta",
            "Constraints",
            "Affinities",
            "Services",
            "Templates",
            "Artifacts",
            "VolumeMounts",
            "RestartPolicy",
            "Lifecycle",
            "LogConfig",
            "DispatchPayload",
            "Vault",
            "Identities",
            "Identity",
            "Consul",
            "ScalingPolicies",
            "Secrets",
            "Actions",
            "Schedule",
        ]);
    });
}
