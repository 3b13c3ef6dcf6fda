//! From a `start` request to the orders of its shepherds: one part a node, tasks spread over them, options read.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use job::jobspec::{JobType, PerResource, Shell};
use job::{Hostlist, JobId, Jobspec, R};
use protocol::exec::StartRequest;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

use crate::order::{Order, Output, Pin, Stdin};
use crate::paths;

/// Output of one job that is kept, in bytes, unless `output.limit` says otherwise.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 30;
/// Tasks of one job on one node, at most: more would not be tasks but an accident.
pub const TASKS_MAX: u64 = 65_536;

/// J's alphabet; padding is taken as it comes.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A `start` request nothing can be made of. The job gets a fatal exception with this text.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The jobspec.
    #[error("jobspec: {0}")]
    Jobspec(#[from] job::JobspecError),
    /// The resources.
    #[error("R: {0}")]
    R(#[from] job::RError),
    /// No node in R.
    #[error("R names no node")]
    NoNode,
    /// What was submitted.
    #[error("J is not 'header.jobspec.signature' in base64")]
    J,
    /// Too many tasks.
    #[error("{met} tasks on one node: at most {TASKS_MAX}")]
    Tasks {
        /// How many.
        met: u64,
    },
    /// Someone else's job.
    #[error("this instance runs as user {ours} and cannot run a job of user {theirs}")]
    User {
        /// Who we are.
        ours: u32,
        /// Whose it is.
        theirs: u32,
    },
}

/// What orders need to know of the engine.
#[derive(Debug, Clone)]
pub struct Site {
    /// The state directory.
    pub statedir: std::path::PathBuf,
    /// The instance's URI.
    pub uri: String,
    /// Seconds between the polite signal and SIGKILL.
    pub kill_grace_s: f64,
    /// The user we run as.
    pub userid: u32,
}

/// The environment that was submitted, as JSON text: only `J` has it.
fn environment_in(j: &str) -> Result<Option<Box<RawValue>>, OrderError> {
    let jobspec = j.split('.').nth(1).ok_or(OrderError::J)?;
    let jobspec = BASE64.decode(jobspec).map_err(|_| OrderError::J)?;
    let mut at: &RawValue = serde_json::from_slice(&jobspec).map_err(|_| OrderError::J)?;
    for key in ["attributes", "system", "environment"] {
        match member(at, key).map_err(|_| OrderError::J)? {
            Some(found) => at = found,
            None => return Ok(None),
        }
    }
    Ok(Some(at.to_owned()))
}

/// A member of an object, or of null, which has none. One that comes twice counts as its last, as everywhere.
fn member<'a>(of: &'a RawValue, key: &str) -> Result<Option<&'a RawValue>, serde_json::Error> {
    let found = Member(key).deserialize(&mut serde_json::Deserializer::from_str(of.get()))?;
    Ok(found.filter(|found| found.get() != "null"))
}

struct Member<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut last = None;
        while let Some(Key(key)) = map.next_key()? {
            let value = map.next_value()?;
            if key == self.0 {
                last = Some(value);
            }
        }
        Ok(last)
    }
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a job comes to.
#[derive(Debug)]
pub struct Plan {
    /// One order a node, ranks ascending.
    pub orders: Vec<Order>,
    /// Each part is for itself (`sysbatch`).
    pub independent: bool,
}

