//! Resource sets, R version 1 (RFC 20): which cores and GPUs of which nodes, from when to when.
//!
//! ```text
//! {"version":1,"execution":{
//!    "R_lite":[{"rank":"0-1","children":{"core":"0-3","gpu"?:"0"}}],   ranks with equal children together
//!    "nodelist":["node[0-1]"],                                        names by ascending rank
//!    "starttime":f,"expiration":f,                                    0.0 = none
//!    "nslots"?:i,"properties"?:{name:idset}}}
//! ```
//!
//! A key `scheduling` may stand beside `execution`; it is the scheduler's own and left out here.

use crate::Map;
use crate::hostlist::{HOSTLIST_HOSTS_MAX, Hostlist, HostlistError};
use crate::idset::Idset;
use crate::json::{clip, push_f64, push_u64, push_value};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The most nodes one resource set may have.
pub const R_NODES_MAX: u64 = HOSTLIST_HOSTS_MAX;

/// A resource set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct R {
    /// Ranks that share the same children, by their lowest rank.
    pub groups: Vec<RankGroup>,
    /// Names of the nodes, by ascending rank.
    pub nodelist: Hostlist,
    /// From when it may be used, seconds since 1970; 0 = not said.
    pub starttime: f64,
    /// Until when it may be used, seconds since 1970; 0 = no end.
    pub expiration: f64,
    /// How many slots of the jobspec it holds; only in a job's R.
    pub nslots: Option<u64>,
    /// Name → ranks; only in an instance's R.
    pub properties: Option<Map>,
}

/// Ranks that share the same children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankGroup {
    /// Which ranks.
    pub ranks: Idset,
    /// Cores of each of them.
    pub cores: Idset,
    /// GPUs of each of them.
    pub gpus: Idset,
}

/// The part of a resource set that is on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub host: String,
    /// Which cores.
    pub cores: Idset,
    /// Which GPUs.
    pub gpus: Idset,
}

/// Bytes that are no resource set.
#[derive(Debug, thiserror::Error)]
pub enum RError {
    /// Not JSON of the shape above.
    #[error("R is malformed: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error("R is malformed: version: expected 1, got {met}")]
    Version {
        /// The number met.
        met: i64,
    },
    /// A time that is none.
    #[error("R is malformed: execution.{field}: expected seconds ≥ 0, got {met}")]
    Time {
        /// Which one.
        field: &'static str,
        /// The number met.
        met: f64,
    },
    /// The nodelist does not parse.
    #[error("R is malformed: execution.nodelist: {0}")]
    Nodelist(#[from] HostlistError),
    /// More nodes than a set may have.
    #[error("R is malformed: {met} nodes: expected at most {R_NODES_MAX}")]
    TooMany {
        /// How many.
        met: u64,
    },
    /// Ranks and names do not go together.
    #[error("R is malformed: {ranks} ranks, but {hosts} names in the nodelist")]
    Names {
        /// How many ranks.
        ranks: u64,
        /// How many names.
        hosts: u64,
    },
    /// A rank is in two groups.
    #[error("R is malformed: execution.R_lite: ranks {met:?} come twice")]
    Twice {
        /// The later group.
        met: String,
    },
}

#[derive(Deserialize)]
struct Raw {
    version: i64,
    execution: RawExecution,
}

#[derive(Deserialize)]
struct RawExecution {
    #[serde(rename = "R_lite")]
    groups: Vec<RawGroup>,
    #[serde(default)]
    nodelist: Vec<String>,
    #[serde(default)]
    starttime: f64,
    #[serde(default)]
    expiration: f64,
    #[serde(default)]
    nslots: Option<u64>,
    #[serde(default)]
    properties: Option<Map>,
}

#[derive(Deserialize)]
struct RawGroup {
    rank: Idset,
    children: RawChildren,
}

#[derive(Deserialize)]
struct RawChildren {
    #[serde(default)]
    core: Idset,
    #[serde(default)]
    gpu: Idset,
}

impl R {
    /// Reads a resource set; `scheduling` and resources other than cores and GPUs are left out.
    /// # Errors
    /// [`RError`]: malformed, or ranks and names that do not go together.
    pub fn parse(json: &[u8]) -> Result<R, RError> {
        // An array in the right order would do for a derived struct, so objects are asked for.
        let object: Map = serde_json::from_slice(json)?;
        let raw = Raw::deserialize(Value::Object(object))?;
        if raw.version != 1 {
            return Err(RError::Version { met: raw.version });
        }
        let RawExecution {
            groups,
            nodelist,
            starttime,
            expiration,
            nslots,
            properties,
        } = raw.execution;
        for (field, met) in [("starttime", starttime), ("expiration", expiration)] {
            if met < 0.0 {
                return Err(RError::Time { field, met });
            }
        }
        let mut hosts = Hostlist::new();
        for element in &nodelist {
            hosts.append(&element.parse()?);
        }
        let group = |RawGroup { rank, children }| RankGroup {
            ranks: rank,
            cores: children.core,
            gpus: children.gpu,
        };
        let groups: Vec<RankGroup> = groups.into_iter().map(group).collect();
        let all = Idset::union_of(groups.iter().map(|group| &group.ranks));
        if all.count() > R_NODES_MAX {
            return Err(RError::TooMany { met: all.count() });
        }
        if let Some(twice) = overlapping(&groups) {
            return Err(RError::Twice {
                met: clip(&twice.to_string()),
            });
        }
        if !hosts.is_empty() && hosts.count() != all.count() {
            return Err(RError::Names {
                ranks: all.count(),
                hosts: hosts.count(),
            });
        }
        Ok(R {
            groups,
            nodelist: hosts,
            starttime,
            expiration,
            nslots,
            properties,
        })
    }

