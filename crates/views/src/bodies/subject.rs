//! What a filter sees: jobs, allocations, nodes and deployments with the fields of Nomad's own objects. Nothing is built that the
//! filter does not name.
//!
//! A job has one more field, `Weir`, with what only weir knows of it: `Weir.State == RUN`, `Weir.UserID == 1000`.

use bexpr::{Kind, Subject, Value};
use info::{Alloc, Node, Nodes, Projection, Record};

use super::{DRIVER, alloc_name, attributes};
use crate::{facts, names};

/// A job.
#[derive(Debug, Clone, Copy)]
pub struct JobSubject<'a>(&'a Record);

impl<'a> JobSubject<'a> {
    /// This job.
    #[must_use]
    pub fn new(_projection: &'a Projection, record: &'a Record) -> Self {
        Self(record)
    }
}

impl Subject for JobSubject<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        let record = self.0;
        Some(match name {
            "ID" => Value::owned(facts::job_id(record)),
            "Name" => Value::text(facts::name(record)),
            "Status" => Value::text(facts::status(record)),
            "Type" => Value::text(facts::job_type(record)),
            "ParentID" => Value::owned(facts::parent_id(record)),
            "NodePool" => Value::text(facts::pool(record)),
            "Namespace" => Value::text(names::NAMESPACE),
            "Region" => Value::text(names::REGION),
            "StatusDescription" => Value::Str(facts::status_description(record)),
            "ConsulNamespace"
            | "VaultNamespace"
            | "ConsulToken"
            | "VaultToken"
            | "NomadTokenID"
            | "DispatchIdempotencyToken" => Value::text(""),
            "Stop" => Value::Bool(record.is_stopped()),
            "Dispatched" => Value::Bool(record.parent().is_some()),
            "AllAtOnce" | "Stable" => Value::Bool(false),
            "Priority" => Value::Int(i64::from(record.job().urgency.get())),
            "SubmitTime" => Value::Int(facts::nanoseconds(record.job().t_submit)),
            "Version" => Value::Uint(0),
            "CreateIndex" | "JobModifyIndex" => Value::Uint(record.create_seq()),
            "ModifyIndex" => Value::Uint(record.modify_seq()),
            "Datacenters" => Value::texts(["*"]),
            "TaskGroups" => Value::List(vec![Value::Struct(Box::new(Group(record)))]),
            "Constraints" | "Affinities" | "Spreads" => Value::Nil(Kind::List),
            "Meta" => match facts::meta(record) {
                [] => Value::Nil(Kind::Map),
                meta => Value::Map(
                    meta.iter()
                        .map(|(key, value)| (key.into(), Value::text(value)))
                        .collect(),
                ),
            },
            "ParameterizedJob" if facts::is_parent(record) => {
                Value::Struct(Box::new(Parameters(record)))
            }
            "Update" | "Periodic" | "ParameterizedJob" | "Multiregion" | "UI" | "VersionTag" => {
                Value::Nil(Kind::Object)
            }
            "Payload" => Value::Nil(Kind::Bytes),
            "Weir" => Value::Struct(Box::new(Own(record))),
            _ => return None,
        })
    }
}

/// The one group of a job.
struct Group<'a>(&'a Record);

impl Subject for Group<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Name" => Value::text(self.0.group()),
            "Count" => Value::Int(i64::from(facts::group_count(self.0))),
            "Tasks" => Value::List(vec![Value::Struct(Box::new(Task(self.0)))]),
            "Constraints" | "Affinities" | "Spreads" | "Networks" | "Services" => {
                Value::Nil(Kind::List)
            }
            "Meta" | "Volumes" => Value::Nil(Kind::Map),
            "Update" | "Migrate" | "RestartPolicy" | "ReschedulePolicy" | "EphemeralDisk"
            | "Scaling" | "Consul" | "Disconnect" => Value::Nil(Kind::Object),
            _ => return None,
        })
    }
}

/// The one task of a group.
struct Task<'a>(&'a Record);

impl Subject for Task<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "Name" => Value::text(self.0.group()),
            "Driver" => Value::text(DRIVER),
            "User" | "KillSignal" => Value::text(""),
            "Leader" => Value::Bool(false),
            "Config" | "Env" | "Meta" => Value::Nil(Kind::Map),
            "Constraints" | "Affinities" | "Services" | "Templates" | "Artifacts"
            | "VolumeMounts" => Value::Nil(Kind::List),
            "Resources" | "RestartPolicy" | "Lifecycle" | "LogConfig" | "DispatchPayload"
            | "Vault" => Value::Nil(Kind::Object),
            _ => return None,
        })
    }
}

/// What a parent asks of a dispatch.
struct Parameters<'a>(&'a Record);

impl Subject for Parameters<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        let asked = self.0.spec().dispatch.as_deref();
        let keys = |keys: Option<&'_ [String]>| match keys {
            None | Some([]) => Value::Nil(Kind::List),
            Some(keys) => Value::List(keys.iter().map(|key| Value::owned(key.clone())).collect()),
        };
        match name {
            "Payload" => Some(Value::text(asked.map_or("", |asked| asked.payload))),
            "MetaRequired" => Some(keys(asked.map(|asked| &*asked.meta_required))),
            "MetaOptional" => Some(keys(asked.map(|asked| &*asked.meta_optional))),
            _ => None,
        }
    }
}

