//! The entries of the resource log, typed. Anything else in that log is not about nodes.
//!
//! ```text
//! resource-define {"method":"announced","R":R,"pools":{NAME:IDSET…}}
//! online          {"idset":IDSET,"nodelist":HOSTLIST}
//! offline         {"idset":IDSET,"nodelist":HOSTLIST,"reason"?:s}
//! drain           {"idset":IDSET,"nodelist":HOSTLIST,"reason":s,"overwrite":0|1|2,"userid"?:N}
//! undrain         {"idset":IDSET,"nodelist":HOSTLIST,"userid"?:N}
//! ```
//!
//! The nodelist is for whoever reads the log; what counts is the idset, ranks of the newest `resource-define`. For nodes
//! that are drained already, `overwrite` 0 changes nothing, 1 the reason, 2 the reason and the time.

use crate::Map;
use crate::event::{Event, EventKind};
use crate::hostlist::Hostlist;
use crate::idset::Idset;
use crate::json::clip;
use crate::r::{Node, R, RError};
use crate::time::Timestamp;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The most bytes a reason for draining may have.
pub const DRAIN_REASON_BYTES_MAX: usize = 1024;

/// The most bytes the name of a node may have.
pub const NODE_NAME_BYTES_MAX: usize = 253;

/// The most bytes the name of a pool may have.
pub const POOL_NAME_BYTES_MAX: usize = 128;

/// The most pools an instance may have.
pub const POOLS_MAX: usize = 1024;

/// A set of nodes: their names, cores and GPUs, and the pools they are in.
#[derive(Debug, Clone, PartialEq)]
pub struct Define {
    r: R,
    json: Bytes,
    ranks: Idset,
    pools: BTreeMap<String, Idset>,
}

/// One node of a set.
#[derive(Debug)]
pub struct DefinedNode<'d> {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: &'d Idset,
    /// Its GPUs.
    pub gpus: &'d Idset,
}

/// A set of nodes that is none.
#[derive(Debug, thiserror::Error)]
pub enum DefineError {
    /// Not a resource set.
    #[error("R: {0}")]
    R(#[from] RError),
    /// A node without a name, or with one that is none.
    #[error(
        "R: rank {rank}: expected a name of 1 to {NODE_NAME_BYTES_MAX} bytes without white space, comma and brackets, got {met:?}"
    )]
    Name {
        /// Which node.
        rank: u32,
        /// The name met, shortened.
        met: String,
    },
    /// Two nodes of one name.
    #[error("R: two nodes are named {met:?}")]
    Twice {
        /// The name.
        met: String,
    },
    /// More pools than there may be.
    #[error("pools: {met} of them: expected at most {POOLS_MAX}")]
    Pools {
        /// How many.
        met: usize,
    },
    /// A pool without a name, or with a long one.
    #[error("pools: {met:?}: expected a name of 1 to {POOL_NAME_BYTES_MAX} bytes")]
    PoolName {
        /// The name met, shortened.
        met: String,
    },
    /// A pool with nodes that the set does not have.
    #[error("pools.{pool}: {met:?}: expected ranks of R, {expected:?}")]
    PoolRanks {
        /// Its name, shortened.
        pool: String,
        /// Its nodes.
        met: String,
        /// The nodes there are.
        expected: String,
    },
    /// A node in two pools.
    #[error("pools: {first:?} and {second:?} share nodes: expected each node in one pool")]
    PoolsShare {
        /// One of them, shortened.
        first: String,
        /// The other, shortened.
        second: String,
    },
}

impl Define {
    /// A set from its R and its pools. Kept in one spelling: two sets are equal when they say the same.
    /// # Errors
    /// [`DefineError`]: no R, a node without a name of its own, or pools that do not fit.
    pub fn new(r: &[u8], pools: BTreeMap<String, Idset>) -> Result<Define, DefineError> {
        let read = R::parse(r)?;
        let nodes = read.nodes();
        check_names(&nodes)?;
        let mut r = R::build(&nodes, 0.0, 0.0, None);
        r.properties = read.properties;
        let ranks = r.ranks();
        check_pools(&pools, &ranks)?;
        Ok(Define {
            json: r.to_json(),
            ranks,
            pools,
            r,
        })
    }

    /// The R.
    #[must_use]
    pub fn r(&self) -> &R {
        &self.r
    }

    /// The R as JSON.
    #[must_use]
    pub fn r_json(&self) -> &Bytes {
        &self.json
    }

    /// The ranks.
    #[must_use]
    pub fn ranks(&self) -> &Idset {
        &self.ranks
    }

    /// Name → ranks of the pools.
    #[must_use]
    pub fn pools(&self) -> &BTreeMap<String, Idset> {
        &self.pools
    }

