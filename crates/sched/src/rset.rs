//! Grants as R version 1 (`job::R`, which also makes the short text of `annotations.sched.resource_summary`).
//!
//! ```text
//! {"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu":"0"}}],"nodelist":["HOST-[0-1]"],
//!   "starttime":1.0,"expiration":0.0,"nslots":8}}
//! rank[0-1]/core[0-3],gpu0
//! ```
//! Ranks with the same children stand in one entry; `expiration` 0.0 is no limit; an instance's R has no `nslots`.

use job::{Idset, R, Timestamp};

use crate::pool::{Grant, NodeGrant, NodeSpec};
use crate::set::Set;

fn idset(set: &Set) -> Idset {
    set.iter().collect()
}

/// The R of a grant. A job's holds its number of slots; an infinite end is written as 0.
#[must_use]
pub fn to_r(grant: &Grant, nodes: &[NodeSpec], start: Timestamp, end_s: f64, is_job: bool) -> R {
    let parts: Vec<job::r::Node> = grant
        .nodes
        .iter()
        .map(|part| job::r::Node {
            rank: part.rank,
            host: nodes
                .get(part.rank as usize)
                .map(|node| node.host.clone())
                .unwrap_or_default(),
            cores: idset(&part.cores),
            gpus: idset(&part.gpus),
        })
        .collect();
    let expiration = if end_s.is_finite() { end_s } else { 0.0 };
    R::build(
        &parts,
        start.0,
        expiration,
        is_job.then_some(u64::from(grant.nslots)),
    )
}

/// Which of `nodes` an R means: the one of that name; of that rank, if the R has no names. A node that is called otherwise is
/// another one, whatever its rank: the R may be from a time when there were more nodes, or fewer.
#[must_use]
pub fn rank_of(nodes: &[NodeSpec], rank: u32, host: &str) -> Option<u32> {
    let there = nodes.get(rank as usize);
    if there.is_some_and(|node| host.is_empty() || node.host == host) {
        return Some(rank);
    }
    (0u32..)
        .zip(nodes)
        .find(|(_, node)| !host.is_empty() && node.host == host)
        .map(|(rank, _)| rank)
}

/// What an R holds of `nodes`, and when it ends (infinite if it does not). What it holds of others is left out; ids that a
/// node does not have are no error here.
#[must_use]
pub fn from_r(r: &R, nodes: &[NodeSpec]) -> (Grant, f64) {
    let mut held: Vec<NodeGrant> = r
        .nodes()
        .into_iter()
        .filter_map(|part| {
            Some(NodeGrant {
                rank: rank_of(nodes, part.rank, &part.host)?,
                cores: part.cores.iter().collect(),
                gpus: part.gpus.iter().collect(),
            })
        })
        .collect();
    held.sort_by_key(|part| part.rank);
    let nslots = r
        .nslots
        .and_then(|nslots| u32::try_from(nslots).ok())
        .unwrap_or(0);
    (
        Grant {
            nodes: held,
            nslots,
        },
        if r.expiration > 0.0 {
            r.expiration
        } else {
            f64::INFINITY
        },
    )
}

/// A grant of all that the nodes chosen by `which` have: the instance's R, or the part that is down.
#[must_use]
pub fn whole(nodes: &[NodeSpec], which: impl Fn(u32) -> bool) -> Grant {
    let nodes = (0u32..)
        .zip(nodes)
        .filter(|(rank, _)| which(*rank))
        .map(|(rank, node)| NodeGrant {
            rank,
            cores: node.cores.clone(),
            gpus: node.gpus.clone(),
        })
        .collect();
    Grant { nodes, nslots: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u32) -> Vec<NodeSpec> {
        (0..count)
            .map(|rank| NodeSpec {
                host: format!("n-{rank}"),
                cores: Set::first(4),
                gpus: Set::first(2),
            })
            .collect()
    }

    #[test]
    fn r_groups_equal_ranks_and_reads_back() {
        let nodes = nodes(3);
        let part = |rank, cores, gpus| NodeGrant {
            rank,
            cores: Set::first(cores),
            gpus: Set::first(gpus),
        };
        let grant = Grant {
            nodes: vec![part(0, 4, 0), part(1, 4, 0), part(2, 1, 1)],
            nslots: 9,
        };
        let r = to_r(&grant, &nodes, Timestamp(1.5), 11.5, true);
        assert_eq!(
            std::str::from_utf8(&r.to_json()).unwrap(),
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-3"}},{"rank":"2","children":{"core":"0","gpu":"0"}}],"nodelist":["n-[0-2]"],"starttime":1.5,"expiration":11.5,"nslots":9}}"#
        );
        assert_eq!(
            from_r(&R::parse(&r.to_json()).unwrap(), &nodes),
            (grant.clone(), 11.5)
        );
        assert_eq!(r.summary(), "rank[0-1]/core[0-3] rank2/core0,gpu0");
        let all = to_r(
            &whole(&nodes, |_| true),
            &nodes,
            Timestamp(0.0),
            f64::INFINITY,
            false,
        );
        assert_eq!((all.nslots, all.expiration), (None, 0.0));
    }

    #[test]
    fn a_job_of_another_size_holds_nothing_of_a_node_with_its_rank() {
        let r = |text: &str| R::parse(text.as_bytes()).unwrap();
        let ranks = |r: &R, nodes: &[NodeSpec]| -> Vec<u32> {
            let held = from_r(r, nodes).0.nodes;
            held.iter().map(|part| part.rank).collect()
        };
        let four = r(
            r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0"}}],"nodelist":["n-[0-3]"],"starttime":0.0,"expiration":0.0}}"#,
        );
        assert_eq!(ranks(&four, &nodes(4)), [0, 1, 2, 3]);
        assert_eq!(ranks(&four, &nodes(2)), [0, 1]);
        let mut one = nodes(1);
        one[0].host = "n".to_owned();
        assert!(ranks(&four, &one).is_empty());
        // A name counts, also where its rank is another now.
        one[0].host = "n-2".to_owned();
        assert_eq!(ranks(&four, &one), [0]);
        let unnamed = r(
            r#"{"version":1,"execution":{"R_lite":[{"rank":"1","children":{"core":"0"}}],"nodelist":[],"starttime":0.0,"expiration":0.0}}"#,
        );
        assert_eq!(ranks(&unnamed, &nodes(2)), [1]);
        assert!(ranks(&unnamed, &nodes(1)).is_empty());
    }

    #[test]
    fn an_empty_set_is_still_an_r() {
        let r = to_r(
            &Grant::default(),
            &nodes(1),
            Timestamp(0.0),
            f64::INFINITY,
            false,
        );
        assert_eq!(
            std::str::from_utf8(&r.to_json()).unwrap(),
            r#"{"version":1,"execution":{"R_lite":[],"nodelist":[""],"starttime":0.0,"expiration":0.0}}"#
        );
    }
}
