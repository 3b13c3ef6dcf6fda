//! Jobspec version 1 (RFC 14, RFC 25): what a job asks for. Read, checked, and derived counts.
//!
//! ```text
//! {"resources":[VERTEX],                                        exactly one
//!  "tasks":[{"command":[s…],"slot":LABEL,"count":{"per_slot":N | "total":N}}],   exactly one
//!  "attributes":{"system":{"duration"?:f,"cwd"?:s,"environment"?:{name:s},"queue"?:s,"bank"?:s,
//!                          "project"?:s,"job"?:{"name"?:s},"constraints"?:o,
//!                          "dependencies"?:[{"scheme":s,"value":s}],"shell"?:{"options"?:o}}},
//!  "version":1}
//! VERTEX = {"type":"slot","count":N,"label":LABEL,"with":[{"type":"core","count":N},{"type":"gpu","count":N}?]}
//!        | {"type":"node","count":N,"exclusive"?:b,"with":[slot]}
//! ```
//!
//! Keys beyond these are let through. Every refusal names the field, what was expected and what was met.
//! All of it is checked every time; what only the executor wants (environment, shell options: by far the largest
//! part) is kept only in a [`Launch`].

mod error;
mod resources;
mod shell;
#[cfg(test)]
mod tests;
mod tree;
mod weir;

pub use error::JobspecError;
pub use resources::COUNT_MAX;
pub use shell::{FileSpec, PerResource, Shell};
pub use weir::{
    Dispatch, JobType, META_KEY_BYTES_MAX, META_KEYS_MAX, META_VALUES_BYTES_MAX, PAYLOAD_BYTES_MAX,
    Parameterized, Payload, Weir, is_meta_key, meta_variables,
};

use crate::Map;
use crate::id::JobId;
use bytes::Bytes;
use error::{Found, Path};
use serde_json::Value;
use tree::{Object, Tree};

/// The most bytes a jobspec may have.
pub const JOBSPEC_BYTES_MAX: usize = 16 << 20;

/// The most objects and arrays inside each other a jobspec may have.
pub const JOBSPEC_DEPTH_MAX: usize = 64;

/// A checked jobspec, without what only the executor wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobspec {
    /// How many slots: of all nodes together.
    pub nslots: u64,
    /// Cores of each slot.
    pub cores_per_slot: u64,
    /// GPUs of each slot.
    pub gpus_per_slot: u64,
    /// How many nodes, if it says so; then each holds `nslots / nodes` slots.
    pub nodes: Option<u64>,
    /// Whether the nodes are to be its own.
    pub exclusive: bool,
    /// What to run; never empty.
    pub command: Vec<String>,
    /// How many tasks.
    pub ntasks: u64,
    /// Seconds it may run; 0 = no limit.
    pub duration: f64,
    /// Its name: as given, else the last part of the command's path.
    pub name: String,
    /// Where to run.
    pub cwd: Option<String>,
    /// Which queue.
    pub queue: Option<String>,
    /// Which project it is for.
    pub project: Option<String>,
    /// Which bank it is charged to.
    pub bank: Option<String>,
    /// What it waits for.
    pub dependencies: Vec<Dependency>,
    /// Which nodes will do (RFC 31).
    pub constraints: Option<Value>,
    /// What kind of job it is, if it is not an ordinary one.
    pub weir: Option<Box<Weir>>,
}

/// The part of a jobspec that only the executor wants.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Launch {
    /// Variables and their values, in the order they are written.
    pub environment: Vec<(String, String)>,
    /// What the executor is told.
    pub shell: Shell,
}

/// One thing a job waits for, as the jobspec writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Which kind, for example `afterany`.
    pub scheme: String,
    /// Of what.
    pub value: String,
}

impl Jobspec {
    /// Reads and checks a jobspec.
    /// # Errors
    /// [`JobspecError`]: the first thing that is wrong.
    pub fn parse(json: &[u8]) -> Result<Jobspec, JobspecError> {
        read(&tree_of(json)?)
    }

    /// The same, and the jobspec's JSON without its environment, for the price of one pass.
    /// # Errors
    /// As [`Jobspec::parse`].
    pub fn ingest(json: &[u8]) -> Result<(Jobspec, Bytes), JobspecError> {
        let tree = tree_of(json)?;
        Ok((read(&tree)?, stripped(&tree, json.len())))
    }

    /// The same, and what only the executor wants.
    /// # Errors
    /// As [`Jobspec::parse`].
    pub fn parse_for_launch(json: &[u8]) -> Result<(Jobspec, Launch), JobspecError> {
        let tree = tree_of(json)?;
        let jobspec = read(&tree)?;
        let environment = ENVIRONMENT.iter().try_fold(&tree, |at, key| at.get(key));
        let pairs = environment
            .and_then(Tree::entries)
            .unwrap_or_default()
            .iter();
        let pair = |(key, value): &(_, Tree<'_>)| {
            Some((
                String::from(AsRef::<str>::as_ref(key)),
                value.as_str()?.to_owned(),
            ))
        };
        let root = Object::new(&tree, Path::Root)?;
        let attributes = root.object_required("attributes")?;
        let system = attributes.object_required("system")?;
        let shell = shell::options_of(&system, shell::to_owned)?.unwrap_or_default();
        Ok((
            jobspec,
            Launch {
                environment: pairs.filter_map(pair).collect(),
                shell,
            },
        ))
    }

    /// How many cores; unknown while whole nodes are asked for.
    #[must_use]
    pub fn ncores(&self) -> Option<u64> {
        if self.exclusive {
            None
        } else {
            Some(self.nslots.saturating_mul(self.cores_per_slot))
        }
    }