    /// The pool of a node.
    #[must_use]
    pub fn pool_of(&self, rank: u32) -> Option<&str> {
        let found = self.pools.iter().find(|(_, ranks)| ranks.contains(rank));
        found.map(|(name, _)| &**name)
    }

    /// Its nodes by rank; names are made one at a time.
    pub fn nodes(&self) -> impl Iterator<Item = DefinedNode<'_>> {
        // Groups are by their lowest rank, not by rank: each rank's group is found by its ranges.
        let mut ranges: Vec<(u32, u32, usize)> = Vec::new();
        for (at, group) in self.r.groups.iter().enumerate() {
            ranges.extend(group.ranks.ranges().iter().map(|&(a, b)| (a, b, at)));
        }
        ranges.sort_unstable();
        let ranks = ranges
            .into_iter()
            .flat_map(|(first, last, at)| (first..=last).map(move |rank| (rank, at)));
        ranks.zip(self.r.nodelist.iter()).map(|((rank, at), name)| {
            let group = &self.r.groups[at];
            DefinedNode {
                rank,
                name,
                cores: &group.cores,
                gpus: &group.gpus,
            }
        })
    }

    /// Names of the nodes with these ranks, by rank.
    #[must_use]
    pub fn nodelist(&self, ranks: &Idset) -> Hostlist {
        if *ranks == self.ranks {
            return self.r.nodelist.clone();
        }
        // The place of a name is how many ranks are below its own.
        let mut ranges = self.ranks.ranges().iter().peekable();
        let mut place = 0;
        let asked = ranks.intersection(&self.ranks);
        let places = asked.ranges().iter().map(|&(first, last)| {
            while let Some((from, to)) = ranges.next_if(|&&(_, to)| to < first) {
                place += u64::from(to - from) + 1;
            }
            let from = ranges.peek().map_or(first, |&&(from, _)| from);
            let below = place + u64::from(first - from);
            (below, below + u64::from(last - first) + 1)
        });
        self.r.nodelist.pick(places)
    }

    /// The context of its `resource-define`.
    #[must_use]
    pub fn context(&self) -> Map {
        let mut context = Map::new();
        let r = serde_json::from_slice(&self.json).unwrap_or(Value::Null);
        let pools = self
            .pools
            .iter()
            .map(|(name, ranks)| (name.clone(), Value::String(ranks.to_string())))
            .collect();
        context.insert("method".to_owned(), Value::from("announced"));
        context.insert("R".to_owned(), r);
        context.insert("pools".to_owned(), Value::Object(pools));
        context
    }

    pub(super) fn from_context(context: &Map) -> Result<Define, String> {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(rename = "R")]
            r: Map,
            #[serde(default)]
            pools: BTreeMap<String, Idset>,
        }
        let raw = Raw::deserialize(context).map_err(|error| error.to_string())?;
        let r = serde_json::to_vec(&raw.r).map_err(|error| error.to_string())?;
        Define::new(&r, raw.pools).map_err(|error| error.to_string())
    }
}

fn check_names(nodes: &[Node]) -> Result<(), DefineError> {
    let mut seen = HashSet::with_capacity(nodes.len());
    for Node { rank, host, .. } in nodes {
        let wrong = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ',' | '[' | ']');
        if host.is_empty() || host.len() > NODE_NAME_BYTES_MAX || host.contains(wrong) {
            return Err(DefineError::Name {
                rank: *rank,
                met: clip(host),
            });
        }
        if !seen.insert(host.as_str()) {
            return Err(DefineError::Twice { met: clip(host) });
        }
    }
    Ok(())
}

fn check_pools(pools: &BTreeMap<String, Idset>, all: &Idset) -> Result<(), DefineError> {
    if pools.len() > POOLS_MAX {
        return Err(DefineError::Pools { met: pools.len() });
    }
    let mut owners: Vec<((u32, u32), &str)> = Vec::new();
    for (name, ranks) in pools {
        if name.is_empty() || name.len() > POOL_NAME_BYTES_MAX {
            return Err(DefineError::PoolName { met: clip(name) });
        }
        if !ranks.is_subset(all) {
            return Err(DefineError::PoolRanks {
                pool: clip(name),
                met: clip(&ranks.to_string()),
                expected: clip(&all.to_string()),
            });
        }
        owners.extend(ranks.ranges().iter().map(|&range| (range, &**name)));
    }
    owners.sort_unstable();
    match owners.windows(2).find(|pair| pair[1].0.0 <= pair[0].0.1) {
        None => Ok(()),
        Some(pair) => Err(DefineError::PoolsShare {
            first: clip(pair[0].1),
            second: clip(pair[1].1),
        }),
    }
}

