//! Which nodes a drain or an undrain means: ranks as an idset (`0-3,7`), or names as a hostlist (`h-[0-3]`).
//!
//! What reads as an idset is one, as in Flux. Every target must be a node of this engine; those that are not are named.

use job::{Hostlist, Idset};
use sched::{NodeSpec, Set};

/// Unknown nodes that an error names.
const NAMED_MAX: usize = 8;

/// Targets that mean no set of our nodes.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum TargetsError {
    /// Nothing is named.
    #[error("targets: no node is named: expected ranks such as 0-3 or names such as {example}")]
    Empty {
        /// A name of ours.
        example: String,
    },
    /// Neither of both.
    #[error(
        "targets: '{met}' is neither a set of ranks such as 0-3 nor a list of names such as {example}"
    )]
    Shape {
        /// What was sent, shortened.
        met: String,
        /// A name of ours.
        example: String,
    },
    /// Ranks beyond ours.
    #[error("targets: no node has rank {ranks}: there are ranks 0 to {last}")]
    Ranks {
        /// Which, as an idset.
        ranks: String,
        /// Our highest.
        last: u32,
    },
    /// Names that are none of ours.
    #[error("targets: no node is named {names}: there are {known}")]
    Names {
        /// Which, the first few.
        names: String,
        /// Ours, as a hostlist.
        known: String,
    },
}

/// The ranks of the nodes that `text` means.
/// # Errors
/// [`TargetsError`], case by case.
pub(crate) fn ranks(text: &str, nodes: &[NodeSpec]) -> Result<Set, TargetsError> {
    let example = || {
        nodes
            .first()
            .map_or_else(String::new, |node| node.host.clone())
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(TargetsError::Empty { example: example() });
    }
    if let Ok(ids) = text.parse::<Idset>() {
        return of_ids(&ids, nodes, example);
    }
    let Ok(names) = text.parse::<Hostlist>() else {
        return Err(TargetsError::Shape {
            met: text.chars().take(60).collect(),
            example: example(),
        });
    };
    let mut found = Set::new();
    let mut unknown = Vec::new();
    for name in names.iter() {
        match (0u32..).zip(nodes).find(|(_, node)| node.host == name) {
            Some((rank, _)) => found.insert(rank),
            None if unknown.len() < NAMED_MAX => unknown.push(name),
            None => {
                unknown.push("…".to_owned());
                break;
            }
        }
    }
    if !unknown.is_empty() {
        return Err(TargetsError::Names {
            names: unknown.join(", "),
            known: Hostlist::from_names(nodes.iter().map(|node| &node.host)).to_string(),
        });
    }
    if found.is_empty() {
        return Err(TargetsError::Empty { example: example() });
    }
    Ok(found)
}

/// Some of the nodes that `text` means, spelled as it spells them: ranks, or names.
pub(crate) fn spelled(text: &str, ranks: &Set, nodes: &[NodeSpec]) -> String {
    if text.trim().parse::<Idset>().is_ok() {
        return format!("rank{} {ranks}", if ranks.len() == 1 { "" } else { "s" });
    }
    let hosts = ranks.iter().filter_map(|rank| nodes.get(rank as usize));
    Hostlist::from_names(hosts.map(|node| &node.host)).to_string()
}

fn of_ids(
    ids: &Idset,
    nodes: &[NodeSpec],
    example: impl Fn() -> String,
) -> Result<Set, TargetsError> {
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    if ids.is_empty() {
        return Err(TargetsError::Empty { example: example() });
    }
    if ids.last().is_some_and(|last| last >= count) {
        let beyond = ids.ranges().iter().filter(|(_, last)| *last >= count);
        let beyond: Vec<String> = beyond
            .take(NAMED_MAX)
            .map(|(first, last)| Idset::from_range((*first).max(count), *last).to_string())
            .collect();
        return Err(TargetsError::Ranks {
            ranks: beyond.join(","),
            last: count.saturating_sub(1),
        });
    }
    Ok(ids.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(text: &str) -> String {
        let node = |host: &str| NodeSpec {
            host: host.to_owned(),
            cores: Set::first(1),
            gpus: Set::new(),
        };
        let nodes: Vec<NodeSpec> = ["h-0", "h-1", "h-2", "h-3"].map(node).into();
        match ranks(text, &nodes) {
            Ok(ranks) => ranks.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn ranks_and_names_are_read() {
        assert_eq!(met("0-1,3"), "0-1,3");
        assert_eq!(met("[1-2]"), "1-2");
        assert_eq!(met("h-[0,3]"), "0,3");
        assert_eq!(met("h-2,h-2"), "2");
    }

    #[test]
    fn nodes_are_named_as_they_were_typed() {
        let node = |host: &str| NodeSpec {
            host: host.to_owned(),
            cores: Set::first(1),
            gpus: Set::new(),
        };
        let nodes: Vec<NodeSpec> = ["h-0", "h-1", "h-2"].map(node).into();
        let some = |ids: &[u32]| ids.iter().copied().collect::<Set>();
        assert_eq!(spelled("0-2", &some(&[1]), &nodes), "rank 1");
        assert_eq!(spelled(" [0-2] ", &some(&[1, 2]), &nodes), "ranks 1-2");
        assert_eq!(spelled("h-1", &some(&[1]), &nodes), "h-1");
        assert_eq!(spelled("h-[0-2]", &some(&[0, 1]), &nodes), "h-[0-1]");
    }

    #[test]
    fn what_is_none_of_our_nodes_is_named() {
        assert_eq!(
            met("2-7"),
            "targets: no node has rank 4-7: there are ranks 0 to 3"
        );
        assert_eq!(
            met("0-4294967293"),
            "targets: no node has rank 4-4294967293: there are ranks 0 to 3"
        );
        assert_eq!(
            met("h-1,x,h-9"),
            "targets: no node is named x, h-9: there are h-[0-3]"
        );
        assert!(met("y[1-100000]").starts_with("targets: no node is named y1, y2, "));
        let empty = "targets: no node is named: expected ranks such as 0-3 or names such as h-0";
        assert_eq!((met(""), met(" []")), (empty.to_owned(), empty.to_owned()));
        assert!(met("h-[0-").contains("'h-[0-' is neither a set of ranks"));
    }
}
