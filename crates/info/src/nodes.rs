//! The nodes: what was announced of them in the resource log, and every other that some job ran on.
//!
//! ```text
//!  resource-define   the whole set: rank, name, cores, GPUs, pool     a new node is down until `online`
//!  online offline    up or not, and why not
//!  drain undrain     no new job gets it; why, since when, by whom
//!  R of a job        a name nobody announced: `known` is false, and whether it is up nobody says
//! ```
//! A node is its name; its rank is its place in the newest `resource-define`. A [`NodeIx`] is its place in this table: it stays
//! while the table does, so that allocations are numbers and not texts. Rows are never taken out before the list is built anew; a node
//! that is announced no longer is not `known` any more. In Flux's form of the journal there are no entries of resources: then no node is
//! known and all that there are come from jobs.

use std::{collections::HashMap, sync::Arc};

use job::{Resources, Timestamp, resources::Drain};

mod fold;

/// A node's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its place in the newest announcement; none when it is in none.
    pub rank: Option<u32>,
    /// Its pool.
    pub pool: Arc<str>,
    /// Cores; 0 when nobody said.
    pub cores: u32,
    /// GPUs.
    pub gpus: u32,
    /// Whether it is announced. If not, whether it is up or drained is not known.
    pub known: bool,
    /// Whether it is up.
    pub up: bool,
    /// Why it is down, if that was said.
    pub down_reason: Option<Box<str>>,
    /// Since when it is up, or down, if that was heard.
    pub since: Option<Timestamp>,
    /// Whether it is drained.
    pub drain: Option<Box<Drain>>,
    /// The entry with which it came.
    pub create_seq: u64,
    /// The newest entry that changed what is said of it here.
    pub modify_seq: u64,
}

impl Node {
    /// Whether a new job could get it: it is known, up and not drained.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.known && self.up && self.drain.is_none()
    }

    /// Equal but for the seqs and times of changes.
    fn says_the_same(&self, other: &Node) -> bool {
        (
            self.rank, self.known, self.up, self.cores, self.gpus, &self.pool,
        ) == (
            other.rank,
            other.known,
            other.up,
            other.cores,
            other.gpus,
            &other.pool,
        ) && self.down_reason == other.down_reason
            && self.drain == other.drain
    }
}

/// All nodes.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    rows: Vec<Node>,
    by_name: HashMap<Arc<str>, NodeIx>,
    by_rank: Vec<Option<NodeIx>>,
    known: usize,
    /// What the resource log says.
    resources: Resources,
    /// What could not be read of it.
    pub(crate) fault: Option<Box<str>>,
    /// Nodes that changed since [`Nodes::take_changed`]; only while somebody watches.
    pub(crate) changed: Option<Vec<NodeIx>>,
}

/// The pool of nodes of which nobody says anything else.
pub const DEFAULT_POOL: &str = "default";

impl Nodes {
    /// How many there are, not known ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many are known.
    #[must_use]
    pub fn known_len(&self) -> usize {
        self.known
    }

    /// A node by its place.
    #[must_use]
    pub fn get(&self, at: NodeIx) -> Option<&Node> {
        self.rows.get(at.0 as usize)
    }

