//! Which node process looks after a part of a job: one of this engine's nodes, or one that is leaving.
//!
//! ```text
//!  place  0 … n-1   the nodes of this engine, by rank
//!         n …       nodes of an engine before this one (another `-s`, another name of the machine): they get no new jobs, and leave
//!                   when the last of theirs is gone
//! ```
//! A node is its name: that is how its process is found. `HOST` of an engine with one node and `HOST-0` of one with several are two
//! nodes, though both have rank 0; a rank is what the files of a job are called by. Places are never used again, so that what a link says
//! late is not taken for another's.

use std::collections::HashMap;

use sched::{NodeSpec, rset};

/// The longest name of a node, in bytes: its socket's name must fit into an address (see [`crate::paths`]).
pub(crate) const NODE_NAME_LEN_MAX: usize = 72;
/// Nodes that may be leaving at a time: each has a process.
pub(crate) const LEAVING_MAX: usize = crate::engine::machine::NODES_MAX as usize;

/// A node nobody can look after any more.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It has no name, and its rank is none of ours.
    #[error("node of rank {rank} is gone: this engine has ranks 0 to {last}")]
    Rank {
        /// Which.
        rank: u32,
        /// Our highest.
        last: u32,
    },
    /// No process can be called so.
    #[error("node {name:?} is gone: not a name of 1 to {NODE_NAME_LEN_MAX} bytes without '/'")]
    Name {
        /// The name.
        name: String,
    },
    /// Too many.
    #[error("node {name} is gone: {LEAVING_MAX} others are leaving already")]
    TooMany {
        /// Its name.
        name: String,
    },
    /// The same node twice in one job.
    #[error("node {name} is named twice by the resources of the job")]
    Twice {
        /// Its name.
        name: String,
    },
}

#[derive(Debug)]
struct Leaving {
    place: u32,
    parts: usize,
}

/// All nodes that are looked after.
#[derive(Debug)]
pub(crate) struct Roster {
    nodes: Vec<NodeSpec>,
    leaving: HashMap<String, Leaving>,
    next_place: u32,
}

/// Where a part of a job belongs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) place: u32,
    /// A node that was not looked after until now.
    pub(crate) is_new: bool,
}

impl Roster {
    pub(crate) fn new(nodes: Vec<NodeSpec>) -> Roster {
        Roster {
            next_place: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            nodes,
            leaving: HashMap::new(),
        }
    }

    /// The place of a part on that node. [`Roster::drop_part`] is owed for it.
    pub(crate) fn add_part(&mut self, rank: u32, host: &str) -> Result<Place, Gone> {
        if let Some(place) = rset::rank_of(&self.nodes, rank, host) {
            return Ok(Place {
                place,
                is_new: false,
            });
        }
        if let Some(known) = self.leaving.get_mut(host) {
            known.parts += 1;
            return Ok(Place {
                place: known.place,
                is_new: false,
            });
        }
        let name = host.to_owned();
        if name.is_empty() {
            let last = u32::try_from(self.nodes.len()).map_or(0, |count| count.saturating_sub(1));
            return Err(Gone::Rank { rank, last });
        }
        let is_short = name.len() <= NODE_NAME_LEN_MAX;
        if !is_short || name.chars().any(|c| c == '/' || c.is_control()) {
            return Err(Gone::Name { name });
        }
        if self.leaving.len() >= LEAVING_MAX {
            return Err(Gone::TooMany { name });
        }
        let place = self.next_place;
        self.next_place += 1;
        self.leaving.insert(name, Leaving { place, parts: 1 });
        Ok(Place {
            place,
            is_new: true,
        })
    }

    /// A part is forgotten. True if its node leaves with it.
    pub(crate) fn drop_part(&mut self, place: u32) -> bool {
        let found = self
            .leaving
            .iter_mut()
            .find(|(_, leaving)| leaving.place == place);
        let Some((name, leaving)) = found else {
            return false;
        };
        leaving.parts -= 1;
        if leaving.parts > 0 {
            return false;
        }
        let name = name.clone();
        self.leaving.remove(&name);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::Set;

    fn roster(names: &[&str]) -> Roster {
        let node = |name: &&str| NodeSpec {
            host: (*name).to_owned(),
            cores: Set::first(1),
            gpus: Set::new(),
        };
        Roster::new(names.iter().map(node).collect())
    }

    fn at(roster: &mut Roster, rank: u32, host: &str) -> (u32, bool) {
        let found = roster.add_part(rank, host).unwrap();
        (found.place, found.is_new)
    }

    #[test]
    fn a_node_is_its_name_and_leaves_with_its_last_part() {
        let mut roster = roster(&["h"]);
        assert_eq!(at(&mut roster, 0, "h"), (0, false));
        assert_eq!(at(&mut roster, 0, "h-0"), (1, true), "the same rank");
        assert_eq!(at(&mut roster, 1, "h-1"), (2, true));
        assert_eq!(at(&mut roster, 0, "h-0"), (1, false));
        assert!(!roster.drop_part(0));
        assert!(!roster.drop_part(1) && roster.drop_part(1) && roster.drop_part(2));
        assert_eq!(at(&mut roster, 0, "h-0"), (3, true), "a place of its own");
    }

    #[test]
    fn a_node_that_nobody_can_look_after_is_gone() {
        let mut roster = roster(&["h-0", "h-1"]);
        assert_eq!(at(&mut roster, 1, ""), (1, false), "without names, by rank");
        let mut gone = |rank, host: &str| roster.add_part(rank, host).unwrap_err().to_string();
        assert_eq!(
            gone(2, ""),
            "node of rank 2 is gone: this engine has ranks 0 to 1"
        );
        for name in ["../x", "a\nb", &"x".repeat(73)] {
            assert!(gone(0, name).starts_with("node \""), "{name}");
        }
        for at in 0..LEAVING_MAX {
            roster.add_part(7, &format!("old-{at}")).unwrap();
        }
        assert!(matches!(
            roster.add_part(7, "old"),
            Err(Gone::TooMany { .. })
        ));
    }
}
