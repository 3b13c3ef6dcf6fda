//! `resources` and `tasks`: what is asked for, how many tasks that makes.

use super::error::JobspecError;
use super::shell::PerResource;
use super::tree::Object;

/// The most of anything one job may ask for: nodes, slots, cores, GPUs, tasks.
pub const COUNT_MAX: u64 = (1 << 31) - 1;

const EXPECTED_COUNT: &str = "an integer from 1 to 2147483647";

pub(super) struct Resources<'t> {
    pub(super) nodes: Option<u64>,
    pub(super) exclusive: bool,
    /// Of all nodes together.
    pub(super) nslots: u64,
    pub(super) cores: u64,
    pub(super) gpus: u64,
    label: &'t str,
}

pub(super) struct Tasks<'t> {
    pub(super) command: Vec<&'t str>,
    pub(super) ntasks: u64,
}

pub(super) fn read<'t>(root: &Object<'t, '_>) -> Result<Resources<'t>, JobspecError> {
    one_of(root, "resources", "an array of exactly one resource")?;
    let mut found = None;
    root.each_object("resources", |vertex| {
        found = Some(match vertex.text_required("type")? {
            "slot" => slot(vertex, None, false)?,
            "node" => node(vertex)?,
            _ => return Err(vertex.field("type", "\"slot\" or \"node\"")),
        });
        Ok(())
    })?;
    let resources = found.ok_or_else(|| root.field("resources", "a resource"))?;
    let nslots = u128::from(resources.nslots);
    for (what, met) in [
        ("slots", nslots),
        ("cores", nslots * u128::from(resources.cores)),
        ("GPUs", nslots * u128::from(resources.gpus)),
    ] {
        if met > u128::from(COUNT_MAX) {
            return Err(JobspecError::TooMany {
                what,
                met,
                max: COUNT_MAX,
            });
        }
    }
    Ok(resources)
}

fn one_of(object: &Object<'_, '_>, key: &str, expected: &'static str) -> Result<(), JobspecError> {
    match object.array(key)? {
        Some([_]) => Ok(()),
        _ => Err(object.field(key, expected)),
    }
}

fn count(vertex: &Object<'_, '_>) -> Result<u64, JobspecError> {
    let count = vertex.count("count", COUNT_MAX, EXPECTED_COUNT)?;
    count.ok_or_else(|| vertex.field("count", EXPECTED_COUNT))
}

fn node<'t>(vertex: &Object<'t, '_>) -> Result<Resources<'t>, JobspecError> {
    let nodes = count(vertex)?;
    let exclusive = vertex.flag("exclusive")?.unwrap_or(false);
    one_of(vertex, "with", "an array of exactly one slot")?;
    let mut found = None;
    vertex.each_object("with", |inner| {
        if inner.text_required("type")? != "slot" {
            return Err(inner.field("type", "\"slot\""));
        }
        found = Some(slot(inner, Some(nodes), exclusive)?);
        Ok(())
    })?;
    found.ok_or_else(|| vertex.field("with", "a slot"))
}

fn slot<'t>(
    vertex: &Object<'t, '_>,
    nodes: Option<u64>,
    exclusive: bool,
) -> Result<Resources<'t>, JobspecError> {
    // Each is at most 2^31 - 1, so the product fits.
    let nslots = count(vertex)? * nodes.unwrap_or(1);
    let exclusive = vertex.flag("exclusive")?.unwrap_or(false) || exclusive;
    let label = vertex.text_required("label")?;
    if vertex.array("with")?.is_none() {
        return Err(vertex.field("with", "an array of one core and at most one gpu"));
    }
    let (mut cores, mut gpus) = (None, None);
    vertex.each_object("with", |inner| {
        let place = match inner.text_required("type")? {
            "core" => &mut cores,
            "gpu" => &mut gpus,
            _ => return Err(inner.field("type", "\"core\" or \"gpu\"")),
        };
        if place.replace(count(inner)?).is_some() {
            return Err(inner.field("type", "each type once"));
        }
        Ok(())
    })?;
    let cores = cores.ok_or_else(|| vertex.field("with", "one core among them"))?;
    Ok(Resources {
        nodes,
        exclusive,
        nslots,
        cores,
        gpus: gpus.unwrap_or(0),
        label,
    })
}

pub(super) fn read_tasks<'t>(
    root: &Object<'t, '_>,
    resources: &Resources<'_>,
    per_resource: Option<PerResource>,
) -> Result<Tasks<'t>, JobspecError> {
    one_of(root, "tasks", "an array of exactly one task")?;
    let mut found = None;
    root.each_object("tasks", |task| {
        found = Some(read_task(task, resources, per_resource)?);
        Ok(())
    })?;
    found.ok_or_else(|| root.field("tasks", "a task"))
}

fn read_task<'t>(
    task: &Object<'t, '_>,
    resources: &Resources<'_>,
    per_resource: Option<PerResource>,
) -> Result<Tasks<'t>, JobspecError> {
    const EXPECTED: &str = "an array of strings, at least one";
    let words = task.array("command")?.filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| task.field("command", EXPECTED))?;
    let mut command = Vec::with_capacity(words.len());
    for (at, word) in words.iter().enumerate() {
        match word.plain_text() {
            Some("") if at == 0 => {
                return Err(task.element("command", at, word, "the name of a program"));
            }
            Some(text) => command.push(text),
            None => return Err(task.element("command", at, word, "a string without NUL")),
        }
    }
    if task.text_required("slot")? != resources.label {
        return Err(task.field("slot", "the label of the slot in resources"));
    }
    let counts = task.object_required("count")?;
    let per_slot = counts.count("per_slot", COUNT_MAX, EXPECTED_COUNT)?;
    let total = counts.count("total", COUNT_MAX, EXPECTED_COUNT)?;
    let by_count = match (per_slot, total) {
        (None, Some(total)) => total,
        (Some(per_slot), None) => resources.nslots.saturating_mul(per_slot),
        _ => return Err(task.field("count", "either per_slot or total")),
    };
    let ntasks = match (per_resource, resources.nodes) {
        (Some(PerResource::Node(count)), Some(nodes)) => nodes.saturating_mul(count),
        (Some(PerResource::Core(count)), _) if !resources.exclusive => resources
            .nslots
            .saturating_mul(resources.cores)
            .saturating_mul(count),
        _ => by_count,
    };
    if ntasks > COUNT_MAX {
        return Err(JobspecError::TooMany {
            what: "tasks",
            met: ntasks.into(),
            max: COUNT_MAX,
        });
    }
    Ok(Tasks { command, ntasks })
}
