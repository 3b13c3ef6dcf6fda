//! `attributes.system.shell.options`: what the executor is told.
//!
//! The few options read here are checked; all of them stay available as they were written.

use super::error::JobspecError;
use super::resources::COUNT_MAX;
use super::tree::Object;
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

pub(super) fn read(options: &Object<'_, '_>) -> Result<Shell, JobspecError> {
    let mut shell = Shell {
        options: options.tree().to_map(),
        ..Shell::default()
    };
    if let Some(rlimit) = options.object("rlimit")? {
        for (key, _) in rlimit.entries() {
            let limit = rlimit
                .integer(key)?
                .ok_or_else(|| rlimit.field(key, "an integer"))?;
            if limit < -1 {
                return Err(rlimit.field(key, "an integer ≥ -1"));
            }
            shell.rlimit.push((key.to_owned(), limit));
        }
    }
    if let Some(output) = options.object("output")? {
        shell.stdout = file(&output, "stdout")?;
        shell.stderr = file(&output, "stderr")?;
    }
    if let Some(input) = options.object("input")? {
        shell.stdin = file(&input, "stdin")?;
    }
    if let Some(rule) = options.object("per-resource")? {
        let expected = "an integer from 1 to 2147483647";
        let count = rule.count("count", COUNT_MAX, expected)?.unwrap_or(1);
        shell.per_resource = Some(match rule.text_required("type")? {
            "node" => PerResource::Node(count),
            "core" => PerResource::Core(count),
            _ => return Err(rule.field("type", "\"node\" or \"core\"")),
        });
    }
    Ok(shell)
}

fn file(streams: &Object<'_, '_>, stream: &str) -> Result<Option<FileSpec>, JobspecError> {
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
    let label = target.flag("label")?.unwrap_or(false);
    Ok(Some(FileSpec {
        path: path.to_owned(),
        label,
    }))
}
