//! The union of several R: what all running jobs together hold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use job::R;
use job::r::Node;

/// One R over all ranks named in any of them. What does not parse is left out: it was checked when it came.
pub(crate) fn union<'a>(all: impl Iterator<Item = &'a Bytes>) -> Bytes {
    let mut nodes: BTreeMap<u32, Node> = BTreeMap::new();
    for node in all.filter_map(|r| R::parse(r).ok()).flat_map(|r| r.nodes()) {
        match nodes.entry(node.rank) {
            Entry::Vacant(new) => drop(new.insert(node)),
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                there.cores = there.cores.union(&node.cores);
                there.gpus = there.gpus.union(&node.gpus);
            }
        }
    }
    let nodes: Vec<Node> = nodes.into_values().collect();
    R::build(&nodes, 0.0, 0.0, None).to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_one_rank_come_together() {
        let r = |rank: &str, core: &str, node: &str| {
            Bytes::from(format!(
                r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"{core}"}}}}],"nodelist":["{node}"],"starttime":1.0,"expiration":0.0}}}}"#
            ))
        };
        let all = [
            r("0", "0-1", "n0"),
            r("1", "3", "n1"),
            r("0", "3", "n0"),
            Bytes::from_static(b"{}"),
        ];
        let union = R::parse(&union(all.iter())).unwrap();
        assert_eq!(union.summary(), "rank0/core[0-1,3] rank1/core3");
    }
}
