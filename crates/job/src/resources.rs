//! The nodes of an instance, as the entries of the resource log make them: which there are, which are up, which are
//! drained and why. One fold, used by the job-manager, by job-info and by whoever else follows the journal.
//!
//! ```text
//! resource-define  the whole set; ranks are places in the newest one
//! online, offline  nodes came or went
//! drain, undrain   nodes are to get no new job, or may get some again
//! ```
//!
//! Up and drained belong to a node's *name*: a new set keeps them for the names that stay. A node that is new in a set
//! is down until `online`. A drained node that leaves the set is remembered, so that it is drained when it comes back;
//! at most [`RESOURCES_GONE_MAX`] of those, the longest drained are forgotten first.
//!
//! The state can be written down and read back ([`Resources::to_json`]): that is what a `caught_up` response carries and
//! what the job-manager keeps, so no entry of the log has to be kept for it.

mod event;
mod snapshot;
#[cfg(test)]
mod tests;

pub use event::{
    DRAIN_REASON_BYTES_MAX, Define, DefineError, NODE_NAME_BYTES_MAX, POOL_NAME_BYTES_MAX,
    POOLS_MAX, ResourceEvent, ResourceEventError,
};
pub use snapshot::SnapshotError;

use crate::event::Event;
use crate::hostlist::Hostlist;
use crate::idset::Idset;
use crate::json::clip;
use crate::seq::Seq;
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The most drained nodes that are remembered though they are in no set.
pub const RESOURCES_GONE_MAX: usize = 4096;

/// The nodes of an instance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resources {
    seq: Seq,
    eventlog_seq: u32,
    define: Option<Arc<Define>>,
    up: Idset,
    drained: BTreeMap<u32, Arc<Drain>>,
    gone: BTreeMap<String, Arc<Drain>>,
}

/// Why a node gets no new job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Drain {
    /// Since when.
    pub since: Timestamp,
    /// Why; may be empty.
    pub reason: Arc<str>,
    /// Who said so, if it is known.
    pub userid: Option<u32>,
}

/// One node as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView<'r> {
    /// Its place in the newest set.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// The pool it is in.
    pub pool: Option<&'r str>,
    /// Its cores.
    pub cores: &'r Idset,
    /// Its GPUs.
    pub gpus: &'r Idset,
    /// Whether it is up.
    pub up: bool,
    /// Whether and why it gets no new job.
    pub drain: Option<&'r Drain>,
}

/// What an entry changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ResourceChange {
    /// Nothing: an entry that was counted before, or one that is not about nodes.
    Nothing,
    /// There is a new set: any node may be another one now.
    Defined,
    /// These are not as they were, or were said again to be what they are.
    Nodes(Idset),
}

/// An entry of the resource log that does not fit; nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum ResourceInvalid {
    /// Its context is not what its name demands.
    #[error(transparent)]
    Event(#[from] ResourceEventError),
    /// It speaks of nodes before there are any.
    #[error("{event} of nodes {met:?}: no resource-define came before")]
    NoDefine {
        /// Its name.
        event: &'static str,
        /// The nodes.
        met: String,
    },
    /// It speaks of nodes that the set does not have.
    #[error("{event} of nodes {met:?}: expected ranks of the newest resource-define, {expected:?}")]
    NoSuchRank {
        /// Its name.
        event: &'static str,
        /// The nodes.
        met: String,
        /// The nodes there are.
        expected: String,
    },
}

impl Resources {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Resources {
        Resources::default()
    }