/// Makes one order a node.
/// # Errors
/// [`OrderError`], case by case.
pub fn orders(request: &StartRequest<'_>, site: &Site) -> Result<Plan, OrderError> {
    if request.userid != site.userid {
        return Err(OrderError::User {
            ours: site.userid,
            theirs: request.userid,
        });
    }
    let (jobspec, launch) = Jobspec::parse_for_launch(request.jobspec.get().as_bytes())?;
    let shell = &launch.shell;
    let r = R::parse(request.r.get().as_bytes())?;
    let environment = request.j.as_deref().map(environment_in).transpose()?;
    let environment = environment.flatten();
    let nodes = r.nodes();
    let leader_rank = nodes.first().ok_or(OrderError::NoNode)?.rank;
    let independent = jobspec.job_type() == JobType::Sysbatch;
    let dispatch = jobspec
        .weir
        .as_deref()
        .and_then(|weir| weir.dispatch.as_ref());
    let payload = dispatch
        .and_then(|dispatch| dispatch.payload.as_deref())
        .map(|payload| BASE64.encode(payload));
    let tasks = spread(&jobspec, shell, &nodes, independent);
    if let Some(met) = tasks.iter().copied().find(|tasks| *tasks > TASKS_MAX) {
        return Err(OrderError::Tasks { met });
    }
    let taskmap = taskmap(&tasks);
    let options = &shell.options;
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let ntasks_total = if independent {
        tasks.iter().sum()
    } else {
        jobspec.ntasks
    };
    let nodelist = Hostlist::from_names(nodes.iter().map(|node| &node.host)).to_string();
    let mut first_task = 0;
    let mut orders = Vec::with_capacity(nodes.len());
    for (index, (node, tasks)) in (0u32..).zip(nodes.iter().zip(&tasks)) {
        orders.push(Order {
            id: request.id.0,
            rank: node.rank,
            leader_rank,
            nnodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
            node_index: index,
            host: node.host.clone(),
            nodelist: nodelist.clone(),
            dir: paths::job(&site.statedir, request.id.0)
                .display()
                .to_string(),
            uri: site.uri.clone(),
            service: service(request.id, request.userid),
            name: jobspec.name.clone(),
            ntasks_total: narrow(ntasks_total),
            first_task: narrow(first_task),
            ntasks: narrow(*tasks),
            taskmap: taskmap.clone(),
            command: jobspec.command.clone(),
            cwd: jobspec.cwd.clone(),
            environment: environment.clone(),
            rlimit: shell.rlimit.clone(),
            umask: options.get("umask").and_then(umask),
            // What a job was dispatched with is for this one; a file would be for all that are.
            stdin: match (&payload, &shell.stdin) {
                (Some(payload), _) => Stdin::Data(payload.clone()),
                (None, Some(file)) => Stdin::File(file.path.clone()),
                (None, None) => Stdin::Service,
            },
            stdout: output(shell.stdout.as_ref(), options, Output::Log),
            stderr: output(
                shell.stderr.as_ref(),
                options,
                if shell.stdout.is_some() {
                    Output::Stdout
                } else {
                    Output::Log
                },
            ),
            cores: node.cores.iter().collect(),
            gpus: node.gpus.iter().collect(),
            pin: pin(options.get("cpu-affinity"), jobspec.cores_per_slot),
            expiration: r.expiration,
            kill_grace_s: site.kill_grace_s,
            output_bytes_max: options
                .get("output")
                .and_then(|output| output.get("limit"))
                .and_then(bytes)
                .unwrap_or(OUTPUT_BYTES_MAX),
        });
        first_task += tasks;
    }
    Ok(Plan {
        orders,
        independent,
    })
}

/// The topic service of a job's shell.
#[must_use]
pub fn service(id: JobId, userid: u32) -> String {
    format!("{userid}-shell-{}", id.f58(true))
}