    /// A resource set from the nodes it is made of, in any order; equal ranks must not repeat.
    #[must_use]
    pub fn build(nodes: &[Node], starttime: f64, expiration: f64, nslots: Option<u64>) -> R {
        let mut sorted: Vec<&Node> = nodes.iter().collect();
        sorted.sort_by_key(|node| node.rank);
        let mut groups: Vec<RankGroup> = Vec::new();
        let mut places: HashMap<(&Idset, &Idset), usize> = HashMap::new();
        for node in &sorted {
            let at = *places.entry((&node.cores, &node.gpus)).or_insert_with(|| {
                let (cores, gpus) = (node.cores.clone(), node.gpus.clone());
                groups.push(RankGroup {
                    ranks: Idset::new(),
                    cores,
                    gpus,
                });
                groups.len() - 1
            });
            groups[at].ranks.insert(node.rank);
        }
        let nodelist = Hostlist::from_names(sorted.iter().map(|node| &node.host));
        R {
            groups,
            nodelist,
            starttime,
            expiration,
            nslots,
            properties: None,
        }
    }

    /// The nodes it is made of, by ascending rank; a node without a name has an empty one.
    #[must_use]
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for group in &self.groups {
            nodes.extend(group.ranks.iter().map(|rank| Node {
                rank,
                host: String::new(),
                cores: group.cores.clone(),
                gpus: group.gpus.clone(),
            }));
        }
        nodes.sort_by_key(|node| node.rank);
        for (node, host) in nodes.iter_mut().zip(self.nodelist.iter()) {
            node.host = host;
        }
        nodes
    }

    /// How many cores.
    #[must_use]
    pub fn ncores(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| group.ranks.count().saturating_mul(group.cores.count()))
            .sum()
    }

    /// How many GPUs.
    #[must_use]
    pub fn ngpus(&self) -> u64 {
        self.groups
            .iter()
            .map(|group| group.ranks.count().saturating_mul(group.gpus.count()))
            .sum()
    }

    /// How many nodes.
    #[must_use]
    pub fn nnodes(&self) -> u64 {
        self.groups.iter().map(|group| group.ranks.count()).sum()
    }

    /// Which ranks. As listings show them: [`Idset::bracketed`].
    #[must_use]
    pub fn ranks(&self) -> Idset {
        Idset::union_of(self.groups.iter().map(|group| &group.ranks))
    }

    /// For people: `rank[2-3]/core[0-3],gpu[0-1]`, groups with a space between.
    #[must_use]
    pub fn summary(&self) -> String {
        let group = |group: &RankGroup| {
            let mut text = format!("rank{}/", group.ranks.bracketed());
            if !group.cores.is_empty() {
                text += &format!("core{}", group.cores.bracketed());
            }
            if !group.gpus.is_empty() {
                let comma = if group.cores.is_empty() { "" } else { "," };
                text += &format!("{comma}gpu{}", group.gpus.bracketed());
            }
            text
        };
        self.groups.iter().map(group).collect::<Vec<_>>().join(" ")
    }

    /// Its JSON, compact.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let mut buf = Vec::with_capacity(192);
        buf.extend_from_slice(b"{\"version\":1,\"execution\":{\"R_lite\":[");
        for (at, group) in self.groups.iter().enumerate() {
            buf.extend_from_slice(if at == 0 {
                b"{\"rank\":"
            } else {
                b",{\"rank\":"
            });
            push_value(&mut buf, &group.ranks);
            buf.extend_from_slice(b",\"children\":{\"core\":");
            push_value(&mut buf, &group.cores);
            if !group.gpus.is_empty() {
                buf.extend_from_slice(b",\"gpu\":");
                push_value(&mut buf, &group.gpus);
            }
            buf.extend_from_slice(b"}}");
        }
        buf.extend_from_slice(b"],\"nodelist\":[");
        push_value(&mut buf, &self.nodelist);
        buf.extend_from_slice(b"],\"starttime\":");
        push_f64(&mut buf, self.starttime);
        buf.extend_from_slice(b",\"expiration\":");
        push_f64(&mut buf, self.expiration);
        if let Some(nslots) = self.nslots {
            buf.extend_from_slice(b",\"nslots\":");
            push_u64(&mut buf, nslots);
        }
        if let Some(properties) = &self.properties {
            buf.extend_from_slice(b",\"properties\":");
            push_value(&mut buf, properties);
        }
        buf.extend_from_slice(b"}}");
        Bytes::from(buf)
    }
}