/// An entry about nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum ResourceEvent {
    /// The whole set.
    Define(Arc<Define>),
    /// Nodes came.
    Online {
        /// Which.
        idset: Idset,
    },
    /// Nodes went.
    Offline {
        /// Which.
        idset: Idset,
        /// Why.
        reason: Option<String>,
    },
    /// Nodes are to get no new job.
    Drain {
        /// Which.
        idset: Idset,
        /// Why; may be empty.
        reason: String,
        /// For those that are drained already: 0 nothing changes, 1 the reason, 2 the reason and the time.
        overwrite: u8,
        /// Who said so.
        userid: Option<u32>,
    },
    /// Nodes may get new jobs again.
    Undrain {
        /// Which.
        idset: Idset,
        /// Who said so.
        userid: Option<u32>,
    },
}

/// An event of a name this crate knows whose context is not what that name demands.
#[derive(Debug, thiserror::Error)]
#[error("malformed event {event:?} of the resource log: {reason}")]
pub struct ResourceEventError {
    /// Its name.
    pub event: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Deserialize)]
struct Nodes {
    idset: Idset,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    overwrite: u8,
    #[serde(default)]
    userid: Option<u32>,
}

impl ResourceEvent {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ResourceEvent::Define(_) => "resource-define",
            ResourceEvent::Online { .. } => "online",
            ResourceEvent::Offline { .. } => "offline",
            ResourceEvent::Drain { .. } => "drain",
            ResourceEvent::Undrain { .. } => "undrain",
        }
    }

    /// The event of an entry of the resource log; `None` if it is not about nodes.
    /// # Errors
    /// [`ResourceEventError`]: its context is not what its name demands.
    pub fn read(event: &Event) -> Result<Option<ResourceEvent>, ResourceEventError> {
        let EventKind::Other { name, context } = &event.kind else {
            return Ok(None);
        };
        let name = match &**name {
            "resource-define" => "resource-define",
            "online" => "online",
            "offline" => "offline",
            "drain" => "drain",
            "undrain" => "undrain",
            _ => return Ok(None),
        };
        let wrong = |reason: String| ResourceEventError {
            event: name,
            reason,
        };
        let empty = Map::new();
        let context = context.as_ref().unwrap_or(&empty);
        if name == "resource-define" {
            let define = Define::from_context(context).map_err(wrong)?;
            return Ok(Some(ResourceEvent::Define(Arc::new(define))));
        }
        let Nodes {
            idset,
            reason,
            overwrite,
            userid,
        } = Nodes::deserialize(context).map_err(|error| wrong(error.to_string()))?;
        Ok(Some(match name {
            "online" => ResourceEvent::Online { idset },
            "offline" => ResourceEvent::Offline { idset, reason },
            "drain" => ResourceEvent::Drain {
                idset,
                reason: reason.unwrap_or_default(),
                overwrite,
                userid,
            },
            _ => ResourceEvent::Undrain { idset, userid },
        }))
    }

    /// The event to post; the names of the nodes are those of `define`.
    #[must_use]
    pub fn to_event(&self, time: Timestamp, define: Option<&Define>) -> Event {
        let mut context = Map::new();
        let mut put = |key: &str, value: Value| context.insert(key.to_owned(), value);
        match self {
            ResourceEvent::Define(define) => context = define.context(),
            ResourceEvent::Online { idset }
            | ResourceEvent::Offline { idset, .. }
            | ResourceEvent::Drain { idset, .. }
            | ResourceEvent::Undrain { idset, .. } => {
                let names = define.map_or_else(Hostlist::new, |define| define.nodelist(idset));
                put("idset", Value::from(idset.to_string()));
                put("nodelist", Value::from(names.to_string()));
                let (reason, overwrite, userid) = match self {
                    ResourceEvent::Offline { reason, .. } => (reason.as_ref(), None, None),
                    ResourceEvent::Drain {
                        reason,
                        overwrite,
                        userid,
                        ..
                    } => (Some(reason), Some(*overwrite), *userid),
                    ResourceEvent::Undrain { userid, .. } => (None, None, *userid),
                    ResourceEvent::Define(_) | ResourceEvent::Online { .. } => (None, None, None),
                };
                if let Some(reason) = reason {
                    put("reason", Value::from(reason.as_str()));
                }
                if let Some(overwrite) = overwrite {
                    put("overwrite", Value::from(overwrite));
                }
                if let Some(userid) = userid {
                    put("userid", Value::from(userid));
                }
            }
        }
        Event::new(
            time,
            EventKind::Other {
                name: Arc::from(self.name()),
                context: Some(context),
            },
        )
    }
}