/// What only weir knows of a job.
struct Own<'a>(&'a Record);

impl Subject for Own<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        let job = self.0.job();
        Some(match name {
            "State" => Value::text(job.state.long()),
            "Result" => Value::text(job.result().map_or("", job::JobResult::long)),
            "Urgency" => Value::Uint(u64::from(job.urgency.get())),
            "Priority" => Value::Uint(job.priority.map_or(0, |priority| u64::from(priority.0))),
            "UserID" => Value::Uint(u64::from(job.userid)),
            _ => return None,
        })
    }
}

/// An allocation of a job.
#[derive(Debug, Clone, Copy)]
pub struct AllocSubject<'a> {
    /// The job.
    pub record: &'a Record,
    /// Its nodes.
    pub nodes: &'a Nodes,
    /// The allocation.
    pub alloc: &'a Alloc<'a>,
    /// Its place among those of the job.
    pub number: usize,
}

impl AllocSubject<'_> {
    fn node(&self) -> Option<&Node> {
        self.nodes.get(self.alloc.node)
    }
}

impl Subject for AllocSubject<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        let Self { record, alloc, .. } = self;
        let node = self.node().map_or("", |node| &node.name);
        let uuid = |bytes: &[u8; names::UUID_BYTES]| Value::owned(names::text(bytes).to_owned());
        Some(match name {
            "ID" => uuid(&names::allocation(record.id(), 0, alloc.rank)),
            "Name" => Value::owned(alloc_name(record, self.number)),
            "Namespace" => Value::text(names::NAMESPACE),
            "NodeID" => uuid(&names::node(node)),
            "NodeName" => Value::text(node),
            "JobID" => Value::owned(facts::job_id(record)),
            "Job" => Value::Struct(Box::new(JobSubject(self.record))),
            "TaskGroup" => Value::text(record.group()),
            "ClientStatus" => Value::text(alloc.status.as_str()),
            "ClientDescription" => Value::text(alloc.reason.unwrap_or_default()),
            "DesiredStatus" => Value::text(if alloc.desired_stop { "stop" } else { "run" }),
            "EvalID"
            | "DesiredDescription"
            | "DeploymentID"
            | "FollowupEvalID"
            | "NextAllocation"
            | "PreviousAllocation"
            | "PreemptedByAllocation" => Value::text(""),
            "CreateIndex" => Value::Uint(alloc.created.seq),
            "ModifyIndex" | "AllocModifyIndex" => Value::Uint(alloc.modified.seq),
            "CreateTime" => Value::Int(facts::nanoseconds(alloc.created.time)),
            "ModifyTime" => Value::Int(facts::nanoseconds(alloc.modified.time)),
            "DeploymentStatus" | "RescheduleTracker" | "NetworkStatus" | "Metrics"
            | "AllocatedResources" => Value::Nil(Kind::Object),
            "TaskStates" => Value::Nil(Kind::Map),
            "PreemptedAllocations" => Value::Nil(Kind::List),
            _ => return None,
        })
    }
}

/// A node.
#[derive(Debug, Clone, Copy)]
pub struct NodeSubject<'a>(pub &'a Node);

impl Subject for NodeSubject<'_> {
    fn field(&self, name: &str) -> Option<Value<'_>> {
        let node = self.0;
        Some(match name {
            "ID" => Value::owned(names::text(&names::node(&node.name)).to_owned()),
            "Name" => Value::text(&node.name),
            "Datacenter" => Value::text(names::DATACENTER),
            "NodePool" => Value::text(&node.pool),
            "Status" => Value::text(facts::node_status(node)),
            "StatusDescription" => Value::text(facts::node_description(node)),
            "SchedulingEligibility" => Value::text(facts::eligibility(node)),
            "NodeClass" | "ComputedClass" | "HTTPAddr" | "CgroupParent" => Value::text(""),
            "Drain" => Value::Bool(node.drain.is_some()),
            "TLSEnabled" => Value::Bool(false),
            "StatusUpdatedAt" => Value::Int(node.since.map_or(0, |since| {
                i64::try_from(facts::seconds(since)).unwrap_or(i64::MAX)
            })),
            "CreateIndex" => Value::Uint(node.create_seq),
            "ModifyIndex" => Value::Uint(node.modify_seq),
            "Attributes" => Value::Map(
                attributes(node)
                    .into_iter()
                    .map(|(key, value)| (key.into(), Value::owned(value)))
                    .collect(),
            ),
            "Meta" | "Links" | "Drivers" | "HostVolumes" | "HostNetworks" => Value::Nil(Kind::Map),
            "DrainStrategy" | "LastDrain" | "NodeResources" | "ReservedResources" | "Resources"
            | "Reserved" => Value::Nil(Kind::Object),
            "Events" => Value::Nil(Kind::List),
            _ => return None,
        })
    }
}
