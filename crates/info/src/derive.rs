//! What a listing shows of a jobspec and of an R.
//!
//! Read leniently: the job-manager has validated both, or another system has by its own rules, and a listing that drops a
//! job because one field is odd would be worse than one that leaves the field out.

use std::sync::Arc;

use job::{
    hostlist::Hostlist,
    idset::Idset,
    jobspec::{JobType, Jobspec, Weir},
    r::R,
};
use serde_json::Value;

use crate::record::{Allocation, Dispatch, GROUP_USUAL, Kind, Spec};

/// What a listing shows of a jobspec; nothing of what is no jobspec.
#[must_use]
pub fn spec(json: &str) -> Spec {
    match Jobspec::parse(json.as_bytes()) {
        Ok(jobspec) => {
            let text = |text: &Option<String>| text.as_deref().map(Into::into);
            Spec {
                name: Some(jobspec.name.as_str().into()),
                cwd: text(&jobspec.cwd),
                queue: text(&jobspec.queue),
                project: text(&jobspec.project),
                bank: text(&jobspec.bank),
                ntasks: count(jobspec.ntasks),
                ncores: jobspec.ncores().and_then(count),
                nnodes: jobspec.nnodes().and_then(count),
                duration_bits: Some(jobspec.duration.to_bits()),
                group: group(json),
                kind: match jobspec.job_type() {
                    JobType::Batch => Kind::Batch,
                    JobType::Sysbatch => Kind::Sysbatch,
                    JobType::Parameterized => Kind::Parameterized,
                },
                sysbatch: jobspec.weir.as_ref().is_some_and(|weir| weir.sysbatch),
                parent: jobspec.parent(),
                dispatch: jobspec.weir.as_deref().and_then(dispatch).map(Box::new),
            }
        }
        Err(_) => of_foreign(json),
    }
}

/// What a jobspec says of dispatches, if it says anything.
fn dispatch(weir: &Weir) -> Option<Dispatch> {
    let parent = weir.parameterized.as_ref().map(|parent| Dispatch {
        payload: parent.payload.as_str(),
        meta_required: parent.meta_required.clone(),
        meta_optional: parent.meta_optional.clone(),
        ..Dispatch::default()
    });
    let child = weir
        .dispatch
        .as_ref()
        .filter(|child| !child.meta.is_empty());
    parent.or_else(|| {
        Some(Dispatch {
            meta: child?.meta.clone(),
            ..Dispatch::default()
        })
    })
}

/// The label of the slot, if it is not the usual one.
fn group(jobspec: &str) -> Option<Arc<str>> {
    if jobspec.contains(r#""slot":"task""#) {
        return None;
    }
    let value: Value = serde_json::from_str(jobspec).ok()?;
    let label = value.pointer("/tasks/0/slot")?.as_str()?;
    (label != GROUP_USUAL).then(|| label.into())
}

fn count(count: u64) -> Option<u32> {
    u32::try_from(count).ok()
}

/// Of a jobspec by other rules than ours: what can be read without them.
fn of_foreign(jobspec: &str) -> Spec {
    let Ok(value) = serde_json::from_str::<Value>(jobspec) else {
        return Spec::default();
    };
    let system = &value["attributes"]["system"];
    let text = |key: &str| system[key].as_str().map(Into::into);
    let command = value["tasks"][0]["command"][0].as_str();
    let name = system["job"]["name"]
        .as_str()
        .or_else(|| command.and_then(|path| path.rsplit('/').next()));
    Spec {
        name: name.map(Into::into),
        cwd: text("cwd"),
        queue: text("queue"),
        project: text("project"),
        bank: text("bank"),
        duration_bits: system["duration"].as_f64().map(f64::to_bits),
        ..Spec::default()
    }
}

/// What a listing shows of an R; `None` when it is none.
#[must_use]
pub fn allocation(r: &str) -> Option<Allocation> {
    let r = R::parse(r.as_bytes()).ok()?;
    Some(Allocation {
        ranks: r.ranks().bracketed().into(),
        nodelist: r.nodelist.to_string().into(),
        ncores: u32::try_from(r.ncores()).unwrap_or(u32::MAX),
        nnodes: u32::try_from(r.nnodes()).unwrap_or(u32::MAX),
        expiration: r.expiration,
        ..Allocation::default()
    })
}

