//! Entries of the resource log, folded into the table of nodes. What they mean is [`job::Resources`]' matter; here the rows that an
//! entry concerns are brought up to date.

use std::sync::Arc;

use job::{
    Event, Idset, ResourceEvent, Resources, Seq, Timestamp,
    resources::{NodeView, ResourceChange},
};

use super::{DEFAULT_POOL, Node, NodeIx, Nodes};

/// What an entry says beside what [`Resources`] keeps.
#[derive(Default)]
struct Said {
    when: Option<Timestamp>,
    down_reason: Option<Box<str>>,
}

impl Nodes {
    /// Folds one entry of the resource log. One that was folded is passed over.
    ///
    /// # Errors
    /// What is wrong with it; then it changes nothing.
    pub(crate) fn apply(&mut self, event: &Event, seq: u64) -> Result<(), Box<str>> {
        if seq <= self.resources.seq().0 {
            return Ok(());
        }
        let mut said = Said {
            when: Some(event.timestamp),
            down_reason: None,
        };
        if let Ok(Some(ResourceEvent::Offline { reason, .. })) = ResourceEvent::read(event) {
            said.down_reason = reason.map(Into::into);
        }
        match self.resources.apply(Seq(seq), event) {
            Ok(ResourceChange::Nothing) => Ok(()),
            Ok(ResourceChange::Defined) => {
                self.sync_all(seq, &said);
                Ok(())
            }
            Ok(ResourceChange::Nodes(ranks)) => {
                self.sync(&ranks, seq, &said);
                Ok(())
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// Takes the state that `caught_up` tells, unless a newer one is folded. What it says to be different changed no later than at
    /// `at_most`.
    ///
    /// # Errors
    /// What is wrong with it; then it changes nothing.
    pub(crate) fn take_base(&mut self, json: &str, at_most: u64) -> Result<(), Box<str>> {
        let base = Resources::from_json(json.as_bytes()).map_err(|error| error.to_string())?;
        if base.seq() >= self.resources.seq() {
            let seq = base.seq().0.min(at_most.max(1));
            self.resources = base;
            self.sync_all(seq, &Said::default());
        }
        Ok(())
    }

    /// Brings the rows of these ranks up to date; the set is the same.
    fn sync(&mut self, ranks: &Idset, seq: u64, said: &Said) {
        let resources = std::mem::take(&mut self.resources);
        for rank in ranks.iter() {
            let Some(at) = self.by_rank.get(rank as usize).copied().flatten() else {
                continue;
            };
            let (up, drain) = (resources.up().contains(rank), resources.drain_of(rank));
            self.change(at, seq, |node| {
                if node.up != up {
                    node.up = up;
                    node.since = said.when;
                }
                if !up && said.down_reason.is_some() {
                    node.down_reason.clone_from(&said.down_reason);
                }
                if up {
                    node.down_reason = None;
                }
                node.drain = drain.cloned().map(Box::new);
            });
        }
        self.resources = resources;
    }

    /// Brings all rows up to date.
    fn sync_all(&mut self, seq: u64, said: &Said) {
        let resources = std::mem::take(&mut self.resources);
        let mut by_rank = Vec::new();
        let mut named = vec![false; self.len()];
        let default: Arc<str> = DEFAULT_POOL.into();
        let mut last_pool = default.clone();
        for view in resources.nodes() {
            let at = self.intern(&view.name, seq);
            let place = view.rank as usize;
            if by_rank.len() <= place {
                by_rank.resize(place + 1, None);
            }
            if let Some(by_rank) = by_rank.get_mut(place) {
                *by_rank = Some(at);
            }
            if let Some(named) = named.get_mut(at.0 as usize) {
                *named = true;
            }
            let pool = match view.pool {
                None => default.clone(),
                Some(pool) if pool == last_pool.as_ref() => last_pool.clone(),
                Some(pool) => {
                    last_pool = pool.into();
                    last_pool.clone()
                }
            };
            self.change(at, seq, |node| show(node, &view, pool, said));
        }
        let gone = (0u32..).zip(named).filter(|(_, named)| !named);
        for (at, _) in gone {
            self.change(NodeIx(at), seq, |node| {
                node.rank = None;
                node.known = false;
                node.up = false;
                node.down_reason = None;
                node.drain = None;
            });
        }
        self.by_rank = by_rank;
        self.resources = resources;
    }
}

fn show(node: &mut Node, view: &NodeView<'_>, pool: Arc<str>, said: &Said) {
    let count = |set: &Idset| u32::try_from(set.count()).unwrap_or(u32::MAX);
    if node.up != view.up || !node.known {
        node.since = said.when;
    }
    node.rank = Some(view.rank);
    node.pool = pool;
    node.cores = count(view.cores);
    node.gpus = count(view.gpus);
    node.known = true;
    node.up = view.up;
    if view.up {
        node.down_reason = None;
    }
    node.drain = view.drain.cloned().map(Box::new);
}