    /// Whether nothing is known: no set, no drained node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.define.is_none() && self.gone.is_empty()
    }

    /// The newest entry that was taken in.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// How many entries the resource log has had.
    #[must_use]
    pub fn eventlog_seq(&self) -> u32 {
        self.eventlog_seq
    }

    /// The state of a log that has no entry after this one: a store that lost its newest entries gives their seqs again.
    #[must_use]
    pub fn not_after(mut self, newest: Seq) -> Resources {
        self.seq = self.seq.min(newest);
        self
    }

    /// The newest set.
    #[must_use]
    pub fn define(&self) -> Option<&Arc<Define>> {
        self.define.as_ref()
    }

    /// Ranks of all nodes of the set.
    #[must_use]
    pub fn ranks(&self) -> &Idset {
        const NONE: &Idset = &Idset::new();
        self.define.as_ref().map_or(NONE, |define| define.ranks())
    }

    /// Ranks of the nodes that are up.
    #[must_use]
    pub fn up(&self) -> &Idset {
        &self.up
    }

    /// Nodes of the set that are drained, by rank.
    pub fn drained(&self) -> impl Iterator<Item = (u32, &Drain)> {
        self.drained.iter().map(|(&rank, drain)| (rank, &**drain))
    }

    /// Why the node gets no new job, if that is so.
    #[must_use]
    pub fn drain_of(&self, rank: u32) -> Option<&Drain> {
        self.drained.get(&rank).map(|drain| &**drain)
    }

    /// Drained nodes that are in no set now, by name.
    pub fn gone(&self) -> impl Iterator<Item = (&str, &Drain)> {
        self.gone.iter().map(|(name, drain)| (&**name, &**drain))
    }

    /// Ranks of the nodes that are up and not drained: where a new job may go.
    #[must_use]
    pub fn ready(&self) -> Idset {
        let drained: Idset = self.drained.keys().copied().collect();
        self.up.difference(&drained)
    }

    /// All nodes of the set, by rank.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        let define = self.define.as_deref();
        define.into_iter().flat_map(move |define| {
            define.nodes().map(move |node| NodeView {
                rank: node.rank,
                pool: define.pool_of(node.rank),
                up: self.up.contains(node.rank),
                drain: self.drain_of(node.rank),
                name: node.name,
                cores: node.cores,
                gpus: node.gpus,
            })
        })
    }

    /// Names of nodes of the set, by rank; ranks it does not have are passed over.
    #[must_use]
    pub fn nodelist(&self, ranks: &Idset) -> Hostlist {
        self.define
            .as_ref()
            .map_or_else(Hostlist::new, |define| define.nodelist(ranks))
    }

    /// Takes in an entry of the resource log. One that was taken in before (by its seq) is passed over, so a reader may
    /// begin with a snapshot and go on with any older part of the journal. Events that are not about nodes count only.
    /// # Errors
    /// [`ResourceInvalid`]: the entry does not fit; nothing but the count changed.
    pub fn apply(&mut self, seq: Seq, event: &Event) -> Result<ResourceChange, ResourceInvalid> {
        if seq <= self.seq {
            return Ok(ResourceChange::Nothing);
        }
        self.seq = seq;
        self.eventlog_seq = self.eventlog_seq.saturating_add(1);
        match ResourceEvent::read(event)? {
            None => Ok(ResourceChange::Nothing),
            Some(what) => self.take(event.timestamp, what),
        }
    }

    fn take(
        &mut self,
        time: Timestamp,
        what: ResourceEvent,
    ) -> Result<ResourceChange, ResourceInvalid> {
        let idset = match what {
            ResourceEvent::Define(define) => {
                self.redefine(define);
                return Ok(ResourceChange::Defined);
            }
            ResourceEvent::Online { idset } => {
                self.known("online", &idset)?;
                self.up = self.up.union(&idset);
                idset
            }
            ResourceEvent::Offline { idset, .. } => {
                self.known("offline", &idset)?;
                self.up = self.up.difference(&idset);
                idset
            }
            ResourceEvent::Drain {
                idset,
                reason,
                overwrite,
                userid,
            } => {
                self.known("drain", &idset)?;
                let new = Arc::new(Drain {
                    since: time,
                    reason: Arc::from(reason),
                    userid,
                });
                for rank in idset.iter() {
                    match (self.drained.get(&rank), overwrite) {
                        (None, _) | (Some(_), 2..) => {
                            self.drained.insert(rank, Arc::clone(&new));
                        }
                        (Some(_), 0) => {}
                        (Some(old), _) => {
                            let since = old.since;
                            let kept = Drain {
                                since,
                                ..Drain::clone(&new)
                            };
                            self.drained.insert(rank, Arc::new(kept));
                        }
                    }
                }
                idset
            }
            ResourceEvent::Undrain { idset, .. } => {
                self.known("undrain", &idset)?;
                for rank in idset.iter() {
                    self.drained.remove(&rank);
                }
                idset
            }
        };
        Ok(ResourceChange::Nodes(idset))
    }

    /// Checks that the set has all of these nodes: before anything else, since a range may be of any length.
    fn known(&self, event: &'static str, idset: &Idset) -> Result<(), ResourceInvalid> {
        let Some(define) = &self.define else {
            let met = clip(&idset.to_string());
            return Err(ResourceInvalid::NoDefine { event, met });
        };
        if idset.is_subset(define.ranks()) {
            return Ok(());
        }
        Err(ResourceInvalid::NoSuchRank {
            event,
            met: clip(&idset.to_string()),
            expected: clip(&define.ranks().to_string()),
        })
    }

    /// A new set: what was known of a name goes with the name.
    fn redefine(&mut self, define: Arc<Define>) {
        let mut up_names = HashMap::new();
        if let Some(old) = self.define.take() {
            for node in old.nodes() {
                let drain = self.drained.remove(&node.rank);
                let up = self.up.contains(node.rank);
                if up || drain.is_some() {
                    up_names.insert(node.name, (up, drain));
                }
            }
        }
        let (mut up, drained) = (Vec::new(), &mut self.drained);
        drained.clear();
        for node in define.nodes() {
            let (was_up, drain) = up_names.remove(&node.name).unwrap_or_default();
            if was_up {
                up.push(node.rank);
            }
            let drain = drain.or_else(|| self.gone.remove(&node.name));
            if let Some(drain) = drain {
                drained.insert(node.rank, drain);
            }
        }
        let left = up_names
            .into_iter()
            .filter_map(|(name, (_, drain))| Some((name, drain?)));
        self.gone.extend(left);
        let too_many = self.gone.len().saturating_sub(RESOURCES_GONE_MAX);
        if too_many > 0 {
            let since = self.gone.iter().map(|(name, drain)| (drain.since, name));
            let mut oldest: Vec<(Timestamp, &String)> = since.collect();
            oldest.sort_unstable();
            oldest.truncate(too_many);
            let names: Vec<String> = oldest.into_iter().map(|(_, name)| name.clone()).collect();
            for name in names {
                self.gone.remove(&name);
            }
        }
        self.up = up.into_iter().collect();
        self.define = Some(define);
    }
}
