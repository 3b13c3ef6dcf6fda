//! Nodes and pools.

use std::collections::BTreeMap;

use info::{Node, Nodes};

use super::json::{self, Object};
use crate::{facts, names};

/// Name of the pool that has all nodes.
pub(crate) const POOL_OF_ALL: &str = "all";

/// What is known of a node's hardware, by the names that Nomad's fingerprints have.
pub(crate) fn attributes(node: &Node) -> Vec<(&'static str, String)> {
    let mut all = vec![("unique.hostname", node.name.to_string())];
    if node.cores > 0 {
        all.push(("cpu.numcores", node.cores.to_string()));
    }
    all
}

fn write_attributes(object: &mut Object<'_>, node: &Node) {
    object.object("Attributes", |object| {
        for (key, value) in attributes(node) {
            object.text(key, &value);
        }
    });
}

fn common(object: &mut Object<'_>, node: &Node) {
    object.text("ID", names::text(&names::node(&node.name)));
    object.text("Name", &node.name);
    object.text("Datacenter", names::DATACENTER);
    object.text("NodePool", &node.pool);
    object.bool("Drain", node.drain.is_some());
    object.text("SchedulingEligibility", facts::eligibility(node));
    object.text("Status", facts::node_status(node));
    object.text("StatusDescription", facts::node_description(node));
    object.blanks(&["NodeClass"]);
    object.raw("Drivers", b"{}");
    object.raw("HostVolumes", b"{}");
    match &node.drain {
        None => object.nulls(&["LastDrain"]),
        Some(drain) => object.object("LastDrain", |object| {
            let since = facts::rfc3339(drain.since);
            object.text("StartedAt", &since);
            object.text("UpdatedAt", &since);
            object.text("Status", "draining");
            object.blanks(&["AccessorID"]);
            object.object("Meta", |meta| meta.text("message", &drain.reason));
        }),
    }
    object.uint("CreateIndex", node.create_seq);
    object.uint("ModifyIndex", node.modify_seq);
    object.object("Weir", |weir| {
        match node.rank {
            Some(rank) => weir.uint("Rank", rank),
            None => weir.nulls(&["Rank"]),
        }
        weir.bool("Announced", node.known);
        weir.uint("Cores", node.cores);
        weir.uint("GPUs", node.gpus);
        match &node.drain {
            None => weir.nulls(&["DrainReason"]),
            Some(drain) => weir.text("DrainReason", &drain.reason),
        }
    });
}

fn resources(object: &mut Object<'_>, node: &Node) {
    object.object("NodeResources", |all| {
        all.object("Cpu", |cpu| {
            cpu.uint("CpuShares", 0_u64);
            cpu.uint("TotalCpuCores", node.cores);
            cpu.nulls(&["ReservableCpuCores"]);
        });
        all.raw("Memory", br#"{"MemoryMB":0}"#);
        all.raw("Disk", br#"{"DiskMB":0}"#);
        all.nulls(&["Networks", "Devices"]);
        all.uint("MinDynamicPort", 0_u64);
        all.uint("MaxDynamicPort", 0_u64);
    });
    object.raw(
        "ReservedResources",
        br#"{"Cpu":{"CpuShares":0},"Memory":{"MemoryMB":0},"Disk":{"DiskMB":0},"Networks":{"ReservedHostPorts":""}}"#,
    );
}

/// Writes a node as a list shows it.
pub(crate) fn stub(out: &mut Vec<u8>, node: &Node, with_resources: bool, with_attributes: bool) {
    json::object(out, |object| {
        common(object, node);
        object.blanks(&["Address"]);
        object.text("Version", env!("CARGO_PKG_VERSION"));
        if with_attributes {
            write_attributes(object, node);
        }
        if with_resources {
            resources(object, node);
        }
    });
}

/// Writes a node whole.
pub(crate) fn full(out: &mut Vec<u8>, node: &Node) {
    json::object(out, |object| {
        common(object, node);
        write_attributes(object, node);
        resources(object, node);
        object.blanks(&["HTTPAddr", "ComputedClass", "CgroupParent"]);
        object.bool("TLSEnabled", false);
        object.bool("GCVolumesOnNodeGC", false);
        object.uint("NodeMaxAllocs", 0_u64);
        object.raw("Meta", b"{}");
        object.raw("Links", b"{}");
        object.raw("Events", b"[]");
        object.nulls(&[
            "DrainStrategy",
            "Resources",
            "Reserved",
            "HostNetworks",
            "CSIControllerPlugins",
            "CSINodePlugins",
        ]);
        object.uint("StatusUpdatedAt", node.since.map_or(0, facts::seconds));
    });
}

/// Writes the pools, by name: those of the nodes, and the two that are always there.
pub(crate) fn pools(out: &mut Vec<u8>, nodes: &Nodes, prefix: &str) {
    // The first entry that named it, and the newest that changed who is in it.
    let mut pools: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    pools.insert(POOL_OF_ALL, (1, 1));
    pools.insert(info::nodes::DEFAULT_POOL, (1, 1));
    for (_, node) in nodes.listed() {
        let pool = pools
            .entry(&node.pool)
            .or_insert((node.create_seq, node.create_seq));
        pool.0 = pool.0.min(node.create_seq);
        pool.1 = pool.1.max(node.create_seq);
    }
    let asked = pools.iter().filter(|(name, _)| name.starts_with(prefix));
    json::list(out, asked, |out, (name, (create, modify))| {
        json::object(out, |object| {
            object.text("Name", name);
            let about = match *name {
                POOL_OF_ALL => "all nodes",
                info::nodes::DEFAULT_POOL => "nodes of no other pool",
                _ => "",
            };
            object.text("Description", about);
            object.nulls(&["Meta", "SchedulerConfiguration"]);
            object.uint("NodeIdentityTTL", 0_u64);
            object.uint("CreateIndex", *create);
            object.uint("ModifyIndex", *modify);
        });
    });
}

/// Writes the one namespace.
pub(crate) fn namespaces(out: &mut Vec<u8>, prefix: &str) {
    let all = Some(names::NAMESPACE).filter(|name| name.starts_with(prefix));
    json::list(out, all, |out, name| {
        json::object(out, |object| {
            object.text("Name", name);
            object.text("Description", "the one namespace there is");
            object.blanks(&["Quota", "Hash"]);
            object.nulls(&[
                "Capabilities",
                "Meta",
                "NodePoolConfiguration",
                "VaultConfiguration",
                "ConsulConfiguration",
            ]);
            object.uint("CreateIndex", 1_u64);
            object.uint("ModifyIndex", 1_u64);
        });
    });
}
