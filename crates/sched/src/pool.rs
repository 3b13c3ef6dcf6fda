//! The nodes, which of them are ready, and what of each is free. Grants come out of here and go back; nothing is ever given twice.
//!
//! A node is *ready* when it is up and not drained: only such ones are given out. *Up* is what the engine sees, *drained* what the
//! operator wants; neither touches what is held already.
//!
//! [`Free`] is a picture of what could be given, so that the same search serves for "now", for "when these jobs have ended"
//! and for "if there were no other job". The pool itself is the picture of now plus who may be used.

use crate::request::{Request, Spread};
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

/// Whether a node is there, and wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    up: bool,
    drained: bool,
}

/// Which nodes a search takes into account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those that can be given out now.
    Ready,
    /// Also those that are down: their processes come back.
    NotDrained,
    /// All.
    Every,
}

/// All nodes of the instance.
#[derive(Debug)]
pub(crate) struct Pool {
    nodes: Vec<NodeSpec>,
    standing: Vec<Standing>,
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
            standing: vec![
                Standing {
                    up: true,
                    drained: false
                };
                nodes.len()
            ],
            nodes,
            free,
        }
    }

    pub(crate) fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    /// True if that changed anything.
    pub(crate) fn set_up(&mut self, rank: u32, up: bool) -> bool {
        self.change(rank, |node| node.up = up)
    }

    /// True if that changed anything.
    pub(crate) fn set_drained(&mut self, rank: u32, drained: bool) -> bool {
        self.change(rank, |node| node.drained = drained)
    }

    fn change(&mut self, rank: u32, change: impl FnOnce(&mut Standing)) -> bool {
        let was = self.standing(rank);
        if let Some(node) = self.standing.get_mut(rank as usize) {
            change(node);
        }
        was != self.standing(rank)
    }

    fn standing(&self, rank: u32) -> Standing {
        let there = self.standing.get(rank as usize).copied();
        there.unwrap_or(Standing {
            up: false,
            drained: false,
        })
    }

    pub(crate) fn is_up(&self, rank: u32) -> bool {
        self.standing(rank).up
    }

    pub(crate) fn is_drained(&self, rank: u32) -> bool {
        self.standing(rank).drained
    }

    /// Whether any node is drained.
    pub(crate) fn has_drained(&self) -> bool {
        self.standing.iter().any(|node| node.drained)
    }

    pub(crate) fn is_ready(&self, rank: u32) -> bool {
        self.counts(rank, Scope::Ready)
    }

    fn counts(&self, rank: u32, scope: Scope) -> bool {
        let node = self.standing(rank);
        match scope {
            Scope::Ready => node.up && !node.drained,
            Scope::NotDrained => !node.drained,
            Scope::Every => true,
        }
    }

    /// What is free now, on nodes that are ready or not.
    pub(crate) fn free(&self) -> &Free {
        &self.free
    }

    /// Whether any core of a node that is ready is free.
    pub(crate) fn has_free(&self) -> bool {
        (0u32..)
            .zip(&self.free.nodes)
            .any(|(rank, (cores, _))| self.is_ready(rank) && !cores.is_empty())
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

    /// Whether the request could ever be served: every node ready and nothing in use.
    pub(crate) fn could_ever(&self, request: &Request) -> bool {
        self.search(&self.empty(), request, Scope::Every).is_some()
    }

    /// Whether it could be served though drained nodes stay so: every other one up and nothing in use.
    pub(crate) fn could_while_drained(&self, request: &Request) -> bool {
        self.search(&self.empty(), request, Scope::NotDrained)
            .is_some()
    }

    /// What would be free if there were no job.
    fn empty(&self) -> Free {
        let nodes = self.nodes.iter();
        Free {
            nodes: nodes
                .map(|node| (node.cores.clone(), node.gpus.clone()))
                .collect(),
        }
    }

    /// How many nodes the request's constraint allows.
    pub(crate) fn allowed(&self, request: &Request) -> usize {
        (0u32..)
            .zip(&self.nodes)
            .filter(|(rank, node)| allows(request, *rank, node))
            .count()
    }

    /// Finds resources for `request` in `free` on nodes that are ready: lowest ranks first, lowest ids first.
    pub(crate) fn fit(&self, free: &Free, request: &Request) -> Option<Grant> {
        self.search(free, request, Scope::Ready)
    }

    fn search(&self, free: &Free, request: &Request, scope: Scope) -> Option<Grant> {
        let mut grant = Grant::default();
        for (rank, (spec, (cores, gpus))) in (0u32..).zip(self.nodes.iter().zip(&free.nodes)) {
            if !self.counts(rank, scope) || !allows(request, rank, spec) {
                continue;
            }
            let whole = *cores == spec.cores && *gpus == spec.gpus;
            let here = if request.exclusive && !whole {
                0
            } else {
                slots_in(cores, gpus, request)
            };
            let slots = match request.spread {
                Spread::Anywhere => here.min(request.slots - grant.nslots),
                Spread::Nodes(_) if here < request.slots => continue,
                Spread::EveryReady if here < request.slots => {
                    if slots_in(&spec.cores, &spec.gpus, request) < request.slots {
                        // Too small: never one of them.
                        continue;
                    }
                    return None;
                }
                Spread::Nodes(_) | Spread::EveryReady => request.slots,
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
                    cores: cores.lowest(slots.saturating_mul(request.cores_per_slot.max(1))),
                    gpus: gpus.lowest(slots.saturating_mul(request.gpus_per_slot)),
                }
            });
            grant.nslots += slots;
            let complete = match request.spread {
                Spread::Anywhere => grant.nslots == request.slots,
                Spread::Nodes(nodes) => grant.nodes.len() == nodes as usize,
                Spread::EveryReady => false,
            };
            if complete {
                return Some(grant);
            }
        }
        (request.spread == Spread::EveryReady && !grant.nodes.is_empty()).then_some(grant)
    }
}

/// How many slots of a request there are in so many cores and GPUs.
fn slots_in(cores: &Set, gpus: &Set, request: &Request) -> u32 {
    let here = cores.len() / request.cores_per_slot.max(1);
    gpus.len()
        .checked_div(request.gpus_per_slot)
        .map_or(here, |by_gpu| here.min(by_gpu))
}

fn allows(request: &Request, rank: u32, node: &NodeSpec) -> bool {
    request
        .constraint
        .as_ref()
        .is_none_or(|constraint| constraint.allows(rank, &node.host))
}
