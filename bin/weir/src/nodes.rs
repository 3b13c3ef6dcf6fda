//! The nodes of an instance, as its engine tells: up or down, drained and why, how much of each is taken.
//!
//! Two questions to the engine, asked at once: `resource.status` and `resource.sched-status`.

use crate::connect::Session;
use crate::format::fields::{Field, Subject};
use crate::format::spec::Value;
use anyhow::Context as _;
use job::hostlist::Hostlist;
use job::idset::Idset;
use job::r::R;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// A node, as `--json` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    /// Its rank.
    pub rank: u32,
    /// Its name.
    pub name: String,
    /// Whether it gets jobs, and if not, why.
    pub status: Status,
    /// It is there.
    pub online: bool,
    /// How many it has.
    pub cores: u64,
    /// How many of them jobs hold.
    pub cores_allocated: u64,
    /// How many it has.
    pub gpus: u64,
    /// How many of them jobs hold.
    pub gpus_allocated: u64,
    /// That it was drained, if it was.
    pub drain: Option<Drain>,
}

/// Why a node was drained, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// Why; may be empty.
    #[serde(default)]
    pub reason: String,
    /// Since when.
    #[serde(rename(deserialize = "timestamp"))]
    pub since: f64,
}

/// Whether a node gets jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does.
    Avail,
    /// It was drained, and jobs run there still.
    Draining,
    /// It was drained, and no job runs there.
    Drained,
    /// It is not there.
    Offline,
}

impl Status {
    /// As it is shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Avail => "avail",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Offline => "offline",
        }
    }
}

macro_rules! fields {
    ($($name:literal $heading:literal $get:expr;)*) => {
        /// Every field of a format, in the order the help lists them.
        static FIELDS: &[Field<Node>] = &[$(Field { name: $name, heading: $heading, attributes: &[], get: $get }),*];
    };
}

fields! {
    "rank" "RANK" |node, _| Value::Int(node.rank.into());
    "name" "NAME" |node, _| Value::Text(Cow::Borrowed(&node.name));
    "status" "STATE" |node, _| Value::Text(Cow::Borrowed(node.status.as_str()));
    "online" "UP" |node, _| Value::Bool(node.online);
    "cores" "NCORES" |node, _| Value::Int(node.cores.into());
    "cores_allocated" "ALLOC" |node, _| Value::Int(node.cores_allocated.into());
    "cores_free" "FREE" |node, _| Value::Int(node.cores.saturating_sub(node.cores_allocated).into());
    "gpus" "NGPUS" |node, _| Value::Int(node.gpus.into());
    "gpus_allocated" "GALLOC" |node, _| Value::Int(node.gpus_allocated.into());
    "gpus_free" "GFREE" |node, _| Value::Int(node.gpus.saturating_sub(node.gpus_allocated).into());
    "reason" "REASON" |node, _| node.drain.as_ref().map_or(Value::None, |drain| Value::Text(Cow::Borrowed(&drain.reason)));
    "since" "SINCE" |node, _| node.drain.as_ref().map_or(Value::None, |drain| Value::Real(drain.since));
}

/// Formats that have a name, with a line about each.
const NAMED: [(&str, &str, &str); 2] = [
    (
        "long",
        "what each node has, and what is free of it",
        "{rank:>5} +:{name:<8} {status:<8} {cores_allocated:>5}/{cores:<5} {gpus_allocated:>4}/{gpus:<4} {reason}",
    ),
    (
        "drained",
        "why, and since when",
        "{since!D:<19h} {status:<8} {rank:>5} +:{name:<8} {reason}",
    ),
];

impl Subject for Node {
    const FIELDS: &'static [Field<Self>] = FIELDS;
    const NAMED: &'static [(&'static str, &'static str, &'static str)] = &NAMED;
    const HELP: &'static str = "weir resource list --format=help";
    const ANNOTATION: Option<fn(&Self, &str) -> Option<serde_json::Value>> = None;

    fn key(&self, _: &str) -> Option<Value<'static>> {
        None
    }
}

#[derive(Deserialize)]
struct ResourceStatus {
    #[serde(rename = "R")]
    r: Box<RawValue>,
    #[serde(default)]
    drain: BTreeMap<String, Drain>,
    #[serde(default)]
    online: String,
}

#[derive(Deserialize)]
struct SchedStatus {
    #[serde(default)]
    allocated: Option<Box<RawValue>>,
}

/// Asks for all nodes, by rank.
///
/// # Errors
/// The engine is away, or says what cannot be read.
pub async fn gather(session: &Session) -> anyhow::Result<Vec<Node>> {
    let status = session.start("resource.status", &json!({})).await?;
    let sched = session.start("resource.sched-status", &json!({})).await?;
    let status: ResourceStatus = status.answer().await?;
    let sched: SchedStatus = sched.answer().await?;
    merged(&status, &sched)
}

