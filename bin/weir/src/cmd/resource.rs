//! `weir resource …`: the nodes of an instance, and taking them out of use.

use crate::connect::{self, CallError, Session};
use crate::failure::usage;
use crate::format::{self, Fit, Format, fields::Context};
use crate::nodes::{self, Node, Status as NodeStatus};
use crate::output::{self, complain};
use crate::table::{self, Align};
use crate::{document, outage, text, when};
use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::Write as _;

/// Longest reason that is taken from a terminal.
const REASON_BYTES_MAX: u64 = 4096;

/// Show nodes, and take them out of use
///
/// A node is up or offline; one that was drained gets no new jobs, whatever it is, until it is undrained. All of it is kept over restarts.
#[derive(Debug, Subcommand)]
#[command(after_long_help = "\
EXAMPLES
  weir resource list
  weir resource drain 'h[2-3]' bad disk
  weir resource undrain h2

EXIT STATUS
  0  done; 1 refused, or no instance; 2 the command line is wrong
  The --help of each command says more.")]
#[allow(missing_docs, reason = "each is described where its arguments are")]
pub enum ResourceCommand {
    List(List),
    Status(Status),
    Drain(Drain),
    Undrain(Undrain),
}

/// Show how many nodes, cores and GPUs are free, allocated or down
///
/// A node of which a part is taken counts as free and as allocated. Down is what gets no jobs: offline, or drained.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir resource list
  weir resource list -v -i 'h[0-3]'
  weir resource list -n -o 'sort:-cores_free {name} {cores_free}'
  weir resource list --json | jq '[.nodes[].cores] | add'