/// The ranks of a group that has one in common with another, if there is such a group.
fn overlapping(groups: &[RankGroup]) -> Option<&Idset> {
    let ranges = |group: &'_ RankGroup| group.ranks.ranges().to_vec();
    let numbered = groups.iter().enumerate();
    let mut all: Vec<((u32, u32), usize)> = numbered
        .flat_map(|(at, group)| ranges(group).into_iter().map(move |range| (range, at)))
        .collect();
    all.sort_unstable();
    let meet = all.windows(2).find(|pair| pair[1].0.0 <= pair[0].0.1);
    meet.and_then(|pair| groups.get(pair[0].1.max(pair[1].1)))
        .map(|group| &group.ranks)
}

/// An R without its `scheduling` key, all else as it was; the same bytes if there is none.
/// # Errors
/// [`RError::Json`]: not a JSON object.
pub fn without_scheduling(json: &Bytes) -> Result<Bytes, RError> {
    let mut object: Map = serde_json::from_slice(json)?;
    if object.shift_remove("scheduling").is_none() {
        return Ok(json.clone());
    }
    Ok(Bytes::from(serde_json::to_vec(&object)?))
}

/// Only the ranks of an R, whatever else is in it.
/// # Errors
/// [`RError::Json`]: not of the shape above.
pub fn ranks_of(json: &[u8]) -> Result<Idset, RError> {
    #[derive(Deserialize)]
    struct Only {
        execution: Lite,
    }
    #[derive(Deserialize)]
    struct Lite {
        #[serde(rename = "R_lite")]
        groups: Vec<Ranks>,
    }
    #[derive(Deserialize)]
    struct Ranks {
        rank: Idset,
    }
    let only: Only = serde_json::from_slice(json)?;
    Ok(Idset::union_of(
        only.execution.groups.iter().map(|group| &group.rank),
    ))
}