/// Tasks of each node. A job that runs once on every node has as many on each as its jobspec says.
fn spread(jobspec: &Jobspec, shell: &Shell, nodes: &[job::r::Node], every: bool) -> Vec<u64> {
    match shell.per_resource {
        Some(PerResource::Node(count)) => return nodes.iter().map(|_| count).collect(),
        Some(PerResource::Core(count)) => {
            return nodes
                .iter()
                .map(|node| node.cores.count().saturating_mul(count))
                .collect();
        }
        None if every => return nodes.iter().map(|_| jobspec.ntasks).collect(),
        None => {}
    }
    let slots: Vec<u64> = match jobspec.nodes {
        Some(count) => nodes
            .iter()
            .map(|_| jobspec.nslots / count.max(1))
            .collect(),
        None => nodes
            .iter()
            .map(|node| node.cores.count() / jobspec.cores_per_slot.max(1))
            .collect(),
    };
    let nslots = slots.iter().sum::<u64>().max(1);
    let (each, mut extra) = (jobspec.ntasks / nslots, jobspec.ntasks % nslots);
    slots
        .iter()
        .map(|slots| {
            // The first slots take one more each until nothing is left over.
            let more = extra.min(*slots);
            extra -= more;
            slots * each + more
        })
        .collect()
}