JSON
  {\"nodes\":[{\"rank\":N,\"name\":…,\"status\":\"avail|draining|drained|offline\",\"online\":bool,
    \"cores\":N,\"cores_allocated\":N,\"gpus\":N,\"gpus_allocated\":N,
    \"drain\":null|{\"reason\":…,\"since\":seconds}}…],\"errors\":[…]}
  As 'weir resource status'.

EXIT STATUS
  0  shown
  1  no instance, or no engine
  2  the command line is wrong")]
pub struct List {
    /// Only these nodes: ranks (0-3) or names (h[0-3])
    #[arg(short, long, value_name = "TARGETS")]
    include: Option<String>,

    /// A line for each node; the same as --format=long
    #[arg(short, long, conflicts_with = "format")]
    verbose: bool,

    /// A line for each node in this format, or the one of this name; 'help' lists what there is
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,

    /// No line of headings
    #[arg(short = 'n', long)]
    no_header: bool,

    /// One JSON document
    #[arg(long, conflicts_with_all = ["format", "verbose"])]
    pub(crate) json: bool,
}

/// Show which nodes are up, drained or offline, and why
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir resource status
  weir resource status --json | jq -r '.nodes[] | select(.drain).name'

STATES
  avail     gets jobs
  draining  was drained; what runs there goes on
  drained   was drained, nothing runs there
  offline   is not there; jobs that wait for it wait

JSON
  As 'weir resource list'.

EXIT STATUS
  0  shown
  1  no instance, or no engine
  2  the command line is wrong")]
pub struct Status {
    /// Only these nodes: ranks (0-3) or names (h[0-3])
    #[arg(short, long, value_name = "TARGETS")]
    include: Option<String>,

    /// A line for each node in this format, or the one of this name; 'help' lists what there is
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,

    /// No line of headings
    #[arg(short = 'n', long)]
    no_header: bool,

    /// One JSON document
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}

/// Take nodes out of use: no new job gets them; jobs that run there go on
///
/// Without arguments it shows which are drained. The reason is shown to everybody who asks; at a terminal it is asked for if it was not
/// given.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir resource drain                       what is drained, since when and why
  weir resource drain h3 fan is broken
  weir resource drain 0-3 --update maintenance
  weir resource drain h3 --force fan replaced, to be tested

JSON
  {\"seq\":N|null,\"nodes\":[…],\"errors\":[…]}        nodes as 'weir resource list' shows them

EXIT STATUS
  0  drained, or shown
  1  no instance, no such node, no right to it, or one is drained already (--update, --force)
  2  the command line is wrong, or there is no reason")]
pub struct Drain {
    /// Ranks (0-3) or names (h[0-3])
    #[arg(value_name = "TARGETS")]
    targets: Option<String>,

    /// Why
    #[arg(value_name = "REASON")]
    reason: Vec<String>,

    /// Nodes that are drained already get the reason; given twice, the time too
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "update")]
    force: u8,

    /// Nodes that are drained already stay as they are
    #[arg(short, long)]
    update: bool,

    /// Do not say what was drained
    #[arg(long)]
    quiet: bool,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put drained nodes back into use
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
EXAMPLES
  weir resource undrain h3
  weir resource undrain --force 0-3

JSON
  {\"seq\":N|null,\"nodes\":[…],\"errors\":[…]}        nodes as 'weir resource list' shows them

EXIT STATUS
  0  they get jobs again (if they are up)
  1  no instance, no such node, no right to it, or one is not drained (--force)
  2  the command line is wrong")]
pub struct Undrain {
    /// Ranks (0-3) or names (h[0-3])
    #[arg(value_name = "TARGETS")]
    targets: String,

    /// It does not matter if one is not drained
    #[arg(short, long)]
    force: bool,

    /// Do not say what was undrained
    #[arg(long)]
    quiet: bool,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

impl ResourceCommand {
    /// The command's name, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::List(_) => "resource list",
            Self::Status(_) => "resource status",
            Self::Drain(_) => "resource drain",
            Self::Undrain(_) => "resource undrain",
        }
    }

    /// True if one JSON document is asked for.
    #[must_use]
    pub fn json(&self) -> bool {
        match self {
            Self::List(args) => args.json,
            Self::Status(args) => args.json,
            Self::Drain(args) => args.json,
            Self::Undrain(args) => args.json,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// No instance, no engine, no such node, no right to it.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::List(args) => list(args),
            Self::Status(args) => status(args),
            Self::Drain(args) => drain(args),
            Self::Undrain(args) => undrain(args),
        }
    }
}

/// The nodes asked for.
fn asked(targets: Option<&str>) -> anyhow::Result<Vec<Node>> {
    let all = connect::block_on(outage::patiently(async || {
        nodes::gather(&Session::open().await?).await
    }))?;
    let Some(targets) = targets else {
        return Ok(all);
    };
    let named: Vec<Node> = nodes::among(&all, targets).into_iter().cloned().collect();
    if named.is_empty() {
        anyhow::bail!(
            "no node is named '{targets}'; there are {} (ranks {})",
            nodes::names(&all),
            nodes::ranks(&all)
        );
    }
    Ok(named)
}

fn print(text: &str) -> anyhow::Result<()> {
    let mut out = output::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn list(args: &List) -> anyhow::Result<()> {
    let format = args.format.as_deref().or(args.verbose.then_some("long"));
    if let Some(format) = format {
        return in_format(format, args.include.as_deref(), args.no_header);
    }
    let nodes = asked(args.include.as_deref())?;
    if args.json {
        return document::print(&json!({"nodes": nodes, "errors": []}));
    }
    print_table(&sums(&nodes), args.no_header)
}

/// A line for each node.
fn in_format(format: &str, targets: Option<&str>, no_header: bool) -> anyhow::Result<()> {
    if format == "help" {
        return format::help::<Node>();
    }
    let format = Format::<Node>::parse(format)?;
    let mut nodes = asked(targets)?;
    let context = Context { now: when::now() };
    format.sort(&mut nodes, &context);
    let layout = format.fitted(&nodes, &context, Fit::Written);
    let mut lines = Vec::with_capacity(nodes.len() + 1);
    if !no_header {
        let mut heading = String::new();
        format.write_header(&layout, &mut heading);
        lines.push(heading);
    }
    for node in &nodes {
        let mut line = String::new();
        format.write_row(node, &context, &layout, &mut line);
        lines.push(line);
    }
    lines.push(String::new());
    print(&lines.join("\n"))
}

/// The table, with or without its first line.
fn print_table(table: &str, no_header: bool) -> anyhow::Result<()> {
    match table.split_once('\n') {
        Some((_, rows)) if no_header => print(rows),
        _ => print(table),
    }
}

/// Free, allocated, down: of how many nodes how much.
fn sums(nodes: &[Node]) -> String {
    let is_down = |node: &Node| node.status != NodeStatus::Avail;
    let free = |node: &Node| {
        (
            node.cores.saturating_sub(node.cores_allocated),
            node.gpus.saturating_sub(node.gpus_allocated),
        )
    };
    let taken = |node: &Node| (node.cores_allocated, node.gpus_allocated);
    let group = |state: &str, part: &dyn Fn(&Node) -> Option<(u64, u64)>| {
        let of: Vec<(&Node, (u64, u64))> = nodes
            .iter()
            .filter_map(|node| Some((node, part(node).filter(|part| *part != (0, 0))?)))
            .collect();
        let cores: u64 = of.iter().map(|(_, (cores, _))| cores).sum();
        let gpus: u64 = of.iter().map(|(_, (_, gpus))| gpus).sum();
        vec![
            state.to_owned(),
            of.len().to_string(),
            cores.to_string(),
            gpus.to_string(),
            nodes::names(of.iter().map(|(node, _)| *node)),
        ]
    };
    let rows = [
        group("free", &|node| (!is_down(node)).then(|| free(node))),
        group("allocated", &|node| Some(taken(node))),
        group("down", &|node| is_down(node).then(|| free(node))),
    ];
    table::aligned(
        &[
            ("STATE", Align::Right),
            ("NNODES", Align::Right),
            ("NCORES", Align::Right),
            ("NGPUS", Align::Right),
            ("NODELIST", Align::Left),
        ],
        &rows,
    )
}

fn status(args: &Status) -> anyhow::Result<()> {
    if let Some(format) = &args.format {
        return in_format(format, args.include.as_deref(), args.no_header);
    }
    let nodes = asked(args.include.as_deref())?;
    if args.json {
        return document::print(&json!({"nodes": nodes, "errors": []}));
    }
    print_table(&states(&nodes), args.no_header)
}

/// Nodes that have the same state for the same reason, in a row.
fn grouped<K: PartialEq>(nodes: &[Node], key: impl Fn(&Node) -> K) -> Vec<(K, Vec<&Node>)> {
    let mut groups: Vec<(K, Vec<&Node>)> = Vec::new();
    for node in nodes {
        let key = key(node);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, of)) => of.push(node),
            None => groups.push((key, vec![node])),
        }
    }
    groups
}