/// The nodes of an allocation, one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Their hosts.
    pub hosts: Vec<String>,
    /// Their ranks.
    pub ranks: Vec<u32>,
}

/// Expands the nodes of an allocation; for the index.
#[must_use]
pub fn nodes(allocation: &Allocation) -> Nodes {
    Nodes {
        hosts: allocation
            .nodelist
            .parse()
            .map(|list: Hostlist| list.iter().collect())
            .unwrap_or_default(),
        ranks: allocation
            .ranks
            .parse()
            .map(|set: Idset| set.iter().collect())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(resources: &str, tasks: &str, system: &str) -> Spec {
        spec(&format!(
            r#"{{"resources":[{resources}],"tasks":[{tasks}],"attributes":{{"system":{system}}},"version":1}}"#
        ))
    }

    const TASK: &str = r#"{"command":["/bin/sleep","1"],"slot":"task","count":{"per_slot":1}}"#;

    #[test]
    fn counts_follow_from_the_shape() {
        let slots = r#"{"type":"slot","count":4,"label":"task","with":[{"type":"core","count":2},{"type":"gpu","count":1}]}"#;
        let spec = derived(slots, TASK, r#"{"duration":600.0,"cwd":"/tmp"}"#);
        assert_eq!(
            (spec.ntasks, spec.ncores, spec.nnodes),
            (Some(4), Some(8), None)
        );
        assert_eq!(
            (spec.name.as_deref(), spec.cwd.as_deref(), spec.duration()),
            (Some("sleep"), Some("/tmp"), Some(600.0))
        );

        let slot = r#"{"type":"slot","count":2,"label":"task","with":[{"type":"core","count":1}]}"#;
        let nodes = format!(r#"{{"type":"node","count":3,"with":[{slot}]}}"#);
        let spec = derived(
            &nodes,
            TASK,
            r#"{"duration":0,"job":{"name":"x"},"queue":"q","bank":"b","project":"p"}"#,
        );
        assert_eq!(
            (spec.ntasks, spec.ncores, spec.nnodes),
            (Some(6), Some(6), Some(3))
        );
        assert_eq!(
            (spec.name.as_deref(), spec.queue.as_deref()),
            (Some("x"), Some("q"))
        );
        assert_eq!(
            (
                spec.bank.as_deref(),
                spec.project.as_deref(),
                spec.duration()
            ),
            (Some("b"), Some("p"), Some(0.0))
        );

        let whole = format!(r#"{{"type":"node","count":2,"exclusive":true,"with":[{slot}]}}"#);
        assert_eq!(derived(&whole, TASK, "{}").ncores, None);
    }

    #[test]
    fn odd_jobspecs_leave_fields_out_and_never_fail() {
        for text in [
            "",
            "[]",
            "null",
            "{}",
            r#"{"resources":[{"type":"slot","count":-1}],"tasks":[7]}"#,
        ] {
            let spec = spec(text);
            assert_eq!((spec.name, spec.ncores), (None, None), "{text}");
        }
        let foreign = r#"{"tasks":[{"command":["/a/b"]}],"attributes":{"system":{"queue":"q","duration":2}},"version":9999}"#;
        let spec = spec(foreign);
        assert_eq!(
            (spec.name.as_deref(), spec.queue.as_deref(), spec.duration()),
            (Some("b"), Some("q"), Some(2.0))
        );
    }

    #[test]
    fn an_r_gives_ranks_nodes_cores_and_expiration() {
        let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu":"0"}},
            {"rank":"3","children":{"core":"0"}}],"nodelist":["n[0-1]","n3"],"starttime":1.0,"expiration":61.5,"nslots":9}}"#;
        let allocation = allocation(r).expect("an R");
        assert_eq!(
            (allocation.ranks.as_ref(), allocation.nodelist.as_ref()),
            ("[0-1,3]", "n[0-1,3]")
        );
        assert_eq!(
            (allocation.ncores, allocation.nnodes, allocation.expiration),
            (9, 3, 61.5)
        );
        let nodes = nodes(&allocation);
        assert_eq!(
            (nodes.hosts.join(" ").as_str(), nodes.ranks.as_slice()),
            ("n0 n1 n3", [0, 1, 3].as_slice())
        );
        assert!(super::allocation("{}").is_none());
    }
}