    /// A node's place by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied()
    }

    /// A node by its name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Node> {
        self.get(self.find(name)?)
    }

    /// The node that has this rank in the newest announcement.
    #[must_use]
    pub fn by_rank(&self, rank: u32) -> Option<(NodeIx, &Node)> {
        let at = self.by_rank.get(rank as usize).copied().flatten()?;
        Some((at, self.get(at)?))
    }

    /// All, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (NodeIx, &Node)> + '_ {
        let numbered = self.rows.iter().enumerate();
        numbered.filter_map(|(at, node)| Some((NodeIx(u32::try_from(at).ok()?), node)))
    }

    /// Those that a list of nodes shows: the known ones, or all if none is known.
    pub fn listed(&self) -> impl Iterator<Item = (NodeIx, &Node)> + '_ {
        let all = self.known == 0;
        self.iter().filter(move |(_, node)| all || node.known)
    }

    /// What the resource log says.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// What could not be read of the resource log, the newest such thing: then a node may be otherwise than its row says.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// The place of a name that stands in a job's R.
    pub(crate) fn intern(&mut self, name: &str, seq: u64) -> NodeIx {
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        let at = NodeIx(u32::try_from(self.rows.len()).unwrap_or(u32::MAX));
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), at);
        self.rows.push(Node {
            name,
            rank: None,
            pool: DEFAULT_POOL.into(),
            cores: 0,
            gpus: 0,
            known: false,
            up: false,
            down_reason: None,
            since: None,
            drain: None,
            create_seq: seq,
            modify_seq: seq,
        });
        if let Some(changed) = &mut self.changed {
            changed.push(at);
        }
        at
    }

    /// The shared text of a name.
    pub(crate) fn name(&self, at: NodeIx) -> Option<&Arc<str>> {
        self.get(at).map(|node| &node.name)
    }

    /// Takes over when the nodes of a list before came and changed, so that a rebuild alone changes nothing.
    pub(crate) fn inherit(&mut self, before: &Nodes) {
        for node in &mut self.rows {
            let Some(old) = before.by_name(&node.name) else {
                continue;
            };
            node.create_seq = node.create_seq.min(old.create_seq);
            if node.says_the_same(old) {
                node.modify_seq = old.modify_seq;
                node.since = node.since.or(old.since);
            }
        }
    }

    /// The nodes that changed since last asked, and when.
    pub(crate) fn take_changed(&mut self) -> Vec<(Arc<str>, u64)> {
        let changed = self
            .changed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let named = changed.into_iter().filter_map(|at| {
            let node = self.get(at)?;
            Some((node.name.clone(), node.modify_seq))
        });
        named.collect()
    }

    /// Brings the rows into the order of their ranks, those without one behind and by name. Where each is then, if any moved.
    pub(crate) fn sort(&mut self) -> Option<Vec<NodeIx>> {
        let key = |node: &Node| (node.rank.unwrap_or(u32::MAX), node.name.clone());
        if self.rows.is_sorted_by_key(key) {
            return None;
        }
        let mut rows: Vec<(usize, Node)> = std::mem::take(&mut self.rows)
            .into_iter()
            .enumerate()
            .collect();
        rows.sort_by_cached_key(|(_, node)| key(node));
        let mut moved = vec![NodeIx(0); rows.len()];
        for (at, (was, node)) in (0u32..).zip(rows) {
            if let Some(place) = moved.get_mut(was) {
                *place = NodeIx(at);
            }
            self.by_name.insert(node.name.clone(), NodeIx(at));
            self.rows.push(node);
        }
        for at in self.by_rank.iter_mut().flatten() {
            *at = moved.get(at.0 as usize).copied().unwrap_or(*at);
        }
        Some(moved)
    }

    /// Changes one row; notes the change if there is one.
    pub(crate) fn change(&mut self, at: NodeIx, seq: u64, change: impl FnOnce(&mut Node)) {
        let Some(node) = self.rows.get_mut(at.0 as usize) else {
            return;
        };
        let before = node.clone();
        change(node);
        if node.says_the_same(&before) {
            node.since = before.since;
            return;
        }
        node.modify_seq = seq;
        match (before.known, node.known) {
            (false, true) => {
                node.create_seq = seq;
                self.known += 1;
            }
            (true, false) => self.known -= 1,
            _ => {}
        }
        if let Some(changed) = &mut self.changed
            && changed.last() != Some(&at)
        {
            changed.push(at);
        }
    }

    /// Bytes held, about.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Node>()
            + self.by_name.capacity() * (size_of::<(Arc<str>, NodeIx)>() + 1)
            + self.by_rank.capacity() * size_of::<Option<NodeIx>>()
            + self
                .rows
                .iter()
                .map(|node| node.name.len() + 16)
                .sum::<usize>()
    }
}
