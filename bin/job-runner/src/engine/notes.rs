//! What whoever started the engine should read at once: nodes that went away and are back, nodes that are others than before.
//!
//! One line each on standard output, if that is a pipe: then somebody reads it for this. Nothing waits for him; what does not fit into the pipe,
//! or comes when nobody reads any more, is left to the log.

use std::collections::HashSet;
use std::io;

use job::Hostlist;
use rustix::fs::FileType;
use sched::{NodeSpec, Set};

use crate::engine::machine;

/// The longest note, in bytes: so much goes into a pipe whole, or not at all.
const NOTE_LEN_MAX: usize = 4096;

/// The notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Ranks of nodes that went away.
    away: HashSet<u32>,
}

impl Notes {
    /// Nodes came, or went that were there.
    pub(super) fn nodes(&mut self, ranks: &Set, up: bool, specs: &[NodeSpec]) -> Option<String> {
        let ranks = ranks.iter().filter(|rank| {
            if up {
                self.away.remove(rank)
            } else {
                self.away.insert(*rank)
            }
        });
        let hosts = ranks.filter_map(|rank| specs.get(rank as usize));
        let hosts = Hostlist::from_names(hosts.map(|node| &node.host));
        let (what, is, it) = match hosts.count() {
            0 => return None,
            1 => ("node", "is", "its node process"),
            _ => ("nodes", "are", "their node processes"),
        };
        Some(if up {
            format!("{what} {hosts} {is} up again")
        } else {
            format!("{what} {hosts} {is} down: {it} went away; starting another")
        })
    }
}

/// The nodes are others than those that were known before.
pub(super) fn others(before: &str, specs: &[NodeSpec]) -> String {
    let now = Hostlist::from_names(specs.iter().map(|node| &node.host));
    let known: Hostlist = before.parse().unwrap_or_default();
    // The names that another size would give.
    let size = u32::try_from(known.count()).unwrap_or(u32::MAX);
    let is_size = size <= machine::NODES_MAX
        && machine::nodes(size, &Set::new(), &Set::new())
            .iter()
            .map(|node| &node.host)
            .eq(known.iter().collect::<Vec<_>>().iter());
    let remedy = if is_size {
        format!("; -s {size} brings them back")
    } else {
        String::new()
    };
    format!(
        "the nodes are {now} now, and were {before} before{remedy}; drains of those that are gone are kept"
    )
}

/// Says it.
pub(super) fn say(note: &str) {
    let out = io::stdout();
    let is_pipe = rustix::fs::fstat(&out)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    if !is_pipe || note.len() >= NOTE_LEN_MAX {
        return;
    }
    // The other end is the reader's, and not changed by that.
    if rustix::io::ioctl_fionbio(&out, true).is_ok() {
        let _ = rustix::io::write(&out, format!("{note}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(count: u32) -> Vec<NodeSpec> {
        machine::nodes(count, &Set::new(), &Set::new())
    }

    #[test]
    fn a_node_that_went_away_is_named_and_so_is_its_return() {
        let specs: Vec<NodeSpec> = ["h-0", "h-1", "h-2"]
            .map(|host| NodeSpec {
                host: host.to_owned(),
                cores: Set::new(),
                gpus: Set::new(),
            })
            .into();
        let some = |ids: &[u32]| ids.iter().copied().collect::<Set>();
        let mut notes = Notes::default();
        assert_eq!(
            notes.nodes(&some(&[0, 1, 2]), true, &specs),
            None,
            "the first time"
        );
        let down = "node h-2 is down: its node process went away; starting another";
        assert_eq!(notes.nodes(&some(&[2]), false, &specs).unwrap(), down);
        assert_eq!(notes.nodes(&some(&[2]), false, &specs), None, "once");
        let down = "nodes h-[0-1] are down: their node processes went away; starting another";
        assert_eq!(notes.nodes(&some(&[0, 1]), false, &specs).unwrap(), down);
        let up = "nodes h-[0,2] are up again";
        assert_eq!(notes.nodes(&some(&[0, 2]), true, &specs).unwrap(), up);
    }

    #[test]
    fn nodes_of_another_size_are_told_with_the_size() {
        let four = Hostlist::from_names(specs(4).iter().map(|node| &node.host)).to_string();
        let host = machine::nodes(1, &Set::new(), &Set::new())[0].host.clone();
        assert_eq!(
            others(&four, &specs(1)),
            format!(
                "the nodes are {host} now, and were {four} before; -s 4 brings them back; drains of those that are gone are kept"
            )
        );
        assert!(!others("elsewhere-[0-3]", &specs(1)).contains("-s"));
    }
}
