//! `attributes.system.shell.options`: what the executor is told.
//!
//! The few options read here are checked; all of them stay available as they were written.

use super::error::JobspecError;
use super::resources::COUNT_MAX;
use super::tree::{Object, Tree};
use crate::Map;

/// What the executor is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shell {
    /// Resource limits by name without `RLIMIT_`, lower case; -1 = no limit.
    pub rlimit: Vec<(String, i64)>,
    /// A file instead of the output log for stdout.
    pub stdout: Option<FileSpec>,
    /// A file instead of the output log for stderr.
    pub stderr: Option<FileSpec>,
    /// A file for stdin.
    pub stdin: Option<FileSpec>,
    /// How many tasks of each node or core, in place of the slot's count.
    pub per_resource: Option<PerResource>,
    /// All options as they were written, those above among them.
    pub options: Map,
}

/// A file that takes the place of a standard stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSpec {
    /// Its path; may hold `{{id}}` and the like.
    pub path: String,
    /// Whether each line begins with the task's rank.
    pub label: bool,
}

/// A number of tasks by resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerResource {
    /// Of each node.
    Node(u64),
    /// Of each core.
    Core(u64),
}

/// Reads the options of `attributes.system` with `read`, if there are any.
pub(super) fn options_of<T>(
    system: &Object<'_, '_>,
    read: fn(&Object<'_, '_>) -> Result<T, JobspecError>,
) -> Result<Option<T>, JobspecError> {
    let Some(shell) = system.object("shell")? else {
        return Ok(None);
    };
    shell
        .object("options")?
        .map(|options| read(&options))
        .transpose()
}

/// Checks the options without keeping them; the one that derived counts need is returned.
pub(super) fn check(options: &Object<'_, '_>) -> Result<Option<PerResource>, JobspecError> {
    if let Some(rlimit) = options.object("rlimit")? {
        for (key, limit) in rlimit.entries() {
            if limit_of(limit).is_none() {
                return Err(rlimit.entry(key, limit, "an integer ≥ -1"));
            }
        }
    }
    for (streams, names) in [
        ("output", &["stdout", "stderr"][..]),
        ("input", &["stdin"][..]),
    ] {
        if let Some(streams) = options.object(streams)? {
            names
                .iter()
                .try_for_each(|stream| file(&streams, stream).map(drop))?;
        }
    }
    let Some(rule) = options.object("per-resource")? else {
        return Ok(None);
    };
    let expected = "an integer from 1 to 2147483647";
    let count = rule.count("count", COUNT_MAX, expected)?.unwrap_or(1);
    match rule.text_required("type")? {
        "node" => Ok(Some(PerResource::Node(count))),
        "core" => Ok(Some(PerResource::Core(count))),
        _ => Err(rule.field("type", "\"node\" or \"core\"")),
    }
}

/// The options as the executor keeps them.
pub(super) fn to_owned(options: &Object<'_, '_>) -> Result<Shell, JobspecError> {
    let per_resource = check(options)?;
    let mut shell = Shell {
        per_resource,
        options: options.tree().to_map(),
        ..Shell::default()
    };
    if let Some(rlimit) = options.object("rlimit")? {
        let limits = rlimit
            .entries()
            .filter_map(|(key, limit)| Some((key.to_owned(), limit_of(limit)?)));
        shell.rlimit = limits.collect();
    }
    let owned = |(path, label): (&str, bool)| FileSpec {
        path: path.to_owned(),
        label,
    };
    if let Some(output) = options.object("output")? {
        shell.stdout = file(&output, "stdout")?.map(owned);
        shell.stderr = file(&output, "stderr")?.map(owned);
    }
    if let Some(input) = options.object("input")? {
        shell.stdin = file(&input, "stdin")?.map(owned);
    }
    Ok(shell)
}

fn limit_of(value: &Tree<'_>) -> Option<i64> {
    match value {
        Tree::Number(number) => number.as_i64().filter(|&limit| limit >= -1),
        _ => None,
    }
}

/// Path and label of the file that takes the place of a stream, if one does.
fn file<'t>(
    streams: &Object<'t, '_>,
    stream: &str,
) -> Result<Option<(&'t str, bool)>, JobspecError> {
    let Some(target) = streams.object(stream)? else {
        return Ok(None);
    };
    if target.text("type")? != Some("file") {
        return Ok(None);
    }
    let path = target.text_required("path")?;
    if path.is_empty() {
        return Err(target.field("path", "the path of a file"));
    }
    Ok(Some((path, target.flag("label")?.unwrap_or(false))))
}