fn states(nodes: &[Node]) -> String {
    let mut groups = grouped(nodes, |node| {
        (
            node.status,
            node.online,
            node.drain.as_ref().map(|drain| drain.reason.clone()),
        )
    });
    groups.sort_by_key(|((status, online, _), _)| (*status, !online));
    let rows: Vec<Vec<String>> = groups
        .into_iter()
        .map(|((status, online, reason), of)| {
            vec![
                status.as_str().to_owned(),
                if online { "yes" } else { "no" }.to_owned(),
                of.len().to_string(),
                nodes::names(of.iter().copied()),
                reason.unwrap_or_default(),
            ]
        })
        .collect();
    table::aligned(
        &[
            ("STATE", Align::Right),
            ("UP", Align::Right),
            ("NNODES", Align::Right),
            ("NODELIST", Align::Left),
            ("REASON", Align::Left),
        ],
        &rows,
    )
}

fn drained(nodes: &[Node]) -> String {
    let of = nodes.iter().filter(|node| node.drain.is_some()).cloned();
    let of: Vec<Node> = of.collect();
    let groups = grouped(&of, |node| (node.status, node.drain.clone()));
    let rows: Vec<Vec<String>> = groups
        .into_iter()
        .map(|((status, drain), of)| {
            let (since, reason) = drain.map_or_else(Default::default, |drain| {
                (when::zoned_seconds(drain.since), drain.reason)
            });
            vec![
                since,
                status.as_str().to_owned(),
                nodes::ranks(of.iter().copied()),
                nodes::names(of.iter().copied()),
                reason,
            ]
        })
        .collect();
    table::aligned(
        &[
            ("SINCE", Align::Left),
            ("STATE", Align::Left),
            ("RANKS", Align::Left),
            ("NODELIST", Align::Left),
            ("REASON", Align::Left),
        ],
        &rows,
    )
}

#[derive(Deserialize)]
struct Seq {
    #[serde(default)]
    seq: Option<u64>,
}