    /// What kind of job it is.
    #[must_use]
    pub fn job_type(&self) -> JobType {
        match self.weir.as_deref() {
            Some(weir) if weir.parameterized.is_some() => JobType::Parameterized,
            Some(weir) if weir.sysbatch => JobType::Sysbatch,
            _ => JobType::Batch,
        }
    }

    /// What it was dispatched from.
    #[must_use]
    pub fn parent(&self) -> Option<JobId> {
        self.weir.as_ref()?.parent
    }

    /// How many nodes, if it says so.
    #[must_use]
    pub fn nnodes(&self) -> Option<u64> {
        self.nodes
    }
}

const ENVIRONMENT: [&str; 3] = ["attributes", "system", "environment"];

/// A jobspec's JSON without `attributes.system.environment`, all else as it was.
/// # Errors
/// [`JobspecError`]: not JSON, or too large or deep. The fields are not checked.
pub fn strip_environment(json: &[u8]) -> Result<Bytes, JobspecError> {
    Ok(stripped(&tree_of(json)?, json.len()))
}

/// The same for a value.
#[must_use]
pub fn without_environment(jobspec: &Value) -> Value {
    let mut jobspec = jobspec.clone();
    if let Some(system) = jobspec
        .pointer_mut("/attributes/system")
        .and_then(Value::as_object_mut)
    {
        system.shift_remove("environment");
    }
    jobspec
}

/// A jobspec as a `jobspec-update` leaves it: each dotted path gets its value, objects are made on the way.
/// # Errors
/// [`JobspecError::Field`]: a path leads through something that is no object; then nothing is changed.
pub fn apply_updates(jobspec: &mut Value, updates: &Map) -> Result<(), JobspecError> {
    let mut changed = jobspec.clone();
    for (path, value) in updates {
        let mut at = &mut changed;
        for key in path.split('.') {
            let found = Found::of_value(at);
            let object = at.as_object_mut().ok_or_else(|| JobspecError::Field {
                path: path.clone(),
                expected: "a path through objects",
                met: found.to_string(),
            })?;
            at = object
                .entry(key)
                .or_insert_with(|| Value::Object(Map::new()));
        }
        *at = value.clone();
    }
    *jobspec = changed;
    Ok(())
}

fn tree_of(json: &[u8]) -> Result<Tree<'_>, JobspecError> {
    if json.len() > JOBSPEC_BYTES_MAX {
        return Err(JobspecError::TooLarge {
            met: json.len(),
            max: JOBSPEC_BYTES_MAX,
        });
    }
    tree::parse(json, JOBSPEC_DEPTH_MAX).map_err(JobspecError::Json)
}

fn stripped(tree: &Tree<'_>, size_hint: usize) -> Bytes {
    let mut buf = Vec::with_capacity(size_hint.min(4096));
    tree.write_without(&ENVIRONMENT, &mut buf);
    Bytes::from(buf)
}

fn read(tree: &Tree<'_>) -> Result<Jobspec, JobspecError> {
    let root = Object::new(tree, Path::Root)?;
    let version = root.integer("version")?;
    if version != Some(1) {
        return Err(root.field("version", "1"));
    }
    let resources = resources::read(&root)?;
    let attributes = root.object_required("attributes")?;
    let system = attributes.object_required("system")?;
    let per_resource = shell::options_of(&system, shell::check)?.flatten();
    let tasks = resources::read_tasks(&root, &resources, per_resource)?;
    let job_name = match system.object("job")? {
        None => None,
        Some(job) => job.text("name")?,
    };
    check_environment(&system)?;
    let name = job_name.unwrap_or_else(|| {
        let program = tasks.command[0].trim_end_matches('/');
        program.rsplit('/').next().unwrap_or(program)
    });
    let constraints = system
        .object("constraints")?
        .map(|object| object.tree().to_value());
    Ok(Jobspec {
        nslots: resources.nslots,
        cores_per_slot: resources.cores,
        gpus_per_slot: resources.gpus,
        nodes: resources.nodes,
        exclusive: resources.exclusive,
        ntasks: tasks.ntasks,
        duration: system.number_not_negative("duration")?.unwrap_or(0.0),
        name: name.to_owned(),
        command: tasks.command.iter().map(|&word| word.to_owned()).collect(),
        cwd: system.text("cwd")?.map(str::to_owned),
        queue: system.text("queue")?.map(str::to_owned),
        project: system.text("project")?.map(str::to_owned),
        bank: system.text("bank")?.map(str::to_owned),
        dependencies: read_dependencies(&system)?,
        constraints,
        weir: weir::read(&root, &system, resources.nslots, resources.nodes)?,
    })
}

fn check_environment(system: &Object<'_, '_>) -> Result<(), JobspecError> {
    let Some(environment) = system.object("environment")? else {
        return Ok(());
    };
    // By entry, not by key: looking each key up again would take quadratic time.
    for (key, value) in environment.entries() {
        if key.is_empty() || key.bytes().any(|byte| byte == b'=' || byte == 0) {
            return Err(environment.entry(key, value, "a variable name without = and NUL"));
        }
        if value.plain_text().is_none() {
            return Err(environment.entry(key, value, "a string without NUL"));
        }
    }
    Ok(())
}

fn read_dependencies(system: &Object<'_, '_>) -> Result<Vec<Dependency>, JobspecError> {
    let mut all = Vec::new();
    system.each_object("dependencies", |one| {
        let scheme = one.text_required("scheme")?.to_owned();
        all.push(Dependency {
            scheme,
            value: one.text_required("value")?.to_owned(),
        });
        Ok(())
    })?;
    Ok(all)
}