/// RFC 34: `{"version":1,"map":[[first node, nodes, tasks on each, 1]…]}`.
fn taskmap(tasks: &[u64]) -> Box<RawValue> {
    let mut blocks: Vec<[u64; 4]> = Vec::new();
    for (node, tasks) in (0u64..).zip(tasks) {
        match blocks.last_mut() {
            Some(block) if block[2] == *tasks => block[1] += 1,
            _ => blocks.push([node, 1, *tasks, 1]),
        }
    }
    let text = format!(
        "{{\"version\":1,\"map\":{}}}",
        serde_json::to_string(&blocks).unwrap_or_default()
    );
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn output(file: Option<&job::jobspec::FileSpec>, options: &job::Map, otherwise: Output) -> Output {
    match file {
        Some(file) => {
            let mode = options
                .get("output")
                .and_then(|output| output.get("mode"))
                .and_then(Value::as_str);
            Output::File {
                path: file.path.clone(),
                label: file.label,
                append: mode == Some("append"),
            }
        }
        None => otherwise,
    }
}

/// `cpu-affinity`: off, on, per-task. Not said: on for jobs that asked for more than one core a task.
fn pin(option: Option<&Value>, cores_per_slot: u64) -> Pin {
    match option {
        None if cores_per_slot > 1 => Pin::Job,
        None => Pin::Off,
        Some(Value::String(text)) => match text.as_str() {
            "off" => Pin::Off,
            "per-task" => Pin::Task,
            _ => Pin::Job,
        },
        Some(Value::Bool(false)) | Some(Value::Null) => Pin::Off,
        Some(Value::Number(number)) if number.as_i64() == Some(0) => Pin::Off,
        Some(_) => Pin::Job,
    }
}

/// A number, or octal digits as `umask` prints them.
fn umask(option: &Value) -> Option<u32> {
    match option {
        Value::Number(number) => number.as_u64().and_then(|mask| u32::try_from(mask).ok()),
        Value::String(text) => u32::from_str_radix(text, 8).ok(),
        _ => None,
    }
    .filter(|mask| *mask <= 0o777)
}

/// A number of bytes, or one with K, M or G behind it.
fn bytes(option: &Value) -> Option<u64> {
    match option {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            let split = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            let unit = match text[split..].to_ascii_lowercase().trim_end_matches('b') {
                "" => 1,
                "k" => 1 << 10,
                "m" => 1 << 20,
                "g" => 1u64 << 30,
                _ => return None,
            };
            text[..split].parse::<u64>().ok()?.checked_mul(unit)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn site() -> Site {
        Site {
            statedir: "/s".into(),
            uri: "local:///s/socket".into(),
            kill_grace_s: 5.0,
            userid: 7,
        }
    }

    fn jobspec(resources: Value, count: Value, options: Value) -> Value {
        json!({
            "resources": [resources],
            "tasks": [{"command": ["true", "x"], "slot": "task", "count": count}],
            "attributes": {"system": {"duration": 0, "cwd": "/tmp", "shell": {"options": options}}},
            "version": 1
        })
    }

    fn slot(count: u32, cores: u32) -> Value {
        json!({"type": "slot", "count": count, "label": "task", "with": [{"type": "core", "count": cores}]})
    }

    fn made(jobspec: &Value, r: &Value, userid: u32) -> Result<Vec<Order>, OrderError> {
        let j = format!(
            "x.{}.none",
            BASE64.encode(r#"{"attributes":{"system":{"environment":{"A":"b"}}}}"#)
        );
        let text = json!({"id": 1234, "userid": userid, "jobspec": jobspec, "reattach": false, "R": r, "J": j}).to_string();
        orders(&serde_json::from_str(&text).unwrap(), &site()).map(|plan| plan.orders)
    }

    fn r(lite: Value, hosts: &str) -> Value {
        json!({"version": 1, "execution": {"R_lite": lite, "nodelist": [hosts], "starttime": 1.0, "expiration": 61.0}})
    }

    #[test]
    fn a_plain_job_is_one_part_with_its_environment() {
        let made = made(
            &jobspec(slot(2, 1), json!({"per_slot": 1}), json!({})),
            &r(json!([{"rank": "0", "children": {"core": "0-1"}}]), "h"),
            7,
        )
        .unwrap();
        let order = &made[0];
        assert_eq!(
            (
                made.len(),
                order.ntasks,
                order.ntasks_total,
                order.expiration
            ),
            (1, 2, 2, 61.0)
        );
        assert_eq!(
            (order.service.as_str(), order.dir.as_str()),
            ("7-shell-fNH", "/s/jobs/1234")
        );
        assert_eq!(order.environment.as_ref().unwrap().get(), r#"{"A":"b"}"#);
        assert_eq!(order.taskmap.get(), r#"{"version":1,"map":[[0,1,2,1]]}"#);
        assert_eq!(
            (&order.stdin, &order.stdout, &order.stderr),
            (&Stdin::Service, &Output::Log, &Output::Log)
        );
        assert_eq!(order.pin, Pin::Off);
    }

    #[test]
    fn tasks_are_spread_over_nodes_as_their_slots_are() {
        let made = made(
            &jobspec(slot(5, 2), json!({"per_slot": 1}), json!({"cpu-affinity": "per-task"})),
            &r(
                json!([{"rank": "0-1", "children": {"core": "0-3"}}, {"rank": "3", "children": {"core": "0-1"}}]),
                "n[0-1,3]",
            ),
            7,
        )
        .unwrap();
        let parts: Vec<(u32, u32, u32)> = made
            .iter()
            .map(|order| (order.rank, order.first_task, order.ntasks))
            .collect();
        assert_eq!(parts, [(0, 0, 2), (1, 2, 2), (3, 4, 1)]);
        assert_eq!(made[2].host, "n3");
        assert_eq!(
            made[0].taskmap.get(),
            r#"{"version":1,"map":[[0,2,2,1],[2,1,1,1]]}"#
        );
        assert_eq!(made[0].pin, Pin::Task);
    }

    #[test]
    fn whole_nodes_and_counts_in_total() {
        let whole = json!({"type": "node", "count": 2, "exclusive": true, "with": [slot(1, 1)]});
        let nodes = r(
            json!([{"rank": "0-1", "children": {"core": "0-7"}}]),
            "n[0-1]",
        );
        let tasks = |resources: &Value, count: Value, options: Value| -> Vec<u32> {
            made(&jobspec(resources.clone(), count, options), &nodes, 7)
                .unwrap()
                .iter()
                .map(|order| order.ntasks)
                .collect()
        };
        assert_eq!(tasks(&whole, json!({"per_slot": 1}), json!({})), [1, 1]);
        assert_eq!(
            tasks(
                &whole,
                json!({"per_slot": 1}),
                json!({"per-resource": {"type": "node", "count": 3}})
            ),
            [3, 3]
        );
        assert_eq!(tasks(&whole, json!({"total": 5}), json!({})), [3, 2]);
    }

    #[test]
    fn a_job_on_every_node_has_its_tasks_on_each() {
        let mut sysbatch = jobspec(slot(1, 2), json!({"per_slot": 2}), json!({}));
        sysbatch["attributes"]["system"]["weir"] = json!({"type": "sysbatch"});
        let r = r(
            json!([{"rank": "1-3", "children": {"core": "0-1"}}]),
            "n[1-3]",
        );
        let made = made(&sysbatch, &r, 7).unwrap();
        let parts: Vec<(u32, u32, u32, u32)> = made
            .iter()
            .map(|order| {
                (
                    order.rank,
                    order.first_task,
                    order.ntasks,
                    order.ntasks_total,
                )
            })
            .collect();
        assert_eq!(parts, [(1, 0, 2, 6), (2, 2, 2, 6), (3, 4, 2, 6)]);
    }

    #[test]
    fn what_a_job_was_dispatched_with_is_its_input() {
        let file = json!({"input": {"stdin": {"type": "file", "path": "/dev/null"}}});
        let mut child = jobspec(slot(1, 1), json!({"per_slot": 1}), file);
        child["attributes"]["system"]["weir"] =
            json!({"parent": 1, "dispatch": {"meta": {}, "payload": "aGk="}});
        let r = r(json!([{"rank": "0", "children": {"core": "0"}}]), "h");
        assert_eq!(
            made(&child, &r, 7).unwrap()[0].stdin,
            Stdin::Data("aGk=".into())
        );
    }

    #[test]
    fn fault_a_key_of_j_that_comes_twice_counts_as_its_last() {
        let j = |text: &str| format!("x.{}.none", BASE64.encode(text));
        let read = |text: &str| {
            let found = environment_in(&j(text)).unwrap();
            found.map(|raw| raw.get().to_owned())
        };
        let twice = r#"{"attributes":{"system":{}},"attributes":{"system":{"weir":{},"environment":{"A":"1"},"weir":{},"environ\u006dent":{"A":"2"}}}}"#;
        assert_eq!(read(twice).as_deref(), Some(r#"{"A":"2"}"#));
        assert_eq!(read(r#"{"attributes":null}"#), None);
        assert_eq!(
            read(r#"{"attributes":{"system":{"environment":null}}}"#),
            None
        );
        assert_eq!(
            read(r#"{"attributes":{"system":{}},"attributes":{}}"#),
            None
        );
        assert!(environment_in(&j(r#"{"attributes":7}"#)).is_err());
        assert!(environment_in("x").is_err());
    }

    #[test]
    fn options_are_read() {
        let options = json!({
            "output": {"stdout": {"type": "file", "path": "o-{{id}}", "label": true}, "mode": "append", "limit": "10M"},
            "input": {"stdin": {"type": "file", "path": "/dev/null"}},
            "umask": "027",
            "rlimit": {"nofile": 64}
        });
        let made = made(
            &jobspec(slot(1, 2), json!({"per_slot": 1}), options),
            &r(json!([{"rank": "0", "children": {"core": "0-1"}}]), "h"),
            7,
        )
        .unwrap();
        let order = &made[0];
        assert_eq!(
            order.stdout,
            Output::File {
                path: "o-{{id}}".into(),
                label: true,
                append: true
            }
        );
        assert_eq!(
            (&order.stderr, &order.stdin),
            (&Output::Stdout, &Stdin::File("/dev/null".into()))
        );
        assert_eq!(
            (order.umask, order.output_bytes_max, order.pin),
            (Some(0o27), 10 << 20, Pin::Job)
        );
        assert_eq!(order.rlimit, [("nofile".to_owned(), 64)]);
    }

    #[test]
    fn a_job_of_someone_else_is_not_run() {
        let error = made(
            &jobspec(slot(1, 1), json!({"per_slot": 1}), json!({})),
            &r(json!([{"rank": "0", "children": {"core": "0"}}]), "h"),
            8,
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "this instance runs as user 7 and cannot run a job of user 8"
        );
    }
}