/// An R as a `resource-update` leaves it: another `execution.expiration`, all else as it was.
/// # Errors
/// [`RError::Json`]: not a JSON object with an object `execution`.
pub fn with_expiration(json: &[u8], expiration: f64) -> Result<Bytes, RError> {
    let mut object: Map = serde_json::from_slice(json)?;
    let execution = object.get_mut("execution").and_then(Value::as_object_mut);
    let execution = execution.ok_or_else(|| {
        <serde_json::Error as serde::de::Error>::custom("expected an object \"execution\"")
    })?;
    execution.insert("expiration".to_owned(), Value::from(expiration));
    Ok(Bytes::from(serde_json::to_vec(&object)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(rank: u32, cores: &str, gpus: &str) -> Node {
        let host = format!("node{rank}");
        Node {
            rank,
            host,
            cores: cores.parse().unwrap(),
            gpus: gpus.parse().unwrap(),
        }
    }

    #[test]
    fn equal_children_are_grouped_and_names_compressed() {
        let nodes = [
            node(3, "0-3", "0-1"),
            node(0, "1", ""),
            node(2, "0-3", "0-1"),
            node(1, "1", ""),
        ];
        let r = R::build(&nodes, 1.5, 61.5, Some(4));
        assert_eq!(
            r.to_json(),
            "{\"version\":1,\"execution\":{\"R_lite\":[{\"rank\":\"0-1\",\"children\":{\"core\":\"1\"}},\
             {\"rank\":\"2-3\",\"children\":{\"core\":\"0-3\",\"gpu\":\"0-1\"}}],\"nodelist\":[\"node[0-3]\"],\
             \"starttime\":1.5,\"expiration\":61.5,\"nslots\":4}}"
        );
        assert_eq!(R::parse(&r.to_json()).unwrap(), r);
        assert_eq!((r.ncores(), r.ngpus(), r.nnodes()), (10, 4, 4));
        assert_eq!(r.ranks().bracketed(), "[0-3]");
        assert_eq!(ranks_of(&r.to_json()).unwrap(), r.ranks());
        assert_eq!(r.nodelist.to_string(), "node[0-3]");
        assert_eq!(r.summary(), "rank[0-1]/core1 rank[2-3]/core[0-3],gpu[0-1]");
        let mut sorted = nodes.to_vec();
        sorted.sort_by_key(|node| node.rank);
        assert_eq!(r.nodes(), sorted);
    }

    #[test]
    fn one_rank_has_no_brackets() {
        let r = R::build(&[node(0, "0", "")], 0.0, 0.0, None);
        assert_eq!(
            (r.ranks().bracketed().as_str(), r.summary().as_str()),
            ("0", "rank0/core0")
        );
    }

    #[test]
    fn the_empty_set() {
        let json = br#"{"version":1,"execution":{"R_lite":[],"nodelist":[""],"starttime":0.0,"expiration":0.0}}"#;
        let r = R::parse(json).unwrap();
        assert_eq!((r.ncores(), r.nnodes(), r.nodes().len()), (0, 0, 0));
        assert_eq!(r.to_json(), &json[..]);
    }

    #[test]
    fn malformed_sets_are_refused() {
        let execution = |text: &str| format!("{{\"version\":1,\"execution\":{{{text}}}}}");
        for (json, text) in [
            ("[]".to_owned(), "R is malformed: "),
            ("{}".to_owned(), "R is malformed: missing field `version`"),
            (
                "{\"version\":2,\"execution\":{\"R_lite\":[]}}".to_owned(),
                "R is malformed: version: expected 1, got 2",
            ),
            (
                execution("\"R_lite\":[{\"rank\":\"0-0\",\"children\":{}}]"),
                "R is malformed: idset \"0-0\" is malformed",
            ),
            (
                execution("\"R_lite\":[],\"nodelist\":[\"a\"]"),
                "R is malformed: 0 ranks, but 1 names in the nodelist",
            ),
            (
                execution("\"R_lite\":[],\"expiration\":-1"),
                "R is malformed: execution.expiration: expected seconds ≥ 0, got -1",
            ),
            (
                execution(
                    "\"R_lite\":[{\"rank\":\"0-1\",\"children\":{}},{\"rank\":\"1\",\"children\":{}}]",
                ),
                "R is malformed: execution.R_lite: ranks \"1\" come twice",
            ),
            (
                execution(
                    "\"R_lite\":[{\"rank\":\"0-4000000000\",\"children\":{\"core\":\"0-4000000000\"}}]",
                ),
                "R is malformed: 4000000001 nodes: expected at most 1048576",
            ),
        ] {
            let error = R::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(text), "{json}: {error}");
        }
    }

    #[test]
    fn scheduling_goes_and_the_rest_stays() {
        let json = Bytes::from_static(
            b"{\"version\":1,\"scheduling\":{\"a\":1},\"execution\":{\"x\":1.0}}",
        );
        let stripped = without_scheduling(&json).unwrap();
        assert_eq!(stripped, "{\"version\":1,\"execution\":{\"x\":1.0}}");
        assert_eq!(without_scheduling(&stripped).unwrap(), stripped);
        let updated = with_expiration(&stripped, 7.0).unwrap();
        assert_eq!(
            updated,
            "{\"version\":1,\"execution\":{\"x\":1.0,\"expiration\":7.0}}"
        );
        assert!(with_expiration(b"{}", 1.0).is_err());
        assert!(without_scheduling(&Bytes::from_static(b"nonsense")).is_err());
    }
}
