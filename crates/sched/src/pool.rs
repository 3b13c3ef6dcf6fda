//! The nodes, and what of each is free. Grants come out of here and go back; nothing is ever given twice.
//!
//! [`Free`] is a picture of what could be given, so that the same search serves for "now", for "when these jobs have ended"
//! and for "if there were no other job". The pool itself is the picture of now plus who may be used.

use crate::request::Request;
use crate::set::Set;

/// One node as it was announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its host name.
    pub host: String,
    /// Its cores.
    pub cores: Set,
    /// Its GPUs.
    pub gpus: Set,
}

/// What one job gets of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGrant {
    /// The node's rank: its place in the pool.
    pub rank: u32,
    /// Its cores.
    pub cores: Set,
    /// Its GPUs.
    pub gpus: Set,
}

/// What one job gets, ranks ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// One entry a node.
    pub nodes: Vec<NodeGrant>,
    /// Slots in all.
    pub nslots: u32,
}

/// Cores and GPUs of every node that could be given out, in a given situation.
#[derive(Debug, Clone)]
pub(crate) struct Free {
    nodes: Vec<(Set, Set)>,
}

impl Free {
    pub(crate) fn take(&mut self, grant: &Grant) {
        for part in &grant.nodes {
            if let Some((cores, gpus)) = self.nodes.get_mut(part.rank as usize) {
                cores.remove(&part.cores);
                gpus.remove(&part.gpus);
            }
        }
    }

    pub(crate) fn give(&mut self, grant: &Grant) {
        for part in &grant.nodes {
            if let Some((cores, gpus)) = self.nodes.get_mut(part.rank as usize) {
                cores.add(&part.cores);
                gpus.add(&part.gpus);
            }
        }
    }
}

/// All nodes of the instance.
#[derive(Debug)]
pub(crate) struct Pool {
    nodes: Vec<NodeSpec>,
    up: Vec<bool>,
    free: Free,
}

impl Pool {
    pub(crate) fn new(nodes: Vec<NodeSpec>) -> Pool {
        let free = Free {
            nodes: nodes
                .iter()
                .map(|node| (node.cores.clone(), node.gpus.clone()))
                .collect(),
        };
        Pool {
            up: vec![true; nodes.len()],
            nodes,
            free,
        }
    }

    pub(crate) fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    pub(crate) fn set_up(&mut self, rank: u32, up: bool) -> bool {
        match self.up.get_mut(rank as usize) {
            Some(state) if *state != up => {
                *state = up;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn is_up(&self, rank: u32) -> bool {
        self.up.get(rank as usize).copied().unwrap_or(false)
    }

    /// What is free now, on nodes that are up or not.
    pub(crate) fn free(&self) -> &Free {
        &self.free
    }

    /// Whether any core of a node that is up is free.
    pub(crate) fn has_free(&self) -> bool {
        self.free
            .nodes
            .iter()
            .zip(&self.up)
            .any(|((cores, _), up)| *up && !cores.is_empty())
    }

    pub(crate) fn take(&mut self, grant: &Grant) {
        self.free.take(grant);
    }

    pub(crate) fn give(&mut self, grant: &Grant) {
        self.free.give(grant);
    }

    /// The part of `grant` that exists here and that nobody holds.
    pub(crate) fn takeable(&self, grant: &Grant) -> Grant {
        let nodes = grant
            .nodes
            .iter()
            .filter_map(|part| {
                let (cores, gpus) = self.free.nodes.get(part.rank as usize)?;
                Some(NodeGrant {
                    rank: part.rank,
                    cores: cores.common(&part.cores),
                    gpus: gpus.common(&part.gpus),
                })
            })
            .collect();
        Grant {
            nodes,
            nslots: grant.nslots,
        }
    }

    /// Whether the request could ever be served: every node up and nothing in use.
    pub(crate) fn could_ever(&self, request: &Request) -> bool {
        let all = Free {
            nodes: self
                .nodes
                .iter()
                .map(|node| (node.cores.clone(), node.gpus.clone()))
                .collect(),
        };
        self.search(&all, request, true).is_some()
    }

    /// How many nodes the request's constraint allows.
    pub(crate) fn allowed(&self, request: &Request) -> usize {
        (0u32..)
            .zip(&self.nodes)
            .filter(|(rank, node)| allows(request, *rank, node))
            .count()
    }

    /// Finds resources for `request` in `free` on nodes that are up: lowest ranks first, lowest ids first.
    pub(crate) fn fit(&self, free: &Free, request: &Request) -> Option<Grant> {
        self.search(free, request, false)
    }

    fn search(&self, free: &Free, request: &Request, down_too: bool) -> Option<Grant> {
        let (cores_per_slot, gpus_per_slot) =
            (request.cores_per_slot.max(1), request.gpus_per_slot);
        let mut grant = Grant::default();
        let wanted_nodes = request.nodes.map_or(usize::MAX, |nodes| nodes as usize);
        for (rank, (spec, (cores, gpus))) in (0u32..).zip(self.nodes.iter().zip(&free.nodes)) {
            if !(down_too || self.is_up(rank)) || !allows(request, rank, spec) {
                continue;
            }
            if request.exclusive && (*cores != spec.cores || *gpus != spec.gpus) {
                continue;
            }
            let here = cores.len() / cores_per_slot;
            let here = gpus
                .len()
                .checked_div(gpus_per_slot)
                .map_or(here, |by_gpu| here.min(by_gpu));
            let slots = match request.nodes {
                Some(_) if here < request.slots => continue,
                Some(_) => request.slots,
                None => here.min(request.slots - grant.nslots),
            };
            if slots == 0 {
                continue;
            }
            grant.nodes.push(if request.exclusive {
                NodeGrant {
                    rank,
                    cores: cores.clone(),
                    gpus: gpus.clone(),
                }
            } else {
                NodeGrant {
                    rank,
                    cores: cores.lowest(slots.saturating_mul(cores_per_slot)),
                    gpus: gpus.lowest(slots.saturating_mul(gpus_per_slot)),
                }
            });
            grant.nslots += slots;
            let complete = match request.nodes {
                Some(_) => grant.nodes.len() == wanted_nodes,
                None => grant.nslots == request.slots,
            };
            if complete {
                return Some(grant);
            }
        }
        None
    }
}

fn allows(request: &Request, rank: u32, node: &NodeSpec) -> bool {
    request
        .constraint
        .as_ref()
        .is_none_or(|constraint| constraint.allows(rank, &node.host))
}