fn merged(status: &ResourceStatus, sched: &SchedStatus) -> anyhow::Result<Vec<Node>> {
    let all = R::parse(status.r.get().as_bytes()).context("resource.status")?;
    let online = idset(&status.online)?;
    let mut drains: HashMap<u32, &Drain> = HashMap::new();
    for (ranks, drain) in &status.drain {
        drains.extend(idset(ranks)?.iter().map(|rank| (rank, drain)));
    }
    let mut taken: HashMap<u32, (u64, u64)> = HashMap::new();
    if let Some(r) = &sched.allocated
        && r.get() != "null"
    {
        let allocated = R::parse(r.get().as_bytes()).context("resource.sched-status")?;
        for node in allocated.nodes() {
            taken.insert(node.rank, (node.cores.count(), node.gpus.count()));
        }
    }
    let nodes = all.nodes().into_iter().map(|node| {
        let (cores_allocated, gpus_allocated) = taken.get(&node.rank).copied().unwrap_or_default();
        let drain = drains.get(&node.rank).copied().cloned();
        let online = online.contains(node.rank);
        Node {
            rank: node.rank,
            name: node.host,
            status: match (&drain, online) {
                (Some(_), true) if cores_allocated + gpus_allocated > 0 => Status::Draining,
                (Some(_), _) => Status::Drained,
                (None, true) => Status::Avail,
                (None, false) => Status::Offline,
            },
            online,
            cores: node.cores.count(),
            cores_allocated,
            gpus: node.gpus.count(),
            gpus_allocated,
            drain,
        }
    });
    Ok(nodes.collect())
}

fn idset(text: &str) -> anyhow::Result<Idset> {
    if text.is_empty() {
        return Ok(Idset::new());
    }
    text.parse()
        .with_context(|| format!("resource.status: '{text}' is no set of ranks"))
}

/// The nodes that targets name: ranks such as `0-3`, or names such as `h[0-3]`.
#[must_use]
pub fn among<'n>(nodes: &'n [Node], targets: &str) -> Vec<&'n Node> {
    let ranks = targets.parse::<Idset>().ok();
    let names = targets.parse::<Hostlist>().ok();
    let is_named = |node: &Node| match (&ranks, &names) {
        (Some(ranks), _) => ranks.contains(node.rank),
        (None, Some(names)) => names.contains(&node.name),
        (None, None) => false,
    };
    nodes.iter().filter(|node| is_named(node)).collect()
}

/// Their names as a list, folded: `h[0-3]`.
#[must_use]
pub fn names<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> String {
    Hostlist::from_names(nodes.into_iter().map(|node| node.name.as_str())).to_string()
}

/// Their ranks as a set: `0-3`.
#[must_use]
pub fn ranks<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> String {
    let mut ranks = Idset::new();
    for node in nodes {
        ranks.insert(node.rank);
    }
    ranks.to_string()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Four nodes of two cores: one half taken, one drained, one draining, one offline.
    pub(crate) fn four() -> Vec<Node> {
        let status = r#"{"R":{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-1"}}],"nodelist":["h[0-3]"],
            "starttime":0.0,"expiration":0.0}},"drain":{"1-2":{"timestamp":5.0,"reason":"fan"}},"online":"0-2","offline":"3"}"#;
        let sched = r#"{"all":null,"down":null,"allocated":{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}},
            {"rank":"2","children":{"core":"0-1"}}],"nodelist":["h0","h2"],"starttime":0.0,"expiration":0.0}}}"#;
        let status = serde_json::from_str(status).unwrap();
        merged(&status, &serde_json::from_str(sched).unwrap()).unwrap()
    }

    #[test]
    fn a_node_has_one_status_and_what_is_taken_of_it() {
        let nodes = four();
        let seen: Vec<_> = nodes
            .iter()
            .map(|node| (&*node.name, node.status.as_str(), node.cores_allocated))
            .collect();
        assert_eq!(
            seen,
            [
                ("h0", "avail", 1),
                ("h1", "drained", 0),
                ("h2", "draining", 2),
                ("h3", "offline", 0)
            ]
        );
        assert_eq!(
            serde_json::to_value(&nodes[1].drain).unwrap(),
            json!({"reason": "fan", "since": 5.0})
        );
    }

    #[test]
    fn formats_of_nodes_are_those_of_jobs() {
        use crate::format::{Format, fields::Context};
        for (_, _, format) in NAMED {
            Format::<Node>::parse(format).unwrap();
        }
        let format = Format::<Node>::parse("sort:-cores_free,name {name}:{cores_free} {since!F}")
            .unwrap_err();
        assert!(format.to_string().contains("point in time"), "{format}");
        let format =
            Format::<Node>::parse("sort:-cores_free,name {name}:{cores_free}{reason:>4}").unwrap();
        let mut nodes = four();
        let context = Context { now: 0.0 };
        format.sort(&mut nodes, &context);
        let mut line = String::new();
        for node in &nodes {
            format.write_row(node, &context, &format.as_written(), &mut line);
            line.push(';');
        }
        assert_eq!(line, "h1:2 fan;h3:2;h0:1;h2:0 fan;");
        let unknown = Format::<Node>::parse("{user.x}").unwrap_err().to_string();
        assert!(
            unknown.contains("weir resource list --format=help"),
            "{unknown}"
        );
    }

    #[test]
    fn nodes_are_named_by_rank_or_by_name() {
        let nodes = four();
        assert_eq!(names(among(&nodes, "0,2-3")), "h[0,2-3]");
        assert_eq!(ranks(among(&nodes, "h[1-2]")), "1-2");
        assert!(among(&nodes, "x").is_empty());
    }
}