/// Sends it, and says what became of the nodes.
fn change(
    topic: &str,
    request: &Map<String, Value>,
    targets: &str,
    as_json: bool,
    quiet: bool,
) -> anyhow::Result<()> {
    let (seq, nodes) = connect::block_on(async {
        let session = Session::open().await?;
        let answer = session.call(topic, request).await;
        let Seq { seq } = answer.map_err(hinted)?;
        let all = if quiet && !as_json {
            Vec::new()
        } else {
            nodes::gather(&session).await?
        };
        let named: Vec<Node> = nodes::among(&all, targets).into_iter().cloned().collect();
        anyhow::Ok((seq, named))
    })?;
    if as_json {
        return document::print(&json!({"seq": seq, "nodes": nodes, "errors": []}));
    }
    let mut said = String::new();
    for (status, of) in grouped(&nodes, |node| node.status) {
        let more = match status {
            NodeStatus::Draining => "; what runs there goes on",
            NodeStatus::Offline => "; gets jobs when it is up again",
            NodeStatus::Avail | NodeStatus::Drained => "",
        };
        said.push_str(&format!(
            "{}: {}{more}\n",
            nodes::names(of),
            status.as_str()
        ));
    }
    print(&said)
}

/// The refusal with what to type instead.
fn hinted(error: CallError) -> CallError {
    let CallError::Refused {
        text: Some(text), ..
    } = &error
    else {
        return error;
    };
    // What the engine says of the numbers in the request means nothing here.
    let said = text.split(": overwrite").next().unwrap_or(text);
    let remedy = if said.ends_with("already drained") {
        "--force gives it this reason, --update drains the others"
    } else if said.ends_with("not drained") {
        "--force undrains the others"
    } else {
        return error;
    };
    let words = format!("{said}: {remedy}");
    error.in_words(words)
}

fn drain(args: &Drain) -> anyhow::Result<()> {
    let Some(targets) = args.targets.as_deref() else {
        let nodes = asked(None)?;
        if args.json {
            let of = nodes.iter().filter(|node| node.drain.is_some());
            let of: Vec<&Node> = of.collect();
            return document::print(&json!({"seq": null, "nodes": of, "errors": []}));
        }
        return print(&drained(&nodes));
    };
    let reason = match args.reason.join(" ") {
        reason if reason.trim().is_empty() => ask_reason(targets)?,
        reason => reason,
    };
    let mut request = Map::new();
    request.insert("targets".to_owned(), json!(targets));
    request.insert("reason".to_owned(), json!(reason));
    if args.update {
        request.insert("mode".to_owned(), json!("update"));
    } else {
        request.insert("overwrite".to_owned(), json!(args.force.min(2)));
    }
    change("resource.drain", &request, targets, args.json, args.quiet)
}

/// Asks whoever sits there.
fn ask_reason(targets: &str) -> anyhow::Result<String> {
    use std::io::{BufRead as _, IsTerminal as _, Read as _};
    let none = || {
        usage(format!(
            "why? Give a reason behind the nodes: weir resource drain {targets} REASON…"
        ))
    };
    if !std::io::stdin().is_terminal() || !output::stderr_is_terminal() {
        return Err(none());
    }
    let _ = write!(
        std::io::stderr().lock(),
        "weir: why is {} drained? ",
        text::escape(targets)
    );
    let mut line = String::new();
    let mut stdin = std::io::stdin().lock().take(REASON_BYTES_MAX);
    stdin.read_line(&mut line)?;
    match line.trim() {
        "" => {
            complain("resource drain: nothing was drained");
            Err(none())
        }
        reason => Ok(reason.to_owned()),
    }
}

fn undrain(args: &Undrain) -> anyhow::Result<()> {
    let mut request = Map::new();
    request.insert("targets".to_owned(), json!(args.targets));
    if args.force {
        request.insert("mode".to_owned(), json!("force"));
    }
    let targets = &args.targets;
    change("resource.undrain", &request, targets, args.json, args.quiet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_counted_once() {
        assert_eq!(
            sums(&nodes::tests::four()),
            "    STATE  NNODES  NCORES  NGPUS  NODELIST\n     free       1       1      0  h0\nallocated       2       3      0  h[0,2]\n     down       2       4      0  h[1,3]\n"
        );
    }

    #[test]
    fn nodes_of_one_state_and_reason_share_a_line() {
        assert_eq!(
            states(&nodes::tests::four()),
            "   STATE   UP  NNODES  NODELIST  REASON\n   avail  yes       1  h0\ndraining  yes       1  h2        fan\n drained  yes       1  h1        fan\n offline   no       1  h3\n"
        );
    }
}
